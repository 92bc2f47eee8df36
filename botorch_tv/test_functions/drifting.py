"""Classical test functions whose optimum moves."""

from __future__ import annotations

import copy
import math
from typing import TypedDict, Unpack

import torch
from botorch.test_functions.synthetic import (
    Ackley,
    Branin,
    Hartmann,
    Rosenbrock,
    SyntheticTestFunction,
)
from torch import Tensor

from botorch_tv.test_functions.ascent import climb, derivatives_of
from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.test_functions.motion import Motion, Orbit
from botorch_tv.validation import require

Bounds = list[tuple[float, float]]


class Moving(TypedDict, total=False):
    """Options of every :class:`DriftingFunction`."""

    motion: Motion | None
    horizon: float
    noise_std: float | None
    negate: bool


class DriftingFunction(TimeVaryingTestFunction):
    """f_t(x) = g(x − p(t) + p*): a static function g shifted so that p* moves to p(t).

    The box stays and the function moves. The best value is always g(p*), exactly, provided that no
    point, inside or outside the box of g, is better than p*. That holds for the four functions
    below; their docstrings say why.

    Args:
        function: The static function g; its own noise and sign are not used.
        optimizer: The best point p* of g, `d`; by default the first that BoTorch lists.
        motion: The path p of the optimum; an :class:`Orbit` by default.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign.

    Raises:
        ValueError: If a parameter is out of range, or ``optimizer`` is not a point of the box.
    """

    _optimizer: Tensor

    def __init__(
        self,
        function: SyntheticTestFunction,
        *,
        optimizer: Tensor | None = None,
        motion: Motion | None = None,
        horizon: float = 1000.0,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        super().__init__(function._bounds, horizon=horizon, noise_std=noise_std, negate=negate)
        self._is_minimization_by_default = function._is_minimization_by_default
        self._check_grad_at_opt = function._check_grad_at_opt
        self.motion = Orbit() if motion is None else motion
        self._function = copy.deepcopy(function).to(self.bounds)
        best = self._function.optimizers[0] if optimizer is None else optimizer.to(self.bounds)
        lower, upper = self.spatial_bounds
        require(
            best.shape == lower.shape and bool(((best >= lower) & (best <= upper)).all()),
            f"{type(self).__name__}: optimizer is {best.tolist()}; give a point of the box "
            f"{function._bounds}.",
        )
        self.register_buffer("_optimizer", best)
        # Computed now, so that a later change of dtype does not change it.
        self._best = float(self._function._evaluate_true(best))

    def path(self, t: float | Tensor) -> Tensor:
        """The optimum at each time, `t.shape x d`."""
        return self._path(self._times(t))

    def optimizers_at(self, t: float) -> Tensor:
        """The best points of the box at time ``t``, `k x d`; the one on the path comes first."""
        lower, upper = self.spatial_bounds
        path = self.path(t)
        others = self._other_optimizers() + (path - self._optimizer)
        others = others[((others >= lower) & (others <= upper)).all(-1)]
        return torch.cat([path.unsqueeze(0), others])

    def _other_optimizers(self) -> Tensor:
        """Further optimizers of g, inside or outside its box, `k x d`."""
        return self._optimizer.new_empty(0, self.spatial_dim)

    def _path(self, t: Tensor) -> Tensor:
        return self.motion.path(t, self._optimizer.to(t), self.spatial_bounds.to(t))

    def _best_at(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self._best)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        shift = self._path(X[..., -1]) - self._optimizer
        value: Tensor = self._function._evaluate_true(X[..., :-1] - shift)
        return value


class DriftingAckley(DriftingFunction):
    """Ackley's function in ``dim`` coordinates, minimum 0; 0 is its least value in all of space.

    Args:
        dim: The number d of coordinates.
        bounds: Bounds of the coordinates; [-32.768, 32.768] each by default.
        motion: The path of the minimum; an :class:`Orbit` by default.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign, for maximisation.
    """

    def __init__(
        self, dim: int = 2, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        super().__init__(Ackley(dim=dim, bounds=bounds), **moving)


class DriftingBranin(DriftingFunction):
    """Branin's function, minimum 10 / (8π).

    It is a square plus 10 + 10 (1 − 1/(8π)) cos x_1, so that every odd multiple of π has a minimum
    of the same value. The one at (π, 2.275) follows the path; others enter and leave the box, and
    ``optimizers_at`` lists those inside.

    Args:
        bounds: Bounds of the coordinates; [-5, 10] x [0, 15] by default.
        motion: The path of the minimum; an :class:`Orbit` by default.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign, for maximisation.
    """

    def __init__(self, *, bounds: Bounds | None = None, **moving: Unpack[Moving]) -> None:
        minimum = torch.tensor([math.pi, 2.275], dtype=torch.float64)
        super().__init__(Branin(bounds=bounds), optimizer=minimum, **moving)

    def _other_optimizers(self) -> Tensor:
        lower, upper = self.spatial_bounds[:, 0].tolist()
        turns = math.ceil((upper - lower) / math.pi) + 1
        x = math.pi * (1 + 2 * torch.arange(-turns, turns + 1, dtype=torch.float64))
        x = x[x != math.pi]
        y = 5.1 / (4 * math.pi**2) * x.square() - 5 / math.pi * x + 6
        return torch.stack([x, y], dim=-1).to(self._optimizer)


class DriftingHartmann(DriftingFunction):
    """Hartmann's function in 3, 4 or 6 coordinates on the unit cube.

    The minimum in the cube is global: the function increases with the distance to four centres in
    the cube, coordinate by coordinate, so that projecting a point onto the cube cannot increase it.
    BoTorch gives five digits of the minimum; they are refined to machine precision.

    Args:
        dim: 3, 4 or 6.
        bounds: Bounds of the coordinates; [0, 1] each by default.
        motion: The path of the minimum; an :class:`Orbit` by default.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign, for maximisation.
    """

    def __init__(
        self, dim: int = 6, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        function = Hartmann(dim=dim, bounds=bounds)
        refined = climb(
            derivatives_of(lambda X: -function._evaluate_true(X)),
            torch.tensor(Hartmann(dim=dim)._optimizers, dtype=torch.float64),
            function.bounds.double(),
        ).X[0]
        super().__init__(function, optimizer=refined, **moving)


class DriftingRosenbrock(DriftingFunction):
    """Rosenbrock's function in ``dim`` coordinates, minimum 0; a sum of squares in all of space.

    Args:
        dim: The number d of coordinates, at least 2.
        bounds: Bounds of the coordinates; [-5, 10] each by default.
        motion: The path of the minimum; an :class:`Orbit` by default.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise; None for none.
        negate: Whether to reverse the sign, for maximisation.
    """

    def __init__(
        self, dim: int = 2, *, bounds: Bounds | None = None, **moving: Unpack[Moving]
    ) -> None:
        super().__init__(Rosenbrock(dim=dim, bounds=bounds), **moving)
