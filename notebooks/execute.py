"""Run notebooks and store their outputs: ``python -m notebooks.execute [NAME ...]``.

A notebook is a script in jupytext's percent format, ``NAME.py``. Running it writes ``NAME.ipynb``
with its pictures. With ``SMOKE_TEST`` in the environment a notebook runs at a small size; such a
run is a check, and writes nothing.
"""

from __future__ import annotations

import argparse
import ast
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
"""The same on every machine."""
_OWN = ("__init__", "execute")


def names() -> list[str]:
    """The names of all notebooks, without endings."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in _OWN)


def read(name: str) -> NotebookNode:
    """A notebook from its script, without outputs.

    Cells are numbered instead of named at random: two runs of a script differ only in outputs.

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
        timeout: Limit for one cell, in seconds.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises.
    """
    environment = {key: value for key, value in os.environ.items() if key != "SMOKE_TEST"}
    environment.pop("MPLBACKEND", None)  # a kernel needs Jupyter's
    # Python's frozen modules would raise a warning in the kernel.
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    # GPyTorch and linear_operator raise this warning.
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


def take_outputs(notebook: NotebookNode, stored: NotebookNode) -> None:
    """Take the outputs of an earlier run, if only text, comments or docstrings changed.

    Args:
        notebook: The notebook from its script, changed in place.
        stored: The notebook of the earlier run.

    Raises:
        ValueError: If the code changed.
    """
    now, before = ([c for c in book.cells if c.cell_type == "code"] for book in (notebook, stored))
    if [_code(cell.source) for cell in now] != [_code(cell.source) for cell in before]:
        raise ValueError("The code has changed since the run; run the notebook without --words.")
    for cell, ran in zip(now, before):
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count


def _code(source: str) -> str:
    """Code without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def main(arguments: list[str] | None = None) -> None:
    """Run the named notebooks, or all."""
    parser = argparse.ArgumentParser(prog="notebooks.execute", description="Run notebooks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; all")
    parser.add_argument("--smoke", action="store_true", help="run at a small size, write nothing")
    parser.add_argument(
        "--words",
        action="store_true",
        help="take the stored outputs: only text or comments changed",
    )
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
            take_outputs(notebook, nbformat.read(FOLDER / f"{name}.ipynb", as_version=4))
        else:
            execute(notebook, smoke=smoke)
        if not smoke:
            options.to.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, options.to / f"{name}.ipynb")


if __name__ == "__main__":
    main()
