"""The package for OptunaHub's registry: it loads as a user loads it, and its examples run."""

import re
from pathlib import Path

import pytest

optunahub = pytest.importorskip("optunahub")
REGISTRY = Path(__file__).parents[2] / ".optunahub" / "package"
PACKAGE = REGISTRY / "samplers" / "botorch_tv_drift"


@pytest.mark.full
@pytest.mark.parametrize("page", ["example.py", "README.md"])
def test_the_example_finds_the_temperature_of_the_present(page, monkeypatch, capsys):
    def load(package):
        return optunahub.load_local_module(package, registry_root=str(REGISTRY))

    monkeypatch.setattr(optunahub, "load_module", load)
    text = (PACKAGE / page).read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL) or [text]
    exec(compile(code, page, "exec"), {"__name__": "__main__"})
    *_, present = re.findall(r"'temperature': ([\d.]+)", capsys.readouterr().out)
    assert float(present) == pytest.approx(55, abs=7)
