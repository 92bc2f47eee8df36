"""What every picture is drawn with."""

import importlib

import pytest
from helpers.missing_packages import not_installed
from matplotlib import rc_context

from botorch_tv.drawing import canvas, written


def test_a_picture_shows_itself_in_a_notebook():
    from IPython.core.formatters import DisplayFormatter

    shown, _ = DisplayFormatter().format(written(canvas(3, 2), None))
    assert shown["image/png"].startswith(b"\x89PNG")


def test_notebooks_set_the_resolution_shown_and_not_that_of_files(tmp_path):
    widths = {}
    for dpi in (50, 200):
        with rc_context({"figure.dpi": dpi}):
            shown = written(canvas(3, 2), tmp_path / f"{dpi}.png")._repr_png_()
        widths[dpi] = int.from_bytes(shown[16:20], "big")  # where PNG has its width
    assert widths[200] == 4 * widths[50]
    assert (tmp_path / "50.png").read_bytes() == (tmp_path / "200.png").read_bytes()


@pytest.mark.few(1)
@pytest.mark.parametrize("drawing", ["simulation", "loop.plots"])
def test_a_missing_matplotlib_has_the_install_command(drawing):
    command = pytest.raises(ImportError, match=r"pip install 'botorch-tv\[study\]'")
    with not_installed("matplotlib"), command:
        importlib.import_module(f"botorch_tv.{drawing}")
