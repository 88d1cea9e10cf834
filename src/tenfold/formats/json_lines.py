"""Reads files with one JSON object per line: splits the lines, reports damaged ones, and sorts trees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenfold.errors import DamagedLine, UnknownRole
from tenfold.formats.json_items import JsonItem, parse_json
from tenfold.wire.splice import BOM

_SKIP_HINT = "fix the line, or pass --skip-damaged to read the file without it"
IdGetter = Callable[[JsonItem], tuple[str, str | None]]
"""Returns a line's own id ("" if it has none) and its parent's id (or None)."""


def get_parent_id(value: dict[str, Any], key: str) -> str | None:
    """Returns the parent's id under a key. One that is no text is made one: no line has it, so it will be reported."""
    parent = value.get(key)
    return None if parent is None else str(parent)


class LineFile:
    """The lines of a file, and the bytes `before` the first and `after` the last one.

    What is wrong with a line is raised as `DamagedLine`, or with `skip_damaged` kept as the line's `problem`.
    """

    def __init__(self, data: bytes, *, file: str, skip_damaged: bool) -> None:
        self.skip_damaged = skip_damaged
        self.before = b""
        self.lines: list[JsonItem] = []
        self._file = file
        end = offset = 0
        texts = data.split(b"\n")
        for number, text in enumerate(texts, 1):
            raw = text.strip(b" \t\r")
            raw = raw if self.lines else raw.removeprefix(BOM)
            if raw:
                start = data.index(raw, offset)
                lead = data[end:start]
                if not self.lines:
                    self.before, lead = lead, b""
                self.lines.append(
                    self._parse_line(JsonItem(number, lead, raw, {}), start, is_last=number == len(texts))
                )
                end = start + len(raw)
            offset += len(text) + 1
        self.after = data[end:]

    def _parse_line(self, line: JsonItem, start: int, *, is_last: bool) -> JsonItem:
        try:
            value = parse_json(line.raw)
        except UnicodeDecodeError as exc:
            byte = line.raw[exc.start]
            return self.reject(
                line, f"line {line.number}: byte {start + exc.start} of the file (0x{byte:02x}) is not UTF-8"
            )
        except json.JSONDecodeError as exc:
            cut = "; it is the last line and has no line end, so the file was probably cut off" if is_last else ""
            return self.reject(line, f"line {line.number}, column {exc.colno}: {exc.msg}{cut}")
        if not isinstance(value, dict):
            return self.reject(line, f"line {line.number} is not a JSON object")
        return replace(line, value=value)

    def reject(self, line: JsonItem, problem: str) -> JsonItem:
        """Returns the line marked as damaged. Raises `DamagedLine` unless damaged lines are skipped."""
        if not self.skip_damaged:
            raise DamagedLine(f"{self._file}: {problem}; {_SKIP_HINT}", line=line.number)
        return replace(line, value={}, problem=problem)

    def reject_role(self, line: JsonItem, role: object, format: str) -> JsonItem:
        """Does the same for a line whose message has a role that the format does not define. Raises `UnknownRole`."""
        problem = f"line {line.number}: {role!r} is not a role of the {format} format"
        if not self.skip_damaged:
            raise UnknownRole(f"{self._file}: {problem}; {_SKIP_HINT}")
        return replace(line, value={}, problem=problem)

    def take_header(self, is_header: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Removes the first line if it is the file's header, and returns its value. Its bytes move to `before`."""
        if not self.lines or not is_header(self.lines[0].value):
            return {}
        header = self.lines.pop(0)
        self.before += header.raw
        return dict(header.value)

    def sort_parents_first(self, get_ids: IdGetter, *, can_lack_parents: bool) -> None:
        """Sorts the lines so that parents come before children.

        Rejects ids that are used twice, cycles, and, unless `can_lack_parents` or damaged lines are skipped, parents
        that are not in the file.
        """
        self._reject_ids(get_ids, can_lack_parents=can_lack_parents or self.skip_damaged)
        known = {own for own, _ in map(get_ids, self.lines)}
        placed: set[str | None] = set()
        waiting: dict[str, list[JsonItem]] = {}
        out: list[JsonItem] = []
        for line in self.lines:
            parent = get_ids(line)[1]
            if parent and parent in known and parent not in placed:
                waiting.setdefault(parent, []).append(line)
                continue
            ready = [line]
            while ready:
                out.append(ready.pop())
                own = get_ids(out[-1])[0]
                placed.add(own)
                ready.extend(reversed(waiting.pop(own, [])))
        self.lines = out

    def _reject_ids(self, get_ids: IdGetter, *, can_lack_parents: bool) -> None:
        numbers: dict[str, int] = {}
        for index, line in enumerate(self.lines):
            own, _ = get_ids(line)
            if own in numbers:
                problem = f"line {line.number}: the id {own!r} was already used on line {numbers[own]}"
                self.lines[index] = self.reject(line, problem)
            elif own:
                numbers[own] = line.number
        ids = [get_ids(line) for line in self.lines]
        in_cycle = _find_cycles({own: parent for own, parent in ids if own and parent})
        for index, (line, (own, parent)) in enumerate(zip(self.lines, ids, strict=True)):
            if own in in_cycle:
                self.lines[index] = self.reject(line, f"line {line.number}: its parent ids form a cycle")
            elif parent and parent not in numbers and not can_lack_parents:
                self.reject(line, f"line {line.number}: the parent {parent!r} is not in the file")


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
