"""The lines of the transcript as text: messages, tool calls and events.

Nothing here cleans or draws text: `ChatTranscript.add_line` does both, for every line.
"""

from __future__ import annotations

import json
from typing import Literal

from msgspec import Struct

from tenfold.core.record.block import Block
from tenfold.core.record.entry import BranchSummary, Retraction, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.json_text import decode_arguments
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.events import (
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionWarning,
    Event,
    RequestOverflow,
    SummaryFailure,
)
from tenfold.session import Session

LineKind = Literal["you", "answer", "call", "mark", "note", "trouble", "told"]
"""Where a line comes from: user, model, call with its result, compaction, remark, failure, command."""
HISTORY_ENTRIES = 40
"""Entries of a continued session that are shown."""
MAX_MESSAGE_CHARACTERS = 4_000
"""Maximum characters of one old message; `/expand` prints all of it."""
_MAX_CALL_CHARACTERS = 60
"""Maximum characters of a call's arguments, and of its result. The screen cuts the line at its edge."""
_MAX_VALUE_CHARACTERS = 40
"""Maximum characters of one argument."""


class TranscriptLine(Struct, frozen=True):
    """One line, or one message, of the transcript."""

    kind: LineKind
    text: str


def format_tokens(tokens: int) -> str:
    """Formats a token count for people: 40, 0.9k, 1.2k, 105k, 1.2M."""
    if tokens < 100:
        return str(tokens)
    unit, name = (1_000_000, "M") if tokens >= 999_500 else (1_000, "k")
    share = tokens / unit
    return f"{share:.0f}{name}" if share >= 9.95 or tokens % unit == 0 else f"{share:.1f}{name}"


def build_compaction_mark(before: int, after: int) -> TranscriptLine:
    """Builds the mark that is shown where a Block was appended."""
    return TranscriptLine("mark", f"— context compacted ({format_tokens(before)} → {format_tokens(after)} tokens) —")


def build_event_line(event: Event) -> TranscriptLine | None:
    """Builds the line for an event. Returns None if the event is shown in another way."""
    match event:
        case CompactionEnd(outcome=outcome):
            return build_compaction_mark(outcome.tokens_before, outcome.tokens_after)
        case CompactionWarning(limit=limit):
            return TranscriptLine(
                "note", f"the context is {event.fill:.0%} full; it is compacted at {format_tokens(limit)} tokens"
            )
        case CompactionSkip(outcome=outcome):
            return TranscriptLine("note", f"not compacted ({outcome.status}): {to_one_line(outcome.reason, 400)}")
        case SummaryFailure(reason=reason):
            return TranscriptLine("trouble", f"a summary model failed: {to_one_line(reason, 400)}")
        case CompactionFailure(outcome=outcome):
            return TranscriptLine(
                "trouble", f"the compaction failed and changed nothing: {to_one_line(outcome.reason, 400)}"
            )
        case RequestOverflow(model=model, tokens=tokens):
            return TranscriptLine(
                "note",
                f"{model} refused a request of {format_tokens(tokens)} tokens as too long, so the context is compacted",
            )
        case _:
            return None


def render_call(name: str, arguments: str) -> str:
    """Renders a tool call on one line: its name and its arguments, shortened."""
    values = decode_arguments(arguments)
    pairs = [f"{key}={_render_value(value)}" for key, value in values.items()] if values is not None else [arguments]
    return f"{name} {to_one_line(' '.join(pairs), _MAX_CALL_CHARACTERS)}".strip()


def _render_value(value: object) -> str:
    return to_one_line(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARACTERS
    )


def render_result(text: str, *, failed: bool) -> str:
    """Renders a tool result in a few words: its first line, and how many lines there are."""
    lines = text.strip().splitlines()
    first = to_one_line(next((line for line in lines if line.strip()), "nothing"), _MAX_CALL_CHARACTERS)
    more = f" ({len(lines):,} lines)" if len(lines) > 1 else ""
    return f" → {'failed: ' if failed else ''}{first}{more}"


def build_history(session: Session, *, last: int = HISTORY_ENTRIES) -> list[TranscriptLine]:
    """Builds the lines of the newest part of the conversation, compactions included, oldest line first."""
    path = session.view.path
    first = max(0, path.length - last)
    entries = path.get_entries(first, path.length - 1) if path.length else []
    results: dict[str, str] = {}
    for entry in entries:
        message = get_message(entry)
        tool_result = get_tool_result(message) if message is not None else None
        if message is not None and tool_result is not None:
            results[tool_result.call_id] = render_result(get_text(message), failed=tool_result.is_error)
    lines = (
        [TranscriptLine("note", f"{first:,} earlier entries are not shown; /search finds messages, /tree lists them")]
        if first
        else []
    )
    for entry in entries:
        match entry:
            case Block():
                lines.append(build_compaction_mark(*entry.sizes))
            case Retraction():
                lines.append(TranscriptLine("mark", "— the compaction was undone —"))
            case BranchSummary():
                lines.append(TranscriptLine("mark", "— you came here from another branch; the model has its summary —"))
            case _ if (message := get_message(entry)) is not None:
                lines.extend(_render_message(message, results))
    return lines


def _render_message(message: Message, results: dict[str, str]) -> list[TranscriptLine]:
    text = get_text(message).strip()
    if len(text) > MAX_MESSAGE_CHARACTERS:
        text = f"{text[:MAX_MESSAGE_CHARACTERS]}\n... {len(text) - MAX_MESSAGE_CHARACTERS:,} more characters"
    match message.role:
        case "tool":
            return []  # it is shown behind its call
        case "assistant":
            lines = [TranscriptLine("answer", text)] if text else []
            calls = get_tool_calls(message)
            lines += [
                TranscriptLine("call", render_call(c.name, c.arguments) + results.get(c.id, " → no result"))
                for c in calls
            ]
            return [*lines, TranscriptLine("note", "the answer was cut off here")] if message.status != "ok" else lines
        case "user" if message.origin == "human":
            return [TranscriptLine("you", text)]
        case _:
            return [TranscriptLine("note", f"{message.role}: {to_one_line(text, 200)}")] if text else []
