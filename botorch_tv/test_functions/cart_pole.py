"""Policy search on a cart-pole; the friction of its bearing changes, [ET] §5 and Table 6.

A Lyapunov equation gives the exact cost of a static state feedback for the linearised system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from scipy.linalg import solve_discrete_are  # type: ignore[import-untyped]
from torch import Tensor

from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.validation import require, require_number


def sampled(A: Tensor, B: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """The discrete-time form of ẋ = A x + B u if the input u is constant between samples.

    The result has two items: the discrete-time A, `... x n x n`, and the discrete-time B,
    `... x n x m`. The discrete-time A and B are blocks of the matrix exp([[A, B], [0, 0]] step).

    Args:
        A: The matrix A, which multiplies the state x, `... x n x n`.
        B: The matrix B, which multiplies the input u, `... x n x m`.
        step: Time between two samples, in seconds.
    """
    n, m = B.shape[-2:]
    block = torch.cat([torch.cat([A, B], dim=-1), A.new_zeros(*A.shape[:-2], m, n + m)], dim=-2)
    moved = torch.linalg.matrix_exp(block * step)
    return moved[..., :n, :n], moved[..., :n, n:]


def value_matrix(A: Tensor, S: Tensor) -> Tensor:
    """The solution P of the Lyapunov equation P = AᵀPA + S for a stable A, `... x n x n`.

    Args:
        A: Matrix A, with a spectral radius below 1, `... x n x n`.
        S: Constant term of the Lyapunov equation, `... x n x n`.
    """
    n = A.shape[-1]
    shape = (A + S).shape
    # The equation is a linear system: vec(AᵀPA) = (Aᵀ ⊗ Aᵀ) vec(P), where vec flattens row by row.
    product = torch.einsum("...ij,...kl->...ikjl", A.mT, A.mT)
    product = product.reshape(*A.shape[:-2], n * n, n * n)
    identity = torch.eye(n * n, dtype=A.dtype, device=A.device)
    right = S.expand(shape).reshape(*shape[:-2], n * n, 1)
    solved: Tensor = torch.linalg.solve(identity - product, right)
    return solved.reshape(shape)


def average_cost(
    A: Tensor, B: Tensor, gain: Tensor, state_cost: Tensor, force_cost: float, noise: Tensor
) -> Tensor:
    """The long-run mean of xᵀQx + r u² for x_{k+1} = A x_k + B u_k + w_k and u = −gain · x.

    The mean cost equals tr(P W), where W is the covariance of the noise w and P is the value matrix
    of the closed loop. The number tr(P W) is also the expected total cost of a system without noise
    if x_0 is random, with mean 0 and covariance W.

    Args:
        A: The matrix A, which multiplies the state x, `... x n x n`.
        B: The matrix B, which multiplies the input u, `... x n x 1`.
        gain: Gain of the feedback, `... x n`.
        state_cost: The matrix Q of the cost xᵀQx + r u², `n x n`.
        force_cost: Weight r of the squared input u².
        noise: Covariance W of the noise, `n x n`.

    Returns:
        Mean costs, `...`; infinite for a closed loop that is not stable.
    """
    closed = A - B * gain.unsqueeze(-2)
    stable = torch.linalg.eigvals(closed.detach()).abs().amax(-1) < 1
    # For an unstable loop the Lyapunov equation has no meaningful solution. The matrix of an
    # unstable loop is replaced by zeros, because a singular system of equations would make the
    # solution and its gradient useless.
    closed = torch.where(stable[..., None, None], closed, torch.zeros_like(closed))
    spent = state_cost + force_cost * gain.unsqueeze(-1) * gain.unsqueeze(-2)
    cost = (value_matrix(closed, spent) * noise).sum((-2, -1))
    return torch.where(stable, cost, math.inf)


def optimal_gain(A: Tensor, B: Tensor, state_cost: Tensor, force_cost: float) -> Tensor:
    """The gain (r + BᵀPB)⁻¹ BᵀPA, `n`, which is optimal for every noise and every initial state.

    P is the solution of the Riccati equation.

    Args:
        A: The matrix A, which multiplies the state x, `n x n`.
        B: The matrix B, which multiplies the input u, `n x 1`.
        state_cost: The matrix Q of the cost xᵀQx + r u², `n x n`.
        force_cost: Weight r of the squared input u².
    """
    weight = np.array([[force_cost]])
    P = torch.from_numpy(solve_discrete_are(A.numpy(), B.numpy(), state_cost.numpy(), weight))
    return (B.mT @ P @ A / (force_cost + B.mT @ P @ B)).squeeze(0)


GRAVITY = 9.81
"""Acceleration of gravity in m / s²."""


@dataclass(frozen=True)
class CartPoleSystem:
    """A linearised cart-pole, its random disturbances, and the cost of its states and forces.

    The state has four variables: position p of the cart in m, velocity p', angle θ in rad, and
    angular velocity θ'. The upright pole has θ = 0; a pole with θ > 0 leans towards positive p. The
    input u is the force on the cart in N. Let M be the total mass, m the mass of the pole, l its
    half length, J = (4/3) m l² the inertia of the pole about the bearing, b the friction of the
    cart, c the friction of the bearing, and g the acceleration of gravity. Near the upright
    position

        M p'' + m l θ'' = u − b p'        J θ'' + m l p'' = m g l θ − c θ'.

    [ET] gives neither the parameters of the machine nor the weights of the cost. With the default
    parameters, the best gains before and after the change of friction lie inside the box of [ET],
    away from its faces.

    Args:
        cart_mass: Mass of the cart, kg.
        pole_mass: Mass of the pole, spread evenly along it, kg.
        half_length: Distance from the bearing to the middle of the pole, m.
        cart_friction: Friction of the cart, N s / m.
        bearing_friction: Friction of the bearing before any change, N m s / rad.
        step: Duration of a step in s; the force is constant during a step.
        state_cost: Weight of each squared state variable in the cost of a step.
        force_cost: Weight of the squared force in the cost of a step.
        disturbance: Variance of the random disturbance that each state variable receives in a step.

    Raises:
        ValueError: If a parameter is not finite or out of range.
    """

    cart_mass: float = 0.8
    pole_mass: float = 0.2
    half_length: float = 0.15
    cart_friction: float = 1.0
    bearing_friction: float = 0.03
    step: float = 0.02
    state_cost: tuple[float, float, float, float] = (7.0, 3.0, 1.0, 0.1)
    force_cost: float = 1.0
    disturbance: tuple[float, float, float, float] = (1e-4, 1e-3, 1e-4, 1e-3)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = torch.as_tensor(getattr(self, field.name), dtype=torch.float64)
            require(
                bool(((value >= 0) & value.isfinite()).all()),
                f"CartPoleSystem: {field.name} is {value.tolist()}; give finite numbers of at "
                "least 0, like the defaults.",
            )

    def dynamics(self, bearing_friction: float) -> tuple[Tensor, Tensor]:
        """The matrices A, `4 x 4`, and B, `4 x 1`, of x_{k+1} = A x_k + B u_k.

        Args:
            bearing_friction: Friction of the bearing, N m s / rad.
        """
        m, l, b, c = self.pole_mass, self.half_length, self.cart_friction, bearing_friction
        inertia = 4 / 3 * m * l**2
        masses = torch.tensor([[self.cart_mass + m, m * l], [m * l, inertia]], dtype=torch.float64)
        inverse = torch.linalg.inv(masses)
        forces = torch.tensor([[0, -b, 0, 0], [0, 0, m * GRAVITY * l, -c]], dtype=torch.float64)
        A = torch.zeros(4, 4, dtype=torch.float64)
        A[0, 1] = A[2, 3] = 1.0
        A[[1, 3]] = inverse @ forces
        B = torch.zeros(4, 1, dtype=torch.float64)
        B[[1, 3], 0] = inverse[:, 0]
        return sampled(A, B, self.step)


GAINS = ((-3.0, -2.0), (-6.0, -4.0), (-50.0, -25.0), (-4.0, -2.0))
"""Lower and upper bound of each of the four gains, [ET] Table 6."""

SCALES = (1 / 8, 1 / 4, 3.0, 1 / 8)
"""Scale of each of the four coordinates, [ET] Table 6: a gain is a coordinate times its scale."""


class CartPole(TimeVaryingTestFunction):
    """The cost of balancing a pole by the force u = −gain · state; the bearing's friction changes.

    The first four columns of X are the four gains, each divided by its scale in [ET]; the last
    column is time. In the scaled coordinates, lengthscales of a few units are suitable for all
    gains. The cost is the long-run mean of xᵀQx + r u² for the linearised system under random
    disturbances, divided by the best cost before the change of friction. The cost of a gain is
    computed exactly, from a Lyapunov equation. The gain from the Riccati equation is the best gain,
    whatever the disturbance, so regret is exact up to rounding. With the default system, the best
    gain lies inside the box before and after the change. The best cost is 1 before the change and
    2.18 after the change. The gain that is best before the change of friction has the cost 2.81
    after the change of friction.

    The cost never exceeds ``limit``: a gain that would cost more, or that lets the pole fall, has
    the cost ``limit``. With the default system and limit, every gain in the box has a cost below
    ``limit`` before the change of friction. After the change of friction, the gains in an eighth of
    the box have the cost ``limit``; with a quarter of these gains the pole falls. Among the gains
    with the cost ``limit``, the cost does not distinguish better from worse.

    Args:
        system: The parameters of the cart-pole, of its disturbances and of its cost.
        change: Time at which the friction of the bearing changes.
        factor: Friction of the bearing after the change, divided by its friction before; at least
            0.
        limit: The highest cost, in units of the best cost before the change.
        horizon: End of the range of times, [0, horizon].
        noise_std: Standard deviation of the observation noise, in units of the best cost before the
            change; None for no noise. The noise variance of 0.02 in [ET] corresponds to
            ``noise_std=0.02**0.5``.
        negate: Whether to reverse the sign of the cost, for maximisation.

    Raises:
        ValueError: If a parameter is out of range, or if a best gain (before or after the change)
            lies outside the box or costs more than ``limit``.
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
        factor = require_number("CartPole: factor", factor, "[0, inf)", "the paper uses 2.5.")
        box = [(low / s, high / s) for (low, high), s in zip(GAINS, SCALES)]
        super().__init__(box, horizon=horizon, noise_std=noise_std, negate=negate)
        self.system = CartPoleSystem() if system is None else system
        self.change, self.factor, self.limit = change, factor, limit
        friction = self.system.bearing_friction
        pairs = [self.system.dynamics(friction), self.system.dynamics(friction * factor)]
        dynamics, inputs = (torch.stack(list(parts)) for parts in zip(*pairs))
        self.register_buffer("_dynamics", dynamics)
        self.register_buffer("_inputs", inputs)
        gains = torch.stack([self._best_gain(A, B) for A, B in pairs])
        self.register_buffer("_optimal_gains", gains)
        costs = self._cost(gains, torch.tensor([0, 1]))
        self._unit = float(costs[0])
        self._best = (costs / self._unit).tolist()
        require(
            max(self._best) <= limit < math.inf,
            f"CartPole: limit is {limit}, but the best costs before and after the change are "
            f"{self._best}; give a higher, finite limit.",
        )

    def gains(self, X: Tensor) -> Tensor:
        """The gains in physical units, `... x 4`.

        Args:
            X: Points and times, `... x 5`.
        """
        return X[..., :4] * X.new_tensor(SCALES)

    def optimizers_at(self, t: float) -> Tensor:
        phase = self._phase(self._times(t))
        return (self._optimal_gains[phase] / self._optimal_gains.new_tensor(SCALES)).unsqueeze(0)

    def _best_at(self, t: Tensor) -> Tensor:
        return t.new_tensor(self._best)[self._phase(t)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # The Lyapunov equation is solved in float64, because in float32 the solution for a nearly
        # unstable loop has no correct digits.
        cost = self._cost(self.gains(X.double()), self._phase(X[..., -1])) / self._unit
        return cost.clamp(max=self.limit).to(X.dtype)

    def _phase(self, t: Tensor) -> Tensor:
        return (t.detach() >= self.change).long()

    def _cost(self, gains: Tensor, phase: Tensor) -> Tensor:
        A, B = self._dynamics.double()[phase], self._inputs.double()[phase]
        Q = torch.diag(gains.new_tensor(self.system.state_cost))
        W = torch.diag(gains.new_tensor(self.system.disturbance))
        return average_cost(A, B, gains, Q, self.system.force_cost, W)

    def _best_gain(self, A: Tensor, B: Tensor) -> Tensor:
        """The best gain, from the Riccati equation; raises an error if it lies outside the box."""
        lower, upper = torch.tensor(GAINS, dtype=A.dtype).mT
        Q = torch.diag(A.new_tensor(self.system.state_cost))
        gain = optimal_gain(A, B, Q, self.system.force_cost)
        require(
            bool(((gain > lower) & (gain < upper)).all()),
            f"CartPole: the best gain is {gain.tolist()}, but it must lie in {GAINS}; change "
            "system or factor.",
        )
        return gain
