"""An expert's answers: how they are checked, stored, and joined with the log."""

from __future__ import annotations

import math

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.inference.data import Data, History
from botorch_tv.inference.tensors import Rows
from botorch_tv.strategies.checks import require_same_kind
from botorch_tv.strategies.consultation import Consultation, ExpertData
from botorch_tv.strategies.state import State
from botorch_tv.validation import of_trial


def check_order(state: State, consultation: Consultation) -> None:
    """Raise an ``InputDataError`` unless the consultation is past and newer than those absorbed."""
    if consultation.told > state.told:
        raise InputDataError(
            f"the consultation follows round {consultation.told}, but the state has been told "
            f"{state.told} rounds; pass the state that was consulted, or a later one."
        )
    if state.expert is not None and state.expert.told >= consultation.told:
        raise InputDataError(
            f"the consultation follows round {consultation.told}, but answers of round "
            f"{state.expert.told} have been absorbed already; each is absorbed once, and "
            "answers that come after newer ones are dropped."
        )


def check_shapes(state: State, consultation: Consultation, y: Tensor, ok: Tensor | None) -> None:
    """Raise an ``InputDataError`` unless there is one answer per point, of the state's kind."""
    wanted = tuple(consultation.mask.shape)
    if wanted[:-1] != tuple(state.time.shape):
        raise InputDataError(
            f"the consultation is of trials {wanted[:-1]}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; consult the state itself."
        )
    for name, tensor in (("y", y), ("ok", ok)):
        if name == "ok" and tensor is None:
            continue
        if not isinstance(tensor, Tensor) or tuple(tensor.shape) != wanted:
            given = tuple(tensor.shape) if isinstance(tensor, Tensor) else repr(tensor)
            kind = state.basis.variance.dtype if name == "y" else torch.bool
            raise InputDataError(
                f"{name} is {given}, but the expert was asked about points of shape {wanted}; "
                f"give one value per point, torch.tensor(values, dtype={kind}), and ok=False for "
                "points without answer."
            )
    require_same_kind("y", y, state)
    if ok is not None and (ok.dtype != torch.bool or ok.device != y.device):
        raise InputDataError(f"ok is {ok.dtype} on {ok.device}; pass a bool on {y.device}.")


def check_values(y: Tensor, answered: Tensor) -> None:
    """Raise an ``InputDataError`` naming the first answer that is not finite."""
    good = y.isfinite() | ~answered
    if bool(good.all()):
        return
    *trial, number = (~good).nonzero()[0].tolist()
    raise InputDataError(
        f"answer number {number}{of_trial(trial)} is {y[(*trial, number)].item()}, but answers are "
        "finite; pass ok=False for points that the expert did not answer."
    )


def kept_where(old_trials: Tensor, old: ExpertData, new: ExpertData) -> ExpertData:
    """New answers, but in some trials the points, values and time of the old ones."""
    count = max(old.y.shape[-1], new.y.shape[-1])
    keep = old_trials.unsqueeze(-1)

    def widened(part: Tensor, fill: float, dim: int) -> Tensor:
        shape = list(part.shape)
        shape[dim] = count - shape[dim]
        return torch.cat([part, part.new_full(shape, fill)], dim)

    place = old_trials.dim()
    wide = keep.unsqueeze(-1) if new.choice.dim() > keep.dim() else keep
    return new._replace(
        choice=torch.where(wide, widened(old.choice, 0, place), widened(new.choice, 0, place)),
        y=torch.where(keep, widened(old.y, 0.0, place), widened(new.y, 0.0, place)),
        noise=torch.where(
            keep, widened(old.noise, math.inf, place), widened(new.noise, math.inf, place)
        ),
        time=torch.where(old_trials, old.time, new.time),
    )


def with_answers(data: Data, expert: ExpertData | None) -> Data:
    """Data whose log begins with the expert's answers, to be read by an inference only."""
    if expert is None:
        return data
    log, first, dim = data.history, data.dropped, data.time.dim()
    time = expert.time.unsqueeze(-1).expand(expert.y.shape)

    def joined(answers: Tensor, observations: Rows) -> Rows:
        return Rows.of(torch.cat([answers, observations.tensor(first)], dim), dim)

    history = History(
        choice=joined(expert.choice, log.choice),
        y=joined(expert.y, log.y),
        noise=joined(expert.noise, log.noise),
        time=joined(time, log.time),
    )
    mask = data.mask
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (expert.y.shape[-1], 0), value=1)
    whole = data._replace(
        rounds=len(history.y), dropped=0, retained=mask, aside=None, history=history
    )
    return whole if data.empty is None else whole._replace(empty=~whole.good.any(-1))
