"""Work on a device that is recorded once, and then started again and again as a whole.

Every operation of a device has to be started by Python, which takes longer than a small one lasts.
A CUDA graph is a record of operations, of the memory that they read and of the memory that they
write; it starts all of them at once. What is recorded must therefore read and write the same memory
every time, take every number that changes from there, and never wait for the device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ROUNDING = 1e-8
"""What two ways to start the same operations may differ by, in absolute terms and relative ones."""
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
            told = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            self.give_up(told)
            return None

    def give_up(self, why: str) -> None:
        """Record nothing from here on, and say so."""
        self._capture = None
        warnings.warn(
            f"run_study: rounds could not be captured as CUDA graphs ({why}). They are played one "
            "operation at a time from here on, with the same choices; compiled=False does so from "
            "the beginning.",
            stacklevel=2,
        )


class Replayed:
    """Some work, done as it is for the first time, and recorded for the others.

    The first time is the warm-up that a device asks for: libraries are loaded, and memory that is
    kept is reserved.

    Args:
        work: Reads and writes the same memory every time.
        recorder: Records it.
        written: All memory that lasts and is written to. If given, the second time the work is done
            both ways, and the record is used only if both are the same.
    """

    def __init__(self, work: Work, recorder: Recorder, written: Sequence[Tensor] = ()) -> None:
        self._work, self._recorder, self._written = work, recorder, written
        self._again: Work | None = None
        self._times = 0

    def __call__(self) -> None:
        """Do it."""
        self._times += 1
        if self._times == 2:
            self._again = self._recorder.recorded(self._work)
            if self._again is not None and self._written:
                self._compare(self._again)
                return
        (self._again or self._work)()

    def _compare(self, again: Work) -> None:
        """Do it both ways; what is left is that of the work as it is."""
        before = [one.clone() for one in self._written]
        again()
        for number, one in enumerate(self._written):
            replayed = one.clone()
            one.copy_(before[number])
            before[number] = replayed
        self._work()
        pairs = zip(self._written, before)
        if not all(torch.allclose(*pair, rtol=ROUNDING, atol=ROUNDING) for pair in pairs):
            self._again = None
            self._recorder.give_up("one did something else than its operations do")


def cuda_graph(device: torch.device) -> Capture:
    """Records work on a device as CUDA graphs.

    Args:
        device: Of all memory that is read and written.
    """

    def capture(work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # On a stream of this device, for it need not be the current one. Other chunks may use it
        # meanwhile, from threads of their own.
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        replay: Work = graph.replay
        return replay

    return capture
