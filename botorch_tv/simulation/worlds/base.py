"""What every world offers to a study."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require


class World(ABC):
    """A distribution over time-varying objectives on a grid.

    Args:
        domain: The arms.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Rounds there are; None where they never end.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    horizon: int | None = None

    def __init__(self, domain: Grid, noise: float) -> None:
        require(
            0 <= noise < math.inf,
            f"{type(self).__name__}: noise is {noise}, but a variance is finite and at least 0.",
        )
        self.domain = domain
        self.noise = noise

    @abstractmethod
    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        """The objective of every trial at rounds 1, 2, ...

        Args:
            stream: Random numbers of the trials, with their dtype and device.

        Yields:
            Noiseless values on all arms, `trials x M`, in memory that the next round uses again.
        """

    def first_arm(self, stream: Stream) -> Tensor | None:
        """The arm at which every strategy starts, `trials`, int64; None where they choose.

        Args:
            stream: Random numbers of the trials, apart from those of :meth:`rounds`.
        """
        return None

    def available(self, step: int, index: Tensor) -> Tensor | None:
        """Which of some arms can be measured.

        Args:
            step: The round, counted from 0.
            index: Arms, `trials`, int64.

        Returns:
            A bool per trial, on the device of ``index``; None where all can be measured.
        """
        return None
