"""Policy search on a cart-pole whose bearing friction changes, [ET] §5 and Table 6."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.test_functions.cart_pole_system import CartPoleSystem
from botorch_tv.test_functions.linear_quadratic import average_cost, optimal_gain
from botorch_tv.validation import require, require_number

GAINS = ((-3.0, -2.0), (-6.0, -4.0), (-50.0, -25.0), (-4.0, -2.0))
"""The box of gains, [ET] Table 6."""

SCALES = (1 / 8, 1 / 4, 3.0, 1 / 8)
"""A gain is a coordinate times its scale, [ET] Table 6."""


class CartPole(TimeVaryingTestFunction):
    """The cost of balancing a pole with the force u = −gain · state, in units of the first optimum.

    X holds gains divided by the paper's scales, in which lengthscales of a few units fit all four,
    and time. The cost is the long-run mean of xᵀQx + r u² of the linearised system under random
    disturbances, exact by a Lyapunov equation; it is divided by the best cost before the change.
    The best gain solves the Riccati equation, for every disturbance at once, so regret is exact to
    rounding. With the standard system it lies inside the box at both frictions, and costs 1 and
    2.18; keeping the first gain after the change costs 2.81.

    Gains under which the pole falls, and all that cost more than ``limit``, cost ``limit``: with
    the standard system and limit none in the box before the change, and about one in eight
    after it, a quarter of which let the pole fall. There the cost is flat.

    Args:
        system: The machine and its cost.
        change: From this time on the friction is the new one.
        factor: Friction of the bearing after the change over that before, at least 0.
        limit: The highest cost, in units of the best cost before the change.
        horizon: Time runs over [0, horizon].
        noise_std: Standard deviation of the observation noise, in the same units; None for none.
            The paper's variance of 0.02 is ``0.02**0.5``.
        negate: Whether to reverse the sign, for maximisation.

    Raises:
        ValueError: If a parameter is out of range, the best gain of some time lies outside the box,
            or it costs more than ``limit``.
    """

    _dynamics: Tensor
    _inputs: Tensor
    _optimal_gains: Tensor

    def __init__(
        self,
        system: CartPoleSystem | None = None,
        *,
        change: float = 100.0,
        factor: float = 2.5,
        limit: float = 5.0,
        horizon: float = 300.0,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        require_number("CartPole: change", change, "(-inf, inf)", "the paper's time is 250.")
        factor = require_number("CartPole: factor", factor, "[0, inf)", "the paper uses 2.5.")
        limit = require_number("CartPole: limit", limit, "(1, inf)", "1 is the best cost.")
        box = [(low / s, high / s) for (low, high), s in zip(GAINS, SCALES)]
        super().__init__(box, horizon=horizon, noise_std=noise_std, negate=negate)
        self.system = CartPoleSystem() if system is None else system
        self.change = change
        self.factor = factor
        self.limit = limit
        friction = self.system.bearing_friction
        pairs = [self.system.dynamics(friction), self.system.dynamics(friction * factor)]
        dynamics, inputs = (torch.stack(list(parts)) for parts in zip(*pairs))
        self.register_buffer("_dynamics", dynamics)
        self.register_buffer("_inputs", inputs)
        self._unit = 1.0
        gains = torch.stack([self._best_gain(A, B) for A, B in pairs])
        self.register_buffer("_optimal_gains", gains)
        self._unit = float(self._cost(gains, torch.tensor([0, 1]))[0])
        self._best = (self._cost(gains, torch.tensor([0, 1])) / self._unit).tolist()
        require(
            self._best[1] <= limit,
            f"CartPole: limit is {limit}, but the best cost after the change is {self._best[1]}; "
            "give a higher limit.",
        )

    def gains(self, X: Tensor) -> Tensor:
        """The gains, `... x 4`, that the first four columns of X stand for."""
        return X[..., :4] * X.new_tensor(SCALES)

    def optimizers_at(self, t: float) -> Tensor:
        """The solution of the Riccati equation in the coordinates of X, `1 x 4`."""
        phase = self._phase(self._times(t))
        return (self._optimal_gains[phase] / self._optimal_gains.new_tensor(SCALES)).unsqueeze(0)

    def _best_at(self, t: Tensor) -> Tensor:
        return t.new_tensor(self._best)[self._phase(t)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # In float32 the Lyapunov equation of a nearly unstable loop loses all digits.
        cost = self._cost(self.gains(X.double()), self._phase(X[..., -1])) / self._unit
        return cost.clamp(max=self.limit).to(X.dtype)

    def _phase(self, t: Tensor) -> Tensor:
        return (t.detach() >= self.change).long()

    def _cost(self, gains: Tensor, phase: Tensor) -> Tensor:
        A, B = self._dynamics.double()[phase], self._inputs.double()[phase]
        return average_cost(A, B, gains, self._Q(gains), self.system.force_cost, self._W(gains))

    def _Q(self, like: Tensor) -> Tensor:
        return torch.diag(like.new_tensor(self.system.state_cost))

    def _W(self, like: Tensor) -> Tensor:
        return torch.diag(like.new_tensor(self.system.disturbance))

    def _best_gain(self, A: Tensor, B: Tensor) -> Tensor:
        """The solution of the Riccati equation, which must lie inside the box."""
        lower, upper = torch.tensor(GAINS, dtype=A.dtype).mT
        start = (lower + upper) / 2
        gain = optimal_gain(A, B, self._Q(A), self.system.force_cost, start)
        require(
            bool(((gain > lower) & (gain < upper)).all()),
            f"CartPole: the best gain is {gain.tolist()}, but it must lie inside the box "
            f"{GAINS}; change the system or the factor.",
        )
        return gain
