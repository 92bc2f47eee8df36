"""A strategy as a BoTorch model: the same posterior, in BoTorch's acquisition functions."""

import warnings

import pytest
import torch
from botorch.acquisition import PosteriorMean, UpperConfidenceBound, qUpperConfidenceBound
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, ScaleKernel

from botorch_tv.forgetting import EventTrigger, Markov, Wiener
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, GPStrategy, Grid

D = torch.float64
NOISE = 0.04
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)


def module():
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    kernel.outputscale = torch.tensor(1.6, dtype=D)
    kernel.base_kernel.lengthscale = torch.tensor([[0.3, 0.6]], dtype=D)
    return kernel


def observed(strategy, domain, n=7, batch_shape=()):
    state = strategy.init(domain, batch_shape=batch_shape)
    generator = torch.Generator().manual_seed(0)
    time = torch.zeros(batch_shape, dtype=D)
    for _ in range(n):
        time = time + torch.rand(batch_shape, generator=generator, dtype=D) * 2
        if isinstance(domain, Grid):
            X = domain.X[torch.randint(len(domain), batch_shape, generator=generator)]
        else:
            X = torch.rand(*batch_shape, 2, generator=generator, dtype=D)
        y = torch.randn(batch_shape, generator=generator, dtype=D)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X, now=time), y)
    return state


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batch_shape", [(), (1,), (2,), (2, 2)])
def test_same_posterior_with_any_batch(batch_shape, lead):
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Wiener(0.1), retention=EventTrigger())
    state = observed(strategy, Box(CUBE), batch_shape=batch_shape)
    now = state.time + 1.3
    model = strategy.as_model(state, now=now)
    assert model.num_outputs == 1
    assert model.batch_shape == torch.Size(batch_shape)
    X = torch.rand(*lead, *batch_shape, 3, 2, dtype=D, generator=torch.Generator().manual_seed(1))
    for noisy in (False, True):
        ours = model.posterior(X, observation_noise=noisy)
        theirs = strategy.posterior(state, X, now=now, observation_noise=noisy)
        assert ours.mean.shape == (*lead, *batch_shape, 3, 1)
        torch.testing.assert_close(ours.mean, theirs.mean, rtol=0, atol=0)
        torch.testing.assert_close(ours.variance, theirs.variance, rtol=0, atol=0)
    # A group of points is what it is alone.
    plain = model.posterior(X)
    covariance = plain.distribution.covariance_matrix
    for place in [(0,) * len(lead), (-1,) * len(lead)]:
        alone = model.posterior(X[place])
        torch.testing.assert_close(alone.mean, plain.mean[place], rtol=0, atol=1e-12)
        wanted = alone.distribution.covariance_matrix
        torch.testing.assert_close(covariance[place], wanted, rtol=0, atol=1e-12)
    assert plain.rsample(torch.Size([5])).shape == (5, *lead, *batch_shape, 3, 1)
    shifted = ScalarizedPosteriorTransform(torch.tensor([2.0], dtype=D), offset=1.0)
    transformed = model.posterior(X, posterior_transform=shifted)
    torch.testing.assert_close(transformed.mean, 2 * plain.mean + 1)


ACQUISITIONS = {
    "ucb": lambda model, state: UpperConfidenceBound(model, beta=4.0),
    "qucb": lambda model, state: qUpperConfidenceBound(model, beta=4.0),
    "logei": lambda model, state: LogExpectedImprovement(model, best_f=0.3),
    "mean": lambda model, state: PosteriorMean(model),
    "qlognei": lambda model, state: qLogNoisyExpectedImprovement(
        model, state.domain.points(state.history.choice.tensor(), state.history.y.tensor())
    ),
}


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_acquisition_functions_run_in_optimize_acqf(name):
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Markov(0.1))
    state = observed(strategy, Box(CUBE))
    with warnings.catch_warnings():
        # A candidate that is a baseline point has a singular covariance with it, in BoTorch too.
        warnings.filterwarnings("ignore", message="A not p.d.")
        acqf = ACQUISITIONS[name](strategy.as_model(state), state)
        q = 2 if name.startswith("q") else 1
        torch.manual_seed(0)
        X, value = optimize_acqf(
            acqf, state.domain.bounds, q=q, num_restarts=2, raw_samples=16, options={"maxiter": 20}
        )
    assert X.shape == (q, 2)
    assert value.isfinite().all()
    assert ((X >= 0) & (X - 1 <= 0)).all()
    # What is asked next may have been found so, and learned from.
    suggestion = strategy.suggestion_at(state, X[0])
    assert strategy.tell(state, suggestion, torch.tensor(0.1, dtype=D))[0].rounds == 8


def test_learned_hyperparameters_are_the_models():
    strategy = GPStrategy(
        kernel=module(), noise=NOISE, decay=Markov(0.1), learning=Refit(every=3, least=3)
    )
    state = observed(strategy, Box(CUBE), n=6, batch_shape=(2,))
    X = torch.rand(4, 1, 1, 2, dtype=D).expand(4, 2, 1, 2)
    model = strategy.as_model(state)
    ours = strategy.posterior(state, X, observation_noise=True)
    torch.testing.assert_close(model.posterior(X, observation_noise=True).mean, ours.mean)
    gap = ours.variance - model.posterior(X).variance
    noise = NOISE * state.basis.noise_factor
    torch.testing.assert_close(gap[..., 0, 0], noise.expand(4, 2), rtol=0, atol=1e-9)
    assert not torch.allclose(noise, torch.full_like(noise, NOISE))


def test_other_outputs_and_points_are_refused():
    strategy = GPStrategy(kernel=module(), noise=NOISE)
    model = strategy.as_model(observed(strategy, Box(CUBE)))
    X = torch.rand(1, 2, dtype=D)
    assert torch.equal(model.posterior(X, output_indices=[0]).mean, model.posterior(X).mean)
    with pytest.raises(ValueError, match="one output"):
        model.posterior(torch.rand(1, 2, dtype=D), output_indices=[1])
    with pytest.raises(InputDataError, match="outside"):
        model.posterior(torch.full((1, 2), 1.5, dtype=D))
    with pytest.raises(InputDataError, match="shape"):
        model.posterior(torch.rand(1, 3, dtype=D))
