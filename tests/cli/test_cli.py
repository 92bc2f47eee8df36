import os
import re
import sys
import warnings

import pandas as pd
import pytest

import botorch_tv
from botorch_tv.cli import command as cli
from botorch_tv.cli.options import DRAWN, OF_DRAWN
from botorch_tv.simulation import StudyResult

TINY = ["--trials", "2", "--horizon", "4", "--points", "5", "--quiet"]


def refused(capsys, *argv):
    """The line of the error."""
    assert cli.main(argv) == cli.EXIT_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("botorch-tv: error: ")
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.fixture
def unpictured(monkeypatch):
    """Skip drawing, which takes longer than a small study."""
    monkeypatch.setattr(StudyResult, "plot", lambda self, path: path.touch())


def test_deprecations_of_libraries_are_hidden(monkeypatch):
    def warned(arguments):
        for module in ("torch.jit._script", "elsewhere"):
            output = "`torch.jit.script` is deprecated. Please switch to `torch.compile`."
            warnings.warn_explicit(output, FutureWarning, f"{module}.py", 1, module)
        return 0

    monkeypatch.setattr(cli, "_paper", warned)
    with pytest.warns(FutureWarning) as caught:
        assert cli.main(["paper", "list"]) == 0
    assert [item.filename for item in caught] == ["elsewhere.py"]


def test_compare_writes_files_and_prints_a_summary(tmp_path, capsys):
    assert cli.main(["compare", *TINY, "--out", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "compare.nc",
        "compare.csv",
        "compare.png",
    }
    result = StudyResult.load(tmp_path / "new" / "compare.nc")
    assert dict(result.data.sizes) == {"strategy": 8, "trial": 2, "round": 4}
    printed = capsys.readouterr()
    for label in result.strategies:
        assert label in printed.out
    assert printed.err == ""
    assert "lowest regret" in printed.out
    table = pd.read_csv(tmp_path / "new" / "compare.csv", index_col="strategy")
    pd.testing.assert_frame_equal(result.summary(), table)


@pytest.mark.usefixtures("unpictured")
def test_compare_in_single_precision_drops_adaptive(tmp_path, capsys):
    command = ["compare", "--dtype", "float32", *TINY, "--out", str(tmp_path)]
    assert cli.main(command) == 0
    labels = StudyResult.load(tmp_path / "compare.nc").strategies
    assert len(labels) == 7
    assert "Adaptive-GP-UCB" not in labels
    assert cli.main([*command, "--strategies", "GP,Adaptive"]) == cli.EXIT_ERROR
    assert "use torch.float64" in capsys.readouterr().err


@pytest.mark.usefixtures("unpictured")
def test_seed_decides(tmp_path):
    def regret(seed):
        command = ["compare", "--strategies", "GP", "--seed", seed, *TINY, "--out", str(tmp_path)]
        assert cli.main(command) == 0
        return StudyResult.load(tmp_path / "compare.nc").regret

    first = regret("1")
    assert first.equals(regret("1"))
    assert not first.equals(regret("2"))


def test_defaults_are_as_documented():
    given = DRAWN | OF_DRAWN | vars(cli._parser().parse_args(["compare"]))
    expected = {
        "strategies": "GP,R,SW,TV,WGP,UI,ET,Adaptive",
        "epsilon": 0.03,
        "noise": 0.02,
        "kernel": "se",
        "lengthscale": 0.2,
        "points": 50,
        "dim": 2,
        "trials": 64,
        "horizon": 200,
        "alpha": 1.0,
        "delta": 0.1,
        "c1": 0.4,
        "c2": 4.0,
        "dtype": "float64",
    }
    assert {name: given[name] for name in expected} == expected
    assert not {"period", "window", "gamma", "epsilon_model", "chunk"} & set(given)


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


def test_plot_draws_a_saved_study(tmp_path, capsys):
    assert cli.main(["compare", "--strategies", "GP,TV", *TINY, "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    (tmp_path / "compare.png").unlink()
    assert cli.main(["plot", str(tmp_path / "compare.nc")]) == 0
    assert (tmp_path / "compare.png").is_file()
    assert capsys.readouterr().out.split("Written")[0].strip() in output
    assert cli.main(["plot", str(tmp_path / "compare.nc"), "--out", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").is_file()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["compare", "--strategies", "GP,ETT"], "Unknown strategy 'ETT'; choose from .*ET"),
        (["compare", "--trials", "many"], "--trials: invalid int value: 'many'"),
        (["compare", "--trials", "0"], "trials is 0"),
        (["compare", "--seed", "-1"], "seed is -1, but it must be an integer of at least 0"),
        (["compare", "--noise", "-1"], "noise is -1"),
        (["compare", "--epsilon", "2"], r"epsilon is 2.0.*\[0, 1\]"),
        (["compare", "--gamma", "0"], "gamma is 0"),
        (["compare", "--window", "0"], "window is 0"),
        (["compare", "--period", "0"], "period is 0"),
        (["compare", "--delta", "1"], "delta is 1"),
        (["compare", "--lengthscale", "0"], "lengthscale is 0"),
        (["compare", "--kernel", "cubic"], "invalid choice: 'cubic'"),
        (["compare", "--points", "0"], "points is 0"),
        (["compare", "--dim", "9"], r"--dim 9: [\d,]+ arms; give at most"),
        (
            ["compare", "--device", "abacus"],
            "device is 'abacus', but PyTorch has no such device; give 'cpu'",
        ),
        (["compare", "--device", "cuda:99"], "CUDA devices; give 'cpu'"),
        (["paper", "et-fig5"], "Unknown experiment 'et-fig5'; choose from b16-fig2a.*et-fig"),
        (["paper", "et-fig3", "--data", "absent"], "absent has no era5"),
        (["plot", "absent.nc"], "no file absent.nc"),
    ],
)
def test_bad_input_is_one_line(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, *argv)
    assert re.search(message, line), line


def test_interrupt_ends_cleanly(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_plot", interrupted)
    assert cli.main(["plot", "any.nc"]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "\nbotorch-tv: interrupted\n"


def test_a_reader_that_stops_is_no_error(tmp_path, monkeypatch, capsys):
    """As ``botorch-tv ... | head`` does."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as output, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", output)
        assert cli.main(["paper", "list"]) == cli.EXIT_UNREAD
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("unpictured")
def test_save_to_goes_on(tmp_path, capsys):
    command = ["compare", "--strategies", "GP,TV", *TINY, "--out", str(tmp_path)]
    retained = ["--save-to", str(tmp_path / "kept")]
    assert cli.main([*command, *retained]) == 0
    assert cli.main([*command, *retained, "--trials", "3"]) == 0
    assert StudyResult.load(tmp_path / "compare.nc").data.attrs["trials"] == 3
    assert cli.main([*command, *retained]) == 0
    result = StudyResult.load(tmp_path / "compare.nc")
    assert result.data.attrs["trials_found"] == 2
    capsys.readouterr()
    line = refused(capsys, *command, *retained, "--seed", "1")
    assert "seed is 0 there and 1 here" in line
    assert cli.main(command) == 0
    fresh = StudyResult.load(tmp_path / "compare.nc")
    assert fresh.data.index.equals(result.data.index)
    assert fresh.data.attrs["trials_found"] == 0


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ([], "with --save-to FOLDER a study can be resumed"),
        (["--save-to", "kept"], "the same command resumes from the trials in kept"),
    ],
)
def test_an_interrupted_comparison_prints_how_to_resume(
    options, output, tmp_path, monkeypatch, capsys
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("botorch_tv.simulation.executors.play_block", interrupted)
    assert cli.main(["compare", *TINY, *options]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr().err == f"\nbotorch-tv: interrupted; {output}\n"


def test_bugs_print_a_traceback(monkeypatch):
    def mistaken(*_, **__):
        raise AssertionError("a bug")

    monkeypatch.setattr(cli, "_plot", mistaken)
    with pytest.raises(AssertionError, match="a bug"):
        cli.main(["plot", "any.nc"])


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"botorch-tv {botorch_tv.__version__}\n"


def test_paper_list(capsys):
    assert cli.main(["paper", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        *("b16-fig2a", "b16-fig2b", "b16-fig2c", "b16-fig2d"),
        *("b16-fig3-temperature", "b16-fig3-traffic"),
        *("et-fig2", "et-fig3", "et-fig3d", "et-fig4", "et-table1", "et-table2"),
        *("c17", "c17-functions", "c17-sensors"),
        *("w22-abrupt", "w22-slow", "w22-abrupt-100", "w22-slow-100", "w22-stocks"),
        *("m-synthetic", "m-temperature", "mk-fig1"),
    ]
