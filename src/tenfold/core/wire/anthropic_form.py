"""What Anthropic Messages accepts as one message, and what it answers to messages that break a rule."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.core.wire.native_form import MessageForm, PartForms, RuleEvidence, ValueForm

ID_PATTERN = r"[a-zA-Z0-9_-]{1,128}"
"""The ids of calls. The API says `^[a-zA-Z0-9_-]+$`; the length is on the safe side."""
MAX_CACHE_MARKS = 4

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
