"""The HTTP side of OpenAI Chat Completions: its address, its answers and its streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tenfold.core.wire.api import AnswerCall, AnswerForm, Api, Json, PieceKind, StreamForm, StreamPiece
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.openai_chat.messages import decode, render_batch
from tenfold.core.wire.openai_chat.profile import PROFILE
from tenfold.core.wire.openai_content import OPENAI_ADDRESS, mend_arguments, parse_arguments

_THINKING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields in which servers tell what the model thought, and take it back."""


class ChatAnswers(AnswerForm):
    """An answer is one message, in which the calls stand apart from the text."""

    finish_reasons: Mapping[object, str] = {
        "length": "length",
        "max_tokens": "length",  # some servers pass on what another API says
        "content_filter": "refusal",
        "tool_calls": "tool",
    }
    end_hints = (b'"finish_reason"', b'"error"')

    def get_messages(self, answer: Json) -> Sequence[Json]:
        """See `AnswerForm.get_messages`."""
        return [answer["choices"][0]["message"]]

    def find_end(self, answer: Json) -> object:
        """See `AnswerForm.find_end`."""
        return answer["choices"][0].get("finish_reason")

    def is_stream_end(self, event: Json) -> bool:
        """See `AnswerForm.is_stream_end`."""
        choices = event.get("choices")
        ended = isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)
        return ended or super().is_stream_end(event)

    def get_parts(self, answer: Json) -> list[Json]:
        """See `AnswerForm.get_parts`."""
        return list(_get_message(answer).get("tool_calls") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        """See `AnswerForm.put_parts`."""
        message = {key: value for key, value in _get_message(answer).items() if key != "tool_calls"}
        if parts:
            message["tool_calls"] = list(parts)
        choice, *others = answer["choices"]
        return {**answer, "choices": [{**choice, "message": message}, *others]}

    def read_call(self, part: Json) -> AnswerCall | None:
        """See `AnswerForm.read_call`."""
        function = part.get("function") or part.get("custom") or {}
        arguments = parse_arguments(function.get("arguments"))
        return AnswerCall(part.get("id", ""), function.get("name", ""), arguments)

    def has_text(self, answer: Json) -> bool:
        """See `AnswerForm.has_text`."""
        return bool(_get_message(answer).get("content"))

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """See `AnswerForm.build_turn`."""
        message = _get_message(answer)
        said = {key: message[key] for key in _THINKING if message.get(key)}
        calls = [
            {**part, "function": mend_arguments(part["function"])} if "function" in part else part
            for part in self.get_parts(answer)
        ]
        said = {"role": "assistant", "content": message.get("content") or None, **said, "tool_calls": calls}
        return [said] + [
            {"role": "tool", "tool_call_id": call.id, "content": text}
            for call, text in zip(self.find_calls(answer), results, strict=True)
        ]

    def mend_end(self, answer: Json) -> Json:
        """See `AnswerForm.mend_end`."""
        choice, *others = answer.get("choices") or [{}]
        if choice.get("finish_reason") != "tool_calls":
            return answer
        return {**answer, "choices": [{**choice, "finish_reason": "stop"}, *others]}


def _get_message(answer: Json) -> Json:
    choice: Json = next(iter(answer.get("choices") or []), {})
    message = choice.get("message")
    return message if isinstance(message, dict) else {}


class ChatStream(StreamForm):
    """Deltas of one message, and calls with their numbers."""

    form = ChatAnswers()
    _identity: Mapping[str, object] = {}

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
        return [StreamPiece("thinking" if any(delta.get(key) for key in _THINKING) else "opening", value)]

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
        for key in ("content", *_THINKING):
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


WIRE = Wire(
    PROFILE,
    decode,
    render_batch,
    Api(
        name="openai",
        provider="openai",
        address=OPENAI_ADDRESS,
        path=re.compile(r"/chat/completions$"),
        limit_fields=("max_completion_tokens", "max_tokens"),
        answers=ChatAnswers(),
        stream=ChatStream,
    ),
)
"""The wire of OpenAI Chat Completions."""
