from botorch_tv.optuna import best_now
from botorch_tv.optuna import DriftSampler
from botorch_tv.optuna import pareto_now


__all__ = ["DriftSampler", "best_now", "pareto_now"]
