"""The diagnosis of a study in files."""

from __future__ import annotations

from pathlib import Path

from botorch_tv.simulation.diagnosis.report import calibration_table
from botorch_tv.simulation.diagnosis.triggers import with_trigger
from botorch_tv.simulation.result import StudyResult


def write_diagnosis(result: StudyResult, stem: Path) -> list[Path]:
    """Write tables and pictures of the alarms, the calibration and simple regret.

    Args:
        result: A diagnosed study.
        stem: Folder and beginning of the names: `out/compare` makes `out/compare-triggers.csv` and
            so on. The folder is there.

    Returns:
        The files written. There is a table but no picture of the alarms where no strategy has a
        trigger.

    Raises:
        ValueError: If the study was not diagnosed.
    """

    def named(ending: str) -> Path:
        return stem.with_name(f"{stem.name}-{ending}")

    written = [named("triggers.csv"), named("calibration.csv"), named("calibration.png")]
    result.triggers().to_csv(written[0], index=False)
    calibration_table(result).to_csv(written[1], index=False)
    result.plot_calibration(written[2])
    written.append(named("simple-regret.png"))
    result.plot_simple_regret(written[-1])
    if with_trigger(result.data):
        written.append(named("triggers.png"))
        result.plot_triggers(path=written[-1])
    return written
