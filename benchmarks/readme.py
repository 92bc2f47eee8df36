"""README's picture, its words on speed and its table of presets, from stored results.

    python -m benchmarks.readme

Tests compare the result with README.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed.common import BUSY, RESULTS, ROOT
from botorch_tv.strategies.presets import PRESETS, Preset

README = ROOT / "README.md"
PICTURE = RESULTS / "machine.png"
NOTEBOOK = ROOT / "notebooks" / "a_machine_over_a_week.ipynb"
SHOWN = "Did it follow?"
"""The heading in the notebook after which the picture stands."""
BEGIN = "<!-- Written by `python -m benchmarks.readme` from benchmarks/results; do not edit. -->\n"
END = "<!-- End of the figures on speed. -->\n"
PRESETS_BEGIN = "<!-- Written by `python -m benchmarks.readme` from the list of presets. -->\n"
PRESETS_END = "<!-- End of the list of presets. -->\n"


def section(results: Path = RESULTS) -> str:
    """The paragraph on speed; every figure comes from a file.

    Args:
        results: The folder of the files.
    """
    loops = _read(results / "speed_botorch_loops.json")
    ms = {row["contender"]: row["ms"] for row in loops["contenders"]}
    many, alone, joint, _ = list(ms)[:4]
    parameters = loops["parameters"]
    return _paragraph(
        f"A round of `gp_ucb` on {parameters['arms']:,} arms takes {ms[many]:.3f} ms per trial "
        f"when {parameters['trials']} trials run together, and {ms[alone]:.1f} ms alone; a loop "
        f"that rebuilds a `SingleTaskGP` takes {ms[joint]:.0f} ms "
        f"([benchmarks/results](benchmarks/results), {loops['device']}).{_doubt(loops)}"
    )


def presets(listed: Mapping[str, Preset] = PRESETS) -> str:
    """The table of presets, one row for each way of forgetting.

    Args:
        listed: The presets by name.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, preset in listed.items():
        decay, noise, rows, _, paper = (cell.strip() for cell in preset.row.split("|"))
        parts = {decay: "none", f"noise {noise}": "noise σ²", f"retains {rows}": "retains all"}
        forgetting = "; ".join(part for part, none in parts.items() if part != none) or "nothing"
        groups.setdefault(forgetting, []).append((f"`{name}`", paper))
    table = ["presets | forgetting | papers", "---|---|---"]
    for forgetting, group in groups.items():
        names = ", ".join(name for name, _ in group)
        papers = "; ".join(dict.fromkeys(paper for _, paper in group if paper))
        table.append(f"{names} | {forgetting} | {papers}".strip())
    return "\n".join([*table, ""])


def picture(notebook: Path = NOTEBOOK) -> bytes:
    """The first picture after a heading of a stored notebook.

    Args:
        notebook: Its file.
    """
    cells = _read(notebook)["cells"]
    (start,) = (n for n, cell in enumerate(cells) if SHOWN in "".join(cell["source"]))
    outputs = [output for cell in cells[start:] for output in cell.get("outputs", [])]
    return base64.b64decode(next(o["data"]["image/png"] for o in outputs if "data" in o))


def replaced(text: str, within: str, begin: str = BEGIN, end: str = END) -> str:
    """The README with a section between its marks.

    Args:
        text: The section.
        within: The README.
        begin: The first mark.
        end: The second.
    """
    before, rest = within.split(begin)
    return f"{before}{begin}{text}{end}{rest.split(end)[1]}"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, width=104, break_long_words=False, break_on_hyphens=False) + "\n"


def _doubt(facts: dict[str, Any]) -> str:
    """A sentence for a machine that was busy when it was timed; none for a quiet machine."""
    if facts.get("load_before", 0) <= BUSY * facts.get("threads", 1):
        return ""
    return f" (Timed while the machine had other work: load {facts['load_before']:.1f}.)"


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    whole = replaced(section(), README.read_text(encoding="utf-8"))
    README.write_text(replaced(presets(), whole, PRESETS_BEGIN, PRESETS_END), encoding="utf-8")
    PICTURE.write_bytes(picture())
