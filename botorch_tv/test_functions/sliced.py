"""Static test functions whose last coordinate serves as time; the ten functions of W-DBO.

W-DBO is the algorithm of Bardou, Thiran and Ranieri (2024).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from functools import partial

import torch
from botorch.exceptions import InputDataError
from botorch.test_functions.base import ConstrainedBaseTestProblem
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
from botorch_tv.test_functions.base import SearchedFunction
from botorch_tv.test_functions.search import climb_best, derivatives_of
from botorch_tv.validation import require, require_number

_SLICE_POINTS = 2**13
"""Number of evenly spread candidates for the optimum at each time."""

_STARTS = 16
"""Number of best candidates from which ascents start at each time."""

_TOGETHER = 16
"""Number of points in time whose optima are searched together; a limit saves memory."""


class SlicedFunction(SearchedFunction):
    """f_t(x) = g(x, τ(t)): a static function g of d + 1 coordinates, the last of which is time.

    Over [0, horizon], τ increases linearly from the lower bound of the last coordinate to its upper
    bound. The best value at a time is found by damped Newton ascents from ``starts`` and from the
    best 16 of 8,192 evenly spread points. The best value is exact up to rounding if an ascent
    starts in the basin of the optimum. If the function has many local optima, give ``starts``.

    Args:
        function: The static function g; its ``noise_std`` and ``negate`` are not used.
        starts: Starting points of ascents at every time, in addition to the best 16 points,
            `n x d`.
        horizon: End of the range of times, [0, horizon].
        noise_std: Standard deviation of the observation noise; None for no noise.
        negate: Whether to reverse the sign of the function.

    Attributes:
        starts: A copy of the given starting points, `n x d`. Regret depends on the starting points,
            so studies with different starting points are different studies.

    Raises:
        ValueError: If a parameter is out of range; if ``function`` has fewer than two coordinates;
            if a coordinate of ``function`` is not continuous; or if ``function`` has constraints.
        InputDataError: If ``starts`` are not points of the box.
    """

    def __init__(
        self,
        function: SyntheticTestFunction,
        *,
        starts: Tensor | None = None,
        horizon: float = 600.0,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        constrained = isinstance(function, ConstrainedBaseTestProblem)
        require(
            function.dim >= 2
            and not (constrained or function.discrete_inds or function.categorical_inds),
            f"SlicedFunction: {type(function).__name__} has {function.dim} coordinates; give a "
            "function of two or more coordinates (the last is time), all continuous, without "
            "constraints.",
        )
        super().__init__(function._bounds[:-1], horizon=horizon, noise_std=noise_std, negate=negate)
        self._is_minimization_by_default = function._is_minimization_by_default
        self._check_grad_at_opt = function._check_grad_at_opt
        self._function = copy.deepcopy(function).to(self.bounds)
        self._span = function._bounds[-1]
        lower, upper = box = self.spatial_bounds.detach().cpu().double()
        self.starts = box[:0] if starts is None else starts.detach().cpu().double().clone()
        fits = self.starts.shape[1:] == lower.shape
        if not (fits and bool(((self.starts >= lower) & (self.starts <= upper)).all())):
            raise InputDataError(
                f"SlicedFunction: starts has shape {tuple(self.starts.shape)}, or points outside "
                f"the box; give points of the box without time, n x {self.spatial_dim}."
            )

    def _at_times(self, X: Tensor, t: Tensor) -> Tensor:
        """Points of the static function, made from points `... x d` and times `...`."""
        lower, upper = self._span
        last = lower + (upper - lower) * (t / self.horizon)
        return torch.cat([X, last.unsqueeze(-1)], -1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._function._evaluate_true(self._at_times(X[..., :-1], X[..., -1]))

    def _search(self, times: list[float]) -> Iterable[tuple[float, Tensor]]:
        # The search runs in float64 on a CPU, so the best values do not depend on dtype and device.
        function = copy.deepcopy(self._function).to("cpu", torch.float64)
        lower, upper = box = self.spatial_bounds.detach().cpu().double()
        even = lower + (upper - lower) * even_points(_SLICE_POINTS, self.spatial_dim).to(box)
        sign = -1 if self._is_minimization_by_default else 1

        def value(X: Tensor, t: Tensor) -> Tensor:
            return sign * function._evaluate_true(self._at_times(X, t))

        asked = torch.tensor(times, dtype=torch.float64, device="cpu")
        for some in torch.split(asked, _TOGETHER):
            seen = value(even.expand(len(some), -1, -1), some.unsqueeze(-1).expand(-1, len(even)))
            promising = even[seen.topk(_STARTS).indices]
            starts = torch.cat([self.starts.expand(len(some), -1, -1), promising], 1)
            own = some.repeat_interleave(starts.shape[1])
            places, best = climb_best(derivatives_of(partial(value, t=own)), starts, box)
            yield from zip((sign * best).tolist(), places)


_POINTS = 2**13
"""Number of points at which a function's variance, which sets its noise, is estimated."""


class Schwefel(SyntheticTestFunction):  # type: ignore[misc]
    """Schwefel's function, 418.9829 d − Σ_i x_i sin √|x_i| on [-500, 500]^d.

    The code uses the constant 418.9829 in full precision, so the minimum is 0.

    Args:
        dim: Number of coordinates d.
    """

    _optimal_value = 0.0

    def __init__(self, dim: int = 2) -> None:
        self.dim = dim
        self.continuous_inds = list(range(dim))
        self._bounds = [(-500.0, 500.0)] * dim
        self._optimizers = [(_SCHWEFEL,) * dim]
        super().__init__()

    def _evaluate_true(self, X: Tensor) -> Tensor:
        constant = _SCHWEFEL * math.sin(math.sqrt(_SCHWEFEL))
        return constant * self.dim - (X * X.abs().sqrt().sin()).sum(-1)


_SCHWEFEL = 420.96874635998194
"""The maximiser of x sin √x on [0, 500]: the root of tan √x = −√x / 2 nearest to 421."""


def sliced_suite(
    *, horizon: float = 600.0, noise: float = 0.05, negate: bool = False
) -> dict[str, SlicedFunction]:
    """The ten synthetic functions of W-DBO, Rastrigin to Powell, with time as the last coordinate.

    Each function has d + 1 coordinates; the last coordinate is time and runs through its range, as
    in appendix H of "This Too Shall Pass: Removing Stale Observations in Dynamic Bayesian
    Optimization". For a study of a function, use the world ``BoxWorld(sliced_suite()["shekel"])``.

    Most settings come from papers that quote appendix H: the dimensions of most functions, the
    share of noise, the boxes of Rastrigin, Ackley and Rosenbrock, and time as the last coordinate.
    All functions except Rastrigin, Ackley and Rosenbrock have the boxes in common use. The
    dimension of Styblinski-Tang, four, is a guess. Results may therefore differ from the results of
    the W-DBO paper.

    In the paper, a run lasts 600 seconds of wall time, so slower algorithms make fewer
    measurements. In this library, time is counted in rounds, and the wall time of a round has no
    effect.

    Args:
        horizon: End of the range of times, [0, horizon].
        noise: Variance of the observation noise, divided by the variance of the function over its
            box and all times; 0.05 in the paper.
        negate: Whether to reverse the sign of the functions, for maximisation; all functions are
            costs.

    Returns:
        The ten functions by name: rastrigin, schwefel, styblinski-tang, eggholder, ackley,
        rosenbrock, shekel, hartmann-3, hartmann-6, powell.

    Raises:
        ValueError: If a number is out of range.
    """
    noise = require_number("sliced_suite: noise", noise, "[0, inf)", "the paper uses 0.05.")
    functions: dict[str, SyntheticTestFunction] = {
        "rastrigin": Rastrigin(dim=5, bounds=[(-4.0, 4.0)] * 5),
        "schwefel": Schwefel(dim=4),
        "styblinski-tang": StyblinskiTang(dim=4),
        "eggholder": EggHolder(),
        "ackley": Ackley(dim=4, bounds=[(-32.0, 32.0)] * 4),
        "rosenbrock": Rosenbrock(dim=3, bounds=[(-1.0, 1.5)] * 3),
        "shekel": Shekel(),
        "hartmann-3": Hartmann(dim=3),
        "hartmann-6": Hartmann(dim=6),
        "powell": Powell(),  # it is convex, so any ascent finds the optimum
    }
    # If a function is a sum over coordinates, BoTorch's optimizers without the last coordinate are
    # optimal at every time. BoTorch's optimizers of Ackley are also optimal without the last
    # coordinate, because Ackley is a monotone function of a sum of squares and of a sum of cosines.
    starts = {
        name: torch.tensor(functions[name]._optimizers, dtype=torch.float64, device="cpu")[:, :-1]
        for name in ("rastrigin", "schwefel", "styblinski-tang", "ackley")
    }
    starts["shekel"] = functions["shekel"].C[:, :-1].double()
    for name in ("hartmann-3", "hartmann-6"):
        starts[name] = functions[name].P[:, :-1] / 1e4
    found = {}
    for name, function in functions.items():
        lower, upper = function.bounds
        X = lower + (upper - lower) * even_points(_POINTS, function.dim).to(lower)
        found[name] = SlicedFunction(
            function,
            starts=starts.get(name),
            horizon=horizon,
            noise_std=math.sqrt(noise * float(function._evaluate_true(X).var())),
            negate=negate,
        )
    return found
