"""Law 6: a rejected input leaves the state as it was, in every preset.

`bad_input/test_told.py` tests the words of the errors.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BESIDE, Preset, pairs
from conformance.rounds import Setting
from conformance.test_law4_pure import assert_agree, assert_identical

SETTING = Setting(points=4, kernel="se", noise=0.02, rounds=6)
X = SETTING.domain.X
NAN, INF = float("nan"), float("inf")


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


GOOD = double(0.1, -0.2, 0.3)
TRIALS = len(GOOD)
LATE = double(4.0, 2.5, 4.0)  # the newest of three rounds is at time 3
SOME = torch.tensor([False, True, True])
WRONG: list[dict[str, Any]] = [
    *({"y": y} for y in (GOOD[:2], GOOD.unsqueeze(-1), GOOD[0], GOOD.float(), GOOD.long())),
    *({"y": y} for y in (GOOD.to("meta"), double(0.1, NAN, 0.3), double(0.1, -INF, 0.3))),
    {"y": double(NAN, NAN, 0.3), "ok": SOME},
    *({"time": time} for time in (LATE, 2.5, double(4.0, NAN, 4.0), double(4.0, 4.0))),
    *({"ok": ok} for ok in (SOME[:2], SOME.unsqueeze(-1), SOME.double(), SOME.long())),
    {"ok": SOME.to("meta")},
    *({"noise": noise} for noise in (0.0, -0.02, NAN, INF, double(0.1, 0.1))),
    *({"noise": double(0.1, noise, 0.1)} for noise in (0.0, -0.1, NAN, INF)),
]


@pytest.fixture(
    scope="module",
    params=[*pairs(2, short=True), *((preset, "auto") for preset in BESIDE)],
    ids=lambda pair: f"{pair[0].name}-{pair[1]}",
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


@pytest.mark.parametrize("consume", [False, True], ids=["retained", "consumed"])
def test_tell(run: tuple[Any, Any, Any], consume: bool) -> None:
    """Also where the state may be consumed."""
    strategy, state, _ = run
    suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(9))
    for wrong in WRONG:
        arguments = {"y": GOOD, "consume": consume} | wrong
        assert_refused(run, lambda a=arguments: strategy.tell(state, suggestion, **a))


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
        lambda: strategy.ask(state, generator=generators),
        lambda: strategy.ask(state, generator="17"),
    ]
    for call in calls:
        assert_refused(run, call)


def test_goes_on_as_if_nothing_had_happened(run: tuple[Any, Any, Any]) -> None:
    """The last test of the module's state: the refused calls above left no trace in the play."""
    strategy, state, before = run
    after = []
    for each in (state, copy.deepcopy(before)):
        suggestion = strategy.ask(each, generator=torch.Generator().manual_seed(3))
        after.append((suggestion, *strategy.tell(each, suggestion, GOOD)))
    assert_agree(after[0], after[1])
