"""An algorithm that a stranger adds: a decorated function, from which all else is derived."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack
from unittest.mock import patch

import pytest
from conformance import presets as tested

import botorch_tv
from botorch_tv import drawing
from botorch_tv.forgetting import Markov, SlidingWindow
from botorch_tv.simulation.plots.curves import line_styles
from botorch_tv.simulation.rivals import Settings, line_up, rivals, unit_kernel
from botorch_tv.strategies import GPStrategy, listing
from botorch_tv.strategies.listing import Modelled
from tests.tools.pages import contrib, presets

SETTINGS = Settings(
    **{"kernel": unit_kernel("se", 0.2), "noise": 0.02, "epsilon": 0.03, "sigma_w2": 0.04},
    **{"period": 29, "window": 28, "gamma": 0.9, "alpha": 2.0, "delta": 0.2, "width": None},
)


def new_ucb(*, window: float, **common: Unpack[Modelled]) -> GPStrategy:
    """New-UCB, of a test.

    Args:
        window: Number of rounds.
    """
    return GPStrategy(retention=SlidingWindow(window), **common)


ENTRY = ("New-UCB, New", "wine dotted", "none | σ² | the newest W, twice | none | Nobody 2030")


@pytest.fixture
def added() -> Iterator[None]:
    with patch.dict(listing.PRESETS):
        listing.preset(*ENTRY, contrib="A part is missing.")(new_ucb)
        yield


@pytest.mark.usefixtures("added")
def test_one_entry_serves_comparisons_tables_plots_and_tests() -> None:
    assert "New" in rivals()
    (made,) = line_up(["new"], SETTINGS).values()
    assert made.retention == SlidingWindow(28)
    assert "\n`new_ucb`† | retains the newest W, twice | Nobody 2030\n" in presets()
    assert "`new_ucb`" in contrib()
    assert line_styles(["GP", "new_ucb"])["new_ucb"] == (drawing.WINE, "dotted")
    (missing,) = tested.missing()
    assert "new_ucb has no test: add a line to LINES" in missing
    doc = listing.PRESETS["new_ucb"].make.__doc__ or ""
    assert "A part is missing.\n\nArgs:\n    window: Number of rounds.\n    kernel: " in doc


SOURCE = """
@preset(
    "New-UCB, New", "wine dotted", "none | σ² | the newest W, twice | none | Nobody 2030"
)
def new_ucb(*, window: float, **common: Unpack[Modelled]) -> GPStrategy:
"""


def test_names_and_command_line_are_read_from_the_source(tmp_path: Path) -> None:
    package = Path(botorch_tv.__file__).parent
    copy = shutil.copytree(package, tmp_path / "botorch_tv", ignore=lambda *_: ["__pycache__"])
    with (copy / "strategies" / "presets.py").open("a", encoding="utf-8") as file:
        file.write(SOURCE)
    code = "import botorch_tv, botorch_tv.cli as cli; print(dir(botorch_tv))\n"
    code += "cli.main(['compare', '--help'])"
    options = {"capture_output": True, "text": True, "cwd": tmp_path}
    shown = subprocess.run([sys.executable, "-c", code], **options).stdout
    assert "'new_ucb'" in shown
    assert ", New (default" in " ".join(shown.split())


def test_every_preset_is_tested() -> None:
    assert not tested.missing(), "; ".join(tested.missing())
    tests = Path(tested.__file__).parents[1]
    for name, (oracle, _) in tested.OTHERS.items():
        assert name in (tests / oracle).read_text(), f"{oracle} does not test {name}"


def test_an_argument_without_a_setting_is_not_compared() -> None:
    def odd_ucb(*, tau: float, **common: Unpack[Modelled]) -> GPStrategy:
        """Odd-UCB, of a test."""
        return GPStrategy(decay=Markov(tau), **common)

    with patch.dict(listing.PRESETS):
        listing.preset("Odd-UCB, Odd", *ENTRY[1:])(odd_ucb)
        assert "Odd" not in rivals()
        with pytest.raises(ValueError, match="Unknown strategy 'ODD'"):
            line_up(["odd"], SETTINGS)
