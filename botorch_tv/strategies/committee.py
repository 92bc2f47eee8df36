"""Strategies composed of strategies: one member chooses in each round, and all members learn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.base import as_memory
from botorch_tv.gp.linalg import leading
from botorch_tv.gp.process import Joint
from botorch_tv.gp.random import Draws
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.strategies.arguments import Measured
from botorch_tv.strategies.feasible import Asked
from botorch_tv.strategies.process_strategy import Composed, ProcessStrategy
from botorch_tv.strategies.state import Info, Now, State, Suggestion
from botorch_tv.validation import require, settle_integer, settle_number


@dataclass(frozen=True, kw_only=True)
class Committee(Composed):
    """Several strategies, and a rule that selects a member in every round of every trial.

    All members receive all observations. The member that :meth:`leading` selects makes predictions
    and recommendations. A suggestion contains the index of the member that made it. If a point was
    chosen elsewhere, its suggestion names no member: all members learn from the observation, but
    the rule that selects a member only counts the round. :class:`Loop` and Optuna do not store
    which member made a suggestion, so they refuse a committee.

    Args:
        members: The strategies, which either all maximise or all minimise.

    Raises:
        ValueError: If there is no member, if a member is a committee or consults an expert, or if
            some members maximise and others minimise.
    """

    members: tuple[ProcessStrategy, ...]

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "members", tuple(self.members))
        good = all(
            isinstance(member, ProcessStrategy)
            and not member.consults
            and member.maximize == self.members[0].maximize
            for member in self.members
        )
        require(
            good and bool(self.members),
            f"{name}: members is {self.members}, but it must contain at least one strategy, no "
            "committee and no strategy with an expert, and all must maximise or all minimise.",
        )

    # ---------------------------------------------------------------- selection of a member

    @abstractmethod
    def start(self, batch_shape: Size) -> Any:
        """The initial memory of the rule that selects a member; see :meth:`Part.init`.

        Args:
            batch_shape: Shape of the trials.
        """

    @abstractmethod
    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        """Index of the member that chooses, `batch_shape`, int64.

        Args:
            state: The state before the round.
            suggestions: The suggestion of each member.
            draws: Random numbers.
        """

    @abstractmethod
    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Any:
        """The memory, after a round, of the rule that selects a member.

        Args:
            state: The state before the round.
            suggestion: The suggestion; its ``member`` is None if no member made it.
            y: The observation, `batch_shape`.
            noise: Noise variance of the observation according to the member that made the
                suggestion, `batch_shape`; infinite if the measurement failed.
        """

    @abstractmethod
    def leading(self, state: State) -> Tensor:
        """Index of the member that predicts and recommends now, `batch_shape`, int64.

        Args:
            state: The current state.
        """

    # ---------------------------------------------------------------- the methods of a strategy

    compares = True  # the rule that selects a member uses predictions
    remakes_suggestions = False  # a log of points does not record members

    def together(self, states: list[State]) -> State:
        own, shape = states[0].basis.variance, states[0].time.shape
        memory = as_memory(self, self.start(shape), None, own, shape)
        return super().together(states)._replace(memory=(memory,))

    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        pairs = self.pairs(state)
        suggestions = [member._ask(own, asked, draws) for member, own in pairs]
        return self._of(suggestions, self.follow(state, suggestions, draws))

    def _suggestion_at(self, state: State, choice: Tensor, now: Now) -> Suggestion:
        """The suggestion of the leading member."""
        suggestions = [member._suggestion_at(own, choice, now) for member, own in self.pairs(state)]
        return self._of(suggestions, self.leading(state))._replace(member=None)

    def _of(self, suggestions: list[Suggestion], member: Tensor) -> Suggestion:
        """For each trial, the suggestion of the member with index ``member``, `batch_shape`."""
        names = ["X", "mean", "sd", "sqrt_beta"]
        names += [] if suggestions[0].index is None else ["index"]
        parts = {
            name: _picked([getattr(made, name) for made in suggestions], member) for name in names
        }
        return suggestions[0]._replace(**parts, made_by=self._fingerprint, member=member)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        # Every member is asked, because any member may raise an error.
        usual = [member._default_noise(noise) for member in self.members]
        return usual[0]

    def _check(self, state: State, measured: Measured) -> None:
        """Check an observation as the first member does; all members accept the same values."""
        self.members[0]._check(state.members[0], measured)

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        suggestion = measured.suggestion
        followed = self.leading(state) if suggestion.member is None else suggestion.member
        observed, variances = [], []
        for member, own in self.pairs(state):
            new = measured
            if measured.given_noise is None:  # each member has its own default noise variance
                usual = member.process.noise
                noise = torch.where(measured.noise.isfinite(), usual, measured.noise)
                new = measured._replace(noise=noise, least_noise=usual)
            observed.append(new)
            inference = member.inference_for(own.domain, own.basis)
            variances.append(inference.model_noise(own.data, new.noise))
        variance = _picked(variances, followed)
        memory = self.learn(state, suggestion, measured.y, variance)
        states, infos = [], []
        for number, (member, own, new) in enumerate(zip(self.members, state.members, observed)):
            made = self._as_made_by(number, own, suggestion)._replace(time=measured.time)
            after, info = member._tell(own, new._replace(suggestion=made), consume=consume)
            states.append(after)
            infos.append(info)
        whole = Info(
            reset=torch.stack([info.reset for info in infos]).any(0),
            side_queries=infos[0].side_queries,
            sd=_picked([info.sd for info in infos], followed),
            noise=variance,
        )
        return states[0]._replace(memory=(memory,), members=tuple(states)), whole

    def _as_made_by(self, number: int, state: State, suggestion: Suggestion) -> Suggestion:
        """The suggestion from which member ``number`` learns: the same point, its own prediction.

        If this member made the suggestion, the suggestion's prediction is not replaced, even if
        observations have been added since. If this member never compares predictions with
        observations, the prediction is not replaced either.
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
        return self._led(state, lambda member, own: member.arm_means(own))

    def _best(self, state: State, asked: Asked, caution: float) -> Tensor:
        return self._led(state, lambda member, own: member._best(own, asked, caution))

    def _joint(self, state: State, choice: Tensor, now: Now) -> Joint:
        leading = self.leading(state)
        made = [member._joint(own, choice, now) for member, own in self.pairs(state)]
        return tuple(_picked(list(parts), leading) for parts in zip(*made))  # type: ignore[return-value]

    def model_noise(self, state: State) -> Tensor:
        return self._led(state, lambda member, own: member.model_noise(own))

    def _led(self, state: State, answer: Callable[[ProcessStrategy, State], Tensor]) -> Tensor:
        """The answer of each trial's leading member, `batch_shape x ...`."""
        return _picked([answer(*pair) for pair in self.pairs(state)], self.leading(state))


def _picked(parts: list[Tensor], member: Tensor) -> Tensor:
    """For each trial, its entry of the tensor with the index ``member``, `batch_shape x ...`."""
    stacked = torch.stack(parts)
    index = leading(member, parts[0].dim()).expand(parts[0].shape)
    return stacked.gather(0, index.unsqueeze(0)).squeeze(0)


class Record(NamedTuple):
    """Past rejections, and the sums that decide further rejections, each `batch_shape x P`."""

    rejected: Tensor
    """Whether a member is rejected, bool."""
    plays: Tensor
    """Number of rounds in which a member chose, int64."""
    errors: Tensor
    """Sum of the prediction errors y - mean over the rounds in which a member chose."""
    band: Tensor
    """Sum of the half-widths sqrt(beta) sd over the rounds in which a member chose."""
    noise: Tensor
    """Sum of the noise variances σ² over the rounds in which a member chose."""


@dataclass(frozen=True, kw_only=True)
class PriorElimination(Committee):
    """PE-GP-UCB, Ziomek, Adachi, Osborne (AISTATS 2025): select among several priors.

    Every member that is not rejected proposes a point, and the round uses the proposal with the
    highest upper confidence bound. A member is rejected when, over the n rounds in which its
    proposal was used,

        |Σ (y - mean)| > Σ sqrt(beta) sd + sqrt(2 Σσ² ln(P π² n² / (3 δ))).

    If f lies within the confidence bands of a prior, |Σ (f - mean)| is at most Σ sqrt(beta) sd. By
    a union bound, |Σ (y - f)| is at most the second square root in this inequality for all P
    members and every number n of rounds, with probability at least 1 - δ. The inequality that
    rejects a member follows the summary in the paper's introduction. The constants under the second
    square root are not from the paper, but derived for this class. The last remaining member is
    never rejected.

    Args:
        members: Strategies with different priors, exploring by upper confidence bounds.
        delta: Upper bound δ, in (0, 1), on the probability that the noise causes the rejection of a
            correct prior, that is, of a prior whose confidence bands always contain f.

    Raises:
        ValueError: If :class:`Committee` refuses the members, or if ``delta`` lies outside (0, 1).
    """

    delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "delta", "(0, 1)", "0.1 is usual.")

    def start(self, batch_shape: Size) -> Record:
        zeros = torch.zeros((*batch_shape, len(self.members)), device="cpu")
        return Record(zeros.bool(), zeros.long(), zeros, zeros, zeros)

    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        sign = 1.0 if self.maximize else -1.0
        bounds = [sign * made.mean + made.sqrt_beta * made.sd for made in suggestions]
        rejected = state.memory[-1].rejected
        return torch.stack(bounds, -1).masked_fill(rejected, -math.inf).argmax(-1)

    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Record:
        before: Record = state.memory[-1]
        if suggestion.member is None:
            return before
        one_hot = torch.nn.functional.one_hot(suggestion.member, len(self.members)).bool()
        counts = one_hot & noise.isfinite().unsqueeze(-1)

        def added(total: Tensor, value: Tensor) -> Tensor:
            return total + torch.where(counts, value.unsqueeze(-1), 0.0).to(total)

        plays = before.plays + counts
        errors = added(before.errors, y - suggestion.mean)
        band = added(before.band, suggestion.sqrt_beta * suggestion.sd)
        variance = added(before.noise, noise)
        union = len(self.members) * math.pi**2 / (3 * self.delta)
        rounds = torch.log(union * plays.clamp_min(1).to(errors).square())
        beyond = errors.abs() > band + (2 * variance * rounds).sqrt()
        rejected = before.rejected | (beyond & counts)
        alone = rejected.all(-1, keepdim=True)
        return Record(torch.where(alone, before.rejected, rejected), plays, errors, band, variance)

    def leading(self, state: State) -> Tensor:
        # Among the members that are not rejected, the result is the member that chose in the most
        # rounds. In a tie it is the member with the lowest index.
        record: Record = state.memory[-1]
        return record.plays.masked_fill(record.rejected, -1).argmax(-1)

    def rejected(self, state: State) -> Tensor:
        """Which members have been rejected, `batch_shape x P`, bool.

        Args:
            state: The current state.
        """
        return state.memory[-1].rejected


def uniform_share(options: int, choices: int) -> float:
    """The probability γ = min(1, sqrt(K ln K / ((e - 1) n))) of a uniform choice by EXP3.

    Args:
        options: Number K of options.
        choices: Number n of choices among them.
    """
    return min(1.0, math.sqrt(options * math.log(options) / ((math.e - 1) * choices)))


def exp3_chances(log_weights: Tensor, gamma: float) -> Tensor:
    """The probabilities (1 - γ) w / Σ w + γ / K with which EXP3 draws options, `batch_shape x K`.

    Args:
        log_weights: Logarithms ln w of the weights, `batch_shape x K`.
        gamma: Probability γ of a uniform choice.
    """
    return (1 - gamma) * torch.softmax(log_weights, -1) + gamma / log_weights.shape[-1]


def drawn_option(chances: Tensor, uniform: Tensor) -> Tensor:
    """The option that a random number in [0, 1) selects, `batch_shape`, int64.

    Args:
        chances: Probabilities of the options, `batch_shape x K`.
        uniform: The random numbers, `batch_shape`.
    """
    below = chances.cumsum(-1) <= uniform.unsqueeze(-1)
    return below.sum(-1).clamp_max(chances.shape[-1] - 1)


class Block(NamedTuple):
    """State of EXP3 within a block."""

    log_weights: Tensor
    """Logarithms of the members' weights, `batch_shape x P`."""
    member: Tensor
    """Index of the member followed in this block, `batch_shape`, int64; -1 before its first round.
    """
    reward: Tensor
    """Total reward of this block so far, `batch_shape`."""


@dataclass(frozen=True, kw_only=True)
class BanditOverBandits(Committee):
    """In each block of H rounds, follow a member that EXP3 draws, given earlier blocks' rewards.

    This is BOB of Cheung, Simchi-Levi, Zhu (AISTATS 2019), which Zhou and Shroff (2021) use with
    Gaussian processes. Member p of P members has the weight s_p and is drawn with probability
    u_p = (1 - γ) s_p / Σ s + γ / P, where γ = min(1, sqrt(P ln P / ((e - 1) ceil(T / H)))). After a
    block with total reward Q, the weight of its member is multiplied by

        exp(γ / (P u_p) (1/2 + Q / (2 H F + 4 R sqrt(H ln(T / sqrt(H)))))).

    The factor (1/2 + ...) lies in [0, 1] with high probability if |f| <= F and the noise is
    R-sub-Gaussian. In the paper, members forget everything when a block begins; here members may be
    any strategies.

    Args:
        members: Strategies, such as sliding windows of several lengths.
        block: Number H of rounds per block.
        horizon: Total number of rounds T.
        bound: Bound F on |f - mean|; 1 in the paper. The reward of a round is y minus the given
            prior mean; if the mean is estimated, nothing is subtracted.
        R: Sub-Gaussian scale of the noise; by default the noise standard deviation of the first
            member.

    Raises:
        ValueError: If :class:`Committee` refuses the members, or if a number is out of range.
    """

    block: int
    horizon: int
    bound: float = 1.0
    R: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "block", 1, "give whole rounds.")
        settle_integer(self, "horizon", 1, "give whole rounds.")
        settle_number(self, "bound", "(0, inf)", "it bounds |f|.")
        require(
            self.block <= self.horizon,
            f"BanditOverBandits: block is {self.block}, but it must be at most the horizon, "
            f"{self.horizon}; lower it.",
        )
        if self.R is None:
            object.__setattr__(self, "R", self.members[0].process.noise ** 0.5)
        settle_number(self, "R", "[0, inf)", "it is a standard deviation.")

    @property
    def gamma(self) -> float:
        """γ, the fraction of blocks whose member is drawn uniformly."""
        return uniform_share(len(self.members), math.ceil(self.horizon / self.block))

    draws = True  # the member of each block is drawn at random

    def start(self, batch_shape: Size) -> Block:
        return Block(
            torch.zeros((*batch_shape, len(self.members)), device="cpu"),
            torch.full(batch_shape, -1, device="cpu"),
            torch.zeros(batch_shape, device="cpu"),
        )

    def follow(self, state: State, suggestions: list[Suggestion], draws: Draws) -> Tensor:
        block: Block = state.memory[-1]
        # A random number is drawn in every round, although only the first round of a block uses it.
        # Thus the later random numbers of the members do not depend on the length of a block.
        drawn = drawn_option(exp3_chances(block.log_weights, self.gamma), draws.uniform())
        return torch.where(block.member < 0, drawn, block.member)

    def learn(self, state: State, suggestion: Suggestion, y: Tensor, noise: Tensor) -> Block:
        before: Block = state.memory[-1]
        ends = (state.rounds + 1) % self.block == 0
        member = suggestion.member
        if member is None:
            return self._next(before.log_weights) if ends else before
        base = self.members[0].process.given_mean or 0.0
        gained = (y - base) * (1.0 if self.maximize else -1.0)
        reward = before.reward + torch.where(noise.isfinite(), gained, 0.0)
        if not ends:
            return Block(before.log_weights, member, reward)
        return self._next(self._paid(before.log_weights, member, reward))

    def _next(self, log_weights: Tensor) -> Block:
        """The state at the beginning of a block."""
        member = torch.full(log_weights.shape[:-1], -1, device=log_weights.device)
        return Block(log_weights, member, torch.zeros_like(log_weights[..., 0]))

    def _paid(self, log_weights: Tensor, member: Tensor, reward: Tensor) -> Tensor:
        """Logarithms of the weights after a block in which a member earned a total reward."""
        H, T = self.block, self.horizon
        assert self.R is not None
        spread = math.sqrt(H * math.log(T / math.sqrt(H)))
        share = 0.5 + reward / (2 * H * self.bound + 4 * self.R * spread)
        index = member.unsqueeze(-1)
        chance = exp3_chances(log_weights, self.gamma).gather(-1, index)
        step = self.gamma / (len(self.members) * chance) * share.unsqueeze(-1)
        return log_weights.scatter_add(-1, index, step)

    def leading(self, state: State) -> Tensor:
        # The member followed in this block; before its first round, the member of largest weight.
        block: Block = state.memory[-1]
        return torch.where(block.member < 0, block.log_weights.argmax(-1), block.member)
