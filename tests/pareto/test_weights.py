"""Weights: the conditions of an optimum, an outside solver, symmetry, and the cases where gradients vanish or agree."""

import numpy as np
import pytest
import quadprog
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe.errors import ConfigError, DataError
from icpe.pareto import frank_wolfe_weights, gram_of, least_misery, min_norm_weights, pareto_weights

KINDS = ("any", "collinear", "copies", "zeros", "alike", "uneven", "integers")


def draw_gradients(rng, kind, size):
    """Gradients of one kind; in as many cases as not there are fewer dimensions than clusters."""
    gradients = rng.standard_normal((size, rng.integers(1, 2 * size + 2)))
    if kind == "collinear":
        gradients = np.outer(rng.integers(-3, 4, size), gradients[0])
    elif kind == "copies":
        gradients = gradients[rng.integers(0, max(1, size // 2), size)]
    elif kind == "zeros":
        gradients[rng.integers(0, size, rng.integers(1, 3))] = 0
    elif kind == "alike":
        gradients = gradients + 3 * gradients[0]
    elif kind == "uneven":
        gradients = gradients * 10 ** rng.uniform(-2, 2, (size, 1))
    elif kind == "integers":
        gradients = np.round(gradients)
    return gradients


def draw_bounds(rng, size):
    return (
        np.zeros(size),
        np.full(size, 0.9 / size),
        rng.uniform(0.8, 1, size) / size,
        rng.dirichlet(np.ones(size)) * rng.random(),
    )[rng.integers(4)]


def problems(kinds=KINDS, count=10, largest=16):
    """Some random problems of one kind from a seed that Hypothesis chooses."""

    def build(kind, seed):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, largest + 1, count)
        return [(gram_of(draw_gradients(rng, kind, size)), draw_bounds(rng, size)) for size in sizes]

    return st.builds(build, st.sampled_from(kinds), st.integers(0, 2**32 - 1))


def scaled(gram):
    return gram / np.trace(gram) if np.trace(gram) > 0 else gram


def value(gram, weights):
    return weights @ scaled(gram) @ weights


def oracle(gram, lower, ridge):
    """What quadprog says; it wants a positive definite matrix."""
    size = len(gram)
    constraints = np.column_stack([np.ones(size), np.eye(size)])
    return quadprog.solve_qp(
        scaled(gram) + ridge * np.eye(size), np.zeros(size), constraints, np.r_[1.0, lower], meq=1
    )[0]


@settings(max_examples=100, deadline=None)
@given(problems())
def test_no_weight_should_move(cases):
    """The conditions of Karush, Kuhn and Tucker: feasible, equal slopes where free, no smaller slope at a bound."""
    for gram, lower in cases:
        weights = min_norm_weights(gram, lower)
        assert weights.dtype == np.float64
        assert abs(weights.sum() - 1) < 1e-12
        assert (weights >= lower - 1e-15).all()
        slopes = scaled(gram) @ weights
        # The duality gap: how much any feasible move could gain at most.
        assert slopes @ (weights - lower) - slopes.min() * (1 - lower.sum()) < 1e-11


@settings(max_examples=100, deadline=None)
@given(problems())
def test_agrees_with_quadprog(cases):
    for gram, lower in cases:
        weights, expected = min_norm_weights(gram, lower), oracle(gram, lower, ridge=1e-11)
        assert value(gram, weights) <= value(gram, expected) + 1e-9
        if np.linalg.eigvalsh(scaled(gram))[0] > 1e-4:
            np.testing.assert_allclose(weights, expected, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(problems(["collinear", "copies", "integers"]))
def test_the_most_even_minimiser(cases):
    """Where many weights are optimal, a small ridge leads quadprog to the one with the smallest sum of squares."""
    for gram, lower in cases:
        values = np.linalg.eigvalsh(scaled(gram))
        if not ((values > 1e-12) & (values < 1e-2)).any():
            np.testing.assert_allclose(min_norm_weights(gram, lower), oracle(gram, lower, ridge=1e-10), atol=2e-5)


@settings(max_examples=60, deadline=None)
@given(problems([kind for kind in KINDS if kind != "uneven"]), st.randoms(use_true_random=False))
def test_order_of_clusters_does_not_matter(cases, random):
    for gram, lower in cases:
        order = random.sample(range(len(gram)), len(gram))
        np.testing.assert_allclose(
            min_norm_weights(gram[np.ix_(order, order)], lower[order]), min_norm_weights(gram, lower)[order], atol=1e-7
        )


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(-30, 30))
def test_unit_does_not_matter(cases, exponent):
    for gram, lower in cases:
        weights, expected = min_norm_weights(gram * 10.0**exponent, lower), min_norm_weights(gram, lower)
        assert abs(value(gram, weights) - value(gram, expected)) < 1e-12


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_extreme_units(scale):
    gram = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    np.testing.assert_allclose(min_norm_weights(gram * scale, 0.1), min_norm_weights(gram, 0.1), rtol=1e-12)
    np.testing.assert_allclose(frank_wolfe_weights(gram * scale, 0.1), min_norm_weights(gram, 0.1), atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_common_descent(cases):
    """Without bounds the weighted direction has at least its own squared length along every gradient."""
    for gram, _ in cases:
        weights = min_norm_weights(gram)
        assert (scaled(gram) @ weights >= value(gram, weights) - 1e-11).all()


@settings(max_examples=25, deadline=None)
@given(problems(count=4, largest=8))
def test_frank_wolfe_agrees(cases):
    for gram, lower in cases:
        weights, exact = frank_wolfe_weights(gram, lower), min_norm_weights(gram, lower)
        assert abs(weights.sum() - 1) < 1e-12
        assert (weights >= lower - 1e-15).all()
        slopes = scaled(gram) @ weights
        gap = 2 * (slopes @ (weights - lower) - slopes.min() * (1 - lower.sum()))
        assert -1e-12 <= value(gram, weights) - value(gram, exact) <= gap + 1e-12
        if np.linalg.eigvalsh(scaled(gram))[0] > 0.01:
            assert gap <= 1.01e-10  # enough steps where the matrix is well conditioned
            np.testing.assert_allclose(weights, exact, atol=1e-4)


def test_many_clusters():
    rng = np.random.default_rng(0)
    gram = gram_of(rng.standard_normal((40, 400)))
    np.testing.assert_allclose(min_norm_weights(gram, 0.5 / 40), oracle(gram, np.full(40, 0.5 / 40), 0), atol=1e-5)


@pytest.mark.parametrize(
    ("gradients", "lower", "expected"),
    [
        ([[3.0, 1.0]], None, [1.0]),
        ([[0.0]], 1.0, [1.0]),
        ([[2.0, 0.0], [0.0, 1.0]], None, [0.2, 0.8]),
        ([[2.0, 0.0], [0.0, 1.0]], 0.4, [0.4, 0.6]),
        ([[2.0, 0.0], [0.0, 1.0]], 0.5, [0.5, 0.5]),
        ([[2.0, 0.0], [0.0, 1.0]], [0.75, 0.25], [0.75, 0.25]),
        ([[1.0, 2.0], [0.0, 0.0], [2.0, 1.0]], None, [0, 1, 0]),
        ([[1.0, 2.0], [0.0, 0.0], [2.0, 1.0]], 0.1, [0.1, 0.8, 0.1]),
        ([[0.0], [0.0], [0.0]], [0.5, 0.0, 0.0], [0.5, 0.25, 0.25]),
        ([[1.0, 5.0]] * 4, None, [0.25] * 4),
        ([[1.0, 5.0]] * 4, [0.4, 0.0, 0.0, 0.0], [0.4, 0.2, 0.2, 0.2]),
        ([[1.0], [2.0], [3.0]], None, [1, 0, 0]),
        ([[1.0], [1.0], [3.0]], 0.1, [0.45, 0.45, 0.1]),
        # −w₁ + w₂ + 2·w₃ = 0 leaves w₁ = (1 + w₃)/2, w₂ = (1 − 3·w₃)/2; the smallest sum of squares is at w₃ = 1/7.
        ([[-1.0], [1.0], [2.0]], None, [4 / 7, 2 / 7, 1 / 7]),
    ],
)
def test_by_hand(gradients, lower, expected):
    gram = gram_of(np.array(gradients))
    lower = np.array(lower) if isinstance(lower, list) else lower
    np.testing.assert_allclose(min_norm_weights(gram, lower), expected, atol=1e-12)
    assert value(gram, frank_wolfe_weights(gram, lower)) <= value(gram, np.array(expected)) + 1e-10


def test_same_kind_comes_back():
    gradients = torch.randn(3, 50, generator=torch.Generator().manual_seed(0), requires_grad=True)
    gram = gram_of(gradients)
    assert isinstance(gram, torch.Tensor)
    assert gram.dtype == torch.float64
    assert not gram.requires_grad
    lower = torch.full((3,), 0.2)
    expected = min_norm_weights(gram.numpy(), 0.2)
    for found in (min_norm_weights(gram, lower), frank_wolfe_weights(gram, lower), pareto_weights(gram, 0, 0.6, 0.6)):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_gram_sums_small_and_long_gradients_in_double_precision():
    """Longer than the pieces of 2**20 entries in which gradients are converted."""
    gradients = np.random.default_rng(0).standard_normal((2, (1 << 20) + 1000)).astype(np.float32)
    expected = gradients.astype(np.float64) @ gradients.T.astype(np.float64)
    np.testing.assert_allclose(gram_of(gradients), expected, rtol=1e-10)
    np.testing.assert_allclose(gram_of(torch.from_numpy(gradients) * 1e-30).numpy(), expected * 1e-60, rtol=1e-5)


def test_single_precision_noise_does_not_decide():
    """Five copies of a gradient: in float32 their Gram matrix has eigenvalues of either sign around 0."""
    gradients = np.repeat(np.random.default_rng(0).standard_normal((2, 30)), [5, 1], axis=0).astype(np.float32)
    weights = min_norm_weights((gradients @ gradients.T).astype(np.float32))
    assert np.ptp(weights[:5]) < 1e-6
    half = min_norm_weights(torch.tensor([[4.0, 0.0], [0.0, 1.0]], dtype=torch.bfloat16))
    np.testing.assert_allclose(half.numpy(), [0.2, 0.8], atol=1e-9)


@pytest.mark.parametrize("solve", [min_norm_weights, frank_wolfe_weights])
@pytest.mark.parametrize(
    ("gram", "lower", "error", "says"),
    [
        (np.eye(3), 0.4, ConfigError, "adds up to 1.2 over 3 clusters; expected at most 1"),
        (np.eye(2), [0.5, -0.1], ConfigError, "lower of cluster 1 is -0.1"),
        (np.eye(2), float("nan"), ConfigError, "lower of cluster 0 is nan"),
        (np.eye(2), [0.1, 0.1, 0.1], ConfigError, "one for each of 2 clusters"),
        (np.ones((2, 3)), None, DataError, r"shape \[2, 3\]"),
        (np.ones((0, 0)), None, DataError, r"shape \[0, 0\]"),
        (np.array([[1.0, 0.9], [0.0, 1.0]]), None, DataError, "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, np.nan]]), None, DataError, "not finite at cluster 1;"),
        (np.diag([np.inf, 1.0, np.nan]), None, DataError, "not finite at clusters 0, 2;"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), None, DataError, "not finite at clusters 0, 1;"),
    ],
)
def test_mistakes(solve, gram, lower, error, says):
    with pytest.raises(error, match=says):
        solve(gram, np.array(lower) if isinstance(lower, list) else lower)


def test_other_mistakes():
    with pytest.raises(DataError, match="eigenvalue of -0.5"):
        min_norm_weights(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(DataError, match="eigenvalue"):
        min_norm_weights(-np.eye(2))
    with pytest.raises(DataError, match=r"shape \[3\]; expected \[K, P\]"):
        gram_of(np.ones(3))
    with pytest.raises(ConfigError, match="steps is -1"):
        frank_wolfe_weights(np.eye(2), steps=-1)


def test_bounds_in_single_precision_may_miss_one():
    lower = np.full(3, 1 / 3, np.float32)
    assert lower.sum(dtype=np.float64) > 1
    np.testing.assert_allclose(min_norm_weights(np.diag([1.0, 2.0, 3.0]), lower), 1 / 3, atol=1e-15)


def test_least_misery_by_hand():
    weights = np.array([[0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    assert least_misery(weights, np.array([1.0, 1.0])) == 0
    assert least_misery(weights, np.array([4.0, 1.0])) == 1
    assert least_misery(torch.from_numpy(weights), torch.tensor([2.0, 1.0])) == 2
    assert least_misery(weights, np.zeros(2)) == 0
    with pytest.raises(DataError, match="expected \\[T, K\\] and \\[K\\]"):
        least_misery(weights[0], np.ones(2))
    with pytest.raises(DataError, match="run 1 is not finite"):
        least_misery(np.array([[1.0, 0.0], [np.nan, 0.0]]), np.ones(2))


def test_pareto_weights_pick_the_least_miserable_run():
    gradients = np.random.default_rng(5).standard_normal((4, 30)) * [[4.0], [2.0], [1.0], [0.5]]
    gram = gram_of(gradients)
    bounds = np.random.default_rng(7).uniform(0.8, 1.0, (10, 4)) / 4
    runs = [min_norm_weights(gram, lower) for lower in bounds]
    misery = [max(weights * np.linalg.norm(gradients, axis=1)) for weights in runs]
    np.testing.assert_array_equal(pareto_weights(gram, np.random.default_rng(7)), runs[int(np.argmin(misery))])
    np.testing.assert_array_equal(pareto_weights(gram, rng=3), pareto_weights(gram, rng=3))
    assert not np.array_equal(pareto_weights(gram, rng=3, runs=1), pareto_weights(gram, rng=4, runs=1))
    np.testing.assert_array_equal(pareto_weights(gram, rng=3, low=0.7, high=0.7), min_norm_weights(gram, 0.7 / 4))
    np.testing.assert_array_equal(pareto_weights(np.array([[3.0]]), rng=0), [1.0])


@pytest.mark.parametrize(
    ("settings_", "says"),
    [
        ({"low": 0.9, "high": 0.8}, "low is 0.9 and high is 0.8"),
        ({"high": 1.1}, "high is 1.1"),
        ({"runs": 0}, "runs is 0"),
        ({"rng": -1}, "seed is -1"),
    ],
)
def test_pareto_mistakes(settings_, says):
    with pytest.raises(ConfigError, match=says):
        pareto_weights(np.eye(2), **({"rng": 0} | settings_))
