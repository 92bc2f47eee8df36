"""Law 4 through studies: neither the chunk nor a break changes a choice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xarray as xr
from conformance.presets import BESIDE, BY_NAME, DRAWING, PRESETS, Preset, one_per
from conformance.rounds import Setting
from torch import Tensor

from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.simulation.streams import Stream

SETTING = Setting(points=4, kernel="se", noise=0.05, rounds=15, lengthscale=0.3)
TRIALS = 3
# The strategies of a study are independent, so a study of many tests each of them.
STUDIES = {
    "explorations": one_per(lambda preset: preset.path[1], [*PRESETS]),
    "given": one_per(lambda preset: preset.path, [preset for preset in PRESETS if preset.maximize]),
    "adaptive": [one for one in BESIDE if one.maximize],
}
each_study = pytest.mark.parametrize("players", list(STUDIES))


class Fused(MarkovWorld):
    """A world that fails after some chunks, unless the fuse is removed."""

    _fuse: ClassVar[dict[str, int]] = {}  # mutable and hidden, so not a part of the world

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream)):
            if t == 7 and Fused._fuse:
                Fused._fuse["left"] -= 1
                if Fused._fuse["left"] < 0:
                    raise KeyboardInterrupt
            yield values


def study(
    *presets: Preset,
    chunk: int | None,
    save_to: Path | None = None,
    trials: int = TRIALS,
    horizon: int = SETTING.rounds,
) -> xr.Dataset:
    world = Fused(SETTING.domain, kernel=SETTING.module(), epsilon=0.05, noise=0.05)
    strategies = {one.name: one.strategy(SETTING.module(), SETTING.noise) for one in presets}
    settings: dict[str, Any] = {"trials": trials, "horizon": horizon, "chunk": chunk, "seed": 4}
    settings |= {"workers": 1, "save_to": save_to, "progress": False}
    return run_study(world, strategies, **settings).data


def assert_agree(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Choices exactly, and numbers up to rounding, which processors decide."""
    assert {**actual.dtypes} == {**expected.dtypes}
    xr.testing.assert_allclose(actual.drop_attrs(), expected.drop_attrs(), rtol=0, atol=1e-10)


@pytest.mark.few("explorations")
@each_study
def test_neither_chunk_nor_break_changes_a_choice(
    players: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of one trial, against a chunk of two and a short chunk.

    Then interrupted in the second chunk of two, and extended by a third trial.
    """
    presets = STUDIES[players]
    whole, other = study(*presets, chunk=1), study(*presets, chunk=2)
    assert_agree(other, whole)
    for number in range(len(presets)):
        assert len(np.unique(whole["regret"][number], axis=0)) > 1  # the trials really differ
    monkeypatch.setattr(Fused, "_fuse", {"left": 1})
    with pytest.raises(KeyboardInterrupt):
        study(*presets, chunk=1, save_to=tmp_path / "broken", trials=2)
    monkeypatch.setattr(Fused, "_fuse", {"left": 2})  # for missing chunks, not for stored chunks
    assert_agree(study(*presets, chunk=1, save_to=tmp_path / "broken"), whole)


def test_draws_belong_to_the_label() -> None:
    """Other strategies do not change its draws, and two labels draw differently."""
    others = [one for one in DRAWING if one.maximize]
    together = study(*others, BY_NAME["GP-UCB"], chunk=TRIALS)
    for preset in others:
        alone = study(preset, chunk=TRIALS)
        beside = together["index"].sel(strategy=preset.name).values
        np.testing.assert_array_equal(beside, alone["index"].values[0])
    chance = BY_NAME["Random"]
    twins = [chance, chance._replace(name="other")]
    played = study(*twins, chunk=TRIALS)["index"].values
    assert not np.array_equal(played[0], played[1])


def test_trials_and_rounds_of_a_study_are_the_first_of_a_larger_study() -> None:
    few = study(BY_NAME["GP-TS"], chunk=2, horizon=11)
    many = study(BY_NAME["GP-TS"], chunk=4, trials=70)  # more than a block of streams
    np.testing.assert_array_equal(few["index"].values, many["index"].values[:, :TRIALS, :11])
