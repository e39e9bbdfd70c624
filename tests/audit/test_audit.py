"""The audit from Python: frames of any library, shares of items by hand, and sentences about what was read."""

import subprocess
import sys

import polars as pl
import pytest

from icpe import ConfigError, DataError
from icpe.audit import audit

LOG = pl.DataFrame({"user_id": [1, 1, 2, 3], "item_id": [10, 11, 10, 10]})
OLD, NEW = ({"user_id": [1, 2, 3], "item_id": items} for items in ([12, 11, 11], [10, 10, 10]))


def test_frames_of_any_library():
    found = audit(LOG, {"old": pl.DataFrame(OLD), "new": pl.DataFrame(NEW).to_pandas()}, pl.DataFrame(OLD).to_arrow())
    assert [found.values[name]["apt@1"] for name in ("old", "new")] == [1, 0]
    assert [found.values[name]["recall@1"] for name in ("old", "new")] == [1, 0]
    assert [one.seen for one in found.sets] == [0, 3]


def test_shares_of_items_by_hand():
    (lists,) = audit(LOG, pl.DataFrame(OLD)).sets
    above, below = lists.share_changes(audit(LOG, pl.DataFrame(OLD)).log, 5)
    assert [(one.name, one.niche) for one in above] == [("11", True), ("12", True)]
    assert [(one.of_log, one.of_lists) for one in above] == [(0.25, pytest.approx(2 / 3)), (0, pytest.approx(1 / 3))]
    assert [(one.name, one.niche, one.of_log, one.of_lists) for one in below] == [("10", False, 0.75, 0)]
    assert len(lists.share_changes(audit(LOG, pl.DataFrame(OLD)).log, 1)[0]) == 1


def test_notes_name_what_is_unusual():
    odd = pl.DataFrame({"user_id": [1, 1, 1, 9], "item_id": [11, 11, 12, 10], "rank": [0, 1, 2, 0]})
    notes = " ".join(audit(LOG, odd).sets[0].notes).replace("\N{NO-BREAK SPACE}", " ")
    for words in ("by rank", "start at 0", "repeat an item of their list: 1", "33 % of", "without a list: 2"):
        assert words in notes
    assert "same rank" not in notes
    by_score = audit(LOG, pl.DataFrame({**OLD, "score": [1.0, 1.0, 1.0]})).sets[0].notes
    assert "by score" in by_score[0]
    assert "order of the rows" in audit(LOG, pl.DataFrame(OLD)).sets[0].notes[0]


def test_mistakes():
    with pytest.raises(ConfigError, match="no recommendations"):
        audit(LOG, {})
    with pytest.raises(ConfigError, match="n is 0"):
        audit(LOG, pl.DataFrame(OLD), n=0)
    with pytest.raises(DataError, match="'item_id' is integers in the log .* and text in"):
        audit(LOG, pl.DataFrame(OLD), pl.DataFrame({"user_id": [1], "item_id": ["12"]}))


def test_an_audit_needs_neither_pages_nor_figures():
    code = "import sys, icpe.audit; print([name for name in sys.modules if name.startswith(('icpe.report', 'matplotlib'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
