"""The list of presets: :data:`PRESETS`, and the decorator that adds to it."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import (
    Any,
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
from botorch_tv.gp.covariance import Inference
from botorch_tv.gp.point_recursion import Features
from botorch_tv.hints import hinted
from botorch_tv.strategies.protocol import Strategy

Given = ParamSpec("Given")
Made = TypeVar("Made", bound=Strategy)
NEEDED = inspect.Parameter.empty


class Preset(NamedTuple):
    """An entry of the list of presets."""

    make: Callable[..., Strategy]
    names: tuple[str, ...]
    """The preset's name in papers, followed by shorter names."""
    style: str
    """Colour and line style in plots."""
    row: str
    """A row of the README's table: decay, noise of observations, retention, exploration, paper."""
    compared: tuple[str, ...]
    """Arguments that a comparison sets, although they have defaults."""
    contrib: str
    """Which part of the preset does not come from the paper in full; empty if everything does."""


PRESETS: dict[str, Preset] = {}
"""All presets, by the name of the function."""


ARGUMENTS: dict[str, tuple[str, object]] = {
    "kernel": ("Spatial covariance: a GPyTorch kernel, or a matrix over arms, `M x M`.", NEEDED),
    "noise": ("Noise variance of an observation.", NEEDED),
    "B": ("Bound on the RKHS norm of the objective.", 1.0),
    "R": ("Sub-Gaussian scale of the noise; its standard deviation by default.", None),
    "delta": ("Probability that the confidence band fails, and with it the regret bound.", 0.1),
    "width": ("The confidence schedule sqrt(beta_t); the paper's by default.", None),
    "maximize": ("False to minimise.", True),
    "mean": ('Prior mean of the objective: a number, or "estimated" from the data in use.', 0.0),
    "inference": ('"auto", "features" or "exact"; see :class:`GPStrategy`.', "auto"),
}
"""Descriptions and defaults of arguments that many presets share."""


class Modelled(TypedDict, total=False):
    """Arguments shared by all presets that take a kernel."""

    kernel: Required[Kernel | Tensor]
    noise: Required[float]
    maximize: bool
    mean: float | Literal["estimated"]
    inference: Inference | Features


class Common(Modelled, total=False):
    """Arguments shared by all presets that have a confidence band."""

    width: Width | None


class Bounded(Common, total=False):
    """Arguments of presets whose confidence band is proved for objectives of bounded RKHS norm."""

    B: float
    delta: float


class SubGaussian(Bounded, total=False):
    """Arguments of presets whose confidence band also assumes sub-Gaussian noise."""

    R: float | None


def with_width(common: Common, width: Width) -> dict[str, Any]:
    """The arguments of a strategy; ``width`` is used if ``common`` has no width."""
    given = {name: common[name] for name in ("kernel", "noise", "maximize", "mean", "inference")}
    return given | {"width": width if common["width"] is None else common["width"]}


def preset(
    names: str, style: str, row: str, *, compared: str = "width", contrib: str = ""
) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """A decorator that lists a preset, and adds shared arguments to its signature and docstring.

    The decorated function takes its own arguments by name. In the docstring of this function, only
    a ``Raises`` section may follow the arguments. The function may also take ``**common`` with the
    keys of a ``TypedDict``, such as :class:`Common`. The decorator passes every key of the
    ``TypedDict`` to the function; if the caller gives no value for a key, the function receives the
    default in ``ARGUMENTS``. An unknown argument raises a ``TypeError``, and so does a missing
    argument without a default.

    Args:
        names: Names of the preset, separated by commas; see :attr:`Preset.names`.
        style: Line style of the preset in plots; see :attr:`Preset.style`.
        row: Row of the preset in the README's table; see :attr:`Preset.row`.
        compared: Names of arguments, separated by commas; see :attr:`Preset.compared`.
        contrib: A sentence for the docstring, README and site; see :attr:`Preset.contrib`.
    """

    def entered(make: Callable[Given, Made]) -> Callable[Given, Made]:
        made = hinted(_with_shared_arguments(make, contrib))
        lists = tuple(names.split(", ")), tuple(compared.split(", "))
        PRESETS[make.__name__] = Preset(made, lists[0], style, row, lists[1], contrib)
        return made

    return entered


def _with_shared_arguments(make: Callable[Given, Made], contrib: str) -> Callable[Given, Made]:
    """A preset that takes the keys of its ``**common``, with signature and docstring."""
    own = inspect.signature(make, eval_str=True)
    *first, rest = own.parameters.values()
    if rest.kind is rest.KEYWORD_ONLY:  # the function names all its arguments
        return make
    kinds = get_type_hints(*get_args(rest.annotation))
    common = [
        inspect.Parameter(name, rest.KEYWORD_ONLY, default=default, annotation=kinds[name])
        for name, (_, default) in ARGUMENTS.items()
        if name in kinds
    ]
    signature = own.replace(parameters=[*common[:2], *first, *common[2:]])

    @functools.wraps(make)
    def checked(*args: Given.args, **given: Given.kwargs) -> Made:
        bound = signature.bind(*args, **given)
        bound.apply_defaults()
        return make(**bound.arguments)  # type: ignore[call-arg]

    entries = [
        textwrap.fill(f"{item.name}: {ARGUMENTS[item.name][0]}", 88, subsequent_indent=4 * " ")
        for item in common
    ]
    doc, raises, errors = (inspect.getdoc(make) or "").partition("\n\nRaises:")
    text, _, described = doc.partition("\n\nArgs:\n")
    text += f"\n\n{textwrap.fill(contrib, 96)}" if contrib else ""
    listed = "\n".join([*described.splitlines(), textwrap.indent("\n".join(entries), 4 * " ")])
    checked.__doc__ = f"{text}\n\nArgs:\n{listed}{raises}{errors}\n"
    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked
