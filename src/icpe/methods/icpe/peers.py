"""Positives of a batch that are each other's negatives, a group at a time: where that is possible."""

from icpe.backbones.base import Backbone
from icpe.errors import ConfigError
from icpe.train.method import check_count


def check_peers(peers: int, backbone: Backbone, loss: str, in_batch: bool, gram: str) -> None:
    """Refuse a size of groups that does not fit to the other settings; 0 always does."""
    if peers == 0 and not isinstance(peers, bool):
        return
    check_count("peers", peers)
    for name, value, expected in (("loss", loss, "softmax"), ("in_batch", in_batch, False), ("gram", gram, "full")):
        if value != expected:
            raise ConfigError(f"peers is {peers} with {name}={value!r}; expected {name}={expected!r}, or peers=0")
    if type(backbone).vectors is Backbone.vectors:
        raise ConfigError(
            f"peers is {peers}, which needs all pairs of a group; {type(backbone).__name__} scores pairs one by one. "
            "Take a backbone with inner products (mf, lightgcn), or peers=0"
        )
