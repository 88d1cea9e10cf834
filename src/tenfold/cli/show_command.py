"""`tenfold show`: a session as a timeline of exchanges and steps, with what the model sees of each message now.

It reads the whole path, so it takes O(log) time. It is meant for people, not for a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct

from tenfold.cli.console import print_json, print_table, shorten_id, show
from tenfold.cli.store_access import JsonOption, SessionArgument, StoreOption, open_cli_store, open_session
from tenfold.record.block import Block
from tenfold.record.entry import get_message
from tenfold.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.session import Session
from tenfold.store.base import SessionRow
from tenfold.store.lookup import find_session
from tenfold.text.terminal_safe import sanitize, to_one_line
from tenfold.view.units import VisibleMessage

Visibility = Literal["as it was", "shortened", "hidden", "summary"]


class TimelineRow(Struct, frozen=True):
    """One line of the timeline.

    `place` is "exchange.step". `tokens` is the size in view, None if the message is hidden.
    """

    id: str
    position: int
    place: str
    role: str
    seen: Visibility
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
    with open_cli_store(store) as place:
        row = find_session(place, session)
        current = open_session(place, row)
        rows = [r for r in build_timeline(current) if hidden or r.seen != "hidden"]
        blocks = get_live_blocks(current)
        session_tokens, view_tokens = current.count_uncompacted(), current.take_reading().estimate
        total = sum(
            1 for e in current.view.path.get_entries(0, current.view.path.length - 1) if get_message(e) is not None
        )
    if json:
        record = {
            "session": row.info.id,
            "format": row.info.format,
            "file": row.info.file,
            "entries": row.entry_count,
            "messages": total,
            "tokens": session_tokens,
            "tokens_in_view": view_tokens,
            "counter": current.policy.counter.name,
            "blocks": [_build_block_record(b) for b in blocks],
            "timeline": [msgspec.structs.replace(r, text=sanitize(r.text)) for r in rows],
        }
        print_json(msgspec.json.encode(record))
        return
    _print_heading(
        row, current, message_count=total, session_tokens=session_tokens, view_tokens=view_tokens, blocks=blocks
    )
    print_table(
        ("id", "step", "who", "tokens", "seen", "text"),
        [
            (
                shorten_id(r.id),
                r.place,
                r.role,
                "" if r.tokens is None else f"{r.tokens:,}",
                r.seen + (", pinned" if r.pinned else ""),
                to_one_line(r.text, 300),
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


def _print_heading(
    row: SessionRow,
    session: Session,
    *,
    message_count: int,
    session_tokens: int,
    view_tokens: int,
    blocks: Sequence[Block],
) -> None:
    shown = sum(1 for _ in session.view.get_visible_messages())
    share = f", {view_tokens / session_tokens:.1%}" if session_tokens else ""
    show(f"session {row.info.id}", style="bold")
    show(
        f"{row.info.format}, {sanitize(row.info.file)}"
        + (f", model {to_one_line(row.info.model, 60)}" if row.info.model else "")
    )
    counter = session.policy.counter.name
    show(
        f"{message_count:,} messages, {session_tokens:,} tokens by {counter}; the model sees "
        f"{shown:,} messages, {view_tokens:,} tokens{share}"
    )
    for block in blocks:
        show(
            f"Block {shorten_id(block.id)} by {block.policy}: {block.tokens_before:,} -> {block.tokens_after:,} tokens "
            f"({to_one_line(block.reason, 60)}, rung {block.rung})"
        )
    if session.view.state.undone:
        show("the newest compaction was undone")


def get_live_blocks(session: Session) -> list[Block]:
    """Returns the Blocks in force, oldest first."""
    entries = (session.view.path.get_entry(position) for position in session.view.state.live_blocks)
    return [entry for entry in entries if isinstance(entry, Block)]


def _build_block_record(block: Block) -> dict[str, object]:
    return {
        "block": block.id,
        "policy": block.policy,
        "rung": block.rung,
        "reason": block.reason,
        "time": block.time,
        "tokens_before": block.tokens_before,
        "tokens_after": block.tokens_after,
    }


def build_timeline(session: Session) -> Iterator[TimelineRow]:
    """Yields every message of the path in order, with the summaries in their places."""
    view, sizes = session.view, session.get_message_sizes()
    path = view.path
    labels = dict(_label_messages(session))
    shown = list(view.get_visible_messages())
    unchanged = {each.position for each in shown if each.is_original}
    before = 0
    for each in shown:
        anchor = _find_anchor(session, each)
        yield from _list_hidden(session, labels, before, anchor, shown)
        before = max(before, anchor)
        if not each.is_original and (
            each.original_position is None or each.original_position in unchanged
        ):  # shown beside it, not in its place
            block = path.get_entry(each.position)
            yield TimelineRow(
                block.id, each.position, "", each.message.role, "summary", sizes[each.key], get_text(each.message)
            )
            continue
        at = each.position if each.original_position is None else each.original_position
        seen: Visibility = "as it was" if each.is_original else "shortened"
        yield TimelineRow(
            path.get_entry(at).id,
            at,
            labels.get(at, ""),
            _describe_role(each.message),
            seen,
            sizes[each.key],
            excerpt_message(each.message),
            at in view.state.pins,
        )
    yield from _list_hidden(session, labels, before, path.length, shown)


def _find_anchor(session: Session, each: VisibleMessage) -> int:
    """Returns the position up to which hidden messages are listed before this message."""
    if each.original_position is not None or each.is_original:
        return each.position if each.original_position is None else each.original_position
    block = session.view.path.get_entry(each.position)
    assert isinstance(block, Block)
    return block.replacements[each.key[1]].last + 1


def _list_hidden(
    session: Session, labels: dict[int, str], first: int, last: int, shown: Sequence[VisibleMessage]
) -> Iterator[TimelineRow]:
    if last <= first:
        return
    visible = {
        s.position if s.original_position is None else s.original_position
        for s in shown
        if s.is_original or s.original_position is not None
    }
    for position, entry in enumerate(session.view.path.get_entries(first, last - 1), first):
        message = get_message(entry)
        if message is not None and position not in visible:
            yield TimelineRow(
                entry.id,
                position,
                labels.get(position, ""),
                _describe_role(message),
                "hidden",
                None,
                excerpt_message(message),
            )


def _label_messages(session: Session) -> Iterator[tuple[int, str]]:
    exchange = step = 0
    for position, entry in enumerate(session.view.path.get_entries(0, session.view.path.length - 1)):
        message = get_message(entry)
        if message is None:
            continue
        if message.role == "user" and message.origin == "human":
            exchange, step = exchange + 1, 0
        elif message.role == "assistant":
            step += 1
        yield position, f"{exchange}.{step}" if step else f"{exchange}"


def _describe_role(message: Message) -> str:
    usual_origins = {"user": "human", "assistant": "model", "tool": "tool", "system": "harness"}
    return message.role if usual_origins[message.role] == message.origin else f"{message.role} ({message.origin})"


def excerpt_message(message: Message) -> str:
    """Renders a message's text and calls as one text. The caller shortens it."""
    result = get_tool_result(message)
    failed = "[failed] " if result is not None and result.is_error else ""
    calls = " ".join(f"[{c.name} {c.arguments[:200]}]" for c in get_tool_calls(message))
    return f"{failed}{get_text(message)[:2_000]} {calls}".strip()
