"""`botorch-tv doctor`."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

import torch

from botorch_tv.cli import command as cli
from botorch_tv.cli import doctor
from botorch_tv.identity import libraries


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
        if name not in ("notebooks", "dev")
    }
    assert wanted == doctor.EXTRAS


def test_missing_packages_are_listed_with_the_command(monkeypatch):
    def found(name):
        if name in ("deap", "numba"):
            raise PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(doctor, "version", found)
    output = [doctor.extra_text(item) for item in ("worlds", "fast", "ax")]
    assert output == [
        "[worlds] gmpb 1.2; without deap: pip install 'botorch-tv[worlds]'",
        "[fast] without numba: pip install 'botorch-tv[fast]'",
        "[ax] ax-platform 1.2",
    ]
