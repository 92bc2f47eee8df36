"""Every notebook runs, and what is kept of it is what its text gives."""

import ast
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch

from notebooks import execute

LARGEST = 500_000  # bytes of a notebook with its pictures
LEFT_OUT = re.compile(r"(/home/|/root|/tmp|/work|[A-Z]:\\|Traceback|[Ww]arning|it/s)")
TEXTS = ("text/plain", "text/html")
NAMES = execute.names()


def shown(notebook):
    """Outputs of all cells, and all text among them."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    text = [out.get("text", "") for out in outputs]
    text += [out.data.get(kind, "") for out in outputs if "data" in out for kind in TEXTS]
    return outputs, "\n".join(text)


def pictures(notebook):
    outputs, _ = shown(notebook)
    return sum("image/png" in out.get("data", {}) for out in outputs)


def test_there_are_notebooks():
    assert {"learning_how_fast_the_world_drifts", "time_in_your_botorch_loop"} <= set(NAMES)


def played(notebook):
    """Runs all cells here, as a kernel would; what the last lines of cells show, and pictures."""
    names, values, count = {"__name__": "__main__"}, [], 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            *lines, last = ast.parse(cell.source).body
            if not isinstance(last, ast.Expr):
                lines, last = [*lines, last], ast.parse("None").body[0]
            exec(compile(ast.Module(lines, []), cell.id, "exec"), names)
            value = eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
            values.append(repr(value))
            count += max(len(plt.get_fignums()), hasattr(value, "_repr_png_"))
            plt.close("all")
    return "\n".join(values), count


@pytest.fixture
def as_it_was(monkeypatch, tmp_path):
    """Notebooks set defaults and change folders; the next test finds what this one found."""
    monkeypatch.chdir(tmp_path)
    before, stream = torch.get_default_dtype(), torch.get_rng_state()
    with plt.rc_context():
        plt.switch_backend("agg")
        yield
    torch.set_default_dtype(before)
    torch.set_rng_state(stream)


@pytest.mark.parametrize("name", NAMES)
def test_runs_at_a_small_size(name, as_it_was, monkeypatch, capsys):
    """Without a kernel, which would import everything anew for each."""
    monkeypatch.setenv("SMOKE_TEST", "1")
    values, count = played(execute.read(name))
    text = values + capsys.readouterr().out
    assert not LEFT_OUT.search(text), text
    assert count >= 2


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


def test_a_kernel_fills_in_text_tables_and_pictures():
    """Of a small notebook, for a real one imports everything anew."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SMALL.strip())])
    execute.execute(notebook, smoke=True, timeout=120)
    _, text = shown(notebook)
    assert "[0, 1]" in text
    assert "<table" in text
    assert pictures(notebook) == 2
    assert [cell.execution_count for cell in notebook.cells] == [1]


@pytest.mark.slow
def test_a_kernel_fills_in_the_outputs():
    """Text, tables and pictures; what libraries tell on standard error is theirs."""
    notebook = execute.read("many_loops_at_once")
    execute.execute(notebook, smoke=True, timeout=120)
    outputs, _ = shown(notebook)
    told = [out.text for out in outputs if out.get("name") == "stderr"]
    assert not [text for text in told if "botorch_tv" in text]
    for out in outputs:
        assert out.get("name") == "stderr" or not LEFT_OUT.search(out.get("text", "")), out
    assert pictures(notebook) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_belongs_to_the_text(name):
    path = execute.FOLDER / f"{name}.ipynb"
    retained, text = nbformat.read(path, as_version=4), execute.read(name)
    told = f"python -m notebooks.execute {name}"
    assert [(cell.cell_type, cell.source) for cell in retained.cells] == [
        (cell.cell_type, cell.source) for cell in text.cells
    ], f"{path.name} is out of date; run {told}"
    assert retained.metadata == execute.METADATA


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_whole_and_clean(name):
    path = execute.FOLDER / f"{name}.ipynb"
    retained = nbformat.read(path, as_version=4)
    assert path.stat().st_size < LARGEST
    code = [cell for cell in retained.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs, text = shown(retained)
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert not [out for out in outputs if out.output_type == "error"]
    assert not LEFT_OUT.search(text)
    assert pictures(retained) >= 2


def test_a_small_run_is_never_kept(tmp_path, monkeypatch):
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
    retained, words, code = (execute.read(NAMES[0]) for _ in range(3))
    first = next(cell for cell in retained.cells if cell.cell_type == "code")
    first.outputs, first.execution_count = [nbformat.v4.new_output("stream", text="told")], 1
    words.cells[0].source += " More words."
    execute.retell(words, retained)
    assert next(cell for cell in words.cells if cell.cell_type == "code").outputs == first.outputs
    next(cell for cell in code.cells if cell.cell_type == "code").source += "\nprint(1)"
    with pytest.raises(ValueError, match="run the notebook without --words"):
        execute.retell(code, retained)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        execute.main(["nothing"])
    assert "there is no nothing; choose from" in capsys.readouterr().err
