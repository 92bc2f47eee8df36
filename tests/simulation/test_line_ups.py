"""Strategies added to a study that is kept, left out of it, and results put together."""

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
from botorch_tv.simulation.store import discard
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
    """The strategies of every chunk that is really played."""
    told: list[list[str]] = []

    play = executors.play_block

    def watched(settings: Any, labels: Any, *arguments: Any) -> Any:
        told.append(list(labels))
        return play(settings, labels, *arguments)

    monkeypatch.setattr(executors, "play_block", watched)
    return told


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


def test_more_trials_of_strategies_added_one_by_one(
    tmp_path: Path, played: list[list[str]]
) -> None:
    study("ET", save_to=tmp_path)
    study("GP", "ET", save_to=tmp_path)
    longer = study("GP", "TS", "ET", trials=8, save_to=tmp_path)
    assert_same(longer, study("GP", "TS", "ET", trials=8))
    assert longer.data.attrs["trials_found"] == 0
    discard(tmp_path, 8)
    assert not tmp_path.exists()


def test_a_strategy_left_out_is_told_and_kept(tmp_path: Path, played: list[list[str]]) -> None:
    whole = study("GP", "TS", "ET", save_to=tmp_path)
    with pytest.warns(UserWarning, match="also holds TS, which this call leaves out"):
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
    with pytest.warns(UserWarning, match="leaves out"):
        longer = study("GP", "ET", trials=9, save_to=tmp_path)
    assert_same(longer, study("GP", "ET", trials=9))
    assert [one for one in played if len(one) == 2] == played, "TS was played as well"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(study("GP", "TS", "ET", save_to=tmp_path), whole)


def test_a_new_label_is_a_new_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = study("TS", save_to=tmp_path)
    monkeypatch.setitem(PLAYERS, "other", PLAYERS["TS"])
    with pytest.warns(
        UserWarning, match="also holds TS, .* under a new label a strategy is computed again"
    ):
        renamed = study("other", save_to=tmp_path)
    assert not np.array_equal(first.data["index"], renamed.data["index"])
    assert_same(renamed, study("other"))


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
    one, two = study("TS", **recorded), study("GP", "ET", chunk=5, **recorded)
    whole = study("TS", "GP", "ET", **recorded)
    together = one.merge(two)
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
    assert one.merge(*apart).strategies == whole.strategies
    np.testing.assert_array_equal(one.merge(*apart).data["index"], whole.data["index"])
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


def test_regret_against_the_smallest_value_is_not_set_beside_that_against_the_largest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = study("GP")
    monkeypatch.setitem(PLAYERS, "down", gp_ucb(kernel=KERNEL, noise=0.02, maximize=False))
    down = study("down")
    with pytest.raises(
        ValueError, match="goal is 'the smallest value' there and 'the largest value' here"
    ):
        one.merge(down)
    assert one.merge(study("ET")).strategies == ["GP", "ET"]


def test_a_label_in_both_and_other_draws_are_refused() -> None:
    one = study("GP")
    with pytest.raises(ValueError, match="GP is in both"):
        one.merge(study("GP", "ET"))
    earlier = study("ET").data
    del earlier.attrs["draws"]
    with pytest.raises(ValueError, match=r"draws is None there and 'Splittable.* here"):
        one.merge(StudyResult(earlier))


def test_worlds_that_look_alike_are_told_apart() -> None:
    """The covariance of a world is not in its repr, which tells its size."""
    covariance = np.eye(16)
    results = []
    for scale, label in ((1.0, "GP"), (2.0, "ET")):
        world = MarkovWorld(
            GRID, kernel=torch.as_tensor(scale * covariance), epsilon=0.05, noise=0.02
        )
        results.append(
            run_study(world, {label: PLAYERS[label]}, trials=2, horizon=2, progress=False)
        )
    assert results[0].data.attrs["world"] == results[1].data.attrs["world"]
    with pytest.raises(ValueError, match=r"world\.kernel is .* there and .* here"):
        results[0].merge(results[1])


def test_worlds_drawn_by_other_code_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their settings are the same: paired differences were of trials with nothing in common."""
    one = study("GP")
    rounds = MarkovWorld.rounds

    def later(world: MarkovWorld, stream: Stream) -> Iterator[torch.Tensor]:
        return (values.flip(-1) for values in rounds(world, stream))

    monkeypatch.setattr(MarkovWorld, "rounds", later)
    other = study("ET")
    message = (
        r"different worlds or goals: in trial 0, round 1, arm 0 has the regret .* here and .* there"
    )
    with pytest.raises(ValueError, match=message):
        one.merge(other)


def test_worlds_computed_elsewhere_are_told_from_others() -> None:
    """Another processor rounds a covariance otherwise, which makes no other world of it."""
    results = []
    for scale, label in ((1.0, "GP"), (1 + 1e-14, "ET")):
        covariance = scale * (np.eye(16) + 0.3)
        world = MarkovWorld(GRID, kernel=torch.as_tensor(covariance), epsilon=0.05, noise=0.02)
        results.append(
            run_study(world, {label: PLAYERS[label]}, trials=2, horizon=2, progress=False)
        )
    assert results[0].merge(results[1]).strategies == ["GP", "ET"]
