"""Files of one JSON object a line: finding the lines, saying which is damaged, and putting trees in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput, DamagedLine
from tenfold.record.message import Native
from tenfold.transcripts.draft import Draft
from tenfold.transcripts.spans import value_at

SKIP = "fix the line, or pass --skip-damaged to read the file without it"


class Line(Struct, frozen=True):
    """A line: `lead` is the line end and blank space before it, `raw` its bytes. A damaged one has a `problem`."""

    number: int
    lead: bytes
    raw: bytes
    text: str
    value: dict[str, Any]
    problem: str = ""

    def native(self, format: str) -> Native:
        """The line's bytes as they are kept."""
        return Native(format, self.raw, self.lead)


def lines(data: bytes, *, file: str, skip_damaged: bool) -> tuple[bytes, list[Line], bytes]:
    """What stands before the first line, the lines, and what follows the last one.

    Raises `DamagedLine` at the first line that is no JSON object unless `skip_damaged`; the damaged line then has
    its `problem` set.
    """
    out: list[Line] = []
    lead, start, number = b"", 0, 0
    before: bytes | None = None
    size = len(data)
    while start < size:
        number += 1
        found = data.find(b"\n", start)
        end = size if found < 0 else found
        whole = data[start:end]
        raw = whole.strip(b" \t\r")
        if raw.startswith(b"\xef\xbb\xbf") and not out:
            raw = raw[3:]
        if raw:
            at = start + whole.find(raw)
            lead += data[start:at]
            if before is None:
                before, lead = lead, b""
            line = _line(number, lead, raw, at, last=found < 0)
            if line.problem and not skip_damaged:
                raise DamagedLine(f"{file}: {line.problem}; {SKIP}", line=number)
            out.append(line)
            lead = data[at + len(raw) : end + 1]
        else:
            lead += data[start : end + 1]
        start = end + 1
    return before or b"", out, lead


def _line(number: int, lead: bytes, raw: bytes, at: int, *, last: bool) -> Line:
    problem, text, value = "", "", {}
    try:
        text = raw.decode("utf-8")
        span = value_at(text, 0)
        value = span.value
        if span.end != len(text):
            problem = f"line {number}, column {span.end + 1}: something follows the end of the JSON value"
        elif not isinstance(value, dict):
            problem = f"line {number} is not a JSON object"
    except UnicodeDecodeError as exc:
        problem = f"line {number}: byte {at + exc.start} of the file (0x{raw[exc.start]:02x}) is not UTF-8"
    except json.JSONDecodeError as exc:
        cut = "; it is the last line and has no line end, so the file was probably cut off" if last else ""
        problem = f"line {number}, column {exc.colno}: {exc.msg}{cut}"
    return Line(number, lead, raw, text, value if not problem else {}, problem)


Names = Callable[[Line], tuple[str, str | None]]


def arranged(found: Sequence[Line], names: Names, *, file: str, rootless: bool) -> list[Line]:
    """The lines with parents before children. `names` gives a line's own id and its parent's ('' and None if none).

    Raises `BadInput` for an id used twice, a cycle, and, unless `rootless`, a parent that is not in the file.
    """
    seen: dict[str, int] = {}
    named = [names(line) for line in found]
    for line, (own, _) in zip(found, named, strict=True):
        if own and own in seen:
            raise DamagedLine(
                f"{file}: line {line.number}: the id {own!r} was already used on line {seen[own]}; {SKIP}",
                line=line.number,
            )
        if own:
            seen[own] = line.number
    out: list[Line] = []
    placed: set[str] = set()
    waiting: dict[str, list[tuple[Line, str]]] = {}
    for line, (own, parent) in zip(found, named, strict=True):
        if parent and parent not in seen and not rootless:
            raise DamagedLine(
                f"{file}: line {line.number}: the parent {parent!r} is not in the file; {SKIP}", line=line.number
            )
        if parent and parent in seen and parent not in placed:
            waiting.setdefault(parent, []).append((line, own))
            continue
        ready = [(line, own)]
        while ready:
            each, name = ready.pop()
            out.append(each)
            placed.add(name)
            ready.extend(reversed(waiting.pop(name, []) if name else []))
    if waiting:
        first = min((line for group in waiting.values() for line, _ in group), key=lambda line: line.number)
        raise BadInput(
            f"{file}: line {first.number}: following the parent ids from here leads back here (a cycle); "
            "the file cannot be read as a tree until that is repaired"
        )
    return out


def skipped(found: Sequence[Line], names: Names, *, file: str) -> list[Line]:
    """Like `arranged`, but lines with an id used twice or in a cycle come back marked as damaged.

    An unknown parent is left for the reader to bridge.
    """
    seen: set[str] = set()
    parents: dict[str, str] = {}
    once: list[Line] = []
    for line in found:
        own, parent = names(line)
        if own and own in seen:
            once.append(_marked(line, f"line {line.number}: the id {own!r} was already used"))
            continue
        seen.add(own)
        if own and parent:
            parents[own] = parent
        once.append(line)
    bad = _circular(parents)
    out = [
        _marked(line, f"line {line.number}: its parent ids form a cycle") if names(line)[0] in bad else line
        for line in once
    ]
    return arranged(out, names, file=file, rootless=True)


def _circular(parents: dict[str, str]) -> set[str]:
    """The ids that lie on a cycle, in time proportional to their number."""
    done: set[str] = set()
    bad: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        here = start
        while here in parents and here not in done and here not in path:
            path[here] = None
            here = parents[here]
        if here in path:
            walked = list(path)
            bad.update(walked[walked.index(here) :])
        done.update(path)
    return bad


def _marked(line: Line, problem: str) -> Line:
    return Line(line.number, line.lead, line.raw, line.text, {}, problem)


def damaged(draft: Draft, line: Line, format: str) -> None:
    """Keeps a damaged line's bytes as a silent entry and notes the problem."""
    draft.hang("damaged", line.native(format))
    draft.problems.append(line.problem)
