"""The package for OptunaHub's registry: it loads as a user loads it, and its examples run."""

import re
from pathlib import Path

import pytest

optunahub = pytest.importorskip("optunahub")
ROOT = Path(__file__).parents[2]
REGISTRY = ROOT / ".optunahub" / "package"
PACKAGE = REGISTRY / "samplers" / "botorch_tv_drift"


@pytest.mark.full
@pytest.mark.parametrize("page", ["example.py", "README.md"])
def test_the_example_finds_the_temperature_of_the_present(page, monkeypatch, capsys):
    def load(package):
        return optunahub.load_local_module(package, registry_root=str(REGISTRY))

    monkeypatch.setattr(optunahub, "load_module", load)
    text = (PACKAGE / page).read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL) or [text]
    exec(compile(code, page, "exec"), {"__name__": "__main__"})
    *_, present = re.findall(r"'temperature': ([\d.]+)", capsys.readouterr().out)
    assert float(present) == pytest.approx(55, abs=7)


@pytest.mark.full
def test_the_page_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".optunahub").symlink_to(REGISTRY.parent)
    text = (ROOT / ".site" / "pages" / "how-to" / "optunahub.md").read_text("utf-8")
    names = {}
    exec(compile(re.findall(r"```py\n(.*?)```", text, re.DOTALL)[0], "optunahub.md", "exec"), names)
    assert names["study"].user_attrs["best now"] == names["best"].params
