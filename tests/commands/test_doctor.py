"""`botorch-tv doctor`."""

import re
from pathlib import Path

import pytest
import torch

from botorch_tv import cli
from botorch_tv.commands import doctor
from botorch_tv.identity.versions import versions


def test_it_tells_versions_and_that_all_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    told = capsys.readouterr().out
    for name, version in versions().items():
        assert f"{name} {version}\n" in told
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
