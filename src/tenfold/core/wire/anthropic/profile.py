"""What is known of Anthropic Messages: what it accepts, what it answers to the rest, and how it writes things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.wire.native_errors import build_look_alike, build_overflow
from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm
from tenfold.core.wire.profiles import NativeShape, Profile, RequestFields, UsageFields

NAME = "anthropic"
ID_PATTERN = r"[a-zA-Z0-9_-]{1,128}"
"""The ids of calls. The API says `^[a-zA-Z0-9_-]+$`; the length is on the safe side."""

_CALL_ID = ValueForm(rule="call_id", pattern=ID_PATTERN, advice="use letters, digits, _ and - only, at most 128")
_TEXT = {"text": ValueForm()}
_SOURCE = {"source": ValueForm(types=("object",), fields={"type": ValueForm()})}
_RESULT_PARTS = PartForms(
    kinds={
        "text": _TEXT,
        "image": _SOURCE,
        "document": _SOURCE,
        "search_result": {},
        "tool_reference": {},
        "browser_state": {},
        "": {"result": ValueForm()},  # Cline stores its results untyped, and types them when it sends them
    }
)
_TOOL_RESULT = {
    "tool_use_id": _CALL_ID,
    "content": ValueForm(types=("text", "list"), rule="content_form", is_required=False, parts=_RESULT_PARTS),
    "is_error": ValueForm(types=("boolean",), is_required=False),
}
_TOOL_USE = {"id": _CALL_ID, "name": ValueForm(least=1), "input": ValueForm(types=("object",))}
_SERVER_RESULTS = r"\w+_tool_result"
"""The results of the provider's own tools, of which there are more with each release."""
_USER_PARTS = PartForms(
    kinds={
        "text": _TEXT,
        "image": _SOURCE,
        "document": _SOURCE,
        "tool_result": _TOOL_RESULT,
        "search_result": {},
        "container_upload": {},
        "mcp_tool_listing": {},
        "tool_addition": {},
        "tool_removal": {},
        "file": {},  # Cline stores attached files so, and sends their text
    },
    others=_SERVER_RESULTS,
)
_ANSWER_PARTS = PartForms(
    kinds={
        "text": _TEXT,
        "thinking": {"thinking": ValueForm(), "signature": ValueForm(rule="thinking_signed", least=1)},
        "redacted_thinking": {"data": ValueForm(rule="thinking_signed", least=1)},
        "tool_use": _TOOL_USE,
        "server_tool_use": {},
        "mcp_tool_use": {},
        "image": _SOURCE,
        "document": _SOURCE,
        "container_upload": {},
        "mcp_tool_listing": {},
        "compaction": {},
        "fallback": {},
    },
    others=_SERVER_RESULTS,
)


def _make_content(parts: PartForms) -> Mapping[str, ValueForm]:
    return {"content": ValueForm(types=("text", "list"), rule="content_form", parts=parts)}


FORM = MessageForm(
    roles={
        "user": _make_content(_USER_PARTS),
        "assistant": _make_content(_ANSWER_PARTS),
        "system": _make_content(PartForms(kinds={"text": _TEXT, "tool_addition": {}, "tool_removal": {}})),
    }
)
"""The blocks are those of the anthropic SDK 2.12, `BetaContentBlockParam`."""

RULE_EVIDENCE: Mapping[str, RuleEvidence] = {
    "message_form": RuleEvidence("schema: a message is an object", "anthropic SDK: MessageParam"),
    "known_role": RuleEvidence(
        'messages: Unexpected role "tool"', "CherryHQ/cherry-studio#12316, Maol-1997/cursor-claude-connector#3"
    ),
    "content_form": RuleEvidence(
        "schema: content is a string or an array of content blocks", "anthropic SDK: MessageParam, ToolResultBlockParam"
    ),
    "known_part": RuleEvidence(
        "Input tag 'x' found using 'type' does not match any of the expected tags; "
        "`tool_result` blocks can only be in `user` messages",
        "Claude API: Messages; tghamm/Anthropic.SDK#128",
    ),
    "part_fields": RuleEvidence(
        "tool_use.input: Input should be a valid dictionary; tool_use.name: String should have at least 1 character",
        "anthropics/claude-code#6696, sipeed/picoclaw#1658",
    ),
    "call_id": RuleEvidence(
        "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "maximhq/bifrost#5097, tailcallhq/forgecode#1142"
    ),
    "thinking_signed": RuleEvidence(
        "thinking.signature: Field required", "WordPress/ai-provider-for-anthropic#27, justlovemaki/AIClient2API#437"
    ),
    "cache_marks": RuleEvidence(
        "A maximum of 4 blocks with cache_control may be provided. Found 5; "
        "thinking.cache_control: Extra inputs are not permitted",
        "tghamm/Anthropic.SDK#50, UKGovernmentBEIS/inspect_ai#3967",
    ),
    "result_follows_call": RuleEvidence(
        "unexpected `tool_use_id` found in `tool_result` blocks; each tool_use must have a single result",
        "anthropics/claude-code#13460, vectorize-io/hindsight#4250",
    ),
    "call_answered": RuleEvidence(
        "`tool_use` ids were found without `tool_result` blocks immediately after",
        "anthropics/claude-code#8210, OpenHands/OpenHands#7512",
    ),
    "results_together": RuleEvidence(
        "`tool_use` ids were found without `tool_result` blocks immediately after",
        "anthropics/claude-code#8210, anthropics/anthropic-sdk-typescript#653",
    ),
    "unique_call_ids": RuleEvidence("`tool_use` ids must be unique", "BerriAI/litellm#23510, NachoSEO/claudegram#12"),
    "thinking_with_step": RuleEvidence(
        "The final block in an assistant message cannot be `thinking`", "Claude API: Extended thinking"
    ),
    "thinking_first": RuleEvidence(
        "If an assistant message contains any thinking blocks, the first block must be `thinking` or "
        "`redacted_thinking`",
        "anthropics/claude-code#20691",
    ),
    "first_message": RuleEvidence(
        'first message must use the "user" role', "lobehub/lobehub#1601, anthropics/courses#79"
    ),
    "last_message": RuleEvidence(
        "This model does not support assistant message prefill. The conversation must end with a user message "
        "(models since Opus 4.6)",
        "aaif-goose/goose#7425, smallmain/vscode-unify-chat-provider#249",
    ),
    "no_empty_text": RuleEvidence("text content blocks must be non-empty", "anthropics/claude-code#59812"),
    "no_empty_message": RuleEvidence(
        "all messages must have non-empty content except for the optional final assistant message",
        "anthropics/claude-code#6774, pydantic/pydantic-ai#1934",
    ),
    "system_place": RuleEvidence("role 'system' is not supported on this model", "anthropics/claude-code#61412"),
    "not_empty": RuleEvidence("messages: at least one message is required", "Claude API: Messages, body.messages"),
    "whole_characters": RuleEvidence(
        "The request body is not valid JSON: no low surrogate in string",
        "anthropics/claude-code#1709, anthropics/claude-code#8108",
    ),
}


_OWN_BLOCKS = frozenset({
    "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use", "compaction",
    "search_result", "container_upload", "mcp_tool_use", "mcp_tool_result",
})  # fmt: skip
"""The content blocks that no other wire has."""


def _recognize_message(shape: NativeShape) -> bool:
    is_chat = "tool_calls" in shape.fields or shape.role in ("tool", "function")
    return not is_chat and not _OWN_BLOCKS.isdisjoint(shape.block_kinds)


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": parameters}


def _add_system(request: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    system = request.get("system") or []
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    return {**request, "system": [*blocks, *({"type": "text", "text": text} for text in texts)]}


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=False,
    consecutive_roles=True,
    midlist_system="before_assistant",
    results="next_message",
    reasoning_needs_successor=True,
    empty_text=False,
    empty_message=False,
    ids_optional=False,
    id_pattern=ID_PATTERN,
    native_compaction="in_answer",
    compaction_types=frozenset({"compaction"}),
    definition_types=frozenset({"tool_reference", "tool_search_tool_result", "mcp_tool_listing", "tool_addition"}),
    form=FORM,
    unique_call_ids="request",
    thinking_leads=True,
    ends_with_user=True,
    max_cache_marks=4,
    rule_evidence=RULE_EVIDENCE,
    evidence={
        "opens_with_assistant": 'long documented as refused (`first message must use the "user" role`); safe side',
        "consecutive_roles": "API reference: consecutive user or assistant turns are combined into one",
        "midlist_system": "refused by most models (`role 'system' is not supported on this model`, "
        "anthropics/claude-code#61412); newer ones want it before an assistant message or last (#73821)",
        "results": "`tool_use` ids were found without `tool_result` blocks immediately after "
        "(anthropics/claude-code#8210, OpenHands/OpenHands#7512)",
        "reasoning_needs_successor": "the last block of an assistant message cannot be `thinking`; edited ones refused",
        "empty_text": "`text content blocks must be non-empty` (anthropics/claude-code#59812), "
        "and `must contain non-whitespace text` (TheValkyrja/Anthropic2Vertex#5)",
        "empty_message": "messages must have non-empty content, except the optional final assistant message",
        "id_pattern": "tool_use.id must match ^[a-zA-Z0-9_-]+$",
        "native_compaction": "all content blocks prior to the `compaction` block are dropped by the API; it is to be "
        "sent back as it came, and with null content it is a failed one and does nothing "
        "(platform.claude.com/docs/en/build-with-claude/compaction; anthropic SDK, BetaCompactionBlockParam)",
    },
    request=RequestFields(
        overhead_fields=("system", "tools"),
        system_fields=("system",),
        output_fields=("max_tokens", "max_completion_tokens"),  # the second in requests to routers
        own_fields=("system", "anthropic_version"),
        model_word="claude",
        foreign_roles=frozenset({"system", "developer", "tool"}),
    ),
    usage=(
        UsageFields(
            prompt=("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            output="output_tokens",
            cache_read="cache_read_input_tokens",
            cache_write="cache_creation_input_tokens",
            absent=("prompt_tokens", "input_tokens_details"),
        ),
    ),
    errors=(
        build_look_alike("Anthropic", r"rate.?limit|too many requests", "anthropics/claude-code#53607"),
        build_look_alike("Anthropic", r"overloaded", "Claude API: Errors"),
        build_look_alike("Anthropic", r"maximum allowed number of output tokens", "anthropics/claude-code#24451"),
        build_overflow("Anthropic", r"prompt is too long(?:: <n> tokens > <limit>)?", "anthropics/claude-code#12186"),
        build_overflow("Anthropic", r"exceed context limit(?:: <n> \+ <n> > <limit>)?", "continuedev/continue#6080"),
        build_overflow(
            "Anthropic", r"request_too_large|request exceeds the maximum size", "anthropics/anthropic-sdk-python#938"
        ),
        build_overflow("Anthropic", r"request size exceeds model context window", "anthropics/claude-code#6380"),
        build_overflow("Anthropic, z.ai", r"model_context_window_exceeded", "openclaw/openclaw#35940"),
    ),
    other_names=("claude", "messages"),
    media_kinds={"image": "image", "document": "document"},  # both with a file id
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    add_system=_add_system,
    session_formats=frozenset({"claude-code", "cline"}),
)
