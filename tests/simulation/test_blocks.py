import warnings

import numpy as np
import pytest
import xarray as xr

from botorch_tv.simulation import datasets as module
from botorch_tv.simulation.datasets import BlockMoments, blocks, by_trial


@pytest.mark.parametrize("cuts", [[], [1], [1, 4, 5], [10]])
def test_moments_are_those_of_two_passes(cuts: list[int]) -> None:
    values = 1e3 + np.random.default_rng(0).normal(size=(11, 4, 5))
    values[2:7, 1] = np.nan
    values[1:, 2, 0] = np.nan
    values[:, 3, 3] = np.nan
    whole = BlockMoments.together(BlockMoments.of(part) for part in np.split(values, cuts))
    present = (~np.isnan(values)).sum(0)
    np.testing.assert_array_equal(whole.count, present)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, error = np.nanmean(values, 0), np.nanstd(values, 0, ddof=1) / np.sqrt(present)
    np.testing.assert_allclose(whole.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(whole.error, error, rtol=1e-9)
    assert np.isnan(whole.error[2, 0])
    assert np.isnan(whole.mean[3, 3])


def test_blocks_are_all_trials_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(7 * 3 * 2.0).reshape(3, 7, 2)
    data = xr.DataArray(values, dims=("strategy", "trial", "round"), coords={"trial": range(7)})
    assert len(list(blocks(data))) == 1
    monkeypatch.setattr(module, "BLOCK_BYTES", 2 * 3 * 2 * 8)
    parts = list(blocks(data))
    assert [part.sizes["trial"] for part in parts] == [2, 2, 2, 1]
    xr.testing.assert_identical(xr.concat(parts, "trial"), data)
    xr.testing.assert_identical(by_trial(data, lambda part: part.sum("round")), data.sum("round"))
    monkeypatch.setattr(module, "BLOCK_BYTES", 1)
    assert len(list(blocks(data))) == 7
