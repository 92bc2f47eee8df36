"""Whether what a strategy is made of is of the right kind, and sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.acquisition.exploration import require_defined
from botorch_tv.forgetting import Decay, Inflation
from botorch_tv.forgetting.claims import require_computed, require_sound
from botorch_tv.forgetting.retention import require_rules
from botorch_tv.inference.factor import Inference
from botorch_tv.inference.features import Features
from botorch_tv.learning.refit import Refit
from botorch_tv.validation import require, shown


class Wanted(NamedTuple):
    """What a part must be."""

    kind: Any
    said: str
    fix: str


WANTED = {
    "decay": Wanted(
        Decay,
        "a Decay",
        "Static() keeps the objective still, Markov(epsilon) lets it drift",
    ),
    "inflation": Wanted(
        Inflation,
        "an Inflation",
        "Static() keeps measurements as they are, ExponentialWeights(gamma) ages them",
    ),
    "width": Wanted(Width, "a Width", "Logarithmic() is that of most presets"),
    "exploration": Wanted(
        Exploration, "an Exploration", "UpperConfidence() is that of most presets"
    ),
    "maximize": Wanted(bool, "a bool", "False is for those who minimise"),
    "kernel": Wanted(
        (Kernel, Tensor), "a GPyTorch kernel or an M x M tensor", "such as RBFKernel()"
    ),
    "learning": Wanted((Refit, type(None)), "a Refit or None", "Refit() learns every 5 rounds"),
}


def require_parts(parts: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` unless the fields of a strategy are of their kinds, and sound."""
    for name, (kind, said, fix) in WANTED.items():
        part = parts[name]
        require(
            isinstance(part, kind),
            f"Strategy: {name} is {shown(part)}, but it must be {said}; {fix}.",
        )
    require(
        isinstance(parts["inference"], Features) or parts["inference"] in get_args(Inference),
        f"Strategy: inference is {parts['inference']!r}; choose 'auto', 'exact', 'features' or "
        "Features(tolerance=...).",
    )
    require_sound(parts["decay"])
    require_computed(parts["inflation"])
    require_rules(parts["retention"])
    require_defined(parts["exploration"])
