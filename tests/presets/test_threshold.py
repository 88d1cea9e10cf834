"""The preset `threshold`: what stands in view after a compaction, how its text is asked for, and its fallback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from tenfold.designs.threshold import Context, new, with_max_tokens
from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.events import Event, Skipped, Warned
from tenfold.llm import Reply, ScriptedModel
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4
from tenfold.plan.draft import Recall
from tenfold.plan.stages.whole import is_continuation, quoted
from tenfold.policies.threshold import CLOSING, OPENING, threshold
from tenfold.record.message import Image, Message, Text, text_of
from tenfold.session import Session
from tenfold.stateless import compact
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.ladder import Settings
from tenfold.summarize.whole import DIVIDER, FALLBACK_CHARACTERS, fallback, fitting
from tenfold.transcripts import Recorded
from tenfold.view.rules import check
from tenfold.wire import summary_text
from tests.engine.making import COUNTER, blocks, called, gave, opened, read, said, system, user, work
from tests.laws import conversations
from tests.laws.recorded import path_of
from tests.laws.strategies import Log
from tests.presets.simulator import SUMMARY, text
from tests.sessions import needed

HEADINGS = ("## Current State", "## Key Information", "## Context & Decisions", "## Exact Next Steps")
REQUEST = "Now finish `lib/billing.py`, and keep the old schema.\nThen tell me."


def brief(told: str) -> str:
    """A model's text under the four headings."""
    return "\n".join(f"{heading}\n{told}" for heading in HEADINGS)


def session(
    messages: Sequence[Message], *replies: Reply | str, repeat: bool = False, input_tokens: int = 0
) -> tuple[Session, ScriptedModel]:
    """A session under the preset over these messages, and the model that it asks."""
    model = ScriptedModel(replies or [SUMMARY], repeat=repeat)
    settings_ = with_prompts(Settings(models=("m",), input_tokens=input_tokens))
    return opened(messages, threshold(COUNTER, summary=settings_), answerer=Answerer(model=model)), model


def told(session: Session) -> str:
    """The narrative and facts of the newest summary in view."""
    texts = (summary_text(text_of(m)) for m in session.view.messages() if m.origin == "tenfold")
    return next(t for t in texts if t is not None)


# -- what stands in view -----------------------------------------------------------------------------------------------


@pytest.mark.spec("threshold.16", "threshold.17", "threshold.13")
def test_everything_becomes_a_summary_and_a_continuation_of_the_users_role() -> None:
    made, _ = session([*work(12), user(REQUEST), *read(90, "lib/billing.py")])
    outcome = made.compact(window=8_000)
    assert outcome.status == "compacted"
    summary, continued = made.view.messages()
    assert (summary.role, continued.role) == ("user", "user")
    inner = summary_text(text_of(summary)) or ""
    assert inner.startswith(f"{OPENING}\n{HEADINGS[0]}\n")
    assert inner.endswith(f"\n{CLOSING}")
    note = text_of(continued)
    assert note.startswith("[System note: this conversation was compacted, because it outgrew the context window.")
    assert f"The user's current request is: `{REQUEST}`" in note
    assert note.endswith("without asking the user to repeat anything.]")


@pytest.mark.spec("threshold.17")
def test_without_a_users_word_the_continuation_has_no_request_clause() -> None:
    made, _ = session([said(text(900, n)) for n in range(20)])
    assert made.compact(window=8_000).status == "compacted"
    note = text_of(made.view.messages()[1])
    assert "request" not in note
    assert note.endswith("without asking the user to repeat anything.]")


@pytest.mark.spec("threshold.16", "threshold.17")
def test_system_prompt_open_step_pins_and_a_picture_stay_as_they_are() -> None:
    picture = Message("user", (Text("What is wrong here?"), Image(media="image/png", data="QUJD")), "human")
    open_call = called("open", "look", '{"at": 1}')
    made, _ = session([system(), *work(12), said("Kept."), picture, *read(91, "a.py"), open_call])
    kept = next(s for s in made.view.shown() if text_of(s.message) == "Kept.")
    made.pin(made.view.path.at(kept.at).id)
    assert made.compact(window=8_000).status == "compacted"
    found = made.view.messages()
    assert [found[0], found[1], found[3], found[5]] == [system(), said("Kept."), picture, open_call]
    assert is_continuation(found[4])
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert check(found, wire) == [], wire


@pytest.mark.spec("threshold.W4", "threshold.17")
def test_the_request_stays_verbatim_at_every_later_step_and_through_the_next_compactions() -> None:
    """In the original the continuation lives for one request; at the next step the request is in the summary alone."""
    made, _ = session([*work(12), user(REQUEST)], SUMMARY, repeat=True)
    for number in range(4):
        made.append(*[m for n in range(12) for m in read(number * 100 + n, f"src/more{number}_{n}.py")])
        for window in (8_000, 8_000):
            made.compact(window=window)
            assert sum(REQUEST in text_of(m) for m in made.view.messages()) == 1
        made.append(*read(number * 100 + 50, "src/step.py"))
        assert any(REQUEST in text_of(m) for m in made.view.messages())
    assert len(blocks(made)) == 4
    made.append(user("Something else now."), *work(12)[1:])
    made.compact(window=8_000)
    (note,) = [m for m in made.view.messages() if is_continuation(m)]
    assert quoted(note) == "Something else now."
    assert "Now finish `lib/billing.py`" in told(made), "the earlier request is told as one"


@pytest.mark.spec("threshold.17")
@pytest.mark.parametrize(
    ("recall", "way"), [("none", " left out ..."), ("tool", "recall_read"), ("cli", "tenfold expand")]
)
def test_a_request_beyond_a_quarter_of_the_target_is_quoted_by_head_and_tail(recall: Recall, way: str) -> None:
    long = "BEGIN " + text(4_000, 7) + " END"
    made, _ = session([*work(12), user(long), *read(92, "b.py")])
    outcome = made.compact(replace(made.call(window=16_000), recall=recall, demand="manual"))
    assert outcome.status == "compacted", outcome.reason
    note = text_of(made.view.messages()[-1])
    assert COUNTER.count([note])[0] <= outcome.target // 4
    assert "`BEGIN " in note
    assert " END`" in note
    assert "characters of the request left out" in note
    assert way in note


@pytest.mark.spec("threshold.20", "threshold.W6")
def test_the_watermark_is_an_entry_and_undo_and_branches_need_no_count() -> None:
    made, _ = session([*work(12), user(REQUEST)])
    before = made.view.messages()
    made.compact(window=8_000)
    (block,) = blocks(made)
    assert (block.replacements[0].first, block.replacements[0].last) == (0, len(before) - 1)
    again = Session(made.place, made.policy)
    assert again.view.messages() == made.view.messages()
    made.undo()
    assert made.view.messages() == before


@pytest.mark.spec("threshold.W8", "threshold.11")
def test_what_is_replaced_is_searched_and_expanded_and_the_earlier_summary_is_sent_once() -> None:
    """In the original exact strings are gone for good, and the earlier summary is sent as block and as first entry."""
    exact = "the port is 48231 and the key begins with q9-Zx"
    made, model = session([*work(12), said(exact), user(REQUEST)], brief("Zebra one."), brief("Two."))
    made.compact(window=8_000)
    assert made.search("48231")
    (block,) = blocks(made)
    assert exact in [text_of(line.message) for line in made.expand(block.id, deep=True)]
    made.append(*work(12, start=40))
    made.compact(window=8_000)
    ask = model.asked[1]
    assert ask.prompt.count("Zebra one.") == len(HEADINGS)
    assert "<previous-summary>\n## Current State\nZebra one." in ask.prompt
    assert ask.purpose == "update"


@pytest.mark.spec("threshold.16", "threshold.20")
def test_a_list_without_a_session_goes_on_from_its_own_compacted_form() -> None:
    contents: list[dict[str, Any]] = [{"role": "user", "content": text(900, n)} for n in range(20)]
    contents.append({"role": "user", "content": REQUEST})
    first = compact(contents, window=8_000, model="gpt-4", policy="threshold")
    assert len(first.messages) == 2
    calls = [
        [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": text(9_000, n)},
        ]
        for n in range(15)
    ]  # fmt: skip
    second = compact([*first.messages, *(m for c in calls for m in c)], window=8_000, model="gpt-4", policy="threshold")
    assert second.outcome.status == "compacted"
    assert len(second.messages) == 2
    assert second.messages[1] == first.messages[1], "the request is carried on, not the note as the user's words"


# -- how the text is asked for -----------------------------------------------------------------------------------------


@pytest.mark.spec("threshold.13")
@pytest.mark.parametrize(("window", "tokens", "words"), [(200_000, 10_000, 7_500), (8_000, 800, 600)])
def test_the_briefing_asks_for_four_sections_within_the_published_sizes(window: int, tokens: int, words: int) -> None:
    made, model = session([user(text(4_000, n)) for n in range(window // 1_900)])
    assert made.compact(window=window).status == "compacted"
    (ask,) = model.asked
    assert ask.max_tokens == tokens
    assert f"at most {words} words" in ask.system
    assert "only context" in ask.system
    assert "language" in ask.system
    assert [line for line in ask.prompt.partition("<conversation>")[0].split("\n") if line.startswith("## ")] == [
        *HEADINGS
    ]


@pytest.mark.spec("threshold.14", "threshold.W1")
def test_the_transcript_has_a_line_for_each_message_and_an_excerpt_of_what_tools_returned() -> None:
    """The original sends only that a tool returned a result: what it returned is lost, and counted all the same."""
    long = "\n".join(f"line {n} {text(60, n)}" for n in range(900))
    messages = [user("Look."), called("c", "look", '{"where": "cellar"}', "I look."), gave("c", long, name="look")]
    made, model = session([*work(12), *messages, said("It is dark.")])
    made.compact(window=16_000)
    prompt = model.asked[0].prompt
    assert "\nuser: Look.\nassistant: I look.\n" in prompt
    assert 'assistant: [called tool: look] {"where": "cellar"}\n' in prompt
    assert "tool: [tool look returned a result]\n<untrusted-data" in prompt
    assert "line 0 " in prompt
    assert "line 899 " in prompt
    assert "line 450 " not in prompt
    assert "assistant: It is dark.\n[End of the conversation]" in prompt


@pytest.mark.spec("threshold.14")
def test_the_to_do_list_of_the_log_is_sent_with_the_order_to_keep_it() -> None:
    arguments = '{"todos": [{"content": "write the tests", "status": "in_progress"}, {"content": "ship it"}]}'
    made, model = session([*work(12), called("t", "todo_write", arguments), gave("t", "ok", name="todo_write")])
    made.compact(window=8_000)
    prompt = model.asked[0].prompt
    assert "<todos>\n- [~] write the tests\n- [ ] ship it\n</todos>" in prompt
    assert '"## Todo List"' in prompt.partition("</todos>")[2]
    assert "write the tests" in told(made), "whatever the model does with it"


@pytest.mark.spec("threshold.12", "threshold.W1")
def test_what_the_summary_model_has_no_room_for_is_left_out_oldest_first_and_said() -> None:
    """The original measures by bytes that it never sends, and drops dialogue to make room for them."""
    talk = [m for n in range(60) for m in (user(f"What of part {n}?"), said(f"{text(300, n)}. Answer {n}."))]
    talk[0] = user("Never touch the audit table.")
    tools = [m for n in range(10) for m in read(n, f"src/part{n}.py", words=60)]
    made, model = session([*talk, *tools, user(REQUEST)], input_tokens=8_000)
    outcome = made.compact(window=16_000)
    prompt = model.asked[0].prompt
    assert COUNTER.count([prompt])[0] <= 8_000
    assert "earlier messages are left out here" in prompt
    assert "Answer 59." in prompt
    (note,) = [n for n in outcome.notes if "had no room" in n]
    assert "messages (0 to " in note
    assert "Never touch the audit table." in told(made), "what is dropped still yields facts"


@pytest.mark.spec("threshold.12")
def test_the_bound_is_four_fifths_of_the_summary_models_window_and_two_messages_always_stay() -> None:
    policy = Settings(models=("claude-3-5-haiku",))
    assert policy.input_bound("claude-3-5-haiku", 0) == 160_000
    items = [(n, user(text(4_000, n))) for n in range(8)]
    sent = fitting(items, budget=10, count=COUNTER.count)
    assert [at for at, _ in sent.left_out] == [0, 1, 2, 3, 4, 5]
    assert fitting(items, budget=100_000, count=COUNTER.count).left_out == ()
    results = [(n, m) for n, m in enumerate([user("First words."), *read(1, "a.py", words=400), said("Last words.")])]
    shorter = fitting(results, budget=700, count=COUNTER.count)
    assert shorter.left_out == (), "outputs get shorter before any dialogue goes"
    assert "user: First words." in shorter.text


@pytest.mark.spec("threshold.19", "threshold.W5")
def test_a_text_that_is_too_long_is_asked_for_again_over_the_same_source_with_half_the_words() -> None:
    """The original summarises the summary again, and accepts by another measure than it decides by."""
    long = brief(text(6_000, 1))
    made, model = session([*work(12), user(REQUEST)], long, long, brief("Short enough."))
    outcome = made.compact(window=8_000)
    first, second, third = model.asked
    assert [f"at most {words} words" in ask.system for ask, words in zip(model.asked, (600, 300, 300), strict=True)]
    assert "at most 600 words" in first.system
    assert "at most 300 words" in second.system
    assert "at most 300 words" in third.system
    sources = {ask.prompt.partition("<conversation>")[2].partition("</conversation>")[0] for ask in model.asked}
    assert len(sources) == 1
    assert text(200, 1) not in third.prompt, "what was rejected for its length is no source"
    assert (outcome.rung, outcome.spent.calls) == ("stricter", 3)
    assert "Short enough." in told(made)


@pytest.mark.spec("threshold.19")
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_attempts_are_made_than_said_and_the_last_text_is_cut(attempts: int) -> None:
    lines = "\n".join(f"- fact number {n} of the long list" for n in range(400))
    model = ScriptedModel([Reply(brief(lines))], repeat=True)
    summary = with_prompts(Settings(models=("m",)))
    policy = threshold(COUNTER, summary=summary, max_compaction_attempts=attempts)
    made = opened([*work(12), user(REQUEST)], policy, answerer=Answerer(model=model))
    outcome = made.compact(window=8_000)
    assert len(model.asked) == attempts
    assert outcome.status == "compacted"
    assert all(heading in told(made) for heading in HEADINGS)
    assert "- fact number 0" in told(made)
    assert outcome.tokens_after * 2 < 6_400


@pytest.mark.spec("threshold.13", "threshold.16")
def test_an_invented_path_is_asked_about_once_and_then_taken_out_by_code() -> None:
    bad = brief("The work went well.\nIt also rewrote src/ghost/invented.py from scratch.")
    made, model = session([*work(12), user(REQUEST)], bad, repeat=True)
    outcome = made.compact(window=8_000)
    assert [ask.purpose for ask in model.asked] == ["first", "repair"]
    assert "invented.py" in model.asked[1].prompt
    assert outcome.status == "compacted"
    assert "The work went well." in told(made)
    assert "invented.py" not in told(made)


# -- without a model ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("threshold.15", "threshold.1")
@pytest.mark.parametrize(
    "reply",
    [Reply(error="503 the provider is down"), Reply(""), Reply("I'm sorry, I cannot help."), Reply(finish="tool")],
)
def test_a_summary_is_always_produced(reply: Reply) -> None:
    """The doc promises it; in the original an error of the sliding window lets the conversation pass as it is."""
    made, model = session([user("Start. " + text(300, 1)), *work(12), user(REQUEST)], reply)
    outcome = made.compact(window=8_000)
    assert (outcome.status, outcome.rung, len(model.asked)) == ("compacted", "mechanical", 1)
    assert outcome.notes
    assert "user: " + ("Start. " + text(300, 1))[:FALLBACK_CHARACTERS].rstrip() in told(made)
    assert "assistant: Part 0 is done.\n" in told(made)
    assert "nothing else of interest" not in told(made).partition("# Facts")[0].partition("Part 0")[0][220:]


@pytest.mark.spec("threshold.15")
def test_the_mechanical_text_has_the_published_form() -> None:
    items = [
        (0, user("a" * 200)),
        (1, user("b" * 201)),
        (2, called("c", "look", "{}", "I look.")),
        (3, gave("c", "secret treasure", name="look")),
    ]
    made = fallback("Earlier.", items, budget=10_000, count=COUNTER.count)
    assert made == f"Earlier.{DIVIDER}user: {'a' * 200}\nuser: {'b' * 200}...\nassistant: I look."
    assert DIVIDER == "\n\n---\n\n"
    assert fallback("", items[2:3], budget=10_000, count=COUNTER.count) == "assistant: I look."


@pytest.mark.spec("threshold.W7", "threshold.15")
def test_the_mechanical_text_is_bounded_over_generations_and_cuts_no_character() -> None:
    """The original carries the whole summary before it, so it grows each time, and cuts within characters."""
    before = ""
    for generation in range(12):
        items = [(n, user(f"{generation}-{n} " + "编译器🙂" * 80)) for n in range(30)]
        before = fallback(before, items, budget=600, count=COUNTER.count)
        assert COUNTER.count([before])[0] <= 600
        assert "\ufffd" not in before
        assert f"{generation}-29" in before, "the newest stay"
        assert "earlier texts are left out here" in before
    assert fallback("x" * 9_000, [], budget=50, count=COUNTER.count) == ""


# -- any history -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("threshold.16", "threshold.W4")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations.long_logs())
def test_any_history_ends_as_what_must_stay_and_two_messages(log: Log) -> None:
    asked = last_request(conversations.messages(log))
    made = conversations.opened(log, threshold(COUNTER, summary=with_prompts(Settings(models=("m",)))), echo())
    size = conversations.tokens(made.view.messages())
    outcome = made.compact(Call(window=max(400, size)))
    if outcome.status != "compacted":
        assert outcome.status in ("nothing", "unsatisfiable")
        return
    assert outcome.tokens_after < outcome.tokens_before
    messages = made.view.messages()
    notes = [m for m in messages if is_continuation(m)]
    assert len(notes) == 1
    in_open_step = any(asked in text_of(m) for m in messages if m.origin == "human")
    if asked and quoted(notes[0]) != asked and not in_open_step:
        assert "characters of the request left out" in quoted(notes[0])
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert check(messages, wire) == []


def echo() -> Answerer:
    return Answerer(model=ScriptedModel([Reply(brief("It went on."))], repeat=True))


def last_request(messages: Sequence[Message]) -> str:
    asked = [m for m in messages if m.role == "user" and m.origin == "human" and text_of(m).strip()]
    parts = [p.text for p in asked[-1].parts if isinstance(p, Text)] if asked else []
    return "\n".join(parts)


@pytest.mark.spec("threshold.16", "threshold.20", "threshold.W3")
def test_recorded_sessions_compact_twice_keep_their_request_and_stay_valid(session: Recorded) -> None:
    needed()
    log = path_of(session)
    half = len(log) // 2
    made = conversations.opened(log[:half], threshold(COUNTER, summary=with_prompts(Settings(models=("m",)))), echo())
    for more in (log[half:], ()):
        before = conversations.tokens(made.view.messages())
        outcome = made.compact(Call(window=max(4_000, before)))
        messages = made.view.messages()
        if outcome.status == "compacted":
            assert outcome.tokens_after < outcome.tokens_before
            assert sum(is_continuation(m) for m in messages) == 1
            assert made.compact(Call(window=max(4_000, before))).status == "nothing"
        for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
            assert check(messages, wire) == []
        made.append(*conversations.messages(more))


@pytest.mark.spec("threshold.20")
def test_a_guard_over_a_store_goes_on_where_another_stopped() -> None:
    store = MemoryStore()
    contents = [{"role": "user", "content": text(1_500, n)} for n in range(20)]
    requests = []
    for _ in range(2):
        model = ScriptedModel([SUMMARY])
        plugin = new(store=store).add("a", model, with_max_tokens(8_000), counter=Characters4()).plugin_config()
        requests.append({"messages": list(contents)})
        plugin.before_model(Context("a"), requests[-1])
    assert requests[0] == requests[1]
    assert len(requests[1]["messages"]) == 2


@pytest.mark.spec("threshold.W3", "threshold.27")
def test_a_floor_over_the_threshold_is_one_event_and_an_overflow_still_compacts() -> None:
    """The original summarises at each step as soon as system prompt and tools alone are over the threshold."""
    told: list[Event] = []
    model = ScriptedModel([SUMMARY], repeat=True)
    policy = threshold(COUNTER, summary=with_prompts(Settings(models=("m",))))
    made = opened([system(text(13_000, 1))], policy, answerer=Answerer(model=model, listen=(told.append,)))
    for number in range(3):
        made.append(user(text(600, number)), said(text(600, number)))
        assert made.compact(window=8_000).status == "unsatisfiable"
    assert not model.asked
    (event,) = [e for e in told if not isinstance(e, Warned)]
    assert isinstance(event, Skipped)
    assert event.outcome.itemised["system prompt"] >= 3_250
    made.append(*[each for n in range(4) for each in read(n, "a.py", words=10)])
    outcome = made.compact(replace(made.call(window=8_000), demand="overflow"))
    assert outcome.status == "compacted", "a provider that refused is another matter"


@pytest.mark.spec("threshold.16", "threshold.13")
def test_a_summary_can_be_written_again_and_the_continuation_stays() -> None:
    made, _ = session([*work(12), user(REQUEST)], SUMMARY, brief("Written again."))
    made.compact(window=8_000)
    before = made.view.messages()
    assert made.redo().status == "compacted"
    assert "Written again." in told(made)
    assert made.view.messages()[1:] == before[1:]
