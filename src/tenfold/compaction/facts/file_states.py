"""Folds what was done to files into one state for each path."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import UserDict
from collections.abc import Callable, Sequence
from itertools import count

from msgspec.structs import replace

from tenfold.compaction.facts.edit_content import join_contents
from tenfold.compaction.facts.tool_results import is_success
from tenfold.core.record.fact import ChangedFile, CommandRun, Fact, Failure, FileRead

_Slot = tuple[str, str]
"""Whether a file was changed or read, and its path."""


def fold_files(
    facts: Sequence[ChangedFile | FileRead], runs: Sequence[CommandRun]
) -> tuple[list[ChangedFile], list[FileRead]]:
    """Returns the last state of each file that was changed, and the other files that were read.

    The facts are in order. What the command `runs` committed is not reverted.
    """
    commits = [run.position for run in runs if "git commit" in run.command and is_success(run.outcome)]
    table = _FileTable()
    for fact in facts:
        if isinstance(fact, FileRead):
            if ("changed", fact.text) not in table:
                table.pop(("read", fact.text), None)
                table["read", fact.text] = fact
            continue
        if not fact.live:
            _revert_changes(table, fact, max((at for at in commits if at <= fact.position), default=-1))
        _put_change(table, fact)
    found = list(table.values())
    changes = [each for each in found if isinstance(each, ChangedFile)]
    return changes, [each for each in found if isinstance(each, FileRead)]


def _put_change(table: _FileTable, fact: ChangedFile) -> None:
    before = table.pop_change(fact.text)
    table.pop(("read", fact.text), None)
    fact = _combine_states(before, fact)
    if fact.change == "renamed":
        fact = _apply_rename(table, fact)
    elif fact.change == "deleted":
        _delete_contents(table, fact)
    else:
        for folder in _list_parents(fact.text):
            parent = table.get(("changed", folder))
            if isinstance(parent, ChangedFile) and parent.change == "deleted":
                table.pop(("changed", folder))
    table["changed", fact.text] = fact


def _revert_changes(table: _FileTable, fact: ChangedFile, last_commit: int) -> None:
    """Marks uncommitted changes in a folder, or everywhere, as reverted."""
    slots = [slot for slot in table if slot[0] == "changed"] if fact.text == "." else table.list_inside(fact.text)
    for slot in slots:
        file = table[slot]
        is_open = isinstance(file, ChangedFile) and file.change == "modified" and file.live
        if is_open and file.position > last_commit:
            table[slot] = replace(file, position=fact.position, live=False)


class _FileTable(UserDict[_Slot, ChangedFile | FileRead]):
    """Files in order of arrival, with an index to find what is inside a folder."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[_Slot] = []
        self._numbers: dict[_Slot, int] = {}
        self._number = count()

    def __setitem__(self, slot: _Slot, fact: ChangedFile | FileRead) -> None:
        if slot not in self.data:
            insort(self._paths, (slot[1], slot[0]))
            self._numbers[slot] = next(self._number)
        self.data[slot] = fact

    def __delitem__(self, slot: _Slot) -> None:
        del self.data[slot], self._numbers[slot]
        del self._paths[bisect_left(self._paths, (slot[1], slot[0]))]

    def pop_change(self, path: str) -> ChangedFile | None:
        """Removes and returns the state of a changed file."""
        found = self.pop(("changed", path), None)
        return found if isinstance(found, ChangedFile) else None

    def list_inside(self, folder: str) -> list[_Slot]:
        """Returns the slots of all files in a folder, at any depth, in order of arrival."""
        first, last = (bisect_left(self._paths, (folder + sign, "")) for sign in "/0")  # "0" follows "/" in ASCII
        return sorted(((kind, path) for path, kind in self._paths[first:last]), key=self._numbers.__getitem__)


def _list_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(2, len(parts))]


def _delete_contents(table: _FileTable, deleted: ChangedFile) -> None:
    """Marks everything inside a deleted folder as deleted."""
    for slot in table.list_inside(deleted.text):
        table.pop(slot)
        if slot[0] == "changed":
            table[slot] = ChangedFile(slot[1], deleted.position, change="deleted")


def _apply_rename(table: _FileTable, fact: ChangedFile) -> ChangedFile:
    """Applies a rename: the old path's state ends, and what was inside a renamed folder moves with it.

    A file that was renamed before keeps its first name. One that gets it back is not renamed, at most changed.
    """
    if not fact.old_path:  # a text that nobody vouches for may leave it out
        return fact
    before = table.pop_change(fact.old_path)
    table.pop(("read", fact.old_path), None)
    for slot in table.list_inside(fact.old_path):
        path = fact.text + slot[1][len(fact.old_path) :]
        table[slot[0], path] = replace(table.pop(slot), text=path)
    if before is None:
        return fact
    content = join_contents(before.content, fact.content)
    if before.change != "renamed":
        return replace(fact, is_edited=True, content=content)
    if before.old_path != fact.text:
        return replace(fact, old_path=before.old_path, is_edited=before.is_edited, content=content)
    return ChangedFile(fact.text, fact.position, live=before.is_edited, content=content)


def _combine_states(before: ChangedFile | None, fact: ChangedFile) -> ChangedFile:
    """Combines two states of one path: a file created or renamed and then changed stays created or renamed."""
    if before is None or not (before.live and fact.live) or fact.change != "modified" or before.change == "deleted":
        return fact
    return replace(
        before,
        position=fact.position,
        content=join_contents(before.content, fact.content),
        is_edited=before.change == "renamed",
        is_unconfirmed=fact.is_unconfirmed and before.change != "renamed",
    )


def resolve_paths(facts: list[Fact]) -> list[Fact]:
    """Replaces each relative path by the one absolute path that ends in it, if the session names exactly one."""
    paths_by_name: dict[str, set[str]] = {}
    files = [fact for fact in facts if isinstance(fact, ChangedFile | FileRead)]
    for path in (path for fact in files for path in list_paths(fact)):
        if path.startswith("/"):
            paths_by_name.setdefault(path.rpartition("/")[2], set()).add(path)

    def find_absolute(path: str) -> str:
        matches = {known for known in paths_by_name.get(path.rpartition("/")[2], ()) if known.endswith("/" + path)}
        return matches.pop() if len(matches) == 1 else path

    if all(fact.text.startswith("/") for fact in files):
        return facts
    return [_with_paths(fact, find_absolute) for fact in facts]


def _with_paths(fact: Fact, find_absolute: Callable[[str], str]) -> Fact:
    """Returns the fact with the paths that `find_absolute` gives for those that it names."""
    match fact:
        case FileRead():
            return replace(fact, text=find_absolute(fact.text))
        case ChangedFile():
            old_path = find_absolute(fact.old_path) if fact.old_path else ""
            return replace(fact, text=find_absolute(fact.text), old_path=old_path)
        case Failure() if not fact.source.startswith("$ "):
            return replace(fact, source=find_absolute(fact.source))
        case _:
            return fact


def list_paths(fact: ChangedFile | FileRead) -> tuple[str, ...]:
    """Returns the paths that a fact about a file names: two for a rename."""
    return (fact.old_path, fact.text) if isinstance(fact, ChangedFile) and fact.old_path else (fact.text,)
