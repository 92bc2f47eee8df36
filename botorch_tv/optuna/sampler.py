"""An Optuna sampler that discounts old trials, and a function for the currently best parameters."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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
from optuna.samplers._base import _process_constraints_after_trial
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import Markov
from botorch_tv.gp.mixture.bank import FIRST, MOST_COLUMNS
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.hints import hinted
from botorch_tv.learning import Refit
from botorch_tv.loop.log import (
    OLDEST,
    RECENT,
    Censored,
    Measurement,
    MeasurementLog,
    Problem,
    Restraints,
    like,
    trial_log,
)
from botorch_tv.optuna.trials import (
    BEGUN,
    ENDED,
    StudySpace,
    TrialClock,
    Trials,
    axis,
    constraints_of,
    modelled,
    of_one_kind,
    present_trials,
    rows_of,
)
from botorch_tv.strategies import adaptive_gp_ucb
from botorch_tv.strategies.expressions import parse_limits, parse_objectives
from botorch_tv.strategies.feasible import Cost
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.near import Moves
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.parameters import Number
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import (
    require,
    require_duration,
    require_integer,
    require_number,
    shown,
)


def default_strategy(columns: int) -> Strategy:
    """``adaptive_gp_ucb`` for up to 20 columns of parameters, else :func:`learning_strategy`."""
    return adaptive_gp_ucb() if columns <= MOST_COLUMNS else learning_strategy()


def learning_strategy() -> Strategy:
    """A strategy that learns lengthscale, noise and rate of change, for standardised values."""
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
"""Number of first values that set the units of y and time, for strategies that do not estimate
units."""
_logger: logging.Logger = optuna.logging.get_logger(__name__)


class StudyData(NamedTuple):
    """The data from which a trial's point is chosen.

    Attributes:
        log: The log of all finished trials.
        space: The modelled parameters.
        unit: Four numbers that define the units of the model: centre and scale of values, origin
            and scale of times.
        valued: Number of trials with a value.
        begins: Whether enough trials have ended to use the model.
        running: The newest running trials that have all parameters.
        undecided: The running trials that lack a parameter.
    """

    log: MeasurementLog
    space: StudySpace
    unit: tuple[float, float, float, float]
    valued: int
    begins: bool
    running: Trials
    undecided: Trials

    def time(self, clock_time: float) -> float:
        """A time in the model's unit, at least the time of the newest trial."""
        _, _, origin, tempo = self.unit
        return max((clock_time - origin) / tempo, float(self.log.state.time))


@hinted
class DriftSampler(BaseSampler):
    """An Optuna sampler with a strategy that discounts old trials.

    Each trial has a time. The sampler suggests parameters for the time at which a new trial starts.
    Storages, dashboards, command line and plots of Optuna work as usual.

    **Workers.** The sampler reads all data from the study, so several processes may share a
    storage, and a restarted process continues where it stopped. With ``seed``, the same trials lead
    to the same suggestion in every process, except for rounding errors if PyTorch uses several
    threads. Trials of a killed process count as running until they are lost; a storage with
    ``heartbeat_interval`` marks them as failed. The times of trials are stored in UTC as system
    attributes, so workers may be in several time zones.

    **Trials without a value.** A running trial counts as if its value were the predicted mean
    (Desautels et al., 2014), until it counts as lost, see ``lost_after``. If a running trial has no
    parameters yet, the sampler first computes a suggestion for this trial. Failed trials
    and infinite values reduce the probability that nearby trials succeed; see
    :mod:`botorch_tv.strategies.feasible`. A point is avoided if its probability of success is less
    than half of the highest probability of success. A pruned trial is a bound on its value, see
    :func:`~botorch_tv.optuna.trials.bound`; with several objectives it is dropped.

    **Constraints and several objectives.** Every constraint and every objective is predicted; see
    :class:`~botorch_tv.strategies.Outcomes`. A constraint, by ``trial.set_constraint`` or
    ``constraints_func``, is kept if its value is at most 0; it may be missing. Points are chosen
    that keep all constraints with probability 0.5 (0.9 with ``max_step``), if there are any, and
    recommended with probability 0.9; ``safe`` replaces these.

    **Parameters.** Floats, integers and categorical parameters are modelled if all complete trials
    have them; other parameters are sampled independently. A parameter that is added to a study is
    modelled after ``n_startup_trials`` complete trials with it. If the range of a parameter
    changes, the newest range is used. Trials outside the newest range still count. Lengthscales are
    fractions of a parameter's newest range. Any two categories are as far apart as the ends of a
    range; see :class:`~botorch_tv.strategies.parameters.Choice`. A parameter that a
    ``PartialFixedSampler`` or ``enqueue_trial`` fixes is modelled, with its value held.

    **Categories.** With the default strategy, a category that the first eight trials lack, such as
    an added category, is tried within four trials at its best predicted point, and again after
    four and after eight trials without it. A category missing from the newest 30 trials is tried
    again, in at most one of ten trials. Whenever a trial with a rarely
    tried category brings no improvement, the interval to the next trial with this category doubles,
    up to 240 trials.

    Args:
        strategy: The strategy; its ``maximize`` is taken from the study. The strategy receives the
            trials' values, and the trials' times in ``unit``. The default is
            :func:`~botorch_tv.strategies.adaptive_gp_ucb` for up to 20 columns of parameters, and
            :func:`~botorch_tv.optuna.sampler.learning_strategy` for more columns. If the default is
            ``learning_strategy``, the first 8 trials with a value determine the units of values and
            times.
        time_key: Name of the user attribute that contains the time of a trial. The time is a number
            in any unit. Every trial must set the attribute before its first ``suggest_``. By
            default, times are Optuna's time stamps: for a completed trial its end, and for a new
            trial its start.
        context: Names of user attributes that contain conditions which are not chosen, such as the
            weather, as numbers. Every trial must set them before its first ``suggest_``.
        constraints_func: A function that computes the constraints of a complete or pruned trial, as
            for Optuna's samplers.
        unit: Unit of time stamps.
        n_startup_trials: Number of ended trials before the model is used; at least four of these
            trials must have a value. Before the model is used, the sampler suggests space-filling
            points.
        seed: Seed of all random numbers; random by default.
        lost_after: Duration after which a running trial counts as lost, for example because its
            process was killed. The default is 10 times the median duration of the complete trials,
            but at least a minute.
        independent_sampler: Sampler for the first trial, and for parameters that are not in all
            trials; by default a random sampler.
        warn_independent_sampling: Whether to log the use of ``independent_sampler``.
        safe: Probability with which every trial must keep all constraints, such as 0.99, as for
            :class:`~botorch_tv.Loop`. The first trial must be at a setting that is known to be
            safe: enqueue it, and set its constraints. Before it is complete, other trials are
            refused. With ``safe`` or ``max_step`` the strategy chooses the first trials, too, and
            no restricted parameter is sampled independently.
        max_step: The largest difference between a trial and the newest other trial that has started
            or ended, ``{"speed": 0.5}``, in the units of the parameters. Values that
            ``enqueue_trial`` or a ``PartialFixedSampler`` fixes are not restricted.
        move_cost: The cost of a move from the newest other trial, in the units of the objective, as
            for :class:`~botorch_tv.Loop`; also in :func:`best_now`. A function takes two dicts.

    Raises:
        ValueError: If an argument is of the wrong type or out of range. When a trial is suggested,
            if ``safe`` has no first trial, or if no trial has a parameter that ``max_step`` or
            ``move_cost`` names.
        InputDataError: As for ``max_step`` and ``move_cost`` of :class:`~botorch_tv.Loop`.

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
        context: str | Sequence[str] = (),
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        unit: timedelta = timedelta(hours=1),
        n_startup_trials: int = 8,
        seed: int | None = None,
        lost_after: timedelta | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        safe: float | None = None,
        max_step: Mapping[str, float] | None = None,
        move_cost: Cost | None = None,
    ) -> None:
        require(
            isinstance(strategy, Strategy | None) and not isinstance(strategy, Outcomes),
            f"DriftSampler: strategy is {shown(strategy)}, but it must be a Strategy for one "
            "outcome; time_key= names the user attribute with the time of each trial, and Optuna "
            "states objectives and constraints.",
        )
        require(
            strategy is None or (strategy.remakes_suggestions and not strategy.consults),
            f"DriftSampler: {strategy!r} needs an expert's answers or, for each suggestion, the "
            "committee member that made the suggestion. Optuna stores neither experts' answers nor "
            "committee members; use ask and tell of the strategy.",
        )
        self._restraints = Restraints(safe, max_step, move_cost).checked()
        self._strategy = strategy
        keys = (context,) if isinstance(context, str) else tuple(context)
        self._clock = TrialClock(time_key, unit, keys)
        self._constraints_func = constraints_func
        self._startup = require_integer("n_startup_trials", n_startup_trials, 1, "8 is usual.")
        if seed is not None:
            seed = require_integer("DriftSampler: seed", seed, 0, "give an integer.")
        if lost_after is not None:
            require_duration("DriftSampler: lost_after", lost_after)
        self._lost_after = lost_after
        self._seed = secrets.randbits(62) if seed is None else seed
        self._independent_sampler = independent_sampler
        self._warns = warn_independent_sampling
        # The tuple is replaced, never changed, because threads may share the sampler.
        self._before: tuple[MeasurementLog, StudySpace, object] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the log, which is recomputed from the study."""
        return self.__dict__ | {"_before": None}

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; the ``DriftSampler`` itself needs no new seed."""
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The modelled parameters and their newest distributions.

        Args:
            study: The study.
            trial: The new trial.
        """
        trials = study.get_trials(deepcopy=False)
        found = modelled(trials, self._startup)
        # Optuna refuses a value from a distribution of another kind than the trial then asks for.
        return {name: own for name, own in found.items() if of_one_kind(name, own, trials)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The values of all modelled parameters for a new trial.

        Args:
            study: The study.
            trial: The new trial.
            search_space: A mapping from parameter names to distributions.

        Raises:
            ValueError: If the trial has no time or no context.
        """
        found = self._suggested(study, trial, search_space)
        return {name: found[name] for name in search_space}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The value of a parameter that is not modelled.

        Args:
            study: The study.
            trial: The new trial.
            param_name: Name of the parameter.
            param_distribution: Distribution of the parameter.

        Raises:
            ValueError: If the trial has no time or no context.
        """
        found = modelled(study.get_trials(deepcopy=False), self._startup)
        if self._restraints.safe or param_name in {*found, *(self._restraints.max_step or ())}:
            return self._suggested(study, trial, {param_name: param_distribution})[param_name]
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if self._warns and len(complete) >= self._startup and not param_distribution.single():
            _logger.warning(
                f"Parameter {param_name!r} of trial {trial.number} is sampled independently, since "
                "not all complete trials have it. "
                "DriftSampler(warn_independent_sampling=False) silences this."
            )
        seed = self._number(trial.number, param_name) % 2**32
        sampler = self._independent_sampler or RandomSampler(seed=seed)
        value = sampler.sample_independent(study, trial, param_name, param_distribution)
        own = axis(param_distribution)
        if isinstance(own, Number) and own.step is not None:
            value = own.rounded(value, torch.float64)  # a decimal number
        return value

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Store the time in UTC, and notify the independent sampler of a new trial.

        Args:
            study: The study.
            trial: The new trial.
        """
        study._storage.set_trial_system_attr(trial._trial_id, BEGUN, time.time())
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Store the time in UTC and the constraints, and notify the independent sampler.

        Args:
            study: The study.
            trial: The trial.
            state: The state in which the trial ended.
            values: The objective values of the trial; None if the trial has no values.
        """
        study._storage.set_trial_system_attr(trial._trial_id, ENDED, time.time())
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    # ---------------------------------------------------------------- internals

    def _suggested(
        self, study: Study, trial: FrozenTrial, asked: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The values of the asked parameters, among values of all modelled parameters."""
        found = modelled(study.get_trials(deepcopy=False), self._startup)
        found |= {name: own for name, own in trial.distributions.items() if name in found}
        space = StudySpace(dict(sorted((found | asked).items())))
        if space.columns == 0:
            return space.params(torch.empty(0, device="cpu"))
        now = self._clock.begun(trial)
        data = self._data(study, space)
        if not (data.begins or self._restraints.from_the_first):
            seed, first = self._number(0, "spread") % 2**31, trial.number
            open_points = {space.point_of(other) for other in data.running}
            return space.params(MixedSearch(space).unused(first, seed, open_points))
        return space.params(self._choice(study, data, trial, now))

    def _data(self, study: Study, space: StudySpace) -> StudyData:
        """The trials of a study as data for a model of some parameters."""
        log, before, problem = self._before or (None, None, None)
        if before is not None and before.distributions == space.distributions:
            space = before  # this space has cached the points of finished trials
        living = present_trials(study.get_trials(deepcopy=False), self._lost_after)
        names = sorted({name for trial in living for name in constraints_of(trial)})
        own, columns = (study.directions, names), space.columns + len(self._clock.keys)
        learns = self._strategy is None and columns > MOST_COLUMNS
        others = len(study.directions) + len(names) + len(self._clock.keys)
        others += self._restraints.move_cost is not None
        require(
            not learns or others == 1,
            f"DriftSampler: the parameters have {columns} columns, but up to {MOST_COLUMNS} are "
            "supported with constraints, more objectives, context or move_cost; give a strategy.",
        )
        if log is None or before is not space or problem != own:
            signs = ["" if way == StudyDirection.MAXIMIZE else "-" for way in study.directions]
            objectives = parse_objectives([f"{sign}value{n}" for n, sign in enumerate(signs)])
            limits = parse_limits([f"c{n} <= 0" for n in range(len(names))]) if names else ()
            model = self._strategy or default_strategy(columns)
            strategy = Problem(objectives, limits).strategy(model, self._restraints)
            log = trial_log(strategy, space, len(self._clock.keys))
        rows = rows_of(living, space, self._clock, names)
        valued = [row for row in rows if row.y is not None and not isinstance(row, Censored)]
        unit = (0.0, 1.0, valued[0].time if valued else 0.0, 1.0)
        if learns and len(valued) > 1:
            # The default strategy with fitted hyperparameters expects standardised values.
            first = [cast(float, row.y) for row in valued[:UNIT_FROM]]
            between = median(b.time - a.time for a, b in pairwise(valued[:UNIT_FROM]))
            unit = (fmean(first), pstdev(first) or 1.0, unit[2], between or 1.0)
        begins = len(rows) >= self._startup and len(valued) >= min(self._startup, FIRST)
        if begins or self._restraints.from_the_first:
            ended = [row for row in rows if row.y is not None or not isinstance(row, Censored)]
            log = log.changed([in_unit(row, unit) for row in ended], OLDEST)
        self._before = (log, space, own)
        running = [trial for trial in living if trial.state == TrialState.RUNNING]
        placed = [trial for trial in running if space.point_of(trial) is not None]
        undecided = [trial for trial in running if not space.by_name.keys() <= trial.params.keys()]
        return StudyData(log, space, unit, len(valued), begins, placed[-RECENT:], undecided)

    def _moves(self, study: Study, space: StudySpace, held: Collection[str] = ()) -> Moves:
        """The steps and costs of moves from the newest value of each parameter.

        A name that no trial has is refused after the first complete trial.

        Args:
            study: The study.
            space: The modelled parameters.
            held: Names of parameters that are held, at any distance.
        """
        trials = study.get_trials(deepcopy=False)
        values = {name: value for trial in trials for name, value in trial.params.items()}
        newest, lacking = space.placed(values)
        begun = any(trial.state == TrialState.COMPLETE for trial in trials)
        others = (values.keys() if begun else self._restraints.names) - space.by_name.keys()
        return self._restraints.moves(newest, lacking | others | {*held})

    @without_gradients
    def _choice(self, study: Study, data: StudyData, trial: FrozenTrial, now: float) -> Tensor:
        """The point for a trial, `D`."""
        log, space, present, retry = data.log, data.space, data.time(now), self._strategy is None
        context = self._clock.context(trial) or ()
        pairs = [(other, self._clock.context(other)) for other in data.running]
        running = [(present, space.point(t.params) + c) for t, c in pairs if c is not None]
        row = like(log.state).new_tensor(context) if context else None

        def asked(other: FrozenTrial) -> Tensor:
            fixed = getattr(study.sampler, "_fixed_params", {})  # of a PartialFixedSampler
            fixed = fixed | other.system_attrs.get("fixed_params", {}) | other.params  # enqueued
            held, number = space.held(fixed), self._number(other.number, "choice") % 2**63
            source = torch.Generator().manual_seed(number)
            moves = self._moves(study, space, held)
            return log.choice(
                present, running, held, retry=retry, context=row, moves=moves, generator=source
            ).X

        for other in [other for other in data.undecided if other.number < trial.number][-3:]:
            running.append((present, tuple(asked(other).tolist())))
        return asked(trial)[: space.columns]

    def _number(self, trial: int, purpose: str) -> int:
        """A random integer that depends on the seed, a trial and a purpose."""
        digest = hashlib.sha256(f"{self._seed}/{trial}/{purpose}".encode()).digest()
        return int.from_bytes(digest[:8], "big")


def in_unit(row: Measurement, unit: tuple[float, float, float, float]) -> Measurement:
    """A row in the units of the model; named outcomes keep their units."""
    center, scale, origin, tempo = unit
    time = (row.time - origin) / tempo
    y = (row.y - center) / scale if isinstance(row.y, float) else row.y
    return replace(row, planned_for=time, time=time, y=y)


Now = float | datetime | None
Context = Mapping[str, float] | None
TRADES = 10
"""Number of trade-offs between objectives that :func:`pareto_now` computes."""


class BestNow(NamedTuple):
    """The parameters that are predicted to be best now.

    Attributes:
        params: A mapping from parameter names to values, as in the ``params`` of a trial.
        mean: Posterior mean of the objective.
        sd: Posterior standard deviation of the objective.
    """

    params: dict[str, Any]
    mean: float
    sd: float


class ParetoNow(NamedTuple):
    """Parameters among several that no other are predicted to dominate now.

    Attributes:
        params: A mapping from parameter names to values, as in the ``params`` of a trial.
        means: Posterior mean of each objective.
        sds: Posterior standard deviation of each objective.
        keeps: Probability of keeping all constraints; None without constraints.
    """

    params: dict[str, Any]
    means: list[float]
    sds: list[float]
    keeps: float | None


@without_gradients
def best_now(
    study: Study, sampler: DriftSampler | None = None, *, now: Now = None, context: Context = None
) -> BestNow:
    """The parameters at which the objective now has the highest lower bound, mean - sd / 2.

    When minimising, the result is the parameters with the lowest upper bound, mean + sd / 2.
    Parameters more likely to fail than to succeed are excluded, and parameters that keep all
    constraints with a probability below 0.9, if others keep them. The adaptive strategy ignores
    the newest trial of an objective without constraints while it is more than 2.5 standard
    deviations better than predicted.

    Args:
        study: The study.
        sampler: A ``DriftSampler``; the sampler of the study by default.
        now: The present time: a number if ``time_key`` is set, and otherwise a datetime, in the
            zone of the storage's time stamps if it has no zone. The default is the newest trial's
            time if ``time_key`` is set, and otherwise the current time. A time earlier than the
            newest trial is replaced by the time of that trial.
        context: The context by name; that of the newest trial by default.

    Returns:
        The best parameters, even if no trial has tried them, and the posterior mean and standard
        deviation of the objective at these parameters.

    Raises:
        ValueError: If the study has several objectives, if the complete trials share no parameter,
            if the sampler is not a ``DriftSampler``, if too few trials have a value, if a context
            is missing or unknown, or if every setting is more likely to fail than to succeed.
    """
    data, present, row, moves = _prepared("best_now", study, sampler, now, context)
    best, (center, scale, _, _) = data.log.best(present, row, None, moves), data.unit
    require(
        not best.fails,
        "best_now: every setting is more likely to fail than to succeed; run more trials.",
    )
    params = data.space.params(best.X[: data.space.columns])
    return BestNow(params, center + scale * best.mean, scale * best.sd)


@without_gradients
def pareto_now(
    study: Study, sampler: DriftSampler | None = None, *, now: Now = None, context: Context = None
) -> list[ParetoNow]:
    """Parameters that trade several objectives off now: none is predicted to be worse in all.

    Args:
        study: The study.
        sampler: As for :func:`best_now`.
        now: As for :func:`best_now`.
        context: As for :func:`best_now`.

    Returns:
        The parameters, with the posterior mean and standard deviation of each objective.

    Raises:
        ValueError: If the study has a single objective, or as for :func:`best_now`.
    """
    data, present, row, _ = _prepared("pareto_now", study, sampler, now, context)
    return [
        ParetoNow(data.space.params(X[: data.space.columns]), [*mean.values()], [*sd.values()], p)
        for X, mean, sd, p in data.log.pareto(present, row, TRADES)
    ]


def _prepared(
    name: str, study: Study, sampler: BaseSampler | None, now: Now, context: Context
) -> tuple[StudyData, float, Tensor | None, Moves]:
    """The data, the present time, the context and the moves, in the units of the model."""
    single = "a single objective", "best_now"
    has, fit = single if len(study.directions) == 1 else ("several objectives", "pareto_now")
    require(name == fit, f"{name}: the study has {has}; call {fit}(study).")
    sampler = study.sampler if sampler is None else sampler
    if not isinstance(sampler, DriftSampler):
        raise ValueError(
            f"{name}: the sampler is {sampler}, but it must be a DriftSampler; give "
            f"{name}(study, DriftSampler())."
        )
    trials, keys = study.get_trials(deepcopy=False), sampler._clock.keys
    space = StudySpace(modelled(trials, sampler._startup))
    require(
        space.columns > 0,
        f"{name}: no trial is complete, or no parameter with several values is in all complete "
        "trials; run trials that share a parameter.",
    )
    omitted = {key for trial in trials for key in trial.params} - set(space.by_name)
    if omitted:
        _logger.warning(f"{name} omits {', '.join(sorted(omitted))}, not in all complete trials.")
    data = sampler._data(study, space)
    require(
        data.begins,
        f"{name}: {data.valued} trials have a value, but the model needs {sampler._startup}; run "
        "more, or lower n_startup_trials.",
    )
    log, (_, _, origin, tempo) = data.log, data.unit
    present = data.time(sampler._clock.present(now, [origin + tempo * float(log.state.time)]))
    row = log.answers[-1].point[space.columns :]
    if context is not None:
        require(
            isinstance(context, Mapping) and set(context) == set(keys),
            f"{name}: context is {shown(context)}, but it must have a number for each of "
            f"{list(keys)}.",
        )
        fix = "give a number."
        row = tuple(require_number(key, context[key], "(-inf, inf)", fix) for key in keys)
    moves = sampler._moves(study, data.space)
    return data, present, like(log.state).new_tensor(row) if row else None, moves
