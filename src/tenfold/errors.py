"""The errors that Tenfold raises on purpose, as a tree. Each has one line; the exit code is that of the command line.

    TenfoldError
    ├── UsageError            the arguments make no sense                                (exit code 2)
    │   └── UnusableModel         a model cannot be asked: its key or its client is missing
    ├── BadInput              outside data cannot be read; says where, and what to do    (exit code 3)
    │   ├── UnknownFormat         no reader recognises the file
    │   ├── DamagedLine           a line or item of a file is broken; carries its number
    │   └── UnknownRole           a message has a role that its format does not define
    ├── RecordError           Tenfold's own stored data is damaged                       (exit code 4)
    ├── NotFoundError         there is no session, entry or Block with that id           (exit code 2)
    ├── StaleBlock            the range that a Block replaces is not in view
    ├── ContextOverflow       a provider refused a request as too long, even after a compaction
    └── StoreError            the store cannot do what was asked                         (exit code 4)
        ├── LostRace              another writer moved the head; nothing was written
        ├── NewerStore            the store was written by a newer version of Tenfold
        └── UnwritableStore       the store is read-only, full, or not permitted

A compaction that cannot be done raises no error: its `Outcome` has a status and a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TenfoldError(Exception):
    """The base class: catch it to catch every error that Tenfold raises on purpose."""


class UsageError(TenfoldError):
    """Raised when arguments make no sense, for instance if there is neither a target nor a window."""


class MissingExtra(UsageError, ModuleNotFoundError):
    """Raised by an import that needs a package which is not installed. It says which extra brings it."""


class UnrelatedList(UsageError):
    """Raised when a list of messages does not continue the session that it was given to. Nothing was appended."""


class UnusableModel(UsageError):
    """Raised when a model cannot be asked from here: its key is not set, or its client is not installed."""


class BadInput(TenfoldError):
    """Raised when outside data cannot be read. The message says where, what is wrong, and what to do next."""


class UnknownFormat(BadInput):
    """Raised when no reader recognises a file, or when there is no format of the given name."""


class DamagedLine(BadInput):
    """Raised at the first broken line of a session file, unless the caller chose to skip such lines."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class UnknownRole(BadInput):
    """Raised when a message has a role that its format does not define."""


class RecordError(TenfoldError):
    """Raised when Tenfold's own stored data is not valid. The message gives the path inside the record."""


class NotFoundError(TenfoldError):
    """Raised when the store holds no session, entry or Block with the given id."""


class StaleBlock(TenfoldError):
    """Raised when the range that a Block replaces is not in view: it was planned on another state of the path."""


class ContextOverflow(TenfoldError):
    """Raised when a provider refuses a request as too long and no compaction makes it fit. Gives the numbers."""


class StoreError(TenfoldError):
    """Raised when a store cannot do what was asked. Its contents are unchanged."""


class LostRace(StoreError):
    """Raised when another writer moved the head since the caller read it. Nothing was written; read again and retry."""


class LockedStore(StoreError):
    """Raised when another process writes to the store for longer than a writer waits. Nothing was written; retry."""


class NewerStore(StoreError):
    """Raised when the schema version of a store is newer than the one this release writes."""


class UnwritableStore(StoreError):
    """Raised when the store cannot be written: read-only file, full disk, missing permission."""


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error sentence about an unknown name: the nearest valid name, and all of them."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    if not names:
        return ": there is none yet"
    return (f": did you mean {near[0]!r}?" if near else ".") + f" There are: {', '.join(names)}"
