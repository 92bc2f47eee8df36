"""Locks in files, on any file system that processes share."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from botorch_tv.files import is_running, this_host, write_new

BEAT_SECONDS = 5.0
"""Time between heartbeats of the holder of a lock."""
LIFELESS_SECONDS = 120.0
"""A lock without a heartbeat for this long is taken over; network file systems may show changes
a minute late."""


class Holder(NamedTuple):
    """The holder of a lock, as far as its file says."""

    host: str = "an unknown machine"
    process: int = 0
    since: str = "an unknown time"
    token: str = ""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, at work since {self.since}"


class WorkLock:
    """Shows that a process is working on something.

    The lock is a file that only one process can create. Its holder updates the modification time
    every few seconds. Locks of the operating system would need no such heartbeat, but some file
    systems have none, and others keep the locks of a machine that is gone.

    The lock only avoids duplicate work. If in doubt, two processes do the same work; files are
    written atomically, so that either result is valid.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mine = Holder(this_host(), os.getpid(), _now(), secrets.token_hex(8))
        self._released = threading.Event()
        self._last_beat: tuple[int, float] | None = None

    def claim(self) -> bool:
        """Hold the lock unless a living process does.

        Raises:
            OSError: If the file cannot be created.
        """
        if self._make():
            return True
        holder = self.holder()
        gone = holder is not None and is_running(holder.host, holder.process) is False
        if gone or self.silence() > LIFELESS_SECONDS:
            self.path.unlink(missing_ok=True)
            return self._make()
        return False

    def release(self) -> None:
        """Release the lock."""
        self._released.set()
        with suppress(OSError):
            if self.holder() == self._mine:
                self.path.unlink()

    def holder(self) -> Holder | None:
        """The holder; None if the lock is free."""
        try:
            found = json.loads(self.path.read_bytes())
            host, since, token = (str(found[name]) for name in ("host", "since", "token"))
            return Holder(host, int(found["process"]), since, token)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return Holder()  # damaged

    def silence(self) -> float:
        """Seconds since a new heartbeat was last seen, by the clock of this process."""
        try:
            beat = self.path.stat().st_mtime_ns
        except OSError:
            beat = 0
        if self._last_beat is None or self._last_beat[0] != beat:
            self._last_beat = beat, time.monotonic()
        return time.monotonic() - self._last_beat[1]

    def _make(self) -> bool:
        # Written atomically: others could not tell whether the holder of an empty file is alive.
        mine = json.dumps(self._mine._asdict()).encode()
        if not write_new(self.path, lambda opened: opened.write(mine)):
            return False
        threading.Thread(target=self._beat, daemon=True).start()
        return True

    def _beat(self) -> None:
        while not self._released.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(self.path)


def _now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
