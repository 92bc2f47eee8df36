"""Errors and warnings about bad arguments, after which the model is unchanged."""

import copy
import math
import re
import warnings
from functools import partial

import pytest
import torch
from botorch.acquisition import PosteriorMean
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms import ChainedInputTransform, Log, Normalize
from botorch.models.transforms.input import AppendFeatures, InputPerturbation, Log10, Round
from gp.mixture.readings import OFFSET
from gpytorch.kernels import RBFKernel
from models.cases import assert_same, build, data, present

from botorch_tv.acquisition.present import at_present
from botorch_tv.forgetting import Decay, ExponentialWeights, Markov, UncertaintyInjection, Wiener
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models import TimeVaryingGP, adaptive_model

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
X, Y = data()
LATE = X[-1, -1].item()
NAN, INF = math.nan, math.inf
HUGE = [1.7e308, -1.7e308, 1.1e150, INF]


def altered(tensor, row, column, value):
    tensor = tensor.clone()
    tensor[row, column] = value
    return tensor


def at_times(times):
    return torch.cat([X[:, :2], times.double().unsqueeze(-1)], -1)


UNIT, WHOLE = at_times(torch.linspace(0, 1, 12)), at_times(torch.arange(12))
ROUND = Round(integer_indices=[2], approximate=False)


@pytest.mark.parametrize(
    ("transform", "train_X"),
    [
        (Normalize(3), X),
        (Normalize(3, indices=[0, 2]), X),
        (Normalize(3, indices=[-1]), X),
        (Normalize(3), UNIT),  # bounds of time happen to be 0 and 1
        (Log10(indices=[2]), X),
        (ROUND, X),
        (ROUND, WHOLE),  # times happen to be whole
        (ChainedInputTransform(a=Normalize(3, indices=[0]), b=Normalize(3)), X),
        (AppendFeatures(torch.ones(1, 1).double()), X),
        (InputPerturbation(torch.zeros(2, 3).double()), X),
    ],
)
def test_a_transform_that_changes_time(transform, train_X):
    before = copy.deepcopy(transform.state_dict())
    with pytest.raises(InputDataError, match="exclude column 2") as caught:
        TimeVaryingGP(train_X, Y, input_transform=transform)
    after = transform.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    hint = re.search(r"Normalize\(d=3, indices=\[0, 1\]\)", str(caught.value))
    model = TimeVaryingGP(train_X, Y, input_transform=eval(hint.group()))
    assert model.posterior(present(model)).mean.isfinite().all()


class Custom(Decay):
    def attenuation(self, elapsed):
        return elapsed


BATCH_X, BATCH_Y = data(batch=(3,))
NOW = BATCH_X[..., -1].amax(-1) - torch.tensor([0.0, 1.0, 0.0]).double()
WEIGHTS = ExponentialWeights(0.9)
MARKOV = {"forgetting": Markov(0.1)}
SHAPE = BotorchTensorDimensionError
LOGARITHM = r"Y, as transformed, contains .* rows \[5\]"
NO_RANGE = torch.tensor([[0.2, 0.0], [0.2, 1.0]]).double()
CONSTRUCTOR = [
    ((X, Y), {"forgetting": "markov"}, ValueError, "at most one decay"),
    ((X, Y), {"forgetting": [0.1]}, ValueError, "at most one decay"),
    ((X, Y), {"forgetting": (Markov(0.1), Wiener(0.1))}, ValueError, "one decay"),
    ((X, Y), {"forgetting": (WEIGHTS, UncertaintyInjection(1.0))}, ValueError, "one inflation"),
    ((X, Y), {"forgetting": Custom()}, ValueError, "declares no parameters"),
    ((X, Y), {"forgetting": Markov(1.0 - 1e-8)}, ValueError, "too close to 1 .* 1 - 1e-6 at most"),
    ((X, Y), MARKOV | {"covar_module": RBFKernel()}, ValueError, "spatial_module"),
    (
        (X, Y),
        {"spatial_module": RBFKernel(), "covar_module": RBFKernel()},
        ValueError,
        "spatial_module",
    ),
    (
        (X, Y),
        {"forgetting": WEIGHTS, "likelihood": AgeNoiseLikelihood(WEIGHTS)},
        ValueError,
        "give only one",
    ),
    ((X, Y), {"time_dim": 3}, ValueError, "time_dim is 3"),
    ((X[:, 2:], Y), {}, ValueError, r"only a time column.* torch\.cat\(\[x, time\], -1\)"),
    ((X, Y), MARKOV | {"now": LATE - 1}, InputDataError, f"{LATE - 1:.2f}.*later.*{LATE:.2f}"),
    ((X, Y), {"forgetting": WEIGHTS, "now": LATE - 1}, InputDataError, "later"),
    ((BATCH_X, BATCH_Y), {"now": NOW}, InputDataError, "of trial 1"),
    ((altered(X, 3, 2, NAN), Y), {}, InputDataError, "X contains"),
    ((altered(X, 3, 2, INF), Y), {}, InputDataError, "X contains"),
    ((X.float() + 1.7e9, Y.float()), {}, InputDataError, "float64"),
    ((X, altered(Y, 2, 0, NAN)), {}, InputDataError, r"Y contains nan in rows \[2\] \(from 0"),
    (
        (X, altered(Y, [7, 2], 0, NAN)),
        {},
        InputDataError,
        r"\[2, 7\] .*; 2 in total.* remove",
    ),
    ((X, NAN * Y), {}, InputDataError, r"6, 7\] \(from 0; 12 in total\), columns \[0\]"),
    ((BATCH_X, altered(BATCH_Y, (1, 2), 4, NAN)), {}, InputDataError, r"rows \[4\]"),
    (
        (X, Y, altered(Y.abs(), 3, 0, NAN)),
        {},
        InputDataError,
        r"Yvar contains nan in rows \[3\]",
    ),
    ((X, altered(Y.exp(), 5, 0, 0.0)), {"outcome_transform": Log()}, InputDataError, LOGARITHM),
    ((X, altered(Y.exp(), 5, 0, -1.0)), {"outcome_transform": Log()}, InputDataError, LOGARITHM),
    (
        (altered(X, slice(None), 0, 0.2), Y),
        {"input_transform": Normalize(3, indices=[0, 1], bounds=NO_RANGE)},
        InputDataError,
        r"X, as transformed, contains -inf .* columns \[0\]",
    ),
    ((X, Y.float()), {}, InputDataError, "dtype"),
    *(((X, altered(Y, 2, 0, v)), {}, InputDataError, r"Y .*within ±1e\+150") for v in HUGE),
    *(((altered(X, 2, 0, v), Y), {}, InputDataError, r"X .*within ±1e\+150") for v in HUGE),
    ((X.float(), altered(Y.float(), 2, 0, 2e15)), {}, InputDataError, r"±1e\+15 in torch.float32"),
    ((BATCH_X, BATCH_Y[:2]), {}, SHAPE, "Y is"),
    ((X, Y[:-1]), {}, SHAPE, "Y is"),
    ((X, Y.squeeze(-1)), {}, SHAPE, "Y is"),
    ((X, Y, 0.1 + 0 * Y[:-1]), {}, SHAPE, "noise is"),
    ((X[:, 0], Y), {}, SHAPE, "X is"),
]


@pytest.mark.parametrize(("data", "options", "error", "message"), CONSTRUCTOR)
def test_constructor(data, options, error, message):
    with pytest.raises(error, match=message):
        TimeVaryingGP(*data, **options)


ROW = X[-1:]
METHODS = [
    ("set_now", (LATE - 1,), InputDataError, "later"),
    ("set_now", (NAN,), InputDataError, "finite"),
    ("set_now", (INF,), InputDataError, "finite"),
    ("posterior", (X[:, :2],), SHAPE, "add the time of each row"),
    ("condition_on_observations", (ROW + 9, Y[:1]), InputDataError, "call set_now"),
    ("condition_on_observations", (altered(ROW, 0, 2, NAN), Y[:1]), InputDataError, "X contains"),
    ("condition_on_observations", (ROW, NAN * Y[:1]), InputDataError, "Y contains nan"),
    ("condition_on_observations", (ROW, Y[:1].float()), InputDataError, "dtype"),
    ("condition_on_observations", (ROW, 1e151 + Y[:1]), InputDataError, r"Y .*within ±1e\+150"),
    ("condition_on_observations", (X[:2], Y[:1]), SHAPE, "Y is"),
    ("condition_on_observations", (ROW[:, :2], Y[:1]), SHAPE, "X is"),
    ("condition_on_observations", (ROW, torch.zeros(1, 2).double()), SHAPE, "Y is"),
    ("condition_on_observations", (X[:2], Y[:2], Y[:1].abs()), SHAPE, "noise is"),
    ("set_train_data", (altered(X, 4, 2, LATE + 1), Y[:, 0]), InputDataError, "call set_now"),
    ("set_train_data", (altered(X, 4, 2, NAN), Y[:, 0]), InputDataError, "X contains"),
    ("set_train_data", (altered(X, 4, 0, 1e151), Y[:, 0]), InputDataError, r"±1e\+150"),
    ("set_train_data", (X, NAN * Y[:, 0]), InputDataError, "Y contains nan"),
    ("set_train_data", (X, Y[:, 0].float()), InputDataError, "same dtype"),
    ("set_train_data", (X, Y[:5, 0]), SHAPE, "12 inputs"),
    ("set_train_data", (X[:, :2], Y[:, 0]), SHAPE, "x 3, including"),
]


@pytest.mark.parametrize("forgetting", ["markov", "markov and weights"])
@pytest.mark.parametrize("fixed", [False, True])
def test_methods(forgetting, fixed):
    model = build(forgetting, fixed=fixed, now=LATE)
    before = model.posterior(X)
    for name, arguments, error, message in METHODS:
        with pytest.raises(error, match=message):
            getattr(model, name)(*arguments)
        assert_same(model.posterior(X), before, atol=0)
    if fixed:
        with pytest.raises(SHAPE, match=r"12 given noise variances.*train_Yvar"):
            model.set_train_data(X[:5], Y[:5, 0], strict=False)
        assert_same(model.posterior(X), before, atol=0)
    else:
        model.set_train_data(X[:5], Y[:5, 0], strict=False)
        assert model.posterior(X).mean.isfinite().all()


def test_a_new_observation_without_a_logarithm():
    model = TimeVaryingGP(X, Y.exp(), outcome_transform=Log())
    with pytest.raises(InputDataError, match=r"Y, as transformed, contains -inf in rows \[0\]"):
        model.condition_on_observations(ROW, 0 * Y[:1])


BUILDS = [TimeVaryingGP, partial(adaptive_model, bank=OFFSET)]
each_model = pytest.mark.parametrize("build", BUILDS, ids=["fitted", "adaptive"])


@each_model
def test_points_without_time(build):
    model = build(X, Y)
    for columns in (1, 2):
        with pytest.raises(BotorchTensorDimensionError, match="including the time column"):
            model.posterior(X[:, :columns])
    at = at_present(PosteriorMean(model), now=LATE)
    assert at(X[:1, :2].unsqueeze(0)).shape == (1,)  # the hint of the message


@each_model
def test_a_warning_if_time_looks_like_a_parameter(build):
    x = X[:, :2]
    with pytest.warns(InputDataWarning, match=r"column 1 of train_X is used as time.* time_dim"):
        build(x, Y)
    for times in (X[:, 2:], X[:, 2:].flip(0), (X[:, 2:] - X[0, 2]) / (X[-1, 2] - X[0, 2])):
        with warnings.catch_warnings():
            warnings.simplefilter("error", InputDataWarning)
            build(torch.cat([x, times], -1), Y)
            build(torch.cat([times, x], -1), Y, time_dim=0)


@pytest.mark.parametrize(("dtype", "small"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_a_warning_of_small_outcomes(dtype, small):
    x, y = X.to(dtype), Y.to(dtype)
    with pytest.warns(InputDataWarning, match=r"deviation of .* Use a smaller unit"):
        TimeVaryingGP(x, 5 + small * y)
    factor = float(f"1e{math.ceil(-math.log10((small * y).std().item()))}")
    same = torch.full_like(y, 0.1)
    for fine in (factor * small * y, 1e6 * y, same, same + torch.finfo(dtype).eps * y, y[:1]):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="train_Y has")
            TimeVaryingGP(x[: len(fine)], fine)
