"""The ten synthetic functions of the W-DBO paper, Bardou, Thiran and Ranieri 2024."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from botorch.test_functions.synthetic import (
    Ackley,
    EggHolder,
    Hartmann,
    Powell,
    Rastrigin,
    Rosenbrock,
    Shekel,
    StyblinskiTang,
    SyntheticTestFunction,
)
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.test_functions.sliced import SlicedFunction
from botorch_tv.validation import require_number

_POINTS = 2**13
"""Points for computing the variance of a function."""


class Schwefel(SyntheticTestFunction):  # type: ignore[misc]
    """Schwefel's function, 418.9829 d − Σ_i x_i sin √|x_i| on [-500, 500]^d.

    The constant has full precision, so that the minimum is 0.

    Args:
        dim: Number of coordinates d.
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign.
    """

    _optimal_value = 0.0

    def __init__(
        self, dim: int = 2, *, noise_std: float | None = None, negate: bool = False
    ) -> None:
        self.dim = dim
        self.continuous_inds = list(range(dim))
        self._bounds = [(-500.0, 500.0)] * dim
        self._optimizers = [(_SCHWEFEL,) * dim]
        super().__init__(noise_std=noise_std, negate=negate)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        constant = _SCHWEFEL * math.sin(math.sqrt(_SCHWEFEL))
        found: Tensor = constant * self.dim - (X * X.abs().sqrt().sin()).sum(-1)
        return found


_SCHWEFEL = 420.96874635998194
"""The maximiser of x sin √x: the root of tan √x = −√x / 2 nearest to 421."""


class _Member(NamedTuple):
    """A function of the suite.

    Attributes:
        build: Constructs it.
        starts: Starting points for the search in slices, `n x d`; None for none.
    """

    build: Callable[[], SyntheticTestFunction]
    starts: Callable[[SyntheticTestFunction], Tensor | None] = lambda function: None


def _listed(function: SyntheticTestFunction) -> Tensor:
    """BoTorch's optimizers without time; optimal in every slice of a sum over coordinates."""
    return torch.tensor(function._optimizers, dtype=torch.float64, device="cpu")[:, :-1]


_MEMBERS = {
    "rastrigin": _Member(lambda: Rastrigin(dim=5, bounds=[(-4.0, 4.0)] * 5), _listed),
    "schwefel": _Member(lambda: Schwefel(dim=4), _listed),
    "styblinski-tang": _Member(lambda: StyblinskiTang(dim=4), _listed),
    "eggholder": _Member(EggHolder),
    # Not a sum, but a monotone function of the sums of squares and of cosines.
    "ackley": _Member(lambda: Ackley(dim=4, bounds=[(-32.0, 32.0)] * 4), _listed),
    "rosenbrock": _Member(lambda: Rosenbrock(dim=3, bounds=[(-1.0, 1.5)] * 3)),
    "shekel": _Member(Shekel, lambda function: function.C[:, :-1].double()),
    "hartmann-3": _Member(lambda: Hartmann(dim=3), lambda function: function.P[:, :-1] / 1e4),
    "hartmann-6": _Member(lambda: Hartmann(dim=6), lambda function: function.P[:, :-1] / 1e4),
    "powell": _Member(Powell),  # convex: ascent finds the optimum from any start
}


def sliced_suite(
    *, horizon: float = 600.0, noise: float = 0.05, negate: bool = False
) -> dict[str, SlicedFunction]:
    """The ten synthetic functions of W-DBO, Rastrigin to Powell, with time as a coordinate.

    Each has d + 1 coordinates, the last of which is time and runs through its range, as in appendix
    H of "This Too Shall Pass: Removing Stale Observations in Dynamic Bayesian Optimization". Use
    them in a study with ``BoxWorld(sliced_suite()["shekel"])``.

    The appendix was not available. That time is the last coordinate, the share of noise, and the
    boxes of Rastrigin, Ackley and Rosenbrock are taken from quotations of it; most dimensions from
    the table of a later paper. Other boxes are the usual ones, and the four dimensions of
    Styblinski-Tang are a guess. Keep that in mind when comparing with W-DBO's own figures.

    In the paper, time is wall time, 600 seconds, so that slower algorithms make fewer measurements;
    in a study it is counted in rounds.

    Args:
        horizon: Time runs over [0, horizon].
        noise: Variance of the observation noise, as a share of the function's variance over its
            box and all times; 0.05 in the paper.
        negate: Whether to reverse the sign, for maximisation; all are costs.

    Returns:
        The ten by name: rastrigin, schwefel, styblinski-tang, eggholder, ackley, rosenbrock,
        shekel, hartmann-3, hartmann-6, powell.

    Raises:
        ValueError: If a number is out of range.
    """
    noise = require_number("sliced_suite: noise", noise, "[0, inf)", "the paper uses 0.05.")
    found = {}
    for name, member in _MEMBERS.items():
        function = member.build()
        lower, upper = function.bounds
        X = lower + (upper - lower) * even_points(_POINTS, function.dim).to(lower)
        found[name] = SlicedFunction(
            function,
            starts=member.starts(function),
            horizon=horizon,
            noise_std=math.sqrt(noise * float(function._evaluate_true(X).var())),
            negate=negate,
        )
    return found
