"""What is known of OpenAI Chat Completions, and of the servers that speak it."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_errors import build_look_alike, build_overflow
from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm
from tenfold.core.wire.openai_content import RESPONSES_PARTS
from tenfold.core.wire.profiles import NativeShape, Profile, RequestFields, UsageFields, build_plain_tool

NAME = "openai-chat"
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


_OWN_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
"""The content parts that no other wire has."""


def _recognize_message(shape: NativeShape) -> bool:
    is_tool_output = shape.role in ("tool", "function") and shape.kind != "message"
    is_chat = "tool_calls" in shape.fields or is_tool_output or not _OWN_PARTS.isdisjoint(shape.block_kinds)
    return is_chat and RESPONSES_PARTS.isdisjoint(shape.block_kinds)


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"type": "function", "function": build_plain_tool(name, description, parameters)}


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    results="adjacent",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=ID_PATTERN,
    form=FORM,
    unique_call_ids="answer",
    rule_evidence=RULE_EVIDENCE,
    evidence={
        "opens_with_assistant": "accepted: the API puts no order on roles other than tool",
        "midlist_system": "accepted anywhere in the list",
        "results": "`messages with role 'tool' must be a response to a preceding message with 'tool_calls'` "
        "(simonw/llm#937); unanswered `tool_call_ids` are refused (spacedriveapp/spacebot#136)",
        "empty_text": "an empty string is accepted as content",
        "id_pattern": "any text of at most 40 characters; some models take longer ones (see `call_id`)",
    },
    request=RequestFields(output_fields=("max_tokens", "max_completion_tokens"), count_fields=("n",)),
    usage=(
        UsageFields(
            prompt=("prompt_tokens",),
            output="completion_tokens",
            cache_read="cache_read_input_tokens",  # routers to Anthropic's models report these two as well
            cache_write="cache_creation_input_tokens",
            details="prompt_tokens_details",
        ),
    ),
    errors=(
        build_look_alike(
            "Groq, OpenAI", r"tokens per min|\bTPM\b", "continuedev/continue#10218, vanna-ai/vanna-flask#11"
        ),
        build_look_alike("OpenAI", r"supports at most <n> completion tokens", "ChatGPTNextWeb/NextChat#3195"),
        build_overflow("OpenAI", r"context[_ ]length[_ ]exceeded", "dyad-sh/dyad#1672"),
        build_overflow("OpenAI, others", r"maximum context length(?:(?: is| of|:) <limit>)?", "ddalcu/mlx-serve#66"),
        build_overflow("OpenAI Chat", r"your messages resulted in <n> tokens", "AsyncFuncAI/deepwiki-open#144"),
        build_overflow(
            "OpenAI, Azure", r"input tokens exceed the configured limit of <limit> tokens", "cline/cline#5474"
        ),
    ),
    other_names=("chat", "chat-completions", "completions"),
    media_kinds={
        "image_url": "image",
        "file": "document",  # with a file id
        "input_audio": "audio",
        "input_video": "video",
        "video_url": "video",  # compatible servers
    },
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    session_formats=frozenset({"openhands-requests", "tau2", "swe-agent"}),
)
