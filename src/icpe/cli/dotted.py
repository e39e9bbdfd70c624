"""Flags with a dot, such as ``--train.lr 0.01``: one for every declared setting of a run."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from icpe.toml import parse_toml

if TYPE_CHECKING:
    from icpe.cli._declared import Section
    from icpe.settings import Declaration

SECTIONS = ("split", "backbone", "method", "train", "evaluate")
_FLAG = re.compile(rf"^--({'|'.join((*SECTIONS, 'loop'))})\.(\w*)(?:=(.*))?$", re.DOTALL)
_CHOOSING = {"split": ("--split",), "backbone": ("--backbone", "--backbones"), "method": ("--method", "--methods")}
_WORDS = f"{__name__}.words"  # key of the arguments in the context


class DottedCommand(click.Command):
    """A command with a flag for every declared setting.

    The values arrive as ``ctx.obj``: section → name → value. The flags depend on the split, the backbone and the method
    that the command line or its ``--config`` file names. They are looked up only for a help page that asks for them
    and for shell completion, because the lookup imports the library.

    Args:
        sections: those whose settings can be given.
    """

    def __init__(self, *args: Any, sections: Sequence[str] = SECTIONS, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections = tuple(sections)
        self.params.append(_help_settings_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the dotted flags out, then parse the rest as usual."""
        ctx.meta[_WORDS] = list(args)
        values: dict[str, dict[str, Any]] = {}
        rest: list[str] = []
        missing: list[str] = []
        position = 0
        while position < len(args):
            found = _FLAG.match(args[position])
            position += 1
            if found is None or found[1] not in self._sections:
                rest.append(args[position - 1])
                continue
            section, name, text = found.groups()
            if text is None and position < len(args) and not args[position].startswith("--"):
                text = args[position]
                position += 1
            if text is None:
                missing.append(f"--{section}.{name}")
            else:
                values.setdefault(section, {})[name] = parse_value(text)
        if missing and not ctx.resilient_parsing:
            raise click.UsageError("\n".join(f"{flag} needs a value, such as {flag} 1" for flag in missing), ctx)
        ctx.obj = values
        try:
            return super().parse_args(ctx, rest)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            raise click.NoSuchOption(error.option_name, None, self._dotted(ctx, error.option_name), ctx) from None

    def _dotted(self, ctx: click.Context, option: str) -> list[str]:
        """Return the dotted flags that end like an option that does not exist: --train.epochs for --epochs."""
        wanted = option.lstrip("-").replace("-", "_")
        return [section.flag(one.name) for section, found in self.sections(ctx) for one in found if one.name == wanted]

    def words(self, ctx: click.Context) -> list[str]:
        """Return the arguments of the command as typed, dotted flags included."""
        found: list[str] = ctx.meta.get(_WORDS, [])
        return found

    def sections(self, ctx: click.Context) -> "Iterator[tuple[Section, list[Declaration]]]":
        """Yield the settings whose flags the command accepts, section by section."""
        from icpe.cli._declared import find_section, known_names
        from icpe.errors import ConfigError

        for section in self._sections:
            names: list[str | None] = [*_chosen(section, self.words(ctx))]
            for name in known_names(section) if names == ["all"] else names or [None]:
                try:
                    found = find_section(section, name)
                except ConfigError:  # an unknown name is reported when the command runs
                    continue
                yield found, list(found.declared())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; during completion of the value of a dotted flag also the dotted flags."""
        params = super().get_params(ctx)
        words = self.words(ctx)
        if ctx.resilient_parsing and words and _FLAG.match(words[-1]):
            params += [_as_option(section, one) for section, settings in self.sections(ctx) for one in settings]
        return params

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions of a name, of dotted flags too once their section is typed."""
        found = super().shell_complete(ctx, incomplete)
        if _FLAG.match(incomplete):
            flags = {
                section.flag(one.name): one.description for section, settings in self.sections(ctx) for one in settings
            }
            found += [CompletionItem(flag, help=text) for flag, text in flags.items() if flag.startswith(incomplete)]
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the settings where the command line names what they belong to."""
        super().format_options(ctx, formatter)
        if self._names_something(ctx):
            self.format_settings(ctx, formatter)

    def format_settings(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of flags per section."""
        for section, settings in self.sections(ctx):
            rows = [(section.flag(one.name), _help_text(one)) for one in settings]
            if rows:
                with formatter.section(f"Settings of {section.owner}"):
                    formatter.write_dl(rows)

    def _names_something(self, ctx: click.Context) -> bool:
        return any(_chosen(section, self.words(ctx)) for section in self._sections)


def _help_settings_option() -> click.Option:
    def show(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
        if not asked or ctx.resilient_parsing:
            return
        assert isinstance(ctx.command, DottedCommand)
        formatter = ctx.make_formatter()
        ctx.command.format_settings(ctx, formatter)
        click.echo(formatter.getvalue().strip("\n"))
        ctx.exit()

    return click.Option(
        ["--help-settings"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="List the dotted flags with type and default, and exit.",
    )


def _chosen(section: str, words: Sequence[str]) -> list[str]:
    """The names that the command line, or else its configuration file, gives for a section."""
    flags = _CHOOSING.get(section, ())
    given = _values_of(flags, words)
    if not given and flags:
        key = "kind" if section == "split" else "name"
        for path in _values_of(("--config",), words)[-1:]:
            try:
                given = [str(parse_toml(Path(path).read_text(encoding="utf-8"))[section][key])]
            except (OSError, ValueError, KeyError, TypeError):
                continue  # reported when the command runs
    return [name.strip() for name in ",".join(given[-1:]).split(",") if name.strip()]


def _values_of(flags: Sequence[str], words: Sequence[str]) -> list[str]:
    """All values given to some flags, in their order."""
    found = []
    for position, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags and equals:
            found.append(value)
        elif flag in flags and position + 1 < len(words):
            found.append(words[position + 1])
    return found


def _as_option(section: "Section", setting: "Declaration") -> click.Option:
    kind = click.Choice(setting.choices) if setting.choices else click.STRING
    return click.Option([section.flag(setting.name), f"{section.name}_{setting.name}"], type=kind)


def _help_text(setting: "Declaration") -> str:
    default = ", ".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
    shown = "chosen automatically" if default is None else str(default)
    return f"{setting.description} [{setting.expected}; default: {shown}]".strip()


def parse_value(text: str) -> Any:
    """Return a number, true or false, a list if the text has commas, or else the text itself.

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
