"""Token counting of the design behind the preset `blocks`.

`TokenCounter` is a `Counter`, so a policy or a session can count with it; to change it, override `estimate_text`.
`ContextTracker` adds reported usage, for lists that belong to no session. A session's Reading does that by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tenfold.core.meter.counters import MESSAGE_OVERHEAD
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult

BYTES_PER_TOKEN = 4
CALL_TOKENS = 8
PIXELS_PER_TOKEN = 750
MIN_IMAGE_TOKENS, MAX_IMAGE_TOKENS = 85, 16_000
"""As published: UTF-8 bytes per token, tokens that a call or result takes besides its text, and of an image the bytes
per token and its bounds.
"""


class TokenCounter:
    """Estimates a quarter of a token per byte of UTF-8. To change the estimate, override `estimate_text` only.

    Counts are stored under the counter's name, and each subclass has its own.
    """

    @property
    def name(self) -> str:
        """The name under which counts are stored."""
        own = type(self)
        return "bytes4" if own is TokenCounter else f"{own.__module__}.{own.__qualname__}"

    def estimate_text(self, text: str) -> int:
        """Estimates the tokens of a plain text."""
        return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Counts the tokens of each text, in order, as a `Counter` must."""
        return [self.estimate_text(text) for text in texts]

    def estimate_message(self, message: Message) -> int:
        """Estimates a message, with 4 tokens extra for one of a user or assistant and 8 for a tool result."""
        parts = sum(self._estimate_part(part) for part in message.parts)
        return parts if message.role == "tool" else parts + MESSAGE_OVERHEAD

    def estimate_messages(self, messages: Sequence[Message]) -> int:
        """Estimates the tokens of all messages together."""
        return sum(self.estimate_message(message) for message in messages)

    def _estimate_part(self, part: Part) -> int:
        match part:
            case Text(text=text) | Thinking(text=text):
                return self.estimate_text(text)
            case ToolCall(name=name, arguments=arguments):
                return self.estimate_text(name) + self.estimate_text(arguments) + CALL_TOKENS
            case ToolResult(name=name, content=content):
                return sum(self._estimate_part(each) for each in content) + self.estimate_text(name) + CALL_TOKENS
            case Image(data=data):
                return estimate_image(len(data))
            case Document(text=text, data=data):
                return self.estimate_text(text) + self.estimate_text(data)
            case OpaquePart(raw=raw):
                return self.estimate_text(raw.decode("utf-8", "replace")) + MESSAGE_OVERHEAD
            case _:
                assert_never(part)


def estimate_image(base64_length: int) -> int:
    """Estimates an image from the length of its base64 text: length * 3/4 / 750, at least 85, at most 16,000 tokens.

    Only `TokenCounter.estimate_message` uses this; a policy counts images by their pixels.
    """
    return max(MIN_IMAGE_TOKENS, min(MAX_IMAGE_TOKENS, base64_length * 3 // 4 // PIXELS_PER_TOKEN))


class ContextTracker:
    """Sizes a list: the usage that a provider reported up to one message, plus an estimate of the later ones."""

    def __init__(self, counter: TokenCounter | None = None) -> None:
        """Starts without reported usage. `counter` estimates what was not reported."""
        self._counter = counter or TokenCounter()
        self._last_report: tuple[int, int] | None = None

    def record_usage(self, usage: Usage, index: int) -> None:
        """Stores the usage of a request that held the messages up to `index`. Zero usage is ignored.

        `Usage.prompt` includes cached tokens, so prompt plus output is the total.
        """
        total = usage.prompt + usage.output
        if total > 0:
            self._last_report = (total, index)

    def estimate(self, messages: Sequence[Message]) -> int:
        """Returns the reported tokens plus an estimate of later messages; without a report, an estimate of all."""
        if self._last_report is None or not 0 <= self._last_report[1] < len(messages):
            return self._counter.estimate_messages(messages)
        total, index = self._last_report
        return total + self._counter.estimate_messages(messages[index + 1 :])

    def reset(self) -> None:
        """Forgets the reported usage."""
        self._last_report = None
