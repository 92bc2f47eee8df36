"""Law 6: a rejected input leaves the state as it was, in every preset.

What the errors say is tested in ``test_bad_input.py``.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BESIDE, Preset, alone, pairs_of
from conformance.rounds import Setting
from conformance.test_law4_pure import assert_agree, assert_identical

SETTING = Setting(points=4, kernel="se", noise=0.02, rounds=6)
X = SETTING.domain.X
NAN, INF = float("nan"), float("inf")


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


GOOD = double(0.1, -0.2, 0.3)
TRIALS = len(GOOD)
LATE = double(4.0, 2.5, 4.0)  # three rounds are told, so the clock stands at 3

TELL: dict[str, dict[str, Any]] = {
    "y of wrong shape": {"y": GOOD[:2]},
    "y of one more dimension": {"y": GOOD.unsqueeze(-1)},
    "y a scalar": {"y": double(0.1)[0]},
    "y in float32": {"y": GOOD.float()},
    "y of integers": {"y": GOOD.long()},
    "y elsewhere": {"y": GOOD.to("meta")},
    "y NaN": {"y": double(0.1, NAN, 0.3)},
    "y infinite": {"y": double(0.1, -INF, 0.3)},
    "y NaN where it did not fail": {
        "y": double(NAN, NAN, 0.3),
        "ok": torch.tensor([False, True, True]),
    },
    "time backwards": {"time": LATE},
    "time backwards as a number": {"time": 2.5},
    "time NaN": {"time": double(4.0, NAN, 4.0)},
    "time of wrong shape": {"time": double(4.0, 4.0)},
    "ok of wrong shape": {"ok": torch.tensor([True, False])},
    "ok of one more dimension": {"ok": torch.tensor([[True], [True], [False]])},
    "ok of numbers": {"ok": double(1.0, 0.0, 1.0)},
    "ok of integers": {"ok": torch.tensor([1, 0, 1])},
    "ok elsewhere": {"ok": torch.ones(TRIALS, dtype=torch.bool, device="meta")},
    "noise zero": {"noise": 0.0},
    "noise negative": {"noise": -0.02},
    "noise NaN": {"noise": NAN},
    "noise infinite": {"noise": INF},
    "noise zero in one trial": {"noise": double(0.1, 0.0, 0.1)},
    "noise negative in one trial": {"noise": double(0.1, 0.1, -0.1)},
    "noise NaN in one trial": {"noise": double(0.1, NAN, 0.1)},
    "noise infinite in one trial": {"noise": double(0.1, INF, 0.1)},
    "noise of wrong shape": {"noise": double(0.1, 0.1)},
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(pair.values, id=pair.id, marks=pair.marks)
        for pair in [*pairs_of(2), *alone(BESIDE)]
    ],
)
def run(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """A strategy, its state after three rounds, and a copy of the state."""
    preset: Preset
    preset, engine = request.param
    strategy = preset.by(SETTING.module(), 0.02, engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for t in range(3):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        state, _ = strategy.tell(state, suggestion, GOOD)
    return strategy, state, copy.deepcopy(state)


def assert_refused(run: tuple[Any, Any, Any], call: Callable[[], Any]) -> None:
    _, state, before = run
    with pytest.raises(InputDataError):
        call()
    assert_identical(state, before)


@pytest.mark.parametrize("consume", [False, True], ids=["kept", "consumed"])
def test_tell(run: tuple[Any, Any, Any], consume: bool) -> None:
    """Also where the state was offered to be used up: it was not."""
    strategy, state, _ = run
    suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(9))
    for name, wrong in TELL.items():
        arguments = {"y": GOOD} | wrong
        try:
            assert_refused(
                run, lambda a=arguments: strategy.tell(state, suggestion, **a, consume=consume)
            )
        except (AssertionError, pytest.fail.Exception) as error:
            raise AssertionError(name) from error


def test_ask_and_the_others(run: tuple[Any, Any, Any]) -> None:
    strategy, state, _ = run
    arms = X[:TRIALS]
    generators = [torch.Generator() for _ in range(TRIALS - 1)]
    calls: list[Callable[[], Any]] = [
        lambda: strategy.ask(state, now=LATE),
        lambda: strategy.ask(state, now=NAN),
        lambda: strategy.ask(state, now=double(4.0, 4.0)),
        lambda: strategy.suggestion_at(state, arms, now=LATE),
        lambda: strategy.suggestion_at(state, arms + 0.01),
        lambda: strategy.suggestion_at(state, arms[:2]),
        lambda: strategy.suggestion_at(state, arms.float()),
        lambda: strategy.posterior(state, X, now=LATE),
        lambda: strategy.posterior(state, X + 0.01),
        lambda: strategy.recommend(state, now=LATE),
    ]
    for call in calls:
        assert_refused(run, call)
    assert_refused(run, lambda: strategy.ask(state, generator=generators))
    assert_refused(run, lambda: strategy.ask(state, generator="17"))


def test_goes_on_as_if_nothing_had_happened(run: tuple[Any, Any, Any]) -> None:
    """The last test of the module's state: what was refused above left no trace in the play."""
    strategy, state, before = run
    after = []
    for each in (state, copy.deepcopy(before)):
        suggestion = strategy.ask(each, generator=torch.Generator().manual_seed(3))
        after.append((suggestion, *strategy.tell(each, suggestion, GOOD)))
    assert_agree(after[0], after[1])
