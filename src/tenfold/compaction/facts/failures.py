"""Tells which errors are still open, by what was run and changed after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tenfold.compaction.facts.shell import get_program, is_read_only, list_broader_programs
from tenfold.compaction.facts.tool_results import has_ended, is_success
from tenfold.core.record.fact import ChangedFile, CommandRun, Failure
from tenfold.core.text.memoize import memoize

_INLINE_SCRIPT = re.compile(r"\s-(?:c|e|p)\s+[\"']|<<")
_CHECK_PROGRAM = re.compile(
    r"\b(?:check|test|tests|build|lint|tsc|tsgo|typecheck|compile|mypy|pyright|ruff|pytest|unittest|cargo|make|vet"
    r"|jest|vitest|python3?|node|tsx|go|deno|bun)\b"
)
_FILE_LOCATION = re.compile(r"(?<![\w.-])([\w.-]+\.\w{1,5})(?:[:(]\d)")
_RECENT_REQUESTS = 3
"""Of how many of the newest requests errors stay open that nothing settles."""


def settle_failures(
    failures: Iterable[Failure], requests: Sequence[int], commands: Iterable[CommandRun], changes: Iterable[ChangedFile]
) -> list[Failure]:
    """Returns the failures, live if they are still open. `requests` are the positions of all requests."""
    times = _SuccessTimes(commands, changes)
    newest = sorted(requests)[-_RECENT_REQUESTS:]
    recent = newest[0] if newest else 0
    return [
        replace(
            each, live=each.live and (each.position >= recent or _is_lasting(each.source)) and not times.is_over(each)
        )
        for each in failures
    ]


def _is_lasting(source: str) -> bool:
    """Tells whether an error stays open however old it is: one of a check or program that is run again and again.

    Pasted errors, one-off scripts and other commands expire after three further requests.
    """
    return source.startswith("$ ") and not _INLINE_SCRIPT.search(source) and bool(_CHECK_PROGRAM.search(source))


class _SuccessTimes:
    """When each command, program, tool and file last succeeded (or, for the very same command, was run again)."""

    def __init__(self, commands: Iterable[CommandRun], changes: Iterable[ChangedFile]) -> None:
        self._last_runs: dict[str, int] = {}
        self._last_successes: dict[str, int] = {}
        self._last_check = -1
        self._last_writes: dict[str, int] = {}
        for run in commands:
            if has_ended(run.outcome):
                self._record_time(self._last_runs, run.command, run.position)
            if is_success(run.outcome):
                for name in (*_list_programs(run.command), run.command):
                    self._record_time(self._last_successes, name, run.position)
                if _CHECK_PROGRAM.search(run.command):
                    self._last_check = max(self._last_check, run.position)
        for file in changes:
            if not file.is_unconfirmed:
                for path in (file.text, file.old_path, file.text.rpartition("/")[2]):
                    self._record_time(self._last_writes, path, file.position)

    @staticmethod
    def _record_time(times: dict[str, int], name: str, position: int) -> None:
        times[name] = max(position, times.get(name, position))

    def is_over(self, error: Failure) -> bool:
        """Tells whether later facts show that an error is over, or make it unlikely to be open.

        What failed succeeded or was run again, the tool succeeded with other arguments, or the file was changed in
        which a check had found it, and a check succeeded.
        """
        source = error.source
        if not source.startswith("$ "):
            return max(self._last_writes.get(source, -1), self._last_successes.get(source, -1)) > error.position
        names = _list_programs(source) or (source,)
        if self._last_runs.get(source, -1) > error.position:
            return True
        if all(self._get_last_success(name) > error.position for name in names):
            return True
        place = _FILE_LOCATION.search(error.text)
        return (
            place is not None
            and self._last_check > error.position
            and self._last_writes.get(place.group(1), -1) > error.position
            and bool(_CHECK_PROGRAM.search(source))
        )

    def _get_last_success(self, name: str) -> int:
        return max(self._last_successes.get(form, -1) for form in list_broader_programs(name))


@memoize
def _list_programs(command: str) -> tuple[str, ...]:
    """Returns the programs of a shell command, without those that only read; of another tool's label, its name."""
    if not command.startswith("$ "):
        return (command.split(" ", 1)[0],) if command and "/" not in command else ()
    parts = command.removeprefix("$ ").split(" && ")
    return tuple(get_program(part) for part in parts if not is_read_only(part))
