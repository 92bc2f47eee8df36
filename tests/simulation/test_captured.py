"""Captured rounds make the choices of the others, whoever records them, or nobody."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from kinds import KINDS, NOISE, SCATTERED, rough, smooth, ucb
from tape import Tape, taped
from tqdm.auto import tqdm

from botorch_tv.acquisition.exploration import Thompson
from botorch_tv.gp import arm_engine
from botorch_tv.simulation import AbruptWorld, Diagnosis, MarkovWorld, run_study
from botorch_tv.simulation import rounds as chunks_module
from botorch_tv.simulation.captured import (
    Capture,
    CapturedTable,
    Recorder,
    Replayed,
    cuda_graph,
)
from botorch_tv.simulation.rounds import EagerTable, Place, Progress, play_block
from botorch_tv.simulation.rules import numbers_per_trial, require_compiled
from botorch_tv.simulation.settings import Arrays, StudySettings, chunk_size
from botorch_tv.simulation.streams import Stream
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


@dataclass
class Both:
    """A study by captured rounds and by the recursion, side by side."""

    captured: CapturedTable
    eager: EagerTable
    found: dict[str, Arrays]
    expected: dict[str, Arrays]

    @classmethod
    def played(
        cls,
        world: GridWorld,
        strategies: dict[str, Strategy],
        capture: Capture | None = taped,
        horizon: int = HORIZON,
    ) -> Both:
        settings = StudySettings(world, strategies, horizon, 0, torch.float64, CPU, compiled=True)
        graphs = settings.compilable(strategies)
        assert list(graphs) == list(strategies)
        captured = CapturedTable(settings, graphs, BLOCK, capture)
        eager = EagerTable(settings, list(strategies), Place(BLOCK))
        draws = Stream(0, "world", 3, 4, dtype=torch.float64, device=CPU)
        for step, objective in zip(range(horizon), world.objectives(draws)):
            captured.play_round(step, objective)
            eager.play_round(step, objective)
        return cls(captured, eager, captured.finished(), eager.finished())

    def require_same(self) -> None:
        for label, found in self.found.items():
            assert set(found) == set(self.expected[label])
            for name, one in found.items():
                other = self.expected[label][name]
                assert one.dtype == other.dtype
                if name == "regret":
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
                else:
                    np.testing.assert_array_equal(one, other, err_msg=f"{name} of {label}")


@pytest.fixture(autouse=True)
def _as_on_a_device(monkeypatch):
    """On a CPU the trials that forget are listed, which no graph can hold."""

    def clear_(tensor, trials, value=0.0):
        mask = trials.view(*trials.shape, *[1] * (tensor.dim() - trials.dim()))
        if isinstance(value, torch.Tensor):
            return torch.where(mask, value, tensor, out=tensor)
        return tensor.masked_fill_(mask, value)

    monkeypatch.setattr(arm_engine, "clear_", clear_)


def markov(domain: Grid) -> MarkovWorld:
    return MarkovWorld(domain, kernel=smooth(), epsilon=0.05, noise=NOISE)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        pytest.param("square", smooth(), id="square"),
        pytest.param("cube", rough(), id="cube", marks=pytest.mark.slow),
        pytest.param("line", smooth(), id="line", marks=pytest.mark.slow),
        pytest.param("scattered", rough(), id="scattered"),
    ],
)
def test_a_round_recorded_once_is_every_round_of_the_recursion(name, kernel):
    strategies = {
        label: ucb(**{"kernel": kernel, "noise": 0.05} | parts) for label, parts in GRAPHED.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a round that cannot be recorded
        both = Both.played(markov(DOMAINS[name]), strategies)
    both.require_same()
    for player in both.captured.players.values():
        assert player._round.again is not None
    for label in ("triggered", "walking and triggered"):
        assert both.found[label]["resets"].any(), label
    for state, player in zip(both.eager.states.values(), both.captured.players.values()):
        running = state.data.running
        torch.testing.assert_close(player.posterior.mean, running.mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(player.posterior.variance, running.variance, rtol=0, atol=1e-8)
        gain = running.information_gain
        torch.testing.assert_close(player.posterior.information_gain, gain, rtol=0, atol=1e-8)


@pytest.mark.parametrize("capture", [None, taped], ids=["as it is", "recorded"])
def test_the_smallest_value_may_be_wanted_and_objectives_may_be_values(capture):
    domain = DOMAINS["square"]
    world = AbruptWorld(domain, functions=GaussianDraw(smooth()), changes=[40], noise=NOISE)
    strategies = {label: ucb(**parts, maximize=False) for label, parts in FEW.items()}
    Both.played(world, strategies, capture).require_same()


def test_slots_grow_no_further_than_arms_are_held():
    both = Both.played(markov(DOMAINS["square"]), {"GP": ucb(), "R": ucb(**KINDS["resetting"])})
    both.require_same()
    slots = {label: one.posterior.arms.shape[-1] for label, one in both.captured.players.items()}
    used = {label: int(one.posterior.count.max()) for label, one in both.captured.players.items()}
    assert slots["R"] <= 29 + 1
    assert used["GP"] <= slots["GP"] < 4 * used["GP"]


def test_what_a_graph_cannot_hold_is_refused_by_the_tape():
    number, total = torch.zeros(3), torch.zeros(3)

    def add(times: list[int]) -> None:
        times[0] += 1
        total.add_(number + times[0])

    def waits() -> None:
        number.fill_(float(total.max()))

    times = [0]
    again = taped(lambda: add(times))
    assert times == [1]
    assert total.eq(0).all()  # recorded, not done
    number.fill_(5)
    again()
    again()
    assert times == [1]  # Python's number is that of the recording
    assert total.eq(12).all()
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        taped(waits)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        taped(lambda: total.add_(torch.tensor([1.0, 2.0, 3.0])))


def broken(work: Callable[[], None]) -> Callable[[], None]:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand so on")


def test_rounds_that_cannot_be_recorded_are_played_one_operation_at_a_time():
    strategies = {label: ucb(**parts) for label, parts in FEW.items()}
    with pytest.warns(UserWarning, match="could not be captured") as told:
        both = Both.played(markov(DOMAINS["square"]), strategies, broken, horizon=60)
    both.require_same()
    assert [str(one.message) for one in told] == [
        "run_study: rounds could not be captured as CUDA graphs (RuntimeError: CUDA error: "
        "operation not permitted when stream is capturing). They are played one operation at a "
        "time from here on, with the same choices; compiled=False does so from the beginning."
    ]


def test_recording_begins_once_work_was_done_as_it_is():
    done: list[str] = []

    def capture(work: Callable[[], None]) -> Callable[[], None]:
        done.append("recorded")
        return lambda: done.append("again")

    one = Replayed(lambda: done.append("as it is"), Recorder(capture))
    for _ in range(3):
        one()
    assert done == ["as it is", "recorded", "again", "again"]


@pytest.mark.parametrize("same", [True, False])
def test_a_record_is_compared_once_with_the_work_as_it_is(same):
    total, step = torch.zeros(2), torch.ones(2, dtype=torch.int64)
    ways: list[str] = []

    def work() -> None:
        ways.append("as it is")
        total.add_(step)

    def capture(work: Callable[[], None]) -> Callable[[], None]:
        def again() -> None:
            ways.append("again")
            total.add_(step if same else 2 * step)

        return again

    one = Replayed(work, recorder := Recorder(capture), [total, step])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            one()
    assert total.eq(4).all()
    assert ways == ["as it is", "again", "as it is", *(2 * ["again" if same else "as it is"])]
    assert len(told) == (not same)
    assert (recorder.capture is None) == (not same)


def test_without_a_gpu_no_graph_is_captured():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    recorder = Recorder(cuda_graph(torch.device("cuda")))
    one = Replayed(lambda: None, recorder)
    one()
    with pytest.warns(UserWarning, match="could not be captured as CUDA graphs"):
        one()
    assert recorder.capture is None


def wrong(work: Callable[[], None]) -> Callable[[], None]:
    """A record that misses what follows the first operation."""
    tape = Tape()
    with tape:
        work()
    tape.undo()
    del tape.calls[1:]
    return tape.replay


@pytest.mark.parametrize("capture", [lambda work: lambda: None, wrong], ids=["empty", "wrong"])
def test_a_record_that_does_something_else_is_found_out(capture):
    strategies = {label: ucb(**parts) for label, parts in FEW.items()}
    with pytest.warns(UserWarning, match="one did something else than its operations do") as told:
        both = Both.played(markov(DOMAINS["square"]), strategies, capture, horizon=60)
    both.require_same()
    assert len(told) == 1


def settings_of(**parts: object) -> StudySettings:
    given = {
        "world": markov(DOMAINS["square"]),
        "strategies": {"GP": ucb(), "TS": ucb(exploration=Thompson()), "ET": ucb()},
        "horizon": 30,
        "seed": 0,
        "dtype": torch.float64,
        "device": torch.device("cuda"),
        "compiled": True,
    } | parts
    return StudySettings(**given)  # type: ignore[arg-type]


def prepared(settings: StudySettings) -> StudySettings:
    """A study whose states are made here, wherever it is to be played."""
    settings._states.update(replace(settings, device=CPU).states(settings.strategies))
    return settings


def test_what_is_captured_on_a_gpu():
    def labels(**parts: object) -> list[str]:
        settings = prepared(settings_of(**parts))
        return list(settings.compilable(settings.strategies))

    class Failing(MarkovWorld):
        def available(self, step, choice):
            return choice % 2 == 0

    failing = Failing(DOMAINS["square"], kernel=smooth(), epsilon=0.05, noise=NOISE)
    assert labels() == ["GP", "ET"]
    assert labels(compiled=False) == []
    assert labels(record=(Diagnosis(),)) == []
    assert labels(world=failing) == []
    assert labels(dtype=torch.float32) == []


def test_what_is_captured_is_found_once_and_where_it_is_played():
    settings = prepared(settings_of())
    first, second = (settings.compilable(["GP"])["GP"] for _ in range(2))
    assert first is second
    assert pickle.loads(pickle.dumps(settings))._known == {}


def test_a_study_joins_captured_rounds_with_the_others(monkeypatch):
    def play(settings: StudySettings) -> dict[str, Arrays] | None:
        labels = list(settings.strategies)
        with tqdm(disable=True) as bar:
            return play_block(settings, labels, BLOCK, Progress(bar, 30), threading.Event())

    def tables(settings, labels, place, stop):
        known = settings.compilable(labels)
        assert list(known) == ["GP", "ET"]
        return [
            EagerTable(settings, ["TS"], place),
            CapturedTable(settings, known, place.block, taped),
        ]

    expected = play(settings_of(device=CPU, compiled=False))
    monkeypatch.setattr(chunks_module, "_tables", tables)
    found = play(settings_of(device=CPU))
    for label, arrays in expected.items():
        for name, one in arrays.items():
            np.testing.assert_allclose(found[label][name], one, rtol=0, atol=1e-12)


def test_on_a_gpu_rounds_are_captured_when_asked_for_and_no_compiler_is_needed(monkeypatch):
    world, gpu = markov(DOMAINS["square"]), torch.device("cuda")
    monkeypatch.setattr("botorch_tv.simulation.rules.find_spec", lambda name: None)
    assert require_compiled(True, world, 1, gpu)
    assert not require_compiled(None, world, 2**60, gpu)
    assert not require_compiled(False, world, 2**60, gpu)


def test_memory_is_that_of_captured_rounds(monkeypatch):
    """What a round holds and works on: at least its buffers, at most a few times as much."""
    both = Both.played(markov(DOMAINS["square"]), {"GP": ucb(), "R": ucb(**KINDS["resetting"])})
    graphs = both.eager.settings.compilable(both.captured.players)
    for label, player in both.captured.players.items():
        parts = [*vars(player).values(), *vars(player.posterior).values()]
        buffers = [one for one in parts if isinstance(one, torch.Tensor)]
        buffers += player.basis.scratch._local.__dict__.values()
        buffers += player.log.values()
        held = sum(one.numel() for one in buffers) / len(BLOCK)
        estimate = numbers_per_trial(graphs[label], HORIZON)
        assert held < estimate < 6 * held
    monkeypatch.setattr("botorch_tv.simulation.settings.free_bytes", lambda device: 2**24)
    monkeypatch.setattr("botorch_tv.simulation.settings._is_here", lambda device: True)
    settings = prepared(settings_of(strategies={"GP": ucb()}, horizon=100))
    eager = chunk_size(prepared(replace(settings, compiled=False)), trials=500, workers=1)
    monkeypatch.setattr(
        "botorch_tv.simulation.settings.numbers_per_trial", lambda one, rounds: 2**20
    )
    assert chunk_size(settings, trials=500, workers=1) == 1 < eager


@pytest.mark.gpu
def test_graphs_of_a_gpu_choose_as_the_recursion_there():
    world = markov(DOMAINS["square"])
    strategies = {label: ucb(**parts) for label, parts in KINDS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured, eager = (
            run_study(
                world,
                strategies,
                trials=64,
                horizon=HORIZON,
                device="cuda",
                compiled=compiled,
                progress=False,
            )
            for compiled in (True, False)
        )
    np.testing.assert_array_equal(captured.data["index"].values, eager.data["index"].values)
    np.testing.assert_array_equal(captured.resets.values, eager.resets.values)
    np.testing.assert_allclose(captured.regret.values, eager.regret.values, rtol=0, atol=1e-9)
