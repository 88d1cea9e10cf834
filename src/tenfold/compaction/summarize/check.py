"""Checks a model's summary against its source before it is used, and mends by code what a repair left wrong.

Must-keep facts are not checked here, since code adds them in the facts section. The checks find what a model may get
wrong: an empty answer, an error text, a tool call, what is no summary at all, a cut-off answer, missing headings,
invented paths, too much text. What is no summary at all is more for a strict policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.compaction.summarize.claims import ClaimKind, find_claim_errors
from tenfold.compaction.summarize.evidence import SourceText
from tenfold.compaction.summarize.headings import find_heading_errors
from tenfold.compaction.summarize.literals import split_whole_sentences
from tenfold.compaction.summarize.substance import explain_rubbish, find_shortfalls
from tenfold.compaction.summarize.tool_call_text import is_tool_call_text
from tenfold.core.text.excerpts import Count

FailureKind = (
    Literal["empty", "cut_off", "tool_call", "error_text", "refusal", "no_summary", "heading", "too_long"] | ClaimKind
)


class CheckFailure(Struct, frozen=True):
    """One thing wrong with a summary. `detail` names it: a heading, a path, the sizes.

    If it is a sentence that is wrong, `sentence` is that sentence and `line` its line, from 0; else `line` is -1.
    """

    kind: FailureKind
    detail: str
    line: int = -1
    sentence: str = ""

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
    """Returns everything wrong with a summary; () if it may be used. `finish` is how the model's answer ended."""
    stripped = text.strip()
    if finish == "tool":
        return (CheckFailure(kind="tool_call", detail="the answer is a tool call"),)
    if finish == "refusal":
        return (CheckFailure(kind="refusal", detail="the model refused"),)
    if not stripped:
        return (CheckFailure(kind="empty", detail="the answer is empty"),)
    failures: list[CheckFailure] = []
    if finish == "length":
        kind: FailureKind = "no_summary" if expected.is_strict else "cut_off"
        failures.append(CheckFailure(kind=kind, detail="the answer was cut off at the token limit"))
    if is_tool_call_text(stripped):
        failures.append(CheckFailure(kind="tool_call", detail="the text is written as a tool call"))
    if _ERROR_TEXT.match(stripped) and len(stripped) < 600:
        failures.append(CheckFailure(kind="error_text", detail=stripped[:120]))
    failures.extend(
        CheckFailure(kind="no_summary", detail=problem)
        for problem in _find_missing_substance(stripped, expected, count)
    )
    failures.extend(
        CheckFailure(kind="heading", detail=problem) for problem in find_heading_errors(stripped, expected.headings)
    )
    for number, line in enumerate(text.split("\n")):
        failures.extend(
            CheckFailure(kind=error.kind, detail=error.detail, line=number, sentence=sentence)
            for sentence in split_whole_sentences(line)
            for error in find_claim_errors(sentence, expected.source)
        )
    size = count([text])[0]
    if size > expected.allotment:
        failures.append(CheckFailure(kind="too_long", detail=f"{size} tokens, allowed are {expected.allotment}"))
    return tuple(failures)


def _find_missing_substance(text: str, expected: Expectation, count: Count) -> Iterable[str]:
    """Yields why a text is no summary at all, by the policy's measure."""
    headings, source, prompt = expected.headings, expected.source, expected.prompt
    if expected.is_strict:
        allotment = expected.allotment
        yield from find_shortfalls(text, headings, source=source, allotment=allotment, count=count, prompt=prompt)
    elif problem := explain_rubbish(text, headings, source=source, prompt=prompt):
        yield problem


_ERROR_TEXT = re.compile(
    r"(?:i(?:'m| am) (?:sorry|unable)|sorry,|i can(?:no|')t (?:help|assist|summari)|error(?: code)?:|\{\"error\""
    r"|(?:\d{3} )?(?:internal server error|bad gateway"
    r"|rate limit|too many requests|service unavailable)|prompt is too long|this model's maximum context|overloaded"
    r"|as an ai\b|no conversation)",
    re.IGNORECASE,
)
_SENTENCE_ENDS = tuple(".!?\u3002\uff01\uff1f")
FATAL_KINDS: frozenset[FailureKind] = frozenset({"empty", "tool_call", "error_text", "refusal", "no_summary"})
"""Failures that cannot be mended."""


def mend_summary(text: str, failures: Sequence[CheckFailure]) -> str:
    """Removes the sentences that are wrong, and a cut-off last line, or sentence of a single line.

    Returns "" if a failure is fatal. Headings and size are handled in `headings.py`.
    """
    if any(failure.kind in FATAL_KINDS for failure in failures):
        return ""
    wrong: dict[int, dict[str, None]] = {}
    for failure in failures:
        if failure.sentence:
            wrong.setdefault(failure.line, {})[failure.sentence] = None
    lines = [_without_sentences(line, wrong.get(number, ())) for number, line in enumerate(text.split("\n"))]
    kept = [line for line in lines if line is not None]
    if any(failure.kind == "cut_off" for failure in failures):
        kept = kept[:-1] or _without_open_end(kept)
    return "\n".join(kept).strip()


def _without_open_end(lines: Sequence[str]) -> list[str]:
    """Removes from a single line the sentence that was cut off."""
    sentences = [each for line in lines for each in split_whole_sentences(line)]
    is_whole = bool(sentences) and sentences[-1].rstrip().endswith(_SENTENCE_ENDS)
    return ["".join(sentences if is_whole else sentences[:-1])]


def _without_sentences(line: str, sentences: Iterable[str]) -> str | None:
    """Removes sentences from a line. Returns None if they were all of it."""
    rest = line
    for sentence in sentences:
        rest = re.sub(rf"(?:^\s*)?{re.escape(sentence)}[\"')\]]*\s*", "", rest, count=1)
    return line if rest == line else (rest.rstrip() if any(c.isalnum() for c in rest) else None)
