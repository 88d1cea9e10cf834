"""The HTTP side of OpenAI Responses: its address, its answers, its streams, what it stores, and how it compacts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from tenfold.core.wire import splice
from tenfold.core.wire.api import (
    AnswerCall,
    AnswerForm,
    Api,
    CompactionAnswer,
    CompactionForm,
    Json,
    PieceKind,
    StoredAnswers,
    StreamForm,
    StreamPiece,
    encode_event,
)
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.openai_content import OPENAI_ADDRESS, mend_arguments, parse_arguments
from tenfold.core.wire.openai_responses.messages import decode, render_batch
from tenfold.core.wire.openai_responses.profile import PROFILE

_OTHER_CALLS = frozenset({"local_shell_call", "shell_call", "apply_patch_call", "computer_call"})
"""Items that the client runs and that have outputs of their own kinds."""
_WHOLE = ("response.completed", "response.incomplete")
"""The last events of a stream that hold the whole answer."""


class ResponsesAnswers(AnswerForm):
    """An answer is a list of items."""

    parts_field = "output"
    thinking_kinds = ("reasoning",)
    finish_reasons: Mapping[object, str] = {"max_output_tokens": "length", "content_filter": "refusal"}
    end_hints = (b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"error"')
    end_events = (*_WHOLE, "response.failed", "error")
    report_field = "response"

    def get_messages(self, answer: Json) -> Sequence[Json]:
        """See `AnswerForm.get_messages`."""
        items: list[Json] = answer["output"]
        return items

    def find_end(self, answer: Json) -> object:
        """See `AnswerForm.find_end`."""
        return (answer.get("incomplete_details") or {}).get("reason")

    def get_whole_answer(self, event: Json) -> Json | None:
        """See `AnswerForm.get_whole_answer`."""
        response = event.get("response")
        return response if isinstance(response, dict) and event.get("type") in _WHOLE else None

    def read_call(self, part: Json) -> AnswerCall | None:
        """See `AnswerForm.read_call`."""
        if part.get("type") not in ("function_call", "custom_tool_call"):
            return None
        return AnswerCall(part.get("call_id", ""), part.get("name", ""), parse_arguments(part.get("arguments")))

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """See `AnswerForm.build_turn`."""
        is_stored = answer.get("store") is not False
        said = [
            mend_arguments(item)
            for item in self.get_parts(answer)
            if item.get("type") not in _OTHER_CALLS
            and (is_stored or not self.is_thinking(item) or item.get("encrypted_content"))
        ]
        kinds = (item["type"] for item in said if self.read_call(item) is not None)
        given = [
            {"type": f"{kind}_output", "call_id": call.id, "output": text}
            for kind, call, text in zip(kinds, self.find_calls(answer), results, strict=True)
        ]
        return [*said, *given]


class ResponsesStream(StreamForm):
    """Items with their numbers, and a number for each event."""

    form = ResponsesAnswers()
    _passed: tuple[Json, ...] = ()
    _sequence: int | None = None

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
                self._kinds[index] = self.find_kind(item)
            return [StreamPiece(self._kinds.get(index, "content"), value)]
        if isinstance(value.get("response"), dict):
            self._response = value["response"]
        if name in ("response.created", "response.in_progress", "response.queued"):
            return [StreamPiece("opening", value)]
        if name in _WHOLE:
            return [StreamPiece("end", value)]
        return [StreamPiece("error" if name in ("error", "response.failed") else "other", value)]

    def find_kind(self, part: Json) -> PieceKind:
        """See `StreamForm.find_kind`."""
        return "call" if part.get("type") in _OTHER_CALLS else super().find_kind(part)

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
                self._passed = (*self._passed, value.get("item") or {})
            placed = placed if number == index else {**placed, "output_index": number}
        response = value.get("response")
        if kind == "end" and isinstance(response, dict):
            is_all = self.opened_in == of_round and not self.lacks_calls
            placed = placed if is_all else {**placed, "response": {**response, "output": list(self._passed)}}
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
        return encode_event("error", value)


# -- compaction --------------------------------------------------------------------------------------------------------

_DEMAND = "compaction_trigger"


def is_demand(item: bytes) -> bool:
    """Whether an item asks the provider to compact what stands before it."""
    return _DEMAND.encode() in item and splice.get_text(splice.parse_object(item) or {}, "type") == _DEMAND


def read_compaction(item: bytes) -> str:
    """Returns the content of a compaction item, "" for any other item."""
    fields = splice.parse_object(item) or {}
    is_compaction = splice.get_text(fields, "type") == "compaction"
    return splice.get_text(fields, "encrypted_content") if is_compaction else ""


def build_compaction(given: CompactionAnswer) -> bytes:
    """Builds the answer to a demand: one compaction item, as JSON or as a stream."""
    item = {"id": f"cmp_{given.suffix}", "type": "compaction", "encrypted_content": given.content}
    usage = {
        "input_tokens": given.prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": given.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given.prompt + given.output,
    }
    response = {
        "id": f"resp_{given.suffix}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": given.model,
        "output": [item],
        "usage": usage,
    }
    if not given.is_stream:
        return msgspec.json.encode(response)
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    events: tuple[tuple[str, Json], ...] = (
        ("response.created", {"response": opening}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    )
    return b"".join(
        encode_event(kind, {"type": kind, "sequence_number": number, **fields})
        for number, (kind, fields) in enumerate(events)
    )


WIRE = Wire(
    PROFILE,
    decode,
    render_batch,
    Api(
        name="openai",
        provider="openai",
        address=OPENAI_ADDRESS,
        path=re.compile(r"/responses$"),
        limit_fields=("max_output_tokens",),
        fixed_fields={"store": False},
        answers=ResponsesAnswers(),
        stream=ResponsesStream,
        stored=StoredAnswers(
            answer_field="previous_response_id", item_type="item_reference", store_field="store", items_field="output"
        ),
        compaction=CompactionForm(is_demand, read_compaction, build_compaction),
    ),
)
"""The wire of OpenAI Responses."""
