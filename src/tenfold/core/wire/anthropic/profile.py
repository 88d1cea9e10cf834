"""What is known of Anthropic Messages: what it accepts, what it answers to the rest, and how it writes things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.wire.native_form import MessageForm, PartForms, ValueForm, make_content, make_unseen
from tenfold.core.wire.profiles import (
    NativeShape,
    Profile,
    RequestFields,
    UsageFields,
    build_look_alike,
    build_overflow,
)

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
        **make_unseen("search_result", "tool_reference", "browser_state"),
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
        **make_unseen("search_result", "container_upload", "mcp_tool_listing", "tool_addition", "tool_removal"),
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
        **make_unseen("server_tool_use", "mcp_tool_use"),
        "image": _SOURCE,
        "document": _SOURCE,
        **make_unseen("container_upload", "mcp_tool_listing", "compaction", "fallback"),
    },
    others=_SERVER_RESULTS,
)

FORM = MessageForm(
    roles={
        "user": make_content(_USER_PARTS),
        "assistant": make_content(_ANSWER_PARTS),
        "system": make_content(PartForms(kinds={"text": _TEXT, **make_unseen("tool_addition", "tool_removal")})),
    }
)
"""The blocks are those of the anthropic SDK 2.12, `BetaContentBlockParam`."""


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
    # long documented as refused (`first message must use the "user" role`); safe side
    opens_with_assistant=False,
    # refused by most models (`role 'system' is not supported on this model`, anthropics/claude-code#61412); newer
    # ones want it before an assistant message or last (#73821)
    midlist_system="before_assistant",
    # `tool_use` ids were found without `tool_result` blocks immediately after (anthropics/claude-code#8210,
    # OpenHands/OpenHands#7512)
    results="next_message",
    # the last block of an assistant message cannot be `thinking`; edited ones are refused
    reasoning_needs_successor=True,
    # `text content blocks must be non-empty` (anthropics/claude-code#59812), and `must contain non-whitespace text`
    # (TheValkyrja/Anthropic2Vertex#5)
    empty_text=False,
    # messages must have non-empty content, except the optional final assistant message
    empty_message=False,
    id_pattern=ID_PATTERN,
    # all content blocks prior to the `compaction` block are dropped by the API; it is to be sent back as it came, and
    # with null content it is a failed one and does nothing
    # (platform.claude.com/docs/en/build-with-claude/compaction; anthropic SDK, BetaCompactionBlockParam)
    native_compaction="in_answer",
    compaction_types=frozenset({"compaction"}),
    definition_types=frozenset({"tool_reference", "tool_search_tool_result", "mcp_tool_listing", "tool_addition"}),
    form=FORM,
    unique_call_ids="request",
    thinking_leads=True,
    ends_with_user=True,
    max_cache_marks=4,
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
