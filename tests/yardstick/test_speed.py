"""What is measured of Tenfold's speed is a small run of the real thing; no test says how quick it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tenfold.apps.cli.main import run
from tenfold.core.meter.counters import measure_messages
from tenfold.errors import UsageError
from tenfold.testing.chats import get_counter
from tenfold.testing.methods import UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import read_sessions
from tenfold_yardstick.long_history import LongHistory, decode_messages
from tenfold_yardstick.memory_use import MemoryUse, measure_in_child
from tenfold_yardstick.peers import PEERS, Peer, PeerMethod, Worker
from tenfold_yardstick.speed import (
    SUMMARY_WAYS,
    ArchiveTiming,
    CompactionTiming,
    OpeningTiming,
    Speed,
    TurnTiming,
    WaitTiming,
    build_tasks,
    collect_speed,
    count_turns,
    measure_memory,
    summarize_waits,
    time_archive,
    time_compaction,
    time_opening,
    time_peer,
    time_turns,
)
from tenfold_yardstick.speed_tables import build_tables, compute_peer_median, compute_speedups
from tenfold_yardstick.waits import TimedRun, make_summarizer, measure_waits
from tests.shape.scan import ROOT
from tests.yardstick.chats import make_step, make_user_message
from yardstick.bench.speed import BASELINE_RUNS, time_warm

SESSION = ROOT / "examples" / "sessions" / "tracker.codex.jsonl"
FAKE = Path(__file__).with_name("fake_worker.py")


@pytest.fixture(scope="module")
def material() -> LongHistory:
    return LongHistory(read_sessions(SESSION))


class Hook:
    """A peer that notes what it is given."""

    name = "fake/hook"

    def __init__(self, seconds: Sequence[float] = (0.2, 0.4, 0.3)) -> None:
        self.seconds = list(seconds)
        self.asked: list[tuple[list[ChatMessage], list[list[ChatMessage]]]] = []

    def time_turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        del limit
        self.asked.append((list(past), [list(s) for s in steps]))
        return self.seconds


class Refusing:
    name = "fake/refusing"

    def time_turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        del past, steps, limit
        raise UnableError("it asks a server")


# -- the material ------------------------------------------------------------------------------------------------------


def test_a_history_is_as_long_as_asked_and_goes_on_step_by_step(material: LongHistory) -> None:
    past, steps = material.build_history(1_000, turns=7)
    assert 1_000 <= len(past) < 1_100
    assert len(steps) == 7
    assert all(s[0]["role"] == "assistant" for s in steps)
    assert all(m["role"] != "system" for m in past)


def test_every_call_has_an_id_of_its_own_and_one_result(material: LongHistory) -> None:
    past, _ = material.build_history(1_000)
    called = [c["id"] for m in past for c in m.get("tool_calls") or ()]  # type: ignore[attr-defined]
    assert len(called) == len(set(called)) > 300
    assert called == [m["tool_call_id"] for m in past if m["role"] == "tool"]


def test_material_says_the_sessions_words_in_order(material: LongHistory) -> None:
    (conversation,) = read_sessions(SESSION)
    own = [m for m in conversation.messages if m["role"] != "system"]
    past, _ = material.build_history(len(own))
    assert [m.get("content") for m in past[: len(own)]] == [m.get("content") for m in own]


def test_sessions_without_an_answer_cannot_be_repeated() -> None:
    (conversation,) = read_sessions(SESSION)
    mute = msgspec.structs.replace(conversation, messages=(make_user_message("Hello?"),), legal_cuts=())
    with pytest.raises(UsageError, match="no session holds an answer"):
        build_tasks([mute])


# -- a turn ------------------------------------------------------------------------------------------------------------


def test_a_turn_is_timed_in_every_way_a_host_can_give_it(material: LongHistory) -> None:
    found = time_turns(material, 100)
    assert [(t.method, t.way) for t in found if isinstance(t, TurnTiming)] == [
        ("tenfold", "append"),
        ("tenfold, SQLite", "append"),
        ("tenfold", "sync"),
        ("tenfold", "request"),
    ]
    for each in found:
        assert isinstance(each, TurnTiming)
        assert (each.messages, each.turns, each.unable) == (100, count_turns(100), "")
        assert 0 < each.seconds <= each.slowest


def test_more_turns_are_timed_where_a_history_is_long() -> None:
    assert [count_turns(n) for n in (100, 1_000, 4_000, 10_000, 100_000)] == [20, 20, 40, 100, 100]


def test_a_peer_gets_the_past_and_the_steps_after_it(material: LongHistory) -> None:
    hook = Hook()
    (found,) = time_peer(hook, material, 100)
    assert found == TurnTiming("fake/hook", "hook", 100, 0.3, 0.4, 3)
    ((past, steps),) = hook.asked
    assert (past, steps) == material.build_history(100, turns=count_turns(100) + 1)


def test_a_peer_that_cannot_is_listed_with_its_reason(material: LongHistory) -> None:
    assert time_peer(Refusing(), material, 100) == [TurnTiming("fake/refusing", "hook", 100, unable="it asks a server")]


def test_a_peers_worker_is_asked_for_turns_and_gives_its_seconds() -> None:
    worker = Worker([sys.executable, str(FAKE), "turns"], timeout=500.0)
    peer = Peer(PeerMethod("fake", "method"), worker)
    took = peer.time_turns(
        [make_user_message("a")], [make_step("read", {}, "b", id_="1"), make_step("read", {}, "c", id_="2")], limit=4.0
    )
    worker.close()
    assert took == [1.0, 2.0, 2.0, 4.0], "messages, turns, messages of the last turn, limit"


def test_a_worker_that_refuses_turns_says_why() -> None:
    worker = Worker([sys.executable, str(FAKE), "refuses"], timeout=500.0)
    with pytest.raises(UnableError, match="method asks a server"):
        Peer(PeerMethod("fake", "method"), worker).time_turns(
            [make_user_message("a")], [[make_user_message("b")]], limit=1.0
        )
    worker.close()


# -- the other measures ------------------------------------------------------------------------------------------------


def test_a_compaction_brings_a_history_to_a_tenth(material: LongHistory) -> None:
    (found,) = time_compaction(material, 400)
    assert isinstance(found, CompactionTiming)
    assert found.before == sum(measure_messages(decode_messages(material.build_history(400)[0]), get_counter()))
    assert 0 < found.after <= found.before // 10
    assert found.seconds > 0


def test_an_opening_reads_the_short_view_of_a_long_history(material: LongHistory) -> None:
    (found,) = time_opening(material, 2_000)
    assert isinstance(found, OpeningTiming)
    assert 0 < found.shown < 2_000
    assert found.seconds > 0


def test_an_archive_holds_finds_and_weighs_its_entries(material: LongHistory) -> None:
    small, large = (time_archive(material, n)[0] for n in (100, 600))
    assert isinstance(small, ArchiveTiming)
    assert isinstance(large, ArchiveTiming)
    assert (small.entries, large.entries) == (100, 600)
    assert large.bytes > small.bytes > 100 * 500
    assert all(x > 0 for x in (large.write, large.index, large.search))
    assert large.slowest >= large.search


def test_memory_is_that_of_a_fresh_process(material: LongHistory) -> None:
    held, opened = measure_memory(material, 300)
    assert isinstance(held, MemoryUse)
    assert isinstance(opened, MemoryUse)
    assert [(r.what, r.messages, r.unable) for r in (held, opened)] == [("held", 300, ""), ("opened", 300, "")]
    assert 5 < held.before < held.megabytes
    assert opened.megabytes >= opened.before


def test_a_process_that_fails_is_no_figure(tmp_path: Path) -> None:
    found = measure_in_child("held", 1, str(tmp_path / "none.jsonl"))
    assert (found.megabytes, "none.jsonl" in found.unable) == (0, True)


# -- what calls wait ---------------------------------------------------------------------------------------------------

SHORT = TimedRun(steps=30, window=8_000, call_seconds=0.02, summary_seconds=0.05, result_length=3_000)


@pytest.mark.parametrize("summary", SUMMARY_WAYS)
def test_an_agents_calls_are_compacted_for_while_they_wait_or_before(material: LongHistory, summary: str) -> None:
    writes, background = SUMMARY_WAYS[summary]
    summarizer = make_summarizer(SHORT)
    waited = measure_waits(material.get_text(), SHORT, summarizer if writes else None, is_prepared=background)
    assert len(waited) == SHORT.steps + 1
    assert sum(compacted for _, compacted in waited) >= 2
    assert (len(summarizer.asks) >= 2) == writes


def test_waits_are_told_apart_by_whether_a_compaction_fell_due() -> None:
    found = summarize_waits("by code alone", [(0.001, False), (0.003, False), (0.002, False), (0.2, True), (0.5, True)])
    assert found == WaitTiming("by code alone", 5, 2, 0.35, 0.5, 0.002)
    assert summarize_waits("by code alone", [(0.1, False)]).unable == "no compaction fell due in this run"


# -- what is drawn -----------------------------------------------------------------------------------------------------


def make_speed() -> Speed:
    return collect_speed(
        [
            TurnTiming("tenfold", "append", 10_000, 0.0001, 0.0002, 20),
            TurnTiming("tenfold", "append", 100_000, 0.0001, 0.0002, 20),
            TurnTiming("tenfold", "sync", 10_000, 0.002, 0.004, 20),
            TurnTiming("tenfold", "request", 10_000, 0.05, 0.06, 20),
            TurnTiming("a/fast", "hook", 10_000, 0.000001, 0.000002, 20),
            TurnTiming("b/middle", "hook", 10_000, 0.02, 3.0, 20),
            TurnTiming("c/slow", "hook", 10_000, 2.0, 2.5, 9),
            TurnTiming("d/none", "hook", 10_000, unable="it asks a server"),
            CompactionTiming(1_000, 200_000, 20_000, 0.5),
            WaitTiming("by code alone", 151, 6, 0.02, 0.04, 0.003),
        ]
    )


def test_tenfold_is_held_against_the_median_of_the_peers_that_could() -> None:
    assert compute_peer_median(make_speed()) == 0.02
    ratios = {name: round(ratio, 6) for name, ratio in compute_speedups(make_speed()).items()}
    assert ratios == {("tenfold", "append"): 200.0, ("tenfold", "sync"): 10.0, ("tenfold", "request"): 0.4}
    assert compute_speedups(collect_speed([TurnTiming("tenfold", "append", 100, 0.1, 0.1, 1)])) == {}


def test_the_tables_hold_every_measure_that_was_taken() -> None:
    turn, packing, waiting = build_tables(make_speed())
    assert [row[0] for row in turn.rows] == ["a/fast", "tenfold", "tenfold", "b/middle", "tenfold", "c/slow", "d/none"]
    assert turn.rows[1] == ("tenfold", "append", "what is new", "100 us", "100 us")
    assert turn.rows[-1] == ("d/none", "hook", "what is new", "-", "-")
    assert "Median peer at 10,000: 20 ms" in turn.note
    assert "tenfold (append) 200 x below it" in turn.note
    assert "tenfold (request) 2.5 x above it" in turn.note
    assert "d/none cannot: it asks a server" in turn.note
    assert packing.rows == [("1,000", "200,000", "20,000", "500 ms", "250 ms")]
    assert waiting.rows == [("by code alone", "151", "6", "20 ms", "40 ms", "3 ms")]


def test_the_result_is_the_same_after_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(make_speed()), type=Speed) == make_speed()


def test_the_command_measures_and_prints_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["eval", "speed", str(SESSION), "--lengths", "60", "--no-waits", "--json"]) == 0
    found = msgspec.json.decode(capfdbinary.readouterr().out, type=Speed)
    assert (found.counter, {t.messages for t in found.turns}) == (get_counter().name, {60})
    assert all((found.packed, found.opened, found.archived, found.resident))
    assert found.blocked == ()


def test_a_peer_that_does_not_exist_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "speed", str(SESSION), "--methods", "langgraph"]) != 0
    assert "no peer 'langgraph'" in capfd.readouterr().err


def test_a_baseline_is_run_once_before_it_is_timed() -> None:
    runs: list[int] = []
    assert time_warm(lambda: runs.append(len(runs))) >= 0
    assert len(runs) == BASELINE_RUNS + 1


def test_the_table_says_of_what_each_peer_counts_the_tokens() -> None:
    turns = tuple(TurnTiming(peer.name, "hook", 1_000, 0.01, 0.01, 5) for peer in PEERS)
    (table,) = build_tables(Speed("1", "o200k", turns))
    counted = {row[0]: row[2] for row in table.rows}
    assert counted["langchain/summarization"] == "the whole list"
    assert counted["strands-agents/sliding-window"] == "nothing"
    assert counted["inspect-ai/trim"] == "nothing: takes the reported size"
