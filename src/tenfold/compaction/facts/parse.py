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
from tenfold.compaction.facts.section import ERROR_SEPARATOR, RETOLD_NOTE
from tenfold.compaction.facts.section_headings import HEADING_BY_LINE, SectionHeading, split_at_title
from tenfold.compaction.facts.tool_results import is_success
from tenfold.compaction.facts.values import build_value_key
from tenfold.core.record.block import Fact, FactKind
from tenfold.core.text.excerpts import normalize_key

_NOTE_SUFFIX = re.compile(r"(?<! ) +\((?:from|was|note): (?P<note>[^\n]*)\)$")
_SPEAKER_PREFIX = re.compile(r"(?:\[\d+\] )?(?P<speaker>user|assistant):[ \n]")
_MORE_FILES = re.compile(r"\(\d+ more\)")
_CAUSE_SUFFIX = re.compile(r' \(tool: "(?P<cause>[^\n]*)"\)$')


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
    for line in [*body.split("\n"), "- "]:
        if line in HEADING_BY_LINE or line.startswith("- "):
            if heading is not None and item:
                facts.extend(_parse_item(heading, "\n".join(item), position))
            item = [line[2:]] if line.startswith("- ") and line != "- " else []
            heading = HEADING_BY_LINE.get(line, heading)
        elif item and line.startswith("  "):
            item.append(line[2:])
        elif line.strip():
            if heading is not None and item:
                facts.extend(_parse_item(heading, "\n".join(item), position))
            if heading is not None:
                break
    return facts


_CLAIMED_KINDS: frozenset[FactKind] = frozenset({"rule", "correction", "remark", "request", "decision", "todo"})
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
    outside = (n for n, line in enumerate(lines) if line not in HEADING_BY_LINE and not line.startswith(("- ", "  ")))
    after = lines[next(outside, len(lines)) :]
    return "\n".join((before.strip("\n"), *after)).strip("\n")


def _parse_item(heading: SectionHeading, item: str, position: int) -> Iterator[Fact]:
    """Yields the facts of one item: each error of a command by itself, and with a failed command the error it names."""
    if heading.kind == "name" or (heading.kind in WRITTEN_KINDS and _MORE_FILES.fullmatch(item)):
        return
    for each in _split_errors(heading, item):
        fact = _parse_fact(heading, each, position)
        outcome, _, cause = fact.note.partition(": ")
        if fact.kind == "command" and cause and not is_success(outcome):
            yield Fact("error", cause, normalize_key(cause), position, live=False, note=fact.key)
        yield fact


def _split_errors(heading: SectionHeading, item: str) -> list[str]:
    """Splits an item that holds several errors of one command. Any other item stays as it is."""
    if heading.kind != "error" or heading.live or f'"{ERROR_SEPARATOR}"' not in item:
        return [item]
    quoted, note = _split_note(item)
    texts = quoted.removeprefix('tool: "').removesuffix('"').split(f'"{ERROR_SEPARATOR}"')
    return [f'tool: "{text}"' + (f" (from: {note})" if note else "") for text in texts]


def _parse_fact(heading: SectionHeading, item: str, position: int) -> Fact:
    kind, note = heading.kind, ""
    match kind:
        case "value":
            note = "tool" if item.startswith("tool: ") else "model"
            item, was = _split_note(item.removeprefix("tool: "))
            return Fact(kind, item, build_value_key(item), position, note=note, was=was)
        case "command":
            note, _, item = item.removeprefix("[").partition("] ")
            ends = item.removesuffix("\n").endswith('")')
            if ends and not is_success(note) and (cause := _CAUSE_SUFFIX.search(item)):
                item, note = item[: cause.start()], f"{note}: {cause['cause']}"
        case "identifier":
            note = "tool" if item.startswith("tool: ") else "model"
            item = item.removeprefix("tool: ")
        case "error":
            item = item.removeprefix("tool: ")
            item, note = _split_note(item)
            item = item[1:-1] if len(item) > 1 and item[0] == item[-1] == '"' else item
        case "rule" | "correction":
            item = item.partition(RETOLD_NOTE)[0]
        case "claimed":
            note, _, item = item.partition(": ")
        case "decision" | "todo":
            item, note = _split_speaker(item)
        case "request" if heading.is_numbered:
            key, item = parse_numbered(item)
            return Fact(kind, item, key, position, heading.live)
        case "request" | "remark":
            pass
        case _:
            item, _, content = (
                item.removesuffix(")").partition(" (changed: ") if " (changed: " in item else (item, "", "")
            )
            item, note = _split_note(item)
            return Fact(kind, item, _rebuild_key(kind, item), position, heading.live, note, content=content)
    key = f"{note} {normalize_key(item)}" if kind == "claimed" else _rebuild_key(kind, item)
    return Fact(kind=kind, text=item, key=key, position=position, live=heading.live, note=note)


def _split_note(item: str) -> tuple[str, str]:
    match = _NOTE_SUFFIX.search(item) if item.removesuffix("\n").endswith(")") else None
    return (item[: match.start()], match["note"]) if match else (item, "")


def _split_speaker(item: str) -> tuple[str, str]:
    """Splits an item that says whose words it holds into these words and the note that names a user."""
    match = _SPEAKER_PREFIX.match(item)
    return (item[match.end() :], "user" if match["speaker"] == "user" else "") if match else (item, "")


def _rebuild_key(kind: FactKind, text: str) -> str:
    """Rebuilds the key that a fact has when it is extracted, as far as its text shows it."""
    match kind:
        case "file_renamed":
            return text.rpartition(" -> ")[2]
        case "file_modified" | "file_created" | "file_deleted" | "file_read":
            return text
        case "command":
            return "$ " + text
        case "identifier":
            name, sign, _ = text.partition("=")
            return name.lower() if sign and not text.startswith("http") else text
        case "request":
            return "earlier " + normalize_key(text, 60)
        case "todo":
            return "todo"
        case _:
            return normalize_key(text)
