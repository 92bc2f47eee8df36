"""Plots of regret studies.

Every function returns a new matplotlib Figure outside pyplot's global state, so plots also work on
a server without a screen. Jupyter displays a figure that is the last value of a cell.
"""

from typing import TYPE_CHECKING

from botorch_tv.simulation.plots.curves import plot_first_reset as plot_first_reset
from botorch_tv.simulation.plots.curves import plot_panels as plot_panels
from botorch_tv.simulation.plots.curves import plot_regret as plot_regret
from botorch_tv.simulation.plots.curves import plot_simple_regret as plot_simple_regret
from botorch_tv.simulation.plots.diagnosis import plot_calibration as plot_calibration
from botorch_tv.simulation.plots.diagnosis import plot_triggers as plot_triggers
from botorch_tv.simulation.plots.recorded import plot_prediction_error as plot_prediction_error
from botorch_tv.simulation.plots.recorded import plot_weights as plot_weights

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
