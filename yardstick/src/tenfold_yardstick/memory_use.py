"""Measures how much memory a session takes, in a fresh process that runs this module.

`python -m tenfold_yardstick.memory_use held FILE` keeps the chat messages of a file, one JSON object a line, in an
in-memory session. `... opened FILE SESSION` opens a session of a SQLite store and reads its view. Both print the
megabytes before and after.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.methods import UnableError

_KB, _MB = 1_024, 1_024 * 1_024
_BATCH_SIZE = 500


class MemoryUse(Struct, frozen=True):
    """The peak memory of a process in megabytes, and how much of it came before the session.

    `what` is "held" for a session kept in memory, and "opened" for a stored and compacted session whose view was read.
    `unable` says why the memory is unknown.
    """

    what: str
    messages: int
    megabytes: int = 0
    before: int = 0
    unable: str = ""


def get_peak_memory() -> int:
    """Returns the peak memory of this process in megabytes.

    Raises `UnableError` if the system does not say (Windows). On Linux it is read from `/proc`, since `ru_maxrss`
    starts with the parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) // _KB
    try:
        import resource  # noqa: PLC0415 - no module of Windows
    except ImportError:
        raise UnableError("this system does not say how much memory a process has had") from None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // (_MB if sys.platform == "darwin" else _KB)


def measure_in_child(mode: str, messages: int, *arguments: str) -> MemoryUse:
    """Runs this module with these arguments in a fresh process."""
    command = [sys.executable, "-m", "tenfold_yardstick.memory_use", mode, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python, this module
    if run.returncode:
        error_lines = run.stderr.strip().splitlines() or ["it said nothing"]
        return MemoryUse(mode, messages, unable=error_lines[-1])
    before, megabytes = msgspec.json.decode(run.stdout, type=tuple[int, int])
    return MemoryUse(mode, messages, megabytes, before)


def hold_session(file: Path) -> None:
    """Appends the messages of a file to an in-memory session."""
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), get_preset("tenfold")(choose_counter(None).counter)
    )
    with file.open("rb") as lines:
        batch: list[bytes] = []
        for line in lines:
            batch.append(line.strip())
            if len(batch) == _BATCH_SIZE:
                session.append(*WIRES["openai-chat"].decode(batch))
                batch = []
    session.append(*WIRES["openai-chat"].decode(batch))
    session.take_reading(window=1)


def open_session(file: Path, session: str) -> None:
    """Opens a stored session and reads its view."""
    store = SqliteStore(file)
    Session(SessionAddress(store, session), get_preset("tenfold")(choose_counter(None).counter)).view.get_messages()
    store.close()


def main(arguments: list[str]) -> None:
    """Runs the named measurement, and prints the megabytes before and after."""
    what, file, *rest = arguments
    before = get_peak_memory()
    if what == "held":
        hold_session(Path(file))
    else:
        open_session(Path(file), rest[0])
    sys.stdout.write(msgspec.json.encode((before, get_peak_memory())).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
