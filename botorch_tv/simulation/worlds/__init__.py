"""Objectives that do not hold still: drawn anew for every trial, or replayed from a record."""

from botorch_tv.simulation.worlds.base import World
from botorch_tv.simulation.worlds.markov import MarkovWorld

__all__ = ["MarkovWorld", "World"]
