"""Both engines against the dense posterior covariance."""

from itertools import pairwise

import pytest
import torch
from torch import Size, Tensor
from torch.testing import assert_close

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.covariance import factor
from botorch_tv.gp.filter import Filter, RootFilter
from botorch_tv.strategies import Grid

GRID = Grid.regular(7, 2)
K = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / 0.09)
NOISE = 0.05
ALL = torch.arange(len(GRID))
FORMS = [Filter, PlayedArms, RootFilter]


def dense(arms: list[int]) -> Tensor:
    index = torch.tensor(arms)
    noisy = K[index][:, index] + NOISE * torch.eye(len(arms), dtype=torch.float64)
    return K - K[:, index] @ torch.linalg.solve(noisy, K[index])


def prior(form: type[RunningPosterior], basis: Basis, trials: int) -> RunningPosterior:
    return form(basis, Size([trials]), basis.variance, trend=False)


def observe(posterior: RunningPosterior, basis: Basis, index: Tensor) -> None:
    ones = torch.ones(index.shape, dtype=torch.float64)
    posterior.observe(basis, index, ones, NOISE * ones)
    if isinstance(posterior, PlayedArms):
        posterior.reserve(basis.size)


def covariance(posterior: RunningPosterior, basis: Basis) -> Tensor:
    """Of all arms, `trials x M x M`."""
    at = posterior.at(basis, ALL.expand(len(posterior.mean), -1))
    return K - basis.expand(at)


def cases() -> list[tuple[type[RunningPosterior], str]]:
    """A root needs features; the other forms take any basis."""
    kinds = ("auto", "exact", "features")
    return [(form, kind) for form in (Filter, PlayedArms) for kind in kinds] + [
        (RootFilter, "features")
    ]


@pytest.mark.parametrize(("form", "kind"), cases())
def test_covariance_after_many_observations(form: type[RunningPosterior], kind: str) -> None:
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
    posterior = prior(form, basis, 2)
    for number, index in enumerate(played):
        before = posterior.copied()
        if number in (0, 1, 40, rounds - 1):
            for trial in range(2):
                expected = dense(played[:number, trial].tolist()) if number else K
                found = covariance(before, basis)[trial]
                assert_close(found, expected, rtol=0, atol=1e-9)
                variance = before.variance[trial]
                assert_close(variance, expected.diagonal(), rtol=0, atol=1e-9)
        observe(posterior, basis, index)
        assert len(before.mean) == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_that_forgets_starts_again(form: type[RunningPosterior]) -> None:
    basis = factor(K, GRID.shape, "features")
    posterior = prior(form, basis, 2)
    for number in range(10):
        observe(posterior, basis, torch.tensor([number, 2 * number]))
    posterior.clear(basis.variance, torch.tensor([True, False]))
    assert not posterior.mean[0].any()
    observe(posterior, basis, torch.tensor([3, 3]))
    expected = [dense([3]), dense([*(2 * number for number in range(10)), 3])]
    assert_close(covariance(posterior, basis), torch.stack(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_an_observation_removed_was_never_there(form: type[RunningPosterior]) -> None:
    basis = factor(K, GRID.shape, "features")
    posterior = prior(form, basis, 1)
    for arm in (4, 9, 4):
        observe(posterior, basis, torch.tensor([arm]))
    ones = torch.ones(1, dtype=torch.float64)
    posterior.observe(basis, torch.tensor([9]), ones, NOISE * ones, remove=True)
    assert_close(covariance(posterior, basis)[0], dense([4, 4]), rtol=0, atol=1e-9)
    index = torch.tensor([4, 4])
    noisy = K[index][:, index] + NOISE * torch.eye(2, dtype=torch.float64)
    mean = K[:, index] @ torch.linalg.solve(noisy, torch.ones(2, dtype=torch.float64))
    assert_close(posterior.mean[0], mean, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_posterior_covariance(form: type[RunningPosterior]) -> None:
    basis = factor(K, GRID.shape, "features")
    played = [5, 17, 17, 30, 44]
    posterior = prior(form, basis, basis.normals)
    for arm in played:
        observe(posterior, basis, torch.full((basis.normals,), arm))
    unit = torch.eye(basis.normals, dtype=torch.float64)
    samples = basis.expand(posterior.draw(basis, None, None, unit))
    assert_close(samples.T @ samples, dense(played), rtol=0, atol=1e-9)


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["exact", "features"])
def test_more_rounds_never_take_less_memory(kind: str, lengthscale: float) -> None:
    smooth = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / lengthscale**2)
    basis = factor(smooth, GRID.shape, inference=kind)
    assert kind == "exact" or (basis.size < len(GRID)) == (lengthscale > 0.5)
    for form in FORMS if kind == "features" else FORMS[:2]:
        numbers = [form.numbers(basis, rounds) for rounds in range(4 * len(GRID))]
        assert all(before <= after for before, after in pairwise(numbers))
        assert numbers[-1] > 0


def test_rows_become_a_root() -> None:
    basis = factor(K, GRID.shape, "features")
    generator = torch.Generator().manual_seed(4)
    played = torch.randint(len(GRID), (70, 2), generator=generator)
    posterior = prior(Filter, basis, 2)
    for number, index in enumerate(played[:-1]):
        observe(posterior, basis, index)
        if number in (0, 5, 68):
            assert isinstance(posterior, Filter)
            root = posterior.copied().as_root(basis)
            observe(root, basis, played[-1])
            for trial in range(2):
                expected = dense([*played[: number + 1, trial].tolist(), int(played[-1, trial])])
                found = covariance(root, basis)[trial]
                assert_close(found, expected, rtol=0, atol=1e-9)
