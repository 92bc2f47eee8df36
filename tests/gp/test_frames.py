"""Draws depend on the kernel alone, not on the features that happen to be found for it."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel
from torch import Tensor
from torch.testing import assert_close

from botorch_tv.gp import covariance as factoring
from botorch_tv.gp.basis import Basis, FeatureBasis
from botorch_tv.gp.covariance import factor
from botorch_tv.gp.regression import Observations, regress
from botorch_tv.strategies import Grid

SQUARE = Grid.regular(8, 2)
PLAYED = torch.arange(0, 64, 3)
NOISE = 0.02


def covariance(name: str) -> Tensor:
    """Kernels with many equal eigenvalues, of low rank and of full rank."""
    if name == "torus":
        circle = PeriodicKernel().double()(torch.arange(8.0).double().unsqueeze(-1) / 8).to_dense()
        return torch.kron(circle, circle).detach()
    kernel = {"product": RBFKernel(), "full": MaternKernel(0.5), "long": MaternKernel(2.5)}
    chosen = kernel.get(name, RBFKernel()).double()
    chosen.lengthscale = 3.0 if name == "long" else 0.5
    turn = [[1.0, 0.5], [0.5, 1.0]] if name == "turned" else [[1.0, 0.0], [0.0, 1.0]]
    return chosen(SQUARE.X @ torch.tensor(turn).double()).to_dense().detach()


NAMES = ["product", "turned", "torus", "full", "long"]


@pytest.fixture
def other_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another basis of every space of equal eigenvalues, and a few features fewer."""
    eigh = torch.linalg.eigh

    def turned(matrix: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = eigh(matrix)
        apart = values.diff(dim=-1) > 4e-15 * values[..., -1:]
        group = torch.nn.functional.pad(apart.cumsum(-1), (1, 0))
        mixing = torch.randn(vectors.shape[-2:], generator=torch.Generator().manual_seed(0))
        together = group.unsqueeze(-1) == group.unsqueeze(-2)
        mixing = torch.linalg.qr(torch.where(together, mixing.double(), 0.0)).Q
        return torch.return_types.linalg_eigh((values, vectors @ mixing))

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    monkeypatch.setattr(factoring, "RANK_TOLERANCE", 5e-13)


def drawn(basis: Basis, form: str) -> Tensor:
    """The samples that unit vectors of normal variates give, one row each, `p x M`."""
    unit = torch.eye(basis.normals, dtype=torch.float64)
    if form == "prior":
        assert isinstance(basis, FeatureBasis)
        return basis.expand(basis.draw_from_prior(unit))
    rounds = PLAYED if form == "few rows" else PLAYED.repeat(6)
    index = rounds.expand(basis.normals, -1)
    root = torch.full(index.shape, NOISE**-0.5, dtype=torch.float64)
    posterior = regress(basis, Observations(index, torch.zeros_like(root), root))
    assert posterior.is_posterior == (form == "many rows")
    return basis.expand(posterior.draw(basis, None, unit))


@pytest.mark.parametrize(
    ("kind", "form"),
    [("features", form) for form in ("prior", "few rows", "many rows")] + [("exact", "few rows")],
)
@pytest.mark.parametrize("name", NAMES)
def test_samples_do_not_depend_on_eigenvectors(name: str, kind: str, form: str, request) -> None:
    K = covariance(name)
    before = drawn(factor(K, SQUARE.shape, kind), form)
    request.getfixturevalue("other_eigenvectors")
    after = drawn(factor(K, SQUARE.shape, kind), form)
    assert_close(after, before, rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", ["prior", "few rows", "many rows"])
@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_covariance_of_prior_and_posterior(name: str, form: str) -> None:
    K = covariance(name)
    samples = drawn(factor(K, SQUARE.shape, "features"), form)
    expected = K
    if form != "prior":
        times = 1 if form == "few rows" else 6
        noisy = K[PLAYED][:, PLAYED] + NOISE / times * torch.eye(len(PLAYED), dtype=torch.float64)
        expected = K - K[:, PLAYED] @ torch.linalg.solve(noisy, K[PLAYED])
    assert_close(samples.T @ samples, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_their_information_draw_the_same(name: str) -> None:
    basis = factor(covariance(name), SQUARE.shape, "features")
    posterior = drawn(basis, "many rows")
    index = PLAYED.repeat(6)
    root = torch.full(index.shape, NOISE**-0.5, dtype=torch.float64)
    observations = Observations(index, torch.zeros_like(root), root)
    seen = root.unsqueeze(-1) * basis.row(index)
    whitened = torch.eye(len(index), dtype=torch.float64) + seen @ seen.T
    lost = seen.T @ torch.linalg.solve(whitened, seen)
    assert regress(basis, observations).is_posterior
    unit = torch.eye(basis.normals, dtype=torch.float64)
    expected = basis.expand(basis.draw(lost.expand(basis.normals, -1, -1), None, unit))
    assert_close(posterior, expected, rtol=0, atol=1e-8)
