"""Every error Tenfold raises on purpose, drawn once.

    TenfoldError
    ├── UsageError            the caller's arguments cannot be meant as given            (exit code 2)
    ├── BadInput              data from outside cannot be read; says where and what next (exit code 3)
    │   ├── UnknownFormat         no reader recognises the file
    │   ├── DamagedLine           one line or item of a file is broken; carries its number
    │   └── UnknownRole           a message role that no format defines
    ├── RecordError           Tenfold's own stored data is not as Tenfold writes it      (exit code 4)
    ├── NotFound              no session, entry or Block of that id                      (exit code 2)
    ├── StaleBlock            a Block's ranges are not in view as it expects
    ├── ContextOverflow       a provider refused a request as too long, also after a compaction
    └── StoreError            the store cannot do what was asked                         (exit code 4)
        ├── LostRace              another writer moved the head; nothing was written
        ├── NewerStore            the store was written by a newer version
        └── StoreUnwritable       read-only, full, or not permitted

A compaction that cannot be done is not an error: it is an `Outcome` with a status and a reason.
"""

from __future__ import annotations


class TenfoldError(Exception):
    """The root: catch it to catch everything Tenfold raises on purpose."""


class UsageError(TenfoldError):
    """Raised when arguments cannot be meant as given, for instance neither a target nor a window."""


class BadInput(TenfoldError):
    """Raised when data from outside cannot be read. The message says where, what, and what to do next."""


class UnknownFormat(BadInput):
    """Raised when no reader recognises a file, or a named format does not exist."""


class DamagedLine(BadInput):
    """Raised at the first broken line of a session file, unless the caller asked to skip such lines."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class UnknownRole(BadInput):
    """Raised when a message's role is none that its format defines."""


class RecordError(TenfoldError):
    """Raised when Tenfold's own stored data fails validation; the message carries the path inside the record."""


class NotFound(TenfoldError):
    """Raised when a session, entry or Block id names nothing in the store."""


class StaleBlock(TenfoldError):
    """Raised when a Block covers a slice that is not in view: it was planned on another state of the path."""


class ContextOverflow(TenfoldError):
    """Raised when a provider refuses a request as too long and no compaction makes it fit; carries the arithmetic."""


class StoreError(TenfoldError):
    """Raised when a store cannot do what was asked; what was there before is unchanged."""


class LostRace(StoreError):
    """Raised when the head moved since the caller read it. Nothing was written; read again and retry."""


class NewerStore(StoreError):
    """Raised when a store carries a schema version above the one this release writes."""


class StoreUnwritable(StoreError):
    """Raised when the store's medium refuses the write: read-only file, full disk, missing permission."""
