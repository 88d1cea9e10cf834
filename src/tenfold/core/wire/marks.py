"""Recognises text that a program wrote into a user message: our own summaries, and what `foreign_texts` lists.

Only the form is judged here. The store confirms whether a summary is really ours. One that it does not know is a
summary of unknown source: no words of the user, and what it says of them is a claim.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

from tenfold.core.record.message import Message, Origin, Role, get_text
from tenfold.foreign_texts import (
    HARNESS_TEXTS,
    KIMI_STATUS,
    OUTPUT_TEXTS,
    REACT_ACTION,
    REACT_OBSERVATION,
    SUMMARY_TEXTS,
    TOOL_HEADER,
    ForeignText,
)

SummaryConfirmer = Callable[[str, str, bool], bool]
"""A function that says whether the store wrote a summary.

It is given the Block id and the hash in its delimiter, and whether the summary makes up the whole of its message.
"""

ERROR_FLAG = "[tool error]\n"
"""How the result of a failed tool call begins, in wires that have no field for it."""
OPENING_STUB = "[the start of this conversation is not shown]"
CONTINUATION_START = "[System note: this conversation was compacted, because it outgrew the context window."
CONTINUATION_END = "without asking the user to repeat anything.]"
SYSTEM_NOTE = "<system-note>\n{}\n</system-note>"
"""A later system message in a user message, for wires that accept none."""
_SEAL = r'block="(?P<block>[^"<>\s]+)" hash="(?P<hash>[0-9a-f]{16})"'
_SUMMARY = re.compile(rf"\s*<tenfold-summary>\n(?P<text>.*)\n<seal {_SEAL}/>\n</tenfold-summary>\s*", re.DOTALL)
_SUMMARY_SEALED_FIRST = re.compile(rf"\s*<tenfold-summary {_SEAL}>\n(?P<text>.*)\n</tenfold-summary>\s*", re.DOTALL)
"""As versions up to 0.3.0 wrote it."""


_SUMMARY_STARTS, _SUMMARY_END = ("<tenfold-summary>", '<tenfold-summary block="'), "</tenfold-summary>"
_SUMMARY_START = re.compile("|".join(map(re.escape, _SUMMARY_STARTS)))

SUMMARY_HEAD = "[Context Summary — "
"""How a clip-archive of Numina-Systems/constellation begins, which has no delimiter anywhere.

It is a summary whoever wrote it. Our delimiter stands behind it, and around any other summary.
"""
HEAD_START = re.escape(SUMMARY_HEAD)
"""The same as a pattern."""
_HEAD_LINE = re.compile(rf"{HEAD_START}\d+ messages compressed[^\]\n]*\](?=\s|$)")
_HEADED_SUMMARY = re.compile(
    rf"\s*(?P<text>{HEAD_START}.*)\n<tenfold-summary {_SEAL}>\n</tenfold-summary>\s*", re.DOTALL
)
_FACTS_START = re.compile(
    r"# Facts \((?:carried word for word; lines marked|found by code in the messages, long)"
    r"|# Rules of the user \(word for word"
)
"""How the heading of the facts in a summary begins (`facts.section_headings.TITLES`)."""
STEP_PREFIX = "[step] "
"""How the one-line summary of a step begins."""


class SummaryMark(NamedTuple):
    """The Block id and the hash in the delimiter of a summary."""

    block: str
    hash: str


OriginCallback = Callable[[str], Origin | None]
"""A host's own word on a user text: its origin, or None to judge it by its form."""


HARNESS_PATTERNS: tuple[ForeignText, ...] = (
    *HARNESS_TEXTS,
    ForeignText("Tenfold", "", "a later system message, folded", "<system-note>", "</system-note>"),
    ForeignText("Tenfold", "", "the opening stub", OPENING_STUB, OPENING_STUB),
    ForeignText("Tenfold", "", "that it goes on after a compaction", CONTINUATION_START, CONTINUATION_END),
    *(
        ForeignText("Tenfold", "", "a summary that no store vouches for", each, _SUMMARY_END)
        for each in _SUMMARY_STARTS
    ),
    ForeignText("Tenfold", "", "the line of a step", STEP_PREFIX),
    ForeignText("Tenfold", "", "the line of a step, as one design has it", "[Summary] "),
    ForeignText("Tenfold", "", "what was removed, as one design has it", "[Context compacted: ", "]"),
)
SUMMARY_PATTERNS: tuple[ForeignText, ...] = (
    *SUMMARY_TEXTS,
    ForeignText("Numina-Systems/constellation", "", "its clip-archive, which has no delimiter anywhere", SUMMARY_HEAD),
)
TOOL_OUTPUT_PATTERNS: tuple[ForeignText, ...] = (
    *OUTPUT_TEXTS,
    ForeignText("Tenfold", "", "a result that came late", "[result of a tool call that has no place here any more"),
)
"""Whose words a text is: what programs inject, the summaries of other tools, and outputs in a user's place. Behind the
rows of the table are our own.
"""


_STARTS = (*(row.start for row in (*HARNESS_PATTERNS, *SUMMARY_PATTERNS)), *(row.start for row in TOOL_OUTPUT_PATTERNS))
"""How all of these begin. Hardly a text of a user's does."""


def is_like_task(text: str) -> bool:
    """Tells whether a text is the task by its form, which ends as an output does: it is only before any answer."""
    start = text.lstrip()
    return any(
        row.exception and start.startswith(row.exception) and start.rstrip().endswith(row.end)
        for row in TOOL_OUTPUT_PATTERNS
    )


def is_submission(text: str) -> bool:
    """Tells whether an answer ends with the command by which SWE-agent hands in its work."""
    return _SUBMISSION.search(text[-_SUBMISSION_CHARS:]) is not None


_SUBMISSION = re.compile(r"(?:<command>|```\w*)\s{0,9}submit\s{0,9}(?:</command>|```)\s*\Z")
_SUBMISSION_CHARS = 80


def is_tool_header(text: str) -> bool:
    """Tells whether a text is nothing but what announces a tool's output, which the next text then is."""
    return re.fullmatch(rf"\s*(?:{TOOL_HEADER}|<system>{KIMI_STATUS})\s*", text) is not None


def find_text_origin(text: str, confirm: SummaryConfirmer | None = None, *, is_whole: bool = True) -> Origin:
    """Finds the origin of a user text. `is_whole` says that it makes up the whole of its message.

    It is `harness` for injected context, `tenfold` for a summary that `confirm` knows, `harness` for any other summary
    in our form, `tool` for tool output that an agent without tool calls received as a user message, and else `human`.
    """
    start = text.lstrip()
    if start.startswith(_SUMMARY_STARTS) or _HEAD_LINE.match(start):
        mark = find_summary_mark(text) or _build_foreign_mark(text)
        if mark is not None and confirm is not None and confirm(*mark, is_whole):
            return "tenfold"
        has_own_words = _SUMMARY_END in start and not start.rstrip().endswith(_SUMMARY_END)
        return "human" if has_own_words else "harness"
    if not start.startswith(_STARTS):
        return "human"
    for row in (*HARNESS_PATTERNS, *SUMMARY_PATTERNS):
        if start.startswith(row.start) and (start.rstrip().endswith(row.end) or _is_cut_off(row, start)):
            return "harness"
    rows = [row for row in TOOL_OUTPUT_PATTERNS if start.startswith(row.start)]
    is_output = any(_is_tool_output(row, start) or _is_cut_off(row, start) for row in rows)
    return "tool" if is_output else "human"


def strip_harness_text(text: str) -> str:
    """Removes the tagged context that a harness put before and after a user's text.

    What stands between the first opening and the last closing tag of a kind is context, whatever it says: text inside
    may hold such tags as well, and what is doubtful is not the user's.
    """
    first, last = _trim_range(text, 0, len(text))
    is_changed = True
    while is_changed:
        before = first, last
        for start, end in _TAGS:
            if text.startswith(start, first, last) and (at := text.rfind(end, first, last)) >= 0:
                first, last = _trim_range(text, at + len(end), last)
            if text.endswith(end, first, last) and (at := text.find(start, first, last)) >= 0:
                first, last = _trim_range(text, first, at)
        is_changed = before != (first, last)
    first, last = _trim_range(text, *_find_outside_of_summary(text, first, last))
    # A prompt may hold the agent's own steps, as LangChain writes it.
    action = REACT_ACTION.search(text, first, last)
    observation = REACT_OBSERVATION.search(text, action.end(), last) if action is not None else None
    return text[first : observation.start() if observation is not None else last]


def _find_outside_of_summary(text: str, first: int, last: int) -> tuple[int, int]:
    """Narrows a range so that it holds no piece of a summary of ours: neither the end of a cut one nor its facts."""
    opening, end = _SUMMARY_START.search(text, first, last), text.find(f"\n{_SUMMARY_END}", first, last)
    start = opening.start() if opening is not None else -1
    if end >= 0 and not 0 <= start < end:
        first = text.rfind(_SUMMARY_END, first, last) + len(_SUMMARY_END)
    found = _FACTS_START.search(text, first, last) if start < 0 else None
    facts = found.start() if found is not None else -1
    is_quoted = (
        facts >= 0 and text.count("```", first, facts) % 2 == 1
    )  # in a fence, which ends before the user's words
    return first, facts if facts >= 0 and not is_quoted else last


def _trim_range(text: str, first: int, last: int) -> tuple[int, int]:
    """Narrows the range `first`..`last` of a text so that it neither begins nor ends with white space."""
    while first < last and text[first].isspace():
        first += 1
    while first < last and text[last - 1].isspace():
        last -= 1
    return first, last


def _is_cut_off(row: ForeignText, text: str) -> bool:
    """Tells whether a tag opens a block, on a line of its own, that is closed nowhere: its end was cut off."""
    is_block = row.start.endswith(">") and text.startswith((f"{row.start}\n", f"{row.start}\r\n"))
    return is_block and bool(row.end) and row.end not in text


def _is_tool_output(row: ForeignText, text: str) -> bool:
    return (
        text.rstrip().endswith(row.end)
        and not (row.exception and text.startswith(row.exception))
        and re.compile(row.form).match(text, len(row.start)) is not None
    )


def find_origin(role: Role, text: str, confirm: SummaryConfirmer | None = None, *, is_whole: bool = True) -> Origin:
    """Finds the origin of a text by the role of its message. The text itself matters only for user and system."""
    if role == "user":
        return find_text_origin(text, confirm, is_whole=is_whole)
    if role == "system":
        return "tenfold" if find_text_origin(text, confirm, is_whole=is_whole) == "tenfold" else "harness"
    return "model" if role == "assistant" else "tool"


def hash_summary(text: str) -> str:
    """Returns the first 16 hex digits of the SHA-256 of a summary's inner text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def render_summary(block: str, text: str) -> str:
    """Puts a summary into its delimiter, as a complete user text. `block` is the id of the Block that shows it.

    What no two summaries have in common stands last: so the next one, which begins with the same lines, is read from
    the provider's cache that far. A text with a first line of its own (`SUMMARY_HEAD`) keeps it, and the delimiter
    follows it.
    """
    seal = f'block="{block}" hash="{hash_summary(text)}"'
    if _HEAD_LINE.match(text):
        return f"{text}\n<tenfold-summary {seal}>\n{_SUMMARY_END}"
    return f"<tenfold-summary>\n{text}\n<seal {seal}/>\n{_SUMMARY_END}"


class _FramedSummary(NamedTuple):
    block: str
    hash: str
    text: str


def _find_framed_summary(text: str) -> _FramedSummary | None:
    """Finds the block, the hash and the inner text of a text that is exactly one summary with the right hash."""
    match = _SUMMARY.fullmatch(text) or _SUMMARY_SEALED_FIRST.fullmatch(text) or _HEADED_SUMMARY.fullmatch(text)
    if match is None:
        return None
    found = _FramedSummary(**match.groupdict())
    return found if hash_summary(found.text) == found.hash else None


def _build_foreign_mark(text: str) -> SummaryMark | None:
    """Returns the mark of a summary that carries none: no Block, so that no store confirms it."""
    inner = extract_summary_text(text)
    return SummaryMark("", hash_summary(inner)) if inner is not None else None


def find_summary_mark(text: str) -> SummaryMark | None:
    """Returns the mark of a text that is exactly one summary with the right hash, else None.

    The right hash does not prove that the summary is ours, since anyone can compute it. Only the store knows.
    """
    found = _find_framed_summary(text)
    return SummaryMark(found.block, found.hash) if found is not None else None


def extract_summary_text(text: str) -> str | None:
    """Returns the inner text of a summary that `find_summary_mark` accepts, or of one by its first line alone."""
    found = _find_framed_summary(text)
    if found is not None:
        return found.text
    start = text.strip()
    return start if _HEAD_LINE.match(start) and _SUMMARY_START.search(start) is None else None


def get_summary_text(message: Message) -> str | None:
    """Returns the text of the summary that a message is: our own, or one of unknown source that a system message holds.

    None for any other message. What stands in a message of the user is a summary only if the store confirms it.
    """
    is_hosts = message.origin == "harness" and message.role == "system"
    return extract_summary_text(get_text(message)) if message.origin == "tenfold" or is_hosts else None


def is_system_prompt(message: Message) -> bool:
    """Tells whether a system message is the host's own, and no summary."""
    return message.role == "system" and message.origin != "tenfold" and get_summary_text(message) is None


_TAGS = (
    *(
        (row.start, row.end)
        for row in (*HARNESS_PATTERNS, *SUMMARY_PATTERNS, *TOOL_OUTPUT_PATTERNS)
        if row.start.startswith("<") and row.end
    ),
    (SUMMARY_HEAD, _SUMMARY_END),
)
"""The tags in which programs put something beside the user's words."""


def find_unconfirmed_summary(text: str) -> str | None:
    """Returns the text of a summary that no store vouches for, in our form or in that of another tool, else None.

    For messages of the harness only: what the user says is never a summary.
    """
    start = text.strip()
    own = extract_summary_text(text)
    is_summary = start.startswith(_SUMMARY_STARTS) or any(
        start.startswith(row.start) and start.endswith(row.end) for row in SUMMARY_PATTERNS
    )
    return start if own is None and is_summary else own
