"""Reads files with one JSON object per line: splits the lines, reports damaged ones, and sorts trees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from tenfold.core.wire.splice import BOM
from tenfold.errors import DamagedLine, UnknownRole
from tenfold.formats.json_items import JsonItem, parse_json
from tenfold.formats.line_tree import DescribeLine, link_lines

_SKIP_HINT = "fix the line, or pass --skip-damaged to read the file without it"
_DECODER = json.JSONDecoder()
_SECOND_OBJECT = re.compile(rb'\}[ \t\r]*\{[ \t\r]*"')
"""Where an object may begin behind another one. Within a string the quotation mark has a backslash."""
_NO_MORE = re.compile(r"[\w.+-]{0,400}")
"""The beginning of a number, of `true` and its like, or nothing."""
_BLANKS = re.compile(r"[ \t\r]*")


def get_parent_id(value: dict[str, Any], key: str) -> str | None:
    """Returns the parent's id under a key. One that is no text is made one: no line has it, so it will be reported."""
    parent = value.get(key)
    return None if parent is None else str(parent)


class LineFile:
    """The objects of a file, one a line, and the bytes `before` the first and `after` the last one.

    What is wrong with a line is raised as `DamagedLine`, or with `skip_damaged` kept as the line's `problem`. A last
    line that ends within its object is what the file of a running session looks like: it belongs to `after`, and
    `problems` says so.
    """

    def __init__(self, data: bytes, *, file: str, skip_damaged: bool) -> None:
        self.skip_damaged = skip_damaged
        self.before = b""
        self.lines: list[JsonItem] = []
        self.problems: tuple[str, ...] = ()
        self._file = file
        texts = data.split(b"\n")
        pieces = [
            (number, place, piece)
            for number, text in enumerate(texts, 1)
            for place, piece in enumerate(split_objects(text.strip(b" \t\r").removeprefix(BOM)))
        ]
        if len(pieces) > 1 and _is_cut(pieces[-1][2]):
            number, _, _ = pieces.pop()
            self.problems = (f"line {number} is not complete, so the file is read up to there",)
        end = 0
        for number, place, piece in pieces:
            start = data.index(piece, end)
            lead, end = data[end:start], start + len(piece)
            if not self.lines:
                self.before, lead = lead, b""
            line = JsonItem(number, lead, piece, {}, place=place)
            self.lines.append(self._parse_line(line, start, is_last=number == len(texts)))
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
        self.before += header.lead + header.raw
        return dict(header.value)

    def link_lines(self, describe: DescribeLine, *, can_lack_parents: bool) -> None:
        """Links the lines as `line_tree` does, and sorts them so that parents come before children.

        Rejects cycles and, unless `can_lack_parents` or damaged lines are skipped, parents that are not in the file.
        """
        self.lines = link_lines(self.lines, describe)
        self._reject_parents(can_lack_parents=can_lack_parents or self.skip_damaged)
        known = {line.own for line in self.lines}
        placed: set[str | None] = set()
        waiting: dict[str, list[JsonItem]] = {}
        out: list[JsonItem] = []
        for line in self.lines:
            if line.parent and line.parent in known and line.parent not in placed:
                waiting.setdefault(line.parent, []).append(line)
                continue
            ready = [line]
            while ready:
                out.append(ready.pop())
                own = out[-1].own
                placed.add(own)
                ready.extend(reversed(waiting.pop(own, [])))
        self.lines = out

    def _reject_parents(self, *, can_lack_parents: bool) -> None:
        known = {line.own for line in self.lines if line.own}
        in_cycle = _find_cycles({line.own: line.parent for line in self.lines if line.own and line.parent})
        for index, line in enumerate(self.lines):
            if line.own in in_cycle:
                rejected = self.reject(line, f"line {line.number}: its parent ids form a cycle")
                self.lines[index] = replace(rejected, own="", parent=None)
            elif line.parent and line.parent not in known and not can_lack_parents:
                self.reject(line, f"line {line.number}: the parent {line.parent!r} is not in the file")


def split_objects(raw: bytes) -> list[bytes]:
    """Splits a line into its objects: one, or several if a line end was not written. What follows them is the last."""
    if not raw or _SECOND_OBJECT.search(raw) is None:
        return [raw] if raw else []
    text = raw.decode("utf-8", "surrogateescape")
    starts = [0]
    try:
        while starts[-1] < len(text):
            _, end = _DECODER.raw_decode(text, starts[-1])
            behind = _BLANKS.match(text, end)
            starts.append(behind.end() if behind else end)
    except (ValueError, RecursionError):
        starts.append(len(text))
    pieces = [text[start:end].rstrip(" \t\r") for start, end in pairwise(starts)]
    return [piece.encode("utf-8", "surrogateescape") for piece in pieces]


def _is_cut(raw: bytes) -> bool:
    """Returns whether a line ends within its object, as one that is being written does."""
    try:
        json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        return exc.end == len(raw) and exc.reason == "unexpected end of data"
    except json.JSONDecodeError as exc:
        is_at_end = exc.msg.startswith("Unterminated string") or _NO_MORE.fullmatch(exc.doc, exc.pos) is not None
        return raw.startswith(b"{") and is_at_end
    except (ValueError, RecursionError):
        return False
    return False


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
