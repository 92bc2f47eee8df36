"""RExp3: Exp3, a bandit without a model of the objective, restarted at regular intervals."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Size, Tensor

from botorch_tv.acquisition import Candidates, Exploration
from botorch_tv.forgetting import PeriodicReset, Retention, Static
from botorch_tv.gp.data import Prior
from botorch_tv.strategies.arguments import Measured
from botorch_tv.strategies.domains import Domain, require_grid
from botorch_tv.strategies.gp_strategy import KernelStrategy
from botorch_tv.strategies.state import Info, State
from botorch_tv.validation import require, settle_integer, settle_number


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
        if self.gamma is not None:
            return self.gamma
        return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1) * self.period)))

    def chances(self, log_weights: Tensor) -> Tensor:
        """The probabilities (1 - γ) w / Σ w + γ / K, `batch_shape x K`.

        Args:
            log_weights: Logarithms ln w of the weights, `batch_shape x K`.
        """
        arms = log_weights.shape[-1]
        gamma = self.share(arms)
        return (1 - gamma) * torch.softmax(log_weights, -1) + gamma / arms

    def choose(self, candidates: Candidates) -> Tensor:
        chances = self.chances(candidates.memory)
        below = chances.cumsum(-1) <= candidates.uniform().unsqueeze(-1)
        return below.sum(-1).clamp_max(chances.shape[-1] - 1)


@dataclass(frozen=True, kw_only=True, repr=False)
class RestartedExp3(KernelStrategy):
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

    period: int
    low: float
    high: float
    gamma: float | None = None

    decay = inflation = Static()

    def __post_init__(self) -> None:
        settle_integer(self, "period", 1, "give whole rounds.")
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

    @property
    def _rules(self) -> tuple[Retention, ...]:
        return (PeriodicReset(self.period),)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        require_grid(domain, "RExp3")
        return super()._init(domain, shape, dtype, device)

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

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        arms: int = state.basis.variance.shape[-1]
        return super().numbers_per_trial(state, horizon, trials) + arms
