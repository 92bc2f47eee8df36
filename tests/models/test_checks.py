"""Training data that look wrong are pointed out."""

import math
import warnings
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from models.cases import data

from botorch_tv.models import TimeVaryingGP, adaptive_model


@pytest.mark.parametrize("build", [TimeVaryingGP, adaptive_model])
def test_a_parameter_in_the_place_of_time_is_pointed_out(build: Any) -> None:
    """Whoever swaps SingleTaskGP for it and adds no column of time."""
    X, Y = data(n=12)
    x = X[:, :2]
    with pytest.warns(InputDataWarning, match=r"column 1 of train_X is used as time.* time_dim"):
        build(x, Y)
    for times in (X[:, 2:], X[:, 2:].flip(0), (X[:, 2:] - X[0, 2]) / (X[-1, 2] - X[0, 2])):
        with warnings.catch_warnings():
            warnings.simplefilter("error", InputDataWarning)
            build(torch.cat([x, times], -1), Y)
            build(torch.cat([times, x], -1), Y, time_dim=0)


@pytest.mark.parametrize(("dtype", "small"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_outcomes_below_the_floor_of_variances_are_pointed_out(
    dtype: torch.dtype, small: float
) -> None:
    """The sd of predictions for 1e-6 Y would be 10 times too large, and for 1e-9 Y 1e9 times."""
    X, Y = (part.to(dtype) for part in data(n=12))
    with pytest.warns(InputDataWarning, match=r"deviation of .* Use a smaller unit"):
        TimeVaryingGP(X, 5 + small * Y)
    cure = float(f"1e{math.ceil(-math.log10((small * Y).std().item()))}")
    same = torch.full_like(Y, 0.1)
    for fine in (cure * small * Y, 1e6 * Y, same, same + torch.finfo(dtype).eps * Y, Y[:1]):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="train_Y has")
            TimeVaryingGP(X[: len(fine)], fine)
