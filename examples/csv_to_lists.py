"""From a CSV file to lists with a wish: 40 % of the places for niche items.

python examples/csv_to_lists.py [events.csv]     # needs matplotlib for the picture: pip install 'icpe[plot]'
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from icpe import ICPE, MF, Interactions, evaluate, split

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("events.csv")
log = Interactions.read(file, columns={"user_id": "uid", "item_id": "sku", "timestamp": "ts"}).k_core(5)
parts = split.unbiased(log, seed=0)

# One training. The settings of the dial are measured on the validation part while it goes on.
model = ICPE(MF(dim=32)).fit(parts.train, valid=parts.valid, seed=0, epochs=40)
wished = model.dial(niche_share=0.4)

for name, one in (("best on validation", model), ("40 % niche", wished)):
    values = evaluate(one, parts, n=[20]).values
    print(name, {metric: round(values[metric], 3) for metric in ("ndcg@20", "apt@20", "coverage@20")})

print(wished.recommend(log.users[:1], n=5))

front = model.front().table  # one row for each setting of the dial, on the validation part
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.plot(100 * front["apt"], front["ndcg"], ".-", label="settings of the dial")
axes.axvline(40, linestyle=":", label="the wish")
axes.set(xlabel="places for niche items (%)", ylabel="NDCG@20")
axes.legend(frameon=False)
figure.savefig("csv_to_lists.svg")
