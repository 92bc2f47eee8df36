import re

import numpy as np
import pytest

from botorch_tv.cli import command as cli
from botorch_tv.simulation import PanelWorld, StudyResult
from botorch_tv.simulation.panels import make_panel

VALUES = 280 + 5 * make_panel(45, 6, seed=3).values
QUICK = ["--trials", "3", "--quiet"]


@pytest.fixture
def panel(tmp_path):
    np.savez(tmp_path / "panel.npz", field=VALUES.reshape(45, 3, 2), other=np.eye(2))
    return tmp_path / "panel.npz"


def compared(panel, *options):
    out = panel.parent / "out"
    assert cli.main(["compare", "--panel", str(panel), *options, *QUICK, "--out", str(out)]) == 0
    return StudyResult.load(out / "compare.nc")


def test_defaults_of_a_panel(panel, capsys):
    result = compared(panel)
    assert result.strategies == ["GP-UCB", "R-GP-UCB", "TV-GP-UCB", "ET-GP-UCB", "Random"]
    assert dict(result.data.sizes) == {"strategy": 5, "trial": 3, "round": 15}
    assert {path.name for path in (panel.parent / "out").iterdir()} == {
        "compare.nc",
        "compare.csv",
        "compare.png",
    }
    world = PanelWorld(VALUES, 30)
    output = capsys.readouterr().out
    assert "30 training rows, 15 test rows" in output
    assert f"Fitted: epsilon {world.epsilon:.3g}. " in output
    assert f"Noise variance {world.model_noise:.3g}: 0.05 of the variance of the training" in output
    strategies = result.data.attrs["strategies"]
    period = int(np.ceil(min(15, 12 * world.epsilon**-0.25)))
    for part in (f"epsilon={world.epsilon}", f"period={period}", "c1=0.8, c2=0.4", "noise=0.05"):
        assert part in strategies


def test_options_reach_the_world(panel):
    result = compared(
        panel,
        *["--train", "20", "--no-standardize", "--center", "arm", "--first-arm", "4"],
        *["--groups", "5", "--noise-share", "0.1", "--horizon", "8", "--c1", "0.2"],
        *["--strategies", "TV,R", "--epsilon-model", "0.25", "--key", "field"],
    )
    world = PanelWorld(
        VALUES, 20, standardize=False, center="arm", first_arm=4, groups=5, noise_share=0.1
    )
    assert result.data.attrs["world"] == repr(world)
    assert (result.data["index"].values[:, :, 0] == 4).all()
    assert dict(result.data.sizes) == {"strategy": 2, "trial": 3, "round": 8}
    f = world.objective.numpy()[:8]
    np.testing.assert_allclose(
        result.regret.values, f.max(1) - f[np.arange(8), result.data["index"].values]
    )
    for part in ("epsilon=0.25", "c1=0.2, c2=0.4"):
        assert part in result.data.attrs["strategies"]


def test_a_table(tmp_path):
    lines = ["date," + ",".join(f"s{arm}" for arm in range(6))]
    for day, row in enumerate(VALUES):
        cells = ("" if np.isnan(value) else f"{value:.6f}" for value in row)
        lines.append(f"2020-01-{day + 1:02d}," + ",".join(cells))
    (tmp_path / "table.csv").write_text("\n".join(lines[:32]) + "\n")
    result = compared(tmp_path / "table.csv", "--strategies", "GP")
    assert dict(result.data.sizes) == {"strategy": 1, "trial": 3, "round": 11}


def test_arms_without_test_readings_are_listed_and_can_be_dropped(tmp_path, capsys):
    values = VALUES.copy()
    values[30:, 4] = np.nan
    lines = [",".join(f"s{arm}" for arm in range(6))]
    lines += [",".join("" if np.isnan(item) else f"{item:.6f}" for item in row) for row in values]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    compared(tmp_path / "table.csv", "--strategies", "GP")
    output = "No reading in any test row: s4."
    assert output in capsys.readouterr().out
    rest = ["--without", "s4", "--first-arm", "each"]
    result = compared(tmp_path / "table.csv", "--strategies", "GP", *rest)
    assert output not in capsys.readouterr().out
    assert result.data["index"].values[0, :, 0].tolist() == [0, 1, 2]
    assert float(result.data["index"].max()) <= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0.03"], "--epsilon is an option of simulated worlds.*--epsilon-model"),
        (["--noise", "0.02"], "--noise is an option of simulated worlds.*--noise-share"),
        (["--kernel", "se"], "--kernel is an option of simulated worlds"),
        (["--lengthscale", "0.2"], "--lengthscale is an option of simulated worlds"),
        (["--points", "50"], "--points is an option of simulated worlds"),
        (["--dim", "2"], "--dim is an option of simulated worlds"),
        (["--key", "no"], "no numeric array 'no'"),
        (["--train", "45"], "train is 45, but there are 45 rows"),
        (["--horizon", "16"], "--horizon is 16, but 15 rows follow the 30 training"),
        (["--first-arm", "6"], "first_arm is 6"),
        (["--first-arm", "any"], "invalid .*first_arm value: 'any'"),
        (["--without", "no"], "--without no: the panel has no arm of this name; it has 0,0, 0,1"),
        (["--center", "none"], "invalid choice"),
        (["--groups", "1"], "groups is 1"),
        (["--noise-share", "0"], "noise_share is 0"),
    ],
)
def test_bad_input_is_one_line(panel, capsys, options, message):
    code = cli.main(["compare", "--panel", str(panel), *options, "--out", str(panel.parent / "o")])
    printed = capsys.readouterr()
    assert code == cli.EXIT_ERROR
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert re.search(message, printed.err), printed.err


@pytest.mark.parametrize("option", ["--train", "--groups", "--noise-share", "--first-arm"])
def test_options_of_a_panel_require_a_panel(capsys, option):
    assert cli.main(["compare", option, "1"]) == cli.EXIT_ERROR
    assert f"{option} requires recorded data; give --panel FILE" in capsys.readouterr().err


def test_absent_panel(tmp_path, capsys):
    assert cli.main(["compare", "--panel", str(tmp_path / "absent.csv")]) == cli.EXIT_ERROR
    assert "no file" in capsys.readouterr().err
