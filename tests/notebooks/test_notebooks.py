"""Every notebook runs, and what is kept of it is what its text gives."""

import re

import nbformat
import pytest

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


@pytest.mark.parametrize("name", NAMES)
def test_runs_at_a_small_size(name):
    notebook = execute.read(name)
    execute.execute(notebook, smoke=True, timeout=120)
    outputs, text = shown(notebook)
    assert all(out.get("name") != "stderr" for out in outputs), text
    assert not LEFT_OUT.search(text), text
    assert pictures(notebook) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_belongs_to_the_text(name):
    path = execute.FOLDER / f"{name}.ipynb"
    kept, text = nbformat.read(path, as_version=4), execute.read(name)
    told = f"python -m notebooks.execute {name}"
    assert [(cell.cell_type, cell.source) for cell in kept.cells] == [
        (cell.cell_type, cell.source) for cell in text.cells
    ], f"{path.name} is out of date; run {told}"
    assert kept.metadata == execute.METADATA


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_whole_and_clean(name):
    path = execute.FOLDER / f"{name}.ipynb"
    kept = nbformat.read(path, as_version=4)
    assert path.stat().st_size < LARGEST
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs, text = shown(kept)
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert not [out for out in outputs if out.output_type == "error"]
    assert not LEFT_OUT.search(text)
    assert pictures(kept) >= 2


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
    kept, words, code = (execute.read(NAMES[0]) for _ in range(3))
    first = next(cell for cell in kept.cells if cell.cell_type == "code")
    first.outputs, first.execution_count = [nbformat.v4.new_output("stream", text="told")], 1
    words.cells[0].source += " More words."
    execute.retell(words, kept)
    assert next(cell for cell in words.cells if cell.cell_type == "code").outputs == first.outputs
    code.cells[-1].source += "\nprint(1)"
    with pytest.raises(ValueError, match="run the notebook without --words"):
        execute.retell(code, kept)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        execute.main(["nothing"])
    assert "there is no nothing; choose from" in capsys.readouterr().err
