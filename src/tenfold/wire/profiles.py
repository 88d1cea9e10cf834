"""What each provider accepts, as one row per provider with evidence for it. No other module knows these rules.

Where reports differ, a row takes the safe side: a superfluous stub costs ten tokens, a refused request costs the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.record.message import Message, find_native_compaction

MADE_ID_PREFIX = "made_"
"""The prefix of call ids that a decoder made because the native call had none. They are not sent to that wire."""

WIRE_BY_FORMAT: Mapping[str, str] = {
    "claude-code": "anthropic",
    "cline": "anthropic",
    "openhands-requests": "openai-chat",
    "tau2": "openai-chat",
    "swe-agent": "openai-chat",
    "codex": "openai-responses",
    "gemini-cli": "gemini",
}
"""Session formats whose content blocks, signatures and opaque parts are those of a wire."""


COMPACTION_TYPES: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"compaction"}),
    "openai-responses": frozenset({"compaction", "compaction_summary"}),
}
"""The types of blocks or items into which a provider compacts a conversation itself."""


class Profile(Struct, frozen=True):
    """One provider's rules. `evidence` maps a field to where the rule was seen.

    `results` says where tool results must be: "next_message" (all of a step in the next user message, where messages
    of one role are combined), "adjacent" (one message each, right after the calls) or "anywhere" (later).
    `midlist_system` applies to what a caller sends; our own later system messages are folded into user messages unless
    it is "accepted". `native_compaction` says how the provider returns its own compaction (`COMPACTION_TYPES`): as a
    block in an answer or as a separate item. It may ignore what comes before the newest one: see `find_first_read`.
    """

    wire: str
    opens_with_assistant: bool
    consecutive_roles: bool
    midlist_system: Literal["accepted", "before_assistant", "folded"]
    system_apart: bool
    results: Literal["next_message", "adjacent", "anywhere"]
    reasoning_needs_successor: bool
    empty_text: bool
    empty_message: bool
    ids_optional: bool
    id_pattern: str
    native_compaction: Literal["none", "in_answer", "alone"] = "none"
    evidence: Mapping[str, str] = {}


_ANTHROPIC = Profile(
    wire="anthropic",
    opens_with_assistant=False,
    consecutive_roles=True,
    midlist_system="before_assistant",
    system_apart=True,
    results="next_message",
    reasoning_needs_successor=True,
    empty_text=False,
    empty_message=False,
    ids_optional=False,
    id_pattern=r"[a-zA-Z0-9_-]{1,128}",
    native_compaction="in_answer",
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
)

_CHAT = Profile(
    wire="openai-chat",
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    system_apart=False,
    results="adjacent",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,64}",
    evidence={
        "opens_with_assistant": "accepted: the API puts no order on roles other than tool",
        "midlist_system": "accepted anywhere in the list",
        "results": "`messages with role 'tool' must be a response to a preceding message with 'tool_calls'` "
        "(simonw/llm#937); unanswered `tool_call_ids` are refused (spacedriveapp/spacebot#136)",
        "empty_text": "an empty string is accepted as content",
        "id_pattern": "any text; a length limit is enforced by the service",
    },
)

_RESPONSES = Profile(
    wire="openai-responses",
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    system_apart=False,
    results="anywhere",
    reasoning_needs_successor=True,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,64}",
    native_compaction="alone",
    evidence={
        "opens_with_assistant": "output items of /responses/compact may stand first",
        "results": "`No tool output found for function call`: an output must exist, its place is free",
        "reasoning_needs_successor": "`Item of type 'reasoning' was provided without its required following item` "
        "(openai/openai-node#1567, vercel/ai#7099, openclaw/openclaw#19582)",
        "id_pattern": "call_id is at most 64 characters",
        "native_compaction": "items before the most recent compaction item may be dropped, it carries what is needed; "
        "/responses/compact gives all user messages followed by one such item "
        "(developers.openai.com/api/docs/guides/compaction; openai SDK, CompactedResponse)",
    },
)

_GEMINI = Profile(
    wire="gemini",
    opens_with_assistant=False,
    consecutive_roles=True,
    midlist_system="folded",
    system_apart=True,
    results="next_message",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=False,
    ids_optional=True,
    id_pattern=r".{0,128}",
    evidence={
        "opens_with_assistant": "a history that starts with a function call is refused "
        "(google-gemini/gemini-cli#11814)",
        "midlist_system": "`contents` know only the roles user and model; system text is `systemInstruction`",
        "results": "`function response turn comes immediately after a function call turn` "
        "(langchain-ai/langchain#27799) and as many responses as calls (microsoft/vscode#299295)",
        "empty_message": "`contents.parts must not be empty`",
        "ids_optional": "functionCall.id is optional; recorded sessions carry none",
    },
)

_PYDANTIC_AI = Profile(
    wire="pydantic-ai",
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    system_apart=False,
    results="anywhere",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,128}",
    evidence={
        "results": "it writes each provider's form itself; the results of a step stand in the next request "
        "(`_agent_graph.py`: one ModelRequest with all ToolReturnParts)",
        "midlist_system": "a SystemPromptPart may stand in any request",
    },
)

PROFILES: Mapping[str, Profile] = {p.wire: p for p in (_ANTHROPIC, _CHAT, _RESPONSES, _GEMINI, _PYDANTIC_AI)}
"""The rules of every wire, by its name."""


def find_first_read(messages: Sequence[Message], wire: str) -> int:
    """Finds the index of the first message that the provider of this wire is sure to read.

    That is the newest message into which the provider compacted what came before, or 0 if there is none.
    """
    for index in range(len(messages) - 1, -1, -1):
        found = find_native_compaction(messages[index])
        if found is not None and found.bound_wire == wire:
            return index
    return 0
