"""Commands that show one session: show prints what the model sees, or a timeline, and diff what a compaction changed.

They read the whole path, so they take O(log) time. They are meant for people, not for a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct

from tenfold.apps.cli.compact_report import describe_rung, describe_unconfirmed, render_reading
from tenfold.apps.cli.console import (
    fit_line,
    format_id,
    get_width,
    is_terminal,
    print_json,
    print_table,
    show,
    show_text,
)
from tenfold.apps.cli.pager import open_pager
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    SessionArgument,
    StoreOption,
    find_stored_session,
    open_cli_store,
    open_session,
)
from tenfold.apps.keyring import note_access
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import get_shown_text
from tenfold.compaction.summarize.literals import count_unconfirmed
from tenfold.compaction.trigger.economy import explain_receipt
from tenfold.core.record.block import Block, Substitute
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import MUST_KEEP
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
)
from tenfold.core.record.token_reading import Reading
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import UsageError
from tenfold.formats.summaries import list_client_compactions
from tenfold.recall.expand import ExpandedMessage, excerpt_message
from tenfold.recall.tools import render_call
from tenfold.session import Session
from tenfold.store.base import SessionRow
from tenfold.store.lookup import LAST

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


class _SessionSizes(Struct, frozen=True):
    messages: int
    tokens: int
    reading: Reading


def show_session(
    session: SessionArgument = LAST,
    *,
    brief: Annotated[
        bool, typer.Option("--brief", help="Print a timeline instead: one line for each message, with its step.")
    ] = False,
    hidden: Annotated[bool, typer.Option("--all", help="List the hidden messages in the timeline, too.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Prints what the model sees of a session now, every message of it whole."""
    is_timeline = brief or hidden
    with open_cli_store(store) as place:
        row = find_stored_session(place, session, namespace=namespace)
        note_access(place, namespace, "read", row.info.id)
        current = open_session(place, row, namespace=namespace)
        render = excerpt_message if is_timeline and not json else _render_whole
        rows = [r for r in build_timeline(current, render) if hidden or r.seen != "hidden"]
        blocks = get_live_blocks(current)
        sizes = _SessionSizes(
            len(_list_messages(current)), current.conversation.count_uncompacted(), current.take_reading()
        )
    if json:
        record = {
            "session": row.info.id,
            "format": row.info.format,
            "file": row.info.file,
            "entries": row.entry_count,
            "messages": sizes.messages,
            "tokens": sizes.tokens,
            "tokens_in_view": sizes.reading.estimate,
            "reading": sizes.reading.build_record(),
            "counter": current.policy.counter.name,
            "blocks": [_build_block_record(b) for b in blocks],
            "auto_off": current.view.state.is_auto_off,
            "timeline": [msgspec.structs.replace(r, text=sanitize(r.text)) for r in rows],
        }
        print_json(record)
        return
    hidden_count = sizes.messages - sum(r.seen not in ("summary", "hidden") for r in rows)
    with open_pager():
        _print_heading(row, current, sizes, blocks)
        if is_timeline:
            _print_timeline(rows)
        else:
            _print_messages(rows)
        if hidden_count and not hidden:
            show(f"{hidden_count:,} messages are hidden: --all lists them, and so does `tenfold diff`")


def _print_timeline(rows: Sequence[TimelineRow]) -> None:
    cells = [
        (
            format_id(r.id),
            f"{r.position}",
            r.place,
            r.role,
            "" if r.tokens is None else f"{r.tokens:,}",
            r.seen + (", pinned" if r.pinned else ""),
            to_one_line(r.text, 300),
        )
        for r in rows
    ]
    columns = ("id", "number", "step", "who", "tokens", "seen", "text")
    print_table(columns, cells, right=("number", "tokens"), fit="text", spare=("id", "step"))


def _print_messages(rows: Sequence[TimelineRow]) -> None:
    for each in rows:
        step = f", step {each.place}" if each.place else ""
        pinned = ", pinned" if each.pinned else ""
        heading = f"{each.role}{step}, {each.tokens or 0:,} tokens, {each.seen}{pinned}"
        show(f"\n[{heading}] {format_id(each.id)}", style="bold")
        show_text(sanitize(each.text))
    show()


def _print_heading(row: SessionRow, session: Session, sizes: _SessionSizes, blocks: Sequence[Block]) -> None:
    info, counter = row.info, session.policy.counter.name
    in_view = sizes.reading.estimate
    share = f", {in_view / sizes.tokens:.1%}" if sizes.tokens else ""
    origin = (info.format, sanitize(info.file), f"model {to_one_line(info.model, 60)}" if info.model else "")
    show(f"session {info.id}", style="bold")
    show(", ".join(filter(None, origin)))
    show(
        f"{sizes.messages:,} messages, {sizes.tokens:,} tokens by {counter}; the model sees "
        f"{sum(1 for _ in session.view.get_visible_messages()):,} messages, {in_view:,} tokens{share}"
    )
    if info.model:
        show(f"the provider counts {render_reading(sizes.reading)}")
    for block in blocks:
        show(
            f"Block {format_id(block.id)} by {block.policy}: {render_block_sizes(block)} "
            f"({to_one_line(block.reason, 60)}, {describe_rung(block.rung)})"
        )
        if block.receipt is not None:
            show(f"  money: {explain_receipt(block.receipt, _count_requests_after(session.view, block, blocks))}")
    if not blocks and (told := _describe_client_compactions(session.view)):
        show(told, style="yellow")
    if session.view.state.undone:
        show("the newest compaction was undone")
    if session.view.state.is_auto_off:
        show("automatic compaction is switched off for this session, up to the hard limit")


def _describe_client_compactions(view: View) -> str:
    """Says that the client compacted the conversation itself, so that its model sees less. "" if it did not."""
    found = list_client_compactions(enumerate(view.path.get_entries(0, view.length - 1))) if view.length else []
    if not found:
        return ""
    times = "once" if len(found) == 1 else f"{len(found)} times"
    return (
        f"its client compacted it {times}, at entry {', '.join(map(str, found[-3:]))}, and shows its model less than "
        "this: `tenfold search` finds what it left out, and `tenfold inspect` shows what it put there"
    )


def render_block_sizes(block: Block, *, is_undone: bool = False) -> str:
    """Renders the size of the view before and after a Block, as `tenfold compact` printed them, and who counted.

    For one that is undone it is the other way round.
    """
    before, after = reversed(block.sizes) if is_undone else block.sizes
    return f"{before:,} -> {after:,} tokens{' as the provider counts' if block.provider_tokens else ''}"


def get_live_blocks(session: Session) -> list[Block]:
    """Returns the Blocks in force, oldest first."""
    entries = (session.view.path.get_entry(position) for position in session.view.state.live_blocks)
    return [entry for entry in entries if isinstance(entry, Block)]


def _count_requests_after(view: View, block: Block, blocks: Sequence[Block]) -> int:
    """Counts the model's answers between a Block and the next one in force: each is a request that was made with it."""
    positions = dict(zip((each.id for each in blocks), view.state.live_blocks, strict=True))
    later = [at for at in positions.values() if at > positions[block.id]]
    entries = view.path.get_entries(positions[block.id], min(later, default=view.path.length - 1))
    return sum((m := get_message(entry)) is not None and m.role == "assistant" for entry in entries)


def _build_block_record(block: Block) -> dict[str, object]:
    names = ("policy", "rung", "reason", "time", "tokens_before", "tokens_after", "receipt")
    return {"block": block.id} | {name: getattr(block, name) for name in names}


def _list_messages(session: Session) -> dict[int, Message]:
    """Lists the messages of the whole path by their positions."""
    entries = enumerate(session.view.path.get_entries(0, session.view.path.length - 1))
    return {position: message for position, entry in entries if (message := get_message(entry)) is not None}


def build_timeline(session: Session, render: Callable[[Message], str]) -> Iterator[TimelineRow]:
    """Yields every message of the path in order, with the summaries in their places."""
    view, sizes, messages = session.view, session.conversation.get_message_sizes(), _list_messages(session)
    labels = dict(_label_messages(messages))
    shown = list(view.get_visible_messages())
    visible = {each.original_position for each in shown}
    unchanged = {each.original_position for each in shown if each.is_original}

    def build_row(position: int, message: Message, seen: Visibility, tokens: int | None) -> TimelineRow:
        who, text = _describe_role(message), render(message)
        place, is_pinned = labels.get(position, ""), position in view.state.pins
        return TimelineRow(view.path.get_entry(position).id, position, place, who, seen, tokens, text, is_pinned)

    def list_hidden(first: int, last: int) -> Iterator[TimelineRow]:
        for position in range(first, last):
            if position in messages and position not in visible:
                yield build_row(position, messages[position], "hidden", None)

    before = 0
    for each in shown:
        anchor = _find_anchor(session, each)
        yield from list_hidden(before, anchor)
        before = max(before, anchor)
        size, at = sizes[each.key], each.original_position
        if at is None or (not each.is_original and at in unchanged):  # shown beside it, not in its place
            block, text = view.path.get_entry(each.position), render(each.message)
            yield TimelineRow(block.id, each.position, "", each.message.role, "summary", size, text)
        else:
            yield build_row(at, each.message, "as it was" if each.is_original else "shortened", size)
    yield from list_hidden(before, view.path.length)


def _find_anchor(session: Session, each: VisibleMessage) -> int:
    """Returns the position up to which hidden messages are listed before this message."""
    if each.original_position is not None:
        return each.original_position
    return session.view.path.get_block(each.position).replacements[each.key[1]].last + 1


def _label_messages(messages: dict[int, Message]) -> Iterator[tuple[int, str]]:
    """Yields the "exchange.step" of each message."""
    exchange = step = 0
    for position, message in messages.items():
        if message.role == "user" and message.origin == "human":
            exchange, step = exchange + 1, 0
        elif message.role == "assistant":
            step += 1
        yield position, f"{exchange}.{step}" if step else f"{exchange}"


def _render_whole(message: Message) -> str:
    return "\n".join(filter(None, map(_render_part, message.parts)))


def _render_part(part: Part) -> str:
    """Renders all that is sent of a part, and names what is no text."""
    match part:
        case Text():
            return part.text
        case Thinking():
            return f"[thinking]\n{part.text}"
        case ToolCall():
            return render_call(part)
        case ToolResult():
            return "\n".join(("[failed]",) * part.is_error + tuple(map(_render_part, part.content)))
        case Image():
            return f"[image {part.media_type or part.url}]"
        case Document():
            return part.text or f"[document {part.name or part.media_type or part.url}]"
        case OpaquePart():
            return f"[{part.kind}, {len(part.raw):,} bytes]"


def _describe_role(message: Message) -> str:
    usual_origins = {"user": "human", "assistant": "model", "tool": "tool", "system": "harness"}
    return message.role if usual_origins[message.role] == message.origin else f"{message.role} ({message.origin})"


_TERMINAL_LIMIT = 30
_STATES = ("not in view", "in view", "settled")


class FactStatus(msgspec.Struct, frozen=True):
    """One fact of the compactions: whether it must be kept, and whether it is in view."""

    kind: str
    text: str
    must_keep: bool
    state: str


def diff(
    session: SessionArgument = LAST,
    *,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Print at most this many hidden messages and facts. Default: 30 in a terminal, else all."
        ),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Shows what a session's newest compaction changed: what it hid, what it put there, and which facts it kept."""
    with open_cli_store(store) as place:
        row = find_stored_session(place, session, namespace=namespace)
        note_access(place, namespace, "read", row.info.id)
        opened_session = open_session(place, row, namespace=namespace)
        blocks = get_live_blocks(opened_session)
        if not blocks:
            told = _describe_client_compactions(opened_session.view)
            raise UsageError(
                f"session {row.info.id} has no compaction in force to compare; " + (told or "`tenfold show` prints it")
            )
        block = blocks[-1]
        hidden, kept_count = _find_hidden(opened_session.view.path, opened_session.view.state.live_blocks[-1])
        substitutes = [s for r in block.replacements for s in r.shown_items if isinstance(s, Substitute)]
        facts = list_facts(opened_session.view)
        sizes = render_block_sizes(block)
    if json:
        print_json(_build_diff_record(row.info.id, block, hidden, substitutes, facts))
        return
    max_lines = limit or (_TERMINAL_LIMIT if is_terminal() else len(hidden) + len(facts) + 1)
    with open_pager():
        _print_diff_heading(block, sizes, kept_count, len(hidden))
        _print_removed(hidden, max_lines)
        _print_added(substitutes, max_lines)
        _print_facts(facts, max_lines)


def _print_diff_heading(block: Block, sizes: str, kept_count: int, hidden_count: int) -> None:
    stay = "message stays as it was" if kept_count == 1 else "messages stay as they were"
    show(
        f"block {format_id(block.id)}: {sizes}, {kept_count:,} {stay}, {hidden_count:,} hidden or shortened, "
        f"{describe_rung(block.rung)}",
        style="bold",
    )
    if unconfirmed := count_unconfirmed(block.replacements):
        show(f"  {describe_unconfirmed(unconfirmed)}", style="yellow")
    if block.batches:
        names = f"{block.id}/0" + (f" to {block.id}/{len(block.batches) - 1}" if len(block.batches) > 1 else "")
        show(f"  batches: {names}; `tenfold expand` prints what one stands for")


def _find_hidden(path: Path, at: int) -> tuple[list[ExpandedMessage], int]:
    """Returns what the Block at this position took out of view, and how many messages stayed in view."""
    view = View.build_empty(path).extend(path.get_entries(0, at - 1))
    remaining = {each.key for each in view.extend(path.get_entries(at, at)).get_visible_messages()}
    shown = list(view.get_visible_messages())
    hidden: list[ExpandedMessage] = []
    for each in (each for each in shown if each.key not in remaining):
        position = each.position if each.original_position is None else each.original_position
        entry = path.get_entry(each.position).id
        hidden.append(ExpandedMessage(position, entry, each.message, original=each.is_original))
    return hidden, len(shown) - len(hidden)


def list_facts(view: View) -> list[FactStatus]:
    """Lists the facts of the compactions, must-keep ones first, each with its state in the view."""
    texts = [
        f"{get_text(m)} {' '.join(c.name + ' ' + c.arguments for c in get_tool_calls(m))}" for m in view.get_messages()
    ]
    view_text = "\n".join(texts)
    parsed = [fact for text in texts for fact in parse_facts(extract_summary_text(text) or "")]
    shown_facts = {(fact.kind, fact.label) for fact in parsed}
    out = []
    for fact in view.list_block_facts():
        text = sanitize(fact.label)
        state = "not in view" if fact.live else "settled"
        labels = {(fact.kind, text), (fact.kind, sanitize(get_shown_text(fact)))}
        if not labels.isdisjoint(shown_facts) or fact.label in view_text:
            state = "in view"
        out.append(FactStatus(fact.kind, text, fact.live and fact.kind in MUST_KEEP, state))
    return sorted(out, key=lambda f: (not f.must_keep, _STATES.index(f.state), f.kind))


def _print_removed(hidden: Sequence[ExpandedMessage], max_lines: int) -> None:
    show(f"\nleft the view: {count_messages(len(hidden))}", style="bold")
    number_width = max((len(str(line.position)) for line in hidden), default=0)
    half = max_lines if len(hidden) <= max_lines else max_lines // 2
    left_out = max(0, len(hidden) - 2 * half)
    for number, line in enumerate(hidden):
        if number == half and left_out:
            show(f"  ... {left_out:,} more; --limit {len(hidden)} lists them, `tenfold expand` prints them")
        if not half <= number < half + left_out:
            lead = f"- {line.position:>{number_width}} {line.message.role:<9} "
            text = fit_line(excerpt_message(line.message), get_width() - len(lead))
            show(f"{lead}{text}".rstrip(), style="red")


def _print_added(substitutes: Sequence[Substitute], max_lines: int) -> None:
    """Prints what stands there now in the order of the view: longer texts whole, and so many of the single lines."""
    show(f"\nstands in its place: {count_messages(len(substitutes))}", style="bold")
    stub_count = 0
    for substitute in substitutes:
        text = sanitize(get_text(substitute.message))
        is_stub = "\n" not in text.strip()
        stub_count += is_stub
        if not is_stub:
            for line in text.splitlines():
                show_text(line, lead="+ ", style="green")
        elif stub_count <= max_lines:
            show(f"+ {fit_line(text, get_width() - 2)}", style="green")
    if stub_count > max_lines:
        show(f"  ... {stub_count - max_lines:,} more lines like these; --limit {stub_count} prints them")


def count_messages(count: int) -> str:
    """Names a number of messages."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def _print_facts(facts: Sequence[FactStatus], max_lines: int) -> None:
    must_keep, others = ([f.state == "in view" for f in facts if f.must_keep is must] for must in (True, False))
    counts = f"{sum(must_keep)} of {len(must_keep)}; others: {sum(others)} of {len(others)}"
    show(f"\nmust-keep facts in view: {counts}", style="bold")
    rows = [
        (f.kind.replace("_", " "), "must keep" if f.must_keep else "", f.state, to_one_line(f.text, 300))
        for f in facts[:max_lines]
    ]
    if rows:
        print_table(("fact", "", "state", "text"), rows, fit="text", spare=("",))
    if len(facts) > max_lines:
        show(f"... {len(facts) - max_lines:,} more facts; --limit {len(facts)} lists all, `tenfold search` finds them")


def _build_diff_record(
    session: str,
    block: Block,
    hidden: Sequence[ExpandedMessage],
    substitutes: Sequence[Substitute],
    facts: Sequence[FactStatus],
) -> dict[str, object]:
    return {
        "session": session,
        "block": block.id,
        "rung": block.rung,
        "reason": block.reason,
        "tokens_before": block.tokens_before,
        "tokens_after": block.tokens_after,
        "unshown": block.unshown_facts,
        "unconfirmed": count_unconfirmed(block.replacements),
        "hidden": [{"position": h.position, "entry": h.entry, **_encode_message(h.message)} for h in hidden],
        "batches": [f"{block.id}/{n}" for n in range(len(block.batches))],
        "now": [{"of": s.original_position, **_encode_message(s.message)} for s in substitutes],
        "facts": facts,
    }


def _encode_message(message: Message) -> dict[str, str]:
    return {"role": message.role, "text": sanitize(get_text(message))}
