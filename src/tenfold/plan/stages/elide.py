"""Stages that shorten or blank tool outputs, and leave every message where it is.

A step whose output is elided is one replacement: its call and its other results are kept untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.shell import FileEffect
from tenfold.facts.tool_calls import ToolAction, interpret_call
from tenfold.facts.tool_results import has_taken_effect, judge_result
from tenfold.plan.draft import Draft, DraftPiece, Goal, RecallMode, to_shown_item
from tenfold.record.block import Substitute
from tenfold.record.message import Document, Message, Part, Text, ToolResult, get_text, get_tool_calls, get_tool_result
from tenfold.text.excerpts import Keep, excerpt
from tenfold.text.redaction import redact_cached
from tenfold.view.units import VisibleMessage
from tenfold.wire import can_take_text

_FIRST_LINE_CHARACTERS = 100
MIN_SAVING = 40
"""Tokens that eliding one output must save. Below that, the text is worth more than its absence."""


def render_read_hint(recall: RecallMode, entry: str) -> str:
    """Says how the original can be read again, in the words of the recall mode; "" where there is none."""
    match recall:
        case "tool":
            return f'; recall_read(entry="{entry}") gives it back'
        case "cli":
            return f"; `tenfold expand {entry}` prints it"
        case "none":
            return ""


def render_expand_hint(recall: RecallMode, block: str) -> str:
    """Says how the messages behind a Block can be read again; "" where there is no recall."""
    match recall:
        case "tool":
            return f'[recall_expand(block="{block}") shows the messages that this stands for]'
        case "cli":
            return f"[`tenfold expand {block}` prints the messages that this stands for]"
        case "none":
            return ""


def find_outside_tail(draft: Draft, goal: Goal) -> list[int]:
    """Returns the indexes of the pieces that may be elided, oldest first: all but the recent `goal.tail_budget` tokens.

    A piece larger than the budget left is not protected, and uses up at most half of the tail. So one giant output does
    not leave everything before it without protection.
    """
    budget = goal.tail_budget - draft.fixed_tokens
    free: list[int] = []
    index = len(draft.pieces)
    while index and budget > 0:
        index -= 1
        tokens = draft.pieces[index].tokens
        if tokens > budget:
            free.append(index)
        budget -= min(tokens, goal.tail_budget // 2)
    return [*range(index), *reversed(free)]


OutputElider = Callable[[VisibleMessage, int], str | Message | None]
"""Returns what stands for a tool output of that many tokens: a text in place of its content, or a whole message with
parts of it. None leaves the output alone.
"""


def elide_outputs(draft: Draft, piece: DraftPiece, kind: str, elide: OutputElider) -> DraftPiece:
    """Returns the piece with outputs elided where that saves tokens; the same piece where it saves none."""
    shown = piece.get_visible_messages()
    show = [to_shown_item(s) for s in shown] if not piece.is_changed else list(piece.shown_items)
    if len(show) != len(shown) or piece.summary_budget:
        return piece
    sizes = list(piece.sizes)
    calls = {c.id for each in shown for c in get_tool_calls(each.message)}
    stubs: list[tuple[int, Message]] = []
    for index, each in enumerate(shown):
        if each.message.origin != "tool" or each.key in draft.protected or not can_take_text(each.message, calls):
            continue
        text = elide(each, sizes[index])
        if text is not None:
            stubs.append((index, text if isinstance(text, Message) else _build_stub(each.message, text)))
    saved = 0
    for (index, stub), size in zip(stubs, draft.measure_messages([m for _, m in stubs]), strict=True):
        if sizes[index] - size >= MIN_SAVING:
            saved += sizes[index] - size
            show[index], sizes[index] = Substitute(stub, shown[index].original_position), size
    if not saved:
        return piece
    why = f"saves {piece.tokens_before - piece.tokens + saved:,} tokens of tool output"
    return replace(
        piece, kind=kind, shown_items=tuple(show), sizes=tuple(sizes), tokens=piece.tokens - saved, reason=why
    )


def _build_stub(message: Message, text: str) -> Message:
    return _with_parts(message, (Text(text),))


def with_text(message: Message, text: str) -> Message:
    """Returns the output with `text` in place of all its texts. Images and the like stay."""
    kept = (part for part in _get_parts(message) if not _is_text(part))
    return _with_parts(message, (*((Text(text),) if text else ()), *kept))


def describe_other_parts(message: Message) -> str:
    """Describes how many parts of an output are no text, to follow the number of its lines; "" if there are none."""
    others = sum(not _is_text(part) for part in _get_parts(message))
    return f" and {others} {'part' if others == 1 else 'parts'} not of text" if others else ""


def _get_parts(message: Message) -> tuple[Part, ...]:
    result = get_tool_result(message)
    return message.parts if result is None else result.content


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    result = get_tool_result(message)
    if result is None:  # an output that its format wrote as a user message
        return Message(message.role, parts, "tool")
    return Message("tool", (replace(result, content=parts),), "tool")


def _is_text(part: Part) -> bool:
    return isinstance(part, Text) or (isinstance(part, Document) and bool(part.text))


def _elide_outside_tail(draft: Draft, goal: Goal, kind: str, elide: OutputElider) -> Draft:
    return _transform_outside_tail(draft, goal, lambda piece: elide_outputs(draft, piece, kind, elide))


def _transform_outside_tail(draft: Draft, goal: Goal, transform: Callable[[DraftPiece], DraftPiece]) -> Draft:
    """Applies `transform` to the pieces outside the tail, oldest first, until the view is small enough."""
    pieces, tokens = list(draft.pieces), draft.tokens
    for index in find_outside_tail(draft, goal):
        if tokens <= goal.stage_target:
            break
        if not pieces[index].protected_reason:
            treated = transform(pieces[index])
            tokens += treated.tokens - pieces[index].tokens
            pieces[index] = treated
    return replace(draft, pieces=tuple(pieces))


def shorten_output(text: str, lines: int, characters: int) -> str | None:
    """Returns head and tail of a text with the gap stated, None if the text is within both limits.

    Limited by lines and by characters, since one line may be a megabyte.
    """
    rows = text.splitlines()
    if len(rows) <= lines and len(text) <= characters:
        return None
    half, side = max(1, lines // 2), characters // 2
    head = excerpt("\n".join(rows[:half]), side, Keep.HEAD)
    tail = excerpt("\n".join(rows[len(rows) - half :]) if len(rows) > 1 else text, side, Keep.TAIL)
    if len(head) + len(tail) >= len(text):
        return None
    gap = len(rows) - head.count("\n") - tail.count("\n") - 2
    what = f"{gap:,} lines" if gap > 0 else f"{len(text) - len(head) - len(tail):,} characters"
    return f"{head}\n[... {what} removed ...]\n{tail}"


class TruncateStage(Struct, frozen=True):
    """Cuts tool outputs above `max_tokens` to their first and last lines."""

    max_tokens: int = 1_000
    max_lines: int = 40
    max_characters: int = 2_400
    name: ClassVar[str] = "truncate"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Shortens every output outside the tail that is above the limit."""

        def elide(shown: VisibleMessage, tokens: int) -> Message | None:
            text = (
                shorten_output(get_text(shown.message), self.max_lines, self.max_characters)
                if tokens > self.max_tokens
                else None
            )
            return with_text(shown.message, text) if text is not None else None

        return _elide_outside_tail(draft, goal, self.name, elide)


class ClearStage(Struct, frozen=True):
    """Blanks tool outputs outside the tail, and names their size and first line. Errors stay."""

    name: ClassVar[str] = "clear"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks every output that is longer than its placeholder."""

        def elide(shown: VisibleMessage, tokens: int) -> str | None:
            result = get_tool_result(shown.message)
            if result is not None and result.is_error:
                return None
            text = get_text(shown.message)
            if text.startswith("[output removed"):
                return None
            first = excerpt(
                redact_cached(text.strip().split("\n", 1)[0][: 4 * _FIRST_LINE_CHARACTERS]).strip(),
                _FIRST_LINE_CHARACTERS,
                Keep.START,
            )
            entry = draft.view.path.get_entry(shown.original_position).id if shown.original_position is not None else ""
            lines = text.count("\n") + 1
            size = f"{lines:,} lines{describe_other_parts(shown.message)}, {tokens:,} tokens"
            return f"[output removed: {size}; first line: {first}{render_read_hint(goal.recall, entry)}]"

        return _elide_outside_tail(draft, goal, self.name, elide)


class SupersededReadsStage(Struct, frozen=True):
    """Blanks the output of a file read when the file is changed later, or read again as a whole.

    A read of a part of a file is superseded by the same read made again, or by a change, but not by another part.
    """

    name: ClassVar[str] = "superseded-reads"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Blanks the output of every superseded read outside the tail."""
        old = _find_superseded(draft)

        def elide_superseded(piece: DraftPiece) -> DraftPiece:
            if not any((piece.first, c) in old for c in _index_results(piece)):
                return piece
            return elide_outputs(draft, piece, self.name, _build_elider(draft, goal, piece, old))

        return _transform_outside_tail(draft, goal, elide_superseded)


_PARTIAL_READ_ARGUMENT = re.compile(
    r"(?:\w*_)?(?:offset|limit|start|end|head|tail|first|last|skip|max|length|chunk|lines?|pages?|(?:view)?range)",
    re.IGNORECASE,
)
"""How the names of arguments begin with which tools read a part of a file."""


def _find_superseded(draft: Draft) -> dict[tuple[int, str], str]:
    """Finds the reads that a later call supersedes, by (first position of the unit, call id), with the path."""
    answers = {(piece.first, call): shown for piece in draft.pieces for call, shown in _index_results(piece).items()}
    calls = [
        (piece.first, call)
        for piece in draft.pieces
        for shown in piece.get_visible_messages()
        if shown.message.role == "assistant"
        for call in get_tool_calls(shown.message)
    ]
    later: set[str] = set()
    out: dict[tuple[int, str], str] = {}
    for first, call in reversed(calls):
        parsed = interpret_call(call)
        if not parsed.effects:
            continue
        same = f"{call.name}\0{call.arguments}"
        paths = [e.path for e in parsed.effects]
        reads = all(e.verb == "read" for e in parsed.effects)
        if reads and (same in later or all(path in later for path in paths)):
            out[first, call.id] = paths[0]
        done = _find_effects(parsed, answers.get((first, call.id)))
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
    if parsed_call.verb == "read" and _UNCHANGED_FILE.search(
        text[:_OPENING_CHARACTERS]
    ):  # only the earlier output has the content
        return ()
    if has_taken_effect(
        judge_result(parsed_call, text, is_error=result.is_error, position=result_message.position).note
    ):
        return parsed_call.effects
    return tuple(e for e in parsed_call.effects if parsed_call.verb == "shell" and e.is_certain and e.verb != "read")


def _index_results(piece: DraftPiece) -> dict[str, VisibleMessage]:
    """Returns the tool messages of a piece by the id of the call they answer."""
    return {r.call_id: s for s in piece.get_visible_messages() if (r := get_tool_result(s.message)) is not None}


def _build_elider(draft: Draft, goal: Goal, piece: DraftPiece, superseded: dict[tuple[int, str], str]) -> OutputElider:
    first = piece.first

    def elide(shown: VisibleMessage, tokens: int) -> str | None:
        result = get_tool_result(shown.message)
        if not isinstance(result, ToolResult) or result.is_error or (first, result.call_id) not in superseded:
            return None
        entry = draft.view.path.get_entry(shown.original_position).id if shown.original_position is not None else ""
        name = (
            superseded[first, result.call_id].rstrip("/").rpartition("/")[2]
        )  # the tool call beside it has the folder
        return (
            f"[superseded: {name} was read or changed again later; {tokens:,} "
            f"tokens{render_read_hint(goal.recall, entry)}]"
        )

    return elide
