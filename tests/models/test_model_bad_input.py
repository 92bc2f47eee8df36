"""What a model refuses, with the model as it was."""

import copy
import re

import pytest
import torch
from botorch.acquisition import PosteriorMean
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models.transforms import ChainedInputTransform, Normalize
from botorch.models.transforms.input import AppendFeatures, InputPerturbation, Log10, Round
from gpytorch.kernels import RBFKernel
from models.cases import assert_same, build, data, present

from botorch_tv.acquisition.present import at_present
from botorch_tv.forgetting import Decay, ExponentialWeights, Markov, UncertaintyInjection, Wiener
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models import TimeVaryingGP, adaptive_model

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
X, Y = data()
LATE = X[-1, -1].item()


def altered(tensor, row, column, value):
    tensor = tensor.clone()
    tensor[row, column] = value
    return tensor


@pytest.mark.parametrize(
    "transform",
    [
        Normalize(3),
        Normalize(3, indices=[0, 2]),
        Normalize(3, indices=[-1]),
        Log10(indices=[2]),
        Round(integer_indices=[2], approximate=False),
        ChainedInputTransform(a=Normalize(3, indices=[0]), b=Normalize(3)),
        AppendFeatures(torch.ones(1, 1).double()),
        InputPerturbation(torch.zeros(2, 3).double()),
    ],
)
def test_a_transform_that_touches_time(transform):
    before = copy.deepcopy(transform.state_dict())
    with pytest.raises(InputDataError, match="exclude column 2"):
        TimeVaryingGP(X, Y, input_transform=transform)
    after = transform.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_bounds_of_time_that_happen_to_be_zero_and_one():
    unit = X.clone()
    unit[:, -1] = torch.linspace(0, 1, 12)
    with pytest.raises(InputDataError, match=r"indices=\[0, 1\]"):
        TimeVaryingGP(unit, Y, input_transform=Normalize(3))


def test_rounding_of_times_that_happen_to_be_whole():
    """Predictions between two of them were those of the nearer one."""
    whole = X.clone()
    whole[:, -1] = torch.arange(12.0)
    with pytest.raises(InputDataError, match="Round changes the time"):
        TimeVaryingGP(whole, Y, input_transform=Round(integer_indices=[2], approximate=False))


@pytest.mark.parametrize("forgetting", [Markov(0.1), ExponentialWeights(0.9)])
def test_now_before_the_data(forgetting):
    with pytest.raises(InputDataError, match=f"{LATE - 1:.2f}.*later.*{LATE:.2f}"):
        TimeVaryingGP(X, Y, forgetting=forgetting, now=LATE - 1)
    model = TimeVaryingGP(X, Y, forgetting=forgetting, now=LATE + 5)
    before = model.posterior(X)
    for bad in (LATE - 1, float("nan"), float("inf")):
        with pytest.raises(InputDataError):
            model.set_now(bad)
    assert model.now.item() == LATE + 5
    assert_same(model.posterior(X), before, atol=0)


def test_future_observations():
    model = build("weights", now=LATE)
    before = model.posterior(X)
    late = altered(X[:1], 0, 2, LATE + 1)
    with pytest.raises(InputDataError, match="call set_now"):
        model.condition_on_observations(late, Y[:1])
    assert_same(model.posterior(X), before, atol=0)
    model.set_now(LATE + 1)
    assert model.condition_on_observations(late, Y[:1]).train_targets.shape == (13,)


def test_the_trial_whose_now_is_too_early_is_named():
    batch_X, batch_Y = data(batch=(3,))
    now = batch_X[..., -1].amax(-1)
    now[1] -= 1
    with pytest.raises(InputDataError, match="of trial 1"):
        TimeVaryingGP(batch_X, batch_Y, now=now)
    with pytest.raises((InputDataError, RuntimeError)):
        TimeVaryingGP(batch_X, batch_Y, now=now.new_full((2,), 100.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_times_that_are_none(value):
    with pytest.raises(InputDataError, match="X contains"):
        TimeVaryingGP(altered(X, 3, 2, value), Y)
    model = build("markov")
    with pytest.raises(InputDataError, match="X contains"):
        model.condition_on_observations(altered(X[:1], 0, 2, value), Y[:1])


def test_unix_time_in_float32():
    late = X.float()
    late[:, -1] += 1.7e9
    with pytest.raises(InputDataError, match="float64"):
        TimeVaryingGP(late, Y.float())


def test_nan_and_mixed_dtypes():
    with pytest.raises(InputDataError, match=r"(?i)nan"):
        TimeVaryingGP(X, altered(Y, 2, 0, float("nan")))
    with pytest.raises(InputDataError, match="dtype"):
        TimeVaryingGP(X, Y.float())
    model = build("markov and weights")
    before = model.posterior(X)
    with pytest.raises(InputDataError, match="Y contains nan"):
        model.condition_on_observations(X[:1], torch.full((1, 1), float("nan")).double())
    with pytest.raises(InputDataError, match="dtype"):
        model.condition_on_observations(X[:1], Y[:1].float())
    assert_same(model.posterior(X), before, atol=0)


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1.1e150, float("inf")])
@pytest.mark.parametrize("forgetting", ["markov", "weights"])
def test_values_whose_squares_overflow(value, forgetting):
    said = r"within ±1e\+150 in torch.float64"
    with pytest.raises(InputDataError, match="Y contains .*" + said):
        TimeVaryingGP(X, altered(Y, 2, 0, value))
    with pytest.raises(InputDataError, match="X contains .*" + said):
        TimeVaryingGP(altered(X, 2, 0, value), Y)
    model = build(forgetting)
    before = model.posterior(X)
    with pytest.raises(InputDataError, match="Y contains .*" + said):
        model.condition_on_observations(X[-1:], torch.full((1, 1), value, dtype=X.dtype))
    with pytest.raises(InputDataError, match="X contains .*" + said):
        model.condition_on_observations(altered(X[-1:], 0, 0, value), Y[:1])
    with pytest.raises(InputDataError, match="Y contains .*" + said):
        model.set_train_data(X, altered(Y, 2, 0, value).squeeze(-1))
    with pytest.raises(InputDataError, match="X contains .*" + said):
        model.set_train_data(altered(X, 2, 0, value), Y.squeeze(-1))
    assert_same(model.posterior(X), before, atol=0)
    with pytest.raises(InputDataError, match=r"within ±1e\+15 in torch.float32"):
        TimeVaryingGP(X.float(), altered(Y.float(), 2, 0, 2e15))


def test_shapes_that_do_not_fit():
    batch_X, batch_Y = data(batch=(3,))
    for bad_X, bad_Y, bad_V in (
        (batch_X, batch_Y[:2], None),
        (X, Y[:-1], None),
        (X, Y.squeeze(-1), None),
        (X, Y, 0.1 + 0 * Y[:-1]),
        (X[:, 0], Y, None),
    ):
        with pytest.raises(BotorchTensorDimensionError):
            TimeVaryingGP(bad_X, bad_Y, bad_V)
    model = build("markov")
    before = model.posterior(X)
    for bad_X, bad_Y in ((X[:2], Y[:1]), (X[:1, :2], Y[:1]), (X[:1], torch.zeros(1, 2).double())):
        with pytest.raises(BotorchTensorDimensionError):
            model.condition_on_observations(bad_X, bad_Y)
    with pytest.raises(BotorchTensorDimensionError, match="noise is"):
        model.condition_on_observations(X[:2], Y[:2], noise=torch.ones(1, 1).double())
    with pytest.raises(BotorchTensorDimensionError, match=r"x 3"):
        model.posterior(X[:, :2])
    batch = build("markov", batch=(3,))
    with pytest.raises(RuntimeError, match="broadcast"):
        batch.condition_on_observations(batch_X[:2, :1], batch_Y[:2, :1])
    assert_same(model.posterior(X), before, atol=0)


class Custom(Decay):
    def attenuation(self, elapsed):
        return elapsed

    def prior_variance(self, elapsed):
        return elapsed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"forgetting": "markov"}, "at most one decay"),
        ({"forgetting": [0.1]}, "at most one decay"),
        ({"forgetting": (Markov(0.1), Wiener(0.1))}, "one decay"),
        ({"forgetting": (ExponentialWeights(0.9), UncertaintyInjection(1.0))}, "one inflation"),
        ({"forgetting": Custom()}, "declares no parameters"),
        ({"forgetting": Markov(1.0 - 1e-8)}, r"too close to 1 to be learned; .* 1 - 1e-6 at most"),
        ({"forgetting": Markov(0.1), "covar_module": RBFKernel()}, "spatial_module"),
        ({"spatial_module": RBFKernel(), "covar_module": RBFKernel()}, "spatial_module"),
        (
            {
                "forgetting": ExponentialWeights(0.9),
                "likelihood": AgeNoiseLikelihood(ExponentialWeights(0.9)),
            },
            "give only one",
        ),
        ({"time_dim": 3}, "time_dim is 3"),
    ],
)
def test_options_that_contradict_each_other(options, said):
    with pytest.raises(ValueError, match=said):
        TimeVaryingGP(X, Y, **options)


def test_time_alone_is_nothing_to_choose():
    with pytest.raises(ValueError, match=r"only a time column.* torch\.cat\(\[x, time\], -1\)"):
        TimeVaryingGP(X[:, 2:], Y)


@pytest.mark.parametrize("build", [TimeVaryingGP, adaptive_model])
def test_points_without_their_time(build):
    model = build(X, Y)
    with pytest.raises(BotorchTensorDimensionError, match="add the time of each row"):
        model.posterior(X[:, :2])
    with pytest.raises(BotorchTensorDimensionError, match="including the time column"):
        model.posterior(X[:, :1])
    at = at_present(PosteriorMean(model), now=float(X[:, 2].max()))
    assert at(X[:1, :2].unsqueeze(0)).shape == (1,)  # which the message advises


def test_the_transform_named_in_the_message_works():
    with pytest.raises(InputDataError) as caught:
        TimeVaryingGP(X, Y, input_transform=Normalize(3))
    advice = re.search(r"Normalize\(d=3, indices=\[0, 1\]\)", str(caught.value))
    assert advice is not None
    model = TimeVaryingGP(X, Y, input_transform=eval(advice.group()))
    assert model.posterior(present(model)).mean.isfinite().all()


@pytest.mark.parametrize("forgetting", ["markov", "markov and weights"])
@pytest.mark.parametrize("known", [False, True])
def test_training_data_that_cannot_be_set(forgetting, known):
    """Another number of rows beside known variances, times ahead of now, NaN, mixed dtypes."""
    model = build(forgetting, known=known, now=LATE)
    before = model.posterior(X)
    late = altered(X, 4, 2, LATE + 1)
    y = Y.squeeze(-1)
    bad = [
        (InputDataError, "call set_now", late, y),
        (InputDataError, "X contains", altered(X, 4, 2, float("nan")), y),
        (InputDataError, "(?i)nan", X, torch.full_like(y, float("nan"))),
        (InputDataError, "same dtype", X, y.float()),
        (BotorchTensorDimensionError, "12 inputs", X, y[:5]),
        (BotorchTensorDimensionError, "x 3, including", X[:, :2], y),
    ]
    if known:
        bad.append(
            (BotorchTensorDimensionError, "12 given noise variances.*train_Yvar", X[:5], y[:5])
        )
    for error, said, inputs, targets in bad:
        with pytest.raises(error, match=said):
            model.set_train_data(inputs, targets, strict=False)
        assert_same(model.posterior(X), before, atol=0)
    if not known:
        model.set_train_data(X[:5], y[:5], strict=False)
        assert model.posterior(X).mean.isfinite().all()


@pytest.mark.parametrize("m", [1, 2])
def test_test_points_of_another_batch(m):
    model = build(batch=(2,), m=m)
    wrong = torch.rand(3, 4, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"must match the size|trailing batch dimensions"):
        model.posterior(wrong)
    assert model.posterior(wrong[:1]).mean.shape == (2, 4, m)
