"""Points of a box as an exploration asks for them, since they cannot be listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition.candidates import Candidates, Ties
from botorch_tv.acquisition.exploration import Exploration, bound_width
from botorch_tv.inference.costs import SEARCH_NUMBERS
from botorch_tv.inference.point_posterior import PointPosterior, with_context
from botorch_tv.inference.tensors import OfTrials, Scratch
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates.round import (
    Round,
    RoundCandidates,
    Score,
    best_of,
    checked_scores,
)
from botorch_tv.strategies.search import Sought


@dataclass(frozen=True)
class Functions(OfTrials):
    """The posterior of every trial on a box, and the functions drawn from it; trials are flat.

    Attributes:
        posterior: With the first function drawn, where it is sure to be asked for.
        draw: Draws another.
        context: What is known before the choice, `trials x c`; None where nothing is.
        more: Functions drawn, the first aside.
    """

    shared = ("draw",)

    posterior: PointPosterior
    draw: Callable[[], PointPosterior]
    context: Tensor | None
    more: list[PointPosterior]

    def drawn(self, n: int) -> list[PointPosterior]:
        """Posteriors with a function each, the first n of this round."""
        first = [self.posterior] if self.posterior.has_function else []
        while len(first) + len(self.more) < n:
            self.more.append(self.draw())
        return [*first, *self.more][:n]


class BoxCandidates(RoundCandidates):
    """All points of a box; their posterior is known where it is looked at.

    Args:
        of: The round.
        functions: The posterior of every trial.
        box: Where to choose.
    """

    def __init__(self, of: Round, functions: Functions, box: Box) -> None:
        super().__init__(of, Scratch())
        self._functions, self._box = functions, box
        self._shape = of.data.time.shape

    @property
    def mean(self) -> Tensor:
        raise _unlisted("mean")

    @property
    def sd(self) -> Tensor:
        raise _unlisted("sd")

    def _incumbent(self) -> Tensor:
        functions = self._functions
        best = best_observed(functions.posterior, self.sign, functions.context)
        return best.view(self._shape)

    @cached_property
    def has_data(self) -> Tensor:
        return self._functions.posterior.live.any(-1).view(self._shape)

    def sample(self, n: int = 1) -> Tensor:
        raise _unlisted("sample")

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        if ties == "random":
            raise InputDataError(
                'ties are to be broken by chance, which takes the arms of a Grid; use ties="first" '
                "on a Box."
            )
        box, posterior = self._box, self._functions.posterior
        # A method sees nothing but candidates, whose trials may then be looked at one by one.
        alone = isinstance(getattr(score, "__self__", None), Exploration) and self.memory is None
        some: BoxCandidates = self
        chosen: Tensor | None = None

        def of(trials: Tensor | None) -> BoxCandidates:
            nonlocal some, chosen
            if trials is not chosen:
                chosen, some = trials, self if trials is None else self._selected(trials)
            return some

        def climbed(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
            some = of(trials)
            width = bound_width(score, some.of.sqrt_beta)
            assert width is not None
            return some._bound(X, factor, width)

        def value(X: Tensor, trials: Tensor | None) -> Tensor:
            some = of(trials)
            if torch.is_grad_enabled():
                return some._scored(score, X)
            most = SEARCH_NUMBERS // max(1, len(X) * max(posterior.compared, X.shape[-1]))
            parts = torch.split(X, max(1, most), dim=1)
            return torch.cat([some._scored(score, part) for part in parts], 1)

        measured, live = posterior.familiar(self.sign, self._functions.context)
        sought = Sought(
            value,
            measured[..., : box.dim],
            live,
            self.of.number - 1,
            self.scale if unit is None else unit,
            whole=not alone,
            climbed=None if bound_width(score, 0.0) is None else climbed,
        )
        X = box.search.best(box, sought)
        if first_without_data:
            X = torch.where(posterior.live.any(-1, keepdim=True), X, box.search.first(box, X))
        return X.view(*self._shape, box.dim)

    def at(self, choice: Tensor) -> Candidates:
        return self._looked_at(choice.reshape(-1, 1, self._box.dim))

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        X = with_context(choice.reshape(-1, 1, self._box.dim), self._functions.context)
        mean, sd = self._functions.posterior.expected_at(X)
        return mean.view(self._shape), sd.view(self._shape)

    def anywhere(self) -> Tensor:
        drawn = self._box.search.anywhere(self._box, self.of.draws)
        return drawn.to(self._functions.posterior.X)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition.unsqueeze(-1), first, second)

    def _scored(self, score: Score, X: Tensor) -> Tensor:
        """Scores of points `trials x q x d`, `trials x q`."""
        view = (*self._shape, X.shape[-2])
        values = checked_scores(score, score(self._looked_at(X)), view)
        if X.requires_grad and not values.requires_grad:
            raise InputDataError(
                "a score says nothing of how it changes with the point, so that a box cannot be "
                "climbed by it; compute it of at.mean, at.sd and at.sample() without detach(), "
                "comparisons or rounding, or give the box search=DiscreteSearch(X)."
            )
        return values.reshape(X.shape[:-1])

    def _bound(self, X: Tensor, factor: float, width: float | Tensor) -> tuple[Tensor, Tensor]:
        """A factor times ±mean + width sd, `trials x q`, and the gradient, `trials x q x d`."""
        functions, by_mean, by_sd = self._functions, factor * self.sign, width
        mean, sd, pull = functions.posterior.slopes(with_context(X, functions.context))
        if isinstance(by_sd, Tensor):
            by_sd = by_sd.reshape(-1, 1).to(sd)
        by_sd = factor * by_sd
        return by_mean * mean + by_sd * sd, pull(by_mean, by_sd)[..., : X.shape[-1]]

    def _looked_at(self, X: Tensor) -> _Points:
        return _Points(self, with_context(X, self._functions.context))

    def _selected(self, trials: Tensor) -> BoxCandidates:
        """The candidates of some trials, their batch shape flattened."""

        def noise() -> Tensor:
            return self.of.noise().reshape(-1)[trials]

        sqrt_beta = self.of.sqrt_beta
        if isinstance(sqrt_beta, Tensor):
            sqrt_beta = sqrt_beta.reshape(-1)[trials]
        of = replace(self.of, noise=noise, sqrt_beta=sqrt_beta)
        return _SomeTrials(of, self, trials)


class _SomeTrials(BoxCandidates):
    """All points of a box, for some of the trials.

    Args:
        of: The round, with what it tells of these trials.
        every: For all trials.
        trials: Which, in one dimension.
    """

    def __init__(self, of: Round, every: BoxCandidates, trials: Tensor) -> None:
        super().__init__(of, every._functions.select(trials), every._box)
        self._shape, self._every, self._trials = trials.shape, every, trials

    @cached_property
    def incumbent(self) -> Tensor:
        return self._every.incumbent.reshape(-1, 1)[self._trials]

    @cached_property
    def best_observation(self) -> Tensor:
        return self._every.best_observation.reshape(-1, 1)[self._trials]


def _unlisted(name: str) -> InputDataError:
    return InputDataError(
        f"the points of a box cannot be listed, so there is no {name} of all of them; write a "
        f"score of candidates, candidates.argmax(lambda at: at.mean), or look at a choice, "
        "candidates.at(choice)."
    )


class _Points(BoxCandidates):
    """Some points of a box.

    Args:
        of: All of them.
        X: Points, context included, `trials x q x (d + c)`.
    """

    def __init__(self, of: BoxCandidates, X: Tensor) -> None:
        super().__init__(of.of, of._functions, of._box)
        self._shape, self._X, self._whole = of._shape, X, of
        self._view = (*of._shape, X.shape[-2])

    @property
    def mean(self) -> Tensor:
        return self._both[0] if "_both" in self.__dict__ else self._mean_alone

    @property
    def sd(self) -> Tensor:
        return self._both[1]

    @cached_property
    def _mean_alone(self) -> Tensor:
        return self._functions.posterior.mean_at(self._X).view(self._view)

    @cached_property
    def _both(self) -> tuple[Tensor, Tensor]:
        mean, sd = self._functions.posterior.at(self._X)
        return mean.view(self._view), sd.view(self._view)

    @cached_property
    def incumbent(self) -> Tensor:
        return self._whole.incumbent

    @cached_property
    def best_observation(self) -> Tensor:
        return self._whole.best_observation

    @cached_property
    def has_data(self) -> Tensor:
        return self._whole.has_data

    def sample(self, n: int = 1) -> Tensor:
        drawn = self._functions.drawn(n)
        return torch.stack([one.sample_at(self._X).view(self._view) for one in drawn])

    def uniform(self) -> Tensor:
        raise NotImplementedError(
            "a score on a box is evaluated many times, so that numbers drawn within would change "
            "under the search; draw them before, in choose()."
        )


def best_observed(posterior: PointPosterior, sign: int, context: Tensor | None = None) -> Tensor:
    """Best posterior mean, in the sense of ``sign``, among points in use, `trials`.

    Where there is a context, `trials x c`, the points are put into this one: what was reached in
    another is no measure of what can be gained now. 0 without any: a finite number will do, since
    the choice does not depend on it then.
    """
    if posterior.X.shape[-2] == 0:
        return posterior.X.new_zeros(len(posterior.X))
    return best_of(sign * posterior.mean_at(posterior.here(context)), posterior.live, sign)
