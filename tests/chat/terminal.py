"""The program in a terminal of its own: started under a pseudo-terminal, typed to, and its screen read back."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

from tests.shape.scan import ROOT

PATIENCE = 200.0
"""Seconds to wait for something that is to appear: much more than it takes, so that a busy machine fails nothing."""
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
THE_END = "compact.)"
"""The last words of every answer of the demonstration."""
ENTER, ESCAPE, CTRL_D = "\r", "\x1b", "\x04"
_KEYBOARD = re.compile(rb"\x1b\[[<>=?][0-9;]*u")
UP = "\x1b[A"
PAGE_DOWN, END = "\x1b[6~", "\x1b[F"


class Terminal:
    """A process of `python -m tenfold` in a terminal. Use it as a context: what still runs then is killed."""

    def __init__(
        self, home: Path, *arguments: str, size: tuple[int, int] = (100, 30), env: dict[str, str] | None = None
    ) -> None:
        """`home` holds the store, the settings and the user's folder. The process has no key. `size`: columns, rows."""
        self.columns, self.rows = size
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.wrote = b""
        self._lines: list[str] = []
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tenfold", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=home / "work",
            env=build_environment(home) | (env or {}),
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    # -- its screen ----------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """What stands on the screen. It is made out once for what was read: pyte looks at each cell."""
        if not self._lines:
            self._lines = [line.rstrip() for line in self.screen.display]
        return self._lines

    @property
    def text(self) -> str:
        """The same as one text, with what was wrapped joined."""
        return " ".join(" ".join(self.lines).split())

    def _read(self, seconds: float) -> bool:
        """Reads what the process wrote, waiting for it at most so long. False: it has closed the terminal."""
        data, more = b"", True
        while more and select.select([self._master], [], [], 0 if data else seconds)[0]:
            try:
                data += os.read(self._master, 65_536)
            except OSError:
                more = False
        if data:
            self._lines = []
            self.wrote += data
            self._stream.feed(_strip_keyboard(data))
        return more

    def wait_until(self, seen: Callable[[], object], what: str) -> None:
        """Reads until `seen` is true. Fails, with the screen, when that takes too long or the process ends before."""
        end = time.monotonic() + PATIENCE
        while not seen():
            over = self.process.poll() is not None and not select.select([self._master], [], [], 0)[0]
            if over or time.monotonic() > end:
                why = f"it ended with {self.process.poll()}" if over else f"not within {PATIENCE:g} seconds"
                screen = "\n".join(self.lines)
                raise AssertionError(f"{what}: {why}\n{screen}")
            self._read(0.1)

    def wait_for_text(self, *texts: str) -> None:
        """Waits until all of these stand on the screen."""
        for text in texts:
            self.wait_until(lambda text=text: text in self.text, f"the screen shows {text!r}")  # type: ignore[misc]

    def wait_for_absence(self, text: str) -> None:
        """Waits until this stands on the screen no more."""
        self.wait_until(lambda: text not in self.text, f"the screen no longer shows {text!r}")

    # -- its keys ------------------------------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        """Types keys as they are."""
        for key in keys:
            os.write(self._master, key.encode())

    def say(self, text: str) -> None:
        """Types a line, waits until it stands in the input, and sends it."""
        self.wait_for_text("[ctx:")  # before, the terminal itself echoes keys, and turns Enter into another one
        self.press(text)
        tail = " ".join(text.split())[-20:]
        self.wait_until(lambda: tail in self.text, f"the input takes {text!r}")
        self.press(ENTER)

    def ask(self, prompt: str) -> None:
        """Says something to the demonstration, and waits for the end of its answer."""
        self.say(prompt)
        self.wait_until(
            lambda: THE_END in self.text.partition(f"> {prompt}")[2] and "idle" in self.text, f"{prompt} answered"
        )

    # -- its end -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait_for_end(self) -> int:
        """Reads to its end, and gives its exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        while select.select([self._master], [], [], 0.05)[0] and self._read(0):
            pass
        code = self.process.poll()
        assert code is not None, "it does not end"
        return code

    def get_modes(self) -> Sequence[object]:
        """The terminal's modes now, to be compared with `before`."""
        return termios.tcgetattr(self._slave)


def build_environment(home: Path) -> dict[str, str]:
    """What a process of a test knows: no key, and nothing of the user's."""
    for name in ("work", "data"):
        (home / name).mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "TENFOLD_STORE": str(home / "store.db")}
    shown = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "ESCDELAY": "25"}
    return kept | own | shown | {"PYTHONPATH": str(ROOT / "src")}


def _strip_keyboard(data: bytes) -> bytes:
    """Without the keyboard protocol's sequences, of which pyte prints the last letter."""
    return _KEYBOARD.sub(b"", data)
