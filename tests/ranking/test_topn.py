"""Lists equal the result of sorting all scores, however the work is divided."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe import ConfigError, DataError, IcpeError, Interactions
from icpe.ranking import Blocks, Lists, stream_top_n, top_n


class Matrix:
    """Table of fixed scores that records the requested blocks."""

    def __init__(self, scores):
        self.scores = np.asarray(scores, np.float32)
        self.users, self.items = self.scores.shape
        self.asked = []

    def block(self, users, start, stop):
        self.asked.append((len(users), stop - start))
        return self.scores[users, start:stop]


def log_of(mask):
    """A log with the pairs where ``mask`` [users, items] is true."""
    users, items = (pl.Series(np.arange(size)) for size in mask.shape)
    return Interactions.from_codes(users, items, *(codes.astype(np.int32) for codes in np.nonzero(mask)))


def full_sort(scores, users, n, hide=(), allow=None):
    """The reference, a user at a time and with Python's own sort."""
    items = np.full((len(users), n), -1)
    values = np.full((len(users), n), -np.inf, np.float32)
    for row, user in enumerate(users):
        left = [item for item in range(scores.shape[1]) if not any(mask[user, item] for mask in hide)]
        left = [item for item in left if allow is None or item in allow]
        left = [item for item in left if scores[user, item] > -np.inf]
        best = sorted(left, key=lambda item: (-scores[user, item], item))[:n]
        items[row, : len(best)] = best
        values[row, : len(best)] = scores[user, best]
    return items, values


def cut(compiled, chunk=512, tile=2048):
    """Rank with the compiled loops or by sorting, in other chunks and tiles."""
    return Blocks(users=chunk, items=tile, compiled=compiled)


def same(one, two):
    """Bit for bit: -0.0 is not 0.0 here."""
    return all(getattr(one, name).tobytes() == getattr(two, name).tobytes() for name in ("users", "items", "scores"))


@st.composite
def problems(draw):
    users, items = draw(st.integers(1, 6)), draw(st.integers(1, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    levels = draw(st.sampled_from([1, 3, 10**6]))  # few levels make many ties
    scores = (rng.integers(-levels, levels + 1, (users, items)) / 4).astype(np.float32)
    if draw(st.booleans()):
        scores[rng.random((users, items)) < 0.2] = rng.choice([-np.inf, np.inf, -0.0])
    share = st.sampled_from([0.0, 0.1, 0.9, 1.0])
    hide = [rng.random((users, items)) < draw(share) for _ in range(draw(st.integers(0, 2)))]
    allow = np.flatnonzero(rng.random(items) < draw(share)) if draw(st.booleans()) else None
    asked = rng.integers(0, users, draw(st.integers(0, 2 * users)))
    return scores, asked, draw(st.integers(1, 100)), hide, allow


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=150, deadline=None)
@given(problem=problems(), chunk=st.integers(1, 7), tile=st.integers(1, 100))
def test_equals_full_sort(compiled, problem, chunk, tile):
    scores, users, n, hide, allow = problem
    lists = top_n(Matrix(scores), users, n, [log_of(mask) for mask in hide], allow, blocks=cut(compiled, chunk, tile))
    items, values = full_sort(scores, users, n, hide, allow)
    assert lists.users.tolist() == users.tolist()
    assert lists.items.tolist() == items.tolist()
    assert lists.scores.tobytes() == values.tobytes()
    assert (lists.users.dtype, lists.items.dtype, lists.scores.dtype) == (np.int32, np.int32, np.float32)


@pytest.fixture(scope="module")
def world():
    """Scores with ties, wider than a tile and longer than a chunk, and two logs to hide."""
    rng = np.random.default_rng(5)
    scores = np.round(rng.standard_normal((700, 5000)), 2).astype(np.float32)
    return scores, [log_of(rng.random(scores.shape) < 0.02) for _ in range(2)]


def test_cutting_does_not_matter(world):
    scores, hide = world
    users = np.random.default_rng(0).permutation(700)
    plain = top_n(Matrix(scores), users, 20, hide, blocks=cut(compiled=False))
    for chunk, tile in ((512, 2048), (1, 5000), (37, 333), (700, 64), (600, 1)):
        part = slice(0, 40 if chunk == 1 or tile == 1 else None)
        lists = top_n(Matrix(scores), users[part], 20, hide, blocks=cut(compiled=True, chunk=chunk, tile=tile))
        assert same(lists, Lists(plain.users[part], plain.items[part], plain.scores[part])), (chunk, tile)


@pytest.mark.parametrize("compiled", [False, True])
def test_memory_setting_changes_the_blocks_not_the_lists(world, compiled):
    scores, hide = world
    tables = {memory: Matrix(scores) for memory in (1, 4, 256)}
    found = {
        memory: top_n(table, np.arange(700), 20, hide, memory_mb=memory, blocks=cut(compiled))
        for memory, table in tables.items()
    }
    assert same(found[1], found[256])
    assert same(found[4], found[256])
    for memory, table in tables.items():
        rows = max(rows for rows, _ in table.asked)
        width = 5000 if not compiled else max(width for _, width in table.asked)
        assert rows * width * 4 * 4 <= memory * 2**20
        assert rows <= 512
        assert max(rows * width for rows, width in table.asked) <= 512 * 2048
        assert max(width for _, width in table.asked) <= 2048 or not compiled


def test_threads_do_not_matter(world):
    scores, hide = world
    alone = top_n(Matrix(scores), np.arange(700), 20, hide, blocks=cut(compiled=True, chunk=64))
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(top_n, Matrix(scores), np.arange(700), 20, hide, blocks=cut(compiled=True, chunk=64))
            for _ in range(6)
        ]
        assert all(same(alone, answer.result()) for answer in asked)


@pytest.mark.parametrize("compiled", [False, True])
def test_batch_equals_single_users_in_any_order(world, compiled):
    scores, hide = world
    batch = top_n(Matrix(scores), np.arange(60), 15, hide, blocks=cut(compiled))
    order = np.random.default_rng(1).permutation(60)
    mixed = top_n(Matrix(scores), order, 15, hide, blocks=cut(compiled))
    assert same(mixed, Lists(batch.users[order], batch.items[order], batch.scores[order]))
    for user in range(0, 60, 7):
        one = top_n(Matrix(scores), np.array([user]), 15, hide, blocks=cut(compiled))
        assert same(one, Lists(batch.users[[user]], batch.items[[user]], batch.scores[[user]]))


@pytest.mark.parametrize("compiled", [False, True])
def test_hidden_items_never_appear(world, compiled):
    """Not even if they would be the best by far, and as long as anything else is left."""
    scores, (train, valid) = world
    scores = scores.copy()
    for log in (train, valid):
        scores[log.user, log.item] += 100
    lists = top_n(Matrix(scores), np.arange(700), 20, [train, valid], blocks=cut(compiled))
    half = top_n(Matrix(scores), np.arange(700), 20, [train], blocks=cut(compiled))
    pairs = set(zip(*(codes.tolist() for codes in (train.user, train.item)), strict=True))
    later = set(zip(*(codes.tolist() for codes in (valid.user, valid.item)), strict=True))
    shown = {(user, item) for user, row in enumerate(lists.items.tolist()) for item in row}
    assert not shown & (pairs | later)
    assert lists.items.min() >= 0
    shown = {(user, item) for user, row in enumerate(half.items.tolist()) for item in row}
    assert not shown & pairs
    assert shown & later


@pytest.mark.parametrize("compiled", [False, True])
def test_scores_are_left_alone(world, compiled):
    """A table may hand out a view of what it holds."""
    scores, hide = world
    table = Matrix(scores.copy())
    table.block = lambda users, start, stop: table.scores[users[0] : users[-1] + 1, start:stop]
    top_n(table, np.arange(50), 5, hide, np.arange(100), blocks=cut(compiled))
    assert (table.scores == scores).all()


def test_only_tiles_with_allowed_items_are_computed(world):
    scores, _ = world
    table = Matrix(scores)
    lists = top_n(table, np.arange(10), 3, allow=np.array([4950, 120, 130]), blocks=cut(compiled=True, tile=100))
    assert len(table.asked) == 2
    assert {item for row in lists.items.tolist() for item in row} == {120, 130, 4950}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("item", [0, 2, 63, 64, 99])
@pytest.mark.parametrize("tile", [10, 2048])
def test_nan_is_an_error_wherever_it_is(compiled, item, tile):
    scores = np.arange(300.0).reshape(3, 100)[:, ::-1].copy()  # the best come first: NaN meets a full list
    scores[1, item] = np.nan
    hidden = np.zeros((3, 100), bool)
    hidden[1, item] = True
    for hide in ((), [log_of(hidden)]):
        with pytest.raises(IcpeError, match=rf"user 1 for item {item} .* is NaN"):
            top_n(Matrix(scores), np.arange(3), 2, hide, blocks=cut(compiled, tile=tile))
    assert len(top_n(Matrix(scores), np.array([0, 2]), 2, blocks=cut(compiled, tile=tile))) == 2
    others = np.delete(np.arange(100), item)
    assert top_n(Matrix(scores), np.array([1]), 2, allow=others, blocks=cut(compiled, tile=tile)).items.tolist() == [
        others[:2].tolist()
    ]


def test_stream_gives_the_lists_in_bounded_pieces(world):
    scores, hide = world
    pieces = list(stream_top_n(Matrix(scores), np.arange(650), 7, hide, blocks=cut(compiled=True, chunk=100)))
    whole = top_n(Matrix(scores), np.arange(650), 7, hide, blocks=cut(compiled=True, chunk=100))
    assert [len(piece) for piece in pieces] == [100] * 6 + [50]
    assert np.concatenate([piece.items for piece in pieces]).tolist() == whole.items.tolist()


def test_small_problems_do_not_load_the_compiler():
    code = """
import sys, numpy as np
from icpe.ranking import top_n

class Zeros:
    def __init__(self, users, items): self.users, self.items = users, items
    def block(self, users, start, stop): return np.zeros((len(users), stop - start), np.float32)

for users, items in ((100, 1000), (2000, 1001)):
    top_n(Zeros(users, items), np.arange(users), 5)
    print("icpe.kernels.select" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_frame_has_the_callers_ids():
    log = Interactions.read(pl.DataFrame({"user_id": ["b", "a", "c"], "item_id": [30, 10, 20]}))
    frame = top_n(Matrix([[1, 2, 3], [6, 5, 4], [7, 7, 9]]), np.array([2, 0]), 3, [log]).to_frame(log.users, log.items)
    assert frame.columns == ["user_id", "item_id", "score", "rank"]
    assert frame.rows() == [("c", 30, 9.0, 1), ("c", 10, 7.0, 2), ("a", 30, 3.0, 1), ("a", 20, 2.0, 2)]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"n": 0}, ConfigError, "n is 0"),
        ({"n": 2.5}, ConfigError, "n is 2.5"),
        ({"memory_mb": 0}, ConfigError, "memory_mb is 0"),
        ({"users": np.array([0, 3])}, DataError, "user codes run from 0 to 3; expected 0 to 2"),
        ({"users": np.array([-1])}, DataError, "user codes run from -1"),
        ({"users": np.array(["ann"])}, DataError, "user codes must be a vector of integers"),
        ({"allow": np.array([4])}, DataError, "item codes run from 4 to 4; expected 0 to 3"),
        ({"hide": [log_of(np.ones((3, 5), bool))]}, DataError, "3 users and 5 items, but the scores have 3 and 4"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, says):
    with pytest.raises(error, match=says):
        top_n(Matrix(np.zeros((3, 4))), **{"users": np.arange(3), "n": 2, **arguments})
