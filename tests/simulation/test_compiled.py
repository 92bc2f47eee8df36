import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from helpers.compiled_strategies import (
    KINDS,
    NOISE,
    SCATTERED,
    beside_the_recursion,
    rough,
    smooth,
    ucb,
)
from torch import Tensor

from botorch_tv.acquisition import IGPUCB, Greedy, Realized, UpperConfidence
from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.forgetting import EventTrigger, ExponentialWeights, Markov, SlidingWindow, Wiener
from botorch_tv.gp.arms import LEAST_NOISE, REFRESH_ROUNDS
from botorch_tv.simulation import AbruptWorld, MarkovWorld, StudyResult, rules, run_study
from botorch_tv.simulation.rules import (
    LEAST_LOST,
    MOST_ARMS,
    MOST_SLOTS,
    Compilable,
    Rules,
    compilable,
    require_compiled,
)
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.worlds import GridWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import Grid, State, Strategy, gp_ts

pytest.importorskip("numba")
from botorch_tv.simulation import compiled as compiled_rounds
from botorch_tv.simulation.compiled import CompiledTable

TRIALS, HORIZON = 6, 80
DOMAINS = {"square": Grid.regular(10, 2), "odd": Grid.regular(7, 2)}
FEW = ("static", "window", "walking", "moving and triggered", "gain and resetting")


def study(world: GridWorld, strategies: dict[str, Strategy], **options: object) -> StudyResult:
    usual = {"trials": TRIALS, "horizon": HORIZON, "progress": False}
    return run_study(world, strategies, **(usual | options))  # type: ignore[arg-type]


def markov(name: str, kind: type[MarkovWorld] = MarkovWorld, epsilon: float = 0.05) -> MarkovWorld:
    return kind(DOMAINS[name], kernel=smooth(), epsilon=epsilon, noise=NOISE)


def require_same(first: StudyResult, second: StudyResult) -> None:
    for name in ("index", "resets", "side_queries"):
        assert first.data[name].dtype == second.data[name].dtype
        np.testing.assert_array_equal(first.data[name].values, second.data[name].values, name)
    np.testing.assert_allclose(first.regret.values, second.regret.values, rtol=0, atol=1e-12)


def require_compiled_like_eager(world: GridWorld, strategies: dict[str, Strategy]) -> StudyResult:
    eager, compiled = (study(world, strategies, compiled=flag) for flag in (False, True))
    require_same(eager, compiled)
    return compiled


PLACE = torch.linspace(0, 1, 9, dtype=torch.float64) ** 2
ALONG = torch.exp(-0.5 * ((PLACE[:, None] - PLACE) / 0.8).square())
SKEWED = torch.kron(ALONG, ALONG)
"""Correlations along a line that change if the line is reversed."""


# A kind has its rounds on a product and elsewhere; other domains differ in their basis only.
@pytest.mark.few("scattered", "skewed product")
@pytest.mark.parametrize(
    ("domain", "kernel", "noise", "kinds"),
    [
        pytest.param(Grid.regular(10, 2), smooth(0.8), NOISE, FEW, id="even product"),
        pytest.param(Grid.regular(11, 2), smooth(0.8), NOISE, KINDS, id="odd product"),
        pytest.param(Grid.regular(9, 2), SKEWED, NOISE, FEW, id="skewed product"),
        pytest.param(Grid.regular(7, 2), rough(), 0.05, KINDS, id="no product"),
        pytest.param(SCATTERED, smooth(0.2), NOISE, FEW, id="scattered"),
        pytest.param(Grid.regular(6, 3), rough(), 0.05, KINDS, id="cube", marks=pytest.mark.slow),
        pytest.param(Grid.regular(31, 1), smooth(), 0.05, KINDS, id="line", marks=pytest.mark.slow),
    ],
)
def test_rounds_are_those_of_the_recursion(domain, kernel, noise, kinds):
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.05, noise=NOISE)
    strategies = {
        label: ucb(**{"kernel": kernel, "noise": noise} | KINDS[label]) for label in kinds
    }
    compiled, eager, found = both(world, strategies, HORIZON)
    for label, state in eager.states.items():
        trials, running = compiled.trials[label], state.data.running
        np.testing.assert_allclose(trials.mean, running.mean, atol=1e-9, err_msg=label)
        np.testing.assert_allclose(trials.variance, running.variance, atol=1e-9, err_msg=label)
        np.testing.assert_allclose(trials.gain, running.information_gain, atol=1e-9, err_msg=label)
    for label in {"triggered", "walking and triggered"} & {*kinds}:
        assert found[label]["resets"].any(), label


def service(strategy: Strategy, state: State, horizon: int) -> Compilable | None:
    world = MarkovWorld(state.domain, kernel=smooth(), epsilon=0.05, noise=NOISE)
    return compilable(world, strategy, state, horizon)


def both(world, strategies, horizon, trials=TRIALS):
    """The tables of both engines after the same rounds, and the arrays that both store."""
    block = range(3, 3 + trials)
    cpu = torch.device("cpu")
    settings = StudySettings(world, strategies, horizon, 0, torch.float64, cpu, compiled=True)
    compiled = CompiledTable(settings, settings.compilable(strategies), block, threading.Event())
    return compiled, *beside_the_recursion(compiled, settings, block)


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", [1e-6, 1e-4, 0.01])
@pytest.mark.parametrize(("points", "lengthscale"), [(6, 0.3), (11, 0.8)])
def test_the_limit_of_little_noise_depends_on_the_rate(points, lengthscale, noise):
    lost = (1 - noise / LEAST_NOISE) * LEAST_LOST
    domain, kernel = Grid.regular(points, 2), smooth(lengthscale)
    below, above = (
        ucb(kernel=kernel, noise=noise, decay=Markov(share * lost)) for share in (0.999, 1.001)
    )
    assert service(below, below.init(domain), 50) is None
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.05, noise=noise)
    compiled, eager, _ = both(world, {"TV": above}, 100, trials=3)
    found, running = compiled.trials["TV"], eager.states["TV"].data.running
    np.testing.assert_allclose(found.mean, running.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.variance, running.variance, rtol=0, atol=1e-9)


class DoubledWorld(MarkovWorld):
    def rounds(self, stream):
        return (2 * values for values in super().rounds(stream))


class Opened(MarkovWorld):
    def opening(self, stream):
        return self.domain.X[[5, 3]].expand(stream.trials, 2, -1)


class Failing(MarkovWorld):
    def available(self, step, choice):
        return choice % 2 == 0


SAMPLED = gp_ts(kernel=smooth(), noise=NOISE, B=1.0, R=1.0, delta=0.1)
ABRUPT = AbruptWorld(DOMAINS["odd"], functions=GaussianDraw(smooth()), changes=[40], noise=NOISE)
OTHERS = {
    "minimised": (markov("square"), {k: ucb(**KINDS[k], maximize=False) for k in FEW}),
    "abrupt": (ABRUPT, {k: ucb(**KINDS[k]) for k in FEW}),
    "own rounds": (markov("odd", DoubledWorld), {"GP": ucb()}),
    "own opening": (markov("odd", Opened), {"GP": ucb()}),
    "failing": (markov("odd", Failing), {"GP": ucb()}),
    "sampled": (markov("odd"), {"GP": ucb(), "TS": SAMPLED, "TV": ucb(decay=Markov(0.05))}),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", OTHERS)
def test_other_worlds_and_strategies(name):
    require_compiled_like_eager(*OTHERS[name])


def test_chunks_folders_and_workers_change_nothing(tmp_path):
    world = markov("odd")
    strategies = {label: ucb(**KINDS[label]) for label in ("triggered", "moving")}
    whole = study(world, strategies, compiled=True, chunk=TRIALS)
    require_same(whole, study(world, strategies, compiled=True, chunk=1, workers=2))
    # The eager engine starts the study, and the compiled engine resumes it.
    study(world, strategies, compiled=False, trials=2, chunk=2, save_to=tmp_path)
    require_same(whole, study(world, strategies, compiled=True, chunk=2, save_to=tmp_path))
    with ThreadPoolExecutor(2) as pool:
        require_same(whole, study(world, strategies, compiled=True, executor=pool, chunk=3))


class Restless(UpperConfidence):
    def score(self, candidates):
        return super().score(candidates) + 1


class Sometimes(EventTrigger):
    def keep(self, log):
        return super().keep(log)


class Odd(Realized):
    def value(self, context):
        return 2 * super().value(context)


class Doubled(IGPUCB):
    def sqrt_beta(self, context):
        return 2 * super().sqrt_beta(context)


def never(y: Tensor, mean: Tensor, sd: Tensor, noise: float, since: Tensor, delta: float) -> Tensor:
    return torch.zeros_like(y, dtype=torch.bool)


REFUSED = {
    "ages": {"inflation": ExponentialWeights(0.9)},
    "samples": {"exploration": Thompson()},
    "own exploration": {"exploration": Restless()},
    "random ties": {"exploration": UpperConfidence(ties="random")},
    "own gain": {"width": IGPUCB(B=1.0, R=1.0, delta=0.1, gain=Odd())},
    "gain of few rounds": {"width": IGPUCB(B=1.0, R=1.0, delta=0.1, gain=Greedy((0.0, 1.0)))},
    "own width": {"width": Doubled(B=1.0, R=1.0, delta=0.1)},
    "estimates the mean": {"mean": "estimated"},
    "hardly any noise": {"noise": 1e-3},
    "hardly any noise, walking": {"noise": 1e-3, "decay": Wiener(0.03)},
    "regresses": {"inference": "exact"},
    "expires": {"retention": SlidingWindow(5.0, by="time")},
    "two rules": {"retention": (SlidingWindow(5), EventTrigger(0.1))},
    "own rule": {"retention": Sometimes(0.1)},
    "own test": {"retention": EventTrigger(0.1, never)},
    "moving window": {"retention": SlidingWindow(5), "decay": Markov(0.1)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_strategies(name):
    strategy = ucb(**REFUSED[name])
    assert service(strategy, strategy.init(DOMAINS["odd"]), 50) is None


def test_unsupported_dtypes_domains_and_worlds():
    plain, moving = ucb(), ucb(**KINDS["walking"])
    state = plain.init(DOMAINS["odd"])
    assert service(plain, state, 50) is not None
    assert compilable(markov("odd", Failing), plain, state, 50) is None
    assert service(plain, plain.init(DOMAINS["odd"], dtype=torch.float32), 50) is None
    many = Grid(torch.rand(MOST_ARMS + 1, 2).double())
    assert service(plain, plain.init(many), 50) is None
    assert service(moving, moving.init(Grid.regular(50, 2)), MOST_SLOTS + 1) is None


@pytest.mark.parametrize("label", ["static", "triggered", "window"])
def test_slots_grow(label, monkeypatch):
    monkeypatch.setattr("botorch_tv.simulation.compiled.FIRST_SLOTS", 3)
    strategies = {label: ucb(**KINDS[label])}
    compiled = require_compiled_like_eager(markov("square", epsilon=0.1), strategies)
    assert max(len(set(arms)) for arms in compiled.data["index"].values[0].tolist()) > 6


def test_trials_with_too_many_arms_are_played_by_the_recursion(monkeypatch):
    monkeypatch.setattr("botorch_tv.simulation.compiled.MOST_SLOTS", 5)
    strategies = {"few": ucb(**KINDS["always resetting"]), "many": ucb()}
    require_compiled_like_eager(markov("square", epsilon=0.1), strategies)


def test_large_studies_compile_and_small_studies_are_recorded_by_default(monkeypatch):
    world = MarkovWorld(Grid.regular(50, 2), kernel=smooth(), epsilon=0.05, noise=NOISE)
    enough, cpu, gpu = rules.WORTH_COMPILING // 2500 + 1, torch.device("cpu"), torch.device("cuda")
    assert require_compiled(None, world, 1, enough, cpu)
    assert not require_compiled(None, world, 1, enough // 2, cpu)
    assert require_compiled(True, world, 1, 1, cpu)
    assert not require_compiled(False, world, 1, enough, cpu)
    monkeypatch.setattr(rules, "find_spec", lambda name: None)
    assert not require_compiled(None, world, 1, 10 * enough, cpu)
    assert require_compiled(True, world, 4096, 1, gpu)
    assert require_compiled(None, world, 512, 10 * enough, gpu)
    assert not require_compiled(None, world, 4096, 10 * enough, gpu)
    with pytest.raises(ImportError, match=r"pip install 'botorch-tv\[fast\]'"):
        study(world, {"GP": ucb()}, compiled=True)


def test_digest_of_imports_of_machine_code():
    brought = repr([Rules._fields, REFRESH_ROUNDS])
    digest = hashlib.sha256(brought.encode()).hexdigest()[:12]
    assert digest == compiled_rounds.COMPILED_IN, f"write {digest} into COMPILED_IN"
