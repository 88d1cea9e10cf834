"""Merges the facts of two ranges: a fold for each kind. The later fact wins, and settled ones are marked as such.

What is settled follows from positions alone, so the order in which ranges are merged does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tenfold.compaction.facts.current_request import find_current_request
from tenfold.compaction.facts.failures import settle_failures
from tenfold.compaction.facts.file_states import fold_files, resolve_paths
from tenfold.compaction.facts.ledger import settle_rules
from tenfold.compaction.facts.todos import fold_plans
from tenfold.core.record.fact import (
    ChangedFile,
    Claim,
    CommandRun,
    Correction,
    Fact,
    FactBase,
    Failure,
    FileRead,
    Remark,
    Request,
    Rule,
    TodoList,
)
from tenfold.core.text.excerpts import normalize_key

MAX_COMMANDS, MAX_READS, MAX_FAILURES, MAX_REQUESTS = 400, 400, 300, 400
"""How many facts of a kind are kept; the newest stay. Facts of the other kinds are never dropped."""

F = TypeVar("F", bound=FactBase)


def merge_facts(older: Iterable[Fact], newer: Iterable[Fact]) -> tuple[Fact, ...]:
    """Merges the facts of two consecutive ranges into one list, ordered by position.

    Of facts of the same kind about the same the later wins. A path has one state. An error is over only when what
    failed later succeeds. Only the newest request and the newest to-do list are live.
    """
    facts = resolve_paths(sorted([*older, *newer], key=lambda fact: fact.order))
    runs = _select(facts, CommandRun)
    commands = _keep_latest(runs, lambda run: run.command, MAX_COMMANDS)
    requests = _settle_requests(_keep_latest(_select(facts, Request), _identify_request, MAX_REQUESTS))
    changes, reads = fold_files([fact for fact in facts if isinstance(fact, ChangedFile | FileRead)], runs)
    rules = _keep_latest(_select(facts, Rule), _normalize)
    failures = _keep_latest(_select(facts, Failure), _normalize, MAX_FAILURES)
    merged: list[Fact] = [
        *requests,
        *settle_rules(rules),
        *_keep_latest(_select(facts, Correction), _normalize),
        *_keep_latest(_select(facts, Remark), _normalize),
        *_keep_latest(_select(facts, Claim), lambda claim: f"{claim.about} {_normalize(claim)}"),
        *settle_failures(failures, [each.position for each in requests], commands, changes),
        *fold_plans(_select(facts, TodoList)),
        *changes,
        *_keep_latest(reads, lambda read: read.text, MAX_READS),
        *commands,
    ]
    return tuple(sorted(merged, key=lambda fact: fact.order))


def _select(facts: Iterable[Fact], kind: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, kind)]


def _keep_latest(facts: Iterable[F], identify: Callable[[F], str], most: int = 0) -> list[F]:
    """Returns the last of the facts that are the same, of these the newest `most`; all if that is 0."""
    latest: dict[str, F] = {}
    for fact in facts:
        key = identify(fact)
        latest.pop(key, None)
        latest[key] = fact
    return list(latest.values())[-most:]


def _normalize(fact: FactBase) -> str:
    return normalize_key(fact.text)


def _identify_request(request: Request) -> str:
    """Identifies a request by its message or, if it was read from a summary, by its words."""
    return f"{request.number} {normalize_key(request.text, 60)}" if request.line else str(request.position)


def _settle_requests(requests: Sequence[Request]) -> list[Request]:
    newest_first = sorted(requests, key=lambda request: -request.position)
    index = find_current_request(request.text for request in newest_first)
    current = newest_first[index].position if index is not None else -1
    return [replace(request, live=request.position == current) for request in requests]
