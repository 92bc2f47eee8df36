from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from lasting import same
from torch import Tensor

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.simulation import (
    Diagnosis,
    MarkovWorld,
    PredictionError,
    Recorder,
    Seen,
    StudyResult,
    Variable,
    run_study,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.settings import StudySettings, chunk_size
from botorch_tv.strategies import Grid, Strategy, et_gp_ucb, tv_gp_ucb
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


class Buffered(Recorder):
    """Returns the same buffer for all rounds and strategies."""

    def __init__(self) -> None:
        self._buffers: dict[int, Tensor] = {}

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        return {"mean again": Variable()}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        mean = seen.suggestion.mean
        buffer = self._buffers.setdefault(len(mean), torch.empty_like(mean))
        return {"mean again": buffer.copy_(mean)}


def test_a_recorder_may_reuse_a_buffer() -> None:
    data = study((Buffered(), Diagnosis())).data
    np.testing.assert_array_equal(data["mean again"], data["mean"])


def test_recorders_are_independent(whole: StudyResult) -> None:
    alone = study((Visits(),))
    names = [*study(()).data.data_vars, "gain", "point", "visits", "visits_standard_error"]
    assert set(alone.data.data_vars) == set(names)
    for name in names:
        np.testing.assert_array_equal(alone.data[name], whole.data[name])


def test_chunks_folders_and_files(whole: StudyResult, tmp_path: Path) -> None:
    record = (PredictionError(), Visits(), Diagnosis())  # in another order
    study(record, tmp_path / "study", trials=6, strategies={"TV": PLAYERS["TV"]})
    retained = study(record, tmp_path / "study")
    assert retained.strategies == whole.strategies
    assert same(retained, whole)
    assert same(study(record, tmp_path / "study"), whole)
    retained.save(tmp_path / "study.nc")
    assert same(StudyResult.load(tmp_path / "study.nc"), whole)
    tv, et = (StudyResult(whole.data.sel(strategy=[label])) for label in ("TV", "ET"))
    assert same(tv.merge(et), retained) is False
    turned = et.merge(tv)
    np.testing.assert_array_equal(turned.data["visits"], whole.data["visits"])


def test_recorders_are_part_of_the_identity(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Above(Recorder):
        level: float

        def variables(self, domain: Domain) -> Mapping[str, Variable]:
            return {f"above {self.level}": Variable(dtype="bool")}

        def before(self, seen: Seen) -> Mapping[str, Tensor]:
            return {f"above {self.level}": seen.observation > self.level}

    first = study((Above(0.5), Above(1.0)), tmp_path)
    assert first.data["above 0.5"].dtype == bool
    share = float(first.data["above 0.5"].mean()), float(first.data["above 1.0"].mean())
    assert share[0] > share[1] > 0
    assert same(study((Above(1.0), Above(0.5)), tmp_path), first)
    for record, difference in (
        ((), r"record\.Above is .*Above there and absent here"),
        ((Above(0.5), Above(2.0)), r"record\.Above \(2\)\.level is 1\.0 there and 2\.0 here"),
        ((Above(0.5), Above(1.0), Diagnosis()), r"record\.Diagnosis is absent there and Diagn"),
    ):
        with pytest.raises(ValueError, match="holds another study: " + difference):
            study(record, tmp_path)

    class Above(Recorder):  # type: ignore[no-redef]  # of the same name, with other code
        def variables(self, domain: Domain) -> Mapping[str, Variable]:
            return {"above": Variable(dtype="bool")}

    with pytest.raises(ValueError, match=r"record\.Above.*\(code\)"):
        study((Above(),), tmp_path)


def test_arguments_of_before_and_after() -> None:
    seen_rounds: list[tuple[int, int, int, float]] = []

    class Watching(Recorder):
        def variables(self, domain: Domain) -> Mapping[str, Variable]:
            return {"asked": Variable(dtype="int32")}

        def before(self, seen: Seen) -> Mapping[str, Tensor]:
            self._count = seen.state.rounds
            assert torch.equal(seen.best, seen.objective.best(True))
            assert torch.equal(seen.value, seen.objective.at(seen.suggestion.choice))
            return {}

        def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
            regret = float(seen.regret(seen.value).min())
            seen_rounds.append((seen.round, self._count, seen.state.rounds, regret))
            return {"asked": info.side_queries}

    player = {"SparQ": sparq_gp_ucb(kernel=KERNEL, noise=0.02)}
    result = study((Watching(),), strategies=player, trials=3)
    assert [row[:3] for row in seen_rounds] == [(t, t - 1, t) for t in range(1, 10)]
    assert min(row[3] for row in seen_rounds) >= 0
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


def test_errors_name_the_recorder() -> None:
    class Broken(Odd):
        def before(self, seen: Seen) -> Mapping[str, Tensor]:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as error:
        study((Broken({"one": Variable()}),))
    assert (
        "round 1 of trials 0 to 3, as Odd() records the strategy 'ET'" in error.value.__notes__[0]
    )


def test_memory_of_recorders(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(*record: Recorder) -> StudySettings:
        return StudySettings(WORLD, PLAYERS, 9, 0, torch.float32, torch.device("cpu"), record)

    plain, wide = settings(), settings(Odd({"wide": Variable({"arm": 16})}))
    mean = settings(Odd({"mean": Variable({"arm": 16}, averaged=True)}))
    assert plain.bytes_of(5) == 5 * 9 * (4 + 1 + 4 + 4)
    assert wide.bytes_of(5) - plain.bytes_of(5) == 5 * 9 * 16 * 4
    assert mean.bytes_of(5) - plain.bytes_of(5) == 2 * 16 * 8
    monkeypatch.setattr("botorch_tv.simulation.settings.free_bytes", lambda device: 2**20)
    sizes = [chunk_size(given, trials=500, workers=1) for given in (plain, mean, wide)]
    assert sizes[0] > sizes[1] > sizes[2] >= 1
