import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from oracles.rules import trigger_threshold

from botorch_tv.learning.refit import Refit
from botorch_tv.simulation import BoxWorld, Diagnosis, StudyResult, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Box, DiscreteSearch, MultiStart, Strategy, et_gp_ucb, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction, TimeVaryingTestFunction

ASCENT = MultiStart(raw_samples=16, restarts=2, evaluations=10)
SEARCH = DiscreteSearch(torch.rand(30, 2, generator=torch.Generator().manual_seed(0)).double())
CPU = torch.device("cpu")
KERNEL = unit_kernel("se", 0.5)
TRIALS, HORIZON = 3, 5
NESTED = MarkovFunction(KERNEL, epsilon=0.1, dim=1, horizon=3, batch_shape=(2, 2), features=4)


class Bowl(TimeVaryingTestFunction):
    """depth + (x - 0.1 i - 0.01 t)² + (y - 0.5)² for function i, on [0, 1] x [0, 2]."""

    def __init__(self, functions: int | None = None, *, depth: float = 1.0, **more) -> None:
        settings = {"horizon": 12.0, "noise_std": 0.1, "negate": False, **more}
        super().__init__([(0.0, 1.0), (0.0, 2.0)], **settings)
        self.batch_shape = torch.Size([] if functions is None else [functions])
        self.depth = depth

    def _evaluate_true(self, X: torch.Tensor) -> torch.Tensor:
        own = torch.zeros(())
        if self.batch_shape:
            assert X.dim() == 3
            assert X.shape[:1] == self.batch_shape
            own = torch.arange(len(X)).unsqueeze(-1).to(X)
        x, y, t = X.unbind(-1)
        return self.depth + (x - 0.1 * own - 0.01 * t) ** 2 + (y - 0.5) ** 2

    def _best_at(self, t: torch.Tensor) -> torch.Tensor:
        return torch.full((*self.batch_shape, *t.shape), self.depth, dtype=t.dtype)

    def optimizers_at(self, t: float) -> torch.Tensor:
        raise NotImplementedError


def players(**more) -> dict[str, Strategy]:
    common = {"kernel": KERNEL, "noise": 0.01, "maximize": False, **more}
    return {"ET": et_gp_ucb(**common), "TV": tv_gp_ucb(epsilon=0.1, **common)}


def study(world: BoxWorld | None = None, strategies=None, **changes) -> StudyResult:
    world = BoxWorld(Bowl(), search=ASCENT, random_rounds=1) if world is None else world
    settings = {"trials": TRIALS, "horizon": HORIZON, "workers": 1, "progress": False, **changes}
    return run_study(world, players() if strategies is None else strategies, **settings)


def excess(X: np.ndarray, functions: bool = False) -> np.ndarray:
    """Regret by hand, `strategies x trials x rounds`."""
    _, trials, rounds, _ = X.shape
    own = 0.1 * np.arange(trials)[:, None] * functions
    return (X[..., 0] - own - 0.01 * np.arange(1, rounds + 1)) ** 2 + (X[..., 1] - 0.5) ** 2


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study(record=(Diagnosis(),))


def test_regret_by_hand(whole) -> None:
    X = whole.data["X"].values
    assert X.shape == (2, TRIALS, HORIZON, 2)
    np.testing.assert_allclose(whole.regret, excess(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(whole.data["objective"], 1 + excess(X), rtol=0, atol=1e-12)
    assert float(whole.simple_regret.min()) >= 0


def test_strategies_share_noise_and_first_points(whole) -> None:
    noise = (whole.data["observation"] - whole.data["objective"]).values
    np.testing.assert_allclose(noise[0], noise[1], rtol=0, atol=1e-12)
    drawn = Stream(0, "noise", 0, TRIALS, dtype=torch.float64, device=CPU)
    expected = np.stack([0.1 * drawn.normal().numpy() for _ in range(HORIZON)], -1)
    np.testing.assert_allclose(noise[0], expected, rtol=0, atol=1e-12)
    first = whole.data["X"].values[:, :, 0]
    np.testing.assert_array_equal(first[0], first[1])
    assert len(np.unique(first[0], axis=0)) == TRIALS
    assert ((first >= 0) & (first <= [1, 2])).all()
    assert (whole.data["X"].values[0, :, 1:] != whole.data["X"].values[1, :, 1:]).any()


def test_a_study_is_ask_and_tell(whole) -> None:
    box = Box(Bowl().spatial_bounds, search=ASCENT)
    for label, player in players().items():
        for trial in range(2):
            played = whole.data.sel(strategy=label, trial=trial)
            state = player.init(box)
            for t in range(HORIZON):
                X = torch.from_numpy(played["X"].values[t].copy())
                asked = player.suggestion_at(state, X) if t == 0 else player.ask(state)
                torch.testing.assert_close(asked.X, X, rtol=0, atol=1e-6)
                suggestion = player.suggestion_at(state, X)
                y = torch.tensor(played["observation"].values[t])
                state, info = player.tell(state, suggestion, y)
                assert bool(info.reset) == bool(played["resets"].values[t])


def test_functions_of_a_batch() -> None:
    world = BoxWorld(Bowl(TRIALS), search=SEARCH)
    for chunk in (TRIALS, 1):
        result = study(world, chunk=chunk)
        expected = excess(result.data["X"].values, functions=True)
        np.testing.assert_allclose(result.regret, expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"functions for 3 trials, but .* needs trial number 4"):
        study(world, trials=4, horizon=1)


def test_shift_and_scale_are_prior_mean_and_variance() -> None:
    wide = ScaleKernel(RBFKernel()).double()
    wide.base_kernel.lengthscale = torch.tensor(0.5, dtype=torch.float64)
    wide.outputscale = torch.tensor(4.0, dtype=torch.float64)
    played = study(BoxWorld(Bowl(noise_std=0.2), shift=3.0, scale=2.0, search=SEARCH))
    own = study(
        BoxWorld(Bowl(noise_std=0.2), search=SEARCH), players(kernel=wide, noise=0.04, mean=3.0)
    )
    np.testing.assert_allclose(played.data["X"], own.data["X"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(2 * played.regret, own.regret, rtol=0, atol=1e-5)
    assert BoxWorld(Bowl(noise_std=0.2), scale=2.0).noise == pytest.approx(0.01)


def test_negated_problems_are_maximised(whole) -> None:
    upside_down = {k: dataclasses.replace(p, maximize=True) for k, p in players().items()}
    world = BoxWorld(Bowl(negate=True), search=SEARCH, random_rounds=1)
    down = study(strategies=players(), world=BoxWorld(Bowl(), noise=0.0, search=SEARCH))
    up = study(BoxWorld(Bowl(negate=True), noise=0.0, search=SEARCH), upside_down)
    np.testing.assert_allclose(up.data["X"], down.data["X"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(up.regret, down.regret, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match=r"maximize is False .* is to be maximised"):
        study(world)
    with pytest.raises(ValueError, match=r"maximize is True .* is to be minimised"):
        study(strategies=upside_down)


@pytest.mark.full
def test_a_stored_study_resumes_with_the_same_problem(tmp_path: Path) -> None:
    world = BoxWorld(Bowl(), search=SEARCH)
    first = study(world, save_to=tmp_path, trials=2, chunk=1)
    longer = study(world, save_to=tmp_path)
    assert longer.data.attrs["trials_found"] == 2
    assert longer.data.isel(trial=slice(2)).drop_attrs().identical(first.data.drop_attrs())
    longer.save(tmp_path / "study.nc")
    assert StudyResult.load(tmp_path / "study.nc").data["X"].dims[-1] == "coordinate"
    deeper = BoxWorld(Bowl(depth=1.5), search=SEARCH)
    with pytest.raises(ValueError, match=r"another study: .*world\.probe"):
        study(deeper, save_to=tmp_path)


def test_float32() -> None:
    result = study(BoxWorld(Bowl(), search=SEARCH), dtype=torch.float32)
    assert result.data["X"].dtype == np.float32
    np.testing.assert_allclose(result.regret, excess(result.data["X"].values), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shift": float("nan")}, "shift is nan"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"problem": Bowl(noise_std=None)}, "no noise of its own"),
        ({"problem": Bowl(horizon=0.5)}, "horizon of Bowl is 0.5"),
        ({"problem": NESTED, "noise": 0.1}, "trials have one dimension"),
    ],
)
def test_bad_worlds(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        BoxWorld(**{"problem": Bowl(), **changes})


@pytest.mark.full
def test_recorded_bands_use_the_learned_noise() -> None:
    delta, given, learned = 0.1, 0.5, []
    player = et_gp_ucb(kernel=KERNEL, noise=given, delta=delta, maximize=False)
    player = dataclasses.replace(player, learning=Refit(every=3, least=3))
    result = study(strategies={"ET": player}, horizon=7, trials=1, record=(Diagnosis(),))
    own = result.data.sel(strategy="ET", trial=0)
    state, since = player.init(Box(Bowl().spatial_bounds, search=ASCENT)), 0
    for t in range(7):
        since += 1
        factor = state.basis.noise_factor
        learned.append(given if factor is None else given * float(factor))
        wanted = trigger_threshold(float(own["sd"].values[t]), learned[-1], since, delta)
        assert float(own["band"].values[t]) == pytest.approx(wanted, rel=1e-4)
        suggestion = player.suggestion_at(state, torch.from_numpy(own["X"].values[t].copy()))
        state, info = player.tell(state, suggestion, torch.tensor(own["observation"].values[t]))
        since = 0 if bool(info.reset) else since
    assert min(learned) < 0.5 * given
