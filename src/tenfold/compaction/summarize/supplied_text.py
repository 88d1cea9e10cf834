"""Cleans a text that a hook or a host supplies as a summary. What code wrote of the same session in it stays as it is.

A host may get a summary with a facts section in one call and append it by another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tenfold.compaction.facts.fact_lines import render_line
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import get_shown_text
from tenfold.compaction.facts.section_headings import HEADING_BY_LINE, HEADING_INDEX, HEADINGS, TITLE, split_at_title
from tenfold.compaction.summarize.asking import clean_text
from tenfold.core.record.fact import ChangedFile, Fact, TodoList
from tenfold.core.text.excerpts import ENDS_MARK, collapse_spaces, excerpt
from tenfold.core.text.redaction import redact

_MORE = re.compile(r"- \(\d+ more\)")
_ANY_LENGTH = 1_000_000
"""More characters than what is kept of the changes of a file."""
_HIDDEN_TODOS = re.compile(r"\(\d+ done and \d+ open items not shown\)")


def clean_supplied_text(text: str, facts: Sequence[Fact]) -> str:
    """Cleans a text as `clean_text` does, except for a facts section of which every line is one of these facts."""
    before, body = split_at_title(text) or (text, "")
    title = text[len(before) :].partition("\n")[0]
    lines = body.split("\n")
    items = list(_split_items(lines))
    known = _read_back(facts) if items else {}
    if not items or not all(_is_known(heading, item, known) for heading, item in items):
        return clean_text(text)
    end = sum(1 + item.count("\n") for _, item in items)
    section, after = "\n".join((title, *lines[:end])), clean_text("\n".join(lines[end:]))
    return "\n".join((*filter(None, [clean_text(before.removeprefix("\n"))]), section, *filter(None, [after])))


def _split_items(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the items of a section, each with its heading, and each heading with "". Ends where no item goes on."""
    heading, item = "", ""
    for line in (*lines, ""):
        if item and line.startswith("  "):
            item += "\n" + line
            continue
        if item:
            yield heading, item
        item = ""
        if line in HEADING_BY_LINE:
            heading = line
            yield heading, ""
        elif heading and line.startswith("- "):
            item = line
        else:
            return


_Known = Mapping[str, Sequence[tuple[Fact, Fact]]]
"""Facts by their headings, each with what is parsed of its line in full."""


def _read_back(facts: Sequence[Fact]) -> _Known:
    known: dict[str, list[tuple[Fact, Fact]]] = {}
    for fact in facts:
        place = HEADING_INDEX.get((fact.kind, fact.live))
        if place is not None:
            heading = HEADINGS[place].line
            (*_, line) = _parse(heading, render_line(fact, get_shown_text(fact), _ANY_LENGTH))
            known.setdefault(heading, []).append((fact, line))
    return known


def _parse(heading: str, item: str) -> tuple[Fact, ...]:
    return parse_facts(f"{TITLE}\n{heading}\n{item}")


def _is_known(heading: str, item: str, known: _Known) -> bool:
    """Tells whether an item under a heading is what a section has of one of the facts, or counts what it leaves out."""
    if not item or _MORE.fullmatch(item):
        return True
    lines, pairs = _parse(heading, item), known.get(heading, ())
    return bool(lines) and all(any(_is_line_of(line, fact, whole) for fact, whole in pairs) for line in lines)


def _is_line_of(line: Fact, fact: Fact, whole: Fact) -> bool:
    """Tells whether a parsed line says what a fact says, or an excerpt of it. `whole` is parsed of its line in full."""
    if isinstance(line, ChangedFile) and isinstance(whole, ChangedFile):
        return _is_part(line.content, whole.content) and line == replace(whole, content=line.content)
    if line == whole:
        return True
    if line != replace(whole, text=line.text):
        return False
    if isinstance(fact, TodoList):
        return _is_shortened_list(line.text, whole.text)
    mark = ENDS_MARK.search(line.text)
    if mark is None or not whole.text.startswith(line.text[: mark.start()]):
        return False
    limit = len(redact(fact.text)) - int(re.sub(r"\D", "", mark[0]))
    (*_, shortened) = _parse(
        HEADINGS[HEADING_INDEX[fact.kind, fact.live]].line, render_line(fact, excerpt(fact.text, max(limit, 0)))
    )
    return line.text == shortened.text


def _is_part(shown: str, whole: str) -> bool:
    """Tells whether all that is shown of a file's changes is in them."""
    return all(part in collapse_spaces(whole) for part in ENDS_MARK.split(collapse_spaces(shown)))


def _is_shortened_list(shown: str, whole: str) -> bool:
    *items, last = shown.split("\n")
    return _HIDDEN_TODOS.fullmatch(last) is not None and set(items) <= set(whole.split("\n"))
