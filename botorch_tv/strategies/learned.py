"""Hyperparameters that a strategy on a box learns as it goes, each trial its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import claims
from botorch_tv.forgetting.static import is_static
from botorch_tv.learning.fit import learn
from botorch_tv.learning.layout import layout
from botorch_tv.learning.learnable_kernel import LearnableKernel
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.evidence import retained
from botorch_tv.strategies.state import State
from botorch_tv.strategies.surface import Surface

if TYPE_CHECKING:
    from botorch_tv.strategies.core import Strategy


def require_learnable(strategy: Strategy, box: Box, refit: Refit) -> None:
    """Raise unless hyperparameters can be learned, which would else show after some rounds.

    Raises:
        InputDataError: If the kernel is of another kind than can be learned.
        ValueError: If a parameter lies outside the bounds of ``refit``, or a decay declares none.
    """
    assert isinstance(strategy.kernel, Kernel)
    parts = LearnableKernel.of(strategy.kernel)
    sides = parts.columns(box.extent.unsqueeze(0))[0]
    if layout(refit, parts, strategy.decay, strategy.noise, sides).learns_decay:
        claims.require_learnable(strategy.decay)


def relearned(strategy: Strategy, state: State, refit: Refit) -> State:
    """The state with hyperparameters learned anew from the observations each trial keeps.

    Args:
        strategy: Whose prior mean, noise and forgetting are where learning starts.
        state: All that has been told, on a box.
        refit: What is learned.
    """
    box, surface = state.domain, state.basis
    assert isinstance(box, Box)
    assert isinstance(surface, Surface)
    given, trials = surface.unlearned(), state.time.numel()
    rows = retained(state, strategy.retention, state.time)
    known_mean = None if isinstance(strategy.mean, str) else strategy.mean
    lag = state.time.unsqueeze(-1) - rows.time

    def flat(part: Tensor) -> Tensor:
        return part.reshape(trials, *part.shape[state.time.dim() :])

    learned = learn(
        refit,
        given.kernel,
        strategy.decay,
        strategy.noise,
        flat(rows.choice),
        # Times before the origin belong to rows that are not kept; any will do for them.
        flat((rows.time - rows.origin).clamp_min(0)),
        flat(rows.y - (known_mean or 0.0)),
        flat(rows.kept & rows.noise.isfinite()),
        flat(rows.noise / strategy.noise),
        surface.parameters,
        inflation=None
        if is_static(strategy.inflation)
        else flat(strategy.inflation.log_factor(lag).exp()),
        estimates_mean=known_mean is None,
        extent=box.extent,
    )
    return state._replace(
        basis=replace(
            surface,
            kernel=learned.kernel,
            decay=None if is_static(strategy.decay) else learned.decay.reshaped(state.time.shape),
            noise_factor=learned.noise / strategy.noise,
            given=given,
            parameters=learned.vector,
        )
    )
