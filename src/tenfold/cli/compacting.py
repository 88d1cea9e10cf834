"""`tenfold compact`: reads session files, compacts each session, prints the results, and writes the requested files.

`compact_report.py` formats the results; nothing here does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from tenfold.cli.asked import Source, Wanted, agent_in, call_of, meant, read, sources_of
from tenfold.cli.comparing import compare as side_by_side
from tenfold.cli.comparing import policies_of
from tenfold.cli.place import NAMESPACE, JsonOption, StoreOption, opened, session_of
from tenfold.cli.report import Result, as_json, preview_json, report, show_preview
from tenfold.cli.screen import in_terminal, json_line, note, progress
from tenfold.cli.summarizing import BaseUrlOption, ModelsOption, models_of
from tenfold.engine import preview
from tenfold.errors import BadInput, UsageError
from tenfold.log.base import Store
from tenfold.log.memory import MemoryStore
from tenfold.log.place import MEMORY, default_place
from tenfold.meter.counters import counter_for
from tenfold.session import Session
from tenfold.settings import read as settings
from tenfold.transcripts import Recorded, write_file
from tenfold.transcripts.export import view_items
from tenfold.transcripts.load import load
from tenfold.wire import WIRES

CompareOption = Annotated[
    str | None,
    typer.Option(
        metavar="POLICIES",
        help="Print what each of these policies would make of it side by side, `all` or a list with commas, and store "
        "nothing. Target where none is given: 10%.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compact", epilog="Example: tenfold compact session.jsonl --to 10% --out smaller.jsonl")(compact)


def compact(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    files: Annotated[list[Path], typer.Argument(help="Session files, or folders of them.", metavar="FILE...")],
    *,
    to: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Target size of the view: tokens (20000) or a share (10%).")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="The model's window in tokens: act only if the policy's trigger says so.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="The policy: of `tenfold policies`, or named in the settings.", show_default="tenfold"),
    ] = None,
    model: ModelsOption = None,
    base_url: BaseUrlOption = None,
    format: Annotated[str | None, typer.Option(help="The files' format, where it is not to be detected.")] = None,
    recall: Annotated[
        Literal["none", "tool", "cli"],
        typer.Option(help="What stubs name to get the original back: nothing, the recall tools, or this command."),
    ] = "none",
    store: StoreOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write the compacted conversation, in the same format; a folder for several files."
        ),
    ] = None,
    only_preview: Annotated[
        bool, typer.Option("--preview", help="Print the Plan with its reasons; change nothing.")
    ] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out damaged lines, and say which.")
    ] = False,
    compare: CompareOption = None,
    json: JsonOption = False,
) -> int:
    """Compacts recorded sessions: offline, with no key and no server, unless --model names one to write summaries.

    Without --to and --window the policy's trigger decides, for the known window of the session's model.
    """
    models = models_of(model or (), base_url)
    config = settings()
    arguments = Wanted(to, window, policy or "", config, models, recall, format, skip_damaged, out, only_preview, json)
    meant(arguments)
    if compare is not None:
        return side_by_side(sources_of(files), policies_of(compare, config), arguments)
    sources = sources_of(files)
    _writable(sources, out)
    results: list[Result] = []
    codes: list[int] = []
    with opened(store, make=not only_preview) as place:
        try:
            _run(place, sources, arguments, results, codes)
        finally:
            if not json:
                report(results, kept=(store or default_place()) != MEMORY)
    if any(r.outcome.status == "failed" for r in results):
        codes.append(4)
    return max(codes, default=0)


def _run(store: Store, sources: Sequence[Source], wanted: Wanted, results: list[Result], codes: list[int]) -> None:
    with progress(wanted=len(sources) > 1 and not (wanted.json and in_terminal())) as bar:
        task = bar.add_task("sessions", total=len(sources))
        for source in sources:
            try:
                recorded = read(source, wanted)
            except BadInput as exc:
                if len(sources) == 1:
                    raise
                note(f"tenfold: {exc}", style="red")
                codes.append(3)
                bar.advance(task)
                continue
            bar.update(task, total=(bar.tasks[0].total or 0) + max(0, len(recorded) - 1))
            for result in _file(store, source, recorded, wanted):
                bar.advance(task)
                results.append(result)
                if wanted.json:
                    json_line(as_json(result))
            if not recorded:
                bar.advance(task)


def _writable(sources: Sequence[Source], out: Path | None) -> None:
    """Raises `UsageError` if --out cannot hold what will be written, or would replace what was read."""
    if out is None:
        return
    if len(sources) > 1 and not out.is_dir():
        raise UsageError(f"--out {out} must be an existing folder for {len(sources)} files; make it first")
    if not out.is_dir() and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}; make it first")
    places: dict[Path, Path] = {}
    for source in sources:
        place = _place(out, source).absolute()
        if place in places:
            raise UsageError(f"--out {out}: {places[place]} and {source.path} would both be written to {place}")
        if place.exists() and any(place.samefile(s.path) for s in sources if s.path.exists()):
            raise UsageError(f"--out {out}: {place} is one of the files to read, and originals are never overwritten")
        places[place] = source.path


def _place(out: Path, source: Source) -> Path:
    return out / source.below if out.is_dir() else out


def _file(store: Store, source: Source, recorded: Sequence[Recorded], wanted: Wanted) -> Iterator[Result]:
    """Loads and compacts the sessions of one file, one after the other, and then writes them all."""
    if not recorded:
        return
    counter = counter_for(agent_in(recorded, wanted) or None).counter
    store = _aside(store, recorded, source) if wanted.preview else store
    ids = load(recorded, store, NAMESPACE, counter)
    rows = {row.info.id: row for row in store.sessions(NAMESPACE)}
    sessions: list[Session] = []
    for id_ in ids:
        session = session_of(store, rows[id_], config=wanted.config, policy=wanted.policy, models=wanted.models)
        sessions.append(session)
        call = call_of(session, wanted)
        if wanted.preview:
            decision, plan = preview(session.view, session.policy, call, session.bench())
            if wanted.json:
                json_line(preview_json(source.path, session, decision, plan))
            else:
                show_preview(source.path, session, decision, plan)
            continue
        outcome = session.compact(call)
        outcome = msgspec.structs.replace(outcome, violations=_violations(session))
        yield Result(str(source.path), id_, rows[id_].info.format, session.policy.counter.name, outcome)
    if wanted.out is not None and len(sessions) == len(recorded):
        _write(_place(wanted.out, source), recorded, sessions)


def _aside(store: Store, recorded: Sequence[Recorded], source: Source) -> Store:
    """Copies what the store knows of these sessions into memory, so that a preview changes nothing."""
    memory_store = MemoryStore()
    source_ids = {each.info.source or each.info.id for each in recorded}
    for row in store.sessions(NAMESPACE):
        entries = store.original(NAMESPACE, row.info.id)
        if (row.info.source in source_ids or row.info.file == str(source.path)) and entries:
            memory_store.create(NAMESPACE, row.info)
            memory_store.append(NAMESPACE, row.info.id, entries, expected=None)
    return memory_store


def _violations(session: Session) -> tuple[str, ...]:
    return tuple(f"{wire}: {sentence}" for wire in WIRES for sentence in session.violations(wire))


def _write(path: Path, recorded: Sequence[Recorded], sessions: Sequence[Session]) -> None:
    """Writes the compacted sessions of one file, whole or not at all."""
    data = write_file([(r.info, view_items(s.view)) for r, s in zip(recorded, sessions, strict=True)])
    write_whole(path, data)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a draft beside it is moved into its place.

    Raises `OSError` with the file's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as exc:
        draft.unlink(missing_ok=True)
        raise OSError(exc.errno, f"{path} was not written ({exc.strerror}); nothing is left half done there") from exc
    note(f"written: {path} ({len(data):,} bytes)")
