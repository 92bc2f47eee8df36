"""Standard errors against SciPy's."""

import numpy as np
import pytest
import torch
from scipy.stats import sem

from benchmarks.statistics.errors import standard_error


def test_it_is_that_of_independent_values() -> None:
    values = np.random.default_rng(0).standard_normal(7)
    for one in (values, torch.from_numpy(values), values.tolist()):
        assert standard_error(one) == pytest.approx(sem(values), rel=1e-14)


def test_a_single_value_has_none() -> None:
    assert standard_error(np.array([0.3])) is None
