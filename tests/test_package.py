"""What travels with the package, and that its parts say the same."""

import re
import tomllib
from pathlib import Path

import botorch_tv

PACKAGE = Path(botorch_tv.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())


def test_licence_citation_and_changes_agree_with_the_project():
    declared = PROJECT["project"]
    assert declared["license"] == "MIT"
    assert (PACKAGE / "LICENSE").read_text().startswith("MIT License\n")
    assert declared["license-files"] == ["botorch_tv/LICENSE"]
    cited = (PACKAGE / "CITATION.cff").read_text()
    assert f"\nversion: {declared['version']}\n" in cited
    assert f"\nlicense: {declared['license']}\n" in cited
    newest = re.search(r"^## ([\d.]+)", (PACKAGE / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == declared["version"] == botorch_tv.__version__


def test_they_are_installed_with_it():
    shipped = PROJECT["tool"]["setuptools"]["package-data"]["botorch_tv"]
    assert all((PACKAGE / name).is_file() for name in shipped)
    assert {"py.typed", "LICENSE", "CITATION.cff", "CHANGELOG.md"} <= set(shipped)
