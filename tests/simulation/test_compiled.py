"""Compiled rounds make the choices of the others, or leave them to these."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from kinds import KINDS, NOISE, SCATTERED, rough, smooth, ucb
from torch import Tensor
from tqdm.auto import tqdm

from botorch_tv.acquisition import (
    IGPUCB,
    Greedy,
    Realized,
    UpperConfidence,
)
from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    Markov,
    SlidingWindow,
    Wiener,
)
from botorch_tv.gp.arms import LEAST_NOISE, REFRESH_ROUNDS
from botorch_tv.gp.basis import ProductBasis
from botorch_tv.simulation import AbruptWorld, MarkovWorld, StudyResult, rules, run_study
from botorch_tv.simulation.recorders import Diagnosis
from botorch_tv.simulation.rounds import EagerTable, Place, Progress, play_block
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
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import GridWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import Grid, State, Strategy, gp_ts

pytest.importorskip("numba")
from botorch_tv.simulation import compiled as compiled_rounds
from botorch_tv.simulation.compiled import (
    CompiledTable,
    _expand,
    factors,
)

TRIALS, HORIZON = 6, 110
DOMAINS = {
    "square": Grid.regular(10, 2),
    "odd": Grid.regular(7, 2),
    "cube": Grid.regular(6, 3),
    "line": Grid.regular(31, 1),
    "scattered": SCATTERED,
}


FEW = ("static", "window", "walking", "moving and triggered", "gain and resetting")


def study(world: GridWorld, strategies: dict[str, Strategy], **options: object) -> StudyResult:
    usual = {"trials": TRIALS, "horizon": HORIZON, "progress": False}
    return run_study(world, strategies, **(usual | options))  # type: ignore[arg-type]


def require_same(first: StudyResult, second: StudyResult) -> None:
    for name in ("index", "resets", "side_queries"):
        one, other = first.data[name], second.data[name]
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.values, other.values, err_msg=name)
    np.testing.assert_allclose(first.regret.values, second.regret.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("domain", "lengthscale"),
    [
        pytest.param(Grid.regular(16, 2), 0.8, id="even product"),
        pytest.param(Grid.regular(17, 2), 0.8, id="odd product"),
        pytest.param(SCATTERED, 0.2, id="scattered"),
    ],
)
def test_means_and_variances_are_those_of_the_recursion(domain, lengthscale):
    kernel = smooth(lengthscale)
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.05, noise=NOISE)
    strategies = {label: ucb(**{"kernel": kernel} | parts) for label, parts in KINDS.items()}
    compiled, eager = side_by_side(world, strategies, HORIZON)
    for label, state in eager.states.items():
        found, running = compiled.trials[label], state.data.running
        np.testing.assert_allclose(found.mean, running.mean, atol=1e-9, err_msg=label)
        np.testing.assert_allclose(found.variance, running.variance, atol=1e-9, err_msg=label)
        np.testing.assert_allclose(found.gain, running.information_gain, atol=1e-9, err_msg=label)


def service(strategy: Strategy, state: State, horizon: int) -> Compilable | None:
    """A strategy as it is compiled; None where it is left to the recursion."""
    world = MarkovWorld(state.domain, kernel=smooth(), epsilon=0.05, noise=NOISE)
    return compilable(world, strategy, state, horizon)


def side_by_side(world, strategies, horizon, trials=TRIALS):
    """The same rounds by both engines; the tables after the last one."""
    cpu, block = torch.device("cpu"), range(3, 3 + trials)
    settings = StudySettings(world, strategies, horizon, 0, torch.float64, cpu, compiled=True)
    compiled = CompiledTable(settings, settings.compilable(strategies), block, threading.Event())
    eager = EagerTable(settings, list(strategies), Place(block))
    draws = Stream(0, "world", 3, trials, dtype=torch.float64, device=cpu)
    for step, objective in zip(range(horizon), world.objectives(draws)):
        compiled.play_round(step, objective)
        eager.play_round(step, objective)
    return compiled, eager


@pytest.mark.parametrize("noise", [1e-6, 1e-4, 2e-3, 0.01])
@pytest.mark.parametrize(("points", "lengthscale"), [(6, 0.3), (17, 0.8)])
def test_little_noise_is_enough_where_much_is_lost_from_round_to_round(points, lengthscale, noise):
    """TV-GP-UCB was left to the recursion wherever GP-UCB is; here, just where it need not be."""
    lost = (1 - noise / LEAST_NOISE) * LEAST_LOST
    domain, kernel = Grid.regular(points, 2), smooth(lengthscale)
    below, above = (
        ucb(kernel=kernel, noise=noise, decay=Markov(share * lost)) for share in (0.999, 1.001)
    )
    assert service(below, below.init(domain), 50) is None
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.05, noise=noise)
    compiled, eager = side_by_side(world, {"TV": above}, 100, trials=3)
    found, running = compiled.trials["TV"], eager.states["TV"].data.running
    np.testing.assert_allclose(found.mean, running.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.variance, running.variance, rtol=0, atol=1e-9)
    one, other = compiled.finished()["TV"], eager.finished()["TV"]
    np.testing.assert_array_equal(one["index"], other["index"])


def skewed(points: int) -> Tensor:
    """Correlation along a line that is not the same read backwards."""
    x = torch.linspace(0, 1, points, dtype=torch.float64) ** 2
    return torch.exp(-0.5 * ((x[:, None] - x) / 0.8).square())


PRODUCTS = {
    "even": (Grid.regular(16, 2), smooth(0.8), True),
    "odd": (Grid.regular(17, 2), smooth(0.8), True),
    "three dimensions": (Grid.regular(9, 3), smooth(1.5), True),
    "no mirror image": (Grid.regular(15, 2), torch.kron(skewed(15), skewed(15)), False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_coordinates_are_brought_to_the_arms(name):
    domain, kernel, mirrored = PRODUCTS[name]
    basis = GaussianDraw(kernel).basis(domain, torch.float64, torch.device("cpu"))
    assert isinstance(basis, ProductBasis)
    found = factors(basis)
    assert found.mirrored is mirrored
    coordinates = torch.randn(basis.size, generator=torch.Generator().manual_seed(0)).double()
    core = np.zeros((found.left.shape[1], len(found.right)))
    core.flat[found.places] = coordinates.numpy()
    rows = len(found.left) + len(found.left) % 2
    half, out = (np.full((count, found.right.shape[1]), np.nan) for count in (len(core), rows))
    _expand(found, core, half, out)
    np.testing.assert_allclose(
        out.ravel()[: basis.arms], (basis.features @ coordinates).numpy(), rtol=0, atol=1e-13
    )


# Of the others, beliefs are compared above, which no other choices would leave; a rough kernel is
# no product over coordinates, whatever the domain.
QUICK = ("smooth-odd", "smooth-line", "rough-square", "rough-scattered")


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        pytest.param(make(), name, id=f"{make.__name__}-{name}", marks=marks)
        for make in (smooth, rough)
        for name in DOMAINS
        for marks in [[] if f"{make.__name__}-{name}" in QUICK else [pytest.mark.slow]]
    ],
)
def test_choices_are_those_of_the_recursion(name, kernel):
    domain = DOMAINS[name]
    # The kernel of the world is a product; that of the strategies need not be.
    world = MarkovWorld(domain, kernel=smooth(), epsilon=0.05, noise=NOISE)
    strategies = {
        label: ucb(**{"kernel": kernel, "noise": 0.05} | parts) for label, parts in KINDS.items()
    }
    for one in strategies.values():
        assert compilable(world, one, one.init(domain), HORIZON) is not None
    eager, compiled = (study(world, strategies, compiled=one) for one in (False, True))
    require_same(eager, compiled)
    for label in ("triggered", "walking and triggered"):
        assert int(compiled.resets.sel(strategy=label).sum()) > 0, label


def test_the_smallest_value_may_be_wanted():
    world = MarkovWorld(DOMAINS["square"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    strategies = {label: ucb(**KINDS[label], maximize=False) for label in FEW}
    require_same(*(study(world, strategies, compiled=one) for one in (False, True)))


def test_any_world_on_a_grid_is_played():
    world = AbruptWorld(DOMAINS["odd"], functions=GaussianDraw(smooth()), changes=[40], noise=NOISE)
    strategies = {label: ucb(**KINDS[label]) for label in FEW}
    require_same(*(study(world, strategies, compiled=one) for one in (False, True)))


def test_a_world_with_rounds_of_its_own_keeps_them():
    class Doubled(MarkovWorld):
        def rounds(self, stream):
            return (2 * values for values in super().rounds(stream))

    world = Doubled(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    plain = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    eager, compiled = (study(world, {"GP": ucb()}, compiled=one) for one in (False, True))
    require_same(eager, compiled)
    assert (compiled.regret - study(plain, {"GP": ucb()}).regret).max() > 0.1


def test_a_world_that_says_where_all_start_is_left_to_the_recursion():
    """Compiled rounds did not ask it, and started where they liked."""

    class Opened(MarkovWorld):
        def opening(self, stream):
            return self.domain.X[[5, 3]].expand(stream.trials, 2, -1)

    world = Opened(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    eager, compiled = (study(world, {"GP": ucb()}, compiled=one) for one in (False, True))
    require_same(eager, compiled)
    assert (compiled.data["index"].values[..., :2] == [5, 3]).all()


def test_strategies_that_are_not_served_play_beside_those_that_are():
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    sampled = gp_ts(kernel=smooth(), noise=NOISE, B=1.0, R=1.0, delta=0.1)
    strategies = {"GP": ucb(), "TS": sampled, "TV": ucb(decay=Markov(0.05)), "TS 2": sampled}
    require_same(*(study(world, strategies, compiled=one) for one in (False, True)))


def test_recorders_see_every_round():
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    eager, compiled = (
        study(world, {"GP": ucb()}, compiled=one, record=(Diagnosis(),)) for one in (False, True)
    )
    for name in eager.data.data_vars:
        np.testing.assert_array_equal(eager.data[name].values, compiled.data[name].values)


def test_chunks_folders_and_workers_change_nothing(tmp_path):
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    strategies = {label: ucb(**KINDS[label]) for label in ("triggered", "moving")}
    whole = study(world, strategies, compiled=True, chunk=TRIALS)
    require_same(whole, study(world, strategies, compiled=True, chunk=1, workers=2))
    # Begun by one engine, and gone on with by the other.
    study(world, strategies, compiled=False, trials=2, chunk=2, save_to=tmp_path)
    require_same(whole, study(world, strategies, compiled=True, chunk=2, save_to=tmp_path))
    with ThreadPoolExecutor(2) as pool:
        require_same(whole, study(world, strategies, compiled=True, executor=pool, chunk=3))


def test_a_play_that_is_stopped_ends_without_a_result():
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    cpu = torch.device("cpu")
    settings = StudySettings(world, {"GP": ucb()}, 40, 0, torch.float64, cpu, compiled=True)
    assert settings.compilable(["GP"])

    class Stopped(Progress):
        """Somebody stops everything in the last round, when all rounds are still to be played."""

        rounds = 0

        def add(self, rounds: int) -> None:
            self.rounds += 1
            if self.rounds == 39:
                stop.set()

    with tqdm(disable=True) as bar:
        stop = threading.Event()
        assert play_block(settings, ["GP"], range(3), Progress(bar, 40), stop) is not None
        assert play_block(settings, ["GP"], range(3), Stopped(bar, 40), stop) is None


class Restless(UpperConfidence):
    """An exploration of somebody's own."""


class Sometimes(EventTrigger):
    """A rule of somebody's own."""

    def keep(self, log):
        return super().keep(log)


class Odd(Realized):
    """A gain of somebody's own."""


class Doubled(IGPUCB):
    """A width of somebody's own."""

    def sqrt_beta(self, context):
        return 2 * super().sqrt_beta(context)


def never(y: Tensor, mean: Tensor, sd: Tensor, noise: float, since: Tensor, delta: float) -> Tensor:
    return torch.zeros_like(y, dtype=torch.bool)


REFUSED = {
    "ages": {"inflation": ExponentialWeights(0.9)},
    "samples": {"exploration": Thompson()},
    "explores otherwise": {"exploration": Restless()},
    "breaks ties by chance": {"exploration": UpperConfidence(ties="random")},
    "wide by a gain of its own": {"width": IGPUCB(B=1.0, R=1.0, delta=0.1, gain=Odd())},
    "wide for few rounds": {"width": IGPUCB(B=1.0, R=1.0, delta=0.1, gain=Greedy((0.0, 1.0)))},
    "wide in its own way": {"width": Doubled(B=1.0, R=1.0, delta=0.1)},
    "estimates the mean": {"mean": "estimated"},
    "hardly any noise": {"noise": 1e-3},
    "hardly any noise, walking": {"noise": 1e-3, "decay": Wiener(0.03)},
    "regresses": {"inference": "exact"},
    "expires": {"retention": SlidingWindow(5.0, by="time")},
    "two rules": {"retention": (SlidingWindow(5), EventTrigger(0.1))},
    "a rule of its own": {"retention": Sometimes(0.1)},
    "a test of its own": {"retention": EventTrigger(0.1, never)},
    "a window on what moves": {"retention": SlidingWindow(5), "decay": Markov(0.1)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_left_to_the_recursion(name):
    domain = DOMAINS["odd"]
    one = ucb(**REFUSED[name])
    assert service(one, one.init(domain), 50) is None
    plain = ucb()
    assert service(plain, plain.init(domain), 50) is not None


def test_single_precision_and_too_many_arms_are_left_to_the_recursion():
    one = ucb()
    assert service(one, one.init(DOMAINS["odd"], dtype=torch.float32), 50) is None
    many = Grid(torch.rand(MOST_ARMS + 1, 2).double())
    assert service(one, one.init(many), 50) is None
    moving = ucb(**KINDS["walking"])
    assert service(moving, moving.init(Grid.regular(50, 2)), MOST_SLOTS + 1) is None


@pytest.mark.parametrize("label", ["static", "triggered", "window"])
def test_slots_are_made_as_arms_are_played(label, monkeypatch):
    """Of many arms and rounds; each trial's own are copied, and nothing but them."""
    monkeypatch.setattr("botorch_tv.simulation.compiled.FIRST_SLOTS", 3)
    world = MarkovWorld(DOMAINS["square"], kernel=smooth(), epsilon=0.1, noise=NOISE)
    strategies = {label: ucb(**KINDS[label])}
    eager, compiled = (study(world, strategies, compiled=one) for one in (False, True))
    assert max(len(set(one)) for one in eager.data["index"].values[0].tolist()) > 6
    require_same(eager, compiled)


def test_trials_that_hold_too_many_arms_are_played_by_the_recursion(monkeypatch):
    monkeypatch.setattr("botorch_tv.simulation.compiled.MOST_SLOTS", 5)
    world = MarkovWorld(DOMAINS["square"], kernel=smooth(), epsilon=0.1, noise=NOISE)
    settings = StudySettings(
        world,
        {"few": ucb(**KINDS["always resetting"]), "many": ucb()},
        HORIZON,
        0,
        torch.float64,
        torch.device("cpu"),
    )
    counted = []

    class Counted(Progress):
        def add(self, rounds: int) -> None:
            counted.append(rounds)

    def play(one: StudySettings) -> dict[str, dict[str, np.ndarray]]:
        with tqdm(disable=True) as bar:
            progress, stop = Counted(bar, HORIZON), threading.Event()
            return play_block(one, ["few", "many"], range(4), progress, stop)

    compiled = replace(settings, compiled=True)
    assert set(compiled.compilable(["few", "many"])) == {"few", "many"}
    found, expected = play(compiled), play(settings)
    assert set(compiled.compilable(["few", "many"])) == {"few"}
    assert sum(counted) == 2 * 4 * HORIZON
    for label, one in expected.items():
        for name in ("index", "resets"):
            np.testing.assert_array_equal(found[label][name], one[name])


def test_a_world_where_measurements_fail_is_left_to_the_recursion():
    class Failing(MarkovWorld):
        def available(self, step, choice):
            return choice % 2 == 0

    world = Failing(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    assert compilable(world, ucb(), ucb().init(world.domain), 50) is None


def test_large_studies_compile_unless_told():
    world = MarkovWorld(Grid.regular(50, 2), kernel=smooth(), epsilon=0.05, noise=NOISE)
    enough = rules.WORTH_COMPILING // 2500 + 1
    cpu = torch.device("cpu")
    assert require_compiled(None, world, enough, cpu)
    assert not require_compiled(None, world, enough // 2, cpu)
    assert require_compiled(True, world, 1, cpu)
    assert not require_compiled(False, world, enough, cpu)


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    monkeypatch.setattr(rules, "find_spec", lambda name: None)
    cpu = torch.device("cpu")
    assert not require_compiled(None, world, 10 * rules.WORTH_COMPILING, cpu)
    with pytest.raises(ImportError, match=r"pip install 'botorch-tv\[fast\]'"):
        study(world, {"GP": ucb()}, compiled=True)


def test_whether_it_is_compiled_is_no_part_of_what_a_study_is():
    world = MarkovWorld(DOMAINS["odd"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    settings = StudySettings(world, {"GP": ucb()}, 40, 0, torch.float64, torch.device("cpu"))
    assert settings.description() == replace(settings, compiled=True).description()


def test_what_other_files_bring_into_the_machine_code_has_its_digest_there():
    """Numba's cache on disk is renewed where compiled.py changes, and only there."""
    brought = repr([Rules._fields, REFRESH_ROUNDS])
    digest = hashlib.sha256(brought.encode()).hexdigest()[:12]
    assert digest == compiled_rounds.COMPILED_IN, f"write {digest} into COMPILED_IN"
