"""The algorithms of [M] that consult an expert, by their names there.

Their default width, that of the paper's theory, explores more than those of most presets in
:mod:`botorch_tv.strategies.presets`: in a comparison pass the same ``width`` to all.
"""

from __future__ import annotations

from typing import Literal

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Heteroscedastic, Width
from botorch_tv.experts.dpp import Steps
from botorch_tv.experts.refresh import EveryRound, Refresh, Windows
from botorch_tv.experts.sparq import SparQ
from botorch_tv.forgetting import Static, UncertaintyInjection
from botorch_tv.inference.factor import Inference

Mean = float | Literal["estimated"]


def sparq_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    c_Q: float = 1.0,
    steps: Steps = None,
    B: float = 1.0,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> SparQ:
    """SparQ-GP-UCB, [M] Algorithm 1: after every round an expert measures some past points again.

    Regression is on the newest answers alone. ``c_Q`` and ``steps`` say how many points and how
    they are drawn, see :class:`~botorch_tv.experts.Refresh`; ``B`` bounds the norm of the
    objective in the kernel's space, ``delta`` is the chance that the regret bound fails; width
    :class:`~botorch_tv.acquisition.Heteroscedastic` unless given.

    A round is ``tell``, ``consult``, ``absorb``, ``ask``; where no answers were absorbed, ``ask``
    warns and goes on with the data there are, see :class:`~botorch_tv.experts.SparQ`.
    """
    return SparQ(
        kernel=kernel,
        noise=noise,
        refresh=Refresh(EveryRound(), c_Q, steps),
        width=Heteroscedastic(B=B, delta=delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )


def w_sparq_gp_ucb(
    *,
    kernel: Kernel | Tensor,
    noise: float,
    alpha: float,
    alpha_tilde: float = 0.25,
    inflate: bool = True,
    c_Q: float = 1.0,
    steps: Steps = None,
    B: float = 1.0,
    delta: float = 0.1,
    width: Width | None = None,
    maximize: bool = True,
    mean: Mean = 0.0,
    inference: Inference = "auto",
) -> SparQ:
    """W-SparQ-GP-UCB, [M] Algorithm 2: an expert is asked at the start of every window.

    Within a window ordinary observations are added. ``alpha`` is the exponent of the growth of
    noise with age and with ``alpha_tilde`` decides the windows, see
    :class:`~botorch_tv.experts.Windows`. They grow slowly: with α = 2 and α~ = 1/4 all that start
    up to round 255 last two rounds, and the first longer one, of three, starts in round 257. With
    ``inflate`` the noise of an answer or observation is σ² (1 + lag^``alpha``), [M] §2; without it
    is σ², which is how "standard GP-UCB" in [M] §3.3 can be read too. The other arguments are those
    of :func:`sparq_gp_ucb`.
    """
    return SparQ(
        kernel=kernel,
        noise=noise,
        inflation=UncertaintyInjection(alpha) if inflate else Static(),
        refresh=Refresh(Windows(alpha, alpha_tilde), c_Q, steps),
        width=Heteroscedastic(B=B, delta=delta) if width is None else width,
        maximize=maximize,
        mean=mean,
        inference=inference,
    )
