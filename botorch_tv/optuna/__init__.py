"""Time-varying objectives in Optuna: a sampler that discounts old trials."""

try:
    import optuna  # noqa: F401
except ImportError as error:
    raise ImportError(
        "botorch_tv.optuna needs Optuna, which is not installed or cannot be imported; run "
        "pip install 'botorch-tv[optuna]'."
    ) from error

from botorch_tv.optuna.sampler import DriftSampler, best_now, pareto_now

__all__ = ["DriftSampler", "best_now", "pareto_now"]
