"""States, loops and studies of another format, and of other versions of libraries.

Refusals of loops and snapshots of another format are tested beside their other refusals.
"""

import pickle

import botorch
import gpytorch
import pytest
import torch
from gpytorch.kernels import RBFKernel

import botorch_tv
from botorch_tv.gp import data
from botorch_tv.loop import Loop
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.strategies import Grid, gp_ucb

GRID, KERNEL = Grid.regular(4, 2), RBFKernel().double()
STRATEGY = gp_ucb(kernel=KERNEL, noise=0.01)


def study(folder, trials=2):
    world = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.1, noise=0.01)
    return run_study(
        world, {"GP": STRATEGY}, trials=trials, horizon=2, chunk=2, save_to=folder, progress=False
    )


def test_a_state_of_another_format_is_refused_before_its_parts_are_loaded(monkeypatch):
    saved = pickle.dumps(STRATEGY.init(GRID))
    monkeypatch.setattr("botorch_tv.strategies.state.FORMAT", 99)
    monkeypatch.delattr(data, "Data")
    with pytest.raises(ValueError, match=r"state has format 1, .* reads format 99; load it with"):
        pickle.loads(saved)


def test_a_state_of_other_versions_is_loaded_with_a_warning(monkeypatch):
    state = STRATEGY.init(GRID)
    saved = pickle.dumps(state)
    monkeypatch.setattr(gpytorch, "__version__", "99.0")
    with pytest.warns(UserWarning, match=r"state was saved with .*gpytorch is .* and '99.0' here"):
        loaded = pickle.loads(saved)
    assert torch.equal(STRATEGY.ask(loaded).X, STRATEGY.ask(state).X)


def test_a_loop_of_other_versions_is_loaded_with_a_warning(monkeypatch, tmp_path):
    loop = Loop(STRATEGY, GRID)
    loop.tell(1.0, suggestion=loop.ask())
    loop.save(tmp_path / "loop.json")
    monkeypatch.setattr(gpytorch, "__version__", "99.0")
    with pytest.warns(UserWarning, match=r"loop.json was saved .*gpytorch is .* and '99.0' here"):
        loaded = Loop.load(tmp_path / "loop.json", STRATEGY)
    assert loaded.ask().point == loop.ask().point


def test_a_study_of_another_format_is_refused(monkeypatch, tmp_path):
    study(tmp_path)
    monkeypatch.setattr("botorch_tv.simulation.store.FORMAT", 99)
    with pytest.raises(
        ValueError,
        match=r"study.json has format 5, .* reads format 99; load it with botorch_tv 0.*, or give",
    ):
        study(tmp_path)


@pytest.mark.parametrize("library", [botorch_tv, torch])
def test_a_study_is_not_resumed_with_another_version_of_this_package_or_pytorch(
    library, monkeypatch, tmp_path
):
    study(tmp_path)
    monkeypatch.setattr(library, "__version__", "99.0.1")
    with pytest.raises(ValueError, match=rf"{library.__name__} is .* there and '99.0.*' here"):
        study(tmp_path)


def test_a_study_is_resumed_with_a_patch_of_pytorch_and_other_libraries(monkeypatch, tmp_path):
    study(tmp_path)
    monkeypatch.setattr(torch, "__version__", f"{torch.__version__}.1")
    monkeypatch.setattr(botorch, "__version__", "99.0")
    assert study(tmp_path).data.attrs["trials_found"] == 2
    with pytest.warns(UserWarning, match=r"different versions: .*botorch .*, 99.0"):
        assert study(tmp_path, trials=4).data.attrs["trials_found"] == 2
