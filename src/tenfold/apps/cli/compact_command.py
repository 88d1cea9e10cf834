"""`tenfold compact`: reads session files, compacts each session, prints the results, and writes the requested files.

`compact_report.py` formats the results; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from tenfold.apps.cli.compact_report import SessionOutcome, as_json, encode_preview, print_report, show_preview
from tenfold.apps.cli.compact_run import CompactArguments, CompactRun, FreshOption, YesOption
from tenfold.apps.cli.console import build_progress, is_terminal, print_json
from tenfold.apps.cli.exported_files import record_export
from tenfold.apps.cli.output_options import ForceOption, write_file
from tenfold.apps.cli.policy_comparison import compare_policies, parse_policies
from tenfold.apps.cli.source_files import FormatOption, SourceFile, SourceReader, find_sources, parse_path
from tenfold.apps.cli.store_access import JsonOption, NamespaceOption, PolicyOption, StoreOption, open_cli_store
from tenfold.apps.cli.summary_models import BaseUrlOption, ModelsOption, parse_models
from tenfold.config.settings import load_settings as settings
from tenfold.errors import UsageError
from tenfold.formats import ParsedSession, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.known_sessions import match_sessions
from tenfold.formats.output_file import check_output
from tenfold.formats.session_files import get_format
from tenfold.session import Session
from tenfold.store.base import MEMORY_LOCATION, Store
from tenfold.store.location import get_default_location
from tenfold.store.sqlite.store import SqliteStore

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


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compact", epilog="Example: tenfold compact session.jsonl --to 10% --out smaller.jsonl")(compact)


def compact(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    files: Annotated[
        list[Path],
        typer.Argument(
            parser=parse_path,
            metavar="FILE|ID...",
            help="Session files, folders with session files, or ids that `tenfold find` lists.",
        ),
    ],
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
        to, window, policy, config, models, recall, format, skip_damaged, out, force, only_preview, json, namespace
    ).with_care(is_fresh=is_fresh, is_small_accepted=is_small_accepted)
    arguments.check()
    sources = find_sources(files)
    if compare is not None:
        return compare_policies(sources, parse_policies(compare, config), arguments)
    _check_places(sources, out, force=force)
    results, run = list[SessionOutcome](), CompactRun(arguments)
    reader = SourceReader(format, skip_damaged=skip_damaged)
    with open_cli_store(store, create=not only_preview) as place:
        try:
            for result in _compact_sources(run, place, reader, sources):
                results.append(result)
                if json:
                    print_json(as_json(result))
        finally:
            if not json:
                is_stored = (store or get_default_location()) != MEMORY_LOCATION
                print_report(results, is_stored=is_stored, unread=reader.unread)
    return max(run.exit_code, reader.exit_code)


def _compact_sources(
    run: CompactRun, store: Store, reader: SourceReader, sources: Sequence[SourceFile]
) -> Iterator[SessionOutcome]:
    with build_progress(enabled=len(sources) > 1 and not (run.arguments.json and is_terminal())) as bar:
        task = bar.add_task("sessions", total=len(sources))
        for source, recorded in reader.read(sources):
            bar.update(task, total=(bar.tasks[0].total or 0) + max(0, len(recorded) - 1))
            for result in _compact_recorded(run, store, source, recorded, is_alone=len(sources) == 1):
                bar.advance(task)
                yield result
            if not recorded:
                bar.advance(task)


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
                print_json(encode_preview(source.path, session, reading, decision, plan))
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


def _copy_to_memory(store: Store, recorded: Sequence[ParsedSession], namespace: str) -> Store:
    """Copies what the store knows of these sessions into memory, so that a preview changes nothing."""
    memory_store = SqliteStore(":memory:")
    known = {match.session for match in match_sessions(recorded, store, namespace) if match is not None}
    for row in store.list_sessions(namespace):
        entries = store.read_entries(namespace, row.info.id) if row.info.id in known else []
        if entries:
            memory_store.create(namespace, row.info)
            memory_store.append(namespace, row.info.id, entries, expected=None)
    return memory_store
