"""Resolves the gold facts and measures a view, or an extractor, against them.

A gold file holds no text: each item is an entry, the path of a string inside it, a character range and a hash. This
module reads the text from the session file, refuses it when the hash differs, and compares by exact text. It does not
extract anything: what counts as a fact was decided by reading (see README.md).

    python -m tests.gold.score            recall and precision of the extractor, per session and kind
    python -m tests.gold.score --missed   the same, then each gold item it missed
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, cast, get_args

import msgspec
from msgspec import Struct

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import ChangedFile, Fact
from tenfold.formats import read_file
from tests import sessions

HERE = Path(__file__).parent
OVERLAP = 0.6
"""The share of a gold range that shorter facts inside it must cover together to count as found."""

Kind = Literal[
    "rule",
    "correction",
    "request",
    "file_created",
    "file_modified",
    "file_renamed",
    "file_deleted",
    "error",
    "error_resolved",
    "todo",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MUST_KEEP = tuple(kind for kind in KINDS if kind != "error_resolved")
_GROUPS: tuple[frozenset[str], ...] = (
    frozenset({"rule", "correction"}),
    frozenset({"file_created", "file_modified", "file_renamed"}),
)
_ERRORS = frozenset({"error", "error_resolved"})
Json = dict[str, object] | list[object] | str | float | bool | None


class GoldMismatch(Exception):
    """Raised when a gold item does not fit the session file: the file changed, or the item is wrong."""


class Range(Struct, frozen=True, forbid_unknown_fields=True):
    """Characters `start` to `end` (exclusive) of a string, and the SHA-256 of exactly those, as UTF-8."""

    start: int
    end: int
    sha256: str


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a gold file. `part` is the path of the string inside entry number `entry`.

    `under` is a second range of the same string: the folder that a shell command names apart from the file.
    `until` is the entry at which the user withdrew a rule.
    """

    kind: Kind
    entry: int
    part: tuple[str | int, ...]
    start: int
    end: int
    sha256: str
    under: Range | None = None
    until: int | None = None
    note: str = ""


class GoldFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A gold file: whose facts, and where. `root` is the folder that `source` is relative to.

    `entries` is how many entries the source has; `within` is the path of their list where the source is one object.
    """

    root: Literal["sessions", "repository"]
    source: str
    sha256: str
    entries: int
    items: tuple[Item, ...]
    within: tuple[str | int, ...] = ()


class GoldItem(Struct, frozen=True):
    """A gold fact with its text, as it stands in the session."""

    kind: Kind
    entry: int
    text: str
    until: int | None = None
    note: str = ""


Pair = tuple[float | None, float | None]


# -- loading -----------------------------------------------------------------------------------------------------------


def list_names() -> tuple[str, ...]:
    """The gold files there are, by name."""
    return tuple(sorted(path.stem for path in HERE.glob("*.json")))


def read_gold_file(name: str) -> GoldFile:
    """The gold file `name`, unresolved. Raises `msgspec.ValidationError` when it is malformed."""
    return msgspec.json.decode((HERE / f"{name}.json").read_bytes(), type=GoldFile)


def get_source_path(file: GoldFile) -> Path:
    """The session file that a gold file is about."""
    return (sessions.FOLDER if file.root == "sessions" else sessions.ROOT) / file.source


def read_entries(file: GoldFile) -> list[Json]:
    """The entries of the session, parsed. Raises `GoldMismatch` when the file is not the one that was read."""
    raw = get_source_path(file).read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != file.sha256:
        raise GoldMismatch(f"{file.source}: SHA-256 is {found[:12]}, gold is of {file.sha256[:12]}: read it again")
    if file.source.endswith(".jsonl"):
        lines = raw.removesuffix(b"\n").split(b"\n")
        return [cast("Json", msgspec.json.decode(line)) if line.strip() else None for line in lines]
    held = follow(msgspec.json.decode(raw), file.within)
    if not isinstance(held, list):
        raise GoldMismatch(f"{file.source}: no list of entries at {file.within}")
    return cast("list[Json]", held)


def follow(value: object, path: Sequence[str | int]) -> object:
    """What lies at `path` inside parsed JSON. Raises `GoldMismatch` when the path leads nowhere."""
    for key in path:
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int() if 0 <= key < len(value):
                value = value[key]
            case _:
                raise GoldMismatch(f"nothing at {key!r} of the path {list(path)}")
    return value


def resolve(item: Item, entry: Json) -> GoldItem:
    """The item with its text out of its parsed entry. Raises `GoldMismatch` when range or hash do not fit."""
    text = follow(entry, item.part)
    if not isinstance(text, str):
        raise GoldMismatch(f"entry {item.entry}: {list(item.part)} is not a string")
    found = _cut(text, Range(item.start, item.end, item.sha256), item.entry)
    if item.under is not None:
        found = f"{_cut(text, item.under, item.entry).rstrip('/')}/{found}"
    return GoldItem(item.kind, item.entry, found, item.until, item.note)


def _cut(text: str, span: Range, entry: int) -> str:
    if not 0 <= span.start < span.end <= len(text):
        raise GoldMismatch(f"entry {entry}: {span.start}..{span.end} is not inside a part of {len(text)} characters")
    found = text[span.start : span.end]
    if hashlib.sha256(found.encode()).hexdigest() != span.sha256:
        raise GoldMismatch(f"entry {entry}: the text at {span.start}..{span.end} has another hash than the gold")
    return found


def read_gold(name: str) -> list[GoldItem]:
    """Every gold fact of a session, resolved. Raises `GoldMismatch` at the first that does not fit its source."""
    file = read_gold_file(name)
    entries = read_entries(file)
    if len(entries) != file.entries:
        raise GoldMismatch(f"{file.source}: {len(entries)} entries, gold says {file.entries}")
    return [resolve(item, entries[item.entry]) for item in file.items]


# -- a view against the gold -------------------------------------------------------------------------------------------


def normalize_space(text: str) -> str:
    """Text with every run of white space as one blank. Case is kept."""
    return " ".join(text.split())


def is_in_view(item: GoldItem, view_text: str) -> bool:
    """Whether the gold text stands in the view; of a path, at least the file's name with its folder."""
    return _is_in_text(item, normalize_space(view_text))


def _is_in_text(item: GoldItem, seen: str) -> bool:
    if item.kind.startswith("file_"):
        return _has_path(seen, item.text)
    return normalize_space(item.text) in seen


def _has_path(seen: str, path: str) -> bool:
    tail = "/".join(path.strip("/").split("/")[-2:])
    return re.search(rf"(?<![\w.-]){re.escape(tail)}(?![\w-]|\.\w)", seen) is not None


def score(items: Iterable[GoldItem], view_text: str) -> dict[str, tuple[int, int]]:
    """Kind to (kept, total): how many gold facts stand in the view."""
    seen = normalize_space(view_text)
    found: dict[str, tuple[int, int]] = {}
    for item in items:
        kept, total = found.get(item.kind, (0, 0))
        found[item.kind] = (kept + _is_in_text(item, seen), total + 1)
    return found


# -- an extractor against the gold -------------------------------------------------------------------------------------


def score_extractor(items: Sequence[GoldItem], facts: Sequence[Fact]) -> dict[str, Pair]:
    """Kind to (recall, precision). None where there is nothing to find, or nothing was offered.

    A rule found as a correction counts as found, and so does a created file found as modified or renamed;
    `confusions` counts those apart. Errors, requests, files and to-dos count by `live`.
    """
    found: dict[str, Pair] = {}
    for kind in KINDS:
        wanted = [item for item in items if item.kind == kind]
        near = [item for item in items if item.kind in _get_group(kind)]
        offered = [fact for fact in facts if _get_kind(fact) == kind]
        if wanted or offered:
            hits = [_is_found(item, facts) for item in wanted]
            right = [any(_is_match(item, fact, pieces=_is_found(item, facts)) for item in near) for fact in offered]
            found[kind] = (_compute_share(hits), _compute_share(right))
    return found


def count_confusions(items: Iterable[GoldItem], facts: Sequence[Fact]) -> Counter[tuple[str, str]]:
    """(gold kind, fact kind) to how many gold facts were found under that other kind only.

    Looks at the kinds that count for one another, and at errors taken for resolved or for open.
    """
    wrong: Counter[tuple[str, str]] = Counter()
    for item in items:
        near = _ERRORS if item.kind in _ERRORS else _get_group(item.kind)
        kinds = sorted({_get_kind(fact) for fact in facts if _is_match(item, fact)} & near)
        if kinds and item.kind not in kinds:
            wrong[item.kind, kinds[0]] += 1
    return wrong


def find_missed(items: Iterable[GoldItem], facts: Sequence[Fact]) -> list[GoldItem]:
    """The gold facts that no fact of their kind, or of a kind that counts as theirs, covers."""
    return [item for item in items if not _is_found(item, facts)]


def _compute_share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _get_group(kind: str) -> frozenset[str]:
    return next((group for group in _GROUPS if kind in group), frozenset({kind}))


def _get_kind(fact: Fact) -> str:
    """The gold kind that a fact is offered as; "" for kinds the gold does not hold and for what is settled."""
    match fact.kind:
        case "error":
            return "error" if fact.live else "error_resolved"
        case "rule" | "correction":
            return fact.kind
        case _:
            return fact.kind if fact.live else ""


def _is_found(item: GoldItem, facts: Sequence[Fact]) -> bool:
    offered = [fact for fact in facts if _get_kind(fact) in _get_group(item.kind)]
    if item.kind.startswith("file_"):
        return any(_is_match(item, fact) for fact in offered)
    text = normalize_space(item.text)
    texts = [normalize_space(fact.text) for fact in offered]
    return any(text in one for one in texts) or _compute_coverage(text, texts) >= OVERLAP


def _compute_coverage(text: str, pieces: Iterable[str]) -> float:
    """The share of `text` that those pieces cover together which stand in it whole."""
    marks = bytearray(len(text))
    for piece in pieces:
        at = text.find(piece) if piece else -1
        if at >= 0:
            marks[at : at + len(piece)] = b"\x01" * len(piece)
    return sum(marks) / len(text)


def _is_match(item: GoldItem, fact: Fact, *, pieces: bool = False) -> bool:
    """Whether a fact is about the gold fact: it holds it, or most of it. Of paths, the name with its folder.

    With `pieces` any part counts, for a gold fact that several facts cover together.
    """
    if item.kind.startswith("file_"):
        is_changed = isinstance(fact, ChangedFile)
        return is_changed and any(_has_path(normalize_space(one), item.text) for one in (fact.text, fact.label))
    text, said = normalize_space(item.text), normalize_space(fact.text)
    return text in said or (said in text and len(said) >= (1 if pieces else OVERLAP * len(text)))


# -- the command -------------------------------------------------------------------------------------------------------


def extract_gold_facts(name: str) -> tuple[Fact, ...]:
    """What the extractor finds in the session of a gold file, read as users read it: the longest one in that file."""
    recorded = max(read_file(get_source_path(read_gold_file(name))), key=lambda one: len(one.entries))
    said = ((at, get_message(entry)) for at, entry in enumerate(recorded.entries))
    return extract_facts((at, message) for at, message in said if message is not None)


def format_report(name: str, facts: Sequence[Fact], *, show_missed: bool = False) -> list[str]:
    """The lines that the command prints for one session."""
    items = read_gold(name)
    lines = [f"{name}: {len(items)} gold facts, {len(facts)} extracted"]
    for kind, (recall, precision) in score_extractor(items, facts).items():
        wanted = [len(normalize_space(item.text)) for item in items if item.kind == kind]
        offered = [len(normalize_space(fact.text)) for fact in facts if _get_kind(fact) == kind]
        sizes = f"gold {len(wanted):3} ({sum(wanted):5} chars)  offered {len(offered):3} ({sum(offered):5} chars)"
        lines.append(f"  {kind:15} {sizes}  recall {_format_percent(recall)}  precision {_format_percent(precision)}")
    for (wanted_kind, got), count in sorted(count_confusions(items, facts).items()):
        lines.append(f"  {wanted_kind} found as {got}: {count}")
    if show_missed:
        lines += [f"  missed {item.kind} at entry {item.entry}: {item.note}" for item in find_missed(items, facts)]
    return lines


def _format_percent(share: float | None) -> str:
    return "    -" if share is None else f"{share:5.0%}"


if __name__ == "__main__":
    for each in list_names():
        print("\n".join(format_report(each, extract_gold_facts(each), show_missed="--missed" in sys.argv)))
