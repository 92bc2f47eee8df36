"""Random and extreme settings for the tests of this folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from conformance.presets import NARROW
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles.dense import DenseBandit, matern_five_halves, squared_exponential

from botorch_tv.acquisition.exploration import (
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
    UpperConfidence,
)
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    KeepAll,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.strategies import GPStrategy, Grid, Strategy

BATCHES = [(), (1,), (3,), (2, 3), (0,), (2, 0)]
EXPLORATIONS = [
    UpperConfidence(),
    Thompson(),
    ExpectedImprovement(),
    ProbabilityOfImprovement(),
    UniformChoice(),
]


@dataclass(frozen=True)
class Parts:
    """A strategy's parts and their names in the textbook."""

    decay: tuple[Any, tuple]
    inflation: tuple[Any, tuple]
    retention: tuple[Any, tuple]
    noise: float
    mean: float | str
    maximize: bool

    def strategy(self, K: NDArray[np.float64], engine: str, exploration: Any) -> Strategy:
        return GPStrategy(
            kernel=torch.as_tensor(K),
            noise=self.noise,
            decay=self.decay[0],
            inflation=self.inflation[0],
            retention=self.retention[0],
            width=NARROW,
            exploration=exploration,
            maximize=self.maximize,
            mean=self.mean,
            inference=engine,
        )

    def bandit(self, K: NDArray[np.float64]) -> DenseBandit:
        return DenseBandit(
            K,
            self.noise,
            decay=self.decay[1],
            inflation=self.inflation[1],
            retention=self.retention[1],
            gains=False,
            maximize=self.maximize,
            mean=self.mean,
        )


epsilons = st.sampled_from([0.0, 1e-12, 0.03, 0.5, 1.0 - 1e-12, 1.0])
decays = st.one_of(
    st.just((Static(), ("static",))),
    epsilons.map(lambda e: (Markov(e), ("markov", e))),
    st.sampled_from([0.0, 1e-9, 0.03, 10.0]).map(lambda s: (Wiener(s), ("wiener", s))),
)
inflations = st.one_of(
    st.just((Static(), ("constant",))),
    st.sampled_from([1e-3, 0.5, 0.97, 1.0]).map(
        lambda g: (ExponentialWeights(g), ("exponential", g))
    ),
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 3.0]), st.sampled_from([0.0, 1e-6, 1.0, 1e3])).map(
        lambda p: (UncertaintyInjection(p[0], kappa=p[1]), ("injection", *p))
    ),
)
sizes = st.integers(1, 6)
retentions = st.one_of(
    st.just((KeepAll(), ("all",))),
    sizes.map(lambda n: (PeriodicReset(n), ("period", n, "rounds"))),
    sizes.map(lambda n: (SlidingWindow(n), ("window", n, "rounds"))),
    sizes.map(lambda n: (PeriodicReset(float(n), by="time"), ("period", float(n), "time"))),
    sizes.map(lambda n: (SlidingWindow(float(n), by="time"), ("window", float(n), "time"))),
    st.sampled_from([1e-6, 0.1, 0.9]).map(lambda d: (EventTrigger(d), ("trigger", d))),
)


@st.composite
def kernels(draw: st.DrawFn) -> NDArray[np.float64]:
    """Smooth, rough, nearly constant or diagonal, of low rank, with dead and with equal arms."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    arms = draw(st.integers(1, 9))
    scale = draw(st.sampled_from([1e-4, 1.0, 1.0, 1e4]))
    kind = draw(st.sampled_from(["se", "matern", "low rank", "rank one", "dead arm", "equal arms"]))
    X = random.uniform(size=(arms, 2))
    lengthscale = draw(st.sampled_from([0.01, 0.2, 1.0, 30.0]))
    K = squared_exponential(X, lengthscale)
    if kind == "matern":
        K = matern_five_halves(X, lengthscale)
    if kind in ("low rank", "rank one"):
        sample = random.standard_normal((1 if kind == "rank one" else 2, arms))
        K = sample.T @ sample
    if kind == "dead arm" and arms > 1:
        K[-1, :] = K[:, -1] = 0.0
    if kind == "equal arms":
        K = K[np.ix_(np.arange(arms) // 2, np.arange(arms) // 2)]
    return scale * (K + K.T) / 2.0


@st.composite
def parts(draw: st.DrawFn, scale: float = 1.0) -> Parts:
    noise = draw(st.sampled_from([1e-6, 1e-3, 0.05, 1.0, 10.0]))
    return Parts(
        decay=draw(decays),
        inflation=draw(inflations),
        retention=draw(retentions),
        noise=noise * scale,
        mean=draw(st.sampled_from([0.0, 0.0, -3.0 * math.sqrt(scale), "estimated"])),
        maximize=draw(st.booleans()),
    )


def grid(K: NDArray[np.float64]) -> Grid:
    """Arms that stand for the rows of K."""
    return Grid(torch.arange(len(K), dtype=torch.float64).unsqueeze(-1))


def steps(random: np.random.Generator, rounds: int) -> NDArray[np.float64]:
    """Gaps between rounds: none, tiny, usual, odd, long."""
    gaps = random.choice([0.0, 1e-6, 1.0, 1.0, 0.37, 6.0], rounds)
    return np.cumsum(gaps) + random.choice([1.0, -40.0, 1e6])
