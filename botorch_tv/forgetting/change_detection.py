"""Change detection: retentions that reset when observations contradict the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.base import Log, Observation, Retained, Retention
from botorch_tv.validation import settle_integer, settle_number

TriggerRule = Callable[[Tensor, Tensor, Tensor, float | Tensor, Tensor, float], Tensor]
"""A function (y, mean, sd, noise, rounds since the last reset, delta) -> one bool per trial."""


def prediction_band(sd: Tensor, noise: float | Tensor, since: Tensor, delta: float) -> Tensor:
    """Half-width of the band around a prediction, [ET] eq. (10)-(11) and Lemma 3.

    The half-width of the band is sqrt(2 L) (sd + σ) with L = ln(π² t'² / (3 δ_B)), where t' is the
    number of rounds since the last reset. See :func:`prediction_error` for the arguments.
    """
    # ``constant`` is 2 L at t' = 1. The logarithm of delta is computed separately, because 1 /
    # delta may overflow.
    constant = 2 * (math.log(math.pi**2 / 3) - math.log(delta))
    level = torch.rsub(since.to(sd.dtype).log(), constant, alpha=-4).sqrt_()
    return (sd + noise**0.5).mul_(level)


def prediction_error(
    y: Tensor, mean: Tensor, sd: Tensor, noise: float | Tensor, since: Tensor, delta: float
) -> Tensor:
    """Whether an observation lies outside the :func:`prediction_band`, [ET] eq. (10)-(11).

    With probability at least 1 - δ_B, no observation of a static objective lies outside its band.

    Args:
        y: The observation, `batch_shape`.
        mean: The predicted mean of the objective, `batch_shape`.
        sd: The predicted standard deviation, without observation noise, `batch_shape`.
        noise: Noise variance σ² of the observation, scalar or `batch_shape`.
        since: Number t' of rounds since the last reset, `batch_shape`.
        delta: Bound δ_B, in (0, 1), on the probability that one or more observations of a static
            objective lie outside their bands.

    Returns:
        Whether the observation lies outside the band, `batch_shape`, bool.
    """
    return (y - mean).abs() > prediction_band(sd, noise, since, delta)


@dataclass(frozen=True, repr=False)
class EventTrigger(Retention):
    """Forget all observations but the newest if the newest contradicts the model, [ET] Algorithm 1.

    Args:
        delta: Bound δ_B, in (0, 1), on the probability that a static objective ever causes a
            trigger.
        rule: Function that takes the arguments of :func:`prediction_error` and returns whether to
            trigger.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1).
    """

    delta: float = 0.1
    rule: TriggerRule = prediction_error

    on_observation = True

    def __post_init__(self) -> None:
        settle_number(self, "delta", "(0, 1)", "the papers use 0.1.")

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", repr(self.rule))
        return f"{type(self).__name__}(delta={self.delta}, rule={rule})"

    @property
    def resets_beyond_band(self) -> bool:  # type: ignore[override]
        return self.rule is prediction_error

    def keep(self, log: Log) -> Retained:
        if log.newest is None:
            return Retained()
        fired = self._contradicts(log.newest, log.since)
        return Retained(newest=1, where=fired, reset=fired)

    def _contradicts(self, seen: Observation, since: Tensor) -> Tensor:
        return self.rule(seen.y, seen.mean, seen.sd, seen.noise, since, self.delta)

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        if self.rule is not prediction_error:
            return None
        return prediction_band(sd, noise, since, self.delta)


@dataclass(frozen=True, repr=False)
class ConfirmedTrigger(EventTrigger):
    """To tolerate outliers, forget only if several successive observations contradict the model.

    The first observation that contradicts the model is set aside, so the posterior ignores it. If
    the next ``confirm`` observations also contradict the model, all observations before the first
    contradiction are forgotten. If any of these ``confirm`` observations agrees with the model, the
    contradicting observations are dropped. A failed measurement neither contradicts the model nor
    agrees with it. Any reset restarts the count of contradictions.

    An :class:`EventTrigger` resets at the first contradiction. A ``ConfirmedTrigger`` resets only
    after a first contradiction, and at least ``confirm`` rounds after it. Therefore the probability
    that a static objective ever causes a reset is at most δ_B for a ``ConfirmedTrigger``, too.

    The memory holds two numbers per trial, each `batch_shape`: the number of successive
    contradictions so far, and the number of all rounds before the first of these contradictions. If
    the number of contradictions is 0, the stored number of rounds is arbitrary.

    Args:
        delta: Bound δ_B, in (0, 1), on the probability that a static objective ever causes a
            trigger.
        rule: Function that takes the arguments of :func:`prediction_error` and returns whether an
            observation contradicts the model.
        confirm: Number of contradictions that must follow the first contradiction, at least 1.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1), or if ``confirm`` is not a positive integer.
    """

    confirm: int = 1

    sets_aside = True

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "confirm", 1, "EventTrigger fires at the first contradiction.")

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, confirm={self.confirm})"

    def init(self, batch_shape: Size) -> tuple[Tensor, Tensor]:
        none = torch.zeros(batch_shape, dtype=torch.int64, device="cpu")
        return none, none

    def keep(self, log: Log) -> Retained:
        observed = log.since - 1 if log.newest is None else log.since
        (number, start), (count, first) = self._counted(log, observed)
        # The check is skipped on a GPU, because reading its result would synchronise the GPU.
        if log.now.device.type == "cpu" and not bool((number + count).any()):
            return Retained()
        n = log.time.shape[-1]
        row = torch.arange(log.rounds - n, log.rounds, device=log.now.device)
        fired = count > self.confirm
        refuted = (number > 0) & (count == 0)
        named = (row >= first.unsqueeze(-1)) & (count > 0).unsqueeze(-1)
        wrong = (row >= start.unsqueeze(-1)) & (row < log.rounds - 1)
        rows = torch.where(fired.unsqueeze(-1), named, ~(wrong & refuted.unsqueeze(-1)))
        return Retained(rows=rows, reset=fired, aside=named & ~fired.unsqueeze(-1))

    def update(self, log: Log) -> tuple[Tensor, Tensor]:
        return self._counted(log, log.since - 1)[1]

    def _counted(
        self, log: Log, observed: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The memory before the newest observation, and the memory after it.

        Args:
            log: The log after the observation, or before a choice.
            observed: Number of observations since the last reset, `batch_shape`; 0 if the newest
                observation caused the reset.
        """
        number, first = log.memory
        number = number.masked_fill(first < log.rounds - observed, 0)
        if log.newest is None:
            return (number, first), (number, first)
        contradicts = self._contradicts(log.newest, observed.clamp_min(1)) & (observed > 0)
        failed = log.newest.noise.isinf()
        count = torch.where(contradicts, number + 1, torch.where(failed, number, 0))
        return (number, first), (count, torch.where(number > 0, first, log.rounds - 1))


@dataclass(frozen=True)
class GLRTrigger(Retention):
    """Forget all but the newest observation if a likelihood ratio detects a change.

    If the objective is static and the model's kernel and noise are correct, the standardised
    residuals e = (y - mean) / sqrt(sd² + σ²) are independent and standard normal. After every
    observation the generalised likelihood ratio [Lorden 1971] tests whether the mean of e changed
    from 0 to some μ, w rounds ago:

        G_w = sup_μ Σ (e² - (e - μ)²) / 2 = (Σ e)² / (2 w),   summed over the w newest residuals.

    The rule triggers if max_w G_w > ln(L π² t'² / (6 δ)), where t' is the number of rounds since
    the last reset and L is the number of tested values of w. Because P(G_w > b) <= exp(-b), a union
    bound limits the probability of any trigger on a static objective to δ.
    :class:`~botorch_tv.forgetting.EventTrigger` has the same bound, but tests single residuals.

    Gerogiannis, Huang, Bose and Veeravalli (arXiv:2501.19401) restart bandit algorithms when a
    generalised likelihood ratio detects a change. Besson, Kaufmann, Maillard and Seznec (JMLR 2022)
    apply a generalised likelihood ratio to the rewards of every arm. A ``GLRTrigger`` tests the
    residuals of predictions, with a threshold that differs from the thresholds of Gerogiannis et
    al. and Besson et al.

    The memory consists of two tensors: the standardised residuals since the last reset, newest
    first, `batch_shape x longest`, and the number of these residuals, `batch_shape`. If a trial has
    fewer than ``longest`` residuals, the unused entries are arbitrary.

    Args:
        delta: Bound δ, in (0, 1), on the probability of any trigger on a static objective.
        longest: Largest number w of newest residuals in a test. Memory and computation per round
            grow with ``longest``.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1), or if ``longest`` is below 1.
    """

    delta: float = 0.1
    longest: int = 64

    on_observation = True

    def __post_init__(self) -> None:
        settle_number(self, "delta", "(0, 1)", "0.1 is usual.")
        settle_integer(self, "longest", 1, "give whole rounds.")

    def init(self, batch_shape: Size) -> tuple[Tensor, Tensor]:
        number = torch.zeros(batch_shape, dtype=torch.int64, device="cpu")
        return torch.zeros((*batch_shape, self.longest), device="cpu"), number

    def keep(self, log: Log) -> Retained:
        if log.newest is None:
            return Retained()
        # A reset by another rule before this round changes the number of rounds t', but not the
        # memory.
        errors = self._errors(log, log.since - 1)
        # A failed measurement adds no residual, but its round counts in the threshold.
        fired = self.statistic(*errors) > self.threshold(log.since)
        return Retained(newest=1, where=fired, reset=fired)

    def update(self, log: Log) -> tuple[Tensor, Tensor]:
        # Here the number of rounds t' already includes the next round. If a reset came just before
        # this observation, t' is 2 (this round and the next), and the next test includes the
        # residual of this observation. If this observation caused a reset, t' is 1 (the next
        # round), and the next test excludes the residual of this observation.
        return self._errors(log, (log.since - 2).clamp_min(0))

    def statistic(self, e: Tensor, number: Tensor) -> Tensor:
        """The test statistic max_w G_w, `batch_shape`; 0 if there are no residuals.

        Args:
            e: Standardised residuals, newest first, `batch_shape x longest`.
            number: Number of valid residuals, `batch_shape`.
        """
        w = torch.arange(1, self.longest + 1, dtype=e.dtype, device=e.device)
        ratios = e.cumsum(-1).square() / (2 * w)
        return ratios.masked_fill(w > number.unsqueeze(-1), 0.0).amax(-1)

    def threshold(self, since: Tensor) -> Tensor:
        """The threshold ln(L π² t'² / (6 δ)), `batch_shape`, float64.

        Args:
            since: Number t' of rounds since the last reset, `batch_shape`.
        """
        rounds = since.to(torch.float64)
        lengths = rounds.clamp_max(self.longest)
        constant = math.log(math.pi**2 / 6) - math.log(self.delta)
        return torch.log(lengths * rounds.square()) + constant

    def _errors(self, log: Log, before: Tensor) -> tuple[Tensor, Tensor]:
        """The residuals and their number; the new observation adds its residual unless it failed.

        Args:
            log: The log, including the newest observation.
            before: Number of rounds since the last reset, without the round of this observation,
                `batch_shape`, int64.
        """
        seen, (errors, number) = log.newest, log.memory
        assert seen is not None
        number = torch.minimum(number, before)
        good = seen.noise.isfinite()
        error = (seen.y - seen.mean) / (seen.sd.square() + seen.noise).sqrt()
        shifted = torch.cat([error.unsqueeze(-1), errors[..., :-1]], -1)
        return (
            torch.where(good.unsqueeze(-1), shifted, errors),
            torch.where(good, (number + 1).clamp_max(self.longest), number),
        )
