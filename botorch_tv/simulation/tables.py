"""Tables as text for a terminal, never cut, whatever its width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd


def aligned(table: pd.DataFrame, shown: Mapping[str, tuple[str, str]]) -> str:
    """Some columns of a table in text, names to the left and numbers to the right, NaN left blank.

    Args:
        table: Indexed by name.
        shown: Column of the table to its title and the format of its numbers.
    """
    columns = [["", *map(str, table.index)]]
    for name, (title, form) in shown.items():
        cells = ["" if math.isnan(value) else f"{value:{form}}" for value in table[name].to_list()]
        columns.append([title, *cells])
    return in_columns(zip(*columns), names=1)


def in_columns(rows: Iterable[Sequence[str]], names: int) -> str:
    """Rows of text in columns as wide as their widest cell.

    Args:
        rows: As many cells in each, the titles first.
        names: Columns set to the left; the others are numbers and set to the right.
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
