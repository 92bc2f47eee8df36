import io
import sys

import pytest
from gpytorch.kernels import RBFKernel

from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.simulation.rounds import OFTEN, SELDOM, progress_bar
from botorch_tv.strategies import Grid, gp_ucb


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("place", "every"), [(Screen, OFTEN), (io.StringIO, SELDOM)])
def test_how_often(place, every, monkeypatch):
    monkeypatch.setattr(sys, "stderr", place())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with progress_bar(10, 2, shown=True) as bar:
        assert bar.mininterval == every
        assert (bar.n, bar.total) == (2, 10)
        assert not bar.disable
    with progress_bar(10, 0, shown=False) as bar:
        assert bar.disable


def test_a_log_gets_a_few_lines(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    kernel = RBFKernel().double()
    world = MarkovWorld(Grid.regular(3, 1), kernel=kernel, epsilon=0.1, noise=0.1)
    run_study(world, {"a": gp_ucb(kernel=kernel, noise=0.1)}, trials=40, horizon=5, chunk=1)
    assert 1 <= log.getvalue().count("\r") <= 3
    assert "40/40" in log.getvalue()
