"""Item clusters and Pareto-efficient weights in a plain PyTorch loop, without anything else of icpe.

python examples/pareto_loop.py     # needs matplotlib for the picture: pip install 'icpe[plot]'
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import softplus

from icpe import make_world
from icpe.cluster import popularity_quantiles
from icpe.pareto import gram_of, min_norm_weights

log = make_world(users=300, items=200, interactions=6000).log
users, items = torch.from_numpy(log.user).long(), torch.from_numpy(log.item).long()
torch.manual_seed(0)
user_table, item_table = (torch.nn.Parameter(0.1 * torch.randn(size, 16)) for size in (len(log.users), len(log.items)))
optimizer = torch.optim.Adam([user_table, item_table], lr=0.02)

label = popularity_quantiles(torch.bincount(items, minlength=len(log.items)), clusters=4).long()
sizes = torch.bincount(label)
print("items in each cluster:       ", sizes.tolist())
print("interactions in each cluster:", torch.bincount(label[items]).tolist())

course = []
for epoch in range(30):
    negatives = torch.randint(len(log.items), items.shape)
    positive = softplus(-(user_table[users] * item_table[items]).sum(1))
    negative = softplus((user_table[users] * item_table[negatives]).sum(1))

    # One loss per cluster, and its gradient on the parameters that all items share: the users' rows.
    losses = torch.zeros(len(sizes)).index_add(0, label[items], positive) / sizes
    gradients = [torch.autograd.grad(loss, user_table, retain_graph=True)[0].flatten() for loss in losses]
    weights = min_norm_weights(gram_of(torch.stack(gradients)), lower=0.5 / len(sizes)).float()
    weights = weights / weights[label[items]].mean()  # positives keep their weight against negatives

    optimizer.zero_grad()
    ((weights[label[items]] * positive).mean() + negative.mean()).backward()
    optimizer.step()
    course.append(weights.tolist())
    if epoch % 10 == 9:
        rounded = [round(one, 2) for one in weights.tolist()]  # the most popular cluster first
        print(f"epoch {epoch + 1}: loss {positive.mean().item():.3f}, weights {rounded}")

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.plot(range(1, len(course) + 1), course, label=["most popular cluster", "second", "third", "least popular cluster"])
axes.set(xlabel="epoch", ylabel="weight of the cluster")
axes.legend(frameon=False)
figure.savefig("pareto_loop.svg")
