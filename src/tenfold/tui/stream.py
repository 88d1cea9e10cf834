"""Draws a run as it arrives: the answer piece by piece, each tool call on one line that its result completes."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolReturnPart,
)
from pydantic_ai.run import AgentRunResultEvent

from tenfold.tui import words
from tenfold.tui.widgets import Said, Transcript

FRAME = 0.05
"""Seconds between two updates of an answer that streams in."""
_FAILED = frozenset({"failed", "retried"})


class Stream:
    """Draws one run into the transcript. `timer(seconds, callback)` is the screen's timer."""

    def __init__(self, transcript: Transcript, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._transcript, self._later = transcript, later
        self._answer: Said | None = None
        self._text, self._due = "", False
        self._calls: dict[str, tuple[Said, str]] = {}

    def show(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> bool:
        """Draws one event. Returns whether it completed something, so that the context should be measured again."""
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                self.end()
                self._grow(text)
            case PartStartEvent(part=ThinkingPart()):
                self.end()
                self._transcript.say("note", "thinking")
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                self._grow(text)
            case PartEndEvent(part=TextPart(content=text)):
                self._text = text
                self.end()
                return True
            case FunctionToolCallEvent(part=part):
                self.end()
                line = words.call(part.tool_name, part.args_as_json_str())
                self._calls[part.tool_call_id] = self._transcript.say("call", line), line
            case FunctionToolResultEvent(part=part):
                self._completed(part)
                return True
        return False

    def _grow(self, text: str) -> None:
        self._text += text
        if not self._due:
            self._due = True
            self._later(FRAME, self._frame)

    def _frame(self) -> None:
        self._due = False
        # The last word may be the beginning of a secret or of a control sequence: it is shown once it is complete.
        complete_text = self._text[: max(self._text.rfind(" "), self._text.rfind("\n")) + 1].rstrip()
        if complete_text:
            self._say(complete_text)

    def _say(self, text: str) -> None:
        if self._answer is None:
            self._answer = self._transcript.say("answer", text)
        else:
            self._answer.say(text)

    def _completed(self, part: ToolReturnPart) -> None:
        item, line = self._calls.pop(part.tool_call_id, (None, ""))
        if item is not None:
            text = part.content if isinstance(part.content, str) else part.model_response_str()
            item.say(line + words.result(text, failed=part.outcome in _FAILED))

    def end(self) -> None:
        """Draws all of the streamed text; what comes next goes below it. Call it at the end of a run too."""
        if self._text.strip():
            self._say(self._text.strip())
        self._answer, self._text = None, ""
