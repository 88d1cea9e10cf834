"""Merges the facts of two ranges. The later fact of one kind and key wins, and settled facts are marked as such.

What is settled follows from positions alone, so the order in which ranges are merged does not matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import UserDict
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec

from tenfold.calls.outcomes import ended, went_well
from tenfold.calls.shell import broader, only_looks, program
from tenfold.record.block import Fact, FactKind
from tenfold.remembering import remembered
from tenfold.summarize.facts.names import bounded_names, joined_names
from tenfold.summarize.facts.said import ACK
from tenfold.summarize.facts.todos import TOOL, changes, joined

MOST: dict[FactKind, int] = {
    "identifier": 300,
    "command": 400,
    "file_read": 400,
    "decision": 150,
    "error": 300,
    "request": 400,
}
"""How many facts of a kind are kept; the newest stay. Must-keep facts of the other kinds are never dropped."""

USER = "user"
"""The `note` of an error that the user pasted. It expires as the conversation goes on, since no command settles it."""

REVERTED = "reverted"
"""The `note` of a file whose changes were discarded. The path may be a folder, or "." for everything."""

WRITTEN: frozenset[FactKind] = frozenset({"file_modified", "file_created", "file_deleted", "file_renamed"})


def merge(older: Sequence[Fact], newer: Sequence[Fact]) -> tuple[Fact, ...]:
    """Merges the facts of two consecutive ranges into one list, ordered by position.

    Of facts with the same kind and key the later wins. A path has one state. An error is settled when what failed later
    succeeds or is run again. Only the newest request and the newest to-do list are live.
    """
    table = _Kept()
    for fact in _absolute(sorted([*older, *newer], key=lambda fact: fact.order)):
        if fact.note == REVERTED:
            _thrown_away(table, fact)
        _put(table, fact)
    facts = _settle(_bounded(table.values()))
    return tuple(sorted(facts, key=lambda fact: fact.order))


def _put(kept: _Kept, fact: Fact) -> None:
    slot = ("file", fact.key) if fact.kind in WRITTEN else (fact.kind, fact.key)
    before = kept.pop(slot, None) or _read_back(kept, fact)
    if fact.kind in WRITTEN:
        kept.pop(("file_read", fact.key), None)
        fact = _path_state(before, fact)
        if fact.kind == "file_renamed":
            fact = _moved(kept, fact)
        elif fact.kind == "file_deleted":
            _emptied(kept, fact)
        else:
            for folder in _parents(fact.key):
                parent = kept.get(("file", folder))
                if parent is not None and parent.kind == "file_deleted":
                    kept.pop(("file", folder))
    elif fact.kind == "file_read" and ("file", fact.key) in kept:
        return
    elif before is not None and fact.kind == "todo":
        fact = joined(before, fact)
    elif before is not None and fact.kind == "name":
        fact = joined_names(before, fact)
    elif before is not None and before.kind in {"rule", "correction"} and not before.note:
        fact = msgspec.structs.replace(fact, note="")
    kept[slot] = fact


def _thrown_away(kept: _Kept, fact: Fact) -> None:
    """Marks uncommitted changes in a folder, or everywhere, as reverted."""
    slots = [slot for slot in kept if slot[0] == "file"] if fact.key == "." else kept.inside(fact.key)
    if not slots:
        return
    commits = [f.at for f in kept.values() if f.kind == "command" and "git commit" in f.key and went_well(f.note)]
    last_commit = max(commits, default=-1)
    for slot in slots:
        changed = kept[slot]
        if changed.kind == "file_modified" and changed.live and changed.at > last_commit:
            kept[slot] = msgspec.structs.replace(changed, at=fact.at, live=False, note=REVERTED)


def _read_back(kept: _Kept, fact: Fact) -> Fact | None:
    """Removes and returns the to-do list parsed from a section, if the fact is a change of that list."""
    slot = "todo", TOOL
    return kept.pop(slot) if fact.kind == "todo" and changes(fact, kept.get(slot)) else None


class _Kept(UserDict[tuple[str, str], Fact]):
    """Facts by kind and key, in order of arrival, with a path index to find what is inside a folder."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._number = count()

    def __setitem__(self, slot: tuple[str, str], fact: Fact) -> None:
        if slot[0] in {"file", "file_read"} and slot not in self.data:
            insort(self._paths, (slot[1], slot[0]))
            self._numbers[slot] = next(self._number)
        self.data[slot] = fact

    def __delitem__(self, slot: tuple[str, str]) -> None:
        del self.data[slot]
        if self._numbers.pop(slot, None) is not None:
            del self._paths[bisect_left(self._paths, (slot[1], slot[0]))]

    def renew(self, slot: tuple[str, str], fact: Fact) -> None:
        """Replaces a fact and moves it to the end."""
        del self.data[slot]
        self.data[slot] = fact
        self._numbers[slot] = next(self._number)

    def inside(self, folder: str) -> list[tuple[str, str]]:
        """Returns the slots of all files in a folder, at any depth, in order of arrival."""
        first, last = (bisect_left(self._paths, (folder + sign, "")) for sign in "/0")  # "0" follows "/" in ASCII
        return sorted(((kind, path) for path, kind in self._paths[first:last]), key=self._numbers.__getitem__)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(2, len(parts))]


def _emptied(kept: _Kept, gone: Fact) -> None:
    """Marks everything inside a deleted folder as deleted."""
    for slot in kept.inside(gone.key):
        if slot[0] == "file":
            kept.renew(slot, Fact(kind="file_deleted", text=slot[1], key=slot[1], at=gone.at))
        else:
            kept.pop(slot)


def _moved(kept: _Kept, fact: Fact) -> Fact:
    """Applies a rename: the old path's state ends, and what was inside a renamed folder moves with it."""
    old_path = fact.text.partition(" -> ")[0]
    was_changed = kept.pop(("file", old_path), None) is not None
    kept.pop(("file_read", old_path), None)
    for slot in kept.inside(old_path):
        inner = kept.pop(slot)
        path = fact.key + slot[1][len(old_path) :]
        text = path if inner.kind != "file_renamed" else inner.text.partition(" -> ")[0] + " -> " + path
        kept[slot[0], path] = msgspec.structs.replace(inner, key=path, text=text)
    return msgspec.structs.replace(fact, note="changed") if was_changed and not fact.note else fact


def _absolute(facts: list[Fact]) -> list[Fact]:
    """Replaces each relative path by the one absolute path that ends in it, if the session names exactly one."""
    paths_by_name: dict[str, set[str]] = {}
    files = [fact for fact in facts if fact.kind in WRITTEN or fact.kind == "file_read"]
    for fact in files:
        if fact.key.startswith("/"):
            paths_by_name.setdefault(fact.key.rpartition("/")[2], set()).add(fact.key)

    def full(path: str) -> str:
        matches = {known for known in paths_by_name.get(path.rpartition("/")[2], ()) if known.endswith("/" + path)}
        return matches.pop() if len(matches) == 1 else path

    if all(fact.key.startswith("/") for fact in files):
        return facts
    return [
        _with_path(fact, full(fact.key)) if fact.kind in WRITTEN or fact.kind == "file_read" else fact for fact in facts
    ]


def _with_path(fact: Fact, path: str) -> Fact:
    if path == fact.key:
        return fact
    old, arrow, _ = fact.text.partition(" -> ")
    return msgspec.structs.replace(fact, key=path, text=f"{old}{arrow}{path}" if arrow else path)


def _path_state(before: Fact | None, fact: Fact) -> Fact:
    """Combines two states of one path: a file created or renamed and then changed stays created or renamed."""
    if (
        before is None
        or not before.live
        or fact.kind != "file_modified"
        or not fact.live
        or before.kind == "file_deleted"
    ):
        return fact
    if before.kind == "file_renamed":
        return msgspec.structs.replace(before, at=fact.at, note="changed")
    return msgspec.structs.replace(before, at=fact.at)


def _bounded(facts: Iterable[Fact]) -> list[Fact]:
    counts: dict[str, int] = {}
    remaining = list(facts)
    out = bounded_names([fact for fact in remaining if fact.kind == "name"])
    remaining = [fact for fact in remaining if fact.kind != "name"]
    for fact in sorted(remaining, key=lambda fact: (fact.note == "tool", -fact.at, -fact.line)):
        counts[fact.kind] = counts.get(fact.kind, 0) + 1
        limit = MOST.get(fact.kind)
        if limit is None or counts[fact.kind] <= limit:
            out.append(fact)
    return out


def _settle(facts: list[Fact]) -> list[Fact]:
    real_requests = [fact.at for fact in facts if fact.kind == "request" and fact.note != ACK]
    requests = sorted(fact.at for fact in facts if fact.kind == "request")
    current = max(real_requests, default=requests[-1] if requests else -1)
    recent = requests[-3:][0] if requests else 0
    deleted_lists = {f"{TOOL}:{fact.key}" for fact in facts if fact.kind == "file_deleted"}
    lists = [fact for fact in facts if fact.kind == "todo" and fact.key not in deleted_lists]
    state = max((fact.at for fact in lists if fact.key.startswith(TOOL)), default=None)
    plan = max((fact.at for fact in lists), default=None)
    signals = _Signals(facts)
    out: list[Fact] = []
    for fact in facts:
        live = fact.live
        match fact.kind:
            case "request":
                live = fact.at == current
            case "todo":
                live = fact.key not in deleted_lists and fact.at == (state if fact.key.startswith(TOOL) else plan)
            case "error" if fact.live:
                live = (fact.at >= recent or _lasts(fact.note)) and not signals.settle(fact)
            case _:
                pass
        out.append(fact if live == fact.live else msgspec.structs.replace(fact, live=live))
    return out


def _lasts(source: str) -> bool:
    """Tells whether an error stays open however old it is: one of a check or program that is run again and again.

    Pasted errors, one-off scripts and other commands expire after three further requests.
    """
    return source.startswith("$ ") and not _INLINE.search(source) and bool(_CHECKS.search(source))


def tells(command: str) -> bool:
    """Tells whether a command's outcome matters more than others: a repeated check, a commit or a push."""
    return bool(_CHECKS.search(command)) or "git commit" in command or "git push" in command


_INLINE = re.compile(r"\s-(?:c|e|p)\s+[\"']|<<")
_CHECKS = re.compile(
    r"\b(?:check|test|tests|build|lint|tsc|tsgo|typecheck|compile|mypy|pyright|ruff|pytest|unittest|cargo|make|vet"
    r"|jest|vitest|python3?|node|tsx|go|deno|bun)\b"
)
_PLACE = re.compile(r"([\w.-]+\.\w{1,5})(?:[:(]\d)")


class _Signals:
    """When each command, program, tool and file last succeeded (or, for the very same command, was run again)."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._again: dict[str, int] = {}
        self._right: dict[str, int] = {}
        self._checked = -1
        self._went = -1
        self._written: dict[str, int] = {}
        for fact in facts:
            if fact.kind == "command":
                if ended(fact.note):
                    self._note(self._again, fact.key, fact.at)
                if went_well(fact.note):
                    self._went = max(self._went, fact.at)
                    for name in _programs(fact.key):
                        self._note(self._right, name, fact.at)
                    if _CHECKS.search(fact.key):
                        self._checked = max(self._checked, fact.at)
            elif fact.kind in WRITTEN:
                self._went = max(self._went, fact.at)
                self._note(self._again, fact.key, fact.at)
                self._note(self._again, fact.text.rpartition(" -> ")[0], fact.at)
                self._note(self._written, fact.key.rpartition("/")[2], fact.at)

    @staticmethod
    def _note(times: dict[str, int], name: str, at: int) -> None:
        times[name] = max(at, times.get(name, at))

    def settle(self, error: Fact) -> bool:
        """Tells whether something after the error shows that it is over."""
        if self._again.get(error.note, -1) > error.at:
            return True
        if _is_path(error.note) and self._went > error.at:
            return True
        place = _PLACE.search(error.text)
        if (
            place
            and self._checked > error.at
            and self._written.get(place.group(1), -1) > error.at
            and _CHECKS.search(error.note)
        ):
            return True
        names = _programs(error.note)
        return bool(names) and all(self._passed(name) > error.at for name in names)

    def _passed(self, name: str) -> int:
        return max(self._right.get(form, -1) for form in broader(name))


def _is_path(source: str) -> bool:
    """Tells whether an error came from a tool on a file. It is over once another such call succeeds."""
    return "/" in source and not source.startswith("$ ")


@remembered
def _programs(key: str) -> tuple[str, ...]:
    """Returns the programs of a shell command's key, without those that only read; of another tool, its name."""
    if not key.startswith("$ "):
        return (key.split(" ", 1)[0],) if key and "/" not in key else ()
    parts = key.removeprefix("$ ").split(" && ")
    return tuple(program(part) for part in parts if not only_looks(part))
