"""`botorch-tv compare`, `plot` and `doctor`."""

import os
import re
import sys
import tomllib
from importlib.metadata import version as version_of
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from botorch_tv.cli import command as cli
from botorch_tv.cli import doctor
from botorch_tv.cli.options import DRAWN, OF_DRAWN
from botorch_tv.identity import libraries
from botorch_tv.simulation import PanelWorld, StudyResult, executors, rounds
from botorch_tv.simulation.panels import make_panel

TINY = ["--trials", "2", "--horizon", "4", "--points", "5", "--quiet"]
FILES = {"compare.nc", "compare.csv", "compare.png"}


@pytest.fixture
def unpictured(monkeypatch):
    """Skip drawing, which takes longer than a small study."""
    monkeypatch.setattr(StudyResult, "plot", lambda self, path: path.touch())


@pytest.mark.full
def test_compare_writes_files_and_a_summary_and_plot_draws_them_again(tmp_path, capsys):
    out = tmp_path / "new"
    assert cli.main(["compare", *TINY, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == FILES
    result = StudyResult.load(out / "compare.nc")
    assert dict(result.data.sizes) == {"strategy": 8, "trial": 2, "round": 4}
    printed = capsys.readouterr()
    for label in result.strategies:
        assert label in printed.out
    assert printed.err == ""
    assert "lowest regret" in printed.out
    table = pd.read_csv(out / "compare.csv", index_col="strategy")
    pd.testing.assert_frame_equal(result.summary(), table)
    (out / "compare.png").unlink()
    assert cli.main(["plot", str(out / "compare.nc")]) == 0
    assert (out / "compare.png").is_file()
    assert capsys.readouterr().out.split("Written")[0].strip() in printed.out
    assert cli.main(["plot", str(out / "compare.nc"), "--out", str(out / "a.svg")]) == 0
    assert (out / "a.svg").is_file()


@pytest.mark.usefixtures("unpictured")
def test_compare_in_single_precision_drops_adaptive(tmp_path, capsys):
    command = ["compare", "--dtype", "float32", *TINY, "--out", str(tmp_path)]
    assert cli.main(command) == 0
    labels = StudyResult.load(tmp_path / "compare.nc").strategies
    assert len(labels) == 7
    assert "Adaptive-GP-UCB" not in labels
    assert cli.main([*command, "--strategies", "GP,Adaptive"]) == cli.EXIT_ERROR
    assert "use torch.float64" in capsys.readouterr().err


@pytest.mark.few(1)
@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"period=29", "window=29", "gamma=0.96551", "epsilon=0.03"}),
        (["--epsilon", "0.01"], {"period=38", "window=38", "epsilon=0.01"}),
        (["--epsilon-model", "0.5", "--window", "10"], {"window=10", "gamma=0.9", "epsilon=0.5"}),
        (["--period", "7", "--gamma", "0.5"], {"period=7", "window=29", "gamma=0.5"}),
    ],
)
def test_derived_parameters(options, expected, tmp_path):
    tiny = [*TINY, "--horizon", "50", "--strategies", "R,SW,TV,WGP"]
    assert cli.main(["compare", *tiny, *options, "--out", str(tmp_path)]) == 0
    strategies = StudyResult.load(tmp_path / "compare.nc").data.attrs["strategies"]
    for parameter in expected:
        assert parameter in strategies


def test_a_reader_that_stops_is_no_error(tmp_path, monkeypatch, capsys):
    """As ``botorch-tv ... | head`` does."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as output, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", output)
        assert cli.main(["paper", "list"]) == cli.EXIT_UNREAD
    assert capsys.readouterr().err == ""


@pytest.mark.full
@pytest.mark.usefixtures("unpictured")
def test_save_to_goes_on(tmp_path, capsys):
    command = ["compare", "--strategies", "GP,TV", *TINY, "--out", str(tmp_path)]
    retained = ["--save-to", str(tmp_path / "study")]
    assert cli.main([*command, *retained]) == 0
    assert cli.main([*command, *retained, "--trials", "3"]) == 0
    assert StudyResult.load(tmp_path / "compare.nc").data.attrs["trials"] == 3
    assert cli.main([*command, *retained]) == 0
    result = StudyResult.load(tmp_path / "compare.nc")
    assert result.data.attrs["trials_found"] == 2
    capsys.readouterr()
    assert cli.main([*command, *retained, "--seed", "1"]) == cli.EXIT_ERROR
    assert "seed is 0 there and 1 here" in capsys.readouterr().err
    assert cli.main(command) == 0
    fresh = StudyResult.load(tmp_path / "compare.nc")
    assert fresh.data.index.equals(result.data.index)
    assert fresh.data.attrs["trials_found"] == 0


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ([], "but lost: only a study with save_to=FOLDER (--save-to FOLDER) can be resumed."),
        (["--save-to", "study"], "and saved in study; run the same study again to resume it."),
    ],
)
def test_an_interrupted_comparison_prints_what_is_finished_and_how_to_resume(
    options, output, tmp_path, monkeypatch, capsys
):
    play = executors.play_block

    def interrupted(settings, labels, block, *rest):
        if block.start == 4:
            raise KeyboardInterrupt
        return play(settings, labels, block, *rest)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    command = ["compare", "--strategies", "GP", *TINY, "--trials", "5", "--chunk", "2", *options]
    with monkeypatch.context() as patched:
        patched.setattr(executors, "play_block", interrupted)
        assert cli.main(command) == cli.EXIT_INTERRUPTED
    printed = f"\nbotorch-tv: interrupted: 4 of 5 trials are finished, in blocks of 2, {output}\n"
    assert capsys.readouterr().err == printed


def test_a_study_says_after_the_first_rounds_how_long_it_will_take(monkeypatch, capsys):
    """The first rounds take 3 s each and the others 2 s, by a clock that the rounds advance."""
    now = 0.0
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: now)
    with rounds.progress_bar(6, 1, shown=True) as bar:
        counted = rounds.Progress(bar, 50, finished=1)
        for number in range(50):
            now += 3.0 if number < 5 else 2.0
            counted.add(5)
    lines = [line for line in capsys.readouterr().err.splitlines() if "About" in line]
    assert lines == ["About 105 s for 6 trials, estimated from the first 20 rounds."]
    assert bar.n == pytest.approx(6)


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


@pytest.mark.full
def test_defaults_of_a_panel(panel, capsys):
    result = compared(panel)
    assert result.strategies == ["GP-UCB", "R-GP-UCB", "TV-GP-UCB", "ET-GP-UCB", "Random"]
    assert dict(result.data.sizes) == {"strategy": 5, "trial": 3, "round": 15}
    assert {path.name for path in (panel.parent / "out").iterdir()} == FILES
    world = PanelWorld(VALUES, 30)
    output = capsys.readouterr().out
    assert "30 training rows, 15 test rows" in output
    assert f"Fitted: epsilon {world.epsilon:.3g}. " in output
    assert f"Not fitted: noise variance {world.model_noise:.3g}, which is 0.05 of the" in output
    strategies = result.data.attrs["strategies"]
    period = int(np.ceil(min(15, 12 * world.epsilon**-0.25)))
    for part in (f"epsilon={world.epsilon}", f"period={period}", "c1=0.8, c2=0.4", "noise=0.05"):
        assert part in strategies


@pytest.mark.full
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


@pytest.mark.full
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
    ("command", "message"),
    [
        ("compare --dim 9", r"--dim 9: [\d,]+ arms; give at most"),
        ("compare --device cuda:99", "CUDA devices; give 'cpu'"),
        ("paper et-fig3 --data absent", "absent has no era5"),
        *(
            (f"compare {option} 1", f"{option} requires recorded data; give --panel FILE")
            for option in ("--groups", "--noise-share", "--first-arm")
        ),
        ("PANEL --epsilon 0.03", "--epsilon is an option of simulated worlds.*--epsilon-model"),
        ("PANEL --noise 0.02", "--noise is an option of simulated worlds.*--noise-share"),
        ("PANEL --key no", "no numeric array 'no'"),
        ("PANEL --train 45", "train is 45, but there are 45 rows"),
        ("PANEL --horizon 16", "--horizon is 16, but 15 rows follow the 30 training"),
        ("PANEL --first-arm 6", "first_arm is 6"),
        ("PANEL --first-arm any", "invalid .*first_arm value: 'any'"),
        ("PANEL --without no", "--without no: the panel has no arm of this name; it has 0,0, 0,1"),
        ("PANEL --center none", "invalid choice"),
        ("PANEL --groups 1", "groups is 1"),
        ("PANEL --noise-share 0", "noise_share is 0"),
    ],
)
def test_refused(command, message, panel, capsys, monkeypatch):
    monkeypatch.chdir(panel.parent)
    assert cli.main(command.replace("PANEL", "compare --panel panel.npz").split()) == cli.EXIT_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("botorch-tv: error: ")
    assert printed.err.count("\n") == 1
    assert re.search(message, printed.err), printed.err


def test_doctor_prints_versions_and_exactness(capsys):
    assert cli.main(["doctor"]) == 0
    output = capsys.readouterr().out
    for name, version in libraries().items():
        assert re.search(rf"^{name} {re.escape(version)}(, code \w+)?$", output, flags=re.MULTILINE)
    assert f"xarray {version_of('xarray')}, " in output
    assert re.search(r"cpu: exact: \d\.\de-\d\d from dense regression after 100 rounds", output)
    assert str(Path.home()) not in output
    assert not re.search(r"(?<!\w)/\w+/", output)


def test_it_notices_numbers_that_are_not_exact(monkeypatch, capsys):
    """An engine that takes another rate, by a millionth, than the regression written out."""
    exact = doctor.tv_gp_ucb
    monkeypatch.setattr(
        doctor,
        "tv_gp_ucb",
        lambda **given: exact(**given | {"epsilon": given["epsilon"] * (1 + 1e-6)}),
    )
    assert cli.main(["doctor"]) == 1
    assert "cpu: NOT EXACT" in capsys.readouterr().out
    assert doctor.check(torch.device("cpu"))[0] > doctor.TOLERANCE


def test_extras_are_those_of_the_project():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        name: tuple(re.split(r"[>=<\[]", part)[0] for part in parts)
        for name, parts in extras.items()
        if name not in ("all", "docs", "notebooks", "dev")
    }
    assert extras["all"] == [f"botorch-tv[{','.join(sorted(wanted))}]"]
    assert wanted == doctor.EXTRAS


def test_defaults_are_as_documented():
    given = DRAWN | OF_DRAWN | vars(cli._parser().parse_args(["compare"]))
    expected = {"strategies": "GP,R,SW,TV,WGP,UI,ET,Adaptive", "epsilon": 0.03, "noise": 0.02}
    expected |= {"kernel": "se", "lengthscale": 0.2, "points": 50, "dim": 2, "trials": 4}
    expected |= {"horizon": 200, "alpha": 1.0, "delta": 0.1, "c1": 0.4, "c2": 4.0}
    assert {name: given[name] for name in expected} == expected
    assert not {"period", "window", "gamma", "epsilon_model", "chunk"} & set(given)
