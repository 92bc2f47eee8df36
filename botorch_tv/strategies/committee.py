"""Strategies over strategies: each round one of several chooses, and all of them learn."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.forgetting import Decay, Inflation, Retention
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.linalg import leading
from botorch_tv.inference.point_recursion import Features
from botorch_tv.inference.process import Process
from botorch_tv.inference.protocol import Joint
from botorch_tv.inference.tensors import without_gradients
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.deciding import Decision
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.measured import Measured
from botorch_tv.strategies.state import Info, Memory, State, Suggestion
from botorch_tv.validation import require, shown


@dataclass(frozen=True, kw_only=True, repr=False)
class Committee(Strategy):
    """Several strategies, and a rule that selects one of them in every round of every trial.

    All members are told all observations. Predictions and recommendations are those of the member
    that :meth:`leading` names. A suggestion records which member made it. If that is unknown, as
    for a point chosen elsewhere, the members learn from its observation, but the rule only counts
    the round. Neither :class:`Loop` nor Optuna keep this record, so they refuse a committee.

    Args:
        members: The strategies, which either all maximise or all minimise.

    Raises:
        ValueError: If there is none, one is a committee or consults an expert, or some maximise
            and others minimise.
    """

    kernel: Kernel | Tensor = field(init=False)
    noise: float = field(init=False)
    decay: Decay = field(init=False)
    inflation: Inflation = field(init=False)
    retention: Retention | tuple[Retention, ...] = field(init=False)
    width: Width = field(init=False)
    exploration: Exploration = field(init=False)
    maximize: bool = field(init=False)
    mean: float | Literal["estimated"] = field(init=False)
    inference: Method | Features = field(init=False)
    learning: Refit | None = field(init=False)
    members: tuple[Strategy, ...]

    knows_scale: ClassVar[bool] = False  # its members say so
    needs_member: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        require(
            isinstance(self.members, (tuple, list)) and len(self.members) > 0,
            f"{name}: members is {shown(self.members)}, but it must be a tuple of strategies.",
        )
        object.__setattr__(self, "members", tuple(self.members))
        for one in self.members:
            require(
                isinstance(one, Strategy) and not isinstance(one, Committee) and not one.consults,
                f"{name}: a member is {shown(one)}, but members are strategies that decide by "
                "themselves: no committees, and none that consults an expert.",
            )
            require(
                one.maximize == self.members[0].maximize,
                f"{name}: some members maximise and others minimise; give all the same maximize.",
            )
        for part in fields(Strategy):
            object.__setattr__(self, part.name, getattr(self.members[0], part.name))

    def __repr__(self) -> str:
        own = [one.name for one in fields(self) if one.init]
        return f"{type(self).__name__}({', '.join(f'{one}={getattr(self, one)!r}' for one in own)})"

    # ---------------------------------------------------------------- the rule

    @abstractmethod
    def start(self, batch_shape: Size) -> Any:
        """The rule's memory before the first round, as :meth:`Part.init`."""

    @abstractmethod
    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        """Index of the member that chooses, `batch_shape`, int64."""

    @abstractmethod
    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Any:
        """The rule's memory after a round.

        Args:
            state: The state before the round.
            suggestion: What was suggested; its ``member`` is None if it is not known who made it.
            y: The observation, `batch_shape`.
            noise: Its variance according to that member, infinite if the measurement failed,
                `batch_shape`.
        """

    @abstractmethod
    def leading(self, state: State) -> Tensor:
        """Index of the member that predicts and recommends now, `batch_shape`, int64."""

    # ---------------------------------------------------------------- the contract

    @property
    def process(self) -> Process:
        """The first member's process."""
        return self.members[0].process

    @functools.cached_property
    def compares(self) -> bool:
        """Always true, because the rule uses predictions."""
        return True

    @property
    def draws(self) -> bool:
        """Whether choices may use random numbers."""
        return any(one.draws for one in self.members)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        return self._together([one._init(domain, shape, dtype, device) for one in self.members])

    @without_gradients
    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        """As :meth:`Strategy.init_like`."""
        return self._together([one.init_like(own, batch_shape) for one, own in self._pairs(state)])

    def _together(self, states: list[State]) -> State:
        own, shape = states[0].basis.variance, states[0].time.shape
        made = self.start(shape)
        memory = type(made)(
            *(part.to(own.device, own.dtype if part.is_floating_point() else None) for part in made)
        )
        return states[0]._replace(memory=Memory((), memory), members=tuple(states))

    def _ask(
        self, state: State, now: float | Tensor | None, context: Tensor | None, draws: Draws
    ) -> Suggestion:
        suggestions = [one._ask(own, now, context, draws) for one, own in self._pairs(state)]
        return self._of(suggestions, self.follow(state, suggestions, draws))

    @without_gradients
    def suggestion_at(
        self, state: State, X: Tensor, *, now: float | Tensor | None = None
    ) -> Suggestion:
        """As :meth:`Strategy.suggestion_at`, by the member that leads."""
        suggestions = [one.suggestion_at(own, X, now=now) for one, own in self._pairs(state)]
        return self._of(suggestions, self.leading(state))._replace(member=None)

    def _of(self, suggestions: list[Suggestion], member: Tensor) -> Suggestion:
        """In every trial the suggestion of one member."""

        def chosen(name: str) -> Tensor:
            return _picked([getattr(one, name) for one in suggestions], member)

        on_box = suggestions[0].index is None
        return Suggestion(
            X=chosen("X"),
            index=None if on_box else chosen("index"),
            mean=chosen("mean"),
            sd=chosen("sd"),
            sqrt_beta=chosen("sqrt_beta"),
            time=suggestions[0].time,
            made_by=self._fingerprint,
            member=member,
        )

    def _default_noise(self, noise: float | Tensor | None) -> float:
        usual = [one._default_noise(noise) for one in self.members]
        return usual[0]

    def _check(self, state: State, measured: Measured) -> None:
        """Check an observation as the first member does; all members accept the same."""
        member, number = measured.suggestion.member, len(self.members)
        fits = member is None or (
            isinstance(member, Tensor)
            and member.dtype == torch.int64
            and member.shape == state.time.shape
            and bool(((member >= 0) & (member < number)).all())
        )
        if not fits:
            raise InputDataError(
                f"suggestion.member is {shown(member)}, but there are {number} members, "
                f"and {tuple(state.time.shape)} trials; tell what ask() gave."
            )
        self.members[0]._check(state.members[0], measured)

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        suggestion = measured.suggestion
        followed = self.leading(state) if suggestion.member is None else suggestion.member
        heard = [_heard_by(one, measured) for one in self.members]
        parts = zip(self.members, state.members, heard)
        variance = _picked([_believed(one, own, new.noise) for one, own, new in parts], followed)
        memory = self.learn(state, suggestion, measured.y, variance)
        states, infos = [], []
        for number, (one, own, new) in enumerate(zip(self.members, state.members, heard)):
            said = self._as_made_by(number, own, suggestion)._replace(time=measured.time)
            after, info = one._tell(own, new._replace(suggestion=said), consume=consume)
            states.append(after)
            infos.append(info)
        told = Info(
            reset=torch.stack([info.reset for info in infos]).any(0),
            side_queries=infos[0].side_queries,
            sd=_picked([info.sd for info in infos], followed),
            noise=variance,
        )
        return states[0]._replace(memory=Memory((), memory), members=tuple(states)), told

    def _as_made_by(self, number: int, state: State, suggestion: Suggestion) -> Suggestion:
        """The same choice with what one member predicted of it, where it looks at that.

        One that was followed made the prediction itself, perhaps before others were told.
        """
        member = self.members[number]
        if not member.compares:
            return suggestion._replace(made_by=None, member=None)
        own = member.suggestion_at(state, suggestion.X, now=suggestion.time)
        if suggestion.member is None:
            return own
        followed = suggestion.member == number
        return own._replace(
            mean=torch.where(followed, suggestion.mean, own.mean),
            sd=torch.where(followed, suggestion.sd, own.sd),
        )

    @without_gradients
    def arm_means(self, state: State) -> Tensor:
        """As :meth:`Strategy.arm_means`, by the member that leads."""
        return self._led(state, lambda one, own: one.arm_means(own))

    def _best(
        self, state: State, now: float | Tensor | None, context: Tensor | None, caution: float
    ) -> Tensor:
        """By the member that leads."""
        return self._led(state, lambda one, own: one._best(own, now, context, caution))

    def _joint(self, state: State, choice: Tensor, now: float | Tensor | None) -> Joint:
        """The joint posterior of the leading member."""
        leading = self.leading(state)
        made = [one._joint(own, choice, now) for one, own in self._pairs(state)]
        return Joint(*(_picked(list(parts), leading) for parts in zip(*made)))

    def decision(
        self, state: State, now: float | Tensor | None = None, context: Tensor | None = None
    ) -> Decision:
        """There is none of a committee.

        Raises:
            InputDataError: Always.
        """
        raise InputDataError(
            f"{type(self).__name__} has no posterior of its own on all arms; ask one of its "
            "members, committee.members[0].decision(state.members[0])."
        )

    def believed_noise(self, state: State) -> Tensor:
        """Noise variance of a new observation in the leading member, `batch_shape`."""
        return self._led(state, lambda one, own: one.believed_noise(own))

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        """None: members have bands of their own."""
        return None

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        """As :meth:`Strategy.numbers_per_trial`, of all members."""
        return sum(one.numbers_per_trial(own, horizon, trials) for one, own in self._pairs(state))

    def _pairs(self, state: State) -> Iterator[tuple[Strategy, State]]:
        """The members, each with its state."""
        return zip(self.members, state.members)

    def _led(self, state: State, answer: Callable[[Strategy, State], Tensor]) -> Tensor:
        """The answer of each trial's leading member, `batch_shape x ...`."""
        return _picked([answer(*pair) for pair in self._pairs(state)], self.leading(state))


def _heard_by(member: Strategy, measured: Measured) -> Measured:
    """An observation as one member has it: with its own variance, unless one was told."""
    if measured.told_noise is not None:
        return measured
    variance = torch.where(measured.noise.isfinite(), member.noise, measured.noise)
    return measured._replace(noise=variance, least_noise=member.noise)


def _believed(member: Strategy, state: State, variance: Tensor) -> Tensor:
    """A member's noise variance, infinite where the measurement failed, `batch_shape`."""
    inference = member.inference_for(state.domain, state.basis)
    return inference.believed_noise(state.data, variance)


def _picked(parts: list[Tensor], member: Tensor) -> Tensor:
    """One of several tensors `batch_shape x ...`, of every trial."""
    stacked = torch.stack(parts)
    index = leading(member, parts[0].dim()).expand(parts[0].shape)
    return stacked.gather(0, index.unsqueeze(0)).squeeze(0)
