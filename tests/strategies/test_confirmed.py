"""A trigger that waits for a second contradiction."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loop.loops import GRID, NOISE, kernel

from botorch_tv import Loop, Strategy, et_gp_ucb, run_study
from botorch_tv.forgetting import ConfirmedTrigger, EventTrigger
from botorch_tv.simulation import AbruptWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw

X = GRID.X


def strategy(**given: Any) -> Strategy:
    return et_gp_ucb(**({"kernel": kernel(0.4), "noise": NOISE, "confirm": 1} | given))


def settled_loop(**given: Any) -> Loop:
    flat = torch.ones(len(X), len(X), dtype=torch.float64)
    loop = Loop(strategy(kernel=flat, **given), GRID, pending=4)
    for _ in range(6):
        loop.ask()
        loop.tell(1.0)
    return loop


@pytest.mark.parametrize("confirm", [0, 1])
def test_a_late_wrong_reading_is_doubted_at_its_time(confirm: int) -> None:
    loop, other = settled_loop(confirm=confirm), settled_loop(confirm=confirm)
    loop.observe(X[3], -3.0, time=2.5)
    assert loop.last.reset == (confirm == 0)
    assert loop.history.reset.tolist().count(True) == (2 if confirm == 0 else 0)
    if confirm:
        for player in (loop, other):
            player.ask()
            player.tell(1.0)
            assert not player.last.reset
        torch.testing.assert_close(loop.posterior(X).mean, other.posterior(X).mean)


def test_a_late_reading_confirms_a_later_reading() -> None:
    loop = settled_loop()
    loop.observe(X[0], -1.0, time=9.0)
    loop.observe(X[1], -1.0, time=8.0)
    assert loop.history.reset.tolist() == [False] * 7 + [True]
    assert loop.posterior(X).mean[0].item() == pytest.approx(-2 / (2 + NOISE), abs=1e-9)


def test_open_suggestions_are_judged_after_a_reset(tmp_path: Path) -> None:
    loop = settled_loop()
    waiting = [loop.ask() for _ in range(4)]
    loop.tell(-1.0, suggestion=waiting[0])
    assert not loop.last.reset
    loop.save(tmp_path / "loop.json")
    for player in (loop, Loop.load(tmp_path / "loop.json", loop.strategy)):
        fired = []
        for asked in waiting[1:]:
            player.tell(-1.0, suggestion=asked)
            fired.append(player.last.reset)
        assert fired == [True, False, False]
        mean = player.posterior(X).mean[0].item()
        assert mean == pytest.approx(-4 / (4 + NOISE), abs=1e-9)


def test_studies_play_it_round_by_round_alike() -> None:
    pytest.importorskip("numba")
    place = AbruptWorld(GRID, functions=GaussianDraw(kernel(0.4)), changes=(12, 24), noise=0.05)
    players = {f"{c}": strategy(noise=0.05, confirm=c) for c in (0, 1)}
    usual = {"trials": 6, "horizon": 36, "progress": False}
    whole = run_study(place, players, compiled=False, **usual).data
    compiled = run_study(place, {"1": players["1"]}, compiled=True, **usual).data
    for name in ("index", "resets"):
        ours = whole[name].sel(strategy="1").values
        np.testing.assert_array_equal(compiled[name].sel(strategy="1").values, ours)
    papers, ours = (whole["resets"].sel(strategy=c).values for c in ("0", "1"))
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
