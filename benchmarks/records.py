"""Environment, versions and files of a benchmark."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BUSY = 0.3  # load per core above which times are not reliable
PACKAGES = ("torch", "gpytorch", "linear_operator", "botorch", "numpy")


def environment(
    *, seed: int, device: torch.device | None = None, packages: Sequence[str] = ()
) -> dict[str, Any]:
    """Device, versions, commit, seed, command and time of a run, ready for JSON.

    Args:
        seed: Seed of the run.
        device: Device of the run; by default the processor.
        packages: Further packages whose versions are recorded.
    """
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "commit": commit(),
        "seed": seed,
        "device": device_title(device or torch.device("cpu")),
        "platform": platform.platform(terse=True),
        "threads": torch.get_num_threads(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()} | _package_versions(packages),
    }


def begin(
    threads: int | None,
    *,
    seed: int,
    device: torch.device | None = None,
    packages: Sequence[str] = (),
) -> dict[str, Any]:
    """Set the threads of torch, unless None, and print and return the :func:`environment`."""
    if threads is not None:
        torch.set_num_threads(threads)
    facts = environment(seed=seed, device=device, packages=packages)
    print(headline(facts))
    return facts


def library_of(tree: Path) -> None:
    """Import the library of a checkout from now on, and no module from elsewhere.

    An editable installation of another checkout would provide the modules that this one lacks.

    Args:
        tree: The checkout.

    Raises:
        RuntimeError: If a module of the library was imported from elsewhere.
    """
    folder = tree.resolve() / "botorch_tv"
    finders = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
    sys.path[:0], sys.meta_path[:] = [str(folder.parent)], finders
    import_module(folder.name)
    parts = [part for name, part in sys.modules.items() if name.split(".")[0] == folder.name]
    for file in (Path(part.__file__ or "").resolve() for part in parts):
        if not file.is_relative_to(folder):
            raise RuntimeError(f"{file} is imported, which is not in {folder}; start anew.")


def headline(facts: dict[str, Any]) -> str:
    """The environment in a few lines."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    warning = ""
    if facts["load_before"] > BUSY * cores():
        warning = (
            f"\nthe machine is busy (load {facts['load_before']}): expect these times to shift"
        )
    return (
        f"{facts['device']}, {facts['threads']} threads; commit {facts['commit']}, "
        f"seed {facts['seed']}\n{versions}{warning}"
    )


def device_title(device: torch.device) -> str:
    """Name of a device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{processor()}, {cores()} cores"


def processor() -> str:
    """Name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """Number of cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def command() -> str:
    """The command line of this run, without the folders of its machine."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    start = f"python -m {module.name}" if module is not None else Path(sys.argv[0]).name
    given = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return " ".join([start, *given])


def commit() -> str:
    """The commit checked out, with ``+changes`` if files other than results differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = _git("status", "--porcelain", "--", ".", f":!{RESULTS.relative_to(ROOT).as_posix()}")
    return f"{head}+changes" if changed else head


def write(record: dict[str, Any], path: Path) -> None:
    """Write a record as JSON and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written to {os.path.relpath(path)}")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _package_versions(further: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in (*PACKAGES, "botorch-tv", *further):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
