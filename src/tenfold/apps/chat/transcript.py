"""The transcript: messages, tool calls and events as lines of text, and the widgets that draw them.

`TranscriptItem` cleans session text before it is drawn. It is never read as markup, because `Content` parses none.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
)
from pydantic_ai.run import AgentRunResultEvent
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tenfold.apps.agent.pydantic_messages import get_result_text, get_text_piece
from tenfold.core.record.block import Block
from tenfold.core.record.entry import BranchSummary, Retraction, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.json_text import decode_arguments
from tenfold.core.text.terminal_safe import sanitize, to_one_line
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
MAX_ITEMS = 400
"""Items that stay on the screen to be scrolled back to. Older ones are in the session, and `/search` finds them."""
FRAME_SECONDS = 0.05
"""Seconds between two updates of an answer that streams in."""
HISTORY_ENTRIES = 40
"""Entries of a continued session that are shown."""
MAX_MESSAGE_CHARACTERS = 4_000
"""Maximum characters of one old message; `/expand` prints all of it."""
_MAX_CALL_CHARACTERS = 60
"""Maximum characters of a call's arguments, and of its result. The screen cuts the line at its edge."""
_MAX_VALUE_CHARACTERS = 40
"""Maximum characters of one argument."""
_REMOVAL_BATCH = 100
_PREFIXES: dict[LineKind, str] = {"you": "> ", "call": "* "}


class TranscriptLine(NamedTuple):
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


# -- widgets -----------------------------------------------------------------------------------------------------------


def to_content(text: str) -> Content:
    """Converts session text to content that is safe to draw."""
    return Content(sanitize(text))


class TranscriptItem(Static):
    """One message or line of the transcript."""

    def __init__(self, kind: LineKind, text: str) -> None:
        super().__init__(classes=kind, markup=False)
        self._prefix = _PREFIXES.get(kind, "")
        self.set_text(text)

    def set_text(self, text: str) -> None:
        """Replaces the text."""
        self.update(to_content(self._prefix + text))


class ChatTranscript(VerticalScroll, can_focus=False):
    """The conversation, newest line last. It stays at its end until the user scrolls up."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[TranscriptItem] = []

    def on_mount(self) -> None:
        """Starts at the end."""
        self.anchor()

    def add_line(self, kind: LineKind, text: str) -> TranscriptItem:
        """Adds a line or a message and returns it, so that a streamed one can be updated as it grows."""
        item = TranscriptItem(kind, text)
        self._items.append(item)
        self.mount(item)
        if len(self._items) > MAX_ITEMS + _REMOVAL_BATCH:
            self.remove_children(self._items[:_REMOVAL_BATCH])
            del self._items[:_REMOVAL_BATCH]
        return item

    async def clear(self) -> None:
        """Removes all items."""
        self._items = []
        await self.remove_children()


class RunDisplay:
    """Draws a run as it arrives: the answer piece by piece, each tool call on one line that its result completes."""

    def __init__(self, transcript: ChatTranscript) -> None:
        self._transcript = transcript
        self._answer_item: TranscriptItem | None = None
        self._text, self._is_frame_due = "", False
        self._call_items: dict[str, tuple[TranscriptItem, str]] = {}

    def show_event(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> bool:
        """Draws one event. Returns whether it completed something, so that the context should be measured again."""
        match event:
            case PartStartEvent(part=ThinkingPart()):
                self.end()
                self._transcript.add_line("note", "thinking")
            case PartEndEvent(part=TextPart(content=text)):
                self._text = text
                self.end()
                return True
            case FunctionToolCallEvent(part=part):
                self.end()
                line = render_call(part.tool_name, part.args_as_json_str())
                self._call_items[part.tool_call_id] = self._transcript.add_line("call", line), line
            case FunctionToolResultEvent(part=part):
                self._complete_call(part)
                return True
            case _:
                self._add_text(get_text_piece(event))
        return False

    def _add_text(self, text: str) -> None:
        self._text += text
        if text and not self._is_frame_due:
            self._is_frame_due = True
            self._transcript.set_timer(FRAME_SECONDS, self._draw_frame)

    def _draw_frame(self) -> None:
        self._is_frame_due = False
        # The last word may be the beginning of a secret or of a control sequence: it is shown once it is complete.
        self._draw_answer(self._text[: max(self._text.rfind(" "), self._text.rfind("\n")) + 1])

    def _draw_answer(self, text: str) -> None:
        if not text.strip():
            return
        if self._answer_item is None:
            self._answer_item = self._transcript.add_line("answer", "")
        self._answer_item.set_text(text.strip())

    def _complete_call(self, part: ToolReturnPart) -> None:
        item, line = self._call_items.pop(part.tool_call_id, (None, ""))
        if item is not None:
            item.set_text(line + render_result(get_result_text(part), failed=part.outcome != "success"))

    def end(self) -> None:
        """Draws all of the streamed text; what comes next goes below it. Call it at the end of a run too."""
        self._draw_answer(self._text)
        self._answer_item, self._text = None, ""
