"""Parses a rendered facts section, and separates the rest of a summary's text from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from tenfold.calls.outcomes import went_well
from tenfold.record.block import Fact, FactKind
from tenfold.summarize.section import ALSO, BY_LINE, TITLE, Heading
from tenfold.text import key_of

_TAIL = re.compile(r"(?<! ) +\((?:from|was|note): (?P<note>[^\n]*)\)$")
_CAUSE = re.compile(r' \(tool: "(?P<cause>[^\n]*)"\)$')


def parse(text: str, *, at: int = -1) -> tuple[Fact, ...]:
    """Parses the facts of a rendered section, wherever it is in `text`, in order.

    All get `position` (default: before any message) and a `line` that gives their order.
    """
    _, found, body = ("\n" + text).partition("\n" + TITLE + "\n")
    if not found:
        return ()
    facts: list[Fact] = []
    heading: Heading | None = None
    item: list[str] = []
    for line in [*body.split("\n"), "- "]:
        if line in BY_LINE or line.startswith("- "):
            if heading is not None and item:
                facts.extend(_told(heading, "\n".join(item), at))
            item = [line[2:]] if line.startswith("- ") and line != "- " else []
            heading = BY_LINE.get(line, heading)
        elif item and line.startswith("  "):
            item.append(line[2:])
        elif line.strip():
            if heading is not None and item:
                facts.extend(_told(heading, "\n".join(item), at))
            if heading is not None:
                break
    return tuple(replace(fact, line=number) for number, fact in enumerate(facts, 1))


def narrative(text: str) -> str:
    """Returns the text of a summary before its facts section."""
    before, _, _ = ("\n" + text).partition("\n" + TITLE + "\n")
    return before.strip()


def sectionless(text: str) -> str:
    """Returns a summary's text without its facts section: the text before it, and the text after its last item."""
    before, found, body = ("\n" + text).partition("\n" + TITLE + "\n")
    if not found:
        return text
    lines = body.split("\n")
    outside = (n for n, line in enumerate(lines) if line not in BY_LINE and not line.startswith(("- ", "  ")))
    after = lines[next(outside, len(lines)) :]
    return "\n".join((before.strip("\n"), *after)).strip("\n")


def _told(heading: Heading, item: str, at: int) -> Iterator[Fact]:
    """Yields the facts of one item: each error of a command by itself, and with a failed command the error it names."""
    for each in _apart(heading, item):
        fact = _read(heading, each, at)
        outcome, _, cause = fact.note.partition(": ")
        if fact.kind == "command" and cause and not went_well(outcome):
            yield Fact("error", cause, key_of(cause), at, live=False, note=fact.key)
        yield fact


def _apart(heading: Heading, item: str) -> list[str]:
    """Splits an item that holds several errors of one command. Any other item stays as it is."""
    if heading.kind != "error" or heading.live or f'"{ALSO}"' not in item:
        return [item]
    quoted, note = _untail(item)
    texts = quoted.removeprefix('tool: "').removesuffix('"').split(f'"{ALSO}"')
    return [f'tool: "{text}"' + (f" (from: {note})" if note else "") for text in texts]


def _read(heading: Heading, item: str, at: int) -> Fact:
    kind, note = heading.kind, ""
    match kind:
        case "name":
            owner, _, item = item.rpartition(": ")
            return Fact(kind, item, owner, at)
        case "command":
            note, _, item = item.removeprefix("[").partition("] ")
            ends = item.removesuffix("\n").endswith('")')
            if ends and not went_well(note) and (cause := _CAUSE.search(item)):
                item, note = item[: cause.start()], f"{note}: {cause['cause']}"
        case "identifier":
            note = "tool" if item.startswith("tool: ") else "model"
            item = item.removeprefix("tool: ")
        case "error":
            item = item.removeprefix("tool: ")
            item, note = _untail(item)
            item = item[1:-1] if len(item) > 1 and item[0] == item[-1] == '"' else item
        case "request" | "rule" | "correction" | "todo":
            pass
        case _:
            item, note = _untail(item)
    return Fact(kind=kind, text=item, key=_key(kind, item), at=at, live=heading.live, note=note)


def _untail(item: str) -> tuple[str, str]:
    match = _TAIL.search(item) if item.removesuffix("\n").endswith(")") else None
    return (item[: match.start()], match["note"]) if match else (item, "")


def _key(kind: FactKind, text: str) -> str:
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
            return "earlier " + key_of(text, 60)
        case "todo":
            return "todo"
        case _:
            return key_of(text)
