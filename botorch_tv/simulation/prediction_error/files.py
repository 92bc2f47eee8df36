"""Prediction errors for people: a line of words and a picture."""

from __future__ import annotations

from pathlib import Path

from botorch_tv.simulation.prediction_error.labelled import PLACE
from botorch_tv.simulation.prediction_error.plot import plot_prediction_error, score
from botorch_tv.simulation.result import StudyResult


def errors_text(result: StudyResult) -> str:
    """Who knew the objective how well, the best one first.

    Raises:
        ValueError: If the study did not record it.
    """
    scores = {label: score(result, label) for label in result.strategies}
    order = sorted(scores, key=lambda label: scores[label].mean)
    told = ", ".join(f"{label} {scores[label]}" for label in order)
    return f"Squared prediction error, mean over arms, rounds and trials: {told}."


def write_maps(result: StudyResult, stem: Path) -> list[Path]:
    """Draw where every strategy knew the objective well.

    Args:
        result: A study with prediction errors.
        stem: Folder and beginning of the name: `out/compare` makes
            `out/compare-prediction-error.png`. The folder is there.

    Returns:
        The file written; none where the arms have more than two coordinates.

    Raises:
        ValueError: If the study did not record it.
    """
    if result.prediction_error[PLACE].shape[-1] > 2:
        return []
    picture = stem.with_name(f"{stem.name}-prediction-error.png")
    plot_prediction_error(result, picture)
    return [picture]
