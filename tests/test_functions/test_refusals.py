"""Arguments out of range: their value and the limit."""

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.test_functions import Ackley
from botorch.test_functions.synthetic import AckleyMixed, ConstrainedHartmann
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.test_functions import (
    CartPole,
    CartPoleSystem,
    DriftingAckley,
    DriftingBranin,
    Jumps,
    MarkovFunction,
    SlicedFunction,
    WindFarm,
    sliced_suite,
)

STARTS = torch.full((1, 1), 99.0)


def markov(kernel=None, **settings):
    kernel = kernel or RBFKernel().double()
    return MarkovFunction(kernel, **{"epsilon": 0.1, "horizon": 20, "features": 8} | settings)


KERNELS = [
    PeriodicKernel(),
    MaternKernel(nu=0.5),
    RBFKernel(active_dims=[0]),
    RBFKernel(batch_shape=torch.Size([2])),
    ScaleKernel(RBFKernel() + MaternKernel()),
]
CASES = [
    *((lambda kernel=kernel: markov(kernel), "kernel") for kernel in KERNELS),
    (lambda: CartPole(factor=-1.0), "factor is -1.0"),
    (lambda: CartPole(limit=2.0), "limit is 2.0, but the best cost"),
    (lambda: CartPole(factor=5.0), "best gain is"),
    (lambda: CartPoleSystem(pole_mass=-0.1), "pole_mass is -0.1"),
    (lambda: CartPoleSystem(disturbance=(1.0, 1.0, 1.0, -1.0)), "disturbance is"),
    (lambda: CartPoleSystem(step=math.nan), "step is nan"),
    (lambda: Jumps(times=(3.0, 3.0)), "times is"),
    (lambda: Jumps(reach=0.0), "reach is 0.0"),
    (lambda: DriftingAckley(bounds=[(1.0, -1.0)] * 2), "bounds|optimum"),
    (lambda: DriftingBranin(bounds=[(-5.0, 0.0), (0.0, 15.0)]), "optimizer is"),
    (lambda: DriftingAckley().at(1000.5), r"time is \[1000.5\].*\[0, 1000.0\]"),
    (lambda: DriftingAckley().optimal_value_at(-1.0), r"time is \[-1.0"),
    (lambda: DriftingAckley().optimizers_at(math.nan), r"time is \[nan"),
    (lambda: markov(dim=7), "dim is 7"),
    (lambda: markov(dim=0), "dim is 0"),
    (lambda: markov(changes=(0,)), r"changes is \(0,\)"),
    (lambda: markov(changes=(21,)), r"changes is \(21,\)"),
    (lambda: markov(bounds=[(0.0, 1.0)]), "bounds has 1"),
    (lambda: markov()(torch.tensor([[0.5, 0.5, 1.5]], dtype=torch.float64)), "integer"),
    (lambda: markov().optimal_value_at(1.5), r"time is \[1.5\]"),
    (lambda: markov().at(21.0), r"time is \[21\.0"),
    (lambda: markov(batch_shape=(3,)).at(1.0), "batch_shape"),
    (lambda: SlicedFunction(Ackley(dim=1)), "has 1 coordinates; .* two or more"),
    (lambda: SlicedFunction(AckleyMixed()), "all continuous"),
    (lambda: SlicedFunction(ConstrainedHartmann()), "without constraints"),
    (lambda: SlicedFunction(Ackley(), starts=STARTS.expand(1, 2)), "n x 1"),
    (lambda: SlicedFunction(Ackley(), starts=STARTS), "outside the box"),
    (lambda: SlicedFunction(Ackley(), horizon=0.0), "horizon is 0.0"),
    (lambda: sliced_suite(noise=-1.0), "noise is -1.0"),
    (lambda: WindFarm(torch.tensor([270.0])), "two or more finite numbers"),
    (lambda: WindFarm(torch.tensor([270.0, math.nan])), "two or more finite numbers"),
    (lambda: WindFarm(torch.tensor([270.0, 280.0]), 0.0), "above 0"),
]


@pytest.mark.parametrize(("build", "message"), CASES)
def test_out_of_range(build, message) -> None:
    with pytest.raises((ValueError, InputDataError), match=message):
        build()
