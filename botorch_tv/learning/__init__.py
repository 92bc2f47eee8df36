"""Learning hyperparameters from data."""

import importlib
from typing import TYPE_CHECKING, Any

from botorch_tv.learning.fit import Learned, learn
from botorch_tv.learning.refit import Free, Refit

if TYPE_CHECKING:
    from botorch_tv.learning.panel import PanelMarginalLogLikelihood, kronecker_log_likelihood

__all__ = [
    "Free",
    "Learned",
    "PanelMarginalLogLikelihood",
    "Refit",
    "kronecker_log_likelihood",
    "learn",
]


if not TYPE_CHECKING:  # only panels need BoTorch's models, which take .3 s to import

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        panel = importlib.import_module(f"{__name__}.panel")
        return globals().setdefault(name, getattr(panel, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
