"""Flags with a dot, such as ``--train.lr 0.01``: any setting of a section, without listing them all."""

import re
from typing import Any

import click

_FLAG = re.compile(r"^--(backbone|method|train|evaluate)\.(\w+)(?:=(.*))?$")


class DottedCommand(click.Command):
    """A command that takes dotted flags besides its own; they arrive as ``ctx.obj``: section → name → value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the dotted flags out, then parse the rest as usual."""
        sections: dict[str, dict[str, Any]] = {}
        rest: list[str] = []
        words = iter(args)
        for word in words:
            found = _FLAG.match(word)
            if found is None:
                rest.append(word)
                continue
            section, name, value = found.groups()
            if value is None:
                value = next(words, None)
                if value is None:
                    raise click.UsageError(f"{word} needs a value, such as {word} 1", ctx)
            sections.setdefault(section, {})[name] = parse_value(value)
        ctx.obj = sections
        return super().parse_args(ctx, rest)


def parse_value(text: str) -> Any:
    """A number, true or false, a list where there are commas, else the text itself.

    Example:
        >>> [parse_value(text) for text in ("3", "1e-3", "true", "64,32", "softmax")]
        [3, 0.001, True, [64, 32], 'softmax']
    """
    if "," in text:
        return [parse_value(part) for part in text.split(",") if part]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
