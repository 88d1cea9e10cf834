"""Checks a model's summary against its source before it is used, and mends by code what a repair left wrong.

Must-keep facts are not checked here, since code adds them in the facts section. The checks find what a model may get
wrong: an empty answer, an error text, a tool call, a cut-off answer, missing headings, invented paths, too much text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.record.block import Fact
from tenfold.record.message import Message, Thinking, ToolCall, get_text
from tenfold.summarize.headings import find_heading_errors
from tenfold.text.excerpts import Count, has_words, split_sentences

FailureKind = Literal["empty", "cut_off", "tool_call", "error_text", "refusal", "heading", "unknown", "too_long"]


class CheckFailure(Struct, frozen=True):
    """One thing wrong with a summary. `detail` names it: a heading, a path, the sizes. `line` is from 0, or -1."""

    kind: FailureKind
    detail: str
    line: int = -1

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.detail}"


class SourceText(Struct, frozen=True):
    """What a summary was made of, as one text in which paths and identifiers are looked up."""

    text: str

    def has_word(self, word: str) -> bool:
        """Tells whether `word` occurs as a whole word, or as the end of a longer path."""
        forms = (word, word.removeprefix("./"), word.replace("\\", "/"))
        return any(has_words(form, self.text, joints="") for form in forms)


class Expectation(Struct, frozen=True):
    """What a summary is checked against: its source, its allotment in tokens, and the headings the prompt asked for."""

    source: SourceText
    allotment: int
    headings: tuple[str, ...] = ()


def build_source(items: Iterable[tuple[int, Message]], facts: Iterable[Fact], earlier: str) -> SourceText:
    """Builds the source: messages with their calls and reasoning, facts, and the earlier summary."""
    parts: list[str] = [earlier]
    for _, message in items:
        parts.append(get_text(message))
        for part in message.parts:
            if isinstance(part, ToolCall):
                parts.append(part.arguments.replace("\\n", "\n").replace("\\\\", "\\").replace("\\/", "/"))
                parts.append(part.name)
            elif isinstance(part, Thinking):
                parts.append(part.text)
    parts.extend(fact.text for fact in facts)
    return SourceText(text="\n".join(parts))


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
        failures.append(CheckFailure(kind="cut_off", detail="the answer was cut off at the token limit"))
    if _TOOL_CALL_TEXT.search(stripped[:400]) or (
        stripped[0] == "{" and '"name"' in stripped[:200] and '"arguments"' in stripped
    ):
        failures.append(CheckFailure(kind="tool_call", detail="the text is written as a tool call"))
    if _ERROR_TEXT.match(stripped) and len(stripped) < 600:
        failures.append(CheckFailure(kind="error_text", detail=stripped[:120]))
    failures.extend(
        CheckFailure(kind="heading", detail=problem) for problem in find_heading_errors(stripped, expected.headings)
    )
    for number, line in enumerate(text.split("\n")):
        failures.extend(
            CheckFailure(kind="unknown", detail=word, line=number)
            for word in find_claims(line)
            if not expected.source.has_word(word)
        )
    size = count([text])[0]
    if size > expected.allotment:
        failures.append(CheckFailure(kind="too_long", detail=f"{size} tokens, allowed are {expected.allotment}"))
    return tuple(failures)


_TOOL_CALL_TEXT = re.compile(
    r"<(?:tool_call|function_call|invoke|function=|tool_use)\b|\[TOOL_CALLS\]|^<\|tool", re.IGNORECASE
)
_ERROR_TEXT = re.compile(
    r"(?:i(?:'m| am) (?:sorry|unable)|sorry,|i can(?:no|')t (?:help|assist|summari)|error(?: code)?:|\{\"error\""
    r"|(?:\d{3} )?(?:internal server error|bad gateway"
    r"|rate limit|too many requests|service unavailable)|prompt is too long|this model's maximum context|overloaded"
    r"|as an ai\b|no conversation)",
    re.IGNORECASE,
)
_EXTENSIONS = (
    "py|pyi|js|jsx|ts|tsx|mjs|cjs|json|jsonl|md|rst|txt|toml|yaml|yml|ini|cfg|lock|sh|bash|rs|go|java|kt|c|h|cc|cpp|hpp|cs|rb|php|sql|html|css|scss"
    "|vue|svelte|xml|csv|tsv|ipynb|env|log|diff|patch|proto|graphql|prisma|swift|scala|lua|r|pl|ex|exs|dockerfile|tf|gradle"
)
_CLAIM = re.compile(
    r"https?://[^\s)\]>\"'`|]+"
    rf"|(?<![\w@./~-])(?:~/|\.{{0,2}}/)?(?:[\w@.+-]+/)+[\w@.+-]*\.(?:{_EXTENSIONS})\b(?![\w/])"
    r"|(?<![\w./~<:-])(?:~/|/)(?:[\w@.+-]+/)+[\w@.+-]+"
    rf"|(?<![\w@./~-])[a-z_][\w-]*(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b(?![\w/(])"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"
    r"|(?<![\w.])v?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b|\b[\w.+-]{1,64}@[\w-]+\.[\w.-]+\b|\b[A-Z]{2,8}-?\d{3,}\b"
    r"|#[A-Z]?\d{3,}\b|\b0x[0-9A-Fa-f]{4,}\b"
)
_COMMON_NAMES = frozenset({"node.js", "next.js", "vue.js", "three.js", "d3.js", "e.g", "i.e"})


def find_claims(line: str) -> list[str]:
    """Returns the paths and identifiers named in a line: URLs, file paths, hashes, versions, ids, addresses."""
    found = (match.group().rstrip(".,;:!?)") for match in _CLAIM.finditer(line))
    return [word for word in dict.fromkeys(found) if word.lower() not in _COMMON_NAMES and len(word) > 2]


FATAL_KINDS: frozenset[FailureKind] = frozenset({"empty", "tool_call", "error_text", "refusal"})
"""Failures that cannot be mended."""


def mend_summary(text: str, failures: Sequence[CheckFailure]) -> str:
    """Removes sentences that name unknown things, and a cut-off last line. Returns "" if a failure is fatal.

    Headings and size are handled in `headings.py`.
    """
    if any(failure.kind in FATAL_KINDS for failure in failures):
        return ""
    unknown_words: dict[int, set[str]] = {}
    for failure in failures:
        if failure.kind == "unknown":
            unknown_words.setdefault(failure.line, set()).add(failure.detail)
    lines = [_without_words(line, unknown_words.get(number, set())) for number, line in enumerate(text.split("\n"))]
    kept = [line for line in lines if line is not None]
    if any(failure.kind == "cut_off" for failure in failures) and len(kept) > 1:
        kept = kept[:-1]
    return "\n".join(kept).strip()


def _without_words(line: str, words: set[str]) -> str | None:
    """Removes the sentences that hold one of the words. Returns None if nothing is left of the line."""
    if not words:
        return line
    for sentence in split_sentences(line):
        if words & set(find_claims(sentence)):
            line = re.sub(rf"(?:^\s*)?{re.escape(sentence)}[\"')\]]*\s*", "", line, count=1)
    return line.rstrip() if any(c.isalnum() for c in line) else None
