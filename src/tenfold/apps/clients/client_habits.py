"""What single clients write into their requests, as rows: which client, in which version, when it was seen, and how.

A gateway has to know some habits of clients: by which header they name a session, how they ask for a summary of their
own, what they move about in their list. None is a provider's, and all change with a release, so each row says where it
comes from. The version is "" where it was not noted. See docs/gateway.md, "What clients send".
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Habit(Struct, Generic[T], frozen=True):
    """One habit: the client and the version that it was seen in, the day, and what is looked for."""

    client: str
    version: str
    seen: str
    sign: T


SESSION_HEADERS = (
    Habit("codex", "0.169.0", "2026-11-26", "session-id"),
    Habit("opencode, Kilo", "1.18.33", "2026-11-26", "x-session-id"),
    Habit("pi", "0.73.1", "2026-11-26", "session_id"),
    Habit("opencode, pi", "1.18.33, 0.73.1", "2026-11-26", "x-session-affinity"),
    Habit("openhands", "1.16.0", "2026-11-26", "x-litellm-session-id"),
)
"""The headers in which clients name their session."""
USER_SESSIONS = (
    Habit("Claude Code", "2.1.332", "2026-11-26", re.compile(r'"session_id"\s*:\s*"([^"]+)"')),
    Habit("kimi, older Claude Code", "2.1.0 of kimi", "2026-11-26", re.compile(r'(session_(?!id")[\w-]+)')),
)
"""How clients name it in `metadata.user_id`."""
TURN_METADATA = Habit("codex", "0.169.0", "2026-11-26", ("x-codex-turn-metadata", "compaction"))
"""The header with what a client says of a request, and the member which says that it compacts."""
SUMMARY_SYSTEMS = (
    Habit("pi", "0.73.1", "2026-11-26", re.compile(rb"You are a context summarization assistant")),
    Habit("opencode", "1.18.33", "2026-11-26", re.compile(rb"You are a context summarization agent")),
    Habit("qwen, gemini", "0.15.10, 0.61.0", "2026-11-26", re.compile(rb"<state_snapshot>")),
)
"""What the system prompt holds where a client asks for a summary of its own."""
SUMMARY_TEXTS = (
    Habit("kimi", "2.1.0", "2026-11-26", re.compile(r"You are about to run out of context\. Create a handoff summary")),
    Habit("codex", "0.169.0", "2026-11-26", re.compile(r"You are performing a CONTEXT CHECKPOINT COMPACTION")),
    Habit(
        "Copilot CLI",
        "1.0.102",
        "2026-12-01",
        re.compile(r"Please create a detailed summary of the conversation so far\. The history is being compacted"),
    ),
    Habit(
        "Claude Code, and what copied it",
        "2.1.332",
        "2026-11-26",
        re.compile(
            r"(?:CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\..{0,1000}?\n)?"  # since 2.1
            r"Your task is to create a detailed summary of (?:the|this) conversation",
            re.DOTALL,
        ),
    ),
)
"""How the last text begins where a client asks for a summary of its own. It may stand beside results in one message."""
CHECKS = (
    Habit(
        "gemini, qwen",
        "0.61.0, 0.15.10",
        "2026-11-26",
        re.compile(rb"You are a (?:sophisticated AI )?diagnostic agent"),
    ),
)
"""What the system prompt holds where a client asks whether its model goes round in circles."""
TITLES = (
    Habit(
        "opencode and others",
        "1.18.33",
        "2026-11-26",
        re.compile(rb"title generator|generate a (?:short|brief|concise) title", re.IGNORECASE),
    ),
)
"""What the system prompt holds where a client asks for a title."""

_TEXT = rb'"content"\s*:\s*(?:\[\s*\{[^{}"]{0,9}(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*)?"'
MOVED_LISTS = Habit("aider", "0.86.2", "2026-11-27", "messages")
"""The field of the lists in which a client moves messages: aider is led to a gateway by the two APIs with this one."""
LISTINGS = Habit(
    "aider",
    "0.86.2",
    "2026-11-27",
    re.compile(
        _TEXT + rb"(?:(?:I have|These files have been) \*added these files to the chat\*"
        rb"|These are some files we have been discussing"
        rb"|I am not sharing (?:any files with you|any files that you can edit yet"
        rb'|the full contents of any files with you yet)\."'
        rb"|Don't try and edit any existing code without asking me to add the files"
        rb"|(?:I am working with you on code in a git repository\.\\n)?"
        rb"Here are summaries of some files present in my git repo"
        rb"|Here are some READ ONLY files, provided for your reference"
        rb'|(?:Image|PDF) file: [^"]{1,300}"\s*\}\s*,\s*\{\s*"type"\s*:\s*"(?:image|document|file))'
    ),
)
LISTING_ANSWERS = Habit("aider", "0.86.2", "2026-11-27", re.compile(_TEXT + rb"Ok[.,]"))
"""How a listing of files begins, and the answer behind it: `base_prompts.py` of aider, and those of its modes."""
ENDS_OF_EXAMPLES = Habit(
    "aider",
    "0.86.2",
    "2026-11-27",
    re.compile(_TEXT + rb"I switched to a new code base\. Please don't consider the above files"),
)
"""How the message begins that ends the examples, which are the same in every chat."""
