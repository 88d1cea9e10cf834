"""The compaction entry: what it covers, and what is shown instead.

Positions are depths on a path (root = 0). Every entry that a Block covers is its ancestor, so a position is
unambiguous on every path that contains the Block.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.record.message import Message

Rung = Literal["model", "stricter", "next_model", "extractive", "mechanical", "none"]
FactKind = Literal[
    "request",
    "rule",
    "correction",
    "file_read",
    "file_modified",
    "file_created",
    "file_deleted",
    "file_renamed",
    "command",
    "error",
    "identifier",
    "decision",
    "todo",
    "name",
]
MUST_KEEP: frozenset[FactKind] = frozenset(
    {"request", "rule", "correction", "file_modified", "file_created", "file_deleted", "file_renamed", "error", "todo"}
)
"""Kinds every compaction must keep in view (resolved errors are not must-keep: see `Fact.live`)."""


class Run(Struct, frozen=True, tag="run", array_like=True):
    """A stretch of original entries in view, positions `first` to `last` inclusive."""

    first: int
    last: int


OWN = -1
"""Stands in `Rep.block` for the position of the Block that the `covers` belongs to, not known before it is appended."""


class Rep(Struct, frozen=True, tag="rep", array_like=True):
    """The `index`-th replacement of the Block at position `block`, standing for `first` to `last` inclusive.

    In a Block's own `covers`, `block` is `OWN` where a later replacement covers an earlier one of the same Block.
    """

    block: int
    index: int
    first: int
    last: int


Ref = Run | Rep


class Keep(Struct, frozen=True, tag="keep", array_like=True):
    """Shows the original message at `position` again, untouched."""

    position: int


class Say(Struct, frozen=True, tag="say", array_like=True):
    """Shows `message`. `of` is the position of the original that it stands for, when it is a stub of one message."""

    message: Message
    of: int | None = None


Show = Keep | Say


class Replacement(Struct, frozen=True, omit_defaults=True):
    """`first`..`last` are shown as `show` (empty: hidden). `covers` is exactly the slice of the view replaced.

    `covers` is at once the conflict check, the undo record and the expand tree. `level` is how many Blocks lie
    under this replacement. `sizes` are the tokens of each `show`, by the Block's `counter`. `why` is the sentence
    that `explain()` printed for it.
    """

    first: int
    last: int
    covers: tuple[Ref, ...]
    show: tuple[Show, ...]
    kind: str
    level: int = 0
    sizes: tuple[int, ...] = ()
    why: str = ""


class Fact(Struct, frozen=True, omit_defaults=True):
    """Something taken from a range by code, without a model.

    `text` is the fact as it is shown. `key` is what makes two facts of one kind the same (a path, a command, a
    normalised name): the later one wins. `at` is the position of the entry it came from. `live` is False for what
    is settled (an error that was resolved, an earlier request), which is then no longer must-keep. What was read from
    a summary has the summary's position; its `line` then counts from 1, and is 0 where a message itself was read.
    """

    kind: FactKind
    text: str
    key: str
    at: int
    live: bool = True
    note: str = ""
    line: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Grows with the time at which the fact was last met."""
        return self.at, self.line


class Spent(Struct, frozen=True, omit_defaults=True):
    """What the model calls of a Block or Attempt cost. Tokens as reported; `price` in US dollars, None if unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    price: float | None = None


class Slot(Struct, frozen=True, array_like=True):
    """The `index`-th batch of the Block at position `block`; `OWN` stands for the Block that says so."""

    block: int
    index: int


class Batch(Struct, frozen=True, omit_defaults=True):
    """One summary of a clip-archive: `text` stands for the entries at positions `first` to `last`.

    `depth` is 0 over messages, and one more than the deepest of its `sources` over other batches, which stay stored.
    `start` and `end` are the times of its first and last message (microseconds UTC), None where not known; `count`
    is how many messages went into it, `cycle` the compaction it came from, from 1.
    """

    text: str
    depth: int
    first: int
    last: int
    start: int | None = None
    end: int | None = None
    count: int = 0
    sources: tuple[Slot, ...] = ()
    cycle: int = 1


class Block(Struct, frozen=True, tag="block", omit_defaults=True):
    """One compaction. `under` is the id of the newest live Block when this one was made: the undo chain.

    `tokens_before` and `tokens_after` are the view's size by the policy's counter. `facts` are those of the covered
    range and of the Blocks it absorbs; `unshown` counts must-keep facts that did not fit their share of the view, and
    `dropped` those, over all Blocks before, that are not even carried any more: search still finds their originals.
    `batches` are the summaries that this Block adds to the archive, `standing` the archive's top level after it,
    oldest first; both are empty for policies without batches. A batch's id is `<block id>/<index>`.
    `supplied` marks a text that a before-hook gave word for word: what it said of it besides, as JSON.
    """

    id: str
    parent: str | None
    run: str
    time: int
    policy: str
    counter: str
    replacements: tuple[Replacement, ...]
    facts: tuple[Fact, ...] = ()
    rung: Rung = "none"
    under: str | None = None
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    unshown: int = 0
    dropped: int = 0
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    batches: tuple[Batch, ...] = ()
    standing: tuple[Slot, ...] = ()
    supplied: str = ""
