"""Regret studies: many strategies on the same worlds and the same noise, thousands of trials."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import botorch
import gpytorch
import numpy as np
import torch
import xarray as xr
from torch import Tensor
from tqdm.auto import tqdm

import botorch_tv
from botorch_tv.inference.linalg import at_index
from botorch_tv.simulation.memory import chunk_size
from botorch_tv.simulation.parallel import side_by_side
from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, require_integer


@dataclass(frozen=True)
class _Records:
    """What a chunk leaves behind, each `horizon x strategies x trials`."""

    regret: Tensor
    resets: Tensor
    side_queries: Tensor
    index: Tensor


class _Progress:
    """A progress bar in whole trials, moved by rounds of many chunks at once."""

    def __init__(self, bar: tqdm[Any], horizon: int) -> None:
        self._bar, self._horizon = bar, horizon
        self._rounds = 0
        self._lock = threading.Lock()

    def add(self, rounds: int) -> None:
        """Count some more rounds, each of one trial."""
        with self._lock:
            self._rounds += rounds
            self._bar.update(self._rounds // self._horizon - self._bar.n)


def run_study(
    world: World,
    strategies: Mapping[str, Strategy],
    *,
    trials: int = 50,
    horizon: int = 400,
    seed: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
    chunk: int | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> StudyResult:
    """Play every strategy on the same worlds with the same noise.

    Args:
        world: Where objectives are drawn from.
        strategies: Strategies by the labels that results carry.
        trials: Number of worlds drawn.
        horizon: Rounds T per trial.
        seed: Seed; a trial depends on it and on its own number alone.
        device: Where to compute; the domain's device unless given.
        dtype: float64 or float32.
        chunk: Trials that run together; from free memory unless given. Choices do not depend on
            it.
        workers: Chunks computed side by side; on a CPU as many as PyTorch has threads unless given,
            elsewhere 1. Results do not depend on it.
        progress: Whether to show a progress bar.

    Returns:
        Regret, resets and choices of every strategy, trial and round.

    Raises:
        ValueError: If there is no strategy, or a size is below 1.
    """
    require(len(strategies) > 0, "run_study: strategies is empty; give at least one by its label.")
    require_integer("run_study: trials", trials, 1, "give the number of worlds to draw.")
    require_integer("run_study: seed", seed, 0, "give a seed of 0 or more.")
    require_integer("run_study: horizon", horizon, 1, "give the number of rounds.")
    place = world.domain.X.device if device is None else torch.device(device)
    if workers is None:
        workers = torch.get_num_threads() if place.type == "cpu" else 1
    require_integer("run_study: workers", workers, 1, "give the chunks computed side by side.")
    began = time.perf_counter()
    players = list(strategies.values())
    templates = [player.init(world.domain, dtype=dtype, device=place) for player in players]
    if chunk is None:
        chunk = chunk_size(zip(players, templates), trials=trials, horizon=horizon, workers=workers)
    require_integer("run_study: chunk", chunk, 1, "give the trials that run together.")
    starts = range(0, trials, chunk)
    with tqdm(total=trials, unit="trial", disable=not progress) as bar:
        progressed = _Progress(bar, horizon)

        def run_chunk(first: int, stop: threading.Event) -> _Records:
            states = [
                player.init_like(template, (min(chunk, trials - first),))
                for player, template in zip(players, templates)
            ]
            return _run_chunk(world, players, states, first, horizon, seed, progressed, stop)

        records = side_by_side(run_chunk, starts, min(workers, len(starts)))
    seconds = time.perf_counter() - began
    settings = {
        "seed": seed,
        "trials": trials,
        "horizon": horizon,
        "noise": world.noise,
        "world": repr(world),
        "strategies": json.dumps({label: repr(one) for label, one in strategies.items()}),
        "device": device_name(place),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": str(torch.__version__),
        "botorch": str(botorch.__version__),
        "gpytorch": str(gpytorch.__version__),
        "botorch_tv": botorch_tv.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
    }
    return StudyResult(_dataset(list(strategies), records, settings))


def _run_chunk(
    world: World,
    players: Sequence[Strategy],
    states: list[State],
    first: int,
    horizon: int,
    seed: int,
    progress: _Progress,
    stop: threading.Event,
) -> _Records:
    trials = len(states[0].time)
    dtype, device = states[0].basis.variance.dtype, states[0].time.device
    shape = (horizon, len(players), trials)
    records = _Records(
        regret=torch.empty(shape, dtype=dtype, device=device),
        resets=torch.empty(shape, dtype=torch.bool, device=device),
        side_queries=torch.empty(shape, dtype=torch.int32, device=device),
        index=torch.empty(shape, dtype=torch.int32, device=device),
    )
    draw = Stream(seed, "world", first, trials, dtype=dtype, device=device)
    disturb = Stream(seed, "noise", first, trials, dtype=dtype, device=device)
    for step, values in zip(range(horizon), world.rounds(draw)):
        best = values.amax(-1)
        noise = world.noise**0.5 * disturb.normal()
        for number, player in enumerate(players):
            suggestion = player.ask(states[number])
            truth = at_index(values, suggestion.index)
            states[number], info = player.tell(
                states[number], suggestion, truth + noise, check=False, consume=True
            )
            records.regret[step, number] = best - truth
            records.resets[step, number] = info.reset
            records.side_queries[step, number] = info.side_queries
            records.index[step, number] = suggestion.index
        progress.add(trials)
        if stop.is_set():
            break
    return records


def _dataset(
    labels: list[str], records: list[_Records], attributes: dict[str, object]
) -> xr.Dataset:
    def gathered(name: str) -> np.ndarray:
        whole = torch.cat([getattr(record, name) for record in records], dim=-1)
        return whole.permute(1, 2, 0).contiguous().cpu().numpy()

    dims = ("strategy", "trial", "round")
    variables = {
        name: (dims, gathered(name)) for name in ("regret", "resets", "side_queries", "index")
    }
    _, trials, horizon = variables["regret"][1].shape
    return xr.Dataset(
        variables,
        coords={
            "strategy": labels,
            "trial": np.arange(trials),
            "round": np.arange(1, horizon + 1),
        },
        attrs=attributes,
    )


def device_name(device: torch.device) -> str:
    """What a device calls itself."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return device.type
