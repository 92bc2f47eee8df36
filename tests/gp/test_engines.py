"""All engines against the dense posterior covariance; when a step would amplify rounding."""

import pytest
import torch
from torch import Size, Tensor
from torch.testing import assert_close

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior
from botorch_tv.gp.arms import LEAST_NOISE, amplifies
from botorch_tv.gp.basis import ArmBasis, Basis
from botorch_tv.gp.covariance import factor
from botorch_tv.gp.filter import Filter, RootFilter
from botorch_tv.strategies import Grid

D = torch.float64
GRID = Grid.regular(7, 2)
K = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / 0.09)
NOISE = 0.05
FEATURES = factor(K, GRID.shape, "features")
FORMS = [Filter, PlayedArms, RootFilter]


def dense(arms: list[int]) -> Tensor:
    index = torch.tensor(arms, dtype=torch.int64)
    noisy = K[index][:, index] + NOISE * torch.eye(len(arms), dtype=D)
    return K - K[:, index] @ torch.linalg.solve(noisy, K[index])


def prior(form: type[RunningPosterior], basis: Basis, trials: int) -> RunningPosterior:
    return form(basis, Size([trials]), basis.variance, trend=False)


def observe(posterior: RunningPosterior, basis: Basis, arms: list[int], **how: bool) -> None:
    ones = torch.ones(len(arms), dtype=D)
    posterior.observe(basis, torch.tensor(arms), ones, NOISE * ones, **how)
    if isinstance(posterior, PlayedArms) and not how:
        posterior.reserve(basis.size)


def require(posterior: RunningPosterior, basis: Basis, played: list[list[int]]) -> None:
    """The covariance and variance of every trial are those after these arms."""
    every = torch.arange(len(GRID)).expand(len(played), -1)
    found = K - basis.expand(posterior.at(basis, every))
    wanted = torch.stack([dense(arms) for arms in played])
    assert_close(found, wanted, rtol=0, atol=1e-9)
    assert_close(posterior.variance, wanted.diagonal(dim1=-2, dim2=-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["auto", "exact", "features"])
@pytest.mark.parametrize("form", FORMS)
def test_covariance_after_many_observations(form: type[RunningPosterior], kind: str) -> None:
    """Two trials: one returns to few arms, the other wanders; each past every threshold."""
    if form is RootFilter and kind != "features":
        return  # a root needs features
    basis = factor(K, GRID.shape, kind)
    generator = torch.Generator().manual_seed(2)
    few = (9 * torch.randint(5, (120,), generator=generator)).tolist()
    many = torch.randint(len(GRID), (120,), generator=generator).tolist()
    posterior = prior(form, basis, 2)
    for number, arms in enumerate(zip(few, many)):
        before = posterior.copied()
        observe(posterior, basis, list(arms))
        if number in (0, 1, 40, 119):
            require(before, basis, [few[:number], many[:number]])


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_removed_and_trials_start_again(form: type[RunningPosterior]) -> None:
    posterior = prior(form, FEATURES, 2)
    for number in range(10):
        observe(posterior, FEATURES, [number, 2 * number])
    observe(posterior, FEATURES, [4, 6], remove=True)
    even = [0, 2, 4, *range(8, 20, 2)]
    require(posterior, FEATURES, [[0, 1, 2, 3, *range(5, 10)], even])
    index = torch.tensor(even)
    noisy = K[index][:, index] + NOISE * torch.eye(9, dtype=D)
    mean = K[:, index] @ torch.linalg.solve(noisy, torch.ones(9, dtype=D))
    assert_close(posterior.mean[1], mean, rtol=0, atol=1e-9)
    posterior.clear(FEATURES.variance, torch.tensor([True, False]))
    assert not posterior.mean[0].any()
    observe(posterior, FEATURES, [3, 3])
    require(posterior, FEATURES, [[3], [*even, 3]])


@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_posterior_covariance(form: type[RunningPosterior]) -> None:
    """The map from normal variates to a sample is linear: its square is the covariance."""
    played, size = [5, 17, 17, 30, 44], FEATURES.normals
    posterior = prior(form, FEATURES, size)
    for arm in played:
        observe(posterior, FEATURES, [arm] * size)
    unit = torch.eye(size, dtype=D)
    samples = FEATURES.expand(posterior.draw(FEATURES, None, None, unit))
    assert_close(samples.T @ samples, dense(played), rtol=0, atol=1e-9)


def test_rows_become_a_root() -> None:
    """Before and after they have been absorbed; further observations follow."""
    generator = torch.Generator().manual_seed(4)
    *played, last = torch.randint(len(GRID), (70, 2), generator=generator).tolist()
    posterior = prior(Filter, FEATURES, 2)
    for number, arms in enumerate(played, 1):
        observe(posterior, FEATURES, arms)
        if number in (1, 6, 69):
            root = posterior.copied().as_root(FEATURES)
            observe(root, FEATURES, last)
            require(root, FEATURES, [list(own) for own in zip(*played[:number], last)])


VARIANCES = (1e-4, 1.0, 2500.0)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_limit_is_a_share_of_the_largest_prior_variance(variance):
    covariance = variance * torch.diag(torch.tensor([0.3, 1.0, 0.5], dtype=torch.float64))
    basis = ArmBasis(covariance)
    assert amplifies(0.999 * LEAST_NOISE * variance, basis)
    assert not amplifies(1.001 * LEAST_NOISE * variance, basis)
    assert amplifies(1e3 * variance, ArmBasis(covariance.float()))
