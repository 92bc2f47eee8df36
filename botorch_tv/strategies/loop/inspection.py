"""How to inspect a loop: its best point, a table, plots, and a summary in words."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_tv.inference.box import BoxPrior
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.box import Box, Parameters
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.loop.clock import Time
from botorch_tv.strategies.loop.cures import Act, Cure, RefusedInput, Words
from botorch_tv.strategies.loop.input import Numbers, Points, as_known, as_places
from botorch_tv.strategies.loop.locking import locked
from botorch_tv.strategies.loop.log import Answer, like
from botorch_tv.strategies.loop.record import Record
from botorch_tv.strategies.loop.units import point_in_words
from botorch_tv.strategies.loop.words import forgetting_in_words
from botorch_tv.strategies.outcomes import Success, recommended, success
from botorch_tv.strategies.parameters import Choice
from botorch_tv.strategies.spans import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from botorch_tv.strategies.loop.picture import Scale, Slice

SLICE = 101
"""Points along a side of a box that are drawn."""
LEFT = 0.5
"""Share of the prior variance above which no measurement supports a point."""
UNSUPPORTED = (
    "No measurement supports this point: most of the uncertainty before any data is left there. "
    "Measure it before you rely on it."
)
FAILS = "Every point is likelier to fail than to succeed."


COLUMNS = ("number", "time", "y", "ok", "noise", "mean", "sd", "reset")
"""Columns of a table; those of the chosen point are inserted after the first."""
NOTHING_MEASURED: tuple[Words, ...] = (
    ("nothing has been measured, so there is nothing to draw; ", Cure(Act.ASK)),
    (" and say what came out, or ", Cure(Act.OBSERVE), " something first."),
)


class Inspection(Record):
    """A loop's record with methods to inspect it."""

    @locked
    def recommend(self, *, now: Time | None = None, context: Numbers | None = None) -> Any:
        """The point with the best lower bound, mean - sd / 2, as ``suggestion.point`` has it.

        When minimising, mean + sd / 2. Points that are likelier to fail than to succeed are left
        out. Before the adaptive strategy predicts anything it is the best point measured. Warns if
        no measurement supports the point.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.

        Returns:
            A list of numbers, or a dict of named parameters in their own units.

        Raises:
            InputDataError: If every point is likelier to fail than to succeed.
        """
        present = self._present(now)
        chance = self._success(present)
        best = self._best(present, context, chance)
        if chance is not None and chance.fails:
            raise InputDataError(f"{FAILS} Measure more before you rely on any.")
        if self._is_unsupported(best, present):
            warnings.warn(UNSUPPORTED, stacklevel=3)
        return self._units.point(best.tolist()[: self.domain.dim])

    @locked
    def posterior(
        self, X: Points, *, now: Time | None = None, context: Numbers | None = None
    ) -> GPyTorchPosterior:
        """The posterior of the objective at given points, without observation noise.

        Open suggestions play no part in it.

        Args:
            X: `q x d`; with named parameters a dict, a list of dicts, a DataFrame, or a tensor of
                points in the unit cube.
            now: As in :meth:`ask`.
            context: The same for all points, `c`.

        Returns:
            A joint posterior over the q points.
        """
        points = as_places("X", X, self.state)
        points = self._columns(points, context)
        return self._strategy.posterior(self.state, points, now=self._present(now))

    @locked
    def table(self) -> pd.DataFrame:
        """All measurements in order of time and in their own units, as a DataFrame.

        Returns:
            A row per measurement: ``number`` of the suggestion, or -1, -2, ... in order of arrival
            for those that were not suggested; a column per parameter, named ``x0, x1, ...`` if they
            have no names, and ``time (parameter)`` if the name is taken by another column;
            ``context0, ...``; ``time``; ``y``, NaN if the measurement failed; ``ok``; ``noise``,
            the variance, NaN if the strategy estimates it; ``mean`` and ``sd``, the prediction made
            with the suggestion, NaN if it was not suggested; ``reset``, whether it made the
            strategy forget everything before.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "Loop.table needs pandas: pip install 'botorch-tv[study]'; loop.history is the "
                "same as tensors."
            ) from error
        pairs = zip(self._replay.answers, self._replay.resets)
        frame = pd.DataFrame([self._row(answer, reset) for answer, reset in pairs])
        return frame if len(frame) else pd.DataFrame(columns=self._columns_of_table)

    @locked
    def describe(self, *, now: Time | None = None, context: Numbers | None = None) -> str:
        """A summary in words: how the objective changes, what was measured, and the best point.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`; without it the best point of a domain with context is left
                out.
        """
        process, state = self._strategy.process, self.state
        learned = state.basis.decay if isinstance(state.basis, BoxPrior) else None
        decay = process.decay if learned is None else learned
        clock = self._units.clock
        unit, player = clock.unit or "", self._strategy
        forgets = forgetting_in_words(decay, process.inflation, unit)
        told = player.describe(state, said=clock.said, unit=unit)
        words = [told, forgets, self._measured_in_words()]
        if self._replay.answers and self._has_best(context):
            present = self._present(now)
            chance = self._success(present)
            X = self._best(present, context, chance)
            posterior = player.posterior(state, X.unsqueeze(0), now=present)
            mean, sd = float(posterior.mean), float(posterior.variance.clamp_min(0).sqrt())
            when = float(state.time + player.step(state)) if present is None else present
            point = point_in_words(self._units.point(X.tolist()[: self.domain.dim]))
            words.append(
                f"Best point for time {self._units.clock.said(when)}: {point}; expects {mean:.4g}, "
                f"from {mean - 2 * sd:.4g} to {mean + 2 * sd:.4g} (two standard deviations of the "
                "objective, without noise)."
            )
            words.append(FAILS if chance is not None and chance.fails else "")
            words.append(UNSUPPORTED if self._is_unsupported(X, present) else "")
        return "\n".join(one for one in words if one)

    @locked
    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        now: Time | None = None,
        context: Numbers | None = None,
    ) -> Figure:
        """Plot observations and choices over time, and the predicted objective now.

        The upper panel shows the observations with the prediction before each, plus and minus two
        standard deviations. Below, each parameter has a panel with its chosen values over time and
        one with a slice of the posterior through the current best point, once there are
        predictions.

        Args:
            path: Where to write the figure; its extension selects the format.
            ax: Axes for the upper panel alone; nothing else is drawn then.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`; without it slices of a domain with context are left out.

        Raises:
            ImportError: If matplotlib is not installed.
            InputDataError: If there is no measurement yet.
        """
        if not self._replay.answers:
            raise RefusedInput(*NOTHING_MEASURED)
        from botorch_tv.strategies.loop.picture import draw_loop

        slices = self._slices(now, context) if ax is None and self._has_best(context) else []
        return draw_loop(self.table(), self._scales(), slices, path, ax)

    @locked
    def plot_weights(
        self, path: str | PathLike[str] | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """Plot how the weights of the adaptive strategy change, measurement by measurement.

        Shows the probability of each rate of change, jump hazard, lengthscale and noise ratio, and
        the probability of a jump before each measurement. All are equally likely until the units
        are known. After the typical time between measurements has been re-estimated, rates and
        hazards are shown from then on.

        Args:
            path: Where to write the figure; its extension selects the format.
            ax: Axes for the weights of rates alone; nothing else is drawn then.

        Raises:
            ImportError: If matplotlib is not installed.
            InputDataError: If there is no measurement yet, or the strategy has no weights.
        """
        player = self._strategy
        if not isinstance(player, Adaptive):
            raise InputDataError(
                f"{player!r} has no weights to plot; only the adaptive strategy has, which "
                "Loop(box) uses by default. plot() works for any loop."
            )
        if not self._replay.answers:
            raise RefusedInput(*NOTHING_MEASURED)
        from botorch_tv.strategies.loop.weights import draw_loop_weights

        return draw_loop_weights(
            [self._units.clock.shown(answer.time) for answer in self._replay.answers],
            self._replay.notes,
            player.bank,
            self.domain.columns,
            float(player.step(self.state)),
            self._units.clock.unit or "",
            path,
            ax,
        )

    @property
    def parameters(self) -> Parameters | None:
        """The named parameters; None if coordinates have no names."""
        return self._units.parameters

    # ---------------------------------------------------------------- within

    def _has_best(self, context: Numbers | None) -> bool:
        """Whether anything is predicted, in a context that is known."""
        known = context is not None or self.domain.columns == self.domain.dim
        return known and bool(self._strategy.predicts(self.state))

    def _best(
        self, present: float | None, context: Numbers | None, chance: Success | None
    ) -> Tensor:
        """The point to recommend, with its context, `d + c`."""
        known = as_known(self.state, context)
        return recommended(self._strategy, self.state, present, known, chance)

    def _is_unsupported(self, X: Tensor, present: float | None) -> bool:
        """Whether most of the prior variance is left at a point `d + c`."""
        if not self._replay.answers or not bool(self._strategy.predicts(self.state)):
            return False
        sd = float(self._strategy.suggestion_at(self.state, X, now=present).sd)
        return sd**2 > LEFT * self._strategy.prior_variance(self.state)

    def _success(self, present: float | None) -> Success | None:
        """Where measurements succeed; None where none has failed."""
        state, answers = self.state, self._replay.answers
        if all(one.y is not None for one in answers):
            return None
        X = like(state).new_tensor([one.point[: self.domain.dim] for one in answers])
        ok = torch.tensor([one.y is not None for one in answers], device=X.device)
        time = state.time.new_tensor([one.time for one in answers])
        now = state.time + self._strategy.step(state) if present is None else present
        return success(state, X, ok, time, float(now))

    def _slices(self, now: Time | None, context: Numbers | None) -> list[Slice]:
        from botorch_tv.strategies.loop.picture import Slice

        domain, present = self.domain, self._present(now)
        best = self._best(present, context, self._success(present))
        slices = []
        for side, scale in enumerate(self._scales().values()):
            X = _along(domain, best, side)
            posterior = self._strategy.posterior(self.state, X, now=present)
            sd = posterior.variance.squeeze(-1).clamp_min(0).sqrt()
            values = [scale.place(self._value(row, side)) for row in X.tolist()]
            means = posterior.mean.squeeze(-1).cpu().numpy()
            at = scale.place(self._value(best.tolist(), side))
            slices.append(Slice(values, means, sd.cpu().numpy(), at))
        return slices

    def _scales(self) -> dict[str, Scale]:
        from botorch_tv.strategies.loop.picture import Scale

        parameters = self.parameters
        if parameters is None:
            return {name: Scale(log=False, choices=None) for name in self._names}
        return {
            name: Scale(log=False, choices=one)
            if isinstance(one, Choice)
            else Scale(log=one.log, choices=None)
            for name, one in parameters.items()
        }

    def _value(self, point: list[float], side: int) -> Any:
        values = self._units.point(point[: self.domain.dim])
        return list(values.values() if isinstance(values, dict) else values)[side]

    def _row(self, answer: Answer, reset: bool) -> dict[str, object]:
        d, said = self.domain.dim, answer.predicted if answer.number > 0 else None
        values = self._units.point(answer.point[:d])
        named = values if isinstance(values, dict) else {f"x{n}": x for n, x in enumerate(values)}
        noise = self._strategy.usual_noise if answer.noise is None else answer.noise
        cells = (
            answer.number,
            *named.values(),
            *answer.point[d:],
            self._units.clock.shown(answer.time),
            float("nan") if answer.y is None else answer.y,
            answer.y is not None,
            noise,
            float("nan") if said is None else said.mean,
            float("nan") if said is None else said.sd,
            reset,
        )
        return dict(zip(self._columns_of_table, cells))

    @property
    def _names(self) -> list[str]:
        """The names of the chosen coordinates."""
        parameters = self._units.parameters
        return [f"x{n}" for n in range(self.domain.dim)] if parameters is None else list(parameters)

    @property
    def _columns_of_table(self) -> list[str]:
        context = [f"context{n}" for n in range(self.domain.columns - self.domain.dim)]
        others = {*COLUMNS, *context}
        names = [f"{one} (parameter)" if one in others else one for one in self._names]
        number, *rest = COLUMNS
        return [number, *names, *context, *rest]

    def _measured_in_words(self) -> str:
        answers, said = self._replay.answers, self._units.clock.said
        became = [one.became for one in self._superseded]
        counts = [f"{became.count(one)} {one}" for one in dict.fromkeys(became)]
        changed = f"; {', '.join(counts)}" if counts else ""
        if not answers:
            return f"Nothing has been measured yet{changed}."
        failed = sum(one.y is None for one in answers)
        times = [one.time for one, reset in zip(answers, self._replay.resets) if reset]
        many = counted(len(answers), "measurements")
        words = f"{many} from time {said(answers[0].time)} to {said(answers[-1].time)}"
        if len(answers) == 1:
            words = f"{many}, of time {said(answers[0].time)}"
        words += (f", of which {failed} failed" if failed else "") + changed
        if self._strategy.process.retention:
            last = f", the last at time {said(times[-1])}" if times else ""
            often = "once" if len(times) == 1 else f"{len(times)} times"
            words += f"; everything was forgotten {often}{last}"
        return words + (f"; open: {self._open}." if len(self._open) else ".")

    def _columns(self, X: Tensor, context: Numbers | None) -> Tensor:
        """Points `* x d` with the context behind, `* x (d + c)`."""
        known = as_known(self.state, context)
        return X if known is None else torch.cat([X, known.expand(*X.shape[:-1], -1)], -1)


def _along(domain: Domain, best: Tensor, side: int) -> Tensor:
    """Points of a domain that differ from one along a side alone, in order, `q x (d + c)`."""
    if isinstance(domain, Grid):
        arms = domain.X.to(best)
        others = [one for one in range(domain.dim) if one != side]
        X = arms[(arms[:, others] == best[others]).all(-1)]
        return X[X[:, side].argsort()]
    assert isinstance(domain, Box)
    at = slice(side, side + 1)
    if domain.parameters is not None:
        axis, at = domain.parameters.space.axes[side], domain.parameters.space.places[side]
        if isinstance(axis.of, Choice) and axis.levels is not None:
            X = best.repeat(len(axis.levels), 1)
            X[:, at] = axis.levels.to(best)
            return X
    U = domain.to_unit(best[: domain.dim]).repeat(SLICE, 1)
    U[:, at] = torch.linspace(0, 1, SLICE, device="cpu").to(best).unsqueeze(-1)
    X = best[: domain.dim].repeat(SLICE, 1)
    X[:, at] = domain.from_unit(U)[:, at]
    X = torch.unique(X, dim=0)  # whole numbers once; sorted by the one side that differs
    return torch.cat([X, best[domain.dim :].expand(len(X), -1)], -1)
