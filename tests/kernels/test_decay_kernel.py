"""Any decay as a kernel: the decay's own formula, in batches, in any unit, with its priors."""

import copy
import pickle
from dataclasses import dataclass

import pytest
import torch
from conformance.strangers import DampedDrift, Seasonal, Settling
from gpytorch.constraints import Interval
from gpytorch.priors import GammaPrior
from torch.testing import assert_close

from botorch_tv.forgetting import Decay, Markov, Parameter, Wiener
from botorch_tv.kernels import DecayKernel, MarkovKernel, WienerKernel

D = torch.float64
TIMES = torch.tensor([[0.0], [0.25], [1.0], [1.0], [4.5], [100.0]], dtype=D)
STRANGERS = [Seasonal(0.05, 9.0), Settling(0.2, 4.0), DampedDrift()]


def made(decay, **options):
    kernel = DecayKernel(decay, **options).double()
    kernel.restart()
    return kernel


@pytest.mark.parametrize("decay", STRANGERS, ids=lambda entry: type(entry).__name__)
@pytest.mark.parametrize("origin", [0.0, 0.5, -3.0])
def test_the_formula_of_the_decay(decay, origin):
    kernel, since = made(decay, origin=origin), (TIMES - origin).clamp_min(0)
    if decay.stationary:
        since = TIMES
    wanted = decay.covariance(since, since.T)
    assert_close(kernel(TIMES).to_dense(), wanted, rtol=1e-12, atol=1e-14)
    assert_close(kernel(TIMES, diag=True), wanted.diagonal(), rtol=1e-12, atol=0)
    assert kernel.is_stationary == isinstance(decay, Seasonal)


@pytest.mark.parametrize(
    ("general", "own"),
    [
        (DecayKernel(Markov(0.25)), MarkovKernel(0.25)),
        (DecayKernel(Wiener(0.25), origin=0.5), WienerKernel(0.25, 0.5)),
    ],
    ids=["markov", "wiener"],
)
def test_those_of_the_package_are_cases_of_it(general, own):
    assert torch.equal(general(TIMES).to_dense(), own(TIMES).to_dense())
    assert general.state_dict().keys() == own.state_dict().keys()
    assert [name for name, *_ in general.named_priors()] == [
        name for name, *_ in own.named_priors()
    ]


def test_a_batch_is_its_members():
    kernel = made(Settling(0.2), origin=torch.tensor([0.0, 1.0]), batch_shape=torch.Size([2]))
    kernel.set_value("rate", torch.tensor([0.1, 0.4], dtype=D)[:, None, None])
    dense = kernel(TIMES).to_dense()
    for member, (rate, origin) in enumerate([(0.1, 0.0), (0.4, 1.0)]):
        alone = made(Settling(rate), origin=origin)(TIMES).to_dense()
        assert_close(dense[member], alone, rtol=1e-13, atol=0)
        assert_close(kernel[member](TIMES).to_dense(), alone, rtol=1e-13, atol=0)


@pytest.mark.parametrize("unit", [1e-4, 0.7, 1.0, 3.6e6])
@pytest.mark.parametrize("decay", [Seasonal(0.05, 9.0), Settling(0.2, 4.0)], ids=repr)
def test_measuring_changes_no_value(decay, unit):
    start = {Seasonal: Seasonal(0.05 / unit, 9.0 * unit), Settling: Settling(0.2 / unit, 4.0)}
    observed = made(start[type(decay)], unit=torch.tensor(unit, dtype=D))
    wanted = made(decay)(TIMES).to_dense()
    assert_close(observed(unit * TIMES).to_dense(), wanted, rtol=1e-7, atol=1e-12)
    for name in decay.parameters:
        given = getattr(start[type(decay)], name)
        assert observed.value(name).item() == pytest.approx(given, rel=1e-9)
    observed.measure(torch.tensor(2 * unit, dtype=D))
    assert_close(observed(unit * TIMES).to_dense(), wanted, rtol=1e-7, atol=1e-12)


def test_bounds_hold_in_the_unit_it_is_learned_in():
    day = torch.tensor(24.0, dtype=D)
    with pytest.raises(ValueError, match=r"period is 240 over 1 units of time.* out of bounds"):
        DecayKernel(Seasonal(0.05, 240.0))
    kernel = made(Seasonal(0.05, 240.0), unit=day)
    assert kernel.value("period").item() == pytest.approx(240.0)
    with pytest.raises(ValueError, match=r"period is 1\.25 over 24 units of time.* out of bounds"):
        kernel.set_value("period", 30.0)


def test_declared_and_user_priors():
    priors = {name for name, *_ in DecayKernel(Seasonal(0.05, 9.0)).named_priors()}
    assert priors == {"rate_prior"}
    own = {"rate": None, "period": GammaPrior(2.0, 0.2)}
    kernel = made(Seasonal(0.05, 9.0), priors=own)
    kernel.measure(torch.tensor(0.5))
    for other in (kernel, copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        [(name, module, _, closure, put)] = other.named_priors()
        assert name == "period_prior"
        put(module, torch.tensor(12.0))
        assert closure(module).item() == pytest.approx(12.0)  # per unit of the input
        assert other.value("period").item() == pytest.approx(12.0)


def test_a_rate_too_high_to_learn_from_is_moved():
    kernel = DecayKernel(Markov(0.9999))
    kernel.listen(torch.tensor(2.0))
    assert kernel.value("epsilon").item() == pytest.approx(1 - 0.9**0.5, rel=1e-5)
    kernel = DecayKernel(Markov(0.05))
    kernel.listen(torch.tensor(2.0))
    assert kernel.value("epsilon").item() == pytest.approx(0.05, rel=1e-5)


def test_several_columns_count_by_their_euclidean_distance():
    markov = made(Markov(0.1))
    x1, x2 = torch.zeros(1, 2, dtype=D), torch.tensor([[3.0, -4.0]], dtype=D)
    assert markov(x1, x2, diag=True).item() == pytest.approx(0.9**2.5, rel=1e-14)
    x = torch.rand(5, 2, dtype=D)
    apart = torch.cdist(x, x)
    wanted = Seasonal(0.05, 9.0).attenuation(apart)
    assert_close(made(Seasonal(0.05, 9.0))(x).to_dense(), wanted, rtol=1e-7, atol=0)
    with pytest.raises(RuntimeError, match="2 columns of time"):
        made(Settling(0.2))(x).to_dense()


def test_own_bounds_keep_the_unit():
    kernel = DecayKernel(Markov(0.1), bounds={"epsilon": Interval(0.0, 0.5, transform=None)})
    kernel.measure(torch.tensor(7.0))
    assert kernel.unit.item() == 1
    with pytest.raises(ValueError, match="out of bounds"):
        kernel.set_value("epsilon", 0.6)


class Growing(Decay):
    def attenuation(self, elapsed):
        return 1 + elapsed


@dataclass(frozen=True)
class WrongPower(Decay):
    rate: float = 0.1
    parameters = {"rate": Parameter(power=1)}  # noqa: RUF012

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed)


def test_no_covariance_or_a_wrong_declaration_is_refused():
    with pytest.raises(ValueError, match="is not a covariance"):
        DecayKernel(Growing())
    with pytest.raises(ValueError, match="changes with the unit of time"):
        DecayKernel(WrongPower())
    retained = DecayKernel(WrongPower(), learn=False).double()
    assert not list(retained.parameters())
    wanted = WrongPower().covariance(TIMES, TIMES.T)
    assert_close(retained(TIMES).to_dense(), wanted)
