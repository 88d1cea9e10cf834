"""What is measured of Tenfold's speed is a small run of the real thing; no test says how quick it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tenfold.cli.main import run
from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage, conversations, counter
from tenfold.evals.material import Material, decoded
from tenfold.evals.methods import Unable
from tenfold.evals.peers import ROOT, Known, Peer, Worker
from tenfold.evals.resident import Resident, child
from tenfold.evals.speed import (
    SUMMARIES,
    Archived,
    Blocked,
    Opened,
    Packed,
    Speed,
    Turned,
    archive,
    hooked,
    opening,
    packed,
    parts,
    put,
    resident,
    told,
    turns,
    turns_at,
)
from tenfold.evals.speed_tables import against, median_peer, tables
from tenfold.evals.waiting import Run, waits
from tenfold.meter.counters import sizes
from tests.evals.chats import step, user

SESSION = ROOT / "examples" / "sessions" / "tracker.codex.jsonl"
FAKE = Path(__file__).with_name("fake_worker.py")


@pytest.fixture(scope="module")
def material() -> Material:
    return Material(conversations(SESSION))


class Hook:
    """A peer that notes what it is given."""

    name = "fake/hook"

    def __init__(self, seconds: Sequence[float] = (0.2, 0.4, 0.3)) -> None:
        self.seconds = list(seconds)
        self.asked: list[tuple[list[ChatMessage], list[list[ChatMessage]]]] = []

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        del limit
        self.asked.append((list(past), [list(s) for s in steps]))
        return self.seconds


class Refusing:
    name = "fake/refusing"

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        del past, steps, limit
        raise Unable("it asks a server")


# -- the material ------------------------------------------------------------------------------------------------------


def test_a_history_is_as_long_as_asked_and_goes_on_step_by_step(material: Material) -> None:
    past, steps = material.history(1_000, turns=7)
    assert 1_000 <= len(past) < 1_100
    assert len(steps) == 7
    assert all(s[0]["role"] == "assistant" for s in steps)
    assert all(m["role"] != "system" for m in past)


def test_every_call_has_an_id_of_its_own_and_one_result(material: Material) -> None:
    past, _ = material.history(1_000)
    called = [c["id"] for m in past for c in m.get("tool_calls") or ()]  # type: ignore[attr-defined]
    assert len(called) == len(set(called)) > 300
    assert called == [m["tool_call_id"] for m in past if m["role"] == "tool"]


def test_material_says_the_sessions_words_in_order(material: Material) -> None:
    (conversation,) = conversations(SESSION)
    own = [m for m in conversation.messages if m["role"] != "system"]
    past, _ = material.history(len(own))
    assert [m.get("content") for m in past[: len(own)]] == [m.get("content") for m in own]


def test_sessions_without_an_answer_cannot_be_repeated() -> None:
    (conversation,) = conversations(SESSION)
    mute = msgspec.structs.replace(conversation, messages=(user("Hello?"),), legal=())
    with pytest.raises(UsageError, match="no session holds an answer"):
        parts([mute])


# -- a turn ------------------------------------------------------------------------------------------------------------


def test_a_turn_is_timed_in_every_way_a_host_can_give_it(material: Material) -> None:
    found = turns(material, 100)
    assert [(t.method, t.way) for t in found if isinstance(t, Turned)] == [
        ("tenfold", "append"),
        ("tenfold, SQLite", "append"),
        ("tenfold", "sync"),
        ("tenfold", "request"),
    ]
    for each in found:
        assert isinstance(each, Turned)
        assert (each.messages, each.turns, each.unable) == (100, turns_at(100), "")
        assert 0 < each.seconds <= each.slowest


def test_more_turns_are_timed_where_a_history_is_long() -> None:
    assert [turns_at(n) for n in (100, 1_000, 4_000, 10_000, 100_000)] == [20, 20, 40, 100, 100]


def test_a_peer_gets_the_past_and_the_steps_after_it(material: Material) -> None:
    hook = Hook()
    (found,) = hooked(hook, material, 100)
    assert found == Turned("fake/hook", "hook", 100, 0.3, 0.4, 3)
    ((past, steps),) = hook.asked
    assert (past, steps) == material.history(100, turns=turns_at(100) + 1)


def test_a_peer_that_cannot_is_listed_with_its_reason(material: Material) -> None:
    assert hooked(Refusing(), material, 100) == [Turned("fake/refusing", "hook", 100, unable="it asks a server")]


def test_a_peers_worker_is_asked_for_turns_and_gives_its_seconds() -> None:
    worker = Worker([sys.executable, str(FAKE), "turns"], patience=30.0)
    peer = Peer(Known("fake", "method"), worker)
    took = peer.turns([user("a")], [step("read", {}, "b", id_="1"), step("read", {}, "c", id_="2")], limit=4.0)
    worker.close()
    assert took == [1.0, 2.0, 2.0, 4.0], "messages, turns, messages of the last turn, limit"


def test_a_worker_that_refuses_turns_says_why() -> None:
    worker = Worker([sys.executable, str(FAKE), "refuses"], patience=30.0)
    with pytest.raises(Unable, match="method asks a server"):
        Peer(Known("fake", "method"), worker).turns([user("a")], [[user("b")]], limit=1.0)
    worker.close()


# -- the other measures ------------------------------------------------------------------------------------------------


def test_a_compaction_brings_a_history_to_a_tenth(material: Material) -> None:
    (found,) = packed(material, 400)
    assert isinstance(found, Packed)
    assert found.before == sum(sizes(decoded(material.history(400)[0]), counter()))
    assert 0 < found.after <= found.before // 10
    assert found.seconds > 0


def test_an_opening_reads_the_short_view_of_a_long_history(material: Material) -> None:
    (found,) = opening(material, 2_000)
    assert isinstance(found, Opened)
    assert 0 < found.shown < 2_000
    assert found.seconds > 0


def test_an_archive_holds_finds_and_weighs_its_entries(material: Material) -> None:
    small, large = (archive(material, n)[0] for n in (100, 600))
    assert isinstance(small, Archived)
    assert isinstance(large, Archived)
    assert (small.entries, large.entries) == (100, 600)
    assert large.bytes > small.bytes > 100 * 500
    assert all(x > 0 for x in (large.write, large.index, large.search))
    assert large.slowest >= large.search


def test_memory_is_that_of_a_fresh_process(material: Material) -> None:
    held, opened = resident(material, 300)
    assert isinstance(held, Resident)
    assert isinstance(opened, Resident)
    assert [(r.what, r.messages, r.unable) for r in (held, opened)] == [("held", 300, ""), ("opened", 300, "")]
    assert 5 < held.before < held.megabytes
    assert opened.megabytes >= opened.before


def test_a_process_that_fails_is_no_figure(tmp_path: Path) -> None:
    found = child("held", 1, str(tmp_path / "none.jsonl"))
    assert (found.megabytes, "none.jsonl" in found.unable) == (0, True)


# -- what calls wait ---------------------------------------------------------------------------------------------------

SHORT = Run(steps=30, window=8_000, call=0.02, summary=0.05, result=3_000)


@pytest.mark.parametrize("summary", SUMMARIES)
def test_an_agents_calls_are_compacted_for_while_they_wait_or_before(material: Material, summary: str) -> None:
    writes, background = SUMMARIES[summary]
    waited = waits(material.text(), SHORT, writes=writes, background=background)
    assert len(waited) == SHORT.steps + 1
    assert sum(compacted for _, compacted in waited) >= 2
    if writes and not background:
        assert max(seconds for seconds, compacted in waited if compacted) >= SHORT.summary


def test_waits_are_told_apart_by_whether_a_compaction_fell_due() -> None:
    found = told("by code alone", [(0.001, False), (0.003, False), (0.002, False), (0.2, True), (0.5, True)])
    assert found == Blocked("by code alone", 5, 2, 0.35, 0.5, 0.002)
    assert told("by code alone", [(0.1, False)]).unable == "no compaction fell due in this run"


# -- what is drawn -----------------------------------------------------------------------------------------------------


def made() -> Speed:
    return put(
        [
            Turned("tenfold", "append", 10_000, 0.0001, 0.0002, 20),
            Turned("tenfold", "append", 100_000, 0.0001, 0.0002, 20),
            Turned("tenfold", "sync", 10_000, 0.002, 0.004, 20),
            Turned("tenfold", "request", 10_000, 0.05, 0.06, 20),
            Turned("a/fast", "hook", 10_000, 0.000001, 0.000002, 20),
            Turned("b/middle", "hook", 10_000, 0.02, 3.0, 20),
            Turned("c/slow", "hook", 10_000, 2.0, 2.5, 9),
            Turned("d/none", "hook", 10_000, unable="it asks a server"),
            Packed(1_000, 200_000, 20_000, 0.5),
            Blocked("by code alone", 151, 6, 0.02, 0.04, 0.003),
        ]
    )


def test_tenfold_is_held_against_the_median_of_the_peers_that_could() -> None:
    assert median_peer(made()) == 0.02
    ratios = {name: round(ratio, 6) for name, ratio in against(made()).items()}
    assert ratios == {("tenfold", "append"): 200.0, ("tenfold", "sync"): 10.0, ("tenfold", "request"): 0.4}
    assert against(put([Turned("tenfold", "append", 100, 0.1, 0.1, 1)])) == {}


def test_the_tables_hold_every_measure_that_was_taken() -> None:
    turn, packing, waiting = tables(made())
    assert [row[0] for row in turn.rows] == ["a/fast", "tenfold", "tenfold", "b/middle", "tenfold", "c/slow", "d/none"]
    assert turn.rows[1] == ("tenfold", "append", "100 us", "100 us")
    assert turn.rows[-1] == ("d/none", "hook", "-", "-")
    assert "median peer at 10,000: 20 ms" in turn.note
    assert "tenfold (append) 200 x below it" in turn.note
    assert "tenfold (request) 2.5 x above it" in turn.note
    assert "d/none cannot: it asks a server" in turn.note
    assert packing.rows == [("1,000", "200,000", "20,000", "500 ms", "250 ms")]
    assert waiting.rows == [("by code alone", "151", "6", "20 ms", "40 ms", "3 ms")]


def test_the_result_is_the_same_after_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(made()), type=Speed) == made()


def test_the_command_measures_and_prints_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["eval", "speed", str(SESSION), "--lengths", "60", "--no-waits", "--json"]) == 0
    found = msgspec.json.decode(capfdbinary.readouterr().out, type=Speed)
    assert (found.counter, {t.messages for t in found.turns}) == (counter().name, {60})
    assert all((found.packed, found.opened, found.archived, found.resident))
    assert found.blocked == ()


def test_a_peer_that_does_not_exist_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "speed", str(SESSION), "--methods", "langgraph"]) != 0
    assert "no peer 'langgraph'" in capfd.readouterr().err
