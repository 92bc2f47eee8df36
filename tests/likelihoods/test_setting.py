"""A parameter set beyond its bounds is refused, and stays as it was."""

import pytest
import torch
from botorch.optim.utils import sample_all_priors
from gpytorch.priors import UniformPrior

from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.likelihoods.age_noise import ExponentialAging, InjectionAging

NAN, INF = float("nan"), float("inf")
SETTABLE = [
    (lambda: MarkovKernel(0.1), "epsilon", (5, -0.1, NAN, 1.0)),
    (lambda: WienerKernel(0.1), "sigma_w2", (-0.1, NAN, INF)),
    (lambda: ExponentialAging(0.9), "gamma", (0.0, 1.1, NAN)),
    (lambda: InjectionAging(1.0), "alpha", (-0.1, NAN, INF)),
    (lambda: InjectionAging(1.0), "kappa", (-0.1, NAN, INF)),
]


@pytest.mark.parametrize(("make", "name", "values"), SETTABLE)
def test_out_of_bounds(make, name, values):
    for dtype in (torch.float32, torch.float64):
        module = make().to(dtype)
        before = getattr(module, name).clone()
        for value in values:
            for put in (
                lambda v, m=module: setattr(m, name, v),
                lambda v, m=module: setattr(m, name, torch.tensor(v)),
                lambda v, m=module: m.initialize(**{name: v}),
            ):
                with pytest.raises(ValueError, match=rf"{name} is .* out of bounds of its current"):
                    put(value)
        assert torch.equal(getattr(module, name), before)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [(ExponentialAging, "gamma", value) for value in (0.0, 1e-7, 1.5)]
    + [(MarkovKernel, "epsilon", value) for value in (-0.1, 1.0 - 1e-8, 1.1, NAN)]
    + [(WienerKernel, "sigma_w2", value) for value in (-0.1, INF)],
)
def test_a_start_that_cannot_be_learned(make, name, value):
    with pytest.raises(ValueError, match=f"{name} is"):
        make(value)


def test_a_prior_that_reaches_beyond_is_drawn_from_again():
    kernel = MarkovKernel(0.1, epsilon_prior=UniformPrior(0.0, 4.0))
    torch.manual_seed(0)
    for _ in range(5):
        sample_all_priors(kernel)
        assert 0 <= float(kernel.epsilon) < 1
