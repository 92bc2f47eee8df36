"""What improvements are measured from: the best posterior mean, or the best value observed."""

import pytest
import torch
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import ExpectedImprovement, ProbabilityOfImprovement
from botorch_tv.forgetting import Markov, SlidingWindow
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy, Grid, gp_ei, gp_pi

D = torch.float64
ARMS = torch.linspace(0, 1, 9, dtype=D).unsqueeze(-1)
DOMAINS = {
    "grid": Grid(ARMS),
    "box": Box(torch.tensor([[0.0], [1.0]], dtype=D), search=DiscreteSearch(ARMS)),
}
TOLD = [(2, 3.0, True), (6, 5.5, True), (3, 9.0, False), (5, 4.0, True), (1, 4.6, True)]
"""Arms, values and whether they were measured."""
NOISE, MEAN, EPSILON = 0.3, 1.5, 0.1


def kernel():
    made = RBFKernel().double()
    made.lengthscale = torch.tensor(0.2, dtype=D)
    return made


def played(strategy, domain, sign=1):
    state = strategy.init(domain, batch_shape=(2,))
    for arm, y, ok in TOLD:
        at = strategy.suggestion_at(state, ARMS[arm].expand(2, 1))
        y = torch.full((2,), sign * y, dtype=D)
        state, _ = strategy.tell(state, at, y, ok=torch.tensor([ok, ok]))
    return state


def textbook(retained, observed, rule):
    rows = [
        (arm, y, number) for number, (arm, y, ok) in enumerate(TOLD) if number in retained and ok
    ]
    index = torch.tensor([arm for arm, _, _ in rows])
    y = torch.tensor([value for _, value, _ in rows], dtype=D) - MEAN
    time = torch.tensor([number + 1.0 for _, _, number in rows], dtype=D)
    prior = kernel()(ARMS).to_dense().detach()
    decay = (1 - EPSILON) ** ((time[:, None] - time).abs() / 2)
    now = (1 - EPSILON) ** ((len(TOLD) + 1 - time) / 2)
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
    retained = range(len(TOLD))[-(window or len(TOLD)) :]
    scores = textbook(retained, incumbent == "observed", rule)
    best = scores.topk(2).values
    assert best[0] - best[1] > 1e-6, "the case must decide"
    wanted = ARMS[scores.argmax()].expand(2, 1)
    torch.testing.assert_close(suggestion.X, wanted, rtol=0, atol=1e-12)


def test_the_incumbents_differ_where_a_reading_was_lucky():
    seen = []

    class Looks(ExpectedImprovement):
        def score(self, candidates):
            seen.append((candidates.incumbent, candidates.best_observation))
            return super().score(candidates)

    strategy = GPStrategy(kernel=kernel(), noise=1.0, mean=2.0, exploration=Looks())
    state = strategy.init(DOMAINS["grid"])
    strategy.ask(state)
    state, _ = strategy.tell(state, strategy.ask(state), 5.0)
    strategy.ask(state)
    assert [float(value) for value in seen[0]] == [0.0, 0.0]
    assert [float(value) for value in seen[-1]] == pytest.approx([1.5, 3.0])


@pytest.mark.parametrize("preset", [gp_ei, gp_pi])
def test_words_that_are_none(preset):
    with pytest.raises(ValueError, match='incumbent is \'best\'; choose "posterior" or "observed"'):
        preset(kernel=kernel(), noise=0.1, incumbent="best")
    with pytest.raises(ValueError, match='ties is None; choose "first" or "random"'):
        preset(kernel=kernel(), noise=0.1, ties=None)
