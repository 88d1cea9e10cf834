"""Compacts every recorded session to a tenth of its tokens (at least 2,000), and measures what the result is worth.

For each session it checks the target, every wire's rules, and that originals and undo are right byte for byte. Where a
person has marked what must survive (tests/gold), it counts how much of that is in the view.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.wire import WIRES
from tenfold.formats import read_file, render_sessions
from tenfold.formats.export_items import get_original_items
from tenfold.formats.importer import import_sessions
from tenfold.recall.expand import expand
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.gold import score
from tests.sessions import get_short_name, list_session_files

MIN_TARGET = 2_000


class CorpusResult(msgspec.Struct, frozen=True):
    """The result of one session. `undone` and `originals` say whether the bytes are equal again."""

    file: str
    outcome: Outcome
    violations: int
    undone: bool
    originals: bool
    view: str


def join_text(messages: Sequence[Message]) -> str:
    """Returns what a reader of these messages would see: text, tool output, and the calls with their arguments."""
    return "\n".join(
        "\n".join((get_text(m), *(f"{c.name} {c.arguments}" for c in get_tool_calls(m)))) for m in messages
    )


def _encode_view(session: Session) -> list[bytes]:
    return [b"".join(i.raw for i in wire.encode(session.view.get_messages()).items) for wire in WIRES.values()]


def compact_file(path: Path) -> list[CorpusResult]:
    """Compacts every session of a file and checks what must hold."""
    recorded = read_file(path)
    counter = choose_counter(None).counter
    store = SqliteStore(":memory:")
    ids = import_sessions(recorded, store, "bench", counter)
    data = path.read_bytes()
    whole = (
        render_sessions([(r.info, get_original_items(store, "bench", i)) for r, i in zip(recorded, ids, strict=True)])
        == data
    )
    results: list[CorpusResult] = []
    for id_ in ids:
        session = Session(SessionAddress(store, id_, "bench"), get_preset("tenfold")(counter))
        before = _encode_view(session)
        target = max(MIN_TARGET, session.conversation.count_uncompacted() // 10)
        outcome = session.compact(to=target)
        found = sum(len(session.conversation.find_violations(wire)) for wire in WIRES)
        view = join_text(session.view.get_messages())
        if outcome.block:
            session.undo()
        results.append(CorpusResult(get_short_name(path), outcome, found, _encode_view(session) == before, whole, view))
    return results


def main() -> None:
    """Prints the tables."""
    started = time.perf_counter()
    results = {path: compact_file(path) for path in list_session_files()}
    print("sessions taken to the larger of 10 % and 2,000 tokens (o200k, over what is in the file)\n")
    print(
        f"{'file':52} {'sessions':>8} {'before':>10} {'after':>9} {'share':>6} "
        f"{'missed':>6} {'invalid':>7} {'undo=':>5} {'orig=':>5}"
    )
    everything = [r for found in results.values() for r in found]
    for path, found in results.items():
        before, after = sum(r.outcome.tokens_before for r in found), sum(r.outcome.tokens_after for r in found)
        print(
            f"{get_short_name(path)[:52]:52} {len(found):>8} {before:>10,} {after:>9,} {after / max(before, 1):>6.1%} "
            f"{sum(r.outcome.target_missed for r in found):>6} {sum(r.violations > 0 for r in found):>7} "
            f"{sum(r.undone for r in found):>5} {sum(r.originals for r in found):>5}"
        )
    large = [r for r in everything if r.outcome.tokens_before >= 4_000]
    missed = [r for r in large if r.outcome.target_missed]
    print(
        f"\n{len(everything)} sessions, {len(large)} of 4,000 tokens or more; target missed by {len(missed)} of those "
        f"({len(missed) / max(len(large), 1):.1%}; at most 5 %); {time.perf_counter() - started:.1f} s in all"
    )
    for each in missed:
        print(
            f"  {each.file}: {each.outcome.tokens_after:,} for a target of {each.outcome.target:,}: "
            f"{each.outcome.itemised}"
        )
    refused = [r for r in everything if r.outcome.status not in ("compacted", "nothing")]
    for each in refused:
        print(f"  {each.file}: {each.outcome.status}: {each.outcome.reason}")
    _print_search()
    _print_gold(results)


def _print_search() -> None:
    """Searches one SQLite store of every session for random stretches of originals, and reads the hits back."""
    rng = random.Random(11)
    counter = choose_counter(None).counter
    asked = found = exact = 0
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "all.db")
        for path in list_session_files():
            for id_ in import_sessions(read_file(path), store, "bench", counter):
                Session(SessionAddress(store, id_, "bench"), get_preset("tenfold")(counter)).compact(to=MIN_TARGET)
        store.index(limit=1_000_000)
        for row in store.list_sessions("bench"):
            entries = [e for e in store.read_entries("bench", row.info.id) if get_message(e) is not None]
            for entry in rng.sample(entries, min(3, len(entries))):
                text = _get_entry_text(entry)
                lines = [part for part in re.split(r'["\n]', text) if len(part.strip()) > 24]
                if not lines:
                    continue
                line = rng.choice(lines).strip()
                start = rng.randrange(len(line) - 20)
                wanted = line[start : start + 30].strip()
                begun = time.perf_counter()
                hits = store.search("bench", f'"{wanted}"', session=row.info.id, limit=200)
                slowest = max(slowest, time.perf_counter() - begun)
                asked += 1
                own = next((hit for hit in hits if hit.entry == entry.id), None)
                found += own is not None
                back = expand(store, "bench", own.entry) if own is not None else []
                exact += bool(back) and get_text(back[0].message) == text
    print(
        f"\nsearch: {asked} random stretches of originals, all sessions in one store: {found} found, {exact} read back "
        f"exactly; slowest search {slowest * 1e3:.0f} ms"
    )


def _get_entry_text(entry: Entry) -> str:
    message = get_message(entry)
    return get_text(message) if message is not None else ""


def _print_gold(results: dict[Path, list[CorpusResult]]) -> None:
    print("\ngold facts in the view at 10 % (kept of marked), by kind")
    for name in score.list_names():
        path = score.get_source_path(score.read_gold_file(name))
        if not path.exists():
            print(f"{name:20} (no file {path})")
            continue
        known = next((found for file, found in results.items() if file.samefile(path)), None) or compact_file(path)
        scored = score.score(score.read_gold(name), known[0].view)
        print(f"{name:20} " + "  ".join(f"{kind} {kept}/{total}" for kind, (kept, total) in scored.items()))
        for item in score.read_gold(name):
            if "-v" in sys.argv and item.kind != "error_resolved" and not score.is_in_view(item, known[0].view):
                print(f"    missing {item.kind} at {item.entry}: {item.text[:150]!r}")
    print("\nthe extractors' own recall and precision on that gold")
    for name in score.list_names():
        if score.get_source_path(score.read_gold_file(name)).exists():
            print("\n".join(score.format_report(name, score.extract_gold_facts(name))))


if __name__ == "__main__":
    main()
