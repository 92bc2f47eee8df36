"""Plots of regret studies.

Every function returns a matplotlib Figure of its own, outside pyplot's global state, so it works
on a server without a screen and shows itself in Jupyter when it is the last value of a cell.
"""

from botorch_tv.simulation.plots.calibration import plot_calibration
from botorch_tv.simulation.plots.prediction_error import plot_prediction_error
from botorch_tv.simulation.plots.regret import plot_first_reset, plot_panels, plot_regret
from botorch_tv.simulation.plots.simple_regret import plot_simple_regret
from botorch_tv.simulation.plots.triggers import plot_triggers
from botorch_tv.simulation.plots.weights import plot_weights

__all__ = [
    "plot_calibration",
    "plot_first_reset",
    "plot_panels",
    "plot_prediction_error",
    "plot_regret",
    "plot_simple_regret",
    "plot_triggers",
    "plot_weights",
]
