"""The training loop, its settings, sampling and checkpoints."""

from icpe.train.checkpoint import load_checkpoint, save_checkpoint
from icpe.train.loop import Position, Trainer
from icpe.train.settings import TrainSettings

__all__ = ["Position", "TrainSettings", "Trainer", "load_checkpoint", "save_checkpoint"]
