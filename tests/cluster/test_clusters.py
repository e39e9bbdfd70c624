"""Clusters: they end, are the same each time, are numbered by popularity, and follow a long tail."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe.cluster import gaussian_rank, plain_clusters, popularity_clusters, popularity_quantiles, propensity_features
from icpe.cluster.bisecting import discrepancy
from icpe.cluster.kmeans import k_means
from icpe.cluster.lloyd import settle_centres
from icpe.errors import ConfigError, DataError


@st.composite
def items(draw):
    """Features and propensities of items, many of them alike."""
    size, width = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps, scale = draw(st.sampled_from([1, 2, 5, 1000])), 10.0 ** draw(st.sampled_from([-200, -8, 0, 8, 200]))
    features = rng.integers(0, steps, (size, width)) * scale
    return features.astype(float), rng.integers(0, draw(st.sampled_from([1, 2, 5, 1000])), size) * scale


def long_tail(size, seed=0, noise=0.3):
    """Counts after a power law with a cut-off, a propensity that follows them, and features of ranks and noise."""
    rng = np.random.default_rng(seed)
    rank = np.arange(1, size + 1)
    counts = rng.permutation(np.ceil(20 * size / rank * np.exp(-4 * rank / size)))
    propensity = np.log(counts) + noise * rng.standard_normal(size)
    return counts, propensity, propensity_features(rng.standard_normal((size, 8)), propensity)


def check_numbers(labels, size, clusters, propensity):
    assert labels.shape == (size,)
    assert labels.dtype == np.int32
    sizes = np.bincount(labels)
    assert len(sizes) <= clusters
    assert (sizes > 0).all()
    means = np.bincount(labels, weights=propensity / max(abs(propensity).max(), 1e-300)) / sizes
    assert (np.diff(means) <= 1e-12).all()


@settings(max_examples=300, deadline=None)
@given(items(), st.integers(1, 8), st.integers(0, 9))
def test_always_ends_with_numbered_clusters(drawn, clusters, seed):
    features, propensity = drawn
    labels = popularity_clusters(features, propensity, clusters, seed)
    check_numbers(labels, len(features), clusters, propensity)
    np.testing.assert_array_equal(labels, popularity_clusters(features, propensity, clusters, seed))
    # Items nobody can tell apart stay together.
    for row in np.unique(features, axis=0):
        assert len(set(labels[(features == row).all(axis=1)])) == 1


@settings(max_examples=100, deadline=None)
@given(items(), st.integers(1, 8), st.integers(0, 9))
def test_plain_clusters_are_numbered_too(drawn, clusters, seed):
    features, propensity = drawn
    labels = plain_clusters(features, clusters, seed, order_by=propensity)
    check_numbers(labels, len(features), clusters, propensity)


@pytest.mark.parametrize("clusters", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_neighbours_differ_in_popularity(clusters, seed):
    """The target of the paper's figure: mean counts of neighbouring clusters at least a factor of 2 apart."""
    counts, propensity, features = long_tail(1500, seed)
    labels = popularity_clusters(features, gaussian_rank(propensity), clusters, seed)
    means = np.bincount(labels, weights=counts) / np.bincount(labels)
    assert len(means) == clusters
    assert (means[:-1] / means[1:] >= 2).all()


def reference(features, propensity, clusters, rng):
    """The rules once more, without heap and arrays: a list of sets, the top one looked for each time."""
    parts, final, everything = [frozenset(range(len(features)))], set(), set(range(len(features)))

    def apart(part):
        rest = everything - part
        return abs(np.mean(propensity[list(part)]) - np.mean(propensity[list(rest)])) if rest else 0.0

    while len(parts) < clusters and set(parts) - final:
        top = max((part for part in parts if part not in final), key=lambda part: np.var(propensity[sorted(part)]))
        members = np.array(sorted(top))
        for _ in range(3 if len(top) > 1 else 0):
            second = k_means(features[members], 2, rng) == 1
            halves = frozenset(members[~second].tolist()), frozenset(members[second].tolist())
            if max(map(apart, halves)) >= apart(top):
                parts.remove(top)
                parts += halves
                break
        else:
            final.add(top)
    return sorted(parts, key=lambda part: -np.mean(propensity[list(part)])), sum(len(part) > 1 for part in final)


def test_follows_the_rules():
    """On features that have nothing to do with the propensity, where splits are often refused."""
    refused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        features, propensity = rng.standard_normal((30, 2)), rng.standard_normal(30)
        expected, whole = reference(features, propensity, 6, np.random.default_rng(seed + 100))
        labels = popularity_clusters(features, propensity, 6, np.random.default_rng(seed + 100))
        assert [frozenset(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)] == expected
        refused += whole
    assert refused >= 10


def test_refused_splits_leave_a_cluster_whole():
    """By hand: the left half stands out by 1.5 as a whole, its own halves by less or the same."""
    features = np.array([[0.0], [1.0], [3.0], [4.0], [100.0], [101.0]])
    propensity = np.array([0.0, 4.0, 0.0, 4.0, 0.5, 0.5])
    left, right = np.arange(4), np.array([4, 5])
    assert discrepancy(propensity, left) == discrepancy(propensity, right) == 1.5
    assert discrepancy(propensity, np.array([0, 1])) == discrepancy(propensity, np.array([2, 3])) == 0.75
    assert discrepancy(propensity, np.arange(6)) == 0
    for seed in range(5):
        # The right half is final as well: its items do not differ.
        assert popularity_clusters(features, propensity, 4, seed).tolist() == [0, 0, 0, 0, 1, 1]


def test_nothing_to_tell_apart():
    features = np.random.default_rng(0).standard_normal((50, 3))
    same = np.full(50, 0.1)
    assert popularity_clusters(features, same, 4, 0).tolist() == [0] * 50
    assert popularity_clusters(features, np.arange(50.0), 1, 0).tolist() == [0] * 50
    assert popularity_clusters(np.ones((50, 3)), np.arange(50.0), 4, 0).tolist() == [0] * 50
    two = np.repeat([[0.0], [1.0]], 25, axis=0)
    np.testing.assert_array_equal(popularity_clusters(two, two[:, 0], 4, 0), 1 - two[:, 0])
    assert popularity_clusters(np.ones((1, 1)), np.ones(1), 4, 0).tolist() == [0]
    assert sorted(popularity_clusters(np.arange(3.0)[:, None], np.arange(3.0), 9, 0)) == [0, 1, 2]


def test_unit_and_order_of_propensity():
    counts, propensity, features = long_tail(600)
    labels = popularity_clusters(features, propensity, 4, 1)
    np.testing.assert_array_equal(popularity_clusters(features * 4, propensity * 2**40, 4, 1), labels)
    upside_down = popularity_clusters(features, -propensity, 4, 1)
    np.testing.assert_array_equal(upside_down, labels.max() - labels)
    assert counts[labels == 0].mean() > counts[labels == 3].mean()


def test_tensors_and_generators():
    _, propensity, features = long_tail(300)
    ranks = gaussian_rank(propensity)
    expected = popularity_clusters(features, ranks, 4, np.random.default_rng(3))
    tensors = torch.from_numpy(features).requires_grad_(), torch.from_numpy(ranks)
    found = popularity_clusters(*tensors, 4, np.random.default_rng(3))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.int32
    np.testing.assert_array_equal(found.numpy(), expected)
    assert isinstance(gaussian_rank(tensors[1]), torch.Tensor)
    assert isinstance(popularity_quantiles(tensors[1].exp().bfloat16(), 3), torch.Tensor)
    made = propensity_features(torch.zeros(300, 2), tensors[1])
    assert isinstance(made, torch.Tensor)
    assert made.shape == (300, 3)


def test_number_of_threads_does_not_matter():
    code = (
        "import numpy as np, torch; from icpe.cluster import *; torch.set_num_threads({0}); rng = np.random.default_rng(0)\n"
        "s = rng.standard_normal(9_000); g = gaussian_rank(s); f = propensity_features(rng.standard_normal((9_000, 8)), s)\n"
        "import hashlib; labels = popularity_clusters(f, g, 4, 0), plain_clusters(f, 3, 0, order_by=s)\n"
        "print(hashlib.sha256(f.tobytes() + labels[0].tobytes() + labels[1].tobytes()).hexdigest())"
    )
    found = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        done = subprocess.run(
            [sys.executable, "-c", code.format(threads)],
            capture_output=True,
            text=True,
            check=True,
            env=dict.fromkeys(names, threads),
        )
        found.append(done.stdout)
    assert found[0] == found[1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5) | st.floats(-1e300, 1e300), min_size=1, max_size=50))
def test_gaussian_ranks(values):
    values = np.array(values, dtype=float)
    ranks = gaussian_rank(values)
    np.testing.assert_allclose(gaussian_rank(ranks), ranks, atol=1e-12)
    assert abs(ranks.mean()) < 1e-12
    assert (np.ptp(values) == 0 and (ranks == 0).all()) or abs(ranks.var() - 1) < 1e-12
    order = np.argsort(values, kind="stable")
    steps, ranked = np.diff(values[order]), np.diff(ranks[order])
    assert ((steps > 0) == (ranked > 0)).all()
    assert (ranked[steps == 0] == 0).all()


def test_gaussian_ranks_by_hand():
    """Quantiles at 1/6, 1/2, 5/6; with ties at ranks 1.5, 1.5, 3: at 1/3, 1/3, 5/6."""
    np.testing.assert_allclose(
        gaussian_rank(np.array([7.0, -1.0, 8.0])), np.sqrt(1.5) * np.array([0, -1, 1]), atol=1e-12
    )
    low, high = -0.4307272992954576, 0.9674215661017014
    expected = (np.array([low, high, low]) - (2 * low + high) / 3) / np.std([low, low, high])
    np.testing.assert_allclose(gaussian_rank(np.array([1, 2, 1])), expected, atol=1e-12)


def test_propensity_features_outweigh_the_code():
    code = np.random.default_rng(0).standard_normal((100, 8))
    features = propensity_features(code, np.arange(100.0))
    np.testing.assert_array_equal(features[:, :8], code)
    np.testing.assert_allclose(features[:, 8], 3 * gaussian_rank(np.arange(100.0)))
    np.testing.assert_allclose(features, propensity_features(code, gaussian_rank(np.arange(100.0))))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 9))
def test_quantiles(counts, clusters):
    counts = np.array(counts)
    labels = popularity_quantiles(counts, clusters)
    assert labels.dtype == np.int32
    sizes = np.bincount(labels)
    assert len(sizes) <= clusters
    assert (sizes > 0).all()
    order = np.argsort(-counts, kind="stable")
    assert (np.diff(labels[order]) >= 0).all()
    assert (np.diff(labels[order])[np.diff(counts[order]) == 0] == 0).all()
    if len(set(counts)) == len(counts) >= clusters:
        assert len(sizes) == clusters
        assert np.ptp(sizes) <= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_k_means_comes_to_rest(seed, clusters, width):
    """Every point is nearest to the mean of its own cluster."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rng.integers(1, 80), width))
    labels = k_means(points, clusters, rng)
    assert labels[0] == 0
    means = np.array([points[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    distances = ((points[:, None] - means) ** 2).sum(axis=2)
    assert (distances[np.arange(len(points)), labels] <= distances.min(axis=1) + 1e-9).all()


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_centres_settle_as_in_the_textbook(clusters):
    """The compiled rounds against the same in a few lines of NumPy; the last centre is too far away for any point."""
    points = np.random.default_rng(clusters).normal(size=(80, 3))
    centres = np.vstack([points[:clusters], np.full(3, 1e6)]).T.copy()
    expected = centres.T.copy()
    for _ in range(50):
        distances = ((points[:, None] - expected) ** 2).sum(2)
        nearest = distances.argmin(1)
        for number in range(clusters):
            expected[number] = points[nearest == number].mean(0)
    labels, apart = np.zeros(80, np.int64), np.empty(80)
    settle_centres(np.ascontiguousarray(points.T), centres, labels, apart, 300)
    assert (labels == nearest).all()
    np.testing.assert_allclose(centres.T, expected, rtol=1e-12)
    np.testing.assert_allclose(apart, distances.min(1), rtol=1e-12)


def test_k_means_finds_what_is_there():
    rng = np.random.default_rng(0)
    planted = rng.integers(0, 5, 500)
    points = 20 * rng.standard_normal((5, 3))[planted] + 0.1 * rng.standard_normal((500, 3))
    labels = k_means(points, 5, rng)
    assert len(set(zip(labels.tolist(), planted.tolist(), strict=True))) == 5


def test_two_means_is_nearly_the_best_cut():
    """On a line the best cut can be found by trying all."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        line = np.sort(rng.lognormal(size=40))
        cost = [line[:cut].var() * cut + line[cut:].var() * (40 - cut) for cut in range(1, 40)]
        labels = k_means(line[:, None], 2, rng)
        found = sum(line[labels == k].var() * (labels == k).sum() for k in range(2))
        assert found <= 1.3 * min(cost)


@pytest.mark.parametrize(
    ("features", "propensity", "clusters", "rng", "error", "says"),
    [
        ([[1.0], [2.0]], [1.0, np.nan], 2, 0, DataError, "propensity of item 1 is nan; expected finite values"),
        ([[1.0], [np.inf]], [1.0, 2.0], 2, 0, DataError, "features of item 1 is inf"),
        ([1.0, 2.0], [1.0, 2.0], 2, 0, DataError, r"features has shape \[2\]; expected \[items, F\]"),
        ([[1.0], [2.0]], [1.0], 2, 0, DataError, "propensity has 1 values for 2 items"),
        (np.ones((0, 2)), np.ones(0), 2, 0, DataError, "features has no items"),
        (np.ones((2, 0)), np.ones(2), 2, 0, DataError, "at least one column"),
        ([[1.0], [2.0]], [1.0, 2.0], 0, 0, ConfigError, "clusters is 0; expected an integer of at least 1"),
        ([[1.0], [2.0]], [1.0, 2.0], 2.0, 0, ConfigError, "clusters is 2.0"),
        ([[1.0], [2.0]], [1.0, 2.0], 2, -1, ConfigError, "seed is -1"),
    ],
)
def test_mistakes(features, propensity, clusters, rng, error, says):
    with pytest.raises(error, match=says):
        popularity_clusters(np.array(features), np.array(propensity), clusters, rng)
    with pytest.raises(error, match=says.replace("propensity", "order_by")):
        plain_clusters(np.array(features), clusters, rng, order_by=np.array(propensity))


def test_other_mistakes():
    with pytest.raises(DataError, match="counts of item 1 is -2"):
        popularity_quantiles(np.array([1, -2]), 2)
    with pytest.raises(ConfigError, match="clusters is True"):
        popularity_quantiles(np.array([1, 2]), True)
    with pytest.raises(DataError, match="values of item 0 is nan"):
        gaussian_rank(np.array([np.nan]))
    with pytest.raises(DataError, match="propensity has 3 values for 2 items"):
        propensity_features(np.ones((2, 1)), np.ones(3))
