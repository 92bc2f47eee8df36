"""Time, traffic and products of the engine's rounds, as shares of the limits of a device."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.speed.engine_runs import play, replay, rewards
from benchmarks.speed.least_work import Count, round_count
from benchmarks.speed.traffic import Traffic
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.process import basis_of
from botorch_tv.strategies import GPStrategy, Grid, Strategy

LOOKED_AT = 64  # trials in which distinct arms are counted


class Rates(NamedTuple):
    """Rates of a device."""

    bandwidth: float
    """Bytes per second from memory."""
    matmul: float
    """Flops per second of matrix products, in the dtype of the run."""


class Size(NamedTuple):
    """Size and device of a run."""

    trials: int
    horizon: int
    epsilon: float
    dtype: torch.dtype
    device: torch.device
    workers: int
    """Chunks side by side."""
    repeats: int
    """Timed passes; the fastest counts."""
    seed: int


def measure(strategy: Strategy, domain: Grid, size: Size, rates: Rates) -> dict[str, float]:
    """A strategy's round against the least it needs, per trial and round.

    Returns:
        Time in microseconds, bytes and flops of the count and of the engine, and shares.
    """
    traffic = Traffic()
    world = rewards(
        points=domain.shape[0],
        epsilon=size.epsilon,
        trials=size.trials,
        seed=size.seed,
        device=size.device,
    )
    played = play(strategy, domain, world, size.horizon, dtype=size.dtype, watch=traffic)
    basis = basis_of(strategy.init(domain, dtype=size.dtype, device=size.device).data)
    del world  # frees memory for the timed passes
    passes = [replay(strategy, domain, played, size.workers) for _ in range(size.repeats)]
    trial_rounds = size.trials * size.horizon
    seconds = min(passes) / trial_rounds
    live = played.live.double().mean(-1).tolist()
    some = played.indices[:, :LOOKED_AT].cpu(), played.live[:, :LOOKED_AT].cpu()
    assert isinstance(strategy, GPStrategy)
    different = distinct(*some) if strategy.decay.is_static else None
    count = mean_count(basis, live, different)
    bytes_counted = count.numbers * basis.variance.element_size()
    bytes_moved, flops_done = traffic.bytes / trial_rounds, traffic.flops / trial_rounds
    least = count.seconds(rates.bandwidth, rates.matmul, basis.variance.element_size())
    return {
        "us": 1e6 * seconds,
        "least_us": 1e6 * least,
        "share_of_limit": least / seconds,
        "count_bytes": bytes_counted,
        "engine_bytes": bytes_moved,
        "bandwidth_reached": bytes_moved / seconds / rates.bandwidth,
        "count_flops": count.flops,
        "engine_flops": flops_done,
        "matmul_reached": flops_done / seconds / rates.matmul,
        "operations_per_round": traffic.operations / size.horizon,
        "waits_per_round": traffic.waits / size.horizon,
        "live": fmean(live),
        "arms": fmean(live if different is None else different),
    }


def mean_count(basis: Basis, live: list[float], different: list[float] | None) -> Count:
    """The mean count over the rounds of a run.

    Args:
        basis: The kernel over the arms.
        live: Mean number of observations in use, per round.
        different: Mean number of distinct arms among them, per round; None if the objective moves.
    """
    rounds = [
        round_count(basis, n, None if different is None else different[number])
        for number, n in enumerate(live)
    ]
    return Count(fmean(each.numbers for each in rounds), fmean(each.flops for each in rounds))


def distinct(indices: Tensor, live: Tensor) -> list[float]:
    """Mean over trials of the number of different arms in use at every round.

    Args:
        indices: Arms chosen, `horizon x trials`.
        live: How many of the newest earlier choices are in use, `horizon x trials`.
    """
    counts = [
        [len(set(chosen[number - retained : number])) for number, retained in enumerate(in_use)]
        for chosen, in_use in zip(indices.T.tolist(), live.T.tolist(), strict=True)
    ]
    return [fmean(each) for each in zip(*counts, strict=True)]
