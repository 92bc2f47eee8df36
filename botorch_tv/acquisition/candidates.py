"""What an exploration sees: the posterior on candidates, the same on a grid and on a box."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from botorch_tv.inference.scratch import Scratch
from botorch_tv.validation import did_you_mean

Ties = Literal["first", "random"]
"""Which of the candidates whose scores tie is played: the first, or one by chance."""


class Candidates(ABC):
    """The posterior of f_now on M candidates: all arms of a grid, or some points of a box.

    On a grid they are all candidates there are. A box has more than can be listed, so that there
    ``mean``, ``sd`` and :meth:`sample` are known where a score or :meth:`at` asks for them. What is
    written as a score of candidates, and left to :meth:`argmax`, works on both.

    Attributes:
        sign: 1 where the largest value is wanted, -1 where the smallest is.
        scale: Largest prior standard deviation.
        round: The round t that is decided, counted from 1.
        memory: What the exploration remembers; see :class:`~botorch_tv.forgetting.parts.Part`.
        scratch: Memory for intermediate results.
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

        0 without data, for then no choice depends on it.
        """

    @property
    @abstractmethod
    def best_observation(self) -> Tensor:
        """Best value observed, in the sense of ``sign``, of those in use, `batch_shape x 1`.

        Like ``mean`` without the prior mean, and 0 without data. An observation holds its noise,
        and was made when the objective was another, so that under drift :attr:`incumbent` says
        more. Answers of an expert do not count.
        """

    @property
    @abstractmethod
    def has_data(self) -> Tensor:
        """Whether any observation is in use, `batch_shape`, bool."""

    @abstractmethod
    def sample(self, n: int = 1) -> Tensor:
        """Functions drawn from the posterior covariance, around zero, `n x batch_shape x M`.

        Within a round these are the same n functions however often, and wherever, they are asked
        for: ``sample(2)[0]`` is ``sample(1)[0]``. To be added to ``mean``.
        """

    @abstractmethod
    def uniform(self) -> Tensor:
        """Random numbers in [0, 1), new ones at every call, `batch_shape`."""

    @abstractmethod
    def argmax(
        self,
        score: Callable[[Candidates], Tensor],
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        """The candidate of the highest score.

        Args:
            score: How good candidates are, `batch_shape x M`, differentiable where they are.
            unit: Scores tie within 1e-7 of it; ``scale`` unless given.
            first_without_data: Whether a trial without data takes the first arm of a grid, or the
                middle of a box, whatever the scores; or any arm, where ties are broken by chance.
            ties: Which of the arms of a grid that tie is chosen: the first, or one ``"random"``,
                all of them equally likely. A box has an optimum alone, or too many to be listed.

        Returns:
            A choice: the number of an arm, `batch_shape`, int64, or a point of a box,
            `batch_shape x d`.

        Raises:
            InputDataError: If ties are to be broken by chance on a box.
        """

    @abstractmethod
    def at(self, choice: Tensor) -> Candidates:
        """The posterior at one choice of every trial, M being 1."""

    @abstractmethod
    def anywhere(self) -> Tensor:
        """A choice by chance, a new one at every call."""

    @abstractmethod
    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The first choice in trials where the condition, `batch_shape`, holds; else the second."""
