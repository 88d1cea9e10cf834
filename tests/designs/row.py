"""One line of docs/presets.md: a name of a published design, and what it is here."""

from __future__ import annotations

from msgspec import Struct


class Row(Struct, frozen=True):
    """`ids` are the numbers of the design's page it belongs to ("tail.A3"); `name` is what the design calls it.

    `path` imports what it is here, "" where nothing is called (a marker text, a settings key); `meaning` says what it
    is or where it is found. `example` is an expression over the imported object `it` that must be true. `differs` says
    why something is not as published: a number of `ids`, and the reason.
    """

    ids: tuple[str, ...]
    name: str
    path: str
    meaning: str
    example: str = ""
    differs: tuple[tuple[str, str], ...] = ()
