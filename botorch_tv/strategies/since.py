"""Algorithms since the five papers, of the same parts.

What a paper proves is proved of its own constants. Where its text could not be had, the constants
are arguments without a default, and the docstring says so.
"""

from __future__ import annotations

from typing import Unpack

from botorch_tv.acquisition import Forced, Logarithmic
from botorch_tv.forgetting import GLRTrigger, PeriodicMarkov
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.signature import Common, preset, settled


@preset
def glr_gp_ucb(
    *, chance: float, delta: float = 0.1, longest: int = 64, **common: Unpack[Common]
) -> Strategy:
    """Detection-augmented GP-UCB: forgets when a likelihood ratio tells of a change.

    After Gerogiannis, Huang, Bose, Veeravalli (arXiv:2501.19401); see
    :class:`~botorch_tv.forgetting.GLRTrigger` for what is theirs. Their rule for ``chance`` could
    not be had.

    Args:
        chance: Share of rounds that explore by chance, so that no change stays out of sight.
        delta: Chance of a false alarm on an objective that stands still.
        longest: Most rounds ago that a change is looked for.
    """
    return Strategy(
        retention=GLRTrigger(delta, longest),
        exploration=Forced(chance),
        **settled(common, Logarithmic(c1=0.4, c2=4.0)),
    )


@preset
def tv_bayesopt(
    *, epsilon: float, cycle: float, cycle_lengthscale: float, **common: Unpack[Common]
) -> Strategy:
    """TV-BayesOpt, Fleming et al. (2023): the objective comes back, and less so every time.

    It explores by upper confidence bounds here.

    Args:
        epsilon: Rate of change ε per unit of time, whatever comes back.
        cycle: Length of a cycle, in units of time.
        cycle_lengthscale: How different its phases are; see
            :class:`~botorch_tv.forgetting.PeriodicMarkov`.
    """
    decay = PeriodicMarkov(epsilon, cycle, cycle_lengthscale)
    return Strategy(decay=decay, **settled(common, Logarithmic()))
