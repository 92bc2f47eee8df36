"""[C17]: static functions on 100 random arms of [0, 1], for 30,000 rounds.

The functions are either draws from the Gaussian process, or smoothed draws in the kernel's function
space: posterior means fitted to the draws. Some settings of the paper depend on the function. Here
they hold for a study as a whole: R² is 1 % of the mean range of its functions, and B the largest of
their norms. Draws have no norm; for them B is that of the smoothed draws. All trials share one set
of arms. The paper does not say how much noise the fit assumes; here it is 1 % of the mean range of
the draws. Nor does it define the incumbent of GP-EI and GP-PI. Here it is the best value observed,
with the first arm and ties at random; the labels of variants with the best posterior mean say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import IGPUCB, AgnosticGPUCB
from botorch_tv.acquisition.gains import ClosedForm, InformationGain
from botorch_tv.papers.cases import Drawn
from botorch_tv.papers.experiment import Experiment, draw_panels
from botorch_tv.papers.order import Claim, Quantity, judge, similar
from botorch_tv.papers.surveys import largest_norm, mean_range
from botorch_tv.simulation import GaussianDraw, SmoothedDraw, StaticWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, Strategy, gp_ei, gp_pi, gp_ts, gp_ucb, igp_ucb

POINTS = 100
HORIZON = 30_000
TRIALS = 25
DELTA = 0.1
NOISE_SHARE = 0.01
"""R² as a share of the range of the functions."""
ON_MEAN = ", incumbent a mean"
"""Suffix of the labels of strategies whose incumbent is the best posterior mean."""


def random_arms() -> Grid:
    """100 points drawn uniformly from [0, 1], always the same."""
    return Grid(torch.from_numpy(np.random.default_rng(2017).random((POINTS, 1))))


def line_up(
    kernel: Kernel | Tensor, noise: float, B: float, gain: InformationGain
) -> dict[str, Strategy]:
    """The strategies of the paper.

    Args:
        kernel: Covariance of the arms.
        noise: Variance λ = R².
        B: Bound on the norm.
        gain: Information gain in the widths.
    """
    R = noise**0.5
    agnostic = AgnosticGPUCB(B=B, delta=DELTA, gain=gain)
    improved = IGPUCB(B=B, R=R, delta=DELTA, gain=gain)
    thompson = IGPUCB(B=B, R=R, delta=DELTA / 2, gain=gain)
    return {
        "GP-UCB": gp_ucb(kernel=kernel, noise=noise, width=agnostic),
        "IGP-UCB": igp_ucb(kernel=kernel, noise=noise, width=improved),
        "GP-TS": gp_ts(kernel=kernel, noise=noise, width=thompson),
        "GP-EI": gp_ei(kernel=kernel, noise=noise, incumbent="observed", ties="random"),
        "GP-PI": gp_pi(kernel=kernel, noise=noise, incumbent="observed", ties="random"),
        f"GP-EI{ON_MEAN}": gp_ei(kernel=kernel, noise=noise, ties="random"),
        f"GP-PI{ON_MEAN}": gp_pi(kernel=kernel, noise=noise, ties="random"),
    }


@dataclass(frozen=True)
class FunctionClass:
    """A kernel, and whether its functions are draws from the process or smoothed draws.

    Args:
        title: Title of its panel.
        kernel_name: "se" or "matern52".
        smooth: Whether the functions lie in the kernel's space.
    """

    title: str
    kernel_name: str
    smooth: bool

    @property
    def kernel(self) -> Kernel:
        """The kernel with lengthscale 0.2 and variance 1."""
        return unit_kernel(self.kernel_name, 0.2)

    def variance(self) -> float:
        """R² = λ, for the whole study."""
        return NOISE_SHARE * mean_range(self.world(1.0), TRIALS)

    @cached_property
    def B(self) -> float:
        """Bound on the norms, for the whole study."""
        return largest_norm(self._smoothed_world(1.0), TRIALS)

    def world(self, noise: float) -> StaticWorld:
        """The functions, with noise of this variance."""
        if self.smooth:
            return self._smoothed_world(noise)
        return StaticWorld(random_arms(), functions=GaussianDraw(self.kernel), noise=noise)

    def strategies(self, noise: float) -> dict[str, Strategy]:
        """The strategies, with the information gain in closed form, as in the paper."""
        gain = ClosedForm("se") if self.kernel_name == "se" else ClosedForm("matern", nu=2.5)
        return line_up(self.kernel, noise, self.B, gain)

    def _smoothed_world(self, noise: float) -> StaticWorld:
        draws = StaticWorld(random_arms(), functions=GaussianDraw(self.kernel), noise=noise)
        smoothing = NOISE_SHARE * mean_range(draws, TRIALS)
        functions = SmoothedDraw(self.kernel, noise=smoothing)
        return StaticWorld(draws.domain, functions=functions, noise=noise)


_SETTINGS = {
    "se-rkhs": FunctionClass("SE, f in the kernel's space", "se", smooth=True),
    "se-gp": FunctionClass("SE, f drawn from the process", "se", smooth=False),
    "matern52-rkhs": FunctionClass("Matérn-5/2, f in the kernel's space", "matern52", smooth=True),
    "matern52-gp": FunctionClass("Matérn-5/2, f drawn from the process", "matern52", smooth=False),
}
_CASES = {
    name: Drawn(setting.title, setting.variance, setting.world, setting.strategies)
    for name, setting in _SETTINGS.items()
}
_OTHERS = ("GP-UCB", "GP-TS", "GP-EI", "GP-PI")
_ORDER = (*(("IGP-UCB", other) for other in _OTHERS), ("GP-TS", "GP-UCB"))
_CLAIMS: list[Claim | Quantity] = [
    *(Claim(name, *pair) for name in _CASES for pair in _ORDER),
    *(similar(name, "GP-PI", "GP-EI") for name in _CASES),
    *(Claim(name, "GP-TS", other, ours=True) for name in _CASES for other in ("GP-EI", "GP-PI")),
]

SYNTHETIC = Experiment(
    id="c17",
    title="Five strategies on functions that stand still",
    paper='"IGP-UCB performs the best in the pool of competitors, while GP-TS also fares '
    'reasonably well compared to GP-UCB and GP-EI/GP-PI"; the last two "perform similarly and thus '
    'are not separately distinguishable in the plots". Both kernels and both kinds of functions.',
    remark="R² and B hold for the study as a whole, and the arms are one set for all trials. The "
    "paper does not say where GP-EI and GP-PI take their incumbent. From the best value observed, "
    "which noise lifts for good, both explore without end and alike, as the paper has it; from the "
    "best posterior mean GP-EI is as good as IGP-UCB, and GP-PI hardly leaves its first arm.",
    horizon=HORIZON,
    trials=TRIALS,
    cases=_CASES,
    score=partial(judge, _CLAIMS),
    picture=partial(draw_panels, _CASES, logarithmic=True),
)
