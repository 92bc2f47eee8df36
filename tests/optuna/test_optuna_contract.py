"""Optuna's own tests of samplers."""

import pytest

pytest.importorskip("optuna")
from optuna.testing import pytest_samplers

from botorch_tv.optuna import DriftSampler


class TestContract(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.SingleOnlySamplerTestCase,
):
    """Optuna's own tests for samplers of a single objective."""

    @pytest.fixture
    def sampler(self):
        """Begins to model early, so that few trials suffice to test it."""
        return lambda: DriftSampler(n_startup_trials=2, seed=0)
