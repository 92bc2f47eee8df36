import numpy as np
import pandas as pd
import pytest
from synthetic_results import drawn_diagnosis, make_diagnosed

from botorch_tv.cli import command as cli
from botorch_tv.simulation import StudyResult
from botorch_tv.simulation.result import (
    calibration_table,
    diagnosis_table,
    diagnosis_text,
    write_diagnosis,
)

ENDINGS = {
    "-triggers.csv",
    "-triggers.png",
    "-calibration.csv",
    "-calibration.png",
    "-simple-regret.png",
}
TINY = ["--trials", "2", "--horizon", "6", "--points", "5", "--strategies", "TV,ET", "--quiet"]


@pytest.fixture
def result():
    return drawn_diagnosis({"GP": 2.0, "ET": 2.5}, trials=6, rounds=30, trigger_of="ET")


def test_table_by_hand():
    fired = np.array([[True, False], [True, True]])
    values = {
        "observation": [[3.5, 0.0], [-3.25, 4.0]],  # causes as in test_triggers
        "objective": [[2.5, 0.0], [-1.75, 2.5]],
        "band": np.full((2, 2), 3.0),
        "simple_regret": [[1.0, 2.0], [3.0, 4.0]],
    }
    result = make_diagnosed({"GP": {"mean": np.zeros((2, 2))}, "ET": values}, {"ET": fired})
    table = diagnosis_table(result)
    row = table.loc["ET"]
    assert row["triggers"] == 1.5
    assert list(row[["by_objective", "by_noise", "by_both"]]) == pytest.approx([1 / 3] * 3)
    assert row["objective"] == 0.25  # z = 1.645
    assert row["observation"] == 0.25
    assert row["played"] == 0.25
    assert row["simple_regret"] == 2.5
    assert table.loc["GP", ["triggers", "by_objective"]].isna().all()
    assert table.loc["GP", "objective"] == 1
    lines = diagnosis_text(table).splitlines()
    assert lines[1].split() == ["GP", "100%", "100%", "100%", "0.000"]
    assert lines[2].split() == ["ET", "1.50", "33%", "33%", "33%", "25%", "25%", "25%", "2.500"]
    assert "triggers" not in diagnosis_text(table.loc[["GP"]]).splitlines()[0]


def test_files_of_a_study(result, tmp_path):
    written = write_diagnosis(result, tmp_path / "study")
    assert {path.name for path in written} == {f"study{ending}" for ending in ENDINGS}
    assert set(tmp_path.iterdir()) == set(written)
    retained = pd.read_csv(tmp_path / "study-triggers.csv")
    pd.testing.assert_frame_equal(retained, result.triggers(), check_dtype=False)
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "study-calibration.csv"), calibration_table(result)
    )


def test_study_without_trigger_has_no_picture_of_it(tmp_path):
    written = write_diagnosis(drawn_diagnosis({"A": 1.0}, 2, 5), tmp_path / "a.b")
    assert {path.name for path in written} == {f"a.b{end}" for end in ENDINGS - {"-triggers.png"}}
    assert pd.read_csv(tmp_path / "a.b-triggers.csv").empty


def test_compare_and_plot_write_the_diagnosis(tmp_path, capsys):
    assert cli.main(["compare", *TINY, "--diagnose", "--out", str(tmp_path)]) == 0
    expected = {f"compare{ending}" for ending in {".nc", ".csv", ".png"} | ENDINGS}
    assert {path.name for path in tmp_path.iterdir()} == expected
    printed = capsys.readouterr().out
    assert "f in 90%" in printed
    assert "compare-triggers.csv" in printed
    assert StudyResult.load(tmp_path / "compare.nc").diagnosed
    picture = tmp_path / "again" / "picture.svg"
    assert cli.main(["plot", str(tmp_path / "compare.nc"), "--out", str(picture)]) == 0
    drawn = {f"picture{ending}" for ending in {".svg"} | ENDINGS}
    assert {path.name for path in picture.parent.iterdir()} == drawn
    assert "f in 90%" in capsys.readouterr().out
