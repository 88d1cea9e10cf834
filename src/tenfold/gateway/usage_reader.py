"""Reads from the bytes of a response, while they pass, what the provider counted and whether the response is whole."""

from __future__ import annotations

from typing import Any

from tenfold.wire import splice

_MARKS = (b'"usage"', b'"usageMetadata"', b'"usage_metadata"')
_ENDS = (
    b"data: [DONE]",
    b'"message_stop"',
    b'"response.completed"',
    b'"response.incomplete"',
    b'"response.failed"',
    b'"finish_reason":"',
    b'"finish_reason": "',
    b'"finishReason"',
    b'"error"',
)
"""What the last events of a stream hold, by API."""
MAX_LINE = 32 * 1024 * 1024
"""Bytes of a line of a stream, or of a whole response, that are kept to be read. Anything larger only passes."""


class UsageReader:
    """Feed it the chunks of a response in order. It keeps only the line that is not complete yet."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream, self._rest, self._chunks = is_stream, b"", list[bytes]()
        self._report: dict[str, Any] = {}
        self._size = 0
        self.is_complete = not is_stream
        self.response: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        if not self._is_stream:
            self._size += len(chunk)
            self._chunks.append(chunk)
            if self._size > MAX_LINE:
                self._chunks.clear()
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest = b""
        for line in lines:
            self._read_line(line)

    def finish(self) -> dict[str, Any]:
        """Returns the usage report of the response, as `Session.after_model` takes it. Empty if there was none."""
        if self._is_stream:
            self._read_line(self._rest)
            self._rest = b""
            return self._report
        value = splice.parse_value(b"".join(self._chunks))
        self.response = value if isinstance(value, dict) else {}
        self._chunks.clear()
        return self.response

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        if any(end in line for end in _ENDS):
            self.is_complete = True
        if not any(mark in line for mark in _MARKS):
            return
        event = splice.parse_value(line[5:].strip())
        if not isinstance(event, dict):
            return
        holder = next((event[key] for key in ("response", "message") if isinstance(event.get(key), dict)), event)
        for key in ("usage", "usageMetadata", "usage_metadata"):
            if isinstance(holder.get(key), dict):  # Anthropic tells the prompt first and the output at the end
                self._report = {key: {**self._report.get(key, {}), **holder[key]}}
        if isinstance(event.get("response"), dict) and event.get("type") in (
            "response.completed",
            "response.incomplete",
        ):
            self.response = event["response"]
