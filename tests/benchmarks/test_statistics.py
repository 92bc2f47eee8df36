"""The statistics: their worlds, their comparisons, and small runs of every script."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

pytest.importorskip("optuna")
from benchmarks.peers.loops.ours import Adaptive
from benchmarks.peers.play import play
from benchmarks.statistics import (
    box_worlds,
    cost_after_pruning,
    coverage_of_bands,
    delay_of_detection,
    regret_against_commit,
    regret_of_later_algorithms,
    regret_of_optuna_samplers,
    regret_on_boxes,
    regret_on_grid,
    regret_on_square,
)
from benchmarks.statistics.paired import ADAPTIVE
from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger, GLRTrigger
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import GPStrategy, Grid
from botorch_tv.strategies.adaptive import WIDER
from botorch_tv.test_functions import DriftingBranin


def test_two_peaks_follow_their_formula():
    played = regret_on_square.world("two peaks", range(3), 60)
    X = torch.rand(3, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for t in (1, 31, 60):
        angle = 2 * math.pi * (t - 1) / 120
        centre = torch.tensor([0.5 + 0.3 * math.cos(angle), 0.5 + 0.3 * math.sin(angle)])
        moving = 10 * torch.exp(-(X - centre).square().sum(-1) / 0.08)
        static = 6 * torch.exp(-(X - 0.2).square().sum(-1) / 0.045)
        torch.testing.assert_close(played.value(X, t), 50 + moving + static, atol=1e-6, rtol=0)


def test_rate_of_the_switching_world():
    """Neighbouring rounds correlate by the root of 1 - ε, and each is a draw of the kernel."""
    grid = Grid.regular(points=4, dim=1, bounds=[(0.0, 9.0)])
    settings = {"rates": (0.0, 0.75), "change": 4, "noise": 0.0}
    world = regret_on_grid.SwitchingWorld(grid, kernel=unit_kernel("se", 0.2), **settings)
    stream = Stream(0, "world", 0, 4000, dtype=torch.float64, device=torch.device("cpu"))
    at = [f.clone() for f, _ in zip(world.rounds(stream), range(6))]
    torch.testing.assert_close(at[2], at[0], rtol=0, atol=0)
    for before, after in itertools.pairwise(at[2:]):
        assert float((before * after).mean()) == pytest.approx(0.5, abs=0.04)
        assert float(after.square().mean()) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("problem", [box_worlds.hartmann, DriftingBranin])
def test_no_value_exceeds_the_optimum_of_an_orbit(problem):
    trial = box_worlds.drifting(problem, 3, 5)
    U = torch.rand(500, trial.dim, dtype=torch.float64)
    function = problem(motion=box_worlds.Orbit(period=box_worlds.PERIOD), horizon=999.0)
    lower, upper = function.spatial_bounds
    for t in (1, 5):
        best = (function.path(3.0 * box_worlds.APART + t) - lower) / (upper - lower)
        if problem is not DriftingBranin:  # which has three optima
            assert float(trial.value(best[None], t)) == pytest.approx(trial.highest(t), abs=1e-8)
        assert float(trial.value(U, t).max()) < trial.highest(t)


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", [EventTrigger(0.5), GLRTrigger(0.5)], ids=repr)
def test_first_triggers_are_first_resets(rule):
    observed = delay_of_detection.play(0.8, "GP-UCB", 12, seed=1)
    strategy = GPStrategy(kernel=unit_kernel("se", 0.2), noise=delay_of_detection.NOISE)
    strategy = replace(strategy, width=Logarithmic(c1=0.4, c2=4.0), retention=rule)
    state = strategy.init(Grid.regular(points=20, dim=2), batch_shape=(12,))
    first = torch.full((12,), torch.inf, dtype=torch.float64)
    for t in range(delay_of_detection.BEFORE + delay_of_detection.AFTER):
        state, info = strategy.tell(state, strategy.ask(state), observed.y[:, t])
        first = torch.where(info.reset & first.isinf(), t + 1.0, first)
    assert torch.equal(delay_of_detection.first_triggers(rule, observed), first)
    assert bool(first.isfinite().any())


@pytest.mark.full
def test_optuna_runs_resume_and_are_reproducible(tmp_path, monkeypatch):
    path, played = tmp_path / "drift.json", []
    play = regret_of_optuna_samplers.play
    monkeypatch.setattr(
        regret_of_optuna_samplers, "play", lambda run: played.append(run) or play(run)
    )
    small = ["--trials", "4", "--worlds", "static", "--samplers", "drift", "tpe"]
    small += ["--seeds", "2", "--out", str(path)]
    record = regret_of_optuna_samplers.main(small)
    figures = record["worlds"]["static"]
    regret = {
        name: [run["regret"] for run in record["runs"] if run["sampler"] == name]
        for name in ("drift", "tpe")
    }
    gaps = np.subtract(regret["tpe"], regret["drift"])
    assert figures["tpe minus drift"]["mean"] == pytest.approx(gaps.mean())
    assert figures["tpe minus drift"]["standard error"] == pytest.approx(gaps.std(ddof=1) / 2**0.5)
    path.write_text(json.dumps(record | {"runs": record["runs"][:-1]}))  # stopped before the end
    played.clear()
    again = regret_of_optuna_samplers.main(small)
    assert [(run.sampler, run.seed) for run in played] == [("tpe", 1)]
    assert [run["regret"] for run in again["runs"]] == [run["regret"] for run in record["runs"]]
    with pytest.raises(SystemExit, match="'trials': 4"):
        regret_of_optuna_samplers.main(["--trials", "5", "--out", str(path)])


def test_both_samplers_continue_the_same_pruned_studies(tmp_path, monkeypatch):
    monkeypatch.setattr(cost_after_pruning, "BEFORE", 7)
    monkeypatch.setattr(cost_after_pruning, "AFTER", 1)
    record = cost_after_pruning.main(["--seeds", "2", "--out", str(tmp_path / "pruned.json")])
    tpe, drift = record["tpe"], record["drift"]
    assert tpe["pruned before"] == drift["pruned before"]
    assert 0 < tpe["pruned before"]["mean"] < 7
    assert tpe["mean cost"] != drift["mean cost"]
    assert json.loads((tmp_path / "pruned.json").read_text()) == record


def test_runs_of_two_commits_are_paired_and_resumed(tmp_path, monkeypatch):
    random, played = np.random.default_rng(0), []

    def made_up(world, seeds, rounds):
        played.extend(seeds)
        every = random.random((len(seeds), rounds)) + (world == "static")
        return [{"regret": float(np.mean(each)), "each": list(each)} for each in every]

    monkeypatch.setattr(regret_against_commit, "on_box", made_up)
    given = ["--runs", str(tmp_path), "--worlds", "static", "gmpb-f2-100", "--out"]
    given.append(str(tmp_path / "record.json"))
    regret_against_commit.main([*given, "--label", "before", "--seeds", "3", "--rounds", "250"])
    regret_against_commit.main([*given, "--seeds", "2", "--rounds", "300"])
    played.clear()
    worlds = regret_against_commit.main([*given, "--seeds", "3", "--rounds", "300"])["worlds"]
    assert played == [102, 102]  # the seed that was missing, on both worlds
    now, before = (
        [
            regret_against_commit.stored(tmp_path, label, "static")[seed]["regret"]
            for seed in (100, 101, 102)
        ]
        for label in ("now", "before")
    )
    pair = worlds["static"]["now"]["against before"]
    assert pair["ratio"] == pytest.approx(sum(now) / sum(before))
    test = stats.ttest_rel(now, before, alternative="greater")
    assert pair["p of worse"] == pair["p of worse, Holm"] == pytest.approx(test.pvalue)
    runs = regret_against_commit.stored(tmp_path, "now", "gmpb-f2-100")
    offline, last = [], []
    for run in runs.values():  # whole environments of the shorter runs
        for start in (0, 100):
            offline += [min(run["each"][start : stop + 1]) for stop in range(start, start + 100)]
            last.append(min(run["each"][start : start + 100]))
    found = {name: rows["now"]["mean"] for name, rows in worlds.items()}
    assert found["gmpb-f2-100, offline error"] == pytest.approx(np.mean(offline))
    assert found["gmpb-f2-100, E_bbc"] == pytest.approx(np.mean(last))
    adjusted = regret_against_commit.holm({"a": 0.04, "b": 0.01, "c": 0.03})
    assert adjusted == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})


@pytest.mark.full
def test_a_batch_of_seeds_plays_as_loops():
    for seed, run in zip((3, 5), regret_against_commit.on_box("turning", (3, 5), 9)):
        found = play(Adaptive(2, seed), "turning", seed, most=9)["regret_of_each_query"]
        assert run["each"] == pytest.approx(found, abs=1e-5)


SMALL = {
    regret_on_square: ["--worlds", "two peaks", "--seeds", "2", "--horizon", "6"],
    regret_on_grid: ["--worlds", "switching", "sine", "--trials", "2", "--horizon", "6"],
    regret_on_boxes: ["--worlds", "levy", "--seeds", "1", "--horizon", "5"],
    regret_of_later_algorithms: ["--trials", "2", "--horizon", "6"],
    delay_of_detection: ["--trials", "30"],
}


@pytest.mark.full
@pytest.mark.parametrize("script", SMALL, ids=lambda script: script.__name__)
def test_a_script_writes_its_record(script, tmp_path, monkeypatch):
    monkeypatch.setattr(regret_on_grid, "POINTS", 5)
    monkeypatch.setattr(regret_of_later_algorithms, "POINTS", 5)
    monkeypatch.setattr(delay_of_detection, "SIZES", (1.0,))
    monkeypatch.setattr(delay_of_detection, "DELTAS", (0.01, 0.5))
    branin = regret_on_boxes._function(DriftingBranin)
    monkeypatch.setitem(regret_on_boxes.WORLDS, "levy", branin)
    path = tmp_path / "found.json"
    record = script.main([*SMALL[script], "--out", str(path)])
    assert json.loads(path.read_text(encoding="utf-8")).keys() == record.keys()
    for world in (
        record["worlds"].values()
        if script not in (regret_of_later_algorithms, delay_of_detection)
        else ()
    ):
        assert ADAPTIVE in world["runs"]
        assert all(figures["mean"] > 0 for figures in world["regret per round"].values())
    if script in (regret_on_square, regret_on_boxes):
        monkeypatch.setattr(script, "play", None)  # nothing is played again
        assert script.main([*SMALL[script], "--out", str(path)])["worlds"] == record["worlds"]


@pytest.mark.full
def test_bands_are_wider_than_those_of_the_model():
    problem = 2, None, 8, 0.1, lambda X, t: -(X - 0.3).square().sum(-1) - 0.01 * t
    found = coverage_of_bands.coverage(problem, 0)
    assert 1.0 < found["width"] < (1 + WIDER) ** 0.5
    for figure, covered in found["bands"].items():
        assert 0 <= found["of the model"][figure] <= covered <= 1
