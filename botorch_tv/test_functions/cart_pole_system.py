"""A pole on a cart, near upright."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from botorch_tv.test_functions.linear_quadratic import sampled
from botorch_tv.validation import require, require_number

GRAVITY = 9.81
"""m / s²."""


@dataclass(frozen=True)
class CartPoleSystem:
    """The linearised cart-pole, its disturbances and its cost.

    The state is (cart position in m, cart velocity, angle from upright in rad towards positive
    positions, angular velocity); the input is the force on the cart in N. With total mass M, pole
    mass m, half length l, inertia J = (4/3) m l² about the bearing, cart friction b and bearing
    friction c, near upright

        M p'' + m l θ'' = u − b p'        J θ'' + m l p'' = m g l θ − c θ'.

    [ET] gives neither the machine nor the weights of its cost. These were chosen so that the best
    gain lies inside the paper's box, away from its faces, at both frictions.

    Args:
        cart_mass: kg.
        pole_mass: kg, spread evenly along the pole.
        half_length: From the bearing to the middle of the pole, m.
        cart_friction: N s / m.
        bearing_friction: N m s / rad, before any change.
        step: Time between two forces, s; a force is held in between.
        state_cost: Weights of the squared states, per step.
        force_cost: Weight of the squared force, per step.
        disturbance: Variance of the random change of each state, per step.

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
        may_vanish = ("cart_friction", "bearing_friction", "state_cost", "disturbance")
        for field in fields(self):
            given = getattr(self, field.name)
            several = isinstance(given, tuple)
            require(
                not several or len(given) == 4,
                f"CartPoleSystem: {field.name} is {given}, but there are four states.",
            )
            for value in given if several else (given,):
                within = "[0, inf)" if field.name in may_vanish else "(0, inf)"
                require_number(f"CartPoleSystem: {field.name}", value, within, "see the defaults.")

    def dynamics(self, bearing_friction: float) -> tuple[Tensor, Tensor]:
        """A, `4 x 4`, and B, `4 x 1`, of x_{k+1} = A x_k + B u_k at some bearing friction."""
        m, l, b, c = self.pole_mass, self.half_length, self.cart_friction, bearing_friction
        inertia = 4 / 3 * m * l**2
        inverse = torch.linalg.inv(
            torch.tensor([[self.cart_mass + m, m * l], [m * l, inertia]], dtype=torch.float64)
        )
        forces = torch.tensor([[0, -b, 0, 0], [0, 0, m * GRAVITY * l, -c]], dtype=torch.float64)
        A = torch.zeros(4, 4, dtype=torch.float64)
        A[0, 1] = A[2, 3] = 1.0
        A[[1, 3]] = inverse @ forces
        B = torch.zeros(4, 1, dtype=torch.float64)
        B[[1, 3], 0] = inverse[:, 0]
        return sampled(A, B, self.step)
