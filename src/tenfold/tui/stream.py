"""Draws a run as it comes: the answer piece by piece, each call on one line that its result completes."""

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
"""Seconds between two drawings of an answer that streams in."""
_FAILED = frozenset({"failed", "retried"})


class Stream:
    """One run in the transcript. `later(seconds, call)` is a timer of the screen's."""

    def __init__(self, transcript: Transcript, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._transcript, self._later = transcript, later
        self._answer: Said | None = None
        self._text, self._due = "", False
        self._calls: dict[str, tuple[Said, str]] = {}

    def show(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> bool:
        """Draws one event, and says whether something was completed by it, so that the context is to be measured."""
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
        # The last word may be the beginning of a secret or of a control sequence: it is shown when it is whole.
        whole = self._text[: max(self._text.rfind(" "), self._text.rfind("\n")) + 1].rstrip()
        if whole:
            self._say(whole)

    def _say(self, text: str) -> None:
        if self._answer is None:
            self._answer = self._transcript.say("answer", text)
        else:
            self._answer.say(text)

    def _completed(self, part: ToolReturnPart) -> None:
        said, line = self._calls.pop(part.tool_call_id, (None, ""))
        if said is not None:
            text = part.content if isinstance(part.content, str) else part.model_response_str()
            said.say(line + words.result(text, failed=part.outcome in _FAILED))

    def end(self) -> None:
        """Draws the whole of what was streamed; what comes next stands below it. For the end of a run as well."""
        if self._text.strip():
            self._say(self._text.strip())
        self._answer, self._text = None, ""
