"""Both representations of what was learned against the dense posterior covariance."""

import pytest
import torch

from botorch_tv.inference.factor import factor
from botorch_tv.inference.losses import ArmLoss, Loss, RowLoss
from botorch_tv.strategies import Grid

GRID = Grid.regular(7, 2)
K = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / 0.09)
NOISE = 0.05


def dense(arms: list[int]) -> torch.Tensor:
    index = torch.tensor(arms)
    noisy = K[index][:, index] + NOISE * torch.eye(len(arms), dtype=torch.float64)
    return K - K[:, index] @ torch.linalg.solve(noisy, K[index])


@pytest.mark.parametrize("form", [RowLoss, ArmLoss])
@pytest.mark.parametrize("kind", ["auto", "exact", "features"])
def test_covariance_after_many_observations(form: type[Loss], kind: str) -> None:
    """Two trials: one returns to few arms, the other wanders; each past every threshold."""
    basis = factor(K, GRID.shape, kind)
    generator = torch.Generator().manual_seed(2)
    rounds = 120
    played = torch.stack(
        [
            torch.randint(5, (rounds,), generator=generator) * 9,
            torch.randint(len(GRID), (rounds,), generator=generator),
        ],
        dim=-1,
    )
    loss = form.none(basis, torch.Size([2]))
    everywhere = torch.arange(len(GRID))
    for number, index in enumerate(played):
        out = torch.empty(2, len(GRID), dtype=torch.float64)
        covariance, complete = loss.meet(basis, index, None, out)
        if number in (0, 1, 40, rounds - 1):
            for trial in range(2):
                expected = dense(played[:number, trial].tolist()) if number else K
                arm = index[trial]
                torch.testing.assert_close(covariance[trial], expected[arm], rtol=0, atol=1e-9)
                lost = basis.expand(loss.at(basis, everywhere.expand(2, -1)))[trial]
                torch.testing.assert_close(K - lost, expected, rtol=0, atol=1e-9)
        total = covariance.gather(-1, index.unsqueeze(-1)).squeeze(-1) + NOISE
        loss = complete(total, 1).compact(basis)


@pytest.mark.parametrize("form", [RowLoss, ArmLoss])
def test_a_trial_that_forgets_starts_again(form: type[Loss]) -> None:
    basis = factor(K, GRID.shape)
    loss: Loss = form.none(basis, torch.Size([2]))
    for number in range(10):
        index = torch.tensor([number, 2 * number])
        covariance, complete = loss.meet(basis, index, None, torch.empty(2, 49).double())
        loss = complete(covariance.gather(-1, index.unsqueeze(-1)).squeeze(-1) + NOISE, 1)
    loss = loss.forgotten(torch.tensor([0.0, 1.0], dtype=torch.float64))
    index = torch.tensor([3, 3])
    covariance, _ = loss.meet(basis, index, None, torch.empty(2, 49).double())
    torch.testing.assert_close(covariance[0], K[3], rtol=0, atol=1e-9)
    kept = dense([2 * number for number in range(10)])
    torch.testing.assert_close(covariance[1], kept[3], rtol=0, atol=1e-9)
