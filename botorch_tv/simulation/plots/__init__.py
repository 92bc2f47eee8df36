"""Plots of regret studies.

Every function returns a new matplotlib Figure outside pyplot's global state, so plots also work on
a server without a screen. Jupyter displays a figure that is the last value of a cell.
"""

from botorch_tv.simulation.plots.curves import (
    plot_first_reset,
    plot_panels,
    plot_regret,
    plot_simple_regret,
)
from botorch_tv.simulation.plots.diagnosis import plot_calibration, plot_triggers
from botorch_tv.simulation.plots.recorded import plot_prediction_error, plot_weights

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
