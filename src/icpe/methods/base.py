"""The base class of all methods: the contract of the training loop, plus the verbs that users call."""

from typing import Any, NoReturn, Self

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, NotFittedError
from icpe.recommender.fitting import fit
from icpe.recommender.model import Model
from icpe.train.method import TrainingMethod


class Method(TrainingMethod):
    """A way to train any backbone: ``ICPE(LightGCN(layers=3), clusters=4).fit(train)``.

    To write your own, define ``name``, ``negatives`` and ``loss``, and ``scores`` if the backbone's score does not
    rank; see ``docs/methods/own.md``. ``icpe.testing.methods.check_method`` tests whether it fulfils the contract.
    """

    @classmethod
    def from_preset(cls, preset: str, backbone: Backbone, **settings: Any) -> Self:
        """Return the method with the settings of a preset, some of them replaced.

        Raises:
            ConfigError: the method has no such preset.
        """
        return cls(backbone, **{**cls.preset(preset), **settings})

    @classmethod
    def preset(cls, name: str) -> dict[str, Any]:
        """Return the settings of a preset.

        Raises:
            ConfigError: the method has no such preset.
        """
        if name not in cls.presets:
            known = ", ".join(cls.presets) or "none"
            raise ConfigError(f"method {cls.name!r} has no preset {name!r}; it has {known}")
        return dict(cls.presets[name])

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        seed: int = 0,
        *,
        init_from: Model | None = None,
        **settings: Any,
    ) -> Model:
        """Train, and return a model that recommends.

        Args:
            train: the training part.
            valid: the validation part, for early stopping; without it all epochs are run.
            seed: seed of everything random; ``rng`` is accepted as another name for it.
            init_from: an earlier model of the same method and backbone to start from. Known users and items keep their
                rows, new ones get fresh rows, and those that are gone are dropped.
            settings: settings of the training loop: ``epochs, batch_size, lr, optimizer, patience, evaluate_every,
                device``.

        Raises:
            ConfigError: a setting is unknown or out of range, or the earlier model has another method, another backbone
                or parameters of other sizes.
            DataError: the ids of the earlier model have another type, or the log has none of them.
        """
        return fit(self, train, valid, settings.pop("rng", seed), init_from, **settings)

    def recommend(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: a method has nothing to recommend before training."""
        raise NotFittedError(f"{type(self).__name__} is not trained; call .fit(train) and use the model it returns")
