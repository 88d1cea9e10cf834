"""Shows what Tenfold does, on the recorded sessions that ship with it: compact, inspect, search, expand, undo.

It uses a temporary store and leaves nothing behind. It shows the library's own figures and does not measure quality.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tenfold.cli.report import Result
from tenfold.cli.screen import forgiving_streams, show, table, width
from tenfold.errors import TenfoldError
from tenfold.log.base import DEFAULT_NAMESPACE, Store
from tenfold.log.place import open_store
from tenfold.meter.counters import counter_for
from tenfold.policies import policy_named
from tenfold.record.block import MUST_KEEP, Block
from tenfold.record.message import Message, text_of
from tenfold.session import Place, Session
from tenfold.shown import one_line, told
from tenfold.transcripts import read_file
from tenfold.transcripts.load import load
from tenfold.wire.marks import summary_mark

SESSIONS = Path(__file__).parent / "sessions"
SHARE = 10


class Shown(Struct, frozen=True):
    """One session of the demo, with its view before and the result of its compaction."""

    session: Session
    before: list[Message]
    result: Result


def main() -> int:
    """Runs the demo. Returns 0 if all its claims held, else 1."""
    forgiving_streams()
    files = sorted(SESSIONS.glob("*.json*"))
    with TemporaryDirectory(prefix="tenfold-demo-") as folder:
        store = open_store(Path(folder) / "demo.db")
        try:
            show(f"{len(files)} recorded sessions, each taken to {SHARE} % of its tokens: no model, no key, no server")
            show()
            done = [_compacted(store, path) for path in files]
            _figures(done)
            _summary(done[0])
            held = [_found_again(one) for one in done] + [_undone(one) for one in done]
        finally:
            store.close()
    show()
    if not all(held):
        show("something that was promised above did not hold", style="red")
        return 1
    show("everything above happened in a temporary store, which is gone again; `tenfold --help` shows the command")
    return 0


def _compacted(store: Store, path: Path) -> Shown:
    recorded = read_file(path)
    counter = counter_for(recorded[0].info.model or None).counter
    (id_,) = load(recorded, store, DEFAULT_NAMESPACE, counter)
    session = Session(Place(store, id_), policy_named("tenfold")(counter), model=recorded[0].info.model)
    before = session.view.messages()
    outcome = session.compact(to=session.uncompacted() * SHARE // 100)
    return Shown(session, before, Result(path.name, id_, recorded[0].info.format, counter.name, outcome))


def _figures(done: list[Shown]) -> None:
    rows = []
    for one in done:
        out = one.result.outcome
        must = [pair for kind, pair in out.facts.items() if kind in MUST_KEEP]
        rest = [pair for kind, pair in out.facts.items() if kind not in MUST_KEEP]
        rows.append(
            (
                one.result.file,
                f"{out.tokens_before:,}",
                f"{out.tokens_after:,}",
                f"{out.tokens_after / out.tokens_before:.1%}",
                f"{out.messages_before} -> {out.messages_after}",
                _of(must),
                _of(rest),
            )
        )
    right = ("tokens", "after", "share", "messages", "must keep", "other facts")
    table(("session", *right), rows, right=right)
    show("must keep: the user's rules and corrections, the request, changed files, open errors, the to-do list;")
    show("they are carried by code. What is not in view is one search away, as below.")


def _of(pairs: list[tuple[int, int]]) -> str:
    return f"{sum(kept for kept, _ in pairs)} of {sum(total for _, total in pairs)}"


def _summary(one: Shown) -> None:
    texts = [text_of(m) for m in one.session.view.messages()]
    summary = max((t for t in texts if summary_mark(t)), key=len, default="")
    lines = [line for line in told(summary).splitlines() if line.strip()]
    show()
    show(f"What the model now reads in place of the hidden part of {one.result.file} begins:", style="bold")
    for line in [*lines[1:11], "..."]:
        show("  | " + one_line(line, width() - 6))


def _found_again(one: Shown) -> bool:
    """Searches for a word that only a hidden tool result holds, and reads that result back."""
    session = one.session
    view = session.view.messages()
    inside = {id(m) for m in view}
    hidden = [m for m in one.before if id(m) not in inside and m.role == "tool"]
    word, lost = _detail(hidden, " ".join(text_of(m) for m in view))
    hits = session.search(word, limit=20)
    read = [line.message for hit in hits for line in session.expand(hit.entry)]
    same = any(m.native == lost.native and text_of(m) == text_of(lost) for m in read)
    block = session.view.path.at(session.view.marks.live[-1])
    assert isinstance(block, Block)
    behind = [line.message.native for line in session.expand(block.id, deep=True)]
    complete = all(m.native in behind for m in hidden)
    show()
    show(f"{one.result.file}: `{word}` is in view no more; search finds it:", style="bold")
    if hits:
        show(f"  {one_line(hits[0].snippet, width() - 4)}")
    show(f"  expand gives the {len(text_of(lost)):,} characters around it, byte for byte the original: {_yes(same)}")
    show(f"  all {len(hidden)} hidden tool results stand behind the Block, byte for byte: {_yes(complete)}")
    return same and complete


def _detail(hidden: list[Message], view: str) -> tuple[str, Message]:
    """Finds a word of a hidden message that neither the view nor another hidden message holds."""
    texts = [text_of(m) for m in hidden]
    for at in sorted(range(len(texts)), key=lambda at: -len(texts[at])):
        others = view + "\n".join(texts[:at] + texts[at + 1 :])
        words = {w for w in re.findall(r"[A-Za-z_]{6,20}", texts[at]) if w not in others}
        if words:
            return max(sorted(words), key=len), hidden[at]
    message = max(hidden, key=lambda m: len(text_of(m)))
    return " ".join(text_of(message).split()[:6]), message


def _undone(one: Shown) -> bool:
    one.session.undo()
    again = one.session.view.messages()
    same = again == one.before
    tokens = one.session.reading().estimate
    show(f"undo {one.result.file}: {len(again)} messages, {tokens:,} tokens, the view it was before: {_yes(same)}")
    return same


def _yes(held: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    return "yes" if held else "NO"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TenfoldError as exc:
        sys.exit(f"demo: {exc}")
