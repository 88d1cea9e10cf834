"""`tenfold compact`: reads session files, compacts each session, prints the results, and writes the requested files.

With `--compare` it runs several policies side by side, and stores nothing. `compact_report` prints the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from tenfold.apps.cli.compact_report import (
    WRITERS,
    SessionOutcome,
    build_preview_record,
    build_record,
    print_report,
    render_must_keep,
    render_price,
    render_share,
    show_preview,
)
from tenfold.apps.cli.console import is_terminal, print_json, print_note, print_table, show
from tenfold.apps.cli.exported_files import ForceOption, record_export, write_file
from tenfold.apps.cli.process import ExitCode, explain_interrupt
from tenfold.apps.cli.progress import WorkProgress, watch_model
from tenfold.apps.cli.source_files import FormatOption, SourceFile, SourceReader, find_sources, parse_path
from tenfold.apps.cli.store_access import (
    BaseUrlOption,
    JsonOption,
    ModelsOption,
    NamespaceOption,
    PolicyOption,
    StoreOption,
    SummaryModels,
    find_location,
    open_cli_store,
    open_session,
    parse_models,
)
from tenfold.apps.keyring import note_access
from tenfold.compaction.engine.call import Call
from tenfold.compaction.trigger.sizes import convert_size, parse_size
from tenfold.config.policies import POLICIES
from tenfold.config.settings import Config
from tenfold.config.settings import load_settings as settings
from tenfold.core.meter.counters import CharacterCounter, choose_counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.token_reading import NO_TOKENS
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.formats import ParsedSession, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import StoredSessions, import_sessions
from tenfold.formats.output_file import check_output
from tenfold.formats.session_files import get_format
from tenfold.session import Session
from tenfold.session.undoing import has_newer_rules
from tenfold.store.base import MEMORY_LOCATION, SessionRow, Store
from tenfold.store.sqlite.store import SqliteStore


class CompactArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one run of the command, apart from its files."""

    config: Config
    models: SummaryModels
    namespace: str
    policy: str = ""
    to: str | None = None
    window: int | None = None
    recall: Literal["none", "tool", "cli"] = "none"
    out: Path | None = None
    force: bool = False
    preview: bool = False
    json: bool = False
    is_fresh: bool = False
    is_small_accepted: bool = False

    def check(self) -> None:
        """Checks the arguments before anything is read. Raises `UsageError` for invalid ones."""
        if self.to is not None:
            size = parse_size("--to", self.to)
            if isinstance(size, int) and size <= MOST_LIKELY_SHARE and not self.is_small_accepted:
                raise UsageError(
                    f"--to {self.to} asks for {size} tokens: give --to {self.to}% if a share was meant, or --yes to "
                    "do it all the same"
                )
        self.config.build_policy(CharacterCounter(), self.policy)
        if self.preview and self.out is not None:
            raise UsageError("--preview changes nothing, so --out would have nothing to write: give one of the two")

    def build_call(self, session: Session) -> Call:
        """Builds the call that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
        call = session.compactor.validate_call(session.compactor.build_call(to=self.to, window=self.window))
        return msgspec.structs.replace(call, recall=self.recall)


FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Compact the originals anew, and not what an earlier compaction left.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Accept a target of 100 tokens or less, or one below what must stay.")
]
_EARLIER = "an earlier compaction is in force, and its view is what is compacted; --fresh begins with the originals"
_BACK = "the earlier compaction is in force again"
MOST_LIKELY_SHARE = 100
"""A bare number up to this is taken for a share without its sign: `--to 10` for `--to 10%`."""


def _check_least(session: Session, to: str) -> None:
    """Checks that `--to` can be reached. Raises `UsageError` with the arithmetic if what must stay is larger."""
    target = convert_size(parse_size("--to", to), session.conversation.count_uncompacted())
    decision, _ = session.preview(to=target)
    if decision.should_act and decision.target_missed:
        raise UsageError(
            f"--to {to} asks for {target:,} tokens, and what must stay takes {decision.target:,} (the newest exchange, "
            f"what is pinned, rules, a summary): give --to {decision.target} or more, or --yes to come as close as that"
        )


class CompactRun:
    """Opens and compacts sessions as the arguments say. `exit_code` is that of the worst thing that happened."""

    def __init__(self, arguments: CompactArguments) -> None:
        self.arguments = arguments
        self.exit_code = ExitCode.OK
        self.watch: Callable[[Session], None] = lambda _: None
        """Is told of each session before it is compacted, to show the calls of its model."""

    def open_sessions(
        self, store: Store, recorded: Sequence[ParsedSession], policy: str
    ) -> Iterator[tuple[SessionRow, Session]]:
        """Imports the sessions of one file into the store, and opens them one after the other with this policy."""
        config, models, namespace = self.arguments.config, self.arguments.models, self.arguments.namespace
        recorded_model = next((r.info.model for r in recorded if r.info.model), "")
        agent_model = models.choose_agent_model(recorded_model, config.get_common(policy).models)
        ids = import_sessions(recorded, store, namespace, choose_counter(agent_model or None).counter)
        rows = {row.info.id: row for row in store.list_sessions(namespace)}
        for id_ in ids:
            session = open_session(store, rows[id_], namespace=namespace, config=config, policy=policy, models=models)
            _restore_compaction(session, rows[id_])
            yield rows[id_], session

    def prepare_session(self, session: Session) -> None:
        """Checks the target for a session, and takes its earlier compactions back if it is to be compacted anew.

        That is so too where the user has changed the rules since: the view of the newest one does not show them.

        Raises `UsageError` for a target that cannot be reached. Nothing has changed then.
        """
        arguments = self.arguments
        if arguments.to is not None and not arguments.is_small_accepted:
            _check_least(session, arguments.to)
        has_rules = arguments.to is not None and has_newer_rules(session.view)
        if has_rules and not arguments.preview:
            print_note("rules were changed since the newest compaction: the originals are compacted anew, with them")
        if (arguments.is_fresh or has_rules) and not arguments.preview:
            session.compactor.set_aside()

    def build_refused_outcome(self, session: Session, refusal: UsageError) -> Outcome:
        """Builds the Outcome of a session that stays as it is, as one of several that are compacted in one run."""
        tokens, call = session.conversation.count_uncompacted(), self.arguments.build_call(session)
        count = sum(1 for _ in session.view.get_visible_messages())
        sizes = tokens, tokens, call.to or NO_TOKENS
        return Outcome("nothing", str(refusal), *sizes, messages_before=count, messages_after=count)

    def compact_session(self, session: Session) -> Outcome:
        """Compacts a session. The Outcome also lists what providers would refuse in its view."""
        self.watch(session)
        outcome: Outcome | None = None
        try:
            outcome = session.compact(self.arguments.build_call(session))
        finally:
            is_compacted = outcome is not None and outcome.status == "compacted"
            is_restored = not is_compacted and session.compactor.restore()
        if outcome.status == "failed":
            self.exit_code = max(self.exit_code, ExitCode.FAILED)
        violations = tuple(
            f"{wire}: {sentence}" for wire in WIRES for sentence in session.conversation.find_violations(wire)
        )
        is_kept = outcome.status == "nothing" and session.view.state.live_blocks
        notes = (*outcome.notes, _BACK if is_restored else _EARLIER) if is_kept else outcome.notes
        return msgspec.structs.replace(outcome, violations=violations, notes=notes)


def _restore_compaction(session: Session, row: SessionRow) -> None:
    """Lets the policy put the newest compaction that the file records in force, and says so."""
    restorer = session.policy.restorer
    outcome = restorer(session) if restorer is not None else None
    if outcome is None:
        return
    tool, sizes = row.info.format, f"{outcome.tokens_before:,} -> {outcome.tokens_after:,} tokens"
    said = f"is in force: {sizes}" if outcome.status == "compacted" else f"is not in force: {outcome.reason}"
    print_note(f"{row.info.file}: the compaction that {tool} recorded {said}")


CompareOption = Annotated[
    str | None,
    typer.Option(
        metavar="POLICIES",
        help="Compare policies side by side and store nothing: `all`, or names with commas. The target is 10% unless "
        "you give --to or --window.",
    ),
]
_RecallOption = Annotated[
    Literal["none", "tool", "cli"],
    typer.Option(
        help="What a shortened message names to get the original back: nothing, the recall tools, or this command."
    ),
]


_TargetOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="The size to compact to: tokens (20000) or a share of the session (10%)."),
]


_WindowOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="The model's context window in tokens. The policy's trigger then decides whether to compact."
    ),
]
_OutOption = Annotated[
    Path | None,
    typer.Option(
        parser=parse_path,
        metavar="PATH",
        help="Write the compacted conversation to this file, in its own format. For several files, name a folder.",
    ),
]
_FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        parser=parse_path,
        metavar="FILE|ID...",
        help="Session files, folders with session files, or ids that `tenfold find` lists.",
    ),
]


def compact(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    files: _FilesArgument,
    *,
    to: _TargetOption = None,
    window: _WindowOption = None,
    policy: PolicyOption = "",
    model: ModelsOption = None,
    base_url: BaseUrlOption = "",
    format: FormatOption = None,
    recall: _RecallOption = "none",
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    out: _OutOption = None,
    force: ForceOption = False,
    is_fresh: FreshOption = False,
    is_small_accepted: YesOption = False,
    only_preview: Annotated[
        bool, typer.Option("--preview", help="Print what would be done and why. Nothing is changed.")
    ] = False,
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Skip damaged lines and report each.")] = False,
    compare: CompareOption = None,
    json: JsonOption = False,
) -> int:
    """Compacts recorded sessions. It works offline and without a key, unless you name a --model to write summaries.

    Without --to and --window, the policy's trigger decides by the window of the session's model, if that is known.
    """
    models, config = parse_models(model or (), base_url), settings()
    arguments = CompactArguments(
        config=config,
        models=models,
        namespace=namespace,
        policy=policy,
        to=to,
        window=window,
        recall=recall,
        out=out,
        force=force,
        preview=only_preview,
        json=json,
        is_fresh=is_fresh,
        is_small_accepted=is_small_accepted,
    )
    arguments.check()
    sources, reader = find_sources(files), SourceReader(format, skip_damaged=skip_damaged)
    if compare is not None:
        return _compare_policies(sources, reader, _parse_policies(compare, config), arguments)
    _check_places(sources, out, force=force)
    results, run = list[SessionOutcome](), CompactRun(arguments)
    with open_cli_store(store, create=not only_preview) as place:
        try:
            for result in _compact_sources(run, place, reader, sources):
                results.append(result)
                if json:
                    print_json(build_record(result))
        finally:
            if not json:
                is_stored = find_location(store) != MEMORY_LOCATION
                print_report(results, is_stored=is_stored, unread=reader.unread)
    return max(run.exit_code, reader.exit_code)


def _compact_sources(
    run: CompactRun, store: Store, reader: SourceReader, sources: Sequence[SourceFile]
) -> Iterator[SessionOutcome]:
    done, total = 0, len(sources)
    enabled = not run.arguments.preview and not (run.arguments.json and is_terminal())
    with (
        explain_interrupt(lambda: f"{done:,} of {total:,} compacted, and kept so; the others are not changed"),
        WorkProgress("sessions", total, enabled=enabled) as work,
    ):
        run.watch = partial(watch_model, work=work)
        for source, recorded in reader.read(sources, work.tell):
            total += max(0, len(recorded) - 1)
            work.expect(total)
            for result in _compact_recorded(run, store, source, recorded, is_alone=len(sources) == 1):
                done += 1
                work.advance()
                work.tell(source.path.name)
                with work.hide():
                    yield result
            if not recorded:
                work.advance()


def _check_places(sources: Sequence[SourceFile], out: Path | None, *, force: bool) -> None:
    """Raises `UsageError` if --out cannot hold what will be written, or would replace what must not be replaced."""
    if out is None:
        return
    if len(sources) > 1 and not out.is_dir():
        raise UsageError(f"--out {out} must be an existing folder to hold {len(sources)} files; make it first")
    if not out.is_dir() and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}; make it first")
    places: dict[Path, Path] = {}
    for source in sources:
        place = _find_output_path(out, source).absolute()
        if place in places:
            raise UsageError(f"--out {out}: {places[place]} and {source.path} would both be written to {place}")
        if place.exists() and any(place.samefile(s.path) for s in sources if s.path.exists()):
            raise UsageError(f"--out {out}: {place} is one of the files to read; originals are never overwritten")
        if place.parent.is_dir():
            check_output(place, force=force)
        places[place] = source.path


def _find_output_path(out: Path, source: SourceFile) -> Path:
    return out / source.relative_path if out.is_dir() else out


def _compact_recorded(
    run: CompactRun, store: Store, source: SourceFile, recorded: Sequence[ParsedSession], *, is_alone: bool
) -> Iterator[SessionOutcome]:
    """Imports and compacts the sessions of one file, one after the other, and then writes them all.

    One that is too small for the target stays as it is, unless it is the only one (`is_alone`): then it is an error.
    """
    arguments = run.arguments
    store = _copy_to_memory(store, recorded, arguments.namespace) if arguments.preview else store
    sessions: list[Session] = []
    for row, session in run.open_sessions(store, recorded, arguments.policy):
        sessions.append(session)
        counter = session.policy.counter.name
        try:
            run.prepare_session(session)
        except UsageError as exc:
            if is_alone and len(recorded) == 1:
                raise
            yield SessionOutcome(
                str(source.path), row.info.id, row.info.format, counter, run.build_refused_outcome(session, exc)
            )
            continue
        if arguments.preview:
            decision, plan = session.preview(arguments.build_call(session))
            reading = session.take_reading(window=arguments.window)
            if arguments.json:
                print_json(build_preview_record(source.path, session, reading, decision, plan))
            else:
                show_preview(source.path, session, reading, decision, plan)
        else:
            outcome = run.compact_session(session)
            yield SessionOutcome(str(source.path), row.info.id, row.info.format, counter, outcome)
    if arguments.out is not None and sessions and len(sessions) == len(recorded):
        infos = [get_format(each.info.format).without_damaged(each.info) for each in recorded]
        items = [(info, get_view_items(session.view)) for info, session in zip(infos, sessions, strict=True)]
        place, data = _find_output_path(arguments.out, source), render_sessions(items)
        if place != arguments.out:  # in the named folder, where a file keeps the folders it came from
            place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, data, force=arguments.force)
        record_export(store, arguments.namespace, [session.address.session for session in sessions], place, data)
        for session in sessions:
            note_access(store, arguments.namespace, "export", session.address.session)


def _copy_to_memory(store: Store, recorded: Sequence[ParsedSession], namespace: str) -> Store:
    """Copies what the store knows of these sessions into memory, so that a preview changes nothing."""
    memory_store = SqliteStore(":memory:")
    known = {match.session for match in StoredSessions(store, namespace).match(recorded) if match is not None}
    for row in store.list_sessions(namespace):
        entries = store.read_entries(namespace, row.info.id) if row.info.id in known else []
        if entries:
            memory_store.create(namespace, row.info)
            memory_store.append(namespace, row.info.id, entries, expected=None)
    return memory_store


ALL_POLICIES = "all"
DEFAULT_TARGET = "10%"
"""The target if neither --to nor --window is given: a tenth of the tokens."""
_NUMBER_COLUMNS = ("before", "after", "share", "messages", "calls", "price", "must-keep facts")
_COLUMNS = ("policy", "summary", *_NUMBER_COLUMNS, "valid wires")
_CONSTANT_COLUMNS = frozenset({"before"})
"""Columns that are the same for every policy. In a terminal the heading shows them."""
_COST_COLUMNS = frozenset({"calls", "price"})
"""Columns that a terminal shows only if a model was called."""


def _parse_policies(names: str, config: Config) -> tuple[str, ...]:
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


def _compare_policies(
    sources: Sequence[SourceFile], reader: SourceReader, names: Sequence[str], arguments: CompactArguments
) -> int:
    """Compacts each session once with each policy, prints a table for each session, and returns the exit code."""
    if arguments.out is not None or arguments.preview:
        raise UsageError("--compare changes nothing and writes nothing: leave out --out and --preview")
    if arguments.to is None and arguments.window is None:
        arguments = msgspec.structs.replace(arguments, to=DEFAULT_TARGET)
    run = CompactRun(arguments)
    total = len(sources) * len(names)
    with (
        explain_interrupt(lambda: "a comparison stores nothing"),
        WorkProgress("policies", total, enabled=not arguments.json or not is_terminal()) as work,
    ):
        run.watch = partial(watch_model, work=work)
        for source, recorded in reader.read(sources):
            by_policy: list[list[SessionOutcome]] = []
            for name in names:
                work.tell(f"{name}: {source.path.name}")
                by_policy.append(list(_compact_with_policy(run, source, recorded, name)))
                work.advance()
            with work.hide():
                _print_comparison(list(zip(*by_policy, strict=True)), arguments)
    return max(run.exit_code, reader.exit_code)


def _print_comparison(compared: Sequence[Sequence[SessionOutcome]], arguments: CompactArguments) -> None:
    for results in compared:
        if arguments.json:
            for result in results:
                print_json(build_record(result))
        else:
            size = f"to {arguments.to}" if arguments.to is not None else f"for a window of {arguments.window:,}"
            _print_table(results, size)


def _compact_with_policy(
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
