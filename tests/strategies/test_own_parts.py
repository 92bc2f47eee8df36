"""Retentions, explorations and memories of a user's own."""

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import Kernel, RBFKernel
from oracles import dense
from oracles.dense import DenseBandit

from botorch_tv.acquisition import (
    Constant,
    ExpectedImprovement,
    Exploration,
    ProbabilityOfImprovement,
    UpperConfidence,
)
from botorch_tv.acquisition.exploration import BestMean
from botorch_tv.forgetting import Markov, Retained, Retention, SlidingWindow
from botorch_tv.gp.linalg import random_maximum
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    MultiStart,
    Strategy,
    gp_ei,
    gp_pi,
)

D = torch.float64
KERNEL = unit_kernel("se", 0.3)
QUICK = MultiStart(raw_samples=64, restarts=3, evaluations=20)
GRID, BOX = Grid.regular(4, 2), Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D), search=QUICK)
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")


@dataclass(frozen=True)
class Says(Retention):
    answer: Any
    memory: Any = None
    later: Any = lambda log: log.memory

    def init(self, batch_shape):
        return copy.deepcopy(self.memory)

    def keep(self, log):
        return self.answer(log)

    def update(self, log):
        return self.later(log)


@dataclass(frozen=True)
class Picks(Exploration):
    choice: Any

    def choose(self, candidates):
        return self.choice(candidates)


class Cauchy(Kernel):
    has_lengthscale = True

    def forward(self, x1, x2, diag=False, **params):
        apart = self.covar_dist(x1 / self.lengthscale, x2 / self.lengthscale, diag=diag)
        return 1 / (1 + apart.square())


def strategy_of(**parts: Any) -> Strategy:
    return GPStrategy(**({"kernel": KERNEL, "noise": 0.05} | parts))


def played(strategy: Strategy, domain: Any, shape=(), rounds=5, trials=None, **tell: Any) -> tuple:
    trials = list(range(math.prod(shape))) if trials is None else trials
    state, record = strategy.init(domain, batch_shape=shape), []
    for t in range(rounds):
        generators = [torch.Generator().manual_seed(100 * t + trial) for trial in trials]
        suggestion = strategy.ask(state, generator=generators)
        record.append(suggestion)
        state, _ = strategy.tell(state, suggestion, measured(suggestion.X, t, trials), **tell)
    return state, record


def measured(X: torch.Tensor, t: int, trials: list[int]) -> torch.Tensor:
    phase = torch.tensor(trials, dtype=D).reshape(X.shape[:-1])
    return torch.cos(4 * X.sum(-1) + 0.4 * t + phase) + (t % 4 == 3)


@pytest.mark.parametrize("domain", [Grid.regular(4, 2), BOX], ids=["grid", "box"])
def test_a_kernel(domain):
    strategy = strategy_of(kernel=Cauchy().double())
    state, record = played(strategy, domain)
    X = torch.stack([suggestion.X for suggestion in record])
    y, at = state.history.y.tensor(), GRID.X[3:9]
    # The kernel's default lengthscale is ln 2.
    among, across = (1 / (1 + (torch.cdist(a, X) / math.log(2)) ** 2) for a in (X, at))
    wanted = across @ torch.linalg.solve(among + 0.05 * torch.eye(5, dtype=D), y)
    mean = strategy.posterior(state, at).mean.squeeze(-1)
    torch.testing.assert_close(mean, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (lambda log: None, "but keep.. must return a Retained"),
        (lambda log: log.time, r"rows \(torch.float64"),
        (lambda log: torch.ones(1, dtype=torch.bool), r"must be a bool tensor of shape \(2, 1\)"),
        (lambda log: Retained(newest=-1), "a whole number from 0 on"),
        (lambda log: Retained(newest=1, where=log.now), r"where \(torch.float64"),
        (lambda log: Retained(reset=1), "answered with reset 1"),
        (lambda log: Retained(aside=log.now > 9), r"aside .*must be a bool tensor of shape"),
        (lambda log: Retained(where=log.now > 0), "with where= but no newest="),
    ],
)
def test_answers_that_fit_no_log_are_refused(answer, match):
    strategy = strategy_of(retention=Says(answer))
    state = strategy.init(GRID, batch_shape=(2,))
    suggestion, before = strategy.ask(state), copy.deepcopy(state)
    with pytest.raises(InputDataError, match=match):
        strategy.tell(state, suggestion, torch.ones(2, dtype=D))
    assert_identical(state, before)


@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_failed_and_dropped_rows_are_hidden_from_rules(domain):
    seen = []

    def alternate(log):
        count = log.y.shape[-1]
        seen.append((log.y, log.noise, log.retained))
        return Retained(rows=(torch.arange(count) + torch.arange(2).unsqueeze(-1)) % 3 > 0)

    strategy = strategy_of(retention=Says(alternate))
    state = strategy.init(domain, batch_shape=(2,))
    for t in range(7):
        ok = torch.tensor([t % 4 != 1, True])
        y = torch.full((2,), 5.0 + t, dtype=D)
        state, _ = strategy.tell(state, strategy.ask(state), y, ok=ok)
    assert any(bool((~retained).any()) for *_, retained in seen)
    for y, noise, retained in seen:
        assert torch.equal(y == 0, noise.isinf())
        assert bool(noise[~retained].isinf().all())


def test_a_state_does_not_change_where_a_rule_answers_in_its_memory_again():
    memory = torch.zeros(2, 9, dtype=torch.bool)

    def alternate(log):
        rows = memory[:, : log.y.shape[-1]].fill_(True)
        rows[log.rounds % 2, 0] = log.rounds < 3
        return Retained(rows=rows)

    strategy = strategy_of(retention=Says(alternate))
    state = strategy.init(GRID, batch_shape=(2,))
    for t in range(5):
        state, _ = strategy.tell(state, strategy.ask(state), torch.full((2,), 5.0 + t, dtype=D))
        before = copy.deepcopy(state)
        strategy.tell(state, strategy.ask(state), torch.zeros(2, dtype=D))
        assert_identical(state, before)


@pytest.mark.parametrize(
    ("memory", "later", "match"),
    [
        (torch.zeros(7), lambda log: log.memory, r"of shape \(7,\) in its memory"),
        (torch.zeros(2), lambda log: log.y.mean(), r"of shape \(\) in its memory"),
        (torch.zeros(2), lambda log: None, "update returned None"),
        (torch.nn.Linear(1, 1), lambda log: log.memory, "a memory consists of tensors"),
    ],
)
def test_memories_that_do_not_fit_are_refused(memory, later, match):
    strategy = strategy_of(retention=Says(lambda log: Retained(), memory, later))
    with pytest.raises(InputDataError, match=match):
        played(strategy, GRID, (2,), rounds=2)


@pytest.mark.parametrize(
    ("choice", "domain", "match"),
    [
        (lambda seen: seen.argmax(lambda at: at.mean).double(), GRID, "Picks is torch.float64"),
        (lambda seen: seen.anywhere() + 16, GRID, "out of bounds"),
        (lambda seen: seen.anywhere() + 2, BOX, "lies outside"),
        (lambda seen: seen.anywhere() * math.nan, BOX, "is not finite"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), GRID, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), BOX, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean > 0), GRID, "floating-point numbers"),
        (lambda seen: seen.argmax(lambda at: at.mean[..., :1]), BOX, "shape of the candidates"),
        (lambda seen: seen.argmax(lambda at: at.mean.detach()), BOX, "without detach"),
        (lambda seen: seen.mean.argmax(-1), BOX, "cannot be listed"),
        (lambda seen: None, GRID, "the choice of Picks is None"),
    ],
)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_choices_that_fit_no_domain_are_refused(choice, domain, match, shape):
    strategy = strategy_of(exploration=Picks(choice))
    with pytest.raises((InputDataError, NotImplementedError, RuntimeError), match=match):
        strategy.ask(strategy.init(domain, batch_shape=shape))


@pytest.mark.full
def test_two_samples_of_a_round_are_two_functions():
    seen: list[torch.Tensor] = []

    def choice(candidates: Any) -> torch.Tensor:
        place = candidates.anywhere()
        both = [candidates.at(place).sample(2)[..., 0] for _ in range(2)]
        assert torch.equal(*both)
        assert torch.equal(both[0][0], candidates.at(place).sample()[0, ..., 0])
        seen.append(both[0])
        return place

    for domain in (GRID, BOX):
        strategy = strategy_of(exploration=Picks(choice))
        state, _ = played(strategy, domain, (400,), rounds=2)
        strategy.ask(state)
        first, second = seen[-1]
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.2  # 4 standard errors


@dataclass(frozen=True)
class Curious(Exploration):
    seen: list = field(default_factory=list)

    def score(self, candidates):
        facts = (candidates.has_data, candidates.incumbent, candidates.sqrt_beta)
        where = (candidates.sign, candidates.scale, candidates.mean.shape)
        self.seen.append((*facts, *where, candidates.round, candidates.noise))
        return candidates.sign * candidates.mean


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_candidates_show_the_posterior_of_each_trial(domain, maximize):
    strategy = GPStrategy(
        kernel=unit_kernel("se", 0.2),
        noise=0.1,
        width=Constant(4.0),
        exploration=(curious := Curious()),
        maximize=maximize,
    )
    state = strategy.init(domain, batch_shape=(3,))
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    for x, y, ok in (
        (corners[0], [3.0, -2.0, 9.0], [True, True, False]),
        (corners[1], [-1.0, 7.0, 7.0], [True, False, False]),
    ):
        at = strategy.suggestion_at(state, x.expand(3, 2))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D), ok=torch.tensor(ok))
    strategy.ask(state)
    has_data, incumbent, sqrt_beta, sign, scale, shape, number, noise = curious.seen[0]
    assert has_data.tolist() == [True, True, False]
    best = 3 if maximize else -1
    # A corner tells nothing of the other, k = exp(-25): its mean is y / (1 + 0.1).
    wanted = torch.tensor([best / 1.1, -2 / 1.1, 0.0], dtype=D)
    torch.testing.assert_close(incumbent[:, 0], wanted, rtol=0, atol=1e-9)
    assert float(torch.as_tensor(sqrt_beta).max()) == pytest.approx(2.0)
    assert sign == (1 if maximize else -1)
    assert scale == pytest.approx(1.0)
    assert shape[0] == 3
    assert number == 3
    assert noise.unique().tolist() == [0.1]


# ---------------- Incumbents of improvements, and ties

ARMS = torch.linspace(0, 1, 9, dtype=D).unsqueeze(-1)
DOMAINS = {
    "grid": Grid(ARMS),
    "box": Box(torch.tensor([[0.0], [1.0]], dtype=D), search=DiscreteSearch(ARMS)),
}
OBSERVED = [(2, 3.0, True), (6, 5.5, True), (3, 9.0, False), (5, 4.0, True), (1, 4.6, True)]
"""Arms, values and whether they were measured."""
LOUD, MEAN, EPSILON = 0.3, 1.5, 0.1


def textbook(retained, observed, rule):
    bandit = DenseBandit(
        dense.squared_exponential(ARMS, 0.2), LOUD, mean=MEAN, decay=("markov", EPSILON)
    )
    for number, (arm, y, ok) in enumerate(OBSERVED):
        bandit.tell(bandit.consider(arm), y, ok=ok and number in retained)
    rows = [OBSERVED[number][:2] for number in retained if OBSERVED[number][2]]
    prediction = bandit.predict()
    highest = max(y if observed else prediction.mean[arm] for arm, y in rows)
    u = (prediction.mean - highest) / prediction.sd
    if rule is ProbabilityOfImprovement:
        return torch.tensor(u)
    return torch.tensor(np.log(prediction.sd) + dense.log_improvement(u))


def played_arms(strategy, domain, sign=1):
    state = strategy.init(domain, batch_shape=(2,))
    for arm, y, ok in OBSERVED:
        at = strategy.suggestion_at(state, ARMS[arm].expand(2, 1))
        y = torch.full((2,), sign * y, dtype=D)
        state, _ = strategy.tell(state, at, y, ok=torch.tensor([ok, ok]))
    return state


@pytest.mark.few(9)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("incumbent", ["posterior", "observed"])
@pytest.mark.parametrize("rule", [ExpectedImprovement, ProbabilityOfImprovement])
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_best_improvement_on_either_incumbent(domain, rule, incumbent, window, sign):
    strategy = GPStrategy(
        kernel=unit_kernel("se", 0.2),
        noise=LOUD,
        mean=sign * MEAN,
        decay=Markov(EPSILON),
        retention=() if window is None else SlidingWindow(window),
        exploration=rule(incumbent=incumbent),
        maximize=sign > 0,
    )
    suggestion = strategy.ask(played_arms(strategy, DOMAINS[domain], sign))
    retained = range(len(OBSERVED))[-(window or len(OBSERVED)) :]
    scores = textbook(retained, incumbent == "observed", rule)
    best = scores.topk(2).values
    assert best[0] - best[1] > 1e-6, "the case must decide"
    wanted = ARMS[scores.argmax()].expand(2, 1)
    torch.testing.assert_close(suggestion.X, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("preset", [gp_ei, gp_pi])
def test_unknown_options_are_refused(preset):
    with pytest.raises(ValueError, match='incumbent is \'best\'; choose "posterior" or "observed"'):
        preset(kernel=unit_kernel("se", 0.2), noise=0.1, incumbent="best")
    with pytest.raises(ValueError, match='ties is None; choose "first" or "random"'):
        preset(kernel=unit_kernel("se", 0.2), noise=0.1, ties=None)


POINTS = torch.arange(12, dtype=D).unsqueeze(-1)
LINE = Grid(POINTS)
TRIALS = 6_000


def apart(exploration):
    return GPStrategy(kernel=torch.eye(12, dtype=D), noise=0.1, exploration=exploration)


def frequencies(arms):
    return torch.bincount(arms, minlength=12).double() / len(arms)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tying_arms_are_equally_likely(dtype):
    score = torch.tensor([0.0, 2.0, 1.0, 2.0 - 5e-7, 2.0 - 3e-6, 2.0], dtype=dtype)
    uniform = (torch.arange(TRIALS, dtype=dtype) + 0.5) / TRIALS
    chosen = random_maximum(score.expand(TRIALS, -1), 1e-6, uniform)
    assert torch.bincount(chosen, minlength=6).tolist() == [0, 2000, 0, 2000, 0, 2000]


def test_the_ends_of_chance():
    score = torch.tensor([1.0, 0.0, 1.0])
    ends = torch.tensor([0.0, 1.0])  # single precision rounds numbers below 1 to it
    assert random_maximum(score.expand(2, -1), 0.1, ends).tolist() == [0, 2]


@pytest.mark.parametrize("exploration", [UpperConfidence, ExpectedImprovement, BestMean])
def test_the_first_arm_is_any(exploration):
    strategy = apart(exploration(ties="random"))
    state = strategy.init(LINE, batch_shape=(TRIALS,))
    assert strategy.draws
    generator = torch.Generator().manual_seed(3)
    share = frequencies(strategy.ask(state, generator=generator).index)
    assert (share - 1 / 12).abs().max() < 5 * (1 / 12 / TRIALS) ** 0.5
    first = apart(exploration())
    assert not first.draws
    assert first.ask(first.init(LINE)).index == 0


def test_a_box_cannot_list_those_that_tie():
    strategy = GPStrategy(
        kernel=RBFKernel().double(), noise=0.1, exploration=UpperConfidence(ties="random")
    )
    state = strategy.init(Box(torch.tensor([[0.0], [1.0]], dtype=D)))
    with pytest.raises(InputDataError, match='use ties="first" on a Box'):
        strategy.ask(state)
