"""What loops, suggestions, strategies and results look like in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from typing import Any


def page(text: str, *parts: Callable[[], Any]) -> str:
    """HTML of some lines of text, and of tables and figures below.

    Args:
        text: The lines.
        parts: Functions that return a DataFrame or a figure; a part whose library is not installed
            is omitted.
    """
    shown = [f"<p>{escape(line)}</p>" for line in text.splitlines()]
    for part in parts:
        with suppress(ImportError):
            value = part()
            if hasattr(value, "_repr_png_"):
                picture = base64.b64encode(value._repr_png_()).decode()
                shown.append(f'<img style="max-width: 100%" src="data:image/png;base64,{picture}">')
            else:
                shown.append(value._repr_html_())
    return "\n".join(shown)


def listing(title: str, rows: Mapping[str, object]) -> str:
    """Markdown of a title and a table of names and values.

    Args:
        title: The title.
        rows: The values, indexed by name.
    """
    cells = {name: str(value).replace("|", "\\|") for name, value in rows.items()}
    lines = [f"| {name} | `{cell}` |" for name, cell in cells.items()]
    return "\n".join([f"**{title}**", "", "| | |", "|---|---|", *lines])
