"""Default strategies, which need no prior knowledge of the objective."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import Any, NamedTuple, cast

import optuna
import torch
from gpytorch.kernels import MaternKernel
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import Markov
from botorch_tv.gp.mixture.bank import FIRST, MOST_COLUMNS
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.learning import Refit
from botorch_tv.loop.log import OLDEST, MeasurementLog, Place, trial_answer, trial_log
from botorch_tv.optuna.trials import StudySpace, TrialClock, Trials, failures, sort
from botorch_tv.strategies import adaptive_gp_ucb
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.outcomes import Success, as_if_measured, recommended
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, require_integer, shown


def default_strategy(columns: int) -> Strategy:
    """:func:`~botorch_tv.strategies.adaptive_gp_ucb` in up to 20 columns, else one that learns."""
    return adaptive_gp_ucb() if columns <= MOST_COLUMNS else learning_strategy()


def learning_strategy() -> Strategy:
    """A strategy that learns lengthscale, noise and rate of change; values have deviation 1."""
    with torch.device("cpu"):
        kernel = MaternKernel(nu=2.5).double()
        kernel.lengthscale = 0.3
    return GPStrategy(
        kernel=kernel,
        noise=0.1,
        decay=Markov(0.01),
        mean="estimated",
        width=Logarithmic(0.4, 4.0),
        learning=Refit(),
    )


UNIT_FROM = 8
"""Values that set the units for strategies that do not estimate them."""
_logger: logging.Logger = optuna.logging.get_logger(__name__)


class Compilable(NamedTuple):
    """Everything known when a trial is decided: the trials as :func:`sort` has them, and a log."""

    log: MeasurementLog
    space: StudySpace
    unit: tuple[float, float, float, float]
    """Center and scale of values, and origin and tempo of times, inside a model."""
    valued: list[tuple[float, FrozenTrial]]
    failed: Trials
    pruned: Trials
    running: Trials
    undecided: Trials

    def place(self, clock_time: float) -> float:
        """The time inside the model, even if it lies before that of the newest value."""
        _, _, origin, tempo = self.unit
        return (clock_time - origin) / tempo

    def time(self, clock_time: float) -> float:
        """The time inside the model, no earlier than that of the newest value."""
        return max(self.place(clock_time), float(self.log.state.time))


class DriftSampler(BaseSampler):
    """An Optuna sampler run by a strategy that discounts old trials.

    Each trial has a time, and suggestions are for the present: the start of the trial that asks.
    Optuna's storages, dashboards, command line and plots work as usual.

    **Workers.** The sampler reads everything from the study, so several processes may share a
    storage, and a restarted process continues where it stopped. With ``seed``, the same trials lead
    to the same suggestion in every process, up to rounding with several threads. Trials of a dead
    process count as running, as they do for Optuna; a storage with ``heartbeat_interval`` marks
    them as failed.

    **Trials without a value.** A running trial is treated as if its result were the predicted mean
    (Desautels et al., 2014), so that the next goes elsewhere; if it has no parameters yet, its
    suggestion is computed first. Failed and infeasible trials (with a constraint above 0) and
    infinite values say nothing about the value of the objective. They lower the probability that
    trials near them succeed, which multiplies what a point promises, see
    :mod:`botorch_tv.strategies.outcomes`; points less than half as likely to succeed as the
    likeliest are avoided. The newest 16 pruned trials are treated as if their value were the median
    of all values, or the predicted mean if that is worse.

    **Parameters.** Floats, integers and categorical parameters with the same range in all trials
    are modelled, see :class:`~botorch_tv.strategies.parameters.Choice`; others are sampled
    independently. The model sees the values actually tried, in the unit cube, so lengthscales of a
    strategy's kernel are fractions of a range. Two categories are as far apart as the ends of a
    range.

    **Categories.** With the default strategy a category missing from the newest 30 trials is tried
    again where it is predicted to be best, in at most one of ten trials; after each unsuccessful
    attempt the waiting time doubles, up to 240 trials. Otherwise an improvement of that category
    alone would go unnoticed.

    Args:
        strategy: The strategy; its ``maximize`` is taken from the study. It sees values as they
            are, and time in the ``unit``. By default
            :func:`~botorch_tv.strategies.adaptive_gp_ucb`, which needs no prior knowledge; with
            more than 20 columns, one that learns lengthscale, noise and rate of change
            (:func:`~botorch_tv.optuna.sampler.learning_strategy`), in units set by the
            first 8 trials.
        time_key: User attribute with the time of each trial, a number in any unit, which every
            trial must set before its first ``suggest_``. By default Optuna's time stamps: the end
            of a completed trial, the start of one that asks.
        unit: Unit of time stamps.
        n_startup_trials: Trials that have ended before the model is used, of which four must have
            a value; until then parameters are spread over the space.
        seed: Seed of all random numbers; a different one in every sampler by default.
        independent_sampler: Sampler of parameters that are not in all trials, and of the first
            trial; random by default.
        warn_independent_sampling: Whether to log its use after the first trials.

    Raises:
        ValueError: If an argument is of the wrong type or out of range.

    Example:
        >>> study = optuna.create_study(sampler=DriftSampler(), storage="sqlite:///line.db")
        >>> study.optimize(objective, n_trials=100)
        >>> best_now(study).params
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        time_key: str | None = None,
        unit: timedelta = timedelta(hours=1),
        n_startup_trials: int = 8,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        require(
            strategy is None or isinstance(strategy, Strategy),
            f"DriftSampler: strategy is {shown(strategy)}, but it must be a Strategy; time_key= "
            "is the user attribute with the time of each trial.",
        )
        require(
            strategy is None or (strategy.remakes_suggestions and not strategy.consults),
            f"DriftSampler: {strategy!r} consults an expert, or must be told which member made a "
            "suggestion, for which Optuna has no place; use ask and tell of the strategy.",
        )
        self._strategy = strategy
        self._clock = TrialClock(time_key, unit)
        self._startup = require_integer("n_startup_trials", n_startup_trials, 1, "8 is usual.")
        if seed is not None:
            seed = require_integer("DriftSampler: seed", seed, 0, "give a whole number.")
        self._seed = secrets.randbits(62) if seed is None else seed
        self._independent_sampler = independent_sampler
        self._warns = warn_independent_sampling
        # Replaced as a whole, never changed, so that threads may share the sampler.
        self._before: tuple[MeasurementLog, StudySpace] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without the large log, which is recomputed from the study."""
        return self.__dict__ | {"_before": None}

    def reseed_rng(self) -> None:
        """Nothing for this sampler, whose random numbers differ from trial to trial."""
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Parameters that all complete trials have in common and that leave a choice."""
        return common(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Parameters for the present.

        Raises:
            ValueError: If the study has several objectives, or the trial no time.
        """
        self._raise_error_if_multi_objective(study)
        space = StudySpace(search_space)
        if space.columns == 0:
            return space.params(torch.empty(0, device="cpu"))
        now = self._clock.begun(trial)
        known = self.known(study, space)
        if not self.begins(known.valued, known.failed, known.pruned):
            return space.params(space.filling(trial.number, self._number(0, "spread") % 2**31))
        return space.params(self._choice(known, trial.number, now))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A value that no model decides.

        Raises:
            ValueError: If the study has several objectives.
        """
        self._raise_error_if_multi_objective(study)
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if self._warns and len(complete) >= self._startup and not param_distribution.single():
            _logger.warning(
                f"Parameter {param_name!r} of trial {trial.number} is sampled independently, since "
                "not all complete trials have it with these values; DriftSampler learns nothing "
                "about it. DriftSampler(warn_independent_sampling=False) silences this."
            )
        sampler = self._independent_sampler or RandomSampler(
            seed=self._number(trial.number, param_name) % 2**32
        )
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    # ---------------------------------------------------------------- within

    def begins(self, valued: Sized, *others: Sized) -> bool:
        """Whether enough trials have ended, with a value or without, for a model."""
        ended = len(valued) + sum(map(len, others))
        return ended >= self._startup and len(valued) >= min(self._startup, FIRST)

    def known(self, study: Study, space: StudySpace) -> Compilable:
        """What the trials of a study say about some parameters."""
        log, before = self._before or (None, None)
        if before is not None and before.distributions == space.distributions:
            space = before  # its points of finished trials are known
        trials = sort(study.get_trials(deepcopy=False), space, self._clock)
        valued = sorted(trials[0], key=lambda one: (one[0], one[1].number))
        maximize = study.direction == StudyDirection.MAXIMIZE
        if log is None or before is not space or log.strategy.maximize != maximize:
            strategy = self._strategy or default_strategy(space.columns)
            log = trial_log(replace(cast(GPStrategy, strategy), maximize=maximize), space)
        unit = (0.0, 1.0, valued[0][0] if valued else 0.0, 1.0)
        first = [trial.values[0] for _, trial in valued[:UNIT_FROM]]
        if len(first) > 1 and self._strategy is None and not isinstance(log.strategy, Adaptive):
            # The study's own units for a default that needs some.
            between = median(b - a for (a, _), (b, _) in pairwise(valued[:UNIT_FROM]))
            unit = (fmean(first), pstdev(first) or 1.0, unit[2], between or 1.0)
        center, scale, origin, tempo = unit
        rows = [
            trial_answer(
                (time - origin) / tempo, one.number, point, (one.values[0] - center) / scale
            )
            for time, one in valued
            if (point := space.point_of(one)) is not None
        ]
        if self.begins(*trials[:3]):
            log = log.changed(rows, OLDEST)
        self._before = (log, space)
        return Compilable(log, space, unit, *trials)

    def success(self, known: Compilable, now: float) -> Success | None:
        """Where trials succeed; None where none has failed."""
        failed = [one for one in known.failed for _ in range(failures(one))]
        return known.log.success(now, self._ended(known, failed, now))

    @without_gradients
    def _choice(self, known: Compilable, number: int, now: float) -> Tensor:
        """The point for a trial, `D`."""
        log, present = known.log, known.time(now)
        pruned = self._ended(known, known.pruned, present)
        running = [(present, known.space.point(trial.params)) for trial in known.running]
        state = log.as_if_answered(running, present, pruned)
        chance = self.success(known, present)
        for other in [one for one in known.undecided if one.number < number][-3:]:
            X = self._asked(log, state, other.number, present, chance)
            state = as_if_measured(log.quiet, state, X, present)
        return self._asked(log, state, number, present, chance)

    def _asked(
        self, log: MeasurementLog, state: State, number: int, now: float, chance: Success | None
    ) -> Tensor:
        generator = torch.Generator().manual_seed(self._number(number, "choice") % 2**63)
        retry = self._strategy is None
        return log.choice(state, now, chance, retry=retry, generator=generator).X

    def _ended(self, known: Compilable, trials: Iterable[FrozenTrial], now: float) -> list[Place]:
        """When and where trials without a value ended."""
        measured = [(self._clock.measured(trial), trial) for trial in trials]
        return [
            (now if when is None else known.place(when), known.space.point(trial.params))
            for when, trial in measured
        ]

    def _number(self, trial: int, what: str) -> int:
        """A random number of its own for every purpose."""
        digest = hashlib.sha256(f"{self._seed}/{trial}/{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big")


def common(study: Study) -> dict[str, BaseDistribution]:
    """Parameters that all complete trials have in common and that leave a choice."""
    found = intersection_search_space(study.get_trials(deepcopy=False))
    return {name: one for name, one in found.items() if not one.single()}


class BestNow(NamedTuple):
    """The parameters expected to be best at present.

    Attributes:
        params: In the study's own units and categories.
        mean: Predicted mean, in the units of the objective.
        sd: Predicted standard deviation, without observation noise.
    """

    params: dict[str, Any]
    mean: float
    sd: float


@without_gradients
def best_now(
    study: Study, sampler: DriftSampler | None = None, *, now: float | datetime | None = None
) -> BestNow:
    """The parameters with the best lower bound, mean - sd / 2, at the present time, tried or not.

    When minimising, mean + sd / 2. Settings that are likelier to fail than to succeed are left out.

    ``study.best_trial`` compares values as they were when they were measured, so an old success
    stays the best forever.

    Args:
        study: The study.
        sampler: The sampler whose model is used; the study's own by default.
        now: The present, on the clock of the trials: a datetime if they have time stamps, by
            default the time of the call; a number if they use a user attribute, by default that of
            the newest trial. Earlier times are replaced by that of the newest trial.

    Raises:
        ValueError: If the study has several objectives or no common parameter, its sampler is not
            a ``DriftSampler``, too few trials have a value, or every setting is likelier to fail
            than to succeed.
    """
    sampler = study.sampler if sampler is None else sampler  # type: ignore[assignment]
    if not isinstance(sampler, DriftSampler):
        raise ValueError(
            f"best_now: the sampler is {sampler}, which knows no present; pass one, "
            "best_now(study, DriftSampler())."
        )
    sampler._raise_error_if_multi_objective(study)
    space = StudySpace(common(study))
    require(
        space.columns > 0,
        "best_now: no parameter is in all complete trials with the same choice of values; run "
        "trials that have one in common.",
    )
    known = sampler.known(study, space)
    require(
        sampler.begins(known.valued, known.failed, known.pruned),
        f"best_now: {len(known.valued)} trials have a value, but the model begins with "
        f"{sampler._startup}; run more, or lower n_startup_trials.",
    )
    present = known.time(sampler._clock.present(now, [time for time, _ in known.valued]))
    strategy, state = known.log.strategy, known.log.state
    chance = sampler.success(known, present)
    X = recommended(strategy, state, present, None, chance)
    require(
        chance is None or not chance.fails,
        "best_now: every setting is likelier to fail than to succeed; run more trials.",
    )
    posterior = strategy.posterior(state, X.unsqueeze(0), now=present)
    mean, sd = float(posterior.mean), float(posterior.variance) ** 0.5
    center, scale, _, _ = known.unit
    return BestNow(space.params(X), center + scale * mean, scale * sd)
