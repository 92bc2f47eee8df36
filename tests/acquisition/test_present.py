"""Acquisition at the present: the same values as on all columns, and dense references."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from botorch.acquisition import (
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    LogNoisyExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qNegIntegratedPosteriorVariance,
    qUpperConfidenceBound,
)
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.multi_objective import qHypervolumeKnowledgeGradient
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.acquisition.penalized import L2Penalty, PenalizedAcquisitionFunction
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.prior_guided import PriorGuidedAcquisitionFunction
from botorch.acquisition.proximal import ProximalAcquisitionFunction
from botorch.acquisition.utils import prune_inferior_points
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    InputDataWarning,
    UnsupportedError,
)
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from kinds import smooth
from models.cases import build, data
from oracles.dense import information_gain, joint_regression, squared_exponential

from botorch_tv.acquisition.present import (
    at_present,
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
    upper_confidence_bound,
)
from botorch_tv.acquisition.widths import IGPUCB, WGPUCB, AgnosticGPUCB, ClosedForm, Logarithmic
from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.models import TimeVaryingGP

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.NumericsWarning")
NOW = 20.0
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
KINDS = {
    "log EI": lambda model: LogExpectedImprovement(model, best_f=0.3),
    "UCB": lambda model: UpperConfidenceBound(model, beta=4.0),
    "posterior mean": PosteriorMean,
    "qLogEI": lambda model: qLogExpectedImprovement(model, 0.3, sampler=sobol(64)),
    "qUCB": lambda model: qUpperConfidenceBound(model, beta=4.0, sampler=sobol(64)),
    "KG": lambda model: qKnowledgeGradient(model, num_fantasies=3, sampler=sobol(3)),
}


def sobol(n):
    return SobolQMCNormalSampler(torch.Size([n]), seed=0)


def made(forgetting="markov and weights", **options):
    return build(forgetting, now=NOW, **options)


def with_time(X, time=NOW, column=2):
    return torch.cat([X[..., :column], torch.full_like(X[..., :1], time), X[..., column:]], -1)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_with_the_column_of_time(kind):
    acquisition = KINDS[kind](made())
    present = at_present(acquisition)
    q = 4 if kind == "KG" else 2 if kind.startswith("q") else 1
    X = torch.rand(5, q, 2, dtype=torch.float64)
    expected = acquisition(with_time(X))
    assert torch.equal(present(X), expected)
    assert torch.equal(present(with_time(X, 3.0)), expected)
    assert torch.equal(at_present(present, NOW)(X), expected)
    if kind != "KG":
        theirs = FixedFeatureAcquisitionFunction(acquisition, 3, [2], [NOW])
        assert torch.equal(present(X), theirs(X))
    assert present._log == acquisition._log
    X.requires_grad_()
    (gradient,) = torch.autograd.grad(present(X).sum(), X)
    assert gradient.isfinite().all()


def test_knowledge_gradient_from_scratch_and_beside_points_on_their_way():
    """With BoTorch's own starts."""
    acquisition = at_present(KINDS["KG"](made()))
    few = {"maxiter": 5, "num_inner_restarts": 2, "raw_inner_samples": 8}
    X, value = optimize_acqf(acquisition, BOUNDS, 2, num_restarts=2, raw_samples=8, options=few)
    assert X.shape == (2, 2)
    assert not torch.allclose(X[0], X[1])
    assert value.isfinite().all()
    acquisition.set_X_pending(X)
    assert torch.equal(acquisition.X_pending, with_time(X))
    again = qKnowledgeGradientAtPresent(made(), num_fantasies=3, sampler=sobol(3), X_pending=X)
    assert torch.equal(again.X_pending, with_time(X))


def dense(model, arms):
    """Posterior mean and covariance of all arms at NOW, in numpy; the first 12 are the data's."""
    X, Y = data()
    return joint_regression(
        squared_exponential(np.concatenate([X[:, :2], arms]), 0.4),
        range(12),
        X[:, 2].tolist(),
        Y.squeeze(-1).tolist(),
        NOW,
        noise=0.04,
        decay=("markov", 0.05),
        inflation=("exponential", 0.9),
        reference=NOW,
    )


def textbook_model():
    model = made(spatial_module=smooth(0.4))
    model.mean_module.constant = 0.0
    model.likelihood.noise = torch.tensor(0.04, dtype=torch.float64)
    return model


def test_knowledge_gradient_by_hand():
    """Over five arms: the mean over fantasies of the best mean after a measurement of lag 0."""
    model = textbook_model()
    arms = torch.rand(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mean, covariance = dense(model, arms.numpy())
    mean, covariance = mean[12:], covariance[12:, 12:]
    sampler = sobol(7)
    acquisition = at_present(qKnowledgeGradient(model, num_fantasies=7, sampler=sampler), NOW)
    for chosen in range(5):
        with torch.no_grad():
            acquisition(torch.rand(1, 8, 2, dtype=torch.float64))  # draws the base samples
            z = sampler.base_samples.flatten().numpy()
            variance = covariance[chosen, chosen] + 0.04
            after = mean + np.outer(z, covariance[chosen]) / np.sqrt(variance)  # fantasies x arms
            best = after.argmax(1)
            X = torch.cat([arms[chosen : chosen + 1], arms[torch.from_numpy(best)]])
            value = acquisition(X.unsqueeze(0)).item()
        assert value == pytest.approx(after.max(1).mean(), abs=1e-10)


def test_knowledge_gradient_seeks_the_best_under_each_fantasy():
    model = textbook_model()
    acquisition = at_present(qKnowledgeGradient(model, num_fantasies=3, sampler=sobol(3)))
    torch.manual_seed(0)
    X = torch.rand(2, 1, 2, dtype=torch.float64)
    options = {"num_restarts": 8, "raw_samples": 64, "options": {"raw_inner_samples": 64}}
    sought = acquisition.evaluate(X, bounds=BOUNDS, **options)
    line = torch.linspace(0, 1, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    mean, covariance = dense(model, torch.cat([X[:, 0], grid]).numpy())
    z = acquisition.sampler.base_samples.flatten().numpy()
    for row in range(2):
        column = covariance[12 + row]
        after = mean + np.outer(z, column) / np.sqrt(column[12 + row] + 0.04)
        best = after[:, 14:].max(1).mean()  # on a grid, so a little less
        assert best <= sought[row].item() <= best + 2e-3


def test_noisy_improvement_is_over_values_of_today():
    """Against samples of the dense posterior at NOW; the points' own times would say otherwise."""
    model = textbook_model()
    X, _ = data()
    twice = torch.cat([X, with_time(X[:3, :2], 15.0)])
    options = {"sampler": sobol(512), "prune_baseline": False, "fat": False}
    sharp = {"tau_max": 1e-4, "tau_relu": 1e-6}
    acquisition = qLogNoisyExpectedImprovementAtPresent(model, twice, **options, **sharp)
    assert acquisition.X_baseline.shape == (12, 3)
    assert (acquisition.X_baseline[:, 2] == NOW).all()
    test_X = torch.rand(4, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = acquisition(test_X).exp().numpy()
        with pytest.warns(InputDataWarning, match="samples are drawn at time"):
            past = qLogNoisyExpectedImprovement(model, X, **options, **sharp)
        old = past(with_time(test_X)).exp().numpy()
        pruned = qLogNoisyExpectedImprovementAtPresent(model, X[:, :2], sampler=sobol(512))
    assert (pruned.X_baseline[:, 2] == NOW).all()
    mean, covariance = dense(model, test_X[:, 0].numpy())
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(16))
    f = mean + np.random.default_rng(0).standard_normal((200_000, 16)) @ root.T
    gain = np.maximum(f[:, 12:] - f[:, :12].max(1, keepdims=True), 0.0)
    np.testing.assert_allclose(found, gain.mean(0), rtol=0.1, atol=2e-3)
    assert (np.abs(old / gain.mean(0) - 1) > 0.2).any()


def test_baselines_of_a_batch_stay_apart_though_they_are_equal():
    batch = data()[0][:, :2].expand(2, -1, -1)
    options = {"sampler": sobol(8), "prune_baseline": False}
    acquisition = qLogNoisyExpectedImprovementAtPresent(textbook_model(), batch, **options)
    assert acquisition.X_baseline.shape == (2, len(data()[0]), 3)


def test_points_of_the_past_that_are_held_are_pointed_out():
    X = data()[0]
    for past, cure in (
        (qLogNoisyExpectedImprovement(made(), X, sobol(8)), "X_baseline .* moves a baseline"),
        (qUpperConfidenceBound(made(), 2.0, X_pending=X[:2]), "X_pending .* set_X_pending"),
        (qNegIntegratedPosteriorVariance(made(), X), "mc_points .* to the present"),
    ):
        with pytest.warns(InputDataWarning, match=cure):
            at_present(past)
    now = at_present(qUpperConfidenceBound(made(), 2.0, X_pending=with_time(X[:2, :2])))
    assert torch.equal(now.X_pending, X[:2, :2])  # and nothing is said


@pytest.mark.filterwarnings("error::botorch.exceptions.InputDataWarning")
@pytest.mark.parametrize("forgetting", ["markov", "markov and weights", "weights"])
@pytest.mark.parametrize("m", [1, 2])
def test_samples_of_the_past_are_pointed_out_where_botorch_compares_settings(forgetting, m):
    """Pruning, and noisy improvement under fixed features, pass none of our functions."""
    model, X = build(forgetting, now=NOW, m=m), data()[0]
    objective = {"posterior_transform": ScalarizedPosteriorTransform(torch.ones(m).double())}
    calls = [
        lambda X: prune_inferior_points(model, X, **objective),
        lambda X: qLogNoisyExpectedImprovement(model, X, sobol(8), **objective),
        lambda X: qLogNoisyExpectedImprovement(
            model, X, sobol(8), **objective, prune_baseline=False, cache_root=False
        )(with_time(X[:2, None, :2])),
    ]
    for call in calls:
        if forgetting != "weights":  # under which the function itself stands still
            with pytest.warns(InputDataWarning, match=r"at time \d.* now is 20.*AtPresent"):
                call(X)
        call(X if forgetting == "weights" else with_time(X[:, :2]))
    posterior = model.posterior(X)  # what it was like is a fair question
    assert torch.equal(pickle.loads(pickle.dumps(posterior)).mean, posterior.mean)
    assert posterior.rsample(torch.Size([2])).isfinite().all()


INSIDE = {
    "penalised": lambda of: PenalizedAcquisitionFunction(of, L2Penalty(torch.zeros(3)), 0.1),
    "guided": lambda of: PriorGuidedAcquisitionFunction(of, torch.nn.Identity()),
    "proximal": lambda of: ProximalAcquisitionFunction(of, torch.ones(3).double(), beta=1.0),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_points_of_the_past_are_pointed_out_inside_other_functions(kind):
    X, model = data()[0], made()
    with pytest.warns(InputDataWarning, match="samples are drawn at time"):
        improvement = qLogNoisyExpectedImprovement(model, X, sobol(8))
    with pytest.warns(InputDataWarning, match="X_baseline of qLogNoisy") as said:
        acquisition = at_present(INSIDE[kind](improvement))
    assert len(said) == 1
    acquisition.set_X_pending(X[:2, :2])
    if kind != "proximal":  # has no pending points beside those of the function inside
        assert torch.equal(acquisition.X_pending, X[:2, :2])
        return
    plain = INSIDE[kind](qUpperConfidenceBound(model, 2.0, sampler=sobol(8)))
    points = X[:3, None, :2]
    torch.testing.assert_close(at_present(plain)(points), plain(with_time(points)))


@pytest.mark.parametrize("told", ["at construction", "later"])
def test_one_candidate_after_the_other_beside_points_on_their_way(told):
    """BoTorch joins both, and tells what was known at first again in the end."""
    pending = data()[0][:2, :2]
    first = {"X_pending": with_time(pending)} if told == "at construction" else {}
    acquisition = at_present(qUpperConfidenceBound(made(), 2.0, sampler=sobol(8), **first))
    inner, known = acquisition.acq_function, []
    if told == "later":
        acquisition.set_X_pending(pending)

    def told_of(X):
        known.append(X)
        type(inner).set_X_pending(inner, X)

    inner.set_X_pending = told_of
    few = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 2}}
    X, _ = optimize_acqf(acquisition, BOUNDS, q=2, sequential=True, **few)
    both, last = known
    assert torch.equal(both, with_time(torch.cat([pending, X[:1, :2]])))
    assert torch.equal(last, with_time(pending))


@pytest.mark.parametrize("told", ["at construction", "later", "with times"])
@pytest.mark.parametrize("kind", ["at present", "joined", "wrapped"])
def test_noisy_improvement_keeps_what_is_on_its_way_beside_new_candidates(kind, told):
    """BoTorch's own forgets it: points in its baseline are not told as pending."""
    model, (train_X, *_) = made(), data()
    pending, X = torch.rand(2, 2, dtype=torch.float64), torch.rand(3, 1, 2, dtype=torch.float64)

    def built(points):
        options = {"sampler": sobol(16), "prune_baseline": False, "X_pending": points}
        if kind == "wrapped":
            options["X_pending"] = None if points is None else with_time(points[..., :2])
            baseline = with_time(train_X[:, :2])
            return at_present(qLogNoisyExpectedImprovement(model, baseline, **options))
        options["incremental"] = kind == "at present"
        return qLogNoisyExpectedImprovementAtPresent(model, train_X, **options)

    wide = told == "with times"
    first, asked = (with_time(pending), with_time(X)) if wide else (pending, X)
    acquisition = built(first if told == "at construction" else None)
    if told != "at construction":
        acquisition.set_X_pending(first)
    assert torch.equal(acquisition.X_pending, first)
    torch.testing.assert_close(acquisition(asked), built(pending)(X))
    new = torch.rand(1, 2, dtype=torch.float64)
    # What BoTorch does in a search of one candidate after the other.
    before = acquisition.X_pending
    acquisition.set_X_pending(torch.cat([before, with_time(new) if wide else new]))
    both = built(torch.cat([pending, new]))(X)
    torch.testing.assert_close(acquisition(asked), both)
    assert not torch.allclose(both, built(new)(X))
    acquisition.set_X_pending(before)
    torch.testing.assert_close(acquisition(asked), built(pending)(X))
    acquisition.set_X_pending()
    assert acquisition.X_pending is None
    torch.testing.assert_close(acquisition(asked), built(None)(X))


@pytest.mark.parametrize("kind", ["MES", "JES", "PES", "noisy EI"])
def test_optima_of_the_past_are_pointed_out(kind):
    """Max-value entropy search adds the training inputs to its candidates, at their own times."""
    X, Y = data()
    variances = torch.full_like(Y, 0.01)
    model = TimeVaryingGP(X, Y, variances, forgetting=Markov(0.3), now=NOW, outcome_transform=None)
    best = torch.ones(len(X), 1, dtype=torch.float64)
    make, cure = {
        "MES": (lambda X: qMaxValueEntropy(model, X, train_inputs=X), "candidate_set .* train_inp"),
        "JES": (lambda X: qJointEntropySearch(model, X, best), "optimal_inputs .* outputs drawn"),
        "PES": (lambda X: qPredictiveEntropySearch(model, X), "pareto_sets .* to the present"),
        "noisy EI": (lambda X: LogNoisyExpectedImprovement(model, X, 4), "X_observed .*AtPresent"),
    }[kind]
    today = with_time(X[:, :2])
    with pytest.warns(InputDataWarning, match=cure):
        at_present(make(X), NOW, time_dim=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputDataWarning)
        at_present(make(today), NOW, time_dim=2)
    if kind == "MES":
        with pytest.warns(InputDataWarning, match=cure):
            at_present(qMaxValueEntropy(model, today))


@pytest.mark.parametrize("column", [0, 1])
def test_time_in_another_column_and_learned_from_a_dataset(column):
    X, Y = data()
    order = [0, 1]
    order.insert(column, 2)
    model = TimeVaryingGP(X[:, order], Y, time_dim=column, now=NOW)
    dataset = SupervisedDataset(X[:, order], Y, feature_names=["a", "b", "c"], outcome_names=["y"])
    make = get_acqf_input_constructor(qLogNoisyExpectedImprovementAtPresent)
    torch.manual_seed(0)  # points unlikely to be best are left out by samples
    noisy = qLogNoisyExpectedImprovementAtPresent(**make(model, dataset, sampler=sobol(8)))
    assert (noisy.X_baseline[:, column] == NOW).all()
    make = get_acqf_input_constructor(qKnowledgeGradientAtPresent)
    given = model, dataset, [(0.0, 1.0)] * 3
    torch.manual_seed(0)
    inputs = make(*given, num_fantasies=4, with_current_value=True)
    gradient = qKnowledgeGradientAtPresent(**inputs)
    line = torch.linspace(0, 1, 21, dtype=torch.float64)
    grid = with_time(torch.cartesian_prod(line, line), NOW, column)
    torch.manual_seed(0)
    at = {"now": NOW, "time_dim": column}
    said = make(*given, num_fantasies=4, with_current_value=True, **at)
    assert torch.equal(said["current_value"], inputs["current_value"])
    assert (said["now"], said["time_dim"]) == (NOW, column)
    torch.manual_seed(0)
    baseline = qLogNoisyExpectedImprovementAtPresent(model, dataset.X, sobol(8), **at)
    assert torch.equal(baseline.X_baseline, noisy.X_baseline)
    best = model.posterior(grid).mean.max().item()
    assert best - 1e-6 <= gradient.current_value.item() <= best + 0.05
    X = torch.rand(3, 5, 2, dtype=torch.float64)
    plain = qKnowledgeGradient(model, num_fantasies=4, sampler=gradient.sampler)
    expected = plain(with_time(X, NOW, column)) - gradient.current_value
    assert torch.allclose(gradient(X), expected, rtol=0, atol=1e-12)


def test_a_present_for_each_member_of_a_batch():
    X, Y = data(batch=(2,))
    now = torch.tensor([NOW, 30.0], dtype=torch.float64)
    model = TimeVaryingGP(X, Y, forgetting=ExponentialWeights(0.9), now=now)
    acquisition = at_present(UpperConfidenceBound(model, beta=4.0))
    test_X = torch.rand(6, 2, 1, 2, dtype=torch.float64)
    found = acquisition(test_X)
    for member in range(2):
        alone = TimeVaryingGP(
            X[member], Y[member], forgetting=ExponentialWeights(0.9), now=now[member]
        )
        expected = at_present(UpperConfidenceBound(alone, beta=4.0))(test_X[:, member])
        assert torch.allclose(found[:, member], expected, rtol=0, atol=1e-10)


def test_models_that_do_not_know_the_time():
    X, Y = data()
    stranger = LogExpectedImprovement(SingleTaskGP(X, Y), best_f=0.0)
    with pytest.raises(ValueError, match="give now and time_dim"):
        at_present(stranger)
    test_X = torch.rand(3, 1, 2, dtype=torch.float64)
    expected = stranger(with_time(test_X))
    assert torch.equal(at_present(stranger, NOW, time_dim=-1)(test_X), expected)
    both = ModelListGP(made(), SingleTaskGP(X, Y))
    hypervolume = qHypervolumeKnowledgeGradient(both, ref_point=torch.zeros(2).double())
    with pytest.raises(UnsupportedError, match="fixed_features"):
        at_present(hypervolume)
    with pytest.raises(UnsupportedError, match=r"acquisition function with a model, but .*SingleT"):
        at_present(SingleTaskGP(X, Y), NOW)


@pytest.mark.parametrize("output_tasks", [[0], None], ids=["one", "both"])
@pytest.mark.parametrize(
    ("order", "task_feature", "time_dim"),
    [
        ("x x t k", -1, 2),  # x x t k of one task were taken for three columns and time
        ("x x t k", 3, -2),
        ("k x x t", 0, 3),
        ("k x x t", -4, -1),
        ("x k x t", 1, 3),
        ("t x x k", -1, 0),
    ],
)
def test_points_of_several_tasks_leave_out_the_column_of_tasks(
    order, task_feature, time_dim, output_tasks
):
    (X, Y), tasks = data(), torch.arange(12.0).remainder(2).to(torch.float64)
    columns = {"x": iter(X[:, :2].unbind(-1)), "t": iter([X[:, 2]]), "k": iter([tasks])}
    whole = torch.stack([next(columns[name]) for name in order.split()], -1)
    model = MultiTaskGP(whole, Y, task_feature, output_tasks=output_tasks)
    column = order.replace("k", "").split().index("t")
    weights = torch.tensor([1.0, 0.5][: model.num_outputs], dtype=torch.float64)
    of = {"posterior_transform": ScalarizedPosteriorTransform(weights)}
    baseline = with_time(X[:, :2], NOW, column)
    mean = PosteriorMean(model, **of)
    test_X = torch.rand(4, 1, 2, dtype=torch.float64)
    for acquisition in (mean, qLogNoisyExpectedImprovement(model, baseline, sobol(16), **of)):
        expected = acquisition(with_time(test_X, NOW, column))
        present = at_present(acquisition, NOW, time_dim=time_dim)
        assert torch.equal(present(test_X), expected)
        assert torch.equal(present(with_time(test_X, 3.0, column)), expected)
        with pytest.raises(BotorchTensorDimensionError, match="drop a column of tasks"):
            present(whole[:4].unsqueeze(1))
    ours = qLogNoisyExpectedImprovementAtPresent(
        model, X[:, :2], sobol(16), **of, prune_baseline=False, now=NOW, time_dim=time_dim
    )
    assert torch.equal(ours.X_baseline, torch.unique(baseline, dim=0))
    assert ours(test_X).isfinite().all()
    with pytest.raises(ValueError, match="it must be the column of time, not of tasks"):
        at_present(mean, NOW, time_dim=task_feature)


def test_models_of_a_list_have_time_in_one_column():
    X, Y = data()
    models = (TimeVaryingGP(X.roll(turn, -1), Y, time_dim=turn - 1, now=NOW) for turn in (0, 1))
    weights = ScalarizedPosteriorTransform(torch.ones(2, dtype=torch.float64))
    scored = PosteriorMean(ModelListGP(*models), posterior_transform=weights)
    with pytest.raises(ValueError, match="give all models of a list the same columns"):
        at_present(scored)


def test_what_is_refused():
    model = made()
    for bad, said in (
        ({"now": 25.0}, r"set_now\(now\) first"),
        ({"now": 1.0}, "later"),
        ({"now": float("nan")}, "finite"),
        ({"time_dim": 3}, "time_dim is 3"),
        ({"time_dim": 0}, "time_dim is 0, but a TimeVaryingGP has time in column 2"),
    ):
        with pytest.raises((InputDataError, ValueError), match=said):
            at_present(PosteriorMean(model), **bad)
    ahead = at_present(PosteriorMean(build("markov")), 25.0)
    with pytest.raises(BotorchTensorDimensionError, match="x 2, the columns other than time"):
        ahead(torch.rand(2, 1, 1, dtype=torch.float64))
    X, Y = data()
    empty = TimeVaryingGP(X[:0], Y[:0], outcome_transform=None)
    with pytest.raises(ValueError, match="give a time"):
        at_present(PosteriorMean(empty))
    assert at_present(PosteriorMean(empty), 0.0)(X[:2, None, :2]).shape == (2,)


WIDTHS = [
    Logarithmic(0.4, 4.0),
    IGPUCB(1.0, 0.2, 0.1),
    IGPUCB(1.0, 0.2, 0.1, ClosedForm("se")),
    AgnosticGPUCB(1.0, 0.1),
    "weighted",
]


@pytest.mark.parametrize("width", WIDTHS)
def test_widths_are_the_roots_of_botorchs_beta(width):
    """Scores are mean + √beta · sd, with the gain of the data as dense algebra has it."""
    X, Y = data()
    options = {"forgetting": ExponentialWeights(0.9), "outcome_transform": None}
    model = TimeVaryingGP(X, Y, now=NOW, spatial_module=smooth(0.4), **options)
    model.likelihood.noise = torch.tensor(0.04, dtype=torch.float64)
    K = squared_exponential(X[:, :2].numpy(), 0.4)
    aged = {"noise": 0.04, "inflation": ("exponential", 0.9), "reference": NOW}
    gain, weighted = (
        information_gain(K, range(12), X[:, 2].tolist(), power=power, **aged) for power in (1, 2)
    )
    if width == "weighted":
        width = WGPUCB(1.0, 0.2, 0.04, 0.1)
        factor = 1.0 + 0.2 / 0.2 * np.sqrt(2 * weighted - 2 * np.log(0.1))
    elif isinstance(width, AgnosticGPUCB):
        factor = np.sqrt(2 + 300 * gain * np.log(13 / 0.1) ** 3)
    elif isinstance(width, IGPUCB):
        if width.gain == ClosedForm("se"):
            gain = np.log(12) ** (2 + 1)  # n rounds told, two dimensions
        factor = 1.0 + 0.2 * np.sqrt(2 * (gain + 1 - np.log(0.1)))
    else:
        factor = np.sqrt(0.4 * np.log(4.0 * 13))
    test_X = torch.rand(6, 1, 2, dtype=torch.float64)
    with torch.no_grad():
        posterior = model.posterior(with_time(test_X[:, 0]))
        expected = (posterior.mean + factor * posterior.variance.sqrt()).squeeze(-1)
        found = upper_confidence_bound(model, width, t=13)(test_X)
        below = upper_confidence_bound(model, width, t=13, maximize=False)(test_X)
    assert torch.allclose(found, expected, rtol=0, atol=1e-9)
    assert torch.allclose(below, found - 2 * posterior.mean.squeeze(-1), rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="counts rounds from 1"):
        upper_confidence_bound(model, width, t=0)


def test_gain_where_noise_does_not_age():
    X, _ = data()
    model = build("markov", spatial_module=smooth(0.4))
    model.likelihood.noise = torch.tensor(0.04, dtype=torch.float64)
    K = squared_exponential(X[:, :2].numpy(), 0.4)
    times = X[:, 2].tolist()
    expected = information_gain(K, range(12), times, noise=0.04, decay=("markov", 0.05))
    assert model.information_gain().item() == pytest.approx(expected, rel=1e-10)
    assert model.weighted_information_gain().item() == pytest.approx(expected, rel=1e-10)
