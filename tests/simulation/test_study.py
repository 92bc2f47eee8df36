import dataclasses
import itertools
import math
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from botorch_tv.acquisition import Candidates, UpperConfidence
from botorch_tv.forgetting import EventTrigger, Log, Retained
from botorch_tv.memory import torch_threads
from botorch_tv.simulation import Diagnosis, MarkovWorld, StudyResult, run_study
from botorch_tv.simulation.executors import side_by_side
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import (
    Grid,
    Strategy,
    domains,
    et_gp_ucb,
    gp_ts,
    gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
)

GRID = Grid.regular(8, 2)
KERNEL = unit_kernel("se", 0.25)
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)
PLAYERS: dict[str, Strategy] = {
    "GP": gp_ucb(kernel=KERNEL, noise=0.02),
    "ET": et_gp_ucb(kernel=KERNEL, noise=0.02),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.05),
    "SW": sw_gp_ucb(kernel=KERNEL, noise=0.02, window=9),
    "UI": ui_gp_ucb(kernel=KERNEL, noise=0.02, alpha=1.0),
}


def study(**changes: object) -> StudyResult:
    settings = {"trials": 70, "horizon": 25, "progress": False, **changes}
    return run_study(WORLD, PLAYERS, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study(chunk=70, workers=1)


@pytest.mark.parametrize(
    "cut", [{"chunk": 1, "trials": 6}, {"chunk": 17}, {"chunk": 64, "workers": 2}, {}]
)
def test_results_do_not_depend_on_how_a_study_is_cut(whole: StudyResult, cut: dict) -> None:
    again = study(**cut)
    expected = whole.data.isel(trial=slice(again.data.sizes["trial"]))
    for name in ("index", "resets"):
        np.testing.assert_array_equal(again.data[name], expected[name])
    np.testing.assert_allclose(again.regret, expected["regret"], rtol=0, atol=1e-10)


def test_more_trials_and_rounds_extend_a_study(whole: StudyResult) -> None:
    longer = study(trials=90, horizon=30)
    np.testing.assert_array_equal(
        longer.data["index"][:, :70, :25].values, whole.data["index"].values
    )


def test_a_strategy_does_not_notice_the_others(whole: StudyResult) -> None:
    alone = run_study(WORLD, {"ET": PLAYERS["ET"]}, trials=70, horizon=25, progress=False)
    np.testing.assert_array_equal(
        alone.data["index"].sel(strategy="ET"), whole.data["index"].sel(strategy="ET")
    )


def test_regret_is_that_of_the_choices(whole: StudyResult) -> None:
    """Replays the same worlds and compares with max f - f(x), from the recorded choices."""
    stream = Stream(0, "world", 0, 70, dtype=torch.float64, device=torch.device("cpu"))
    index = torch.as_tensor(whole.data["index"].values.astype(np.int64))
    for t, values in zip(range(25), WORLD.rounds(stream)):
        chosen = values.gather(-1, index[:, :, t].T).T
        expected = values.amax(-1) - chosen
        np.testing.assert_allclose(whole.regret[:, :, t], expected, rtol=0, atol=1e-12)
    assert float(whole.regret.min()) >= 0


def test_float32_is_kept_and_hardly_differs() -> None:
    """Trials enough for a standard error below 0.01: a tie decided otherwise changes a trial."""
    double, single = (
        study(trials=600, horizon=5, dtype=dtype) for dtype in (torch.float64, torch.float32)
    )
    assert single.regret.dtype == np.float32
    same = single.data["index"].values == double.data["index"].values
    assert same.mean() > 0.95


def test_attributes_say_how_it_came_about(whole: StudyResult) -> None:
    told = whole.data.attrs
    assert told["seed"] == 0
    assert told["device"] == "cpu"
    assert "lengthscale=0.25" in told["world"]
    assert "prediction_error" in told["strategies"]
    assert math.isfinite(told["seconds"])


@pytest.mark.parametrize("name", ["trials", "horizon", "chunk", "workers"])
def test_sizes_below_one(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        study(**{name: 0})


def test_no_strategies() -> None:
    with pytest.raises(ValueError, match=r"strategies is \{\}, but"):
        run_study(WORLD, {}, trials=1, horizon=1)


def test_a_job_that_fails_stops_the_others() -> None:
    started, stopped = threading.Event(), threading.Event()

    def work(job: int, stop: threading.Event) -> int:
        if job == 0:
            started.wait(timeout=30)
            raise RuntimeError("broken")
        started.set()
        if stop.wait(timeout=30):
            stopped.set()
        return job

    with pytest.raises(RuntimeError, match="broken"):
        side_by_side(work, [0, 1], workers=2)
    assert stopped.is_set()


def test_an_error_is_told_without_waiting_for_earlier_jobs() -> None:
    def work(job: int, stop: threading.Event) -> int:
        if job == 1:
            raise RuntimeError("broken")
        assert stop.wait(timeout=30), "nobody told it to stop"
        return job

    with pytest.raises(RuntimeError, match="broken"):
        side_by_side(work, [0, 1], workers=2)


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()

    def within() -> None:
        with torch_threads(before + 2):
            assert torch.get_num_threads() == before + 2
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        within()
    assert torch.get_num_threads() == before


class Bounded(MarkovWorld):
    """Ten rounds, a first arm for everyone, and one arm that cannot be measured in round 4."""

    horizon = 10

    def first_arm(self, stream: Stream) -> torch.Tensor:
        return (stream.uniform() * len(self.domain)).to(torch.int64)

    def available(self, step: int, index: torch.Tensor) -> torch.Tensor | None:
        return torch.arange(len(index), device=index.device) % 2 == 0 if step == 3 else None


BOUNDED = Bounded(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)


def test_everyone_starts_at_the_first_arm_of_the_world() -> None:
    result = run_study(BOUNDED, PLAYERS, trials=40, horizon=5, progress=False, chunk=7)
    first = result.data["index"].values[:, :, 0]
    drawn = Stream(0, "first arm", 0, 40, dtype=torch.float64, device=torch.device("cpu"))
    expected = BOUNDED.first_arm(drawn).numpy()
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(first, np.broadcast_to(expected, first.shape))


def test_a_horizon_beyond_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match=r"horizon is 11, but .* has 10 rounds; give horizon=10"):
        run_study(BOUNDED, PLAYERS, trials=1, horizon=11)


def test_a_world_that_ends_early_is_refused() -> None:
    class Short(MarkovWorld):
        def rounds(self, stream: Stream) -> Iterator[torch.Tensor]:
            return itertools.islice(super().rounds(stream), 3)

    world = Short(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)
    with pytest.raises(ValueError, match="ended after 3 rounds, but horizon is 5"):
        run_study(world, PLAYERS, trials=1, horizon=5, progress=False)


def test_nothing_is_learned_where_the_arm_cannot_be_measured() -> None:
    """Replays the choices through ask and tell, leaving the failed round out by hand."""
    one = {"GP": PLAYERS["GP"]}
    result = run_study(
        BOUNDED, one, trials=6, horizon=10, record=(Diagnosis(),), progress=False, chunk=6
    )
    failed = np.isnan(result.data["observation"].values[0])
    expected = np.zeros((6, 10), dtype=bool)
    expected[1::2, 3] = True
    np.testing.assert_array_equal(failed, expected)
    for trial in range(6):
        state = PLAYERS["GP"].init(GRID)
        for t in range(10):
            index = int(result.data["index"].values[0, trial, t])
            suggestion = PLAYERS["GP"].suggestion_at(state, GRID.X[index])
            np.testing.assert_allclose(
                suggestion.mean, result.data["mean"].values[0, trial, t], atol=1e-9
            )
            np.testing.assert_allclose(
                suggestion.sd, result.data["sd"].values[0, trial, t], atol=1e-7
            )
            y = result.data["observation"].values[0, trial, t]
            if not np.isnan(y):
                told = torch.tensor(y, dtype=torch.float64)
                state, _ = PLAYERS["GP"].tell(state, suggestion, told)


def test_randomised_strategies_do_not_depend_on_chunks_or_company() -> None:
    drawing = {
        "TS": gp_ts(kernel=KERNEL, noise=0.02),
        "Random": random_search(kernel=KERNEL, noise=0.02),
    }
    whole = run_study(WORLD, drawing, trials=70, horizon=8, progress=False, chunk=70)
    again = run_study(WORLD, drawing | PLAYERS, trials=70, horizon=8, progress=False, chunk=9)
    for label in drawing:
        np.testing.assert_array_equal(
            whole.data["index"].sel(strategy=label), again.data["index"].sel(strategy=label)
        )
    renamed = {"Other": drawing["Random"], **drawing}
    third = run_study(WORLD, renamed, trials=70, horizon=8, progress=False)
    own, other = (third.data["index"].sel(strategy=label) for label in ("Random", "Other"))
    assert (own.values != other.values).mean() > 0.8


def test_minimising_is_maximising_upside_down() -> None:
    class Mirrored(MarkovWorld):
        def rounds(self, stream: Stream) -> Iterator[torch.Tensor]:
            return (-values for values in super().rounds(stream))

    down = {label: dataclasses.replace(one, maximize=False) for label, one in PLAYERS.items()}
    settings = {"trials": 20, "horizon": 15, "progress": False, "record": (Diagnosis(),)}
    quiet = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.05, noise=0)
    mirrored = Mirrored(GRID, kernel=KERNEL, epsilon=0.05, noise=0)
    up = run_study(quiet, PLAYERS, **settings)  # type: ignore[arg-type]
    upside_down = run_study(mirrored, down, **settings)  # type: ignore[arg-type]
    for name in ("index", "resets"):
        np.testing.assert_array_equal(up.data[name], upside_down.data[name])
    for name in ("regret", "simple_regret"):
        np.testing.assert_allclose(up.data[name], upside_down.data[name], atol=1e-12)
    assert float(upside_down.regret.min()) >= 0
    with pytest.raises(ValueError, match="maximize is False for ET and True for the other"):
        run_study(WORLD, PLAYERS | {"ET": down["ET"]}, trials=1, horizon=1)


def test_diagnosis_adds_variables_and_changes_nothing(whole: StudyResult) -> None:
    told = study(record=(Diagnosis(),), chunk=70, workers=1)
    for name in whole.data.data_vars:
        np.testing.assert_array_equal(told.data[name], whole.data[name])
    assert set(told.data.data_vars) - set(whole.data.data_vars) == {
        "observation",
        "objective",
        "mean",
        "sd",
        "sqrt_beta",
        "band",
        "simple_regret",
        "model_noise",
    }
    assert told.data["model_noise"].shape == told.data["mean"].shape
    assert (told.data["model_noise"] == 0.02).all()


def test_what_diagnosis_records() -> None:
    told = study(record=(Diagnosis(),), trials=30, horizon=40).data
    band = told["band"].sel(strategy="ET")
    error = abs(told["observation"] - told["mean"]).sel(strategy="ET")
    np.testing.assert_array_equal(error > band, told["resets"].sel(strategy="ET"))
    assert bool(told["resets"].sel(strategy="ET").any()), "nothing was tested"
    assert bool(told["band"].drop_sel(strategy="ET").isnull().all())
    # [ET] Lemma 3 in the first round, where t' = 1 and the prior variance is 1.
    log = math.log(2 * (math.pi**2 / 6) / 0.1)
    expected = math.sqrt(2 * log) + math.sqrt(2 * 0.02 * log)
    np.testing.assert_allclose(band[:, 0], expected, rtol=1e-9)
    noise = (told["observation"] - told["objective"]).values
    np.testing.assert_allclose(noise, noise[:1].repeat(len(PLAYERS), axis=0), atol=1e-12)
    assert abs(noise[0].var() / 0.02 - 1) < 4 * math.sqrt(2 / noise[0].size)


def test_simple_regret_is_that_of_the_recommended_arm() -> None:
    """Replays a study through ask, recommend and tell, one trial at a time."""
    player = PLAYERS["TV"]
    result = run_study(
        WORLD, {"TV": player}, trials=3, horizon=8, record=(Diagnosis(),), progress=False, chunk=3
    ).data
    stream = Stream(0, "world", 0, 3, dtype=torch.float64, device=torch.device("cpu"))
    states = [player.init(GRID) for _ in range(3)]
    for t, values in zip(range(8), WORLD.rounds(stream)):
        for trial in range(3):
            arm = int(GRID.index_of(player.recommend(states[trial])))
            expected = float(values[trial].max() - values[trial, arm])
            assert result["simple_regret"].values[0, trial, t] == pytest.approx(expected, abs=1e-12)
            y = torch.tensor(result["observation"].values[0, trial, t])
            suggestion = player.ask(states[trial])
            states[trial], _ = player.tell(states[trial], suggestion, y)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("abacus", "device is 'abacus', but PyTorch knows no such device"),
        ("cuda:99", r"PyTorch sees \d+ CUDA devices"),
    ],
)
def test_a_device_that_is_not_there(device: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        study(device=device, save_to=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_kernel_is_evaluated_once_for_each_part_that_has_one(monkeypatch) -> None:
    """A matrix has no formula to be known by: for the world and each of two strategies once."""
    domain, evaluated = Grid.regular(3, 2), []
    matrix = unit_kernel("se", 0.3)(domain.X).to_dense().detach()
    usual = domains.covariance_matrix

    def watched(kernel: object, X: torch.Tensor) -> torch.Tensor:
        evaluated.append(kernel)
        return usual(kernel, X)

    monkeypatch.setattr(domains, "covariance_matrix", watched)
    world = MarkovWorld(domain, kernel=matrix, epsilon=0.1, noise=0.02)
    players = {"GP": gp_ucb(kernel=matrix, noise=0.02), "ET": et_gp_ucb(kernel=matrix, noise=0.02)}
    run_study(world, players, trials=4, horizon=3, chunk=None, workers=2, progress=False)
    assert len(evaluated) == 3


def test_workers_are_sent_no_states() -> None:
    world = MarkovWorld(Grid.regular(9, 2), kernel=unit_kernel("se", 0.3), epsilon=0.1, noise=0.02)
    players = {"GP": gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.02)}
    settings = StudySettings(world, players, 3, 0, torch.float64, torch.device("cpu"))
    sizes = [len(pickle.dumps(settings))]
    states = settings.states(players)
    assert settings.states(players)["GP"] is states["GP"]
    sizes.append(len(pickle.dumps(settings)))
    assert sizes[1] - sizes[0] < 8 * 81**2 / 4, "of a factored kernel, which a state has"
    assert pickle.loads(pickle.dumps(settings)).states(players).keys() == states.keys()


class SameMemory(EventTrigger):
    """Answers in the same tensor in every round."""

    def keep(self, log: Log) -> Retained:
        answer = super().keep(log)
        if not isinstance(answer.reset, torch.Tensor):
            return answer
        memory = self.__dict__.setdefault("_memory", torch.empty_like(answer.reset))
        memory.copy_(answer.reset)
        return Retained(newest=1, where=memory, reset=memory)


class SameChoice(UpperConfidence):
    """Chooses in the same tensor in every round."""

    def choose(self, candidates: Candidates) -> torch.Tensor:
        choice = super().choose(candidates)
        memory: torch.Tensor = self.__dict__.setdefault("_memory", torch.empty_like(choice))
        return memory.copy_(choice)


def test_parts_may_answer_in_the_same_memory_in_every_round() -> None:
    usual = et_gp_ucb(kernel=KERNEL, noise=0.02, delta=0.9)
    own = dataclasses.replace(usual, retention=SameMemory(0.9), exploration=SameChoice())
    players = {"usual": usual, "own": own}
    data = run_study(WORLD, players, trials=5, horizon=40, progress=False, compiled=False).data
    assert data["resets"].sum() > 0
    for name in ("resets", "index"):
        np.testing.assert_array_equal(
            data[name].sel(strategy="own"), data[name].sel(strategy="usual")
        )
