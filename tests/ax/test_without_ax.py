"""Without the extra the message says what to install."""

import sys

import pytest


def test_import_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["botorch_tv", "ax"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax.api.client", None)
    with pytest.raises(ImportError, match="pip install 'botorch-tv\\[ax\\]'"):
        import botorch_tv.ax  # noqa: F401
