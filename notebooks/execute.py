"""Run notebooks and keep what they show: ``python -m notebooks.execute [NAME ...]``.

A notebook is a script in jupytext's percent format, ``NAME.py``, which is what one edits and
reviews. Running it writes ``NAME.ipynb`` beside it, with its pictures. With ``SMOKE_TEST`` in the
environment a notebook runs at a small size; such a run is a check, and writes nothing.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode, from_dict

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""Nothing in it tells of the machine."""
_OWN = ("__init__", "execute")


def names() -> list[str]:
    """The notebooks there are, without their endings."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in _OWN)


def read(name: str) -> NotebookNode:
    """A notebook as its text has it, without outputs.

    Cells are numbered instead of named at random, so that a second run of the same text differs in
    its outputs alone.

    Args:
        name: One of :func:`names`.
    """
    notebook = jupytext.read(FOLDER / f"{name}.py")
    notebook.metadata = from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = NotebookNode()
    return notebook


def execute(notebook: NotebookNode, *, smoke: bool = False, timeout: float = 3600.0) -> None:
    """Run all cells in a fresh kernel and fill in their outputs.

    Args:
        notebook: The notebook, changed in place.
        smoke: Whether to run at the small size.
        timeout: Seconds that one cell may take.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises.
    """
    environment = {key: value for key, value in os.environ.items() if key != "SMOKE_TEST"}
    environment.pop("MPLBACKEND", None)  # Jupyter's own, whatever backend scripts use here
    # The kernel would otherwise complain about Python's own frozen modules.
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    # Of GPyTorch and linear_operator, whose use of it readers of a notebook cannot change.
    environment["PYTHONWARNINGS"] = "ignore:`torch.jit.script` is deprecated:FutureWarning"
    if smoke:
        environment["SMOKE_TEST"] = "1"
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute(env=environment)
    notebook.metadata = from_dict(METADATA)


def retell(notebook: NotebookNode, retained: NotebookNode) -> None:
    """Take over the outputs of an earlier run, where only words have changed since.

    Args:
        notebook: The notebook as its text has it now, changed in place.
        retained: The notebook as it was run.

    Raises:
        ValueError: If the code is another, so that it must be run.
    """
    now, before = (
        [c for c in book.cells if c.cell_type == "code"] for book in (notebook, retained)
    )
    if [cell.source for cell in now] != [cell.source for cell in before]:
        raise ValueError("the code has changed since it was run; run the notebook without --words.")
    for cell, ran in zip(now, before):
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count


def main(arguments: list[str] | None = None) -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(prog="notebooks.execute", description="Run notebooks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; all")
    parser.add_argument("--smoke", action="store_true", help="run at a small size, write nothing")
    parser.add_argument("--words", action="store_true", help="keep outputs: only words changed")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder for the .ipynb files")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(names())}.")
    smoke = options.smoke or "SMOKE_TEST" in os.environ
    for name in options.names or names():
        print(name, flush=True)
        notebook = read(name)
        if options.words:
            retell(notebook, nbformat.read(FOLDER / f"{name}.ipynb", as_version=4))
        else:
            execute(notebook, smoke=smoke)
        if not smoke:
            options.to.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, options.to / f"{name}.ipynb")


if __name__ == "__main__":
    main()
