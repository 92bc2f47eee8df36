"""A bank without jumps and outliers, and its dense posterior."""

from __future__ import annotations

import torch
from oracles import mixture
from torch import Tensor

from botorch_tv.gp.mixture.bank import FIRST, Bank
from botorch_tv.models import AdaptiveModel

OFFSET = Bank(
    rates=(0.0, 0.05),
    hazards=(0.0,),
    lengthscales=(0.3, 0.6),
    noise_ratios=(0.01, 0.1),
    outliers=0.0,
    features=24,
)


def by_the_book(
    model: AdaptiveModel, train_X: Tensor, train_Y: Tensor, query: Tensor, clock: float
) -> tuple[mixture.Array, mixture.Array, mixture.Array, float]:
    """Weights, mean, covariance and noise by dense members of :data:`OFFSET`, in the data's units.

    Only the features come from the model; the last columns of inputs are times, in units ``clock``.
    """

    def features(item):
        return lambda points: item.at(torch.from_numpy(points)).numpy()

    X, at = train_X.numpy(), query.numpy()
    return mixture.in_units_of_data(
        [features(item) for item in model.prior.features],
        *(OFFSET.rates, OFFSET.noise_ratios),
        *((X[:, :-1], train_Y[:, 0].numpy(), X[:, -1]), (at[:, :-1], at[:, -1])),
        first=FIRST,
        clock=clock,
    )
