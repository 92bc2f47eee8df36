"""Confidence schedules: the number of standard deviations added to the mean.

The papers write the multiplier of the standard deviation as β or as √β. The convention here: a
score is ``mean + √beta * sd``, and ``beta`` is the square of ``sqrt_beta``, as in BoTorch's
``UpperConfidenceBound``. Logarithms are natural.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from botorch_tv.acquisition.gains import DoublyWeighted, InformationGain, Realized, WidthContext
from botorch_tv.validation import require, settle_number


class Width(ABC):
    """A confidence schedule: √beta of every round."""

    gain: InformationGain | None = None
    """Source of the information gain; None if the schedule uses none."""

    @abstractmethod
    def sqrt_beta(self, context: WidthContext) -> float | Tensor:
        """√beta, the factor on the standard deviation in the round of ``context``.

        Returns:
            A number if it depends only on the round, else a tensor, `batch_shape`.

        Raises:
            ValueError: If ``context`` lacks the gain that the schedule needs.
        """

    def beta(self, context: WidthContext) -> float | Tensor:
        """The square of :meth:`sqrt_beta`, a number or `batch_shape`."""
        return self.sqrt_beta(context) ** 2


LIMITS = {
    "B": ("[0, 1e100]", "it bounds the norm of f."),
    "R": ("[0, 1e100]", "it is a standard deviation."),
    "a1": ("[1e-100, 1e100]", "it bounds the kernel's slopes."),
    "b1": ("[1e-100, 1e100]", "it bounds the kernel's slopes."),
    "c1": ("[0, 1e100]", "0 never explores."),
    "c2": ("[1e-100, 1e100]", "the papers use 4 and 0.4."),
    "delta": ("[1e-100, 1)", "it is a probability; the papers use 0.1."),
    "noise": ("[1e-100, 1e100]", "it is a variance."),
    "r": ("[1e-100, 1e100]", "it is the side of the domain's box."),
    "value": ("[0, 1e100]", "it is the square of √beta."),
}
"""Valid ranges of the parameters of widths, by name, with a hint for the error."""


class _Checked(Width):
    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            if name in vars(self):
                settle_number(self, name, *limit)


@dataclass(frozen=True)
class Logarithmic(_Checked):
    """The width of the papers' experiments: √(c1 ln(c2 t)), [B16] §5.

    [B16] uses c1 = 0.8, c2 = 4 on synthetic worlds and c2 = 0.4 on its data, [ET] c1 = 0.4,
    c2 = 4. With c2 < 1 the logarithm is negative in the first rounds; it is set to 0 there, so
    those rounds do not explore.

    Args:
        c1: Scale, at least 0.
        c2: Factor on the round, positive.

    Raises:
        ValueError: If ``c1`` or ``c2`` is out of range or not finite.
    """

    c1: float = 0.8
    c2: float = 4.0

    def sqrt_beta(self, context: WidthContext) -> float:
        return math.sqrt(self.c1 * max(0.0, math.log(self.c2 * context.t)))


@dataclass(frozen=True)
class Constant(_Checked):
    """The same √beta in every round.

    Args:
        value: beta, the *square* of what multiplies the standard deviation; at least 0.

    Raises:
        ValueError: If ``value`` is negative or not finite.
    """

    value: float

    def sqrt_beta(self, context: WidthContext) -> float:
        return math.sqrt(self.value)


@dataclass(frozen=True)
class _Bayes(_Checked):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = parts π² t² / (6 δ).

    The theorems differ only in how many equal parts the failure probability is split into. They
    assume P(sup_x |∂f/∂x_j| > L) <= a1 exp(-(L / b1)²), [B16] eq. (10), on a domain in [0, r]^d.
    """

    delta: float
    r: float
    a1: float
    b1: float

    parts: ClassVar[int]

    def sqrt_beta(self, context: WidthContext) -> float:
        t, dim = context.t, context.dim
        union = self.parts * math.pi**2 * t**2 / (6 * self.delta)
        slope = math.log(dim * self.a1 * union)
        require(
            slope > 0,
            f"{self} has no value in round {t} with d = {dim}: a1 must exceed "
            f"{1 / (dim * union):.4g}.",
        )
        cells = self.r * dim * self.b1 * t**2 * math.sqrt(slope)
        beta = 2 * math.log(union) + 2 * dim * math.log(cells)
        require(
            beta >= 0,
            f"{self} has no value in round {t} with d = {dim}: beta is {beta:.4g}, but it must be "
            f"at least 0; raise r b1 to {self.r * self.b1 * math.exp(-beta / (2 * dim)):.4g}.",
        )
        return math.sqrt(beta)


@dataclass(frozen=True)
class BayesTV(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = π² t² / (2δ); TV-GP-UCB, [B16] eq. (19).

    The constants assume P(sup_x |∂f/∂x_j| > L) <= a1 exp(-(L / b1)²), [B16] eq. (10). Very small
    ones make a root negative in early rounds, where the theorem says nothing; ``sqrt_beta``
    raises a ``ValueError`` then.

    Args:
        delta: Probability δ that the regret bound fails, in (0, 1).
        r: Side of the box [0, r]^d that holds the domain, positive.
        a1: Constant a1 of the bound on slopes, positive.
        b1: Constant b1 of that bound, in units of f per unit of x, positive.

    Raises:
        ValueError: If a constant is out of range.
    """

    parts: ClassVar[int] = 3


@dataclass(frozen=True)
class BayesResetting(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = 2π² t² / (3δ); R-GP-UCB, [B16] eq. (16).

    Arguments and errors are those of :class:`BayesTV`; t does not restart with a reset.
    """

    parts: ClassVar[int] = 4


@dataclass(frozen=True)
class BayesEventTriggered(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = 4π² t² / (3δ); ET-GP-UCB, [ET] Theorem 1.

    Arguments and errors are those of :class:`BayesTV`; δ is not the trigger's δ_B, and t does not
    restart with a reset.
    """

    parts: ClassVar[int] = 8


Terms = tuple[float, float, float, float]


class GainWidth(_Checked):
    """A width from the information gain g, by a root of what is linear in it."""

    gain: InformationGain

    @abstractmethod
    def terms(self, t: int) -> Terms:
        """Offset, scale, constant and slope of √beta = offset + scale √(constant + slope g)."""

    def sqrt_beta(self, context: WidthContext) -> float | Tensor:
        offset, scale, constant, slope = self.terms(context.t)
        value = constant + slope * self.gain.value(context)
        return offset + scale * (value.sqrt() if isinstance(value, Tensor) else math.sqrt(value))


@dataclass(frozen=True)
class AgnosticGPUCB(GainWidth):
    """√(2B² + 300 g ln³(t/δ)), the agnostic GP-UCB quoted in [C17] §3.1.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Where g comes from.

    Raises:
        ValueError: If ``B`` or ``delta`` is out of range.
    """

    B: float
    delta: float
    gain: InformationGain = field(default_factory=Realized)

    def terms(self, t: int) -> Terms:
        return 0.0, 1.0, 2 * self.B**2, 300 * math.log(t / self.delta) ** 3


@dataclass(frozen=True)
class IGPUCB(GainWidth):
    """IGP-UCB: B + R √(2(g + 1 + ln(1/δ))), [C17] Algorithm 1.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        R: Sub-Gaussian constant of the noise (its standard deviation if normal), at least 0.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Where g comes from.

    Raises:
        ValueError: If ``B``, ``R`` or ``delta`` is out of range.
    """

    B: float
    R: float
    delta: float
    gain: InformationGain = field(default_factory=Realized)

    def terms(self, t: int) -> Terms:
        return self.B, self.R, 2 * (1 - math.log(self.delta)), 2.0


@dataclass(frozen=True)
class WGPUCB(GainWidth):
    """WGP-UCB: B + (R/√λ) √(2 ln(1/δ) + 2ḡ), [W22] Algorithm 1.

    The root covers both terms, as in Theorem 2; the line under eq. (4) is a misprint.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        R: Sub-Gaussian constant of the noise (its standard deviation if normal), at least 0.
        noise: Regularisation λ, the noise variance of the newest observation; positive.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Where ḡ comes from.

    Raises:
        ValueError: If ``B``, ``R``, ``noise`` or ``delta`` is out of range.
    """

    B: float
    R: float
    noise: float
    delta: float
    gain: InformationGain = field(default_factory=DoublyWeighted)

    def terms(self, t: int) -> Terms:
        scale = self.R / math.sqrt(self.noise)
        return self.B, scale, -2 * math.log(self.delta), 2.0


@dataclass(frozen=True)
class Heteroscedastic(GainWidth):
    """√(2 ln(2 |N + K|^½ / (δ |N|^½))) + B = √(2(g + ln(2/δ))) + B, [M] eq. (12).

    The ratio of determinants is exp(g), g being the gain under the aged noise N.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        delta: Probability δ of failure, in (0, 1); the confidence band takes half of it.
        gain: Where g comes from.

    Raises:
        ValueError: If ``B`` or ``delta`` is out of range.
    """

    B: float
    delta: float
    gain: InformationGain = field(default_factory=Realized)

    def terms(self, t: int) -> Terms:
        return self.B, 1.0, 2 * math.log(2 / self.delta), 2.0
