"""What an exploration sees: the posterior on candidates, on grids and boxes alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from botorch_tv.inference.tensors import Scratch
from botorch_tv.validation import did_you_mean

Ties = Literal["first", "random"]
"""Which of several tying candidates is played: the first, or a random one."""


class Candidates(ABC):
    """The posterior of f_now on M candidates: all arms of a grid, or some points of a box.

    On a grid all arms are candidates. On a box ``mean``, ``sd`` and :meth:`sample` are available
    only inside a score or after :meth:`at`. Explorations written as a score that is passed to
    :meth:`argmax` work on both.

    Attributes:
        sign: 1 when maximising, -1 when minimising.
        scale: Largest prior standard deviation.
        round: The current round t, counted from 1.
        memory: The exploration's memory; see :class:`~botorch_tv.forgetting.parts.Part`.
        scratch: Reusable memory for intermediate results.
    """

    sign: int
    scale: float
    round: int
    memory: Any
    scratch: Scratch

    if not TYPE_CHECKING:  # to which every name would be known

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # raises what its property raised
            there = sorted(one for one in {*dir(type(self)), *vars(self)} if one[0] != "_")
            raise AttributeError(
                f"candidates have no {name}, but {', '.join(there)}; use one of these."
                + did_you_mean(name, there)
            )

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """`batch_shape x M`, without the prior mean, which is the same for all candidates."""

    @property
    @abstractmethod
    def sd(self) -> Tensor:
        """Posterior standard deviation, `batch_shape x M`."""

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Noise variance of an observation, `batch_shape x 1`."""

    @property
    @abstractmethod
    def sqrt_beta(self) -> float | Tensor:
        """√beta of the strategy's width, a number or `batch_shape x 1`."""

    @property
    @abstractmethod
    def incumbent(self) -> Tensor:
        """Best posterior mean, in the sense of ``sign``, among points observed, `batch_shape x 1`.

        0 without data, when no choice depends on it.
        """

    @property
    @abstractmethod
    def best_observation(self) -> Tensor:
        """Best observation in use, in the sense of ``sign``, `batch_shape x 1`.

        Like ``mean`` without the prior mean, and 0 without data. Observations are noisy and may be
        outdated, so under drift :attr:`incumbent` is more informative. Answers of an expert do not
        count.
        """

    @property
    @abstractmethod
    def has_data(self) -> Tensor:
        """Whether any observation is in use, `batch_shape`, bool."""

    @abstractmethod
    def sample(self, n: int = 1) -> Tensor:
        """Functions drawn from the posterior covariance, around zero, `n x batch_shape x M`.

        Repeated calls within a round return the same functions: ``sample(2)[0]`` is
        ``sample(1)[0]``. Add them to ``mean``.
        """

    @abstractmethod
    def uniform(self) -> Tensor:
        """Random numbers in [0, 1), new ones on every call, `batch_shape`."""

    @abstractmethod
    def argmax(
        self,
        score: Callable[[Candidates], Tensor],
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        """The candidate with the highest score.

        Args:
            score: Scores candidates, `batch_shape x M`; on a box differentiable by the points.
            unit: Scores within 1e-7 of this unit tie; ``scale`` by default.
            first_without_data: Whether a trial without data takes the first arm of a grid, or the
                centre of a box, whatever the scores; a random arm if ties are broken randomly.
            ties: Which of several tying arms to take: the ``"first"``, or a ``"random"`` one, all
                equally likely. Grids only.

        Returns:
            A choice: the index of an arm, `batch_shape`, int64, or a point of a box,
            `batch_shape x d`.

        Raises:
            InputDataError: If ties are to be broken randomly on a box.
        """

    @abstractmethod
    def at(self, choice: Tensor) -> Candidates:
        """The posterior at one choice per trial, so M is 1."""

    @abstractmethod
    def anywhere(self) -> Tensor:
        """A uniformly random choice, a new one on every call."""

    @abstractmethod
    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The first choice in trials where the condition, `batch_shape`, holds; else the second."""
