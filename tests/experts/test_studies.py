"""Strategies that consult experts in regret studies."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from botorch_tv.acquisition import Logarithmic
from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.experts import SparQ, sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.forgetting.sparq_windows import window_starts
from botorch_tv.simulation import MarkovWorld, PanelWorld, StudyResult, World, run_study, settings
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, Strategy, tv_gp_ucb

GRID = Grid.regular(points=6, dim=2)
KERNEL = unit_kernel("se", 0.3)
ROUNDS = 12


def strategies() -> dict[str, Strategy]:
    common = {"kernel": KERNEL, "noise": 0.02, "width": Logarithmic(), "steps": 15}
    return {
        "TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.1),
        "SparQ": sparq_gp_ucb(c_Q=2.0, **common),
        "W-SparQ": w_sparq_gp_ucb(alpha=1.0, **common),
    }


def study(chosen: dict[str, Strategy], **settings: object) -> StudyResult:
    world = settings.pop("world", None) or MarkovWorld(GRID, kernel=KERNEL, epsilon=0.1, noise=0.02)
    assert isinstance(world, World)
    settings = {"trials": 5, "horizon": ROUNDS, "seed": 3, "workers": 1} | settings
    return run_study(world, chosen, progress=False, **settings)  # type: ignore[arg-type]


def test_side_queries_are_counted_where_they_are_asked() -> None:
    result = study(strategies())
    asked = result.side_queries
    assert asked.dims == ("strategy", "trial", "round")
    with pytest.raises(KeyError, match="side_queries"):
        StudyResult(result.data.drop_vars("side_queries")).side_queries  # noqa: B018
    assert int(asked.sel(strategy="TV").sum()) == 0
    arms = result.data["index"]
    for label, scale in (("SparQ", 2.0), ("W-SparQ", 1.0)):
        for trial in range(5):
            for t in range(1, ROUNDS + 1):
                past = len(set(arms.sel(strategy=label, trial=trial).values[:t].tolist()))
                most = min(past, math.ceil(scale * math.log(t + 1) ** 2))
                due = label == "SparQ" or t in window_starts(ROUNDS, 1.0, 0.25)
                seen = int(asked.sel(strategy=label, trial=trial, round=t))
                assert seen == (most if due else 0)


def test_every_purpose_has_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies that draw, and their experts, share no random numbers."""
    purposes: dict[str, torch.Tensor] = {}

    class Noted(Stream):
        def __init__(self, seed: int, purpose: str, *trials: int, **place: object) -> None:
            super().__init__(seed, purpose, *trials, **place)  # type: ignore[arg-type]
            assert purpose not in purposes, f"two streams are for {purpose!r}"
            own = Stream(seed, purpose, *trials, **place)  # type: ignore[arg-type]
            purposes[purpose] = torch.cat([own.normal(50), own.uniform(50)], 1)

    monkeypatch.setattr(settings, "Stream", Noted)
    curious = replace(strategies()["SparQ"], exploration=Thompson())
    study({"a": curious, "b": curious, "expert a": curious}, trials=3, horizon=2)
    assert set(purposes) >= {"world", "noise"}
    assert len(purposes) >= 2 + 2 * 3  # a stream to choose and a stream for the expert
    numbers = torch.cat(list(purposes.values())).flatten()
    assert len(numbers.unique()) == len(numbers)


class Silent(SparQ):
    """Records the answers of its expert."""

    received: list = []  # noqa: RUF012 - shared by all copies on purpose

    def absorb(self, state, consultation, y, *, ok=None, check=True):  # type: ignore[no-untyped-def]
        self.received.append((consultation, y, ok))
        return super().absorb(state, consultation, y, ok=ok, check=check)


def test_experts_answer_with_the_present_objective() -> None:
    """Answers are f_t of the round just played; sensors that are out do not answer."""
    random = np.random.default_rng(1)
    panel = random.standard_normal((30, 8)).cumsum(0)
    panel[22:26, 3] = np.nan
    world = PanelWorld(panel, train=20, first_arm=3)
    Silent.received.clear()
    strategy = Silent(kernel=world.kernel, noise=world.model_noise, width=Logarithmic())
    study({"noted": strategy}, world=world, horizon=8, trials=4)
    assert len(Silent.received) == 8
    missing = 0
    for t, (asked, y, ok) in enumerate(Silent.received):
        assert asked.round == t + 1
        truth = world.objective[t][asked.choice]
        assert torch.equal(y, truth)  # a panel adds no errors
        out = torch.tensor([3]) if 2 <= t < 6 else torch.tensor([-1])
        assert torch.equal(ok, asked.choice != out)
        missing += int((~ok & asked.mask).sum())
    assert missing > 0
