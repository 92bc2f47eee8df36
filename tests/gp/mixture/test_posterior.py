"""The mixture at points of a box, with and without lengthscales that were ruled out."""

import pytest
import torch

from botorch_tv.gp.mixture import posterior as inference
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import Box, adaptive_gp_ucb

D = torch.float64
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
BANK = Bank(rates=(0.0, 0.05), hazards=(0.0, 0.05), lengthscales=(0.2, 0.5), noise_ratios=(0.01,))
TRIALS = 2


def told(nats: list[float]):
    """A strategy and its state; of each trial the first lengthscale lost so many nats."""
    strategy = adaptive_gp_ucb(bank=BANK)
    state = strategy.init(Box(SQUARE), batch_shape=(TRIALS,))
    generator = torch.Generator().manual_seed(0)
    for _ in range(7):
        X = torch.rand(TRIALS, 2, dtype=D, generator=generator)
        suggestion = strategy.suggestion_at(state, X)
        state, _ = strategy.tell(state, suggestion, (3 * X).sin().sum(-1))
    running = state.data.running
    log_weight = running.log_weight.clone()
    log_weight[:, 0] -= torch.tensor(nats, dtype=D).unsqueeze(-1)
    running = running._replace(log_weight=log_weight)
    return strategy, state._replace(data=state.data._replace(running=running))


@pytest.mark.parametrize(("nats", "left"), [([60.0, 60.0], 1), ([60.0, 0.0], 2)])
def test_a_lengthscale_ruled_out_in_all_trials_is_not_looked_at(nats, left, monkeypatch):
    strategy, state = told(nats)
    X = torch.rand(TRIALS, 9, 2, dtype=D, generator=torch.Generator().manual_seed(1))
    present, own = strategy.decision(state).present, strategy.inference_for(state.domain)
    some = own.predict(state.data, present)
    monkeypatch.setattr(
        inference, "relevant_lengthscales", lambda running: tuple(range(len(running.mean)))
    )
    every = own.predict(state.data, present)
    assert len(some.parts.mean) == len(some.prior.features) == left
    for ask in ("at", "expected_at", "mean_at"):
        found, wanted = getattr(some, ask)(X), getattr(every, ask)(X)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    climbed = some.at(X.requires_grad_())
    torch.testing.assert_close(climbed, every.at(X), rtol=1e-12, atol=1e-12)
