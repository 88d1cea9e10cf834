"""A user's in-memory strategy as a Stage, for lists that `tenfold.compact` shortens.

The strategy is given the messages in view and returns a shorter list. What it returns unchanged stays as it is. What it
leaves out is replaced by what it put there, whole steps at a time, so that no tool call is separated from its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, SizedItem, join_pieces
from tenfold.core.record.block import KeptOriginal
from tenfold.core.record.message import Message, get_tool_calls, get_tool_result
from tenfold.designs.blocks.compaction_config import CompactionStrategy, ContextConfig
from tenfold.designs.blocks.strategy_runner import run_without_model
from tenfold.session.drive import Answerer

IN_MEMORY = "in-memory"
"""The name of the stage, and the kind of the replacements it makes."""


class InMemoryStage(Struct, frozen=True):
    """Shows a list as the strategy shortens it. If the strategy raises, that is logged, and later stages go on."""

    strategy: CompactionStrategy
    config: ContextConfig
    name: ClassVar[str] = IN_MEMORY
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the strategy has its own goal
        """See `Stage.apply`. The strategy must return the same for the same list, as every plan must."""
        shown = [s.message for s in draft.view.get_visible_messages()]
        result = run_strategy(self.strategy, shown, self.config)
        if result is None:
            return draft
        pieces = list(draft.pieces)
        for first, last, messages in reversed(_find_changes(draft, result)):
            joined = _join_changed(draft, draft.pieces[first:last], messages)
            pieces[first:last] = [joined] if joined is not None else pieces[first:last]
        return replace(draft, pieces=tuple(pieces))


def run_strategy(
    strategy: CompactionStrategy, messages: Sequence[Message], config: ContextConfig
) -> list[Message] | None:
    """Returns the list as a strategy shortens it, which is given a copy.

    Returns None, and writes a line to the log, where it raises or returns anything but a list of messages.
    """
    result = run_without_model(lambda: strategy.compact(list(messages), config))
    if isinstance(result.value, Sequence) and all(isinstance(each, Message) for each in result.value):
        return list(result.value)
    problem = result.error or f"it gave a {type(result.value).__name__}; give a list of Message"
    Answerer().report_problem(f"in_memory_strategy: {problem}; it was ignored")
    return None


def _find_changes(draft: Draft, result: Sequence[Message]) -> list[tuple[int, int, list[Message]]]:
    """Returns the ranges of pieces that the result leaves out, each with what it has in their place.

    A piece stays where all its messages are in the result, the same objects in the same order. Protected ones always
    stay. What was added between pieces that stay takes the next one along that may change.
    """
    places = {id(message): at for at, message in enumerate(result)}
    out: list[tuple[int, int, list[Message]]] = []
    added: list[Message] = []
    start, used = 0, 0
    for index, piece in enumerate(draft.pieces):
        at = _find_place(piece, places, used)
        if at is None and piece.can_change:
            continue
        own = [s.message for s in piece.get_visible_messages()]
        added += result[used:at] if at is not None else []
        if start < index:
            out.append((start, index, added))
            added = []
        elif added and own and piece.can_change:
            out.append((index, index + 1, [*added, *own]))
            added = []
        start, used = index + 1, used if at is None else at + len(own)
    closed = sum(len(piece.get_visible_messages()) for piece in draft.pieces)
    open_step = {id(s.message) for s in list(draft.view.get_visible_messages())[closed:]}
    if start < len(draft.pieces):
        rest = [message for message in result[used:] if id(message) not in open_step]
        out.append((start, len(draft.pieces), [*added, *rest]))
    return out


def _find_place(piece: DraftPiece, places: dict[int, int], used: int) -> int | None:
    """Returns where the messages of a piece stand in the result, at `used` or later; None if they do not."""
    found = [places.get(id(s.message), -1) for s in piece.get_visible_messages()]
    if not found:
        return used
    is_whole = found[0] >= used and found == list(range(found[0], found[0] + len(found)))
    return found[0] if is_whole else None


def _join_changed(draft: Draft, pieces: Sequence[DraftPiece], messages: Sequence[Message]) -> DraftPiece | None:
    """Returns these pieces as one that shows the messages, and what is protected. None if a call lacks its result.

    Words that the strategy wrote itself are never shown as the user's.
    """
    if not _has_whole_pairs(messages):
        return None
    originals = {id(s.message): s for p in pieces for s in p.get_visible_messages()}
    items: list[SizedItem] = []
    for message in messages:
        known = originals.pop(id(message), None)
        if known is not None:
            items.extend(draft.measure_items([known]))
        else:
            origin = message.origin if message.role == "tool" else "tenfold"
            items.append(draft.measure_substitute(replace(message, origin=origin, native=None)))
    items.extend(draft.measure_items([s for s in originals.values() if s.key in draft.protected]))
    kept = sum(isinstance(item, KeptOriginal) for item, _ in items)
    why = f"as the in-memory strategy shows it: {len(items):,} messages, {kept:,} of them untouched"
    return join_pieces(pieces, items, IN_MEMORY, why)


def _has_whole_pairs(messages: Sequence[Message]) -> bool:
    """Tells whether each call is followed by its results at once, and each result follows its call."""
    waiting: set[str] = set()
    for message in messages:
        result = get_tool_result(message)
        if result is None and waiting:
            return False
        if result is not None:
            if result.call_id not in waiting:
                return False
            waiting.discard(result.call_id)
        else:
            waiting = {call.id for call in get_tool_calls(message)}
    return not waiting
