"""What a strategy believes on a box, against the textbook, for every way to forget."""

import itertools

import numpy as np
import pytest
import torch
from conformance.presets import logarithmic
from gpytorch.kernels import MaternKernel
from oracles.dense import DenseBandit, matern_five_halves

from botorch_tv.acquisition import Logarithmic
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
from botorch_tv.strategies import Box, GPStrategy

D = torch.float64
NOISE, LENGTHSCALE, ROUNDS, TRIALS = 0.05, 0.4, 9, 3
POINTS = np.random.default_rng(0).uniform([-1.0, 2.0], [1.0, 3.0], (8, 2))
BOX = Box(torch.tensor([[-1.0, 2.0], [1.0, 3.0]], dtype=D))
K = matern_five_halves(POINTS, LENGTHSCALE)

DECAYS = {
    "static": (Static(), ("static",)),
    "markov": (Markov(0.08), ("markov", 0.08)),
    "wiener": (Wiener(0.2), ("wiener", 0.2)),
}
INFLATIONS = {
    "plain": (Static(), ("constant",)),
    "exponential": (ExponentialWeights(0.8), ("exponential", 0.8)),
    "injection": (UncertaintyInjection(0.7, kappa=0.4), ("injection", 0.7, 0.4)),
}
RETENTIONS = {
    "all": (KeepAll(), ("all",)),
    "reset": (PeriodicReset(4), ("period", 4, "rounds")),
    "reset by time": (PeriodicReset(3.3, by="time"), ("period", 3.3, "time")),
    "window": (SlidingWindow(4), ("window", 4, "rounds")),
    "window by time": (SlidingWindow(3.3, by="time"), ("window", 3.3, "time")),
    "trigger": (EventTrigger(0.1), ("trigger", 0.1)),
}
COMBINATIONS = list(itertools.product(DECAYS, INFLATIONS, RETENTIONS))
MEANS = (0.0, 0.6, "estimated")


def cases():
    """Every combination with every prior mean; two thirds of them are slow, one of each left."""
    for names in COMBINATIONS:
        turn = sum(list(part).index(n) for part, n in zip((DECAYS, INFLATIONS, RETENTIONS), names))
        for number, mean in enumerate(MEANS):
            marks = () if number == turn % 3 else (pytest.mark.slow,)
            yield pytest.param(*names, mean, id=" x ".join((*names, str(mean))), marks=marks)


def module():
    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = torch.tensor(LENGTHSCALE, dtype=D)
    return kernel


class Log:
    """What is measured, when and how well; the same for library and textbook."""

    def __init__(self, seed, number):
        random = np.random.default_rng([seed, number])
        shape = (ROUNDS, TRIALS)
        self.arm = random.integers(0, len(POINTS), shape)
        self.time = np.cumsum(random.exponential(0.8, shape), 0) + 50.0
        # Jumps make the triggers fire, in different rounds.
        self.y = random.standard_normal(shape) * np.where(random.random(shape) < 0.25, 6.0, 0.6)
        self.ok = random.random(shape) < 0.8
        self.noise = NOISE * np.exp(random.standard_normal(shape))
        self.asked_at = random.random(ROUNDS) < 0.5  # whether the time is said when asking


@pytest.mark.parametrize(("decay", "inflation", "retention", "mean"), [*cases()])
def test_every_way_to_forget_by_the_textbook(decay, inflation, retention, mean):
    number = COMBINATIONS.index((decay, inflation, retention))
    maximize = number // 6 % 2 == 0
    ours = [DECAYS[decay][0], INFLATIONS[inflation][0], RETENTIONS[retention][0]]
    theirs = [DECAYS[decay][1], INFLATIONS[inflation][1], RETENTIONS[retention][1]]
    strategy = GPStrategy(
        kernel=module(),
        noise=NOISE,
        decay=ours[0],
        inflation=ours[1],
        retention=ours[2],
        width=Logarithmic(c1=0.4, c2=4.0),
        maximize=maximize,
        mean=mean,
    )
    bandits = [
        DenseBandit(
            K,
            NOISE,
            decay=theirs[0],
            inflation=theirs[1],
            retention=theirs[2],
            sqrt_beta=logarithmic,
            gains=False,
            maximize=maximize,
            mean=mean,
        )
        for _ in range(TRIALS)
    ]
    log, arms = Log(1, number), torch.tensor(POINTS)
    state = strategy.init(BOX, batch_shape=(TRIALS,))
    fired = 0
    for t in range(ROUNDS):
        time = torch.tensor(log.time[t])
        now = time if log.asked_at[t] else None
        chosen = torch.tensor(log.arm[t])
        suggestion = strategy.suggestion_at(state, arms[chosen], now=now)
        choices = [
            bandit.consider(int(log.arm[t, i]), float(time[i]) if log.asked_at[t] else None)
            for i, bandit in enumerate(bandits)
        ]
        for name in ("mean", "sd", "sqrt_beta", "time"):
            wanted = [getattr(choice, name) for choice in choices]
            np.testing.assert_allclose(
                getattr(suggestion, name), wanted, rtol=0, atol=1e-8, err_msg=f"{name}, round {t}"
            )
        y = torch.where(torch.tensor(log.ok[t]), torch.tensor(log.y[t]), torch.nan)
        own = t % 3 > 0  # else the strategy's noise
        state, info = strategy.tell(
            state,
            suggestion,
            y,
            time=time,
            ok=torch.tensor(log.ok[t]),
            noise=torch.tensor(log.noise[t]) if own else None,
        )
        for i, (bandit, choice) in enumerate(zip(bandits, choices)):
            reset = bandit.tell(
                choice,
                float(log.y[t, i]),
                float(time[i]),
                ok=bool(log.ok[t, i]),
                noise=float(log.noise[t, i]) if own else None,
            )
            if retention == "trigger":
                assert bool(info.reset[i]) == reset
                fired += reset
        later = torch.tensor(log.time[t]) + 1.7
        for when in (None, later) if t % 4 == 0 else ():
            posterior = strategy.posterior(state, arms, now=when)
            for i, bandit in enumerate(bandits):
                believed = bandit.predict(None if when is None else float(later[i]))
                np.testing.assert_allclose(
                    posterior.mean[i, :, 0], believed.mean, rtol=0, atol=1e-8
                )
                covariance = posterior.distribution.covariance_matrix[i]
                np.testing.assert_allclose(covariance, believed.covariance, rtol=0, atol=1e-8)
    assert retention != "trigger" or 0 < fired < ROUNDS * TRIALS


def test_observation_noise_and_groups_of_points():
    """`e x batch_shape x q x d`, or fewer dimensions; the noise is a new observation's."""
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Markov(0.1))
    state, arms = strategy.init(BOX, batch_shape=(2, 1)), torch.tensor(POINTS)
    for t in range(3):
        X = arms[torch.tensor([[t], [t + 2]])]
        told = torch.tensor([[0.3 * t], [-0.2]], dtype=D)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), told, noise=0.3)
    whole = strategy.posterior(state, arms)
    assert whole.mean.shape == (2, 1, 8, 1)
    for lead in ((), (4,), (2, 2)):
        groups = arms.view(4, 1, 1, 2, 2).expand(4, 2, 1, 2, 2)
        groups = groups.reshape(*lead, 2, 1, 2, 2) if lead else groups[0]
        posterior = strategy.posterior(state, groups)
        assert posterior.mean.shape == (*lead, 2, 1, 2, 1)
        for number in range(4 if lead else 1):
            part = slice(2 * number, 2 * number + 2)
            mean = posterior.mean.reshape(-1, 2, 1, 2, 1)[number]
            covariance = posterior.distribution.covariance_matrix.reshape(-1, 2, 1, 2, 2)[number]
            torch.testing.assert_close(mean, whole.mean[..., part, :])
            wanted = whole.distribution.covariance_matrix[..., part, part]
            torch.testing.assert_close(covariance, wanted)
    noisy = strategy.posterior(state, arms, observation_noise=True)
    torch.testing.assert_close(noisy.variance, whole.variance + NOISE, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", [Static(), Markov(0.1), Wiener(1e-3)], ids=repr)
@pytest.mark.parametrize("inflation", [Static(), ExponentialWeights(0.9), UncertaintyInjection(1)])
def test_a_gap_of_a_billion(decay, inflation):
    """Everything stays finite; what forgets has forgotten, what does not still knows."""
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=decay, inflation=inflation)
    state, arms = strategy.init(BOX), torch.tensor(POINTS)
    for t, y in enumerate((0.5, 1.5, -0.4)):
        at = strategy.suggestion_at(state, arms[t], now=float(t))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D))
    suggestion = strategy.ask(state, now=1e9)
    assert suggestion.mean.isfinite()
    assert suggestion.sd.isfinite()
    posterior = strategy.posterior(state, arms, now=1e9)
    forgets = isinstance(decay, Markov) or not isinstance(inflation, Static)
    variance = 1e6 + 1 if isinstance(decay, Wiener) else 1.0
    if forgets:
        assert posterior.mean.abs().max() < 1e-3
        torch.testing.assert_close(
            posterior.variance, torch.full_like(posterior.variance, variance), rtol=1e-5, atol=0
        )
    elif isinstance(decay, Static):
        assert posterior.mean.abs().max() > 0.1
    # And it learns again.
    state, _ = strategy.tell(state, suggestion, torch.tensor(1.0, dtype=D))
    again = strategy.posterior(state, suggestion.X.unsqueeze(0), now=1e9)
    assert float(again.mean) == pytest.approx(1.0, abs=0.2)


def test_all_failed_is_as_nothing_told():
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Wiener(0.2), mean="estimated")
    state, arms = strategy.init(BOX, batch_shape=(2,)), torch.tensor(POINTS)
    for _ in range(3):
        suggestion = strategy.ask(state)
        assert torch.equal(suggestion.X, torch.tensor([[0.0, 2.5]] * 2, dtype=D))  # the middle
        failed = torch.tensor([False, False])
        state, info = strategy.tell(
            state, suggestion, torch.tensor([torch.nan, torch.inf], dtype=D), ok=failed
        )
        assert info.information_gain.abs().max() == 0
    posterior = strategy.posterior(state, arms)
    assert posterior.mean.abs().max() == 0
    torch.testing.assert_close(posterior.variance, torch.ones_like(posterior.variance))
    assert torch.equal(strategy.recommend(state), suggestion.X)
