"""Inference on an expert's answers beside the log of observations."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.inference.regression import Evidence
from botorch_tv.inference.rows import Rows
from botorch_tv.strategies.arms import FromLog
from botorch_tv.strategies.continuous import OnBox
from botorch_tv.strategies.state import History, State


class OnArmsWithExpert(FromLog):
    """Regression over the arms of a grid."""

    def evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        return super().evidence(with_answers(state), now, reference, inflation_power)


class OnBoxWithExpert(OnBox):
    """Regression at any points of a box."""

    def evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        return super().evidence(with_answers(state), now, reference, inflation_power)


def with_answers(state: State) -> State:
    """A state whose log begins with the expert's answers, to be read by an inference only.

    Of the observations those remain that the state keeps; the others have infinite noise.
    """
    expert, log, first = state.expert, state.history, state.dropped
    if expert is None:
        return state
    dim = state.time.dim()
    number = torch.arange(first, state.told, device=state.time.device)
    kept = number >= state.start.unsqueeze(-1)
    noise = torch.where(kept, log.noise.tensor(first), torch.inf)
    time = expert.time.unsqueeze(-1).expand(expert.y.shape)

    def joined(answers: Tensor, observations: Tensor) -> Rows:
        return Rows.of(torch.cat([answers, observations], dim), dim)

    history = History(
        choice=joined(expert.choice, log.choice.tensor(first)),
        y=joined(expert.y, log.y.tensor(first)),
        noise=joined(expert.noise, noise),
        time=joined(time, log.time.tensor(first)),
    )
    return state._replace(
        told=len(history.y), dropped=0, start=torch.zeros_like(state.start), history=history
    )
