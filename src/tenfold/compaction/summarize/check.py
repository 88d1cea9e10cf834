"""Checks the form of a model's summary before it is used. What it says is not judged.

An answer is refused if it is no summary: empty, cut off, a tool call, an error text, a refusal, without the headings
that were asked for, or larger than its allotment. What asking again does not repair, `mend_summary` and `headings.py`
mend by code where they can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.compaction.summarize.headings import EMPTY_SECTION, find_heading_errors
from tenfold.compaction.summarize.literals import SourceText
from tenfold.compaction.summarize.tool_call_text import is_tool_call_text
from tenfold.core.text.excerpts import Count
from tenfold.core.text.sentences import CLOSING_SIGNS, SENTENCE_ENDS, split_sentences

FailureKind = Literal["empty", "cut_off", "tool_call", "error_text", "refusal", "no_summary", "heading", "too_long"]


class CheckFailure(Struct, frozen=True):
    """One thing wrong with a summary. `detail` names it: a heading, the sizes."""

    kind: FailureKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.detail}"


class Expectation(Struct, frozen=True):
    """What a summary is checked against: its source, its allotment in tokens, and the headings the `prompt` asked for.

    With `is_strict`, a text that is no summary by itself cannot be mended: see `SummarySettings.is_strict`.
    """

    source: SourceText
    allotment: int
    headings: tuple[str, ...] = ()
    is_strict: bool = False
    prompt: str = ""


def check_summary(text: str, *, finish: str, expected: Expectation, count: Count) -> tuple[CheckFailure, ...]:
    """Returns everything wrong with the form of a summary; () if it may be used. `finish` is how the answer ended."""
    stripped = text.strip()
    if finish == "tool":
        return (CheckFailure("tool_call", "the answer is a tool call"),)
    if finish == "refusal":
        return (CheckFailure("refusal", "the model refused"),)
    if not stripped:
        return (CheckFailure("empty", "the answer is empty"),)
    failures: list[CheckFailure] = []
    if finish == "length":
        kind: FailureKind = "no_summary" if expected.is_strict else "cut_off"
        failures.append(CheckFailure(kind, "the answer was cut off at the token limit"))
    if is_tool_call_text(stripped):
        failures.append(CheckFailure("tool_call", "the text is written as a tool call"))
    if _ERROR_TEXT.match(stripped) and len(stripped) < 600:
        failures.append(CheckFailure("error_text", stripped[:120]))
    if problem := _explain_emptiness(stripped, expected, count):
        failures.append(CheckFailure("no_summary", problem))
    failures += [CheckFailure("heading", problem) for problem in find_heading_errors(stripped, expected.headings)]
    size = count([text])[0]
    if size > expected.allotment:
        failures.append(CheckFailure("too_long", f"{size} tokens, allowed are {expected.allotment}"))
    return tuple(failures)


_ERROR_TEXT = re.compile(
    r"(?:i(?:'m| am) (?:sorry|unable)|sorry,|i can(?:no|')t (?:help|assist|summari)|error(?: code)?:|\{\"error\""
    r"|(?:\d{3} )?(?:internal server error|bad gateway"
    r"|rate limit|too many requests|service unavailable)|prompt is too long|this model's maximum context|overloaded"
    r"|as an ai\b|no conversation)",
    re.IGNORECASE,
)
FATAL_KINDS: frozenset[FailureKind] = frozenset({"empty", "tool_call", "error_text", "refusal", "no_summary"})
"""Failures that cannot be mended."""


def mend_summary(text: str, failures: Sequence[CheckFailure]) -> str:
    """Removes a cut-off last line, or the last sentence of a single line. Returns "" if a failure is fatal.

    Headings and size are handled in `headings.py`.
    """
    if any(failure.kind in FATAL_KINDS for failure in failures):
        return ""
    lines = text.strip().split("\n")
    if any(failure.kind == "cut_off" for failure in failures):
        lines = lines[:-1] or _drop_open_sentence(lines[0])
    return "\n".join(lines).strip()


def _drop_open_sentence(line: str) -> list[str]:
    *_, last = split_sentences(line)
    return [line if last.rstrip(CLOSING_SIGNS).endswith(tuple(SENTENCE_ENDS)) else line.removesuffix(last)]


# -- a text that says nothing ------------------------------------------------------------------------------------------

_MIN_LETTERS = 4
"""Letters and digits below its headings that any summary has."""
_MIN_CONTENT_TOKENS = 20
"""Tokens below its headings that a strict policy's summary has at least; of a small allotment or source a quarter."""


def _explain_emptiness(text: str, expected: Expectation, count: Count) -> str:
    """Explains why a text is a summary of nothing. "" if it may be one."""
    headings = {heading.lower() for heading in expected.headings}
    if expected.is_strict and headings and headings.isdisjoint(line.strip().lower() for line in text.split("\n")):
        return f"none of the {len(headings)} headings is there"
    content = remove_template(text, expected.headings, expected.prompt)
    letters = sum(map(str.isalnum, content))
    if letters < _MIN_LETTERS:
        return f"{letters} letters of text, a summary has {_MIN_LETTERS} or more"
    size, least = sum(count([content])), min(_MIN_CONTENT_TOKENS, expected.allotment // 4)
    if expected.is_strict and size < least:
        least = min(least, sum(count([expected.source.text])) // 4)
    is_short = expected.is_strict and size < least
    return f"{size} tokens of text, a summary has {least} or more" if is_short else ""


def remove_template(text: str, headings: Sequence[str], prompt: str) -> str:
    """Removes what is no content: headings, "none", and under headings what a model left of its template.

    That is a line that the prompt has, one that is all in brackets, and one that says the same under another heading
    but for the heading's own name: "Fill in the errors here".
    """
    names = {heading.strip().lower(): _fold_words(heading) for heading in headings}
    asked, section = f" {_fold_words(prompt)} ", ""
    lines: list[tuple[str, str]] = []
    sections_by_frame: dict[str, set[str]] = {}
    for line in text.split("\n"):
        key = line.strip().lower()
        section = names.get(key, section)
        words = _fold_words(line)
        is_template = bool(section and words) and (_PLACEHOLDER.fullmatch(line) is not None or f" {words} " in asked)
        if key in names or key == EMPTY_SECTION or is_template:
            continue
        frame = f" {words} ".replace(f" {section} ", "\n") if section else ""
        lines.append((line, frame))
        if "\n" in frame:
            sections_by_frame.setdefault(frame, set()).add(section)
    return "\n".join(line for line, frame in lines if len(sections_by_frame.get(frame, ())) < 2).strip()


_PLACEHOLDER = re.compile(r"[\s\-*+\u2022\d.)]*(?:\[.*\]|<.*>|\{.*\})[\s.]*")


def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower().replace("&", " and ")))
