"""Rules of the audit: a small grammar, limits worked out by hand, and nothing that could run as code."""

import pytest

from icpe.audit import Rule, judge
from icpe.errors import ConfigError

VALUES = {"old": {"apt@20": 0.2, "ndcg@20": 0.38, "recall_head@20": None}}
BEFORE = {"old": {"apt@20": 0.25, "ndcg@20": 0.4, "recall_head@20": 0.1}}


@pytest.mark.parametrize(
    ("text", "limit", "failed"),
    [
        ("apt@20<.2", 0.2, False),
        ("apt@20<=.2", 0.2, True),
        ("apt@20 < 0.21", 0.21, True),
        ("apt@20>2e-1", 0.2, False),
        ("apt@20>=+.2", 0.2, True),
        ("apt@20<0.8*previous", 0.2, False),
        ("apt@20<=0.8 * previous", 0.2, True),
        ("ndcg@20<.96*previous", 0.384, True),
        ("ndcg@20<.94*previous", 0.376, False),
        ("ndcg@20<previous", 0.4, True),
        ("ndcg@20>previous", 0.4, False),
        ("old:apt@20<1", 1.0, True),
        ("recall_head@20<.01", 0.01, True),  # no value: nobody can say that it is in order
    ],
)
def test_rules_by_hand(text, limit, failed):
    (found,) = judge([Rule.parse(text)], VALUES, BEFORE)
    assert found.limit == pytest.approx(limit)
    assert found.failed is failed
    assert text in str(found)


def test_a_relative_rule_waits_for_a_second_night():
    (found,) = judge([Rule.parse("apt@20<2*previous")], VALUES, {})
    assert (found.limit, found.failed) == (None, False)
    assert "not checked" in str(found)


def test_a_rule_concerns_all_sets_or_one():
    values = {"old": {"apt@20": 0.1}, "new": {"apt@20": 0.3}}
    everywhere = judge([Rule.parse("apt@20<.2")], values, {})
    assert [(one.lists, one.failed) for one in everywhere] == [("old", True), ("new", False)]
    assert [one.lists for one in judge([Rule.parse("new:apt@20<.2")], values, {})] == ["new"]


@pytest.mark.parametrize(
    "text",
    ["", "apt@20", "apt@20<", "<.2", "apt@20=.2", "apt@20==.2", "apt@20<.2.1", "apt@20<nan", "apt@20<__import__('os')",
     "apt@20<previous*2*3", "apt@20<.2 and 1", "apt 20<.2", "apt@20<1*last"],
)  # fmt: skip
def test_everything_else_is_no_rule(text):
    with pytest.raises(ConfigError, match="is not a rule; expected a metric"):
        Rule.parse(text)


def test_unknown_names_are_listed():
    with pytest.raises(
        ConfigError,
        match=r"unknown metric of this audit 'apt@10'; did you mean 'apt@20'\? Known: apt@20, ndcg@20, recall_head@20",
    ):
        judge([Rule.parse("apt@10<.2")], VALUES, {})
    with pytest.raises(ConfigError, match="unknown set of lists 'new'. Known: old"):
        judge([Rule.parse("new:apt@20<.2")], VALUES, {})
