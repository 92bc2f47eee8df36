"""Confidence schedules (how many standard deviations to add to the mean) and information gains.

The papers write the multiplier of the standard deviation as β or as √β. In this library a score is
``mean + √beta * sd``, and ``beta`` is the square of ``sqrt_beta``, as in BoTorch's
``UpperConfidenceBound``. Logarithms are natural.

The information gain of n observations is g = ½ ln det(I + N^(-½) K N^(-½)), in nats, where K is
their covariance matrix and N the diagonal matrix of their noise variances. The choice of round t
uses t - 1 observations, so an :class:`InformationGain` returns the gain *after t - 1 rounds*, which
is 0 in the first round. Accordingly, round t uses γ_{t-1} in [C17] Algorithm 1 and β_{t-1} in [W22]
eq. (4).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting.base import Declaring
from botorch_tv.gp.covariance import checked
from botorch_tv.validation import require, require_integer, require_number, settle_number

GREEDY_SHARE = 1 - math.exp(-1)
"""Smallest fraction of the maximum of a monotone submodular function that greedy choice attains."""


class WidthContext(NamedTuple):
    """The inputs of a confidence schedule in round t.

    Attributes:
        t: Number of the round for which a point is chosen, counted from 1; resets do not restart
            the count.
        dim: Dimension d of the domain.
        information_gain: Information gain g of the data in use, `batch_shape`; None if it is not
            computed.
        weighted_information_gain: Information gain ḡ that the data in use would have with noise
            variances λ γ^(-2 lag), `batch_shape`; None if it is not computed.
    """

    t: int
    dim: int
    information_gain: Tensor | None = None
    weighted_information_gain: Tensor | None = None


class InformationGain(Declaring, ABC):
    """A source of the information gain in a confidence schedule."""

    DECLARED = (("given_rounds", "is_realized"), ("value",))
    given_rounds: float = 0
    """Number of first rounds in which the gain depends only on the round and the dimension."""
    is_realized: bool = False
    """Whether the gain is the ``information_gain`` of the context."""
    source: ClassVar[str] = ""
    """Name of the field of the context from which the gain is computed; empty for none."""

    @abstractmethod
    def value(self, context: WidthContext) -> float | Tensor:
        """The gain after ``context.t - 1`` rounds, in nats.

        Args:
            context: The round.

        Returns:
            A number if the value depends only on the round, else a tensor, `batch_shape`.

        Raises:
            ValueError: If the source needs a quantity that is None in ``context``.
        """


@dataclass(frozen=True)
class Realized(InformationGain):
    """The information gain of the data in use; after a reset the gain is 0 again."""

    source = "information_gain"

    @property
    def is_realized(self) -> bool:  # type: ignore[override]
        return self.source == "information_gain"

    def value(self, context: WidthContext) -> Tensor:
        gain: Tensor | None = getattr(context, self.source)
        if gain is None:
            raise ValueError(
                f"{self!r} reads {self.source} from the context, but this value is None; let the "
                "strategy compute the value, or give the width another gain: ClosedForm(kernel) or "
                "Greedy.of(...)."
            )
        return gain


class DoublyWeighted(Realized):
    """The gain ḡ that the data in use would have with noise variances λ γ^(-2 lag), [W22] eq. (5).

    [W22] uses the maximum of ḡ over all sets of points; this class uses ḡ at the points played.
    """

    source = "weighted_information_gain"


@dataclass(frozen=True)
class ClosedForm(InformationGain):
    """The asymptotic order of the maximum gain, with constant 1, [C17] §3.1.

    After n = t - 1 rounds in dimension d, the order of the gain is (ln n)^(d+1) for the squared
    exponential kernel. For a Matérn kernel the order is n^c ln n with c = d(d+1) / (2ν + d(d+1)).
    The order is not a bound: it is 0 after a single observation, and ignores lengthscale and noise.

    Args:
        kernel: ``"se"`` or ``"matern"``.
        nu: Smoothness ν of the Matérn kernel; None for ``"se"``.

    Raises:
        ValueError: If ``kernel`` is neither ``"se"`` nor ``"matern"``, if ``nu`` is not None for
            ``"se"``, or if ``nu`` is not positive and finite for ``"matern"``.
    """

    kernel: Literal["se", "matern"]
    nu: float | None = None

    given_rounds = math.inf

    def __post_init__(self) -> None:
        smooth = self.nu is not None and 0 < self.nu < math.inf
        require(
            (self.kernel == "matern" and smooth) or (self.kernel == "se" and self.nu is None),
            f"ClosedForm: kernel is {self.kernel!r} and nu is {self.nu}; choose 'se', or 'matern' "
            "with a positive, finite smoothness such as nu=2.5.",
        )

    def value(self, context: WidthContext) -> float:
        n, dim = context.t - 1, context.dim
        if n == 0:
            return 0.0
        if self.nu is None:
            return math.log(n) ** (dim + 1)
        pairs = dim * (dim + 1)
        return float(n ** (pairs / (2 * self.nu + pairs)) * math.log(n))


@dataclass(frozen=True)
class Fixed(InformationGain):
    """The same gain in every round, such as γ_t = 1 for the sensor data of [C17] §6.

    Args:
        gain: The gain in nats, at least 0.

    Raises:
        ValueError: If ``gain`` is negative or not finite.
    """

    gain: float

    given_rounds = math.inf

    def __post_init__(self) -> None:
        settle_number(self, "gain", "[0, 1e100]", "[C17] uses 1.")

    def value(self, context: WidthContext) -> float:
        return self.gain


@dataclass(frozen=True, repr=False)
class Greedy(InformationGain):
    """An upper bound on the maximum gain γ of [C17] §3.1: the greedy gain divided by 1 - 1/e.

    By Nemhauser, Wolsey and Fisher (1978), a greedy choice of arms attains at least 1 - 1/e of the
    maximum gain. Windows, resets, and noise that grows with age can only lower the gain, so the
    bound also holds in these cases. Decay of covariance (Markov, Wiener) can raise the gain, so the
    bound does not hold with decay.

    Args:
        values: Upper bounds on the gain after 0, 1, 2, ... rounds; see :meth:`of`.
    """

    values: tuple[float, ...]

    @property
    def given_rounds(self) -> float:  # type: ignore[override]
        return len(self.values)

    def __repr__(self) -> str:
        return f"Greedy({len(self.values)} values up to {max(self.values, default=0):.6g})"

    def value(self, context: WidthContext) -> float:
        require(
            1 <= context.t <= len(self.values),
            f"{self!r} covers rounds 1 to {len(self.values)}, but the round is {context.t}; build "
            "it with a longer horizon.",
        )
        return self.values[context.t - 1]

    @classmethod
    def of(cls, covariance: Tensor, noise: float, horizon: int) -> Greedy:
        """Bound the maximum gain of 0, 1, ..., ``horizon`` observations.

        The bounds come from greedy observations: each greedy observation is made at the arm with
        the largest posterior variance.

        The result is an upper bound because the gain is monotone and submodular in the multiset of
        arms played. Each greedy observation requires a rank-one update of the covariance in
        float64, at a cost of O(M²).

        Args:
            covariance: Kernel matrix of all arms, symmetric positive semi-definite, `M x M`.
            noise: Noise variance σ² (λ in [C17]), positive.
            horizon: Largest number of observations, at least 1. The result covers rounds 1 to
                horizon + 1.

        Returns:
            A :class:`Greedy` with upper bounds on the gain of 0, 1, ..., ``horizon`` observations.

        Raises:
            InputDataError: If ``covariance`` is not a covariance matrix.
            ValueError: If ``noise`` is not positive or ``horizon`` is below 1.
        """
        noise = require_number("Greedy: noise", noise, "(0, inf)", "give a variance.")
        horizon = require_integer("Greedy: horizon", horizon, 1, "give a number of rounds.")
        bound = greedy_gain(covariance, noise, horizon) / GREEDY_SHARE
        return cls((0.0, *bound.tolist()))


def greedy_gain(covariance: Tensor, noise: float, horizon: int, epsilon: float = 0.0) -> Tensor:
    """Information gains of the first 1, 2, ..., ``horizon`` greedy observations, shape `horizon`.

    Each observation is made at the arm with the largest posterior variance.

    Args:
        covariance: Kernel matrix of all arms, symmetric positive semi-definite, `M x M`.
        noise: Noise variance σ².
        horizon: Number of observations.
        epsilon: Rate of change ε of the objective between observations; 0 if the objective is
            static.

    Raises:
        InputDataError: If ``covariance`` is not a covariance matrix.
    """
    prior = posterior = checked(covariance.to(torch.float64))
    steps = []
    for _ in range(horizon):
        variance, arm = posterior.diagonal().clamp_min(0).max(0)
        steps.append(0.5 * torch.log1p(variance / noise))
        column = posterior.index_select(1, arm.unsqueeze(0))  # `M x 1`
        posterior = posterior - column @ (column.mT / (noise + variance))
        if epsilon > 0:
            posterior = (1 - epsilon) * posterior + epsilon * prior
    return torch.stack(steps).cumsum(0)


Terms = tuple[float, float, float, float]


class Width(Declaring, ABC):
    """A confidence schedule: √beta of every round."""

    DECLARED = (("round_terms",), ("sqrt_beta",))
    gain: InformationGain | None = None
    """Source of the information gain; None if the schedule uses none."""

    @abstractmethod
    def sqrt_beta(self, context: WidthContext) -> float | Tensor:
        """√beta, by which the standard deviation is multiplied in the round of ``context``.

        Args:
            context: The round and its information gain.

        Returns:
            A number if the value depends only on the round, else a tensor, `batch_shape`.

        Raises:
            ValueError: If ``context`` lacks the gain that the schedule needs.
        """

    def beta(self, context: WidthContext) -> float | Tensor:
        """The square of :meth:`sqrt_beta`, a number or `batch_shape`.

        Args:
            context: The round and its information gain.
        """
        return self.sqrt_beta(context) ** 2

    def round_terms(self, t: int, dim: int) -> Terms | None:
        """Offset, scale, constant and slope of √beta = offset + scale √(constant + slope g).

        Here g is the information gain of the data in use.

        Args:
            t: The round, counted from 1.
            dim: Dimension d of the domain.

        Returns:
            The four numbers; None if √beta has another form.
        """
        if self.gain is not None and t > self.gain.given_rounds:
            return None
        return float(self.sqrt_beta(WidthContext(t=t, dim=dim))), 0.0, 0.0, 0.0


LIMITS = {
    "B": ("[0, 1e100]", "it bounds the norm of f."),
    "R": ("[0, 1e100]", "it is a standard deviation."),
    "a1": ("[1e-100, 1e100]", "it bounds the kernel's slopes."),
    "arms": ("[1, 1e100]", "it is the number of arms."),
    "b1": ("[1e-100, 1e100]", "it bounds the kernel's slopes."),
    "c1": ("[0, 1e100]", "0 never explores."),
    "c2": ("[1e-100, 1e100]", "the papers use 4 and 0.4."),
    "delta": ("[1e-100, 1)", "it is a probability; the papers use 0.1."),
    "noise": ("[1e-100, 1e100]", "it is a variance."),
    "r": ("[1e-100, 1e100]", "it is the length of the domain's box."),
    "value": ("[0, 1e100]", "it is the square of √beta."),
}
"""Valid range of each parameter of the widths, by its name, with a hint for the error message."""


class _Checked(Width):
    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            if name in vars(self):
                settle_number(self, name, *limit)


@dataclass(frozen=True)
class Logarithmic(_Checked):
    """√beta = √(c1 ln(c2 t)) in round t, as in the experiments of [B16] §5 and [ET].

    [B16] uses c1 = 0.8, with c2 = 4 on synthetic objectives and c2 = 0.4 on measured data; [ET]
    uses c1 = 0.4, c2 = 4. As long as c2 t < 1, ln(c2 t) is replaced by 0, so the strategy does not
    explore.

    Args:
        c1: Factor c1 in √(c1 ln(c2 t)), at least 0.
        c2: Factor c2 in √(c1 ln(c2 t)), positive.

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

    KernelUCB with exploration parameter η and regularisation λ has √beta = η/√λ, [C17] §3.1:
    ``Constant(eta**2 / noise)``.

    Args:
        value: beta, the *square* of the factor that multiplies the standard deviation; at least 0.

    Raises:
        ValueError: If ``value`` is negative or not finite.
    """

    value: float

    def sqrt_beta(self, context: WidthContext) -> float:
        return math.sqrt(self.value)


@dataclass(frozen=True)
class _Bayes(_Checked):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = parts π² t² / (6 δ).

    Here t is the round. The theorems of the subclasses differ only in the number of equal ``parts``
    into which they divide the failure probability. All theorems assume P(sup_x |∂f/∂x_j| > L) <=
    a1 exp(-(L / b1)²), [B16] eq. (10), on a domain in [0, r]^d.

    Args:
        delta: Probability δ that the regret bound fails, in (0, 1).
        r: Side length of the box [0, r]^d that contains the domain, positive.
        a1: Constant a1 of the bound on the slopes of f, positive.
        b1: Constant b1 of the bound on the slopes of f, in units of f per unit of x, positive.

    Raises:
        ValueError: If a constant is out of range.
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


class BayesTV(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = π² t² / (2δ); TV-GP-UCB, [B16] eq. (19).

    Here t is the round and d the dimension of the domain. The theorem assumes
    P(sup_x |∂f/∂x_j| > L) <= a1 exp(-(L / b1)²), [B16] eq. (10). If a1 or b1 is so small that the
    argument of a root is negative in early rounds, the theorem does not cover these rounds, and
    ``sqrt_beta`` raises a ``ValueError``.

    Args:
        delta: Probability δ that the regret bound fails, in (0, 1).
        r: Side length of the box [0, r]^d that contains the domain, positive.
        a1: Constant a1 of the bound on the slopes of f, positive.
        b1: Constant b1 of the bound on the slopes of f, in units of f per unit of x, positive.

    Raises:
        ValueError: If a constant is out of range.
    """

    parts = 3


class BayesResetting(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = 2π² t² / (3δ); R-GP-UCB, [B16] eq. (16).

    The arguments are as for :class:`BayesTV`; a reset does not restart the round number t.
    """

    parts = 4


class BayesEventTriggered(_Bayes):
    """√(2 ln(A) + 2d ln(r d b1 t² √(ln(d a1 A)))), A = 4π² t² / (3δ); ET-GP-UCB, [ET] Theorem 1.

    The arguments are as for :class:`BayesTV`; δ is not the trigger's δ_B, and a reset does not
    restart the round number t.
    """

    parts = 8


@dataclass(frozen=True)
class BayesFinite(_Checked):
    """√(2 ln(|D| π² t² / (6 δ))), the width for a domain of |D| arms, [B16] footnote 1.

    This is β = 2 ln(|D| π_t / δ) with π_t = π² t² / 6. On finitely many arms, the union bound of
    [B16] (28)-(29) needs neither a discretisation nor a bound on slopes. The band covers the
    objective at all arms in all rounds with probability 1 - δ, as do the regret bounds of
    TV-GP-UCB. The regret bounds of R-GP-UCB and ET-GP-UCB also bound |y_t|, and that of ET-GP-UCB
    the time until a reset: pass half of their δ for R-GP-UCB, and a quarter for ET-GP-UCB.

    Args:
        delta: Probability δ that the confidence band fails, in (0, 1).
        arms: Number |D| of arms, at least 1.

    Raises:
        ValueError: If ``delta`` or ``arms`` is out of range.
    """

    delta: float
    arms: float

    def sqrt_beta(self, context: WidthContext) -> float:
        union = self.arms * math.pi**2 * context.t**2 / (6 * self.delta)
        return math.sqrt(2 * math.log(union))


class GainWidth(_Checked):
    """A width √beta = offset + scale √(constant + slope g), where g is the information gain."""

    gain: InformationGain

    @abstractmethod
    def terms(self, t: int) -> Terms:
        """Offset, scale, constant and slope of √beta = offset + scale √(constant + slope g).

        Args:
            t: The round, counted from 1.
        """

    def sqrt_beta(self, context: WidthContext) -> float | Tensor:
        offset, scale, constant, slope = self.terms(context.t)
        gain = self.gain.value(context)
        if isinstance(gain, Tensor):  # rsub computes product and sum in one device operation
            root = torch.rsub(gain, constant, alpha=-slope).sqrt()
            return torch.rsub(root, offset, alpha=-scale)
        return offset + scale * math.sqrt(constant + slope * gain)

    def round_terms(self, t: int, dim: int) -> Terms | None:
        return self.terms(t) if self.gain.is_realized else super().round_terms(t, dim)


@dataclass(frozen=True)
class _OfNorm(GainWidth):
    """A width with two constants: a bound B on the norm of f, and the failure probability δ."""

    B: float
    delta: float
    gain: InformationGain = field(default_factory=Realized)


class AgnosticGPUCB(_OfNorm):
    """√(2B² + 300 g ln³(t/δ)), the agnostic GP-UCB quoted in [C17] §3.1.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Source of the information gain g.

    Raises:
        ValueError: If ``B`` or ``delta`` is out of range.
    """

    def terms(self, t: int) -> Terms:
        return 0.0, 1.0, 2 * self.B**2, 300 * math.log(t / self.delta) ** 3


@dataclass(frozen=True)
class IGPUCB(GainWidth):
    """IGP-UCB: B + R √(2(g + 1 + ln(1/δ))), [C17] Algorithm 1.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        R: Sub-Gaussian constant of the noise, at least 0; if the noise is normal, its standard
            deviation.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Source of the information gain g.

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

    The square root covers both 2 ln(1/δ) and 2ḡ, as in [W22] Theorem 2; the line under eq. (4) of
    [W22] is a misprint.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        R: Sub-Gaussian constant of the noise, at least 0; if the noise is normal, its standard
            deviation.
        noise: Regularisation λ, the noise variance of the newest observation; positive.
        delta: Probability δ that the confidence band fails, in (0, 1).
        gain: Source of the information gain ḡ.

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


class Heteroscedastic(_OfNorm):
    """√(2 ln(2 |N + K|^½ / (δ |N|^½))) + B = √(2(g + ln(2/δ))) + B, [M] eq. (12).

    Here K is the covariance matrix of the observations, N the diagonal matrix of their aged noise
    variances, and g = ½ ln(|N + K| / |N|) the information gain.

    Args:
        B: Bound on the norm of f in the kernel's function space, at least 0.
        delta: Parameter δ of the width, in (0, 1). The confidence band fails with a probability of
            at most δ / 2.
        gain: Source of the information gain g.

    Raises:
        ValueError: If ``B`` or ``delta`` is out of range.
    """

    def terms(self, t: int) -> Terms:
        return self.B, 1.0, 2 * math.log(2 / self.delta), 2.0
