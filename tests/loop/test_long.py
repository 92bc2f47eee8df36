"""A loop that runs for long keeps its size."""

import os
from pathlib import Path

import pytest
from loop.loops import made, measured

STATM = Path("/proc/self/statm")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOG = 4e3
"""Most bytes that an answer in the log may take; it is a few tuples of numbers."""


def resident():
    """Bytes of this process in memory."""
    return int(STATM.read_text().split()[1]) * PAGE


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc")
@pytest.mark.parametrize("case", [("trigger", "grid"), ("Markov", "grid"), ("window", "box")])
@pytest.mark.parametrize("pending", [1, 3])
def test_memory_is_flat_over_1000_rounds(case, pending, tmp_path):
    """Three suggestions open mean answers out of order, too."""
    loop = made(case, pending=pending)
    work(loop, 1, 250, tmp_path)
    before = resident()
    work(loop, 250, 1001, tmp_path)
    assert len(loop.history.y) == 1000
    print(f"{case}: {(resident() - before) / 2**20:.2f} MB more after 750 rounds")
    assert resident() - before < 750 * LOG


def work(loop, start, stop, folder):
    for t in range(start, stop):
        while len(loop.open) < loop.pending:
            loop.ask()
        item = loop.open[t % loop.pending]
        loop.tell(measured(item.point, t % 24), suggestion=item)
        if t % 50 == 0:
            loop.save(folder / "loop.json")
