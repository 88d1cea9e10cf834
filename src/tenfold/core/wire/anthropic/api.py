"""The HTTP side of Anthropic Messages: its address, its answers, its streams, and its cache marks."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeGuard

import msgspec
from msgspec import Raw

from tenfold.core.wire import splice
from tenfold.core.wire.anthropic.messages import decode, render_batch
from tenfold.core.wire.anthropic.profile import PROFILE
from tenfold.core.wire.api import AnswerCall, AnswerForm, Api, Json, PieceKind, StreamForm, StreamPiece, encode_event
from tenfold.core.wire.encoding import Wire


class AnthropicAnswers(AnswerForm):
    """An answer is a list of content blocks."""

    parts_field = "content"
    thinking_kinds = ("thinking", "redacted_thinking")
    keeps_thinking = True
    finish_reasons: Mapping[object, str] = {"max_tokens": "length", "refusal": "refusal", "tool_use": "tool"}
    end_hints = (b'"message_stop"', b'"error"')
    end_events = ("message_stop", "error")
    report_field = "message"  # the prompt is told first, with the message, and the output at the end

    def get_messages(self, answer: Json) -> Sequence[Json]:
        """See `AnswerForm.get_messages`."""
        return [{"role": "assistant", "content": answer["content"]}]

    def find_end(self, answer: Json) -> object:
        """See `AnswerForm.find_end`."""
        return answer.get("stop_reason")

    def read_call(self, part: Json) -> AnswerCall | None:
        """See `AnswerForm.read_call`."""
        if part.get("type") != "tool_use":
            return None
        given = part.get("input")
        return AnswerCall(part.get("id", ""), part.get("name", ""), given if isinstance(given, dict) else None)

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """See `AnswerForm.build_turn`."""
        said = [part for part in self.get_parts(answer) if part.get("type") != "text" or part.get("text", "").strip()]
        said = [
            {**p, "input": {}} if p.get("type") == "tool_use" and not isinstance(p.get("input"), dict) else p
            for p in said
        ]
        given = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in zip(self.find_calls(answer), results, strict=True)
        ]
        return [{"role": "assistant", "content": said}, {"role": "user", "content": given}]

    def mend_end(self, answer: Json) -> Json:
        """See `AnswerForm.mend_end`."""
        return {**answer, "stop_reason": "end_turn"} if answer.get("stop_reason") == "tool_use" else answer


class AnthropicStream(StreamForm):
    """Blocks come one after the other, each with its number."""

    form = AnthropicAnswers()
    _first: tuple[int, PieceKind] | None = None
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'

    def start_round(self) -> None:
        """See `StreamForm.start_round`."""
        super().start_round()
        self._blocks: dict[int, Json] = {}
        self._kinds: dict[int, PieceKind] = {}
        self._inputs: dict[int, str] = {}
        self._prompt_usage: Json = {}

    def read(self, value: Json) -> list[StreamPiece]:
        """See `StreamForm.read`."""
        match value.get("type"):
            case "message_start":
                self._prompt_usage = (value.get("message") or {}).get("usage") or {}
                kind: PieceKind = "opening"
            case "content_block_start":
                kind = self._start_block(value["index"], dict(value.get("content_block") or {}))
            case "content_block_delta":
                self._add_delta(value["index"], value.get("delta") or {})
                kind = self._kinds.get(value["index"], "content")
            case "content_block_stop":
                kind = self._kinds.get(value["index"], "content")
            case "message_delta" | "message_stop":
                kind = "end"
            case "error":
                kind = "error"
            case _:
                kind = "other"
        return [StreamPiece(kind, value)]

    def _start_block(self, index: int, block: Json) -> PieceKind:
        self._blocks[index] = block
        self._kinds[index] = self.find_kind(block)
        return self._kinds[index]

    def _add_delta(self, index: int, delta: Json) -> None:
        block = self._blocks.setdefault(index, {})
        for key in ("text", "thinking", "signature"):
            if isinstance(delta.get(key), str):
                block[key] = (block.get(key) or "") + delta[key]
        if "partial_json" in delta:
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]

    def build_answer(self) -> Json:
        """See `StreamForm.build_answer`."""
        blocks = []
        for index, block in sorted(self._blocks.items()):
            given = self._inputs.get(index)
            blocks.append({**block, "input": splice.parse_value(given.encode())} if given else block)
        return {"content": blocks}

    def place(self, kind: PieceKind, value: Json, of_round: int) -> Json | None:
        """See `StreamForm.place`. Thinking of a later round is left out behind a text: it would have to come first."""
        if kind == "opening":
            return value if self.opened_in == of_round else None
        if kind == "end" and value.get("type") == "message_delta" and self.opened_in != of_round:
            usage = {key: n for key, n in self._prompt_usage.items() if key != "output_tokens" and n is not None}
            return {**value, "usage": {**usage, **(value.get("usage") or {})}}
        if "index" not in value:
            return value
        self._first = self._first or (of_round, kind)
        if kind == "thinking" and self._first[1] != "thinking" and self._first[0] != of_round:
            return None
        number = self._get_number(of_round, value["index"])
        return value if number == value["index"] else {**value, "index": number}

    def mend_end(self, value: Json) -> Json:
        """See `StreamForm.mend_end`."""
        delta = value.get("delta")
        return {**value, "delta": self.form.mend_end(delta)} if isinstance(delta, dict) else value

    def encode_error(self, error: Json) -> bytes:
        """See `StreamForm.encode_error`."""
        return encode_event("error", {"type": "error", "error": error})


# -- cache marks -------------------------------------------------------------------------------------------------------

_MARK = "cache_control"
_QUOTED = b'"cache_control"'


def mark_prefix(items: Sequence[bytes], own_items: Collection[bytes], fields: Mapping[str, Raw]) -> list[bytes] | None:
    """Sets a mark on the last message that is not the client's own, so that what a compaction replaced is cached.

    It is a copy of the next mark behind it, else of the last before: the provider wants those that live longest first.
    None where the client uses no marks, or as many as the provider takes.
    """
    own = set(own_items)
    last = max((at for at, item in enumerate(items) if item not in own), default=-1)
    marks = [_list_marks(Raw(item)) for item in items]
    before = [*_list_marks(fields.get("tools")), *_list_marks(fields.get("system"))]
    before += [mark for each in marks[: last + 1] for mark in each]
    top = fields.get(_MARK)  # it stands for one on the last block
    behind = [mark for each in marks[last + 1 :] for mark in each] + ([top] if _is_mark(top) else [])
    if last < 0 or not 0 < len(before) + len(behind) < PROFILE.max_cache_marks:
        return None
    marked = _mark_message(items[last], (behind[:1] or before[-1:])[0])
    return None if marked is None else [*items[:last], marked, *items[last + 1 :]]


def _is_mark(value: Raw | None) -> TypeGuard[Raw]:
    return value is not None and bytes(value) != b"null"


def _list_marks(value: Raw | None) -> list[Raw]:
    """Returns the marks of a message, or of a list of blocks or tools, in the order of the provider."""
    if value is None or _QUOTED not in bytes(value):
        return []
    fields = splice.parse_object(value)
    if fields is None:
        return [mark for each in splice.parse_array(value) or () for mark in _list_marks(each)]
    own = fields.get(_MARK)
    return _list_marks(fields.get("content")) + ([own] if _is_mark(own) else [])


def _mark_message(item: bytes, mark: Raw) -> bytes | None:
    """Returns a message with a mark on its last block, None if it has one or cannot take one."""
    fields = splice.parse_object(item)
    if fields is None or _list_marks(Raw(item)):
        return None
    text = splice.find_text(fields, "content")
    blocks = splice.parse_array(fields.get("content"))
    if text is not None:
        blocks = [Raw(msgspec.json.encode({"type": "text", "text": text}))]
    last = splice.parse_object(blocks[-1]) if blocks else None
    if not blocks or last is None or splice.get_text(last, "type") not in ("text", "tool_result", "tool_use"):
        return None
    content = splice.build_array([*map(bytes, blocks[:-1]), splice.join_fields({**last, _MARK: mark})])
    return splice.join_fields({**fields, "content": Raw(content)})


WIRE = Wire(
    PROFILE,
    decode,
    render_batch,
    Api(
        name="anthropic",
        provider="anthropic",
        address="https://api.anthropic.com",
        version="v1",
        resources=("/messages", "/models"),
        path=re.compile(r"/messages$"),
        headers=("anthropic-version", "x-api-key"),
        answers=AnthropicAnswers(),
        stream=AnthropicStream,
        mark_prefix=mark_prefix,
    ),
)
"""The wire of Anthropic Messages."""
