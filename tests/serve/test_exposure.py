"""Live exposure against counting by hand."""

from collections import Counter
from math import log2

import numpy as np
import pytest

from icpe.data.popularity import head_mask

FURTHER = (
    "weighted_niche_share",
    "weighted_gini",
    "entropy",
    "mean_popularity",
    "popularity_lift",
    "amplification",
)


def metrics(client):
    """The metrics by name and labels."""
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_nothing_served(serve):
    found = metrics(serve())
    assert found["icpe_ready"] == 1
    for name in (
        "icpe_served_lists_total",
        "icpe_exposure_niche_share",
        "icpe_exposure_gini",
        "icpe_exposure_coverage",
        *(f"icpe_exposure_{name}" for name in FURTHER),
    ):
        assert found[f'{name}{{model="main"}}'] == 0


def test_served_lists_count(serve, models):
    client, log = serve(), models["main"].log
    head = dict(zip(log.items, head_mask(log.item_counts), strict=True))
    shown, attention = Counter(), Counter()
    answers = [client.post("/v1/recommend", json={"user_id": user, "n": 5}).json() for user in log.users[:7]]
    requests = [{"user_id": user, "n": 3} for user in log.users[:4]] + [{"user_id": 10**6}, {"history": [1], "n": 2}]
    answers += client.post("/v1/recommend:batch", json={"requests": requests}).json()["answers"]
    for answer in answers:
        ids = [item["item_id"] for item in answer.get("items", [])]
        shown.update(ids)
        discounts = [1 / log2(rank + 1) for rank in range(1, len(ids) + 1)]
        attention.update({item: one / sum(discounts) for item, one in zip(ids, discounts, strict=True)})
    client.post("/v1/recommend", json={"user_id": log.users[0], "model": "other", "n": 4})
    client.get("/page/list", params={"id": log.users[0]})  # the page does not count
    client.post("/v1/similar", json={"item_id": 1})

    found = metrics(client)
    places, items = sum(shown.values()), len(log.items)
    niche = sum(count for item, count in shown.items() if not head[item])
    assert found['icpe_served_lists_total{model="main"}'] == 12
    assert found['icpe_served_lists_total{model="other"}'] == 1
    assert found['icpe_served_places_total{group="niche",model="main"}'] == niche
    assert found['icpe_served_places_total{group="head",model="main"}'] == places - niche
    assert found['icpe_exposure_niche_share{model="main"}'] == pytest.approx(niche / places)
    assert found['icpe_exposure_coverage{model="main"}'] == pytest.approx(len(shown) / items)
    # Half the mean absolute difference of all pairs, relative to the mean: the definition of Gini.
    counts = [shown[item] for item in log.items]
    gini = sum(abs(a - b) for a in counts for b in counts) / (2 * items * sum(counts))
    assert found['icpe_exposure_gini{model="main"}'] == pytest.approx(gini)

    live = {name: found[f'icpe_exposure_{name}{{model="main"}}'] for name in FURTHER}
    assert sum(attention.values()) == pytest.approx(12)
    niche_attention = sum(weight for item, weight in attention.items() if not head[item])
    assert live["weighted_niche_share"] == pytest.approx(niche_attention / 12)
    weights = [attention[item] for item in log.items]
    gini = sum(abs(a - b) for a in weights for b in weights) / (2 * items * sum(weights))
    assert live["weighted_gini"] == pytest.approx(gini)
    assert live["entropy"] == pytest.approx(-sum(one / places * log2(one / places) for one in shown.values()))
    popularity = dict(zip(log.items, log.item_counts.tolist(), strict=True))
    mean = sum(count * popularity[item] for item, count in shown.items()) / places
    assert live["mean_popularity"] == pytest.approx(mean)
    assert live["popularity_lift"] == pytest.approx(mean / np.average(log.item_counts, weights=log.item_counts) - 1)
    # With exposure proportional to popularity^slope, the mean log popularity of the places is the observed one.
    known = log.item_counts[log.item_counts > 0].astype(float)
    implied = np.average(np.log(known), weights=known ** live["amplification"])
    observed = sum(count * np.log(popularity[item]) for item, count in shown.items() if popularity[item])
    assert implied == pytest.approx(observed / sum(count for item, count in shown.items() if popularity[item]))

    page = client.get("/page/exposure").json()["models"][0]
    assert (page["lists"], page["places"]) == (12, places)
    assert page["curve"][0] == 0
    assert page["curve"][-1] == pytest.approx(1)
    best = shown.most_common(1)[0]
    assert page["top"][0]["count"] == best[1]


def test_requests_are_timed(serve):
    client = serve()
    client.post("/v1/recommend", json={"user_id": 3})
    client.post("/v1/recommend", json={"user_id": 10**6})
    client.get("/made/up")
    found = metrics(client)
    assert found['icpe_requests_total{endpoint="/v1/recommend",status="200"}'] == 1
    assert found['icpe_requests_total{endpoint="/v1/recommend",status="404"}'] == 1
    assert found['icpe_requests_total{endpoint="other",status="404"}'] == 1
    assert found['icpe_request_seconds_count{endpoint="/v1/recommend"}'] == 2
    assert 0 < found['icpe_request_seconds_sum{endpoint="/v1/recommend"}'] < 60
    assert 'endpoint="/made/up"' not in client.get("/metrics").text
