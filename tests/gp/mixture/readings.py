"""Readings of a world with everything that a bank has to bear, and a small bank for them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from oracles.bank import Prediction

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import Box, Strategy, adaptive_gp_ucb
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import State

Array = NDArray[np.float64]
SHARES = {1: (0.1, 0.2), 2: (0.08, 0.15), 6: (0.5, 1.0), 10: (0.7, 1.4)}
TOLERANCE = 1e-7


def bank_of(dim: int, **parts) -> Bank:
    own = {
        "rates": (0.0, 0.05),
        "hazards": (0.0, 0.05),
        "lengthscales": SHARES[dim],
        "noise_ratios": (0.01,),
        "outliers": 0.01,
        "tolerance": TOLERANCE,
    }
    return Bank(**(own | parts))


OFFSET = bank_of(
    2,
    hazards=(0.0,),
    lengthscales=(0.1, 0.2),
    noise_ratios=(0.01, 0.1),
    outliers=0.0,
)
"""A bank without jumps and outliers."""


class Readings(NamedTuple):
    X: Array
    y: Array
    times: Array
    good: Array
    variance: Array | None = None
    """Given noise variances, NaN for others; None for none."""

    def ordered(self, order: Array) -> "Readings":
        """Readings in another order; each takes the time of its new place."""
        variance = None if self.variance is None else self.variance[order]
        return Readings(self.X[order], self.y[order], self.times, self.good[order], variance)

    def with_variances(self) -> "Readings":
        """The variance of two thirds of the readings is given, from exact to useless."""
        every = np.resize([np.nan, 1e-12, 0.2, np.nan, 4.0, 1e4], len(self.y))
        return self._replace(variance=every)


def readings(dim: int, blocks: tuple[int, ...], *, seed: int = 0, pause: float = 1e12) -> Readings:
    """A wave that jumps after two thirds of the blocks, each of which is measured at one time.

    Points repeat, every seventh reading after the first four blocks fails, one reading is an
    outlier, and two pauses are long. In one dimension nine points repeat throughout.
    """
    random, n, number = np.random.default_rng(seed), sum(blocks), len(blocks)
    X = random.choice(np.linspace(0, 1, 9), (n, 1)) if dim == 1 else random.random((n, dim))
    X[n // 2 : n // 2 + 3] = X[2]
    gaps = np.ones(number)
    gaps[[number // 3, number // 2]] = 7.0, pause
    block = np.repeat(np.arange(number), blocks)
    wave = np.where(block < 2 * number // 3, np.sin(4 * X[:, 0]), np.cos(7 * X[:, 0]))
    y = 50 + 5 * (wave + X[:, -1]) + 0.5 * random.standard_normal(n)
    y[3 * n // 4 + 1] += 60.0
    good = (np.arange(n) % 7 < 6) | (block < 4)
    return Readings(X, y, gaps.cumsum()[block], good)


def require_apart(bank: Bank, X: Array) -> None:
    """Each point differs from what the others explain by far more than the tolerance."""
    X = np.unique(X, axis=0)
    square = np.square(X[:, None] - X).sum(-1)
    for lengthscale in bank.lengthscales:
        K = np.exp(-0.5 * square / lengthscale**2)
        rest = 1 / np.linalg.inv(K).diagonal()
        assert rest.min() > 100 * bank.tolerance


def told(player: Strategy, domain: Domain, data: Readings, device: str = "cpu") -> State:
    """The state of one trial after all readings, one by one."""
    state = player.init(domain, device=torch.device(device))
    variances = np.full(len(data.y), np.nan) if data.variance is None else data.variance
    for x, y, time, good, variance in zip(*data[:4], variances):
        place = torch.from_numpy(x).to(device)
        suggestion = player.suggestion_at(state, place, now=float(time))
        ok = torch.tensor(bool(good), device=device)
        noise = None if np.isnan(variance) else float(variance)
        state, _ = player.tell(state, suggestion, float(y), ok=ok, noise=noise)
    return state


def relevance_of(state: State) -> Array:
    """The factors on the coordinates of a trial, `d`, or of several, `batch_shape x d`."""
    return adaptive_gp_ucb().relevance(state).numpy()


def cube(dim: int) -> Box:
    return Box(torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, dim))


def with_bands(covariance: Array, player: Strategy, state: State) -> Array:
    """A covariance of the model `... x q x q`, with bands of predictions in place of its own."""
    covariance = np.asarray(covariance)
    variance = covariance.diagonal(axis1=-2, axis2=-1)
    factor = np.sqrt(1 + 1.75 * np.minimum(variance / player.prior_variance(state), 1))
    return covariance * factor[..., None] * factor[..., None, :]


def assert_textbook(
    player: Strategy, state: State, book: Prediction, query: Array, now: float, atol: float
) -> None:
    posterior = player.posterior(state, torch.from_numpy(query), now=now)
    for found, wanted in (
        (posterior.mean[:, 0], book.mean),
        (posterior.mvn.covariance_matrix, with_bands(book.covariance, player, state)),
        (player.weights(state), book.weights),
        (player.jump(state), book.jump),
        (player.model_noise(state), book.noise),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=atol)  # variances reach 600
