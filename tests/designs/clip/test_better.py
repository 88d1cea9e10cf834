"""What the preset `clip` does better than implementations of its design; failures, importance, the hard check."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tenfold.compaction.plan.stages.batch_archive import ImportanceScoringConfig
from tenfold.compaction.summarize.batches import format_batch
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.message import ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tests.designs.clip.making import (
    WIDE,
    WINDOW,
    build_policy,
    get_archive,
    get_archive_text,
    get_newest_block,
    make_answer,
    make_result,
    make_session,
    make_talk,
    make_user,
    run_rounds,
)
from tests.laws.conversations import Broken, Echo


class Quotes:
    """A model that names every topic of the messages it is asked to tell, and what it was given as context."""

    def __init__(self) -> None:
        self.asked: list[SummaryAsk] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        _, _, messages = ask.prompt.partition("<conversation>")
        topics = sorted(set(re.findall(r"topic\d{4}x", messages or ask.prompt)))
        return Answer(text=f"They spoke of {' and '.join(topics[:12])}." if topics else "They went on.")


class Late(Echo):
    """A model that gives no answer in time to what is longer than it can do."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.sizes = most, list[int]()

    def answer(self, ask: SummaryAsk) -> Answer:
        messages = ask.prompt.partition("<conversation>")[2].count("\n[")
        self.sizes.append(messages)
        if messages > self.most:
            return Answer(error="no answer within 120 s", retryable=True, timed_out=True)
        return super().answer(ask)


def test_batches_do_not_repeat_each_other() -> None:
    """Would catch a chunk summary that absorbs the one before it, and an archive fed back as the prior summary."""
    model = Quotes()
    session = make_session(build_policy(chunk_size=6), model=model)
    run_rounds(session, 6)
    blocks = [session.view.path.get_entry(at) for at in session.view.state.live_blocks]
    leaves = [b for stored in blocks if isinstance(stored, Block) for b in stored.batches if not b.sources]
    assert len(leaves) > 10
    for one, other in pairwise(leaves):
        assert other.first == one.last + 1, "each message is told in one batch"
    topics = [t for b in leaves for t in set(re.findall(r"topic\d{4}x", b.text))]
    assert len(topics) > 60
    twice = {t for t in topics if topics.count(t) > 1}
    split = [t for t in twice if sum(t in b.text for b in leaves) == 2]
    assert len(twice) == len(split), "a topic occurs twice only where its question and answer fell into two chunks"
    for first, second in pairwise(b.text for b in leaves):
        assert len(set(re.findall(r"topic\d{4}x", first)) & set(re.findall(r"topic\d{4}x", second))) <= 1
    batches = [ask for ask in model.asked if ask.purpose == "batch"]
    assert all("do not repeat" in ask.prompt for ask in batches[1:])


def test_after_a_time_out_what_is_left_is_told_in_chunks_half_as_large() -> None:
    model = Late(most=6)
    session = make_session(build_policy(keep_recent=0), model=model)
    session.append(*make_talk(0, 12))
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "compacted"
    assert model.sizes[:3] == [20, 10, 5], "20 messages, 10, 5: never the same again"
    assert [b.count for b in get_newest_block(session).batches] == [5, 5, 5, 5, 3]
    assert sum("half as large" in note for note in outcome.notes) == 2


def test_retries_come_to_an_end_and_other_errors_fail_at_once() -> None:
    late = Late(most=0)
    session = make_session(model=late)
    session.append(*make_talk(0, 12))
    assert session.compact(window=WIDE).status == "failed"
    assert late.sizes == [19, 10, 5]
    assert session.view.state.live_blocks == ()
    broken = Broken()
    session = make_session(model=broken)
    session.append(*make_talk(0, 12))
    assert session.compact(window=WIDE).status == "failed"
    assert broken.calls == 1


def test_a_late_merge_is_made_of_fewer_sources_and_one_that_fails_is_put_off() -> None:
    """Would catch re-summarising that knows neither time-outs nor retries."""

    class LateMerges(Echo):
        def __init__(self, most: int) -> None:
            super().__init__()
            self.most, self.merges = most, list[int]()

        def answer(self, ask: SummaryAsk) -> Answer:
            if ask.purpose != "merge":
                return super().answer(ask)
            self.merges.append(ask.prompt.count("<summary>"))
            if self.merges[-1] > self.most:
                return Answer(error="no answer within 120 s", timed_out=True, retryable=True)
            return super().answer(ask)

    model = LateMerges(2)
    session = make_session(build_policy(chunk_size=2), model=model)
    run_rounds(session, 1)
    first = model.merges[0]
    assert model.merges[:3] == [first, first // 2, max(2, first // 4)]
    assert any(b.sources for b in get_newest_block(session).batches)
    model = LateMerges(0)
    session = make_session(build_policy(chunk_size=2), model=model)
    assert run_rounds(session, 1)[0].status == "compacted"
    assert not any(b.sources for b in get_archive(session))
    assert any("another time" in note for note in get_newest_block(session).notes)


def test_the_breaker_opens_after_failures_and_half_opens_when_the_view_has_grown() -> None:
    """Would catch a breaker that, once tripped, is off until the process is started again."""
    session = make_session(model=(model := Broken()))
    session.append(*make_talk(0, 12))
    session.compact(window=WIDE)
    session.append(make_user("go on"))
    session.compact(window=WIDE)
    calls = model.calls
    assert calls == 2
    session.append(make_user("and on"))
    held = session.compact(window=WIDE)
    assert (held.status, model.calls) == ("nothing", calls)
    assert "attempts came to nothing" in held.reason
    session.append(*make_talk(20, 22))
    assert session.compact(window=13_000).status == "failed"
    assert model.calls == calls + 1, "it half-opens"
    reopened = make_session(store=session.address.store, model=Echo())
    reopened.append(*make_talk(30, 33))
    assert reopened.compact(window=13_000).status == "compacted"
    assert reopened.view.state.attempts == (), "success resets"


def test_a_compactor_stops_asking_after_three_failures_until_the_conversation_has_grown() -> None:
    made = design.create_compactor(CompactionConfig(keep_recent=1), model=(model := Broken()), window=20_000)
    given = [{"role": "user", "content": f"Question {n}. " + "so on " * 100} for n in range(12)]
    for failures in (1, 2, 3):
        assert made.compress(given, "conv").failed
        assert made.consecutive_failures("conv") == failures == model.calls
    refused = made.compress(given, "conv")
    assert refused.failed
    assert refused.history is given
    assert "3 passes failed in a row" in refused.reason
    assert model.calls == 3
    more = [*given, *({"role": "user", "content": f"More {n}. " + "so on " * 200} for n in range(4))]
    assert made.compress(more, "conv").failed
    assert model.calls == 4, "it half-opens"


def test_the_hard_check_keeps_system_archive_and_request_and_leaves_no_orphans() -> None:
    """Would catch a guard that drops the archive first, takes a result for the latest user message, or moves it."""
    session = make_session(model=(model := Echo()))
    history: list[dict[str, object]] = [{"role": "system", "content": "You are kind."}]
    history += [{"role": m.role, "content": get_text(m)} for m in make_talk(0, 6)]
    history.append({"role": "user", "content": "Now find the fault."})
    for step in range(60):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "run", "arguments": f'{{"n":{step}}}'}}
        history.append({"role": "assistant", "content": "", "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"output {step} " + "line " * 120})
        sent = session.before_model({"messages": history}, window=WINDOW)["messages"]
        assert session.take_reading(window=WINDOW).tokens <= WINDOW
        assert sent[0]["content"] == "You are kind."
        roles = [m["role"] for m in sent]
        assert [m["content"] for m in sent if m["role"] == "user"][-1] == "Now find the fault."
        assert roles[-1] == "tool", "what came last stays last"
        open_calls = {c["id"] for m in sent for c in m.get("tool_calls") or ()}
        assert {m["tool_call_id"] for m in sent if m["role"] == "tool"} == open_calls
        if session.view.state.live_blocks:
            assert roles[1] == "system"
            assert "[Context Summary — " in sent[1]["content"]
        assert not session.find_violations("openai-chat")
    assert len(session.view.state.live_blocks) == 2, "a long tool loop is compacted without any user message between"
    assert model.calls >= 2
    originals = [get_text(line.message) for line in session.expand(get_newest_block(session).id, deep=True)]
    assert originals == [str(m["content"]) for m in history[1 : len(originals) + 1]]


def test_recent_messages_are_bounded_in_tokens_too() -> None:
    """Would catch a tail of five huge messages, with which every turn is a no-op over the budget."""
    session = make_session()
    session.append(*[m for n in range(3) for m in make_talk(n, n + 1, words=600)])
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= outcome.target or outcome.target_missed
    assert session.take_reading(window=WINDOW).tokens < WINDOW // 2


def test_scores_follow_the_published_weights() -> None:
    score = design.score_message
    plain = make_user("hello there")
    short = len("hello there") / 100
    assert score(plain, 9, 10) == pytest.approx(5.0 + short)
    assert score(plain, 0, 10) == pytest.approx(5.0 * 0.95**9 + short)
    assert score(make_answer("hello there"), 9, 10) == pytest.approx(3.0 + short)
    assert score(make_result("a", "hello there"), 9, 10) == pytest.approx(5.0 + short)
    assert score(make_answer("hello there", ToolCall("a", "run")), 9, 10) == pytest.approx(3.0 + 4.0 + short)
    assert score(make_user("hello there?"), 9, 10) == pytest.approx(5.0 + 2.0 + 0.12)
    assert score(make_user("an Error, an error, a bug"), 9, 10) == pytest.approx(5.0 + 2 * 1.5 + 0.25)
    assert score(make_user("x" * 5_000), 9, 10) == pytest.approx(5.0 + 3.0)
    assert design.DEFAULT_SCORING_CONFIG.keywords == (
        *("error", "fail", "bug", "fix", "decision", "agreed", "constraint", "requirement"),
    )


def test_keywords_are_whole_words() -> None:
    """Would catch `fix` in "prefix" and `bug` in "debug"."""
    base = design.score_message(make_user("the quick one"), 0, 1)
    assert design.score_message(make_user("prefix debug1"), 0, 1) == pytest.approx(base)
    assert design.score_message(make_user("a fix, a bug."), 0, 1) == pytest.approx(base + 3.0)


def test_importance_keeps_verbatim_and_never_changes_the_order() -> None:
    """Would catch a sort by score before chunking: nothing is kept by it, calls part from results, start > end."""
    weights = ImportanceScoringConfig(decay=1.0)
    session = make_session(build_policy(chunk_size=6, scoring=weights))
    early = make_talk(0, 6)
    decision = make_user("The decision is agreed: a constraint, a requirement, no bug and no error may fail this fix?")
    session.append(*early, decision, *make_talk(6, 12))
    assert session.compact(window=WINDOW).status == "compacted"
    view = session.view.get_messages()
    assert decision in view, "what matters most stays, though it is old"
    assert view.index(decision) == 1
    at = [s.position for s in session.view.get_visible_messages() if s.is_original]
    assert at == sorted(at)
    for batch in get_newest_block(session).batches:
        assert batch.first <= batch.last
        assert batch.start is not None
        assert batch.end is not None
        assert batch.start <= batch.end
    plain = make_session(build_policy(chunk_size=6))
    plain.append(*early, decision, *make_talk(6, 12))
    plain.compact(window=WINDOW)
    assert decision not in plain.view.get_messages()


def test_what_stayed_for_its_importance_is_told_once_it_no_longer_stays() -> None:
    model = Quotes()
    session = make_session(build_policy(scoring=ImportanceScoringConfig(decay=0.5, keywords=("agreed",))), model=model)
    session.append(*make_talk(0, 1), make_user("agreed on topic7777x"), *make_talk(1, 12))
    session.compact(window=WINDOW)
    assert "agreed on topic7777x" in [get_text(m) for m in session.view.get_messages()]
    run_rounds(session, 4)
    assert "agreed on topic7777x" not in [get_text(m) for m in session.view.get_messages()]
    told = [ask for ask in model.asked if "agreed on topic7777x" in ask.prompt.partition("<conversation>")[2]]
    assert len(told) == 1


def test_the_header_counts_everything_and_cycles_are_cycles() -> None:
    """Would catch a count of the last pass only, and cycles that are really the depth."""
    session = make_session(build_policy(chunk_size=12))
    for cycle in range(1, 8):
        run_rounds(session, 1)
        batches = get_archive(session)
        total = sum(b.count for b in batches)
        plural = "" if cycle == 1 else "s"
        assert get_archive_text(session).startswith(
            f"[Context Summary — {total} messages compressed across {cycle} compaction cycle{plural}]"
        )
        positions = [p for line in session.expand(get_newest_block(session).id, deep=True) for p in [line.position]]
        assert total == len(positions)
    assert max(b.depth for b in get_archive(session)) + 1 < 7


def test_tool_arguments_are_told_and_a_word_in_an_output_is_no_failure() -> None:
    """Would catch `[Tool calls]` in place of arguments, and `error` anywhere that marks a result as failed."""
    model = Quotes()
    session = make_session(build_policy(keep_recent=0), model=model)
    session.append(
        make_user("look"),
        make_answer("", ToolCall("a", "read_file", '{"path":"src/billing/invoice.py"}')),
        make_result("a", "class ErrorPage: renders the error page. " * 20),
        *make_talk(0, 12),
    )
    assert session.compact(window=WINDOW).status == "compacted"
    prompt = model.asked[0].prompt
    assert "src/billing/invoice.py" in prompt
    assert "result error" not in prompt
    assert not any(f.kind == "error" for f in get_newest_block(session).facts)


def test_what_is_published_is_what_is_done() -> None:
    """Would catch documents that say interpolation while requests are structured, and two forms of one line."""
    session = make_session(build_policy(chunk_size=4))
    run_rounds(session, 3)
    line = re.compile(r"^\[\.\.\. (\d+) earlier summaries omitted, searchable via memory_read \.\.\.\]$", re.MULTILINE)
    (found,) = line.findall(get_archive_text(session))
    in_view = get_archive_text(session).count("[Batch ")
    assert int(found) == len(get_archive(session)) - in_view
    assert design.MemoryReadTool.name == "memory_read"
    batches = [design.SummaryBatch.from_batch(b) for b in get_archive(session)]
    assert [design.format_batch_content(b) for b in batches] == [format_batch(b) for b in get_archive(session)]


def test_an_open_step_counts_as_recent_and_stays_whole() -> None:
    """Would catch a count of messages that splits the step that is still being worked on."""
    session = make_session(build_policy(keep_recent=3))
    session.append(*make_talk(0, 12), make_user("look"))
    calls = (ToolCall("a", "run"), ToolCall("b", "run"), ToolCall("c", "run"))
    session.append(make_answer("I look.", *calls), make_result("a", "one"))
    assert session.compact(window=WINDOW).status == "compacted"
    view = session.view.get_messages()
    assert {c.id for m in view for c in get_tool_calls(m)} == {"a", "b", "c"}
    assert [r.call_id for m in view if (r := get_tool_result(m)) is not None] == ["a"]
    session.append(make_result("b", "two"), make_result("c", "three"))
    assert not session.find_violations("anthropic")


def test_a_model_that_fails_later_is_asked_in_the_order_of_time() -> None:
    model = ScriptedModel(["It began well.", ScriptedReply(error="the provider is down")])
    session = make_session(build_policy(chunk_size=6), model=model)
    session.append(*make_talk(0, 12))
    assert session.compact(window=WIDE).status == "failed"
    first, second = (ask.prompt.partition("<conversation>")[2] for ask in model.asks)
    assert "topic0000x" in first
    assert "topic0003x" in second
    assert "It began well." in model.asks[1].prompt
