"""Runs a program in a terminal of its own, types a task, and leaves it when the task is done. POSIX only."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

QUIET = 3.0
"""Seconds without output after which a program waits for input."""
INTERRUPT = b"\x03"


def run_in_terminal(
    command: Sequence[str],
    typed: str,
    is_done: Callable[[], bool],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout: float,
) -> tuple[int, str]:
    """Returns the exit code and what the terminal showed."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env={**env, "TERM": "xterm-256color"}, cwd=cwd,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )  # fmt: skip
    os.close(terminal)
    shown = bytearray()
    keys = [typed.encode(), b"\r"]
    end, quiet_since, left = time.monotonic() + timeout, time.monotonic(), 0.0
    try:
        while process.poll() is None and time.monotonic() < end:
            if select.select([controller], [], [], 0.2)[0]:
                with suppress(OSError):
                    shown += os.read(controller, 65_536)
                quiet_since = time.monotonic()
            now = time.monotonic()
            if keys and now - quiet_since > QUIET and shown:
                os.write(controller, keys.pop(0))
                quiet_since = now
            if not keys and is_done() and now - left > 2:
                with suppress(OSError):
                    os.write(controller, INTERRUPT)
                left = now
    finally:
        if process.poll() is None:
            process.terminate()
        with suppress(OSError):
            while select.select([controller], [], [], 0.2)[0]:
                shown += os.read(controller, 65_536)
        os.close(controller)
    return process.wait(30), shown.decode("utf-8", "replace")
