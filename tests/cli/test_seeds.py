"""One meaning of ``--seeds`` in all commands."""

import pytest

from icpe.cli import run


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_the_help_explains_seeds_methods_and_backbones(command, capsys):
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--methods", "--backbones", "--seeds COUNT|=LIST", "=5,7,9", "[DATA]", "-o, --output"):
        assert word in text
