"""The command line: thin commands over the library.

Modules of this package import nothing heavy at the top. Commands import what they need when they run, so that
``--help`` answers immediately.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from icpe import __version__
from icpe.cli.commands.audit import audit
from icpe.cli.commands.compare import compare
from icpe.cli.commands.data import data
from icpe.cli.commands.demo import demo
from icpe.cli.commands.dial import dial
from icpe.cli.commands.doctor import doctor
from icpe.cli.commands.evaluate import evaluate
from icpe.cli.commands.export import export
from icpe.cli.commands.recommend import recommend
from icpe.cli.commands.report import report
from icpe.cli.commands.reproduce import reproduce
from icpe.cli.commands.serve import serve
from icpe.cli.commands.simulate import simulate
from icpe.cli.commands.split import split
from icpe.cli.commands.train import train
from icpe.cli.commands.tune import tune
from icpe.cli.options import CommandGroup
from icpe.cli.torchrun import run_together, under_torchrun
from icpe.errors import ConfigError, DataError, IcpeError, NotFittedError
from icpe.shown import shortened, visible, visible_lines

# The library writes remedies as "pass ids='text' (command line: --ids text)". A parenthesis in quotes is in a name.
_REMEDY = re.compile(
    r"\b([Pp]ass|[Cc]heck) (?:(?!\b[Pp]ass\b|\b[Cc]heck\b).)*? "
    r"\(command line: ((?:'[^']*'|\"[^\"]*\"|[^)'\"])*|.*?)\)",
    re.DOTALL,
)

_LONGEST_LINE = 2000  # characters

_FIRST_STEPS = """\
icpe trains recommenders that do not show everyone the same hits.

If you have …                    begin with
  ten minutes                    icpe demo
  a log of who used what         icpe data describe events.csv
                                 icpe train events.csv --method icpe -o run
  a trained run                  icpe dial run
                                 icpe recommend run --all -o recs.parquet
  lists of another system        icpe audit --log events.csv --recs recs.csv
  a site that needs lists        icpe serve run
  methods to compare             icpe compare events.csv \\
                                   --methods normal,icpe -o cmp
  a question about feedback      icpe simulate demo --quick \\
                                   --methods normal,icpe -o sim
  a problem with the set-up      icpe doctor

Columns have other names? Add --column user_id=uid --column item_id=sku.
`icpe --help` lists all commands, and `icpe COMMAND --help` explains one."""

# The name of each kind of error in JSON; the first class that fits counts.
_CODES = (
    (click.ClickException, "usage"),
    (ConfigError, "config"),
    (DataError, "data"),
    (NotFittedError, "not_fitted"),
    (IcpeError, "failed"),
    (KeyboardInterrupt, "interrupted"),
    (click.Abort, "interrupted"),
    (MemoryError, "memory"),
    (OSError, "file"),
)


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="icpe")
@click.pass_context
def cli(context: click.Context) -> None:
    """Train recommenders that do not show everyone the same hits.

    Start with `icpe demo`, or with a log of your own: `icpe data describe events.csv`.

    To complete commands, flags and names with the TAB key in bash, run: eval "$(_ICPE_COMPLETE=bash_source icpe)"
    """
    if context.invoked_subcommand is None:
        click.echo(_FIRST_STEPS)


# In the order in which people need them, which is the order of the help page.
for _command in (
    demo,
    data,
    split,
    train,
    dial,
    evaluate,
    recommend,
    export,
    serve,
    report,
    audit,
    compare,
    tune,
    simulate,
    reproduce,
    doctor,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line and exit with 0 (done), 1 (failed), 2 (wrong use or data) or 130 (interrupted)."""
    warnings.showwarning = _print_warning
    if under_torchrun():
        run_together(run, sys.argv[1:])
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str], reports: Callable[[int], bool] = lambda code: True) -> int:
    """Run one command and return its exit code. A mistake of the user gives a short message, never a traceback.

    Args:
        arguments: the words after ``icpe``.
        reports: function that is told the exit code of a failure and returns whether to print the reason.
    """
    try:
        result = cli.main(arguments, prog_name="icpe", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe; keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (click.ClickException, IcpeError, KeyboardInterrupt, click.Abort, OSError, MemoryError) as error:
        code = _code(error)
        if reports(code):
            if _wants_json(arguments):
                _print_json_error(error, code)
            else:
                _explain(error)
        return code


def _print_warning(message: Warning | str, *where: Any, **further: Any) -> None:
    """Print a warning as one paragraph on standard error, without the line of code that gave it."""
    text = _REMEDY.sub(r"\1 \2", str(message))
    click.echo(f"warning: {shortened(visible(text), _LONGEST_LINE)}", err=True)


def _code(error: BaseException) -> int:
    """Return the exit code of a failure."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return 130
    wrong = isinstance(error, click.ClickException | IcpeError) and type(error) is not IcpeError
    return 2 if wrong else 1  # the base class: neither the data nor a setting is wrong


def _wants_json(arguments: list[str]) -> bool:
    """Return whether the words of the command line ask for JSON."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _print_json_error(error: BaseException, exit_code: int) -> None:
    """Print the reason of a failure as one line of JSON on standard error, below whatever progress is there."""
    message = _usage_text(error) if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, IcpeError):
        message = _REMEDY.sub(r"\1 \2", message)
    code = next(name for kind, name in _CODES if isinstance(error, kind))
    content = {"error": {"code": code, "message": message or code, "exit_code": exit_code}}
    click.echo(visible_lines(json.dumps(content, ensure_ascii=False)), err=True)


def _explain(error: BaseException) -> None:
    """Print the reason of a failure."""
    if isinstance(error, click.ClickException):
        _print_usage_error(error)
    elif isinstance(error, IcpeError):
        _print_error(_REMEDY.sub(r"\1 \2", str(error)))
    elif isinstance(error, KeyboardInterrupt | click.Abort):
        click.echo(f"interrupted: {error}" if str(error) else "interrupted", err=True)
    elif isinstance(error, MemoryError):
        _print_error(f"the memory of this machine is not enough. {error}".rstrip())
    else:
        _print_error(str(error))


def _print_error(message: str) -> None:
    """Print a message in the one style of errors; further lines are aligned with the first.

    Messages quote files, which can come from anybody, so nothing in them can move the cursor or fill the screen.
    """
    lines = [shortened(visible(line), _LONGEST_LINE) for line in message.split("\n")]
    click.echo("error: " + "\n       ".join(lines), err=True)


def _print_usage_error(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the help page
        error.show()
        return
    message = _usage_text(error)
    _print_error(message[:1].lower() + message[1:])
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"Try '{context.command_path} --help'.", err=True)


def _usage_text(error: click.ClickException) -> str:
    """Return the message of a wrong use. The parser would give each choice of a missing option a line."""
    if isinstance(error, click.MissingParameter) and isinstance(getattr(error.param, "type", None), click.Choice):
        assert error.param is not None
        *others, last = error.param.type.choices  # type: ignore[attr-defined]
        choices = f"{', '.join(map(str, others))} or {last}" if others else str(last)
        return f"Missing {error.param.param_type_name} {error.param.get_error_hint(error.ctx)}; choose {choices}"
    return error.format_message()
