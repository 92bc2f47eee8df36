"""No prediction rests on a factor of other parameters than the model has."""

import copy

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.optim.fit import fit_gpytorch_mll_torch
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.utils.warnings import GPInputWarning
from models.cases import assert_same, build, data, plain, present

from botorch_tv.acquisition.present import at_present
from botorch_tv.forgetting import Wiener
from botorch_tv.strategies import Box, tv_gp_ucb

pytestmark = pytest.mark.filterwarnings("ignore::gpytorch.utils.warnings.GPInputWarning")


@pytest.mark.parametrize("forgetting", ["markov", "wiener", "weights"])
def test_a_fit_by_torch_after_a_fit_by_scipy(forgetting):
    model = build(forgetting, n=20)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 20}})
    mll.train()
    result = fit_gpytorch_mll_torch(mll, step_limit=5)
    assert torch.tensor(result.fval).isfinite()


def changed_by_setter(model):
    model.covar_module.spatial.lengthscale = 0.11


def changed_by_step(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.03)


def loaded(model):
    other = copy.deepcopy(model)
    changed_by_step(other)
    model.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("change", "trains"), [(changed_by_setter, True), (changed_by_step, True), (loaded, False)]
)
@pytest.mark.parametrize("forgetting", ["markov", "weights"])
@pytest.mark.parametrize("grown", [False, True])
def test_changed_parameters_are_seen_after_train_and_loading(change, trains, forgetting, grown):
    model = build(forgetting)
    test_X = present(model)
    if grown:
        zero = torch.zeros(1, 1, dtype=torch.float64)
        model = model.condition_on_observations(test_X[:1], zero)
    before = model.posterior(test_X).variance
    factor = model.prediction_strategy
    model.posterior(test_X)
    assert model.prediction_strategy is factor
    change(model)
    if trains:
        model.train()
    fresh = copy.deepcopy(model)  # copies compute their own
    assert_same(model.posterior(test_X), fresh.posterior(test_X), atol=1e-12)
    assert not torch.allclose(model.posterior(test_X).variance, before)


def test_a_warning_where_a_loss_needs_the_prior():
    model = build("markov").eval()
    with pytest.warns(GPInputWarning, match=r"forget to call model.train\(\)"):
        model(*model.train_inputs)


def test_a_walk_begins_at_the_earliest_row():
    X, Y = data()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert order[0] != 0
    models = [plain(X[rows], Y[rows], forgetting=Wiener(0.1)) for rows in (torch.arange(12), order)]
    assert models[1].covar_module.temporal.origin.item() == X[0, -1].item()
    test_X = present(models[0])
    assert_same(models[0].posterior(test_X), models[1].posterior(test_X))


GRID = torch.rand(80, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def at(time):
    return torch.cat([GRID, torch.full((80, 1), time).double()], 1)


def test_acquisition_functions_preserve_the_factor():
    """They send the model to the device of X in each call, where it is already."""
    model = build("markov")
    model.posterior(at(30.0))
    factor = model.prediction_strategy
    UpperConfidenceBound(model, beta=2.0)(at(30.0).unsqueeze(1))
    model.to(torch.float64)
    assert model.prediction_strategy is factor
    model.float()
    assert model.prediction_strategy is None


def test_the_clock_of_the_caller_may_change_in_place():

    clock = torch.tensor(20.0, dtype=torch.float64)
    model = build("weights", now=clock)
    likelihood = model.likelihood
    bound = at_present(UpperConfidenceBound(model, 4.0), now=clock)
    strategy = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.02, epsilon=0.1)
    state = strategy.init(Box([(0.0, 1.0)]))
    state, _ = strategy.tell(state, strategy.ask(state), 1.0)
    posterior_model = strategy.as_model(state, now=clock)
    X = torch.tensor([[[0.2, 0.7]]], dtype=torch.float64)

    def values():
        model.train()
        model.eval()
        return bound(X).detach(), posterior_model.posterior(X[..., :1]).mean, likelihood.now.clone()

    before = values()
    clock += 5.0
    assert all(map(torch.equal, before, values()))
    likelihood.set_now(clock)
    clock += 5.0
    assert likelihood.now.item() == 25.0
