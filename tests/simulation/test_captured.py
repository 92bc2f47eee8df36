from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.compiled_strategies import (
    KINDS,
    NOISE,
    SCATTERED,
    beside_the_recursion,
    rough,
    smooth,
    ucb,
)
from simulation.tape import Tape, taped

from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.gp import arm_engine
from botorch_tv.simulation import AbruptWorld, Diagnosis, MarkovWorld, run_study
from botorch_tv.simulation.captured import Capture, CapturedTable
from botorch_tv.simulation.rounds import EagerTable
from botorch_tv.simulation.settings import Arrays, StudySettings
from botorch_tv.simulation.worlds import GridWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import Grid, Strategy

CPU, BLOCK, HORIZON = torch.device("cpu"), range(3, 7), 75
FEW = {name: KINDS[name] for name in ("static", "resetting", "moving and triggered")}
GRAPHED = {name: parts for name, parts in KINDS.items() if "window" not in name}
DOMAINS = {
    "square": Grid.regular(9, 2),
    "cube": Grid.regular(5, 3),
    "line": Grid.regular(31, 1),
    "scattered": SCATTERED,
}


def played(
    world: GridWorld,
    strategies: dict[str, Strategy],
    capture: Capture | None = taped,
    horizon: int = HORIZON,
) -> tuple[CapturedTable, EagerTable, dict[str, Arrays]]:
    """The same study by captured rounds and by the recursion."""
    settings = StudySettings(world, strategies, horizon, 0, torch.float64, CPU, compiled=True)
    graphs = settings.compilable(strategies)
    assert list(graphs) == list(strategies)
    captured = CapturedTable(settings, graphs, BLOCK, capture)
    return captured, *beside_the_recursion(captured, settings, BLOCK)


@pytest.fixture(autouse=True)
def _as_on_a_device(monkeypatch):
    """On a CPU, clear_ lists the trials, which a graph cannot capture."""

    def clear_(tensor, trials, value=0.0):
        mask = trials.view(*trials.shape, *[1] * (tensor.dim() - trials.dim()))
        if isinstance(value, torch.Tensor):
            return torch.where(mask, value, tensor, out=tensor)
        return tensor.masked_fill_(mask, value)

    monkeypatch.setattr(arm_engine, "clear_", clear_)


def markov(domain: Grid) -> MarkovWorld:
    return MarkovWorld(domain, kernel=smooth(), epsilon=0.05, noise=NOISE)


@pytest.mark.few("scattered")
@pytest.mark.parametrize(
    ("name", "kernel", "kinds"),
    [
        pytest.param("square", smooth(), GRAPHED, id="square"),
        pytest.param("cube", rough(), GRAPHED, id="cube", marks=pytest.mark.slow),
        pytest.param("line", smooth(), GRAPHED, id="line", marks=pytest.mark.slow),
        pytest.param("scattered", rough(), FEW, id="scattered"),
    ],
)
def test_replayed_rounds_are_those_of_the_recursion(name, kernel, kinds):
    strategies = {
        label: ucb(**{"kernel": kernel, "noise": 0.05} | parts) for label, parts in kinds.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a round that cannot be recorded
        captured, eager, found = played(markov(DOMAINS[name]), strategies)
    for label in {"triggered", "walking and triggered"} & {*kinds}:
        assert found[label]["resets"].any(), label
    for state, player in zip(eager.states.values(), captured.players.values()):
        assert player._round.again is not None
        running = state.data.running
        torch.testing.assert_close(player.posterior.mean, running.mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(player.posterior.variance, running.variance, rtol=0, atol=1e-8)
        gain = running.information_gain
        torch.testing.assert_close(player.posterior.information_gain, gain, rtol=0, atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("capture", [None, taped], ids=["as it is", "recorded"])
def test_minimisation_and_objectives_given_as_values(capture):
    domain = DOMAINS["square"]
    world = AbruptWorld(domain, functions=GaussianDraw(smooth()), changes=[40], noise=NOISE)
    strategies = {label: ucb(**parts, maximize=False) for label, parts in FEW.items()}
    played(world, strategies, capture)


def broken(work: Callable[[], None]) -> Callable[[], None]:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand so on")


def test_rounds_that_cannot_be_captured_are_played_without_graphs():
    strategies = {label: ucb(**parts) for label, parts in FEW.items()}
    with pytest.warns(UserWarning, match=r"not be captured .*\(RuntimeError: CUDA") as caught:
        played(markov(DOMAINS["square"]), strategies, broken, horizon=60)
    assert len(caught) == 1


def wrong(work: Callable[[], None]) -> Callable[[], None]:
    """A recording of only the first operation."""
    tape = Tape()
    with tape:
        work()
    tape.undo()
    del tape.calls[1:]
    return tape.replay


@pytest.mark.parametrize("capture", [lambda work: lambda: None, wrong], ids=["empty", "wrong"])
@pytest.mark.few(1)
def test_wrong_recordings_are_detected(capture):
    strategies = {label: ucb(**parts) for label, parts in FEW.items()}
    with pytest.warns(UserWarning, match="a graph differs from its operations") as caught:
        played(markov(DOMAINS["square"]), strategies, capture, horizon=60)
    assert len(caught) == 1


class Failing(MarkovWorld):
    def available(self, step, choice):
        return choice % 2 == 0


@pytest.mark.parametrize(
    ("parts", "labels"),
    [
        ({}, ["GP", "ET"]),
        ({"compiled": False}, []),
        ({"record": (Diagnosis(),)}, []),
        ({"world": Failing(DOMAINS["square"], kernel=smooth(), epsilon=0.05, noise=NOISE)}, []),
        ({"dtype": torch.float32}, []),
    ],
)
def test_strategies_captured_on_a_gpu(parts, labels):
    strategies = {"GP": ucb(), "TS": ucb(exploration=Thompson()), "ET": ucb()}
    given = {"dtype": torch.float64, "compiled": True, "world": markov(DOMAINS["square"]), **parts}
    gpu = torch.device("cuda")
    settings = StudySettings(strategies=strategies, horizon=30, seed=0, device=gpu, **given)
    settings._states.update(replace(settings, device=CPU).states(strategies))
    assert list(settings.compilable(strategies)) == labels


@pytest.mark.gpu
def test_graphs_of_a_gpu_choose_as_the_recursion_there():
    world = markov(DOMAINS["square"])
    strategies = {label: ucb(**parts) for label, parts in KINDS.items()}
    options = {"trials": 64, "horizon": HORIZON, "device": "cuda", "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured, eager = (
            run_study(world, strategies, compiled=compiled, **options) for compiled in (True, False)
        )
    np.testing.assert_array_equal(captured.data["index"].values, eager.data["index"].values)
    np.testing.assert_array_equal(captured.resets.values, eager.resets.values)
    np.testing.assert_allclose(captured.regret.values, eager.regret.values, rtol=0, atol=1e-9)
