"""Shows what Tenfold does, on the recorded sessions that ship with it: compact, inspect, search, expand, undo.

At the end a scripted agent runs through the gateway, on this machine alone.

It uses a temporary store and leaves nothing behind. It shows the library's own figures and does not measure quality.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tenfold.apps.cli.compact_report import SessionOutcome
from tenfold.apps.cli.console import get_width, print_table, show
from tenfold.apps.cli.process import relax_stream_errors
from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.block import Block
from tenfold.core.record.fact import MUST_KEEP
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import TenfoldError
from tenfold.formats import read_file
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tenfold.store.location import open_store

from gateway_demo import show_gateway  # isort: skip - beside this script

SESSIONS = Path(__file__).parent / "sessions"
SHARE = 10


class DemoSession(Struct, frozen=True):
    """One session of the demo, with its view before and the result of its compaction."""

    session: Session
    before: list[Message]
    result: SessionOutcome


def main() -> int:
    """Runs the demo. Returns 0 if all its claims held, else 1."""
    relax_stream_errors()
    files = sorted(SESSIONS.glob("*.json*"))
    with TemporaryDirectory(prefix="tenfold-demo-") as folder:
        store = open_store(Path(folder) / "demo.db")
        try:
            show(f"{len(files)} recorded sessions, each taken to {SHARE} % of its tokens: no model, no key")
            show()
            done = [_compact_session(store, path) for path in files]
            _show_figures(done)
            _show_summary(done[0])
            held = [_check_search(one) for one in done] + [_check_undo(one) for one in done]
            held.append(show_gateway(store))
        finally:
            store.close()
    show()
    if not all(held):
        show("something that was promised above did not hold", style="red")
        return 1
    show("everything above happened in a temporary store, which is gone again; `tenfold --help` shows the command")
    return 0


def _compact_session(store: Store, path: Path) -> DemoSession:
    recorded = read_file(path)
    counter = choose_counter(recorded[0].info.model or None).counter
    (id_,) = import_sessions(recorded, store, DEFAULT_NAMESPACE, counter)
    session = Session(SessionAddress(store, id_), get_preset("tenfold")(counter), model=recorded[0].info.model)
    before = session.view.get_messages()
    outcome = session.compact(to=session.conversation.count_uncompacted() * SHARE // 100)
    return DemoSession(session, before, SessionOutcome(path.name, id_, recorded[0].info.format, counter.name, outcome))


def _show_figures(sessions: list[DemoSession]) -> None:
    rows = []
    for one in sessions:
        out = one.result.outcome
        must = [pair for kind, pair in out.facts.items() if kind in MUST_KEEP]
        rows.append(
            (
                one.result.file,
                f"{out.tokens_before:,}",
                f"{out.tokens_after:,}",
                f"{out.tokens_after / out.tokens_before:.1%}",
                f"{out.messages_before} -> {out.messages_after}",
                f"{sum(kept for kept, _ in must)} of {sum(total for _, total in must)}",
            )
        )
    right = ("tokens", "after", "share", "messages", "must keep")
    print_table(("session", *right), rows, right=right)
    show("must keep: the user's rules and corrections, the request, changed files, open errors, the to-do list;")
    show("they are carried by code. What is not in view is one search away, as below.")


def _show_summary(demo: DemoSession) -> None:
    texts = [get_text(m) for m in demo.session.view.get_messages()]
    summary = max((t for t in texts if find_summary_mark(t)), key=len, default="")
    lines = [line for line in sanitize(summary).splitlines() if line.strip()]
    show()
    show(f"What the model now reads in place of the hidden part of {demo.result.file} begins:", style="bold")
    for line in [*lines[1:11], "..."]:
        show("  | " + to_one_line(line, get_width() - 6))


def _check_search(demo: DemoSession) -> bool:
    """Searches for a word that only a hidden tool result holds, and reads that result back."""
    session = demo.session
    view = session.view.get_messages()
    inside = {id(m) for m in view}
    hidden = [m for m in demo.before if id(m) not in inside and m.role == "tool"]
    word, lost = _find_detail(hidden, " ".join(get_text(m) for m in view))
    hits = session.search(word, limit=20)
    read = [line.message for hit in hits for line in session.expand(hit.entry)]
    same = any(m.native == lost.native and get_text(m) == get_text(lost) for m in read)
    block = session.view.path.get_entry(session.view.state.live_blocks[-1])
    assert isinstance(block, Block)
    behind = [line.message.native for line in session.expand(block.id, deep=True)]
    complete = all(m.native in behind for m in hidden)
    show()
    show(f"{demo.result.file}: `{word}` is in view no more; search finds it:", style="bold")
    if hits:
        lines = hits[0].snippet.splitlines()
        line = next((line.strip() for line in lines if word in line), hits[0].snippet)
        show(f"  {to_one_line(line[max(0, line.find(word) - get_width() // 2) :], get_width() - 4)}")
    show(
        f"  expand gives the {len(get_text(lost)):,} characters around it, byte for byte the "
        f"original: {_format_answer(same)}"
    )
    show(f"  all {len(hidden)} hidden tool results stand behind the Block, byte for byte: {_format_answer(complete)}")
    return same and complete


def _find_detail(hidden: list[Message], view: str) -> tuple[str, Message]:
    """Finds a word of a hidden message that neither the view nor another hidden message holds."""
    texts = [get_text(m) for m in hidden]
    for at in sorted(range(len(texts)), key=lambda at: -len(texts[at])):
        others = view + "\n".join(texts[:at] + texts[at + 1 :])
        words = {w for w in re.findall(r"[A-Za-z_]{6,20}", texts[at]) if w not in others}
        if words:
            return max(sorted(words), key=len), hidden[at]
    message = max(hidden, key=lambda m: len(get_text(m)))
    return " ".join(get_text(message).split()[:6]), message


def _check_undo(demo: DemoSession) -> bool:
    demo.session.undo()
    again = demo.session.view.get_messages()
    same = again == demo.before
    tokens = demo.session.take_reading().estimate
    show(
        f"undo {demo.result.file}: {len(again)} messages, {tokens:,} tokens, the view it was before: "
        f"{_format_answer(same)}"
    )
    return same


def _format_answer(is_true: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    return "yes" if is_true else "NO"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TenfoldError as exc:
        sys.exit(f"demo: {exc}")
