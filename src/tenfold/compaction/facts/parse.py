"""Parses a rendered facts section, and separates the rest of a summary's text from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from tenfold.compaction.facts.fact_lines import EDITED, UNCONFIRMED, parse_numbered
from tenfold.compaction.facts.file_footer import parse_footer
from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.compaction.facts.ledger import settle_rules
from tenfold.compaction.facts.section_headings import HEADING_BY_LINE, RETIRED_HEADINGS, SectionHeading, split_at_title
from tenfold.core.record.fact import (
    Change,
    ChangedFile,
    Claim,
    Correction,
    Fact,
    FactKind,
    Failure,
    FileRead,
    Remark,
    Request,
    Rule,
    TodoList,
)

_NOTE_SUFFIX = re.compile(r"(?<! ) +\((?:from|note): (?P<note>[^\n]*)\)$")
_SPEAKER_PREFIX = re.compile(r"(?:\[\d+\] )?(?:user|assistant):[ \n]")
_MORE_FILES = re.compile(r"\(\d+ more\)")
_RETOLD_NOTE = " (see also the later rule about "
"""Begins a note that versions before 0.4 put behind some rules. It is no part of the rule."""


def parse_facts(text: str, *, position: int = -1) -> tuple[Fact, ...]:
    """Parses the facts of a rendered section, wherever it is in `text`, in order, and of lists of files at its end.

    All get `position` (default: before any message) and a `line` that gives their order.
    """
    facts = [*_parse_section(text, position), *parse_footer(text, position=position)]
    facts = [*_read_rules(facts, position), *facts]
    return tuple(replace(fact, line=number) for number, fact in enumerate(facts, 1))


def _read_rules(facts: Iterable[Fact], position: int) -> Iterator[Fact]:
    """Yields the rules and corrections in the user's words, oldest first: such a one has no line of its own.

    What has one holds, so it counts as later.
    """
    words = [fact for fact in facts if isinstance(fact, Request) and (fact.live or fact.number >= 0)]
    words.sort(key=lambda fact: (fact.live, 0 if fact.live else fact.number))
    for number, fact in enumerate(words):
        found = extract_instructions(position, fact.text, first=not number)
        yield from (each for each in found if isinstance(each, Rule | Correction))


def _parse_section(text: str, position: int) -> list[Fact]:
    halves = split_at_title(text)
    if halves is None:
        return []
    _, body = halves
    facts: list[Fact] = []
    heading: SectionHeading | None = None
    item: list[str] = []
    is_within = False
    for line in [*body.split("\n"), "- "]:
        if item and line.startswith("  "):
            item.append(line[2:])
            continue
        if not line.strip():
            continue
        if item and heading is not None:
            facts.extend(_parse_item(heading, "\n".join(item), position))
        item = [line[2:]] if line.startswith("- ") and line != "- " else []
        if _is_heading(line):
            is_within, heading = True, HEADING_BY_LINE.get(line)
        elif not line.startswith("- ") and is_within:
            break
    return facts


def _is_heading(line: str) -> bool:
    return line in HEADING_BY_LINE or line in RETIRED_HEADINGS


def parse_claims(text: str, *, position: int = -1) -> tuple[Fact, ...]:
    """Parses the facts of a summary of unknown source.

    What only the user can say, or the agent itself, a text that nobody vouches for can only claim.
    """
    facts = parse_facts(text, position=position)
    settled = {rule.line: rule for rule in settle_rules(fact for fact in facts if isinstance(fact, Rule))}
    return tuple(
        Claim(fact.text, position, line=fact.line, about=fact.kind) if isinstance(fact, _CLAIMED) else fact
        for fact in (settled.get(fact.line, fact) for fact in facts)
        if fact.live or not isinstance(fact, _CLAIMED)
    )


_CLAIMED = (Request, Rule, Correction, Remark, TodoList)


def get_text_before_facts(text: str) -> str:
    """Returns the text of a summary before its facts section."""
    halves = split_at_title(text)
    return (halves[0] if halves is not None else text).strip()


def without_section(text: str) -> str:
    """Returns a summary's text without its facts section: the text before it, and the text after its last item."""
    halves = split_at_title(text)
    if halves is None:
        return text
    before, body = halves
    lines = body.split("\n")
    outside = (n for n, line in enumerate(lines) if not _is_heading(line) and not line.startswith(("- ", "  ")))
    after = lines[next(outside, len(lines)) :]
    return "\n".join((before.strip("\n"), *after)).strip("\n")


def _parse_item(heading: SectionHeading, item: str, position: int) -> list[Fact]:
    """Parses one item of a section; the line that counts the files left out holds no fact."""
    match heading.kind:
        case "request":
            number, item = parse_numbered(item) if heading.is_numbered else (-1, item)
            return [Request(item, position, heading.live, number=number)]
        case "rule":
            return [Rule(item.partition(_RETOLD_NOTE)[0], position)]
        case "correction":
            return [Correction(item.partition(_RETOLD_NOTE)[0], position)]
        case "remark":
            return [Remark(item, position)]
        case "claimed":
            about, _, item = item.partition(": ")
            return [Claim(item, position, about=about)]
        case "error":
            item, source = _split_note(item.removeprefix("tool: "))
            item = item[1:-1] if len(item) > 1 and item[0] == item[-1] == '"' else item
            return [Failure(item, position, source=source)]
        case "todo":
            match = _SPEAKER_PREFIX.match(item)
            return [TodoList(item[match.end() :] if match else item, position)]
        case "file_read":
            return [FileRead(item, position)]
        case _ if _MORE_FILES.fullmatch(item):
            return []
        case _:
            return [_parse_change(heading, item, position)]


_CHANGES: Mapping[FactKind, Change] = MappingProxyType(
    {"file_modified": "modified", "file_created": "created", "file_deleted": "deleted", "file_renamed": "renamed"}
)


def _parse_change(heading: SectionHeading, item: str, position: int) -> ChangedFile:
    content = ""
    if " (changed: " in item:
        item, _, content = item.removesuffix(")").partition(" (changed: ")
    item, note = _split_note(item)
    old_path, _, path = item.rpartition(" -> ")
    change = _CHANGES[heading.kind]
    if change != "renamed" or not old_path:
        change, old_path, path = "modified" if change == "renamed" else change, "", item
    return ChangedFile(
        path,
        position,
        change=change,
        old_path=old_path,
        content=content,
        is_edited=note == EDITED,
        is_unconfirmed=note == UNCONFIRMED,
    )


def _split_note(item: str) -> tuple[str, str]:
    match = _NOTE_SUFFIX.search(item) if item.removesuffix("\n").endswith(")") else None
    return (item[: match.start()], match["note"]) if match else (item, "")
