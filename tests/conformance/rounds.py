"""Playing the library and the textbook on the same drifting functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from conformance.presets import BY_NAME
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from numpy.typing import NDArray
from oracles.dense import DenseBandit, matern_five_halves, squared_exponential
from torch import Tensor

from botorch_tv.strategies import Grid, Strategy


@dataclass(frozen=True)
class Setting:
    """A square grid, a kernel, a noise variance, and how long to play."""

    points: int
    kernel: str
    noise: float
    rounds: int
    lengthscale: float = 0.2

    def __str__(self) -> str:
        return f"{self.kernel}-{self.points}x{self.points}-{self.noise}-{self.rounds}"

    @property
    def X(self) -> NDArray[np.float64]:
        axis = np.arange(self.points) / (self.points - 1)
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)

    @property
    def domain(self) -> Grid:
        return Grid.regular(points=self.points, dim=2)

    def module(self) -> Kernel:
        """The kernel as the library takes it."""
        kernel = RBFKernel() if self.kernel == "se" else MaternKernel(nu=2.5)
        kernel = kernel.double()
        # A float would be rounded to float32.
        kernel.lengthscale = torch.tensor(self.lengthscale, dtype=torch.float64)
        return kernel

    def matrix(self) -> NDArray[np.float64]:
        """The kernel as the textbook takes it."""
        dense = squared_exponential if self.kernel == "se" else matern_five_halves
        return dense(self.X, self.lengthscale)


@dataclass(frozen=True)
class World:
    """A function for each trial, which drifts and jumps once, and its measurement errors."""

    values: NDArray[np.float64]  # rounds x trials x M
    errors: NDArray[np.float64]  # rounds x trials

    def take(self, trials: Sequence[int]) -> World:
        return World(self.values[:, list(trials)], self.errors[:, list(trials)])

    def observe(self, t: int, index: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Observations of the arms ``index`` in round t; an element of any shape per trial."""
        arms = index.reshape(-1).cpu().numpy()
        y = self.values[t, np.arange(len(arms)), arms] + self.errors[t]
        return torch.as_tensor(y, dtype=dtype, device=index.device).reshape(index.shape)


@cache
def make_world(points: int, noise: float, rounds: int, trials: int, seed: int = 1) -> World:
    """Sums of waves; their weights follow a Markov walk and change sign after a third."""
    random = np.random.default_rng([seed, points, rounds])
    X = Setting(points, "se", noise, rounds).X
    waves = 60
    values = np.empty((rounds, trials, len(X)))
    for trial in range(trials):
        frequency = random.standard_normal((waves, 2)) / 0.25
        basis = np.cos(X @ frequency.T + random.uniform(0, 2 * np.pi, waves)) * (2 / waves) ** 0.5
        weight = random.standard_normal(waves)
        for t in range(rounds):
            values[t, trial] = basis @ weight
            weight = 0.97**0.5 * weight + 0.03**0.5 * random.standard_normal(waves)
            if t == rounds // 3 + trial:
                weight = -1.5 * weight
    return World(values, random.standard_normal((rounds, trials)) * noise**0.5)


@dataclass(frozen=True)
class Run:
    """A run; the leading dimensions are rounds and trials."""

    index: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    sqrt_beta: NDArray[np.float64]
    reset: NDArray[np.bool_]
    gain: NDArray[np.float64]
    posterior_mean: NDArray[np.float64]  # checked rounds x trials x M
    posterior_variance: NDArray[np.float64]


def checked_rounds(rounds: int, every: int) -> list[int]:
    """Rounds after which the posterior of the whole grid is compared."""
    return [t for t in range(rounds) if t % every == every - 1 or t == rounds - 1]


def play(
    strategy: Strategy,
    domain: Grid,
    world: World,
    batch_shape: tuple[int, ...],
    *,
    every: int | None = None,
    dtype: torch.dtype = torch.float64,
    seeds: Sequence[int] | None = None,
    device: str = "cpu",
) -> Run:
    """One batched run of the library, trials flattened in the result.

    Each trial has a generator of its own, seeded with its number in ``seeds`` (0, 1, ... unless
    given).
    """
    rounds = len(world.values)
    trials = world.values.shape[1]
    state = strategy.init(domain, batch_shape=batch_shape, dtype=dtype, device=device)
    X = domain.X.to(device=device, dtype=dtype)
    seen: dict[str, list[Any]] = {name: [] for name in Run.__annotations__}
    looked = checked_rounds(rounds, every) if every else []
    generators = [torch.Generator().manual_seed(seed) for seed in seeds or range(trials)]
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=generators)
        assert suggestion.index.shape == batch_shape
        state, info = strategy.tell(state, suggestion, world.observe(t, suggestion.index, dtype))
        for name in ("index", "mean", "sd", "sqrt_beta"):
            seen[name].append(getattr(suggestion, name).reshape(trials))
        seen["reset"].append(info.reset.reshape(trials))
        seen["gain"].append(info.information_gain.reshape(trials))
        if t in looked:
            posterior = strategy.posterior(state, X)
            seen["posterior_mean"].append(posterior.mean.reshape(trials, len(X)))
            seen["posterior_variance"].append(posterior.variance.reshape(trials, len(X)))
    return Run(
        **{
            name: torch.stack(values).detach().cpu().numpy() if values else np.empty(0)
            for name, values in seen.items()
        }
    )


@cache
def by_the_book(name: str, setting: Setting, trials: int, every: int) -> Run:
    """The textbook's run of a preset, cached for several tests."""
    K, noise, book = setting.matrix(), setting.noise, BY_NAME[name].book(setting.noise)
    world = make_world(setting.points, noise, setting.rounds, trials)
    looked = checked_rounds(setting.rounds, every)
    played = []
    for trial in range(trials):
        bandit, seen = DenseBandit(K, noise, **book), {name: [] for name in Run.__annotations__}
        choice = bandit.choose()
        for t in range(setting.rounds):
            y = world.values[t, trial, choice.index] + world.errors[t, trial]
            for name in ("index", "mean", "sd", "sqrt_beta"):
                seen[name].append(getattr(choice, name))
            seen["reset"].append(bandit.tell(choice, y))
            seen["gain"].append(0.5 * math.log1p(choice.sd**2 / noise))
            choice = bandit.choose()
            if t in looked:
                seen["posterior_mean"].append(choice.prediction.mean)
                seen["posterior_variance"].append(choice.prediction.variance)
        played.append(seen)
    return Run(
        **{name: np.stack([seen[name] for seen in played], 1) for name in Run.__annotations__}
    )


def assert_same_choices(actual: NDArray[np.int64], expected: NDArray[np.int64]) -> None:
    """Equal in every round and trial; names the first difference."""
    assert actual.shape == expected.shape
    if not np.array_equal(actual, expected):
        t, trial = np.argwhere(actual != expected)[0]
        raise AssertionError(
            f"round {t + 1}, trial {trial}: chose {actual[t, trial]}, not {expected[t, trial]}"
        )


def assert_close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Within an absolute tolerance; names the first difference."""
    difference = np.abs(np.asarray(actual) - np.asarray(expected))
    if not (difference <= tolerance).all():
        first = tuple(np.argwhere(~(difference <= tolerance))[0])
        raise AssertionError(
            f"{what} at (round, trial, ...) = {tuple(int(i) for i in first)}: "
            f"{np.asarray(actual)[first]} is not {np.asarray(expected)[first]}; "
            f"largest difference {np.nanmax(difference)}"
        )
