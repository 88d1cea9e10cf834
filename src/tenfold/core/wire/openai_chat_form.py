"""What OpenAI Chat Completions accepts as one message, and what it answers to messages that break a rule."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm

ID_PATTERN = r".{1,40}"
"""The ids of calls. Most reports name 40 characters, later ones 64, and one saw 51 accepted: the safe side is 40."""

_CALL_ID = ValueForm(rule="call_id", pattern=ID_PATTERN, advice="use an id of 1 to 40 characters")
_TEXT_PARTS: Mapping[str, Mapping[str, ValueForm]] = {"text": {"text": ValueForm()}}
_USER_PARTS = PartForms(
    kinds={
        **_TEXT_PARTS,
        "image_url": {"image_url": ValueForm(types=("object",), fields={"url": ValueForm()})},
        "input_audio": {"input_audio": ValueForm(types=("object",))},
        "file": {"file": ValueForm(types=("object",))},
    }
)
_CALLS = PartForms(
    kinds={
        "function": {
            "id": _CALL_ID,
            "function": ValueForm(types=("object",), fields={"name": ValueForm(least=1), "arguments": ValueForm()}),
        },
        "custom": {
            "id": _CALL_ID,
            "custom": ValueForm(types=("object",), fields={"name": ValueForm(least=1), "input": ValueForm()}),
        },
    },
    default="function",
)


def _make_content(parts: PartForms, unless: tuple[str, ...] = ()) -> Mapping[str, ValueForm]:
    return {"content": ValueForm(types=("text", "list"), rule="content_form", parts=parts, unless=unless)}


_SYSTEM = _make_content(PartForms(kinds=_TEXT_PARTS))

FORM = MessageForm(
    roles={
        "system": _SYSTEM,
        "developer": _SYSTEM,
        "user": _make_content(_USER_PARTS),
        "assistant": {
            **_make_content(
                PartForms(kinds={**_TEXT_PARTS, "refusal": {"refusal": ValueForm()}}),
                # an answer of reasoning alone is known to the servers that have these two fields
                unless=("tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning"),
            ),
            "tool_calls": ValueForm(types=("list",), is_required=False, least=1, parts=_CALLS),
        },
        "tool": {"tool_call_id": _CALL_ID, **_make_content(PartForms(kinds=_TEXT_PARTS))},
        "function": {"name": ValueForm(least=1), "content": ValueForm(types=("text", "null"), rule="content_form")},
    }
)
"""The parts are those of the openai SDK 3.54, `ChatCompletionMessageParam`."""

RULE_EVIDENCE: Mapping[str, RuleEvidence] = {
    "message_form": RuleEvidence("schema: a message is an object", "openai SDK: ChatCompletionMessageParam"),
    "known_role": RuleEvidence(
        "Invalid value: 'x'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'",
        "OpenAI API: Create chat completion, messages",
    ),
    "content_form": RuleEvidence(
        "Invalid value for 'content': expected a string, got null; Invalid type for 'messages[0].content': expected "
        "one of a string or array of objects",
        "run-llama/llama_index#17555, vercel/ai#13744, coze-dev/coze-studio#2317",
    ),
    "known_part": RuleEvidence(
        "Invalid value: 'file'. Supported values are: 'text', 'refusal', 'image_url', and 'input_audio'; Image URLs "
        "are only allowed for messages with role 'user'",
        "epam/ai-dial-adapter-openai#434, openai/openai-node#1030",
    ),
    "part_fields": RuleEvidence(
        "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object; "
        "Invalid 'messages[1].tool_calls': empty array; 'messages[2].tool_calls[0].function.name': empty string",
        "aaif-goose/goose-mobile#20, openai/openai-node#1341, continuedev/continue#9784",
    ),
    "call_id": RuleEvidence(
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40; messages "
        "with role 'tool' must have a 'tool_call_id'",
        "camel-ai/camel#2215, langchain-ai/langchain#22600; 64 in openclaw/openclaw#875, 51 taken in vercel/ai#17233",
    ),
    "result_follows_call": RuleEvidence(
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
        "simonw/llm#937, dimagi/open-chat-studio#1659",
    ),
    "call_answered": RuleEvidence(
        "The following tool_call_ids did not have response messages", "aliasrobotics/cai#111, BerriAI/litellm#10083"
    ),
    "results_together": RuleEvidence(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'",
        "spacedriveapp/spacebot#136",
    ),
    "unique_call_ids": RuleEvidence(
        "Duplicate value for 'tool_call_id'", "agno-agi/agno#5116, anomalyco/opencode#1211"
    ),
    "not_empty": RuleEvidence("Invalid 'messages': empty array", "CopilotKit/CopilotKit#529"),
    "whole_characters": RuleEvidence(
        "Failed to parse the request body as JSON: lone leading surrogate in hex escape",
        "JohnnyZ93/oai-compatible-copilot#271",
    ),
}
