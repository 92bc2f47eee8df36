"""The interface of time-varying test functions."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import torch
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_tv.validation import require, require_number


class TimeVaryingTestFunction(SyntheticTestFunction, ABC):  # type: ignore[misc]
    """A test function of d coordinates and of time, which is the last column of X.

    ``problem(X)`` and ``problem.evaluate_true(X)`` work as in BoTorch. X is
    `batch_shape x n x (d + 1)`; its points may have different times. X is also a valid training
    input of a model with a time column. ``bounds`` has d + 1 columns, the last of which is for
    time. ``spatial_bounds`` is the box over which the function is optimised. The optimum depends on
    time: ``optimal_value_at(t)`` and ``optimizers_at(t)`` replace ``optimal_value`` and
    ``optimizers``. Most test functions are costs, which are minimised; with ``negate=True`` they
    are maximised. ``is_minimization_problem`` states the direction.

    Args:
        spatial_bounds: Lower and upper bound of each coordinate.
        horizon: End of the range of times, [0, horizon].
        noise_std: Standard deviation of the observation noise; None for no noise.
        negate: Whether to reverse the sign of the function.

    Attributes:
        batch_shape: Batch shape if the problem has several functions; empty for a single function.
        horizon: The latest time.
        spatial_dim: The number d of coordinates.

    Raises:
        ValueError: If ``horizon`` is not positive and finite.
    """

    batch_shape: torch.Size = torch.Size()
    bounds: Tensor

    def __init__(
        self,
        spatial_bounds: Sequence[tuple[float, float]],
        *,
        horizon: float,
        noise_std: float | None,
        negate: bool,
    ) -> None:
        name = type(self).__name__
        fix = "it is the latest time; 1000 is usual."
        horizon = require_number(f"{name}: horizon", horizon, "(0, inf)", fix)
        require(
            all(-math.inf < lower < upper < math.inf for lower, upper in spatial_bounds),
            f"{name}: bounds are {spatial_bounds}; give pairs of a lower and a larger upper bound, "
            "all finite.",
        )
        self.spatial_dim = len(spatial_bounds)
        self.dim = self.spatial_dim + 1
        self.horizon = horizon
        if not self.discrete_inds:
            self.continuous_inds = list(range(self.dim))
        self._bounds = [*spatial_bounds, (0.0, float(horizon))]
        super().__init__(noise_std=noise_std, negate=negate)

    @property
    def spatial_bounds(self) -> Tensor:
        """Bounds of the coordinates without time, `2 x d`."""
        return self.bounds[:, :-1]

    def optimal_value_at(self, t: float | Tensor) -> Tensor:
        """The best noiseless value over the box at time ``t``; ``negate`` reverses its sign.

        Args:
            t: A scalar time, or times of the shape of ``X[..., -1]``.

        Returns:
            Best values, of shape `batch_shape` if ``t`` is a scalar, and otherwise of the shape of
            ``t``.

        Raises:
            ValueError: If a time lies outside [0, horizon].
        """
        value = self._best_at(self._times(t))
        return -value if self.negate else value

    @abstractmethod
    def optimizers_at(self, t: float) -> Tensor:
        """The points with the best value at time ``t``, `batch_shape x k x d`.

        Args:
            t: A scalar time.

        Raises:
            ValueError: If ``t`` lies outside [0, horizon].
        """

    def regret(self, X: Tensor) -> Tensor:
        """Noiseless regret: by how much a point is worse than the best point at its time.

        Regret, `batch_shape x n`, is at least 0, except for the numerical error of
        :meth:`optimal_value_at`.

        Args:
            X: Points and their times, `batch_shape x n x (d + 1)`.
        """
        value: Tensor = self.evaluate_true(X)
        excess = value - self._best_at(X[..., -1])
        return excess if self._is_minimization_by_default else -excess

    def at(self, t: float) -> Snapshot:
        """The function of the d coordinates at time ``t``.

        Args:
            t: A scalar time.

        Raises:
            ValueError: If ``t`` lies outside [0, horizon], or if ``batch_shape`` is not empty.
        """
        return Snapshot(self, t)

    @property
    def optimizers(self) -> Tensor:
        """Not defined (raises an error), because the optimum moves."""
        raise NotImplementedError("The optimum moves: use optimizers_at(t), or at(t).optimizers.")

    @abstractmethod
    def _best_at(self, t: Tensor) -> Tensor:
        """The best values at times in [0, horizon], before ``negate`` reverses their sign."""

    def _times(self, t: float | Tensor) -> Tensor:
        times = torch.as_tensor(t, dtype=self.bounds.dtype, device=self.bounds.device)
        outside = times[~((times >= 0) & (times <= self.horizon))]
        require(
            not len(outside),
            f"{type(self).__name__}: time is {outside[:1].tolist()}, but it must lie in "
            f"[0, {self.horizon}]; give another time, or a larger horizon.",
        )
        return times


class SearchedFunction(TimeVaryingTestFunction):
    """A function that finds its optimum at a time by a numerical search and caches the result."""

    def optimizers_at(self, t: float) -> Tensor:
        time = self._times(t)
        self._best_at(time)
        return self._optima[float(time)][1].unsqueeze(0).to(self.bounds)

    @cached_property
    def _optima(self) -> dict[float, tuple[float, Tensor]]:
        """The optimal value (before ``negate``) and the optimum, for each time already searched."""
        return {}

    def _best_at(self, t: Tensor) -> Tensor:
        times = t.detach().double().flatten().tolist()
        missing = sorted(set(times) - self._optima.keys())
        if missing:
            self._optima.update(zip(missing, self._search(missing)))
        found = [self._optima[time][0] for time in times]
        return torch.tensor(found, dtype=torch.float64, device="cpu").reshape(t.shape).to(t)

    @abstractmethod
    def _search(self, times: list[float]) -> Iterable[tuple[float, Tensor]]:
        """For each time, find the best value, before ``negate``, and the best point, `d`."""


class Snapshot(SyntheticTestFunction):  # type: ignore[misc]
    """A time-varying test function at a fixed time, as a BoTorch test function.

    Args:
        problem: The time-varying function. Problem and snapshot share tensors until one of the two
            moves to another device or dtype.
        t: The fixed time, a scalar.

    Raises:
        ValueError: If ``t`` lies outside [0, horizon], or if ``problem.batch_shape`` is not empty.
    """

    def __init__(self, problem: TimeVaryingTestFunction, t: float) -> None:
        name = type(problem).__name__
        require(
            problem.batch_shape == torch.Size(),
            f"{name}: batch_shape is {tuple(problem.batch_shape)}, but a snapshot is a single "
            "function; use batch_shape=().",
        )
        best = problem.optimal_value_at(t).item()
        places = problem.optimizers_at(t)
        lower, upper = problem.spatial_bounds
        self.dim = problem.spatial_dim
        self.continuous_inds = list(range(self.dim))
        self._bounds = problem._bounds[:-1]
        self._optimal_value = -best if problem.negate else best
        self._optimizers = [tuple(place) for place in places.tolist()]
        self._is_minimization_by_default = problem._is_minimization_by_default
        # If a best point lies on the boundary of the box, the gradient at this point need not be 0.
        inside = bool(((places > lower) & (places < upper)).all())
        self._check_grad_at_opt = problem._check_grad_at_opt and inside
        super().__init__(noise_std=problem.noise_std, negate=problem.negate)
        self.time = t
        # The problem is copied, but not its tensors: if the snapshot is moved to another device,
        # the problem stays.
        self._problem = copy.deepcopy(
            problem, {id(retained): retained for retained in problem.buffers()}
        )
        self.to(problem.bounds)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        times = X.new_full((*X.shape[:-1], 1), self.time)
        return self._problem._evaluate_true(torch.cat([X, times], dim=-1))
