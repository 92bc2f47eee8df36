"""Runs the parts in turn and saves their results, even of parts that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.parts import Part, Size
from benchmarks.records import ROOT, environment

TAIL = 4000
"""Characters of the end of a failed part's output that are saved."""
LEAST = 5.0
"""Seconds below which a part is not started."""
PACKAGES = ("scipy", "xarray", "pandas", "matplotlib", "tqdm", "h5netcdf", "pytest")
"""Further packages whose versions are recorded."""


def run_parts(
    parts: Sequence[Part], size: Size, out: Path, *, seconds: float, commit: str | None = None
) -> dict[str, Any]:
    """Run parts, each in a process with a time limit, and return the content of `index.json`.

    Args:
        parts: The parts, in order.
        size: Device and size.
        out: Folder of the results; created if needed.
        seconds: Time for all parts; no part starts when it is over.
        commit: Commit of the code, where it is no checkout.
    """
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device(size.device)
    index: dict[str, Any] = {"benchmark": "gpu", "quick": size.quick}
    index |= environment(seed=0, device=device, packages=PACKAGES)
    if commit is not None:
        index["commit"] = commit
    index |= {"card": card(device), "parts": []}
    end = time.monotonic() + seconds
    for part in parts:
        print(f"{part.name} ...", flush=True)
        index["parts"].append(_run(part, size, out, end - time.monotonic()))
        unfinished = out / "index.json.new"
        unfinished.write_text(json.dumps(index, indent=1) + "\n")
        unfinished.replace(out / "index.json")
    return index


def _run(part: Part, size: Size, out: Path, left: float) -> dict[str, Any]:
    """Run a part and return its entry of the index."""
    limit = min(part.seconds, left)
    entry: dict[str, Any] = {"name": part.name, "command": " ".join(part.command(size))}
    entry |= {"seconds": 0.0, "limit": round(limit, 1)}
    absent = [name for name in part.needs if find_spec(name) is None]
    if absent:
        return entry | {"ended": "skipped", "why": f"needs {', '.join(absent)}"}
    if limit < LEAST:
        return entry | {"ended": "not started", "why": "no time was left"}
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        command = [sys.executable, *part.command(size), "--out", result.name]
        here = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        begin = time.perf_counter()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(here)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its own processes end with it
            )
            code = _awaited(process, limit)
        entry["seconds"] = round(time.perf_counter() - begin, 1)
        # A result that was written before a failure is saved as well.
        if result.exists():
            shutil.copyfile(result, out / f"{part.name}.json")
            entry["file"] = f"{part.name}.json"
        if code == 0 and result.exists():
            return entry | {"ended": "done"}
        ended = "out of time" if code is None else f"failed ({code})"
        text = log.read_text(errors="replace")
        return entry | {"ended": ended, "output": text[-TAIL:]}


def _awaited(process: subprocess.Popen[bytes], limit: float) -> int | None:
    """The exit code of a process; None if it exceeded the limit and was killed."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def card(device: torch.device) -> dict[str, Any] | None:
    """Properties of a GPU; None for a CPU."""
    if device.type != "cuda":
        return None
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        "driver": _driver(),
    }


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout else None
