"""Strategies of grids whose papers were not available in full: R-PERP and RExp3."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.acquisition import Candidates, Exploration, Width, WidthContext
from botorch_tv.acquisition.exploration import Plain
from botorch_tv.forgetting import PeriodicReset, Retention, Static
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.data import Prior
from botorch_tv.gp.linalg import TIE_TOLERANCE, first_maximum
from botorch_tv.gp.process import basis_of
from botorch_tv.gp.regression import Observations, regress_on_arms
from botorch_tv.strategies.arguments import Measured
from botorch_tv.strategies.candidates import as_width
from botorch_tv.strategies.committee import drawn_option, exp3_chances, uniform_share
from botorch_tv.strategies.domains import Domain, require_grid
from botorch_tv.strategies.gp_strategy import KernelStrategy
from botorch_tv.strategies.state import Info, State
from botorch_tv.validation import require, settle_integer, settle_number


class Phase(NamedTuple):
    """A phase of N rounds: the arms alive, and the arms to play."""

    alive: Tensor
    """Arms that may be the best, `batch_shape x M`, bool."""
    plan: Tensor
    """Arms to be played, with repetitions, `batch_shape x N`, int64."""
    pending: Tensor
    """Which entries of the plan have not been played yet, `batch_shape x N`, bool."""


def phase_lengths(period: int) -> tuple[int, ...]:
    """Lengths N_i of the phases in a period of H rounds.

    N_0 = 1 and N_i = ceil(sqrt(H N_(i-1))); the last phase is shortened so that the lengths add up
    to H. The lengths N_i are the batch sizes for ``B = 0`` in the code of BPE, Li and Scarlett,
    AISTATS 2022 (github.com/lizihan97/BPE), computed in integers.

    Args:
        period: Number of rounds H in a period.
    """
    lengths: list[int] = []
    last = 1
    while sum(lengths) < period:
        last = math.isqrt(period * last - 1) + 1
        lengths.append(min(last, period - sum(lengths)))
    return tuple(lengths)


class RandomOrder(Plain):
    """Play the arms of a plan in random order; all orders are equally probable."""

    def choose(self, candidates: Candidates) -> Tensor:
        phase: Phase = candidates.memory
        count = phase.pending.sum(-1, keepdim=True)
        drawn = (candidates.uniform().unsqueeze(-1) * count).long().clamp_max(count - 1)
        place = (phase.pending & (phase.pending.cumsum(-1) == drawn + 1)).to(torch.uint8).argmax(-1)
        return phase.plan.gather(-1, place.unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True, kw_only=True, repr=False)
class RestartedOnGrid(KernelStrategy):
    """A strategy for grids that is restarted, and forgets everything, after every period.

    Args:
        period: Number of rounds between restarts.

    Raises:
        ValueError: If ``period`` is below 1.
    """

    period: int

    decay = inflation = Static()

    def __post_init__(self) -> None:
        settle_integer(self, "period", 1, "give whole rounds.")
        super().__post_init__()

    @property
    def _rules(self) -> tuple[Retention, ...]:
        return (PeriodicReset(self.period),)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        require_grid(domain, type(self).__name__)
        return super()._init(domain, shape, dtype, device)


@dataclass(frozen=True, kw_only=True, repr=False)
class PhasedElimination(RestartedOnGrid):
    """R-PERP, Iwazaki, Takeno (arXiv:2410.16052), without the constants of the paper.

    This is phased elimination in random order, restarted every H rounds. At a restart, everything
    is forgotten and all arms become alive. A period of H rounds consists of phases. A phase has a
    plan of N arms: each planned arm has the largest posterior variance among the arms alive, given
    the arms planned before it. The planned arms are played in random order; otherwise a drift in
    time could look like a slope in space. After a phase, an arm stays alive if, given the
    observations of this phase alone,

        mean(x) + sqrt(beta) sd(x) >= max over arms alive of mean - sqrt(beta) sd.

    Only the summary and the introduction of the paper were available. The paper's summary and
    introduction describe restarts, phases and the random order, but give no constants. The lengths
    of phases and the rule of elimination follow BPE of Li and Scarlett (AISTATS 2022), and agree
    with the code of these authors; see :func:`phase_lengths`. We assume that R-PERP divides a
    period into phases as BPE divides its horizon. This strategy is for grids only.

    Args:
        width: The confidence schedule sqrt(beta_t); it must not use an information gain.
        period: Number H of rounds between restarts.

    Raises:
        ValueError: If ``period`` is below 1, if the width uses an information gain, or if the mean
            is estimated.
    """

    width: Width

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.width.gain is None and not isinstance(self.mean, str),
            f"PhasedElimination: width is {self.width!r} and mean {self.mean!r}, but the width "
            "must not use an information gain, and the mean must be a number; use "
            "width=Constant(beta) and mean=0.0.",
        )

    exploration = RandomOrder()

    def _initial(self, domain: Domain, prior: Prior, shape: Size) -> State:
        state = super()._initial(domain, prior, shape)
        phase = self._phase(basis_of(state.data), shape, 0)
        return state._replace(memory=(*state.memory[:-1], phase))

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        before: Phase = state.memory[-1]
        after, info = super()._tell(state, measured, consume=consume)
        assert measured.suggestion.index is not None
        # If an arm outside the plan was played, it replaces the next planned arm.
        planned = before.pending & (before.plan == measured.suggestion.index.unsqueeze(-1))
        meant = torch.where(planned.any(-1, keepdim=True), planned, before.pending)
        place = meant.to(torch.uint8).argmax(-1, keepdim=True)
        phase = before._replace(pending=before.pending.scatter(-1, place, False))
        prior, shape, done = basis_of(state.data), state.time.shape, after.rounds % self.period
        begins = [0, *accumulate(phase_lengths(self.period))][:-1]
        if done == 0:
            phase = self._phase(prior, shape, 0)
        elif done in begins:
            alive = before.alive & self._may_be_best(before.alive, after, before.plan.shape[-1])
            phase = self._phase(prior, shape, begins.index(done), alive)
        return after._replace(memory=(*after.memory[:-1], phase)), info

    def _may_be_best(self, alive: Tensor, state: State, rounds: int) -> Tensor:
        """Whether the upper bound of an arm reaches the highest lower bound, `batch_shape x M`."""
        prior, history, first = basis_of(state.data), state.history, state.rounds - rounds
        arms, y, noise = (part.tensor(first) for part in (history.choice, history.y, history.noise))
        assert not isinstance(self.mean, str)
        weighed = Observations(arms, y - self.mean, noise.rsqrt().to(y))
        mean, lost, *_ = regress_on_arms(prior, weighed)
        mean = mean if self.maximize else -mean
        sd = (prior.variance - lost).clamp_min(0).sqrt()
        root = self.width.sqrt_beta(WidthContext(t=state.rounds + 1, dim=state.domain.dim))
        root = as_width(self.width, root, sd[..., 0])
        width = (root.unsqueeze(-1) if isinstance(root, Tensor) else root) * sd
        lower = (mean - width).masked_fill(~alive, -math.inf).amax(-1, keepdim=True)
        return mean + width >= lower

    def _phase(self, prior: Basis, shape: Size, number: int, alive: Tensor | None = None) -> Phase:
        """Plan a phase: each planned arm is the most uncertain arm alive, given the arms before it.

        Args:
            prior: The factored kernel over the arms.
            shape: `batch_shape`.
            number: Index of the phase in its period, from 0.
            alive: Arms alive, `batch_shape x M`, bool; None for all arms of all trials.
        """
        lead = [1] * len(shape) if alive is None else shape
        if alive is None:
            alive = torch.ones(1, prior.arms, dtype=torch.bool, device=prior.variance.device)
        alive = alive.reshape(-1, prior.arms)
        trials, length = len(alive), phase_lengths(self.period)[number]
        variance = prior.variance.expand(trials, -1)
        rows = prior.variance.new_zeros(trials, 0, prior.size)
        plan: list[Tensor] = []
        for _ in range(length):
            sd = variance.clamp_min(0).sqrt().masked_fill(~alive, -1.0)
            arm = first_maximum(sd, TIE_TOLERANCE * prior.scale, prior.scratch)
            at = prior.inner(rows, arm.unsqueeze(-1)) if plan else rows.new_zeros(trials, 1, 0)
            total = variance.gather(-1, arm.unsqueeze(-1)) + self.noise
            row = (prior.row(arm) - (at @ rows).squeeze(-2)) / total.sqrt()
            variance = variance - prior.expand(row).square()
            rows = torch.cat([rows, row.unsqueeze(-2)], -2)
            plan.append(arm)
        whole = torch.stack(plan, -1)
        phase = alive, whole, torch.ones_like(whole, dtype=torch.bool)
        return Phase(*(part.view(*lead, part.shape[-1]).expand(*shape, -1) for part in phase))

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        planned = 3 * max(phase_lengths(self.period)) * basis_of(state.data).size
        return super().numbers_per_trial(state, horizon, trials) + planned


@dataclass(frozen=True)
class Exp3(Exploration):
    """Draw an arm: uniformly with probability γ, otherwise in proportion to its weight w.

    The memory holds ln w of every arm.

    Args:
        period: Number Δ of rounds between restarts.
        gamma: Probability γ of a uniform choice; None for the default of :class:`RestartedExp3`.
    """

    period: int
    gamma: float | None

    def share(self, arms: int) -> float:
        """The probability γ of a uniform choice among K arms.

        Args:
            arms: Number of arms K.
        """
        return uniform_share(arms, self.period) if self.gamma is None else self.gamma

    def chances(self, log_weights: Tensor) -> Tensor:
        """The probability of each arm, `batch_shape x K`.

        Args:
            log_weights: Logarithms ln w of the weights, `batch_shape x K`.
        """
        return exp3_chances(log_weights, self.share(log_weights.shape[-1]))

    def choose(self, candidates: Candidates) -> Tensor:
        return drawn_option(self.chances(candidates.memory), candidates.uniform())


@dataclass(frozen=True, kw_only=True, repr=False)
class RestartedExp3(RestartedOnGrid):
    """RExp3, Besbes, Gur, Zeevi (NeurIPS 2014): Exp3, restarted with equal weights every Δ rounds.

    γ and Δ follow the paper's Theorem 2. This theorem was taken from two public implementations of
    RExp3, not from the paper.

    Arm k of K has the weight w_k, which is 1 after a restart, and is drawn with probability
    p_k = (1 - γ) w_k / Σ w + γ / K. A reward r in [0, 1] of arm k multiplies w_k by
    exp(γ r / (K p_k)). The reward is (y - low) / (high - low), clipped to [0, 1]; when minimising,
    it is 1 minus this number. A failed measurement changes no weight. Choices ignore correlations
    between arms. Kernel and noise are used only for predictions, from the observations since the
    restart. If a suggestion is from :meth:`suggestion_at`, its arm counts as drawn by this
    strategy, and the probability p_k of the arm is computed when the observation is added. For
    grids only.

    Args:
        period: Number Δ of rounds between restarts; :func:`botorch_tv.theory.rexp3_period` returns
            the paper's value.
        low: The value of y that earns reward 0 if y is maximised, or reward 1 if y is minimised.
        high: The value of y that earns reward 1 if y is maximised, or reward 0 if y is minimised;
            above ``low``.
        gamma: Probability γ of a uniform choice, in (0, 1]; by default the paper's
            min(1, sqrt(K ln K / ((e - 1) Δ))).

    Raises:
        ValueError: If an argument is out of range.
    """

    low: float
    high: float
    gamma: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            settle_number(self, name, "(-inf, inf)", "it scales rewards to [0, 1].")
        require(
            self.low < self.high,
            f"RestartedExp3: low is {self.low} and high {self.high}, but low must be less.",
        )
        if self.gamma is not None:
            settle_number(self, "gamma", "(0, 1]", "1 draws uniformly.")
        super().__post_init__()

    @functools.cached_property
    def exploration(self) -> Exp3:  # type: ignore[override]
        """The rule that draws arms."""
        return Exp3(self.period, self.gamma)

    def _initial(self, domain: Domain, prior: Prior, shape: Size) -> State:
        state = super()._initial(domain, prior, shape)
        equal = prior.variance.new_zeros(*shape, prior.variance.shape[-1])
        return state._replace(memory=(*state.memory[:-1], equal))

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        log_weights: Tensor = state.memory[-1]
        after, info = super()._tell(state, measured, consume=consume)
        assert measured.suggestion.index is not None
        arms, index = log_weights.shape[-1], measured.suggestion.index.unsqueeze(-1)
        reward = ((measured.y - self.low) / (self.high - self.low)).clamp(0, 1)
        reward = reward if self.maximize else 1 - reward
        reward = torch.where(measured.noise.isfinite(), reward, 0.0).unsqueeze(-1)
        chance = self.exploration.chances(log_weights).gather(-1, index)
        gained = self.exploration.share(arms) / arms * reward / chance
        log_weights = log_weights.scatter_add(-1, index, gained)
        if after.rounds % self.period == 0:
            log_weights = torch.zeros_like(log_weights)
        return after._replace(memory=(*after.memory[:-1], log_weights)), info
