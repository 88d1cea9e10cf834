"""The transcript: messages, tool calls and events as lines of text, and the widgets that draw them.

An answer is drawn as the Markdown that models write, everything else as it is. Session text is cleaned before it is
drawn, and never read as markup of Textual.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, emphasis
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
from textual.highlight import HighlightTheme, highlight
from textual.widget import MountError, Widget
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from tenfold.apps.agent.pydantic_messages import get_result_text, get_text_piece
from tenfold.apps.agent.run_lines import format_tokens, render_call, render_result
from tenfold.apps.chat.inspect_page import has_browser
from tenfold.core.record.block import Block, Replacement
from tenfold.core.record.entry import BranchSummary, Retraction, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.events import (
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
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
MAX_DRAWN_ANSWERS = 20
"""Answers that are drawn as Markdown. Each is dozens of widgets, so older ones go back to the text that was written."""
MAX_LEFT_LINES = 6
"""Lines that say what left the view in a compaction; `/expand` shows all of it."""
FRAME_SECONDS = 0.05
"""Seconds between two updates of an answer that streams in."""
HISTORY_ENTRIES = 40
"""Entries of a continued session that are shown."""
MAX_SCANNED = 2_000
"""Entries of a continued session in which the user's inputs are looked for, to be called back."""
MAX_MESSAGE_CHARACTERS = 4_000
"""Maximum characters of one old message; `/expand` prints all of it."""
_REMOVAL_BATCH = 100
_PREFIXES: dict[LineKind, str] = {"you": "> ", "call": "* "}


class TranscriptLine(NamedTuple):
    """One line, or one message, of the transcript."""

    kind: LineKind
    text: str


def build_compaction_mark(before: int, after: int) -> TranscriptLine:
    """Builds the mark that is shown where a Block was appended."""
    return TranscriptLine("mark", f"— context compacted ({format_tokens(before)} → {format_tokens(after)} tokens) —")


def build_left_note(block: Block) -> TranscriptLine:
    """Builds the list of what a compaction took out of the view, and by what it replaced it."""
    lines = [f"{_format_range(each)}  {to_one_line(each.reason or each.kind, 200)}" for each in block.replacements]
    more = len(lines) - MAX_LEFT_LINES
    if more > 1:
        lines[MAX_LEFT_LINES:] = [f"and {more:,} more"]
    return TranscriptLine("note", "\n".join(["left the view, and kept in the session (/expand shows it):", *lines]))


def _format_range(replacement: Replacement) -> str:
    first, last = replacement.first, replacement.last
    return f"  entry {first:,}" if first == last else f"  entries {first:,} to {last:,}"


def build_event_line(event: Event) -> TranscriptLine | None:
    """Builds the line for an event. Returns None if the event is shown in another way."""
    match event:
        case CompactionStart(tokens=tokens, target=target):
            return TranscriptLine(
                "note",
                f"the context of {format_tokens(tokens)} tokens is being compacted, down to {format_tokens(target)}; "
                "Escape aborts it",
            )
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
                lines += [build_compaction_mark(*entry.sizes), build_left_note(entry)]
            case Retraction():
                lines.append(TranscriptLine("mark", "— the compaction was undone —"))
            case BranchSummary():
                lines.append(TranscriptLine("mark", "— you came here from another branch; the model has its summary —"))
            case _ if (message := get_message(entry)) is not None:
                lines.extend(_render_message(message, results))
    return lines


def list_inputs(session: Session, *, last: int = MAX_SCANNED) -> list[str]:
    """Lists what the user said in the newest part of the conversation, oldest first."""
    path = session.view.path
    entries = path.get_entries(max(0, path.length - last), path.length - 1) if path.length else []
    messages = [get_message(entry) for entry in entries]
    return [get_text(m).strip() for m in messages if m is not None and m.role == "user" and m.origin == "human"]


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

    def show_address(self, address: str) -> None:
        """Shows an address of this program's own, with the token in it that a redaction would take out."""
        self.update(Content(address))


class CodeTheme(HighlightTheme):
    """Colours of code that can be read on a dark and on a light background, whatever the terminal's palette is."""

    STYLES: ClassVar[dict[tuple[str, ...], str]] = {  # type: ignore[misc]  # Textual means it so
        ("Comment",): "dim italic",
        ("Error",): "ansi_red",
        ("Generic", "Deleted"): "ansi_red",
        ("Generic", "Inserted"): "ansi_green",
        ("Generic", "Heading"): "bold",
        ("Generic", "Subheading"): "ansi_cyan",
        ("Keyword",): "bold ansi_magenta",
        ("Literal", "Number"): "ansi_cyan",
        ("Literal", "String"): "ansi_green",
        ("Name", "Builtin"): "ansi_cyan",
        ("Name", "Class"): "bold",
        ("Name", "Decorator"): "ansi_magenta",
        ("Name", "Function"): "bold",
        ("Name", "Tag"): "bold",
    }


class CodeBlock(MarkdownFence):
    """A block of code in an answer."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:  # noqa: FBT001, FBT002 - Textual's own
        """Colours the code: where the terminal's palette is used, with colours that suit any background."""
        if not ansi:
            return super().highlight(code, language, ansi, dark)
        return highlight(code, language=language or None, theme=CodeTheme)


def build_parser() -> MarkdownIt:
    """Builds the parser of answers. HTML is shown as text, and a line that the model ended stays a line.

    Only whole addresses become links: `README.md` is a file, although .md is a domain. Only asterisks emphasize:
    underscores belong to names, as in `shop/__main__.py`.
    """
    parser = MarkdownIt("gfm-like", {"html": False})
    if parser.linkify is not None:
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    parser.inline.ruler.at("emphasis", _emphasize)
    parser.core.ruler.push("line_breaks", _keep_line_breaks)
    return parser


def _emphasize(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the parser's own
    return state.src[state.pos] != "_" and emphasis.tokenize(state, silent)


def _keep_line_breaks(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


class AnswerItem(Markdown):
    """An answer of the model, drawn as Markdown while it grows."""

    BLOCKS: ClassVar[dict[str, type[MarkdownBlock]]] = {  # type: ignore[misc]  # Textual means it so
        **Markdown.BLOCKS,
        "fence": CodeBlock,
        "code_block": CodeBlock,
    }

    def __init__(self, text: str) -> None:
        super().__init__(sanitize(text), classes="answer", parser_factory=build_parser, open_links=False)

    async def show_text(self, text: str) -> None:
        """Shows the answer as it is by now. Only what is new is parsed, unless something before it turned secret."""
        safe = sanitize(text.strip())
        if not safe.startswith(self.source):
            await self.update(safe)
        elif safe != self.source:
            await self.append(safe[len(self.source) :])

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Shows where the link leads, whatever its text says, and opens it if that is in the web."""
        event.prevent_default()
        self.app.notify(sanitize(event.href), title="link", markup=False)
        if event.href.startswith(("https://", "http://")) and has_browser():
            self.app.open_url(event.href)


class ChatTranscript(VerticalScroll, can_focus=False):
    """The conversation, newest line last. It stays at its end until the user scrolls up."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Widget] = []

    def on_mount(self) -> None:
        """Starts at the end."""
        self.anchor()

    def add_line(self, kind: LineKind, text: str) -> TranscriptItem:
        """Adds a line or a message and returns it, so that it can be completed later. An answer is shown as written."""
        item = TranscriptItem(kind, text)
        self._items.append(item)
        if self.is_attached:
            self.mount(item)
        if len(self._items) > MAX_ITEMS + _REMOVAL_BATCH:
            self.remove_children(self._items[:_REMOVAL_BATCH])
            del self._items[:_REMOVAL_BATCH]
        return item

    async def add_answer(self, text: str) -> AnswerItem:
        """Adds an answer, which may grow."""
        item = AnswerItem(text)
        self._items.append(item)
        await self.mount(item)
        drawn = [each for each in self._items if isinstance(each, AnswerItem)]
        if len(drawn) > MAX_DRAWN_ANSWERS:
            await self._erase(drawn[0])
        return item

    async def _erase(self, answer: AnswerItem) -> None:
        plain = TranscriptItem("answer", answer.source)
        self._items[self._items.index(answer)] = plain
        await self.mount(plain, before=answer)
        await answer.remove()

    async def clear(self) -> None:
        """Removes all items."""
        self._items = []
        await self.remove_children()


class RunDisplay:
    """Draws a run as it arrives: the answer piece by piece, each tool call on one line that its result completes."""

    def __init__(self, transcript: ChatTranscript) -> None:
        self._transcript = transcript
        self._answer_item: AnswerItem | None = None
        self._text, self._is_frame_due = "", False
        self._drawing = asyncio.Lock()
        self._call_items: dict[str, tuple[TranscriptItem, str]] = {}

    async def show_event(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> bool:
        """Draws one event. Returns whether it completed something, so that the context should be measured again."""
        match event:
            case PartStartEvent(part=ThinkingPart()):
                await self.end()
                self._transcript.add_line("note", "thinking")
            case PartEndEvent(part=TextPart(content=text)):
                self._text = text
                await self.end()
                return True
            case FunctionToolCallEvent(part=part):
                await self.end()
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

    async def _draw_frame(self) -> None:
        # The last word may be the beginning of a secret or of a control sequence: it is shown once it is complete.
        await self._draw_answer(is_complete=False)
        self._is_frame_due = False

    async def _draw_answer(self, *, is_complete: bool) -> None:
        async with self._drawing:  # a frame may be due while the end is drawn
            end = len(self._text) if is_complete else max(self._text.rfind(" "), self._text.rfind("\n")) + 1
            text = self._text[:end]
            if text.strip():
                await self._show_answer(text)
            if is_complete:
                self._answer_item, self._text = None, ""

    async def _show_answer(self, text: str) -> None:
        try:
            if self._answer_item is None:
                self._answer_item = await self._transcript.add_answer("")
            await self._answer_item.show_text(text)
        except MountError:
            if self._transcript.is_attached and self._transcript.app.is_running:
                raise  # else the program has left while the answer came: there is no screen to draw on

    def _complete_call(self, part: ToolReturnPart) -> None:
        item, line = self._call_items.pop(part.tool_call_id, (None, ""))
        if item is not None:
            item.set_text(line + render_result(get_result_text(part), failed=part.outcome != "success"))

    async def end(self) -> None:
        """Draws all of the streamed text; what comes next goes below it. Call it at the end of a run too."""
        await self._draw_answer(is_complete=True)
