"""Sources of the information gain g in a confidence schedule.

The gain of n observations is g = ½ ln det(I + N^(-½) K N^(-½)), in nats. Round t is decided given
t - 1 observations, so every source returns the gain *after t - 1 rounds*, 0 in the first round:
[C17] Algorithm 1 uses γ_{t-1}, and [W22] eq. (4) uses β_{t-1} in the same sense.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.covariance import checked
from botorch_tv.validation import require, require_integer, require_number, settle_number

GREEDY_SHARE = 1 - math.exp(-1)
"""Greedy choice reaches at least this share of the maximum of a monotone submodular function."""


class WidthContext(NamedTuple):
    """What a confidence schedule may use to decide round t.

    Attributes:
        t: The round being decided, counted from 1; resets do not restart it.
        dim: Dimension d of the domain.
        information_gain: Gain g of the data in use, `batch_shape`; None where not computed.
        weighted_information_gain: The same with noise λ γ^(-2 lag), `batch_shape`, or None.
    """

    t: int
    dim: int
    information_gain: Tensor | None = None
    weighted_information_gain: Tensor | None = None


class InformationGain(ABC):
    """A source of the information gain in a confidence schedule."""

    @abstractmethod
    def value(self, context: WidthContext) -> float | Tensor:
        """The gain after ``context.t - 1`` rounds, in nats.

        Returns:
            A number if it depends only on the round, else a tensor, `batch_shape`.

        Raises:
            ValueError: If it needs a quantity that ``context`` lacks.
        """


@dataclass(frozen=True)
class Realized(InformationGain):
    """The information gain of the data in use, which restarts from 0 after a reset."""

    def value(self, context: WidthContext) -> Tensor:
        return _given(context.information_gain, "Realized", "information_gain")


@dataclass(frozen=True)
class DoublyWeighted(InformationGain):
    """The gain of the data in use under noise λ γ^(-2 lag), ḡ of [W22] eq. (5).

    [W22] takes the maximum over all sets of points; this is the value for the points played.
    """

    def value(self, context: WidthContext) -> Tensor:
        return _given(
            context.weighted_information_gain, "DoublyWeighted", "weighted_information_gain"
        )


@dataclass(frozen=True)
class ClosedForm(InformationGain):
    """The order of the maximum gain with constant 1, [C17] §3.1.

    After n = t - 1 rounds: (ln n)^(d+1) for the squared exponential kernel, n^c ln n with
    c = d(d+1) / (2ν + d(d+1)) for a Matérn kernel. An order, not a bound: it is 0 after one
    observation, and ignores lengthscale and noise.

    Args:
        kernel: ``"se"`` or ``"matern"``.
        nu: Smoothness ν of the Matérn kernel; None for ``"se"``.

    Raises:
        ValueError: If ``kernel`` is unknown, or ``nu`` does not go with it.
    """

    kernel: Literal["se", "matern"]
    nu: float | None = None

    def __post_init__(self) -> None:
        require(
            self.kernel in ("se", "matern"),
            f"ClosedForm: kernel is {self.kernel!r}; choose 'se' or 'matern'.",
        )
        smooth = self.nu is not None and 0 < self.nu < math.inf
        require(
            smooth if self.kernel == "matern" else self.nu is None,
            f"ClosedForm: nu is {self.nu} for {self.kernel!r}; 'matern' needs a positive, finite "
            "smoothness such as 2.5, and 'se' has none.",
        )

    def value(self, context: WidthContext) -> float:
        told, dim = context.t - 1, context.dim
        if told == 0:
            return 0.0
        if self.nu is None:
            return math.log(told) ** (dim + 1)
        pairs = dim * (dim + 1)
        return float(told ** (pairs / (2 * self.nu + pairs)) * math.log(told))


@dataclass(frozen=True)
class Fixed(InformationGain):
    """The same gain in every round, such as the γ_t = 1 of [C17] §6 on sensors.

    Args:
        gain: In nats, at least 0.

    Raises:
        ValueError: If ``gain`` is negative or not finite.
    """

    gain: float

    def __post_init__(self) -> None:
        settle_number(self, "gain", "[0, 1e100]", "[C17] uses 1.")

    def value(self, context: WidthContext) -> float:
        return self.gain


@dataclass(frozen=True, repr=False)
class Greedy(InformationGain):
    """An upper bound on the maximum gain γ of [C17] §3.1: the greedy value / (1 - 1/e).

    The factor is the guarantee of Nemhauser, Wolsey and Fisher (1978) for greedy choice. Noise
    that grows with age, windows and resets only lower the gain, so the bound covers them; decay of
    covariance (Markov, Wiener) can raise it, and is not covered.

    Args:
        values: The bound after 0, 1, 2, ... rounds; see :meth:`of`.
    """

    values: tuple[float, ...]

    def __repr__(self) -> str:
        return f"Greedy({len(self.values)} values up to {max(self.values, default=0):.6g})"

    def value(self, context: WidthContext) -> float:
        require(
            1 <= context.t <= len(self.values),
            f"{self!r} is asked about round {context.t}, but reaches rounds 1 to "
            f"{len(self.values)}; build it with a longer horizon.",
        )
        return self.values[context.t - 1]

    @classmethod
    def of(cls, covariance: Tensor, noise: float, horizon: int) -> Greedy:
        """Bound the maximum gain by observing the most uncertain arm ``horizon`` times.

        Gain is monotone and submodular in the multiset of arms played, hence the bound. Each
        step is a rank-one update of the covariance, O(M²); it runs in float64.

        Args:
            covariance: The kernel on all pairs of arms, symmetric positive semi-definite, `M x M`.
            noise: Noise variance σ² (λ in [C17]), positive.
            horizon: Largest number of observations, at least 1; rounds 1 to horizon + 1 can ask.

        Returns:
            The bound after 0 to ``horizon`` observations.

        Raises:
            InputDataError: If ``covariance`` is no covariance matrix.
            ValueError: If ``noise`` is not positive or ``horizon`` is below 1.
        """
        noise = require_number(
            "Greedy: noise", noise, "(0, inf)", "give the variance of the observations."
        )
        horizon = require_integer(
            "Greedy: horizon", horizon, 1, "give the number of rounds to be played."
        )
        bound = greedy_gain(covariance, noise, horizon) / GREEDY_SHARE
        return cls((0.0, *bound.tolist()))


def greedy_gain(covariance: Tensor, noise: float, horizon: int, epsilon: float = 0.0) -> Tensor:
    """The gain of arms whose variance is the largest left, after 1 to ``horizon`` observations.

    Args:
        covariance: As in :meth:`Greedy.of`, as the next two.
        noise: σ².
        horizon: Observations.
        epsilon: Rate at which the objective is redrawn between them.

    Raises:
        InputDataError: If ``covariance`` is no covariance matrix.
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


def _given(gain: Tensor | None, source: str, field: str) -> Tensor:
    if gain is None:
        raise ValueError(
            f"{source}() reads {field} from the context, but it is None; have the strategy compute "
            "it, or give the width another gain: ClosedForm(kernel) or Greedy.of(...)."
        )
    return gain
