"""How soon is a change noticed, and how often is one noticed that was none?

GP-UCB plays Gaussian draws on a 20 x 20 grid (SE kernel, lengthscale 0.2, σ² = 0.02) that are
replaced after 100 rounds by sqrt(1 - s²) f + s g, g another draw: s is the size of the change.
Nothing is forgotten in the run, so that one run tells when each detector first fires at each δ:
until then all runs are the same. False alarms are trials that fire in the 100 rounds before the
change; the delay of the others counts rounds from it, those that never fire in the 100 rounds after
it as 101. ``Forced`` plays a tenth of the rounds by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from botorch_tv.acquisition import Forced, Logarithmic, UpperConfidence
from botorch_tv.forgetting import EventTrigger, GLRTrigger, Log, Observation, Retained, Retention
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import GPStrategy, Grid

BEFORE, AFTER = 100, 100
NOISE = 0.02
SIZES = (0.2, 0.4, 0.7, 1.0)
DELTAS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)
LEVELS = (0.01, 0.05)
"""Shares of false alarms at which detectors are compared."""
EXPLORATIONS = {"GP-UCB": UpperConfidence(), "GP-UCB, forced": Forced(0.1)}
DETECTORS = {"ET": EventTrigger, "GLR": GLRTrigger}


class Told(NamedTuple):
    """What was predicted and observed, each `trials x rounds`."""

    y: Tensor
    mean: Tensor
    sd: Tensor


def play(size: float, exploration: str, trials: int, seed: int) -> Told:
    """One run without forgetting; worlds and noise are the same for every exploration."""
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
        rows.append(Told(y, suggestion.mean, suggestion.sd))
        state, _ = strategy.tell(state, suggestion, y, consume=True)
    return Told(*(torch.stack(part, 1) for part in zip(*rows)))


def first_alarms(rule: Retention, told: Told) -> Tensor:
    """The round in which a rule first fires, counted from 1; infinite for never, `trials`."""
    trials, rounds = told.y.shape
    shape = torch.Size((trials,))
    never = torch.zeros(trials, dtype=torch.bool)
    noise = torch.full(shape, NOISE, dtype=torch.float64)
    first, memory = noise + math.inf, rule.init(shape)
    for t in range(rounds):
        y, mean, sd = (part[:, t] for part in told)
        time = torch.full(shape, t + 1.0, dtype=torch.float64)
        log = Log(
            None,  # neither rule looks at rows
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
    """False alarms, and delays of the others, each with its standard error."""
    false = first <= BEFORE
    delay = (first - BEFORE).clamp_max(AFTER + 1)[~false]
    error = delay.std() / math.sqrt(len(delay))
    share = false.double().mean().item()
    return {
        "false_alarms": share,
        "false_alarms_error": math.sqrt(share * (1 - share) / len(first)),
        "delay": delay.mean().item(),
        "delay_error": error.item(),
        "noticed": (delay <= AFTER).double().mean().item(),
    }


def compared(alarms: dict[str, dict[float, Tensor]], level: float) -> dict[str, Any]:
    """Delays at the largest δ of each detector with so few false alarms, paired by trial."""
    chosen = {}
    for name, by_delta in alarms.items():
        few = [d for d, one in by_delta.items() if (one <= BEFORE).double().mean() <= level]
        chosen[name] = max(few)
    firsts = [alarms[name][delta] for name, delta in chosen.items()]
    both = torch.stack([one > BEFORE for one in firsts]).all(0)
    event, ratio = ((one - BEFORE).clamp_max(AFTER + 1)[both] for one in firsts)
    apart = event - ratio
    return {
        "level": level,
        "delta": chosen,
        "delay": {"ET": event.mean().item(), "GLR": ratio.mean().item()},
        "rounds_sooner": apart.mean().item(),
        "rounds_sooner_error": (apart.std() / math.sqrt(len(apart))).item(),
    }


def draw(curves: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel per size: delay over false alarms."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(SIZES), figsize=(3.1 * len(SIZES), 3.2), sharey=True)
    styles = {"GP-UCB": "-", "GP-UCB, forced": "--"}
    colors = {"ET": "#c44e52", "GLR": "#4c72b0"}
    for panel, size in zip(panels, SIZES):
        for curve in curves:
            if curve["size"] == size:
                points = [one for one in curve["points"].values()]
                name = f"{curve['detector']}, {curve['exploration']}"
                panel.errorbar(
                    [100 * one["false_alarms"] for one in points],
                    [one["delay"] for one in points],
                    [one["delay_error"] for one in points],
                    label=name,
                    linestyle=styles[curve["exploration"]],
                    color=colors[curve["detector"]],
                    marker=".",
                )
        panel.set_title(f"size {size:g}")
        panel.set_xlabel("false alarms in 100 rounds, %")
        panel.set_ylim(0, AFTER + 5)
    panels[0].set_ylabel("rounds until noticed")
    panels[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play all worlds; returns the record that is written."""
    options = command_line(
        "statistics.detection", __doc__, trials=1000, seed=0, threads=1
    ).parse_args(arguments)
    facts = begin(options.threads, seed=options.seed)
    curves, pairs = [], []
    for size in SIZES:
        for exploration in EXPLORATIONS:
            told = play(size, exploration, options.trials, options.seed)
            alarms = {
                name: {delta: first_alarms(rule(delta), told) for delta in DELTAS}
                for name, rule in DETECTORS.items()
            }
            for name, by_delta in alarms.items():
                points = {str(delta): judged(one) for delta, one in by_delta.items()}
                curves.append(
                    {"size": size, "exploration": exploration, "detector": name, "points": points}
                )
            for level in LEVELS:
                pairs.append({"size": size, "exploration": exploration, **compared(alarms, level)})
                told_of = pairs[-1]
                print(
                    f"size {size:g}, {exploration}, at most {level:.0%} false alarms: ET "
                    f"{told_of['delay']['ET']:.1f}, GLR {told_of['delay']['GLR']:.1f} rounds; "
                    f"sooner by {told_of['rounds_sooner']:.1f} ± "
                    f"{told_of['rounds_sooner_error']:.1f}"
                )
    record = {
        "benchmark": "detection",
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
