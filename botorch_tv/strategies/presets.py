"""The algorithms of the papers, under the papers' names.

Each is a composition of parts; the table in the README summarises this file. Every preset takes
the spatial ``kernel`` (a GPyTorch kernel or an M x M matrix), the ``noise`` variance, its own
parameters by the paper's names, and optionally ``width``, its confidence schedule, ``maximize``
(False to minimise), ``mean``, the prior mean (a number or ``"estimated"``), and ``inference``.

Default widths are the papers' and differ: ``Logarithmic(c1=0.8)`` for GP-UCB, R-GP-UCB, TV-GP-UCB
and UI-TVBO, ``c1=0.4`` for ET-GP-UCB, ``IGPUCB`` for IGP-UCB, GP-TS, BR-GP-UCB and SW-GP-UCB,
``WGPUCB`` for WGP-UCB, and ``Heteroscedastic`` for UI-GP-UCB and for SparQ-GP-UCB and
W-SparQ-GP-UCB, which consult an expert. Regret depends on the width as well as on forgetting, so
pass the same ``width`` to all when comparing ways to forget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    ExpectedImprovement,
    Heteroscedastic,
    Logarithmic,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
)
from botorch_tv.acquisition.exploration import Incumbent, Ties
from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    TriggerRule,
    UncertaintyInjection,
    Wiener,
    prediction_error,
)
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.signature import (
    Bounded,
    Common,
    Modelled,
    SubGaussian,
    preset,
    with_width,
)
from botorch_tv.validation import require_integer, require_noise


@preset
def gp_ucb(**common: Unpack[Common]) -> Strategy:
    """GP-UCB, which never forgets; the width is :class:`Logarithmic` by default, see [C17] §3.1."""
    return Strategy(**with_width(common, Logarithmic()))


@preset
def igp_ucb(**common: Unpack[SubGaussian]) -> Strategy:
    """IGP-UCB, [C17] Algorithm 1: never forgets; the width follows from the information gain."""
    return Strategy(**with_width(common, igp_width(common)))


@preset
def gp_ts(**common: Unpack[SubGaussian]) -> Strategy:
    """GP-TS, [C17] Algorithm 2: plays the best arm of a sample from GP(mean, v_t² c).

    By default v_t = B + R sqrt(2 (g + 1 + ln(2 / delta))); a ``width`` replaces it.
    """
    return Strategy(exploration=Thompson(), **with_width(common, igp_width(common, parts=2)))


@preset
def gp_ei(
    *, incumbent: Incumbent = "posterior", ties: Ties = "first", **common: Unpack[Modelled]
) -> Strategy:
    """GP-EI, a baseline in [C17] §6: expected improvement over an incumbent.

    Args:
        incumbent: The value to improve on: the best ``"posterior"`` mean among the points observed,
            which forgets as the posterior does, or the best value ``"observed"``, which reproduces
            the paper's rankings on static functions.
        ties: Which of several tying arms to play, the ``"first"`` or a ``"random"`` one.
    """
    return Strategy(exploration=ExpectedImprovement(ties=ties, incumbent=incumbent), **common)


@preset
def gp_pi(
    *, incumbent: Incumbent = "posterior", ties: Ties = "first", **common: Unpack[Modelled]
) -> Strategy:
    """GP-PI, a baseline in [C17] §6: probability of improvement over an incumbent.

    Args:
        incumbent: As for :func:`gp_ei`. With ``"posterior"`` it seldom leaves its first arm.
        ties: As for :func:`gp_ei`.
    """
    return Strategy(exploration=ProbabilityOfImprovement(ties=ties, incumbent=incumbent), **common)


@preset
def random_search(**common: Unpack[Modelled]) -> Strategy:
    """Uniform random choices; the model is used for predictions and recommendations only."""
    return Strategy(exploration=UniformChoice(), **common)


@preset
def r_gp_ucb(*, period: float, **common: Unpack[Common]) -> Strategy:
    """R-GP-UCB, [B16] Algorithm 1: forgets everything at regular intervals.

    Args:
        period: Rounds N between resets.
    """
    return Strategy(retention=PeriodicReset(period), **with_width(common, Logarithmic()))


@preset
def br_gp_ucb(*, period: float, **common: Unpack[SubGaussian]) -> Strategy:
    """BR-GP-UCB, quoted in [W22] §7: IGP-UCB restarted at regular intervals.

    Args:
        period: Rounds H between restarts, derived from a variation budget.
    """
    return Strategy(retention=PeriodicReset(period), **with_width(common, igp_width(common)))


@preset
def sw_gp_ucb(*, window: float, **common: Unpack[SubGaussian]) -> Strategy:
    """SW-GP-UCB, [W22] §7 and [ET] Appendix A: keeps the newest rounds.

    Args:
        window: Number of rounds W to keep.
    """
    return Strategy(retention=SlidingWindow(window), **with_width(common, igp_width(common)))


@preset
def tv_gp_ucb(*, epsilon: float, **common: Unpack[Common]) -> Strategy:
    """TV-GP-UCB, [B16] Algorithm 2: the objective is a Markov process.

    ``width=Constant(beta)`` is the algorithm of Mandl and Kekkonen (2026). Their paper was not
    available, so their rule for beta is not implemented; on the world of their figure 1, for
    ε = 0.001, 0.01 and 0.1, a beta of 6.36, 4.34 and 2.12 was best. With ``ask(now=)`` and
    ``tell(time=)`` covariance depends on the actual times, (1 - ε)^(Δt / 2): the setting of Imamura
    et al. (2020), in which evaluations take different times.

    Args:
        epsilon: The objective's rate of change ε per unit of time.
    """
    return Strategy(decay=Markov(epsilon), **with_width(common, Logarithmic()))


@preset
def w_gp_ucb(*, gamma: float, **common: Unpack[SubGaussian]) -> Strategy:
    """WGP-UCB, [W22] Algorithm 1: the weight of an observation falls with age; ``noise`` is λ.

    Args:
        gamma: Factor on the weight per round.
    """
    width = WGPUCB(B=common["B"], R=_scale(common), noise=common["noise"], delta=common["delta"])
    return Strategy(inflation=ExponentialWeights(gamma), **with_width(common, width))


@preset
def ui_tvbo(*, sigma_w2: float, **common: Unpack[Common]) -> Strategy:
    """UI-TVBO, a baseline in [ET]: the objective is a random walk.

    Args:
        sigma_w2: Variance gained per unit of time.
    """
    return Strategy(decay=Wiener(sigma_w2), **with_width(common, Logarithmic()))


@preset
def ui_gp_ucb(*, alpha: float, kappa: float = 1.0, **common: Unpack[Bounded]) -> Strategy:
    """UI-GP-UCB, [M] §2: noise grows with age as σ² (1 + kappa lag^alpha).

    Args:
        alpha: Exponent of the age.
        kappa: Factor on the age.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return Strategy(inflation=UncertaintyInjection(alpha, kappa), **with_width(common, width))


@preset
def et_gp_ucb(
    *,
    delta: float = 0.1,
    rule: TriggerRule = prediction_error,
    confirm: int = 0,
    **common: Unpack[Common],
) -> Strategy:
    """ET-GP-UCB, [ET] Algorithm 1: forgets when an observation contradicts the model.

    Args:
        delta: δ_B, the probability of a false alarm on a static objective.
        rule: The test; the paper's by default.
        confirm: How many contradictions must follow the first before it forgets: 0, as in the
            paper, forgets at the first. With 1 one wrong reading no longer resets: it is set aside,
            and dropped for good if the next observation agrees with the model. ``delta`` still
            bounds false alarms, a fortiori, but a change is detected ``confirm`` rounds later; see
            :class:`~botorch_tv.forgetting.ConfirmedTrigger`.
    """
    confirm = require_integer(
        "et_gp_ucb: confirm", confirm, 0, "0 forgets at the first, 1 waits for one more."
    )
    trigger = ConfirmedTrigger(delta, rule, confirm) if confirm else EventTrigger(delta, rule)
    return Strategy(retention=trigger, **with_width(common, Logarithmic(c1=0.4, c2=4.0)))


def igp_width(common: SubGaussian, parts: int = 1) -> IGPUCB:
    """The width whose failure probability is an equal part of ``delta``."""
    whole = IGPUCB(B=common["B"], R=_scale(common), delta=common["delta"])
    return whole if parts == 1 else replace(whole, delta=whole.delta / parts)


def _scale(common: SubGaussian) -> float:
    """The sub-Gaussian scale of the noise; its standard deviation by default."""
    R = common["R"]
    return require_noise("noise", common["noise"]) ** 0.5 if R is None else R
