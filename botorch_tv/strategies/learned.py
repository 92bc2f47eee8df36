"""Hyperparameters that a strategy on a box learns as it goes, each trial its own."""

from __future__ import annotations

from dataclasses import replace

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import claims
from botorch_tv.forgetting.base import is_static
from botorch_tv.inference.box import BoxPrior
from botorch_tv.inference.process import Process
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning.fit import learn
from botorch_tv.learning.layout import layout
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.state import State


def require_learnable(process: Process, box: Box, refit: Refit) -> None:
    """Raise unless hyperparameters can be learned, which would else show after some rounds.

    Raises:
        InputDataError: If the kernel is of another kind than can be learned.
        ValueError: If a parameter lies outside the bounds of ``refit``, or a decay declares none.
    """
    assert isinstance(process.kernel, Kernel)
    parts = LearnableKernel.of(process.kernel)
    sides = parts.columns(box.extent.unsqueeze(0))[0]
    if layout(refit, parts, process.decay, process.noise, sides).learns_decay:
        claims.require_learnable(process.decay)


def relearned(process: Process, state: State, refit: Refit) -> State:
    """The state with hyperparameters learned anew from the observations each trial keeps.

    Args:
        process: Whose prior mean, noise and forgetting are where learning starts.
        state: All that has been told, on a box.
        refit: What is learned.
    """
    box, box_prior = state.domain, state.basis
    assert isinstance(box, Box)
    assert isinstance(box_prior, BoxPrior)
    given, trials = box_prior.unlearned(), state.time.numel()
    data, first, known_mean = state.data, state.data.dropped, process.known_mean
    choice, y, noise, time = (one.tensor(first) for one in data.history)
    lag = state.time.unsqueeze(-1) - time

    def flat(part: Tensor) -> Tensor:
        return part.reshape(trials, *part.shape[state.time.dim() :])

    learned = learn(
        refit,
        given.kernel,
        process.decay,
        process.noise,
        flat(choice),
        # Times before the origin belong to rows that are not kept; any will do for them.
        flat((time - data.origin.unsqueeze(-1)).clamp_min(0)),
        flat(y - (known_mean or 0.0)),
        flat(data.kept & noise.isfinite()),
        flat(noise / process.noise),
        box_prior.parameters,
        inflation=None
        if is_static(process.inflation)
        else flat(process.inflation.log_factor(lag).exp()),
        estimates_mean=known_mean is None,
        extent=box.extent,
    )
    found = replace(
        box_prior,
        kernel=learned.kernel,
        decay=None if is_static(process.decay) else learned.decay.reshaped(state.time.shape),
        noise_factor=learned.noise / process.noise,
        given=given,
        parameters=learned.vector,
    )
    return state._replace(data=data._replace(prior=found))
