"""Audit the lists of another system, such as implicit: here a few lines of item neighbours take its place.

python examples/audit_any_lists.py     # needs matplotlib for the picture: pip install 'icpe[plot]'
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from scipy.sparse import csr_array

from icpe import make_world, split
from icpe.audit import audit

# A log with known tastes, so that the example needs no download. Everything below only sees frames with ids.
parts = split.chronological(make_world(users=600, items=400, interactions=15_000).log)
log, later = parts.train.to_frame(), parts.test.to_frame()

# The other system: items that many of the same people have used. With implicit installed, the lines down to `best` are
#     model = implicit.nearest_neighbours.CosineRecommender(); model.fit(used)
#     best, scores = model.recommend(np.arange(len(users)), used, N=20)
users, items = log["user_id"].unique(maintain_order=True), log["item_id"].unique(maintain_order=True)
row = log["user_id"].cast(pl.Enum(users)).to_physical().to_numpy()
column = log["item_id"].cast(pl.Enum(items)).to_physical().to_numpy()
used = csr_array((np.ones(len(log), np.float32), (row, column)), shape=(len(users), len(items)))
scores = (used @ (used.T @ used)).toarray()
scores[used.toarray() > 0] = -np.inf
best = np.argsort(-scores, axis=1)[:, :20]

lists = pl.DataFrame(
    {
        "user_id": np.repeat(users.to_numpy(), 20),
        "item_id": items.to_numpy()[best.ravel()],
        "rank": np.tile(np.arange(1, 21), len(users)),
    }
)
found = audit(log, {"neighbours": lists}, test=later)
values = found.values["neighbours"]
for metric in ("recall@20", "apt@20", "coverage@20", "gini@20", "amplification@20"):
    print(f"{metric:<18} {values[metric]:.3f}")
print(f"Niche items are 80 % of the catalogue and get {100 * values['apt@20']:.1f} % of the places.")

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
curve = found.sets[0].lorenz  # share of the places that the least shown items have
axes.plot(np.linspace(0, 100, len(curve)), 100 * curve, label="lists of the other system")
axes.plot([0, 100], [0, 100], linestyle=":", label="all items shown equally often")
axes.set(xlabel="items, the least shown first (%)", ylabel="share of the places (%)")
axes.legend(frameon=False)
figure.savefig("audit_any_lists.svg")
