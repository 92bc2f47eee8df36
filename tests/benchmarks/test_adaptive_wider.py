"""Worlds of many coordinates and of records: what they are, and that everyone plays them."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.statistics import adaptive_wider, wider_worlds
from botorch_tv.papers.recordings import TRAFFIC, Recordings
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.test_functions import DriftingBranin

RECORDS = Recordings()


@pytest.mark.parametrize(
    ("problem", "dim"),
    [(wider_worlds.hartmann, 6), (partial(wider_worlds.levy, 8), 8)],
    ids=["hartmann", "levy"],
)
def test_the_highest_is_where_the_path_is(problem, dim):
    trial = wider_worlds.drifting(problem, 3, 5)
    assert (trial.dim, trial.arms) == (dim, None)
    generator = torch.Generator().manual_seed(0)
    U = torch.rand(500, dim, dtype=torch.float64, generator=generator)
    one = problem(motion=wider_worlds.Orbit(period=wider_worlds.PERIOD), horizon=999.0)
    lower, upper = one.spatial_bounds
    for t in (1, 5):
        best = (one.path(3.0 * wider_worlds.APART + t) - lower) / (upper - lower)
        assert float(trial.value(best[None], t)) == pytest.approx(trial.highest(t), abs=1e-8)
        assert float(trial.value(U, t).max()) < trial.highest(t)


def test_the_likeliest_model_of_its_own_readings_is_found():
    generator = torch.Generator().manual_seed(2)
    X = torch.rand(200, 2, dtype=torch.float64, generator=generator)
    times = torch.linspace(1, 100, 200, dtype=torch.float64)
    truth = 0.2 * 2**0.5
    K = unit_kernel("se", truth)(X).to_dense().detach()
    K = K * 0.97 ** (0.5 * (times[:, None] - times).abs())
    root = torch.linalg.cholesky(K + wider_worlds.NOISE * torch.eye(200))
    y = root @ torch.randn(200, dtype=torch.float64, generator=generator)
    assert wider_worlds.likeliest(X, times, y) == (pytest.approx(truth), 0.03)


def test_roads_in_a_plane_are_found_in_it(tmp_path):
    """Distances in a plane that are all told come back; a road that is near none has no place."""
    places = np.random.default_rng(0).random((9, 2))
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    near = np.zeros((10, 10))
    near[:9, :9], near[9, 9] = np.exp(-(apart**2)), 1.0
    np.savez(tmp_path / TRAFFIC, adjacency=near)
    found = wider_worlds.road_places(Recordings(tmp_path))
    again = np.linalg.norm(found[:9, None] - found[None, :9], axis=-1)
    np.testing.assert_allclose(again, apart, atol=1e-6)
    assert np.isnan(found[9]).all()


@pytest.mark.parametrize("usual", [False, True])
def test_records_are_played_as_they_were_read(usual):
    trial = wider_worlds.traffic(RECORDS, 1, 84, usual=usual)
    panel = RECORDS.traffic()
    rows = panel.values.reshape(7, 288, -1)[6, 72:156]  # Wednesday from six o'clock on
    if usual:
        rows = rows - panel.values.reshape(7, 288, -1)[[0, 1, 4], 72:156].mean((0, 1))
    every = panel.coordinates[:, 0]
    for t in (1, 84):
        played = trial.value(trial.arms, t)
        assert float(played.max()) == pytest.approx(trial.highest(t))
        # One coordinate tells the arm, however the others are scaled.
        order = np.argsort(every)
        chosen = np.isin(rows[t - 1].round(6), played.numpy().round(6))
        assert chosen.sum() == len(trial.arms)
        np.testing.assert_allclose(
            rows[t - 1][order][chosen[order]], played[trial.arms[:, 0].argsort()], atol=1e-9
        )


def _of_two_coordinates(records, seed, rounds):
    return wider_worlds.drifting(DriftingBranin, seed, rounds)


def test_everyone_plays_and_what_was_played_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "wider.json"
    monkeypatch.setitem(adaptive_wider.WORLDS, "levy", _of_two_coordinates)
    small = ["--horizon", "5", "--out", str(path)]
    everyone = [*small, "--worlds", "temperature", "--seeds", "1"]
    adaptive_wider.main(everyone)
    few = ["--players", "told nothing", "chance", "BoTorch on (x, t)"]
    adaptive_wider.main([*small, "--worlds", "levy", "--seeds", "1", *few])
    more = [*small, "--worlds", "levy", "--seeds", "2", *few[:-1]]
    record = adaptive_wider.main(more)
    assert json.loads(path.read_text(encoding="utf-8")) == record
    runs = record["worlds"]["temperature"]["runs"]
    assert set(runs) == set(adaptive_wider.PLAYERS)
    for label, run in runs.items():
        assert run[adaptive_wider.REGRET][0] > 0
        bands = label not in ("chance", "BoTorch on (x, t)")
        parts = (
            adaptive_wider.EVERYWHERE,
            adaptive_wider.LOWEST,
            adaptive_wider.CHOSEN,
        )
        for coverage in parts:
            assert 0 <= run[coverage][0] <= 1 if bands else coverage not in run
    both, regret = (record["worlds"]["levy"][one] for one in ("runs", "regret per round"))
    played = {label: one[adaptive_wider.REGRET] for label, one in both.items()}
    assert [len(one) for one in played.values()] == [2, 2, 1]
    for label, number in (("chance", 2), ("BoTorch on (x, t)", 1)):  # over seeds that both played
        less = sum(played["told nothing"][:number]) - sum(played[label])
        expected = pytest.approx(less / number / 5, abs=1e-9)
        assert regret[label]["told nothing less this"] == expected
    monkeypatch.setattr(adaptive_wider, "play", None)  # nothing is played again
    adaptive_wider.main(everyone)


def test_units_are_those_of_the_first_points():
    """Whose values are then learned from, in their order, at their rounds."""
    trial = wider_worlds.traffic(RECORDS, 0, 8, usual=False)
    player = adaptive_wider.PLAYERS["learning, static"](trial, 3)
    told = []
    for t in range(1, 7):
        point = player.ask(t)
        told.append((point, float(trial.value(point[None], t))))
        player.tell(t, told[-1][1])
    values = torch.tensor([y for _, y in told], dtype=torch.float64)
    first = values[: adaptive_wider.RANDOM_STARTS]
    assert (player.mean, player.scale) == (float(first.mean()), float(first.std()))
    X, y, _, time = (one.tensor() for one in player.state.history)
    torch.testing.assert_close(X, torch.stack([point for point, _ in told]))
    torch.testing.assert_close(y * player.scale + player.mean, values)
    assert (time.diff() == 1).all()


def test_coverage_of_the_lowest_third_is_of_the_places_that_are_the_lowest(monkeypatch):
    """Bands that hold just what is below the median hold all of the lowest third, half of all."""
    trial = wider_worlds.traffic(RECORDS, 0, 6, usual=False)

    def held(player, trial, points, t):
        f = trial.value(points, t)
        return (f < f.median()).double()

    monkeypatch.setattr(adaptive_wider, "_held", held)
    player = adaptive_wider.PLAYERS["GP-UCB told all"]
    found = adaptive_wider.play(player, trial, 0)
    assert found[adaptive_wider.LOWEST] == 1
    f = trial.value(trial.arms, 5)  # the only round that is looked at
    expected = float((f < f.median()).double().mean())
    assert found[adaptive_wider.EVERYWHERE] == pytest.approx(expected)
