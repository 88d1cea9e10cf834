"""`tenfold show`: a session as a timeline of exchanges and steps, with what the model sees of each message now.

It reads the whole path, so it takes O(log) time. It is meant for people, not for a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct

from tenfold.cli.place import JsonOption, SessionArgument, StoreOption, opened, session_of
from tenfold.cli.screen import json_line, short, show, table
from tenfold.log.base import SessionRow
from tenfold.log.finding import row_of
from tenfold.record.block import Block
from tenfold.record.entry import message_of
from tenfold.record.message import Message, calls_of, result_of, text_of
from tenfold.session import Session
from tenfold.shown import one_line, told
from tenfold.view.units import Shown

Seen = Literal["as it was", "shortened", "hidden", "summary"]


class Row(Struct, frozen=True):
    """One line of the timeline.

    `place` is "exchange.step". `tokens` is the size in view, None if the message is hidden.
    """

    id: str
    position: int
    place: str
    role: str
    seen: Seen
    tokens: int | None
    text: str
    pinned: bool = False


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("show", epilog="Example: tenfold show last")(show_session)


def show_session(
    session: SessionArgument,
    *,
    hidden: Annotated[bool, typer.Option("--all", help="List hidden messages too.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Shows a session as a timeline: exchanges, steps, tokens, Blocks, and what the model sees of them now."""
    with opened(store) as place:
        row = row_of(place, session)
        current = session_of(place, row)
        rows = [r for r in timeline(current) if hidden or r.seen != "hidden"]
        blocks = live_blocks(current)
        session_tokens, view_tokens = current.uncompacted(), current.reading().estimate
        total = sum(1 for e in current.view.path.span(0, current.view.path.length - 1) if message_of(e) is not None)
    if json:
        record = {
            "session": row.info.id,
            "format": row.info.format,
            "file": row.info.file,
            "entries": row.entries,
            "messages": total,
            "tokens": session_tokens,
            "tokens_in_view": view_tokens,
            "counter": current.policy.counter.name,
            "blocks": [_block(b) for b in blocks],
            "timeline": [msgspec.structs.replace(r, text=told(r.text)) for r in rows],
        }
        json_line(msgspec.json.encode(record))
        return
    _heading(row, current, total=total, whole=session_tokens, now=view_tokens, blocks=blocks)
    table(
        ("id", "step", "who", "tokens", "seen", "text"),
        [
            (
                short(r.id),
                r.place,
                r.role,
                "" if r.tokens is None else f"{r.tokens:,}",
                r.seen + (", pinned" if r.pinned else ""),
                one_line(r.text, 300),
            )
            for r in rows
        ],
        right=("tokens",),
        fit="text",
    )
    if blocks and not hidden:
        show(
            f"hidden: {total - sum(r.seen != 'summary' for r in rows):,} messages; --all lists them, `tenfold diff` too"
        )


def _heading(row: SessionRow, session: Session, *, total: int, whole: int, now: int, blocks: Sequence[Block]) -> None:
    shown = sum(1 for _ in session.view.shown())
    share = f", {now / whole:.1%}" if whole else ""
    show(f"session {row.info.id}", style="bold")
    show(
        f"{row.info.format}, {told(row.info.file)}"
        + (f", model {one_line(row.info.model, 60)}" if row.info.model else "")
    )
    counter = session.policy.counter.name
    show(f"{total:,} messages, {whole:,} tokens by {counter}; the model sees {shown:,} messages, {now:,} tokens{share}")
    for block in blocks:
        show(
            f"Block {short(block.id)} by {block.policy}: {block.tokens_before:,} -> {block.tokens_after:,} tokens "
            f"({one_line(block.reason, 60)}, rung {block.rung})"
        )
    if session.view.marks.undone:
        show("the newest compaction was undone")


def live_blocks(session: Session) -> list[Block]:
    """Returns the Blocks in force, oldest first."""
    entries = (session.view.path.at(position) for position in session.view.marks.live)
    return [entry for entry in entries if isinstance(entry, Block)]


def _block(block: Block) -> dict[str, object]:
    return {
        "block": block.id,
        "policy": block.policy,
        "rung": block.rung,
        "reason": block.reason,
        "time": block.time,
        "tokens_before": block.tokens_before,
        "tokens_after": block.tokens_after,
    }


def timeline(session: Session) -> Iterator[Row]:
    """Yields every message of the path in order, with the summaries in their places."""
    view, sizes = session.view, session.sizes()
    path = view.path
    labels = dict(_labels(session))
    shown = list(view.shown())
    unchanged = {each.at for each in shown if each.original}
    before = 0
    for each in shown:
        anchor = _anchor(session, each)
        yield from _hidden_between(session, labels, before, anchor, shown)
        before = max(before, anchor)
        if not each.original and (each.of is None or each.of in unchanged):  # shown beside it, not in its place
            block = path.at(each.at)
            yield Row(block.id, each.at, "", each.message.role, "summary", sizes[each.key], text_of(each.message))
            continue
        at = each.at if each.of is None else each.of
        seen: Seen = "as it was" if each.original else "shortened"
        yield Row(
            path.at(at).id,
            at,
            labels.get(at, ""),
            _who(each.message),
            seen,
            sizes[each.key],
            brief(each.message),
            at in view.marks.pins,
        )
    yield from _hidden_between(session, labels, before, path.length, shown)


def _anchor(session: Session, each: Shown) -> int:
    """Returns the position up to which hidden messages are listed before this message."""
    if each.of is not None or each.original:
        return each.at if each.of is None else each.of
    block = session.view.path.at(each.at)
    assert isinstance(block, Block)
    return block.replacements[each.key[1]].last + 1


def _hidden_between(
    session: Session, labels: dict[int, str], first: int, last: int, shown: Sequence[Shown]
) -> Iterator[Row]:
    if last <= first:
        return
    visible = {s.at if s.of is None else s.of for s in shown if s.original or s.of is not None}
    for position, entry in enumerate(session.view.path.span(first, last - 1), first):
        message = message_of(entry)
        if message is not None and position not in visible:
            yield Row(entry.id, position, labels.get(position, ""), _who(message), "hidden", None, brief(message))


def _labels(session: Session) -> Iterator[tuple[int, str]]:
    exchange = step = 0
    for position, entry in enumerate(session.view.path.span(0, session.view.path.length - 1)):
        message = message_of(entry)
        if message is None:
            continue
        if message.role == "user" and message.origin == "human":
            exchange, step = exchange + 1, 0
        elif message.role == "assistant":
            step += 1
        yield position, f"{exchange}.{step}" if step else f"{exchange}"


def _who(message: Message) -> str:
    usual_origins = {"user": "human", "assistant": "model", "tool": "tool", "system": "harness"}
    return message.role if usual_origins[message.role] == message.origin else f"{message.role} ({message.origin})"


def brief(message: Message) -> str:
    """Renders a message's text and calls as one text. The caller shortens it."""
    result = result_of(message)
    failed = "[failed] " if result is not None and result.error else ""
    calls = " ".join(f"[{c.name} {c.arguments[:200]}]" for c in calls_of(message))
    return f"{failed}{text_of(message)[:2_000]} {calls}".strip()
