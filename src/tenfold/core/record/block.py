"""The Block, the entry that a compaction appends: which part of the view it covers, and what is shown instead.

A position is the depth of an entry on its path (the root is 0). A Block covers only entries before it on its path, so
a position means the same entry on every path that contains the Block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.core.record.fact import BlankFact, Fact, StoredFact
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import NO_TOKENS, Counted, ProviderTokens, Tokens

Rung = Literal["model", "stricter", "next_model", "extractive", "mechanical", "none"]


class Run(Struct, frozen=True, tag="run", array_like=True):
    """A range of original entries that are in view, at positions `first` to `last` inclusive."""

    first: int
    last: int


OWN_BLOCK = -1
"""Used as `BlockPart.block` for the Block itself, whose position is not known before it is appended."""


class BlockPart(Struct, frozen=True, tag="rep", array_like=True):
    """Names the `index`-th replacement of the Block at position `block`, which covers `first` to `last` inclusive.

    If one replacement of a Block covers an earlier replacement of the same Block, `block` is `OWN_BLOCK`.
    """

    block: int
    index: int
    first: int
    last: int


RangeRef = Run | BlockPart


class KeptOriginal(Struct, frozen=True, tag="keep", array_like=True):
    """Shows the original message at `position` unchanged."""

    position: int


class Substitute(Struct, frozen=True, tag="say", array_like=True):
    """Shows `message`. If it is a stub of a single message, `original_position` is the position of that message."""

    message: Message
    original_position: int | None = None


ShownItem = KeptOriginal | Substitute


class Replacement(
    Struct, frozen=True, omit_defaults=True, rename={"covered_ranges": "covers", "shown_items": "show", "reason": "why"}
):
    """Shows `shown_items` in place of the positions `first` to `last`. If it is empty, the range is hidden.

    `covered_ranges` is exactly the slice of the view that is replaced. It serves three purposes: to detect conflicts,
    to undo, and to expand. `level` is how many Blocks lie under this replacement. `sizes` are the tokens of each shown
    item, by the Block's `counter`. `reason` is the sentence that `explain()` printed for it.
    """

    first: int
    last: int
    covered_ranges: tuple[RangeRef, ...]
    shown_items: tuple[ShownItem, ...]
    kind: str
    level: int = 0
    sizes: tuple[Counted, ...] = ()
    reason: str = ""


class FactRef(Struct, frozen=True, array_like=True):
    """Names the `index`-th fact of the Block at position `block`."""

    block: int
    index: int


def fold_facts(blocks: Iterable[tuple[int, Block]]) -> dict[FactRef, Fact]:
    """Folds the facts of the live Blocks of a path, given with their positions, oldest first: those that hold.

    What a purge has blanked is left out.
    """
    held: dict[FactRef, Fact] = {}
    for position, block in blocks:
        if block.ended_facts is None:
            held.clear()
        for ref in block.ended_facts or ():
            held.pop(ref, None)
        for index, fact in enumerate(block.facts):
            if not isinstance(fact, BlankFact):
                held[FactRef(position, index)] = fact
    return held


def find_fact_changes(
    held: Mapping[FactRef, Fact], facts: Sequence[Fact]
) -> tuple[tuple[Fact, ...], tuple[FactRef, ...]]:
    """Returns which of `facts` a Block has to store, and which facts of the Blocks before it, `held`, it ends.

    Facts of one message stay together, so that their order is kept too.
    """
    known = set(held.values())
    changed = {fact.order for fact in facts if fact not in known}
    kept = {fact for fact in facts if fact.order not in changed}
    stored = tuple(fact for fact in facts if fact.order in changed)
    return stored, tuple(ref for ref, fact in held.items() if fact not in kept)


class ModelCost(Struct, frozen=True, omit_defaults=True):
    """The cost of the model calls of a Block or Attempt. Tokens as reported; `price` in US dollars, None if unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    price: float | None = None


def add_costs(before: ModelCost, after: ModelCost) -> ModelCost:
    """Adds the costs of two groups of model calls. The price is unknown if one of them is."""
    prices = (before.price if before.calls else 0.0, after.price)
    price = None if None in prices else sum(price for price in prices if price is not None)
    return ModelCost(
        calls=before.calls + max(after.calls, 1),
        input_tokens=before.input_tokens + after.input_tokens,
        output_tokens=before.output_tokens + after.output_tokens,
        model=after.model or before.model,
        price=price,
    )


REDO_NOTE = "redo of "
"""How the first note of a Block begins whose summaries were written again. The other Block's id follows."""


class Slot(Struct, frozen=True, array_like=True):
    """Names the `index`-th batch of the Block at position `block`, or of the Block itself if that is `OWN_BLOCK`."""

    block: int
    index: int


class Batch(Struct, frozen=True, omit_defaults=True):
    """One of the texts of a Block that holds several: `text` summarizes the entries at positions `first` to `last`.

    `depth` is 0 if it summarizes messages. If it merges other batches, its `sources`, it is one more than the deepest
    of them; the sources stay stored. `start` and `end` are the times of its first and last message (microseconds UTC),
    None if unknown. `count` is the number of messages in it. `cycle` numbers the compaction that made it, from 1.
    `serial` tells it from the earlier batches of the archive that end at the same time, from 1. `archive_id` is the id
    under which a user's archive holds it already; such a batch covers no positions of this log.
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
    serial: int = 1
    archive_id: str = ""


class Batches(Struct, frozen=True):
    """The texts of a writer of several: those it `added`, and the `top` level of all that stand then, oldest first."""

    added: tuple[Batch, ...] = ()
    top: tuple[Slot, ...] = ()


NO_BATCHES = Batches()
UNKNOWN_TIME = "unknown"
"""Stands for a time that the log does not hold. Times are never made up."""
_DAY_MILLIS = 86_400_000


def format_time(time: int | None) -> str:
    """Formats microseconds UTC as ISO 8601 in milliseconds with Z, in the proleptic Gregorian calendar.

    None gives `UNKNOWN_TIME`. No clock is read.
    """
    if time is None:
        return UNKNOWN_TIME
    days, rest = divmod(time // 1_000, _DAY_MILLIS)
    shifted = days + 719_468  # days since 0000-03-01: a leap day then ends its year
    era, day_of_era = divmod(shifted, 146_097)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    seconds, millis = divmod(rest, 1_000)
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        f".{millis:03d}Z"
    )


def format_header(batch: Batch) -> str:
    """Returns the line that a stored batch begins with."""
    return f"[depth:{batch.depth}|start:{format_time(batch.start)}|end:{format_time(batch.end)}|count:{batch.count}]"


def format_batch(batch: Batch) -> str:
    """Returns a batch as it is archived: header, newline, summary."""
    return f"{format_header(batch)}\n{batch.text}"


def resolve_slot(slot: Slot, position: int) -> Slot:
    """Returns the slot with `position`, that of the Block that names the slot, in place of `OWN`."""
    return Slot(position, slot.index) if slot.block == OWN_BLOCK else slot


class FileLists(Struct, frozen=True, omit_defaults=True):
    """Sorted paths: files that were only read, and files created, changed, renamed (both names) or deleted."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


class Receipt(Struct, frozen=True, omit_defaults=True):
    """What a compaction costs and saves by the list prices of the model that reads the view, in US dollars.

    `rewrite` is what it costs that the view is written to the provider's cache anew, `summary` what the models cost
    that wrote it, and `saving` what each request saves that follows.
    """

    model: str
    rewrite: float
    summary: float
    saving: float


RECORDED = "recorded"
"""The `reason` of a Block for a compaction that another tool recorded in its file."""


class Block(
    Struct,
    frozen=True,
    tag="block",
    omit_defaults=True,
    rename={
        "previous_block": "under",
        "unshown_facts": "unshown",
        "dropped_facts": "dropped",
        "ended_facts": "ended",
        "top_batches": "standing",
        "supplied_details": "supplied",
        "is_unsatisfiable": "unsatisfiable",
    },
):
    """One compaction.

    `previous_block` is the id of the newest live Block when this one was made; undo follows this chain.
    `tokens_before` and `tokens_after` are the size of the view by the policy's counter, and `provider_tokens` are both
    as the provider counts them, by what was known when the Block was appended; None in a Block that was made for a
    target, which is by the counter, and in Blocks of versions before 0.3.0.
    `facts` are those that this Block adds or changes, and `ended_facts` names those of the live Blocks before it that
    hold no more; `View.list_block_facts` gives what holds. Where `ended_facts` is None, `facts` are all that hold: in
    one of 32 Blocks, and in those of versions before 0.4.0. `unshown_facts` counts the must-keep facts that did not fit
    their share of the view. `dropped_facts` counts those, over all Blocks so far, that no Block stores any more; search
    still finds their originals. `batches` are the summaries that this Block adds to the archive, and `top_batches` the
    top level of the archive afterwards, oldest first; policies without batches leave both empty. The id of a batch is
    `<block id>/<index>`. `supplied_details` is set if a before-hook supplied the text: the hook's own data as JSON.
    `receipt` is None where the prices of the session's model were not known. `is_unsatisfiable` says that by the
    provider's reports nothing fits the limit, which an attempt before this Block has recorded already. `files` are
    those of all that is covered, also by the Blocks before; None for a policy that makes no lists of them.
    """

    id: str
    parent: str | None
    run: str
    time: int
    policy: str
    counter: str
    replacements: tuple[Replacement, ...]
    facts: tuple[StoredFact, ...] = ()
    rung: Rung = "none"
    previous_block: str | None = None
    reason: str = ""
    tokens_before: Counted = NO_TOKENS
    tokens_after: Counted = NO_TOKENS
    unshown_facts: int = 0
    dropped_facts: int = 0
    notes: tuple[str, ...] = ()
    spent: ModelCost = ModelCost()
    batches: tuple[Batch, ...] = ()
    top_batches: tuple[Slot, ...] = ()
    supplied_details: str = ""
    receipt: Receipt | None = None
    is_unsatisfiable: bool = False
    files: FileLists | None = None
    provider_tokens: tuple[ProviderTokens, ProviderTokens] | None = None
    ended_facts: tuple[FactRef, ...] | None = None

    def __repr__(self) -> str:
        """Says what it is and how large, without the texts."""
        count, sizes = len(self.replacements), f"{self.tokens_before:,} -> {self.tokens_after:,} tokens"
        return f"<Block {self.id!r} by {self.policy}: {count} replacement{'s' * (count != 1)}, {sizes}>"

    @property
    def sizes(self) -> tuple[Tokens, Tokens]:
        """The size of the view before and after, as its Outcome gave it: users are shown these two and no others."""
        return self.provider_tokens or (self.tokens_before, self.tokens_after)

    @property
    def redone_block(self) -> str:
        """The id of the Block whose summaries this one holds anew, "" if it is no redo."""
        return self.notes[0].removeprefix(REDO_NOTE) if self.notes and self.notes[0].startswith(REDO_NOTE) else ""
