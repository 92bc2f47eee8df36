"""A trigger that waits for a second contradiction: one wrong reading resets nothing."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loop.loops import GRID, NOISE, kernel
from torch import Tensor

from botorch_tv import Box, Loop, Strategy, et_gp_ucb, run_study
from botorch_tv.forgetting import ConfirmedTrigger, EventTrigger
from botorch_tv.simulation import AbruptWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import DiscreteSearch, State

X = GRID.X
PLACES = {"grid": GRID, "box": Box(torch.stack([X.amin(0), X.amax(0)]), search=DiscreteSearch(X))}
WAYS = [
    (place, dtype, inference)
    for place in PLACES
    for dtype in (torch.float64, torch.float32)
    for inference in ("auto", "exact")
]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
QUIET = 8
WRONG = 40 * NOISE**0.5


def strategy(**given: Any) -> Strategy:
    return et_gp_ucb(**({"kernel": kernel(0.4), "noise": NOISE, "confirm": 1} | given))


def world(points: Tensor, t: int) -> Tensor:
    noise = NOISE**0.5 * torch.sin(1e4 * points.sum(-1) + 7.0 * t)
    return torch.sin(4 * points[..., 0]) + 0.5 * torch.cos(3 * points[..., 1]) + noise


def told(
    player: Strategy, state: State, first: int, off: list[Any], **more: Any
) -> tuple[State, list[Any]]:
    """After further rounds, in which readings are off by so much; and which of them reset."""
    resets = []
    for t, wrong in enumerate(off, first):
        suggestion = player.ask(state)
        y = world(suggestion.X, t) + torch.as_tensor(wrong, dtype=suggestion.mean.dtype)
        state, info = player.tell(state, suggestion, y, **more)
        resets.append(info.reset.tolist())
    return state, resets


def require_alike(player: Strategy, one: State, other: State, tolerance: float = 1e-9) -> None:
    at = X.to(one.data.prior.variance.dtype)
    ours, theirs = (player.posterior(state, at, now=30.0) for state in (one, other))
    torch.testing.assert_close(ours.mean, theirs.mean, rtol=0, atol=tolerance)
    torch.testing.assert_close(ours.variance, theirs.variance, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("place", "dtype", "inference"), WAYS)
def test_one_wrong_reading_is_left_out(place: str, dtype: torch.dtype, inference: str) -> None:
    """As if that measurement had failed, while it is doubted and ever after."""
    player = strategy(inference=inference)
    start, _ = told(player, player.init(PLACES[place], dtype=dtype), 1, [0.0] * QUIET)
    wrong, resets = told(player, start, QUIET + 1, [WRONG])
    failed, _ = told(player, start, QUIET + 1, [0.0], ok=torch.tensor(False))
    assert resets == [False]
    for _ in range(4):
        require_alike(player, wrong, failed, TOLERANCE[dtype])
        wrong, resets = told(player, wrong, wrong.told + 1, [0.0])
        failed, _ = told(player, failed, failed.told + 1, [0.0])
        assert resets == [False]
    # Once refuted it counts no more: another one begins a count of its own.
    assert told(player, wrong, wrong.told + 1, [WRONG, 0.0, -WRONG])[1] == [False] * 3
    papers = strategy(inference=inference, confirm=0)
    start, _ = told(papers, papers.init(PLACES[place], dtype=dtype), 1, [0.0] * QUIET)
    assert told(papers, start, QUIET + 1, [WRONG])[1] == [True]


@pytest.mark.parametrize("confirm", [1, 2])
@pytest.mark.parametrize(("place", "dtype", "inference"), WAYS)
def test_a_change_is_noticed_so_many_rounds_later_and_its_readings_stay(
    place: str, dtype: torch.dtype, inference: str, confirm: int
) -> None:
    player = strategy(inference=inference, confirm=confirm)
    begun = player.init(PLACES[place], dtype=dtype)
    start, _ = told(player, begun, 1, [0.0] * QUIET)
    after, resets = told(player, start, QUIET + 1, [WRONG] * (confirm + 4))
    assert resets == [False] * confirm + [True] + [False] * 3
    fresh, log = begun, after.history
    for row in range(QUIET, after.told):
        point = PLACES[place].points(log.choice.row(row), log.y.row(row))
        suggestion = player.suggestion_at(fresh, point, now=log.time.row(row))
        # By its own prediction, as the prior finds such a reading far off.
        suggestion = suggestion._replace(mean=log.y.row(row))
        fresh, _ = player.tell(fresh, suggestion, log.y.row(row), check=False)
    require_alike(player, after, fresh, TOLERANCE[dtype])


@pytest.mark.parametrize("place", PLACES)
def test_trials_together_are_trials_alone(place: str) -> None:
    """One sees nothing, one a wrong reading, one a change, one both."""
    off = torch.zeros(4, QUIET + 6, dtype=torch.float64)
    off[1, 4] = off[3, 2] = WRONG
    off[2:, 9:] = -WRONG
    player = strategy()
    state, resets = told(player, player.init(PLACES[place], batch_shape=(4,)), 1, list(off.T))
    for trial, series in enumerate(off):
        alone, own = told(player, player.init(PLACES[place]), 1, list(series))
        assert [row[trial] for row in resets] == own
        assert any(own) == (trial >= 2)
        together, single = (player.posterior(one, X, now=30.0) for one in (state, alone))
        torch.testing.assert_close(together.mean[trial], single.mean, rtol=0, atol=1e-9)
        chosen = [one.history.choice.tensor() for one in (state, alone)]
        assert torch.equal(chosen[0][trial], chosen[1])


def test_a_failed_measurement_neither_confirms_nor_refutes() -> None:
    player, failed = strategy(), torch.tensor(False)
    start, _ = told(player, player.init(GRID), 1, [0.0] * QUIET)
    state, _ = told(player, start, QUIET + 1, [WRONG])
    state, resets = told(player, state, QUIET + 2, [WRONG, 0.0], ok=failed)
    assert resets == [False, False]
    assert told(player, state, QUIET + 4, [WRONG])[1] == [True]
    assert told(player, state, QUIET + 4, [0.0, WRONG])[1] == [False, False]


def test_doubts_are_saved_with_the_state() -> None:
    player = strategy()
    state, _ = told(player, player.init(GRID), 1, [0.0] * QUIET + [WRONG])
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    restored = torch.load(file, weights_only=False)
    for off in ([WRONG], [0.0, WRONG]):
        (ours, resets), (theirs, others) = (
            told(player, one, QUIET + 2, off) for one in (restored, state)
        )
        assert resets == others == [off[0] == WRONG, *[False] * (len(off) - 1)]
        require_alike(player, ours, theirs, 0.0)


def loop_that_knows(**given: Any) -> Loop:
    """y = 1 everywhere, and well."""
    flat = torch.ones(len(X), len(X), dtype=torch.float64)
    loop = Loop(strategy(kernel=flat, **given), GRID, pending=4)
    for _ in range(6):
        loop.ask()
        loop.tell(1.0)
    return loop


@pytest.mark.parametrize("confirm", [0, 1])
def test_a_wrong_reading_that_arrives_late_is_doubted_at_its_place(confirm: int) -> None:
    """The next in time, told long before, refutes it by the prediction made of that."""
    loop, other = loop_that_knows(confirm=confirm), loop_that_knows(confirm=confirm)
    loop.observe(X[3], -3.0, time=2.5)
    assert loop.last.reset == (confirm == 0)
    assert loop.history.reset.tolist().count(True) == (2 if confirm == 0 else 0)
    if confirm:
        for one in (loop, other):
            one.ask()
            one.tell(1.0)
            assert not one.last.reset
        torch.testing.assert_close(loop.posterior(X).mean, other.posterior(X).mean)


def test_a_late_reading_confirms_one_told_before_it() -> None:
    """It lies between two that agreed until then: its place in time is what counts."""
    loop = loop_that_knows()
    loop.observe(X[0], -1.0, time=9.0)
    loop.observe(X[1], -1.0, time=8.0)
    assert loop.history.reset.tolist() == [False] * 7 + [True]
    assert loop.posterior(X).mean[0].item() == pytest.approx(-2 / (2 + NOISE), abs=1e-9)


def test_suggestions_open_at_a_change_are_judged_by_what_is_left(tmp_path: Path) -> None:
    """Those behind the two that fire agree with them; also in a loop saved in between."""
    loop = loop_that_knows()
    waiting = [loop.ask() for _ in range(4)]
    loop.tell(-1.0, suggestion=waiting[0])
    assert not loop.last.reset
    loop.save(tmp_path / "loop.json")
    for one in (loop, Loop.load(tmp_path / "loop.json", loop.strategy)):
        fired = []
        for asked in waiting[1:]:
            one.tell(-1.0, suggestion=asked)
            fired.append(one.last.reset)
        assert fired == [True, False, False]
        mean = one.posterior(X).mean[0].item()
        assert mean == pytest.approx(-4 / (4 + NOISE), abs=1e-9)


def test_studies_play_it_round_by_round_alike() -> None:
    """Compiled rounds leave it to those that are not; and it differs from the paper's."""
    pytest.importorskip("numba")
    place = AbruptWorld(GRID, functions=GaussianDraw(kernel(0.4)), changes=(12, 24), noise=0.05)
    both = {f"{c}": strategy(noise=0.05, confirm=c) for c in (0, 1)}
    usual = {"trials": 6, "horizon": 36, "progress": False}
    one, other = (run_study(place, both, compiled=given, **usual) for given in (True, False))
    np.testing.assert_array_equal(one.data["index"].values, other.data["index"].values)
    np.testing.assert_array_equal(one.data["resets"].values, other.data["resets"].values)
    papers, ours = (one.data["resets"].sel(strategy=c).values for c in ("0", "1"))
    assert ours.any()
    assert (papers != ours).any()


def test_the_papers_rule_is_the_default() -> None:
    for papers in (strategy(confirm=0), et_gp_ucb(kernel=kernel(0.4), noise=NOISE)):
        assert papers.retention == EventTrigger(0.1)
    assert strategy(confirm=2.0).retention == ConfirmedTrigger(0.1, confirm=2)
    assert "confirm=2" in repr(strategy(confirm=2))


@pytest.mark.parametrize("confirm", [-1, 1.5, True, False, None, "1"])
def test_numbers_of_contradictions_that_are_none_are_refused(confirm: Any) -> None:
    with pytest.raises(ValueError, match=r"et_gp_ucb: confirm is .* integer of at least 0"):
        strategy(confirm=confirm)
    with pytest.raises(ValueError, match=r"ConfirmedTrigger: confirm is .* integer of at least 1"):
        ConfirmedTrigger(confirm=confirm)
