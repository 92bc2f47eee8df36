"""Strategies over strategies: one of several is followed in every round, and all of them listen."""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from linear_operator.operators import DenseLinearOperator
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.forgetting import Decay, Inflation, Retention
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.features import Features
from botorch_tv.inference.modes import without_gradients
from botorch_tv.inference.process import Process
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.checks import as_noise, as_observation
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.deciding import Decision
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.draws import Draws, Generators, draws_from
from botorch_tv.strategies.state import Info, Memory, State, Suggestion
from botorch_tv.strategies.suggested import check_suggestion, require_suggestion
from botorch_tv.validation import require, shown


@dataclass(frozen=True, kw_only=True, repr=False)
class Committee(Strategy):
    """Several strategies, of which a rule follows one in every round and every trial.

    All of them are told all observations. What is predicted and recommended is what the member does
    that :meth:`leading` names. A suggestion says whose it is; where that is not known, as of a
    point chosen elsewhere, the members learn from what is told of it, and the rule counts the round
    alone. For that reason neither :class:`Loop` nor Optuna take a committee.

    Args:
        members: The strategies, which maximise all or minimise all.

    Raises:
        ValueError: If there are none, one is a committee or consults an expert, or they disagree
            on what is wanted.
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

    expects: ClassVar[bool] = False  # its members say so
    follows: ClassVar[bool] = True

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
        """What the rule remembers before the first round, as :meth:`Part.init`."""

    @abstractmethod
    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        """The number of the member to follow, `batch_shape`, int64."""

    @abstractmethod
    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Any:
        """What the rule remembers after a round.

        Args:
            state: Before the round.
            suggestion: Of the member ``suggestion.member``; None where that is not known.
            y: What was observed, `batch_shape`.
            noise: Its variance, infinite where the measurement failed, `batch_shape`.
        """

    @abstractmethod
    def leading(self, state: State) -> Tensor:
        """The number of the member that is believed now, `batch_shape`, int64."""

    # ---------------------------------------------------------------- the contract

    @property
    def process(self) -> Process:
        """That of the first member."""
        return self.members[0].process

    @functools.cached_property
    def compares(self) -> bool:
        """Always: the rule looks at predictions."""
        return True

    @property
    def draws(self) -> bool:
        """Whether choices may take random numbers."""
        return any(one.draws for one in self.members)

    @without_gradients
    def init(
        self,
        domain: Domain,
        *,
        batch_shape: Size | tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> State:
        """As :meth:`Strategy.init`."""
        usual: dict[str, Any] = {"batch_shape": batch_shape, "dtype": dtype, "device": device}
        return self._begun([one.init(domain, **usual) for one in self.members])

    @without_gradients
    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        """As :meth:`Strategy.init_like`."""
        pairs = zip(self.members, state.members)
        return self._begun([one.init_like(own, batch_shape) for one, own in pairs])

    def _begun(self, states: list[State]) -> State:
        own, shape = states[0].basis.variance, states[0].time.shape
        made = self.start(shape)
        memory = type(made)(
            *(part.to(own.device, own.dtype if part.is_floating_point() else None) for part in made)
        )
        return states[0]._replace(memory=Memory((), memory), members=tuple(states))

    @without_gradients
    def ask(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
        generator: Generators | Draws | None = None,
    ) -> Suggestion:
        """Choose where to measure; as :meth:`Strategy.ask`."""
        draws = draws_from(generator, state)
        suggestions = [
            one.ask(own, now=now, context=context, generator=draws)
            for one, own in zip(self.members, state.members)
        ]
        return self._of(suggestions, self.follow(state, suggestions, draws))

    @without_gradients
    def suggestion_at(
        self, state: State, X: Tensor, *, now: float | Tensor | None = None
    ) -> Suggestion:
        """As :meth:`Strategy.suggestion_at`, by the member that leads."""
        suggestions = [
            one.suggestion_at(own, X, now=now) for one, own in zip(self.members, state.members)
        ]
        return self._of(suggestions, self.leading(state))._replace(member=None)

    def _of(self, suggestions: list[Suggestion], member: Tensor) -> Suggestion:
        """That of one member, of every trial."""

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
            made_by=self._mark,
            member=member,
        )

    @without_gradients
    def tell(
        self,
        state: State,
        suggestion: Suggestion,
        y: Tensor | float,
        *,
        time: float | Tensor | None = None,
        ok: Tensor | None = None,
        noise: float | Tensor | None = None,
        check: bool = True,
        consume: bool = False,
    ) -> tuple[State, Info]:
        """Take in an observation; as :meth:`Strategy.tell`, reset where a member's is.

        Raises:
            InputDataError: As there, or if ``suggestion.member`` is none of the members.
        """
        if check:
            require_suggestion(suggestion, self._mark)
            check_suggestion(state, suggestion, compared=False)
            self._check_member(state, suggestion)
        value = as_observation(state, y)
        given = self.noise if noise is None else noise
        variance = as_noise(state, given, ok, check=check and noise is not None)
        heard = value if ok is None else torch.where(ok, value, 0.0)
        memory = self.learn(state, suggestion, heard, variance)
        followed = self.leading(state) if suggestion.member is None else suggestion.member
        states, infos = [], []
        for number, (one, own) in enumerate(zip(self.members, state.members)):
            # What the first takes in all take in, so that a refusal comes before any is used up.
            after, info = one.tell(
                own,
                self._as_made_by(one, own, suggestion),
                value,
                time=time,
                ok=ok,
                noise=noise,
                check=check and number == 0,
                consume=consume and number > 0,
            )
            states.append(after)
            infos.append(info)
        told = Info(
            reset=torch.stack([info.reset for info in infos]).any(0),
            side_queries=infos[0].side_queries,
            information_gain=_picked([info.information_gain for info in infos], followed),
        )
        return states[0]._replace(memory=Memory((), memory), members=tuple(states)), told

    def _as_made_by(self, member: Strategy, state: State, suggestion: Suggestion) -> Suggestion:
        """The same choice with what one member predicted of it, where it looks at that."""
        if member.compares:
            return member.suggestion_at(state, suggestion.X, now=suggestion.time)
        return suggestion._replace(made_by=None, member=None)

    def _check_member(self, state: State, suggestion: Suggestion) -> None:
        member = suggestion.member
        if member is None:
            return
        fits = (
            isinstance(member, Tensor)
            and member.dtype == torch.int64
            and member.shape == state.time.shape
            and bool(((member >= 0) & (member < len(self.members))).all())
        )
        if not fits:
            raise InputDataError(
                f"suggestion.member is {shown(member)}, but there are {len(self.members)} members, "
                f"and {tuple(state.time.shape)} trials; tell what ask() gave."
            )

    @without_gradients
    def recommend(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
    ) -> Tensor:
        """As :meth:`Strategy.recommend`, by the member that leads."""
        points = [
            one.recommend(own, now=now, context=context)
            for one, own in zip(self.members, state.members)
        ]
        return _picked(points, self.leading(state))

    @without_gradients
    def recommended_arm(self, state: State, *, now: float | Tensor | None = None) -> Tensor:
        """As :meth:`Strategy.recommended_arm`, by the member that leads."""
        pairs = zip(self.members, state.members)
        arms = [one.recommended_arm(own, now=now) for one, own in pairs]
        return _picked(arms, self.leading(state))

    def posterior(
        self,
        state: State,
        X: Tensor,
        *,
        now: float | Tensor | None = None,
        observation_noise: bool = False,
    ) -> GPyTorchPosterior:
        """As :meth:`Strategy.posterior`, of the member that leads."""
        made = [
            one.posterior(own, X, now=now, observation_noise=observation_noise)
            for one, own in zip(self.members, state.members)
        ]
        leading = self.leading(state)
        means = torch.stack([one.distribution.mean for one in made])
        covariances = torch.stack([one.distribution.covariance_matrix for one in made])
        # Trials are the last of the leading dimensions.
        index = leading.expand(means.shape[1:-1]).unsqueeze(-1)
        mean = means.gather(0, index.expand(means.shape[1:]).unsqueeze(0)).squeeze(0)
        wide = index.unsqueeze(-1).expand(covariances.shape[1:]).unsqueeze(0)
        covariance = covariances.gather(0, wide).squeeze(0)
        return GPyTorchPosterior(MultivariateNormal(mean, DenseLinearOperator(covariance)))

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
        pairs = zip(self.members, state.members)
        return _picked([one.believed_noise(own) for one, own in pairs], self.leading(state))

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        """None: members have bands of their own."""
        return None

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        """As :meth:`Strategy.numbers_per_trial`, of all members."""
        pairs = zip(self.members, state.members)
        return sum(one.numbers_per_trial(own, horizon, trials) for one, own in pairs)


def _picked(parts: list[Tensor], member: Tensor) -> Tensor:
    """One of several tensors `batch_shape x ...`, of every trial."""
    stacked = torch.stack(parts)
    index = member.view(*member.shape, *[1] * (parts[0].dim() - member.dim()))
    return stacked.gather(0, index.expand(parts[0].shape).unsqueeze(0)).squeeze(0)
