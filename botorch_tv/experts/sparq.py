"""SparQ-GP-UCB and W-SparQ-GP-UCB: bandits with an expert who measures past points again.

[M] Algorithms 1 and 2. A round is: ``tell`` the observation, ``consult`` for the expert's questions
about f now, ``absorb`` the answers, ``ask`` for the next choice.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.experts.answers import (
    check_order,
    check_shapes,
    check_values,
    kept_where,
    with_answers,
)
from botorch_tv.experts.asking import draw_points
from botorch_tv.experts.refresh import Never, Refresh
from botorch_tv.forgetting import Kept
from botorch_tv.inference.arms import ArmRegression
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.data import Data, Prior
from botorch_tv.inference.points import PointRegression
from botorch_tv.inference.protocol import Inference
from botorch_tv.inference.tensors import without_gradients
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.checks import require_state
from botorch_tv.strategies.consultation import Consultation, ExpertData, ExpertWarning
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.draws import Draws, Generators, draws_from
from botorch_tv.strategies.parts import require_left_out
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require


@dataclass(frozen=True, kw_only=True, repr=False)
class SparQ(Strategy):
    """A strategy that consults an expert.

    Regression uses the newest answers and the observations made after the round of that
    consultation. Older observations, including that round's, are set aside; only their points are
    kept, as candidates for the next consultation. Answers and observations age from their own
    times.

    The expert may be slow: answers absorbed rounds later are dated to the time they are about, and
    later observations are kept beside them. It may answer only some of the points (``ok``),
    different ones in each trial. A trial without any answer continues with the data it has, and
    :meth:`ask` issues an :class:`ExpertWarning` if an expert was due after the newest round but no
    answers have been absorbed since, because :meth:`consult` and :meth:`absorb` were not called or
    the expert is slow or absent. ``warnings.simplefilter("ignore", ExpertWarning)`` silences it.

    Args:
        refresh: When the expert is asked, and about how many points.

    Raises:
        ValueError: If the retention is not :class:`KeepAll`, since consultations decide what is
            kept, or if hyperparameters are to be learned, which uses observations only.
    """

    refresh: Refresh = field(default_factory=Refresh)

    consults: ClassVar[bool] = True
    _replaces_data: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.refresh, Refresh),
            f"SparQ: refresh is {self.refresh!r}, but it must be a Refresh.",
        )
        require_left_out(
            self,
            {
                "retention": "the consultations decide which data are kept; leave it out",
                "learning": "it would not see the expert's answers; leave it out",
            },
        )

    def _initial(self, domain: Domain, basis: Prior, shape: Size) -> State:
        if domain.columns > domain.dim:
            raise InputDataError(
                f"{domain!r} has a context, but an expert asked about an old point now would need "
                "to know which; use a Box without context_dim."
            )
        return super()._initial(domain, basis, shape)

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """How the posterior is computed on a domain: regression, since answers replace data."""
        return (PointRegression if isinstance(domain, Box) else ArmRegression)(
            self.process, samples=self.exploration.samples
        )

    def _data_at(self, state: State, now: Tensor) -> Data:
        return with_answers(super()._data_at(state, now), state.expert)

    def _ask(
        self, state: State, now: float | Tensor | None, context: Tensor | None, draws: Draws
    ) -> Suggestion:
        self.warn_of_absence(state, stacklevel=5)
        return super()._ask(state, now, context, draws)

    def without_expert(self) -> SparQ:
        return replace(self, refresh=replace(self.refresh, schedule=Never()))

    def warn_of_absence(self, state: State, stacklevel: int = 2) -> None:
        answered = 0 if state.expert is None else state.expert.told
        if self.refresh.due(state.told) and answered < state.told:
            warnings.warn(
                f"the expert was to be asked after round {state.told}, but no answers have been "
                f"absorbed since round {answered}; round {state.told + 1} is decided with the "
                "data there are. Call consult() and absorb() between tell() and ask().",
                ExpertWarning,
                stacklevel=stacklevel,
            )

    @without_gradients
    def consult(
        self, state: State, *, generator: Generators | Draws | None = None
    ) -> Consultation | None:
        """What to ask the expert now; call it between :meth:`tell` and the next :meth:`ask`.

        The points are drawn from the distinct points chosen so far by a k-DPP of the kernel, with
        k = min(their number, the numerical rank of K on them, ⌈c_Q ln^d(t + 1)⌉).

        Args:
            state: The current state.
            generator: As in :meth:`Strategy.ask`.

        Returns:
            The points whose current values are wanted; None if no consultation is due.

        Raises:
            InputDataError: If there is not one generator per trial.
        """
        require_state(state)
        if not self.refresh.due(state.told):
            return None
        size = self.refresh.queries(state.told, state.domain.dim)
        draws = draws_from(generator, state)
        choice, mask = draw_points(state, size, draws, self.refresh.steps)
        return Consultation(
            X=state.domain.points(choice, state.basis.variance).clone(),
            choice=choice,
            mask=mask,
            time=state.time.clone(),
            told=state.told,
            limit=min(size, state.told),
        )

    def _absorb(
        self, state: State, consultation: Consultation, y: Tensor, ok: Tensor | None, check: bool
    ) -> State:
        check_order(state, consultation)
        check_shapes(state, consultation, y, ok)
        answered = consultation.mask if ok is None else consultation.mask & ok
        if check:
            check_values(y, answered)
        any_answer = answered.any(-1)
        looks = check or y.device.type == "cpu"
        all_trials = ok is None or (looks and bool(any_answer.all()))
        if check and not all_trials:
            warnings.warn(
                f"the expert gave no answer at all in {int((~any_answer).sum())} of "
                f"{any_answer.numel()} trials after round {consultation.told}; they go on with the "
                "data they have.",
                ExpertWarning,
                stacklevel=4,  # that of the caller of absorb
            )
        asked = consultation.side_queries
        expert = ExpertData(
            choice=consultation.choice,
            y=torch.where(answered, y, 0.0),
            noise=torch.full_like(y, self.noise).masked_fill_(~answered, math.inf),
            time=consultation.time,
            told=consultation.told,
            asked=asked if state.expert is None else state.expert.asked + asked,
            unanswered=asked - answered.sum(-1),
        )
        if state.expert is not None and not all_trials:
            expert = kept_where(~any_answer, state.expert, expert)
        newer = state.told - consultation.told
        where = None if all_trials else any_answer
        data, _ = state.data.keep([Kept(newest=newer, where=where)])
        origin = torch.minimum(data.origin, consultation.time)
        data = data._replace(origin=torch.where(any_answer, origin, data.origin))
        return state._replace(expert=expert, data=data)

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        points = min(horizon, state.basis.arms) if isinstance(state.basis, Basis) else horizon
        asked = min(points, self.refresh.queries(horizon, state.domain.dim))
        drawing = 2 * points**2 + 3 * points * asked
        return super().numbers_per_trial(state, horizon, trials) + drawing
