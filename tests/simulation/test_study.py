import dataclasses
import itertools
import math
from collections.abc import Iterator
from operator import attrgetter

import numpy as np
import pytest
import torch

from botorch_tv.acquisition import IGPUCB, Constant, Logarithmic
from botorch_tv.forgetting import PeriodicMarkov
from botorch_tv.simulation import Diagnosis, GridWorld, MarkovWorld, run_study
from botorch_tv.simulation.rivals import Settings, line_up, rivals, unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, Strategy, et_gp_ucb, gp_ucb, sw_gp_ucb, tv_gp_ucb, ui_gp_ucb
from botorch_tv.strategies.listing import PRESETS

GRID = Grid.regular(8, 2)
KERNEL = unit_kernel("se", 0.25)
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)
PLAYERS: dict[str, Strategy] = {
    "GP": gp_ucb(kernel=KERNEL, noise=0.02),
    "ET": et_gp_ucb(kernel=KERNEL, noise=0.02),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.05),
    "SW": sw_gp_ucb(kernel=KERNEL, noise=0.02, window=9),
    "UI": ui_gp_ucb(kernel=KERNEL, noise=0.02, alpha=1.0),
}


class Bounded(MarkovWorld):
    """Ten rounds, a first arm, and odd trials that cannot be measured in round 4."""

    horizon = 10

    def first_arm(self, stream: Stream) -> torch.Tensor:
        return (stream.uniform() * len(self.domain)).to(torch.int64)

    def available(self, step: int, choice: torch.Tensor) -> torch.Tensor | None:
        return torch.arange(len(choice)) % 2 == 0 if step == 3 else None


BOUNDED = Bounded(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)


@pytest.mark.full
def test_all_strategies_start_at_the_first_arm_of_the_world() -> None:
    result = run_study(BOUNDED, PLAYERS, trials=40, horizon=5, progress=False, chunk=7)
    first = result.data["index"].values[:, :, 0]
    drawn = Stream(0, "first arm", 0, 40, dtype=torch.float64, device=torch.device("cpu"))
    expected = BOUNDED.first_arm(drawn).numpy()
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(first, np.broadcast_to(expected, first.shape))


def test_a_world_with_too_few_rounds() -> None:
    class Short(MarkovWorld):
        def rounds(self, stream: Stream) -> Iterator[torch.Tensor]:
            return itertools.islice(super().rounds(stream), 3)

    with pytest.raises(ValueError, match=r"horizon is 11, but .* has 10 rounds; give horizon=10"):
        run_study(BOUNDED, PLAYERS, trials=1, horizon=11)
    world = Short(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)
    with pytest.raises(ValueError, match="ended after 3 rounds, but horizon is 5"):
        run_study(world, PLAYERS, trials=1, horizon=5, progress=False)


def test_failed_measurements_are_ignored() -> None:
    """Replays the choices by hand through ask and tell, without the failed round."""
    player = PLAYERS["GP"]
    result = run_study(
        BOUNDED, {"GP": player}, trials=6, horizon=10, record=(Diagnosis(),), progress=False
    )
    data = {name: result.data[name].values[0] for name in ("index", "observation", "mean", "sd")}
    expected = np.zeros((6, 10), dtype=bool)
    expected[1::2, 3] = True
    np.testing.assert_array_equal(np.isnan(data["observation"]), expected)
    for trial in range(6):
        state = player.init(GRID)
        for t in range(10):
            suggestion = player.suggestion_at(state, GRID.X[int(data["index"][trial, t])])
            np.testing.assert_allclose(suggestion.mean, data["mean"][trial, t], atol=1e-9)
            np.testing.assert_allclose(suggestion.sd, data["sd"][trial, t], atol=1e-7)
            y = torch.tensor(data["observation"][trial, t], dtype=torch.float64)
            if not y.isnan():
                state, _ = player.tell(state, suggestion, y)


def test_strategies_that_minimise() -> None:
    down = {k: dataclasses.replace(v, maximize=False) for k, v in PLAYERS.items()}
    result = run_study(WORLD, down, trials=20, horizon=15, progress=False)
    seen = WORLD.look(15, trials=20)
    expected = seen.isel(arm=result.data["index"]) - seen.min("arm")
    np.testing.assert_allclose(
        result.regret, expected.transpose(*result.regret.dims), rtol=0, atol=1e-12
    )
    with pytest.raises(ValueError, match="maximize is False for ET and True for the other"):
        run_study(WORLD, PLAYERS | {"ET": down["ET"]}, trials=1, horizon=1)


def test_noise_is_shared_and_of_the_variance_given() -> None:
    size = {"trials": 20, "horizon": 20, "progress": False}
    found = run_study(WORLD, PLAYERS, record=(Diagnosis(),), **size).data
    noise = (found["observation"] - found["objective"]).values
    np.testing.assert_allclose(noise, noise[:1].repeat(len(PLAYERS), axis=0), atol=1e-12)
    assert abs(noise[0].var() / 0.02 - 1) < 4 * math.sqrt(2 / noise[0].size)
    assert (found["model_noise"] == 0.02).all()


def test_simple_regret_is_that_of_the_recommended_arm() -> None:
    player = PLAYERS["TV"]
    few = {"trials": 3, "horizon": 8, "record": (Diagnosis(),), "progress": False}
    result = run_study(WORLD, {"TV": player}, **few).data
    stream = Stream(0, "world", 0, 3, dtype=torch.float64, device=torch.device("cpu"))
    states = [player.init(GRID) for _ in range(3)]
    for t, values in zip(range(8), WORLD.rounds(stream)):
        for trial in range(3):
            arm = int(GRID.index_of(player.recommend(states[trial])))
            expected = float(values[trial].max() - values[trial, arm])
            assert result["simple_regret"].values[0, trial, t] == pytest.approx(expected, abs=1e-12)
            y = torch.tensor(result["observation"].values[0, trial, t])
            suggestion = player.ask(states[trial])
            states[trial], _ = player.tell(states[trial], suggestion, y)


SMALL = Grid.regular(3, 1)


class Yields(GridWorld):
    """A world that yields the same thing in every round."""

    def __init__(self, values: object) -> None:
        super().__init__(SMALL, 0.1)
        self.values = values

    def rounds(self, stream: Stream) -> Iterator[torch.Tensor]:
        while True:
            yield self.values  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "given"),
    [
        (torch.zeros(2, 5), r"\(2, 5\)"),
        (torch.zeros(1, 3), r"\(1, 3\)"),
        (torch.zeros(3), r"\(3,\)"),
        ([[0.0] * 3] * 2, "list"),
    ],
)
def test_worlds_with_wrong_shapes(values: object, given: str) -> None:
    message = (
        rf"^Yields.rounds yields {given} in round 1, but Grid\(3 arms .* and 2 trials need a "
        r"tensor of shape \(2, 3\), trials x arms"
    )
    with pytest.raises(ValueError, match=message):
        run_study(Yields(values), {"GP": PLAYERS["GP"]}, trials=2, horizon=3, progress=False)
    with pytest.raises(ValueError, match=message):
        Yields(values).look(rounds=1, trials=2)


@pytest.fixture
def rival_settings() -> Settings:
    given = {"kernel": unit_kernel("se", 0.2), "noise": 0.02, "epsilon": 0.03, "sigma_w2": 0.04}
    given |= {"period": 29, "window": 28, "gamma": 0.9, "alpha": 2.0, "delta": 0.2}
    given |= {"width": Logarithmic(c1=0.4, c2=4.0), "beta": 7.5, "chance": 0.15}
    given |= {"epsilons": (0.0, 0.02), "windows": (3, 9), "block": 9, "horizon": 81}
    return Settings(**given, cycle=7.0, cycle_lengthscale=0.5)


def test_kernels():
    x = torch.tensor([[0.0], [0.3]], dtype=torch.float64)
    for name, value in {
        "se": math.exp(-(1.5**2) / 2),
        "matern12": math.exp(-1.5),
        "matern32": (1 + math.sqrt(3) * 1.5) * math.exp(-math.sqrt(3) * 1.5),
    }.items():
        kernel = unit_kernel(name, 0.2)
        assert kernel.lengthscale.dtype == torch.float64
        assert kernel(x).to_dense()[0, 1].item() == pytest.approx(value, rel=1e-9)
    with pytest.raises(ValueError, match="'rbf'; give se, matern12"):
        unit_kernel("rbf", 0.2)
    with pytest.raises(ValueError, match="lengthscale is 0"):
        unit_kernel("se", 0)


def test_all_rivals_carry_their_settings(rival_settings):
    made = line_up(list(rivals()), rival_settings)
    assert list(made) == [entry.names[0] for entry in PRESETS.values()]
    for label, attribute, value in (
        ("R-GP-UCB", "retention.period", 29),
        ("SW-GP-UCB", "retention.window", 28),
        ("TV-GP-UCB", "decay.epsilon", 0.03),
        ("WGP-UCB", "inflation.gamma", 0.9),
        ("UI-GP-UCB", "inflation.alpha", 2),
        ("ET-GP-UCB", "retention.delta", 0.2),
        ("BR-GP-UCB", "retention.period", 29),
        ("UI-TVBO", "decay.sigma_w2", 0.04),
        ("W-SparQ-GP-UCB", "refresh.schedule.alpha", 2),
        ("GLR-GP-UCB", "retention.delta", 0.2),
        ("GLR-GP-UCB", "exploration.chance", 0.15),
        ("W-DBO", "retention.epsilon", 0.03),
        ("BOB-GP-UCB", "block", 9),
        ("BOB-GP-UCB", "horizon", 81),
        ("R-PERP", "period", 29),
        ("R-PERP", "width", Constant(7.5)),
        ("TV-BayesOpt", "decay", PeriodicMarkov(0.03, 7.0, 0.5)),
        ("SparQ-GP-UCB", "refresh.steps", "exact"),
    ):
        assert attrgetter(attribute)(made[label]) == value, label
    experts, windows = made["PE-GP-UCB"].members, made["BOB-GP-UCB"].members
    assert [member.decay.epsilon for member in experts] == [0.0, 0.02]
    assert [member.retention[1].window for member in windows] == [3, 9]
    without_width = {"GP-EI", "GP-PI", "R-PERP", "RExp3", "Random", "PE-GP-UCB", "BOB-GP-UCB"}
    widths = [member.width for member in (*experts, *windows)]
    for label, strategy in made.items():
        if label != "Adaptive-GP-UCB":  # it learns the noise
            assert strategy.usual_noise == 0.02
        if label in ("IGP-UCB", "BR-GP-UCB"):  # they have their own width
            assert strategy.width == IGPUCB(B=1.0, R=math.sqrt(0.02), delta=0.1)
        elif label not in without_width:
            widths.append(strategy.width)
    assert all(dataclasses.asdict(width) == {"c1": 0.4, "c2": 4.0} for width in widths)


def test_names_in_any_spelling(rival_settings):
    assert list(line_up(["et", " R-gp-ucb ", "ET"], rival_settings)) == ["ET-GP-UCB", "R-GP-UCB"]
    with pytest.raises(ValueError, match=r"'WGB'; choose from .*WGP"):
        line_up(["WGB"], rival_settings)
    with pytest.raises(ValueError, match="No strategy given"):
        line_up(["", " "], rival_settings)
