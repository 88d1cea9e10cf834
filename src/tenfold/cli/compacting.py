"""`tenfold compact`: read session files, compact each session, show what happened, write what was asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenfold.cli.place import NAMESPACE, JsonOption, StoreOption, opened, session_of
from tenfold.cli.screen import note, one_line, progress, safe, show, table
from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.log.base import Store
from tenfold.meter.counters import counter_for
from tenfold.record.ask import Outcome
from tenfold.record.block import MUST_KEEP
from tenfold.session import Session
from tenfold.transcripts import Recorded, read_file, write_file
from tenfold.transcripts.export import view_items
from tenfold.transcripts.load import load
from tenfold.wire import WIRES

EXAMPLE = "Example: tenfold compact session.jsonl --to 10% --out smaller.jsonl"
_SUFFIXES = (".jsonl", ".json", ".traj")


class Wanted(msgspec.Struct, frozen=True):
    """What one run of the command asks for, apart from its files."""

    to: str | None
    window: int | None
    policy: str
    model: str | None
    preview: bool
    json: bool


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compact", epilog=EXAMPLE)(compact)


def compact(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    files: Annotated[list[Path], typer.Argument(help="Session files, or folders of them.", metavar="FILE...")],
    *,
    to: Annotated[str | None, typer.Option(help="Target size of the view: tokens (20000) or a share (10%).")] = None,
    window: Annotated[int | None, typer.Option(help="The model's window in tokens: act only if the trigger says so.")] = None,
    policy: Annotated[str, typer.Option(help="The policy; `tenfold policies` lists them.")] = "tenfold",
    model: Annotated[str | None, typer.Option(help="The agent's model, for its window and tokenizer.")] = None,
    format: Annotated[str | None, typer.Option(help="The files' format, where it is not to be detected.")] = None,  # noqa: A002
    store: StoreOption = None,
    out: Annotated[Path | None, typer.Option(help="Write the compacted conversation here, in the same format; a folder for several files.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Print the Plan with its reasons; change nothing.")] = False,
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Leave out damaged lines, and say which.")] = False,
    json: JsonOption = False,
) -> int:
    """Compacts recorded sessions: offline, with no key and no server."""
    wanted = Wanted(to, window, policy, model, preview, json)
    if to is not None:
        _target(to, 1_000)
    found = _sessions_in(files)
    if out is not None and len(found) > 1 and not out.is_dir():
        raise UsageError(f"--out {out} must be an existing folder for {len(found)} files")
    failed = 0
    with opened(":memory:" if preview and store is None else store) as place, progress() as bar:
        task = bar.add_task("sessions", total=len(found))
        for path, named in found.items():
            recorded = _read(path, named=named, format=format, skip_damaged=skip_damaged)
            results = _file(place, path, recorded, wanted)
            failed += sum(1 for _, outcome in results if outcome is not None and outcome.status == "failed")
            if out is not None and recorded and not preview:
                _write(out / path.name if out.is_dir() else out, recorded, [s for s, _ in results])
            bar.advance(task)
    return 4 if failed else 0


def _sessions_in(files: Sequence[Path]) -> dict[Path, bool]:
    """The files named (True), and those inside folders, which need not all be sessions (False)."""
    found: dict[Path, bool] = {}
    for path in files:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SUFFIXES)
            if not inside:
                raise BadInput(f"{path}: no {', '.join(_SUFFIXES)} file in this folder; name the session files")
            found.update(dict.fromkeys(inside, False))
        else:
            found[path] = True
    return found


def _read(path: Path, *, named: bool, format: str | None, skip_damaged: bool) -> list[Recorded]:  # noqa: A002 - the flag's name
    try:
        recorded = read_file(path, format=format, skip_damaged=skip_damaged)
    except UnknownFormat as exc:
        if named:
            raise
        note(f"left out: {safe(str(exc))}")
        return []
    for each in recorded:
        for problem in each.problems:
            note(f"{path}: {safe(problem)}")
    return recorded


def _file(store: Store, path: Path, recorded: Sequence[Recorded], wanted: Wanted) -> list[tuple[Session, Outcome | None]]:
    counter = counter_for(wanted.model or next((r.info.model for r in recorded if r.info.model), None)).counter
    ids = load(recorded, store, NAMESPACE, counter)
    rows = {row.info.id: row for row in store.sessions(NAMESPACE)}
    results: list[tuple[Session, Outcome | None]] = []
    for id_ in ids:
        session = session_of(store, rows[id_], policy=wanted.policy, model=wanted.model)
        target = _target(wanted.to, session.uncompacted()) if wanted.to is not None else None
        if wanted.preview:
            _preview(session, path, target, wanted)
            results.append((session, None))
            continue
        outcome = session.compact(to=target, window=wanted.window)
        outcome = msgspec.structs.replace(outcome, violations=_violations(session))
        _report(path, session, outcome, json=wanted.json)
        results.append((session, outcome))
    return results


def _violations(session: Session) -> tuple[str, ...]:
    return tuple(f"{wire}: {sentence}" for wire in WIRES for sentence in session.violations(wire))


def _target(to: str, tokens: int) -> int:
    """`--to` in tokens. Raises `UsageError` for what is neither a count nor a percentage."""
    try:
        share = float(to[:-1]) / 100 if to.endswith("%") else None
        target = int(tokens * share) if share is not None else int(to.replace("_", "").replace(",", ""))
    except ValueError:
        target = 0
    if target < 1 or (to.endswith("%") and float(to[:-1]) > 100):
        raise UsageError(f"--to {to!r} is not a size: give tokens, as in --to 20000, or a share, as in --to 10%")
    return target


def _preview(session: Session, path: Path, target: int | None, wanted: Wanted) -> None:
    decision, plan = session.preview(to=target, window=wanted.window)
    if wanted.json:
        steps = [msgspec.to_builtins(s) for s in plan.steps] if plan else []
        told = {
            "file": str(path), "session": session.place.session, "act": decision.act, "reason": decision.reason,
            "target": decision.target, "tokens_before": plan.tokens_before if plan else None,
            "tokens_after_at_most": plan.tokens_after if plan else None, "steps": steps,
            "plan": plan.explain() if plan else "",
        }
        typer.echo(msgspec.json.encode(told))
        return
    show(f"{path}  session {session.place.session}")
    show(decision.reason)
    if plan is not None:
        show(plan.explain())


def _report(path: Path, session: Session, outcome: Outcome, *, json: bool) -> None:
    if json:
        told = {"file": str(path), "session": session.place.session} | msgspec.to_builtins(outcome)
        for field in msgspec.structs.fields(Outcome):
            if field.default is not msgspec.NODEFAULT:
                told.setdefault(field.name, msgspec.to_builtins(field.default))
            elif field.default_factory is not msgspec.NODEFAULT:
                told.setdefault(field.name, msgspec.to_builtins(field.default_factory()))
        typer.echo(msgspec.json.encode(told))
        return
    share = f" ({outcome.tokens_after / outcome.tokens_before:.1%})" if outcome.tokens_before else ""
    show(f"{os.fspath(path)}", style="bold")
    show(f"  session {session.place.session}  {outcome.status}: {one_line(outcome.reason, 300)}")
    show(
        f"  tokens {outcome.tokens_before:,} -> {outcome.tokens_after:,}{share}, target {outcome.target:,}"
        f"{' MISSED' if outcome.target_missed else ''}; messages {outcome.messages_before:,} -> "
        f"{outcome.messages_after:,}; summary by rung: {outcome.rung or 'none'}"
    )
    if outcome.target_missed and outcome.itemised:
        show("  what must stay: " + ", ".join(f"{what} {n:,}" for what, n in outcome.itemised.items()))
    if outcome.facts:
        rows = [
            (kind.replace("_", " "), str(kept), str(total), "must keep" if kind in MUST_KEEP else "")
            for kind, (kept, total) in sorted(outcome.facts.items(), key=lambda f: (f[0] not in MUST_KEEP, f[0]))
        ]
        table(("facts", "in view", "of", ""), rows, right=("in view", "of"))
    for violation in outcome.violations:
        show(f"  violation: {violation}", style="red")
    if outcome.block:
        show(f"  block {outcome.block}: `tenfold diff {session.place.session}`, `tenfold undo {session.place.session}`")


def _write(path: Path, recorded: Sequence[Recorded], sessions: Sequence[Session]) -> None:
    data = write_file([(r.info, view_items(s.view)) for r, s in zip(recorded, sessions, strict=True)])
    path.write_bytes(data)
    note(f"written: {path} ({len(data):,} bytes)")
