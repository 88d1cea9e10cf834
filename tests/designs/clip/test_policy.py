"""The preset `clip`: splitting, chunking, folding, requests, results."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, ToolCall, get_text
from tenfold.core.wire.marks import find_summary_mark
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactContextTool, CompactionConfig, CompactionResult, Compactor, SummaryBatch
from tenfold.designs.clip.policy import clip
from tenfold.errors import UsageError
from tenfold.models.scripted_model import ScriptedModel
from tests.designs.clip.making import (
    COUNTER,
    WIDE,
    WINDOW,
    build_policy,
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


def test_the_tool_compacts_the_session_and_answers_with_the_counters() -> None:
    assert CompactContextTool().parameters["properties"] == {}
    assert CompactContextTool().handle() == '{"success":false,"output":"Compaction not configured"}'
    session = make_session()
    session.append(*make_talk(0, 1))
    tool = CompactContextTool(session, window=100_000)
    nothing = msgspec.json.decode(tool.handle({}))
    assert (nothing["messagesCompressed"], nothing["batchesCreated"]) == (0, 0)
    assert nothing["tokensEstimateBefore"] == nothing["tokensEstimateAfter"] > 0
    session.append(*make_talk(1, 20))
    counters = msgspec.json.decode(CompactContextTool(session, window=WINDOW).handle({}))
    told = get_newest_block(session).batches
    assert counters["batchesCreated"] == len(told)
    assert counters["messagesCompressed"] == sum(b.count for b in told)
    assert counters["tokensEstimateAfter"] == design.count_content_tokens(session.view.get_messages())
    assert counters["tokensEstimateAfter"] < counters["tokensEstimateBefore"]


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
    assert not session.find_violations("openai-chat")


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
    messages = [
        make_user("hello there"),
        make_answer("I look.", ToolCall("a", "run", '{"path":"src/app.py"}')),
        make_result("a", "42"),
    ]
    ask = design.build_summarization_request(messages, "Earlier they met.")
    assert ask.system == design.DEFAULT_SYSTEM_PROMPT
    assert design.DEFAULT_DIRECTIVE in ask.prompt
    assert "<context>\nEarlier they met.\n</context>" in ask.prompt
    assert "src/app.py" in ask.prompt, "the arguments of calls are told"
    assert "<context>" not in design.build_summarization_request(messages).prompt
    assert "{persona}" not in ask.prompt
    merge = design.build_resummarization_request([SummaryBatch(t, 0, "unknown", "unknown", 1) for t in ("one", "two")])
    assert merge.purpose == "merge"
    assert merge.prompt.index("<summary>\none\n</summary>") < merge.prompt.index("<summary>\ntwo\n</summary>")
    model = Keeps()
    session = make_session(model=model)
    run_rounds(session, 1)
    used = model.asked[0]
    stretch = session.view.path.get_entries(
        get_newest_block(session).batches[0].first, get_newest_block(session).batches[0].last
    )
    built = design.build_summarization_request([m for e in stretch if (m := get_message(e)) is not None])
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
    assert not session.find_violations(wire)
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
