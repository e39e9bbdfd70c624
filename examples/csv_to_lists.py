"""From a CSV file to lists with a wish: 40 % of the places for niche items.

python examples/csv_to_lists.py [events.csv]
"""

import sys
from pathlib import Path

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
