"""Draw the figure of `pages/explanation/one-formula.md`: `python .site/formula.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch

from botorch_tv.forgetting import (
    ExponentialWeights,
    Markov,
    PeriodicMarkov,
    UncertaintyInjection,
)

HERE = Path(__file__).parent / "pages" / "explanation"
AGE = torch.linspace(0, 60, 241, dtype=torch.float64)
DECAYS = {
    "Markov(0.03)": Markov(0.03),
    "Markov(0.1)": Markov(0.1),
    "PeriodicMarkov(0.03, 24, 1)": PeriodicMarkov(0.03, 24.0, 1.0),
}
INFLATIONS = {
    "ExponentialWeights(0.95)": ExponentialWeights(0.95),
    "UncertaintyInjection(kappa=0.2)": UncertaintyInjection(kappa=0.2, alpha=1.0),
}
RETENTIONS = {"SlidingWindow(20)": 20, "last reset 36 rounds ago": 36, "KeepAll()": 60}
COLOURS, STYLES = ("#0072B2", "#D55E00", "#009E73"), ("-", "--", ":")


def draw(name: str, ink: str) -> None:
    """Draw the figure with lines and letters of a colour.

    Args:
        name: Its file.
        ink: The colour.
    """
    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    with plt.rc_context(dict.fromkeys(keys, ink) | {"font.size": 9, "svg.hashsalt": "1"}):
        figure, (decay, noise, rows) = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained")
        for number, (label, one) in enumerate(DECAYS.items()):
            line = {"color": COLOURS[number], "linestyle": STYLES[number], "label": label}
            decay.plot(AGE, one.attenuation(AGE), **line)
        for number, (label, grows) in enumerate(INFLATIONS.items()):
            line = {"color": COLOURS[number], "linestyle": STYLES[number], "label": label}
            noise.plot(AGE, grows.log_factor(AGE).exp(), **line)
        for number, (label, oldest) in enumerate(RETENTIONS.items()):
            ages = range(0, oldest, 3)
            rows.plot(ages, [number] * len(ages), "o", color=COLOURS[number], markersize=4)
            rows.text(0, number + 0.2, label)
        decay.set(title="decay D: correlation with now", ylim=(0, 1.05))
        noise.set(title="inflation N: factor on the noise", ylim=(0, 16))
        rows.set(title="retention: rows of y that remain", ylim=(-0.5, 2.8), yticks=[])
        for axes in (decay, noise, rows):
            axes.set(xlabel="age of a measurement", xlim=(-2, 62))
            axes.spines[["top", "right"]].set_visible(False)
        for axes in (decay, noise):
            axes.legend(frameon=False, fontsize=8)
        figure.savefig(HERE / name, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw("one-formula-light.svg", "#333333")
    draw("one-formula-dark.svg", "#cccccc")
