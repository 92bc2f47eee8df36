from __future__ import annotations

import numpy as np
import pytest
import torch
from lasting import CHUNK, same

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.simulation import (
    BoxWorld,
    MarkovWorld,
    PredictionError,
    StudyResult,
    run_study,
)
from botorch_tv.simulation.recorders import MAP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import (
    Grid,
    bob_gp_ucb,
    gp_ts,
    gp_ucb,
    pe_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
)
from botorch_tv.test_functions import MarkovFunction

KERNEL, GRID, NOISE, EPSILON = unit_kernel("se", 0.3), Grid.regular(4, 2), 0.1, 0.05
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=EPSILON, noise=0.0)
MEANS = {"GP": 0.0, "TV": 0.7, "any": 0.0}
PLAYERS = {
    "GP": gp_ucb(kernel=KERNEL, noise=NOISE),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=NOISE, epsilon=EPSILON, mean=0.7),
    "any": random_search(kernel=KERNEL, noise=NOISE),
}
RATES = {"GP": 0.0, "TV": EPSILON, "any": 0.0}
TRIALS, HORIZON = 19, 9


def study(save_to=None, **changes: object) -> StudyResult:
    settings: dict = {"trials": TRIALS, "horizon": HORIZON, "chunk": CHUNK, "workers": 1}
    settings |= {"progress": False, "record": (PredictionError(),), "save_to": save_to}
    return run_study(WORLD, PLAYERS, **{**settings, **changes})


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study()


def dense_errors(result: StudyResult, label: str) -> np.ndarray:
    """(mean - f)² from K and the recorded choices, which were measured without noise."""
    stream = Stream(0, "world", 0, TRIALS, dtype=torch.float64, device=torch.device("cpu"))
    f = np.stack([f.numpy().copy() for _, f in zip(range(HORIZON), WORLD.rounds(stream))], 1)
    X = GRID.X.numpy()
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1) / (2 * 0.3**2))
    index = result.data["index"].sel(strategy=label).values
    errors = np.empty_like(f)
    for trial in range(TRIALS):
        for t in range(HORIZON):
            chosen, when = index[trial, :t], np.arange(t)
            decay = (1 - RATES[label]) ** (np.abs(when[:, None] - when) / 2)
            now = (1 - RATES[label]) ** ((t - when) / 2)
            y = f[trial, when, chosen] - MEANS[label]
            A = K[np.ix_(chosen, chosen)] * decay + NOISE * np.eye(t)
            mean = MEANS[label] + (K[:, chosen] * now) @ np.linalg.solve(A, y)
            errors[trial, t] = (mean - f[trial, t]) ** 2
    return errors


@pytest.mark.parametrize("label", PLAYERS)
def test_dense_formula(whole, label) -> None:
    errors = dense_errors(whole, label)
    maps = whole.prediction_error.sel(strategy=label)
    np.testing.assert_allclose(maps["mean"], errors.mean((0, 1)), rtol=1e-8)
    expected = errors.mean(1).std(0, ddof=1) / np.sqrt(TRIALS)
    np.testing.assert_allclose(maps["standard_error"], expected, rtol=1e-8)
    np.testing.assert_allclose(
        whole.squared_error.sel(strategy=label), errors.mean(-1), rtol=1e-8, atol=1e-12
    )
    np.testing.assert_array_equal(maps["position"], GRID.X)


@pytest.mark.parametrize("chunk", [1, 7, TRIALS])
def test_chunks_change_nothing(whole, chunk) -> None:
    again = study(chunk=chunk)
    for name, values in whole.prediction_error.items():
        np.testing.assert_allclose(again.prediction_error[name], values, rtol=1e-9)
    np.testing.assert_array_equal(again.data["index"], whole.data["index"])


def test_other_variables_do_not_change(whole) -> None:
    plain = study(record=())
    assert plain.data.drop_attrs().identical(
        whole.data[list(plain.data)].drop_vars(["arm", "position"], errors="ignore").drop_attrs()
    )
    with pytest.raises(ValueError, match=r"did not record prediction_error.*PredictionError"):
        _ = plain.prediction_error
    with pytest.raises(ValueError, match="did not record"):
        _ = plain.squared_error


@pytest.mark.parametrize(
    "player",
    [
        tv_gp_ucb(kernel=KERNEL, noise=NOISE, epsilon=0.1, mean="estimated"),
        sw_gp_ucb(kernel=KERNEL, noise=NOISE, window=4),
        ui_gp_ucb(kernel=KERNEL, noise=NOISE, alpha=1.0),
        gp_ts(kernel=KERNEL, noise=NOISE),
        sparq_gp_ucb(kernel=KERNEL, noise=NOISE),
        pe_gp_ucb(kernel=KERNEL, noise=NOISE, epsilons=(0.0, 0.3)),
        bob_gp_ucb(kernel=KERNEL, noise=NOISE, windows=(2, 5), block=3, horizon=9),
    ],
    ids=["TV", "SW", "UI", "TS", "SparQ", "PE", "BOB"],
)
def test_means_are_those_of_the_posterior(player) -> None:
    state = player.init(GRID, batch_shape=(3,))
    torch.manual_seed(0)
    for _ in range(7):
        suggestion = player.ask(state)
        state, _ = player.tell(state, suggestion, torch.randn(3, dtype=torch.float64))
        asked = player.consult(state)
        if asked is not None:
            y = torch.randn(asked.mask.shape, dtype=torch.float64)
            state = player.absorb(state, asked, y)
    mean = player.arm_means(state)
    assert mean.shape == (3, 16)
    expected = player.posterior(state, GRID.X).mean.squeeze(-1)
    torch.testing.assert_close(mean, expected, rtol=0, atol=1e-7)
    assert float(mean.std(-1).min()) > 0.01


def test_single_precision_and_single_trial(whole) -> None:
    single = study(trials=1, dtype=torch.float32)
    assert single.squared_error.dtype == np.float32
    first = whole.squared_error.isel(trial=[0]).mean(("trial", "round"))
    np.testing.assert_allclose(single.prediction_error["mean"].mean("arm"), first, rtol=1e-3)
    assert bool(single.prediction_error["standard_error"].isnull().all())


# ------------------------------------------------------------------ folders and files


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_damaged_maps_are_computed_again(whole, tmp_path, harm) -> None:
    study(tmp_path)
    file = tmp_path / "TV" / "0000008-8.npz"
    arrays = dict(np.load(file))
    if harm == "missing":
        del arrays[MAP]
    else:
        arrays[MAP] = arrays[MAP][:2]
    np.savez(file, **arrays)
    with pytest.warns(UserWarning, match=r"0000008-8\.npz is damaged"):
        assert same(study(tmp_path), whole)


def test_a_box_has_no_arms() -> None:
    function = MarkovFunction(KERNEL, epsilon=0.1, horizon=4, batch_shape=(2,), seed=0)
    world = BoxWorld(function, noise=0.1)
    with pytest.raises(ValueError, match=r"PredictionError\(\), but Box.* has no arms"):
        run_study(world, PLAYERS, trials=2, horizon=3, progress=False, record=(PredictionError(),))
