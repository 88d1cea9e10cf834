"""How a provider is reached over HTTP, and how its answers are read and written: what a gateway needs of a wire.

Everything here is a value or a pure function over JSON: nothing is sent. A wire without an `Api` is read and compacted
all the same, but the gateway does not know its requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from tenfold.core.wire import splice

Json = dict[str, Any]
PieceKind = Literal["opening", "thinking", "recall", "content", "call", "end", "error", "other"]
CacheMarker = Callable[[Sequence[bytes], Collection[bytes], Mapping[str, Raw]], list[bytes] | None]
"""Sets a cache mark at the end of what a compaction replaced. It is given the messages of a request, those of them that
are the client's own, and the fields of the request. None if no mark is set.
"""
READ_FAULTS = (LookupError, TypeError, AttributeError, ValueError)
"""What reading an answer raises that is not written as its API says."""


# -- answers -----------------------------------------------------------------------------------------------------------


class AnswerCall(Struct, frozen=True):
    """A call to a tool. `arguments` are None if they are no JSON object, as where the answer was cut off."""

    id: str
    name: str
    arguments: Mapping[str, object] | None


class AnswerForm:
    """How the answer of one API is written. An answer has parts, some of which are calls."""

    parts_field = ""
    """The field of an answer that holds its parts, where they stand at its top."""
    thinking_kinds: Collection[str] = ()
    """The types of the parts that are what the model thought."""
    keeps_thinking = False
    """Whether an answer has to begin with the thinking of the turns before it that the client does not see."""
    finish_reasons: Mapping[object, str] = {}
    """What ended an answer early, or with a call: to "length", "refusal" or "tool". Everything else is "stop"."""
    end_hints: tuple[bytes, ...] = (b'"error"',)
    """What an event of a stream holds that may be its last. All others need not be read for that."""
    end_events: Collection[str] = ()
    """The types of the events that a stream ends with."""
    report_field = ""
    """The field of an event that holds the usage report, where the event does not hold it itself."""

    def get_messages(self, answer: Json) -> Sequence[Json]:
        """Returns the native messages of an answer."""
        raise NotImplementedError

    def get_parts(self, answer: Json) -> list[Json]:
        """Returns the parts in order; where calls stand apart from the text, only the calls."""
        return list(answer.get(self.parts_field) or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        """Returns an answer with other parts."""
        return {**answer, self.parts_field: list(parts)}

    def read_call(self, part: Json) -> AnswerCall | None:
        """Returns the call to a tool of the client's that a part is, None for any other part."""
        raise NotImplementedError

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """Builds the messages that go into the next request: the answer, and the result of each of its calls."""
        raise NotImplementedError

    def is_thinking(self, part: Json) -> bool:
        """Whether a part is what the model thought."""
        return part.get("type") in self.thinking_kinds

    def has_text(self, answer: Json) -> bool:  # noqa: ARG002 - most have no other
        """Whether an answer has a text besides its parts."""
        return False

    def find_end(self, answer: Json) -> object:  # noqa: ARG002 - some do not say
        """Returns the provider's word for why an answer ended."""
        return None

    def mend_end(self, answer: Json) -> Json:
        """Returns an answer that ended for a call which it no longer has, as one that has ended."""
        return answer

    def mend_parts(self, kept: list[Json], parts: Sequence[Json]) -> list[Json]:  # noqa: ARG002 - most need nothing
        """Returns parts that stand for themselves after others were taken away."""
        return kept

    def is_stream_end(self, event: Json) -> bool:
        """Whether an event is one of those that a stream ends with."""
        return event.get("type") in self.end_events or bool(event.get("error"))

    def get_report_holder(self, event: Json) -> Json:
        """Returns what holds the usage report of an event."""
        holder = event.get(self.report_field)
        return holder if isinstance(holder, dict) else event

    def get_whole_answer(self, event: Json) -> Json | None:  # noqa: ARG002 - most have none
        """Returns the whole answer, if the last event of a stream holds it."""
        return None

    # -- what follows from these ---------------------------------------------------------------------------------------

    def read_finish(self, answer: Json) -> str:
        """Says why an answer ended: "stop", "length", "refusal" or "tool"."""
        return self.finish_reasons.get(self.find_end(answer), "stop")

    def join_answers(self, answers: Sequence[Json]) -> Json:
        """Joins what an API sends as a list of short answers."""
        parts = [part for answer in answers for part in self.get_parts(answer)]
        return self.put_parts(answers[-1], parts)

    def find_calls(self, answer: Json) -> list[AnswerCall]:
        """Returns the calls of an answer to tools of the client's, in order."""
        return [call for part in self.get_parts(answer) if (call := self.read_call(part)) is not None]

    def strip_calls(self, answer: Json, names: Collection[str]) -> Json | None:
        """Returns an answer without its calls to some tools, None if nothing that a client could use remains."""
        parts = self.get_parts(answer)
        kept: list[Json] = []
        for part in parts:
            call = self.read_call(part)
            if call is None or call.name not in names:
                kept.append(part)
            elif kept and self.is_thinking(kept[-1]) and not self.keeps_thinking:
                kept.pop()  # it belongs to the call
        kept = self.mend_parts(kept, parts)
        stripped = self.put_parts(answer, kept)
        if all(map(self.is_thinking, kept)) and not self.has_text(answer):
            return None
        return stripped if any(map(self.read_call, kept)) else self.mend_end(stripped)


# -- streams -----------------------------------------------------------------------------------------------------------


def encode_event(name: str, value: Json) -> bytes:
    """Encodes an event of a stream that has a name."""
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"


class StreamPiece(Struct, frozen=True):
    """What an event is, or a part of one that says several things. `call` is a call that the client has to run."""

    kind: PieceKind
    value: Json


class StreamForm:
    """How the streamed answers of one API are read, and several of them written into one.

    It lives as long as one answer to the client. It reads the events of one request after the other (a round each), and
    numbers what is passed on as one answer: places of blocks and items, ids, sequence numbers.
    """

    form: AnswerForm
    """The form of the whole answer."""
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

    def find_kind(self, part: Json) -> PieceKind:
        """Says what a part of an answer is."""
        call = self.form.read_call(part)
        if call is not None:
            return "recall" if call.name in self.names else "call"
        return "thinking" if self.form.is_thinking(part) else "content"

    def _get_number(self, of_round: int, place: int) -> int:
        return self._places.setdefault((of_round, place), len(self._places))


# -- the API -----------------------------------------------------------------------------------------------------------


class StoredAnswers(Struct, frozen=True, kw_only=True):
    """How a request names what the provider holds, where it stores its answers.

    `answer_field` is the field of a request with the id of the answer before it, `item_type` the type of an item that
    names another by its id, `store_field` the field that says whether an answer is stored. `items_field` is where an
    answer has its items.
    """

    answer_field: str
    item_type: str
    store_field: str
    items_field: str


class CompactionAnswer(Struct, frozen=True):
    """What a client gets that asks its provider to compact: `content`, which it keeps and sends in later requests.

    `suffix` makes ids of its own, `model` is the one that was asked, `prompt` and `output` are the tokens that writing
    the summary took.
    """

    suffix: str
    model: str
    content: str
    prompt: int
    output: int
    is_stream: bool


class CompactionForm(Struct, frozen=True):
    """How a client asks its provider to compact.

    `is_demand` says whether a message asks for it, `read_content` returns the content of one that was the answer to it
    ("" for any other message), and `build_answer` builds that answer: as JSON, or as a stream.
    """

    is_demand: Callable[[bytes], bool]
    read_content: Callable[[bytes], str]
    build_answer: Callable[[CompactionAnswer], bytes]


class Api(Struct, frozen=True, kw_only=True):
    """The HTTP side of a provider.

    `name` is what settings call the API, `provider` what stands before the name of a model, as in `openai:gpt-5`.
    `address` is the provider's own; `version` is what stands behind it in the path, in front of `resources`, where a
    client left it out.

    `path` matches the end of the path of a call to a model. Where the path names the model and says whether the answer
    is a stream, its groups `model` and `stream` do so, and `model_path` is the end of the path of a call that is not
    streamed, with `{model}` in it. A request that calls no model is this API's if it has one of `headers`, or one of
    `path_parts` in its path.

    A request of our own limits its answer by one of `limit_fields`: the one that the client uses, else the first one at
    the provider's address, and the last one elsewhere. It stands in `limit_holder`, if that is given. `fixed_fields`
    are added to such a request. `tool_lists` are the fields of a tool that holds a list of functions, where functions
    stand together in one tool.

    `answers` reads and writes answers, and `stream` streamed ones; without it, the model of a streamed request is not
    given the tools to look things up. `mark_prefix` sets a cache mark. `stored` and `compaction` are what a provider
    holds, and how it is asked to compact.
    """

    name: str
    provider: str
    address: str
    path: re.Pattern[str]
    answers: AnswerForm
    stream: type[StreamForm] | None = None
    version: str = ""
    resources: tuple[str, ...] = ()
    model_path: str = ""
    headers: tuple[str, ...] = ()
    path_parts: tuple[str, ...] = ()
    limit_fields: tuple[str, ...] = ("max_tokens",)
    limit_holder: str = ""
    fixed_fields: Mapping[str, object] = {}
    tool_lists: tuple[str, ...] = ()
    mark_prefix: CacheMarker | None = None
    stored: StoredAnswers | None = None
    compaction: CompactionForm | None = None
