"""When to measure, whether the process has changed, when to stop, and what a move gains.

:class:`Monitored` has the methods of a loop; the functions below take a strategy and its state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.mixture.posterior import running_mixture
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.loop.clock import Units, When
from botorch_tv.loop.input import Condition, Points, as_place, with_context
from botorch_tv.loop.log import Best, Measurement, MeasurementLog, Present, like
from botorch_tv.loop.record import Record
from botorch_tv.loop.table import contexts_of, names_of
from botorch_tv.loop.words import objective_of
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.feasible import all_of
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.process_strategy import Composed, ProcessStrategy
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.sobol import importance
from botorch_tv.strategies.state import State
from botorch_tv.validation import require_number

if TYPE_CHECKING:
    import pandas as pd

BAND = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % band in standard deviations."""
FALSE_ALARMS = 1 / 1000
"""Default rate of false detections of a change, per measurement."""
SHIFTS = (0.5, 1.0, 2.0, 4.0)
"""Tested changes of the mean of standardised residuals, each with both signs."""
MEASURED = 4.0
"""A residual counts if the posterior variance of the objective was at most this multiple of the
noise variance. A model errs most at settings where it has no measurements, static or not."""
AT_LEAST = 8
"""Number of first measurements that are always worth their cost, and whose residuals do not count:
predictions from fewer are not reliable."""
RECENT, EVEN = 7, 16
"""Numbers of recently measured and of evenly spread settings that may become the best."""
NODES = [NormalDist().inv_cdf((n + 0.5) / 64) for n in range(64)]
"""Equally probable standardised values of a reading, over which an expected gain is averaged."""
LONGEST = 1000.0
"""Longest wait before a measurement, in steps between measurements."""
STATIC = 0.9
"""Probability that the objective is static, below which a loop is not advised to stop."""


class Gain(NamedTuple):
    """What a move from one setting to another gains, in the units of y; positive is better.

    Attributes:
        gain: Expected gain.
        sd: Its posterior standard deviation.
        probability: Probability that the gain is positive.
    """

    gain: float
    sd: float
    probability: float


class Worth(NamedTuple):
    """Whether a measurement is worth its cost; as a condition, it has the value of ``worth``.

    Attributes:
        worth: Whether the expected gain exceeds the cost.
        gain: Expected gain, in units of y times the unit of time.
        wait: Time after which a measurement is worth its cost: 0 if it is now, infinite if
            never.
    """

    worth: bool
    gain: float
    wait: float

    def __bool__(self) -> bool:
        return self.worth


class Drift(NamedTuple):
    """Whether the process changed; as a condition, it has the value of ``drifted``.

    Attributes:
        drifted: Whether the evidence reaches its limit, the inverse of the rate of false
            detections.
        time: Time of the first measurement after the newest jump; None for no change or steady
            drift.
        evidence: How much better a changing process explains the measurements than a static
            process.
    """

    drifted: bool
    time: When
    evidence: float

    def __bool__(self) -> bool:
        return self.drifted


class Stop(NamedTuple):
    """Whether to stop measuring; as a condition, it has the value of ``stop``.

    Attributes:
        stop: Whether the expected improvement is below the noise, and the process is static.
        improvement: Expected improvement of the best setting by one more measurement, in the
            units of y.
        noise: Standard deviation of the noise of a measurement.
        reason: A sentence that says why.
    """

    stop: bool
    improvement: float
    noise: float
    reason: str

    def __bool__(self) -> bool:
        return self.stop


# ------------------------------------------------------------------------------ gains


@without_gradients
def gain(strategy: Strategy, state: State, best: Tensor, at: Tensor, now: Present) -> Gain:
    """What a move gains, from the joint posterior of two settings.

    Args:
        strategy: The strategy.
        state: Its state, of one trial.
        best: The setting to move to, `d + c`.
        at: The present setting, `d + c`.
        now: The present time; one step after the newest measurement by default.
    """
    posterior = strategy.posterior(state, torch.stack([best, at]), now=now)
    better, present = posterior.mean.flatten().tolist()
    covariance = posterior.distribution.covariance_matrix
    weights = covariance.new_tensor([1.0, -1.0])
    sd = math.sqrt(max(float(weights @ covariance @ weights), 0.0))
    more = better - present if strategy.maximize else present - better
    if sd <= 1e-9 * float(covariance.diagonal().max().sqrt()):  # the same setting
        return Gain(more, sd, float(more > 0))
    return Gain(more, sd, NormalDist().cdf(more / sd))


@without_gradients
def value_of_measuring(
    strategy: Strategy, state: State, X: Tensor, now: float | Tensor | None
) -> Tensor:
    """Expected gain of the best of several settings from one measurement, `batch_shape`.

    A measurement at setting j moves the posterior mean at setting i by K_ij / sqrt(K_jj + σ²) times
    a standard normal variable (the knowledge gradient of Frazier, Powell and Dayanik, 2009). The
    result is for the setting j whose measurement gains most.

    Args:
        strategy: The strategy.
        state: Its state.
        X: Settings that may be measured and may become the best, `batch_shape x q x (d + c)`.
        now: Time of the measurement, a scalar or `batch_shape`.
    """
    posterior = strategy.posterior(state, X, now=now)
    mean = posterior.mean.squeeze(-1)
    mean = mean if strategy.maximize else -mean
    K = posterior.distribution.covariance_matrix
    noise = strategy.model_noise(state).to(K)[..., None, None]
    moves = K / (K.diagonal(dim1=-2, dim2=-1).unsqueeze(-2) + noise).sqrt()
    after = mean[..., None, None] + moves.unsqueeze(-1) * moves.new_tensor(NODES)
    gained = after.amax(-3).mean(-1) - mean.amax(-1, keepdim=True)
    return gained.amax(-1).clamp_min(0)


def contenders(state: State, *chosen: Tensor) -> Tensor:
    """Settings among which the best is likely to be found, `batch_shape x q x (d + c)`.

    Args:
        state: The state, of trials with at least one measurement.
        chosen: Settings of the strategy, each `batch_shape x (d + c)`; the first has the context.
    """
    domain, own = state.domain, chosen[0]
    past = domain.points(state.history.choice.tensor(), own)[..., -RECENT:, : domain.dim]
    listed = domain.listed
    if isinstance(domain, Box) and listed is None:
        spread = domain.search.filling(domain, EVEN, 0, own)
    else:
        assert listed is not None
        spread = listed[:: max(1, len(listed) // EVEN), : domain.dim].to(own)
    X = torch.cat([past, spread.expand(*own.shape[:-1], *spread.shape)], -2)
    context = own[..., None, domain.dim :].expand(*X.shape[:-1], -1)
    return torch.cat([torch.stack(chosen, -2), torch.cat([X, context], -1)], -2)


# ------------------------------------------------------------------------------ changes


def of_objective(log: MeasurementLog) -> MeasurementLog:
    """The log with the values of the objective, or of the first of several, if outcomes have names.

    Args:
        log: The log.

    Returns:
        A log whose answers are numbers, or None where the objective is missing, and whose strategy
        predicts the objective.
    """
    strategy = log.strategy
    if not isinstance(strategy, Outcomes):
        return log
    first, answers = strategy.expressions[0], list[Measurement]()
    for answer in log.answers:
        y, noise = objective_of(strategy, answer.y), strategy.noise_of(first, answer.noise)
        answers.append(replace(answer, y=None if math.isnan(y) else y, noise=noise))
    states = tuple(state.members[0] for state in log.states)
    return log._replace(strategy=strategy.members[0], states=states, answers=tuple(answers))


def residuals(log: MeasurementLog) -> list[tuple[float, float]]:
    """Time and standardised one-step-ahead residual of each measurement that counts.

    A measurement counts if it has a value and a prediction made before it, and its setting had been
    measured; see ``MEASURED``.

    Args:
        log: The log.
    """
    log = of_objective(log)
    strategy, state, found = log.strategy, log.state, []
    if not log.answers or not bool(strategy.predicts(state)):
        return []
    usual = float(strategy.model_noise(state))
    for answer in log.answers[AT_LEAST:]:
        mean, sd, _ = answer.prediction
        noise = usual if answer.noise is None else answer.noise
        if isinstance(answer.y, float) and sd**2 <= MEASURED * noise:  # False for a NaN
            found.append((answer.time, (answer.y - mean) / math.sqrt(sd**2 + noise)))
    return found


def changes(rows: Iterable[tuple[float, float]], limit: float) -> tuple[float, list[float]]:
    """Detect changes of the mean of standard normal residuals.

    For each shift m, M ← (1 + M) exp(m e - m² / 2) after the residual e (Shiryaev and Roberts). If
    residuals before a change are standard normal, so is the mean of the M over shifts minus its
    number of residuals a martingale, an e-detector (Shin, Ramdas and Rinaldo, 2022): the expected
    number of residuals before M reaches ``limit`` is at least ``limit``, whatever the shifts. After
    a detection M restarts at 0.

    Args:
        rows: Times and residuals, in order of time.
        limit: The value of M at which a change is detected.

    Returns:
        The largest M, and the estimated times of changes: for each, the time from which on the most
        likely shift explains the residuals best.
    """
    shifts = [sign * shift for shift in SHIFTS for sign in (1, -1)]
    largest, found = 0.0, list[float]()
    M = total = [0.0] * len(shifts)
    begun = [-math.inf] * len(shifts)
    for time, e in rows:
        logs = [m * e - m * m / 2 for m in shifts]
        M = [(1 + old) * math.exp(min(own, 300)) for old, own in zip(M, logs)]
        begun = [since if old > 0 else time for since, old in zip(begun, total)]
        total = [max(old, 0.0) + own for old, own in zip(total, logs)]
        evidence = sum(M) / len(M)
        largest = max(largest, evidence)
        if evidence >= limit:
            found.append(begun[max(range(len(shifts)), key=total.__getitem__)])
            M = total = [0.0] * len(shifts)
    return largest, found


def against_static(strategy: Strategy, state: State) -> float | None:
    """How much better the drifting and jumping members of a bank predicted than the static members.

    The ratio of both marginal likelihoods (a Bayes factor). If the objective is static, the
    probability that the ratio ever reaches a limit is at most one over the limit (Ville, 1939).

    Args:
        strategy: The strategy.
        state: Its state, of one trial.

    Returns:
        The ratio; None if the strategy has no such members, or no static members.
    """
    if not isinstance(strategy, Adaptive):
        return None
    rates, hazards = (getattr(strategy.bank, name) for name in ("rates", "hazards"))
    rows = [[not rate and not hazard for hazard in hazards] for rate in rates]
    still = torch.tensor(rows, device="cpu")
    prior = float(still.double().mean())
    if prior in (0, 1) or not bool(strategy.predicts(state)):
        return None
    weights = strategy.weights(state).sum((-4, -1)).reshape(still.shape).to(still.device)
    static, other = (float(weights[own].double().sum()) for own in (still, ~still))
    return math.inf if not static else other / static * prior / (1 - prior)


def _parts(strategy: Strategy, state: State) -> list[tuple[Strategy, State]]:
    """The strategies that predict, with their states: the members of a composed strategy."""
    return list(strategy.pairs(state)) if isinstance(strategy, Composed) else [(strategy, state)]


def static_chance(strategy: Strategy, state: State) -> float:
    """Probability that the objective is static, without drift; 0 or 1 if the strategy assumes it.

    Args:
        strategy: The strategy.
        state: Its state, of one trial.
    """
    chance = 1.0
    for part, own in _parts(strategy, state):
        if isinstance(part, Adaptive):
            share = part.marginals(own)["rate"].flatten()
            rates = share.new_tensor(part.bank.rates)
            chance *= float(share[rates == 0].sum())
        else:
            assert isinstance(part, ProcessStrategy)
            process = part.process
            static = process.decay.is_static and process.inflation.is_static
            chance *= float(static and not process.retention)
    return chance


# ------------------------------------------------------------------------------ backtests


def usual_strategies(maximize: bool = True) -> dict[str, Strategy]:
    """The adaptive strategy, and its parts that assume drift alone, jumps alone, or neither.

    Args:
        maximize: False to minimise.
    """
    zero = (0.0,)
    banks = {"adaptive": Bank(), "drift": Bank(hazards=zero), "jumps": Bank(rates=zero)}
    banks["static"] = Bank(rates=zero, hazards=zero)
    return {name: adaptive_gp_ucb(bank=bank, maximize=maximize) for name, bank in banks.items()}


def predictions(
    strategy: Strategy, log: MeasurementLog
) -> Iterator[tuple[Measurement, float, float] | None]:
    """For each answer of a log: the answer, and the mean and sd predicted for it.

    The prediction uses the earlier answers alone, and its variance includes the noise.

    Args:
        strategy: The strategy that predicts.
        log: The log, of numbers.

    Returns:
        An iterator; it yields None for a failed measurement, and while the strategy makes no
        predictions.
    """
    own, domain = like(log.state), log.state.domain
    state = strategy.init(domain, dtype=own.dtype, device=own.device)
    answers = tuple(replace(answer, predicted=None) for answer in log.answers)
    steps = MeasurementLog.begin(strategy, state)._steps(state, answers)
    for answer in answers:
        found = None
        if isinstance(answer.y, float) and bool(strategy.predicts(state)):
            made = strategy.suggestion_at(state, own.new_tensor(answer.point), now=answer.time)
            noise = float(strategy.model_noise(state)) if answer.noise is None else answer.noise
            found = answer, float(made.mean), math.sqrt(float(made.sd) ** 2 + noise)
        yield found
        state, _ = next(steps)


# ------------------------------------------------------------------------------ the loop


class Monitored:
    """Methods of a loop that tell when to measure, what changed, and when to stop."""

    _record: Record
    _units: Units

    if TYPE_CHECKING:

        def _present(self, now: When) -> float | None: ...

        def _context(self, context: Condition) -> Tensor | None: ...

    def gain(self, at: Points = None, *, now: When = None, context: Condition = None) -> Gain:
        """What a move from the present setting to the recommended setting gains, without its cost.

        Args:
            at: The present setting, as in :meth:`Loop.observe`; by default the setting that was
                measured last.
            now: As in :meth:`Loop.ask`.
            context: As in :meth:`Loop.ask`.

        Returns:
            The expected gain, its standard deviation, and the probability that it is positive.

        Raises:
            InputDataError: If there are too few measurements for predictions.
        """
        present, row, best, _ = self._contenders(now, context)
        log, d = self._record.log, self._record.log.state.domain.dim
        place = like(log.state).new_tensor(log.answers[-1].point[:d])
        place = place if at is None else as_place(at, log.state)
        return gain(log.strategy, log.state, best.X, with_context(place, row), present)

    def worth_measuring(self, cost: float, *, now: When = None, context: Condition = None) -> Worth:
        """Whether to measure now, or to hold the recommended setting and measure later.

        The gain of a measurement is the expected increase of the best posterior mean, times the
        time for which the new setting will be held. The next measurement is expected after as much
        time as has passed since the newest measurement. As the objective drifts, or may have
        jumped, the gain grows until a measurement is worth its cost.

        Args:
            cost: What a measurement costs, in units of y times the unit of time: a measurement that
                costs 3 is worth a gain of 1 for three hours.
            now: As in :meth:`Loop.ask`.
            context: As in :meth:`Loop.ask`.

        Returns:
            Whether the gain exceeds the cost, the gain, and the time until it does. The first eight
            measurements are worth any cost, and all while no setting keeps the limits on outcomes
            with the probability that a recommendation needs.

        Raises:
            ValueError: If the cost is negative or not finite.
        """
        cost = require_number("worth_measuring: cost", cost, "[0, inf)", "give units of y.")
        log = self._record.log
        if len(log.answers) < AT_LEAST or not bool(log.strategy.predicts(log.state)):
            return Worth(True, math.inf, 0.0)
        present, _, best, X = self._contenders(now, context)
        newest, step = float(log.state.time), float(log.strategy.step(log.state))
        present = newest + step if present is None else present

        def value(time: float) -> float:
            return (time - newest) * float(value_of_measuring(log.strategy, log.state, X, time))

        first, lag = math.inf if best.breaks else value(present), step
        if first > cost:
            return Worth(True, first, 0.0)
        while lag <= LONGEST * step and value(present + lag) <= cost:
            lag *= math.sqrt(2)
        return Worth(False, first, lag if lag <= LONGEST * step else math.inf)

    def drifted(self, *, false_alarms: float = FALSE_ALARMS) -> Drift:
        """Whether the process changed since the first measurement.

        Two tests compare a process that changes with a static process. The first adds up the
        one-step-ahead residuals of measurements at measured settings, against shifts of the level.
        The second, with the adaptive strategy, compares how well its drifting and jumping models
        and its static models predicted. Both rates of false detections hold at any number of
        measurements, if the strategy's model describes the objective.

        Args:
            false_alarms: Rate of false detections per measurement, in (0, 1).

        Returns:
            Whether the process changed, the time of the newest jump, and the evidence.

        Raises:
            ValueError: If the rate is out of range.
        """
        rate = require_number("drifted: false_alarms", false_alarms, "(0, 1)", "0.001 is usual.")
        log, limit = self._record.log, 1 / rate
        given = [(own, against_static(part, own)) for part, own in _parts(log.strategy, log.state)]
        ratios = [(own, ratio) for own, ratio in given if ratio is not None]
        tests = len(ratios) + 1  # all tests together have the given rate
        largest, times = changes(residuals(log), tests * limit)
        evidence = max([largest, *(ratio for _, ratio in ratios)]) / tests
        found = [own for own, ratio in ratios if ratio >= tests * limit]
        times += [float(running_mixture(own.data).jumped) for own in found]
        newest = max((time for time in times if not math.isnan(time)), default=None)
        when = None if newest is None else self._units.clock.shown(newest)
        return Drift(evidence >= limit, when, evidence)

    drift_alarm = drifted

    def importance(self, *, now: When = None) -> dict[str, float]:
        """The share of each parameter and context in the variation of the posterior mean.

        See :func:`~botorch_tv.strategies.sobol.importance`.

        Args:
            now: As in :meth:`Loop.ask`.

        Returns:
            The shares by name, which sum to 1.
        """
        log = self._record.log
        shares = importance(log.strategy, log.state, now=self._present(now)).tolist()
        return dict(zip([*names_of(log.state.domain), *contexts_of(log.state.domain)], shares))

    def should_stop(self, *, now: When = None, context: Condition = None) -> Stop:
        """Whether further measurements are expected to improve the best setting by less than noise.

        The expected improvement is the largest expected excess of a setting over the recommended
        setting. If the process drifts or has jumped, the answer is always no.

        Args:
            now: As in :meth:`Loop.ask`.
            context: As in :meth:`Loop.ask`.

        Returns:
            Whether to stop, the expected improvement, the noise, and the reason.
        """
        log = self._record.log
        if not log.answers or not bool(log.strategy.predicts(log.state)):
            return Stop(False, math.inf, math.nan, "there are too few measurements.")
        present, _, best, X = self._contenders(now, context)
        noise = float(log.strategy.model_noise(log.state).sqrt())
        most = max(_excess(gain(log.strategy, log.state, x, best.X, present)) for x in X)
        static, stop = static_chance(log.strategy, log.state), False
        if static < 1 - STATIC or self.drifted():
            reason = "never: the process changes; hold the best setting, see worth_measuring()."
        elif best.breaks:
            reason = "no setting keeps the limits with the probability that a recommendation needs."
        elif static < STATIC:
            reason = f"the process may drift, with probability {1 - static:.2f}."
        else:
            stop = most < noise
            how = "below" if stop else "not below"
            reason = f"the expected improvement {most:.3g} is {how} the noise sd {noise:.3g}."
        return Stop(stop, most, noise, reason)

    def backtest(self, strategies: Mapping[str, Strategy] | None = None) -> pd.DataFrame:
        """How well strategies predict each measurement of this loop from the earlier measurements.

        Every strategy processes the measurements in order of time, which takes as long as to load
        the loop. All strategies are judged on the same measurements: those that all of them
        predicted. ``Loop.from_table(ranges, table).backtest()`` compares strategies on a table.

        Args:
            strategies: Strategies by name. By default: the adaptive strategy, its parts that assume
                drift alone, jumps alone, or a static process, and the loop's own strategy.

        Returns:
            A DataFrame with a row for each strategy, best first. The columns are ``measurements``,
            the number of judged measurements; ``rmse``, the root of the mean squared error;
            ``log_score``, the mean log density of the observations, higher is better; and
            ``coverage``, the share of observations in their 95 % bands.

        Raises:
            InputDataError: If no measurement was predicted by all strategies.
            ImportError: If pandas is not installed.
        """
        import pandas as pd

        log = of_objective(self._record.log)
        if strategies is None:
            strategies = usual_strategies(log.strategy.maximize)
            if log.strategy not in strategies.values():
                strategies = {"this loop": log.strategy} | strategies
        found = {name: list(predictions(strategy, log)) for name, strategy in strategies.items()}
        judged = [rows for rows in zip(*found.values()) if None not in rows]
        if not judged:
            count = len(log.answers)
            raise InputDataError(f"no strategy predicts any of {count} measurements; give ten.")
        scores = []
        for own in zip(*judged):
            errors = [(row.y - mean) / sd for row, mean, sd in own]
            z = torch.tensor(errors, dtype=torch.float64, device="cpu")
            sd = torch.tensor([sd for *_, sd in own], dtype=torch.float64, device="cpu")
            density = -0.5 * z.square() - sd.log() - 0.5 * math.log(2 * math.pi)
            rmse, covered = (z * sd).square().mean().sqrt(), (z.abs() <= BAND).double()
            scores.append([len(own), float(rmse), float(density.mean()), float(covered.mean())])
        names, columns = list(found), ["measurements", "rmse", "log_score", "coverage"]
        table = pd.DataFrame(scores, index=pd.Index(names, name="strategy"), columns=columns)
        return table.sort_values("log_score", ascending=False)

    def _contenders(
        self, now: When, context: Condition
    ) -> tuple[float | None, Tensor | None, Best, Tensor]:
        """The present time, the context, the best setting, and all settings that may be better.

        The settings keep all limits on outcomes, and are likely to succeed; the best is the first.
        """
        record, log = self._record, self._record.log
        row, present = self._context(context), self._present(now)
        if not log.answers or not bool(log.strategy.predicts(log.state)):
            raise InputDataError("there are too few measurements for predictions; measure first.")
        best = log.best(present, row, None, record.moves)
        generator = torch.Generator().manual_seed(0)  # the loop's own numbers are for its choices
        chosen = record.choice(present, row, None, generator).X
        X, own = contenders(log.state, best.X, chosen), log.strategy
        kept = own.kept(log.state, present) if isinstance(own, Outcomes) else None
        if (feasible := all_of(log.success(present), kept)) is not None:
            good = feasible.strict().allowed(X.unsqueeze(0))[0]
            X = torch.cat([X[:1], X[1:][good[1:]]])
        return present, row, best, X


def _excess(move: Gain) -> float:
    """The expectation of the positive part of a gain."""
    if not move.sd:
        return max(move.gain, 0.0)
    z = move.gain / move.sd
    return move.gain * NormalDist().cdf(z) + move.sd * NormalDist().pdf(z)
