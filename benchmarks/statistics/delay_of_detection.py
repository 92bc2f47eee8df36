"""Detection delay and false triggers of the event trigger and of the likelihood ratio.

GP-UCB plays Gaussian draws on a 20 x 20 grid (SE kernel, lengthscale 0.2, σ² = 0.02). After 100
rounds a draw f changes to sqrt(1 - s²) f + s g, with g another draw and s the size of the change.
The run itself forgets nothing, so a single run shows when each detector first fires at each δ.
False triggers are the trials in which a detector fires in the 100 rounds before the change. The
delay of the other trials counts rounds from the change, 101 if the detector does not fire within
100 rounds. ``Forced`` plays a tenth of the rounds at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from botorch_tv.acquisition import Forced, Logarithmic, UpperConfidence
from botorch_tv.drawing import canvas, lighten, written
from botorch_tv.forgetting import EventTrigger, GLRTrigger, Log, Observation, Retained, Retention
from botorch_tv.simulation.plots.curves import line_styles
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import GPStrategy, Grid

BEFORE, AFTER = 100, 100
NOISE = 0.02
SIZES = (0.2, 0.4, 0.7, 1.0)
DELTAS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)
LEVELS = (0.01, 0.05)
"""Rates of false triggers at which detectors are compared."""
EXPLORATIONS = {"GP-UCB": UpperConfidence(), "GP-UCB, forced": Forced(0.1)}
DETECTORS = {"ET": EventTrigger, "GLR": GLRTrigger}


class Observed(NamedTuple):
    """Observations and their predictions, each `trials x rounds`."""

    y: Tensor
    mean: Tensor
    sd: Tensor


def play(size: float, exploration: str, trials: int, seed: int) -> Observed:
    """A run without forgetting; functions and noise are the same for every exploration."""
    domain, kernel = Grid.regular(points=20, dim=2), unit_kernel("se", 0.2)
    generator = torch.Generator().manual_seed(seed)
    usual: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    with torch.no_grad():
        K = kernel(domain.X).to_dense() + 1e-10 * torch.eye(len(domain), dtype=torch.float64)
    root = torch.linalg.cholesky(K)
    first, other = (torch.randn(trials, len(domain), **usual) @ root.mT for _ in range(2))
    second = math.sqrt(1 - size**2) * first + size * other
    errors = math.sqrt(NOISE) * torch.randn(trials, BEFORE + AFTER, **usual)
    strategy = GPStrategy(
        kernel=kernel,
        noise=NOISE,
        width=Logarithmic(c1=0.4, c2=4.0),
        exploration=EXPLORATIONS[exploration],
    )
    state, rows = strategy.init(domain, batch_shape=(trials,)), []
    for t in range(BEFORE + AFTER):
        suggestion = strategy.ask(state, generator=generator)
        assert suggestion.index is not None
        f = first if t < BEFORE else second
        y = f.gather(1, suggestion.index.unsqueeze(1)).squeeze(1) + errors[:, t]
        rows.append(Observed(y, suggestion.mean, suggestion.sd))
        state, _ = strategy.tell(state, suggestion, y, consume=True)
    return Observed(*(torch.stack(part, 1) for part in zip(*rows)))


def first_triggers(rule: Retention, observed: Observed) -> Tensor:
    """The round in which a rule first fires, counted from 1; infinite for never, `trials`."""
    trials, rounds = observed.y.shape
    shape = torch.Size((trials,))
    never = torch.zeros(trials, dtype=torch.bool)
    noise = torch.full(shape, NOISE, dtype=torch.float64)
    first, memory = noise + math.inf, rule.init(shape)
    for t in range(rounds):
        y, mean, sd = (part[:, t] for part in observed)
        time = torch.full(shape, t + 1.0, dtype=torch.float64)
        log = Log(
            None,  # neither rule uses rows
            now=time,
            rounds=t + 1,
            since=torch.full(shape, t + 1),
            first_time=torch.ones_like(time),
            newest=Observation(y.unsqueeze(-1), y, mean, sd, noise),
            reset=never,
            memory=memory,
        )
        retained = rule.keep(log)
        assert isinstance(retained, Retained)
        assert retained.where is not None
        first = torch.where(retained.where & first.isinf(), time, first)
        memory = rule.update(log)
    return first


def judged(first: Tensor) -> dict[str, Any]:
    """Rate of false triggers, and delay of the other trials, each with its standard error."""
    false = first <= BEFORE
    delay = (first - BEFORE).clamp_max(AFTER + 1)[~false]
    error = delay.std() / math.sqrt(len(delay))
    share = false.double().mean().item()
    return {
        "false_triggers": share,
        "false_triggers_error": math.sqrt(share * (1 - share) / len(first)),
        "delay": delay.mean().item(),
        "delay_error": error.item(),
        "detected": (delay <= AFTER).double().mean().item(),
    }


def compared(triggers: dict[str, dict[float, Tensor]], level: float) -> dict[str, Any]:
    """Delays at the largest δ of each detector that has so few false triggers, paired by trial."""
    chosen = {}
    for name, by_delta in triggers.items():
        few = [d for d, first in by_delta.items() if (first <= BEFORE).double().mean() <= level]
        chosen[name] = max(few)
    firsts = [triggers[name][delta] for name, delta in chosen.items()]
    both = torch.stack([first > BEFORE for first in firsts]).all(0)
    event, ratio = ((first - BEFORE).clamp_max(AFTER + 1)[both] for first in firsts)
    apart = event - ratio
    return {
        "level": level,
        "delta": chosen,
        "delay": {"ET": event.mean().item(), "GLR": ratio.mean().item()},
        "rounds_sooner": apart.mean().item(),
        "rounds_sooner_error": (apart.std() / math.sqrt(len(apart))).item(),
    }


def draw(curves: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot delay over false triggers, a panel per size of change."""
    figure = canvas(3.1 * len(SIZES), 3.4)
    panels = figure.subplots(1, len(SIZES), sharey=True, squeeze=False)[0]
    styles = line_styles([f"{detector}-GP-UCB" for detector in DETECTORS])
    for panel, size in zip(panels, SIZES):
        for curve in curves:
            if curve["size"] == size:
                points = list(curve["points"].values())
                forced = "forced" in curve["exploration"]
                color, line = styles[f"{curve['detector']}-GP-UCB"]
                panel.errorbar(
                    [100 * point["false_triggers"] for point in points],
                    [point["delay"] for point in points],
                    [point["delay_error"] for point in points],
                    label=f"{curve['detector']}{', forced exploration' if forced else ''}",
                    linestyle=line,
                    color=color,
                    alpha=0.4 if forced else 1.0,
                    marker="s" if forced else "o",
                    markersize=4,
                )
        panel.set_title(f"size of change s = {size:g}", fontsize=9)
        panel.set_ylim(0, AFTER + 5)
        lighten(panel)
    figure.supxlabel("false triggers in 100 rounds, % of trials", fontsize=9)
    panels[0].set_ylabel("detection delay, rounds")
    panels[-1].legend(fontsize=8, frameon=False, loc="upper right")
    written(figure, path)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = command_line(
        "statistics.delay_of_detection", __doc__, trials=1000, seed=0, threads=1
    ).parse_args(arguments)
    facts = begin(options.threads, seed=options.seed)
    curves, pairs = [], []
    for size in SIZES:
        for exploration in EXPLORATIONS:
            observed = play(size, exploration, options.trials, options.seed)
            triggers = {
                name: {delta: first_triggers(rule(delta), observed) for delta in DELTAS}
                for name, rule in DETECTORS.items()
            }
            for name, by_delta in triggers.items():
                points = {str(delta): judged(first) for delta, first in by_delta.items()}
                curves.append(
                    {"size": size, "exploration": exploration, "detector": name, "points": points}
                )
            for level in LEVELS:
                pairs.append(
                    {"size": size, "exploration": exploration, **compared(triggers, level)}
                )
                print(pairs[-1], flush=True)
    record = {
        "benchmark": "delay_of_detection",
        **facts,
        "parameters": {
            "trials": options.trials,
            "before": BEFORE,
            "after": AFTER,
            "noise": NOISE,
            "longest": GLRTrigger().longest,
        },
        "curves": curves,
        "compared": pairs,
    }
    write(record, options.out)
    draw(curves, options.out.with_suffix(".png"))
    return record


if __name__ == "__main__":
    main()
