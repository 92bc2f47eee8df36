"""Models grown from a common parent share no mutable tensors."""

import copy

import pytest
import torch
from models.cases import AGED, assert_same, build, data, present

NEW_X = data(n=15)[0][12:]
FIRST, SECOND = (torch.full((3, 1), value, dtype=torch.float64) for value in (0.7, -1.1))


def tensors(model):
    """Every tensor that a model predicts from, its factor included."""
    found = [*model.state_dict(keep_vars=True).values(), *model.train_inputs, model.train_targets]
    covar = getattr(model.likelihood, "noise_covar", None)
    for name in ("train_X", "row_noise", "noise"):
        found.append(getattr(covar, name, None))
    found.append(model._row_noise)
    factor = model.prediction_strategy
    if factor is not None:
        found += [factor.inputs, factor.scale, factor.triangle, factor.whitened]
    return [item for item in found if isinstance(item, torch.Tensor) and item.numel()]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", ["markov", "wiener", *AGED])
def test_relatives_are_independent(forgetting, fixed):
    """Overwrite every tensor of a child in place; its sibling and parent do not change."""
    parent = build(forgetting, fixed=fixed, now=40.0)
    X = present(parent)
    noise = {"noise": 0.3 * torch.ones_like(FIRST)} if fixed else {}
    before = parent.posterior(X)
    first = parent.condition_on_observations(NEW_X, FIRST, **noise)
    second = parent.condition_on_observations(NEW_X, SECOND, **noise)
    assert_same(parent.posterior(X), before, atol=0)
    alone = copy.deepcopy(parent).condition_on_observations(NEW_X, FIRST, **noise)
    assert_same(first.posterior(X), alone.posterior(X), atol=1e-10)
    expected_first = first.posterior(X)
    with torch.no_grad():
        for tensor in tensors(second):
            tensor.fill_(0.5)
    assert_same(first.posterior(X), expected_first, atol=0)
    assert_same(parent.posterior(X), before, atol=0)
    for model, expected in ((first, expected_first), (parent, before)):
        model.train()
        model.eval()  # the factor is recomputed
        assert model.prediction_strategy is None
        assert_same(model.posterior(X), expected, atol=1e-9)


@pytest.mark.parametrize("chain", [(True, False, True), (False, True, False)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_given_and_learned_noise(chain, batch):
    """Dense regression against the grown factor and a recomputed factor."""
    model = build("markov", batch=batch, n=9)
    X, Y = data(n=16, batch=batch)
    X, Y = X[..., 9:, :] + torch.tensor([0.0, 0.0, 20.0]), Y[..., 9:, :]
    learned = model.likelihood.noise.detach()
    variance = [learned.expand(*batch, 9)]
    start = 0
    for q, given in zip((2, 1, 4), chain):
        rows = slice(start, start + q)
        noise = torch.full((*batch, q, 1), 0.05 * q, dtype=X.dtype) if given else None
        model = model.condition_on_observations(X[..., rows, :], Y[..., rows, :], noise=noise)
        variance.append(noise.squeeze(-1) if given else learned.expand(*batch, q))
        start += q
    inputs, targets, at = model.train_inputs[0], model.train_targets, present(model, batch=batch)
    with torch.no_grad():
        k, level = model.covar_module, model.mean_module
        A = k(inputs).to_dense() + torch.diag_embed(torch.cat(variance, -1))
        cross = k(at, inputs).to_dense()
        weights = torch.linalg.solve(A, cross.mT).mT
        mean = level(at) + (weights @ (targets - level(inputs)).unsqueeze(-1)).squeeze(-1)
        spread = k(at, diag=True) - (weights * cross).sum(-1)
        for _ in range(2):
            posterior = model.posterior(at)
            torch.testing.assert_close(posterior.mean.squeeze(-1), mean, rtol=0, atol=1e-9)
            torch.testing.assert_close(posterior.variance.squeeze(-1), spread, rtol=0, atol=1e-9)
            model.train()
            model.eval()
