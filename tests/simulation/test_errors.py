"""Errors of worlds, kernels and rules of one's own say where they came up; the rest comes first."""

import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel
from lasting import KERNEL, players, study
from torch import Tensor

from botorch_tv.forgetting import EventTrigger
from botorch_tv.loop import Loop
from botorch_tv.simulation import BoxWorld, MarkovWorld, StudyResult, World
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, OnArms
from botorch_tv.strategies import DiscreteSearch, GPStrategy, Grid, Strategy, gp_ucb
from botorch_tv.test_functions import DriftingBranin


class Small(MarkovWorld):
    def __init__(self) -> None:
        super().__init__(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)


class Stumbling(Small):
    """Yields an error in one round."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream), start=1):
            if t == self.at and stream.first >= 8:
                raise KeyError("of the user's")
            yield values


class Undefined(Small):
    """Is no number on one arm in one round."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream), start=1):
            if t == 3 and stream.first >= 8:
                values[1, 7] = self.value
            yield values


class Modest(OnArms):
    """Says that the best value is its second best."""

    def best(self, maximize: bool) -> Tensor:
        return self.values.sort(-1, descending=maximize).values[..., 1]


class Misjudged(World):
    """Begins to be wrong of its best value in one round."""

    def __init__(self, at: int) -> None:
        super().__init__(Grid.regular(5, 2), 0.02)
        self.at, self.values = at, Small()

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        for t, right in enumerate(self.values.objectives(stream), start=1):
            yield Modest(right.values.clone()) if t >= self.at else right


class HighBranin(DriftingBranin):
    """Knows its lowest value to be one more than it is."""

    def _best_at(self, t: Tensor) -> Tensor:
        return super()._best_at(t) + 1


def stumbling(y: Tensor, mean: Tensor, sd: Tensor, noise: Any, since: Tensor, delta: float) -> Any:
    if bool((since >= 4).any()):
        raise ZeroDivisionError("of the user's")
    return torch.zeros_like(since, dtype=torch.bool)


def triggered() -> Strategy:
    retention = EventTrigger(0.1, rule=stumbling)
    return GPStrategy(kernel=KERNEL, noise=0.02, retention=retention)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_world_that_is_no_number(value: float) -> None:
    with pytest.raises(ValueError, match=r"trial 9 is (nan|inf), but it") as found:
        study(world=Undefined(value), trials=16)
    assert "in round 3 of trials 8 to 15, as regret is counted" in found.value.__notes__[0]


@pytest.mark.parametrize("maximize", [True, False])
def test_a_best_value_that_is_beaten(maximize: bool) -> None:
    """Regret was negative, without a word."""
    one = {"GP": gp_ucb(kernel=KERNEL, noise=0.02, maximize=maximize)}
    said = "exceeds" if maximize else "is below"
    with pytest.raises(ValueError, match=f"Misjudged has .* one that {said} the best"):
        study(world=Misjudged(4), strategies=one, trials=16, horizon=40)
    study(world=Misjudged(1000), strategies=one, trials=16, horizon=40)


def test_a_test_function_whose_best_value_is_beaten() -> None:
    """At the point all play first, which is one of its best."""
    kernel = RBFKernel().double()
    one = {"GP": gp_ucb(kernel=kernel, noise=0.02, maximize=False)}
    search = DiscreteSearch(DriftingBranin().optimizers_at(1.0))
    for kind, refused in ((HighBranin, True), (DriftingBranin, False)):
        world = BoxWorld(kind(), noise=0.02, search=search)
        with pytest.raises(ValueError, match="is below the best") if refused else nullcontext():
            study(world=world, strategies=one, trials=1, horizon=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_world(workers: int) -> None:
    with pytest.raises(KeyError) as error:
        study(world=Stumbling(3), trials=16, workers=workers)
    assert error.value.__notes__ == [
        "run_study: in round 3 of trials 8 to 15, as the world makes its objective."
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rule(workers: int) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        study(strategies=players() | {"mine": triggered()}, trials=8, workers=workers)
    assert error.value.__notes__ == [
        "run_study: in round 4 of trials 0 to 7, as the strategy 'mine' observes."
    ]


def test_a_loop() -> None:
    loop = Loop(triggered(), Grid.regular(4, 2))
    for _ in range(3):
        loop.tell(0.0, suggestion=loop.ask())
    before = repr(loop)
    with pytest.raises(ZeroDivisionError) as error:
        loop.observe([0.0, 0.0], 0.0, time=9.0)
    assert error.value.__notes__ == ["Loop: while replaying measurement 4, time 9."]
    assert repr(loop) == before


# ---------------------------------------------------------------- before the first round


@pytest.mark.parametrize("label", ["a\0b", "\ud800", "", "  ", "a\nb", "a\x1b[0m"])
def test_labels_that_no_file_keeps(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be printed or kept in a file; give text"):
        study(strategies={label: gp_ucb(kernel=KERNEL, noise=0.02)}, trials=1)


def test_seeds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"seed is 18446744073709551616; .* below 2\*\*64"):
        study(seed=2**64, trials=1)
    result = study(seed=2**64 - 1, trials=1)
    assert StudyResult.load(result.save(tmp_path / "it.nc")).data.attrs["seed"] == 2**64 - 1


def test_a_world_that_shows_itself_strangely(tmp_path: Path) -> None:
    class Strange(MarkovWorld):
        def __repr__(self) -> str:
            return "Strange\0\ud800"

    world = Strange(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)
    result = study(world=world, trials=1)
    loaded = StudyResult.load(result.save(tmp_path / "it.nc"))
    assert loaded.data.attrs["world"] == r"Strange\0\ud800"


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path, trials=8)
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 8000, 8000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match=r"has room for 8e-06 GB, but .* take 8.16e-06 GB; make room"):
        study(tmp_path, trials=24)
    assert study(tmp_path, trials=8).data.attrs["trials_found"] == 8
