"""How well strategies predict the measurements of a log, one step ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import torch
from botorch.exceptions import InputDataError

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import Measurement, MeasurementLog, like
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy

if TYPE_CHECKING:
    import pandas as pd

BAND = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % band in standard deviations."""


def usual_strategies(maximize: bool = True) -> dict[str, Strategy]:
    """The adaptive strategy, and its parts that assume drift alone, jumps alone, or neither.

    Args:
        maximize: False to minimise.
    """
    banks = {
        "adaptive": Bank(),
        "drift": Bank(hazards=(0.0,)),
        "jumps": Bank(rates=(0.0,)),
        "static": Bank(rates=(0.0,), hazards=(0.0,)),
    }
    return {name: adaptive_gp_ucb(bank=bank, maximize=maximize) for name, bank in banks.items()}


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
    answers, formula = [], strategy.expressions[0]
    for answer in log.answers:
        named = dict(zip(strategy.names, answer.y)) if isinstance(answer.y, tuple) else {}
        y = float(formula.value(named)) if named else math.nan
        answers.append(replace(answer, y=None if math.isnan(y) else y))
    states = tuple(state.members[0] for state in log.states)
    return log._replace(strategy=strategy.members[0], states=states, answers=tuple(answers))


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
            noise = answer.noise
            noise = float(strategy.model_noise(state)) if noise is None else noise
            found = answer, float(made.mean), math.sqrt(float(made.sd) ** 2 + noise)
        yield found
        state, _ = next(steps)


def backtest(log: MeasurementLog, strategies: Mapping[str, Strategy] | None = None) -> pd.DataFrame:
    """Compare strategies by their one-step-ahead predictions; see :meth:`Loop.backtest`.

    Args:
        log: The measurements.
        strategies: Strategies by name; by default those of :func:`usual_strategies`, and the log's
            own strategy if it is another.

    Raises:
        InputDataError: If no measurement was predicted by all strategies.
        ImportError: If pandas is not installed.
    """
    import pandas as pd

    log = of_objective(log)
    if strategies is None:
        strategies = usual_strategies(log.strategy.maximize)
        if log.strategy not in strategies.values():
            strategies = {"this loop": log.strategy} | strategies
    found = {name: list(predictions(strategy, log)) for name, strategy in strategies.items()}
    judged = [rows for rows in zip(*found.values()) if None not in rows]
    if not judged:
        raise InputDataError(
            f"no strategy predicts any of the {len(log.answers)} measurements; give more "
            "measurements, at least ten."
        )
    scores = []
    for own in zip(*judged):
        z = torch.tensor([(row.y - mean) / sd for row, mean, sd in own], dtype=torch.float64)
        sd = torch.tensor([sd for *_, sd in own], dtype=torch.float64)
        density = -0.5 * z.square() - sd.log() - 0.5 * math.log(2 * math.pi)
        scores.append(
            {
                "measurements": len(own),
                "rmse": float((z * sd).square().mean().sqrt()),
                "log_score": float(density.mean()),
                "coverage": float((z.abs() <= BAND).double().mean()),
            }
        )
    table = pd.DataFrame(scores, index=pd.Index(list(found), name="strategy"))
    return table.sort_values("log_score", ascending=False)
