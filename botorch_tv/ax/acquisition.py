"""Acquisition at the present time, inside Ax."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.surrogate import Surrogate
from ax.generators.torch_base import TorchOptConfig
from botorch.acquisition import AcquisitionFunction, AnalyticAcquisitionFunction
from botorch.models.model import Model, ModelList
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_tv.acquisition.present import Placement, upper_confidence_bound
from botorch_tv.ax.clock import check_fixed
from botorch_tv.models import TimeVaryingGP


class PresentAcquisition(Acquisition):  # type: ignore[misc]
    """Ax's acquisition, with all previous trials moved to the present.

    Now is the value at which the time parameter is fixed. The model's observations age until then.
    Observed and pending points, which an acquisition function compares candidates with, are
    evaluated by their predicted values now.

    Arguments are those of Ax's ``Acquisition``. The option ``"width"`` is a confidence width, which
    sets the beta of ``UpperConfidenceBound``; its round is the number of observations plus 1, its
    dimension that of the parameters other than time. If suggestions are pending, analytic functions
    use the model conditioned on its own mean there ([D14]).

    [D14] Desautels, Krause, Burdick, "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian
    Process Bandit Optimization", 2014.
    """

    X_observed: Tensor | None
    X_pending: Tensor | None

    def __init__(
        self,
        surrogate: Surrogate,
        search_space_digest: SearchSpaceDigest,
        torch_opt_config: TorchOptConfig,
        **more: Any,
    ) -> None:
        time = time_varying_models(surrogate.model)[0].time_dim
        now = (torch_opt_config.fixed_features or {}).get(time)
        place = set_present(surrogate, now, search_space_digest.feature_names)
        # On a copy, so that the data that the surrogate was fitted to do not change.
        present = copy(surrogate)
        present._training_data = [_placed(data, place) for data in surrogate.training_data]
        pending = torch_opt_config.pending_observations
        if pending is not None:  # of an outcome for which nothing is pending it has no columns
            pending = [place(X) if X.numel() else X for X in pending]
        self.time_dim = time
        super().__init__(
            surrogate=present,
            search_space_digest=search_space_digest,
            torch_opt_config=replace(torch_opt_config, pending_observations=pending),
            **more,
        )

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        pending = self.X_pending
        if self.X_observed is not None:
            # The same setting measured twice is one point now, and the covariance of both singular.
            self.X_observed = torch.unique(self.X_observed, dim=0)
        if issubclass(botorch_acqf_class, AnalyticAcquisitionFunction):
            if self._outcome_constraints is not None:
                raise UserInputError(
                    f"{botorch_acqf_class.__name__} knows no outcome constraints; leave out the "
                    "width to let Ax choose an acquisition function that does."
                )
            width = self.options.get("width")
            if width is not None:
                told = model.train_targets.shape[-1]
                bound = upper_confidence_bound(model, width, t=told + 1)
                botorch_acqf_options = {**botorch_acqf_options, "beta": bound.acq_function.beta}
            if pending is not None:
                mean = model.posterior(pending).mean.detach()
                model = model.condition_on_observations(pending, mean)
                self.X_pending = None  # analytic functions refuse it
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )
        self.X_pending = pending
        return acqf

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        *,
        fixed_features: dict[int, float] | None = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As Ax's ``optimize``, after a check that the present time is given.

        Raises:
            UserInputError: If the parameter of time is not fixed.
        """
        name = search_space_digest.feature_names[self.time_dim]
        check_fixed((fixed_features or {}).get(self.time_dim), name)
        return super().optimize(  # type: ignore[no-any-return]
            n=n, search_space_digest=search_space_digest, fixed_features=fixed_features, **more
        )


def time_varying_models(model: Model) -> list[TimeVaryingGP]:
    """The models of the outcomes, one for all or a list.

    Raises:
        UserInputError: If one of them is no ``TimeVaryingGP``.
    """
    models = list(model.models) if isinstance(model, ModelList) else [model]
    for one in models:
        if not isinstance(one, TimeVaryingGP):
            raise UserInputError(
                f"The surrogate is a {type(one).__name__}, but the present time is told to a "
                "TimeVaryingGP; use it as botorch_model_class, see time_varying_model_config."
            )
    return models


def set_present(surrogate: Surrogate, now: float | None, names: list[str]) -> Placement:
    """Age the observations of a surrogate until now.

    Args:
        surrogate: A fitted one.
        now: The present; the time of the newest observation where None.
        names: Of the columns.

    Returns:
        The placement that moves points to that time.

    Raises:
        UserInputError: If ``now`` lies before an observation, or a model is no ``TimeVaryingGP``.
    """
    models = time_varying_models(surrogate.model)
    time = models[0].time_dim
    newest = max(float(X[:, time].max()) for X in surrogate.Xs)
    now = newest if now is None else now
    if now < newest:
        raise UserInputError(
            f"{names[time]!r} is fixed at {now}, but a trial was measured at {newest}; "
            "what is asked for is for that time or later."
        )
    for model in models:
        model.set_now(now)
    return Placement.of(surrogate.model, now, time)


def _placed(data: SupervisedDataset, place: Placement) -> SupervisedDataset:
    """A dataset whose points are moved to the present."""
    return SupervisedDataset(
        X=place(data.X),
        Y=data.Y,
        Yvar=data.Yvar,
        feature_names=data.feature_names,
        outcome_names=data.outcome_names,
    )
