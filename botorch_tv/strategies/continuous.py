"""The posterior on a box, and the choice it leads to.

Trials are flattened to one dimension here, whatever their batch shape.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.static import is_static
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.fourier import FREQUENCIES, spectral_normals, waves
from botorch_tv.inference.point_kernel import PointKernel, Stationary
from botorch_tv.inference.point_posterior import PathDraw, PointPosterior, point_posterior
from botorch_tv.inference.regression import Evidence
from botorch_tv.strategies.arms import log_numbers
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.engines import Choice, Engine, Marginal
from botorch_tv.strategies.evidence import gather_evidence
from botorch_tv.strategies.prospect import Prospect, best_observed, with_context
from botorch_tv.strategies.state import State
from botorch_tv.strategies.surface import Surface

POSTERIOR_MATRICES = 6
"""Matrices of all pairs of observations that a posterior is computed in."""
DECAY_MATRICES = 2
"""Those besides where covariances decay with time."""
WAVES = 5
"""Numbers per frequency that the value of a function drawn is computed in."""


class OnBox(Engine):
    """Regression at any points of a box: any combination of parts."""

    def prior(self, basis: Basis | Surface, batch_shape: Size) -> None:
        if self.strategy.exploration.samples and isinstance(basis, Surface):
            spectral_normals(basis.points)  # raises where none are known

    def advance(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        *,
        consume: bool,
    ) -> State:
        return after

    def choose(
        self,
        state: State,
        now: Tensor,
        reference: Tensor,
        draws: Draws | None,
        context: Tensor | None,
    ) -> Choice:
        exploration, box = self.strategy.exploration, _box(state)
        posterior = self._posterior(state, now, reference, draws if exploration.samples else None)
        gain = posterior.information_gain.view(state.time.shape)
        multiplier = self.multiplier(state, gain, now, reference)
        prospect = self._prospect(state, posterior, multiplier, context)
        if exploration.scores:
            unit = exploration.unit(prospect.scale)
            X = self._found(state, prospect, lambda some, X: exploration.score(some.at(X)), unit)
            if exploration.flat_without_data:
                X = _or_first(X, posterior, box)
        else:
            assert draws is not None
            X = box.search.anywhere(box, draws).reshape(-1, box.dim).to(posterior.X)
        points = with_context(X.unsqueeze(-2), prospect.context)
        mean, sd = (part.squeeze(-1) for part in posterior.at(points))
        mean = mean + self.prior_mean(posterior.offset)
        shape = state.time.shape
        X = points.reshape(*shape, points.shape[-1])  # -1 is ambiguous where there are no trials
        return Choice(X, mean.view(shape), sd.view(shape), multiplier)

    def best(self, state: State, now: Tensor, reference: Tensor, context: Tensor | None) -> Tensor:
        posterior = self._posterior(state, now, reference)
        prospect = self._prospect(state, posterior, 0.0, context)
        X = self._found(state, prospect, Prospect.mean_at, prospect.scale)
        X = _or_first(X, posterior, _box(state))
        points = with_context(X.unsqueeze(-2), prospect.context)
        return points.reshape(*state.time.shape, points.shape[-1])

    def marginal(self, state: State, choice: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        with torch.no_grad():
            posterior = self._posterior(state, now, reference)
        shape, q = state.time.shape, choice.shape[-2]
        mean, covariance = posterior.joint(choice.reshape(state.time.numel(), *choice.shape[-3:]))
        offset = self.prior_mean(posterior.offset)
        if isinstance(offset, Tensor):
            offset = offset[:, None, None]
        return Marginal(
            (mean + offset).view(*shape, choice.shape[-3], q),
            covariance.view(*shape, choice.shape[-3], q, q),
            posterior.information_gain.view(shape),
        )

    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        if is_static(self.strategy.inflation):
            return gain
        evidence = self._flat_evidence(state, now, reference, inflation_power=2)
        return point_posterior(_surface(state).points, evidence).information_gain.view_as(gain)

    def numbers_per_trial(self, state: State, horizon: int, trials: int) -> int:
        box, kept, parts = _box(state), self.most_kept(horizon), self.strategy
        matrices = POSTERIOR_MATRICES + (0 if is_static(parts.decay) else DECAY_MATRICES)
        search = 0
        if parts.exploration.scores:
            features = WAVES * FREQUENCIES if parts.exploration.samples else 0
            search = -(-box.search.numbers(box.dim, kept, trials, features) // trials)
        # The posterior found keeps two of its matrices while the box is searched.
        return log_numbers(horizon) + max(matrices * kept**2, 2 * kept**2 + search)

    def believed_noise(self, state: State, noise: Tensor) -> Tensor:
        factor = _surface(state).noise_factor
        return noise if factor is None else noise * factor.view_as(noise)

    def evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        parts, surface = self.strategy, _surface(state)
        # Rows that no trial keeps would cost as much as others; only triggers leave such.
        triggered = parts.retention.uses_data and state.start.numel() > 0
        oldest = int(state.start.amin()) if triggered else 0
        return gather_evidence(
            state._replace(dropped=max(state.dropped, oldest)),
            mean=self.known_mean,
            decay=surface.decay or parts.decay,
            inflation=parts.inflation,
            retention=parts.retention,
            now=now,
            reference=reference,
            inflation_power=inflation_power,
            noise_factor=None
            if surface.noise_factor is None
            else surface.noise_factor.view_as(now),
        )

    def _posterior(
        self, state: State, now: Tensor, reference: Tensor, draws: Draws | None = None
    ) -> PointPosterior:
        kernel = _surface(state).points
        evidence = self._flat_evidence(state, now, reference)
        draw = None
        if draws is not None:
            draw = _path_draw(kernel, evidence, draws, _most_rows(state))
        return point_posterior(kernel, evidence, draw)

    def _flat_evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        evidence = self.evidence(state, now, reference, inflation_power)
        trials = state.time.numel()
        dims = state.time.dim()

        def flat(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.reshape(trials, *part.shape[dims:])

        return Evidence(
            *(flat(part) if isinstance(part, Tensor) else part for part in evidence)  # type: ignore[arg-type]
        )

    def _prospect(
        self,
        state: State,
        posterior: PointPosterior,
        multiplier: float | Tensor,
        context: Tensor | None,
    ) -> Prospect:
        parts = self.strategy
        sign = 1 if parts.maximize else -1
        uses_incumbent = parts.exploration.uses_incumbent
        known = None if context is None else context.reshape(-1, context.shape[-1])
        return Prospect(
            posterior=posterior,
            sign=sign,
            scale=state.basis.scale,
            multiplier=multiplier.reshape(-1) if isinstance(multiplier, Tensor) else multiplier,
            incumbent=best_observed(posterior, sign, known) if uses_incumbent else None,
            context=known,
        )

    def _found(
        self,
        state: State,
        prospect: Prospect,
        rule: Callable[[Prospect, Tensor], Tensor],
        unit: float,
    ) -> Tensor:
        """The best point of the box for every trial, `trials x d`, scores being in ``unit``s."""
        box, posterior = _box(state), prospect.posterior
        some = prospect
        chosen: Tensor | None = None

        def score(X: Tensor, trials: Tensor | None) -> Tensor:
            nonlocal some, chosen
            if trials is not chosen:
                chosen, some = trials, prospect if trials is None else prospect.select(trials)
            return rule(some, X)

        observed = posterior.X[..., : box.dim]
        return box.search.best(box, score, observed, posterior.live, state.told, unit)


def _path_draw(kernel: PointKernel, evidence: Evidence, draws: Draws, most: int) -> PathDraw:
    """Random numbers for a function per trial.

    How many are drawn depends on the rounds told alone, not on what other trials still keep, so
    that a trial draws the same in any batch.
    """
    trials, n, columns = evidence.choice.shape
    if isinstance(kernel, Stationary) and kernel.columns is not None:
        columns = len(kernel.columns)

    def normal(*shape: int) -> Tensor:
        return draws.normal(*shape).reshape(trials, *shape)

    features = waves(kernel, normal(FREQUENCIES, columns + spectral_normals(kernel)))
    return PathDraw(features, normal(2 * FREQUENCIES), normal(most)[:, most - n :])


def _most_rows(state: State) -> int:
    """Rows that a trial could use if it kept all of them."""
    return state.told + (0 if state.expert is None else state.expert.y.shape[-1])


def _or_first(X: Tensor, posterior: PointPosterior, box: Box) -> Tensor:
    """The points found, or where a search begins where nothing is known yet."""
    return torch.where(posterior.live.any(-1, keepdim=True), X, box.search.first(box, X))


def _box(state: State) -> Box:
    assert isinstance(state.domain, Box)
    return state.domain


def _surface(state: State) -> Surface:
    assert isinstance(state.basis, Surface)
    return state.basis
