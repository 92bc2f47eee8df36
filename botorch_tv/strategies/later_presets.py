"""Algorithms later than the five papers, composed of the same parts.

A paper's guarantees hold for its own constants. Where its text was not available, the constants are
arguments without a default, and the docstring says so.
"""

from __future__ import annotations

import math
from typing import Unpack

from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_tv.acquisition import Constant, Forced, Logarithmic
from botorch_tv.forgetting import (
    GLRTrigger,
    Markov,
    PeriodicMarkov,
    PeriodicReset,
    SlidingWindow,
    WassersteinRemoval,
)
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.elimination import PriorElimination
from botorch_tv.strategies.over_bandits import BanditOverBandits
from botorch_tv.strategies.phases import PhasedElimination
from botorch_tv.strategies.presets import igp_width
from botorch_tv.strategies.signature import Common, Modelled, SubGaussian, preset, with_width
from botorch_tv.validation import shown


@preset
def glr_gp_ucb(
    *, chance: float, delta: float = 0.1, longest: int = 64, **common: Unpack[Common]
) -> Strategy:
    """Detection-augmented GP-UCB: forgets when a likelihood ratio detects a change.

    After Gerogiannis, Huang, Bose, Veeravalli (arXiv:2501.19401); see
    :class:`~botorch_tv.forgetting.GLRTrigger` for what follows their paper. Their rule for
    ``chance`` was not available.

    Args:
        chance: Share of rounds with a uniformly random choice, so that no change goes unseen.
        delta: Probability of a false alarm on a static objective.
        longest: How many rounds back to look for a change.
    """
    return Strategy(
        retention=GLRTrigger(delta, longest),
        exploration=Forced(chance),
        **with_width(common, Logarithmic(c1=0.4, c2=4.0)),
    )


@preset
def pe_gp_ucb(
    *, epsilons: tuple[float, ...], delta: float = 0.1, **common: Unpack[Common]
) -> PriorElimination:
    """PE-GP-UCB, Ziomek, Adachi, Osborne (AISTATS 2025): the rate of change is one of several.

    See :class:`~botorch_tv.strategies.elimination.PriorElimination`, which takes any priors.

    Args:
        epsilons: Candidate rates of change ε.
        delta: Probability that noise alone ever rejects a prior whose bands hold.
    """
    usual = with_width(common, Logarithmic())
    members = tuple(Strategy(decay=Markov(one), **usual) for one in epsilons)
    return PriorElimination(members=members, delta=delta)


@preset
def bob_gp_ucb(
    *, windows: tuple[int, ...], block: int, horizon: int, **common: Unpack[SubGaussian]
) -> BanditOverBandits:
    """BOB over SW-GP-UCB, Cheung, Simchi-Levi, Zhu (AISTATS 2019): learns which window to use.

    For an unknown variation budget; see
    :class:`~botorch_tv.strategies.over_bandits.BanditOverBandits`. Everything is forgotten when a
    block begins. ``B`` also bounds the objective, whose kernel has variance 1.

    Args:
        windows: Candidate window lengths W in rounds; each block uses one.
        block: Rounds H of a block.
        horizon: Total number of rounds T.
    """
    usual = with_width(common, igp_width(common))
    members = tuple(
        Strategy(retention=(PeriodicReset(block), SlidingWindow(one)), **usual) for one in windows
    )
    return BanditOverBandits(
        members=members, block=block, horizon=horizon, bound=common["B"], R=common["R"]
    )


@preset
def r_perp(*, period: int, beta: float, **common: Unpack[Modelled]) -> PhasedElimination:
    """R-PERP, Iwazaki, Takeno (AISTATS 2025): phases of elimination in random order, restarted.

    See :class:`~botorch_tv.strategies.phases.PhasedElimination` for what follows their paper. For
    grids. Their rules for both numbers were not available.

    Args:
        period: Rounds H between restarts.
        beta: Squared half width of the bands, in standard deviations.
    """
    return PhasedElimination(period=period, width=Constant(beta), **common)


@preset
def tv_bayesopt(
    *, epsilon: float, cycle: float, cycle_lengthscale: float, **common: Unpack[Common]
) -> Strategy:
    """TV-BayesOpt, Fleming et al. (2023): the objective is periodic and drifts from cycle to cycle.

    This implementation explores by upper confidence bounds.

    Args:
        epsilon: Rate of change ε per unit of time, besides the cycle.
        cycle: Length of a cycle, in units of time.
        cycle_lengthscale: Lengthscale within a cycle; see
            :class:`~botorch_tv.forgetting.PeriodicMarkov`.
    """
    decay = PeriodicMarkov(epsilon, cycle, cycle_lengthscale)
    return Strategy(decay=decay, **with_width(common, Logarithmic()))


@preset
def w_dbo(*, epsilon: float, alpha: float = 0.25, **common: Unpack[Common]) -> Strategy:
    """W-DBO, Bardou, Thiran, Ranieri (NeurIPS 2024): removes data irrelevant to future predictions.

    TV-GP-UCB with :class:`~botorch_tv.forgetting.WassersteinRemoval`. The authors' package learns
    kernel, rate and noise in every round and explores with beta = 0.2 d ln(2 n), where n is the
    number of observations in use.

    Args:
        epsilon: Rate of change ε per unit of time.
        alpha: Growth rate of the removal budget; 0 removes nothing.

    Raises:
        ValueError: If the kernel is not an ``RBFKernel`` or a ``MaternKernel`` over all
            coordinates, scaled or not, or ``mean`` is not a number.
    """
    mean = common["mean"]
    if isinstance(mean, str):
        raise ValueError(
            f"w_dbo: mean is {mean!r}, but what an observation is worth depends on it; give a "
            "number."
        )
    removal = WassersteinRemoval(epsilon, *_space_of(common["kernel"]), alpha=alpha, mean=mean)
    return Strategy(decay=Markov(epsilon), retention=removal, **with_width(common, Logarithmic()))


def _space_of(kernel: Kernel | Tensor) -> tuple[float | tuple[float, ...], float, float]:
    """Lengthscale, smoothness and variance of a kernel whose convolution is known."""
    inner, variance = kernel, 1.0
    if isinstance(kernel, ScaleKernel):
        inner, variance = kernel.base_kernel, float(kernel.outputscale.detach())
    if not isinstance(inner, (RBFKernel, MaternKernel)) or inner.active_dims is not None:
        raise ValueError(
            f"w_dbo: kernel is {shown(kernel)}, but the integral of its square is known of an "
            "RBFKernel and a MaternKernel over all coordinates alone, scaled or not."
        )
    lengths = tuple(inner.lengthscale.detach().double().reshape(-1).tolist())
    nu = float(inner.nu) if isinstance(inner, MaternKernel) else math.inf
    return lengths[0] if len(lengths) == 1 else lengths, nu, variance
