"""`tenfold diff`: what the newest Block hid, what is shown in its place, and which facts are in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tenfold.cli.place import JsonOption, SessionArgument, StoreOption, opened, session_of
from tenfold.cli.screen import in_terminal, json_line, short, show, table, width
from tenfold.cli.showing import brief
from tenfold.errors import UsageError
from tenfold.log.finding import row_of
from tenfold.recall.expand import Line
from tenfold.record.block import MUST_KEEP, Block, Fact, Say
from tenfold.record.message import calls_of, text_of
from tenfold.session import Session
from tenfold.shown import one_line, told
from tenfold.summarize.parse import parse
from tenfold.view.path import Path
from tenfold.view.view import View
from tenfold.wire.marks import summary_text

_LIMIT = 30
_STATES = ("not in view", "in view", "settled")


class Told(msgspec.Struct, frozen=True):
    """One fact of a Block: whether it must be kept, and whether it is in view."""

    kind: str
    text: str
    must_keep: bool
    state: str


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff", epilog="Example: tenfold diff last")(diff)


def diff(
    session: SessionArgument,
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many hidden messages and facts. Default: 30 in a terminal.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Shows what the newest Block hid, what stands there now, and which facts it kept in view."""
    with opened(store) as place:
        row = row_of(place, session)
        opened_session = session_of(place, row)
        block = _newest(opened_session, row.info.id)
        hidden, kept_count = _hidden_by(opened_session.view.path, opened_session.view.marks.live[-1])
        substitutes = [s for r in block.replacements for s in r.show if isinstance(s, Say)]
        facts = facts_of(block, opened_session.view)
    if json:
        json_line(_json(row.info.id, block, hidden, substitutes, facts))
        return
    max_lines = limit or (_LIMIT if in_terminal() else len(hidden) + len(facts) + 1)
    show(
        f"block {short(block.id)}: {block.tokens_before:,} -> {block.tokens_after:,} tokens, {kept_count:,} "
        f"{'message stays as it was' if kept_count == 1 else 'messages stay as they were'}, {len(hidden):,} hidden or "
        f"shortened, rung {block.rung}",
        style="bold",
    )
    if block.batches:
        names = f"{block.id}/0" + (f" to /{len(block.batches) - 1}" if len(block.batches) > 1 else "")
        show(f"  batches: {len(block.batches):,}; tenfold expand {names} prints what each stands for")
    _removed(hidden, max_lines)
    _added(substitutes, max_lines)
    _told(facts, max_lines)


def _newest(session: Session, id_: str) -> Block:
    live = session.view.marks.live
    if not live:
        raise UsageError(f"session {id_} has no compaction in force: nothing to compare; `tenfold show` shows it")
    block = session.view.path.at(live[-1])
    assert isinstance(block, Block)
    return block


def _hidden_by(path: Path, at: int) -> tuple[list[Line], int]:
    """Returns what the Block at this position took out of view, and how many messages stayed in view."""
    view = View.empty(path).extend(path.span(0, at - 1))
    remaining = {each.key for each in view.extend(path.span(at, at)).shown()}
    shown = list(view.shown())
    hidden = [
        Line(each.at if each.of is None else each.of, path.at(each.at).id, each.message, original=each.original)
        for each in shown
        if each.key not in remaining
    ]
    return hidden, len(shown) - len(hidden)


def facts_of(block: Block, view: View) -> list[Told]:
    """Lists a Block's facts, must-keep ones first, each with its state in the view. Names in use are left out."""
    texts = [f"{text_of(m)} {' '.join(c.name + ' ' + c.arguments for c in calls_of(m))}" for m in view.messages()]
    view_text = "\n".join(texts)
    fact_keys = {(f.kind, f.key) for text in texts for f in parse(summary_text(text) or "")}
    fact_texts = {(f.kind, f.text) for text in texts for f in parse(summary_text(text) or "")}
    out = []
    for fact in (fact for fact in block.facts if fact.kind != "name"):
        in_view = (
            (fact.kind, fact.key) in fact_keys or (fact.kind, told(fact.text)) in fact_texts or fact.text in view_text
        )
        state = "in view" if in_view else "settled" if not fact.live else "not in view"
        out.append(Told(fact.kind, told(fact.text), _must(fact), state))
    return sorted(out, key=lambda f: (not f.must_keep, _STATES.index(f.state), f.kind))


def _must(fact: Fact) -> bool:
    return fact.live and fact.kind in MUST_KEEP


def _removed(hidden: Sequence[Line], most: int) -> None:
    columns = width() - 20
    half = most if len(hidden) <= most else most // 2
    for line in hidden[:half]:
        show(f"- {line.position:>6} {line.message.role:<9} {one_line(brief(line.message), columns)}", style="red")
    if len(hidden) > 2 * half:
        show(f"  ... {len(hidden) - 2 * half:,} more; --limit {len(hidden)} lists them, `tenfold expand` prints them")
    for line in hidden[half:][-half:]:
        show(f"- {line.position:>6} {line.message.role:<9} {one_line(brief(line.message), columns)}", style="red")


def _added(made: Sequence[Say], most: int) -> None:
    stubs = [s for s in made if "\n" not in text_of(s.message).strip()]
    for substitute in stubs[:most]:
        show(f"+ {one_line(text_of(substitute.message), width() - 2)}", style="green")
    if len(stubs) > most:
        show(f"  ... and {len(stubs) - most:,} more lines like these")
    for substitute in made:
        if substitute not in stubs:
            for text in told(text_of(substitute.message)).splitlines():
                show(f"+ {text}", style="green")


def _told(facts: Sequence[Told], most: int) -> None:
    must_keep = [f for f in facts if f.must_keep]
    in_view = sum(f.state == "in view" for f in must_keep)
    show(
        f"must-keep facts in view: {in_view} of {len(must_keep)}; others: "
        f"{sum(f.state == 'in view' for f in facts if not f.must_keep)} of {len(facts) - len(must_keep)}",
        style="bold",
    )
    rows = [
        (f.kind.replace("_", " "), "must keep" if f.must_keep else "", f.state, one_line(f.text, 300))
        for f in facts[:most]
    ]
    if rows:
        table(("fact", "", "state", "text"), rows, fit="text")
    if len(facts) > most:
        show(f"... {len(facts) - most:,} more facts; --limit {len(facts)} lists all, `tenfold search` finds them")


def _json(session: str, block: Block, hidden: Sequence[Line], made: Sequence[Say], facts: Sequence[Told]) -> bytes:
    return msgspec.json.encode(
        {
            "session": session,
            "block": block.id,
            "rung": block.rung,
            "reason": block.reason,
            "tokens_before": block.tokens_before,
            "tokens_after": block.tokens_after,
            "unshown": block.unshown,
            "hidden": [
                {"position": h.position, "entry": h.entry, "role": h.message.role, "text": told(text_of(h.message))}
                for h in hidden
            ],
            "batches": [f"{block.id}/{n}" for n in range(len(block.batches))],
            "now": [{"of": s.of, "role": s.message.role, "text": told(text_of(s.message))} for s in made],
            "facts": facts,
        }
    )
