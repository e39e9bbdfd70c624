"""The training loop, its settings, sampling and checkpoints."""

from icpe.train.checkpoint import load_checkpoint, save_checkpoint
from icpe.train.loop import CRITERION, Position, Trainer
from icpe.train.settings import TrainSettings

__all__ = ["CRITERION", "Position", "TrainSettings", "Trainer", "load_checkpoint", "save_checkpoint"]
