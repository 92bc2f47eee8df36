"""What a strategy is made of, and what follows from that without any data."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Exploration, Logarithmic, UpperConfidence, Width
from botorch_tv.acquisition.exploration import draws_numbers, require_defined
from botorch_tv.forgetting import Decay, Inflation, KeepAll, Retention, Static
from botorch_tv.forgetting.claims import require_inflating, require_sound
from botorch_tv.forgetting.parts import Part, own_copy
from botorch_tv.forgetting.retention import require_rules
from botorch_tv.forgetting.static import is_static
from botorch_tv.inference.covariance import describe_kernel
from botorch_tv.inference.data import Prior
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.point_basis import PointBasis
from botorch_tv.inference.point_recursion import Features, PointRecursion
from botorch_tv.inference.points import PointRegression
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Inference
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.deciding import arm_inference
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.fingerprints import fingerprinted
from botorch_tv.validation import require, require_noise, settle_number, shown


class Wanted(NamedTuple):
    """The type that a part must have."""

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
        isinstance(parts["inference"], Features) or parts["inference"] in get_args(Method),
        f"Strategy: inference is {parts['inference']!r}; choose 'auto', 'exact', 'features' or "
        "Features(tolerance=...).",
    )
    require_sound(parts["decay"])
    require_inflating(parts["inflation"])
    require_rules(parts["retention"])
    require_defined(parts["exploration"])


def require_left_out(strategy: Parts, reasons: Mapping[str, str]) -> None:
    """Raise a ``ValueError`` unless parts are as they are where none is given.

    Args:
        strategy: Whose parts they are.
        reasons: Why it takes none, by the name of the part.
    """
    for name, reason in reasons.items():
        part = getattr(strategy, name)
        none = part is None or isinstance(part, KeepAll) or is_static(part)
        require(none, f"{type(strategy).__name__}: {name} is {part!r}, but {reason}.")


FORMULAS = ("kernel", "decay", "inflation", "width")
"""Copied, so that a strategy stays what it is; rules may be watched at work."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Parts:
    """The parts of a :class:`~botorch_tv.strategies.core.Strategy`, which says what they are."""

    kernel: Kernel | Tensor
    noise: float
    decay: Decay = field(default_factory=Static)
    inflation: Inflation = field(default_factory=Static)
    retention: Retention | tuple[Retention, ...] = field(default_factory=KeepAll)
    width: Width = field(default_factory=Logarithmic)
    exploration: Exploration = field(default_factory=UpperConfidence)
    maximize: bool = True
    mean: float | Literal["estimated"] = 0.0
    inference: Method | Features = "auto"
    learning: Refit | None = None

    _model: ClassVar[tuple[str, ...]] = ("kernel", "noise", "mean", "decay", "inflation")
    """Parts that what a state holds was computed with; others may change from round to round."""
    _replaces_data: ClassVar[bool] = False
    """Whether answers of an expert take the place of observations."""

    def __post_init__(self) -> None:
        noise = require_noise(f"{type(self).__name__}: noise", self.noise)
        object.__setattr__(self, "noise", noise)
        if not (isinstance(self.mean, str) and self.mean == "estimated"):
            settle_number(self, "mean", "(-inf, inf)", "or give 'estimated'.")
        require_parts({one.name: getattr(self, one.name) for one in fields(self)})
        for name in FORMULAS:
            object.__setattr__(self, name, own_copy(getattr(self, name)))

    @functools.cached_property
    def process(self) -> Process:
        """All that a posterior depends on, besides the data."""
        rules = self.retention if isinstance(self.retention, tuple) else (self.retention,)
        return Process(
            kernel=self.kernel,
            noise=self.noise,
            mean=self.mean,
            decay=self.decay,
            inflation=self.inflation,
            retention=tuple(one for one in rules if type(one) is not KeepAll),
        )

    @property
    def _method(self) -> Method:
        return "features" if isinstance(self.inference, Features) else self.inference

    @functools.cached_property
    def _fingerprint(self) -> str | None:
        """Identifies the maker of a suggestion; equal parts have equal ones in any process."""
        try:
            return fingerprinted(_without_addresses(Parts.__repr__(self)), self._model_fingerprints)
        except Exception:  # a part without a working repr is no reason to fail
            return None

    @functools.cached_property
    def _model_fingerprints(self) -> tuple[str, ...]:
        """Identify the strategy that began a state; empty if a part cannot be described."""
        try:
            return tuple(
                fingerprinted(
                    _without_addresses(f"{name} {self._in_words(name)}"), getattr(self, name)
                )
                for name in self._model
            )
        except Exception:  # as above
            return ()

    def _in_words(self, name: str) -> str:
        part = getattr(self, name)
        return describe_kernel(part) if name == "kernel" else repr(part)

    def __repr__(self) -> str:
        told = ", ".join(f"{one.name}={self._in_words(one.name)}" for one in fields(self))
        return f"{type(self).__name__}({told})"

    @property
    def usual_noise(self) -> float:
        """Default variance of an observation; NaN if it is not known."""
        return self.noise

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """How the posterior is computed on a domain, from what a prior there is held as."""
        if isinstance(prior, PointBasis):
            return self._in_features
        return self._on_box if isinstance(domain, Box) else self._on_grid

    @functools.cached_property
    def _on_grid(self) -> Inference:
        return arm_inference(self.process, self._method, samples=self.exploration.samples)

    @functools.cached_property
    def _in_features(self) -> Inference:
        return PointRecursion(self.process, samples=self.exploration.samples)

    @functools.cached_property
    def _on_box(self) -> Inference:
        return PointRegression(self.process, samples=self.exploration.samples)

    @property
    def draws(self) -> bool:
        """Whether choices may take random numbers: all but those known to take none."""
        return draws_numbers(self.exploration)

    @functools.cached_property
    def compares(self) -> bool:
        """Whether any part may look at what was predicted of an observation."""
        remembers = type(self.exploration).update is not Part.update
        return self.process.reacts or remembers

    @functools.cached_property
    def _remembers(self) -> bool:
        """Whether any part has a memory of its own."""
        parts = (*self.process.retention, self.exploration)
        return any(type(one).update is not Part.update for one in parts)


def _without_addresses(words: str) -> str:
    """Words without places in memory, the same in any process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", words)
