"""Worlds with limits: their best settings, and the figures of runs."""

import json

import numpy as np
import pytest
import torch

from benchmarks.statistics import limits
from benchmarks.statistics.limit_worlds import LIMITED, WORLDS, volume


@pytest.fixture(autouse=True)
def default_dtype():
    """The players set PyTorch's default dtype."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def mesh(dim, points):
    axes = np.meshgrid(*[np.linspace(0, 1, points)] * dim)
    return np.stack(axes, -1).reshape(-1, dim)


@pytest.mark.parametrize("name", [name for name in LIMITED if LIMITED[name](0).dim < 4])
def test_best_within_the_limits_is_that_of_a_dense_grid(name):
    world, last = LIMITED[name](5), 3
    X = world.whole(mesh(world.dim, 301 if world.dim == 2 else 45))
    for now, best in enumerate(world.best(last), start=1):
        Y = world.outcomes(X, float(now))
        within = Y[(Y[:, 1:] <= world.limits).all(-1), 0].max()
        assert within - 1e-9 <= best < within + 0.02 * np.ptp(Y[:, 0])


@pytest.mark.parametrize("name", LIMITED)
def test_start_keeps_the_limits_where_nothing_jumps(name):
    world = LIMITED[name](6)
    for now in range(1, limits.ROUNDS + 1 if not world.jumps else 2):
        assert world.excess(world.outcomes(world.start[None], float(now)))[0] < 0


@pytest.mark.parametrize(("name", "points"), [("pair", 151), ("oven", 61)])
def test_best_compromises_are_those_of_a_dense_grid(name, points):
    world, now = WORLDS[name](7), 50.0
    Y = world.outcomes(world.whole(mesh(world.dim, points)), now)
    Y = Y[(Y[:, 2:] <= world.limits).all(-1), :2] - world.reference
    Y = Y[(Y > 0).all(-1)]
    Y = Y[np.argsort(-Y[:, 0])]
    top = np.maximum.accumulate(Y[:, 1])
    dense = (Y[:, 0] * np.diff(top, prepend=0.0)).sum()
    assert volume(world.front(now), world.reference) == pytest.approx(dense, rel=0.01)


def test_runs_are_resumed_and_compared(tmp_path, monkeypatch):
    played = []

    def made_up(player, name, seed):
        played.append((player, seed))
        excess = [1.0] * 30 + [-1.0] * 69 + [float(seed)]
        settings = [[0.1 * (round % 2)] for round in range(100)]
        regret = [9.0] * 30 + [2.0] * 69 + [50.0 if seed else 9.0]
        return {"excess": excess, "regret": regret, "settings": settings, "seconds": 1.0}

    def together(player, name, seeds):
        return [made_up(player, name, seed) for seed in seeds]

    monkeypatch.setattr(limits, "play", made_up)
    monkeypatch.setattr(limits, "play_together", together)
    given = ["--runs", str(tmp_path / "runs"), "--worlds", "drift", "--first", "0", "--out"]
    given += [str(tmp_path / "record.json"), "--players", "ours", "safeopt", "--seeds"]
    limits.main([*given, "1"])
    record = limits.main([*given, "2"])
    assert played == [("ours", 0), ("safeopt", 0), ("ours", 1), ("safeopt", 1)]
    row = record["worlds"]["drift"]["ours"]
    assert row["violations"]["mean"] == pytest.approx(0.5 / 70)
    assert row["regret"]["mean"] == pytest.approx(((69 * 2 + 9) / 70 + 2) / 2)
    assert row["travel"]["mean"] == pytest.approx(0.1)
    assert json.loads((tmp_path / "record.json").read_text()) == record
    assert not limits.plays("safeopt", "optics")
    assert not limits.plays("xopt", "pair")


@pytest.mark.full
@pytest.mark.parametrize("player", ["ours", "safe 0.95", "no context"])
def test_a_batch_of_seeds_plays_as_loops(player):
    for seed, run in zip((3, 5), limits.play_together(player, "weekdays", (3, 5), 12)):
        alone = limits.play(player, "weekdays", seed, 12)["settings"]
        assert np.allclose(alone, run["settings"], atol=1.01e-4)  # records have four digits


@pytest.mark.full
@pytest.mark.parametrize("player", ["safe 0.99", "reference", "botorch-time"])
def test_a_player_plays(player):
    if player == "botorch-time":
        run = limits.play(player, "furnace", 3, rounds=7)
    else:
        (run,) = limits.play_together(player, "furnace", [3], rounds=7)
    assert len(run["regret"]) == len(run["excess"]) == 7
    assert all(x[2] in (0, 1) for x in run["settings"])
    assert all(regret >= 0 for regret, over in zip(run["regret"], run["excess"]) if over <= 0)
