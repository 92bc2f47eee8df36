"""Decision sets D_t of GP-TS, [C17] Algorithm 2 and Theorem 4."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.acquisition import LatticeSets, Thompson
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Grid, gp_ts
from botorch_tv.theory import log_decision_set

LINE = Grid.regular(9, 1)
STRATEGY = gp_ts(kernel=unit_kernel("se", 0.2), noise=0.1)
scores: list[torch.Tensor] = []


class Noted(Thompson):
    def score(self, candidates):
        scores.append(super().score(candidates).clone())
        return scores[-1]


def arms(t: int) -> torch.Tensor:
    return torch.tensor([7, 2, 4]) if t % 2 else torch.tensor([3, 8])


def play(domain, exploration, rounds=4):
    """The choices of five trials in some rounds, each with the scores of that round."""
    strategy = replace(STRATEGY, exploration=exploration)
    state, generator = strategy.init(domain, batch_shape=(5,)), torch.Generator().manual_seed(3)
    for t in range(1, rounds + 1):
        scores.clear()
        suggestion = strategy.ask(state, generator=generator)
        yield t, suggestion, scores[0]
        y = torch.sin(6 * suggestion.X[..., 0])
        state, _ = strategy.tell(state, suggestion, y)


def test_best_arm_of_the_set_is_played() -> None:
    elsewhere = 0
    for t, suggestion, score in play(LINE, Noted(arms)):
        among = arms(t)
        assert torch.equal(suggestion.index, among[score[:, among].argmax(-1)])
        elsewhere += int((score.argmax(-1) != suggestion.index).sum())
    assert elsewhere > 5  # without the sets, other arms would have been played


def test_best_point_of_the_lattice_is_played() -> None:
    lattice = LatticeSets(B=1, L=3)
    for t, suggestion, score in play(Box([(0.0, 1.0)]), Noted(lattice)):
        assert score.shape == (5, 3 * t**2)
        assert torch.equal(suggestion.X, lattice(t)[score.argmax(-1)])


def test_lattice_has_the_size_and_the_distances_of_theorem_4() -> None:
    lattice = LatticeSets(B=1.5, L=2, r=2, dim=2)
    for t in (1, 2):
        points = lattice(t)
        size = log_decision_set(t, B=1.5, L=2, r=2, dim=2)
        assert math.log(len(points)) == pytest.approx(float(size))
        x = 2 * torch.rand(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(t))
        apart = (x.unsqueeze(1) - points).abs().sum(-1).amin(-1)
        assert float(apart.max()) <= 1 / (1.5 * 2 * t**2)
    assert len(replace(lattice, most=120)(9)) == 100
    assert len(LatticeSets(B=0.1, L=1)(1)) == 1


@pytest.mark.parametrize(
    ("domain", "among", "message"),
    [
        (LINE, torch.zeros(3, 1), r"float32 of shape \(3, 1\), .* indices of arms"),
        (LINE, torch.zeros(0, dtype=torch.int64), "at least one"),
        (Box([(0.0, 1.0)]), torch.tensor([1, 2]), "floating-point tensor of shape M x 1"),
        (Box([(0.0, 1.0)]), torch.tensor([[2.0]]), "2.0"),
    ],
)
def test_refused(domain, among, message) -> None:
    with pytest.raises(InputDataError, match=message):
        next(play(domain, Thompson(lambda t: among)))
