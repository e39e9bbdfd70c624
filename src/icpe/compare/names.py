"""How tables and pages name metrics and backbones, and which metrics are better when small."""

from icpe.backbones import BACKBONES as _BACKBONES
from icpe.tables import Better, Column

BASELINES = ("popularity", "random")  # shown to give the scale; they do not compete with methods that learn
_LOWER_IS_BETTER = (
    "gini",
    "popularity",
    "seconds",
    "pop_rsp",
    "pop_reo",
    "popularity_jsd",
    "weighted_gini",
    "ee_d",
    "ee_l",
)
_NO_DIRECTION = ("popularity_lift", "amplification")  # the best value is in between: what users chose
_ACRONYMS = {"ndcg": "NDCG", "mrr": "MRR", "apt": "APT", "jsd": "JSD", "rsp": "RSP", "reo": "REO", "ee": "EE", "l": "L"}


def metric_column(metric: str) -> Column:
    """The column of a table that shows this metric."""
    return Column(_plain_name(metric), better=_better(metric))


def metric_name(metric: str) -> str:
    """The name of a metric as a heading shows it, with an arrow that points to the better values.

    Example:
        >>> metric_name("recall_niche@20"), metric_name("gini@20")
        ('Recall@20 niche ↑', 'Gini@20 ↓')
        >>> metric_name("balanced_ndcg@20"), metric_name("ndcg_at_0.1@20")
        ('Balanced NDCG@20 ↑', 'NDCG@20 at 10% niche ↑')
    """
    return metric_column(metric).title


def backbone_name(backbone: str) -> str:
    """The name of a backbone as tables show it."""
    return _BACKBONES[backbone].__name__ if backbone in _BACKBONES else backbone


def higher_is_better(metric: str) -> bool:
    """Whether larger values of this metric are better."""
    return _better(metric) == "more"


def has_direction(metric: str) -> bool:
    """Whether larger or smaller values of this metric are better, so that methods can be ranked by it."""
    return _better(metric) != "neither"


def _better(metric: str) -> Better:
    if metric.startswith(_NO_DIRECTION):
        return "neither"
    return "less" if metric.partition("@")[0] in _LOWER_IS_BETTER else "more"


def _plain_name(metric: str) -> str:
    name, _, n = metric.partition("@")
    if name.startswith("ndcg_at_"):
        return f"NDCG@{n} at {float(name.removeprefix('ndcg_at_')):.0%} niche"
    words = name.split("_")
    group = words.pop() if words[-1] in ("head", "niche") and len(words) > 1 else ""
    text = " ".join(_ACRONYMS.get(word, word) for word in words)
    return " ".join(filter(None, [text[:1].upper() + text[1:] + (f"@{n}" if n else ""), group]))
