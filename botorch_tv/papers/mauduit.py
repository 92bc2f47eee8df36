"""[M]: coefficients that oscillate, on a line of 401 arms; without experts.

The paper is silent on most settings, widths among them, and its orders are about strategies that
ask experts. So the pure bandits meet here twice: all with β = 0.8 ln(4 t), and all with the width
of the paper's theory, which is wide enough to make TV-GP-UCB worse than chance.
"""

from __future__ import annotations

from functools import partial

import torch
from gpytorch.kernels import Kernel, ScaleKernel

from botorch_tv.acquisition import Heteroscedastic, Logarithmic, Width
from botorch_tv.papers.experiment import Case, Experiment, draw_panels
from botorch_tv.papers.order import Claim, judge
from botorch_tv.simulation import SineWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Grid,
    Strategy,
    gp_ucb,
    r_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    w_gp_ucb,
)

POINTS = 401
NOISE = 0.01


def line_kernel() -> Kernel:
    """0.5 exp(-Δ² / 18)."""
    kernel = ScaleKernel(unit_kernel("se", 3.0)).double()
    kernel.outputscale = torch.tensor(0.5, dtype=torch.float64)
    return kernel


def sine_world(noise: float) -> SineWorld:
    """20 even centres on [-50, 50], the same functions in every trial."""
    line = Grid.regular(points=POINTS, dim=1, bounds=[(-50.0, 50.0)])
    return SineWorld(line, kernel=line_kernel(), noise=noise)


def _strategies(noise: float, *, width: Width) -> dict[str, Strategy]:
    kernel = line_kernel()
    return {
        "GP-UCB": gp_ucb(kernel=kernel, noise=noise, width=width),
        "R-GP-UCB": r_gp_ucb(kernel=kernel, noise=noise, period=2, width=width),
        "SW-GP-UCB": sw_gp_ucb(kernel=kernel, noise=noise, window=2, width=width),
        "WGP-UCB": w_gp_ucb(kernel=kernel, noise=noise, gamma=0.488, width=width),
        "TV-GP-UCB": tv_gp_ucb(kernel=kernel, noise=noise, epsilon=0.087, width=width),
        "random": random_search(kernel=kernel, noise=noise),
    }


def _case(title: str, width: Width) -> Case:
    return Case(title, sine_world, partial(_strategies, width=width))


_CASES = {
    "logarithmic": _case("width √(0.8 ln 4t)", Logarithmic(c1=0.8, c2=4.0)),
    "theory": _case("width of theory, B = 5", Heteroscedastic(B=5.0, delta=0.1)),
}

SYNTHETIC = Experiment(
    id="m-synthetic",
    title="Bandits without experts on oscillating coefficients, and why the width matters",
    horizon=500,
    trials=30,
    noise=NOISE,
    cases=_CASES,
    score=partial(
        judge, [Claim("logarithmic", "TV-GP-UCB", "random"), Claim("theory", "random", "TV-GP-UCB")]
    ),
    picture=partial(draw_panels, _CASES),
)
