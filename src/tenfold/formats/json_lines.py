"""Parses files with one JSON object per line: splits the lines, reports damaged ones, and sorts trees."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput, DamagedLine
from tenfold.formats.json_spans import parse_value
from tenfold.formats.session_draft import SessionDraft
from tenfold.record.message import NativeBytes

SKIP_HINT = "fix the line, or pass --skip-damaged to read the file without it"


class JsonLine(Struct, frozen=True):
    """A line: `lead` is the line end and white space before it, `raw` its bytes. A damaged line has a `problem`."""

    number: int
    lead: bytes
    raw: bytes
    text: str
    value: dict[str, Any]
    problem: str = ""

    def to_native(self, format: str) -> NativeBytes:
        """Converts the line to the bytes that an entry keeps."""
        return NativeBytes(format, self.raw, self.lead)


def parse_lines(data: bytes, *, file: str, skip_damaged: bool) -> tuple[bytes, list[JsonLine], bytes]:
    """Parses all lines. Returns the bytes before the first line, the lines, and the bytes after the last one.

    Raises `DamagedLine` at the first line that is not a JSON object. With `skip_damaged` that line has its `problem`
    set instead.
    """
    out: list[JsonLine] = []
    lead, start, number = b"", 0, 0
    before: bytes | None = None
    size = len(data)
    while start < size:
        number += 1
        line_end = data.find(b"\n", start)
        end = size if line_end < 0 else line_end
        unstripped = data[start:end]
        raw = unstripped.strip(b" \t\r")
        if raw.startswith(b"\xef\xbb\xbf") and not out:
            raw = raw[3:]
        if raw:
            offset = start + unstripped.find(raw)
            lead += data[start:offset]
            if before is None:
                before, lead = lead, b""
            line = _parse_line(number, lead, raw, offset, is_last=line_end < 0)
            if line.problem and not skip_damaged:
                raise DamagedLine(f"{file}: {line.problem}; {SKIP_HINT}", line=number)
            out.append(line)
            lead = data[offset + len(raw) : end + 1]
        else:
            lead += data[start : end + 1]
        start = end + 1
    return before or b"", out, lead


def _parse_line(number: int, lead: bytes, raw: bytes, offset: int, *, is_last: bool) -> JsonLine:
    problem, text, value = "", "", {}
    try:
        text = raw.decode("utf-8")
        span = parse_value(text, 0)
        value = span.value
        if span.end != len(text):
            problem = f"line {number}, column {span.end + 1}: something follows the end of the JSON value"
        elif not isinstance(value, dict):
            problem = f"line {number} is not a JSON object"
    except UnicodeDecodeError as exc:
        problem = f"line {number}: byte {offset + exc.start} of the file (0x{raw[exc.start]:02x}) is not UTF-8"
    except json.JSONDecodeError as exc:
        cut = "; it is the last line and has no line end, so the file was probably cut off" if is_last else ""
        problem = f"line {number}, column {exc.colno}: {exc.msg}{cut}"
    return JsonLine(number, lead, raw, text, value if not problem else {}, problem)


IdGetter = Callable[[JsonLine], tuple[str, str | None]]


def sort_parents_first(
    lines: Sequence[JsonLine], id_getter: IdGetter, *, file: str, can_lack_parents: bool
) -> list[JsonLine]:
    """Sorts lines so that parents come before children.

    `id_getter` returns a line's own id ("" if it has none) and its parent's id (or None). Raises `BadInput` for an id
    that is used twice, for a cycle, and, unless `can_lack_parents`, for a parent that is not in the file.
    """
    line_numbers: dict[str, int] = {}
    ids = [id_getter(line) for line in lines]
    for line, (own, _) in zip(lines, ids, strict=True):
        if own and own in line_numbers:
            raise DamagedLine(
                f"{file}: line {line.number}: the id {own!r} was already used on line {line_numbers[own]}; {SKIP_HINT}",
                line=line.number,
            )
        if own:
            line_numbers[own] = line.number
    out: list[JsonLine] = []
    placed: set[str] = set()
    waiting: dict[str, list[tuple[JsonLine, str]]] = {}
    for line, (own, parent) in zip(lines, ids, strict=True):
        if parent and parent not in line_numbers and not can_lack_parents:
            raise DamagedLine(
                f"{file}: line {line.number}: the parent {parent!r} is not in the file; {SKIP_HINT}", line=line.number
            )
        if parent and parent in line_numbers and parent not in placed:
            waiting.setdefault(parent, []).append((line, own))
            continue
        ready = [(line, own)]
        while ready:
            ready_line, ready_id = ready.pop()
            out.append(ready_line)
            placed.add(ready_id)
            ready.extend(reversed(waiting.pop(ready_id, []) if ready_id else []))
    if waiting:
        first = min((line for group in waiting.values() for line, _ in group), key=lambda line: line.number)
        raise BadInput(
            f"{file}: line {first.number}: following the parent ids from here leads back here (a cycle); "
            "the file cannot be read as a tree until that is repaired"
        )
    return out


def sort_and_mark_damaged(lines: Sequence[JsonLine], id_getter: IdGetter, *, file: str) -> list[JsonLine]:
    """Sorts lines as `sort_parents_first` does, but marks lines as damaged instead of raising.

    Lines are marked if their id was used before or if they are part of a cycle. A parent that is not in the file is
    left for the format to handle.
    """
    used: set[str] = set()
    parents: dict[str, str] = {}
    unique: list[JsonLine] = []
    for line in lines:
        own, parent = id_getter(line)
        if own and own in used:
            unique.append(_mark_damaged(line, f"line {line.number}: the id {own!r} was already used"))
            continue
        used.add(own)
        if own and parent:
            parents[own] = parent
        unique.append(line)
    in_cycle = _find_cycles(parents)
    out = [
        _mark_damaged(line, f"line {line.number}: its parent ids form a cycle")
        if id_getter(line)[0] in in_cycle
        else line
        for line in unique
    ]
    return sort_parents_first(out, id_getter, file=file, can_lack_parents=True)


def _find_cycles(parents: dict[str, str]) -> set[str]:
    """Finds the ids that are part of a cycle, in time proportional to their number."""
    done: set[str] = set()
    in_cycle: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        current = start
        while current in parents and current not in done and current not in path:
            path[current] = None
            current = parents[current]
        if current in path:
            walked = list(path)
            in_cycle.update(walked[walked.index(current) :])
        done.update(path)
    return in_cycle


def _mark_damaged(line: JsonLine, problem: str) -> JsonLine:
    return JsonLine(line.number, line.lead, line.raw, line.text, {}, problem)


def add_damaged_line(draft: SessionDraft, line: JsonLine, format: str) -> None:
    """Keeps a damaged line's bytes as an entry without a message, and records the problem."""
    draft.add_unlinked("damaged", line.to_native(format))
    draft.problems.append(line.problem)
