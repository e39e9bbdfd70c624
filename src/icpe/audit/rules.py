"""Rules under which an audit fails, such as ``apt@20<.2`` or ``ndcg@20<.95*previous``.

The grammar is small, and nothing is evaluated as code::

    rule   = [set ":"] metric operator limit
    limit  = number | number "*" "previous" | "previous"
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from icpe.errors import ConfigError
from icpe.suggest import unknown_name

Values = Mapping[str, float | None]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RULE = re.compile(
    rf"\s*(?:(?P<set>[^<>=]+):)?\s*(?P<metric>[\w@]+)\s*(?P<sign><=|>=|<|>)\s*"
    rf"(?:(?P<number>{_NUMBER})\s*(?:\*\s*(?P<factor>previous))?|(?P<alone>previous))\s*"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a rule for one set of lists.

    Attributes:
        rule: the rule as it was written.
        lists: name of the set.
        metric: name of the metric.
        value: its value; None if there was nothing to average.
        limit: the number it was compared with; None if there is no previous value.
        failed: whether the rule applies. A metric without a value fails, because nobody can say that it is in order.
    """

    rule: str
    lists: str
    metric: str
    value: float | None
    limit: float | None
    failed: bool

    def __str__(self) -> str:
        value = "has no value" if self.value is None else f"is {self.value:.6g}"
        if self.limit is None:
            return f"{self.metric} of {self.lists} {value}; {self.rule!r} was not checked without an earlier night"
        return f"{self.metric} of {self.lists} {value}, and the limit of {self.rule!r} is {self.limit:.6g}"


@dataclass(frozen=True)
class Rule:
    """A rule under which an audit fails.

    Attributes:
        text: the rule as it was written.
        lists: name of the only set that it concerns, or None for all sets.
        metric: name of the metric.
        sign: ``<``, ``<=``, ``>`` or ``>=``.
        number: the limit, or the factor of the previous value.
        relative: whether the limit is a multiple of the previous value.

    Example:
        >>> Rule.parse("ndcg@20 < .95*previous")
        Rule(text='ndcg@20 < .95*previous', lists=None, metric='ndcg@20', sign='<', number=0.95, relative=True)
    """

    text: str
    lists: str | None
    metric: str
    sign: str
    number: float
    relative: bool

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Return the rule that a text describes.

        Raises:
            ConfigError: the text is not a rule.
        """
        found = _RULE.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{text!r} is not a rule; expected a metric, <, <=, > or >=, and a number or a multiple of the "
                "previous value, such as 'apt@20<.2' or 'ndcg@20<.95*previous'"
            )
        number = 1.0 if found["alone"] else float(found["number"])
        lists = None if found["set"] is None else found["set"].strip()
        return cls(text, lists, found["metric"], found["sign"], number, bool(found["alone"] or found["factor"]))

    def judge(self, lists: str, values: Values, previous: Values | None) -> Verdict:
        """Return the outcome for one set of lists, given its metrics and those of the night before."""
        value, limit = values[self.metric], self._limit(previous)
        failed = limit is not None and (value is None or _COMPARE[self.sign](value, limit))
        return Verdict(self.text, lists, self.metric, value, limit, failed)

    def _limit(self, previous: Values | None) -> float | None:
        if not self.relative:
            return self.number
        before = None if previous is None else previous.get(self.metric)
        return None if before is None else self.number * before


def judge(rules: Sequence[Rule], values: Mapping[str, Values], previous: Mapping[str, Values]) -> list[Verdict]:
    """Return the outcome of every rule for every set that it concerns.

    Args:
        rules: the rules.
        values: metrics of each set.
        previous: metrics of each set the night before; sets without one are missing.

    Raises:
        ConfigError: a rule names an unknown set or metric.
    """
    found: list[Verdict] = []
    for rule in rules:
        if rule.lists is not None and rule.lists not in values:
            raise ConfigError(f"{rule.text!r}: {unknown_name('set of lists', rule.lists, values)}")
        for name, metrics in values.items():
            if rule.lists in (None, name):
                if rule.metric not in metrics:
                    raise ConfigError(
                        f"{rule.text!r}: {unknown_name('metric of this audit', rule.metric, sorted(metrics))}"
                    )
                found.append(rule.judge(name, metrics, previous.get(name)))
    return found
