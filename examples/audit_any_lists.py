"""Audit the lists of another system: here item neighbours, in your case whatever makes your lists.

python examples/audit_any_lists.py
"""

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from icpe import make_world, split
from icpe.audit import audit

# A log with known tastes, so that the example needs no download. Everything below only sees frames with ids.
parts = split.chronological(make_world(users=600, items=400, interactions=15_000).log)
log, later = parts.train.to_frame(), parts.test.to_frame()

# The other system: items that many of the same people have used. implicit, RecBole and others return such arrays too.
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
values = audit(log, {"neighbours": lists}, test=later).values["neighbours"]
for metric in ("recall@20", "apt@20", "coverage@20", "gini@20", "amplification@20"):
    print(f"{metric:<18} {values[metric]:.3f}")
print(f"Niche items are 80 % of the catalogue and get {100 * values['apt@20']:.1f} % of the places.")
