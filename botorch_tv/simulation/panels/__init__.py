"""Recorded data as worlds: readings of many sensors, loaded from files and turned into models."""

from botorch_tv.simulation.panels.record import Panel, load_panel, make_panel
from botorch_tv.simulation.panels.temporal import fit_epsilon, log_likelihood

__all__ = ["Panel", "fit_epsilon", "load_panel", "log_likelihood", "make_panel"]
