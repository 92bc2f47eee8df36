"""Categories by BoTorch's kernel for them, beside numbers and time."""

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.models.kernels import CategoricalKernel
from botorch.optim import optimize_acqf_mixed
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_tv.acquisition.present import at_present
from botorch_tv.forgetting import Markov
from botorch_tv.models import TimeVaryingGP


def made():
    """One number, one of three categories, and time."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(18, 1, dtype=torch.float64, generator=generator)
    kind = torch.arange(18).remainder(3).double().unsqueeze(-1)
    time = torch.arange(18.0).double().unsqueeze(-1)
    Y = torch.sin(3 * x) + (kind == 1) + 0.01 * time
    number, category = RBFKernel(active_dims=[0]), CategoricalKernel(active_dims=[1])
    model = TimeVaryingGP(
        torch.cat([x, kind, time], -1),
        Y,
        forgetting=Markov(epsilon=0.03),
        spatial_module=ScaleKernel(number * category),
        outcome_transform=None,
        learn_forgetting=False,
    )
    number.lengthscale, category.lengthscale = torch.tensor([0.4, 0.7], dtype=torch.float64)
    return model


def test_the_best_category_is_found_at_present():
    model = made()
    acqf = at_present(qLogExpectedImprovement(model, best_f=model.train_targets.max()), now=18.0)
    x, _ = optimize_acqf_mixed(
        acqf,
        torch.tensor([[0.0, 0.0], [1.0, 2.0]]).double(),
        q=1,
        num_restarts=2,
        raw_samples=32,
        fixed_features_list=[{1: float(kind)} for kind in range(3)],
    )
    assert float(x[0, 1]) == 1.0
