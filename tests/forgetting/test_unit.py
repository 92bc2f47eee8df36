"""The unit of time is the median gap between different times."""

import numpy as np
import torch

from botorch_tv.forgetting.base import NEGLIGIBLE, median_gap

D = torch.float64


def test_of_irregular_times_in_any_order() -> None:
    random = np.random.default_rng(0)
    for n in (2, 3, 4, 5, 30, 31):
        times = random.exponential(size=n).cumsum()
        expected = np.median(np.diff(times))
        found = median_gap(torch.tensor(random.permutation(times)))
        assert found.dtype == D
        assert found.shape == ()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_scales_with_the_unit_and_ignores_the_origin() -> None:
    times = torch.rand(3, 12, generator=torch.Generator().manual_seed(0), dtype=D)
    found = median_gap(times)
    torch.testing.assert_close(median_gap(3.6e6 * times), 3.6e6 * found)
    torch.testing.assert_close(median_gap(times - 50), found, rtol=1e-9, atol=0)


def test_a_single_time_has_gap_one() -> None:
    for times in (torch.zeros(2, 0, dtype=D), torch.full((2, 1), 7.0, dtype=D)):
        assert median_gap(times).tolist() == [1.0, 1.0]
    assert float(median_gap(torch.full((5,), 7.0, dtype=D))) == 1


def test_equal_times_count_once() -> None:
    times = torch.tensor([0.0, 0.0, 0.0, 2.0, 2.0, 5.0, 5.0, 9.0], dtype=D)
    assert float(median_gap(times)) == 3
    rounded = times + NEGLIGIBLE * torch.tensor([0.0, 1, 2, 0, 3, 0, 1, 0], dtype=D)
    torch.testing.assert_close(median_gap(rounded), times.new_tensor(3.0))


def test_only_live_rows_count() -> None:
    times = torch.tensor([[0.0, 1.0, 2.0, 10.0], [0.0, 1.0, 2.0, 10.0]], dtype=D)
    live = torch.tensor([[True, False, False, True], [False, False, True, False]])
    assert median_gap(times, live).tolist() == [10.0, 1.0]
