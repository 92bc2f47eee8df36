"""What memory is estimated at, and what is used: every family of strategies, on a grid and a box.

    python -m benchmarks.speed.estimates [--trials 8] [--rounds 300] [--points 15] [--out FILE]

Trials are sized by :meth:`Strategy.numbers_per_trial`. Here each family plays as it is estimated,
every round at another arm or point and no trigger firing, and all tensors alive at a time are
counted, in numbers of 8 bytes. An estimate may be too high where arms are played again; too low is
a study that runs out of memory. On a box it plays once by regression and, where they serve, once in
few functions, and searches at every sixteenth round.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError

from benchmarks.arguments import command_line
from benchmarks.speed.common import RESULTS, begin, write
from benchmarks.speed.live_numbers import LiveNumbers
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    Grid,
    State,
    Strategy,
    Suggestion,
    et_gp_ucb,
    gp_ei,
    gp_ts,
    gp_ucb,
    r_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)
from botorch_tv.strategies.domains import Domain

BETWEEN_ASKS = 16
SETTING: dict[str, Any] = {"kernel": unit_kernel("se", 0.3), "noise": 0.1}
FAMILIES: dict[str, Callable[..., Strategy]] = {
    "GP-UCB": lambda **how: gp_ucb(**SETTING, **how),
    "TV-GP-UCB": lambda **how: tv_gp_ucb(**SETTING, epsilon=0.03, **how),
    "SW-GP-UCB": lambda **how: sw_gp_ucb(**SETTING, window=100, **how),
    "R-GP-UCB": lambda **how: r_gp_ucb(**SETTING, period=120, **how),
    "ET-GP-UCB": lambda **how: et_gp_ucb(**SETTING, **how),
    "WGP-UCB": lambda **how: w_gp_ucb(**SETTING, gamma=0.99, **how),
    "UI-TVBO": lambda **how: ui_tvbo(**SETTING, sigma_w2=0.03, **how),
    "GP-TS": lambda **how: gp_ts(**SETTING, **how),
    "GP-EI": lambda **how: gp_ei(**SETTING, **how),
    "random": lambda **how: random_search(**SETTING, **how),
}


def counted(player: Strategy, domain: Domain, trials: int, rounds: int) -> tuple[int, int]:
    """Numbers estimated and numbers alive at most, of all trials."""
    template = player.init(domain)
    estimate = trials * player.numbers_per_trial(template, rounds, trials)
    draw = torch.Generator().manual_seed(0)
    with LiveNumbers() as live:
        state = player.init_like(template, (trials,))
        first = player.ask(state, generator=draw)
        for t in range(rounds):
            made = other(first, state, t, draw)
            state, _ = player.tell(state, made, first.mean, check=False, consume=True)
            if isinstance(domain, Grid) or t % BETWEEN_ASKS == BETWEEN_ASKS - 1 or t == rounds - 1:
                player.ask(state, generator=draw)
    return estimate, live.most


def other(first: Suggestion, state: State, t: int, draw: torch.Generator) -> Suggestion:
    """A suggestion of an arm or point where nothing was measured yet."""
    trials, time = len(first.mean), first.time + t
    if isinstance(state.domain, Grid):
        index = (5 * torch.arange(trials) + t) % len(state.domain)
        return first._replace(index=index, X=state.domain.points(index, first.mean), time=time)
    X = torch.rand(first.X.shape, dtype=torch.float64, generator=draw)
    return first._replace(X=X, time=time)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each family, domain and inference."""
    box = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    cases = [
        ("grid", Grid.regular(options.points, 2), "auto"),
        ("box", box, "exact"),
        ("box", box, "features"),
    ]
    rows = []
    for place, domain, inference in cases:
        for name, family in FAMILIES.items():
            player = family(inference=inference)
            try:
                estimate, most = counted(player, domain, options.trials, options.rounds)
            except InputDataError:  # functions do not serve
                continue
            row = {
                "strategy": name,
                "domain": place,
                "inference": inference,
                "numbers estimated": estimate,
                "numbers at most": most,
                "ratio": estimate / most,
            }
            print(f"{name:10s} {place:5s} {inference:6s} {estimate:12,d} {most:12,d}", end=" ")
            print(f"{row['ratio']:6.2f}", flush=True)
            rows.append(row)
    return rows


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("speed.estimates", __doc__, trials=8, points=15)
    parser.set_defaults(out=RESULTS / "memory_estimates.json")
    parser.add_argument("--rounds", type=int, default=300)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    options = parse(arguments)
    facts = begin(torch.get_num_threads(), seed=0)
    record = {
        "environment": facts,
        "trials": options.trials,
        "rounds": options.rounds,
        "arms": options.points**2,
        "families": measure(options),
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
