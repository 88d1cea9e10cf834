"""Reads from the bytes of a response, while they pass, what the provider counted and whether the response is whole."""

from __future__ import annotations

import asyncio
from typing import Any

from tenfold.apps.gateway.event_stream import EventSplitter, parse_event
from tenfold.apps.gateway.incoming_request import unpack_bytes
from tenfold.core.wire import get_wire, splice

_DONE = b"[DONE]"
"""What many servers send behind the last event."""
MAX_ANSWER = 32 * 1024 * 1024
"""Bytes of an event of a stream, or of a whole response, that are kept to be read. Anything larger only passes."""
_LONG = 256 * 1024
"""Bytes from which on reading is left to a thread."""


class UsageReader:
    """Feed it the chunks of a response in order, and `finish` it. Of a stream it keeps only the event that is open."""

    def __init__(self, wire: str, *, is_stream: bool, encodings: str = "") -> None:
        """`wire` has an `Api`. `encodings` is the header `content-encoding`. What comes compressed is read last."""
        api = get_wire(wire).api
        assert api is not None
        self._form = api.answers
        self._holders = tuple(dict.fromkeys(usage.holder for usage in get_wire(wire).profile.usage))
        self._hints = (_DONE, *self._form.end_hints, *(f'"{name}"'.encode() for name in self._holders))
        self._is_stream, self._encodings = is_stream, encodings
        self._splitter, self._chunks = EventSplitter(MAX_ANSWER), list[bytes]()
        self._report: dict[str, Any] = {}
        self._size = 0
        self.is_complete = not is_stream or api.stream is None  # else nobody can tell
        self.response: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        if self._is_stream and not self._encodings:
            self._read_stream(chunk)
            return
        self._size += len(chunk)
        if self._size <= MAX_ANSWER:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    async def finish(self) -> dict[str, Any]:
        """Returns the usage report of the response, as `Session.after_model` takes it. Empty if there was none."""
        if self._size > _LONG or self._encodings:
            return await asyncio.to_thread(self._finish)
        return self._finish()

    def _finish(self) -> dict[str, Any]:
        body = unpack_bytes(b"".join(self._chunks), self._encodings, MAX_ANSWER) if self._chunks else b""
        self._chunks.clear()
        is_readable = body is not None and len(body) <= MAX_ANSWER and self._size <= MAX_ANSWER
        if self._is_stream:
            self._read_stream((body or b"") if is_readable else b"")
            self._read_event(self._splitter.rest)
            self.is_complete = self.is_complete or not is_readable  # nobody can tell
            return self._report
        value = splice.parse_value(body) if body and is_readable else None
        if isinstance(value, list):  # Gemini's stream, where it is none of events: one short answer after the other
            for each in value:
                self._read_usage(each if isinstance(each, dict) else {})
            return self._report
        self.response = value if isinstance(value, dict) else {}
        return self.response

    def _read_stream(self, data: bytes) -> None:
        for raw in self._splitter.cut(data):
            self._read_event(raw)

    def _read_event(self, raw: bytes) -> None:
        if len(raw) > MAX_ANSWER or not any(hint in raw for hint in self._hints):
            return
        event = parse_event(raw)
        if event.value is None:
            self.is_complete = self.is_complete or event.data.strip() == _DONE
            return
        self.is_complete = self.is_complete or self._form.is_stream_end(event.value)
        self._read_usage(event.value)
        self.response = self._form.get_whole_answer(event.value) or self.response

    def _read_usage(self, value: dict[str, Any]) -> None:
        holder = self._form.get_report_holder(value)
        for key in self._holders:
            if isinstance(holder.get(key), dict):  # some tell the prompt first and the output at the end
                self._report = {key: {**self._report.get(key, {}), **holder[key]}}
