"""The comparison with other optimisers: worlds, clocks, loops, paired differences and the page."""

import numpy as np
import pytest
import torch

from benchmarks.peers.__main__ import summary
from benchmarks.peers.leaders import Gap, gap_of, verdict
from benchmarks.peers.loops.botorch_loops import FittedDecay, Static, TimeAsInput
from benchmarks.peers.page import PAGE, stored, write_page
from benchmarks.peers.play import play
from benchmarks.peers.pooling import pooled
from benchmarks.peers.protocol import Peer
from benchmarks.peers.worlds import WORLDS

MOVING = ["turning", "jumping", "wandering", "drifting-10", "gmpb-f8"]
MOVING += ["slice-rastrigin", "slice-eggholder"]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [*MOVING, "static"])
def test_no_value_exceeds_the_best_of_a_world(name):
    world, same, other = WORLDS[name](3), WORLDS[name](3), WORLDS[name](4)
    X = np.random.default_rng(0).random((2_000, world.dim))
    for now in (1.0, 41.0, 60.0, 7.0):  # back in time, too
        values = world.values(X, now)
        assert values.max() <= world.best(now)
        assert np.array_equal(values, same.values(X, now))
        assert np.array_equal(values, other.values(X, now)) is name.startswith("slice-")
    assert np.array_equal(world.values(X, 1.0), world.values(X, 50.0)) is (name == "static")


class Centre(Peer):
    """Always plays the centre."""

    def ask(self, now):
        return np.full(self.dim, 0.5)

    def tell(self, x, now, y):
        pass


@pytest.mark.parametrize(
    ("unit", "charged", "queries"),
    [(None, None, 60), (1.0, None, 15), (0.25, 0.24, 60), (0.25, 0.5, 30), (0.25, 99.0, 1)],
)
def test_computing_time_costs_queries_and_the_last_point_is_held(
    unit, charged, queries, monkeypatch
):
    times = iter(np.arange(0, 1e4, 2.0))  # four seconds of asking and telling in a round
    monkeypatch.setattr("benchmarks.peers.play.time.process_time", lambda: next(times))
    found = play(Centre(2, 0), "turning", 0, unit=unit, charged=charged)
    world, centre = WORLDS["turning"](0), np.full((1, 2), 0.5)
    regret = [world.best(t) - world.values(centre, float(t))[0] for t in range(1, 61)]
    assert found["queries"] == queries
    assert found["regret_per_query"] == pytest.approx(np.mean(regret[:: 60 // queries]))
    assert found["regret_per_unit_of_time"] == pytest.approx(np.mean(regret))
    fewer = play(Centre(2, 0), "turning", 0, most=7)
    assert fewer["regret_of_each_query"] == pytest.approx(regret[:7], abs=1e-5)


def a_run(peer, seed, regret, **more):
    regrets = dict.fromkeys(("regret_per_query", "regret_per_unit_of_time"), regret)
    costs = {"queries": 60, "seconds_per_round": 1.0, "peak_memory_MiB": 1.0}
    origin = {"versions": {}, "commit": "0", "device": "a machine"}
    own = {"peer": peer, "world": "w", "seed": seed, "seconds_per_unit": None}
    return own | regrets | costs | origin | {"processor_seconds_per_round": 0.5} | more


def test_differences_are_paired_by_seed():
    runs = [a_run("adaptive", seed, seed) for seed in range(3)]
    runs += [a_run("other", seed, seed + add) for seed, add in ((1, 2.0), (2, 4.0), (9, 50.0))]
    runs += [a_run("other", 1, 90.0, seconds_per_unit=0.1)]
    worlds = summary(runs)
    row = worlds["w"]["other"]
    assert (row["seeds"], row["pairs"], row["adaptive"]) == (3, 2, 1.5)
    assert row["above_adaptive"] == 3.0
    assert row["above_adaptive_error"] == pytest.approx(1.0)
    assert worlds["w, 0.1 s"]["other"]["regret"] == 90.0


def test_seeds_of_two_calls_count_as_seeds_of_a_single_call():
    random = np.random.default_rng(0)
    runs = [
        a_run(peer, seed, random.normal(), commit=str(seed))
        for peer in ("adaptive", "other", "alone")
        for seed in range(7)
        if (peer, seed) not in {("adaptive", 2), ("adaptive", 5)}
    ]
    at_once = summary(runs)["w"]
    for parts in ((range(3), range(3, 7)), ((0,), (1, 2, 3), (4, 5, 6)), ((2,), (5,), (0, 1))):
        worlds = {}
        for part in [*parts, range(7)]:
            worlds = summary([run for run in runs if run["seed"] in part], worlds)
        for name, row in at_once.items():
            for figure, value in row.items():
                number = isinstance(value, float)
                found = worlds["w"][name][figure]
                assert found == (pytest.approx(value, abs=1e-12) if number else value)
    row = summary([a_run("other", 1, 2.0)])["w"]["other"]
    with pytest.raises(ValueError, match=r"seeds \[1\] are in both"):
        pooled(row, row)


def test_pairs_with_an_earlier_version_do_not_count():
    runs = [a_run(peer, seed, seed + add) for peer, add in (("adaptive", 0.0), ("other", 1.0))
            for seed in range(3)]  # fmt: skip
    ours, other = (summary(runs)["w"][name] for name in ("adaptive", "other"))
    assert gap_of(other, ours) == Gap(1.0, 0.0, True)
    newer = ours | {"regret_per_unit_of_time": 0.5, "commits": ["1"]}
    assert gap_of(other, newer) == Gap(1.5, pytest.approx((2 / 3) ** 0.5), False)
    assert str(gap_of(other, newer)) == "+1.50 ± 0.82 u"
    assert gap_of(other | {"played": [0]}, newer).paired is False


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ({"a": (1.0, 0.3), "b": (9.0, 0.5)}, "ahead"),
        ({"a": (1.0, 0.4), "b": (9.0, 0.5)}, "level with `a`"),
        ({"a": (1.0, 0.1), "b": (2.0, 1.5)}, "level with `b`"),
        ({"a": (-1.0, 0.6), "b": (2.0, 1.5), "c": (9.0, 1.0)}, "level with `a`, `b`"),
        ({"a": (-1.0, 0.4), "b": (2.0, 1.5)}, "level with `a`, `b`"),
        ({"a": (-1.0, 0.3), "b": (2.0, 1.5)}, "**behind** `a`"),
    ],
)
def test_ours_is_ahead_where_it_is_ahead_of_all(gaps, expected):
    assert verdict({name: Gap(*gap, paired=True) for name, gap in gaps.items()}) == expected


def test_the_page_is_written_from_the_files(tmp_path):
    write_page(
        stored("peers.json"),
        stored("statistics_regret_of_optuna_samplers.json"),
        tmp_path / "page.md",
    )
    page = PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page
    rows = [line for line in page.partition("## Setup")[0].splitlines() if "| ahead" in line]
    assert f"On {len(rows)} of 25 worlds ours is ahead" in page
    runs = stored("statistics_regret_of_optuna_samplers.json")["runs"]
    regret = {(run["world"], run["sampler"], run["seed"]): run["regret"] for run in runs}
    gaps = np.array([regret["jumps", "tpe", i] - regret["jumps", "drift", i] for i in range(20)])
    row = next(line for line in page.splitlines() if line.startswith("| jumps | `TPESampler`"))
    assert f"| {gaps.mean():+.1f} ± {gaps.std(ddof=1) / 20**0.5:.1f} |" in row


@pytest.fixture(autouse=True)
def prepared():
    before = torch.get_default_dtype()
    Static.prepare()
    yield
    torch.set_default_dtype(before)


def observed(kind, peak):
    """A loop with 24 measurements of a bump at `peak(t)` along the unit interval."""
    loop, generator = kind(1, 0), np.random.default_rng(1)
    places = np.tile(np.linspace(0, 1, 8), 3)[::-1] + generator.uniform(-0.06, 0.06, 24)
    for now, place in enumerate(places.clip(0, 1), start=1):
        value = 10 * np.exp(-((place - peak(now)) ** 2) / 0.04)
        loop.tell(np.array([place]), float(now), value + generator.normal(0, 0.2))
    return loop


@pytest.mark.few("Static")
@pytest.mark.parametrize("kind", [Static, TimeAsInput, FittedDecay])
def test_loops_maximise_and_prefer_new_data(kind):
    assert observed(kind, lambda now: 0.7).ask(25.0) == pytest.approx(0.7, abs=0.12)
    if kind is not Static:  # until round 12 the bump is elsewhere
        loop = observed(kind, lambda now: 0.15 if now <= 12 else 0.8)
        assert loop.ask(25.0) == pytest.approx(0.8, abs=0.15)


def test_likelihood_and_incumbent_of_the_fitted_decay():
    loop = observed(FittedDecay, lambda now: 0.7)
    model = loop._from(1.0)
    X, Y = model.train_inputs[0], model.train_targets
    with torch.no_grad():
        covariance = model.covar_module(X).to_dense() + model.likelihood.noise * torch.eye(24)
        normal = torch.distributions.MultivariateNormal(model.mean_module(X), covariance)
        exact = float(normal.log_prob(Y)) / 24
        assert loop._likelihood(model) == pytest.approx(exact, rel=1e-8)
        lattice = torch.stack([torch.linspace(0, 1, 501), torch.full((501,), 25.0)], -1)
        highest = float(model.posterior(lattice).mean.max())
    assert loop._best(model, 25.0) == pytest.approx(highest, abs=1e-3)
