"""Merges the facts of two ranges. The later fact of one kind and key wins, and settled facts are marked as such.

What is settled follows from positions alone, so the order in which ranges are merged does not matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import UserDict
from collections.abc import Callable, Iterable, Sequence
from itertools import count

import msgspec

from tenfold.compaction.facts.current_request import find_current_request
from tenfold.compaction.facts.edit_content import join_contents
from tenfold.compaction.facts.ledger import settle_instructions
from tenfold.compaction.facts.shell import get_program, is_read_only, list_broader_programs
from tenfold.compaction.facts.todos import TODO_KEY, is_change_of, merge_lists
from tenfold.compaction.facts.tool_results import has_ended, is_success
from tenfold.compaction.facts.values import PRINTED_MARK, build_value_key, find_stated_values, join_values, split_value
from tenfold.core.record.block import Ending, Fact, FactKind
from tenfold.core.text.memoize import memoize

MAX_FACTS: dict[FactKind, int] = {
    "identifier": 300,
    "command": 400,
    "file_read": 400,
    "decision": 150,
    "error": 300,
    "request": 400,
    "value": 200,
}
"""How many facts of a kind are kept; the newest stay. Must-keep facts of the other kinds are never dropped."""

REVERTED_NOTE = "reverted"
"""The `note` of a file whose changes were discarded. The path may be a folder, or "." for everything."""

UNCONFIRMED_NOTE = "not confirmed"
"""The `note` of a file whose change no result confirmed or denied."""

WRITTEN_KINDS: frozenset[FactKind] = frozenset({"file_modified", "file_created", "file_deleted", "file_renamed"})


def merge_facts(older: Sequence[Fact], newer: Sequence[Fact]) -> tuple[Fact, ...]:
    """Merges the facts of two consecutive ranges into one list, ordered by position.

    Of facts with the same kind and key the later wins. A path has one state. An error is resolved only when what failed
    later succeeds. Only the newest request and the newest to-do list are live.
    """
    table = _FactTable()
    for fact in _resolve_paths(sorted([*older, *newer], key=lambda fact: fact.order)):
        if fact.note == REVERTED_NOTE:
            _revert_changes(table, fact)
        _put_fact(table, fact)
    facts = settle_instructions(_settle_facts(_drop_stale_values(_limit_facts(table.values()))))
    return tuple(sorted(facts, key=lambda fact: fact.order))


def _put_fact(table: _FactTable, fact: Fact) -> None:
    slot = ("file", fact.key) if fact.kind in WRITTEN_KINDS else (fact.kind, fact.key)
    before = table.pop(slot, None) or _pop_parsed_list(table, fact)
    if fact.kind in WRITTEN_KINDS:
        table.pop(("file_read", fact.key), None)
        fact = _combine_file_states(before, fact)
        if fact.kind == "file_renamed":
            fact = _apply_rename(table, fact)
        elif fact.kind == "file_deleted":
            _delete_contents(table, fact)
        else:
            for folder in _list_parents(fact.key):
                parent = table.get(("file", folder))
                if parent is not None and parent.kind == "file_deleted":
                    table.pop(("file", folder))
    elif fact.kind == "file_read" and ("file", fact.key) in table:
        return
    elif before is not None and fact.kind == "todo":
        fact = merge_lists(before, fact)
    elif fact.kind == "value":
        _put_value(table, before, fact)
        return
    table[slot] = fact


def _put_value(table: _FactTable, before: Fact | None, fact: Fact) -> None:
    """Puts a value into the ledger. A subject of two words or more that was stated takes printed values as well."""
    subject, mark, _ = fact.key.partition(PRINTED_MARK)
    stated = table.pop(("value", subject), None) if mark and " " in subject else None
    if stated is not None:
        fact, before = msgspec.structs.replace(fact, key=subject, live=True), stated
    table["value", fact.key] = join_values(before, fact) if before is not None else fact


def _drop_stale_values(facts: list[Fact]) -> list[Fact]:
    """Leaves out what the ledger of values supersedes or says itself."""
    ledger = {fact.key: fact for fact in facts if fact.kind == "value" and PRINTED_MARK not in fact.key}

    keys_by_value: dict[str, list[str]] = {}
    for key, fact in ledger.items():
        keys_by_value.setdefault(split_value(fact)[1], []).append(key)

    def is_stale(fact: Fact) -> bool:
        if fact.kind == "identifier" and " " not in fact.text:
            name, _, value = fact.text.partition("=")
            words = set(build_value_key(name).split())
            return any(words <= set(key.split()) for key in keys_by_value.get(value, ()))
        if fact.kind == "value":
            subject, mark, _ = fact.key.partition(PRINTED_MARK)
            stated = ledger.get(subject) if mark and " " in subject else None
            return stated is not None and stated.order > fact.order
        if fact.kind not in _STATING_KINDS or len(fact.text) > _MAX_STATEMENT_CHARS:
            return False
        stated_values = find_stated_values(fact.text)
        return bool(stated_values) and all(
            each.key in ledger
            and ledger[each.key].order > fact.order
            and split_value(ledger[each.key])[1] != each.value
            for each in stated_values
        )

    return [fact for fact in facts if not is_stale(fact)]


_STATING_KINDS: frozenset[FactKind] = frozenset({"identifier", "decision"})
_MAX_STATEMENT_CHARS = 200
"""Longest text, in characters, that may be dropped as a whole because the value in it is no longer true."""


def _revert_changes(table: _FactTable, fact: Fact) -> None:
    """Marks uncommitted changes in a folder, or everywhere, as reverted."""
    slots = [slot for slot in table if slot[0] == "file"] if fact.key == "." else table.list_inside(fact.key)
    if not slots:
        return
    commits = [
        f.position for f in table.values() if f.kind == "command" and "git commit" in f.key and is_success(f.note)
    ]
    last_commit = max(commits, default=-1)
    for slot in slots:
        changed = table[slot]
        if changed.kind == "file_modified" and changed.live and changed.position > last_commit:
            table[slot] = msgspec.structs.replace(changed, position=fact.position, live=False, note=REVERTED_NOTE)


def _pop_parsed_list(table: _FactTable, fact: Fact) -> Fact | None:
    """Removes and returns the to-do list parsed from a section, if the fact is a change of that list."""
    slot = "todo", TODO_KEY
    return table.pop(slot) if fact.kind == "todo" and is_change_of(fact, table.get(slot)) else None


class _FactTable(UserDict[tuple[str, str], Fact]):
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

    def replace_as_newest(self, slot: tuple[str, str], fact: Fact) -> None:
        """Replaces a fact and moves it to the end."""
        del self.data[slot]
        self.data[slot] = fact
        self._numbers[slot] = next(self._number)

    def list_inside(self, folder: str) -> list[tuple[str, str]]:
        """Returns the slots of all files in a folder, at any depth, in order of arrival."""
        first, last = (bisect_left(self._paths, (folder + sign, "")) for sign in "/0")  # "0" follows "/" in ASCII
        return sorted(((kind, path) for path, kind in self._paths[first:last]), key=self._numbers.__getitem__)


def _list_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(2, len(parts))]


def _delete_contents(table: _FactTable, deleted: Fact) -> None:
    """Marks everything inside a deleted folder as deleted."""
    for slot in table.list_inside(deleted.key):
        if slot[0] == "file":
            table.replace_as_newest(
                slot, Fact(kind="file_deleted", text=slot[1], key=slot[1], position=deleted.position)
            )
        else:
            table.pop(slot)


def _apply_rename(table: _FactTable, fact: Fact) -> Fact:
    """Applies a rename: the old path's state ends, and what was inside a renamed folder moves with it.

    A file that was renamed before keeps its first name. One that gets it back is not renamed, at most changed.
    """
    old_path = fact.text.partition(" -> ")[0]
    before = table.pop(("file", old_path), None)
    table.pop(("file_read", old_path), None)
    for slot in table.list_inside(old_path):
        inner = table.pop(slot)
        path = fact.key + slot[1][len(old_path) :]
        text = path if inner.kind != "file_renamed" else inner.text.partition(" -> ")[0] + " -> " + path
        table[slot[0], path] = msgspec.structs.replace(inner, key=path, text=text)
    if before is None:
        return fact
    content = join_contents(before.content, fact.content)
    if before.kind != "file_renamed":
        return msgspec.structs.replace(fact, note=fact.note or "changed", content=content)
    first_path = before.text.partition(" -> ")[0]
    if first_path != fact.key:
        return msgspec.structs.replace(
            fact, text=f"{first_path} -> {fact.key}", note=fact.note or before.note, content=content
        )
    is_changed = before.note == "changed"
    return Fact(
        "file_modified",
        fact.key,
        fact.key,
        fact.position,
        live=is_changed,
        note="" if is_changed else REVERTED_NOTE,
        content=content,
    )


def _resolve_paths(facts: list[Fact]) -> list[Fact]:
    """Replaces each relative path by the one absolute path that ends in it, if the session names exactly one."""
    paths_by_name: dict[str, set[str]] = {}
    files = [fact for fact in facts if fact.kind in WRITTEN_KINDS or fact.kind == "file_read"]
    for path in (path for fact in files for path in (fact.key, fact.text.partition(" -> ")[0])):
        if path.startswith("/"):
            paths_by_name.setdefault(path.rpartition("/")[2], set()).add(path)

    def find_absolute(path: str) -> str:
        matches = {known for known in paths_by_name.get(path.rpartition("/")[2], ()) if known.endswith("/" + path)}
        return matches.pop() if len(matches) == 1 else path

    if all(fact.key.startswith("/") for fact in files):
        return facts
    return [
        _with_paths(fact, find_absolute)
        if fact.kind in WRITTEN_KINDS or fact.kind == "file_read"
        else msgspec.structs.replace(fact, note=find_absolute(fact.note))
        if fact.kind == "error" and not fact.note.startswith("$ ")
        else fact
        for fact in facts
    ]


def _with_paths(fact: Fact, find_absolute: Callable[[str], str]) -> Fact:
    """Returns the fact with its path, and of a rename the old one too, as `find_absolute` gives them."""
    old, arrow, _ = fact.text.partition(" -> ")
    path = find_absolute(fact.key)
    text = f"{find_absolute(old)} -> {path}" if arrow else path
    return fact if text == fact.text else msgspec.structs.replace(fact, key=path, text=text)


def _combine_file_states(before: Fact | None, fact: Fact) -> Fact:
    """Combines two states of one path: a file created or renamed and then changed stays created or renamed."""
    if (
        before is None
        or not before.live
        or fact.kind != "file_modified"
        or not fact.live
        or before.kind == "file_deleted"
    ):
        return fact
    note = "changed" if before.kind == "file_renamed" else fact.note
    content = join_contents(before.content, fact.content)
    return msgspec.structs.replace(before, position=fact.position, note=note, content=content)


def _limit_facts(facts: Iterable[Fact]) -> list[Fact]:
    counts: dict[str, int] = {}
    out: list[Fact] = []
    stored = (fact for fact in facts if fact.kind != "name")  # Blocks of versions before 0.4 have names
    for fact in sorted(stored, key=lambda fact: (fact.note == "tool", -fact.position, -fact.line)):
        counts[fact.kind] = counts.get(fact.kind, 0) + 1
        limit = MAX_FACTS.get(fact.kind)
        if limit is None or counts[fact.kind] <= limit:
            out.append(fact)
    return out


def _settle_facts(facts: list[Fact]) -> list[Fact]:
    requests = sorted((fact for fact in facts if fact.kind == "request"), key=lambda fact: -fact.position)
    index = find_current_request(fact.text for fact in requests)
    current = requests[index].position if index is not None else -1
    recent = requests[:3][-1].position if requests else 0
    deleted_lists = {f"{TODO_KEY}:{fact.key}" for fact in facts if fact.kind == "file_deleted"}
    lists = [fact for fact in facts if fact.kind == "todo" and fact.key not in deleted_lists]
    state = max((fact.position for fact in lists if fact.key.startswith(TODO_KEY)), default=None)
    plan = max((fact.position for fact in lists), default=None)
    signals = _SuccessTimes(facts)
    out: list[Fact] = []
    for fact in facts:
        live, ending = fact.live, fact.ending
        match fact.kind:
            case "request":
                live = fact.position == current
            case "todo":
                live = fact.key not in deleted_lists and fact.position == (
                    state if fact.key.startswith(TODO_KEY) else plan
                )
            case "error":
                ending = signals.find_ending(fact)
                is_recent = fact.position >= recent or _is_lasting(fact.note)
                live = live and not ending and is_recent and not signals.is_probably_over(fact)
            case _:
                pass
        is_same = live == fact.live and ending == fact.ending
        out.append(fact if is_same else msgspec.structs.replace(fact, live=live, ending=ending))
    return out


def _is_lasting(source: str) -> bool:
    """Tells whether an error stays open however old it is: one of a check or program that is run again and again.

    Pasted errors, one-off scripts and other commands expire after three further requests.
    """
    return source.startswith("$ ") and not _INLINE_SCRIPT.search(source) and bool(_CHECK_PROGRAM.search(source))


def is_significant(command: str) -> bool:
    """Tells whether a command's outcome matters more than others: a repeated check, a commit or a push."""
    return bool(_CHECK_PROGRAM.search(command)) or "git commit" in command or "git push" in command


_INLINE_SCRIPT = re.compile(r"\s-(?:c|e|p)\s+[\"']|<<")
_CHECK_PROGRAM = re.compile(
    r"\b(?:check|test|tests|build|lint|tsc|tsgo|typecheck|compile|mypy|pyright|ruff|pytest|unittest|cargo|make|vet"
    r"|jest|vitest|python3?|node|tsx|go|deno|bun)\b"
)
_FILE_LOCATION = re.compile(r"(?<![\w.-])([\w.-]+\.\w{1,5})(?:[:(]\d)")


class _SuccessTimes:
    """When each command, program, tool and file last succeeded (or, for the very same command, was run again)."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._last_runs: dict[str, int] = {}
        self._last_successes: dict[str, int] = {}
        self._last_check = -1
        self._last_writes: dict[str, int] = {}
        for fact in facts:
            if fact.kind == "command":
                if has_ended(fact.note):
                    self._record_time(self._last_runs, fact.key, fact.position)
                if is_success(fact.note):
                    for name in (*_list_programs(fact.key), fact.key):
                        self._record_time(self._last_successes, name, fact.position)
                    if _CHECK_PROGRAM.search(fact.key):
                        self._last_check = max(self._last_check, fact.position)
            elif fact.kind in WRITTEN_KINDS and fact.note != UNCONFIRMED_NOTE:
                for path in (fact.key, fact.text.rpartition(" -> ")[0], fact.key.rpartition("/")[2]):
                    self._record_time(self._last_writes, path, fact.position)

    @staticmethod
    def _record_time(times: dict[str, int], name: str, position: int) -> None:
        times[name] = max(position, times.get(name, position))

    def find_ending(self, error: Fact) -> Ending:
        """Returns how an error ended, as far as later facts prove it: only what failed can show that it is mended."""
        if error.note.startswith("$ "):
            names = _list_programs(error.note)
            names = names or (error.note,)
            if all(self._get_last_success(name) > error.position for name in names):
                return "resolved"
            return "superseded" if self._last_runs.get(error.note, -1) > error.position else error.ending
        return "resolved" if self._last_writes.get(error.note, -1) > error.position else error.ending

    def is_probably_over(self, error: Fact) -> bool:
        """Tells whether later facts make an error unlikely to be open, without a proof.

        The tool succeeded with other arguments, or the file was changed in which a check had found it, and a check
        succeeded.
        """
        if not error.note.startswith("$ "):
            return self._last_successes.get(error.note, -1) > error.position
        place = _FILE_LOCATION.search(error.text)
        return (
            place is not None
            and self._last_check > error.position
            and self._last_writes.get(place.group(1), -1) > error.position
            and bool(_CHECK_PROGRAM.search(error.note))
        )

    def _get_last_success(self, name: str) -> int:
        return max(self._last_successes.get(form, -1) for form in list_broader_programs(name))


@memoize
def _list_programs(key: str) -> tuple[str, ...]:
    """Returns the programs of a shell command's key, without those that only read; of another tool, its name."""
    if not key.startswith("$ "):
        return (key.split(" ", 1)[0],) if key and "/" not in key else ()
    parts = key.removeprefix("$ ").split(" && ")
    return tuple(get_program(part) for part in parts if not is_read_only(part))
