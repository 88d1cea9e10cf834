"""The lines of the transcript as text: messages, tool calls and events.

Nothing here cleans or draws text: `ChatTranscript.add_line` does both, for every line.
"""

from __future__ import annotations

import json
from typing import Literal

from msgspec import Struct

from tenfold.events import Ended, Event, Failed, Overflowed, Skipped, Warned
from tenfold.record.block import Block
from tenfold.record.entry import Branch, Retraction, message_of
from tenfold.record.message import Message, calls_of, result_of, text_of
from tenfold.session import Session
from tenfold.shown import one_line

Kind = Literal["you", "answer", "call", "mark", "note", "trouble", "told"]
"""Where a line comes from: user, model, call with its result, compaction, remark, failure, command."""
LAST = 40
"""Entries of a continued session that are shown."""
LONG = 4_000
"""Maximum characters of one old message; `/expand` prints all of it."""
_WIDE = 60
"""Maximum characters of a call's arguments, and of its result. The screen cuts the line at its edge."""
_VALUE = 40
"""Maximum characters of one argument."""


class Line(Struct, frozen=True):
    """One line, or one message, of the transcript."""

    kind: Kind
    text: str


def size(tokens: int) -> str:
    """Formats a token count for people: 40, 0.9k, 1.2k, 105k, 1.2M."""
    if tokens < 100:
        return str(tokens)
    unit, name = (1_000_000, "M") if tokens >= 999_500 else (1_000, "k")
    share = tokens / unit
    return f"{share:.0f}{name}" if share >= 9.95 or tokens % unit == 0 else f"{share:.1f}{name}"


def compacted(before: int, after: int) -> Line:
    """Builds the mark that is shown where a Block was appended."""
    return Line("mark", f"— context compacted ({size(before)} → {size(after)} tokens) —")


def news(event: Event) -> Line | None:
    """Builds the line for an event. Returns None if the event is shown in another way."""
    match event:
        case Ended(outcome=outcome):
            return compacted(outcome.tokens_before, outcome.tokens_after)
        case Warned(tokens=tokens, window=window, limit=limit):
            share = f"{tokens / window:.0%} of the window" if window else f"{size(tokens)} tokens"
            return Line("note", f"the context takes {share}; it is compacted at {size(limit)} tokens")
        case Skipped(outcome=outcome):
            return Line("note", f"not compacted ({outcome.status}): {one_line(outcome.reason, 400)}")
        case Failed(outcome=outcome):
            return Line("note", f"the compaction failed, nothing changed: {one_line(outcome.reason, 400)}")
        case Overflowed(model=model, tokens=tokens):
            return Line("note", f"{model} refused a request of {size(tokens)} tokens as too long; room is made for it")
        case _:
            return None


def call(name: str, arguments: str) -> str:
    """Renders a tool call on one line: its name and its arguments, shortened."""
    try:
        values = json.loads(arguments or "{}")
    except ValueError:
        values = arguments
    if isinstance(values, dict):
        values = " ".join(f"{key}={_value(value)}" for key, value in values.items())
    return f"{name} {one_line(str(values), _WIDE)}".strip()


def _value(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _VALUE)


def result(text: str, *, failed: bool) -> str:
    """Renders a tool result in a few words: its first line, and how many lines there are."""
    lines = text.strip().splitlines()
    first = one_line(next((line for line in lines if line.strip()), "nothing"), _WIDE)
    more = f" ({len(lines):,} lines)" if len(lines) > 1 else ""
    return f" → {'failed: ' if failed else ''}{first}{more}"


def history(session: Session, *, last: int = LAST) -> list[Line]:
    """Builds the lines of the newest part of the conversation, compactions included, oldest line first."""
    path = session.view.path
    first = max(0, path.length - last)
    entries = path.span(first, path.length - 1) if path.length else []
    results: dict[str, str] = {}
    for entry in entries:
        message = message_of(entry)
        tool_result = result_of(message) if message is not None else None
        if message is not None and tool_result is not None:
            results[tool_result.call] = result(text_of(message), failed=tool_result.error)
    lines = [Line("note", f"{first:,} earlier entries: /search finds what they say, /tree lists them")] if first else []
    for entry in entries:
        match entry:
            case Block():
                lines.append(compacted(entry.tokens_before, entry.tokens_after))
            case Retraction():
                lines.append(Line("mark", "— the compaction was undone —"))
            case Branch():
                lines.append(Line("mark", "— another branch was left here; the model knows its summary —"))
            case _ if (message := message_of(entry)) is not None:
                lines.extend(_said(message, results))
    return lines


def _said(message: Message, results: dict[str, str]) -> list[Line]:
    text = text_of(message).strip()
    if len(text) > LONG:
        text = f"{text[:LONG]}\n... {len(text) - LONG:,} more characters"
    match message.role:
        case "tool":
            return []  # it is shown behind its call
        case "assistant":
            lines = [Line("answer", text)] if text else []
            calls = calls_of(message)
            lines += [Line("call", call(c.name, c.arguments) + results.get(c.id, " → no result")) for c in calls]
            return [*lines, Line("note", "the answer broke off here")] if message.status != "ok" else lines
        case "user" if message.origin == "human":
            return [Line("you", text)]
        case _:
            return [Line("note", f"{message.role}: {one_line(text, 200)}")] if text else []
