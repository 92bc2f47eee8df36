"""Optimisers of worlds with limits, several objectives and a context."""

from __future__ import annotations

import logging
import types
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.statistics.limit_worlds import DAYS, World, even, non_dominated, undominated, volume
from botorch_tv.gp.points import Pull
from botorch_tv.loop.input import context_row
from botorch_tv.strategies.feasible import Feasible

FIRST = 5
"""Random settings before there is a model."""
SET = 10
"""Most settings that are recommended when there are several objectives."""
HORIZON = 200.0
"""The last time that a search space which wants a bound has."""


class Player(ABC):
    """An optimiser of a world, which sees measurements, limits and the context of the present."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.random = np.random.default_rng([seed, 1])
        self.several = world.objectives > 1
        self.count = 0

    @abstractmethod
    def choice(self, now: float) -> np.ndarray:
        """Where to measure after the first settings, `d`."""

    @abstractmethod
    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        """Record outcomes `m` of a setting."""

    def ask(self, now: float) -> np.ndarray:
        """Where to measure, `d`."""
        if self.count < FIRST:
            return self.world.whole(self.random.random(self.world.dim))
        return self.world.whole(self.choice(now))

    def tell(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        """Record outcomes `m` of a setting."""
        self.count += 1
        self.told(x, now, y)

    def recommended(self, now: float) -> np.ndarray:
        """Settings that are the best compromises now, at most ``SET`` rows."""
        raise NotImplementedError

    def context(self, now: float) -> list[float]:
        """The context as numbers; a day is seven of them."""
        if self.world.context is None:
            return []
        value = self.world.context(now)
        return [float(value == day) for day in DAYS] if isinstance(value, str) else [value]


class Random(Player):
    """Random search."""

    def choice(self, now: float) -> np.ndarray:
        return self.random.random(self.world.dim)

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        pass


def chosen(Y: np.ndarray, ok: np.ndarray, reference: np.ndarray) -> list[int]:
    """Rows of predicted objectives that add most hypervolume, at most ``SET`` of those allowed."""
    rows = np.flatnonzero(ok)
    rows = rows[undominated(Y[rows])]
    picked: list[int] = []
    for _ in range(min(SET, len(rows))):
        gains = [volume(Y[[*picked, row]], tuple(reference)) for row in rows]
        picked.append(int(rows[int(np.argmax(gains))]))
    return picked


class Column(Player):
    """BoTorch with time and context as columns, models fitted every round.

    One objective: ``qLogNoisyExpectedImprovement`` with constraints; several:
    ``qLogNoisyExpectedHypervolumeImprovement``. The baseline is what was measured, at the present.
    A fit starts from the last one. Where a search ends at gradients that are NaN, the point is
    random.
    """

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        torch.manual_seed(seed)
        self.rows: list[list[float]] = []
        self.values: list[np.ndarray] = []
        self.last: dict[int, Any] = {}

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        self.rows.append([*x, *self.context(now), now])
        self.values.append(y)

    def single(self, X: Tensor, y: Tensor) -> Any:
        """A model of an outcome before it is fitted."""
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Normalize, Standardize

        bounds = torch.zeros(2, X.shape[-1])
        bounds[1], bounds[1, -1] = 1.0, X[:, -1].max()
        normal = Normalize(X.shape[-1], bounds=bounds)
        return SingleTaskGP(X, y, input_transform=normal, outcome_transform=Standardize(m=1))

    def model(self) -> Any:
        """Fitted models of all outcomes."""
        from botorch.exceptions import ModelFittingError
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import ModelListGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        X, Y = torch.tensor(self.rows), torch.tensor(np.array(self.values))
        models = []
        for k in range(Y.shape[-1]):
            model = self.single(X, Y[:, [k]])
            if k in self.last:
                for part in ("covar_module", "mean_module", "likelihood"):
                    getattr(model, part).load_state_dict(getattr(self.last[k], part).state_dict())
            likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
            options = {"options": {"maxiter": 30}} if k in self.last else {}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit_gpytorch_mll(likelihood, optimizer_kwargs=options)
            except ModelFittingError:
                model.eval()
            self.last[k] = model
            models.append(model)
        return ModelListGP(*models)

    def now(self, X: np.ndarray, now: float) -> Tensor:
        """Rows of settings at the present."""
        rest = [*self.context(now), now]
        return torch.tensor(np.concatenate([X, np.tile(rest, (len(X), 1))], -1))

    def settings(self) -> np.ndarray:
        """What was measured."""
        return np.array(self.rows)[:, : self.world.dim]

    def constraints(self) -> list[Callable[[Tensor], Tensor]] | None:
        """Functions of samples of the outcomes that are negative within the limits."""
        first = self.world.objectives

        def over(k: int, limit: float) -> Callable[[Tensor], Tensor]:
            return lambda Y: Y[..., k] - limit

        return [over(first + n, limit) for n, limit in enumerate(self.world.limits)] or None

    def choice(self, now: float) -> np.ndarray:
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.acquisition.multi_objective.logei import (
            qLogNoisyExpectedHypervolumeImprovement,
        )
        from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
        from botorch.acquisition.objective import GenericMCObjective
        from botorch.exceptions.errors import OptimizationGradientError
        from botorch.optim import optimize_acqf_mixed
        from botorch.sampling import SobolQMCNormalSampler

        model, dim, k = self.model(), self.world.dim, self.world.objectives
        given: dict[str, Any] = {
            "X_baseline": self.now(self.settings(), now),
            "sampler": SobolQMCNormalSampler(torch.Size([64])),
            "constraints": self.constraints(),
            "prune_baseline": True,
        }
        function: Any
        if self.several:
            objective = IdentityMCMultiOutputObjective(outcomes=list(range(k)))
            function = qLogNoisyExpectedHypervolumeImprovement(
                model, self.reference(model, now).tolist(), objective=objective, **given
            )
        else:
            first = GenericMCObjective(lambda Y, X=None: Y[..., 0])
            function = qLogNoisyExpectedImprovement(model, objective=first, **given)
        rest = {dim + number: value for number, value in enumerate([*self.context(now), now])}
        columns = sorted(self.world.choices)
        combinations = product(
            *(
                [n / (self.world.choices[c] - 1) for n in range(self.world.choices[c])]
                for c in columns
            )
        )
        fixed = [rest | dict(zip(columns, values)) for values in combinations]
        bounds = torch.zeros(2, dim + len(rest))
        bounds[1] = 1.0
        bounds[1, -1] = now
        try:
            found, _ = optimize_acqf_mixed(
                function, bounds, q=1, num_restarts=2, raw_samples=64, fixed_features_list=fixed,
                options={"maxiter": 40},
            )  # fmt: skip
        except OptimizationGradientError:
            return self.random.random(dim)
        return np.asarray(found[0, :dim])

    def means(self, model: Any, X: np.ndarray, now: float) -> np.ndarray:
        """Predicted outcomes of settings at the present."""
        with torch.no_grad():
            return np.asarray(model.posterior(self.now(X, now)).mean)

    def reference(self, model: Any, now: float) -> np.ndarray:
        """The reference point, from the objectives now of what was measured."""
        from botorch.utils.multi_objective.hypervolume import infer_reference_point
        from botorch.utils.multi_objective.pareto import is_non_dominated

        Y = torch.tensor(self.means(model, self.settings(), now)[:, : self.world.objectives])
        return np.asarray(infer_reference_point(Y[is_non_dominated(Y)]))

    def recommended(self, now: float) -> np.ndarray:
        model, dim = self.model(), self.world.dim
        X = np.concatenate([self.settings(), even(dim)[:512]])
        picked: list[int] = []
        for width in (0.1, 0.03):
            Y = self.means(model, X, now)
            k = self.world.objectives
            ok = np.asarray((Y[:, k:] <= np.array(self.world.limits)).all(-1))
            if not ok.any():
                return X[[Y[:, k:].max(-1).argmin()]]
            picked = chosen(Y[:, :k], ok, self.reference(model, now))
            near = np.repeat(X[picked], 40, 0)
            near = near + width * self.random.standard_normal(near.shape)
            X = np.concatenate([X[picked], self.world.whole(near)])
        return X[: len(picked)]


class Decay(Column):
    """BoTorch with a rate of change per outcome, exp(-|Δt| / τ): the model of dbo-torch."""

    def single(self, X: Tensor, y: Tensor) -> Any:
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.constraints import GreaterThan, Positive
        from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
        from gpytorch.likelihoods import GaussianLikelihood

        last = X.shape[-1] - 1
        decay = MaternKernel(
            nu=0.5,
            active_dims=(last,),
            lengthscale_constraint=Positive(transform=torch.exp, inv_transform=torch.log),
        )
        decay.lengthscale = 100.0
        space = RBFKernel(ard_num_dims=last, active_dims=tuple(range(last)))
        model = SingleTaskGP(
            X,
            y,
            likelihood=GaussianLikelihood(noise_constraint=GreaterThan(1e-6)),
            covar_module=ScaleKernel(space) * decay,
            outcome_transform=Standardize(m=1),
        )
        return model


class Ax(Player):
    """Ax's client, time and context as parameters fixed at the present."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

        logging.disable(logging.CRITICAL)
        self.client, parts = Client(random_seed=seed), []
        for number in range(world.dim):
            if number in world.choices:
                values = list(range(world.choices[number]))
                parts.append(
                    ChoiceParameterConfig(
                        f"x{number}", values=values, parameter_type="int", is_ordered=False
                    )
                )
            else:
                parts.append(RangeParameterConfig(f"x{number}", (0.0, 1.0), "float"))
        if world.context is not None:
            if isinstance(world.context(1.0), str):
                days = ChoiceParameterConfig(
                    "context", values=list(DAYS), parameter_type="str", is_ordered=False
                )
                parts.append(days)
            else:
                parts.append(RangeParameterConfig("context", (0.0, 1.0), "float"))
        parts.append(RangeParameterConfig("time", (0.0, HORIZON), "float"))
        self.client.configure_experiment(parts)
        k = world.objectives
        self.names = [f"y{number}" for number in range(k)]
        self.limited = [f"c{number}" for number in range(len(world.limits))]
        constraints = [f"{name} <= {limit}" for name, limit in zip(self.limited, world.limits)]
        self.client.configure_optimization(
            objective=", ".join(self.names), outcome_constraints=constraints or None
        )
        self.trial: int | None = None
        self.measured: list[np.ndarray] = []

    def fixed(self, now: float) -> dict[str, Any]:
        context = {} if self.world.context is None else {"context": self.world.context(now)}
        return {"time": now, **context}

    def ask(self, now: float) -> np.ndarray:
        asked = self.client.get_next_trials(max_trials=1, fixed_parameters=self.fixed(now))
        ((self.trial, found),) = asked.items()
        return np.array(
            [
                found[f"x{n}"] / max(self.world.choices.get(n, 2) - 1, 1)
                for n in range(self.world.dim)
            ]
        )

    choice = ask

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        assert self.trial is not None
        self.measured.append(x)
        values = {name: float(value) for name, value in zip([*self.names, *self.limited], y)}
        self.client.complete_trial(self.trial, raw_data=values)

    def recommended(self, now: float) -> np.ndarray:
        random = even(self.world.dim)[:256]
        X = self.world.whole(np.concatenate([np.array(self.measured), random]))
        for width in (0.1, 0.03):
            predicted = self.client.predict([self.point(x, now) for x in X])
            Y = np.array([[row[n][0] for n in (*self.names, *self.limited)] for row in predicted])
            k = self.world.objectives
            ok = np.asarray((Y[:, k:] <= np.array(self.world.limits)).all(-1))
            if not ok.any():
                return X[[Y[:, k:].max(-1).argmin()]]
            front = non_dominated(Y[ok][:, :k])
            span = front.max(0) - front.min(0)
            picked = chosen(Y[:, :k], ok, front.min(0) - 0.1 * span)
            near = np.repeat(X[picked], 20, 0)
            near = near + width * self.random.standard_normal(near.shape)
            X = np.concatenate([X[picked], self.world.whole(near)])
        return X[: len(picked)]

    def point(self, x: np.ndarray, now: float) -> dict[str, Any]:
        """A setting as Ax has it."""
        choices = self.world.choices
        found: dict[str, Any] = {
            f"x{n}": round(value * (choices[n] - 1)) if n in choices else float(value)
            for n, value in enumerate(x)
        }
        return found | self.fixed(now)


class Xopt(Player):
    """Xopt's time-dependent UCB with constraints, whose clock is the world's.

    UCB is weighted by feasibility and must be positive, so it is shifted by its lowest value. The
    generator fails if features are fixed besides time (Xopt 3.2.2), so it ignores the context.
    """

    travel: float | None = None
    """Largest move of each coordinate, as a share of its range."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        from xopt.generators.bayesian import time_dependent
        from xopt.generators.bayesian.upper_confidence_bound import TDUpperConfidenceBoundGenerator
        from xopt.vocs import VOCS

        torch.manual_seed(seed)
        self.names = [f"x{number}" for number in range(world.dim)]
        self.limited = [f"c{number}" for number in range(len(world.limits))]
        vocs = VOCS(
            variables={name: [0.0, 1.0] for name in self.names},
            objectives={"y": "MAXIMIZE"},
            constraints={
                name: ["LESS_THAN", limit] for name, limit in zip(self.limited, world.limits)
            },
        )
        self.generator = TDUpperConfidenceBoundGenerator(vocs=vocs, added_time=1e-6)
        self.generator.numerical_optimizer.n_restarts = 4
        self.generator.numerical_optimizer.max_iter = 30
        if self.travel is not None:
            self.generator.max_travel_distances = [self.travel] * world.dim
        self.clock, self.lowest = 0.0, 0.0
        clock = types.SimpleNamespace(time=lambda: self.clock, sleep=self._sleep)
        time_dependent.time = clock

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def choice(self, now: float) -> np.ndarray:
        self.clock = now
        self.generator.shift = max(0.0, -self.lowest)
        (candidate,) = self.generator.generate(1)
        return np.array([candidate[name] for name in self.names])

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        import pandas as pd

        row = dict(zip(self.names, x))
        row |= dict(zip(["y", *self.limited], y)) | {"time": now}
        self.lowest = min(self.lowest, y[0])
        self.generator.add_data(pd.DataFrame([row]))


class XoptSmallMoves(Xopt):
    """Xopt with a largest move."""

    travel = 0.1


class Optuna(Player):
    """A study of Optuna with constraints; it ignores time and context."""

    sampler = "TPESampler"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        given: dict[str, Any] = {}
        if world.limits:
            given["constraints_func"] = lambda trial: trial.user_attrs["over"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = getattr(optuna.samplers, self.sampler)(seed=seed, **given)
        self.study = optuna.create_study(
            directions=["maximize"] * world.objectives, sampler=sampler
        )
        self.trial: Any = None

    def ask(self, now: float) -> np.ndarray:
        self.trial, found = self.study.ask(), []
        for number in range(self.world.dim):
            name, count = f"x{number}", self.world.choices.get(number)
            if count is None:
                found.append(self.trial.suggest_float(name, 0, 1))
            else:
                values = list(range(count))
                found.append(self.trial.suggest_categorical(name, values) / (count - 1))
        return np.array(found)

    choice = ask

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        k = self.world.objectives
        if self.world.limits:
            over = [float(each) for each in y[k:] - np.array(self.world.limits)]
            self.trial.set_user_attr("over", over)
        self.study.tell(self.trial, [float(value) for value in y[:k]])

    def recommended(self, now: float) -> np.ndarray:
        best = self.study.best_trials
        if not best:
            return np.empty((0, self.world.dim))
        X = [
            [
                trial.params[f"x{n}"] / max(self.world.choices.get(n, 2) - 1, 1)
                for n in range(self.world.dim)
            ]
            for trial in best
        ]
        Y = np.array([trial.values for trial in best])
        span = Y.max(0) - Y.min(0)
        return np.array(X)[chosen(Y, np.ones(len(Y), dtype=bool), Y.min(0) - 0.1 * span)]


class OptunaGp(Optuna):
    """The Gaussian process of Optuna with constraints."""

    sampler = "GPSampler"


class SafeOpt(Column):
    """SafeOpt (Sui et al., 2015; Berkenkamp et al., 2021) with time and context as contexts.

    On an even grid, with the bounds mean ± 2 sd of models fitted every tenth round: among the safe
    points, the one of the widest band among those that may be best and those that may make another
    point safe. It begins at the world's safe setting and two settings next to it.
    """

    POINTS: Mapping[int, int] = {1: 200, 2: 31, 3: 13}
    WIDTH = 2.0

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        axis = np.linspace(0, 1, self.POINTS[world.dim])
        axes = [
            np.linspace(0, 1, world.choices[n]) if n in world.choices else axis
            for n in range(world.dim)
        ]
        self.grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, world.dim)
        self.fitted: Any = None

    def ask(self, now: float) -> np.ndarray:
        if self.count < FIRST:
            near = self.world.start + 0.03 * self.random.standard_normal(self.world.dim)
            return self.world.whole(near if self.count else self.world.start.copy())
        return self.choice(now)

    def refitted(self) -> Any:
        """The models with all data; their hyperparameters are fitted every tenth round."""
        X, Y = torch.tensor(self.rows), torch.tensor(np.array(self.values))
        if self.fitted is None or self.count % 10 == 0:
            self.fitted = self.model()
            return self.fitted
        models = []
        for k, old in enumerate(self.fitted.models):
            transformed, _ = old.outcome_transform(Y[:, [k]])
            model = old
            model.train()
            model.set_train_data(X, transformed.squeeze(-1), strict=False)
            model.eval()
            models.append(model)
        return self.fitted

    def bands(self, model: Any, X: np.ndarray, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Means and half widths, `q x m`."""
        with torch.no_grad():
            posterior = model.posterior(self.now(X, now))
        return np.asarray(posterior.mean), self.WIDTH * np.asarray(posterior.variance.sqrt())

    def choice(self, now: float) -> np.ndarray:
        model = self.refitted()
        mean, half = self.bands(model, self.grid, now)
        limits, scale = np.array(self.world.limits), np.array(self.values).std(0) + 1e-9
        over = (mean + half)[:, 1:] - limits
        safe = (over <= 0).all(-1)
        if not safe.any():
            return self.grid[(over / scale[1:]).max(-1).argmin()]
        upper, lower = (mean + half)[:, 0], (mean - half)[:, 0]
        candidates = safe & (upper >= lower[safe].max())
        width = (half / scale).max(-1)
        unsafe = ~safe & ((mean - half)[:, 1:] <= limits).all(-1)
        widest = width[candidates].max()
        for row in np.flatnonzero(safe)[np.argsort(-width[safe])][:20]:
            if width[row] <= widest or not unsafe.any():
                break
            if self.expands(model, row, unsafe, now):
                candidates[row] = True
                break
        return self.grid[np.flatnonzero(candidates)[width[candidates].argmax()]]

    def expands(self, model: Any, row: int, unsafe: np.ndarray, now: float) -> bool:
        """Whether the best outcome at a safe point would make an unsafe point safe."""
        rows = self.now(np.concatenate([self.grid[[row]], self.grid[unsafe]]), now)
        good = torch.ones(int(unsafe.sum()), dtype=torch.bool)
        for limit, each in zip(self.world.limits, model.models[1:]):
            with torch.no_grad():
                posterior = each.posterior(rows)
                mean, S = posterior.mean[:, 0], posterior.mvn.covariance_matrix
                noise = each.likelihood.noise * each.outcome_transform.stdvs.squeeze() ** 2
                gain = S[0, 1:] / (S[0, 0] + noise.squeeze())
                sd = (S.diagonal()[1:] - gain * S[0, 1:]).clamp_min(0).sqrt()
                low = mean[1:] - gain * self.WIDTH * S[0, 0].sqrt()
                good &= low + self.WIDTH * sd <= limit
        return bool(good.any())


class Ours(Player):
    """``Loop`` with its defaults, from the first round on.

    Attributes:
        sees: Whether it is given the context.
        options: Further arguments of ``Loop``.
    """

    sees = True
    options: Mapping[str, Any] = {}

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        from botorch_tv import Choice, Context, Float, Loop

        self.objectives = [f"y{number}" for number in range(world.objectives)]
        self.limited = [f"c{number}" for number in range(len(world.limits))]
        space: dict[str, Any] = {
            f"x{n}": Choice(*range(world.choices[n])) if n in world.choices else Float(0.0, 1.0)
            for n in range(world.dim)
        }
        if self.sees and world.context is not None:
            of_days = isinstance(world.context(1.0), str)
            space["context"] = Context(*DAYS) if of_days else Context(0.0, 1.0)
        given: dict[str, Any] = {"max_step": self.moves()} if self.step else {}
        self.loop = Loop(
            space,
            objective=self.objectives if self.several else self.objectives[0],
            constraints=self.constraints() or None,
            seed=seed,
            **given,
            **self.arguments(),
        )

    step: float | None = None
    """The largest move of each coordinate, as a share of its range."""

    def moves(self) -> dict[str, float]:
        """The largest move of each parameter."""
        assert self.step is not None
        numbers = [n for n in range(self.world.dim) if n not in self.world.choices]
        return {f"x{n}": self.step for n in numbers}

    def arguments(self) -> dict[str, Any]:
        """Further arguments of ``Loop``."""
        return dict(self.options)

    def constraints(self) -> list[str]:
        """The limits that it is given."""
        return [f"{name} <= {bound}" for name, bound in zip(self.limited, self.world.limits)]

    def conditions(self, now: float) -> dict[str, Any]:
        """Arguments of a choice."""
        if not self.sees or self.world.context is None:
            return {"now": now}
        return {"now": now, "context": {"context": self.world.context(now)}}

    def ask(self, now: float) -> np.ndarray:
        return self.setting(self.loop.ask(**self.conditions(now)).point)

    choice = ask

    def setting(self, point: Mapping[str, Any]) -> np.ndarray:
        """A setting of the loop as one of the world."""
        choices = self.world.choices
        return np.array(
            [point[f"x{n}"] / max(choices.get(n, 2) - 1, 1) for n in range(self.world.dim)]
        )

    def point(self, x: np.ndarray) -> dict[str, Any]:
        """A setting of the world as one of the loop."""
        choices = self.world.choices
        return {
            f"x{n}": round(value * (choices[n] - 1)) if n in choices else float(value)
            for n, value in enumerate(x)
        }

    def told(self, x: np.ndarray, now: float, y: np.ndarray) -> None:
        self.loop.tell(dict(zip([*self.objectives, *self.limited], y.tolist())))

    def recommended(self, now: float) -> np.ndarray:
        found = self.loop.pareto(points=SET, **self.conditions(now))
        return np.stack([self.setting(each.point) for each in found])


class Safe(Ours):
    """Our strategy, every measurement of which must keep the limits with this probability."""

    safe = 0.95

    def arguments(self) -> dict[str, Any]:
        return {"safe": self.safe, "start": self.point(self.world.start)}


class Safer(Safe):
    """As ``Safe``, at 0.99."""

    safe = 0.99


class SmallMoves(Ours):
    """Our strategy with a largest move."""

    step = 0.1


class Exact(Feasible):
    """Whether the limits of worlds are kept now, a trial each; slopes of the excess by differences.

    Args:
        worlds: The worlds.
        now: The time.
    """

    def __init__(self, worlds: Sequence[World], now: float) -> None:
        self.worlds, self.now = worlds, now

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        over = []
        for world, rows in zip(self.worlds, X.detach()):
            settings = world.whole(rows[:, : world.dim].numpy())
            over.append(world.excess(world.outcomes(settings, self.now)))
        excess = torch.tensor(np.stack(over))
        return (excess <= 0).to(X), 1 + excess.clamp_min(-1)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        (p, risk), step = self.judge(X), 1e-5
        steps = step * torch.eye(X.shape[-1])[: self.worlds[0].dim]
        each = [(self.judge(X + row)[1] - self.judge(X - row)[1]) for row in steps]
        slope = torch.stack(each, -1) / (2 * step)

        def pull(by_p: Tensor | float, by_risk: Tensor | float) -> Tensor:
            return torch.as_tensor(by_risk).unsqueeze(-1) * slope

        return p, risk, pull

    def select(self, trials: Tensor) -> Feasible:
        return Exact([self.worlds[number] for number in trials.tolist()], self.now)


class Reference(Ours):
    """Our strategy given the true limits; it plays in batches."""

    def constraints(self) -> list[str]:
        return []


class Batch:
    """Trials that one strategy plays at once; each chooses as its loop.

    Args:
        loops: The players, with the same arguments and worlds that differ in their seeds alone.
    """

    def __init__(self, loops: Sequence[Ours]) -> None:
        self.loops, first = loops, loops[0].loop
        self.strategy, self.space = first.strategy, first.parameters
        shape = (len(loops),)
        self.state = self.strategy.init(first.domain, batch_shape=shape, dtype=torch.float64)
        self.generator = torch.Generator().manual_seed(loops[0].seed)
        self.asked: Any = None

    def ask(self, now: float) -> np.ndarray:
        """Where to measure, `trials x d`."""
        given: dict[str, Any] = {"now": now, "generator": self.generator}
        conditions = [each.conditions(now).get("context") for each in self.loops]
        rows = [context_row(each.loop.state, row) for each, row in zip(self.loops, conditions)]
        contexts = [row for row in rows if row is not None]
        assert self.space is not None
        if contexts:
            given["context"] = torch.stack(contexts)
        if isinstance(self.loops[0], Reference):
            given["feasible"] = Exact([each.world for each in self.loops], now)
        if isinstance(self.loops[0], Safe) and now == 1:
            like = torch.zeros(1)
            starts = [self.space.place(each.point(each.world.start), like) for each in self.loops]
            X = torch.cat([torch.stack(starts), *([given["context"]] if contexts else [])], -1)
            self.asked = self.strategy.suggestion_at(self.state, X, now=now)
        else:
            self.asked = self.strategy.ask(self.state, **given)
        every = self.asked.X[:, : self.loops[0].loop.domain.dim]
        return np.stack([each.setting(self.space.named(x)) for each, x in zip(self.loops, every)])

    def tell(self, Y: np.ndarray) -> None:
        """Record outcomes, `trials x m`."""
        values = torch.tensor(Y)
        if isinstance(self.loops[0], Reference):
            values = values[:, :1]
        self.state, _ = self.strategy.tell(self.state, self.asked, values, consume=True)


class WithoutContext(Ours):
    """Our strategy without the context."""

    sees = False


PLAYERS: dict[str, type[Player]] = {
    "random": Random,
    "botorch-time": Column,
    "ax-time": Ax,
    "xopt": Xopt,
    "optuna-tpe": Optuna,
    "optuna-gp": OptunaGp,
    "safeopt": SafeOpt,
    "dbo-rule": Decay,
    "ours": Ours,
    "reference": Reference,
    "no context": WithoutContext,
    "safe 0.95": Safe,
    "safe 0.99": Safer,
    "max step": SmallMoves,
    "xopt max travel": XoptSmallMoves,
}
