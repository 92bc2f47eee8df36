import torch

from botorch_tv.inference.linalg import first_maximum, pivoted_cholesky
from botorch_tv.inference.scratch import Scratch


def test_first_of_what_is_within_the_tolerance_wins() -> None:
    score = torch.tensor([[0.0, 1.0 - 5e-8, 1.0], [0.0, 1.0 - 2e-7, 1.0]], dtype=torch.float64)
    assert first_maximum(score, 1e-7, Scratch()).tolist() == [1, 2]


def test_many_arms_do_not_overflow_the_count() -> None:
    score = torch.zeros(2, 40_000, dtype=torch.float64)
    score[0, 39_999] = 1
    assert first_maximum(score, 1e-7, Scratch()).tolist() == [39_999, 0]


def test_pivoted_cholesky_stops_at_the_rank() -> None:
    root = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).double()
    columns, residual = pivoted_cholesky(root @ root.T, 12, 1e-12)
    assert columns.shape == (12, 4)
    torch.testing.assert_close(columns @ columns.T, root @ root.T, rtol=0, atol=1e-12)
    assert float(residual.max()) <= 1e-12


def test_scratch_keeps_names_apart_and_grows() -> None:
    scratch, like = Scratch(), torch.zeros(0, dtype=torch.float64)
    small, other = scratch.take("a", (2, 3), like), scratch.take("b", (2, 3), like)
    assert small.data_ptr() != other.data_ptr()
    assert scratch.take("a", (2, 3), like).data_ptr() == small.data_ptr()
    assert scratch.take("a", (4, 3), like).shape == (4, 3)
    assert scratch.take("a", (2, 3), like, torch.bool).dtype == torch.bool
