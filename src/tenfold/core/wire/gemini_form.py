"""What Gemini generateContent accepts as one content, and what it answers to contents that break a rule."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm

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
