"""Build the site and check every link in it.

    pip install '.[docs]'
    python -m benchmarks.site --out FOLDER

The pages are in ``.site/pages``. The builder adds the API from the docstrings, the help of the
command line, the notebooks with their stored outputs, the pages of results, and ``llms.txt``.
Neither building nor viewing needs a network.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
PAGES, CONFIG = ROOT / ".site" / "pages", ROOT / ".site" / "mkdocs.yml"
API, NOTEBOOKS = ROOT / "botorch_tv" / "API.md", ROOT / "notebooks"
MOVED = {
    "benchmarks/PEERS.md": "reference/peers.md",
    "benchmarks/RESULTS.md": "reference/papers.md",
    "benchmarks/results/holding.md": "reference/holding.md",
    "benchmarks/results/limits.md": "reference/limits.md",
    "botorch_tv/API.md": "reference/api/index.md",
    "botorch_tv/CHANGELOG.md": "reference/changes.md",
    "notebooks/README.md": "notebooks/index.md",
}
"""Pages of the repository outside `.site`, and their places on the site."""
TEXT_ALONE = """\
    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false"""
"""Options of a module's docstring."""
LINK = re.compile(r"(\]\()((?!\w+:|#)[^)\s]+)")
ROW = re.compile(r"(^\| \[`(\w+)`\]\()([\w/]+)\.py(?=\) \|)", re.MULTILINE)
EQUATION = re.compile(r"(?<![\\$`])(\$\$?)([^$`]+)\1(?!`)")


@cache
def public() -> dict[str, dict[str, str]]:
    """The names that the page of each module describes, and where each is defined."""
    return {
        module: {name: _home(source, name) for _, name, source in ROW.findall(text)}
        for module, text in _sections().items()
    }


def mathml(text: str) -> str:
    """Markdown whose equations are MathML, which browsers draw without a script.

    Args:
        text: Markdown with equations between dollars.
    """
    from latex2mathml.converter import convert

    def equation(found: re.Match[str]) -> str:
        display = "block" if found[1] == "$$" else "inline"
        return str(convert(found[2].strip(), display=display)).replace("*", "&#42;")

    return EQUATION.sub(equation, text)


def build(out: Path, notebooks: Path = NOTEBOOKS) -> list[str]:
    """Build the site.

    Args:
        out: Folder of the site, written anew.
        notebooks: Folder of the notebooks with outputs.

    Returns:
        Everything that is wrong with it.
    """
    from mkdocs.commands.build import build as write
    from mkdocs.config import load_config

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(PAGES, folder, dirs_exist_ok=True)
        for place, (text, origin) in {**_pages(), **_from_notebooks(notebooks, folder)}.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_with_links_moved(text, origin, file, folder), "utf-8")
        config = load_config(str(CONFIG), docs_dir=name, site_dir=str(out), strict=True)
        config.nav = _listed(config.nav, folder)
        write(config)
        (out / "404.html").unlink()  # its links would need a host
        head = [f"# {config.site_name}", f"> {config.site_description}"]
        (out / "llms.txt").write_text("\n".join([*head, *_contents(config.nav, folder)]), "utf-8")
    return list(_faults(out))


def _sections() -> dict[str, str]:
    """The sections of the page of every public name, by their modules."""
    parts = API.read_text("utf-8").split("\n## ")[1:]
    return {module: text for module, _, text in (part.partition("\n") for part in parts)}


def _home(source: str, name: str) -> str:
    """The full path of a name, from the file that defines it."""
    module = f"botorch_tv/{source}".removesuffix("/__init__").replace("/", ".")
    return f"{module}.{name}"


def _pages() -> dict[str, tuple[str, Path]]:
    """The text of pages by their place on the site, and the file where their links start."""
    files = {path.relative_to(PAGES).as_posix(): path for path in PAGES.rglob("*.md")}
    files |= {place: ROOT / source for source, place in MOVED.items()}
    found = {place: (path.read_text("utf-8"), path) for place, path in files.items()}
    index = API.read_text("utf-8").partition("\n## ")[0]
    for module, text in _sections().items():
        place = f"reference/api/{module}.md"
        found[place] = _module(module, text), PAGES / place
        index += f"\n## {module}\n" + ROW.sub(rf"\1{module}.md#\2@\3", text)
    index = re.sub(r"#(\w+)@([\w/]+)", lambda to: f"#{_home(to[2], to[1])}", index)
    found["reference/api/index.md"] = index, API
    found["reference/command-line.md"] = _command_line(), PAGES / "reference" / "command-line.md"
    return found


def _module(module: str, section: str) -> str:
    """The page of a module: its docstring, and those of its names."""
    names = [f"::: {home}" for home in public()[module].values()]
    elsewhere = re.findall(r"^Also, from `(.+)`: (.+)", section, re.MULTILINE)
    also = [f"Also, from [`{home}`]({home}.md): {shown}" for home, shown in elsewhere]
    return "\n\n".join([f"# {module}", f"::: {module}\n{TEXT_ALONE}", *also, *names]) + "\n"


def _command_line() -> str:
    """The page of the help of every command."""

    def help_of(*command: str) -> str:
        line = [sys.executable, "-m", "botorch_tv", *command, "--help"]
        settings = {**os.environ, "COLUMNS": "88", "PYTHONPATH": str(ROOT)}
        return subprocess.run(line, capture_output=True, text=True, check=True, env=settings).stdout

    def named(text: str) -> list[str]:
        listed = text.partition("positional arguments:")[2].partition("options:")[0]
        return re.findall(r"^    (\w+)", listed, re.MULTILINE)

    shown = {"": help_of()}
    shown |= {command: help_of(command) for command in named(shown[""])}
    shown |= {f"loop {step}": help_of("loop", step) for step in named(shown["loop"])}
    parts = [f"## botorch-tv {one}\n\n```text\n{text}```\n" for one, text in shown.items()]
    return "\n".join(["# Command line\n\nThe help of every command.\n", *parts])


def _from_notebooks(notebooks: Path, folder: Path) -> dict[str, tuple[str, Path]]:
    """The pages of the notebooks; their pictures are written beside them."""
    (folder / "notebooks").mkdir()
    found = {}
    for path in sorted(notebooks.glob("*.ipynb")):
        parts: list[str] = []
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(mathml(source))
            else:
                parts.append(f"```python\n{source}\n```")
            for output in cell.get("outputs", ()):
                picture = folder / "notebooks" / f"{path.stem}-{len(parts)}.png"
                parts.append(_output(output, picture))
        script = f"[The script of this notebook]({path.stem}.py)."
        parts.insert(1, f"{script} The outputs below are those of a stored run.")
        text = "\n\n".join(parts) + "\n"
        found[f"notebooks/{path.stem}.md"] = text, NOTEBOOKS / path.name
    return found


def _output(output: dict[str, Any], picture: Path) -> str:
    """An output of a cell: text, a table, or a picture."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![The picture that the cell above draws]({picture.name})"
    if "text/html" in data:
        table = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        return "\n".join(line for line in table.splitlines() if line.strip())
    return f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"


def _with_links_moved(text: str, origin: Path, file: Path, folder: Path) -> str:
    """A page of the repository with the links of the site; files that it names are copied."""

    def moved(link: re.Match[str]) -> str:
        name, _, anchor = link[2].partition("#")
        target = (origin.parent / name).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]
        path = target.relative_to(ROOT).as_posix()
        if target.is_relative_to(PAGES):
            place = target.relative_to(PAGES).as_posix()
        elif target.parent == NOTEBOOKS and target.suffix == ".ipynb":
            place = f"notebooks/{target.stem}.md"
        elif path in MOVED:
            place = MOVED[path]
        else:
            ending = ".txt" if target.suffix == ".md" else ""
            place = f"files/{path.lstrip('.')}{ending}"
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, folder / place)
        shown = Path(os.path.relpath(folder / place, file.parent)).as_posix()
        return link[1] + shown + (f"#{anchor}" if anchor else "")

    return LINK.sub(moved, text)


def _listed(nav: Any, folder: Path) -> Any:
    """The list of pages with an entry for each page in a folder that ends in /."""
    if isinstance(nav, list):
        return [_listed(entry, folder) for entry in nav]
    if isinstance(nav, dict):
        return {title: _listed(entry, folder) for title, entry in nav.items()}
    if not nav.endswith("/"):
        return nav
    found = sorted((folder / nav).glob("*.md"), key=lambda file: (file.stem != "index", file.stem))
    return [file.relative_to(folder).as_posix() for file in found]


def _contents(nav: Any, folder: Path, title: str = "") -> Iterator[str]:
    """The lines of `llms.txt`: for each page a link, its title, and its first sentence."""
    if isinstance(nav, str):
        text = (folder / nav).read_text("utf-8")
        shown = title or text.partition("\n")[0].removeprefix("# ")
        if nav.startswith("reference/api/botorch"):
            text = API.read_text("utf-8").partition(f"| [`{shown}`]")[2].partition(" | ")[2]
            text = f"\n\n{text}"
        text = re.sub("```.*?```", "", text, flags=re.DOTALL)
        prose = re.search(r"\n\n((?:[^\s#|!:].*\n)+)", text)
        sentence = " ".join(prose[1].split()).partition(". ")[0] if prose else ""
        plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", sentence)
        yield f"- [{shown}]({nav.removesuffix('md')}html): {plain.rstrip('.:')}."
    elif isinstance(nav, dict):
        for name, entry in nav.items():
            if isinstance(entry, list) and not title:
                yield f"\n## {name}\n"
            yield from _contents(entry, folder, name)
    else:
        for entry in nav:
            yield from _contents(entry, folder, "" if isinstance(entry, str) else title)


class _Page(HTMLParser):
    """The places of a page that links reach, its links, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links, self.loaded = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(given["href"])
        elif tag != "link" and "href" in given:
            self.links.add(given["href"])
        if "src" in given:
            self.loaded.add(given["src"])


def _faults(site: Path) -> Iterator[str]:
    """Links that lead nowhere, files from the network, and names without a place."""
    read = {path.resolve(): _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    for path, page in read.items():
        shown = path.relative_to(site.resolve())
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme == "data" or (parts.scheme and link in page.links - page.loaded):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc or not target.exists():
                yield f"{shown}: {link} is not in the site"
            elif (
                parts.fragment
                and target in read
                and unquote(parts.fragment) not in read[target].ids
            ):
                yield f"{shown}: {link} has no such place"
    places = set[str]().union(*(page.ids for page in read.values()))
    for names in public().values():
        yield from (f"{home} has no text" for home in names.values() if home not in places)


def main() -> None:
    """Build the site and say how large it is; exit with 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="benchmarks.site", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the site")
    text = "run the notebooks first (an hour), instead of showing the stored outputs"
    parser.add_argument("--execute", action="store_true", help=text)
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    with tempfile.TemporaryDirectory() as name:
        if options.execute:
            command = [sys.executable, "-m", "notebooks.execute", "--to", name]
            subprocess.run(command, cwd=ROOT, check=True)
        faults = build(options.out, Path(name) if options.execute else NOTEBOOKS)
    count = sum(1 for _ in options.out.rglob("*.html"))
    names = sum(map(len, public().values()))
    print(f"{count} pages, {names} public names, {len(faults)} faults", *faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
