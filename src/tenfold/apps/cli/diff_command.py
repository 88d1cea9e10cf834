"""`tenfold diff`: what the newest Block hid, what is shown in its place, and which facts are in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tenfold.apps.cli.compact_report import describe_rung
from tenfold.apps.cli.console import format_id, get_width, is_terminal, print_json, print_table, show
from tenfold.apps.cli.show_command import get_live_blocks, render_block_sizes
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    SessionArgument,
    StoreOption,
    open_cli_store,
    open_session,
)
from tenfold.compaction.facts.parse import parse_facts
from tenfold.core.record.block import MUST_KEEP, Block, Substitute
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import UsageError
from tenfold.recall.expand import ExpandedMessage, excerpt_message
from tenfold.store.lookup import LAST, find_session

_TERMINAL_LIMIT = 30
_STATES = ("not in view", "in view", "settled")


class FactStatus(msgspec.Struct, frozen=True):
    """One fact of a Block: whether it must be kept, and whether it is in view."""

    kind: str
    text: str
    must_keep: bool
    state: str


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("diff", epilog="Example: tenfold diff last")(diff)


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
        row = find_session(place, session, namespace=namespace)
        opened_session = open_session(place, row, namespace=namespace)
        blocks = get_live_blocks(opened_session)
        if not blocks:
            raise UsageError(f"session {row.info.id} has no compaction in force to compare; `tenfold show` prints it")
        block = blocks[-1]
        hidden, kept_count = _find_hidden(opened_session.view.path, opened_session.view.state.live_blocks[-1])
        substitutes = [s for r in block.replacements for s in r.shown_items if isinstance(s, Substitute)]
        facts = list_facts(block, opened_session.view)
        sizes = render_block_sizes(block)
    if json:
        print_json(_encode_diff(row.info.id, block, hidden, substitutes, facts))
        return
    max_lines = limit or (_TERMINAL_LIMIT if is_terminal() else len(hidden) + len(facts) + 1)
    show(
        f"block {format_id(block.id)}: {sizes}, {kept_count:,} "
        f"{'message stays as it was' if kept_count == 1 else 'messages stay as they were'}, {len(hidden):,} hidden or "
        f"shortened, {describe_rung(block.rung)}",
        style="bold",
    )
    if block.batches:
        names = f"{block.id}/0" + (f" to {block.id}/{len(block.batches) - 1}" if len(block.batches) > 1 else "")
        show(f"  batches: {names}; `tenfold expand` prints what one stands for")
    _print_removed(hidden, max_lines)
    _print_added(substitutes, max_lines)
    _print_facts(facts, max_lines)


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


def list_facts(block: Block, view: View) -> list[FactStatus]:
    """Lists a Block's facts, must-keep ones first, each with its state in the view. Names in use are left out."""
    texts = [
        f"{get_text(m)} {' '.join(c.name + ' ' + c.arguments for c in get_tool_calls(m))}" for m in view.get_messages()
    ]
    view_text = "\n".join(texts)
    parsed = [fact for text in texts for fact in parse_facts(extract_summary_text(text) or "")]
    keys, fact_texts = {(f.kind, f.key) for f in parsed}, {(f.kind, f.text) for f in parsed}
    out = []
    for fact in (fact for fact in block.facts if fact.kind != "name"):
        text = sanitize(fact.text)
        state = "not in view" if fact.live else "settled"
        if (fact.kind, fact.key) in keys or (fact.kind, text) in fact_texts or fact.text in view_text:
            state = "in view"
        out.append(FactStatus(fact.kind, text, fact.live and fact.kind in MUST_KEEP, state))
    return sorted(out, key=lambda f: (not f.must_keep, _STATES.index(f.state), f.kind))


def _print_removed(hidden: Sequence[ExpandedMessage], max_lines: int) -> None:
    columns = get_width() - 20
    half = max_lines if len(hidden) <= max_lines else max_lines // 2
    left_out = max(0, len(hidden) - 2 * half)
    for number, line in enumerate(hidden):
        if number == half and left_out:
            show(f"  ... {left_out:,} more; --limit {len(hidden)} lists them, `tenfold expand` prints them")
        if not half <= number < half + left_out:
            text = to_one_line(excerpt_message(line.message), columns)
            show(f"- {line.position:>6} {line.message.role:<9} {text}", style="red")


def _print_added(substitutes: Sequence[Substitute], max_lines: int) -> None:
    stubs = [s for s in substitutes if "\n" not in get_text(s.message).strip()]
    for substitute in stubs[:max_lines]:
        show(f"+ {to_one_line(get_text(substitute.message), get_width() - 2)}", style="green")
    if len(stubs) > max_lines:
        show(f"  ... {len(stubs) - max_lines:,} more lines like these; --limit {len(stubs)} prints them")
    for substitute in substitutes:
        if substitute not in stubs:
            for text in sanitize(get_text(substitute.message)).splitlines():
                show(f"+ {text}", style="green")


def _print_facts(facts: Sequence[FactStatus], max_lines: int) -> None:
    must_keep, others = ([f.state == "in view" for f in facts if f.must_keep is must] for must in (True, False))
    counts = f"{sum(must_keep)} of {len(must_keep)}; others: {sum(others)} of {len(others)}"
    show(f"must-keep facts in view: {counts}", style="bold")
    rows = [
        (f.kind.replace("_", " "), "must keep" if f.must_keep else "", f.state, to_one_line(f.text, 300))
        for f in facts[:max_lines]
    ]
    if rows:
        print_table(("fact", "", "state", "text"), rows, fit="text")
    if len(facts) > max_lines:
        show(f"... {len(facts) - max_lines:,} more facts; --limit {len(facts)} lists all, `tenfold search` finds them")


def _encode_diff(
    session: str,
    block: Block,
    hidden: Sequence[ExpandedMessage],
    substitutes: Sequence[Substitute],
    facts: Sequence[FactStatus],
) -> bytes:
    record = {
        "session": session,
        "block": block.id,
        "rung": block.rung,
        "reason": block.reason,
        "tokens_before": block.tokens_before,
        "tokens_after": block.tokens_after,
        "unshown": block.unshown_facts,
        "hidden": [{"position": h.position, "entry": h.entry, **_encode_message(h.message)} for h in hidden],
        "batches": [f"{block.id}/{n}" for n in range(len(block.batches))],
        "now": [{"of": s.original_position, **_encode_message(s.message)} for s in substitutes],
        "facts": facts,
    }
    return msgspec.json.encode(record)


def _encode_message(message: Message) -> dict[str, str]:
    return {"role": message.role, "text": sanitize(get_text(message))}
