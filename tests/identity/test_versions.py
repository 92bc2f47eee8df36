"""Versions of libraries, and those of several runs joined."""

import subprocess

import torch

import botorch_tv
from botorch_tv.identity import libraries, own_version
from botorch_tv.simulation.result import together


def test_each_version_is_listed_once_in_the_order_of_runs():
    runs = [{"torch": "2.12", "numpy": "2.1"}, {"torch": "2.13"}, {"torch": "2.12, 2.11"}]
    assert together(runs) == {"torch": "2.12, 2.13, 2.11", "numpy": "2.1"}
    assert together([]) == {}


def test_libraries_are_those_imported():
    assert libraries()["torch"] == torch.__version__
    assert libraries()["botorch_tv"].startswith(botorch_tv.__version__)


def test_version_of_a_clone_has_commit_and_edits(tmp_path, monkeypatch):
    def git(*arguments):
        names = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        command = ["git", "-C", str(tmp_path / "clone"), *names, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "clone" / "botorch_tv"
    package.mkdir(parents=True)
    code = package / "code.py"
    code.write_text("X = 1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(botorch_tv, "__file__", str(package / "__init__.py"))
    commit = git("log", "-1", "--format=%h")
    first = own_version.__wrapped__()
    assert first == f"{botorch_tv.__version__} (commit {commit})"
    (package / "PAGE.md").write_text("a page")
    (tmp_path / "clone" / "other.py").write_text("X = 2\n")
    git("add", ".")
    git("commit", "-m", "no code of the package")
    assert own_version.__wrapped__() == first
    edited = []
    for number in (2, 3):
        code.write_text(f"X = {number}\n")
        edited.append(own_version.__wrapped__())
        assert f"(commit {commit} with edits " in edited[-1]
    assert edited[0] != edited[1]
    installed = package / "site-packages" / "botorch_tv"
    installed.mkdir(parents=True)
    monkeypatch.setattr(botorch_tv, "__file__", str(installed / "__init__.py"))
    assert own_version.__wrapped__() == botorch_tv.__version__
