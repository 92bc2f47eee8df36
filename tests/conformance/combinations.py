"""Random strategies on random data, played beside the textbook.

The number of a case determines the forgetting, mean, width, exploration, domain and inference, and
the data of each trial: failures, noise variances of observations, uneven, equal or late times, and
jumps of the objective. Kernels have unit scale and noise variances are at least 0.01: law 2 holds
there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from conformance import user_parts as own
from conformance.presets import chowdhury, deng, logarithmic
from conformance.rounds import Setting
from conformance.sparq_with_expert import Attended
from gpytorch.kernels import Kernel
from numpy.typing import NDArray
from oracles.dense import Choice, DenseBandit
from oracles.expert import Consultant

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    ExpectedImprovement,
    Logarithmic,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
    UpperConfidence,
)
from botorch_tv.experts import Refresh
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
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    Features,
    GPStrategy,
    Grid,
    State,
    Strategy,
    Suggestion,
)

Array = NDArray[np.float64]
EXPLORATIONS: dict[str, Any] = {
    "ucb": UpperConfidence(),
    "ei": ExpectedImprovement(),
    "pi": ProbabilityOfImprovement(),
    "thompson": Thompson(),
    "uniform": UniformChoice(),
    "directed": own.Directed(),
    "top two": own.TopTwo(),
    "greedy": own.EpsilonGreedy(),
}
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
TIES = 1e-7
ROUNDING = 1e-8
"""Error of a score where nobody allows more."""


@dataclass(frozen=True)
class Case:
    """A combination, as the library and as the textbook take it."""

    strategy: Strategy
    book: dict[str, Any]
    domain: Grid | Box
    X: torch.Tensor
    K: Array
    batch_shape: tuple[int, ...]
    rounds: int

    @property
    def rounding(self) -> float:
        """Largest error of a score at the limit of the rule for ties."""
        inference = self.strategy.inference
        # A score is a mean and some standard deviations.
        return 10 * inference.tolerance if isinstance(inference, Features) else ROUNDING

    def __str__(self) -> str:
        return f"{self.book | {'inference': self.strategy.inference}} on {self.domain}"


def pick(random: np.random.Generator, options: Any) -> Any:
    """A random option; numpy's choice would make an array of the options."""
    return options[random.integers(len(options))]


def make_case(
    random: np.random.Generator,
    *,
    decay: Any = None,
    inflation: Any = None,
    retention: Any = None,
    expert: tuple[Refresh, Consultant] | None = None,
    inference: Any = None,
    on_box: bool | None = None,
    kernel: str | None = None,
) -> Case:
    """A random combination; given parts come with their names in the textbook."""
    decay = decay or pick(
        random,
        [(Static(), ("static",))] * 3
        + [(Markov(e), ("markov", e)) for e in (0.03, pick(random, [0.0, 0.3, 1.0]))]
        + [(Wiener(s), ("wiener", s)) for s in (pick(random, [0.0, 0.03, 0.2]),)]
        + [(own.QuasiPeriodic(), ("quasi-periodic", 0.05, 0.6))]
        + [(pick(random, [own.DampedDrift(), own.DriftByCovariance()]), ("damped", 0.2, 3.0))],
    )
    gamma, alpha, kappa = (
        pick(random, some) for some in ([0.5, 0.9, 1.0], [0.0, 0.5, 2.0], [0.0, 0.4, 1.0])
    )
    inflation = inflation or pick(
        random,
        [(Static(), ("constant",))] * 6
        + [(ExponentialWeights(gamma), ("exponential", gamma))]
        + [(UncertaintyInjection(alpha, kappa=kappa), ("injection", alpha, kappa))]
        + [(own.HalfLife(4.0), ("exponential", 0.5**0.25))],
    )
    retention = retention or _retention(random)
    noise = float(np.exp(random.uniform(math.log(0.01), 0.0)))
    width, sqrt_beta = pick(
        random,
        [
            (Logarithmic(c1=0.4, c2=4.0), logarithmic),
            (IGPUCB(B=0.5, R=0.1, delta=0.1), chowdhury(0.5, 0.1, 0.1)),
            (WGPUCB(B=0.5, R=0.1, noise=noise, delta=0.1), deng(noise)["sqrt_beta"]),
        ],
    )
    exploration = pick(random, [*EXPLORATIONS, "ucb", "ucb"])
    parts = {
        "maximize": bool(random.random() < 0.7),
        "mean": pick(random, [0.0, float(random.normal())] + 3 * ["estimated"]),
    }
    book = parts | {
        "decay": decay[1],
        "inflation": inflation[1],
        "retention": retention[1],
        "sqrt_beta": sqrt_beta,
        "gains": sqrt_beta is not logarithmic,
        "exploration": exploration,
        "noise": noise,
    }
    domain, X, given, K = _space(random, exploration, on_box, kernel)
    inference = inference or pick(random, ["exact", "auto", "auto", "features"])
    if inference == "features" and isinstance(domain, Box):
        inference = "auto"  # features serve some combinations, which have a test of their own
    common = parts | {
        "kernel": given,
        "noise": noise,
        "decay": decay[0],
        "inflation": inflation[0],
        "width": width,
        "exploration": EXPLORATIONS[exploration],
        "inference": inference,
    }
    strategy: Strategy
    if expert is None:
        strategy = GPStrategy(retention=retention[0], **common)
    else:
        strategy = Attended(refresh=expert[0], **common)
        book["consultant"] = expert[1]
    return Case(
        strategy,
        book,
        domain,
        X,
        K,
        batch_shape=pick(random, [(), (3,), (1, 2)]),
        rounds=40 if random.random() < 0.04 else int(random.integers(11, 15)),
    )


def _retention(random: np.random.Generator) -> Any:
    """A rule, or several, and their names in the textbook."""
    if random.random() < 0.5:
        return pick(random, _rules(random))
    together = [pick(random, _rules(random) + _strange_rules(random)) for _ in range(3)]
    together = together[: pick(random, [1, 2, 2, 3])]
    return tuple(one for one, _ in together), tuple(name for _, name in together)


def _rules(random: np.random.Generator) -> list[Any]:
    """Rules of the package, and their names in the textbook."""
    size, span = int(random.integers(1, 9)), float(random.uniform(0.5, 8.0))
    delta = pick(random, [0.01, 0.1, 0.9])
    return (
        [(KeepAll(), ("all",))]
        + [(SlidingWindow(size), ("window", size, "rounds"))] * 6
        + [(PeriodicReset(size), ("period", size, "rounds"))] * 2
        + [(SlidingWindow(span, by="time"), ("window", span, "time"))]
        + [(PeriodicReset(span, by="time"), ("period", span, "time"))]
        + [(EventTrigger(delta), ("trigger", delta))] * 2
    )


def _strange_rules(random: np.random.Generator) -> list[Any]:
    """Rules written by users."""
    few, reach = int(random.integers(1, 6)), float(random.uniform(0.3, 3.0))
    return [
        (own.Sessions(reach), ("sessions", reach)),
        (own.Agreeing(reach), ("agreeing", reach)),
        (own.NearBest(reach), ("near best", reach)),
        (own.CumulativeSum(0.5, reach), ("cusum", 0.5, reach)),
        (own.Replaced(), ("replaced",)),
        (own.Thinned(few), ("thinned", few)),
        (own.Restart(few), ("restart", few)),
        (own.Surprise(reach), ("surprise", reach)),
        (own.Panic(2 * reach), ("panic", 2 * reach)),
        (own.Blank(few), ("blank", few)),
        (own.Newest(few), ("window", few, "rounds")),
    ]


def _space(
    random: np.random.Generator, exploration: str, on_box: bool | None, kernel: str | None
) -> tuple[Grid | Box, torch.Tensor, Kernel | torch.Tensor, Array]:
    """A domain, its arms or candidates, and a kernel of unit scale with its matrix."""
    points = 9 if random.random() < 0.04 else int(random.integers(2, 5))
    setting = Setting(
        points,
        kernel or pick(random, ["se", "matern"]),
        noise=1.0,
        rounds=0,
        lengthscale=pick(random, [0.15, 0.4, 1.0]),
    )
    grid, K = setting.domain, setting.matrix()
    by_chance = random.random() < 0.25
    if (by_chance if on_box is None else on_box) and exploration not in ("thompson", "top two"):
        # There, samples come from features of the kernel, not from a joint draw.
        return Box(CUBE, search=DiscreteSearch(grid.X)), grid.X, setting.module(), K
    if random.random() < 0.25:  # of low rank, or with arms of different variance
        loading = random.normal(size=(len(K), pick(random, [1, 3, len(K)])))
        K = loading @ loading.T
        K = K / K.diagonal().max()
        return Grid(grid.X), grid.X, torch.as_tensor(K), K
    return grid, grid.X, setting.module(), K


@dataclass
class Trial:
    """The data of a trial, and its textbook."""

    bandit: DenseBandit
    random: np.random.Generator
    root: Array
    failures: str
    late: bool
    f: Array

    @classmethod
    def make(cls, case: Case, random: np.random.Generator) -> Trial:
        values, vectors = np.linalg.eigh(case.K)
        root = vectors * np.sqrt(values.clip(0))
        return cls(
            DenseBandit(case.K, **case.book),
            random,
            root,
            failures=pick(random, ["none", "some", "runs", "runs", "runs", "first", "all"]),
            late=bool(random.random() < 0.5),
            f=root @ random.normal(size=len(root)),
        )

    def measure(self, arm: int, t: int) -> float:
        """A noisy value of an objective that drifts and sometimes jumps."""
        step = 2.0 if self.random.random() < 0.08 else 0.1
        self.f = self.f + step * self.root @ self.random.normal(size=len(self.root))
        level = self.bandit.mean if isinstance(self.bandit.mean, float) else 1.5
        return float(self.f[arm] + level + self.bandit.noise**0.5 * self.random.normal())

    def succeeds(self, t: int) -> bool:
        return {
            "none": True,
            "some": self.random.random() < 0.7,
            "runs": t % 12 < 4,  # as long as any window or period
            "first": t >= 4,
            "all": False,
        }[self.failures]


def acceptable(bandit: DenseBandit, choice: Choice, arm: int, rounding: float) -> bool:
    """Whether the rule for ties names this arm, up to rounding of the scores."""
    if arm == choice.index:
        return True
    score, variance = bandit._score(choice.prediction, choice.sqrt_beta)
    limit = score.max() - TIES * math.sqrt(variance)
    return score[arm] >= limit - rounding and (score[:arm] <= limit + rounding).all()


def check(number: int, **chosen: Any) -> float:
    """Plays a case; returns the largest difference from the textbook.

    Args:
        number: The case.
        chosen: Given parts, see :func:`make_case`.

    Raises:
        AssertionError: If a choice, a reset or a shape differs.
    """
    random = np.random.default_rng(number)
    case = make_case(random, **chosen)
    shape, count = case.batch_shape, math.prod(case.batch_shape)
    strategy, state = case.strategy, case.strategy.init(case.domain, batch_shape=case.batch_shape)
    trials = [Trial.make(case, random) for _ in range(count)]
    generator, worst = torch.Generator().manual_seed(number), 0.0

    def tensor(values: list[Any]) -> torch.Tensor:
        return torch.as_tensor(np.array(values)).reshape(shape)

    def differ(actual: torch.Tensor, expected: Any) -> None:
        nonlocal worst
        error = np.abs(actual.detach().numpy() - np.array(expected).reshape(actual.shape)).max()
        assert error < 1.0, f"case {number}, round {t + 1}: off by {error}; {case}"
        worst = max(worst, float(error))

    for t in range(case.rounds):
        now = None
        if random.random() < 0.3:
            now = [
                (trial.bandit.rows[-1].time if trial.bandit.rows else -2.0)
                + pick(random, [0.0, 0.6, 1.0, 6.5])
                for trial in trials
            ]
        at = [None] * count if now is None else now
        suggestion, choices = _choose(case, state, trials, at, now, generator, random)
        for name in ("mean", "sd", "sqrt_beta", "time"):
            differ(getattr(suggestion, name), [getattr(one, name) for one in choices])
        observations: list[dict[str, Any]] = [
            {"ok": trial.succeeds(t), "noise": None, "time": None} for trial in trials
        ]
        if random.random() < 0.3:
            for one in observations:
                one["noise"] = float(np.exp(random.uniform(math.log(0.01), 1.0)))
        if random.random() < 0.5:
            for one, trial, choice in zip(observations, trials, choices):
                newest = trial.bandit.rows[-1].time if trial.bandit.rows else -2.0
                late = choice.time + random.exponential(2.0)
                one["time"] = late if trial.late else newest + pick(random, [0.0, 0.25, 1.0])
        y = [trial.measure(one.index, t) for trial, one in zip(trials, choices)]
        arguments: dict[str, Any] = {
            name: tensor([one[name] for one in observations])
            for name in ("noise", "time")
            if observations[0][name] is not None
        }
        if not all(one["ok"] for one in observations) or random.random() < 0.3:
            arguments["ok"] = tensor([one["ok"] for one in observations])
        nothing = (math.nan, 0.25, math.inf, -math.inf)[t % 4]
        given = [value if one["ok"] else nothing for value, one in zip(y, observations)]
        state, info = strategy.tell(state, suggestion, tensor(given), **arguments)
        resets = [
            trial.bandit.tell(choice, value, **one)
            for trial, choice, value, one in zip(trials, choices, y, observations)
        ]
        assert info.reset.flatten().tolist() == resets, f"case {number}, round {t + 1}: {case}"
        noises = [trial.bandit.rows[-1].noise for trial in trials]
        differ(
            info.information_gain,
            [0.5 * math.log1p(one.sd**2 / noise) for one, noise in zip(choices, noises)],
        )
        if t % 6 == 5 or t == case.rounds - 1:
            ahead = None if random.random() < 0.5 else float(random.uniform(0.0, 9.0))
            later = [None if ahead is None else one.bandit.rows[-1].time + ahead for one in trials]
            predictions = [trial.bandit.predict(one) for trial, one in zip(trials, later)]
            when = None if ahead is None else tensor(later)
            posterior = strategy.posterior(state, case.X, now=when)
            joint = posterior.distribution.covariance_matrix
            differ(posterior.mean.squeeze(-1), [one.mean for one in predictions])
            differ(joint, [one.covariance for one in predictions])
            best = _arms(case, strategy.recommend(state, now=when))
            for trial, prediction, arm in zip(trials, predictions, best):
                value = prediction.mean if trial.bandit.maximize else -prediction.mean
                unit = math.sqrt(case.K.diagonal().max())
                least = value.max() - TIES * unit - case.rounding
                assert value[arm] >= least, f"case {number}: {case}"
    return worst


def _choose(
    case: Case,
    state: State,
    trials: list[Trial],
    at: list[float | None],
    now: list[float] | None,
    generator: torch.Generator,
    random: np.random.Generator,
) -> tuple[Suggestion, list[Choice]]:
    """The library's suggestion, and the textbook's choice."""
    shape, strategy = case.batch_shape, case.strategy
    when = None if now is None else torch.as_tensor(np.array(now)).reshape(shape)
    suggestion = strategy.ask(state, now=when, generator=generator)
    arms, bandits = _arms(case, suggestion.X), [trial.bandit for trial in trials]
    if case.book["exploration"] in ("ucb", "ei", "pi", "directed"):
        choices = [bandit.choose(one) for bandit, one in zip(bandits, at)]
        for bandit, choice, arm in zip(bandits, choices, arms):
            assert acceptable(bandit, choice, arm, case.rounding), (
                f"round {len(bandit.rows) + 1}: chose {arm}, not {choice.index}; {case}"
            )
    else:
        choices = [bandit.consider(0, one) for bandit, one in zip(bandits, at)]
    if random.random() < 0.1:  # a point chosen by the user
        arms = [int(random.integers(len(case.K))) for _ in trials]
        X = case.X[torch.tensor(arms).reshape(shape)]
        suggestion = strategy.suggestion_at(state, X, now=when)
    return suggestion, [one.at(choice, arm) for one, choice, arm in zip(bandits, choices, arms)]


def _arms(case: Case, X: torch.Tensor) -> list[int]:
    return torch.cdist(X.reshape(-1, X.shape[-1]), case.X).argmin(-1).tolist()
