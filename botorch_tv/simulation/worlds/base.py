"""What every world offers to a study."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.objective import Objective, OnArms
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.validation import require


class World(ABC):
    """A distribution over objectives that change with time.

    Args:
        domain: Where strategies choose.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Rounds there are; None where they never end.
        maximize: Whether large values are good; None where strategies may be after either end.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    horizon: int | None = None
    maximize: bool | None = None

    def __init__(self, domain: Domain, noise: float) -> None:
        require(
            0 <= noise < math.inf,
            f"{type(self).__name__}: noise is {noise}, but a variance is finite and at least 0.",
        )
        self.domain = domain
        self.noise = noise

    @abstractmethod
    def objectives(self, stream: Stream) -> Iterator[Objective]:
        """The objectives of rounds 1, 2, ...

        Args:
            stream: Random numbers of the trials, with their dtype and device.

        Yields:
            The objectives of all trials; an earlier one may no longer be used.
        """

    def opening(self, stream: Stream) -> Tensor | None:
        """The points that every strategy plays first, `trials x q x d`; None where they choose.

        Args:
            stream: Random numbers of the trials, apart from those of :meth:`objectives`.
        """
        return None

    def available(self, step: int, choice: Tensor) -> Tensor | None:
        """Which choices can be measured.

        Args:
            step: The round, counted from 0.
            choice: One for each trial, as a log keeps it: arms, `trials`, or points, `trials x d`.

        Returns:
            A bool per trial, on the device of ``choice``; None where all can be measured.
        """
        return None


class GridWorld(World):
    """A distribution over time-varying objectives on a grid.

    Args:
        domain: The arms.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    domain: Grid

    def __init__(self, domain: Grid, noise: float) -> None:
        super().__init__(domain, noise)

    @abstractmethod
    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        """The objective of every trial at rounds 1, 2, ...

        Args:
            stream: Random numbers of the trials, with their dtype and device.

        Yields:
            Noiseless values on all arms, `trials x M`, in memory that the next round uses again.
        """

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        return (OnArms(values) for values in self.rounds(stream))

    def first_arm(self, stream: Stream) -> Tensor | None:
        """The arm at which every strategy starts, `trials`, int64; None where they choose.

        Args:
            stream: Random numbers of the trials, apart from those of :meth:`rounds`.
        """
        return None

    def opening(self, stream: Stream) -> Tensor | None:
        arm = self.first_arm(stream)
        if arm is None:
            return None
        return self.domain.X.to(arm.device, stream.dtype)[arm].unsqueeze(-2)
