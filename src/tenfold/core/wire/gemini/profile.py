"""What is known of Gemini generateContent: what it accepts, what it answers to the rest, and how it writes things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.wire.native_errors import build_look_alike, build_overflow
from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm
from tenfold.core.wire.profiles import NativeShape, Profile, RequestFields, UsageFields
from tenfold.core.wire.sdk_values import get_set_fields

NAME = "gemini"
SNAKE_CASE: Mapping[str, str] = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
    "mediaResolution": "media_resolution",
    "thoughtSignature": "thought_signature",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}
"""The other spelling of each field: the API takes both."""

_DATA: Mapping[str, Mapping[str, ValueForm]] = {
    "text": {"text": ValueForm()},
    **{
        key: {key: ValueForm(types=("object",))}
        for camel in ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
        for key in (camel, SNAKE_CASE[camel])
    },
}
_CALL = ValueForm(
    types=("object",), fields={"name": ValueForm(least=1), "args": ValueForm(types=("object",), is_required=False)}
)
_RESPONSE = ValueForm(
    types=("object",), fields={"name": ValueForm(least=1), "response": ValueForm(types=("object",), is_required=False)}
)


def _make_parts(camel: str, form: ValueForm) -> Mapping[str, ValueForm]:
    own = {key: {key: form} for key in (camel, SNAKE_CASE[camel])}
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

RULE_EVIDENCE: Mapping[str, RuleEvidence] = {
    "message_form": RuleEvidence("schema: a content is an object", "Gemini API: Content"),
    "known_role": RuleEvidence("Please use a valid role: user, model", "BerriAI/litellm#22046, Gemini API: Content"),
    "content_form": RuleEvidence(
        "Content should have 'parts' property with an array of Parts", "babaohuang/GeminiProChat#180"
    ),
    "known_part": RuleEvidence(
        "parts[1].data: required oneof field 'data' must have one initialized field; functionResponse is refused with "
        "the role model",
        "boldsoftware/sketch#68, maximhq/bifrost#2222",
    ),
    "part_fields": RuleEvidence(
        'function_response.name: Name cannot be empty; Unknown name "response" at '
        "'contents[2].parts[0].function_response': Proto field is not repeating, cannot start list",
        "FoundationAgents/OpenManus#824, vercel/ai#3589, AstrBotDevs/AstrBot#7216",
    ),
    "result_follows_call": RuleEvidence(
        "function response turn comes immediately after a function call turn; the number of function response parts "
        "is equal to the number of function call parts",
        "langchain-ai/langchain#27799, google-gemini/gemini-cli#16437",
    ),
    "call_answered": RuleEvidence(
        "Please ensure that the number of function response parts is equal to the number of function call parts",
        "google-gemini/gemini-cli#3814, google-gemini/gemini-cli#2347",
    ),
    "results_together": RuleEvidence(
        "Please ensure that function response turn comes immediately after a function call turn",
        "langchain-ai/langchain#27799, BerriAI/litellm#26755",
    ),
    "first_message": RuleEvidence(
        "Please ensure that function call turn comes immediately after a user turn",
        "google-gemini/gemini-cli#11814, continuedev/continue#11164",
    ),
    "call_after_user": RuleEvidence(
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn",
        "google-gemini/gemini-cli#11814, continuedev/continue#11164",
    ),
    "last_message": RuleEvidence(
        "Please ensure that multiturn requests ends with a user role or a function response; Requests ending with a "
        "model turn are not supported",
        "songquanpeng/one-api#836, crewAIInc/crewAI#6973, vellum-ai/vellum-assistant#39495",
    ),
    "no_empty_message": RuleEvidence(
        "contents.parts must not be empty", "egoist/chatwise-releases#250, vercel/ai#3775"
    ),
    "not_empty": RuleEvidence("contents is not specified", "ikechan8370/chatgpt-plugin#733, googleapis/js-genai#912"),
    "whole_characters": RuleEvidence(
        "UnicodeEncodeError: surrogates not allowed", "google-genai SDK: a request is sent as UTF-8"
    ),
}


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
    opens_with_assistant=False,
    consecutive_roles=True,
    midlist_system="folded",
    results="next_message",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=False,
    ids_optional=True,
    id_pattern=r".{0,128}",
    form=FORM,
    ends_with_user=True,
    rule_evidence=RULE_EVIDENCE,
    calls_after_answer=False,
    evidence={
        "opens_with_assistant": "a history that starts with a function call is refused "
        "(google-gemini/gemini-cli#11814)",
        "midlist_system": "`contents` know only the roles user and model; system text is `systemInstruction`",
        "results": "`function response turn comes immediately after a function call turn` "
        "(langchain-ai/langchain#27799) and as many responses as calls (microsoft/vscode#299295)",
        "calls_after_answer": "`function call turn comes immediately after a user turn or after a function response "
        "turn` (google-gemini/gemini-cli#11814)",
        "empty_message": "`contents.parts must not be empty`",
        "ids_optional": "functionCall.id is optional; recorded sessions carry none",
    },
    request=RequestFields(
        list_field="contents",
        overhead_fields=("tools", "systemInstruction", "system_instruction"),
        system_fields=("systemInstruction", "system_instruction"),
        output_fields=("max_output_tokens", "maxOutputTokens"),
        settings_fields=("config", "generationConfig", "generation_config"),
        count_fields=("candidateCount", "candidate_count"),
    ),
    usage=(
        UsageFields(
            holder="usageMetadata",
            prompt=("promptTokenCount", "toolUsePromptTokenCount"),
            output="candidatesTokenCount",
            cache_read="cachedContentTokenCount",
        ),
        UsageFields(
            holder="usage_metadata",
            prompt=("prompt_token_count", "tool_use_prompt_token_count"),
            output="candidates_token_count",
            cache_read="cached_content_token_count",
        ),
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
