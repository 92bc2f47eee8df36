"""Tables as text for a terminal, with all columns whatever its width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd


def aligned(table: pd.DataFrame, shown: Mapping[str, tuple[str, str]]) -> str:
    """Columns of a table as text: names left-aligned, numbers right-aligned, NaN blank.

    Args:
        table: Indexed by name.
        shown: The columns, each with its title and number format.
    """
    columns = [["", *map(str, table.index)]]
    for name, (title, form) in shown.items():
        cells = ["" if math.isnan(value) else f"{value:{form}}" for value in table[name].to_list()]
        columns.append([title, *cells])
    return in_columns(zip(*columns), names=1)


def in_columns(rows: Iterable[Sequence[str]], names: int) -> str:
    """Rows of text in aligned columns.

    Args:
        rows: The rows, all of one length, titles first.
        names: Number of left-aligned columns; the others are right-aligned.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
