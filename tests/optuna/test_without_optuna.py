"""Import without Optuna."""

import pytest
from absent import not_installed


def test_the_import_error_has_the_install_command():
    with (
        not_installed("optuna"),
        pytest.raises(ImportError, match=r"pip install 'botorch-tv\[optuna\]'"),
    ):
        import botorch_tv.optuna  # noqa: F401


def test_the_rest_does_without():
    with not_installed("optuna"):
        import botorch_tv.strategies  # noqa: F401
