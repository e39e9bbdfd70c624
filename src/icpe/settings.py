"""Typed settings, declared once.

A method, a backbone, a split or the training loop declares its settings in a subclass of :class:`Settings`: name, type,
default, bounds, a one-sentence description and the values worth trying. Constructors, command-line flags,
``config.toml``, search spaces, shell completion and the tables of the documentation are all derived from it.

Example:
    >>> class Circle(Settings):
    ...     radius: float = setting(1.0, "Distance of the line from the centre.", above=0.0, search=(1.0, 2.0))
    ...     colour: Literal["red", "blue"] = setting("red", "Colour of the line.")
    >>> Circle.parse({"radius": 2}).as_dict()
    {'radius': 2.0, 'colour': 'red'}
    >>> Circle.parse({"radius": -1, "color": "red"}, "a circle")
    Traceback (most recent call last):
    icpe.errors.ConfigError: radius is -1; expected a number above 0
    a circle has no setting 'color'; did you mean 'colour'?
"""

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from icpe.errors import ConfigError
from icpe.suggest import nearest


def setting(
    default: Any,
    description: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    search: Sequence[Any] = (),
    ranking: bool = False,
    expected: str | None = None,
) -> Any:
    """Declare one setting of a :class:`Settings` class.

    Args:
        default: its value where the user gives none.
        description: one sentence for the help page and the documentation.
        least: smallest value allowed.
        above: bound that the value must exceed.
        most: largest value allowed.
        below: bound that the value must stay below.
        search: values worth trying when tuning.
        ranking: whether the setting only changes how a trained model ranks, so that it can be changed after training.
        expected: the values it takes, in words, where its type and bounds do not say it well.
    """
    extra: dict[str, Any] = {"search": list(search), "ranking": ranking, "expected": expected}
    return Field(default, description=description, ge=least, gt=above, le=most, lt=below, json_schema_extra=extra)


@dataclass(frozen=True)
class Declaration:
    """One declared setting, as help pages, completion and the documentation show it.

    Attributes:
        name: of the setting.
        default: its value where the user gives none.
        expected: the values it takes, in words.
        description: one sentence.
        choices: the values it can take where they can be listed, as text.
        search: values worth trying when tuning.
        ranking: whether it can be changed after training.
    """

    name: str
    default: Any
    expected: str
    description: str
    choices: tuple[str, ...]
    search: tuple[Any, ...]
    ranking: bool


class Settings(BaseModel):
    """Base of all declarations of settings. Instances cannot be changed; :meth:`replace` makes a changed copy."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=False
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError("\n".join(self._mistakes(error, values, type(self).__name__))) from error

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, values: Any) -> Any:
        """Turn numbers of NumPy and lists, as files hold them, into what the declarations expect."""
        if not isinstance(values, dict):
            return values
        return {name: _plain_value(value) for name, value in values.items()}

    @classmethod
    def parse(cls, values: Mapping[str, Any], owner: str = "this") -> Self:
        """Check values and fill in the defaults.

        Args:
            values: by name.
            owner: what the settings belong to, for the message about an unknown name.

        Raises:
            ConfigError: names all that is wrong, one line per mistake.
        """
        try:
            return cls(**values)
        except ConfigError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise ConfigError("\n".join(cls._mistakes(error.__cause__, values, owner))) from None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed, checked again.

        Raises:
            ConfigError: a name or a value is wrong.
        """
        return type(self).parse({**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as plain values that JSON and TOML can hold; tuples become lists."""
        values = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    @classmethod
    def declared(cls) -> Iterator[Declaration]:
        """Yield every setting in the order of its declaration."""
        for name, field in cls.model_fields.items():
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            search: Any = extra.get("search", ())
            yield Declaration(
                name=name,
                default=field.default,
                expected=expectation(field),
                description=field.description or "",
                choices=_choices(field.annotation),
                search=tuple(tuple(one) if isinstance(one, list) else one for one in search),
                ranking=bool(extra.get("ranking", False)),
            )

    @classmethod
    def search_space(cls) -> dict[str, tuple[Any, ...]]:
        """Return the values worth trying, by name, for the settings that declare some."""
        return {one.name: one.search for one in cls.declared() if one.search}

    @classmethod
    def _mistakes(cls, error: ValidationError, values: Mapping[str, Any], owner: str) -> list[str]:
        messages: dict[str, str] = {}
        for one in error.errors():
            name = str(one["loc"][0]) if one["loc"] else ""
            if one["type"] == "extra_forbidden":
                near = nearest(name, cls.model_fields)
                hint = f"did you mean {near!r}?" if near else f"it has {', '.join(cls.model_fields) or 'none'}"
                messages[name] = f"{owner} has no setting {name!r}; {hint}"
            elif name in cls.model_fields:
                messages.setdefault(name, f"{name} is {values[name]!r}; expected {expectation(cls.model_fields[name])}")
            else:  # a rule about several settings, which says in its own words what is wrong
                text = str(one["msg"]).removeprefix("Value error, ")
                messages.setdefault(text, text)
        return list(messages.values())


def constructor_signature(settings: type[Settings], *leading: str) -> inspect.Signature:
    """Return the signature of a constructor that takes these settings by name, for ``help()`` and editors."""
    kinds = inspect.Parameter
    first = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in leading]
    named = [
        kinds(name, kinds.KEYWORD_ONLY, default=field.default, annotation=field.annotation)
        for name, field in settings.model_fields.items()
    ]
    return inspect.Signature([*first, *named])


def expectation(field: FieldInfo) -> str:
    """Say in words which values a declared setting takes.

    Example:
        >>> class Circle(Settings):
        ...     corners: int | None = setting(None, "Number of corners.", least=3)
        >>> expectation(Circle.model_fields["corners"])
        'a whole number from 3 up, or nothing'
    """
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return str(extra.get("expected") or _in_words(field.annotation, _bounds(field.metadata)))


def _bounds(rules: Iterable[Any]) -> dict[str, float]:
    """The bounds among the rules of a setting, by pydantic's names for them."""
    names = ("ge", "gt", "le", "lt")
    return {name: getattr(rule, name) for rule in rules for name in names if hasattr(rule, name)}


def _in_words(annotation: Any, bounds: Mapping[str, float]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else repr(arguments[0])
    if origin in (Union, types.UnionType):
        return ", or ".join(_in_words(one, bounds) for one in arguments)
    if hasattr(annotation, "__metadata__"):
        return _in_words(arguments[0], _bounds(annotation.__metadata__))
    if origin is tuple:
        inner = _in_words(arguments[0], bounds)
        return f"a list, each {inner}" if arguments[-1] is Ellipsis else f"{len(arguments)} values, each {inner}"
    if annotation is int:
        return f"a whole number{_range(bounds, whole=True)}"
    names = {type(None): "nothing", bool: "true or false", float: f"a number{_range(bounds)}", str: "text"}
    return names.get(annotation, str(annotation))


def _range(bounds: Mapping[str, float], whole: bool = False) -> str:
    words = {"ge": "from {:g} up" if whole else "of at least {:g}", "gt": "above {:g}", "le": "at most {:g}"}
    said = [text.format(bounds[name]) for name, text in {**words, "lt": "below {:g}"}.items() if name in bounds]
    return f" {' and '.join(said)}" if said else ""


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a setting that has only a few, as text."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return tuple(map(str, arguments))
    if origin in (Union, types.UnionType):
        return tuple(one for part in arguments for one in _choices(part))
    return ("true", "false") if annotation is bool else ()


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(_plain_value(one) for one in value)
    return value
