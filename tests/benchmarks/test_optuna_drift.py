"""The comparison with Optuna's samplers is resumed, and compares what it says."""

import json

import numpy as np
import pytest

pytest.importorskip("optuna")
from benchmarks.statistics import optuna_drift
from benchmarks.statistics.optuna_drift import Run, World, compared, play

SMALL = ["--trials", "4", "--worlds", "static", "--samplers", "drift", "tpe"]


def test_goes_on_with_what_is_there(tmp_path, monkeypatch):
    path = tmp_path / "drift.json"
    begun = []

    def counted(run):
        begun.append((run.sampler, run.seed))
        return play(run)

    monkeypatch.setattr(optuna_drift, "play", counted)
    optuna_drift.main([*SMALL, "--seeds", "2", "--out", str(path)])
    record = json.loads(path.read_text())
    record["runs"].pop()  # as if stopped before the last run
    path.write_text(json.dumps(record))
    begun.clear()
    optuna_drift.main([*SMALL, "--seeds", "2", "--out", str(path)])
    assert begun == [("tpe", 1)]
    resumed = json.loads(path.read_text())
    assert len(resumed["runs"]) == 4
    assert len(resumed["environments"]) == 2
    assert resumed["worlds"]["static"]["seeds"] == 2
    with pytest.raises(SystemExit, match="'trials': 4"):
        optuna_drift.main(["--trials", "5", "--out", str(path)])
    assert json.loads(path.read_text()) == resumed


def test_a_run_is_the_same_whenever_it_is_made():
    run = Run("wander", "tpe", 3, trials=14, workers=2)
    assert play(run)["regret"] == play(run)["regret"]


def test_compared_on_the_seeds_that_all_have():
    totals = {"drift": [1.0, 2.0, 4.0], "tpe": [4.0, 4.0]}
    runs = [
        {"sampler": sampler, "seed": seed, "regret": total}
        | dict.fromkeys(optuna_drift.MEANS[1:], 0)
        for sampler, all_of_it in totals.items()
        for seed, total in enumerate(all_of_it)
    ]
    found = compared(runs, ["drift", "tpe"])
    assert found["seeds"] == 2
    assert found["drift"]["regret"] == 1.5
    more = found["tpe less drift"]
    assert more["mean"] == 2.5
    assert more["standard error"] == pytest.approx(np.std([3, 2], ddof=1) / 2**0.5)


@pytest.mark.parametrize("name", optuna_drift.WORLDS)
def test_no_value_is_below_the_best(name):
    world = World(name, seed=1, trials=30)
    random = np.random.default_rng(0)
    for trial in (0, 11, 29):
        values = [
            world.value(random.uniform(size=2), int(random.integers(3)), trial) for _ in range(300)
        ]
        # The best is among whole numbers; between these a value may be a little below.
        assert min(values) > world.best(trial) - 0.01
        assert 0 <= world.best(trial) < 0.5
