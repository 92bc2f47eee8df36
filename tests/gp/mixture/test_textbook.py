"""The posterior of a bank against the dense textbook, through strategies and models."""

import numpy as np
import pytest
from gp.mixture.readings import (
    assert_textbook,
    bank_of,
    cube,
    readings,
    textbook,
    told,
)

from botorch_tv import adaptive_gp_ucb


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("dim", "shares"), [(1, (0.1, 0.2)), (2, (0.3, 0.5))])
def test_single_readings(dim, shares, seed):
    bank = bank_of(dim, lengthscales=shares, features=2000, tolerance=1e-10)
    player, data = adaptive_gp_ucb(bank=bank), readings(dim, (1,) * 28, seed=seed)
    query = np.random.default_rng(seed + 100).random((4, dim))
    now = float(data.times[-1]) + 2.5
    state = told(player, cube(dim), data)
    book = textbook(bank, data, query, now - float(data.times[data.good][-1]))
    assert_textbook(player, state, book, query, now, 1e-7)
