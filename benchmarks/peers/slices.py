"""The ten synthetic functions of W-DBO in numpy; the last coordinate of each is time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

Formula = Callable[[np.ndarray], np.ndarray]
"""From points `q x (d + 1)` to costs `q`."""


def rastrigin(Z: np.ndarray) -> np.ndarray:
    """Rastrigin's function"""
    return np.asarray(10 * Z.shape[-1] + (Z**2 - 10 * np.cos(2 * np.pi * Z)).sum(-1))


def schwefel(Z: np.ndarray) -> np.ndarray:
    """Schwefel's function"""
    return np.asarray(418.982887272433799 * Z.shape[-1] - (Z * np.sin(np.sqrt(np.abs(Z)))).sum(-1))


def styblinski_tang(Z: np.ndarray) -> np.ndarray:
    """Styblinski and Tang's function"""
    return np.asarray((Z**4 - 16 * Z**2 + 5 * Z).sum(-1) / 2)


def eggholder(Z: np.ndarray) -> np.ndarray:
    """The eggholder function"""
    x, y = Z[..., 0], Z[..., 1] + 47
    return np.asarray(-y * np.sin(np.sqrt(np.abs(x / 2 + y))) - x * np.sin(np.sqrt(np.abs(x - y))))


def ackley(Z: np.ndarray) -> np.ndarray:
    """Ackley's function"""
    root = np.sqrt((Z**2).mean(-1))
    return np.asarray(
        20 + math.e - 20 * np.exp(-0.2 * root) - np.exp(np.cos(2 * np.pi * Z).mean(-1))
    )


def rosenbrock(Z: np.ndarray) -> np.ndarray:
    """Rosenbrock's function"""
    here, following = Z[..., :-1], Z[..., 1:]
    return np.asarray((100 * (following - here**2) ** 2 + (here - 1) ** 2).sum(-1))


SHEKEL_CENTRES = np.array(
    [[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2, dtype=float
).T
SHEKEL_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def shekel(Z: np.ndarray) -> np.ndarray:
    """Shekel's function of ten minima"""
    squares = ((Z[..., None, :] - SHEKEL_CENTRES) ** 2).sum(-1)
    return np.asarray(-(1 / (squares + SHEKEL_WIDTHS)).sum(-1))


HARTMANN_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN = {
    3: (
        np.array([[3, 10, 30], [0.1, 10, 35]] * 2),
        np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    ),
    6: (
        np.array(
            [
                [10, 3, 17, 3.5, 1.7, 8],
                [0.05, 10, 17, 0.1, 8, 14],
                [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14],
            ]
        ),
        np.array(
            [
                [1312, 1696, 5569, 124, 8283, 5886],
                [2329, 4135, 8307, 3736, 1004, 9991],
                [2348, 1451, 3522, 2883, 3047, 6650],
                [4047, 8828, 8732, 5743, 1091, 381],
            ]
        ),
    ),
}


def hartmann(Z: np.ndarray) -> np.ndarray:
    """Hartmann's function"""
    sharpness, centres = HARTMANN[Z.shape[-1]]
    squares = (sharpness * (Z[..., None, :] - centres / 1e4) ** 2).sum(-1)
    return np.asarray(-(HARTMANN_HEIGHTS * np.exp(-squares)).sum(-1))


def powell(Z: np.ndarray) -> np.ndarray:
    """Powell's function"""
    a, b, c, d = np.moveaxis(Z, -1, 0)
    return np.asarray((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


class Slices(NamedTuple):
    """A function and its box.

    Attributes:
        formula: The function, a cost.
        coordinates: Number of coordinates, time included.
        lower: Least value of each.
        upper: Largest value of each.
        best: Value of each coordinate but time at the minimum of every slice; None if it moves.
    """

    formula: Formula
    coordinates: int
    lower: float
    upper: float
    best: float | None = None

    def cost(self, X: np.ndarray, share: float) -> np.ndarray:
        """Costs `q` at points `q x d` of the unit cube at this fraction of the time."""
        Z = np.concatenate([X, np.full((*X.shape[:-1], 1), share)], -1)
        return self.formula(self.lower + (self.upper - self.lower) * Z)

    def least(self, share: float) -> float:
        """The least cost at this fraction of the time, to about eight digits."""
        dim = self.coordinates - 1
        if self.best is not None:
            place = np.full((1, dim), (self.best - self.lower) / (self.upper - self.lower))
            return float(self.cost(place, share)[0])
        from scipy.optimize import minimize  # type: ignore[import-untyped]

        X = np.random.default_rng(0).random((5_000, dim))
        promising = X[self.cost(X, share).argsort()[:4]]
        ends = (
            minimize(
                lambda x: float(self.cost(x[None], share)[0]),
                start,
                method="L-BFGS-B",
                bounds=[(0, 1)] * dim,
                options={"ftol": 1e-15, "gtol": 1e-10},
            ).fun
            for start in promising
        )
        return float(min(ends))

    def deviation(self) -> float:
        """Standard deviation of the function over its box and all times."""
        Z = np.random.default_rng(1).random((2**16, self.coordinates))
        return float(self.formula(self.lower + (self.upper - self.lower) * Z).std())


SLICES = {
    "rastrigin": Slices(rastrigin, 5, -4, 4, 0),
    "schwefel": Slices(schwefel, 4, -500, 500, 420.968746359982),
    "styblinski-tang": Slices(styblinski_tang, 4, -5, 5, -2.903534027771177),
    "eggholder": Slices(eggholder, 2, -512, 512),
    "ackley": Slices(ackley, 4, -32, 32, 0),
    "rosenbrock": Slices(rosenbrock, 3, -1, 1.5),
    "shekel": Slices(shekel, 4, 0, 10),
    "hartmann-3": Slices(hartmann, 3, 0, 1),
    "hartmann-6": Slices(hartmann, 6, 0, 1),
    "powell": Slices(powell, 4, -4, 5),
}


@cache
def least_costs(name: str, rounds: int) -> tuple[float, ...]:
    """The least cost of rounds 1, 2, ...; the last round is the end of time."""
    return tuple(SLICES[name].least(now / rounds) for now in range(1, rounds + 1))
