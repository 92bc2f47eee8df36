"""Lets tests import the oracles and each other's lists (``from oracles.dense import ...``).

Under ``pytest -n`` every process computes on one thread, unless the environment names a number:
the threads of several processes would wait for each other.

Tests marked ``gpu`` are skipped where PyTorch sees no CUDA device.

The default tier leaves out tests marked ``full``: those that take half a second or more where a
quicker test shows the same law, and all but some cases of a test marked ``few``. Most laws retain a
case for each path through the library, tables of bad inputs all their rows.
"""

import gc
import os
import random
import sys
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

# What is imported stays: nothing to collect then, nor to search in later collections.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


if "PYTEST_XDIST_WORKER" in os.environ:  # before anything imports PyTorch, which reads it once
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _mark_full(items):
    """Mark as ``full`` the cases that a mark ``few`` leaves out of the default tier."""
    tests = defaultdict(lambda: defaultdict(list))
    for item in items:
        mark = item.get_closest_marker("few")
        if mark and not any(item.get_closest_marker(name) for name in ("slow", "gpu")):
            group = mark.kwargs["per"](item.callspec.params) if mark.kwargs else None
            tests[item.parent, item.originalname, mark.args][group].append(item)
    for (_, test, wanted), groups in tests.items():
        for number, cases in enumerate(groups.values()):
            if isinstance(wanted[0], str):
                chosen = [place for place, case in enumerate(cases) if case.callspec.id in wanted]
                if len(chosen) < len(wanted) < len(cases):
                    raise pytest.UsageError(f"{test} has not all of the cases {wanted}")
            else:  # evenly spaced, and in each group from another case on
                apart = len(cases) / min(wanted[0], len(cases))
                chosen = [int(number + turn * apart) % len(cases) for turn in range(wanted[0])]
            for place, case in enumerate(cases):
                if place not in chosen:
                    case.add_marker(pytest.mark.full)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what the marks exclude
def pytest_collection_modifyitems(items):
    _mark_full(items)
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(
                f"{item.nodeid} is named by a place in memory, which is another in each process of "
                "pytest -n; give its parameters ids"
            )
    # README's blocks take long: who comes to them last lets the other processes wait.
    items.sort(key=lambda item: len(item.path.parts))
    import torch

    if torch.get_default_dtype() != torch.float32:
        raise pytest.UsageError(
            f"the default dtype is {torch.get_default_dtype()} once all tests are imported, so "
            "that those of float32 test nothing; a module that a test imports sets it"
        )
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def pytest_configure(config: pytest.Config) -> None:
    """No test runs into a model misspecification by accident.

    Said here and not in pyproject.toml, where pytest imports the warning, and so PyTorch, before
    the number of threads above is known; and also in the process that plays no test itself.
    """
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None):
        config.addinivalue_line(
            "filterwarnings", "error::botorch_tv.validation.MisspecificationWarning"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message):
    """Reports to another process only what it needs no library to read.

    It would import the module of each warning, in threads that may wait for each other forever.
    """
    kind = warning_message.category
    if "PYTEST_XDIST_WORKER" in os.environ and kind.__module__ != "builtins":
        text = f"{kind.__name__}: {warning_message.message}"
        warning_message.message, warning_message.category = UserWarning(text), UserWarning


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A process that has done its tests takes some of another's."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def _only_look_at(handle: int) -> None:
    os.fstat(handle)  # a closed file is refused


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Nobody pulls the plug on a test; files that children of the tests write do reach the disk."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", _only_look_at)
        yield


@pytest.fixture(autouse=True)
def _own_random_numbers(request):
    """A test draws the same numbers alone, after any others, and in any process."""
    import numpy as np
    import torch

    seed = zlib.crc32(request.node.nodeid.encode())
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (libraries draw from it)
    random.seed(seed)
