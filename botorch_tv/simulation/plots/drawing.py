"""The parts pictures of studies are drawn from: colours, curves with bands, names at their ends."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, cycle, pairwise, product
from typing import NamedTuple

try:
    import numpy as np
    from matplotlib import rcParams
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError(
        f"Pictures need {error.name}, which is not installed: pip install 'botorch-tv[study]'"
    ) from error

from botorch_tv.simulation.blocks import BlockMoments, blocks
from botorch_tv.simulation.study_record import StudyRecord
from botorch_tv.validation import as_path, require

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is too pale for lines.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
LINE_STYLES = ("solid", "dashed", "dotted", "dashdot")  # a style per round of colours
GRAY = "#555555"
FILE_DPI = 150  # dots per inch of pictures written, whatever notebooks are set to
LABEL_HEIGHT = 0.155  # inches that a line of the name of a curve takes


class Picture(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        memory = io.BytesIO()
        FigureCanvasAgg(self)  # draws without a screen
        self.savefig(memory, format="png", dpi=self.dpi)
        return memory.getvalue()


class LineStyle(NamedTuple):
    """How one strategy is drawn."""

    color: str
    line: str


class Curve(NamedTuple):
    """A mean over trials and its standard error, both `rounds`."""

    mean: np.ndarray
    error: np.ndarray


def line_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """A colour and a line style for every strategy, by its place in the study."""
    styles = cycle(product(LINE_STYLES, COLORS))
    return {label: LineStyle(color, line) for label, (line, color) in zip(labels, styles)}


def regret_curve(result: StudyRecord, strategy: str, normalized: bool) -> Curve:
    """Mean regret up to every round.

    Args:
        result: The study.
        strategy: Label of one of its strategies.
        normalized: R_t / t rather than R_t.
    """
    rounds = np.arange(1, result.data.sizes["round"] + 1) if normalized else 1
    parts = (part.values for part in blocks(result.regret.sel(strategy=strategy)))
    return mean_curve(np.cumsum(part, axis=-1) / rounds for part in parts)


def regret_curves(result: StudyRecord, normalized: bool) -> dict[str, Curve]:
    """Mean regret of every strategy up to every round, by label."""
    return {label: regret_curve(result, label, normalized) for label in result.strategies}


def mean_curve(parts: Iterable[np.ndarray]) -> Curve:
    """Mean over trials and its standard error, NaN for a single trial.

    Args:
        parts: `trials x rounds`, of some trials each.
    """
    whole = BlockMoments.together(map(BlockMoments.of, parts))
    return Curve(whole.mean, whole.error)


def canvas(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, outside pyplot's global state."""
    return Picture(figsize=(width, height), dpi=FILE_DPI, layout="constrained")


def draw_curves(
    axes: Axes, rounds: np.ndarray, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]
) -> None:
    """Every curve in a band of one standard error."""
    marker = "o" if len(rounds) == 1 else ""  # a line of one point shows nothing
    for label, (mean, error) in curves.items():
        look = styles[label]
        axes.plot(rounds, mean, color=look.color, linestyle=look.line, linewidth=1.6, marker=marker)
        axes.fill_between(
            rounds, mean - error, mean + error, color=look.color, alpha=0.18, linewidth=0
        )
    settle_rounds(axes, rounds)
    lighten(axes)


def settle_rounds(axes: Axes, rounds: np.ndarray) -> None:
    """A horizontal axis of whole rounds."""
    axes.set_xlim(float(rounds[0]), float(max(rounds[-1], rounds[0] + 1)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def settle_scale(axes: Axes, curves: Iterable[Curve], skipped: float = 0.0) -> None:
    """A scale from 0 to the top of all curves.

    Args:
        axes: Whose scale.
        curves: What has to fit.
        skipped: Share of the first rounds that may leave through the top. Normalised regret starts
            at the level of blind choices, several times what matters later.
    """
    tops = []
    for mean, error in curves:
        first = int(skipped * len(mean))
        tops.append(float((mean + np.nan_to_num(error))[first:].max()))
    axes.set_ylim(0, 1.05 * max(tops) or 1.0)


def name_curves(axes: Axes, curves: Mapping[str, Curve], styles: Mapping[str, LineStyle]) -> None:
    """The name of every strategy beside the end of its curve.

    Called once the scale is settled, since names are placed by it.

    Args:
        axes: Where the curves are.
        curves: By name.
        styles: How each is drawn.
    """
    to_axes = axes.transData + axes.transAxes.inverted()  # whatever the scale
    right = axes.get_xlim()[1]
    heights = {
        label: float(to_axes.transform((right, one.mean[-1]))[1]) for label, one in curves.items()
    }
    names = sorted(heights, key=heights.__getitem__)
    inches = axes.get_window_extent().height / axes.figure.dpi
    lines = [name.count("\n") + 1 for name in names]
    gaps = [LABEL_HEIGHT / inches * (one + other) / 2 for one, other in pairwise(lines)]
    places = spread_apart([heights[name] for name in names], gaps)
    for name, place in zip(names, places):
        axes.annotate(
            name,
            (1.0, heights[name]),
            xycoords="axes fraction",
            xytext=(1.035, place),
            textcoords="axes fraction",
            color=styles[name].color,
            fontsize=9,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": styles[name].color,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 0,
                "shrinkB": 2,
            },
        )


def spread_apart(places: Sequence[float], gaps: float | Sequence[float]) -> list[float]:
    """Move sorted positions apart until neighbours are at least a gap from each other.

    Neighbours that collide form a block which keeps its centre, so labels stay near their curves.

    Args:
        places: Positions in increasing order.
        gaps: Smallest distance left between two, the same for all or one for each two neighbours.
    """
    each = [gaps] * (len(places) - 1) if isinstance(gaps, (int, float)) else gaps
    packed = list(accumulate(each, initial=0.0))  # places as close as they may be
    # Number of a block's first member; where each member would have that one, summed; members.
    blocks: list[tuple[int, float, int]] = []
    for number, place in enumerate(places):
        first, wishes, members = number, place, 1
        while blocks:
            before, earlier, others = blocks[-1]
            room = packed[first] - packed[before]
            if wishes / members >= earlier / others + room:
                break
            blocks.pop()
            first, wishes = before, earlier + wishes - room * members
            members += others
        blocks.append((first, wishes, members))
    return [
        wishes / members + (packed[number] - packed[first])
        for first, wishes, members in blocks
        for number in range(first, first + members)
    ]


def lighten(axes: Axes) -> None:
    """A frame of two sides and a pale grid behind the lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def written(figure: Figure, path: str | os.PathLike[str] | None, caption: str = "") -> Figure:
    """The figure with a caption, saved to the path where there is one; its folder is made.

    A notebook shows it in the resolution that Matplotlib's ``figure.dpi`` asks for.

    Raises:
        ValueError: If the path has an ending of which there are no pictures.
    """
    FigureCanvasAgg(figure)
    if caption:
        figure.supxlabel(caption, fontsize=8.5, color=GRAY, x=0.01, ha="left")
    if path is not None:
        file = as_path("path", path, "give the name of a picture, 'regret.png'.")
        known = figure.canvas.get_supported_filetypes()
        require(
            file.suffix[1:].lower() in known or not file.suffix,
            f"path is {str(path)!r}, but pictures end in {', '.join('.' + one for one in known)}; "
            "'.png' is usual.",
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
    figure.set_dpi(rcParams["figure.dpi"])  # only now, for places of names depend on it by a hair
    return figure
