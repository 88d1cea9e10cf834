"""What the preset `clip` does better than implementations of its design; failures, importance, the hard check."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig
from tenfold.llm.scripted import Reply, ScriptedModel
from tenfold.plan.stages.fold import ImportanceScoringConfig
from tenfold.record.ask import Answer, Summarize
from tenfold.record.message import ToolCall, calls_of, result_of, text_of
from tenfold.summarize.batches import stored
from tests.laws.conversations import Broken, Echo
from tests.presets.clipping import WINDOW, answer, archive_of, newest, opened, policy, result, rounds, shown, talk, user


class Quotes:
    """A model that names every topic of the messages it is asked to tell, and what it was given as context."""

    def __init__(self) -> None:
        self.asked: list[Summarize] = []

    def answer(self, ask: Summarize) -> Answer:
        self.asked.append(ask)
        _, _, messages = ask.prompt.partition("<conversation>")
        topics = sorted(set(re.findall(r"topic\d{4}x", messages or ask.prompt)))
        return Answer(text=f"They spoke of {' and '.join(topics[:12])}." if topics else "They went on.")


class Late(Echo):
    """A model that gives no answer in time to what is longer than it can do."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.sizes = most, list[int]()

    def answer(self, ask: Summarize) -> Answer:
        messages = ask.prompt.partition("<conversation>")[2].count("\n[")
        self.sizes.append(messages)
        if messages > self.most:
            return Answer(error="no answer within 120 s", retryable=True, timed_out=True)
        return super().answer(ask)


@pytest.mark.spec("clip.X1", "clip.10")
def test_batches_do_not_repeat_each_other() -> None:
    """Would catch a chunk summary that absorbs the one before it, and an archive fed back as the prior summary."""
    model = Quotes()
    session = opened(policy(chunk_size=6), model=model)
    rounds(session, 6)
    leaves = [b for at in session.view.marks.live for b in session.view.path.at(at).batches if not b.sources]  # type: ignore[union-attr]
    assert len(leaves) > 10
    for one, other in pairwise(leaves):
        assert other.first == one.last + 1, "each message is told in one batch"
    topics = [t for b in leaves for t in set(re.findall(r"topic\d{4}x", b.text))]
    assert len(topics) > 60
    twice = {t for t in topics if topics.count(t) > 1}
    split = [t for t in twice if sum(t in b.text for b in leaves) == 2]
    assert len(twice) == len(split), "a topic occurs twice only where its question and answer fell into two chunks"
    for one, other in pairwise(b.text for b in leaves):
        assert len(set(re.findall(r"topic\d{4}x", one)) & set(re.findall(r"topic\d{4}x", other))) <= 1
    batches = [ask for ask in model.asked if ask.purpose == "batch"]
    assert all("do not repeat" in ask.prompt for ask in batches[1:])


@pytest.mark.spec("clip.20")
def test_after_a_time_out_what_is_left_is_told_in_chunks_half_as_large() -> None:
    model = Late(most=6)
    session = opened(policy(keep_recent=0), model=model)
    session.append(*talk(0, 12))
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "compacted"
    assert model.sizes[:3] == [20, 10, 5], "20 messages, 10, 5: never the same again"
    assert [b.count for b in newest(session).batches] == [5, 5, 5, 5, 3]
    assert sum("half as large" in note for note in outcome.notes) == 2


@pytest.mark.spec("clip.20")
def test_retries_come_to_an_end_and_other_errors_fail_at_once() -> None:
    late = Late(most=0)
    session = opened(model=late)
    session.append(*talk(0, 12))
    assert session.compact(window=WINDOW).status == "failed"
    assert late.sizes == [20, 10, 5]
    assert session.view.marks.live == ()
    broken = Broken()
    session = opened(model=broken)
    session.append(*talk(0, 12))
    assert session.compact(window=WINDOW).status == "failed"
    assert broken.calls == 1


@pytest.mark.spec("clip.20", "clip.X8")
def test_a_late_merge_is_made_of_fewer_sources_and_one_that_fails_is_put_off() -> None:
    """Would catch re-summarising that knows neither time-outs nor retries."""

    class LateMerges(Echo):
        def __init__(self, most: int) -> None:
            super().__init__()
            self.most, self.merges = most, list[int]()

        def answer(self, ask: Summarize) -> Answer:
            if ask.purpose != "merge":
                return super().answer(ask)
            self.merges.append(ask.prompt.count("<summary>"))
            if self.merges[-1] > self.most:
                return Answer(error="no answer within 120 s", timed_out=True, retryable=True)
            return super().answer(ask)

    model = LateMerges(2)
    session = opened(policy(chunk_size=2), model=model)
    rounds(session, 1)
    first = model.merges[0]
    assert model.merges[:3] == [first, first // 2, max(2, first // 4)]
    assert any(b.sources for b in newest(session).batches)
    model = LateMerges(0)
    session = opened(policy(chunk_size=2), model=model)
    assert rounds(session, 1)[0].status == "compacted"
    assert not any(b.sources for b in archive_of(session))
    assert any("another time" in note for note in newest(session).notes)


@pytest.mark.spec("clip.20", "clip.X8")
def test_the_breaker_opens_after_failures_and_half_opens_when_the_view_has_grown() -> None:
    """Would catch a breaker that, once tripped, is off until the process is started again."""
    session = opened(model=(model := Broken()))
    session.append(*talk(0, 11))
    session.compact(window=WINDOW)
    session.append(user("go on"))
    session.compact(window=WINDOW)
    calls = model.calls
    assert calls == 2
    session.append(user("and on"))
    held = session.compact(window=9_000)
    assert (held.status, model.calls) == ("nothing", calls)
    assert "attempts came to nothing" in held.reason
    session.append(*talk(20, 22))
    assert session.compact(window=9_000).status == "failed"
    assert model.calls == calls + 1, "it half-opens"
    reopened = opened(store=session.place.store, model=Echo())
    reopened.append(*talk(30, 33))
    assert reopened.compact(window=9_000).status == "compacted"
    assert reopened.view.marks.attempts == (), "success resets"


@pytest.mark.spec("clip.20")
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


@pytest.mark.spec("clip.21", "clip.X7")
def test_the_hard_check_keeps_system_archive_and_request_and_leaves_no_orphans() -> None:
    """Would catch a guard that drops the archive first, takes a result for the latest user message, or moves it."""
    session = opened(model=(model := Echo()))
    history: list[dict[str, object]] = [{"role": "system", "content": "You are kind."}]
    history += [{"role": m.role, "content": text_of(m)} for m in talk(0, 6)]
    history.append({"role": "user", "content": "Now find the fault."})
    for step in range(60):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "run", "arguments": f'{{"n":{step}}}'}}
        history.append({"role": "assistant", "content": "", "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"output {step} " + "line " * 120})
        sent = session.before_model({"messages": history}, window=WINDOW)["messages"]
        assert session.reading(window=WINDOW).tokens <= WINDOW
        assert sent[0]["content"] == "You are kind."
        roles = [m["role"] for m in sent]
        assert [m["content"] for m in sent if m["role"] == "user"][-1] == "Now find the fault."
        assert roles[-1] == "tool", "what came last stays last"
        open_calls = {c["id"] for m in sent for c in m.get("tool_calls") or ()}
        assert {m["tool_call_id"] for m in sent if m["role"] == "tool"} == open_calls
        if session.view.marks.live:
            assert roles[1] == "system"
            assert "[Context Summary — " in sent[1]["content"]
        assert not session.violations("openai-chat")
    assert len(session.view.marks.live) == 2, "a long tool loop is compacted without any user message between"
    assert model.calls >= 2
    originals = [text_of(line.message) for line in session.expand(newest(session).id, deep=True)]
    assert originals == [str(m["content"]) for m in history[1 : len(originals) + 1]]


@pytest.mark.spec("clip.X6")
def test_recent_messages_are_bounded_in_tokens_too() -> None:
    """Would catch a tail of five huge messages, with which every turn is a no-op over the budget."""
    session = opened()
    session.append(*[m for n in range(3) for m in talk(n, n + 1, words=600)])
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= outcome.target or outcome.target_missed
    assert session.reading(window=WINDOW).tokens < WINDOW // 2


@pytest.mark.spec("clip.22")
def test_scores_follow_the_published_weights() -> None:
    score = design.score_message
    plain = user("hello there")
    short = len("hello there") / 100
    assert score(plain, 9, 10) == pytest.approx(5.0 + short)
    assert score(plain, 0, 10) == pytest.approx(5.0 * 0.95**9 + short)
    assert score(answer("hello there"), 9, 10) == pytest.approx(3.0 + short)
    assert score(result("a", "hello there"), 9, 10) == pytest.approx(5.0 + short)
    assert score(answer("hello there", ToolCall("a", "run")), 9, 10) == pytest.approx(3.0 + 4.0 + short)
    assert score(user("hello there?"), 9, 10) == pytest.approx(5.0 + 2.0 + 0.12)
    assert score(user("an Error, an error, a bug"), 9, 10) == pytest.approx(5.0 + 2 * 1.5 + 0.25)
    assert score(user("x" * 5_000), 9, 10) == pytest.approx(5.0 + 3.0)
    assert design.DEFAULT_SCORING_CONFIG.keywords == (
        *("error", "fail", "bug", "fix", "decision", "agreed", "constraint", "requirement"),
    )


@pytest.mark.spec("clip.X5", "clip.22")
def test_keywords_are_whole_words() -> None:
    """Would catch `fix` in "prefix" and `bug` in "debug"."""
    base = design.score_message(user("the quick one"), 0, 1)
    assert design.score_message(user("prefix debug1"), 0, 1) == pytest.approx(base)
    assert design.score_message(user("a fix, a bug."), 0, 1) == pytest.approx(base + 3.0)


@pytest.mark.spec("clip.X5", "clip.22")
def test_importance_keeps_verbatim_and_never_changes_the_order() -> None:
    """Would catch a sort by score before chunking: nothing is kept by it, calls part from results, start > end."""
    weights = ImportanceScoringConfig(decay=1.0)
    session = opened(policy(chunk_size=6, scoring=weights))
    early = talk(0, 6)
    decision = user("The decision is agreed: a constraint, a requirement, no bug and no error may fail this fix?")
    session.append(*early, decision, *talk(6, 12))
    assert session.compact(window=WINDOW).status == "compacted"
    view = session.view.messages()
    assert decision in view, "what matters most stays, though it is old"
    assert view.index(decision) == 1
    at = [s.at for s in session.view.shown() if s.original]
    assert at == sorted(at)
    for batch in newest(session).batches:
        assert batch.first <= batch.last
        assert batch.start is not None
        assert batch.end is not None
        assert batch.start <= batch.end
    plain = opened(policy(chunk_size=6))
    plain.append(*early, decision, *talk(6, 12))
    plain.compact(window=WINDOW)
    assert decision not in plain.view.messages()


@pytest.mark.spec("clip.22", "clip.6")
def test_what_stayed_for_its_importance_is_told_once_it_no_longer_stays() -> None:
    model = Quotes()
    session = opened(policy(scoring=ImportanceScoringConfig(decay=0.5, keywords=("agreed",))), model=model)
    session.append(*talk(0, 1), user("agreed on topic7777x"), *talk(1, 12))
    session.compact(window=WINDOW)
    assert "agreed on topic7777x" in [text_of(m) for m in session.view.messages()]
    rounds(session, 4)
    assert "agreed on topic7777x" not in [text_of(m) for m in session.view.messages()]
    told = [ask for ask in model.asked if "agreed on topic7777x" in ask.prompt.partition("<conversation>")[2]]
    assert len(told) == 1


@pytest.mark.spec("clip.X8", "clip.18")
def test_the_header_counts_everything_and_cycles_are_cycles() -> None:
    """Would catch a count of the last pass only, and cycles that are really the depth."""
    session = opened(policy(chunk_size=12))
    for cycle in range(1, 8):
        rounds(session, 1)
        batches = archive_of(session)
        total = sum(b.count for b in batches)
        plural = "" if cycle == 1 else "s"
        assert shown(session).startswith(
            f"[Context Summary — {total} messages compressed across {cycle} compaction cycle{plural}]"
        )
        positions = [p for line in session.expand(newest(session).id, deep=True) for p in [line.position]]
        assert total == len(positions)
    assert max(b.depth for b in archive_of(session)) + 1 < 7


@pytest.mark.spec("clip.X8", "clip.12")
def test_tool_arguments_are_told_and_a_word_in_an_output_is_no_failure() -> None:
    """Would catch `[Tool calls]` in place of arguments, and `error` anywhere that marks a result as failed."""
    model = Quotes()
    session = opened(policy(keep_recent=0), model=model)
    session.append(
        user("look"),
        answer("", ToolCall("a", "read_file", '{"path":"src/billing/invoice.py"}')),
        result("a", "class ErrorPage: renders the error page. " * 20),
        *talk(0, 12),
    )
    assert session.compact(window=WINDOW).status == "compacted"
    prompt = model.asked[0].prompt
    assert "src/billing/invoice.py" in prompt
    assert "result error" not in prompt
    assert not any(f.kind == "error" for f in newest(session).facts)


@pytest.mark.spec("clip.X9")
def test_what_is_published_is_what_is_done() -> None:
    """Would catch documents that say interpolation while requests are structured, and two forms of one line."""
    session = opened(policy(chunk_size=4))
    rounds(session, 3)
    line = re.compile(r"^\[\.\.\. (\d+) earlier summaries omitted, searchable via memory_read \.\.\.\]$", re.MULTILINE)
    (found,) = line.findall(shown(session))
    in_view = shown(session).count("[Batch ")
    assert int(found) == len(archive_of(session)) - in_view
    assert design.MemoryRead.name == "memory_read"
    batches = [design.SummaryBatch.of(b) for b in archive_of(session)]
    assert [design.batch_content(b) for b in batches] == [stored(b) for b in archive_of(session)]


@pytest.mark.spec("clip.X6", "clip.7")
def test_an_open_step_counts_as_recent_and_stays_whole() -> None:
    """Would catch a count of messages that splits the step that is still being worked on."""
    session = opened(policy(keep_recent=3))
    session.append(*talk(0, 12), user("look"))
    calls = (ToolCall("a", "run"), ToolCall("b", "run"), ToolCall("c", "run"))
    session.append(answer("I look.", *calls), result("a", "one"))
    assert session.compact(window=WINDOW).status == "compacted"
    view = session.view.messages()
    assert {c.id for m in view for c in calls_of(m)} == {"a", "b", "c"}
    assert [r.call for m in view if (r := result_of(m)) is not None] == ["a"]
    session.append(result("b", "two"), result("c", "three"))
    assert not session.violations("anthropic")


def test_a_model_that_fails_later_is_asked_in_the_order_of_time() -> None:
    model = ScriptedModel(["It began well.", Reply(error="the provider is down")])
    session = opened(policy(chunk_size=6), model=model)
    session.append(*talk(0, 12))
    assert session.compact(window=WINDOW).status == "failed"
    first, second = (ask.prompt.partition("<conversation>")[2] for ask in model.asked)
    assert "topic0000x" in first
    assert "topic0003x" in second
    assert "It began well." in model.asked[1].prompt
