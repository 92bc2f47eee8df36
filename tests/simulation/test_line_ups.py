import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from botorch_tv.simulation import (
    Diagnosis,
    MarkovWorld,
    PredictionError,
    StudyResult,
    executors,
    run_study,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, Strategy, et_gp_ucb, gp_ts, gp_ucb

GRID = Grid.regular(4, 2)
KERNEL = unit_kernel("se", 0.3)
PLAYERS: dict[str, Strategy] = {
    "GP": gp_ucb(kernel=KERNEL, noise=0.02),
    "ET": et_gp_ucb(kernel=KERNEL, noise=0.02),
    "TS": gp_ts(kernel=KERNEL, noise=0.02),
}
TRIALS, CHUNK = 5, 2


def study(*labels: str, **changes: object) -> StudyResult:
    epsilon = changes.pop("epsilon", 0.05)
    world = MarkovWorld(GRID, kernel=KERNEL, epsilon=epsilon, noise=0.02)  # type: ignore[arg-type]
    settings = {"trials": TRIALS, "horizon": 6, "chunk": CHUNK, "workers": 1, "seed": 3, **changes}
    players = {label: PLAYERS[label] for label in labels}
    return run_study(world, players, progress=False, **settings)  # type: ignore[arg-type]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The strategies of every chunk that is played."""
    seen: list[list[str]] = []

    play = executors.play_block

    def watched(settings: Any, labels: Any, *arguments: Any) -> Any:
        seen.append(list(labels))
        return play(settings, labels, *arguments)

    monkeypatch.setattr(executors, "play_block", watched)
    return seen


def assert_same(actual: StudyResult, expected: StudyResult) -> None:
    assert actual.strategies == expected.strategies
    assert set(actual.data.variables) == set(expected.data.variables)
    for name in expected.data.variables:
        np.testing.assert_array_equal(actual.data[name], expected.data[name], str(name))
        assert actual.data[name].dims == expected.data[name].dims
    assert json.loads(actual.data.attrs["strategies"]) == json.loads(
        expected.data.attrs["strategies"]
    )


@pytest.mark.parametrize("recorded", [{}, {"record": (Diagnosis(), PredictionError())}])
def test_an_added_strategy_is_computed_alone(
    tmp_path: Path, played: list[list[str]], recorded: dict[str, Any]
) -> None:
    whole = study("GP", "TS", "ET", **recorded)
    study("GP", **recorded, save_to=tmp_path)
    played.clear()
    assert_same(study("GP", "TS", "ET", **recorded, save_to=tmp_path), whole)
    assert played == [["TS", "ET"]] * 3
    again = study("GP", "TS", "ET", **recorded, save_to=tmp_path)
    assert_same(again, whole)
    assert again.data.attrs["trials_found"] == TRIALS
    assert len(played) == 3, "played again"


def test_an_omitted_strategy_stays(tmp_path: Path, played: list[list[str]]) -> None:
    whole = study("GP", "TS", "ET", save_to=tmp_path)
    with pytest.warns(UserWarning, match="also holds TS, which this call omits"):
        part = study("ET", "GP", save_to=tmp_path)
    assert_same(
        part,
        StudyResult(
            whole.data.sel(strategy=["ET", "GP"]).assign_attrs(
                strategies=part.data.attrs["strategies"]
            )
        ),
    )
    played.clear()
    with pytest.warns(UserWarning, match="omits"):
        longer = study("GP", "ET", trials=9, save_to=tmp_path)
    assert_same(longer, study("GP", "ET", trials=9))
    assert all(labels == ["GP", "ET"] for labels in played)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(study("GP", "TS", "ET", save_to=tmp_path), whole)


@pytest.mark.parametrize("added", [False, True])
def test_another_strategy_of_a_label_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: bool
) -> None:
    study("GP", save_to=tmp_path)
    if added:
        study("GP", "ET", save_to=tmp_path)
    label = "ET" if added else "GP"
    monkeypatch.setitem(PLAYERS, label, gp_ucb(kernel=KERNEL, noise=0.03))
    with pytest.raises(ValueError, match=rf"holds another study: .*strategies\.{label}"):
        study("GP", label, "TS", save_to=tmp_path)
    with pytest.raises(ValueError, match=r"world\.epsilon is 0\.05 there and 0\.1 here"):
        study("TS", epsilon=0.1, save_to=tmp_path)


@pytest.mark.parametrize("recorded", [{}, {"record": (Diagnosis(), PredictionError())}])
def test_results_of_the_same_trials_are_merged(tmp_path: Path, recorded: dict[str, Any]) -> None:
    first, second = study("TS", **recorded), study("GP", "ET", chunk=5, **recorded)
    whole = study("TS", "GP", "ET", **recorded)
    together = first.merge(second)
    for name in ("index", "resets"):
        np.testing.assert_array_equal(together.data[name], whole.data[name])
    for name in set(whole.data.data_vars) - {"index", "resets"}:
        np.testing.assert_allclose(together.data[name], whole.data[name], atol=1e-10)
    assert together.strategies == whole.strategies
    attributes = {*whole.data.attrs} - {"seconds", "created"}
    assert {name: together.data.attrs[name] for name in attributes} == {
        name: whole.data.attrs[name] for name in attributes
    }
    apart = [study(label, chunk=5, **recorded) for label in ("GP", "ET")]
    assert first.merge(*apart).strategies == whole.strategies
    np.testing.assert_array_equal(first.merge(*apart).data["index"], whole.data["index"])
    together.save(tmp_path / "together.nc")
    assert_same(StudyResult.load(tmp_path / "together.nc"), together)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 4}, "seed is 4 there and 3 here"),
        ({"epsilon": 0.1}, r"world\.epsilon is 0\.1 there and 0\.05 here"),
        ({"trials": 4}, "trials is 4 there and 5 here; sizes.trial is 4"),
        ({"horizon": 5}, "horizon is 5 there and 6 here; .*sizes.round is 5"),
        ({"record": (Diagnosis(),)}, "band, .*observation.* in only one"),
    ],
)
def test_results_of_other_trials_are_not_merged(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=rf"different trials: .*{message}"):
        study("GP").merge(study("ET", **changes))


def test_results_with_other_goals_labels_or_draws_are_not_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = study("GP")
    monkeypatch.setitem(PLAYERS, "down", gp_ucb(kernel=KERNEL, noise=0.02, maximize=False))
    with pytest.raises(ValueError, match="goal is 'the smallest value' there and 'the largest"):
        first.merge(study("down"))
    with pytest.raises(ValueError, match="GP is in both"):
        first.merge(study("GP", "ET"))
    earlier = study("ET").data
    assert first.merge(StudyResult(earlier)).strategies == ["GP", "ET"]
    del earlier.attrs["draws"]
    with pytest.raises(ValueError, match=r"draws is None there and 'Splittable.* here"):
        first.merge(StudyResult(earlier))


def test_worlds_with_equal_text() -> None:
    """A covariance that differs by rounding is the same world; the text shows only its size."""

    def played(scale: float, label: str) -> StudyResult:
        kernel = torch.as_tensor(scale * (np.eye(16) + 0.3))
        world = MarkovWorld(GRID, kernel=kernel, epsilon=0.05, noise=0.02)
        players = {label: PLAYERS[label]}
        return run_study(world, players, trials=2, horizon=2, progress=False)

    first, other = played(1.0, "GP"), played(2.0, "ET")
    assert first.data.attrs["world"] == other.data.attrs["world"]
    with pytest.raises(ValueError, match=r"world\.kernel is .* there and .* here"):
        first.merge(other)
    assert first.merge(played(1 + 1e-14, "ET")).strategies == ["GP", "ET"]


def test_worlds_drawn_by_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    first, rounds = study("GP"), MarkovWorld.rounds

    def later(world: MarkovWorld, stream: Stream) -> Iterator[torch.Tensor]:
        return (values.flip(-1) for values in rounds(world, stream))

    monkeypatch.setattr(MarkovWorld, "rounds", later)
    message = r"different worlds or goals: in trial 0, round 1, arm 0 has the regret .* here and .*"
    with pytest.raises(ValueError, match=message):
        first.merge(study("ET"))
