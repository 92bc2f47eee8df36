"""The contract that a BoTorch user holds a single-task model to, for every forgetting."""

import copy
import itertools
import pickle

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import Warp
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Log
from botorch.posteriors import GPyTorchPosterior, TransformedPosterior
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from models import cases
from models.cases import AGED, FORGETTINGS, assert_same, build, data, plain, present, regression

from botorch_tv.forgetting import ExponentialWeights, Markov, UncertaintyInjection
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models import TimeVaryingGP
from botorch_tv.models.time_varying_gp import NOISE_MODE, SCALE_MODE

pytestmark = [
    pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning"),
    pytest.mark.filterwarnings("ignore::botorch.exceptions.BotorchTensorDimensionWarning"),
]
SHAPES = [((), 1), ((), 2), ((2,), 2)]
every_forgetting = pytest.mark.parametrize("forgetting", FORGETTINGS)
PAIRS = [name for name in FORGETTINGS if " and " in name]
pairs_of_forgettings = pytest.mark.parametrize("forgetting", PAIRS)


def fit(model, maxiter=5):
    options = {"optimizer_kwargs": {"options": {"maxiter": maxiter}}, "max_attempts": 1}
    return cases.fit(model, **options)


@every_forgetting
@pytest.mark.parametrize(("batch", "m"), SHAPES)
def test_parts_and_shapes(forgetting, batch, m):
    model = build(forgetting, batch=batch, m=m, outcome_transform=Standardize(m, batch_shape=batch))
    assert isinstance(model, SingleTaskGP)
    assert model.num_outputs == m
    assert model.batch_shape == torch.Size(batch)
    assert isinstance(model.covar_module, SpatioTemporalKernel)
    assert isinstance(model.mean_module, ConstantMean)
    aged = forgetting in AGED
    assert isinstance(model.likelihood, AgeNoiseLikelihood if aged else GaussianLikelihood)
    for extra in ((), (4,)):
        posterior = model.posterior(present(model, q=3, batch=(*extra, *batch)))
        assert isinstance(posterior, GPyTorchPosterior)
        assert posterior.mean.shape == torch.Size([*extra, *batch, 3, m])
        assert posterior.variance.shape == posterior.mean.shape
        assert posterior.rsample(torch.Size([2])).shape == (2, *posterior.mean.shape)
        noisy = model.posterior(present(model, 3, (*extra, *batch)), observation_noise=True)
        assert (noisy.variance > posterior.variance).all()
        assert torch.equal(noisy.mean, posterior.mean)


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize("fixed", [False, True])
def test_fitting_improves_the_likelihood(forgetting, fixed):
    X, Y = data(n=25)
    model = TimeVaryingGP(X, Y, 0.05 + 0 * Y if fixed else None, forgetting=FORGETTINGS[forgetting])
    mll = ExactMarginalLogLikelihood(model.likelihood, model)

    def value():
        model.train()
        return mll(model(X), model.train_targets, X).item()

    before, start = value(), copy.deepcopy(model.state_dict())
    fit(model)
    assert value() > before
    learned = dict(model.named_parameters())
    moved = [name for name, p in learned.items() if not torch.equal(p.detach(), start[name])]
    named = {"markov": "raw_epsilon", "wiener": "raw_sigma_w2", "weights": "raw_gamma"}
    if forgetting in named:
        assert any(found.endswith(named[forgetting]) for found in moved), moved
    assert any(name.endswith("raw_noise") for name in learned) != fixed
    assert model.posterior(present(model)).variance.isfinite().all()


@pairs_of_forgettings
@pytest.mark.full
def test_five_points_do_not_run_off(forgetting):
    """Without priors raw parameters went to 1e4 and the fit raised."""
    X, Y = data(n=5)
    model = fit(TimeVaryingGP(X, Y, forgetting=FORGETTINGS[forgetting]), maxiter=200)
    assert all(p.abs().max() < 100 for p in model.parameters())


def test_default_priors_have_their_modes():
    """Log-normal densities are largest at e^(loc - scale²)."""
    model = TimeVaryingGP(*data())
    scale, noise = (
        model.covar_module.spatial.outputscale_prior,
        model.likelihood.noise_covar.noise_prior,
    )
    for prior, mode in ((scale, SCALE_MODE), (noise, NOISE_MODE)):
        density = prior.log_prob(mode * torch.tensor([0.9, 1.0, 1.1], dtype=torch.float64))
        assert density.argmax() == 1


def test_learn_forgetting_false_fixes_it():
    X, Y = data(n=15)
    both = (Markov(0.03), UncertaintyInjection(1.0, 0.2))
    model = TimeVaryingGP(X, Y, forgetting=both, learn_forgetting=False)
    assert not hasattr(model, "outcome_transform")
    fit(model)
    assert model.covar_module.temporal.epsilon.item() == 0.03
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    assert not any("epsilon" in n or "alpha" in n or "kappa" in n for n in names)
    assert not any("epsilon" in name for name, *_ in model.named_priors())
    lag = torch.tensor([2.0], dtype=torch.float64)
    assert model.likelihood.aging.log_factor(lag).exp().item() == pytest.approx(1.4, rel=1e-14)


def test_initial_values_are_exact():
    """In float64, not by way of float32."""
    X, Y = data()
    model = TimeVaryingGP(X, Y, forgetting=(Markov(0.03), ExponentialWeights(0.97)))
    assert model.covar_module.temporal.epsilon.item() == 0.03
    assert model.likelihood.aging.gamma.item() == 0.97
    wiener = TimeVaryingGP(X, Y, forgetting=FORGETTINGS["wiener and injection"])
    assert wiener.covar_module.temporal.sigma_w2.item() == 0.05
    assert wiener.covar_module.temporal.origin.item() == X[0, -1].item()
    aging = wiener.likelihood.aging
    assert (aging.alpha.item(), aging.kappa.item()) == (1.5, 0.1)


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize("m", [1, 2])
def test_transforms_of_space_and_outcomes(forgetting, m):
    """As transforming by hand; and conditioning transforms new data without learning from it."""
    X, Y = data(n=14, m=m)
    X[:, :2] = 3.0 + 5.0 * X[:, :2]
    Y = 10.0 + 4.0 * Y
    scaled, standard = Normalize(3, indices=[0, 1]), Standardize(m)
    transforms = {"input_transform": copy.deepcopy(scaled), "outcome_transform": Standardize(m)}
    model = TimeVaryingGP(X[:12], Y[:12], forgetting=FORGETTINGS[forgetting], **transforms)
    bare = plain(scaled(X[:12]), standard(Y[:12])[0], forgetting=FORGETTINGS[forgetting])
    scaled.eval(), standard.eval()
    test_X = present(model)
    test_X[:, :2] = 3.0 + 5.0 * test_X[:, :2]
    for noise in (False, True):
        expected = standard.untransform_posterior(bare.posterior(scaled(test_X), None, noise))
        assert_same(model.posterior(test_X, observation_noise=noise), expected, atol=1e-9)
    grown = model.condition_on_observations(X[12:], Y[12:])
    bare = bare.condition_on_observations(scaled(X[12:]), standard(Y[12:])[0])
    expected = standard.untransform_posterior(bare.posterior(scaled(test_X)))
    assert_same(grown.posterior(test_X), expected, atol=1e-9)
    grown.train()
    assert torch.equal(grown.train_inputs[0].reshape(-1, 14, 3)[0], X)


@pytest.mark.parametrize("forgetting", ["markov", "markov and weights"])
def test_a_transform_for_each_member_of_a_batch(forgetting):
    """As many outputs as members: neither is taken for the other, in any mode."""
    X, Y = data(n=10, m=2, batch=(2,))
    X[1, :, :2] = 10 + 5 * X[1, :, :2]
    test_X = X[:, :4] + 0.1
    new_X, new_Y = X[:, -2:], Y[:, -2:]
    options = {"forgetting": FORGETTINGS[forgetting], "now": 30.0}
    scaled = Normalize(3, indices=[0, 1], batch_shape=torch.Size([2]))
    model = plain(X[:, :8], Y[:, :8], input_transform=scaled, **options)
    loss = ExactMarginalLogLikelihood(model.likelihood, model)
    together = loss(model(*model.train_inputs), model.train_targets, *model.train_inputs)
    grown = model.condition_on_observations(new_X, new_Y)
    for member, output in itertools.product(range(2), range(2)):
        rows = (X[member, :8], Y[member, :8, output : output + 1])
        alone = plain(*rows, input_transform=Normalize(3, indices=[0, 1]), **options)
        single = ExactMarginalLogLikelihood(alone.likelihood, alone)
        value = single(alone(*alone.train_inputs), alone.train_targets, *alone.train_inputs)
        assert together[member, output].item() == pytest.approx(value.item(), rel=1e-10)
        answer = new_Y[member, :, output : output + 1]
        for ours, theirs in (
            (model, alone),
            (grown, alone.condition_on_observations(new_X[member], answer)),
        ):
            found, expected = ours.posterior(test_X), theirs.posterior(test_X[member])
            for moment in ("mean", "variance"):
                part = getattr(found, moment)[member, :, output]
                whole = getattr(expected, moment).squeeze(-1)
                assert torch.allclose(part, whole, rtol=0, atol=1e-10)


def test_a_nonlinear_outcome_transform():
    """exp of a normal variable: moments of the log-normal, of the model of ln y; data come as y."""
    X, Y = data()
    model = TimeVaryingGP(X, Y.exp(), outcome_transform=Log(), forgetting=Markov(0.1))
    bare = plain(X, Y, forgetting=Markov(0.1))
    new_X, new_Y = X[:1] + torch.tensor([0.1, 0.1, 30.0], dtype=X.dtype), Y[:1]
    grown = model.condition_on_observations(new_X, new_Y.exp())
    assert isinstance(grown, TimeVaryingGP)
    pairs = ((model, bare), (grown, bare.condition_on_observations(new_X, new_Y)))
    for ours, logarithm in pairs:
        found, expected = ours.posterior(present(model)), logarithm.posterior(present(model))
        assert isinstance(found, TransformedPosterior)
        mean = (expected.mean + expected.variance / 2).exp()
        torch.testing.assert_close(found.mean, mean, rtol=1e-9, atol=0)
        spread = mean.square() * expected.variance.expm1()
        torch.testing.assert_close(found.variance, spread, rtol=1e-7, atol=0)


@every_forgetting
@pytest.mark.parametrize("chained", [False, True])
def test_given_noise_is_in_the_units_of_the_observations(forgetting, chained):
    """Log divides a variance by y² (delta method), Standardize by the variance of its inputs."""
    X, Y = data()
    Y, Yvar = Y.exp(), 0.01 * (1 + Y.abs())
    logs, expected = Y.log(), Yvar / Y**2
    transform = Log()
    if chained:
        transform = ChainedOutcomeTransform(log=Log(), scale=Standardize(1))
        expected = expected / logs.var(0)
    model = TimeVaryingGP(
        X, Y, Yvar, outcome_transform=transform, forgetting=FORGETTINGS[forgetting]
    )
    theirs = SingleTaskGP(X, Y, Yvar, outcome_transform=copy.deepcopy(transform))
    torch.testing.assert_close(theirs.likelihood.noise, expected.squeeze(-1))
    noise = model.likelihood.noise if model._aged is None else model._aged.row_noise
    torch.testing.assert_close(noise, expected.squeeze(-1))
    torch.testing.assert_close(model.train_targets, theirs.train_targets)


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize("value", [0.0, 650.0])
@pytest.mark.filterwarnings("error::linear_operator.utils.warnings.NumericalWarning")
def test_a_constant_column_makes_no_difference(forgetting, value):
    X, Y = data()
    wide = torch.cat([torch.full((12, 1), value).double(), X], -1)
    models = [
        TimeVaryingGP(
            inputs,
            Y,
            forgetting=FORGETTINGS[forgetting],
            spatial_module=RBFKernel(),
            input_transform=Normalize(d, indices=list(range(d - 1))),
        )
        for d, inputs in ((3, X), (4, wide))
    ]
    new = present(models[0])
    tests = new, torch.cat([torch.full((5, 1), value).double(), new], -1)
    both = [model.posterior(points) for model, points in zip(models, tests)]
    assert_same(*both, atol=1e-12)
    assert both[1].rsample(torch.Size([3])).isfinite().all()
    fit(models[1])
    assert models[1].posterior(tests[1]).variance.min() > 0


def test_a_learned_input_transform():
    """The warp is learned, and the kernel sees its output."""
    X, Y = data()
    warp = Warp(d=3, indices=[0, 1])
    model = fit(plain(X, Y, input_transform=warp))
    assert not torch.equal(warp.concentration0, torch.ones_like(warp.concentration0))
    at = present(model)
    with torch.no_grad():
        seen, asked = warp.eval()(X), warp(at)
        assert not torch.equal(seen[..., :2], X[..., :2])
        mean, variance = regression(model, seen, asked, model.likelihood.noise)
        posterior = model.posterior(at)
    torch.testing.assert_close(posterior.mean.squeeze(-1), mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(posterior.variance.squeeze(-1), variance, rtol=0, atol=1e-8)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", ["markov", "weights"])
def test_construct_inputs(forgetting, fixed):
    X, Y = data()
    X = X.roll(1, -1)  # time first
    names = {"feature_names": ["t", "a", "b"], "outcome_names": ["y"]}
    dataset = SupervisedDataset(X, Y, Yvar=0.1 + 0 * Y if fixed else None, **names)
    inputs = TimeVaryingGP.construct_inputs(
        dataset, time_dim=0, forgetting=FORGETTINGS[forgetting], now=50.0
    )
    assert torch.equal(inputs["train_X"], X)
    assert torch.equal(inputs["train_Y"], Y)
    assert ("train_Yvar" in inputs) == fixed
    model = TimeVaryingGP(**inputs)
    assert model.time_dim == 0
    assert model.now.item() == 50.0
    assert TimeVaryingGP(**TimeVaryingGP.construct_inputs(dataset)).time_dim == 2


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize(("fixed", "batch"), [(False, ()), (True, (2,))])
def test_subset_output(forgetting, fixed, batch):
    standard = Standardize(3, batch_shape=batch)
    model = build(forgetting, fixed=fixed, m=3, batch=batch, outcome_transform=standard)
    with torch.no_grad():  # outputs differ in their parameters, too
        for parameter in model.parameters():
            if len(parameter.shape) > len(batch):
                factors = torch.linspace(0.5, 0.9, parameter.numel()).to(parameter)
                parameter.mul_(factors.view(parameter.shape))
    test_X = present(model, batch=batch)
    whole = model.posterior(test_X, observation_noise=True)
    for chosen in ([1], [2, 0], [0, 1, 2]):
        subset = model.subset_output(chosen)
        assert subset.num_outputs == len(chosen)
        posterior = subset.posterior(test_X, observation_noise=True)
        assert torch.allclose(posterior.mean, whole.mean[..., chosen], rtol=0, atol=1e-10)
        assert torch.allclose(posterior.variance, whole.variance[..., chosen], rtol=0, atol=1e-10)
        aug = subset.train_targets.shape[:-1]
        for kernel in filter(None, (subset.covar_module.spatial, subset.covar_module.temporal)):
            assert kernel.batch_shape == aug
        zeros = torch.zeros(*batch, 5, len(chosen)).double()
        grown = subset.condition_on_observations(test_X, zeros)
        assert grown.posterior(test_X).mean.shape == (*batch, 5, len(chosen))
    assert torch.equal(model.posterior(test_X, observation_noise=True).mean, whole.mean)


@pytest.mark.parametrize("chosen", [[1], [2, 0]])
def test_a_subset_of_transformed_outputs_is_conditioned_as_the_whole(chosen):
    model = build("markov", m=3, input_transform=Normalize(3, indices=[0, 1]))
    test_X = present(model)
    model.posterior(test_X)
    X, Y = test_X + 1, torch.randn(4, 5, 3).double()  # four alternative observations
    whole = model.condition_on_observations(X, Y).posterior(X)
    subset = model.subset_output(chosen).condition_on_observations(X, Y[..., chosen])
    mean = subset.posterior(X).mean
    assert torch.allclose(mean, whole.mean[..., chosen], rtol=0, atol=1e-10)


@every_forgetting
@pytest.mark.parametrize(
    ("batch", "m", "fixed"), [((), 1, False), ((), 1, True), ((), 2, False), ((2,), 2, True)]
)
def test_fantasize(forgetting, batch, m, fixed):
    model = build(forgetting, batch=batch, m=m, fixed=fixed)
    X = present(model, q=2, batch=batch)
    sampler = SobolQMCNormalSampler(torch.Size([4]), seed=0)
    fantasy = model.fantasize(X, sampler)
    assert fantasy.batch_shape == torch.Size([4, *batch])
    posterior = fantasy.posterior(X)
    assert posterior.mean.shape == (4, *batch, 2, m)
    before = model.posterior(X)
    assert (posterior.variance < before.variance).all()
    with torch.no_grad():
        noisy = model.posterior(X, observation_noise=True)
    added = (noisy.variance - before.variance).mean(-2)
    assert fantasy.train_targets[..., -2:].isfinite().all()
    # A measurement at now has lag 0 at any age of the others.
    if fixed:
        expected = (0.02 + 0.1 * data(batch=batch, m=m)[1].abs()).mean(-2)
    else:
        expected = model.likelihood.noise if m == 1 else model.likelihood.noise.squeeze(-1)
    assert torch.allclose(added, expected.expand(added.shape), rtol=1e-6, atol=1e-10)
    if not batch:  # with a batch, BoTorch gives its dimensions twice
        assert model.fantasize(X[:0], sampler).posterior(X).mean.shape == (4, 2, m)


def test_fantasies_with_given_noise():
    for forgetting in ("markov", "weights"):
        model = build(forgetting)
        X = present(model, q=1)
        model.set_now(X[0, -1])  # lest the fantasy make the data older
        sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
        loud = model.fantasize(X, sampler, observation_noise=torch.full((1, 1), 100.0).double())
        quiet = model.fantasize(X, sampler, observation_noise=torch.full((1, 1), 1e-5).double())
        assert torch.allclose(loud.posterior(X).variance[0], model.posterior(X).variance, rtol=0.05)
        assert quiet.posterior(X).variance.max() < 1e-4


def test_posterior_options():
    model = build("markov and weights", m=2)
    test_X = present(model)
    both = model.posterior(test_X)
    assert torch.equal(model.posterior(test_X, [1, 0]).mean, both.mean.flip(-1))
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    mixed = model.posterior(test_X, posterior_transform=ScalarizedPosteriorTransform(weights))
    assert torch.allclose(mixed.mean.squeeze(-1), both.mean @ weights)
    noise = torch.rand(5, 2, dtype=torch.float64)
    given = model.posterior(test_X, observation_noise=noise)
    assert torch.allclose(given.variance, both.variance + noise)


@pytest.mark.few(8)
@every_forgetting
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("m", [1, 2])
def test_state_dict_with_transforms(forgetting, fixed, m):
    """Loaded onto the same data and onto fewer rows; the outcome scale comes along."""
    X, Y = data(n=14, m=m)
    Y = 3.0 + 2.0 * Y

    def make(rows):
        Yvar = 0.05 + 0 * Y[rows] if fixed else None
        parts = {"forgetting": FORGETTINGS[forgetting], "now": 30.0}
        scaled = Normalize(3, indices=[0, 1])
        return TimeVaryingGP(X[rows], Y[rows], Yvar, input_transform=scaled, **parts)

    fitted = make(slice(None))
    with torch.no_grad():
        for parameter in fitted.parameters():
            parameter.add_(0.03)
    same = make(slice(None))
    same.load_state_dict(fitted.state_dict())
    test_X = present(fitted)
    assert_same(same.posterior(test_X), fitted.posterior(test_X))
    fewer = make(slice(0, 9))
    fewer.load_state_dict(fitted.state_dict())
    assert torch.equal(fewer.outcome_transform.stdvs, fitted.outcome_transform.stdvs)
    noise = 0.05 * torch.ones(5, m, dtype=torch.float64) if fixed else None
    options = {"noise": noise / fitted.outcome_transform.stdvs**2} if fixed else {}
    regrown = fewer.condition_on_observations(X[9:], Y[9:], **options)
    assert_same(regrown.posterior(test_X), fitted.posterior(test_X), atol=1e-8)


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize("fixed", [False, True])
def test_pickle_and_copies(forgetting, fixed):
    model = build(forgetting, fixed=fixed, now=20.0)
    test_X = present(model)
    expected = model.posterior(test_X, observation_noise=True)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_same(other.posterior(test_X, observation_noise=True), expected, atol=1e-12)
        other.set_now(60.0)
        assert model.now.item() == 20.0
    fit(other, maxiter=2)


@pytest.mark.parametrize("forgetting", ["markov", "weights"])
def test_custom_mean_and_covariance(forgetting):
    X, Y = data()
    kernel = ScaleKernel(MaternKernel(ard_num_dims=3))
    decay, inflation = FORGETTINGS["markov and weights"]
    mean, given = ZeroMean(), None if forgetting == "markov" else inflation
    model = TimeVaryingGP(X, Y, covar_module=kernel, mean_module=mean, forgetting=given)
    assert model.covar_module is kernel
    assert model.mean_module is mean
    assert kernel.raw_outputscale.dtype == torch.float64
    fit(model)
    theirs = SingleTaskGP(X, Y, covar_module=copy.deepcopy(kernel), mean_module=ZeroMean())
    theirs.load_state_dict(model.state_dict(), strict=False)
    if forgetting == "markov":
        assert_same(model.posterior(present(model)), theirs.posterior(present(model)), atol=1e-7)
    spatial = ScaleKernel(RBFKernel(ard_num_dims=2))
    fused = TimeVaryingGP(X, Y, spatial_module=spatial, forgetting=decay)
    assert fused.covar_module.spatial is spatial
    assert isinstance(fused.covar_module.temporal, MarkovKernel)
    assert fused.condition_on_observations(X[:1], Y[:1]).posterior(X).variance.isfinite().all()


def test_custom_likelihoods():
    X, Y = data()
    aged = AgeNoiseLikelihood(ExponentialWeights(0.9), now=40.0)
    model = TimeVaryingGP(X, Y, likelihood=aged)
    assert model.likelihood is aged
    assert model.now.item() == 40.0
    assert model.covar_module.temporal is None
    model.set_now(None)
    assert aged.now.item() == X[-1, -1].item()


@pytest.mark.few(7)
@every_forgetting
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype(forgetting, dtype):
    model = build(forgetting, dtype=dtype)
    X, Y = data(dtype=dtype)
    for found in (model, fit(model), model.condition_on_observations(X[:1], Y[:1])):
        posterior = found.posterior(present(model), observation_noise=True)
        assert posterior.mean.dtype == posterior.variance.dtype == dtype
        assert all(p.dtype == dtype for p in found.parameters())


@pytest.mark.gpu
@every_forgetting
def test_device(forgetting):
    host = build(forgetting, now=30.0)
    test_X = present(host)
    expected = host.posterior(test_X, observation_noise=True)
    there = build(forgetting, now=30.0).to("cuda")
    grown = there.condition_on_observations(test_X.cuda(), torch.zeros(5, 1).double().cuda())
    assert grown.posterior(test_X.cuda()).mean.is_cuda
    found = there.posterior(test_X.cuda(), observation_noise=True)
    assert torch.allclose(found.mean.cpu(), expected.mean, atol=1e-9)
    assert torch.allclose(found.variance.cpu(), expected.variance, atol=1e-9)
    X, Y = data()
    built = TimeVaryingGP(X.cuda(), Y.cuda(), forgetting=FORGETTINGS[forgetting], now=30.0)
    assert built.posterior(test_X.cuda()).mean.is_cuda
