"""`tenfold compact --compare`: the same sessions through several policies, side by side. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tenfold.cli.asked import Source, Wanted, agent_in, call_of, read
from tenfold.cli.place import NAMESPACE, session_of
from tenfold.cli.report import Result, as_json, price_of, share_of
from tenfold.cli.screen import in_terminal, json_line, progress, show, table
from tenfold.errors import UsageError
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4, counter_for
from tenfold.policies import POLICIES
from tenfold.record.block import MUST_KEEP
from tenfold.settings import Config
from tenfold.shown import one_line, told
from tenfold.transcripts import Recorded
from tenfold.transcripts.load import load
from tenfold.wire import WIRES

ALL = "all"
SHARE = "10%"
"""The target if neither --to nor --window is given: a tenth of the tokens."""
_NUMBERS = ("before", "after", "share", "messages", "calls", "price", "must-keep facts")
_COLUMNS = ("policy", "rung", *_NUMBERS, "valid wires")
_SAME = frozenset({"before"})
"""Columns that are the same for every policy. In a terminal the heading shows them."""
_COSTS = frozenset({"calls", "price"})
"""Columns that a terminal shows only if a model was called."""


def policies_of(names: str, config: Config) -> tuple[str, ...]:
    """Parses `--compare`: all policies, or a list with commas. Raises `UsageError` for an unknown policy."""
    if names == ALL:
        return tuple(POLICIES)
    policies = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in policies:
        config.policy(Characters4(), name)
    if not policies:
        raise UsageError(f"--compare names policies: {ALL}, or a list as in --compare {','.join(list(POLICIES)[:2])}")
    return policies


def compare(sources: Sequence[Source], names: Sequence[str], wanted: Wanted) -> int:
    """Compacts each session once with each policy, starting from the file, and prints a table for each session."""
    if wanted.out is not None or wanted.preview:
        raise UsageError("--compare changes nothing and writes nothing: leave out --out and --preview")
    if wanted.to is None and wanted.window is None:
        wanted = msgspec.structs.replace(wanted, to=SHARE)
    with progress(wanted=not wanted.json or not in_terminal()) as bar:
        task = bar.add_task("policies", total=len(sources) * len(names))
        for source in sources:
            recorded = read(source, wanted)
            by_policy: list[list[Result]] = []
            for name in names:
                by_policy.append(list(_compacted(source, recorded, msgspec.structs.replace(wanted, policy=name))))
                bar.advance(task)
            for results in zip(*by_policy, strict=True):
                _tell(results, wanted)
    return 0


def _compacted(source: Source, recorded: Sequence[Recorded], wanted: Wanted) -> Iterator[Result]:
    """Compacts the sessions of a file with one policy, in a store in memory that is dropped afterwards."""
    counter = counter_for(agent_in(recorded, wanted) or None).counter
    store = MemoryStore()
    ids = load(recorded, store, NAMESPACE, counter)
    rows = {row.info.id: row for row in store.sessions(NAMESPACE)}
    for id_ in ids:
        session = session_of(store, rows[id_], config=wanted.config, policy=wanted.policy, models=wanted.models)
        outcome = session.compact(call_of(session, wanted))
        violations = tuple(f"{wire}: {sentence}" for wire in WIRES for sentence in session.violations(wire))
        outcome = msgspec.structs.replace(outcome, violations=violations, policy=wanted.policy)
        name = rows[id_].info.source or Path(source.path).stem
        yield Result(str(source.path), name, rows[id_].info.format, session.policy.counter.name, outcome)


def _tell(results: Sequence[Result], wanted: Wanted) -> None:
    if wanted.json:
        for result in results:
            json_line(as_json(result))
        return
    first = results[0]
    show(f"{told(first.file)}, session {one_line(first.session, 60)}", style="bold")
    before = f"{first.outcome.messages_before:,} messages, {first.outcome.tokens_before:,} tokens"
    target_text = f"down to {wanted.to}" if wanted.to is not None else f"for a window of {wanted.window:,}"
    show(f"{before}, {target_text}, counted by {first.counter}; nothing is stored")
    rows = [dict(zip(_COLUMNS, _row(result), strict=True)) for result in results]
    has_calls = any(result.outcome.spent.calls for result in results)
    hidden_columns = _SAME | (frozenset() if has_calls else _COSTS) if in_terminal() else frozenset()
    columns = [name for name in _COLUMNS if name not in hidden_columns]
    table(columns, [[row[name] for name in columns] for row in rows], right=_NUMBERS)


def _row(result: Result) -> tuple[str, ...]:
    out = result.outcome
    counts = [pair for kind, pair in out.facts.items() if kind in MUST_KEEP]
    violation_counts = {wire: sum(v.startswith(f"{wire}:") for v in out.violations) for wire in WIRES}
    violation_text = ", ".join(f"{wire} {count}" for wire, count in violation_counts.items() if count)
    return (
        out.policy,
        out.rung or "none" if out.status == "compacted" else out.status,
        f"{out.tokens_before:,}",
        f"{out.tokens_after:,}" + (" missed" if out.target_missed else ""),
        share_of(out),
        f"{out.messages_after:,}" if in_terminal() else f"{out.messages_before:,} -> {out.messages_after:,}",
        f"{out.spent.calls:,}",
        price_of(out.spent),
        f"{sum(kept for kept, _ in counts)}/{sum(total for _, total in counts)}" if counts else "",
        f"not: {violation_text}" if violation_text else f"all {len(WIRES)}",
    )
