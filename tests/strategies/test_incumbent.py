"""Incumbents of improvements, and ties."""

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidence
from botorch_tv.acquisition.exploration import BestMean
from botorch_tv.forgetting import Markov, SlidingWindow
from botorch_tv.gp.linalg import random_maximum
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy, Grid, gp_ei, gp_pi

D = torch.float64
ARMS = torch.linspace(0, 1, 9, dtype=D).unsqueeze(-1)
DOMAINS = {
    "grid": Grid(ARMS),
    "box": Box(torch.tensor([[0.0], [1.0]], dtype=D), search=DiscreteSearch(ARMS)),
}
OBSERVED = [(2, 3.0, True), (6, 5.5, True), (3, 9.0, False), (5, 4.0, True), (1, 4.6, True)]
"""Arms, values and whether they were measured."""
NOISE, MEAN, EPSILON = 0.3, 1.5, 0.1


def kernel():
    made = RBFKernel().double()
    made.lengthscale = torch.tensor(0.2, dtype=D)
    return made


def played(strategy, domain, sign=1):
    state = strategy.init(domain, batch_shape=(2,))
    for arm, y, ok in OBSERVED:
        at = strategy.suggestion_at(state, ARMS[arm].expand(2, 1))
        y = torch.full((2,), sign * y, dtype=D)
        state, _ = strategy.tell(state, at, y, ok=torch.tensor([ok, ok]))
    return state


def textbook(retained, observed, rule):
    rows = [
        (arm, y, number)
        for number, (arm, y, ok) in enumerate(OBSERVED)
        if number in retained and ok
    ]
    index = torch.tensor([arm for arm, _, _ in rows])
    y = torch.tensor([value for _, value, _ in rows], dtype=D) - MEAN
    time = torch.tensor([number + 1.0 for _, _, number in rows], dtype=D)
    prior = kernel()(ARMS).to_dense().detach()
    decay = (1 - EPSILON) ** ((time[:, None] - time).abs() / 2)
    now = (1 - EPSILON) ** ((len(OBSERVED) + 1 - time) / 2)
    inverse = (prior[index][:, index] * decay + NOISE * torch.eye(len(y), dtype=D)).inverse()
    cross = prior[:, index] * now
    mean, variance = cross @ inverse @ y, 1 - (cross @ inverse * cross).sum(-1)
    u = (mean - (y.max() if observed else mean[index].max())) / variance.sqrt()
    if rule is ProbabilityOfImprovement:
        return u
    normal = torch.distributions.Normal(torch.zeros((), dtype=D), 1.0)
    return variance.sqrt() * (normal.log_prob(u).exp() + u * normal.cdf(u))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("incumbent", ["posterior", "observed"])
@pytest.mark.parametrize("rule", [ExpectedImprovement, ProbabilityOfImprovement])
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_best_improvement_on_either_incumbent(domain, rule, incumbent, window, sign):
    strategy = GPStrategy(
        kernel=kernel(),
        noise=NOISE,
        mean=sign * MEAN,
        decay=Markov(EPSILON),
        retention=() if window is None else SlidingWindow(window),
        exploration=rule(incumbent=incumbent),
        maximize=sign > 0,
    )
    suggestion = strategy.ask(played(strategy, DOMAINS[domain], sign))
    retained = range(len(OBSERVED))[-(window or len(OBSERVED)) :]
    scores = textbook(retained, incumbent == "observed", rule)
    best = scores.topk(2).values
    assert best[0] - best[1] > 1e-6, "the case must decide"
    wanted = ARMS[scores.argmax()].expand(2, 1)
    torch.testing.assert_close(suggestion.X, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("preset", [gp_ei, gp_pi])
def test_unknown_options_are_refused(preset):
    with pytest.raises(ValueError, match='incumbent is \'best\'; choose "posterior" or "observed"'):
        preset(kernel=kernel(), noise=0.1, incumbent="best")
    with pytest.raises(ValueError, match='ties is None; choose "first" or "random"'):
        preset(kernel=kernel(), noise=0.1, ties=None)


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
