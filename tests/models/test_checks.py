"""What training data must fit, asked directly."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError

from botorch_tv.models.checks import check_train_data

X, Y = torch.rand(5, 3, dtype=torch.float64), torch.rand(5, dtype=torch.float64)


@pytest.mark.parametrize("known", [None, 1, 5])
def test_known_noises_are_of_every_row_or_one_for_all(known: int | None) -> None:
    check_train_data(X, Y, columns=3, time=2, known=known)


@pytest.mark.parametrize("known", [0, 2, 4, 6])
def test_noises_of_other_rows_are_refused(known: int) -> None:
    with pytest.raises(BotorchTensorDimensionError, match=f"noise variances of {known} obs"):
        check_train_data(X, Y, columns=3, time=2, known=known)


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_times_are_looked_at_in_their_column(column: int, wrong: float) -> None:
    other = X.clone()
    other[3, column] = wrong
    with pytest.raises(Exception, match="time"):
        check_train_data(other, Y, columns=3, time=column, known=None)
