"""What a reader sees in a picture: which curve bears which name, and that all of it is in view."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D


def named_curves(axes: Axes) -> dict[str, Line2D]:
    """The line in the colour of each name beside the axes, by name."""
    lines = {to_rgb(line.get_color()): line for line in axes.lines}
    assert len(lines) == len(axes.lines), "two lines share a colour"
    return {text.get_text(): lines[to_rgb(text.get_color())] for text in axes.texts}


def assert_curves(axes: Axes, wanted: Mapping[str, np.ndarray]) -> None:
    """Every name's curve has these heights, each is seen, and a single point has a dot."""
    curves = named_curves(axes)
    assert set(curves) == set(wanted)
    low, high = axes.get_ylim()
    for name, heights in wanted.items():
        line = curves[name]
        np.testing.assert_allclose(line.get_ydata(), heights)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(heights) + 1))
        assert low <= heights[-1] <= high
        assert (line.get_marker() == "o") == (len(heights) == 1)
    left, right = axes.get_xlim()
    assert left <= 1 < right
    assert right >= len(heights)


def assert_bands(axes: Axes, wanted: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Every curve lies in a band of its own colour, from the lower to the upper edge given."""
    bands = [
        collection for collection in axes.collections if isinstance(collection, PolyCollection)
    ]
    by_color = {to_rgb(band.get_facecolor()[0]): band for band in bands}
    for name, line in named_curves(axes).items():
        corners = by_color[to_rgb(line.get_color())].get_paths()[0].vertices
        for x, low, high in zip(line.get_xdata(), *wanted[name]):
            heights = corners[corners[:, 0] == x, 1]
            np.testing.assert_allclose((heights.min(), heights.max()), (low, high))


def assert_written(path: Path) -> None:
    """A picture in the format of its ending."""
    assert path.read_bytes().startswith(b"\x89PNG")
