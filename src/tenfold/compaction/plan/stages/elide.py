"""Stages that shorten or blank tool outputs outside the recent tail, and leave every message where it is.

A step whose output is elided is one replacement: its call and its other results are kept untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.shell import FileEffect
from tenfold.compaction.facts.tool_calls import ToolAction, interpret_call
from tenfold.compaction.facts.tool_results import has_taken_effect, judge_result
from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal
from tenfold.compaction.plan.recent_tail import find_outside_tail
from tenfold.compaction.plan.stubs import (
    CLEARED_PREFIX,
    describe_cleared,
    describe_superseded,
    keep_ends,
    render_hint_for,
    shorten_output,
    with_text,
)
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import Message, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import MessageKey, VisibleMessage
from tenfold.core.wire.registry import can_take_text

MIN_SAVING = 40
"""Tokens that eliding one output must save. Below that, the text is worth more than its absence."""

OutputElider = Callable[[VisibleMessage, Counted], str | Message | None]
"""Returns what stands for a tool output of that many tokens: a text in place of its content, or a whole message with
parts of it. None leaves the output alone.
"""


def elide_outputs(
    draft: Draft, piece: DraftPiece, kind: str, elide: OutputElider, *, least_saving: int = MIN_SAVING
) -> DraftPiece:
    """Returns the piece with outputs elided where that saves enough tokens; the same piece where it saves none."""
    shown, items = piece.get_visible_messages(), piece.get_sized_items()
    if not piece.can_change or len(items) != len(shown):
        return piece
    calls = {c.id for each in shown for c in get_tool_calls(each.message)}
    stubs: dict[int, Message] = {}
    for index, each in enumerate(shown):
        if each.message.origin == "tool" and each.key not in draft.protected and can_take_text(each.message, calls):
            stub = elide(each, items[index][1])
            if stub is not None:
                stubs[index] = with_text(each.message, stub, keeps_other_parts=False) if isinstance(stub, str) else stub
    saved = NO_TOKENS
    for (index, stub), size in zip(stubs.items(), draft.measure_messages(list(stubs.values())), strict=True):
        saving = items[index][1] - size
        if saving >= least_saving:
            saved += saving
            items[index] = Substitute(stub, shown[index].original_position), size
    if not saved:
        return piece
    total = draft.reading.to_provider_part(piece.tokens_before - piece.tokens + saved)
    reason = f"saves {total:,} tokens of tool output"
    return piece.with_items(items, kind, reason)


def _elide_outside_tail(
    draft: Draft,
    goal: Goal,
    kind: str,
    elide: OutputElider,
    *,
    with_room: Callable[[Counted], OutputElider] | None = None,
) -> Draft:
    """Elides outputs outside the tail, oldest first, until the view is small enough.

    `with_room` elides those of the last step less, each by so many tokens, where that much of the target would be left.
    """
    pieces, tokens = list(draft.pieces), draft.tokens
    for index in find_outside_tail(draft, goal):
        if tokens <= goal.stage_target:
            break
        elided = elide_outputs(draft, pieces[index], kind, elide)
        tokens += elided.tokens - pieces[index].tokens
        if with_room is not None and elided is not pieces[index] and tokens < goal.stage_target:
            room = goal.stage_target - tokens
            lost = [old - new for old, new in zip(pieces[index].sizes, elided.sizes, strict=True) if old > new]
            longer = elide_outputs(draft, pieces[index], kind, with_room(share_room(room, lost)))
            if elided.tokens < longer.tokens <= elided.tokens + room:
                tokens, elided = tokens + longer.tokens - elided.tokens, longer
        pieces[index] = elided
    return replace(draft, pieces=tuple(pieces))


def share_room(room: Counted, wants: Sequence[Counted]) -> Counted:
    """Returns the most that each may have of the room, where some want less than an equal share of it."""
    for at, want in enumerate(sorted(wants)):
        share = room // (len(wants) - at)
        if want >= share:
            return share
        room -= want
    return room


class TruncateStage(Struct, frozen=True):
    """Cuts tool outputs above `max_tokens` to their first and last lines."""

    max_tokens: int = 1_000
    max_lines: int = 40
    max_characters: int = 2_400
    name: ClassVar[str] = "truncate"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output outside the tail that is above the limit, and the last one only as far as needed."""

        def with_room(room: Counted) -> OutputElider:
            def elide(shown: VisibleMessage, tokens: Counted) -> Message | None:
                if tokens <= self.max_tokens:
                    return None
                text = get_text(shown.message)
                characters = self.max_characters + int(_ROOM_SHARE * room * len(text) / tokens)
                short = shorten_output(text, self.max_lines * characters // self.max_characters, characters)
                return with_text(shown.message, short) if short is not None else None

            return elide

        return _elide_outside_tail(draft, goal, self.name, with_room(NO_TOKENS), with_room=with_room)


_ROOM_SHARE = 0.9
"""How much of the room a longer excerpt may take by the average of its text, since parts of it may be denser."""


class ClearStage(Struct, frozen=True):
    """Blanks tool outputs outside the tail, and names their size and first line. Errors stay.

    Of the newest output, which the model has not acted on yet, head and tail stay as well.
    """

    name: ClassVar[str] = "clear"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks every output that is longer than its placeholder."""
        newest = [shown.key for piece in draft.pieces[-1:] for shown in piece.get_visible_messages()[-1:]]
        characters = max(_LEAST_NEWEST_CHARACTERS, goal.tail_budget * _NEWEST_CHARACTERS_PER_TOKEN)

        def elide(shown: VisibleMessage, tokens: Counted) -> str | None:
            result, text = get_tool_result(shown.message), get_text(shown.message)
            if (result is not None and result.is_error) or text.startswith(CLEARED_PREFIX):
                return None
            if shown.key in newest:
                return shorten_output(text, _NEWEST_LINES, characters)
            return describe_cleared(draft, shown, tokens, goal.recall)

        return _elide_outside_tail(draft, goal, self.name, elide)


_LEAST_NEWEST_CHARACTERS, _NEWEST_CHARACTERS_PER_TOKEN, _NEWEST_LINES = 400, 2, 60
"""How much stays of the newest output: about half of the tail's tokens, and so many lines."""


MIN_LINES = 5
TOKENS_PER_LINE = 10
_MARKER_TOKENS = 40


class TruncateOutputsStage(Struct, frozen=True):
    """Cuts every tool output above `max_tokens` to its first and last lines, protected messages and errors included.

    Each side has at most `keep_tokens / 10` lines (at least 5, at most half of them), as a line is taken for 10 tokens.
    It also has at most 2 x `keep_tokens` tokens and half of `max_tokens`, as lines may be longer than that.
    """

    max_tokens: int = 2_000
    keep_tokens: int = 250
    name: ClassVar[str] = "truncate-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output above the limit where that saves tokens."""

        def elide(shown: VisibleMessage, tokens: Counted) -> Message | None:
            if tokens <= self.max_tokens or shown.is_from_block:  # what a Block shows is short already
                return None
            return self._cut_output(draft, goal, shown, tokens)

        return replace(draft, pieces=tuple(elide_outputs(draft, p, self.name, elide) for p in draft.pieces))

    @property
    def side_lines(self) -> int:
        """The most lines of one side."""
        return max(MIN_LINES, self.keep_tokens // TOKENS_PER_LINE)

    def _cut_output(self, draft: Draft, goal: Goal, shown: VisibleMessage, tokens: Counted) -> Message | None:
        message, text = shown.message, get_text(shown.message)
        bare = draft.measure_messages([with_text(message, "")])[0]
        if tokens - bare <= self.max_tokens:
            return None
        bound = 2 * min(2 * self.keep_tokens, self.max_tokens // 2)
        end = render_hint_for(draft, shown, goal.recall)
        side = len(text) * bound // (2 * (tokens - bare))
        while True:
            new = with_text(message, keep_ends(text, self.side_lines, side, end=end))
            size = draft.measure_messages([new])[0] - bare
            if size <= bound + _MARKER_TOKENS or not side:
                return new
            side = min(side - 1, side * bound // size)


class SupersededReadsStage(Struct, frozen=True):
    """Blanks the output of a file read when the file is changed later, or read again as a whole.

    A read of a part of a file is superseded by the same read made again, or by a change, but not by another part.
    """

    name: ClassVar[str] = "superseded-reads"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the output of every superseded read outside the tail."""
        superseded = _find_superseded(draft)

        def elide(shown: VisibleMessage, tokens: Counted) -> str | None:
            path = superseded.get(shown.key)
            result = get_tool_result(shown.message)
            if path is None or result is None or result.is_error:
                return None
            return describe_superseded(draft, shown, path, tokens, goal.recall)

        return _elide_outside_tail(draft, goal, self.name, elide)


_PARTIAL_READ_ARGUMENT = re.compile(
    r"(?:\w*_)?(?:offset|limit|start|end|head|tail|first|last|skip|max|length|chunk|lines?|pages?|(?:view)?range)",
    re.IGNORECASE,
)
"""How the names of arguments begin with which tools read a part of a file."""


def _find_superseded(draft: Draft) -> dict[MessageKey, str]:
    """Finds the results of reads that a later call supersedes, by key, with the path."""
    pairs: list[tuple[ToolCall, VisibleMessage | None]] = []
    for piece in draft.pieces:
        shown = piece.get_visible_messages()
        results = {r.call_id: s for s in shown if (r := get_tool_result(s.message)) is not None}
        calls = (c for s in shown if s.message.role == "assistant" for c in get_tool_calls(s.message))
        pairs.extend((call, results.get(call.id)) for call in calls)
    later: set[str] = set()
    out: dict[MessageKey, str] = {}
    for call, result in reversed(pairs):
        parsed = interpret_call(call)
        if not parsed.effects:
            continue
        same = f"{call.name}\0{call.arguments}"
        paths = [e.path for e in parsed.effects]
        reads = all(e.verb == "read" for e in parsed.effects)
        if result is not None and reads and (same in later or all(path in later for path in paths)):
            out[result.key] = paths[0]
        done = _find_effects(parsed, result)
        if done == parsed.effects:
            later.add(same)
        whole = parsed.verb == "read" and not any(
            _PARTIAL_READ_ARGUMENT.match(k) for k, value in parsed.arguments.items() if value
        )
        for effect in done:
            if whole or effect.verb != "read":
                later.update((effect.path, effect.target or effect.path))
    return out


_UNCHANGED_FILE = re.compile(r"\bunchanged\b|\bnot (?:been )?(?:changed|modified) since\b", re.IGNORECASE)
_OPENING_CHARACTERS = 100
"""The first characters of an output in which a tool may say that a file is unchanged, instead of showing it."""


def _find_effects(parsed_call: ToolAction, result_message: VisibleMessage | None) -> tuple[FileEffect, ...]:
    """Returns what a call did to files, as far as its result tells. For a failed command: what it surely changed."""
    result = get_tool_result(result_message.message) if result_message is not None else None
    if result_message is None or result is None:
        return ()
    text = get_text(result_message.message)
    if parsed_call.verb == "read" and _UNCHANGED_FILE.search(text[:_OPENING_CHARACTERS]):
        return ()  # only the earlier output has the content
    note = judge_result(parsed_call, text, is_error=result.is_error, position=result_message.position).note
    if has_taken_effect(note):
        return parsed_call.effects
    return tuple(e for e in parsed_call.effects if parsed_call.verb == "shell" and e.is_certain and e.verb != "read")
