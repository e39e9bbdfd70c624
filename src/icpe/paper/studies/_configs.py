"""Configurations of the studies that train outside the grid of runs."""

from dataclasses import replace

from icpe.paper.reproduction import Reproduction
from icpe.runs.config import RunConfig

_EPOCHS = 30  # most epochs of these trainings, which have no early stopping


def normal_config(reproduction: Reproduction, backbone: str) -> RunConfig:
    """Normal with its tuned training settings, binary cross-entropy and one negative."""
    config = reproduction.paper_cell("", backbone).config
    return shortened(reproduction, replace(config, method={"name": "normal"}))


def shortened(reproduction: Reproduction, config: RunConfig) -> RunConfig:
    """The configuration with the first seed and at most 30 epochs."""
    return config.updated("train", {"seed": reproduction.seeds[0], "epochs": epochs(reproduction)})


def epochs(reproduction: Reproduction) -> int:
    """Number of epochs without early stopping: 30, or fewer if the settings of all runs say so."""
    return min(_EPOCHS, int(reproduction.base.train.get("epochs", _EPOCHS)))
