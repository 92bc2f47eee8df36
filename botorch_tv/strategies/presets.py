"""Presets: functions that each create a named strategy, and nothing else.

Each preset composes a strategy from parts (decay, inflation, retention, exploration, width). Its
decorator enters it into :data:`~botorch_tv.strategies.listing.PRESETS`; from this list come the
names that can be imported, the strategies of ``botorch-tv compare``, the README's table, the line
styles of plots and the tests over all presets.

Every preset takes the spatial ``kernel`` (a GPyTorch kernel or an M x M matrix), the ``noise``
variance, and its own parameters, named as in the paper. Optional arguments are the confidence
schedule ``width``, ``maximize`` (False to minimise), the prior mean ``mean`` (a number or
``"estimated"``), and ``inference``.

The default widths come from the papers, and differ between presets. The default width is
``Logarithmic(c1=0.8)`` for GP-UCB, R-GP-UCB, TV-GP-UCB and UI-TVBO; ``Logarithmic(c1=0.4)`` for
ET-GP-UCB; ``IGPUCB`` for IGP-UCB, GP-TS, BR-GP-UCB and SW-GP-UCB; and ``WGPUCB`` for WGP-UCB.
UI-GP-UCB and the two presets with an expert, SparQ-GP-UCB and W-SparQ-GP-UCB, have the default
width ``Heteroscedastic``. Regret depends on both width and forgetting; pass the same ``width`` to
all presets to compare their forgetting.

A paper's guarantees hold for the paper's constants. Constants that are not implemented are
arguments without a default, and the docstring of the preset says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    Constant,
    ExpectedImprovement,
    Forced,
    Heteroscedastic,
    Logarithmic,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
    Width,
)
from botorch_tv.acquisition.exploration import Incumbent, Ties
from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    ExponentialWeights,
    GLRTrigger,
    Markov,
    PeriodicMarkov,
    PeriodicReset,
    SlidingWindow,
    Static,
    TriggerRule,
    UncertaintyInjection,
    WassersteinRemoval,
    Wiener,
    prediction_error,
)
from botorch_tv.gp.mixture.bank import FIRST, Bank
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.committee import BanditOverBandits, PriorElimination
from botorch_tv.strategies.contrib import PhasedElimination, RestartedExp3
from botorch_tv.strategies.dpp import Steps
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.listing import (
    PRESETS,
    Bounded,
    Common,
    Modelled,
    SubGaussian,
    preset,
    with_width,
)
from botorch_tv.strategies.sparq import EveryRound, Refresh, SparQ, Windows
from botorch_tv.validation import require_integer, require_noise, shown


@preset("GP-UCB, GP", "black solid", "none | σ² | all | logarithmic | Srinivas 2010; [B16]")
def gp_ucb(**common: Unpack[Common]) -> GPStrategy:
    """GP-UCB, which never forgets, [C17] §3.1; the default width is :class:`Logarithmic`."""
    return GPStrategy(**with_width(common, Logarithmic()))


@preset("IGP-UCB, IGP", "blue dashed", "none | σ² | all | information gain | [C17]", compared="")
def igp_ucb(**common: Unpack[SubGaussian]) -> GPStrategy:
    """IGP-UCB, [C17] Algorithm 1: never forgets; its width depends on the information gain."""
    return GPStrategy(**with_width(common, _igp_width(common)))


@preset("GP-TS, TS", "vermilion dashed", "none | σ² | all | Thompson sampling | [C17]")
def gp_ts(**common: Unpack[SubGaussian]) -> GPStrategy:
    """GP-TS, [C17] Algorithm 2: plays the best arm of a sample from GP(mean, v_t² c).

    Here c is the posterior covariance. By default v_t = B + R sqrt(2 (g + 1 + ln(2 / delta))) with
    the information gain g; a ``width`` replaces v_t. For the decision sets D_t of the
    algorithm, use ``replace(strategy, exploration=Thompson(decision_set=...))``; see
    :class:`~botorch_tv.acquisition.Thompson`.
    """
    return GPStrategy(exploration=Thompson(), **with_width(common, _igp_width(common, parts=2)))


@preset("GP-EI, EI", "green dashed", "none | σ² | all | expected improvement | [C17] §6")
def gp_ei(
    *, incumbent: Incumbent = "posterior", ties: Ties = "first", **common: Unpack[Modelled]
) -> GPStrategy:
    """GP-EI, a baseline in [C17] §6: expected improvement over an incumbent.

    Args:
        incumbent: The value to improve on. ``"posterior"`` is the best posterior mean at observed
            points, so old observations lose influence as in the posterior. ``"observed"`` is the
            best observed value, which reproduces the paper's rankings on static functions.
        ties: Which of several tying arms to play: the ``"first"``, or a ``"random"`` arm.
    """
    return GPStrategy(exploration=ExpectedImprovement(ties=ties, incumbent=incumbent), **common)


@preset("GP-PI, PI", "purple dashed", "none | σ² | all | probability of improvement | [C17] §6")
def gp_pi(
    *, incumbent: Incumbent = "posterior", ties: Ties = "first", **common: Unpack[Modelled]
) -> GPStrategy:
    """GP-PI, a baseline in [C17] §6: probability of improvement over an incumbent.

    Args:
        incumbent: The value to improve on, as in :func:`gp_ei`. With ``"posterior"``, the strategy
            seldom leaves the arm that it plays first.
        ties: Which of several tying arms to play, as in :func:`gp_ei`.
    """
    return GPStrategy(
        exploration=ProbabilityOfImprovement(ties=ties, incumbent=incumbent), **common
    )


@preset("Random", "silver dotted", "none | σ² | all | uniform sampling | ")
def random_search(**common: Unpack[Modelled]) -> GPStrategy:
    """Uniform random choices; the model is used for predictions and recommendations only."""
    return GPStrategy(exploration=UniformChoice(), **common)


@preset(
    "R-GP-UCB, R", "orange solid", "none | σ² | since the last periodic reset | logarithmic | [B16]"
)
def r_gp_ucb(*, period: float, **common: Unpack[Common]) -> GPStrategy:
    """R-GP-UCB, [B16] Algorithm 1: forgets everything at regular intervals.

    Args:
        period: Number N of rounds between resets.
    """
    return GPStrategy(retention=PeriodicReset(period), **with_width(common, Logarithmic()))


@preset(
    "BR-GP-UCB, BR",
    "orange dashed",
    "none | σ² | since the last periodic reset | information gain | Zhou, Shroff 2021",
    compared="",
)
def br_gp_ucb(*, period: float, **common: Unpack[SubGaussian]) -> GPStrategy:
    """BR-GP-UCB, Zhou and Shroff (2021), quoted in [W22] §7: IGP-UCB restarted periodically.

    Args:
        period: Number H of rounds between restarts, derived from a variation budget.
    """
    return GPStrategy(retention=PeriodicReset(period), **with_width(common, _igp_width(common)))


@preset(
    "SW-GP-UCB, SW",
    "sky solid",
    "none | σ² | the newest W | information gain | Zhou, Shroff 2021",
)
def sw_gp_ucb(*, window: float, **common: Unpack[SubGaussian]) -> GPStrategy:
    """SW-GP-UCB, Zhou and Shroff (2021), quoted in [W22] §7: retains the newest rounds.

    Args:
        window: Number W of newest rounds to retain.
    """
    return GPStrategy(retention=SlidingWindow(window), **with_width(common, _igp_width(common)))


@preset("TV-GP-UCB, TV", "blue solid", "Markov, (1−ε)^(Δt/2) | σ² | all | logarithmic | [B16]")
def tv_gp_ucb(*, epsilon: float, **common: Unpack[Common]) -> GPStrategy:
    """TV-GP-UCB, [B16] Algorithm 2: the objective is a Markov process.

    With ``width=Constant(beta)``, this is the algorithm of Mandl and Kekkonen (2026). The rule for
    beta of Mandl and Kekkonen is not implemented, because their paper was not available. In 100
    trials of 10,000 rounds on 400 arms, the best of 12 constants was 6 for ε = 0.001, 4 for
    ε = 0.01 and 2 for ε = 0.1. With ``ask(now=)`` and ``tell(time=)`` the covariance
    depends on the actual times, as (1 - ε)^(Δt / 2). Imamura et al. (2020) study evaluations that
    take different times.

    Args:
        epsilon: The objective's rate of change ε per unit of time.
    """
    return GPStrategy(decay=Markov(epsilon), **with_width(common, Logarithmic()))


@preset(
    "TV-BayesOpt", "sky dashed", "Markov × periodic | σ² | all | logarithmic | Fleming et al. 2023"
)
def tv_bayesopt(
    *, epsilon: float, cycle: float, cycle_lengthscale: float, **common: Unpack[Common]
) -> GPStrategy:
    """TV-BayesOpt, Fleming et al. (2023): the objective is periodic and drifts from cycle to cycle.

    This implementation explores by upper confidence bounds.

    Args:
        epsilon: The objective's rate of change ε per unit of time, apart from the periodic changes.
        cycle: Length of a cycle, in units of time.
        cycle_lengthscale: Lengthscale within a cycle; see
            :class:`~botorch_tv.forgetting.PeriodicMarkov`.
    """
    decay = PeriodicMarkov(epsilon, cycle, cycle_lengthscale)
    return GPStrategy(decay=decay, **with_width(common, Logarithmic()))


@preset(
    "W-DBO",
    "green dashdot",
    "Markov | σ² | data relevant to future predictions | logarithmic | Bardou et al. 2024",
)
def w_dbo(*, epsilon: float, alpha: float = 0.25, **common: Unpack[Common]) -> GPStrategy:
    """W-DBO, Bardou, Thiran, Ranieri (NeurIPS 2024): removes data irrelevant to future predictions.

    This is TV-GP-UCB with :class:`~botorch_tv.forgetting.WassersteinRemoval`. BOLT
    (arXiv:2501.18963), the successor of W-DBO, decides in another way how many observations to
    retain. BOLT is not implemented. The package of W-DBO's authors learns kernel, rate and noise in
    every round and explores with beta = 0.2 d ln(2 n), where n is the number of observations in
    use.

    Args:
        epsilon: The objective's rate of change ε per unit of time.
        alpha: Growth rate of the budget that limits the removal of observations; 0 removes no
            observation.

    Raises:
        ValueError: If the kernel is not an ``RBFKernel`` or a ``MaternKernel`` over all
            coordinates, with or without a ``ScaleKernel``, or if ``mean`` is not a number.
    """
    mean = common["mean"]
    if isinstance(mean, str):
        raise ValueError(
            f"w_dbo: mean is {mean!r}, but it must be a number, because the relevance of "
            "observations is computed from it; give mean=0.0 or another number."
        )
    removal = WassersteinRemoval(epsilon, *_space_of(common["kernel"]), alpha=alpha, mean=mean)
    return GPStrategy(decay=Markov(epsilon), retention=removal, **with_width(common, Logarithmic()))


@preset(
    "UI-TVBO",
    "purple dashdot",
    "random walk, 1 + σ_w² min(t, t′) | σ² | all | logarithmic | Brunzema et al. 2022",
)
def ui_tvbo(*, sigma_w2: float, **common: Unpack[Common]) -> GPStrategy:
    """UI-TVBO, Brunzema et al. (2022), a baseline in [ET]: the objective is a random walk.

    Args:
        sigma_w2: Variance σ_w² that the objective gains per unit of time, as a share of the
            kernel's variance.
    """
    return GPStrategy(decay=Wiener(sigma_w2), **with_width(common, Logarithmic()))


@preset(
    "WGP-UCB, WGP, W", "green solid", "none | λ γ^(−age) | all | weighted information gain | [W22]"
)
def w_gp_ucb(*, gamma: float, **common: Unpack[SubGaussian]) -> GPStrategy:
    """WGP-UCB, [W22] Algorithm 1: the weight of an observation falls with age; ``noise`` is λ.

    For the smaller σ̃ of Theorem 2, use ``replace(strategy, exploration=TightConfidence())``. For
    the quadrature Fourier features of §5, give a
    :class:`~botorch_tv.kernels.features.QuadratureFourierKernel`; for the weighted linear bandits
    of Remark 1, a linear kernel.

    Args:
        gamma: Factor by which the weight of an observation falls per round.
    """
    width = WGPUCB(B=common["B"], R=_scale(common), noise=common["noise"], delta=common["delta"])
    return GPStrategy(inflation=ExponentialWeights(gamma), **with_width(common, width))


@preset("UI-GP-UCB, UI", "purple solid", "none | σ² (1 + κ age^α) | all | heteroscedastic | [M]")
def ui_gp_ucb(*, alpha: float, kappa: float = 1.0, **common: Unpack[Bounded]) -> GPStrategy:
    """UI-GP-UCB, [M] §2: noise grows with age as σ² (1 + kappa lag^alpha).

    Args:
        alpha: Exponent of the age.
        kappa: Factor on lag^alpha in the noise variance.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return GPStrategy(inflation=UncertaintyInjection(alpha, kappa), **with_width(common, width))


@preset(
    "ET-GP-UCB, ET",
    "vermilion solid",
    "none | σ² | since the last event trigger | logarithmic | [ET]",
    compared="delta, width",
)
def et_gp_ucb(
    *,
    delta: float = 0.1,
    rule: TriggerRule = prediction_error,
    confirm: int = 0,
    **common: Unpack[Common],
) -> GPStrategy:
    """ET-GP-UCB, [ET] Algorithm 1: forgets when an observation contradicts the model.

    Args:
        delta: Bound δ_B on the probability of a false trigger on a static objective.
        rule: The test of whether an observation contradicts the model; by default the paper's test.
            The test takes the arguments of :func:`~botorch_tv.forgetting.prediction_error` and
            returns a bool tensor, `batch_shape`.
        confirm: After a first observation that contradicts the model, ``confirm`` further
            contradictions are needed before everything is forgotten. With ``confirm=0``, as in the
            paper, the first contradiction causes a reset. With ``confirm=1``, a single wrong
            reading causes no reset: this reading is set aside, and it is dropped if the next
            observation agrees with the model. For any ``confirm``, the probability of a false
            trigger is at most ``delta``, but a change is detected ``confirm`` rounds later than
            with ``confirm=0``; see :class:`~botorch_tv.forgetting.ConfirmedTrigger`.

    Raises:
        ValueError: If ``confirm`` is negative or not whole, or if ``delta`` lies outside (0, 1).
    """
    confirm = require_integer("et_gp_ucb: confirm", confirm, 0, "1 waits for one more.")
    trigger = ConfirmedTrigger(delta, rule, confirm) if confirm else EventTrigger(delta, rule)
    return GPStrategy(retention=trigger, **with_width(common, Logarithmic(c1=0.4, c2=4.0)))


@preset(
    "GLR-GP-UCB, GLR",
    "vermilion dotted",
    "none | σ² | since a likelihood ratio detected a change | logarithmic, sometimes uniform | "
    "Gerogiannis et al. 2025",
    compared="delta, width",
    contrib="Only the abstract of the paper was available: its rule for ``chance`` is missing.",
)
def glr_gp_ucb(
    *, chance: float, delta: float = 0.1, longest: int = 64, **common: Unpack[Common]
) -> GPStrategy:
    """Detection-augmented GP-UCB: forgets when a likelihood ratio detects a change.

    This preset follows Gerogiannis, Huang, Bose, Veeravalli (arXiv:2501.19401);
    :class:`~botorch_tv.forgetting.GLRTrigger` describes the differences.

    Args:
        chance: Fraction of rounds with a uniformly random choice; such choices can detect a change
            at any point.
        delta: Bound on the probability of a false detection on a static objective.
        longest: Number of past rounds that are searched for a change.
    """
    return GPStrategy(
        retention=GLRTrigger(delta, longest),
        exploration=Forced(chance),
        **with_width(common, Logarithmic(c1=0.4, c2=4.0)),
    )


@preset(
    "PE-GP-UCB, PE",
    "blue dashdot",
    "Markov, of several ε | σ² | all | the highest bound of the ε not rejected | "
    "Ziomek et al. 2025",
)
def pe_gp_ucb(
    *, epsilons: tuple[float, ...], delta: float = 0.1, **common: Unpack[Common]
) -> PriorElimination:
    """PE-GP-UCB, Ziomek, Adachi, Osborne (AISTATS 2025): selects among several rates of change.

    For other priors, use :class:`~botorch_tv.strategies.committee.PriorElimination`.

    Args:
        epsilons: Candidate rates of change ε.
        delta: Upper bound on the probability that the noise causes the rejection of a correct
            prior, that is, of a prior whose confidence bands always contain the objective.
    """
    usual = with_width(common, Logarithmic())
    members = tuple(GPStrategy(decay=Markov(epsilon), **usual) for epsilon in epsilons)
    return PriorElimination(members=members, delta=delta)


@preset(
    "BOB-GP-UCB, BOB",
    "sky dashdot",
    "none | σ² | a window learned by EXP3, since its block began | information gain | "
    "Cheung et al. 2019; Zhou, Shroff 2021",
)
def bob_gp_ucb(
    *, windows: tuple[int, ...], block: int, horizon: int, **common: Unpack[SubGaussian]
) -> BanditOverBandits:
    """BOB over SW-GP-UCB, Cheung, Simchi-Levi, Zhu (AISTATS 2019): learns which window to use.

    This preset needs no variation budget; see
    :class:`~botorch_tv.strategies.committee.BanditOverBandits`. Everything is forgotten when a
    block begins. ``B`` is also used as a bound on |f|; this bound holds for kernels of variance 1.

    Args:
        windows: Candidate window lengths W in rounds; a block uses a single window.
        block: Number H of rounds per block.
        horizon: Total number of rounds T.
    """
    usual = with_width(common, _igp_width(common))
    members = tuple(
        GPStrategy(retention=(PeriodicReset(block), SlidingWindow(window)), **usual)
        for window in windows
    )
    return BanditOverBandits(
        members=members, block=block, horizon=horizon, bound=common["B"], R=common["R"]
    )


@preset(
    "R-PERP",
    "orange dashdot",
    "none | σ² | since the last phase began | "
    "phased elimination in random order | Iwazaki, Takeno 2025",
    contrib="Only the summary and the introduction of the paper were available, without constants: "
    "its rules for ``period`` and ``beta`` are missing.",
)
def r_perp(*, period: int, beta: float, **common: Unpack[Modelled]) -> PhasedElimination:
    """R-PERP, Iwazaki, Takeno (arXiv:2410.16052), without the constants of the paper.

    After each phase, arms that cannot be the best are eliminated; every ``period`` rounds all arms
    return. :class:`~botorch_tv.strategies.contrib.PhasedElimination` lists differences from the
    paper. This preset is only for grids.

    Args:
        period: Number H of rounds between restarts.
        beta: The constant β; the half-width of the confidence bands is √β standard deviations.
    """
    return PhasedElimination(period=period, width=Constant(beta), **common)


@preset(
    "RExp3",
    "silver dashed",
    "none | σ² | since the last periodic reset | EXP3, without the kernel | Besbes 2014",
    contrib="The paper was not available: γ and Δ are those of two public implementations.",
)
def rexp3(
    *, period: int, low: float, high: float, gamma: float | None = None, **common: Unpack[Modelled]
) -> RestartedExp3:
    """RExp3, Besbes, Gur, Zeevi (NeurIPS 2014), a baseline in [B16] §5.2: Exp3, restarted.

    Choices ignore correlations between arms; the model is used only for predictions and
    recommendations; see :class:`~botorch_tv.strategies.contrib.RestartedExp3`. This preset is only
    for grids.

    Args:
        period: Number Δ of rounds between restarts.
        low: The value of y that earns reward 0 if y is maximised, or reward 1 if y is minimised.
            Observations below ``low`` are clipped to ``low``.
        high: The value of y that earns reward 1 if y is maximised, or reward 0 if y is minimised.
            Observations above ``high`` are clipped to ``high``.
        gamma: Probability γ of a uniform choice; by default the paper's value.
    """
    return RestartedExp3(period=period, low=low, high=high, gamma=gamma, **common)


@preset(
    "Adaptive-GP-UCB, Adaptive",
    "wine solid",
    "Markov and jumps, several rates, weighted | learned | all, discounted after a jump | "
    "logarithmic | ",
)
def adaptive_gp_ucb(
    *,
    width: Width | None = None,
    bank: Bank | None = None,
    starts: int = FIRST,
    maximize: bool = True,
) -> Adaptive:
    """A strategy without prior knowledge: it needs no kernel, noise, scale or rate of change.

    See :class:`~botorch_tv.strategies.adaptive.Adaptive`. The strategy has no proven regret bound.

    Args:
        width: The confidence schedule sqrt(beta_t); ``Logarithmic()`` by default.
        bank: The candidate processes; :class:`~botorch_tv.gp.mixture.bank.Bank` by default.
        starts: Number of first measurements that determine the units of y, time and context.
        maximize: False to minimise.
    """
    # benchmarks/results/ablations.md compares other widths.
    width = Logarithmic() if width is None else width
    bank = Bank() if bank is None else bank
    return Adaptive(bank=bank, starts=starts, width=width, maximize=maximize)


@preset(
    "SparQ-GP-UCB, SparQ",
    "vermilion dashdot",
    "none | σ² | an expert's answers of this round | heteroscedastic | [M]",
    compared="steps, width",
)
def sparq_gp_ucb(*, c_Q: float = 1.0, steps: Steps = None, **common: Unpack[Bounded]) -> SparQ:
    """SparQ-GP-UCB, [M] Algorithm 1: after every round an expert measures some past points again.

    Predictions use only the newest answers of the expert. The default width is
    :class:`~botorch_tv.acquisition.Heteroscedastic`.

    A round consists of the calls ``tell``, ``consult``, ``absorb`` and ``ask``. If no answers are
    absorbed, ``ask`` warns and uses the data available; see :class:`~botorch_tv.experts.SparQ`.

    Args:
        c_Q: Factor in the number of points; see :class:`~botorch_tv.experts.Refresh`.
        steps: The method that draws the points; see :class:`~botorch_tv.experts.Refresh`.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return SparQ(refresh=Refresh(EveryRound(), c_Q, steps), **with_width(common, width))


@preset(
    "W-SparQ-GP-UCB, W-SparQ",
    "purple dotted",
    "none | σ² (1 + age^α) | an expert's answers and newer observations | heteroscedastic | [M]",
    compared="steps, width",
)
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

    A window lasts until the next question to the expert; within a window, ordinary observations are
    added to the expert's answers. The lengths of windows grow slowly. With α = 2 and α~ = 1/4,
    windows that start in round 255 or earlier last two rounds, and the first window of three rounds
    starts in round 257.

    Args:
        alpha: Exponent of the growth of noise with age; ``alpha`` and ``alpha_tilde`` determine the
            windows; see :class:`~botorch_tv.experts.Windows`.
        alpha_tilde: See :class:`~botorch_tv.experts.Windows`.
        inflate: Whether the noise variance of an answer or observation is σ² (1 + lag^alpha), as in
            [M] §2. If False, the noise variance is σ²; this is another interpretation of "standard
            GP-UCB" in [M] §3.3.
        c_Q: Factor in the number of points; see :class:`~botorch_tv.experts.Refresh`.
        steps: The method that draws the points; see :class:`~botorch_tv.experts.Refresh`.
    """
    width = Heteroscedastic(B=common["B"], delta=common["delta"])
    return SparQ(
        inflation=UncertaintyInjection(alpha) if inflate else Static(),
        refresh=Refresh(Windows(alpha, alpha_tilde), c_Q, steps),
        **with_width(common, width),
    )


def _igp_width(common: SubGaussian, parts: int = 1) -> IGPUCB:
    """The width of IGP-UCB with failure probability ``delta / parts``."""
    whole = IGPUCB(B=common["B"], R=_scale(common), delta=common["delta"])
    return whole if parts == 1 else replace(whole, delta=whole.delta / parts)


def _scale(common: SubGaussian) -> float:
    """The sub-Gaussian scale of the noise; its standard deviation by default."""
    R = common["R"]
    return require_noise("noise", common["noise"]) ** 0.5 if R is None else R


def _space_of(kernel: Kernel | Tensor) -> tuple[float | tuple[float, ...], float, float]:
    """Lengthscale, smoothness and variance of a kernel with a closed-form convolution."""
    inner, variance = kernel, 1.0
    if isinstance(kernel, ScaleKernel):
        inner, variance = kernel.base_kernel, float(kernel.outputscale.detach())
    if not isinstance(inner, (RBFKernel, MaternKernel)) or inner.active_dims is not None:
        raise ValueError(
            f"w_dbo: kernel is {shown(kernel)}, but it must be an RBFKernel or a MaternKernel over "
            "all coordinates, with or without a ScaleKernel, because the integrals of other "
            "squared kernels are not available."
        )
    lengths = tuple(inner.lengthscale.detach().double().reshape(-1).tolist())
    nu = float(inner.nu) if isinstance(inner, MaternKernel) else math.inf
    return lengths[0] if len(lengths) == 1 else lengths, nu, variance


if not TYPE_CHECKING:  # type checkers export the public functions above
    __all__ = list(PRESETS)
