"""Points on their way count the same whether told at construction or later."""

import pytest
import torch
from botorch.sampling import SobolQMCNormalSampler
from models.cases import build

from botorch_tv.acquisition.present import (
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
)

D = torch.float64
MODEL = build("markov")
X = torch.tensor([[[0.2, 0.6]], [[0.7, 0.3]]], dtype=D)
PENDING = torch.tensor([[0.25, 0.55]], dtype=D)


def sampler(n=16):
    return SobolQMCNormalSampler(torch.Size([n]), seed=0)


def improvement(**pending):
    return qLogNoisyExpectedImprovementAtPresent(
        MODEL, MODEL.train_inputs[0], sampler=sampler(), prune_baseline=False, **pending
    )


def gradient(**pending):
    return qKnowledgeGradientAtPresent(MODEL, num_fantasies=4, sampler=sampler(4), **pending)


@pytest.mark.parametrize(
    ("make", "points"),
    [(improvement, X), (gradient, X.expand(2, 5, 2))],
    ids=["improvement", "knowledge gradient"],
)
def test_at_construction_as_later(make, points):
    then, later, without = make(X_pending=PENDING), make(), make()
    later.set_X_pending(PENDING)
    with torch.no_grad():
        torch.testing.assert_close(then(points), later(points), rtol=0, atol=1e-9)
        assert float((then(points) - without(points)).abs().max()) > 1e-6
