"""Measures what a turn, an opening and a large compaction cost, each beside a named baseline from the same run."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from tenfold.compaction.engine.compact import find_skip_reason, take_reading
from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter, measure_messages
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.formats import read_file
from tenfold.session import Session, SessionAddress
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tenfold_yardstick.memory_use import get_peak_memory
from tenfold_yardstick.speed import UNREACHED_WINDOW

SEED = 7
BASELINE_RUNS = 5
"""How often a baseline is timed, after one run that warms it up. The quickest counts, which favours the baseline."""
_BASELINES = """
Each baseline ran once before it was timed, over all messages of the history; of five runs the quickest counts. Nothing
has to be compacted, so all of them end with the same messages. "Recount all" is the same work without a memory: the
same counter, the same total. "Reread JSONL" only parses, and counts nothing. "trim_messages" takes 4 characters for a
token, in place of o200k.
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sessions"


@cache
def read_corpus() -> str:
    """Returns the text of the project's own recorded sessions: prose, code, commands and their output."""
    found = (e for path in sorted(EXAMPLES.glob("*.json*")) for recorded in read_file(path) for e in recorded.entries)
    return "\n".join(get_text(m) for e in found if (m := get_message(e)) is not None)


def build_message(rng: random.Random, index: int, size: int = 1_000) -> Message:
    """Builds a message of `size` characters from a random place in the recorded sessions."""
    start = rng.randrange(len(read_corpus()) - size)
    text = f"{index} {read_corpus()[start : start + size]}"[:size]
    return Message("assistant", (Text(text),), "model") if index % 2 else Message("user", (Text(text),), "human")


def create_session(store: Store) -> Session:
    """Creates an empty session with the default policy and the BPE counter."""
    return Session.create(SessionAddress(store, "bench"), get_preset("tenfold")(choose_counter(None).counter))


def time_turns(session: Session, rng: random.Random, count: int) -> list[float]:
    """Returns the seconds of `count` turns: append one 1 KB message and count its tokens, read the meter, decide."""
    took: list[float] = []
    for index in range(count):
        each = build_message(rng, index)
        start = time.perf_counter()
        session.append(each)
        call = session.compactor.build_call(window=UNREACHED_WINDOW)
        reading = take_reading(session.view, session.policy, call, session.conversation.get_measures())
        limits = session.policy.get_limits(reading.window or 1, floor=reading.floor)
        calm = find_skip_reason(reading, limits, session.policy, call)
        took.append(time.perf_counter() - start)
        assert calm
    return sorted(took)


def print_turns() -> None:
    """Prints append + count + Reading + Decision at three lengths of history, in memory and in SQLite."""
    print("append + token count + Reading + Decision, 1 KB message (microseconds)\n")
    print(
        f"{'store':8} {'history':>8} {'median':>8} {'p99':>9} {'recount all / this':>19} {'reread JSONL / this':>20} "
        f"{'LangChain trim_messages / this':>31}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("memory", "sqlite"):
            medians: dict[int, float] = {}
            for history in (1_000, 10_000, 100_000):
                rng = random.Random(SEED)
                made = create_session(
                    SqliteStore(":memory:") if name == "memory" else SqliteStore(Path(folder) / f"{history}.db")
                )
                batch = [build_message(rng, i) for i in range(history)]
                for start in range(0, history, 5_000):
                    made.append(*batch[start : start + 5_000])
                baselines = (_time_recount(batch, made), _time_reread(batch), _time_trim(batch))
                took = time_turns(made, rng, min(2_000, max(200, history // 10)))
                medians[history] = statistics.median(took)
                recount, reread, trim = (seconds / medians[history] for seconds in baselines)
                print(
                    f"{name:8} {history:>8,} {medians[history] * 1e6:>8.0f} {took[int(len(took) * 0.99)] * 1e6:>9.0f} "
                    f"{recount:>18,.0f}x {reread:>19,.0f}x {trim:>30,.0f}x"
                )
            print(f"{name}: 100,000 against 1,000: {medians[100_000] / medians[1_000]:.2f} x\n")
    print(_BASELINES.lstrip())


def time_warm(work: Callable[[], object]) -> float:
    """Returns the seconds of a piece of work that was done once before: of several runs the quickest."""
    work()
    took: list[float] = []
    for _ in range(BASELINE_RUNS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def _time_recount(batch: list[Message], session: Session) -> float:
    """Times counting all of the history again with the session's own counter, which gives the session's own count."""
    assert sum(measure_messages(batch, session.policy.counter)) == session.conversation.count_uncompacted()
    return time_warm(lambda: measure_messages(batch, session.policy.counter))


def _time_reread(batch: list[Message]) -> float:
    """Times reading all of the history from lines of JSON, without counting."""
    lines = [json.dumps({"role": m.role, "content": get_text(m)}) for m in batch]
    return time_warm(lambda: [json.loads(line) for line in lines])


def _time_trim(batch: list[Message]) -> float:
    """Times LangChain's `trim_messages` on all of the history, in a window that it fits: it keeps every message."""
    theirs = [AIMessage(get_text(m)) if m.role == "assistant" else HumanMessage(get_text(m)) for m in batch]

    def trim() -> list[BaseMessage]:
        return trim_messages(
            theirs, max_tokens=UNREACHED_WINDOW, token_counter=count_tokens_approximately, strategy="last"
        )

    assert len(trim()) == len(theirs)
    return time_warm(trim)


def print_openings() -> None:
    """Prints the opening of a stored session with a short view, at three lengths, after an undo, and on a branch."""
    print("opening a stored session, view of at most 300 entries (milliseconds)\n")
    print(
        f"{'history':>8} {'in view':>8} {'plain':>8} {'after undo':>11} {'deep branch':>12} "
        f"{'reread JSONL / plain':>21}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for history in (1_000, 10_000, 100_000):
            rng = random.Random(SEED)
            store = SqliteStore(Path(folder) / f"{history}.db")
            made = create_session(store)
            batch = [build_message(rng, i) for i in range(history)]
            step = max(250, history // 40)
            for start in range(0, history, step):
                made.append(*batch[start : start + step])
                made.compact(to=80_000)
            plain = _time_opening(made)
            shown = sum(1 for _ in made.view.get_visible_messages())
            made.append(*(build_message(rng, i) for i in range(60)))
            made.compact(to=60_000)
            made.undo()
            undone = _time_opening(made)
            branch = _time_branch(made, rng)
            reread = _time_reread(batch)
            print(
                f"{history:>8,} {shown:>8} {plain * 1e3:>8.2f} {undone * 1e3:>11.2f} {branch * 1e3:>12.2f} "
                f"{reread / plain:>20,.0f}x"
            )
    print()


def _time_branch(session: Session, rng: random.Random) -> float:
    for _ in range(5):
        kept = [s.message for s in session.view.get_visible_messages()][:-1]
        session.sync([*kept, build_message(rng, 0), build_message(rng, 1)])
    return _time_opening(session)


def _time_opening(session: Session) -> float:
    took: list[float] = []
    for _ in range(21):
        start = time.perf_counter()
        again = Session(session.address, session.policy)
        again.view.get_messages()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def print_million(tokens: int = 1_000_000) -> None:
    """Prints import, facts, compaction, store and index of a session of a million tokens, in a process of its own."""
    print(f"a session of {tokens:,} tokens: import, compact to a tenth, store in SQLite, index for search\n")
    run = subprocess.run(
        [sys.executable, "-m", "yardstick.bench.speed", "--million", str(tokens)],
        capture_output=True,
        text=True,
        check=True,
    )
    print(run.stdout)


def _measure_million(tokens: int) -> None:
    rng = random.Random(SEED)
    counter = choose_counter(None).counter
    batch = [*_build_steps(rng)]
    total = sum(measure_messages(batch, counter))
    batch = batch * (tokens // total + 1)
    grown = list(zip(batch, measure_messages(batch, counter), strict=True))
    chosen: list[Message] = []
    have = 0
    for each, size in grown:
        if have >= tokens:
            break
        chosen.append(each)
        have += size
    del batch, grown
    before = get_peak_memory()
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "m.db")
        made = create_session(store)
        marks = [("start", time.perf_counter())]

        def mark(name: str) -> None:
            marks.append((name, time.perf_counter()))

        made.append(*chosen)
        mark("append and count")
        outcome = made.compact(to=have // 10)
        mark("facts and compaction")
        found = made.search("module_7.py Let me look")
        mark("index and search")
        spent = {name: t - marks[i][1] for i, (name, t) in enumerate(marks[1:])}
    whole = sum(spent.values())
    most = get_peak_memory()
    start = time.perf_counter()
    measure_messages(chosen, counter)
    baseline = time.perf_counter() - start
    print(
        f"{len(chosen):,} messages, {have:,} tokens -> {outcome.tokens_after:,} ({outcome.status}); "
        f"{len(found)} found\n"
        + "  ".join(f"{name} {seconds:.2f} s" for name, seconds in spent.items())
        + f"\nin all {whole:.2f} s = {whole / baseline:.1f} x counting the session once; peak memory {most} MB "
        f"(of which {before} MB before the work, the input included)"
    )


def _build_steps(rng: random.Random) -> list[Message]:
    out: list[Message] = []
    for index in range(120):
        if index % 12 == 0:
            out.append(build_message(rng, 0, 400))
        path = f"src/shop/module_{rng.randrange(40)}.py"
        out.append(
            Message(
                "assistant",
                (Text(f"Let me look at {path}."), ToolCall(f"c{index}", "read", json.dumps({"path": path}))),
                "model",
            )
        )
        start = rng.randrange(len(read_corpus()) - 8_000)
        body = read_corpus()[start : start + rng.randrange(200, 8_000)]
        out.append(Message("tool", (ToolResult(f"c{index}", "read", (Text(body),)),), "tool"))
    return out


def main() -> None:
    """Prints the tables."""
    if sys.argv[1:2] == ["--million"]:
        _measure_million(int(sys.argv[2]))
        return
    print_turns()
    print_openings()
    print_million()


if __name__ == "__main__":
    main()
