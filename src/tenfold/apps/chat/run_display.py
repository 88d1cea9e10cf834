"""Draws a run as it arrives: the answer piece by piece, each tool call on one line that its result completes."""

from __future__ import annotations

from collections.abc import Callable

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

from tenfold.apps.agent.pydantic_messages import get_result_text, get_text_piece, has_succeeded
from tenfold.apps.chat import transcript_lines
from tenfold.apps.chat.widgets import ChatTranscript, TranscriptItem

FRAME_SECONDS = 0.05
"""Seconds between two updates of an answer that streams in."""


class RunDisplay:
    """Draws one run into the transcript. `timer(seconds, callback)` is the screen's timer."""

    def __init__(self, transcript: ChatTranscript, timer: Callable[[float, Callable[[], None]], object]) -> None:
        self._transcript, self._timer = transcript, timer
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
                line = transcript_lines.render_call(part.tool_name, part.args_as_json_str())
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
            self._timer(FRAME_SECONDS, self._draw_frame)

    def _draw_frame(self) -> None:
        self._is_frame_due = False
        # The last word may be the beginning of a secret or of a control sequence: it is shown once it is complete.
        complete_text = self._text[: max(self._text.rfind(" "), self._text.rfind("\n")) + 1].rstrip()
        if complete_text:
            self._draw_answer(complete_text)

    def _draw_answer(self, text: str) -> None:
        if self._answer_item is None:
            self._answer_item = self._transcript.add_line("answer", text)
        else:
            self._answer_item.set_text(text)

    def _complete_call(self, part: ToolReturnPart) -> None:
        item, line = self._call_items.pop(part.tool_call_id, (None, ""))
        if item is not None:
            result = transcript_lines.render_result(get_result_text(part), failed=not has_succeeded(part))
            item.set_text(line + result)

    def end(self) -> None:
        """Draws all of the streamed text; what comes next goes below it. Call it at the end of a run too."""
        if self._text.strip():
            self._draw_answer(self._text.strip())
        self._answer_item, self._text = None, ""
