"""Shared parts of all plots: colours, empty figures, axes, and saving."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

try:
    import numpy as np
    from matplotlib import rcParams
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter
except ImportError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'botorch-tv[study]'") from error

from botorch_tv.validation import require

# Colours of Okabe and Ito for colour-blind readers, without yellow, which is too pale for lines.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"
COLORS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)
GRAY, SILVER, WINE = "#555555", "#888888", "#882255"
Where = str | os.PathLike[str] | None
"""Type of the path of a picture; its extension selects the format. None writes no file."""
FILE_DPI = 150  # resolution of saved figures, in dots per inch


class Picture(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        memory = io.BytesIO()
        FigureCanvasAgg(self)  # draws without a screen
        self.savefig(memory, format="png", dpi=self.dpi)
        return memory.getvalue()


def canvas(width: float, height: float) -> Figure:
    """A new, empty figure of a given size in inches, made without pyplot."""
    return Picture(figsize=(width, height), dpi=FILE_DPI, layout="constrained")


def figure_of(ax: Axes, path: str | os.PathLike[str] | None) -> Figure:
    """The matplotlib figure that contains the axes of a caller.

    Args:
        ax: The axes.
        path: The path that the caller gives with the axes; it must be None.

    Raises:
        ValueError: If ``path`` is not None. A caller that passes axes must save the figure itself.
    """
    require(path is None, "path and ax are both given; save the figure of ax by its savefig().")
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def lighten(axes: Axes) -> None:
    """Remove the top and right of the frame, and draw a pale grid behind the lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def draw_round_axis(axes: Axes, rounds: np.ndarray) -> None:
    """Set the limits and the ticks of a horizontal axis of rounds."""
    axes.set_xlim(float(rounds[0]), float(max(rounds[-1], rounds[0] + 1)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def settle_whole(axis: Axis, values: Iterable[float]) -> None:
    """Use ticks at integers only, if all values are integers."""
    if all(float(value).is_integer() for value in values):
        axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))


def settle_log(axis: Axis, low: float, high: float) -> None:
    """Use few ticks with plain numbers on a logarithmic axis, to avoid overlap."""
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=6))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def settle_times(axes: Axes) -> None:
    """Use small labels and short dates on a horizontal axis of times."""
    axes.tick_params(axis="x", labelsize="small")
    locator = axes.xaxis.get_major_locator()
    if isinstance(locator, AutoDateLocator):
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def written(figure: Figure, path: str | os.PathLike[str] | None, caption: str = "") -> Figure:
    """Add a caption to a figure; if a path is given, save the figure and create missing folders.

    Notebooks show the figure at the resolution of Matplotlib's ``figure.dpi``.

    Raises:
        ValueError: If the extension of the path is not a picture format.
    """
    FigureCanvasAgg(figure)
    if caption:
        figure.supxlabel(caption, fontsize=8.5, color=GRAY, x=0.01, ha="left")
    if path is not None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
    figure.set_dpi(rcParams["figure.dpi"])  # after saving, because label positions depend on dpi
    return figure
