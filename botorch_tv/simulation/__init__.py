"""Regret studies: worlds, the engine that plays them, and labelled results."""

from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.study import run_study
from botorch_tv.simulation.worlds import MarkovWorld, World

__all__ = ["MarkovWorld", "StudyResult", "World", "run_study"]
