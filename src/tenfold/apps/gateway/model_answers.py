"""The answer of a model in each API: the calls it makes, the turn that answers them, and the answer without some."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.core.wire import splice

Json = dict[str, Any]
NOT_RUN = (
    "This call was not run, because it came together with a lookup of earlier messages. "
    "Make it again if it is still needed."
)
"""The result of a call that the client would have had to run, in a turn that the client never sees."""
READ_FAULTS = (LookupError, TypeError, AttributeError, ValueError)
"""What reading an answer raises that is not written as its API says."""
SKIP_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents for a call whose signature is not known."""


class AnswerCall(Struct, frozen=True):
    """A call to a tool. `arguments` are None if they are no JSON object, as where the answer was cut off."""

    id: str
    name: str
    arguments: Mapping[str, object] | None


class AnswerForm:
    """How the answer of one API is written. An answer has parts, some of which are calls."""

    keeps_thinking = False
    """Whether an answer has to begin with the thinking of the turns before it that the client does not see."""

    def get_parts(self, answer: Json) -> list[Json]:
        """Returns the parts in order; where calls stand apart from the text, only the calls."""
        raise NotImplementedError

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        """Returns an answer with other parts."""
        raise NotImplementedError

    def read_call(self, part: Json) -> AnswerCall | None:
        """Returns the call to a tool of the client's that a part is, None for any other part."""
        raise NotImplementedError

    def is_thinking(self, part: Json) -> bool:
        """Whether a part is what the model thought."""
        raise NotImplementedError

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        """Builds the messages that go into the next request: the answer, and the result of each of its calls."""
        raise NotImplementedError

    def join_answers(self, answers: Sequence[Json]) -> Json:
        """Joins what an API sends as a list of short answers."""
        parts = [part for answer in answers for part in self.get_parts(answer)]
        return self.put_parts(answers[-1], parts)

    def mend_end(self, answer: Json) -> Json:
        """Returns an answer that ended for a call which it no longer has, as one that has ended."""
        return answer

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

    def mend_parts(self, kept: list[Json], parts: Sequence[Json]) -> list[Json]:  # noqa: ARG002 - most need nothing
        """Returns parts that stand for themselves after others were taken away."""
        return kept

    def has_text(self, answer: Json) -> bool:  # noqa: ARG002 - most have no other
        """Whether an answer has a text besides its parts."""
        return False


class _AnthropicForm(AnswerForm):
    keeps_thinking = True

    def get_parts(self, answer: Json) -> list[Json]:
        return list(answer.get("content") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        return {**answer, "content": list(parts)}

    def read_call(self, part: Json) -> AnswerCall | None:
        if part.get("type") != "tool_use":
            return None
        given = part.get("input")
        return AnswerCall(part.get("id", ""), part.get("name", ""), given if isinstance(given, dict) else None)

    def is_thinking(self, part: Json) -> bool:
        return part.get("type") in ("thinking", "redacted_thinking")

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
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
        return {**answer, "stop_reason": "end_turn"} if answer.get("stop_reason") == "tool_use" else answer


class _ResponsesForm(AnswerForm):
    def get_parts(self, answer: Json) -> list[Json]:
        return list(answer.get("output") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        return {**answer, "output": list(parts)}

    def read_call(self, part: Json) -> AnswerCall | None:
        if part.get("type") not in ("function_call", "custom_tool_call"):
            return None
        return AnswerCall(part.get("call_id", ""), part.get("name", ""), _parse_arguments(part.get("arguments")))

    def is_thinking(self, part: Json) -> bool:
        return part.get("type") == "reasoning"

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        is_stored = answer.get("store") is not False
        said = [
            _mend_arguments(item)
            for item in self.get_parts(answer)
            if item.get("type") not in OTHER_CLIENT_CALLS
            and (is_stored or not self.is_thinking(item) or item.get("encrypted_content"))
        ]
        kinds = (item["type"] for item in said if self.read_call(item) is not None)
        given = [
            {"type": f"{kind}_output", "call_id": call.id, "output": text}
            for kind, call, text in zip(kinds, self.find_calls(answer), results, strict=True)
        ]
        return [*said, *given]


class _ChatForm(AnswerForm):
    def get_parts(self, answer: Json) -> list[Json]:
        return list(_get_message(answer).get("tool_calls") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        message = {key: value for key, value in _get_message(answer).items() if key != "tool_calls"}
        if parts:
            message["tool_calls"] = list(parts)
        choice, *others = answer["choices"]
        return {**answer, "choices": [{**choice, "message": message}, *others]}

    def read_call(self, part: Json) -> AnswerCall | None:
        function = part.get("function") or part.get("custom") or {}
        arguments = _parse_arguments(function.get("arguments"))
        return AnswerCall(part.get("id", ""), function.get("name", ""), arguments)

    def is_thinking(self, part: Json) -> bool:  # noqa: ARG002 - it stands in a field of its own
        return False

    def has_text(self, answer: Json) -> bool:
        return bool(_get_message(answer).get("content"))

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        message = _get_message(answer)
        said = {key: message[key] for key in CHAT_THINKING if message.get(key)}
        calls = [
            {**part, "function": _mend_arguments(part["function"])} if "function" in part else part
            for part in self.get_parts(answer)
        ]
        said = {"role": "assistant", "content": message.get("content") or None, **said, "tool_calls": calls}
        return [said] + [
            {"role": "tool", "tool_call_id": call.id, "content": text}
            for call, text in zip(self.find_calls(answer), results, strict=True)
        ]

    def mend_end(self, answer: Json) -> Json:
        choice, *others = answer.get("choices") or [{}]
        if choice.get("finish_reason") != "tool_calls":
            return answer
        return {**answer, "choices": [{**choice, "finish_reason": "stop"}, *others]}


class _GeminiForm(AnswerForm):
    def get_parts(self, answer: Json) -> list[Json]:
        candidate: Json = next(iter(answer.get("candidates") or []), {})
        return list((candidate.get("content") or {}).get("parts") or [])

    def put_parts(self, answer: Json, parts: Sequence[Json]) -> Json:
        candidate, *others = answer["candidates"]
        content = {**(candidate.get("content") or {"role": "model"}), "parts": list(parts)}
        return {**answer, "candidates": [{**candidate, "content": content}, *others]}

    def read_call(self, part: Json) -> AnswerCall | None:
        call = part.get("functionCall")
        if not isinstance(call, dict):
            return None
        given = call.get("args") or {}
        return AnswerCall(call.get("id", ""), call.get("name", ""), given if isinstance(given, dict) else None)

    def is_thinking(self, part: Json) -> bool:
        return part.get("thought") is True or (set(part) <= {"text", "thoughtSignature"} and not part.get("text"))

    def build_turn(self, answer: Json, results: Sequence[str]) -> list[Json]:
        said = [part for part in self.get_parts(answer) if set(part) != {"text"} or part["text"]]
        given: list[Json] = []
        for call, text in zip(self.find_calls(answer), results, strict=True):
            named = {"id": call.id, "name": call.name} if call.id else {"name": call.name}
            given.append({"functionResponse": {**named, "response": {"result": text}}})
        return [{"role": "model", "parts": said}, {"role": "user", "parts": given}]

    def mend_parts(self, kept: list[Json], parts: Sequence[Json]) -> list[Json]:
        signed = next((part for part in parts if "functionCall" in part and "thoughtSignature" in part), None)
        at = next((n for n, part in enumerate(kept) if "functionCall" in part), None)
        if signed is None or at is None or "thoughtSignature" in kept[at] or any(part is signed for part in kept):
            return kept
        return [*kept[:at], {**kept[at], "thoughtSignature": SKIP_SIGNATURE}, *kept[at + 1 :]]


OTHER_CLIENT_CALLS = frozenset({"local_shell_call", "shell_call", "apply_patch_call", "computer_call"})
"""Items of Responses that the client runs and that have outputs of their own kinds."""
CHAT_THINKING = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields in which servers of Chat Completions tell what the model thought, and take it back."""
ANSWER_FORMS: Mapping[str, AnswerForm] = {
    "anthropic": _AnthropicForm(),
    "openai-chat": _ChatForm(),
    "openai-responses": _ResponsesForm(),
    "gemini": _GeminiForm(),
}


def _get_message(answer: Json) -> Json:
    choice: Json = next(iter(answer.get("choices") or []), {})
    message = choice.get("message")
    return message if isinstance(message, dict) else {}


def _parse_arguments(text: object) -> Mapping[str, object] | None:
    value = splice.parse_value(text.encode("utf-8", "replace")) if isinstance(text, str) and text else {}
    return value if isinstance(value, dict) else None


def _mend_arguments(holder: Json) -> Json:
    """Returns a call whose arguments are a JSON object, since some servers refuse others in a history."""
    is_bad = "arguments" in holder and (not holder["arguments"] or _parse_arguments(holder["arguments"]) is None)
    return {**holder, "arguments": "{}"} if is_bad else holder


def encode_items(items: Sequence[Json]) -> list[bytes]:
    """Encodes messages for the list of a request."""
    return [msgspec.json.encode(item) for item in items]
