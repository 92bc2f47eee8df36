"""Rounds of a strategy that predicts with a single model: retain, predict, explore, observe.

A composed strategy has several of these as its members.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.acquisition.exploration import BestMean
from botorch_tv.forgetting import Decay, Inflation, Log, Observation, Retained
from botorch_tv.forgetting.base import Part, as_memory
from botorch_tv.forgetting.retention import checked
from botorch_tv.gp.data import Data, Present, Prior
from botorch_tv.gp.process import Inference, Joint, Process
from botorch_tv.gp.random import Draws
from botorch_tv.gp.tensors import repeated, without_gradients
from botorch_tv.strategies.arguments import Measured, as_time, require_begun_with, require_forward
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates import WATCHED, Decision, model_noise
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.feasible import Asked, Feasible, MoveCost
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info, Now, State, Suggestion, draws_from


class ProcessStrategy(Strategy):
    """A strategy that predicts with a single model, unlike a committee.

    ``ask`` applies the rules of retention, predicts and explores. ``tell`` checks and adds an
    observation, and applies the rules of retention again.
    """

    decay: Decay
    inflation: Inflation
    width: Width
    """The confidence schedule."""
    exploration: Exploration
    """The rule that chooses from the posterior."""

    @property
    @abstractmethod
    def process(self) -> Process:
        """The model: everything that predictions depend on, except the data."""

    @abstractmethod
    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """The inference that computes the posterior on a domain.

        Args:
            domain: The domain.
            prior: The prior on the domain; None before it is computed.
        """

    @property
    def reacts(self) -> bool:
        """Whether an observation may reset the model."""
        return self.process.reacts

    @property
    def usual_noise(self) -> float:
        """Default noise variance of an observation."""
        return self.process.noise

    # ---------------------------------------------------------------- subclasses may override

    def _relearned(self, state: State) -> State:
        """The state with newly learned hyperparameters; the same state if learning is not due."""
        return state

    def _in_use(self, data: Data, state: State) -> Data:
        """The data that predictions use; by default the retained data ``data``."""
        return data

    # ---------------------------------------------------------------- the rounds

    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        return self._chosen(self.decision(state, *asked), draws)

    def decision(
        self,
        state: State,
        now: Now = None,
        context: Tensor | None = None,
        feasible: Feasible | None = None,
        cost: MoveCost | None = None,
    ) -> Decision:
        """The data and settings with which the exploration chooses the point of a round.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
            context: The context, `batch_shape x c`, as in :meth:`ask`.
            feasible: Where a choice is allowed, as in :meth:`ask`.
            cost: The cost of each choice, as in :meth:`ask`.
        """
        if now is None:
            present = Present(state.data.time + self.step(state), state.data.time)
        else:
            time = as_time(state, now, "now")
            require_forward(state, time, "now")
            present = Present(time, time)
        return Decision(
            inference=self.inference_for(state.domain, state.data.prior),
            width=self.width,
            sign=1 if self.maximize else -1,
            made_by=self._fingerprint,
            state=state,
            data=self._data_at(state, present.now),
            present=present,
            context=context,
            feasible=feasible,
            cost=cost,
        )

    def _chosen(self, decision: Decision, draws: Draws) -> Suggestion:
        """The choice of a round."""
        return decision.chosen(self.exploration, draws)

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        suggestion, all_good = measured.suggestion, measured.ok is None
        inference = self.inference_for(state.domain, state.data.prior)
        variance = inference.model_noise(state.data, measured.noise)
        newest = Observation(suggestion.X, measured.y, suggestion.mean, suggestion.sd, variance)
        before, expired = self._retained(state, measured.time)
        _, y, noise, time, least, *_ = measured
        grown = before.observed(suggestion.choice, y, noise, time, least, all_good=all_good)
        answers: list[Retained] = []
        if self.process.retention:
            answers = self._answers(state, grown, grown.time, before.since, newest)
        change = grown.change(answers)
        after = grown.keep(change, all_good=all_good)
        consume = consume and before.running is state.data.running
        advanced = state._replace(data=inference.observe(before, after, change, consume=consume))
        shape, device = measured.time.shape, measured.time.device
        reset = repeated(False, shape, torch.bool, device)
        for resets in (expired, change.reset):
            reset = reset if resets is None else reset | resets
        if self._remembers:
            advanced = advanced._replace(memory=self._remembered(advanced, newest, reset))
        advanced = self._relearned(advanced)
        asked = repeated(0, shape, torch.int64, device)
        if state.expert is not None:  # side queries are reported once, then counted from 0
            none, asked = torch.zeros_like(asked), state.expert.asked
            advanced = advanced._replace(expert=state.expert._replace(asked=none))
        return advanced, Info(reset, asked, suggestion.sd, variance)

    # ---------------------------------------------------------------- retained data

    def _data_at(self, state: State, now: Tensor) -> Data:
        """The data in use at time ``now``, `batch_shape`."""
        return self._in_use(self._retained(state, now)[0], state)

    def _retained(self, state: State, now: Tensor) -> tuple[Data, Tensor | None]:
        """The data retained at the time ``now`` of a decision, `batch_shape`.

        Returns:
            Two values: the data; and which trials have been reset, `batch_shape`, bool, or None if
                no trial has been reset.
        """
        rules = len(self.process.retention)
        if state.begun_with is not self._begun or len(state.memory) != rules + 1:
            require_begun_with(state, self._begun, rules)
        data = state.data
        if self._timeless or data.rounds == data.dropped:
            return data, None
        change = data.change(self._answers(state, data, now, data.since), before_choice=True)
        inference = self.inference_for(state.domain, data.prior)
        return inference.keep(data, data.keep(change), change), change.reset

    def _answers(
        self,
        state: State,
        data: Data,
        now: Tensor,
        since: Tensor,
        newest: Observation | None = None,
    ) -> list[Retained]:
        """The answer of each rule of retention: the rows to retain, and whether to reset.

        Args:
            state: The state with the memory of the rules.
            data: The data.
            now: The time, `batch_shape`.
            since: Rounds since the last reset, `batch_shape`.
            newest: The observation just made; None before a choice.

        Raises:
            InputDataError: If a rule writes into the tensors of its log.
        """
        answers, log_of = [], _log_of(state.domain, data, newest)
        for rule, memory in zip(self.process.retention, state.memory):
            log = log_of(now=now, since=since, memory=memory)
            retained = checked(_watched(rule, "keep", log), data.time, data.rounds - data.dropped)
            # The masks are copied, because a rule may overwrite them when it makes its next answer.
            rows, aside = (
                None if part is None else part.clone() for part in (retained.rows, retained.aside)
            )
            answers.append(retained._replace(rows=rows, aside=aside))
        return answers

    def _remembered(self, state: State, newest: Observation, reset: Tensor) -> tuple[Any, ...]:
        """The memory of each retention rule, then of the exploration, after a round.

        Args:
            state: The state after the round, except that its memory is from before the round.
            newest: The observation.
            reset: Which trials were reset in the round, `batch_shape`, bool.
        """
        data, log_of = state.data, _log_of(state.domain, state.data, newest)

        def updated(part: Part, memory: Any) -> Any:
            log = log_of(now=data.time, since=data.since, reset=reset, memory=memory)
            made = _watched(part, "update", log)
            return as_memory(part, made, memory, data.prior.variance, reset.shape)

        return tuple(updated(*pair) for pair in zip(self._parts, state.memory))

    @functools.cached_property
    def _parts(self) -> tuple[Part, ...]:
        """The parts that may have a memory: the retention rules, followed by the exploration."""
        return (*self.process.retention, self.exploration)

    @functools.cached_property
    def _timeless(self) -> bool:
        """Whether all rules drop data only after an observation, and never before a choice."""
        return all(rule.on_observation for rule in self.process.retention)

    @functools.cached_property
    def _remembers(self) -> bool:
        """Whether any retention rule or the exploration has a memory."""
        return any(part.remembers for part in self._parts)

    # ---------------------------------------------------------------- other methods of strategies

    @property
    def draws(self) -> bool:
        return self.exploration.draws_numbers

    @functools.cached_property
    def compares(self) -> bool:
        """Whether a retention rule or the exploration may compare predictions with observations."""
        return self.process.reacts or self.exploration.remembers

    def _initial(self, domain: Domain, prior: Prior, shape: Size) -> State:
        """The state before the first round, given the prior on the domain."""
        choices = domain.no_choices(shape, prior.variance)
        data = Data.none(prior, choices, self.process.noise, shape)
        made = [
            as_memory(part, part.init(shape), None, prior.variance, shape) for part in self._parts
        ]
        return State(
            domain=domain,
            data=data._replace(running=self.inference_for(domain, prior).start(prior, shape)),
            memory=tuple(made),
            begun_with=self._begun,
        )

    @without_gradients
    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        return self._initial(state.domain, state.basis.unlearned(), Size(batch_shape))

    def _suggestion_at(self, state: State, choice: Tensor, now: Now) -> Suggestion:
        return self.decision(state, now).at(choice)

    def _best(self, state: State, asked: Asked, caution: float) -> Tensor:
        decision = self.decision(state, *asked)
        return decision.chosen(BestMean(caution=caution), draws_from(None, state)).choice

    def _joint(self, state: State, choice: Tensor, now: Now) -> Joint:
        return self.decision(state, now).joint(choice)

    @without_gradients
    def arm_means(self, state: State) -> Tensor:
        return self.decision(state).arm_means()

    def model_noise(self, state: State) -> Tensor:
        return model_noise(self.inference_for(state.domain, state.basis), state.data)

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        data = self._data_at(state, suggestion.time)
        noise = self.model_noise(state)
        bands = [rule.band(suggestion.sd, noise, data.since) for rule in self.process.retention]
        found = [band for band in bands if band is not None]
        return torch.stack(found).amin(0) if found else None

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        domain, search = state.domain, 0
        inference = self.inference_for(domain, state.basis)
        if isinstance(domain, Box) and self.exploration.searches_box:
            sizes = inference.search_sizes(state.data, horizon)
            search = -(-domain.search.numbers(domain.dim, sizes, trials) // trials)
        return inference.numbers_per_trial(state.data, horizon, trials, search)


class Composed(Strategy):
    """A strategy composed of members, each with a state of its own.

    The state of a composed strategy is the state of the first member, with the states of all
    members in ``members``.
    """

    members: tuple[ProcessStrategy, ...]

    def together(self, states: list[State]) -> State:
        """The state of this strategy, given the states of the members."""
        return states[0]._replace(members=tuple(states))

    def pairs(self, state: State) -> Iterator[tuple[ProcessStrategy, State]]:
        """The members, each with its state."""
        return zip(self.members, state.members)

    @property
    def maximize(self) -> bool:
        """Whether the first member maximises."""
        return self.members[0].maximize

    @property
    def reacts(self) -> bool:
        """Whether an observation may reset a member."""
        return any(member.reacts for member in self.members)

    @property
    def usual_noise(self) -> float:
        """Default noise variance of the first member; NaN if it estimates the noise."""
        return self.members[0].usual_noise

    @functools.cached_property
    def _begun(self) -> tuple[str, ...]:
        return tuple(part for member in self.members for part in member._begun)

    @property
    def draws(self) -> bool:
        """Whether choices may use random numbers."""
        return any(member.draws for member in self.members)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        return self.together(
            [member._init(domain, shape, dtype, device) for member in self.members]
        )

    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        pairs = self.pairs(state)
        return self.together([member.init_like(own, batch_shape) for member, own in pairs])

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        pairs = self.pairs(state)
        return sum(member.numbers_per_trial(own, horizon, trials) for member, own in pairs)


def _watched(part: Part, method: str, log: Log) -> Any:
    """Call a method of a retention rule or an exploration, and check that its log is not changed.

    On a GPU, and after the first rounds, the log is not checked.

    Raises:
        InputDataError: If the method writes into the tensors of its log.
    """
    if log.rounds > WATCHED or log.now.device.type != "cpu":
        return getattr(part, method)(log)
    shown_to = [log.time, log.y, log.noise, log.X, log.now, log.since, *(log.newest or ())]
    before = [tensor.clone() for tensor in shown_to]
    answer = getattr(part, method)(log)
    pairs = zip(shown_to, before)
    if not all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in pairs):
        raise InputDataError(
            f"{type(part).__name__}.{method} of {part!r} writes into the tensors of its log, but "
            "states share these tensors; use no in-place operations, or copy a tensor "
            "first, as in log.time.clone()."
        )
    return answer


def _log_of(domain: Domain, data: Data, newest: Observation | None) -> Callable[..., Log]:
    rows, rounds, first_time = _Rows(domain, data), data.rounds, data.first_time
    return functools.partial(Log, rows, rounds=rounds, first_time=first_time, newest=newest)


class _Rows:
    """The rows of the log, as the rules of retention receive them."""

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
    def retained(self) -> Tensor:
        return self._data.retained
