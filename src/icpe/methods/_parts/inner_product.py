"""The error of methods that cannot train every backbone."""

from icpe.errors import ConfigError
from icpe.methods.base import Method


def require_inner_product(method: Method, need: str) -> None:
    """Raise an error unless the score of the backbone is an inner product.

    Args:
        method: the method.
        need: what the method needs, such as ``"the scores of all pairs of a batch"``.

    Raises:
        ConfigError: the backbone scores pairs one by one.
    """
    if not method.backbone.inner_product:
        raise ConfigError(
            f"{method.backbone.label} scores pairs one by one, but {method.name} needs {need}. Use a backbone with "
            "inner products (mf, lightgcn)"
        )
