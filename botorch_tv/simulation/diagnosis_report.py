"""Tables, texts and files about the further variables of a study."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from botorch_tv.simulation.datasets import by_trial
from botorch_tv.simulation.diagnosis import CAUSES, with_trigger
from botorch_tv.simulation.recorders import PLACE
from botorch_tv.simulation.result import StudyResult
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.simulation.tables import aligned

LEVEL = 0.9

_COLUMNS = {
    "alarms": ("alarms", ".2f"),
    "by_objective": ("f left band", ".0%"),
    "by_noise": ("by noise", ".0%"),
    "by_both": ("both", ".0%"),
    "objective": (f"f in {LEVEL:.0%}", ".0%"),
    "observation": (f"y in {LEVEL:.0%}", ".0%"),
    "played": ("f in played", ".0%"),
    "simple_regret": ("simple regret", ".3f"),
}

_LEGEND = (
    "Alarms per trial and the share with this cause; share of rounds with the objective f and the\n"
    f"observation y in their {LEVEL:.0%} bands, and f in the band played, mean ± √β sd."
)


def diagnosis_table(result: StudyRecord) -> pd.DataFrame:
    """One row per strategy, in the order of the study.

    Args:
        result: A diagnosed study.

    Returns:
        `alarms` (mean per trial; NaN without a trigger) and the shares of them `by_objective`,
        `by_noise` and `by_both` (see :func:`trigger_table`); `objective` and `observation` (shares
        of rounds inside their bands of nominally 90 %); `played` (share of rounds with the
        objective in the band played); `simple_regret` (mean per round).

    Raises:
        ValueError: If the study was not diagnosed.
    """
    alarms, shares = result.triggers(), result.calibration([LEVEL]).squeeze("level")
    trials, armed = result.data.sizes["trial"], with_trigger(result.data)
    simple = result.over_trials(by_trial(result.simple_regret, lambda one: one.mean("round")))
    rows = []
    for label in result.strategies:
        causes = alarms["cause"][alarms["strategy"] == label]
        row = {"alarms": len(causes) / trials if label in armed else math.nan}
        for cause in CAUSES:
            row[f"by_{cause}"] = float((causes == cause).mean()) if len(causes) else math.nan
        for name in ("objective", "observation", "played"):
            row[name] = float(shares[name].sel(strategy=label))
        row["simple_regret"] = simple[label].mean
        rows.append(row)
    index = pd.Index(result.strategies, name="strategy")
    return pd.DataFrame(rows, index=index, columns=list(_COLUMNS), dtype=float)


def diagnosis_text(table: pd.DataFrame) -> str:
    """The diagnosis as text, one line per strategy.

    Args:
        table: The table of :func:`diagnosis_table`.
    """
    shown = {name: column for name, column in _COLUMNS.items() if table[name].notna().any()}
    return f"{aligned(table, shown)}\n{_LEGEND}"


def calibration_table(result: StudyRecord) -> pd.DataFrame:
    """All shares of :meth:`StudyRecord.calibration`, one per row.

    Args:
        result: A diagnosed study.

    Returns:
        Columns `strategy`, `inside` (which value, and which band), `level` (nominal; NaN if given
        by a theorem), `share` and its `standard_error` over trials.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    shares = result.calibration()
    rows: list[tuple[str, str, float, float, float]] = []
    for label in result.strategies:
        one = shares.sel(strategy=label)
        for name in ("objective", "observation"):
            for level in shares["level"].values:
                at = one.sel(level=level)
                rows.append(
                    (label, name, float(level), float(at[name]), float(at[f"{name}_error"]))
                )
        for name, meaning, level in (
            ("played", "objective in the band played", float(one["played_level"])),
            ("throughout", "objective in the band played in every round", math.nan),
        ):
            rows.append((label, meaning, level, float(one[name]), float(one[f"{name}_error"])))
    return pd.DataFrame(rows, columns=["strategy", "inside", "level", "share", "standard_error"])


def write_diagnosis(result: StudyResult, stem: Path) -> list[Path]:
    """Write tables and plots of alarms, calibration and simple regret.

    Args:
        result: A diagnosed study.
        stem: Existing folder and prefix of the names: `out/compare` gives
            `out/compare-triggers.csv` and so on.

    Returns:
        The files written. Alarms are not plotted if no strategy has a trigger.

    Raises:
        ValueError: If the study was not diagnosed.
    """
    endings = ("triggers.csv", "calibration.csv", "calibration.png", "simple-regret.png")
    written = [_beside(stem, ending) for ending in endings]
    result.triggers().to_csv(written[0], index=False)
    calibration_table(result).to_csv(written[1], index=False)
    result.plot_calibration(written[2])
    result.plot_simple_regret(written[3])
    if with_trigger(result.data):
        written.append(_beside(stem, "triggers.png"))
        result.plot_triggers(path=written[-1])
    return written


def errors_text(result: StudyRecord) -> str:
    """The mean squared prediction error of every strategy, best first.

    Raises:
        ValueError: If the study did not record it.
    """
    errors = ", ".join(f"{label} {mean}" for label, mean in result.mean_squared_error().items())
    return f"Squared prediction error, mean over arms, rounds and trials: {errors}."


def write_maps(result: StudyResult, stem: Path) -> list[Path]:
    """Plot the prediction error of every strategy over the arms.

    Args:
        result: A study with prediction errors.
        stem: Existing folder and prefix of the name: `out/compare` gives
            `out/compare-prediction-error.png`.

    Returns:
        The file written; empty if the arms have more than two coordinates.

    Raises:
        ValueError: If the study did not record it.
    """
    if result.prediction_error[PLACE].shape[-1] > 2:
        return []
    picture = _beside(stem, "prediction-error.png")
    result.plot_prediction_error(picture)
    return [picture]


def _beside(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}-{ending}")
