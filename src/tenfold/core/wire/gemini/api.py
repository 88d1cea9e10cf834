"""The HTTP side of Gemini generateContent: its address, its answers and its streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tenfold.core.wire.api import AnswerCall, AnswerForm, Api, Json, PieceKind, StreamForm, StreamPiece
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.gemini.messages import decode, render_batch
from tenfold.core.wire.gemini.profile import PROFILE

_SKIP_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents for a call whose signature is not known."""


class GeminiAnswers(AnswerForm):
    """An answer is a list of candidates, of which the first one counts."""

    finish_reasons: Mapping[object, str] = {"MAX_TOKENS": "length", "SAFETY": "refusal"}
    end_hints = (b'"finishReason"', b'"blockReason"', b'"error"')

    def get_messages(self, answer: Json) -> Sequence[Json]:
        """See `AnswerForm.get_messages`."""
        return [{"role": "model", **answer["candidates"][0]["content"]}]

    def find_end(self, answer: Json) -> object:
        """See `AnswerForm.find_end`."""
        return answer["candidates"][0].get("finishReason")

    def is_stream_end(self, event: Json) -> bool:
        """See `AnswerForm.is_stream_end`."""
        candidates, feedback = event.get("candidates"), event.get("promptFeedback")
        ended = isinstance(candidates, list) and any(isinstance(c, dict) and c.get("finishReason") for c in candidates)
        is_blocked = isinstance(feedback, dict) and bool(feedback.get("blockReason"))
        return ended or is_blocked or super().is_stream_end(event)

    def get_parts(self, answer: Json) -> list[Json]:
        """See `AnswerForm.get_parts`."""
        candidate: Json = next(iter(answer.get("candidates") or []), {})
        return list((candidate.get("content") or {}).get("parts") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        """See `AnswerForm.put_parts`."""
        candidate, *others = answer["candidates"]
        content = {**(candidate.get("content") or {"role": "model"}), "parts": list(parts)}
        return {**answer, "candidates": [{**candidate, "content": content}, *others]}

    def read_call(self, part: Json) -> AnswerCall | None:
        """See `AnswerForm.read_call`."""
        call = part.get("functionCall")
        if not isinstance(call, dict):
            return None
        given = call.get("args") or {}
        return AnswerCall(call.get("id", ""), call.get("name", ""), given if isinstance(given, dict) else None)

    def is_thinking(self, part: Json) -> bool:
        """See `AnswerForm.is_thinking`."""
        return part.get("thought") is True or (set(part) <= {"text", "thoughtSignature"} and not part.get("text"))

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """See `AnswerForm.build_turn`."""
        said = [part for part in self.get_parts(answer) if set(part) != {"text"} or part["text"]]
        given: list[Json] = []
        for call, text in zip(self.find_calls(answer), results, strict=True):
            named = {"id": call.id, "name": call.name} if call.id else {"name": call.name}
            given.append({"functionResponse": {**named, "response": {"result": text}}})
        return [{"role": "model", "parts": said}, {"role": "user", "parts": given}]

    def mend_parts(self, kept: list[Json], parts: Sequence[Json]) -> list[Json]:
        """See `AnswerForm.mend_parts`."""
        signed = next((part for part in parts if "functionCall" in part and "thoughtSignature" in part), None)
        at = next((n for n, part in enumerate(kept) if "functionCall" in part), None)
        if signed is None or at is None or "thoughtSignature" in kept[at] or any(part is signed for part in kept):
            return kept
        return [*kept[:at], {**kept[at], "thoughtSignature": _SKIP_SIGNATURE}, *kept[at + 1 :]]


class GeminiStream(StreamForm):
    """Each event is a short answer with the next parts."""

    form = GeminiAnswers()
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
        if any(self.find_kind(part) == "recall" for part in (self._parts if ends else parts)):
            return self._split_event(value, parts, candidate, ends=ends)
        kinds = {self.find_kind(part) for part in parts}
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

    def _split_event(self, value: Json, parts: list[Json], candidate: Json, *, ends: bool) -> list[StreamPiece]:
        """Splits what an event says beside a call that is not the client's."""
        bare = {key: part for key, part in candidate.items() if key != "finishReason"}
        begun = {**value, "candidates": [bare]}
        pieces = [StreamPiece(self.find_kind(part), self.form.put_parts(begun, [part])) for part in parts]
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


WIRE = Wire(
    PROFILE,
    decode,
    render_batch,
    Api(
        name="gemini",
        provider="google",
        address="https://generativelanguage.googleapis.com",
        version="v1beta",
        resources=("/models",),
        path=re.compile(r"/models/(?P<model>[^/]+):(?:(?P<stream>streamG)|g)enerateContent$"),
        model_path="/models/{model}:generateContent",
        headers=("x-goog-api-key",),
        path_parts=("/v1beta",),
        limit_fields=("maxOutputTokens",),
        limit_holder="generationConfig",
        tool_lists=("functionDeclarations", "function_declarations"),
        answers=GeminiAnswers(),
        stream=GeminiStream,
    ),
)
"""The wire of Gemini generateContent."""
