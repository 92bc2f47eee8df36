"""Algorithms since the five papers, of the same parts.

What a paper proves is proved of its own constants. Where its text could not be had, the constants
are arguments without a default, and the docstring says so.
"""

from __future__ import annotations

from typing import Unpack

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import PeriodicMarkov
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.signature import Common, preset, settled


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
