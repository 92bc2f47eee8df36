"""Arguments that presets share: names, types, defaults and descriptions, defined once."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import (
    Literal,
    NamedTuple,
    ParamSpec,
    Required,
    TypedDict,
    TypeVar,
    get_args,
    get_type_hints,
)

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Width
from botorch_tv.inference.factor import Inference
from botorch_tv.inference.point_recursion import Features
from botorch_tv.strategies.core import Strategy
from botorch_tv.validation import did_you_mean

Given = ParamSpec("Given")
Made = TypeVar("Made", bound=Strategy)
NEEDED = inspect.Parameter.empty


class Argument(NamedTuple):
    """An argument of many presets."""

    description: str
    default: object = NEEDED


ARGUMENTS = {
    "kernel": Argument(
        "Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`."
    ),
    "noise": Argument("Noise variance of an observation."),
    "B": Argument("Bound on the RKHS norm of the objective.", 1.0),
    "R": Argument("Sub-Gaussian scale of the noise; its standard deviation by default.", None),
    "delta": Argument("Probability that the band, and so the regret bound, fails.", 0.1),
    "width": Argument("The confidence schedule sqrt(beta_t); the paper's by default.", None),
    "maximize": Argument("False to minimise.", True),
    "mean": Argument(
        'Prior mean of the objective: a number, or "estimated" from the data in use.', 0.0
    ),
    "inference": Argument('"auto", "features" or "exact", see :class:`Strategy`.', "auto"),
}


class Modelled(TypedDict, total=False):
    """Arguments of every preset."""

    kernel: Required[Kernel | Tensor]
    noise: Required[float]
    maximize: bool
    mean: float | Literal["estimated"]
    inference: Inference | Features


class Common(Modelled, total=False):
    """Arguments of presets with a confidence band."""

    width: Width | None


class Untold(TypedDict, total=False):
    """Arguments of the adaptive strategy."""

    maximize: bool


class Bounded(Common, total=False):
    """Arguments of presets whose band is proved for objectives of bounded norm."""

    B: float
    delta: float


class SubGaussian(Bounded, total=False):
    """Arguments of presets whose band is proved for sub-Gaussian noise as well."""

    R: float | None


class Settled(Modelled):
    """Arguments of :class:`Strategy` among these."""

    width: Width


def with_width(common: Common, width: Width) -> Settled:
    """The arguments of a strategy, with ``width`` as the default width."""
    given = common["width"]
    return {
        "kernel": common["kernel"],
        "noise": common["noise"],
        "maximize": common["maximize"],
        "mean": common["mean"],
        "inference": common["inference"],
        "width": width if given is None else given,
    }


def preset(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """A preset whose signature and docstring list all arguments, and which rejects any other.

    Args:
        make: Takes its own arguments by name, described last in its docstring, and
            ``**common: Unpack[Common]`` or another of the above, of which it gets all, with the
            defaults in ``ARGUMENTS``.

    Returns:
        The same function with the full signature. An unknown or missing name raises a
        ``TypeError`` that lists the arguments.
    """
    signature = inspect.signature(make, eval_str=True)
    *own, rest = signature.parameters.values()
    kinds = get_type_hints(*get_args(rest.annotation))
    shared = {name: one for name, one in ARGUMENTS.items() if name in kinds}
    common = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[name]
        )
        for name, one in shared.items()
    ]
    listed = [*common[:2], *own, *common[2:]]
    names = {one.name: one.default for one in listed}
    needed = [name for name, default in names.items() if default is NEEDED]
    defaults = {name: one.default for name, one in shared.items() if one.default is not NEEDED}

    @functools.wraps(make)
    def checked(*args: Given.args, **given: Given.kwargs) -> Made:
        takes = f"{make.__name__} takes {', '.join(names)}, all by name"
        missing = [name for name in needed if name not in given]
        if args:
            raise TypeError(f"{takes}; {len(args)} came without.")
        for name in given:
            if name not in names:
                raise TypeError(f"{takes}, but no {name}.{did_you_mean(name, names)}")
        if missing:
            raise TypeError(f"{takes}; missing: {', '.join(missing)}.")
        return make(**(defaults | given))  # type: ignore[arg-type, call-arg]

    entries = [
        textwrap.fill(f"{name}: {one.description}", 88, subsequent_indent=4 * " ")
        for name, one in shared.items()
    ]
    lines = [inspect.getdoc(make) or "", *([] if own else ["", "Args:"])]
    checked.__doc__ = "\n".join([*lines, textwrap.indent("\n".join(entries), 4 * " "), ""])
    checked.__signature__ = signature.replace(parameters=listed)  # type: ignore[attr-defined]
    return checked
