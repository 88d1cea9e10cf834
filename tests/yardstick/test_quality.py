"""What a compaction keeps, from end to end on the project's own sessions: what holds whatever the methods do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec import Struct

from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import Method, MethodResult, UnableError, keep_last
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case, list_cases
from tenfold_yardstick.methods import get_methods
from tenfold_yardstick.peers import Peer, PeerMethod, Worker
from tenfold_yardstick.quality import (
    MIN_TENTH,
    PreparedCase,
    Scores,
    TargetSize,
    measure_quality,
    measure_real_summary,
    prepare_case,
    score_method,
)
from tenfold_yardstick.scores import Quality
from tests.sessions import ROOT
from tests.yardstick.chats import make_call, make_case, make_long_past, make_reply, make_user_message

SESSIONS = tuple(sorted((ROOT / "examples" / "sessions").glob("*.json*")))


class Made(Struct, frozen=True):
    """A method of a function."""

    name: str
    made: Callable[[Sequence[ChatMessage], int], list[ChatMessage]]

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        messages = self.made(past, budget)
        return MethodResult(tuple(messages), count_total_tokens(messages), 0.0)


@cache
def get_grounds() -> list[PreparedCase]:
    """Two cuts of each of the project's own sessions."""
    found = [prepare_case(each) for each in list_cases(SESSIONS)]
    assert len(found) >= 6
    return found


def compute_scores(method: Method, size: Callable[[PreparedCase], TargetSize]) -> list[tuple[PreparedCase, Scores]]:
    return [(each, score_method(each, method, size(each))) for each in get_grounds()]


def make_tenth_size(each: PreparedCase) -> TargetSize:
    return TargetSize(each.tokens // 10, 1, tenth=True, planted=True)


# -- what holds of any session -----------------------------------------------------------------------------------------


def test_what_keeps_everything_answers_everything() -> None:
    (keep_all,) = get_methods(["keep-all"])
    asked = 0
    for each, (recall, probed) in compute_scores(
        keep_all, lambda each: TargetSize(each.tokens + 1_000, 1, tenth=True, planted=True)
    ):
        assert recall is None or recall.present == recall.needed == len(each.facts)
        assert all(t.present == t.asked and not t.stale for t in probed.tallies)
        assert probed.planted == {"top": (1, 1), "middle": (1, 1), "bottom": (1, 1)}
        assert (probed.false, probed.gates, probed.over) == (0, {}, False)
        asked += sum(t.asked for t in probed.tallies)
    assert asked > 100


def test_what_keeps_nothing_answers_nothing() -> None:
    for each, (recall, probed) in compute_scores(Made("nothing", lambda _past, _budget: []), make_tenth_size):
        assert recall is None or (recall.present, recall.needed) == (0, len(each.facts))
        assert sum(t.asked for t in probed.tallies) == len(each.probes) > 0
        assert not any(t.present or t.stale or t.bare for t in probed.tallies)
        assert probed.planted == {"top": (0, 1), "middle": (0, 1), "bottom": (0, 1)}
        assert (probed.tokens, probed.false) == (0, 0)


def test_what_keeps_the_end_loses_the_beginning() -> None:
    (last,) = get_methods(["keep-last"])
    oldest = 0
    for _, (recall, probed) in compute_scores(last, make_tenth_size):
        have, of = recall.quarters.get("1", (0, 0)) if recall is not None else (0, 0)
        assert have == 0
        oldest += of
        assert probed.planted["top"] == (0, 1)
        assert not probed.gates
    assert oldest > 10, "or nothing was asked of the oldest quarter"


def test_a_larger_budget_keeps_no_less_of_the_end() -> None:
    (last,) = get_methods(["keep-last"])
    small = compute_scores(last, make_tenth_size)
    large = compute_scores(last, lambda each: TargetSize(each.tokens // 2, 1))
    pairs = [
        (a.recall.present, b.recall.present)
        for (_, a), (_, b) in zip(small, large, strict=True)
        if a.recall and b.recall
    ]
    assert all(a <= b for a, b in pairs)
    assert any(a < b for a, b in pairs)


def drop_the_calls(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Everything but the messages that call tools: providers refuse the results that are left."""
    return [message for message in past if not message.get("tool_calls")]


def test_a_view_that_a_provider_refuses_scores_nothing() -> None:
    refused = 0
    for _, (recall, probed) in compute_scores(
        Made("no-calls", drop_the_calls), lambda each: TargetSize(each.tokens + 1_000, 1, tenth=True, planted=True)
    ):
        assert "orphan result" in probed.gates
        assert not any(tally.present for tally in probed.tallies)
        assert set(probed.planted.values()) == {(0, 1)}
        if recall is not None:
            assert (recall.present, recall.refused, recall.over) == (0, "orphan result", False)
            refused += 1
    assert refused > 5


def test_an_invented_identifier_is_counted() -> None:
    def invent_path(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
        return [make_user_message("So far: src/nowhere/quagga_9131.py was edited."), *keep_last(past, budget - 100)]

    assert [probed.false for _, (_, probed) in compute_scores(Made("inventing", invent_path), make_tenth_size)] == [
        1
    ] * len(get_grounds())


def test_a_result_over_its_budget_answers_nothing_and_says_so() -> None:
    (keep_all,) = get_methods(["keep-all"])
    for _, (recall, probed) in compute_scores(keep_all, make_tenth_size):
        assert recall is None or (recall.over, recall.present) == (True, 0)
        assert probed.over
        assert probed.gates == {"over budget": 1}
        assert not any(t.present for t in probed.tallies)
        assert not any(have for have, _ in probed.planted.values())


def test_a_broken_pair_is_a_gate_that_fails() -> None:
    def break_pairs(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
        kept = keep_last(past, budget)
        return [m for m in kept if m.get("role") != "tool"]

    found = [
        probed.gates.get("orphan call", 0)
        for _, (_, probed) in compute_scores(Made("breaking", break_pairs), make_tenth_size)
    ]
    assert any(found)


def test_a_method_that_cannot_is_scored_as_one_that_keeps_nothing() -> None:
    def refuse(_past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
        raise UnableError("not today")

    each = get_grounds()[0]
    recall, probed = score_method(each, Made("refusing", refuse), make_tenth_size(each))
    assert probed.unable == "not today"
    assert recall is not None
    assert (recall.unable, recall.present) == ("not today", 0)
    for counts in (recall.kinds, recall.quarters):
        assert (sum(have for have, _ in counts.values()), sum(of for _, of in counts.values())) == (0, recall.needed)
    assert sum(t.asked for t in probed.tallies) == len(each.probes)
    assert not any(t.present for t in probed.tallies)


# -- what is measured --------------------------------------------------------------------------------------------------


def get_sizes(made: Case, budgets: Sequence[int], rounds: Sequence[int] = (1,)) -> list[TargetSize]:
    return list(prepare_case(made, budgets=budgets, rounds=rounds).sizes)


def make_big_case(steps: int = 120) -> Case:
    return make_case(make_long_past(steps), [make_reply("src/module_00.py, src/module_39.py")])


def test_every_budget_below_the_past_and_a_tenth_of_it() -> None:
    made = make_big_case()
    size = count_total_tokens(made.past)
    assert size > 10 * MIN_TENTH
    assert get_sizes(made, (2_000, 1_000, size, 10 * size)) == [
        TargetSize(1_000, 1),
        TargetSize(2_000, 1),
        make_tenth_size(prepare_case(made)),
    ]
    assert get_sizes(made, (size,)) == [], "a past that fits is not compacted, to a tenth neither"


def test_more_rounds_at_a_tenth_alone_and_rules_after_the_fewest_and_the_most() -> None:
    made = make_big_case()
    size = count_total_tokens(made.past) // 10
    assert get_sizes(made, (1_000, 8_000), (3, 1, 10)) == [
        TargetSize(1_000, 1),
        TargetSize(8_000, 1),
        TargetSize(size, 1, tenth=True, planted=True),
        TargetSize(size, 3, tenth=True),
        TargetSize(size, 10, tenth=True, planted=True),
    ]


def test_the_size_of_the_real_summary_is_measured_too_and_the_summary_there_alone() -> None:
    made = make_case(make_long_past(), [make_reply("src/module_00.py")], summary="src/module_00.py was read.", kept=71)
    found = measure_quality([made], get_methods(["real-summary", "keep-last"], [made]), budgets=(1_000,))
    own = measure_real_summary(made)
    assert [(r.method, r.own, r.budget, r.present) for r in found.recall] == [
        ("real-summary", True, own, 1),
        ("keep-last", False, 1_000, 0),
        ("keep-last", True, own, 0),
    ]
    assert [(p.method, p.own, p.budget) for p in found.probes] == [(r.method, r.own, r.budget) for r in found.recall]


def test_everything_is_scored_from_one_compaction() -> None:
    asked: list[int] = []

    def record_budget(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
        asked.append(budget)
        return keep_last(past, budget)

    made = make_big_case()
    found = measure_quality([made], [Made("counted", record_budget)], budgets=(1_000, 2_000))
    ten = count_total_tokens(made.past) // 10
    assert sorted(asked) == sorted([1_000, 2_000, ten, ten]), "the second at a tenth has rules planted into its past"
    assert len(found.recall) == len(found.probes) == 3


# -- all of them together ----------------------------------------------------------------------------------------------


def without_times(made: Quality) -> object:
    return [(r.method, r.budget, r.present, r.within, r.refetch, r.kinds) for r in made.recall], made.probes


def test_two_runs_give_the_same_scores() -> None:
    found = [
        measure_quality([make_big_case()], get_methods(["tenfold", "mask-10"]), budgets=(1_000, 2_000), rounds=(1, 3))
        for _ in range(2)
    ]
    assert without_times(found[0]) == without_times(found[1])
    assert [c.counts for c in found[0].checked] == [{}]


def test_two_methods_run_beside_each_other_and_come_back_in_the_order_they_were_named() -> None:
    second_ran = threading.Event()

    def wait_for_second(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
        assert second_ran.wait(timeout=500.0), "nothing ran beside it"
        return keep_last(past, budget)

    def release_first(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
        second_ran.set()
        return keep_last(past, budget)

    heard: list[tuple[int, int]] = []
    both = [Made("waiting", wait_for_second), Made("freeing", release_first)]
    found = measure_quality(
        [make_big_case()], both, budgets=(1_000,), on_progress=lambda done, total, _: heard.append((done, total))
    )
    assert list(dict.fromkeys(p.method for p in found.probes)) == ["waiting", "freeing"]
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_no_peer_is_left_running_when_something_fails() -> None:
    fake, mark = Path(__file__).with_name("fake_worker.py"), f"left-{uuid4()}"  # other tests run the same file
    peer = Peer(PeerMethod("fake", "method"), Worker([sys.executable, str(fake), "sleeps", mark], timeout=500.0))

    def raise_error(_past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_quality([make_big_case()], [peer, Made("failing", raise_error)], budgets=(1_000,))
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert mark not in left


def test_calls_without_a_future_use_are_probed_all_the_same() -> None:
    made = make_case(make_long_past(120), [make_call("finish", {"x": "done"}, id_="z"), *[make_reply("ok")] * 3])
    found = measure_quality([made], get_methods(["keep-last"]), budgets=(1_000,))
    assert found.recall == ()
    assert len(found.probes) == 2
