"""The comparison with living peers: its worlds, its clocks, and how differences are paired."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.peers.__main__ import summary
from benchmarks.peers.leaders import best_peer, verdict
from benchmarks.peers.mixed import mixed
from benchmarks.peers.page import PAGE, stored, write_page
from benchmarks.peers.peers import PEERS
from benchmarks.peers.play import play
from benchmarks.peers.pooling import pooled
from benchmarks.peers.protocol import Peer, Random
from benchmarks.peers.worlds import WORLDS
from benchmarks.statistics.optuna_drift import compared


@pytest.mark.parametrize("name", ["turning", "jumping", "resting", "wandering", "gmpb-f8"])
def test_nothing_is_above_the_best_of_a_world(name):
    world, same, other = WORLDS[name](3), WORLDS[name](3), WORLDS[name](4)
    X = np.random.default_rng(0).random((2_000, world.dim))
    for now in (1.0, 41.0, 60.0, 7.0):  # back in time, too
        values = world.values(X, now)
        assert values.max() <= world.best(now)
        assert np.array_equal(values, same.values(X, now))
        assert not np.array_equal(values, other.values(X, now))
    moves = not np.array_equal(world.values(X, 1.0), world.values(X, 50.0))
    assert moves is (name != "resting")


@pytest.mark.parametrize("name", ["slice-rastrigin", "slice-eggholder"])
def test_a_slice_moves_with_time_and_is_the_same_for_all_seeds(name):
    world, other = WORLDS[name](3), WORLDS[name](4)
    X = np.random.default_rng(0).random((2_000, world.dim))
    for now in (1.0, 41.0, 100.0):
        assert world.values(X, now).max() <= world.best(now)
        assert np.array_equal(world.values(X, now), other.values(X, now))
    assert not np.array_equal(world.values(X, 1.0), world.values(X, 50.0))
    assert np.sqrt(20) * world.noise == pytest.approx(
        np.concatenate([world.values(X, now) for now in np.linspace(0, 100, 201)]).std(), rel=0.05
    )


class Slow(Peer):
    """Stays in the middle, and thinks for as long as it is told."""

    def ask(self, now):
        return np.full(self.dim, 0.5)

    def tell(self, x, now, y):
        pass


def test_both_clocks_agree_where_nobody_thinks():
    found = play(Slow(2, 0), "turning", 0)
    world = WORLDS["turning"](0)
    middle = np.full((1, 2), 0.5)
    regret = [world.best(t) - world.values(middle, float(t))[0] for t in range(1, 61)]
    assert found["queries"] == 60
    assert found["regret_per_query"] == pytest.approx(np.mean(regret))
    assert found["regret_per_unit_of_time"] == pytest.approx(np.mean(regret))


def test_thinking_costs_queries_and_the_last_point_is_held(monkeypatch):
    times = iter(np.arange(0, 1e4, 2.0))  # every look at the clock is two seconds later
    monkeypatch.setattr("benchmarks.peers.play.time.process_time", lambda: next(times))
    found = play(Slow(2, 0), "turning", 0, unit=1.0)  # asked and told: four seconds a round
    world = WORLDS["turning"](0)
    middle = np.full((1, 2), 0.5)
    regret = [world.best(t) - world.values(middle, float(t))[0] for t in range(1, 61)]
    assert found["queries"] == 15
    assert found["regret_per_query"] == pytest.approx(np.mean(regret[::4]))
    assert found["regret_per_unit_of_time"] == pytest.approx(np.mean(regret))


@pytest.mark.parametrize(("charged", "queries"), [(0.24, 60), (0.5, 30), (1.0, 15), (99.0, 1)])
def test_a_cost_that_is_given_is_charged_whatever_was_measured(charged, queries):
    world, middle = WORLDS["turning"](0), np.full((1, 2), 0.5)
    regret = [world.best(t) - world.values(middle, float(t))[0] for t in range(1, 61)]
    found = play(Slow(2, 0), "turning", 0, unit=0.25, charged=charged)
    assert found["queries"] == queries
    assert found["seconds_charged"] == charged
    assert found["regret_per_query"] == pytest.approx(np.mean(regret[:: 60 // queries]))
    assert found["regret_per_unit_of_time"] == pytest.approx(np.mean(regret))


def a_run(peer, seed, regret, world="w", unit=None):
    return {
        "peer": peer,
        "world": world,
        "seed": seed,
        "seconds_per_unit": unit,
        "regret_per_query": regret,
        "regret_per_unit_of_time": regret,
        "queries": 60,
        "seconds_per_round": 1.0,
        "processor_seconds_per_round": 0.5,
        "peak_memory_MiB": 1.0,
        "versions": {},
        "commit": "0",
        "device": "a machine",
    }


def test_differences_are_paired_by_seed():
    runs = [a_run("nothing", seed, seed) for seed in range(3)]
    runs += [a_run("other", seed, seed + add) for seed, add in ((1, 2.0), (2, 4.0), (9, 50.0))]
    runs += [a_run("other", 1, 90.0, unit=0.1)]
    row = summary(runs)["w"]["other"]
    assert row["above_nothing"] == 3.0
    assert row["above_nothing_error"] == pytest.approx(1.0)
    assert (row["seeds"], row["pairs"]) == (3, 2)
    assert row["nothing"] == 1.5
    assert "above_nothing" not in summary(runs)["w"]["nothing"]
    assert summary(runs)["w, 0.1 s"]["other"]["regret"] == 90.0
    given = [a_run("other", 1, 80.0, unit=0.1) | {"seconds_charged": 0.3}]
    assert summary(runs + given)["w, 0.1 s at 0.3 s a query"]["other"]["regret"] == 80.0
    assert summary(runs + given)["w, 0.1 s"]["other"]["regret"] == 90.0


def test_seeds_of_two_calls_count_as_those_of_one():
    chance = np.random.default_rng(0)
    runs = [
        a_run(peer, seed, chance.normal())
        | {"commit": str(seed), "processor_seconds_per_round": chance.random()}
        for peer in ("nothing", "other", "alone")
        for seed in range(7)
        if (peer, seed) not in {("nothing", 2), ("nothing", 5)}
    ]
    at_once = summary(runs)
    for parts in (
        (range(3), range(3, 7)),
        ((0,), (1, 2, 3), (4, 5, 6)),
        ((2,), (5,), (0, 1, 3, 4, 6)),
    ):
        told = {}
        for part in parts:
            told = summary([one for one in runs if one["seed"] in part], told)
            told = summary([one for one in runs if one["seed"] in part], told)  # counted once
        for name, row in at_once["w"].items():
            assert set(told["w"][name]) == set(row)
            for figure, value in row.items():
                if isinstance(value, float):
                    assert told["w"][name][figure] == pytest.approx(value, abs=1e-12)
                else:
                    assert told["w"][name][figure] == value


def test_a_seed_in_both_rows_is_refused():
    row = summary([a_run("other", 1, 2.0)])["w"]["other"]
    with pytest.raises(ValueError, match=r"seeds \[1\] are in both"):
        pooled(row, row)


def a_record(gaps):
    """Ours at 1 in every world, `other` above it by the gaps given, and `dear` on one seed."""
    runs = [a_run("nothing", seed, 1.0, world) for world in gaps for seed in range(3)]
    runs += [
        a_run("other", seed, 1.0 + gap + 0.1 * (seed - 1), world)
        for world, gap in gaps.items()
        for seed in range(3)
    ]
    runs += [a_run("dear", 0, -9.0, world) for world in [*gaps, "wandering"]]
    runs += [a_run("nothing", 0, 1.0, "wandering")]
    for run in runs:
        run["processor_seconds_per_round"] = {"nothing": 0.1, "other": 0.25, "dear": 4}[run["peer"]]
    facts = {"device": "a machine", "failed": {"other-resting-7": "ValueError: no"}}
    peers = dict.fromkeys(("nothing", "other", "dear"), "one")
    return facts | {"peers": peers, "worlds": summary(runs)}


def test_the_page_says_who_leads_and_who_is_missing(tmp_path):
    file = tmp_path / "page.md"
    write_page(a_record({"turning": 1.0, "jumping": -1.0, "resting": 0.1}), page=file)
    page = file.read_text()
    assert "Of 3 worlds that a peer played on 3 seeds or more, ours" in page
    assert "by 2 standard errors or more on 1 (by 3 or more on 1), level" in page
    assert "than 3: `dear` on turning (-10.00), `dear` on jumping (-10.00), `dear` on" in page
    assert "level with one or more of them on 1 and behind one on 1. Level" in page
    assert "| turning | 1.00 | `other` | 2.00 | +1.00 ± 0.06 | 3 | 1 | ahead (≥ 3) |" in page
    assert "| jumping | 1.00 | `other` | 0.00 | -1.00 ± 0.06 | 3 | 1 | **behind** `other` |" in page
    assert "| wandering | 1.00 | `dear` | -9.00 | -10.00 | 1 | 0 | not judged |" in page
    assert "process: `other` 2.5 to 2.5, `dear` 40.0 to 40.0." in page
    assert "| turning | 3 | 3 | 1 |" in page
    assert "| wandering | 1 |  | 1 |" in page
    assert "- Failed: other-resting-7: ValueError: no." in page
    assert "gmpb-f1," in next(line for line in page.splitlines() if "Not run" in line)


@pytest.mark.parametrize(
    ("gaps", "told"),
    [
        ({"a": (1.0, 0.3), "b": (9.0, 0.5)}, "ahead (≥ 3)"),
        ({"a": (1.0, 0.4), "b": (9.0, 0.5)}, "ahead (≥ 2)"),
        ({"a": (1.0, 0.1), "b": (2.0, 1.5)}, "level with `b`"),  # higher, but on few seeds
        ({"a": (-1.0, 0.6), "b": (2.0, 1.5), "c": (9.0, 1.0)}, "level with `a`, `b`"),
        ({"a": (-1.0, 0.4), "b": (2.0, 1.5)}, "**behind** `a`"),
        ({"a": (1.0, 0.0), "learning": (-1.0, 0.1)}, "ahead (≥ 3)"),
        ({"learning": (-1.0, 0.1)}, "not judged"),
    ],
)
def test_ours_is_ahead_where_it_is_ahead_of_all(gaps, told):
    peers = {
        name: {"pairs": 5, "above_nothing": gap, "above_nothing_error": error}
        for name, (gap, error) in gaps.items()
    }
    seldom = {"pairs": 2, "above_nothing": -9.0, "above_nothing_error": 0.1}
    assert verdict(peers | {"seldom": seldom, "nothing": {}}) == told
    assert best_peer(peers | {"nothing": {}}) == ("a" if "a" in gaps else None)


def test_the_page_is_that_of_the_files(tmp_path):
    files = stored("peers.json"), stored("statistics_optuna_drift.json")
    write_page(*files, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == PAGE.read_text()


def test_optuna_is_told_what_its_runs_say():
    """The difference is paired, and its error is that of the differences."""
    runs = [
        {"world": world, "sampler": sampler, "seed": seed, "regret": regret + base}
        | {"milliseconds": 20.0, "milliseconds of processor": 10.0}
        for world, base in (("wander", 10.0), ("jumps", 20.0), ("static", 30.0))
        for sampler, regrets in (("drift", (1.0, 2.0)), ("tpe", (4.0, 7.0)), ("gp", (9.0, 9.0)))
        for seed, regret in enumerate(regrets)
    ]
    record = {
        "parameters": {"trials": 7, "workers": 3},
        "environments": [{"commit": "abc"}],
        "worlds": {
            world: compared([one for one in runs if one["world"] == world], ("drift", "tpe", "gp"))
            for world in ("wander", "jumps", "static")
        },
    }
    lines = mixed(record)
    assert "7 trials by 3 workers" in lines[0]
    assert "Commit abc;" in lines[0]
    assert "| jumps | `DriftSampler` | 2 | 21.5 ± 0.5 |  | 20 | 10 |" in lines
    assert "| jumps | `TPESampler` | 2 | 25.5 ± 1.5 | +4.0 ± 1.0 | 20 | 10 |" in lines


def test_a_run_is_a_line(tmp_path):
    command = [sys.executable, "-m", "benchmarks.peers.play", "random", "resting", "2"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert told["regret_per_query"] == play(Random(2, 2), "resting", 2)["regret_per_query"]
    assert set(told["versions"]) == {"numpy"}


def test_a_run_is_charged_what_it_is_told():
    command = [sys.executable, "-m", "benchmarks.peers.play", "random", "resting", "2", "0.1", "1"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert (told["seconds_per_unit"], told["seconds_charged"], told["queries"]) == (0.1, 1.0, 6)


def test_every_peer_says_what_it_is_and_whose_versions_count():
    for name, entry in PEERS.items():
        assert entry.what, name
        assert entry.versions, name
        assert entry.loop.count(":") == 1, name
