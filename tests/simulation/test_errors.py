import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lasting import KERNEL, players, study
from torch import Tensor

from botorch_tv.forgetting import EventTrigger
from botorch_tv.loop import Loop
from botorch_tv.simulation import MarkovWorld, StudyResult, World
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, OnArms
from botorch_tv.strategies import GPStrategy, Grid, Strategy, gp_ucb


class Small(MarkovWorld):
    def __init__(self) -> None:
        super().__init__(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)


class Stumbling(Small):
    """Raises an error in one round."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream), start=1):
            if t == self.at and stream.first >= 8:
                raise KeyError("of the user")
            yield values


class Undefined(Small):
    """Has an invalid value on one arm in one round."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream), start=1):
            if t == 3 and stream.first >= 8:
                values[1, 7] = self.value
            yield values


class Modest(OnArms):
    """Reports its second best value as the best."""

    def best(self, maximize: bool) -> Tensor:
        return self.values.sort(-1, descending=maximize).values[..., 1]


class Misjudged(World):
    """Reports a wrong best value from one round on."""

    def __init__(self, at: int) -> None:
        super().__init__(Grid.regular(5, 2), 0.02)
        self.at, self.values = at, Small()

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        for t, right in enumerate(self.values.objectives(stream), start=1):
            yield Modest(right.values.clone()) if t >= self.at else right


def stumbling(y: Tensor, mean: Tensor, sd: Tensor, noise: Any, since: Tensor, delta: float) -> Any:
    if bool((since >= 4).any()):
        raise ZeroDivisionError("of the user")
    return torch.zeros_like(since, dtype=torch.bool)


def triggered() -> Strategy:
    retention = EventTrigger(0.1, rule=stumbling)
    return GPStrategy(kernel=KERNEL, noise=0.02, retention=retention)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_invalid_values_of_a_world(value: float) -> None:
    with pytest.raises(ValueError, match=r"trial 9 is (nan|inf), but it") as found:
        study(world=Undefined(value), trials=16)
    assert "in round 3 of trials 8 to 15, as regret is checked" in found.value.__notes__[0]


@pytest.mark.parametrize("maximize", [True, False])
def test_wrong_best_values(maximize: bool) -> None:
    player = {"GP": gp_ucb(kernel=KERNEL, noise=0.02, maximize=maximize)}
    side = "above" if maximize else "below"
    with pytest.raises(ValueError, match=f"Misjudged has .* a value {side} the best"):
        study(world=Misjudged(4), strategies=player, trials=16, horizon=40)
    study(world=Misjudged(1000), strategies=player, trials=16, horizon=40)


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_worlds_and_rules(workers: int) -> None:
    with pytest.raises(KeyError) as error:
        study(world=Stumbling(3), trials=16, workers=workers)
    where = "run_study: in round 3 of trials 8 to 15, as the world makes its objective."
    assert error.value.__notes__ == [where]
    with pytest.raises(ZeroDivisionError) as error:
        study(strategies=players() | {"mine": triggered()}, trials=8, workers=workers)
    where = "run_study: in round 4 of trials 0 to 7, as the strategy 'mine' observes."
    assert error.value.__notes__ == [where]


# ---------------------------------------------------------------- before the first round


@pytest.mark.parametrize("label", ["a\0b", "\ud800", "", "  ", "a\nb", "a\x1b[0m"])
def test_labels_that_no_file_can_store(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be printed or stored in a file; give text"):
        study(strategies={label: gp_ucb(kernel=KERNEL, noise=0.02)}, trials=1)


def test_seeds_and_texts_of_worlds(tmp_path: Path) -> None:
    class Strange(Small):
        def __repr__(self) -> str:
            return "Strange\0\ud800"

    with pytest.raises(ValueError, match=r"seed is 18446744073709551616; give .* below 2\*\*64"):
        study(seed=2**64, trials=1)
    result = study(world=Strange(), seed=2**64 - 1, trials=1)
    loaded = StudyResult.load(result.save(tmp_path / "it.nc")).data.attrs
    assert (loaded["seed"], loaded["world"]) == (2**64 - 1, r"Strange\0\ud800")


def test_a_disk_without_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path, trials=8)
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 8000, 8000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match=r"has 8e-06 GB of free space, but .* take 8.16e-06 GB; free"):
        study(tmp_path, trials=24)
    assert study(tmp_path, trials=8).data.attrs["trials_found"] == 8


def test_replayed_measurements_of_a_loop() -> None:
    loop = Loop(triggered(), Grid.regular(4, 2))
    for _ in range(3):
        loop.tell(0.0, suggestion=loop.ask())
    before = repr(loop)
    with pytest.raises(ZeroDivisionError) as error:
        loop.observe([0.0, 0.0], 0.0, time=9.0)
    assert error.value.__notes__ == ["Loop: measurement 4 is replayed, of time 9."]
    assert repr(loop) == before
