"""The command line: thin verbs over the library.

Modules here import nothing heavy at the top; commands import what they need when they run, so that ``--help``
answers at once.
"""

import os
import sys

import click

from icpe import __version__
from icpe.cli.audit import audit
from icpe.cli.compare import compare
from icpe.cli.data import data
from icpe.cli.demo import demo
from icpe.cli.doctor import doctor
from icpe.cli.evaluate import evaluate
from icpe.cli.options import Remembering
from icpe.cli.recommend import recommend
from icpe.cli.report import report
from icpe.cli.reproduce import reproduce
from icpe.cli.split import split
from icpe.cli.train import train
from icpe.cli.tune import tune
from icpe.errors import IcpeError


@click.group(cls=Remembering, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="icpe")
def cli() -> None:
    """Recommenders that do not show everyone the same hits.

    Start with `icpe demo`, or with a log of your own: `icpe data describe events.csv`.
    """


for _command in (compare, audit, data, demo, doctor, evaluate, recommend, report, reproduce, split, train, tune):
    cli.add_command(_command)


def main() -> None:
    """Run the command line and leave with 0 done, 1 failed, 2 wrong use or data, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; a user's mistake gives one line, never a traceback."""
    try:
        result = cli.main(arguments, prog_name="icpe", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except IcpeError as error:
        click.echo(f"error: {error}", err=True)
        return 1 if type(error) is IcpeError else 2  # the base class: nothing was wrong with data or settings
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:  # the reader, e.g. `head`, has gone; keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        return 1
