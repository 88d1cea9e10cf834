"""Every recorded session taken to a tenth of its tokens (or 2,000), and what the result is worth.

Checked for each: the target, every wire's rules, originals and undo byte for byte, and, where a person has marked
what must survive (tests/gold), how much of it stands in the view.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import counter_for
from tenfold.policies import policy_named
from tenfold.record.ask import Outcome
from tenfold.record.message import Message, calls_of, text_of
from tenfold.session import Place, Session
from tenfold.transcripts import read_file, write_file
from tenfold.transcripts.export import originals
from tenfold.transcripts.load import load
from tenfold.wire import WIRES
from tests.gold import score
from tests.sessions import name_of, session_files

LEAST_TARGET = 2_000


class Result(msgspec.Struct, frozen=True):
    """What came of one session. `undone` and `originals` say whether the bytes are equal again."""

    file: str
    outcome: Outcome
    violations: int
    undone: bool
    originals: bool
    view: str


def words(messages: Sequence[Message]) -> str:
    """What a reader of these messages would see: text, tool output, and the calls with their arguments."""
    return "\n".join("\n".join((text_of(m), *(f"{c.name} {c.arguments}" for c in calls_of(m)))) for m in messages)


def _encoded(session: Session) -> list[bytes]:
    return [b"".join(i.raw for i in wire.encode(session.view.messages()).items) for wire in WIRES.values()]


def compacted(path: Path) -> list[Result]:
    """Compacts every session of a file and checks what must hold."""
    recorded = read_file(path)
    counter = counter_for(None).counter
    store = MemoryStore()
    ids = load(recorded, store, "bench", counter)
    data = path.read_bytes()
    whole = write_file([(r.info, originals(store, "bench", i)) for r, i in zip(recorded, ids, strict=True)]) == data
    results: list[Result] = []
    for id_ in ids:
        session = Session(Place(store, id_, "bench"), policy_named("tenfold")(counter))
        before = _encoded(session)
        target = max(LEAST_TARGET, session.uncompacted() // 10)
        outcome = session.compact(to=target)
        found = sum(len(session.violations(wire)) for wire in WIRES)
        view = words(session.view.messages())
        if outcome.block:
            session.undo()
        results.append(Result(name_of(path), outcome, found, _encoded(session) == before, whole, view))
    return results


def main() -> None:
    """Prints the tables."""
    started = time.perf_counter()
    results = {path: compacted(path) for path in session_files()}
    print("sessions taken to the larger of 10 % and 2,000 tokens (o200k, over what is in the file)\n")
    print(
        f"{'file':52} {'sessions':>8} {'before':>10} {'after':>9} {'share':>6} "
        f"{'missed':>6} {'invalid':>7} {'undo=':>5} {'orig=':>5}"
    )
    everything = [r for found in results.values() for r in found]
    for path, found in results.items():
        before, after = sum(r.outcome.tokens_before for r in found), sum(r.outcome.tokens_after for r in found)
        print(
            f"{name_of(path)[:52]:52} {len(found):>8} {before:>10,} {after:>9,} {after / max(before, 1):>6.1%} "
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
    _gold(results)


def _gold(results: dict[Path, list[Result]]) -> None:
    print("\ngold facts in the view at 10 % (kept of marked), by kind")
    for name in score.names():
        path = score.source_path(score.gold_file(name))
        if not path.exists():
            print(f"{name:20} (no file {path})")
            continue
        known = next((found for file, found in results.items() if file.samefile(path)), None) or compacted(path)
        scored = score.score(score.gold(name), known[0].view)
        print(f"{name:20} " + "  ".join(f"{kind} {kept}/{total}" for kind, (kept, total) in scored.items()))
        for item in score.gold(name):
            if "-v" in sys.argv and item.kind != "error_resolved" and not score.in_view(item, known[0].view):
                print(f"    missing {item.kind} at {item.entry}: {item.text[:150]!r}")


if __name__ == "__main__":
    main()
