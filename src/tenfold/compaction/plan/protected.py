"""Which messages no stage may change, and why: system messages, pins, the current request."""

from __future__ import annotations

import re

from tenfold.compaction.facts.current_request import find_current_request, get_user_words
from tenfold.core.record.message import Message, Text, find_native_compaction, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.units import MessageKey, Unit, VisibleMessage
from tenfold.core.wire.marks import CONTINUATION_END, CONTINUATION_START, is_system_prompt
from tenfold.core.wire.registry import has_tool_definitions

CURRENT_REQUEST = "current request"
"""The reason for protecting the current request."""
UNANSWERED_STEP = "not answered yet"
"""The reason for protecting the newest step while the model has not seen its results."""
CACHED_BEGINNING = "beginning that the cache holds"
"""The reason for keeping the first messages of a conversation as they are, as long as they fit their share."""
SYSTEM_PROMPT = "system prompt"
"""The reason for protecting a system message that no later one replaces."""
DEFINED_TOOLS = "defines tools"
"""The reason for protecting a message that defines tools inside the list: calls need it."""
PROVIDER_COMPACTED = "compacted by the provider"
"""The reason for protecting a message in which a provider compacted the conversation itself."""


def find_protected(view: View) -> dict[MessageKey, str]:
    """Finds the messages that no stage may change, by key, with the reason.

    They are the system messages in force, pinned messages with the whole step they belong to, the current request, if
    the view shows it, and messages that define tools inside the list, with their step. Also the newest message in
    which a provider compacted the conversation itself, with its step, because only that provider can read it.
    """
    protected: dict[MessageKey, str] = {}
    compacted: dict[str, list[VisibleMessage]] = {}
    for unit in view.units:
        for group in _group_messages(unit):
            if any(s.is_original and s.position in view.state.pins for s in group):
                protected.update((s.key, "pinned") for s in group)
            if any(s.is_original and has_tool_definitions(s.message) for s in group):
                protected.update((s.key, DEFINED_TOOLS) for s in group)
            compaction = find_native_compaction(group[0].message) if group[0].is_original else None
            if compaction is not None:
                compacted[compaction.bound_wire] = group
    protected.update((shown.key, SYSTEM_PROMPT) for shown in find_prompts_in_force(view))
    request = find_request(view)
    if request is not None and get_user_words(request.message):
        protected.setdefault(request.key, CURRENT_REQUEST)
    for group in compacted.values():
        protected.update((s.key, PROVIDER_COMPACTED) for s in group)
    return protected


def find_prompts_in_force(view: View) -> list[VisibleMessage]:
    """Finds the system messages in view that hold: the one that opens the list, and of each series the newest.

    Programs put mode switches, reminders and the like into the list again and again. Such messages are of one series if
    they begin with the same tag, with headings that are the same up to a colon, or with the same line, whatever numbers
    are in it, or if they share half of the longer one's lines.
    """
    shown = [s for unit in view.units for s in unit.visible_messages]
    prompts = [s for s in shown if s.is_original and is_system_prompt(s.message)]
    newest: list[VisibleMessage] = []
    series: set[str] = set()
    lines_of_newest: list[set[str]] = []
    for each in reversed(prompts):
        name = _find_series(get_text(each.message))
        lines = set(filter(None, map(str.strip, get_text(each.message).split("\n"))))
        is_replaced = name in series or any(_has_half_of(lines, newer) for newer in lines_of_newest)
        if each is shown[0] or not is_replaced:
            newest.append(each)
            series.add(name)
            lines_of_newest = [*lines_of_newest, lines][:_MOST_COMPARED]
    return newest


_MOST_COMPARED = 20
"""Series of which each older message is compared line by line: a list may hold any number of system messages."""


def _has_half_of(lines: set[str], newer: set[str]) -> bool:
    """Tells whether two messages share half of the lines of the longer one, and more than one line."""
    shared = len(lines & newer)
    return shared > 1 and shared * 2 >= max(len(lines), len(newer))


def _find_series(text: str) -> str:
    """Returns what messages of one series begin with: a tag, a heading up to its colon, or a line without numbers."""
    if tag := _OPENING_TAG.match(text):
        return tag[1].lower()
    line = _NUMBER.sub("0", text.strip().partition("\n")[0]).lower()
    return line.partition(":")[0] if line.startswith("#") else line


_OPENING_TAG = re.compile(r"\s*<([A-Za-z][\w:.-]*)")
_NUMBER = re.compile(r"\d+")


def find_request(view: View) -> VisibleMessage | None:
    """Finds the current request among the closed units: the message, its excerpt, or the continuation that quotes it.

    The message itself comes first where both are in view. None where the user said nothing.
    """
    shown = [s for unit in reversed(view.units) for s in reversed(unit.visible_messages)]
    index = find_current_request(
        extract_request(s.message) or (get_user_words(s.message) if s.original_position is not None else "")
        for s in shown
    )
    if index is None:
        return None
    position = shown[index].original_position
    return next((s for s in shown[index:] if s.is_original and s.position == position), shown[index])


def _group_messages(unit: Unit) -> list[list[VisibleMessage]]:
    groups: list[list[VisibleMessage]] = []
    for shown in unit.visible_messages:
        if shown.message.role == "tool" and groups:
            groups[-1].append(shown)
        else:
            groups.append([shown])
    return groups


# -- a message that quotes the current request -------------------------------------------------------------------------

_OPENING = f"{CONTINUATION_START} The summary holds everything that came before."
_REQUEST_INTRO = " The user's current request is: `"
_REQUEST_OUTRO = "` Continue working on it "
_PLAIN_SENTENCE = " Continue the work "


def build_continuation(request: str) -> Message:
    """Builds the message. `request` is what it quotes ("" where there is no request)."""
    sentence = f"{_REQUEST_INTRO}{request}{_REQUEST_OUTRO}" if request else _PLAIN_SENTENCE
    return Message("user", (Text(f"{_OPENING}{sentence}{CONTINUATION_END}"),), "tenfold")


def is_continuation(message: Message) -> bool:
    """Whether a message is a continuation of ours, in a session or in a list that a host sent back."""
    return message.origin in ("tenfold", "harness") and get_text(message).startswith(_OPENING)


def extract_request(message: Message) -> str:
    """Returns the request that a continuation quotes, "" where it quotes none, or for any other message."""
    text = get_text(message).removeprefix(_OPENING) if is_continuation(message) else ""
    if not text.startswith(_REQUEST_INTRO):
        return ""
    return text.removeprefix(_REQUEST_INTRO).removesuffix(_REQUEST_OUTRO + CONTINUATION_END)
