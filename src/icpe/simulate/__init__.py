"""The feedback loop: lists shape what people consume, and what they consume shapes the next lists."""

from icpe.simulate.fitted import fit_world
from icpe.simulate.settings import LoopSettings
from icpe.simulate.simulation import Simulation, simulate

__all__ = ["LoopSettings", "Simulation", "fit_world", "simulate"]
