"""Figures and tables of the papers, each reproduced by one command: `botorch-tv paper ID`."""

from __future__ import annotations

from botorch_tv.papers import (
    bogunovic2016,
    cart_pole,
    chowdhury2017,
    deng2022,
    event_triggered,
    mauduit,
    sensors,
)
from botorch_tv.papers.experiment import Case, Drawn, Experiment, Outcome, Recorded

EXPERIMENTS = {
    experiment.id: experiment
    for experiment in (
        bogunovic2016.FIGURE_2A,
        bogunovic2016.FIGURE_2B,
        bogunovic2016.FIGURE_2C,
        bogunovic2016.FIGURE_2D,
        sensors.TEMPERATURE,
        sensors.TRAFFIC,
        event_triggered.FIGURE_2,
        sensors.EVENT_TRIGGERED_TEMPERATURE,
        cart_pole.FIGURE_3D,
        event_triggered.FIGURE_4,
        deng2022.TABLE_1,
        event_triggered.TABLE_2,
        chowdhury2017.SYNTHETIC,
        chowdhury2017.FUNCTIONS,
        chowdhury2017.TEMPERATURE,
        chowdhury2017.LIGHT_SENSORS,
        deng2022.ABRUPT,
        deng2022.SLOW,
        deng2022.ABRUPT_100,
        deng2022.SLOW_100,
        deng2022.STOCKS,
        mauduit.SYNTHETIC,
        mauduit.TEMPERATURE,
    )
}
"""All figures and tables, by id."""


def experiment_named(name: str) -> Experiment:
    """Look up an experiment by its id.

    Args:
        name: Id of the experiment, such as "et-table2".

    Raises:
        ValueError: If no experiment has this id.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment {name!r}; choose from {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "Case", "Drawn", "Experiment", "Outcome", "Recorded", "experiment_named"]
