"""Commands that look and change nothing: sessions, show, search, expand, diff, verify, policies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from tenfold.cli.place import NAMESPACE, JsonOption, StoreOption, opened, row_of, session_of
from tenfold.cli.screen import encodable, one_line, safe, show, table
from tenfold.errors import UsageError
from tenfold.meter.counters import counter_for
from tenfold.policies import POLICIES
from tenfold.recall.expand import Line, expand
from tenfold.recall.tools import rendered
from tenfold.record.block import MUST_KEEP, Block, Keep
from tenfold.record.message import calls_of, text_of
from tenfold.session import Session
from tenfold.view.units import Unit

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id or its beginning; `last` is the newest.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("sessions", epilog="Example: tenfold sessions --json")(sessions)
    app.command("show", epilog="Example: tenfold show last")(show_session)
    app.command("search", epilog="Example: tenfold search 'port 8443' --session last")(search)
    app.command("expand", epilog="Example: tenfold expand 01a2005b --depth all")(expand_block)
    app.command("diff", epilog="Example: tenfold diff last")(diff)
    app.command("verify", epilog="Example: tenfold verify")(verify)
    app.command("policies", epilog="Example: tenfold policies --window 200000")(policies)


def _when(micros: int | None) -> str:
    return "" if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


def sessions(*, store: StoreOption = None, json: JsonOption = False) -> None:
    """Lists the sessions of the store, newest first."""
    with opened(store) as place:
        rows = place.sessions(NAMESPACE)
    if json:
        for row in rows:
            info = row.info
            told = {
                "session": info.id, "format": info.format, "file": info.file, "title": info.title, "model": info.model,
                "parent": info.parent, "entries": row.entries, "blocks": row.blocks, "last": row.last,
            }
            typer.echo(msgspec.json.encode(told))
        return
    table(
        ("session", "format", "entries", "blocks", "last", "file"),
        [(r.info.id, r.info.format, f"{r.entries:,}", f"{r.blocks}", _when(r.last), r.info.file) for r in rows],
        right=("entries", "blocks"),
    )


def show_session(session: SessionArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Shows what the model sees now as a timeline: exchanges, steps, Blocks, and the tokens of each."""
    with opened(store) as place:
        row = row_of(place, session)
        opened_session = session_of(place, row)
        rows = _timeline(opened_session)
        reading = opened_session.reading()
    if json:
        for each in rows:
            typer.echo(msgspec.json.encode(dict(zip(("id", "what", "tokens", "positions", "text"), each, strict=True))))
        return
    show(f"session {row.info.id}  {row.info.format}  {row.entries:,} entries, {row.blocks} Blocks")
    table(("id", "what", "tokens", "positions", "text"), rows, right=("tokens",))
    show(f"in view: {reading.estimate:,} tokens ({opened_session.policy.counter.name}); the model sees what is listed here")


def _timeline(session: Session) -> list[tuple[str, str, str, str, str]]:
    view, sizes = session.view, session.sizes()
    rows: list[tuple[str, str, str, str, str]] = []
    exchange = 0
    for unit in view.units:
        if not unit.shown:
            continue
        for shown in unit.shown:
            message = shown.message
            exchange += message.role == "user" and message.origin == "human" and shown.original
            entry = view.path.at(shown.at if shown.of is None else shown.of)
            what = _what(unit, shown.original, message.role, exchange)
            calls = " ".join(f"[{c.name} {one_line(c.arguments, 60)}]" for c in calls_of(message))
            span = f"{unit.first}..{unit.last}" if not shown.original and unit.ref else str(shown.at)
            rows.append((entry.id, what, f"{sizes[shown.key]:,}", span, one_line(f"{text_of(message)} {calls}", 90)))
    if view.step is not None:
        rows.append((view.path.at(view.step.first).id, "open step", "", f"{view.step.first}..", "waits for results"))
    return rows


def _what(unit: Unit, original: bool, role: str, exchange: int) -> str:  # noqa: FBT001 - a fact, not a switch
    if not original and unit.ref is not None:
        return "Block" if role == "user" else f"{role} (stub)"
    return f"exchange {exchange}" if role == "user" else f"  {role}"


def search(
    words: Annotated[list[str], typer.Argument(help="Words that must all occur; quote a phrase.")],
    *,
    session: Annotated[str | None, typer.Option(help="Only in this session.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many results.")] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Finds original messages and summaries, also those that no view shows any more."""
    with opened(store) as place:
        only = row_of(place, session).info.id if session is not None else None
        hits = place.search(NAMESPACE, " ".join(words), session=only, limit=limit)
    if json:
        for hit in hits:
            typer.echo(msgspec.json.encode(hit))
        return
    for hit in hits:
        scanned = "  (found by scan)" if hit.scanned else ""
        show(f"{hit.entry}  session {hit.session}  position {hit.position}  {hit.kind}{scanned}", style="bold")
        show(f"    {one_line(hit.snippet, 400)}")
    show(f"{len(hits)} found" if hits else f"nothing holds {' '.join(words)!r}")


def expand_block(
    block: Annotated[str, typer.Argument(metavar="BLOCK", help="A Block's or message's id, or its beginning.")],
    *,
    depth: Annotated[str, typer.Option(help="`one` level down, or `all` the way to the originals.")] = "one",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Prints what a Block stands for, exactly as it was."""
    if depth not in ("one", "all"):
        raise UsageError(f"--depth {depth!r}: give `one` or `all`")
    with opened(store) as place:
        lines = expand(place, NAMESPACE, block, deep=depth == "all")
    for line in lines:
        if json:
            typer.echo(msgspec.json.encode(_line(line)))
        else:
            typer.echo(encodable(safe(rendered(line))) + "\n")


def _line(line: Line) -> dict[str, object]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in calls_of(line.message)]
    return {
        "position": line.position, "entry": line.entry, "role": line.message.role, "origin": line.message.origin,
        "original": line.original, "text": text_of(line.message), "calls": calls,
    }


def diff(session: SessionArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Shows what the newest Block hid, what stands there now, and which facts it kept."""
    with opened(store) as place:
        row = row_of(place, session)
        opened_session = session_of(place, row)
        view = opened_session.view
        if not view.marks.live:
            raise UsageError(f"session {row.info.id} has no compaction in force; nothing to compare")
        block = view.path.at(view.marks.live[-1])
        assert isinstance(block, Block)
        lines = expand(place, NAMESPACE, block.id)
    kept = {s.position for r in block.replacements for s in r.show if isinstance(s, Keep)}
    hidden = [line for line in lines if line.position not in kept]
    if json:
        told = {
            "block": block.id, "rung": block.rung, "tokens_before": block.tokens_before,
            "tokens_after": block.tokens_after, "unshown": block.unshown, "hidden": [_line(h) for h in hidden],
            "facts": [msgspec.to_builtins(f) for f in block.facts],
        }
        typer.echo(msgspec.json.encode(told))
        return
    show(f"block {block.id}: {block.tokens_before:,} -> {block.tokens_after:,} tokens, rung {block.rung}", style="bold")
    for each in hidden:
        calls = " ".join(f"[{c.name} {one_line(c.arguments, 60)}]" for c in calls_of(each.message))
        show(f"- {each.position:>5} {each.message.role:<9} {one_line(text_of(each.message) + ' ' + calls, 100)}", style="red")
    for replacement in block.replacements:
        for made in replacement.show:
            if not isinstance(made, Keep):
                for text in safe(text_of(made.message)).splitlines():
                    show(f"+ {text}", style="green")
    rows = [(f.kind, "must keep" if f.kind in MUST_KEEP and f.live else "", one_line(f.text, 100)) for f in block.facts]
    table(("fact", "", "text"), rows)


def verify(*, store: StoreOption = None, json: JsonOption = False) -> int:
    """Re-hashes every entry, folds every head from its root, and compares every snapshot."""
    with opened(store) as place:
        problems = place.verify(NAMESPACE)
        count = len(place.sessions(NAMESPACE))
    for problem in problems:
        if json:
            typer.echo(msgspec.json.encode(problem))
        else:
            show(f"session {problem.session} entry {problem.entry}: {safe(problem.what)}", style="red")
    if not json:
        show(f"{count} sessions, {len(problems)} problems" if problems else f"{count} sessions verified, no problems")
    return 4 if problems else 0


def policies(
    *,
    window: Annotated[int, typer.Option(help="The window to print the limits for.")] = 200_000,
    model: Annotated[str | None, typer.Option(help="The agent's model, for its tokenizer.")] = None,
    json: JsonOption = False,
) -> None:
    """Lists the policies with their stages and, for a window, their limits."""
    chosen = counter_for(model)
    rows: list[tuple[str, str, str, str, str]] = []
    for name, make in POLICIES.items():
        policy = make(chosen.counter)
        limits = policy.trigger.limits(window, output_reserve=0, floor=0)
        rows.append((name, f"{limits.soft:,}", f"{limits.hard:,}", f"{limits.target:,}", " ".join(s.name for s in policy.stages)))
    if json:
        for row in rows:
            typer.echo(msgspec.json.encode(dict(zip(("policy", "soft", "hard", "target", "stages"), row, strict=True))))
        return
    show(f"limits in tokens for a window of {window:,}, counted by {chosen.counter.name}")
    table(("policy", "acts at", "hard limit", "aims at", "stages"), rows, right=("acts at", "hard limit", "aims at"))
