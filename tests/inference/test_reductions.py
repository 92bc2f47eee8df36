"""Every representation of what was learned against the dense posterior covariance."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from botorch_tv.inference.arm_reduction import ArmReduction
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.covariance import factor
from botorch_tv.inference.reductions import Reduction, RootReduction, RowReduction
from botorch_tv.strategies import Grid

GRID = Grid.regular(7, 2)
K = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / 0.09)
NOISE = 0.05
ALL = torch.arange(len(GRID))
FORMS = [RowReduction, ArmReduction, RootReduction]


def dense(arms: list[int]) -> Tensor:
    index = torch.tensor(arms)
    noisy = K[index][:, index] + NOISE * torch.eye(len(arms), dtype=torch.float64)
    return K - K[:, index] @ torch.linalg.solve(noisy, K[index])


def observe(reduction: Reduction, basis: Basis, index: Tensor) -> tuple[Tensor, Tensor, Reduction]:
    """The variance met, the posterior covariance met, and the reduction after the observation."""
    variance, take = reduction.meet(basis, index, None)
    root = (variance + NOISE).rsqrt()
    step, reduction = take(root, 1, torch.empty(*index.shape, basis.arms, dtype=torch.float64))
    return variance, step / root.unsqueeze(-1), reduction.compact(basis)


def cases() -> list[tuple[type[Reduction], str]]:
    """A root needs features; the other forms take any basis."""
    kinds = ("auto", "exact", "features")
    return [(form, kind) for form in (RowReduction, ArmReduction) for kind in kinds] + [
        (RootReduction, "features")
    ]


@pytest.mark.parametrize(("form", "kind"), cases())
def test_covariance_after_many_observations(form: type[Reduction], kind: str) -> None:
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
    reduction = form.none(basis, torch.Size([2]))
    for number, index in enumerate(played):
        before = reduction.copied()
        variance, covariance, reduction = observe(reduction, basis, index)
        if number in (0, 1, 40, rounds - 1):
            for trial in range(2):
                expected = dense(played[:number, trial].tolist()) if number else K
                arm = index[trial]
                torch.testing.assert_close(variance[trial], expected[arm, arm], rtol=0, atol=1e-9)
                torch.testing.assert_close(covariance[trial], expected[arm], rtol=0, atol=1e-9)
                lost = basis.expand(before.at(basis, ALL.expand(2, -1)))[trial]
                torch.testing.assert_close(K - lost, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_that_forgets_starts_again(form: type[Reduction]) -> None:
    basis = factor(K, GRID.shape, "features")
    reduction: Reduction = form.none(basis, torch.Size([2]))
    for number in range(10):
        reduction = observe(reduction, basis, torch.tensor([number, 2 * number]))[2]
    reduction = reduction.cleared(torch.tensor([True, False]))
    _, covariance, _ = observe(reduction, basis, torch.tensor([3, 3]))
    torch.testing.assert_close(covariance[0], K[3], rtol=0, atol=1e-9)
    kept = dense([2 * number for number in range(10)])
    torch.testing.assert_close(covariance[1], kept[3], rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_posterior_covariance(form: type[Reduction]) -> None:
    """The map from normal variates to a sample is linear: its square is the covariance."""
    basis = factor(K, GRID.shape, "features")
    played = [5, 17, 17, 30, 44]
    reduction: Reduction = form.none(basis, torch.Size([basis.normals]))
    for arm in played:
        reduction = observe(reduction, basis, torch.full((basis.normals,), arm))[2]
    unit = torch.eye(basis.normals, dtype=torch.float64)
    samples = basis.expand(reduction.draw(basis, None, unit))
    torch.testing.assert_close(samples.T @ samples, dense(played), rtol=0, atol=1e-9)


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["exact", "features"])
def test_more_rounds_never_take_less_memory(kind: str, lengthscale: float) -> None:
    """Of as many features as arms, and of fewer."""
    smooth = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / lengthscale**2)
    basis = factor(smooth, GRID.shape, inference=kind)
    assert kind == "exact" or (basis.size < len(GRID)) == (lengthscale > 0.5)
    for form in FORMS if kind == "features" else FORMS[:2]:
        numbers = [form.numbers(basis, rounds) for rounds in range(4 * len(GRID))]
        assert all(before <= after for before, after in pairwise(numbers))
        assert numbers[-1] > 0


def test_rows_become_a_root() -> None:
    """Before and after they have been absorbed, and it is gone on with."""
    basis = factor(K, GRID.shape, "features")
    generator = torch.Generator().manual_seed(4)
    played = torch.randint(len(GRID), (70, 2), generator=generator)
    reduction: Reduction = RowReduction.none(basis, torch.Size([2]))
    for number, index in enumerate(played[:-1]):
        _, _, reduction = observe(reduction, basis, index)
        if number in (0, 5, 68):
            assert isinstance(reduction, RowReduction)
            _, covariance, _ = observe(reduction.as_root(), basis, played[-1])
            for trial in range(2):
                expected = dense(played[: number + 1, trial].tolist())[played[-1, trial]]
                torch.testing.assert_close(covariance[trial], expected, rtol=0, atol=1e-9)
