"""Files that earlier releases wrote are read by every later release of the same major version."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch

from botorch_tv import Loop, tv_gp_ucb
from botorch_tv.simulation import StudyResult

HERE = Path(__file__).parent
RELEASES = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())
each_release = pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)


def given():
    spec = spec_from_file_location("write", HERE / "write.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.given()


@each_release
def test_named_parameters_dates_and_a_failure(folder):
    loop = Loop.load(folder / "press.json")
    table = loop.table()
    assert table["y"].tolist()[:3] == [0, 1, 2]
    assert table["ok"].tolist() == [True] * 3 + [False] + [True] * 2
    assert [str(time) for time in table["time"][:2]] == [
        "2026-03-01 22:00:00+00:00",
        "2026-03-01 23:00:00+00:00",
    ]
    assert [row.number for row in loop.open] == [7]
    loop.tell(6.0)
    assert loop.ask(now=loop.history.times[-1]).point["metal"] in ("steel", "brass")


@each_release
def test_outcomes_limits_contexts_and_moves(folder):
    loop = Loop.load(folder / "furnace.json")
    table = loop.table()
    assert table["yield"].tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isnan(table["pressure"]).tolist() == [False] * 2 + [True] + [False] * 3
    assert table["outside"].tolist() == [0, 2, 4, 6, 8, 10]
    last, point = table["temperature"].iloc[-1], loop.ask(now=6, context={"outside": 1}).point
    assert abs(point["temperature"] - last) <= 50
    assert point["temperature"] + 300 * point["flow"] <= 1000
    assert [limit.text for limit in loop.strategy.limits] == ["pressure <= 5"]


@each_release
def test_arms_a_given_kernel_and_a_correction(folder):
    loop = Loop.load(folder / "table.json", strategy=tv_gp_ucb(**given(), epsilon=0.03))
    assert loop.history.y.tolist() == [0, -1, 2, 3, 4, 5]
    assert [row.y for row in loop.superseded] == [1]
    loop.ask(now=6)


@each_release
def test_result_of_a_study(folder):
    result = StudyResult.load(folder / "study.nc")
    assert list(result.strategies) == ["GP", "TV"]
    assert result.data.sizes == {"strategy": 2, "trial": 2, "round": 5}
    assert torch.isfinite(torch.tensor(result.data["regret"].values)).all()
