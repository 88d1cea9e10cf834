"""The preset `clip`: what is split off, chunked and folded; requests, time-outs, importance; the hard check."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.marks import find_summary_mark
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig, CompactionResult, Compactor, SummaryBatch
from tenfold.designs.clip.fold_stage import ImportanceScoringConfig
from tenfold.designs.clip.policy import clip
from tenfold.errors import UsageError
from tenfold.models.scripted_model import ScriptedModel
from tests.designs.clip.making import (
    COUNTER,
    WIDE,
    WINDOW,
    build_policy,
    get_archive,
    get_archive_text,
    get_beginnings,
    get_newest_block,
    make_answer,
    make_result,
    make_session,
    make_talk,
    make_user,
    run_rounds,
)
from tests.laws.conversations import Broken, Echo


class Keeps:
    """A model that remembers what it was asked; it always says the same."""

    def __init__(self) -> None:
        self.asked: list[SummaryAsk] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        return Answer(text=f"This stretch went on as planned, say {len(self.asked)} of it.")


def make_history(pairs: int, words: int = 150) -> list[dict[str, str]]:
    """A host's list in the OpenAI Chat format."""
    out: list[dict[str, str]] = []
    for n in range(pairs):
        out.append({"role": "user", "content": f"Question {n}. " + "and so on " * words})
        out.append({"role": "assistant", "content": f"Answer {n}. " + "it is so " * words})
    return out


def make_compactor(model: object = None, **config: object) -> Compactor:
    made = msgspec.convert(config, CompactionConfig) if config else CompactionConfig()
    return design.create_compactor(made, model=model or Echo())  # type: ignore[arg-type]


def test_records_have_the_fields_of_the_design_in_its_own_spelling() -> None:
    result_fields = ["history", "batchesCreated", "messagesCompressed", "tokensEstimateBefore", "tokensEstimateAfter"]
    done = CompactionResult([], 1, 2, 3, 4, failed=True, reason="x")
    assert list(msgspec.to_builtins(done)) == [*result_fields, "failed", "reason"]
    batch = SummaryBatch("a", 0, "unknown", "unknown", 1)
    assert list(msgspec.to_builtins(batch)) == ["content", "depth", "startTime", "endTime", "messageCount"]
    config = set(msgspec.to_builtins(CompactionConfig()))
    assert {"chunkSize", "keepRecent", "maxSummaryTokens", "clipFirst", "clipLast", "prompt", "scoring"} <= config
    assert {"timeout", "maxRetries", "backoffBaseMs", "maxChunkTokens", "maxConsecutiveFailures"} <= config


def test_defaults_are_the_published_ones_and_zeros_are_allowed() -> None:
    config = CompactionConfig()
    sizes = (config.chunk_size, config.keep_recent, config.max_summary_tokens, config.clip_first, config.clip_last)
    assert sizes == (20, 5, 1024, 2, 2)
    assert (config.prompt, config.timeout, config.max_retries) == (None, 120_000, 2)
    assert (config.backoff_base_ms, config.max_consecutive_failures, config.context_budget) == (1_000, 3, 0.8)
    assert design.DEFAULT_WINDOW == 200_000
    session = make_session(build_policy(keep_recent=0, clip_first=0, clip_last=0))
    assert run_rounds(session, 1)[0].status == "compacted"
    text = get_archive_text(session)
    assert text.startswith("[Context Summary — ")
    assert "[Batch" not in text
    assert "omitted, searchable via memory_read ...]" in text
    kept = [m for m in session.view.get_messages() if m.origin != "tenfold"]
    assert len(kept) == 1, "only the current request stays where nothing is kept"


def test_tokens_are_a_quarter_of_the_characters_rounded_up_and_results_count_content_only() -> None:
    assert [design.estimate_tokens(t) for t in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
    given = make_history(5)
    done = make_compactor().compress(given, "conv")
    assert done.tokens_estimate_before == sum(-(-len(m["content"]) // 4) for m in given)
    assert done.tokens_estimate_after == sum(-(-len(m["content"]) // 4) for m in done.history)


def test_it_fires_above_the_budget_less_the_overhead() -> None:
    assert not design.should_compress(160_000, window=200_000)
    assert design.should_compress(160_001, window=200_000)
    assert design.should_compress(150_001, window=200_000, overhead=2_000, max_output=8_000)
    assert not design.should_compress(150_000, window=200_000, overhead=2_000, max_output=8_000)
    assert design.should_compress(0, window=10_000, overhead=9_000), "nothing is left for the conversation"


def test_the_soft_check_is_made_once_for_each_user_message() -> None:
    session = make_session()
    pairs = make_history(4, words=400)
    calls = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    loop = [
        {"role": "assistant", "content": "I look.", "tool_calls": [calls]},
        {"role": "tool", "tool_call_id": "a", "content": "nothing"},
    ]
    within = 12_000  # above the budget, below what must never be exceeded
    session.before_model({"messages": [*pairs, *loop]}, window=within)
    first = session.outcome
    assert first is None, "a tool's output is no check point"
    session.before_model({"messages": [*pairs, *loop, {"role": "user", "content": "and now?"}]}, window=within)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"


def test_the_last_five_stay_and_the_rest_is_compressed() -> None:
    given = make_history(5)
    made = make_compactor()
    done = made.compress(given, "ten")
    assert (done.messages_compressed, done.batches_created, len(done.history)) == (5, 1, 6)
    assert done.history[1:] == given[5:]
    few = make_history(2)[:3]
    same = made.compress(few, "three")
    assert same.history is few
    assert (same.batches_created, same.messages_compressed, same.failed) == (0, 0, False)
    assert same.tokens_estimate_before == same.tokens_estimate_after
    again = made.compress(done.history, "ten")
    assert again.history is done.history, "nothing was said since"


def test_what_was_changed_in_place_long_ago_is_read_before_it_is_compressed() -> None:
    given, made = make_history(60), make_compactor()
    made.compress(given, "long")
    given[72]["content"] = "It says something else now."
    given.extend(make_history(3))
    made.compress(given, "long")
    path = made.get_session("long").view.path
    said = [get_text(m) for e in path.get_entries(0, path.length - 1) if (m := get_message(e)) is not None]
    assert said == [item["content"] for item in given]


def test_an_earlier_archive_is_set_aside_and_given_as_context_only() -> None:
    model = Keeps()
    session = make_session(model=model)
    run_rounds(session, 2)
    first, *later = model.asked
    assert "<context>" not in first.prompt
    for number, ask in enumerate(later, 2):
        before, _, messages = ask.prompt.partition("<conversation>")
        assert f"say {number - 1} of it" in before.partition("<context>")[2]
        assert "Context Summary" not in messages, "the archive is no message to be told"
        assert "do not repeat" in before


def test_the_split_never_parts_a_call_from_its_results() -> None:
    session = make_session(build_policy(keep_recent=2))
    session.append(*make_talk(0, 12))
    calls = (ToolCall("a", "run"), ToolCall("b", "run"))
    session.append(
        make_user("please look"), make_answer("I look.", *calls), make_result("a", "one"), make_result("b", "two")
    )
    session.append(make_user("thanks " * 50))
    assert session.compact(window=WINDOW).status == "compacted"
    kept = [m for m in session.view.get_messages() if m.origin != "tenfold"]
    assert [m.role for m in kept] == ["assistant", "tool", "tool", "user"], "two were asked for, the step is whole"
    assert not session.conversation.find_violations("openai-chat")


def test_chunks_are_groups_of_a_size_or_within_a_token_budget() -> None:
    ten = [make_user("x" * 40) for _ in range(10)]
    assert [len(c) for c in design.chunk_messages(ten, 3)] == [3, 3, 3, 1]
    sized = [make_user("x" * 4 * n) for n in (10, 10, 500, 10, 30, 10)]
    chunks = design.chunk_messages_by_token_budget(sized, 40)
    assert [[len(get_text(m)) // 4 for m in c] for c in chunks] == [[10, 10], [500], [10, 30], [10]]
    session = make_session(build_policy(chunk_size=6))
    run_rounds(session, 1)
    counts = [b.count for b in get_newest_block(session).batches]
    assert set(counts[:-1]) == {6}
    assert 0 < counts[-1] <= 6


def test_a_chunk_is_whole_units_whatever_its_size() -> None:
    session = make_session(build_policy(chunk_size=3, keep_recent=0))
    for n in range(4):
        calls = tuple(ToolCall(f"{n}{i}", "run") for i in range(4))
        session.append(
            make_user(f"do it {n} " * 50), make_answer("So.", *calls), *(make_result(c.id, "out " * 300) for c in calls)
        )
    session.append(make_user("go on"))
    assert session.compact(window=WINDOW).status == "compacted"
    for batch in get_newest_block(session).batches:
        first = get_message(session.view.path.get_entry(batch.first))
        assert first is not None
        assert first.role != "tool", "a step begins with its call"
    assert [b.count for b in get_newest_block(session).batches if b.count > 3 and not b.sources] == [5, 5, 5, 5]


def test_there_is_one_batch_of_depth_zero_for_each_chunk_with_times_and_count() -> None:
    session = make_session(build_policy(chunk_size=4))
    run_rounds(session, 1)
    batches = get_newest_block(session).batches
    path = session.view.path
    assert len(batches) > 2
    assert {b.depth for b in batches} == {0}
    for batch, following in pairwise(batches):
        assert following.first == batch.last + 1, "each position lies in one batch"
        assert batch.count == batch.last - batch.first + 1
        assert (batch.start, batch.end) == (path.get_entry(batch.first).time, path.get_entry(batch.last).time)


def test_a_template_of_ones_own_is_filled_everywhere_and_checked() -> None:
    fill = design.interpolate_prompt
    assert fill("{persona}: {messages} {messages}", persona="P", messages="m") == "P: m m"
    assert fill("{existing_summary}|{persona}|{messages}") == "(no prior summary)||"
    assert fill("{messages}", messages="{persona}", persona="P") == "{persona}", "what is put in is no template"
    with pytest.raises(UsageError, match=r"\{persnoa\}"):
        fill("{persnoa}")
    with pytest.raises(UsageError, match="nothing fills"):
        clip(COUNTER, prompt="{oops}")
    for place in ("persona", "existing_summary", "messages"):
        assert f"{{{place}}}" in design.DEFAULT_SUMMARIZATION_PROMPT


def test_the_preset_asks_with_the_users_own_prompt() -> None:
    model = Keeps()
    own = "You are {persona}.\nKnown: {existing_summary}\nNew: {messages}\nGo."
    session = make_session(build_policy(prompt=own, persona="the scribe"), model=model)
    run_rounds(session, 2)
    first, second = model.asked[0].prompt, model.asked[-1].prompt
    assert first.startswith("You are the scribe.\nKnown: (no prior summary)\nNew: <conversation>")
    assert first.endswith("</conversation>\nGo.")
    assert first.count("topic0000x") == 2, "the messages are put in once: one question, one answer"
    assert "Known: <context>" in second
    assert second.count("[Context Summary") == 1


def test_the_default_is_a_structured_request_made_by_one_builder() -> None:
    call = make_answer("I look.", ToolCall("a", "run", '{"path":"src/app.py"}'))
    messages = [make_user("hello there"), call, make_result("a", "42")]
    ask = design.build_summarization_request(messages, "Earlier they met.")
    assert ask.system == design.DEFAULT_SYSTEM_PROMPT
    assert design.DEFAULT_DIRECTIVE in ask.prompt
    assert "<context>\nEarlier they met.\n</context>" in ask.prompt
    assert "src/app.py" in ask.prompt, "the arguments of calls are told"
    assert "<context>" not in design.build_summarization_request(messages).prompt
    merge = design.build_resummarization_request([SummaryBatch(t, 0, "unknown", "unknown", 1) for t in ("one", "two")])
    assert merge.purpose == "merge"
    assert merge.prompt.index("<summary>\none\n</summary>") < merge.prompt.index("<summary>\ntwo\n</summary>")
    session = make_session(model=(model := Keeps()))
    run_rounds(session, 1)
    batch = get_newest_block(session).batches[0]
    told = [m for e in session.view.path.get_entries(batch.first, batch.last) if (m := get_message(e)) is not None]
    used, built = model.asked[0], design.build_summarization_request(told)
    assert used.system == built.system
    assert used.prompt.partition("<conversation>")[2] == built.prompt.partition("<conversation>")[2]


def test_the_archive_is_one_system_message_at_the_head_and_the_messages_stay_in_the_log() -> None:
    session = make_session()
    system = Message("system", (Text("You are kind."),), "harness")
    session.append(system)
    before = make_talk(0, 12)
    session.append(*before)
    session.compact(window=WINDOW)
    head, archive, *rest = session.view.get_messages()
    assert (head, archive.role) == (system, "system")
    mark = find_summary_mark(get_text(archive))
    assert mark is not None
    assert mark.block == get_newest_block(session).id
    assert all(m.origin != "tenfold" for m in rest)
    originals = [line.message for line in session.expand(get_newest_block(session).id, deep=True)]
    assert originals == before[: len(originals)]
    assert len(originals) >= 12


@pytest.mark.parametrize("wire", ["anthropic", "gemini", "openai-chat", "openai-responses"])
def test_a_host_of_any_wire_sends_the_archive_where_the_provider_takes_system_text(wire: str) -> None:
    session = make_session()
    field = {"gemini": "contents", "openai-responses": "input"}.get(wire, "messages")

    def make_item(role: str, text: str) -> dict[str, object]:
        if wire == "gemini":
            return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
        return {"role": role, "content": text}

    given = [make_item(m.role, get_text(m)) for m in [*make_talk(0, 14), make_user("and now?")]]
    extra = {"system": "Be kind."} if wire == "anthropic" else {}
    sent = session.before_model({field: given, **extra}, window=WINDOW, wire=wire)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert "[Context Summary — " in msgspec.json.encode(sent).decode()
    listed = msgspec.json.encode(sent[field]).decode()
    assert ("[Context Summary" in listed) == wire.startswith("openai")
    assert not session.conversation.find_violations(wire)
    again = session.before_model(
        {field: [*given, make_item("assistant", "ok"), make_item("user", "more?")], **extra}, wire=wire
    )
    assert msgspec.json.encode(again).decode().count("[Context Summary — ") == 1


def test_a_failing_model_leaves_history_and_view_as_they_were() -> None:
    given = make_history(8)
    made = make_compactor(Broken())
    done = made.compress(given, "conv")
    assert done.history is given
    assert done.failed
    assert (done.batches_created, done.messages_compressed) == (0, 0)
    assert done.tokens_estimate_before == done.tokens_estimate_after > 0
    session = make_session(model=Broken())
    session.append(*make_talk(0, 12))
    before = get_beginnings(session.view.get_messages())
    outcome = session.compact(window=WIDE)
    assert outcome.status == "failed"
    assert "down" in outcome.reason
    assert get_beginnings(session.view.get_messages()) == before
    assert session.view.state.live_blocks == ()


def test_later_chunks_that_fail_leave_nothing_of_the_earlier_ones() -> None:
    session = make_session(build_policy(chunk_size=4), model=ScriptedModel(["The first stretch went well."]))
    session.append(*make_talk(0, 12))
    assert session.compact(window=WIDE).status == "failed"
    assert session.view.state.live_blocks == ()
    assert not session.search("went well")


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
        assert not session.conversation.find_violations("openai-chat")
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
    assert not any(f.kind == "error" for f in session.view.list_block_facts())


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
    assert not session.conversation.find_violations("anthropic")
