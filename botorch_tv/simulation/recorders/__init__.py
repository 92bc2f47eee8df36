"""What studies record besides regret; subclass :class:`Recorder` for your own."""

from botorch_tv.simulation.recorders.diagnosis import Diagnosis
from botorch_tv.simulation.recorders.prediction_error import PredictionError
from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable
from botorch_tv.simulation.recorders.weights import Weights

__all__ = ["Diagnosis", "PredictionError", "Recorder", "Seen", "Variable", "Weights"]
