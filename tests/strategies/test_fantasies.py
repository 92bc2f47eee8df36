"""Trials that run while nothing is known yet make nothing known."""

import pytest
import torch

from botorch_tv import adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import OLDEST, MeasurementLog, trial_answer, trial_log
from botorch_tv.strategies.outcomes import as_if_measured
from botorch_tv.strategies.parameters import Number, Space


def history(values: list[float]) -> MeasurementLog:
    player = adaptive_gp_ucb(bank=Bank(features=24), starts=3)
    space = Space({"x": Number(0.0, 1.0)})
    rows = [trial_answer(float(n), n, (0.3 * n,), y) for n, y in enumerate(values)]
    return trial_log(player, space).changed(rows, OLDEST)


@pytest.mark.parametrize("told", [[], [55.0, 55.5]])
def test_a_running_trial_sets_no_units(told: list[float]) -> None:
    before = history(told)
    state = before.state
    for place in (0.9, 0.95):
        state = as_if_measured(before.quiet, state, torch.tensor([place]).double(), 4.0)
    assert not before.quiet.predicts(state)
    assert state.told == len(told) + 2
    units = history([*told, 56.0]).state.data.running.units
    later, _ = before.strategy.tell(
        state, before.strategy.suggestion_at(state, torch.tensor([0.6]).double(), now=5.0), 56.0
    )
    if told:
        torch.testing.assert_close(later.data.running.units.centre, units.centre)
        torch.testing.assert_close(later.data.running.units.spread, units.spread)


def test_a_trial_that_failed_counts_as_the_worst_from_the_first_on() -> None:
    before = history([55.0, 55.5])
    state = as_if_measured(
        before.quiet, before.state, torch.tensor([0.9]).double(), 4.0, limit=50.0
    )
    assert before.quiet.predicts(state)
    expected = torch.tensor([55.0, 55.5, 50.0], dtype=torch.float64).mean()
    torch.testing.assert_close(state.data.running.units.centre, expected)


def test_what_is_predicted_is_pretended() -> None:
    before = history([55.0, 55.5, 56.0, 54.0])
    mean = before.quiet.suggestion_at(before.state, torch.tensor([0.9]).double(), now=4.0).mean
    for least, wanted in ((None, mean), (100.0, mean), (40.0, torch.tensor(40.0))):
        state = as_if_measured(
            before.quiet, before.state, torch.tensor([0.9]).double(), 4.0, limit=least
        )
        assert float(state.history.y.tensor()[-1]) == pytest.approx(float(wanted))
