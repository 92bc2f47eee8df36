"""The algorithms of the papers, by their names there.

Each is a composition of parts; the table in the package's README is this file at a glance. Every
preset takes the spatial ``kernel`` (a GPyTorch kernel or an M x M matrix), the ``noise`` variance,
its own parameters by the paper's names, and optionally ``width``, its confidence schedule,
``maximize`` (False where the smallest value is wanted) and ``mean``, the prior mean (a number or
``"estimated"``).

Default widths are those of the papers, and differ: ``Logarithmic(c1=0.8)`` for GP-UCB, R-GP-UCB,
TV-GP-UCB and UI-TVBO, ``c1=0.4`` for ET-GP-UCB, ``IGPUCB`` for IGP-UCB, GP-TS, BR-GP-UCB and
SW-GP-UCB, ``WGPUCB`` for WGP-UCB, ``Heteroscedastic`` for UI-GP-UCB and for SparQ-GP-UCB and
W-SparQ-GP-UCB, which consult an expert. Regret depends on the width as well as on forgetting, so a
comparison of ways to forget should pass the same ``width`` to all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    ExpectedImprovement,
    Exploration,
    Heteroscedastic,
    Logarithmic,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
    Width,
)
from botorch_tv.forgetting import (
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
from botorch_tv.inference.factor import Inference
from botorch_tv.strategies.core import Strategy
from botorch_tv.validation import require_noise

Mean = float | Literal["estimated"]


def gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """GP-UCB: forgets nothing. Width :class:`Logarithmic` unless given; [C17] §3.1 for another."""
    return Strategy(
        kernel=kernel,
        noise=noise,
        width=Logarithmic() if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def igp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    B: float = 1.0,
    R: float | None = None,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """IGP-UCB, [C17] Algorithm 1: forgets nothing; width from the information gain.

    ``B`` bounds the norm of the objective in the kernel's space, ``R`` is the sub-Gaussian scale of
    the noise (its standard deviation unless given), ``delta`` the chance that the band fails.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        width=_igp_width(B, R, noise, delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def gp_ts(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    B: float = 1.0,
    R: float | None = None,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """GP-TS, [C17] Algorithm 2: plays the best arm of a sample from GP(mean, v_t² c).

    v_t = B + R sqrt(2 (g + 1 + ln(2 / delta))) unless a ``width`` is given; ``B``, ``R`` and
    ``delta`` are as in :func:`igp_ucb`.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        width=_igp_width(B, R, noise, delta, parts=2) if width is None else width,
        exploration=Thompson(),
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def gp_ei(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """GP-EI, compared with in [C17] §6: expected improvement on the best posterior mean so far."""
    return _without_width(kernel, noise, ExpectedImprovement(), maximize, mean, inference)


def gp_pi(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """GP-PI, compared with in [C17] §6: probability of improvement, as :func:`gp_ei`."""
    return _without_width(kernel, noise, ProbabilityOfImprovement(), maximize, mean, inference)


def random_search(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """Uniform choices; the model serves predictions and recommendations only."""
    return _without_width(kernel, noise, UniformChoice(), maximize, mean, inference)


def r_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    period: float,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """R-GP-UCB, [B16] Algorithm 1: forgets everything every ``period`` rounds N."""
    return Strategy(
        kernel=kernel,
        noise=noise,
        retention=PeriodicReset(period),
        width=Logarithmic() if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def br_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    period: float,
    B: float = 1.0,
    R: float | None = None,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """BR-GP-UCB, quoted in [W22] §7: IGP-UCB restarted every ``period`` rounds H.

    H follows from a variation budget; ``B``, ``R`` and ``delta`` are as in :func:`igp_ucb`.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        retention=PeriodicReset(period),
        width=_igp_width(B, R, noise, delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def sw_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    window: float,
    B: float = 1.0,
    R: float | None = None,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """SW-GP-UCB, [W22] §7 and [ET] Appendix A: keeps the newest ``window`` rounds W.

    ``B``, ``R`` and ``delta`` are as in :func:`igp_ucb`.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        retention=SlidingWindow(window),
        width=_igp_width(B, R, noise, delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def tv_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    epsilon: float,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """TV-GP-UCB, [B16] Algorithm 2: a Markov objective with rate of change ``epsilon`` ε."""
    return Strategy(
        kernel=kernel,
        noise=noise,
        decay=Markov(epsilon),
        width=Logarithmic() if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def w_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    gamma: float,
    B: float = 1.0,
    R: float | None = None,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """WGP-UCB, [W22] Algorithm 1: an observation counts ``gamma`` times less with every round.

    ``noise`` is λ; ``B``, ``R`` and ``delta`` are as in :func:`igp_ucb`.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        inflation=ExponentialWeights(gamma),
        width=WGPUCB(B=B, R=_scale(R, noise), noise=noise, delta=delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def ui_tvbo(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    sigma_w2: float,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """UI-TVBO, compared with in [ET]: a random walk of variance ``sigma_w2`` per unit of time."""
    return Strategy(
        kernel=kernel,
        noise=noise,
        decay=Wiener(sigma_w2),
        width=Logarithmic() if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def ui_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    alpha: float,
    kappa: float = 1.0,
    B: float = 1.0,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """UI-GP-UCB, [M] §2: noise grows with age as σ² (1 + ``kappa`` lag^``alpha``).

    ``B`` and ``delta`` are as in :func:`igp_ucb`.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        inflation=UncertaintyInjection(alpha, kappa),
        width=Heteroscedastic(B=B, delta=delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def et_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    delta: float = 0.1,
    rule: TriggerRule = prediction_error,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> Strategy:
    """ET-GP-UCB, [ET] Algorithm 1: forgets when an observation contradicts the model.

    ``delta`` is δ_B, the chance of a false alarm on an objective that stands still; ``rule`` is the
    test, the paper's unless given.
    """
    return Strategy(
        kernel=kernel,
        noise=noise,
        retention=EventTrigger(delta, rule),
        width=Logarithmic(c1=0.4, c2=4.0) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def _without_width(
    kernel: Kernel | Tensor,
    noise: float,
    exploration: Exploration,
    maximize: bool,
    mean: Mean,
    inference: Inference,
) -> Strategy:
    return Strategy(
        kernel=kernel,
        noise=noise,
        exploration=exploration,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def _igp_width(B: float, R: float | None, noise: float, delta: float, parts: int = 1) -> IGPUCB:
    """The width whose failure probability is one of some equal parts of ``delta``."""
    whole = IGPUCB(B=B, R=_scale(R, noise), delta=delta)
    return whole if parts == 1 else replace(whole, delta=whole.delta / parts)


def _scale(R: float | None, noise: float) -> float:
    """The sub-Gaussian scale of the noise: its standard deviation unless given."""
    return require_noise("noise", noise) ** 0.5 if R is None else R
