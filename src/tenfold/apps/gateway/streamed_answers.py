"""Reads the streamed answers of each API, and writes several of them into one.

A `StreamForm` reads the events of one request after the other (a round each), and numbers what is passed on as one
answer: places of blocks and items, ids, sequence numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenfold.apps.gateway.model_answers import ANSWER_FORMS, CHAT_THINKING, OTHER_CLIENT_CALLS, AnswerForm
from tenfold.core.wire import splice

Json = dict[str, Any]
PieceKind = Literal["opening", "thinking", "recall", "content", "call", "end", "error", "other"]


class StreamPiece(Struct, frozen=True):
    """What an event is, or a part of one that says several things. `call` is a call that the client has to run."""

    kind: PieceKind
    value: Json


class StreamForm:
    """How the streamed answers of one API are read and joined. It lives as long as one answer to the client."""

    wire = ""
    keep_alive = b": keep-alive\n\n"
    """What a client may be sent at any time to say that there is more to come: a comment."""

    def __init__(self, names: Collection[str]) -> None:
        """`names` are the tools whose calls are not the client's.

        `opened_in` is the round from which the first event was passed on; `lacks_calls` says that calls were taken out
        of the answer of the present round. `final` is the whole answer, if the last event has it.
        """
        self.names = names
        self.round = 0
        self.opened_in = 0
        self.lacks_calls = False
        self.final: Json = {}
        self._places: dict[tuple[int, int], int] = {}
        self.start_round()

    @property
    def form(self) -> AnswerForm:
        """The form of the whole answer."""
        return ANSWER_FORMS[self.wire]

    def start_round(self) -> None:
        """Begins to read the answer to the next request."""
        self.round += 1

    def read(self, value: Json) -> list[StreamPiece]:
        """Says what an event is, and keeps what it adds to the answer of this round."""
        raise NotImplementedError

    def build_answer(self) -> Json:
        """Returns what was read in this round as a whole answer."""
        raise NotImplementedError

    def place(self, kind: PieceKind, value: Json, of_round: int) -> Json | None:
        """Returns the event for its place in the client's answer, None if it has none. The same object: unchanged."""
        raise NotImplementedError

    def mend_end(self, value: Json) -> Json:
        """Returns the event of an end for an answer whose calls were all taken out."""
        return value

    def build_error(self, body: bytes) -> bytes:
        """Builds the event that says that the answer failed, from the body of a provider's error."""
        value = splice.parse_value(body)
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            error = {"type": "api_error", "message": body.decode("utf-8", "replace")[:2_000]}
        return self.encode_error(error)

    def encode_error(self, error: Json) -> bytes:
        """Encodes the event of an error."""
        return b"data: " + msgspec.json.encode({"error": error}) + b"\n\n"

    def _get_number(self, of_round: int, place: int) -> int:
        return self._places.setdefault((of_round, place), len(self._places))


class AnthropicStream(StreamForm):
    """Anthropic's Messages: blocks one after the other, each with its number."""

    wire = "anthropic"
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'

    def start_round(self) -> None:
        """See `StreamForm.start_round`."""
        super().start_round()
        self._blocks: dict[int, Json] = {}
        self._kinds: dict[int, PieceKind] = {}
        self._inputs: dict[int, str] = {}
        self._prompt_usage: Json = {}

    def __init__(self, names: Collection[str]) -> None:
        """See `StreamForm`."""
        super().__init__(names)
        self._first: tuple[int, PieceKind] | None = None

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
        call = self.form.read_call(block)
        if call is not None:
            kind: PieceKind = "recall" if call.name in self.names else "call"
        else:
            kind = "thinking" if self.form.is_thinking(block) else "content"
        self._kinds[index] = kind
        return kind

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
        return b"event: error\ndata: " + msgspec.json.encode({"type": "error", "error": error}) + b"\n\n"


class ResponsesStream(StreamForm):
    """OpenAI's Responses: items with their numbers, and a number for each event."""

    wire = "openai-responses"

    def __init__(self, names: Collection[str]) -> None:
        """See `StreamForm`."""
        super().__init__(names)
        self._passed: list[Json] = []
        self._sequence: int | None = None

    def start_round(self) -> None:
        """See `StreamForm.start_round`."""
        super().start_round()
        self._items: dict[int, Json] = {}
        self._kinds: dict[int, PieceKind] = {}
        self._response: Json = {}

    def read(self, value: Json) -> list[StreamPiece]:
        """See `StreamForm.read`."""
        name, index = value.get("type", ""), value.get("output_index")
        if isinstance(index, int):
            item = value.get("item")
            if isinstance(item, dict):
                self._items[index] = item
                self._kinds[index] = self._find_kind(item)
            return [StreamPiece(self._kinds.get(index, "content"), value)]
        if isinstance(value.get("response"), dict):
            self._response = value["response"]
        if name in ("response.created", "response.in_progress", "response.queued"):
            return [StreamPiece("opening", value)]
        if name in ("response.completed", "response.incomplete"):
            return [StreamPiece("end", value)]
        return [StreamPiece("error" if name in ("error", "response.failed") else "other", value)]

    def _find_kind(self, item: Json) -> PieceKind:
        call = self.form.read_call(item)
        if call is not None:
            return "recall" if call.name in self.names else "call"
        if item.get("type") in OTHER_CLIENT_CALLS:
            return "call"
        return "thinking" if self.form.is_thinking(item) else "content"

    def build_answer(self) -> Json:
        """See `StreamForm.build_answer`."""
        return {**self._response, "output": [item for _, item in sorted(self._items.items())]}

    def place(self, kind: PieceKind, value: Json, of_round: int) -> Json | None:
        """See `StreamForm.place`."""
        if kind == "opening" and self.opened_in != of_round:
            return None
        placed, index = value, value.get("output_index")
        if isinstance(index, int):
            number = self._get_number(of_round, index)
            if value.get("type") == "response.output_item.done":
                self._passed.append(value.get("item") or {})
            placed = placed if number == index else {**placed, "output_index": number}
        response = value.get("response")
        if kind == "end" and isinstance(response, dict):
            is_all = self.opened_in == of_round and not self.lacks_calls
            placed = placed if is_all else {**placed, "response": {**response, "output": self._passed}}
            self.final = placed["response"]
        given = value.get("sequence_number")
        if isinstance(given, int):
            self._sequence = given if self._sequence is None else self._sequence + 1
            placed = placed if given == self._sequence else {**placed, "sequence_number": self._sequence}
        return placed

    def encode_error(self, error: Json) -> bytes:
        """See `StreamForm.encode_error`. As documented, and under `error`, where OpenAI's client looks."""
        self._sequence = (self._sequence or 0) + 1
        code = str(error.get("code") or error.get("type"))
        said = {"code": code, "message": error.get("message"), "param": error.get("param")}
        value = {"type": "error", **said, "error": error, "sequence_number": self._sequence}
        return b"event: error\ndata: " + msgspec.json.encode(value) + b"\n\n"


class ChatStream(StreamForm):
    """OpenAI's Chat Completions: deltas of one message, and calls with their numbers."""

    wire = "openai-chat"

    def __init__(self, names: Collection[str]) -> None:
        """See `StreamForm`."""
        super().__init__(names)
        self._identity: Json = {}

    def start_round(self) -> None:
        """See `StreamForm.start_round`."""
        super().start_round()
        self._message: Json = {}
        self._calls: dict[int, Json] = {}
        self._is_finished = False

    def read(self, value: Json) -> list[StreamPiece]:
        """See `StreamForm.read`."""
        if value.get("error"):
            return [StreamPiece("error", value)]
        choice = next(iter(value.get("choices") or []), None)
        if choice is None:
            return [StreamPiece("end" if self._is_finished else "opening", value)]
        delta = choice.get("delta") or {}
        self._add_delta(delta)
        entries = delta.get("tool_calls") or []
        recalls = [entry for entry in entries if self._is_recall(entry)]
        has_text = any(delta.get(key) for key in ("content", "refusal", "audio"))
        ends = bool(choice.get("finish_reason"))
        self._is_finished = self._is_finished or ends
        if recalls or (ends and any(map(self._is_recall, self._calls.values()))):
            return self._split_chunk(value, entries, recalls, has_text=has_text, ends=ends)
        if entries:
            return [StreamPiece("call", value)]
        if has_text:
            return [StreamPiece("content", value)]
        if ends:
            return [StreamPiece("end", value)]
        return [StreamPiece("thinking" if any(delta.get(key) for key in CHAT_THINKING) else "opening", value)]

    def _split_chunk(
        self, value: Json, entries: list[Json], recalls: list[Json], *, has_text: bool, ends: bool
    ) -> list[StreamPiece]:
        """Splits what a chunk says beside a call that is not the client's."""
        (choice, *_), delta = value["choices"], value["choices"][0].get("delta") or {}

        def build(delta: Json, finish: object = None) -> Json:
            return {**value, "choices": [{**choice, "delta": delta, "finish_reason": finish}]}

        pieces = []
        if has_text:
            text = {key: part for key, part in delta.items() if key != "tool_calls"}
            pieces.append(StreamPiece("content", build(text)))
        for entry in entries:
            kind: PieceKind = "recall" if entry in recalls else "call"
            pieces.append(StreamPiece(kind, build({"tool_calls": [entry]})))
        if ends:
            pieces.append(StreamPiece("end", build({}, choice["finish_reason"])))
        return pieces

    def _is_recall(self, entry: Json) -> bool:
        call = self._calls.get(self._find_number(entry), entry)
        return (call.get("function") or {}).get("name") in self.names

    def _find_number(self, entry: Json) -> int:
        """Returns the number of the call that an entry adds to. Some servers give none."""
        index, id_ = entry.get("index"), entry.get("id")
        if isinstance(index, int):
            return index
        found = next((number for number, call in self._calls.items() if id_ and call.get("id") == id_), None)
        if found is not None:
            return found
        return len(self._calls) if id_ or not self._calls else max(self._calls)

    def _add_delta(self, delta: Json) -> None:
        for key in ("content", *CHAT_THINKING):
            part = delta.get(key)
            if part:  # a text, or a list
                self._message[key] = self._message[key] + part if key in self._message else part
        for entry in delta.get("tool_calls") or []:
            call = self._calls.setdefault(self._find_number(entry), {"function": {}})
            function = entry.get("function") or {}
            call.update({key: part for key, part in entry.items() if part is not None and key != "function"})
            call["function"] = {
                **call["function"],
                **{key: part for key, part in function.items() if part is not None and key != "arguments"},
                "arguments": call["function"].get("arguments", "") + (function.get("arguments") or ""),
            }

    def build_answer(self) -> Json:
        """See `StreamForm.build_answer`."""
        calls = [{k: v for k, v in call.items() if k != "index"} for _, call in sorted(self._calls.items())]
        return {"choices": [{"message": {**self._message, "tool_calls": calls}}]}

    def place(self, kind: PieceKind, value: Json, of_round: int) -> Json | None:
        """See `StreamForm.place`."""
        if self.opened_in != of_round:
            if kind == "opening":
                return None
            value = {**value, **self._identity}
        self._identity = self._identity or {key: value[key] for key in ("id", "created") if key in value}
        choice = next(iter(value.get("choices") or []), None)
        if choice is None:
            return value
        delta = choice.get("delta") or {}
        changed = {key: part for key, part in delta.items() if key != "role"} if of_round != self.opened_in else delta
        if delta.get("tool_calls"):
            given = [entry.get("index") for entry in delta["tool_calls"]]
            numbers = [None if n is None else self._get_number(of_round, n) for n in given]
            if numbers != given:
                entries = [{**e, "index": n} for e, n in zip(delta["tool_calls"], numbers, strict=True)]
                changed = {**changed, "tool_calls": entries}
        return value if changed is delta else {**value, "choices": [{**choice, "delta": changed}]}

    def mend_end(self, value: Json) -> Json:
        """See `StreamForm.mend_end`."""
        return self.form.mend_end(value)


class GeminiStream(StreamForm):
    """Gemini: each event is a short answer with the next parts."""

    wire = "gemini"
    keep_alive = b"\n\n"  # Google's own clients take a comment for a part of an answer, and skip empty lines

    def start_round(self) -> None:
        """See `StreamForm.start_round`."""
        super().start_round()
        self._parts: list[Json] = []
        self._is_unsigned = False

    def read(self, value: Json) -> list[StreamPiece]:
        """See `StreamForm.read`."""
        if "error" in value:
            return [StreamPiece("error", value)]
        parts = self.form.get_parts(value)
        for part in parts:
            self._add_part(part)
        candidate: Json = next(iter(value.get("candidates") or []), {})
        ends = bool(candidate.get("finishReason"))
        if any(self._find_kind(part) == "recall" for part in (self._parts if ends else parts)):
            return self._split_event(value, parts, candidate, ends=ends)
        kinds = {self._find_kind(part) for part in parts}
        if "call" in kinds:
            return [StreamPiece("call", value)]
        if "content" in kinds:
            return [StreamPiece("content", value)]
        if ends or "promptFeedback" in value:
            return [StreamPiece("end", value)]
        return [StreamPiece("thinking" if kinds else "opening", value)]

    def _add_part(self, part: Json) -> None:
        """Adds a part, a text to the text before it: a text comes in many parts."""
        last = self._parts[-1] if self._parts else {}
        if set(part) - {"thought"} == {"text"} and "text" in last and {**last, "text": part["text"]} == part:
            self._parts[-1] = {**part, "text": last["text"] + part["text"]}
        else:
            self._parts.append(part)

    def _find_kind(self, part: Json) -> PieceKind:
        call = self.form.read_call(part)
        if call is not None:
            return "recall" if call.name in self.names else "call"
        return "thinking" if self.form.is_thinking(part) else "content"

    def _split_event(self, value: Json, parts: list[Json], candidate: Json, *, ends: bool) -> list[StreamPiece]:
        """Splits what an event says beside a call that is not the client's."""
        bare = {key: part for key, part in candidate.items() if key != "finishReason"}
        begun = {**value, "candidates": [bare]}
        pieces = [StreamPiece(self._find_kind(part), self.form.put_parts(begun, [part])) for part in parts]
        return [*pieces, StreamPiece("end", self.form.put_parts(value, []))] if ends else pieces

    def build_answer(self) -> Json:
        """See `StreamForm.build_answer`."""
        return {"candidates": [{"content": {"role": "model", "parts": self._parts}}]}

    def place(self, kind: PieceKind, value: Json, of_round: int) -> Json | None:
        """See `StreamForm.place`. The first call has a signature, even if the one that had it was taken out."""
        if kind != "call" or (of_round, 0) in self._places:
            return value
        self._get_number(of_round, 0)
        signed = next((part for part in self._parts if "functionCall" in part), {})
        parts = self.form.get_parts(value)
        mended = self.form.mend_parts(parts, [signed, *parts])
        return value if mended is parts else self.form.put_parts(value, mended)


STREAM_FORMS: Mapping[str, type[StreamForm]] = {
    form.wire: form for form in (AnthropicStream, ResponsesStream, ChatStream, GeminiStream)
}
