"""Every notebook runs, and its stored outputs belong to its script."""

import ast
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch

from notebooks import execute

LARGEST = 500_000  # bytes of a notebook with its pictures
UNWANTED = re.compile(r"(/home/|/root|/tmp|/work|[A-Z]:\\|Traceback|[Ww]arning|it/s)")
NAMES = execute.names()
SMALL = """
import os
import matplotlib.pyplot as plt
import pandas as pd
size = 2 if "SMOKE_TEST" in os.environ else 10**9
print(list(range(size)))
display(pd.DataFrame({"a": range(size)}))
for _ in range(2):
    plt.plot(range(size))
    plt.show()
"""


def outputs(notebook):
    """Outputs of all cells, their text, and the number of pictures."""
    found = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    data = [out.get("data", {}) for out in found]
    text = [out.get("text", "") for out in found]
    text += [each.get(kind, "") for each in data for kind in ("text/plain", "text/html")]
    return found, "\n".join(text), sum("image/png" in each for each in data)


def run(notebook):
    """Runs all cells in this process; returns the last value of each cell, and pictures."""
    names, values, pictures = {"__name__": "__main__"}, [], 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            *lines, last = ast.parse(cell.source).body
            if not isinstance(last, ast.Expr):
                lines, last = [*lines, last], ast.parse("None").body[0]
            exec(compile(ast.Module(lines, []), cell.id, "exec"), names)
            value = eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
            values.append(repr(value))
            pictures += max(len(plt.get_fignums()), hasattr(value, "_repr_png_"))
            plt.close("all")
    return "\n".join(values), pictures


@pytest.mark.few("no_prior_knowledge")
@pytest.mark.parametrize("name", NAMES)
def test_runs_at_a_small_size(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOKE_TEST", "1")
    dtype, stream = torch.get_default_dtype(), torch.get_rng_state()
    with plt.rc_context():
        plt.switch_backend("agg")
        try:
            values, pictures = run(execute.read(name))
        finally:
            torch.set_default_dtype(dtype)
            torch.set_rng_state(stream)
    text = values + capsys.readouterr().out
    assert not UNWANTED.search(text), text
    assert pictures >= 2


@pytest.mark.full
def test_a_kernel_fills_in_text_tables_and_pictures():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SMALL.strip())])
    execute.execute(notebook, smoke=True, timeout=120)
    _, text, pictures = outputs(notebook)
    assert "[0, 1]" in text
    assert "<table" in text
    assert pictures == 2
    assert [cell.execution_count for cell in notebook.cells] == [1]


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_complete_and_of_this_script(name):
    path = execute.FOLDER / f"{name}.ipynb"
    stored, script = nbformat.read(path, as_version=4), execute.read(name)
    assert [(cell.cell_type, cell.source) for cell in stored.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ], f"{path.name} is out of date; run python -m notebooks.execute {name}"
    assert stored.metadata == execute.METADATA
    assert path.stat().st_size < LARGEST
    counts = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    found, text, pictures = outputs(stored)
    assert not [out for out in found if out.get("name") == "stderr" or out.output_type == "error"]
    assert not UNWANTED.search(text)
    assert pictures >= 2


def test_a_small_run_is_never_stored(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(execute, "execute", lambda notebook, smoke: ran.append(smoke))
    execute.main([NAMES[0], "--smoke", "--to", str(tmp_path)])
    monkeypatch.setenv("SMOKE_TEST", "1")
    execute.main([NAMES[0], "--to", str(tmp_path)])
    assert ran == [True, True]
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("SMOKE_TEST")
    execute.main([NAMES[0], "--to", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAMES[0]}.ipynb"]


def test_outputs_stay_only_where_the_code_does():
    stored, words, code = (execute.read(NAMES[0]) for _ in range(3))
    first, same, other = (
        next(cell for cell in book.cells if cell.cell_type == "code")
        for book in (stored, words, code)
    )
    first.outputs, first.execution_count = [nbformat.v4.new_output("stream", text="1")], 1
    words.cells[0].source += " More text."
    same.source += "\n# A comment."
    execute.take_outputs(words, stored)
    assert same.outputs == first.outputs
    other.source += "\nprint(1)"
    with pytest.raises(ValueError, match="run the notebook without --words"):
        execute.take_outputs(code, stored)
