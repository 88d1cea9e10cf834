"""What is known of Gemini generateContent: what it accepts, what it answers to the rest, and how it writes things."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenfold.core.text.memoize import memoize_short
from tenfold.core.wire.native_form import MessageForm, PartForms, ValueForm
from tenfold.core.wire.profiles import (
    NativeShape,
    Profile,
    RequestFields,
    UsageFields,
    build_look_alike,
    build_overflow,
)
from tenfold.core.wire.sdk_values import get_set_fields

NAME = "gemini"


@memoize_short(64)
def to_snake_case(name: str) -> str:
    """Returns the other spelling of a field, `function_call` for `functionCall`: the API takes both."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


_SPELLINGS: tuple[Callable[[str], str], ...] = (str, to_snake_case)


_DATA: Mapping[str, Mapping[str, ValueForm]] = {
    "text": {"text": ValueForm()},
    **{
        key: {key: ValueForm(types=("object",))}
        for camel in ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
        for key in (camel, to_snake_case(camel))
    },
}
_CALL = ValueForm(
    types=("object",), fields={"name": ValueForm(least=1), "args": ValueForm(types=("object",), is_required=False)}
)
_RESPONSE = ValueForm(
    types=("object",), fields={"name": ValueForm(least=1), "response": ValueForm(types=("object",), is_required=False)}
)


def _make_parts(camel: str, form: ValueForm) -> Mapping[str, ValueForm]:
    own = {key: {key: form} for key in (camel, to_snake_case(camel))}
    parts = PartForms(kinds={**_DATA, **own}, tag="")
    return {"parts": ValueForm(types=("list",), rule="content_form", parts=parts)}


FORM = MessageForm(
    roles={
        "user": _make_parts("functionResponse", _RESPONSE),
        "model": _make_parts("functionCall", _CALL),
        "function": _make_parts("functionResponse", _RESPONSE),
    },
    default_role="user",
)
"""The parts are those of google-genai 2.34, `types.Part`."""


def _recognize_message(shape: NativeShape) -> bool:
    return "parts" in shape.fields or shape.role == "model"


def _build_user_message(text: str) -> dict[str, object]:
    return {"role": "user", "parts": [{"text": text}]}


def _add_system(request: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Adds system texts after those of a request: in `config` if it has one, as calls of the SDK do."""
    config = request.get("config")
    settings = get_set_fields(config)
    if settings is None:
        key = "system_instruction" if "system_instruction" in request else "systemInstruction"
        return {**request, key: _append_instruction(request.get(key), texts)}
    key = "systemInstruction" if "systemInstruction" in settings else "system_instruction"
    copy = getattr(config, "model_copy", None)
    if copy is not None:
        return {**request, "config": copy(update={key: _append_instruction(getattr(config, key), texts)})}
    return {**request, "config": {**settings, key: _append_instruction(settings.get(key), texts)}}


def _append_instruction(instruction: Any, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Appends texts to a system instruction, in the form that it has."""
    if not instruction:
        return {"parts": [{"text": text} for text in texts]}
    if isinstance(instruction, str):
        return "\n\n".join((instruction, *texts))
    if isinstance(instruction, Mapping):
        return {**instruction, "parts": [*instruction.get("parts", ()), *({"text": text} for text in texts)]}
    if isinstance(instruction, list | tuple):
        return [*instruction, *texts]
    return [*(getattr(instruction, "parts", None) or [instruction]), *texts]


PROFILE = Profile(
    wire=NAME,
    # a history that starts with a function call is refused (google-gemini/gemini-cli#11814)
    opens_with_assistant=False,
    # `contents` know only the roles user and model; system text is `systemInstruction`
    midlist_system="folded",
    # `function response turn comes immediately after a function call turn` (langchain-ai/langchain#27799), and as many
    # responses as calls (microsoft/vscode#299295)
    results="next_message",
    # `contents.parts must not be empty`
    empty_message=False,
    # functionCall.id is optional; recorded sessions carry none
    ids_optional=True,
    id_pattern=r".{0,128}",
    form=FORM,
    ends_with_user=True,
    # `function call turn comes immediately after a user turn or after a function response turn`
    # (google-gemini/gemini-cli#11814)
    calls_after_answer=False,
    request=RequestFields(
        list_field="contents",
        overhead_fields=("tools", "systemInstruction", "system_instruction"),
        system_fields=("systemInstruction", "system_instruction"),
        output_fields=("max_output_tokens", "maxOutputTokens"),
        settings_fields=("config", "generationConfig", "generation_config"),
        count_fields=("candidateCount", "candidate_count"),
    ),
    usage=tuple(
        UsageFields(
            holder=spell("usageMetadata"),
            prompt=(spell("promptTokenCount"), spell("toolUsePromptTokenCount")),
            output=spell("candidatesTokenCount"),
            cache_read=spell("cachedContentTokenCount"),
        )
        for spell in _SPELLINGS
    ),
    errors=(
        build_look_alike("Google, OpenAI", r"quota", "continuedev/continue#9729"),
        build_overflow(
            "Google",
            r"input token count(?: \(<n>\))? exceeds the maximum number of tokens allowed(?: \(<limit>\))?",
            "google-gemini/gemini-cli#6678",
        ),
    ),
    other_names=("google", "vertex"),
    recognize_message=_recognize_message,
    build_user_message=_build_user_message,
    add_system=_add_system,
    session_formats=frozenset({"gemini-cli"}),
)
