"""How well strategies predict the measurements of a log, one step ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import torch
from botorch.exceptions import InputDataError

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import Measurement, MeasurementLog, like
from botorch_tv.strategies.box import Bounds
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.parameters import Choice
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy

if TYPE_CHECKING:
    import pandas as pd

BAND = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % band in standard deviations."""
OTHERS = ("number", "time", "y", "ok", "noise", "mean", "sd", "reset")
"""Columns of a table that are no parameters."""


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


def predictions(
    strategy: Strategy, log: MeasurementLog
) -> Iterator[tuple[Measurement, float, float] | None]:
    """For each answer of a log: the answer, and the mean and sd predicted for it.

    The prediction uses the earlier answers alone, and its variance includes the noise.

    Args:
        strategy: The strategy that predicts.
        log: The log.

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


def backtest(
    data: Any,
    strategies: Mapping[str, Strategy] | None = None,
    domain: Domain | Bounds | None = None,
    *,
    y: str = "y",
    maximize: bool = True,
) -> pd.DataFrame:
    """Compare strategies by their one-step-ahead predictions of past measurements.

    Every strategy processes the measurements in order of time, and predicts each from those before.
    All strategies are judged on the same measurements: those that all of them predicted.

    Args:
        data: A :class:`Loop`, its log, a DataFrame, or the path of a .csv file. A table has a
            column for each parameter, a column of observations, and optional columns ``time`` and
            ``ok`` as in :meth:`Loop.table`.
        strategies: Strategies by name; by default :func:`usual_strategies`, and a loop's own
            strategy if it is another.
        domain: The domain of a table; by default, the range of each column, or its values if they
            are texts.
        y: The column of observations in a table.
        maximize: False if the default strategies minimise a table's observations.

    Returns:
        A DataFrame with a row for each strategy, best first. The columns are ``measurements``, the
        number of judged measurements; ``rmse``, the root of the mean squared error; ``log_score``,
        the mean log density of the observations (higher is better); and ``coverage``, the share
        of observations in their 95 % bands.

    Raises:
        InputDataError: If no measurement was predicted by all strategies.
        ImportError: If pandas is not installed.
    """
    import pandas as pd

    log = getattr(getattr(data, "_record", None), "log", data)
    if not isinstance(log, MeasurementLog):
        log = _log_of(data, domain, y)
    else:
        maximize = log.strategy.maximize
    if strategies is None:
        strategies = usual_strategies(maximize)
        if log.answers and log.strategy not in strategies.values():
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


def _log_of(data: Any, domain: Domain | Bounds | None, y: str) -> MeasurementLog:
    """The log of a table."""
    import pandas as pd

    from botorch_tv.loop.loop import Loop

    frame = pd.read_csv(Path(data)) if isinstance(data, (str, PathLike)) else data
    if y not in frame:
        raise InputDataError(f"the table has no column {y!r}, but {', '.join(map(str, frame))}.")
    frame = frame.rename(columns={y: "y"}) if y != "y" else frame
    names = [name for name in frame if name not in OTHERS]
    if domain is None:
        domain = {name: _range(frame[name]) for name in names}
    columns = {name: list(frame[name]) for name in ("time", "ok") if name in frame}
    loop = Loop.from_table(domain, frame[names], list(frame["y"]), **columns)
    return loop._record.log


def _range(column: Any) -> Any:
    """The parameter of a column: its range, or its values if they are not numbers."""
    values = list(dict.fromkeys(column))
    if all(isinstance(value, (int, float)) for value in values):
        return float(column.min()), float(column.max())
    return Choice(*map(str, values))
