"""Import without Ax."""

import sys

import pytest


def test_the_import_error_has_the_install_command(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["botorch_tv", "ax"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax.api.client", None)
    with pytest.raises(ImportError, match="pip install 'botorch-tv\\[ax\\]'"):
        import botorch_tv.ax  # noqa: F401
