from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from helpers.child_study import CHUNK, same
from oracles.dense import squared_exponential
from torch import Tensor

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import (
    Diagnosis,
    MarkovWorld,
    PredictionError,
    Recorder,
    Seen,
    StudyResult,
    Variable,
    Weights,
    run_study,
)
from botorch_tv.simulation.recorders import MAP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import (
    Grid,
    Strategy,
    adaptive_gp_ucb,
    bob_gp_ucb,
    et_gp_ucb,
    gp_ts,
    gp_ucb,
    pe_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
)
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import Info

GRID, KERNEL = Grid.regular(4, 2), unit_kernel("se", 0.3)
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.1, noise=0.02)
PLAYERS: dict[str, Strategy] = {
    "ET": et_gp_ucb(kernel=KERNEL, noise=0.02),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.1),
}


class Visits(Recorder):
    """Visits of arms, points, and information gains."""

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        visits = Variable({"arm": len(GRID)}, averaged=True)
        return {"gain": Variable(), "point": Variable({"axis": 2}), "visits": visits}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        arms = torch.arange(len(GRID))
        visits = (seen.suggestion.choice[:, None] == arms).double()
        return {"gain": info.information_gain, "point": seen.suggestion.X, "visits": visits}


def study(record: Any, save_to: Path | None = None, **changes: Any) -> StudyResult:
    settings: dict[str, Any] = {"trials": 11, "horizon": 9, "chunk": 4, "workers": 1}
    settings |= {"progress": False, "strategies": PLAYERS, "save_to": save_to, **changes}
    return run_study(WORLD, record=record, **settings)


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study((Visits(), Diagnosis(), PredictionError()))


def test_a_recorder_of_a_user(whole: StudyResult) -> None:
    data = whole.data
    assert data["point"].dims == ("strategy", "trial", "round", "axis")
    np.testing.assert_array_equal(data["point"], GRID.X.numpy()[data["index"]])
    gain = 0.5 * np.log1p(data["sd"] ** 2 / 0.02)
    np.testing.assert_allclose(data["gain"], gain, rtol=1e-12)
    looked = data["index"].values[..., None] == np.arange(16)
    np.testing.assert_allclose(data["visits"], looked.mean((1, 2)), rtol=1e-12)
    expected = looked.mean(2).std(1, ddof=1) / np.sqrt(11)
    np.testing.assert_allclose(data["visits_standard_error"], expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(data["position"], GRID.X)
    assert data["gain"].dtype == data["visits"].dtype == np.float64


def test_a_recorder_may_reuse_a_buffer() -> None:
    buffers: dict[int, Tensor] = {}

    class Buffered(Recorder):
        def variables(self, domain: Domain) -> Mapping[str, Variable]:
            return {"mean again": Variable()}

        def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
            mean = seen.suggestion.mean
            return {"mean again": buffers.setdefault(len(mean), torch.empty_like(mean)).copy_(mean)}

    data = study((Buffered(), Diagnosis())).data
    np.testing.assert_array_equal(data["mean again"], data["mean"])


def test_recorders_are_independent(whole: StudyResult) -> None:
    alone = study((Visits(),))
    names = [*study(()).data.data_vars, "gain", "point", "visits", "visits_standard_error"]
    assert set(alone.data.data_vars) == set(names)
    for name in names:
        np.testing.assert_array_equal(alone.data[name], whole.data[name])


@pytest.mark.full
def test_chunks_folders_and_files(whole: StudyResult, tmp_path: Path) -> None:
    record = (PredictionError(), Visits(), Diagnosis())  # in another order
    study(record, tmp_path / "study", trials=6, strategies={"TV": PLAYERS["TV"]})
    retained = study(record, tmp_path / "study")
    assert retained.strategies == whole.strategies
    assert same(retained, whole)
    assert same(study(record, tmp_path / "study"), whole)
    retained.save(tmp_path / "study.nc")
    assert same(StudyResult.load(tmp_path / "study.nc"), whole)


@dataclass(frozen=True)
class Above(Recorder):
    level: float

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return {f"above {self.level}": Variable(dtype="bool")}

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        return {f"above {self.level}": seen.observation > self.level}


def test_recorders_are_part_of_the_identity(tmp_path: Path) -> None:
    first = study((Above(0.5), Above(1.0)), tmp_path)
    assert float(first.data["above 0.5"].mean()) > float(first.data["above 1.0"].mean()) > 0
    assert same(study((Above(1.0), Above(0.5)), tmp_path), first)
    for record, difference in (
        ((), r"record is \[Above, Above\] there and \[\] here"),
        ((Above(0.5), Above(2.0)), r"record\[1\]\.level is 1\.0 there and 2\.0 here"),
        ((Above(0.5), Diagnosis()), r"record\[1\] is Above there and Diagnosis here"),
    ):
        with pytest.raises(ValueError, match="holds another study: " + difference):
            study(record, tmp_path)


@pytest.mark.full
def test_arguments_of_before_and_after() -> None:
    rounds: list[tuple[int, int, int]] = []

    class Watching(Recorder):
        def variables(self, domain: Domain) -> Mapping[str, Variable]:
            return {"asked": Variable(dtype="int32")}

        def before(self, seen: Seen) -> Mapping[str, Tensor]:
            self._count = seen.state.rounds
            assert torch.equal(seen.best, seen.objective.best(True))
            assert torch.equal(seen.value, seen.objective.at(seen.suggestion.choice))
            assert float(seen.regret(seen.value).min()) >= 0
            return {}

        def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
            rounds.append((seen.round, self._count, seen.state.rounds))
            return {"asked": info.side_queries}

    player = {"SparQ": sparq_gp_ucb(kernel=KERNEL, noise=0.02)}
    result = study((Watching(),), strategies=player, trials=3)
    assert rounds == [(t, t - 1, t) for t in range(1, 10)]
    np.testing.assert_array_equal(result.data["asked"], result.side_queries)
    assert int(result.data["asked"].sum()) > 0


class Odd(Recorder):
    """Records given values."""

    def __init__(self, variables: dict[str, Variable], values: Any = None, labels: Any = None):
        self.declared, self.values, self.own = variables, values or {}, labels

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return self.declared

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        return self.values

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        return xr.Dataset() if self.own is None else self.own

    def __repr__(self) -> str:
        return "Odd()"


NUMBERS = torch.zeros(4, dtype=torch.float64)
COMBINED = "cannot be combined .*"
ODD = Variable({"axis": 2})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((Diagnosis(), Diagnosis()), r"Diagnosis\(\) cannot .*objective.* is already recorded"),
        ([Odd({"regret": Variable()})], r"Odd\(\) cannot be .* regret is already recorded"),
        ([Odd({"first": Variable()})], COMBINED + "first is already recorded"),
        ([Odd({"x": Variable({"round": 3})})], COMBINED + "x declares round"),
        ([Odd({"x": Variable(dtype="text")})], "x has dtype .text.; give a type of PyTorch"),
        ([Odd({"x": Variable({"axis": "2"})})], COMBINED),  # type: ignore
        ([Odd({"trial": Variable()})], COMBINED),
        ([Odd({"x": Variable({"arm": 3})}), PredictionError()], COMBINED + "'?arm'?"),
        ([Odd({"x": Variable()}, labels=xr.Dataset({"regret": 1.0}))], COMBINED),
        ([Odd({"x": Variable()}, labels=xr.Dataset(coords={"round": [1, 2]}))], COMBINED),
        ([Odd({"x": Variable()}, {"other": NUMBERS})], "recorded other as .* declares nothing"),
        ([Odd({"x": Variable()}, {})], "x was recorded 0 times in a round of 2 strategies"),
        ([Odd({"x": Variable(averaged=True)}, {})], "x was recorded 0 times"),
        ([Odd({"x": Variable()}, {"x": NUMBERS[:1]})], r"of shape \(1,\), .* shape \(4,\)"),
        ([Odd({"x": ODD}, {"x": NUMBERS})], r"of shape \(4, 2\)"),
        (
            [Odd({"x": Variable(dtype="int32")}, {"x": NUMBERS})],
            r"float64 .* declares torch\.int32",
        ),
    ],
)
def test_bad_recorders(record: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        study(record, tmp_path, trials=4)
    assert not list(tmp_path.glob("*.npz"))


NOISE, EPSILON = 0.1, 0.05
EXACT = MarkovWorld(GRID, kernel=KERNEL, epsilon=EPSILON, noise=0.0)
MEANS = {"GP": 0.0, "TV": 0.7, "any": 0.0}
PREDICTORS = {
    "GP": gp_ucb(kernel=KERNEL, noise=NOISE),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=NOISE, epsilon=EPSILON, mean=0.7),
    "any": random_search(kernel=KERNEL, noise=NOISE),
}
RATES = {"GP": 0.0, "TV": EPSILON, "any": 0.0}
TRIALS, HORIZON = 19, 9


def predict(save_to=None, **changes: object) -> StudyResult:
    settings: dict = {"trials": TRIALS, "horizon": HORIZON, "chunk": CHUNK, "workers": 1}
    settings |= {"progress": False, "record": (PredictionError(),), "save_to": save_to}
    return run_study(EXACT, PREDICTORS, **{**settings, **changes})


@pytest.fixture(scope="module")
def predicted() -> StudyResult:
    return predict()


def dense_errors(result: StudyResult, label: str) -> np.ndarray:
    """(mean - f)² from K and the recorded choices, which were measured without noise."""
    stream = Stream(0, "world", 0, TRIALS, dtype=torch.float64, device=torch.device("cpu"))
    f = np.stack([f.numpy().copy() for _, f in zip(range(HORIZON), EXACT.rounds(stream))], 1)
    K = squared_exponential(GRID.X, 0.3)
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


@pytest.mark.parametrize("label", PREDICTORS)
def test_dense_formula(predicted, label) -> None:
    errors = dense_errors(predicted, label)
    maps = predicted.prediction_error.sel(strategy=label)
    np.testing.assert_allclose(maps["mean"], errors.mean((0, 1)), rtol=1e-8)
    expected = errors.mean(1).std(0, ddof=1) / np.sqrt(TRIALS)
    np.testing.assert_allclose(maps["standard_error"], expected, rtol=1e-8)
    np.testing.assert_allclose(
        predicted.squared_error.sel(strategy=label), errors.mean(-1), rtol=1e-8, atol=1e-12
    )
    np.testing.assert_array_equal(maps["position"], GRID.X)


@pytest.mark.few(3)
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


def test_single_precision_and_single_trial(predicted) -> None:
    single = predict(trials=1, dtype=torch.float32)
    assert single.squared_error.dtype == np.float32
    first = predicted.squared_error.isel(trial=[0]).mean(("trial", "round"))
    np.testing.assert_allclose(single.prediction_error["mean"].mean("arm"), first, rtol=1e-3)
    assert bool(single.prediction_error["standard_error"].isnull().all())


@pytest.mark.full
def test_damaged_maps_are_computed_again(predicted, tmp_path) -> None:
    predict(tmp_path)
    file = tmp_path / "TV" / "0000008-8.npz"
    arrays = dict(np.load(file))
    for changed in ({}, {MAP: arrays.pop(MAP)[:2]}):
        np.savez(file, **arrays, **changed)
        with pytest.warns(UserWarning, match=r"0000008-8\.npz is damaged"):
            assert same(predict(tmp_path), predicted)


BANK = Bank(rates=(0.0, 0.05), hazards=(0.0, 0.1), lengthscales=(0.2, 0.4), noise_ratios=(0.01,))


@pytest.mark.full
def test_weights_are_those_of_the_strategy():
    players = {
        "adaptive": adaptive_gp_ucb(bank=BANK),
        "other": adaptive_gp_ucb(bank=Bank(rates=(0.0,), noise_ratios=(0.1,))),
        "GP": gp_ucb(kernel=KERNEL, noise=0.02),
    }
    data = study((Weights(BANK),), strategies=players, trials=3, chunk=2).data
    for name, values in {
        "rate": BANK.rates,
        "hazard": BANK.hazards,
        "lengthscale": BANK.lengthscales,
        "noise_ratio": BANK.noise_ratios,
    }.items():
        found = data[f"weight_{name}"]
        assert found.dims == ("strategy", "trial", "round", name)
        np.testing.assert_array_equal(found[name], values)
        np.testing.assert_allclose(found.sel(strategy="adaptive").sum(name), 1.0)
        assert found.sel(strategy=["GP", "other"]).isnull().all()
    weight = data["weight_rate"].sel(strategy="adaptive").values
    np.testing.assert_allclose(weight[:, :3], 0.5)  # equally likely at first
    assert (np.abs(weight[:, -1] - 0.5) > 1e-6).all()
    jump = data["jump"].sel(strategy="adaptive")
    assert ((jump >= 0) & (jump <= 1)).all()
