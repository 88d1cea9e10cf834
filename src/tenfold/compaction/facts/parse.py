"""Parses a rendered facts section, and separates the rest of a summary's text from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tenfold.compaction.facts.fact_lines import NUMBERED_KEY, parse_numbered
from tenfold.compaction.facts.file_footer import parse_footer
from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.compaction.facts.ledger import settle_instructions
from tenfold.compaction.facts.merge import WRITTEN_KINDS
from tenfold.compaction.facts.section_headings import HEADING_BY_LINE, RETIRED_HEADINGS, SectionHeading, split_at_title
from tenfold.core.record.block import Fact, FactKind
from tenfold.core.text.excerpts import normalize_key

_NOTE_SUFFIX = re.compile(r"(?<! ) +\((?:from|note): (?P<note>[^\n]*)\)$")
_SPEAKER_PREFIX = re.compile(r"(?:\[\d+\] )?(?P<speaker>user|assistant):[ \n]")
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
    words = [fact for fact in facts if fact.kind == "request" and (fact.live or fact.key.startswith(NUMBERED_KEY))]
    ordered = sorted(words, key=lambda fact: (fact.live, int(fact.key.split()[1]) if not fact.live else 0))
    for number, fact in enumerate(ordered):
        found = extract_instructions(position, fact.text, first=not number)
        yield from (each for each in found if each.kind in ("rule", "correction"))


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


_CLAIMED_KINDS: frozenset[FactKind] = frozenset({"rule", "correction", "remark", "request", "todo"})
"""What only the user, or the agent itself, can say. A text that nobody vouches for can only claim it."""


def parse_claims(text: str, *, position: int = -1) -> tuple[Fact, ...]:
    """Parses the facts of a summary of unknown source: what it says of the user and of plans is a claim of its own."""
    return tuple(
        replace(fact, kind="claimed", note=fact.kind, key=f"{fact.kind} {normalize_key(fact.text)}")
        if fact.kind in _CLAIMED_KINDS and fact.live
        else fact
        for fact in settle_instructions(parse_facts(text, position=position))
        if fact.live or fact.kind not in _CLAIMED_KINDS
    )


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
    kind, note = heading.kind, ""
    if kind in WRITTEN_KINDS and _MORE_FILES.fullmatch(item):
        return []
    match kind:
        case "error":
            item, note = _split_note(item.removeprefix("tool: "))
            item = item[1:-1] if len(item) > 1 and item[0] == item[-1] == '"' else item
        case "rule" | "correction":
            item = item.partition(_RETOLD_NOTE)[0]
        case "claimed":
            note, _, item = item.partition(": ")
        case "todo":
            item, note = _split_speaker(item)
        case "request" if heading.is_numbered:
            key, item = parse_numbered(item)
            return [Fact(kind, item, key, position, heading.live)]
        case "request" | "remark":
            pass
        case _:
            item, _, content = (
                item.removesuffix(")").partition(" (changed: ") if " (changed: " in item else (item, "", "")
            )
            item, note = _split_note(item)
            key = item.rpartition(" -> ")[2] if kind == "file_renamed" else item
            return [Fact(kind, item, key, position, heading.live, note, content=content)]
    return [Fact(kind, item, _rebuild_key(kind, item, note), position, heading.live, note)]


def _split_note(item: str) -> tuple[str, str]:
    match = _NOTE_SUFFIX.search(item) if item.removesuffix("\n").endswith(")") else None
    return (item[: match.start()], match["note"]) if match else (item, "")


def _split_speaker(item: str) -> tuple[str, str]:
    """Splits an item that says whose words it holds into these words and the note that names a user."""
    match = _SPEAKER_PREFIX.match(item)
    return (item[match.end() :], "user" if match["speaker"] == "user" else "") if match else (item, "")


def _rebuild_key(kind: FactKind, text: str, note: str) -> str:
    """Rebuilds the key that a fact has when it is extracted, as far as its text shows it."""
    match kind:
        case "claimed":
            return f"{note} {normalize_key(text)}"
        case "request":
            return "earlier " + normalize_key(text, 60)
        case "todo":
            return "todo"
        case _:
            return normalize_key(text)
