"""Work on a device that is recorded once, and then started again and again as a whole.

Every operation of a device has to be started by Python, which takes longer than a small one lasts.
A CUDA graph is a record of operations, of the memory that they read and of the memory that they
write; it starts all of them at once. What is recorded must therefore read and write the same memory
every time, take every number that changes from there, and never wait for the device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""Records work without doing it; what is returned does it."""


class Recorder:
    """Records work, as long as that succeeds.

    Args:
        capture: Records; None where everything is to be done as it is.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture

    def recorded(self, work: Work) -> Work | None:
        """What does some work again; None if that cannot be recorded, of which is warned once."""
        if self._capture is None:
            return None
        try:
            return self._capture(work)
        except RuntimeError as error:
            self._capture = None
            told = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            warnings.warn(
                f"run_study: rounds could not be captured as CUDA graphs ({told}). They are played "
                "one operation at a time from here on, with the same choices; compiled=False does "
                "so from the beginning.",
                stacklevel=2,
            )
            return None


class Replayed:
    """Some work, done as it is for the first time, and recorded for the others.

    The first time is the warm-up that a device asks for: libraries are loaded, and memory that is
    kept is reserved.

    Args:
        work: Reads and writes the same memory every time.
        recorder: Records it.
    """

    def __init__(self, work: Work, recorder: Recorder) -> None:
        self._work, self._recorder = work, recorder
        self._again: Work | None = None
        self._times = 0

    def __call__(self) -> None:
        """Do it."""
        if self._times == 1:
            self._again = self._recorder.recorded(self._work)
        self._times += 1
        (self._again or self._work)()


def cuda_graph(work: Work) -> Work:
    """Record work as a CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    # Other chunks may use the device meanwhile, from threads of their own.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    replay: Work = graph.replay
    return replay
