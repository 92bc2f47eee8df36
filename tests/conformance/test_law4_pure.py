"""Law 4: pure. No argument changes; a saved run goes on as if never stopped."""

import copy
import io
import itertools
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from conformance.presets import (
    BESIDE,
    PRESETS,
    RECURSIONS,
    Preset,
    each_pair,
    each_path,
    one_per_path,
)
from conformance.rounds import Setting, make_world

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.gp.tensors import DeviceCopies, Rows
from botorch_tv.strategies import Box, gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=18)
TRIALS = 3


def tensors(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """Every tensor inside a value, in a fixed order."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        yield value
        return
    if isinstance(value, Rows):  # the rows in use, not the spare memory
        whole, shown = value._room, value.tensor()
        yield whole if whole.shape == shown.shape else shown
        return
    # DeviceCopies are of other tensors.
    plain = (str, bytes, int, float, bool, type(None), type, DeviceCopies)
    if id(value) in seen or isinstance(value, plain):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from tensors(part, seen)


def assert_identical(actual: Any, expected: Any) -> None:
    """The same tensors bit for bit."""
    pairs = list(itertools.zip_longest(tensors(actual), tensors(expected)))
    assert pairs
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert one.device == other.device
        assert one.shape == other.shape
        assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def assert_agree(actual: Any, expected: Any) -> None:
    """The same tensors, floats up to rounding, which processors decide."""
    for one, other in itertools.zip_longest(tensors(actual), tensors(expected)):
        assert one.dtype == other.dtype
        assert one.device == other.device
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10, equal_nan=True)


def strategies(preset: Preset, engine: str) -> Any:
    return preset.by(SETTING.module(), SETTING.noise, engine)


def advance(strategy: Any, state: Any, start: int, stop: int, sign: float = 1.0) -> tuple:
    """Plays rounds start..stop-1; returns the state and everything that was suggested."""
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    record = []
    for t in range(start, stop):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        state, info = strategy.tell(state, suggestion, sign * world.observe(t, suggestion.index))
        record.append((suggestion, info))
    return state, record


each_engine = pytest.mark.parametrize("engine", RECURSIONS)


@one_per_path
@each_pair(0, beside=BESIDE)
def test_arguments_do_not_change(preset: Preset, engine: str) -> None:
    strategy = strategies(preset, engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for start in (0, 8):
        state, _ = advance(strategy, state, start, start + 8 + start // 4)
        before = copy.deepcopy(state)
        suggestion = strategy.ask(state)
        generator = torch.Generator().manual_seed(start)
        strategy.ask(state, now=suggestion.time + 20.0, generator=generator)
        strategy.posterior(state, SETTING.domain.X)
        strategy.posterior(state, SETTING.domain.X, now=suggestion.time + 20.0)
        strategy.recommend(state)
        strategy.suggestion_at(state, suggestion.X, now=suggestion.time + 20.0)
        assert_identical(state, before)
        y = torch.tensor([0.3, 5.0, -5.0], dtype=torch.float64)
        time, ok = suggestion.time + 3.0, torch.tensor([True, False, True])
        noise = torch.tensor([0.5, 0.01, 0.02], dtype=torch.float64)
        copies = copy.deepcopy((suggestion, y, time, ok, noise))
        strategy.tell(state, suggestion, y)
        own = {"noise": noise} if preset.takes_noise else {}
        strategy.tell(state, suggestion, y, time=time, ok=ok, **own)
        assert_identical(state, before)
        assert_identical((suggestion, y, time, ok, noise), copies)


@pytest.mark.parametrize("batch_shape", [(), (TRIALS,)], ids=["single", "batch"])
@pytest.mark.parametrize("name", ["TV-GP-UCB", "WGP-UCB", "adaptive"])
def test_tensors_of_the_caller_may_change_in_place(name: str, batch_shape: tuple[int, ...]) -> None:
    """A running clock, reused buffers, suggestions converted to other units."""
    (preset,) = (one for one in (*PRESETS, *BESIDE) if one.name == name)
    strategy, domain = strategies(preset, preset.recursions[0]), SETTING.domain
    ends = []
    for changes in (False, True):
        given = (lambda tensor: tensor) if changes else torch.clone
        state = strategy.init(domain, batch_shape=batch_shape)
        clock, y = (torch.zeros(batch_shape, dtype=torch.float64) for _ in range(2))
        X = torch.zeros(*batch_shape, 2, dtype=torch.float64)
        for t in range(6):
            said = strategy.ask(state, now=given(clock), generator=torch.Generator().manual_seed(t))
            if t % 2:
                X.copy_(domain.X[torch.full(batch_shape, 3 * t)])
                said = strategy.suggestion_at(state, given(X), now=given(clock))
            y.copy_(said.X.sum(-1) + t % 3)
            timed = {"time": given(clock)} if t % 3 else {}
            X.fill_(9.0)
            state, _ = strategy.tell(state, said, given(y), **timed)
            best = strategy.recommend(state)
            clock += 0.5
            y.fill_(9.0)
            if changes:
                said.X.mul_(80.0)
                best.mul_(80.0)
        ends.append(
            (state.time, strategy.recommend(state), strategy.posterior(state, domain.X[:7]))
        )
    (time, best, plain), (later, other, changed) = ends
    assert torch.equal(time, later)
    assert torch.equal(best, other)
    assert torch.equal(plain.mean, changed.mean)
    assert torch.equal(plain.variance, changed.variance)


def test_points_of_a_box_may_change_in_place() -> None:
    strategy = sparq_gp_ucb(kernel=SETTING.module(), noise=SETTING.noise)
    state = strategy.init(Box([(0.0, 1.0), (0.0, 1.0)]))
    X = torch.tensor([0.25, 0.5], dtype=torch.float64)
    said = strategy.suggestion_at(state, X)
    X.fill_(9.0)
    state, _ = strategy.tell(state, said, 1.0)
    asked = strategy.consult(state)
    assert asked is not None
    asked.X.mul_(80.0)
    asked.time.add_(1.0)
    state = strategy.absorb(state, asked, torch.ones(1, dtype=torch.float64))
    assert float(state.time) == 1.0
    assert state.expert.choice.tolist() == [[0.25, 0.5]]


@one_per_path
@each_pair(1, beside=BESIDE)
def test_two_futures_of_one_state_are_independent(preset: Preset, engine: str) -> None:
    """If a log were appended in place, one future would write into the other."""
    strategy = strategies(preset, engine)
    common, _ = advance(strategy, strategy.init(SETTING.domain, batch_shape=(TRIALS,)), 0, 14)
    alone = copy.deepcopy(common)
    _, expected_left = advance(strategy, copy.deepcopy(alone), 14, 18, sign=1.0)
    _, expected_right = advance(strategy, copy.deepcopy(alone), 14, 18, sign=-1.0)
    left = right = common
    for t in range(14, 18):  # turn by turn
        left, (left_round,) = advance(strategy, left, t, t + 1, sign=1.0)
        right, (right_round,) = advance(strategy, right, t, t + 1, sign=-1.0)
        assert_agree(left_round, expected_left[t - 14])
        assert_agree(right_round, expected_right[t - 14])
    assert_identical(common, alone)


@pytest.mark.few(13)
@each_path(1, beside=BESIDE)
def test_suggestions_outlive_a_consumed_state(preset: Preset, engine: str) -> None:
    """Suggestions and reports have memory of their own, which later rounds do not change."""
    strategy, reports = strategies(preset, engine), []
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    for t in range(SETTING.rounds):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        y = world.observe(t, suggestion.index)
        state, info = strategy.tell(state, suggestion, y, consume=True)
        reports.append(((suggestion, info), copy.deepcopy((suggestion, info))))
    for report, copied in reports:
        assert_identical(report, copied)


@pytest.mark.few(13)
@each_path(2, beside=BESIDE)
def test_saved_in_mid_run_goes_on_as_if_never(preset: Preset, engine: str) -> None:
    """Saved and loaded twice; PyTorch's random state does not change."""
    torch.manual_seed(0)
    random_state = torch.get_rng_state()
    strategy = strategies(preset, engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    _, whole = advance(strategy, state, 0, 18)
    state, resumed = strategy.init(SETTING.domain, batch_shape=(TRIALS,)), []
    for start, pause in itertools.pairwise((0, 1, 13, 18)):
        state, record = advance(strategy, state, start, pause)
        resumed += record
        file = io.BytesIO()
        torch.save((strategy, state), file)
        file.seek(0)
        strategy, state_again = torch.load(file, weights_only=False)
        assert_identical(state_again, state)
        state = state_again
    assert_agree(resumed, whole)
    assert torch.equal(torch.get_rng_state(), random_state)


@each_engine
def test_strategy_has_its_own_copy_of_the_kernel(engine: str) -> None:
    kernel = SETTING.module()
    strategy = gp_ucb(kernel=kernel, noise=0.02, inference=engine)
    _, before = advance(strategy, strategy.init(SETTING.domain, batch_shape=(TRIALS,)), 0, 8)
    kernel.lengthscale = 5.0
    _, after = advance(strategy, strategy.init(SETTING.domain, batch_shape=(TRIALS,)), 0, 8)
    assert_agree(after, before)
