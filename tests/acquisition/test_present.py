"""Acquisition at the present: the same values as on all columns, and dense references."""

import pickle
import warnings
from functools import partial

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
from botorch.acquisition.multi_objective import (
    logei,
    qHypervolumeKnowledgeGradient,
    qLogNoisyExpectedHypervolumeImprovement,
)
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.multi_objective.parego import qLogNParEGO
from botorch.acquisition.multi_objective.utils import prune_inferior_points_multi_objective
from botorch.acquisition.objective import GenericMCObjective, ScalarizedPosteriorTransform
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
from models.cases import build, data
from oracles.dense import information_gain, joint_regression, squared_exponential

from botorch_tv.acquisition.present import (
    at_present,
    points_at_present,
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedHypervolumeImprovementAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
    qLogNParEGOAtPresent,
    upper_confidence_bound,
)
from botorch_tv.acquisition.widths import (
    IGPUCB,
    WGPUCB,
    AgnosticGPUCB,
    ClosedForm,
    Logarithmic,
    WidthContext,
)
from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.NumericsWarning")
strict = pytest.mark.filterwarnings("error::botorch.exceptions.InputDataWarning")
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


def dense(model, arms):
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
    model = made(spatial_module=unit_kernel("se", 0.4))
    model.mean_module.constant = 0.0
    model.likelihood.noise = torch.tensor(0.04, dtype=torch.float64)
    return model


def test_knowledge_gradient_by_hand():
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
            X = torch.cat([arms[chosen : chosen + 1], arms[torch.from_numpy(after.argmax(1))]])
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


OBJECTIVES = IdentityMCMultiOutputObjective(outcomes=[0, 1])
WORST = torch.tensor([-1.5, -1.5], dtype=torch.float64)
SCALARISED = torch.tensor([0.3, 0.7], dtype=torch.float64)
NOISY = {
    "qLogNEI": (
        qLogNoisyExpectedImprovementAtPresent,
        qLogNoisyExpectedImprovement,
        {"objective": GenericMCObjective(lambda Y, X=None: Y[..., 0] + Y[..., 1])},
    ),
    "qLogNParEGO": (
        qLogNParEGOAtPresent,
        qLogNParEGO,
        {"objective": OBJECTIVES, "scalarization_weights": SCALARISED},
    ),
    "qLogNEHVI": (
        qLogNoisyExpectedHypervolumeImprovementAtPresent,
        qLogNoisyExpectedHypervolumeImprovement,
        {"objective": OBJECTIVES, "ref_point": WORST},
    ),
    "qLogNEHVI, joined": (
        qLogNoisyExpectedHypervolumeImprovementAtPresent,
        qLogNoisyExpectedHypervolumeImprovement,
        {"objective": OBJECTIVES, "ref_point": WORST, "cache_pending": False},
    ),
}


def three_outcomes():
    """A model of slow change that is certain of which old points are poor, and its inputs."""
    X, Y = data(m=3)
    model = TimeVaryingGP(X, Y, forgetting=Markov(0.01), now=NOW, outcome_transform=None)
    model.likelihood.noise = torch.full((3, 1), 1e-3, dtype=torch.float64)
    return model, X


@strict
@pytest.mark.parametrize("kind", NOISY)
def test_noisy_forms_with_constraints_are_botorchs_on_points_of_today(kind, monkeypatch):
    monkeypatch.setattr(logei, "_load_attempted", True)  # compile nothing
    ours, theirs, options = NOISY[kind]
    model, X = three_outcomes()
    points, pending = torch.rand(2, 1, 2, dtype=torch.float64), torch.rand(2, 2).double()

    def built(kind, baseline):
        torch.manual_seed(0)  # samples decide which points are pruned
        inputs = {"X_baseline": baseline, "sampler": sobol(8), "prune_baseline": True, **options}
        inputs["constraints"] = [lambda Y: Y[..., 2] - 0.5]
        return kind(**get_acqf_input_constructor(kind)(model, None, **inputs))

    plain, found = built(theirs, torch.unique(with_time(X[:, :2]), dim=0)), built(ours, X)
    assert torch.equal(found.X_baseline, plain.X_baseline)
    assert len(found.X_baseline) < len(X)
    for count in range(3):  # as in a sequential search of BoTorch
        assert found.X_pending is None if count < 2 else torch.equal(found.X_pending, pending[:1])
        for acquisition, joined in ((found, pending), (plain, with_time(pending))):
            torch.manual_seed(count)
            acquisition.set_X_pending(joined[:count] if count else None)
        with torch.no_grad():
            assert torch.equal(found(points), plain(with_time(points)))
    points.requires_grad_()
    assert torch.autograd.grad(found(points).sum(), points)[0].isfinite().all()


def test_pruning_compares_points_of_today():
    model, X = three_outcomes()
    today = points_at_present(model, torch.cat([X, X[:2]]))
    assert torch.equal(today, torch.unique(with_time(X[:, :2]), dim=0))
    front = prune_inferior_points_multi_objective(model, today, WORST, OBJECTIVES)
    assert len(front) < len(today)
    mean = model.posterior(today).mean
    for output in range(2):
        first = ScalarizedPosteriorTransform(torch.eye(3, dtype=torch.float64)[output])
        best = prune_inferior_points(model, today, posterior_transform=first)
        assert len(best) < len(today)
        for pruned in (best, front):
            assert (pruned == today[mean[:, output].argmax()]).all(-1).any()


def test_points_of_the_past_that_are_held_are_pointed_out():
    X = data()[0]
    for past, match in (
        (qLogNoisyExpectedImprovement(made(), X, sobol(8)), "X_baseline .* moves its baseline"),
        (qUpperConfidenceBound(made(), 2.0, X_pending=X[:2]), "X_pending .* set_X_pending"),
        (qNegIntegratedPosteriorVariance(made(), X), "mc_points .* to the present"),
    ):
        with pytest.warns(InputDataWarning, match=match):
            at_present(past)
    now = at_present(qUpperConfidenceBound(made(), 2.0, X_pending=with_time(X[:2, :2])))
    assert torch.equal(now.X_pending, X[:2, :2])


@strict
@pytest.mark.parametrize("forgetting", ["markov", "markov and weights", "weights"])
@pytest.mark.parametrize("m", [1, 2])
def test_samples_of_the_past_are_pointed_out_where_botorch_compares_settings(forgetting, m):
    model, X = build(forgetting, now=NOW, m=m), data()[0]
    objective = {"posterior_transform": ScalarizedPosteriorTransform(torch.ones(m).double())}
    calls = [
        lambda X: prune_inferior_points(model, X, **objective),
        lambda X: prune_inferior_points(model, X, **objective, sampler=sobol(8)),
        lambda X: qLogNoisyExpectedImprovement(model, X, sobol(8), **objective),
        lambda X: qLogNoisyExpectedImprovement(
            model, X, sobol(8), **objective, prune_baseline=False, cache_root=False
        )(with_time(X[:2, None, :2])),
    ]
    for call in calls:
        if forgetting != "weights":  # under which the function is static
            with pytest.warns(InputDataWarning, match=r"at time \d.* now is 20.*AtPresent"):
                call(X)
        call(X if forgetting == "weights" else with_time(X[:, :2]))
    posterior = model.posterior(X)
    again = pickle.loads(pickle.dumps(posterior))
    assert torch.equal(again.mean, posterior.mean)
    assert posterior.rsample(torch.Size([2])).isfinite().all()


def inside(kind, acquisition):
    if kind == "penalised":
        return PenalizedAcquisitionFunction(acquisition, L2Penalty(torch.zeros(3).double()), 0.1)
    if kind == "guided":
        return PriorGuidedAcquisitionFunction(acquisition, torch.nn.Identity())
    return ProximalAcquisitionFunction(acquisition, torch.ones(3).double(), beta=1.0)


@pytest.mark.parametrize("kind", ["penalised", "guided", "proximal"])
def test_points_of_the_past_are_pointed_out_inside_other_functions(kind):
    X, model = data()[0], made()
    with pytest.warns(InputDataWarning, match="samples are drawn at time"):
        improvement = qLogNoisyExpectedImprovement(model, X, sobol(8))
    with pytest.warns(InputDataWarning, match="X_baseline of qLogNoisy") as caught:
        acquisition = at_present(inside(kind, improvement))
    assert len(caught) == 1
    acquisition.set_X_pending(X[:2, :2])
    if kind != "proximal":  # has no pending points beside those of the function inside
        assert torch.equal(acquisition.X_pending, X[:2, :2])
    if kind == "proximal":
        plain = inside(kind, qUpperConfidenceBound(model, 2.0, sampler=sobol(8)))
        points = X[:3, None, :2]
        torch.testing.assert_close(at_present(plain)(points), plain(with_time(points)))
    if kind == "penalised":
        with pytest.warns(InputDataWarning, match="X_pending") as caught:
            at_present(inside(kind, qUpperConfidenceBound(model, 2.0, X_pending=X[:2])))
        assert len(caught) == 1


@pytest.mark.parametrize("when", ["at construction", "later", "with times"])
def test_sequential_candidates_join_pending_points(when):
    pending = data()[0][:2, :2]
    first = {"X_pending": with_time(pending)} if when == "at construction" else {}
    acquisition = at_present(qUpperConfidenceBound(made(), 2.0, sampler=sobol(8), **first))
    inner, columns, fixed = acquisition.acq_function, BOUNDS, None
    if when == "later":
        acquisition.set_X_pending(pending)
    if when == "with times":
        acquisition.set_X_pending(with_time(pending))
        columns = torch.cat([BOUNDS, torch.tensor([[0.0], [NOW]], dtype=BOUNDS.dtype)], -1)
        fixed = {2: NOW}
    calls = []

    def set_pending(X):
        calls.append(X)
        type(inner).set_X_pending(inner, X)

    inner.set_X_pending = set_pending
    quick = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 2}}
    X, _ = optimize_acqf(acquisition, columns, 2, sequential=True, fixed_features=fixed, **quick)
    both, last = calls
    assert torch.equal(both, with_time(torch.cat([pending, X[:1, :2]])))
    assert torch.equal(last, with_time(pending))


@pytest.mark.parametrize("when", ["at construction", "later", "with times"])
@pytest.mark.parametrize("kind", ["at present", "joined", "wrapped"])
def test_noisy_improvement_retains_pending_points(kind, when):
    model, (train_X, *_) = made(), data()
    pending, X = torch.rand(2, 2, dtype=torch.float64), torch.rand(3, 1, 2, dtype=torch.float64)

    def built(points):
        options = {"sampler": sobol(16), "prune_baseline": False, "X_pending": points}
        if kind == "wrapped":
            options["X_pending"] = None if points is None else with_time(points[..., :2])
            baseline = with_time(train_X[:, :2])
            return at_present(qLogNoisyExpectedImprovement(model, baseline, **options))
        return qLogNoisyExpectedImprovementAtPresent(
            model, train_X, **options, incremental=kind == "at present"
        )

    wide = when == "with times"
    first, asked = (with_time(pending), with_time(X)) if wide else (pending, X)
    acquisition = built(first if when == "at construction" else None)
    if when != "at construction":
        acquisition.set_X_pending(first)
    assert torch.equal(acquisition.X_pending, first)
    torch.testing.assert_close(acquisition(asked), built(pending)(X))
    new = torch.rand(1, 2, dtype=torch.float64)
    # As BoTorch does in a sequential search.
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
@pytest.mark.full
def test_optima_of_the_past_are_pointed_out(kind):
    X, Y = data()
    variances = torch.full_like(Y, 0.01)
    model = TimeVaryingGP(X, Y, variances, forgetting=Markov(0.3), now=NOW, outcome_transform=None)
    best = torch.ones(len(X), 1, dtype=torch.float64)
    make, match = {
        "MES": (lambda X: qMaxValueEntropy(model, X, train_inputs=X), "candidate_set .* train_inp"),
        "JES": (lambda X: qJointEntropySearch(model, X, best), "optimal_inputs .* outputs there"),
        "PES": (lambda X: qPredictiveEntropySearch(model, X), "pareto_sets .* to the present"),
        "noisy EI": (
            lambda X: LogNoisyExpectedImprovement(model, X, num_fantasies=4),
            "X_observed .*AtPresent",
        ),
    }[kind]
    today = with_time(X[:, :2])
    with pytest.warns(InputDataWarning, match=match):
        at_present(make(X), NOW, time_dim=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputDataWarning)
        at_present(make(today), NOW, time_dim=2)
    if kind == "MES":
        with pytest.warns(InputDataWarning, match=match):
            at_present(qMaxValueEntropy(model, today))


@pytest.mark.full
def test_time_in_another_column_and_learned_from_a_dataset():
    (X, Y), column, order = data(), 1, [0, 2, 1]
    model = TimeVaryingGP(X[:, order], Y, time_dim=column, now=NOW)
    dataset = SupervisedDataset(X[:, order], Y, feature_names=["a", "b", "c"], outcome_names=["y"])
    make = get_acqf_input_constructor(qLogNoisyExpectedImprovementAtPresent)
    torch.manual_seed(0)  # samples decide which points are dropped
    noisy = qLogNoisyExpectedImprovementAtPresent(**make(model, dataset, sampler=sobol(8)))
    assert (noisy.X_baseline[:, column] == NOW).all()
    make = get_acqf_input_constructor(qKnowledgeGradientAtPresent)
    bounds = [(0.0, 1.0)] * 3
    torch.manual_seed(0)
    inputs = make(model, dataset, bounds, num_fantasies=4, with_current_value=True)
    gradient = qKnowledgeGradientAtPresent(**inputs)
    line = torch.linspace(0, 1, 21, dtype=torch.float64)
    grid = with_time(torch.cartesian_prod(line, line), NOW, column)
    torch.manual_seed(0)
    present = {"now": NOW, "time_dim": column}
    given = make(model, dataset, bounds, num_fantasies=4, with_current_value=True, **present)
    assert torch.equal(given["current_value"], inputs["current_value"])
    assert {name: given[name] for name in present} == present
    torch.manual_seed(0)
    baseline = qLogNoisyExpectedImprovementAtPresent(model, dataset.X, sobol(8), **present)
    assert torch.equal(baseline.X_baseline, noisy.X_baseline)
    best = model.posterior(grid).mean.max().item()
    assert best - 1e-6 <= gradient.current_value.item() <= best + 0.05
    X = torch.rand(3, 5, 2, dtype=torch.float64)
    plain = qKnowledgeGradient(model, num_fantasies=4, sampler=gradient.sampler)
    expected = plain(with_time(X, NOW, column)) - gradient.current_value
    assert torch.allclose(gradient(X), expected, rtol=0, atol=1e-12)


def test_pending_points_of_a_knowledge_gradient():
    X, pending = torch.rand(2, 5, 2).double(), torch.rand(1, 2).double()
    then, later, without = (
        qKnowledgeGradientAtPresent(made(), num_fantasies=4, sampler=sobol(4), X_pending=points)
        for points in (pending, None, None)
    )
    later.set_X_pending(pending)
    torch.testing.assert_close(then(X), later(X), rtol=0, atol=1e-9)
    assert float((then(X) - without(X)).abs().max()) > 1e-6


def test_a_present_for_each_member_of_a_batch():
    X, Y = data(batch=(2,))
    now, forgetting = torch.tensor([NOW, 30.0], dtype=torch.float64), ExponentialWeights(0.9)
    model = TimeVaryingGP(X, Y, forgetting=forgetting, now=now)
    test_X = torch.rand(6, 2, 1, 2, dtype=torch.float64)
    found = at_present(UpperConfidenceBound(model, beta=4.0))(test_X)
    for i in range(2):
        alone = TimeVaryingGP(X[i], Y[i], forgetting=forgetting, now=now[i])
        expected = at_present(UpperConfidenceBound(alone, beta=4.0))(test_X[:, i])
        assert torch.allclose(found[:, i], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("order", "task_feature", "time_dim", "output_tasks"),
    [
        ("x x t k", 3, -2, [0]),
        ("x x t k", -1, 2, None),
        ("k x x t", 0, 3, None),
        ("k x x t", -4, -1, [0]),
        ("t x x k", -1, 0, None),
    ],
)
def test_points_of_several_tasks_omit_their_column(order, task_feature, time_dim, output_tasks):
    (X, Y), tasks = data(), torch.arange(12.0).remainder(2).to(torch.float64)
    columns = {"x": iter(X[:, :2].unbind(-1)), "t": iter([X[:, 2]]), "k": iter([tasks])}
    whole = torch.stack([next(columns[name]) for name in order.split()], -1)
    model = MultiTaskGP(whole, Y, task_feature, output_tasks=output_tasks)
    column = order.replace("k", "").split().index("t")
    of = {
        "posterior_transform": ScalarizedPosteriorTransform(
            torch.tensor([1.0, 0.5][: model.num_outputs], dtype=torch.float64)
        )
    }
    baseline = with_time(X[:, :2], NOW, column)
    made_of = {
        "mean": PosteriorMean(model, **of),
        "qLogEI": qLogExpectedImprovement(model, 0.3, sobol(16), **of),
        "qLogNEI": qLogNoisyExpectedImprovement(model, baseline, sobol(16), **of),
    }
    test_X = torch.rand(4, 1, 2, dtype=torch.float64)
    for acquisition in made_of.values():
        expected = acquisition(with_time(test_X, NOW, column))
        present = at_present(acquisition, NOW, time_dim=time_dim)
        assert torch.equal(present(test_X), expected)
        assert torch.equal(present(with_time(test_X, 3.0, column)), expected)
        with pytest.raises(BotorchTensorDimensionError, match="omit a column of tasks"):
            present(whole[:4].unsqueeze(1))
    ours = qLogNoisyExpectedImprovementAtPresent(
        model, X[:, :2], sobol(16), **of, prune_baseline=False, now=NOW, time_dim=time_dim
    )
    assert torch.equal(ours.X_baseline, torch.unique(baseline, dim=0))
    assert ours(test_X).isfinite().all()
    with pytest.raises(ValueError, match="it must be the column of time, not of tasks"):
        at_present(made_of["mean"], NOW, time_dim=task_feature)


def test_models_without_time():
    stranger, X = LogExpectedImprovement(SingleTaskGP(*data()), best_f=0.0), data()[0]
    test_X = torch.rand(3, 1, 2, dtype=torch.float64)
    expected = stranger(with_time(test_X))
    assert torch.equal(at_present(stranger, NOW, time_dim=-1)(test_X), expected)
    empty = TimeVaryingGP(X[:0], X[:0, :1], outcome_transform=None)
    with pytest.raises(ValueError, match="give a time"):
        at_present(PosteriorMean(empty))
    assert at_present(PosteriorMean(empty), 0.0)(X[:2, None, :2]).shape == (2,)


def listed(*turns):
    """The mean of several models, whose columns are turned."""
    X, Y = data()
    models = [TimeVaryingGP(X.roll(t, -1), Y, time_dim=t - 1, now=NOW) for t in turns]
    weights = ScalarizedPosteriorTransform(torch.ones(len(turns), dtype=torch.float64))
    return PosteriorMean(ModelListGP(*models), posterior_transform=weights)


def hypervolume():
    both = ModelListGP(made(), SingleTaskGP(*data()))
    return qHypervolumeKnowledgeGradient(both, ref_point=torch.zeros(2).double())


REFUSED = {
    r"set_now\(now\) first": lambda: at_present(PosteriorMean(made()), 25.0),
    "later": lambda: at_present(PosteriorMean(made()), 1.0),
    "finite": lambda: at_present(PosteriorMean(made()), float("nan")),
    "time_dim is 3": lambda: at_present(PosteriorMean(made()), time_dim=3),
    "is 0, but a TimeVaryingGP has time in column 2": lambda: at_present(
        PosteriorMean(made()), time_dim=0
    ),
    r"x 2 \(columns other than time\)": lambda: at_present(PosteriorMean(build("markov")), 25.0)(
        torch.rand(2, 1, 1, dtype=torch.float64)
    ),
    "give now and time_dim": lambda: at_present(PosteriorMean(SingleTaskGP(*data()))),
    "give all models of a list the same columns": lambda: at_present(listed(0, 1)),
    "the same columns": lambda: at_present(listed(1, 0)),
    "fixed_features": lambda: at_present(hypervolume()),
    "acquisition function with a model, but .*SingleT": lambda: at_present(
        SingleTaskGP(*data()), NOW
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message):
    errors = InputDataError, ValueError, UnsupportedError, BotorchTensorDimensionError
    with pytest.raises(errors, match=message):
        REFUSED[message]()


@pytest.mark.parametrize(
    "width",
    [
        Logarithmic(0.4, 4.0),
        IGPUCB(1.0, 0.2, 0.1),
        IGPUCB(1.0, 0.2, 0.1, ClosedForm("se")),
        AgnosticGPUCB(1.0, 0.1),
        WGPUCB(1.0, 0.2, 0.04, 0.1),
    ],
)
def test_widths_are_the_roots_of_botorchs_beta(width):
    X, Y = data()
    parts = {"spatial_module": unit_kernel("se", 0.4), "outcome_transform": None}
    model = TimeVaryingGP(X, Y, now=NOW, forgetting=ExponentialWeights(0.9), **parts)
    model.likelihood.noise = torch.tensor(0.04, dtype=torch.float64)
    K = squared_exponential(X[:, :2].numpy(), 0.4)
    aged = {"noise": 0.04, "inflation": ("exponential", 0.9), "reference": NOW}
    gains = [information_gain(K, range(12), X[:, 2].tolist(), power=p, **aged) for p in (1, 2)]
    gains = torch.tensor(gains, dtype=torch.float64)
    factor = float(width.sqrt_beta(WidthContext(13, 2, *gains)))
    test_X = torch.rand(6, 1, 2, dtype=torch.float64)
    with torch.no_grad():
        posterior = model.posterior(with_time(test_X[:, 0]))
        mean, sd = posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)
        found = upper_confidence_bound(model, width, t=13)(test_X)
    torch.testing.assert_close(found, mean + factor * sd, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="counts rounds from 1"):
        upper_confidence_bound(model, width, t=0)


@strict
@pytest.mark.parametrize("kind", ["wrapped", "noisy improvement"])
def test_candidates_of_another_time_are_evaluated_now_with_a_warning(kind):
    model = build("markov")
    now = float(model.train_inputs[0][:, -1].max()) + 1.0
    if kind == "wrapped":
        acqf = at_present(PosteriorMean(model), now=now)
    else:
        acqf = qLogNoisyExpectedImprovementAtPresent(model, model.train_inputs[0], now=now)
    X = torch.rand(3, 1, model.train_inputs[0].shape[-1]).to(model.train_targets)
    with pytest.warns(InputDataWarning, match=r"times other than now, .*fixed_features=\{"):
        elsewhere = acqf(X)
    X[..., -1] = now
    assert torch.equal(acqf(X), elsewhere)
    assert torch.equal(acqf(X[..., :-1]), elsewhere)


@pytest.mark.parametrize("kind", ["wrapped", "noisy improvement"])
def test_a_search_over_times_is_refused(kind):
    """Such a search does not show warnings, and would return times that are not the present."""
    model = build("markov")
    X = model.train_inputs[0]
    if kind == "wrapped":
        acqf = at_present(PosteriorMean(model), now=20.0)
    else:
        acqf = qLogNoisyExpectedImprovementAtPresent(model, X, now=20.0)
    search = partial(optimize_acqf, acqf, X.new_tensor([[0.0] * 3, [1.0, 1.0, 30.0]]), q=1)
    search = partial(search, num_restarts=1, raw_samples=2, options={"maxiter": 2})
    with pytest.raises(InputDataError, match=r"times other than now, .*fixed_features=\{2"):
        search()
    assert search(fixed_features={2: 20.0})[0][0, 2] == 20.0
