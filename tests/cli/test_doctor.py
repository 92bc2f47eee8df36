"""`botorch-tv doctor`."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

import pytest
import torch

from botorch_tv.cli import command as cli
from botorch_tv.cli import doctor
from botorch_tv.identity import libraries


def test_it_tells_versions_and_that_all_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    told = capsys.readouterr().out
    for name, version in libraries().items():
        assert re.search(rf"^{name} {re.escape(version)}(, code \w+)?$", told, flags=re.MULTILINE)
    assert f"xarray {version_of('xarray')}, " in told
    assert re.search(r"cpu: exact: \d\.\de-\d\d from dense regression after 100 rounds", told)
    assert str(Path.home()) not in told
    assert not re.search(r"(?<!\w)/\w+/", told)


def test_it_notices_numbers_that_are_not_exact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        name: tuple(re.split(r"[>=<\[]", one)[0] for one in parts)
        for name, parts in extras.items()
        if name not in ("notebooks", "dev")
    }
    assert wanted == doctor.EXTRAS


def test_what_is_not_installed_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        if name in ("deap", "numba"):
            raise PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(doctor, "version", found)
    told = [doctor.extra_text(one) for one in ("worlds", "fast", "ax")]
    assert told == [
        "[worlds] gmpb 1.2; without deap: pip install 'botorch-tv[worlds]'",
        "[fast] without numba: pip install 'botorch-tv[fast]'",
        "[ax] ax-platform 1.2",
    ]
