"""Headings of a summary: whether all are there and in order, and how a text is arranged under them.

A heading counts if its line reads exactly as in the prompt. `restore_headings` repairs headings that a model wrote in
other marks ("**Goal:**", "# goal"). `arrange_sections` sorts the sections and fills missing ones by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tenfold.compaction.facts.fact_lines import render_fact_line
from tenfold.core.record.fact import CHANGE_KINDS, Fact, FactKind
from tenfold.core.text.excerpts import Count

BRANCH_HEADINGS = ("## Goal", "## Constraints & Preferences", "## Progress", "## Key Decisions", "## Next Steps")
"""The headings of the summary of a branch that is left."""
HEADING_KINDS: Mapping[str, frozenset[FactKind]] = MappingProxyType(
    {
        **dict.fromkeys(("## Goal", "## Original Request", "## Task State"), frozenset({"request"})),
        **dict.fromkeys(("## Constraints & Preferences", "## User Guidance"), frozenset({"rule", "correction"})),
        **dict.fromkeys(("## Progress", "## Early Progress", "## Current State"), CHANGE_KINDS),
        **dict.fromkeys(("## Next Steps", "## Exact Next Steps"), frozenset({"todo"})),
        "## Files": CHANGE_KINDS | {"file_read"},
        "## Tool History": frozenset({"command"}),
        "## Errors": frozenset({"error"}),
        **dict.fromkeys(("## Key Decisions", "## Decisions", "## Context & Decisions"), frozenset[FactKind]()),
        **dict.fromkeys(("## Critical Context", "## Key Information", "## Context for Suffix"), frozenset[FactKind]()),
    }
)
"""The headings that summaries are written under, and which facts fill one that a model left out. No code knows what was
decided, or what else matters."""

EMPTY_SECTION = "none"
"""The text under a heading that nothing is known of."""
_MAX_FACTS, _MAX_FACT_CHARS = 3, 160


def render_guide(headings: tuple[str, ...], sections: str) -> str:
    """Returns the part of a prompt about these headings: how to use them, then what belongs under each.

    `sections` is the text of `SummarySettings.sections`. A heading it does not know gets no text. "" without headings.
    """
    if not headings:
        return ""
    text_by_heading: dict[str, list[str]] = {"": []}
    current = ""
    for line in sections.split("\n"):
        current = line.strip() if line.startswith("## ") else current
        text_by_heading.setdefault(current, []).append(line)
    preamble = "\n".join(text_by_heading[""]).strip()
    parts = ["\n".join(text_by_heading.get(heading, [heading])).strip() for heading in headings]
    return "\n\n".join(part for part in (preamble, "\n".join(parts)) if part)


def find_heading_errors(text: str, headings: Sequence[str]) -> list[str]:
    """Returns what is wrong with the headings of a text: those that are missing, and those out of order."""
    line_numbers = {line.strip().lower(): number for number, line in reversed(list(enumerate(text.split("\n"))))}
    errors: list[str] = []
    last = -1
    for heading in headings:
        index = line_numbers.get(heading.lower())
        if index is None:
            errors.append(f"{heading} is missing")
        elif index < last:
            errors.append(f"{heading} is out of order")
        else:
            last = index
    return errors


def restore_headings(text: str, headings: Sequence[str], *, is_strict: bool = False) -> str:
    """Restores headings written in other marks. A line counts as a heading if it holds its words and nothing else.

    If there is none and `is_strict`, a line may begin with a heading and a colon: "1. GOAL: all tests pass".
    """
    by_words = {_normalize_heading(heading): heading for heading in headings}
    lines = [by_words.get(_normalize_heading(line), line) for line in text.split("\n")]
    if is_strict and set(headings).isdisjoint(lines):
        lines = [part for line in lines for part in _split_heading(line, by_words)]
    return "\n".join(lines)


def _split_heading(line: str, by_words: Mapping[str, str]) -> list[str]:
    start, _, rest = line.partition(":")
    heading = by_words.get(_normalize_heading(start))
    return [line] if heading is None else [heading, rest.lstrip("*_ ")]


def _normalize_heading(line: str) -> str:
    return " ".join(line.strip().lstrip("#*_0123456789.) ").rstrip("*_: ").replace("&", "and").lower().split())


def arrange_sections(text: str, headings: Sequence[str], facts: Sequence[Fact], *, allotment: int, count: Count) -> str:
    """Returns the text under all the headings in order, within its allotment. Fills missing sections from the facts.

    If that is too long, missing sections get "none", and then the longest sections lose their last lines. Returns "" if
    not even the headings fit.
    """
    lead, bodies = _split_sections(text, headings)
    filled = {h: bodies.get(h) or list_heading_facts(h, facts) or [EMPTY_SECTION] for h in headings}
    result = _join_sections(lead, filled)
    if count([result])[0] > allotment:
        filled = {h: bodies.get(h) or [EMPTY_SECTION] for h in headings}
        result = _fit_sections(lead, filled, allotment, count)
    return result


def trim_sections(text: str, allotment: int, count: Count) -> str:
    """Leaves out the last lines of the longest sections of a Markdown text until it fits. "" if it cannot fit."""
    headings = [line.strip() for line in text.split("\n") if line.startswith("#")]
    return _fit_sections(*_split_sections(text, headings), allotment, count)


def list_heading_facts(heading: str, facts: Sequence[Fact]) -> list[str]:
    """Returns the newest facts of the kinds that belong under a heading, one line each; [] if there are none."""
    kinds: frozenset[FactKind] = HEADING_KINDS.get(heading, frozenset())
    live = sorted((f for f in facts if f.live and f.kind in kinds), key=lambda fact: fact.position)
    return [render_fact_line(fact, _MAX_FACT_CHARS) for fact in live[-_MAX_FACTS:]]


def _split_sections(text: str, headings: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the lines before the first heading, and the lines under each heading. Repeated headings are merged."""
    exact = {heading.lower(): heading for heading in headings}
    lead: list[str] = []
    bodies: dict[str, list[str]] = {}
    current = lead
    for line in text.strip().split("\n"):
        heading = exact.get(line.strip().lower())
        if heading is not None:
            current = bodies.setdefault(heading, [])
        elif line.strip() or current:
            current.append(line)
    for body in (lead, *bodies.values()):
        while body and not body[-1].strip():
            body.pop()
    return lead, bodies


def _join_sections(lead: Sequence[str], bodies: Mapping[str, Sequence[str]]) -> str:
    parts = ["\n".join(lead)] if lead else []
    parts.extend("\n".join([heading, *body]) for heading, body in bodies.items())
    return "\n\n".join(parts)


def _fit_sections(lead: list[str], bodies: dict[str, list[str]], allotment: int, count: Count) -> str:
    """Joins the sections, cutting the last lines of the longest until all fit. Returns "" if they cannot fit."""
    parts = [lead, *bodies.values()]
    sizes = [count([line + "\n" for line in part]) if part else [] for part in parts]
    text = _join_sections(lead, bodies)
    while (excess := count([text])[0] - allotment) > 0:
        while excess > 0:
            largest = max(range(len(parts)), key=lambda number: sum(sizes[number]))
            if not parts[largest] or parts[largest] == [EMPTY_SECTION]:
                return ""
            parts[largest].pop()
            excess -= sizes[largest].pop()
            if largest and not parts[largest]:
                parts[largest].append(EMPTY_SECTION)
                sizes[largest].append(count([EMPTY_SECTION + "\n"])[0])
        text = _join_sections(lead, bodies)
    return text
