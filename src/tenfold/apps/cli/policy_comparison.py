"""`tenfold compact --compare`: the same sessions through several policies, side by side. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tenfold.apps.cli.compact_report import (
    WRITERS,
    SessionOutcome,
    as_json,
    render_must_keep,
    render_price,
    render_share,
)
from tenfold.apps.cli.compact_run import CompactArguments, CompactRun
from tenfold.apps.cli.console import build_progress, is_terminal, print_json, print_table, show
from tenfold.apps.cli.source_files import SourceFile, SourceReader
from tenfold.config.policies import POLICIES
from tenfold.config.settings import Config
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.formats import ParsedSession
from tenfold.store.sqlite.store import SqliteStore

ALL_POLICIES = "all"
DEFAULT_TARGET = "10%"
"""The target if neither --to nor --window is given: a tenth of the tokens."""
_NUMBER_COLUMNS = ("before", "after", "share", "messages", "calls", "price", "must-keep facts")
_COLUMNS = ("policy", "summary", *_NUMBER_COLUMNS, "valid wires")
_CONSTANT_COLUMNS = frozenset({"before"})
"""Columns that are the same for every policy. In a terminal the heading shows them."""
_COST_COLUMNS = frozenset({"calls", "price"})
"""Columns that a terminal shows only if a model was called."""


def parse_policies(names: str, config: Config) -> tuple[str, ...]:
    """Parses `--compare`: all policies, or a list with commas. Raises `UsageError` for an unknown policy."""
    if names == ALL_POLICIES:
        return tuple(POLICIES)
    policies = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in policies:
        config.build_policy(CharacterCounter(), name)
    if not policies:
        raise UsageError(
            f"--compare names policies: {ALL_POLICIES}, or a list as in --compare {','.join(list(POLICIES)[:2])}"
        )
    return policies


def compare_policies(sources: Sequence[SourceFile], names: Sequence[str], arguments: CompactArguments) -> int:
    """Compacts each session once with each policy, prints a table for each session, and returns the exit code."""
    if arguments.out is not None or arguments.preview:
        raise UsageError("--compare changes nothing and writes nothing: leave out --out and --preview")
    if arguments.to is None and arguments.window is None:
        arguments = msgspec.structs.replace(arguments, to=DEFAULT_TARGET)
    run, reader = CompactRun(arguments), SourceReader(arguments.format, skip_damaged=arguments.skip_damaged)
    with build_progress(enabled=not arguments.json or not is_terminal()) as bar:
        task = bar.add_task("policies", total=len(sources) * len(names))
        for source, recorded in reader.read(sources):
            by_policy: list[list[SessionOutcome]] = []
            for name in names:
                by_policy.append(list(_compact_recorded(run, source, recorded, name)))
                bar.advance(task)
            for results in zip(*by_policy, strict=True):
                if arguments.json:
                    for result in results:
                        print_json(as_json(result))
                else:
                    size = f"to {arguments.to}" if arguments.to is not None else f"for a window of {arguments.window:,}"
                    _print_table(results, size)
    return max(run.exit_code, reader.exit_code)


def _compact_recorded(
    run: CompactRun, source: SourceFile, recorded: Sequence[ParsedSession], policy: str
) -> Iterator[SessionOutcome]:
    """Compacts the sessions of a file with one policy, in a store in memory that is dropped afterwards."""
    for row, session in run.open_sessions(SqliteStore(":memory:"), recorded, policy):
        outcome = msgspec.structs.replace(run.compact_session(session), policy=policy)
        name = to_one_line(row.info.source_id or row.info.title or source.path.stem, 200)
        yield SessionOutcome(str(source.path), name, row.info.format, session.policy.counter.name, outcome)


def _print_table(results: Sequence[SessionOutcome], size: str) -> None:
    first = results[0]
    show(f"{sanitize(first.file)}, session {to_one_line(first.session, 60)}", style="bold")
    before = f"{first.outcome.messages_before:,} messages, {first.outcome.tokens_before:,} tokens"
    show(f"{before} by {first.counter}, compacted {size}; nothing is stored")
    rows = [dict(zip(_COLUMNS, _build_row(result), strict=True)) for result in results]
    has_calls = any(result.outcome.spent.calls for result in results)
    hidden_columns = _CONSTANT_COLUMNS | (frozenset() if has_calls else _COST_COLUMNS) if is_terminal() else frozenset()
    columns = [name for name in _COLUMNS if name not in hidden_columns]
    print_table(columns, [[row[name] for name in columns] for row in rows], right=_NUMBER_COLUMNS)


def _build_row(result: SessionOutcome) -> tuple[str, ...]:
    out = result.outcome
    violation_counts = {wire: sum(v.startswith(f"{wire}:") for v in out.violations) for wire in WIRES}
    violation_text = ", ".join(f"{wire} {count}" for wire, count in violation_counts.items() if count)
    return (
        out.policy,
        WRITERS[out.rung or "none"].partition(",")[0] or "none" if out.status == "compacted" else out.status,
        f"{out.tokens_before:,}",
        f"{out.tokens_after:,}" + (" missed" if out.target_missed else ""),
        render_share(out),
        f"{out.messages_after:,}" if is_terminal() else f"{out.messages_before:,} -> {out.messages_after:,}",
        f"{out.spent.calls:,}",
        render_price(out.spent),
        render_must_keep(out),
        f"not: {violation_text}" if violation_text else f"all {len(WIRES)}",
    )
