"""A round of a strategy that predicts by one process: retain, predict, explore, and observe."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition import DoublyWeighted, Exploration, UniformChoice, Width, WidthContext
from botorch_tv.acquisition.exploration import BestMean, draws_numbers
from botorch_tv.forgetting import Kept, Log, Observation
from botorch_tv.forgetting.base import Part, as_memory
from botorch_tv.inference.arms import ArmInference, per_trial
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.data import Data, Present, Prior, checked
from botorch_tv.inference.mixture.bank import BankPrior
from botorch_tv.inference.mixture.posterior import PointMixture
from botorch_tv.inference.points import PointInference, PointPosterior
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Inference, Joint
from botorch_tv.inference.tensors import repeated, without_gradients
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates import WATCHED, ArmCandidates, BoxCandidates, Functions, Round
from botorch_tv.strategies.checks import (
    Measured,
    as_time,
    require_begun_with,
    require_forward,
    require_state,
)
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import (
    Draws,
    Info,
    Memory,
    State,
    Suggestion,
    draws_from,
    leading_normals,
)
from botorch_tv.validation import require_trials, shown


class ProcessStrategy(Strategy):
    """A strategy whose posterior is that of one process.

    ``ask`` retains, predicts and explores; ``tell`` checks, observes and retains.
    """

    width: Width
    """The confidence schedule."""
    exploration: Exploration
    """How the posterior becomes a choice."""

    # ---------------------------------------------------------------- what a kind may define

    def _relearned(self, state: State) -> State:
        """The state after hyperparameters were learned anew, where that is due."""
        return state

    def _in_use(self, data: Data, state: State) -> Data:
        """The data that predictions are computed from, given those retained."""
        return data

    # ---------------------------------------------------------------- the rounds

    def _ask(
        self, state: State, now: float | Tensor | None, context: Tensor | None, draws: Draws
    ) -> Suggestion:
        decision = self.decision(state, now, context)
        return self._suggestion(decision, self._chosen(decision, draws))

    def decision(
        self,
        state: State,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
    ) -> Decision:
        """The posterior and everything else that the choice of a round depends on.

        Args:
            state: The current state.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
        """
        require_state(state)
        if now is None:
            present = Present(state.data.time + self.step(state), state.data.time)
        else:
            time = as_time(state, now, "now")
            require_forward(state, time, "now")
            present = Present(time, time)
        return Decision(
            process=self.process,
            inference=self.inference_for(state.domain, state.data.prior),
            width=self.width,
            sign=1 if self.maximize else -1,
            state=state,
            data=self._data_at(state, present.now),
            present=present,
            context=context,
        )

    def _chosen(self, decision: Decision, draws: Draws) -> Choice:
        """The choice of a round."""
        return decision.chosen(self.exploration, draws)

    def _suggestion(self, decision: Decision, choice: Choice) -> Suggestion:
        domain, sqrt_beta = decision.state.domain, choice.sqrt_beta
        if not isinstance(sqrt_beta, Tensor):
            sqrt_beta = torch.full_like(choice.mean, sqrt_beta)
        return Suggestion(
            X=domain.points(choice.choice, decision.data.prior.variance),
            index=choice.choice if isinstance(domain, Grid) else None,
            mean=choice.mean,
            sd=choice.sd,
            sqrt_beta=sqrt_beta.to(choice.mean),
            time=decision.present.now,
            made_by=self._fingerprint,
        )

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        suggestion, all_good = measured.suggestion, measured.ok is None
        inference = self.inference_for(state.domain, state.data.prior)
        believed = inference.believed_noise(state.data, measured.noise)
        newest = Observation(suggestion.X, measured.y, suggestion.mean, suggestion.sd, believed)
        before, expired = self._retained(state, measured.time)
        grown = before.observed(
            suggestion.choice,
            measured.y,
            measured.noise,
            measured.time,
            measured.least_noise,
            all_good=all_good,
        )
        answers: list[Kept | Tensor] = []
        if self.process.retention:
            answers = self._answers(state, grown, grown.time, before.since, newest)
        after, change = grown.keep(answers, all_good=all_good)
        advanced = state._replace(
            data=inference.observe(
                before, after, change, consume=consume and before.running is state.data.running
            )
        )
        if expired is not None and change.reset is not None:
            reset = expired | change.reset
        elif expired is not None or change.reset is not None:
            reset = (change.reset if expired is None else expired).clone()  # type: ignore[union-attr]
        else:
            reset = torch.zeros_like(measured.time, dtype=torch.bool)
        if self._remembers:
            advanced = advanced._replace(memory=self._remembered(advanced, newest, reset))
        advanced = self._relearned(advanced)
        since = state.data.since
        asked = repeated(0, since.shape, since.dtype, since.device)
        if state.expert is not None:  # what was asked since the last round, reported once
            none, asked = torch.zeros_like(asked), state.expert.asked
            advanced = advanced._replace(expert=state.expert._replace(asked=none))
        return advanced, Info(reset, asked, suggestion.sd, believed)

    # ---------------------------------------------------------------- what is retained

    def _data_at(self, state: State, now: Tensor) -> Data:
        """The data in use at time ``now``, `batch_shape`."""
        return self._in_use(self._retained(state, now)[0], state)

    def _retained(self, state: State, now: Tensor) -> tuple[Data, Tensor | None]:
        """What is left of the data when a round is decided at time ``now``, `batch_shape`.

        Returns:
            The data, and which trials have been reset, `batch_shape`, bool; None for none.
        """
        rules = len(self.process.retention)
        if state.begun_with is not self._begun or len(state.memory.retention) != rules:
            require_begun_with(state, self._begun, rules)
        data = state.data
        if self._timeless or data.rounds == data.dropped:
            return data, None
        after, change = data.keep(self._answers(state, data, now, data.since))
        inference = self.inference_for(state.domain, data.prior)
        return inference.keep(data, after, change), change.reset

    def _answers(
        self,
        state: State,
        data: Data,
        now: Tensor,
        since: Tensor,
        newest: Observation | None = None,
    ) -> list[Kept | Tensor]:
        """What each rule retains.

        Args:
            state: Where rules have their memory.
            data: What they are asked about.
            now: When, `batch_shape`.
            since: Rounds since the last reset, `batch_shape`.
            newest: The observation just made; None before a choice.

        Raises:
            InputDataError: If a rule writes into the log.
        """
        answers, rows = [], _Rows(state.domain, data)
        for rule, memory in zip(self.process.retention, state.memory.retention):
            log = Log(
                rows,
                now=now,
                rounds=data.rounds,
                since=since,
                first_time=data.first_time,
                newest=newest,
                memory=memory,
            )
            answer = checked(_watched(rule, "keep", log), data.time, data.rounds - data.dropped)
            answers.append(_owned(answer))
        return answers

    def _remembered(self, state: State, newest: Observation, reset: Tensor) -> Memory:
        """What parts remember after a round.

        Args:
            state: After the round, its memory still that of before.
            newest: The observation.
            reset: Which trials were reset in the round, `batch_shape`, bool.
        """
        data, rows = state.data, _Rows(state.domain, state.data)

        def updated(part: Part, memory: Any) -> Any:
            log = Log(
                rows,
                now=data.time,
                rounds=data.rounds,
                since=data.since,
                first_time=data.first_time,
                newest=newest,
                reset=reset,
                memory=memory,
            )
            made = _watched(part, "update", log)
            return as_memory(part, made, memory, data.prior.variance, reset.shape)

        own = state.memory
        return Memory(
            tuple(updated(rule, one) for rule, one in zip(self.process.retention, own.retention)),
            updated(self.exploration, own.exploration),
        )

    @functools.cached_property
    def _timeless(self) -> bool:
        """Whether no rule retains less before a choice than after the newest observation."""
        return all(rule.on_observation for rule in self.process.retention)

    @functools.cached_property
    def _remembers(self) -> bool:
        """Whether any part has a memory of its own."""
        parts = (*self.process.retention, self.exploration)
        return any(type(one).update is not Part.update for one in parts)

    # ---------------------------------------------------------------- the rest of the contract

    @property
    def draws(self) -> bool:
        """Whether choices may take random numbers: all but those known to take none."""
        return draws_numbers(self.exploration)

    @functools.cached_property
    def compares(self) -> bool:
        """Whether any part may look at what was predicted of an observation."""
        return self.process.reacts or type(self.exploration).update is not Part.update

    def _initial(self, domain: Domain, prior: Prior, shape: Size) -> State:
        """The state before the first round, given the prior on the domain."""
        choices = domain.no_choices(shape, dtype=prior.variance.dtype, device=prior.variance.device)
        data = Data.none(prior, choices, self.process.noise, shape)
        parts = (*self.process.retention, self.exploration)
        made = [as_memory(one, one.init(shape), None, prior.variance, shape) for one in parts]
        return State(
            domain=domain,
            data=data._replace(running=self.inference_for(domain, prior).start(prior, shape)),
            memory=Memory(retention=tuple(made[:-1]), exploration=made[-1]),
            begun_with=self._begun,
        )

    def _init_like(self, state: State, shape: Size) -> State:
        return self._initial(state.domain, state.basis.unlearned(), shape)

    def _suggestion_at(
        self, state: State, choice: Tensor, now: float | Tensor | None
    ) -> Suggestion:
        decision = self.decision(state, now)
        return self._suggestion(decision, decision.at(choice))

    def _best(
        self, state: State, now: float | Tensor | None, context: Tensor | None, caution: float
    ) -> Tensor:
        decision = self.decision(state, now, context)
        return decision.chosen(BestMean(caution=caution), draws_from(None, state)).choice

    def _joint(self, state: State, choice: Tensor, now: float | Tensor | None) -> Joint:
        return self.decision(state, now).joint(choice)

    @without_gradients
    def arm_means(self, state: State) -> Tensor:
        """The posterior mean of f on all arms of a grid, one :meth:`step` after the newest data.

        Args:
            state: The current state.

        Returns:
            `batch_shape x M`, the prior mean included.
        """
        return self.decision(state).arm_means()

    def believed_noise(self, state: State) -> Tensor:
        """Noise variance of a new observation, as learned or given, `batch_shape`."""
        return believed_noise(self.inference_for(state.domain, state.basis), state.data)

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        """The threshold on |y - mean| above which a trigger resets, `batch_shape`.

        The smallest of all rules; None if no rule has one.

        Args:
            state: The state that made the suggestion.
            suggestion: Where it will be measured.
        """
        data = self._data_at(state, suggestion.time)
        noise = self.believed_noise(state)
        bands = [rule.band(suggestion.sd, noise, data.since) for rule in self.process.retention]
        found = [band for band in bands if band is not None]
        return torch.stack(found).amin(0) if found else None

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        """Numbers held in memory per trial by round ``horizon``, for sizing batches.

        An upper bound; on a grid the actual number is smaller when arms are played repeatedly.

        Args:
            state: Any state of this strategy.
            horizon: Rounds.
            trials: Trials that run together, among which some memory is shared.
        """
        domain, search = state.domain, 0
        inference = self.inference_for(domain, state.basis)
        if isinstance(domain, Box) and type(self.exploration) is not UniformChoice:
            looks = inference.looks(state.data, horizon)
            search = -(-domain.search.numbers(domain.dim, looks, trials) // trials)
        return inference.numbers_per_trial(state.data, horizon, trials, search)


class Choice(NamedTuple):
    """A point and what is predicted there, for every trial."""

    choice: Tensor
    """The arm, `batch_shape`, or the point with its context, `batch_shape x (d + c)`."""
    mean: Tensor
    """`batch_shape`."""
    sd: Tensor
    """`batch_shape`."""
    sqrt_beta: float | Tensor
    """√beta, a number or `batch_shape`."""


@dataclass(frozen=True)
class Decision:
    """A round that is to be decided: what is known of f now, and what is chosen.

    Attributes:
        process: What a posterior depends on besides the data.
        inference: How it is computed.
        width: The confidence schedule.
        sign: 1 where the largest value is wanted, -1 where the smallest is.
        state: All that has been observed.
        data: What is in use of it now.
        present: When it is decided.
        context: What is known before the choice, `batch_shape x c`; None where nothing is.
    """

    process: Process
    inference: Inference
    width: Width
    sign: int
    state: State
    data: Data
    present: Present
    context: Tensor | None = None

    def chosen(self, exploration: Exploration, draws: Draws) -> Choice:
        """The choice of an exploration."""
        on_arms = isinstance(self.state.domain, Grid)
        candidates, offset = (self._arms if on_arms else self._points)(exploration, draws)
        choice = _valid(exploration, exploration.choose(candidates), self.state)
        mean, sd = candidates.predicted(choice)
        unit = self.inference.unit(self.data)
        if unit is not None:
            mean, sd = mean * unit, sd * unit
        if isinstance(offset, Tensor) or offset != 0:
            mean = mean + offset
        if self.context is not None:
            choice = torch.cat([choice, self.context], -1)
        return Choice(choice, mean, sd, candidates.of.sqrt_beta)

    def joint(self, choice: Tensor) -> Joint:
        """The joint posterior within groups of arms or points; see :meth:`Inference.joint`."""
        return self.inference.joint(self.data, choice, self.present)

    def at(self, choice: Tensor) -> Choice:
        """A choice made otherwise, as a log keeps it, and what is predicted there."""
        dims = self.present.now.dim()
        mean, covariance, gain = self.joint(choice.unsqueeze(dims).unsqueeze(dims))
        sd = covariance[..., 0, 0, 0].clamp_min(0).sqrt()
        return Choice(choice, mean[..., 0, 0], sd, self.sqrt_beta(gain))

    def arm_means(self) -> Tensor:
        """The posterior mean on all arms of a grid, `batch_shape x M`."""
        inference = self.inference
        assert isinstance(inference, ArmInference)
        posterior = inference.predict(self.data, self.present)
        unit = inference.unit(self.data)
        mean = posterior.mean if unit is None else posterior.mean * unit.unsqueeze(-1)
        return mean + per_trial(posterior.offset)

    def sqrt_beta(self, gain: Tensor) -> float | Tensor:
        """√beta of the width, a number or `batch_shape`; ``gain`` is that of the data in use."""
        doubly, width = None, self.width
        if isinstance(width.gain, DoublyWeighted):
            doubly = gain
            if self.process.ages:
                doubly = self.inference.doubly_weighted_gain(self.data, self.present)
        context = WidthContext(
            t=self.state.data.rounds + 1,
            dim=self.state.domain.dim,
            information_gain=gain,
            weighted_information_gain=doubly,
        )
        return as_width(width, width.sqrt_beta(context), gain)

    def _arms(self, exploration: Exploration, draws: Draws) -> tuple[ArmCandidates, Tensor | float]:
        inference, prior, normal = self.inference, self.data.prior, None
        assert isinstance(inference, ArmInference)
        assert isinstance(prior, (Basis, BankPrior))
        if exploration.samples:
            normal = leading_normals(draws, prior.normals, max(prior.arms, prior.normals))
        posterior = inference.predict(self.data, self.present, normal)
        of = self._round(posterior.information_gain, posterior.offset, draws)
        return ArmCandidates(of, posterior, normal), posterior.offset

    def _points(
        self, exploration: Exploration, draws: Draws
    ) -> tuple[BoxCandidates, Tensor | float]:
        inference, box, shape = self.inference, self.state.domain, self.present.now.shape
        assert isinstance(inference, (PointInference, PointMixture))
        assert isinstance(box, Box)
        expert = self.state.expert
        most = self.state.told + (0 if expert is None else expert.y.shape[-1])
        plain = (self.data, self.present)

        def with_function() -> PointPosterior:
            return inference.predict(*plain, draws.normal, most)

        posterior = with_function() if exploration.samples else inference.predict(*plain)
        offset = inference.prior_mean(posterior.offset)
        offset = offset.view(shape) if isinstance(offset, Tensor) else offset
        of = self._round(posterior.information_gain.view(shape), offset, draws)
        known = None if self.context is None else self.context.reshape(-1, box.columns - box.dim)
        candidates = BoxCandidates(of, Functions(posterior, with_function, known, []), box)
        return candidates, offset

    def _noise(self) -> Tensor:
        noise, unit = believed_noise(self.inference, self.data), self.inference.unit(self.data)
        return noise if unit is None else noise / unit.square()

    def _round(self, gain: Tensor, offset: Tensor | float, draws: Draws) -> Round:
        return Round(
            data=self.data,
            number=self.state.data.rounds + 1,
            sign=self.sign,
            noise=self._noise,
            sqrt_beta=self.sqrt_beta(gain),
            offset=offset,
            unit=self.inference.unit(self.data),
            memory=self.state.memory.exploration,
            draws=draws,
        )


def believed_noise(inference: Inference, data: Data) -> Tensor:
    """Noise variance of a new observation, as learned or given, `batch_shape`."""
    given = torch.full_like(data.time, inference.process.noise).to(data.prior.variance)
    return inference.believed_noise(data, given)


def as_width(width: Width, value: object, like: Tensor) -> float | Tensor:
    """√beta as a width answered it, a number or one per trial.

    Args:
        width: The width.
        value: Its answer.
        like: One number per trial, of the dtype and device wanted.

    Raises:
        InputDataError: If it is neither, negative, NaN or infinite; on a GPU, which is not waited
            for, numbers of trials may be so.
    """
    if type(value) in (float, int, np.float64, np.float32):
        number = float(value)  # type: ignore[arg-type]
        if 0 <= number < math.inf:
            return number
    elif (
        isinstance(value, Tensor)
        and value.shape in (Size(), like.shape)
        and value.is_floating_point()
    ):
        found = value.to(like).expand_as(like)
        if like.device.type == "cpu":
            good = (found >= 0) & (found < math.inf)
            require_trials(
                good, found, f"is the √beta of {width!r}", "it is finite and at least 0."
            )
        return found
    raise InputDataError(
        f"the √beta of {width!r} is {shown(value)}, but it must be a number, finite and at least "
        f"0, or one for each trial, a tensor {tuple(like.shape)}; see WidthContext for what it may "
        "depend on."
    )


def _valid(exploration: Exploration, choice: Tensor, state: State) -> Tensor:
    """A choice of an exploration in memory of its own, checked for its kind.

    Raises:
        InputDataError: If it is no choice of the domain.
    """
    domain, own, shape = state.domain, state.data.prior.variance, state.data.time.shape
    on_arms = isinstance(domain, Grid)
    wanted = shape if on_arms else (*shape, domain.dim)
    dtype = torch.int64 if on_arms else own.dtype
    if (
        not isinstance(choice, Tensor)
        or choice.shape != wanted
        or choice.dtype != dtype
        or choice.device != own.device
    ):
        given = shown(choice)
        if isinstance(choice, Tensor):
            given = f"{choice.dtype} of shape {tuple(choice.shape)} on {choice.device}"
        raise InputDataError(
            f"{type(exploration).__name__} chose {given}, but a choice is {dtype} of shape "
            f"{tuple(wanted)} on {own.device}; return what candidates.argmax(score) or "
            "candidates.anywhere() gives."
        )
    if isinstance(domain, Box) and own.device.type == "cpu":
        domain.require_inside(choice, f"the choice of {type(exploration).__name__} ")
    return choice.clone()


def _watched(part: Part, method: str, log: Log) -> Any:
    """What a part answers; in its first rounds it is looked whether it writes into the log.

    Raises:
        InputDataError: If it does.
    """
    if log.rounds > WATCHED or log.now.device.type != "cpu":
        return getattr(part, method)(log)
    shown_to = [log.time, log.y, log.noise, log.X, log.now, log.since, *(log.newest or ())]
    before = [one.clone() for one in shown_to]
    answer = getattr(part, method)(log)
    pairs = zip(shown_to, before)
    if not all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in pairs):
        raise InputDataError(
            f"{type(part).__name__}.{method} of {part!r} writes into what it is shown, which "
            "states share: this one is damaged. Compute without in-place operations, or on "
            "log.time.clone()."
        )
    return answer


def _owned(answer: Kept | Tensor) -> Kept | Tensor:
    """An answer whose rows are in memory of their own; the next may come in the same."""
    if isinstance(answer, Tensor):
        return answer.clone()
    if isinstance(answer, Kept) and (
        isinstance(answer.rows, Tensor) or isinstance(answer.aside, Tensor)
    ):
        rows, aside = answer.rows, answer.aside
        return answer._replace(
            rows=None if rows is None else rows.clone(),
            aside=None if aside is None else aside.clone(),
        )
    return answer


class _Rows:
    """The rows of some data, as rules see them."""

    def __init__(self, domain: Domain, data: Data) -> None:
        self._domain, self._data = domain, data

    @property
    def time(self) -> Tensor:
        return self._data.history.time.tensor(self._data.dropped)

    @property
    def y(self) -> Tensor:
        y, mask = self._data.history.y.tensor(self._data.dropped), self._data.mask
        return y if mask is None else torch.where(mask, y, 0.0)

    @property
    def noise(self) -> Tensor:
        noise, mask = self._data.history.noise.tensor(self._data.dropped), self._data.mask
        return noise if mask is None else torch.where(mask, noise, torch.inf)

    @property
    def X(self) -> Tensor:
        choice = self._data.history.choice.tensor(self._data.dropped)
        return self._domain.points(choice, self._data.prior.variance)

    @property
    def kept(self) -> Tensor:
        return self._data.kept
