"""What the page of peers says of Optuna's samplers on parameters of mixed kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORLDS = {
    "wander": "places and depths go round, in 150 and 200 trials.",
    "jumps": "they leap to new places and depths after every third of the run.",
    "static": "they stay.",
}
NAMES = {"drift": "DriftSampler", "tpe": "TPESampler", "gp": "GPSampler"}
OURS = "drift"


def mixed(record: Mapping[str, Any]) -> list[str]:
    """A section of the page.

    Args:
        record: What ``benchmarks.statistics.optuna_drift`` stored.
    """
    parameters, runs = record["parameters"], record["environments"]
    commits = ", ".join(sorted({one["commit"] for one in runs}))
    worlds = " ".join(f"*{world}*: {what}" for world, what in WORLDS.items())
    lines = [
        "A rate on a logarithmic scale, a whole number and a category, each category a hollow of "
        f"its own. {worlds} {parameters['trials']} trials by {parameters['workers']} workers that "
        "share a study on SQLite. Regret of all trials, without noise, summed: every trial counts, "
        "as for a machine that is at work, while the rivals look for the best value ever seen and "
        "go on exploring when they have it. The last two columns are milliseconds a suggestion "
        f"takes in the end, the machine having other work. Commit {commits}; written from what "
        "`python -m benchmarks.statistics.optuna_drift` stored.",
        "",
        "| world | sampler | seeds | regret | less ours | ms | processor ms |",
        "|---" * 7 + "|",
    ]
    for world in WORLDS:
        figures = record["worlds"][world]
        for name, label in NAMES.items():
            row = figures[name]
            regret = f"{row['regret']:.1f} ± {row['standard error']:.1f}"
            cells = [world, f"`{label}`", figures["seeds"], regret, _gap(figures, name)]
            cells += [f"{row['milliseconds']:.0f}", f"{row['milliseconds of processor']:.0f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _gap(figures: Mapping[str, Any], name: str) -> str:
    if name == OURS:
        return ""
    gap = figures[f"{name} less {OURS}"]
    error = gap["mean"] / gap["standard errors above 0"]
    return f"{gap['mean']:+.1f} ± {error:.1f}"
