"""RExp3 against the algorithm written out in plain Python."""

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import Box, Grid, rexp3

ARMS, PERIOD, LOW, HIGH, TRIALS, ROUNDS = 5, 7, -1.0, 3.0, 3, 20
GRID = Grid(torch.linspace(0, 1, ARMS, dtype=torch.float64)[:, None])
# Observations beyond both ends of the range of rewards, and a failed measurement.
VALUES = (
    6 * torch.rand(ROUNDS, TRIALS, ARMS, generator=torch.Generator().manual_seed(1)).double() - 2
)
CHANCES = torch.rand(ROUNDS, TRIALS, generator=torch.Generator().manual_seed(2)).double()
CHANCES[9, 2] = 1.0  # the last arm, although no number of the generator is 1
FAILED = {(4, 1), (11, 0)}


class Fixed:
    """Uniform numbers, one draw after the other, that the textbook reads as well."""

    def __init__(self, draws):
        self.draws = iter(draws)

    def uniform(self, *event_shape):
        return next(self.draws)

    def normal(self, *event_shape):
        raise AssertionError("uniform numbers only are drawn")


def player(**more):
    return rexp3(kernel=RBFKernel().double(), noise=0.1, period=PERIOD, low=LOW, high=HIGH, **more)


def textbook(trial: int, gamma: float, maximize: bool) -> tuple[list[int], list[list[float]]]:
    """Besbes, Gur, Zeevi (2014): the arms drawn in a trial, and the weights of each round."""
    weights, arms, every = [1.0] * ARMS, [], []
    for t in range(ROUNDS):
        if t % PERIOD == 0:
            weights = [1.0] * ARMS
        every.append(list(weights))
        p = [(1 - gamma) * w / sum(weights) + gamma / ARMS for w in weights]
        below, arm = 0.0, 0
        for arm in range(ARMS):
            below += p[arm]
            if float(CHANCES[t, trial]) < below:
                break
        arms.append(arm)
        reward = min(1.0, max(0.0, (float(VALUES[t, trial, arm]) - LOW) / (HIGH - LOW)))
        reward = reward if maximize else 1 - reward
        if (t, trial) not in FAILED:
            weights[arm] *= math.exp(gamma / ARMS * reward / p[arm])
    return arms, every


@pytest.mark.few(2)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("gamma", [None, 0.3, 1.0])
def test_draws_are_those_of_the_algorithm(gamma, maximize, tmp_path):
    """Of each trial alone; a state is not written into, and goes on when it is saved."""
    used = gamma or min(1.0, math.sqrt(ARMS * math.log(ARMS) / ((math.e - 1) * PERIOD)))
    assert gamma or used < 1
    strategy = player(gamma=gamma, maximize=maximize)
    state, played, resets = strategy.init(GRID, batch_shape=(TRIALS,)), [], []
    found = []
    for t in range(ROUNDS):
        suggestion = strategy.ask(state, generator=Fixed([CHANCES[t]]))
        played.append(suggestion.index)
        found.append(state.memory[-1].exp())
        y = VALUES[t].gather(-1, suggestion.index[:, None])[:, 0]
        ok = torch.tensor([(t, trial) not in FAILED for trial in range(TRIALS)])
        before = state.memory[-1].clone()
        after, info = strategy.tell(state, suggestion, y, ok=ok)
        assert torch.equal(state.memory[-1], before)
        resets.append(bool(info.reset.any()))
        if t == 4:
            torch.save(after, tmp_path / "state.pt")
            after = torch.load(tmp_path / "state.pt", weights_only=False)
        state = after
    expected, weights = zip(*(textbook(trial, used, maximize) for trial in range(TRIALS)))
    assert torch.stack(played, -1).tolist() == list(expected)
    torch.testing.assert_close(torch.stack(found, 1), torch.tensor(weights, dtype=torch.float64))
    alone = strategy.ask(strategy.init(GRID), generator=Fixed([CHANCES[0, 0]]))
    assert int(alone.index) == expected[0][0]
    # A period that has ended is reported in the next round, as for R-GP-UCB.
    assert [t for t in range(ROUNDS) if resets[t]] == [PERIOD, 2 * PERIOD]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"low": 3.0}, "low must be less"),
        ({"high": math.nan}, "high is nan"),
        ({"period": 0}, "period is 0"),
        ({"gamma": 0.0}, "gamma is 0"),
        ({"gamma": 1.1}, "gamma is 1.1"),
    ],
)
def test_refusals(more, message):
    given = {"period": PERIOD, "low": LOW, "high": HIGH} | more
    with pytest.raises(ValueError, match=message):
        rexp3(kernel=RBFKernel().double(), noise=0.1, **given)


def test_a_box_has_no_list_of_arms():
    with pytest.raises(InputDataError, match="needs a list of arms"):
        player().init(Box([(0, 1)]))
