import math
import threading

import numpy as np
import pytest
import torch

from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.simulation.parallel import side_by_side
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, Strategy, et_gp_ucb, gp_ucb, sw_gp_ucb, tv_gp_ucb, ui_gp_ucb

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


@pytest.mark.parametrize("cut", [{"chunk": 1}, {"chunk": 17}, {"chunk": 64, "workers": 2}, {}])
def test_results_do_not_depend_on_how_a_study_is_cut(whole: StudyResult, cut: dict) -> None:
    again = study(**cut)
    for name in ("index", "resets"):
        np.testing.assert_array_equal(again.data[name], whole.data[name])
    np.testing.assert_allclose(again.regret, whole.regret, rtol=0, atol=1e-10)


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
    from botorch_tv.simulation.streams import Stream

    stream = Stream(0, "world", 0, 70, dtype=torch.float64, device=torch.device("cpu"))
    index = torch.as_tensor(whole.data["index"].values.astype(np.int64))
    for t, values in zip(range(25), WORLD.rounds(stream)):
        chosen = values.gather(-1, index[:, :, t].T).T
        expected = values.amax(-1) - chosen
        np.testing.assert_allclose(whole.regret[:, :, t], expected, rtol=0, atol=1e-12)
    assert float(whole.regret.min()) >= 0


def test_float32_is_kept_and_hardly_differs(whole: StudyResult) -> None:
    single = study(dtype=torch.float32)
    assert single.regret.dtype == np.float32
    same = single.data["index"].values == whole.data["index"].values
    assert same[..., :5].mean() > 0.95


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
    with pytest.raises(ValueError, match="strategies is empty"):
        run_study(WORLD, {}, trials=1, horizon=1)


def test_a_job_that_fails_stops_the_others_and_restores_the_threads() -> None:
    before = torch.get_num_threads()
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
    assert torch.get_num_threads() == before
