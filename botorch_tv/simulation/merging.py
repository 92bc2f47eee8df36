"""Merge results of different strategies on the same trials."""

from __future__ import annotations

import json

import numpy as np
import torch
import xarray as xr

from botorch_tv.identity import Description, differences
from botorch_tv.identity.versions import together
from botorch_tv.memory import bytes_in_words, free_bytes
from botorch_tv.validation import require

SAME = ("world", "noise", "seed", "draws", "horizon", "trials", "dtype")
"""Attributes that are equal in results of the same trials."""
VERSIONS = ("device", "torch", "botorch", "gpytorch", "numpy", "botorch_tv")
"""Attributes that are joined if they differ."""
COMPARED_TRIALS = 16
"""Trials in which the worlds are compared."""
TOLERANCE = 1e-3
"""Share of the largest regret by which rounding on other machines may change a world."""


def merged(one: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Merge two results of the same trials with different strategies.

    Raises:
        ValueError: If trials or worlds differ, or both have a label; names what is the matter.
    """
    unlike = differences(_identity(other), _identity(one))
    goals = [each.attrs["goal"] for each in (other, one) if "goal" in each.attrs]
    if len(set(goals)) > 1:
        unlike.append(f"regret is against {goals[0]} there and {goals[1]} here")
    variables = sorted({str(name) for name in set(one.variables) ^ set(other.variables)})
    if variables:
        unlike.append(f"{', '.join(variables)} is in only one of them (record)")
    if unlike:
        raise ValueError(
            f"StudyResult.merge: these are results of different trials: {'; '.join(unlike)}. Run "
            "the missing strategies with the settings of the others."
        )
    twice = sorted(set(one["strategy"].values.tolist()) & set(other["strategy"].values.tolist()))
    if twice:
        raise ValueError(
            f"StudyResult.merge: {', '.join(twice)} is in both; drop one by "
            "StudyResult(result.data.drop_sel(strategy=...))."
        )
    needed, free = one.nbytes + other.nbytes, free_bytes(torch.device("cpu"))
    require(
        needed <= free,
        f"StudyResult.merge: both together take {bytes_in_words(needed)}, but only "
        f"{bytes_in_words(free)} of memory are free; run all strategies with one save_to=FOLDER, "
        "which computes the missing ones and keeps the result on disk.",
    )
    _require_same_worlds(one, other)
    shared = [name for name in VERSIONS if name in one.attrs and name in other.attrs]
    versions = together({name: str(each.attrs[name]) for name in shared} for each in (one, other))
    attributes = dict(one.attrs) | versions
    shown = [json.loads(attrs.get("strategies", "{}")) for attrs in (one.attrs, other.attrs)]
    attributes["strategies"] = json.dumps({**shown[0], **shown[1]})
    attributes["seconds"] = one.attrs.get("seconds", 0.0) + other.attrs.get("seconds", 0.0)
    attributes["created"] = max(
        str(one.attrs.get("created", "")), str(other.attrs.get("created", ""))
    )
    return xr.concat(
        [one, other],
        dim="strategy",
        data_vars="minimal",
        coords="minimal",
        compat="equals",
        join="exact",
        combine_attrs="drop",
    ).assign_attrs(attributes)


def _require_same_worlds(one: xr.Dataset, other: xr.Dataset) -> None:
    """Raise if an arm has two different regrets in the same round of the same trial.

    The settings may agree and the worlds still differ, if the code that draws them has changed in
    between. The first trials suffice, because all trials are drawn alike.
    """
    if "index" not in one.variables:
        return  # on a box, hardly any point is chosen twice
    few = [
        each.isel(trial=slice(0, COMPARED_TRIALS)).transpose("strategy", "trial", "round", ...)
        for each in (one, other)
    ]
    arms, regrets = ([each[name].to_numpy() for each in few] for name in ("index", "regret"))
    scale = max(float(np.abs(each).max(initial=0.0)) for each in regrets)
    for arm, regret in zip(arms[0], regrets[0]):
        unlike = (arms[1] == arm) & (np.abs(regrets[1] - regret) > TOLERANCE * scale)
        if unlike.any():
            number, trial, step = (int(each) for each in np.argwhere(unlike)[0])
            raise ValueError(
                "StudyResult.merge: these are results of different worlds or goals: in trial "
                f"{one['trial'].to_numpy()[trial]}, round {one['round'].to_numpy()[step]}, arm "
                f"{arm[trial, step]} has the regret {regret[trial, step]:.6g} here and "
                f"{regrets[1][number, trial, step]:.6g} there; run all strategies again, with the "
                f"same versions (botorch_tv {one.attrs.get('botorch_tv')} and "
                f"{other.attrs.get('botorch_tv')})."
            )


def _identity(data: xr.Dataset) -> dict[str, Description]:
    """Everything that is equal in results of the same trials."""
    shared = {name: data.attrs.get(name) for name in SAME}
    world = json.loads(data.attrs.get("world_description") or "null") or shared["world"]
    sizes = {str(name): size for name, size in data.sizes.items() if name != "strategy"}
    return {**shared, "world": world, "sizes": sizes}
