"""`tenfold serve` as a program of its own, which a test stops, kills and starts again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import httpx


def find_free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


class ServeProgram:
    """The program, on the same port and with the same store each time it is started."""

    def __init__(self, store: Path | str, upstream: str, *flags: str) -> None:
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the program
        self._command = [
            *(sys.executable, "-m", "tenfold", "serve", "--port", str(self.port), "--store", str(store)),
            *("--upstream", upstream, *flags),
        ]
        self._environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._log.close()

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    def measure_memory(self) -> float:
        """The memory that it takes, in megabytes; 0 where the system does not tell it in a file."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError:
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def start(self) -> None:
        """Starts it. It may not listen yet."""
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, env=self._environment)

    def wait_until_ready(self) -> None:
        """Waits until it answers."""
        while True:
            assert self._process is not None
            assert self._process.poll() is None, self.read_log()
            try:
                assert httpx.get(f"{self.url}/healthz", timeout=500).status_code == 200
            except httpx.TransportError:  # nobody listens yet, or a connection that the last process took is closed
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Ends it without a warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """Asks it to end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Waits until it has ended, and returns its exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def read_log(self) -> str:
        """What it printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")
