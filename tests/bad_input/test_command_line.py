"""Options and files of the command line: one line on standard error, and nothing is written."""

from pathlib import Path

import pytest

from botorch_tv.cli import command as cli

TINY = ["--trials", "1", "--horizon", "2", "--points", "3", "--quiet"]
COMPARE = {
    "epsilon high": (["--epsilon", "1.1"], "1.1", "[0, 1]", "reset_period"),
    "epsilon text": (["--epsilon", "x"], "'x'", "invalid float value", "--help"),
    "noise": (["--noise", "-1"], "-1.0", "positive and finite", "use 1e-6"),
    "noise NaN": (["--noise", "nan"], "nan", "positive and finite", "use 1e-6"),
    "lengthscale": (["--lengthscale", "0"], "0.0", "positive and finite", "0.2 is usual"),
    "kernel": (["--kernel", "cubic"], "'cubic'", "choose from", "--help"),
    "dim": (["--dim", "0"], "0", "at least 1", "give the dimension"),
    "points": (["--points", "0"], "0", "at least 1", "per dimension"),
    "points text": (["--points", "2.5"], "'2.5'", "invalid int value", "--help"),
    "trials": (["--trials", "0"], "0", "at least 1", "number of worlds"),
    "trials text": (["--trials", "many"], "'many'", "invalid int value", "--help"),
    "horizon": (["--horizon", "0"], "0", "at least 1", "reset_period"),
    "seed": (["--seed", "-1"], "-1", "at least 0", "give a seed of 0 or more"),
    "chunk": (["--chunk", "0"], "0", "at least 1", "run together"),
    "strategies": (["--strategies", "no-such"], "NO-SUCH", "choose from", "GP, IGP"),
    "period": (["--period", "0", "--strategies", "R"], "0", "at least 1", "whole rounds"),
    "window": (["--window", "0", "--strategies", "SW"], "0", "at least 1", "whole rounds"),
    "gamma": (["--gamma", "2", "--strategies", "WGP"], "2.0", "(0, 1]", "1 forgets nothing"),
    "epsilon-model": (["--epsilon-model", "2", "--strategies", "TV"], "2.0", "[0, 1]", "0 keeps"),
    "alpha": (["--alpha", "-1", "--strategies", "UI"], "-1.0", "at least 0", "is usual"),
    "delta": (["--delta", "1", "--strategies", "ET"], "1.0", "between 0 and 1", "papers use 0.1"),
    "c1": (["--c1", "-1"], "-1.0", "[0, 1e100]", "0 never explores"),
    "c2": (["--c2", "0"], "0.0", "[1e-100, 1e100]", "the papers use 4"),
    "device": (["--device", "tpu9"], "'tpu9'", "no such device", "give 'cpu'"),
    "dtype": (["--dtype", "float16"], "'float16'", "choose from", "--help"),
    "option": (["--speed", "9"], "--speed", "unrecognized", "botorch-tv --help"),
    "panel missing": (["--panel", "none.csv"], "none.csv", "There is no", "file"),
    "train without panel": (["--train", "5"], "--train", "panel", "--panel"),
}
OTHERS = {
    "no command": ([], "COMMAND", "required", "--help"),
    "command": (["play"], "'play'", "choose from", "--help"),
    "paper": (["paper", "no-such"], "no-such", "choose from", "et-table2"),
    "plot missing": (["plot", "none.nc"], "none.nc", "There is no file", "check the path"),
    "plot folder": (["plot", "."], ".", "There is no file", "save_to=FOLDER"),
}


def refused(capsys, tmp_path, argv, value, limit, cure):
    assert cli.main(argv) == cli.EXIT_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("botorch-tv: error: ")
    assert printed.err.count("\n") == 1
    for part in (value, limit, cure):
        assert part in printed.err, printed.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", COMPARE)
def test_compare(name, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, *words = COMPARE[name]
    apart = {*options, "--points"} if "--panel" in options else {*options}
    tiny = [one for pair in zip(TINY[::2], TINY[1::2]) if pair[0] not in apart for one in pair]
    refused(capsys, tmp_path, ["compare", *tiny, *options, "--quiet"], *words)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(capsys, tmp_path, *OTHERS[name])
