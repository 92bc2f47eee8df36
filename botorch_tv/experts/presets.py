"""The algorithms of [M] that consult an expert, under the paper's names.

Their default width follows the paper's theory and explores more than those of most presets in
:mod:`botorch_tv.strategies.presets`; pass the same ``width`` to all when comparing.
"""

from __future__ import annotations

from typing import Unpack

from botorch_tv.acquisition import Heteroscedastic
from botorch_tv.experts.dpp import Steps
from botorch_tv.experts.refresh import EveryRound, Refresh, Windows
from botorch_tv.experts.sparq import SparQ
from botorch_tv.forgetting import Static, UncertaintyInjection
from botorch_tv.strategies.signature import Bounded, preset, with_width


@preset
def sparq_gp_ucb(*, c_Q: float = 1.0, steps: Steps = None, **common: Unpack[Bounded]) -> SparQ:
    """SparQ-GP-UCB, [M] Algorithm 1: after every round an expert measures some past points again.

    Regression uses the newest answers only; the default width is
    :class:`~botorch_tv.acquisition.Heteroscedastic`.

    A round is ``tell``, ``consult``, ``absorb``, ``ask``. Without answers ``ask`` warns and
    continues with the data available, see :class:`~botorch_tv.experts.SparQ`.

    Args:
        c_Q: Scale of the number of points, see :class:`~botorch_tv.experts.Refresh`.
        steps: How the points are drawn, see :class:`~botorch_tv.experts.Refresh`.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return SparQ(refresh=Refresh(EveryRound(), c_Q, steps), **with_width(common, width))


@preset
def w_sparq_gp_ucb(
    *,
    alpha: float,
    alpha_tilde: float = 0.25,
    inflate: bool = True,
    c_Q: float = 1.0,
    steps: Steps = None,
    **common: Unpack[Bounded],
) -> SparQ:
    """W-SparQ-GP-UCB, [M] Algorithm 2: an expert is asked at the start of every window.

    Within a window ordinary observations are added. Windows grow slowly: with α = 2 and α~ = 1/4
    all windows that start up to round 255 last two rounds, and the first one of three rounds starts
    in round 257.

    Args:
        alpha: Exponent of the growth of noise with age; with ``alpha_tilde`` it determines the
            windows, see :class:`~botorch_tv.experts.Windows`.
        alpha_tilde: See :class:`~botorch_tv.experts.Windows`.
        inflate: Whether the noise of an answer or observation is σ² (1 + lag^alpha), [M] §2, or
            σ², another reading of "standard GP-UCB" in [M] §3.3.
        c_Q: As in :func:`sparq_gp_ucb`.
        steps: As in :func:`sparq_gp_ucb`.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return SparQ(
        inflation=UncertaintyInjection(alpha) if inflate else Static(),
        refresh=Refresh(Windows(alpha, alpha_tilde), c_Q, steps),
        **with_width(common, width),
    )
