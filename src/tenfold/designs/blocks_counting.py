"""Counting as the design behind the preset `blocks` does it: `TokenCounter`, of which a user overrides one method.

It is a `Counter`, so a policy, a session and every demand count with it. What the trigger goes by is the session's
Reading, which already is reported usage plus the estimate of what came since; `ContextTracker` does the same for lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tenfold.meter.counters import MESSAGE_TOKENS, PIXELS_PER_TOKEN
from tenfold.record.entry import Usage
from tenfold.record.message import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult

BYTES_PER_TOKEN = 4
CALL_TOKENS = 8
IMAGE_LEAST, IMAGE_MOST = 85, 16_000
"""As published: bytes of UTF-8 a token, what a call or a result takes besides its text, the bounds of an image."""


class TokenCounter:
    """A heuristic: a quarter of a token per byte of UTF-8. Override `estimate_text`, and nothing else.

    A subclass is a counter of its own: counts are remembered under its name.
    """

    @property
    def name(self) -> str:
        """What counts are filed under."""
        own = type(self)
        return "bytes4" if own is TokenCounter else f"{own.__module__}.{own.__qualname__}"

    def estimate_text(self, text: str) -> int:
        """Tokens of a plain text."""
        return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, in order: what makes it a `Counter`."""
        return [self.estimate_text(text) for text in texts]

    def estimate_message(self, message: Message) -> int:
        """Tokens of a message by the published rules: 4 for a user or assistant message, 8 for a tool result."""
        parts = sum(self._part(part) for part in message.parts)
        return parts if message.role == "tool" else parts + MESSAGE_TOKENS

    def estimate_messages(self, messages: Sequence[Message]) -> int:
        """Tokens of all of them."""
        return sum(self.estimate_message(message) for message in messages)

    def _part(self, part: Part) -> int:
        match part:
            case Text(text=text) | Thinking(text=text):
                return self.estimate_text(text)
            case ToolCall(name=name, arguments=arguments):
                return self.estimate_text(name) + self.estimate_text(arguments) + CALL_TOKENS
            case ToolResult(name=name, content=content):
                return sum(self._part(each) for each in content) + self.estimate_text(name) + CALL_TOKENS
            case Image(data=data):
                return image_tokens(len(data))
            case Document(text=text, data=data):
                return self.estimate_text(text) + self.estimate_text(data)
            case Opaque(raw=raw):
                return self.estimate_text(raw.decode("utf-8", "replace")) + MESSAGE_TOKENS
            case _:
                assert_never(part)


def image_tokens(base64_length: int) -> int:
    """Tokens of an image by the length of its base64 text: three quarters of it by 750, from 85 to 16,000.

    Only `TokenCounter.estimate_message` charges this; a policy charges pictures by their pixels.
    """
    return max(IMAGE_LEAST, min(IMAGE_MOST, base64_length * 3 // 4 // PIXELS_PER_TOKEN))


class ContextTracker:
    """How many tokens a list takes: what a provider reported up to one of its messages, and an estimate of the rest."""

    def __init__(self, counter: TokenCounter | None = None) -> None:
        """Starts without any report."""
        self._counter = counter or TokenCounter()
        self._reported: tuple[int, int] | None = None

    def record_usage(self, usage: Usage, index: int) -> None:
        """Notes a report that covers the messages up to `index`; one that counts nothing is left out.

        `Usage.prompt` holds what was read from and written to a cache already, so prompt and output are the whole.
        """
        total = usage.prompt + usage.output
        if total > 0:
            self._reported = (total, index)

    def estimate(self, messages: Sequence[Message]) -> int:
        """The report plus the estimate of what follows its message; the estimate alone where there is none."""
        if self._reported is None or not 0 <= self._reported[1] < len(messages):
            return self._counter.estimate_messages(messages)
        total, index = self._reported
        return total + self._counter.estimate_messages(messages[index + 1 :])

    def reset(self) -> None:
        """Forgets the report."""
        self._reported = None
