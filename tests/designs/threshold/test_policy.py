"""The preset `threshold`: what stands in view after a compaction, how its text is asked for, and its fallback."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.plan.protected import extract_request, is_continuation
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.meter.counters import BytePairCounter, CharacterCounter, Counter
from tenfold.core.meter.windows import find_window_row
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Image, Message, Text, get_text
from tenfold.core.view.rules import check_messages
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.threshold import Context, new, with_max_tokens
from tenfold.designs.threshold.policy import CLOSING, OPENING, threshold
from tenfold.designs.threshold.writer import (
    DIVIDER,
    FALLBACK_CHARACTERS,
    LEAST_FALLBACK_CHARACTERS,
    WORDS_PER_TOKEN,
    write_fallback,
)
from tenfold.events import CompactionSkip, CompactionWarning, Event
from tenfold.models import ScriptedModel, ScriptedReply
from tenfold.models.provider import OUTPUT_SLACK
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tenfold.session.stateless import compact
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.threshold.simulator import SUMMARY, make_text
from tests.engine.making import (
    COUNTER,
    get_blocks,
    make_call,
    make_read_step,
    make_reply,
    make_result,
    make_system_message,
    make_user_message,
    make_work,
    open_session,
)
from tests.thorough import IS_THOROUGH

HEADINGS = ("## Current State", "## Key Information", "## Context & Decisions", "## Exact Next Steps")
REQUEST = "Now finish `lib/billing.py`, and keep the old schema.\nThen tell me."


def make_brief(told: str) -> str:
    """A model's text under the four headings."""
    return "\n".join(f"{heading}\n{told}" for heading in HEADINGS)


def make_scripted_session(
    messages: Sequence[Message], *replies: ScriptedReply | str, repeat: bool = False, input_tokens: int = 0
) -> tuple[Session, ScriptedModel]:
    """A session under the preset over these messages, and the model that it asks."""
    model = ScriptedModel(replies or [SUMMARY], repeat=repeat)
    settings_ = with_prompts(SummarySettings(models=("m",), input_tokens=input_tokens))
    return open_session(messages, threshold(COUNTER, summary=settings_), answerer=Answerer(model=model)), model


def get_newest_summary(session: Session) -> str:
    """The narrative and facts of the newest summary in view."""
    texts = (extract_summary_text(get_text(m)) for m in session.view.get_messages() if m.origin == "tenfold")
    return next(t for t in texts if t is not None)


# -- what stands in view -----------------------------------------------------------------------------------------------


def test_everything_becomes_a_summary_and_a_continuation_of_the_users_role() -> None:
    made, _ = make_scripted_session([*make_work(12), make_user_message(REQUEST), *make_read_step(90, "lib/billing.py")])
    outcome = made.compact(window=8_000)
    assert outcome.status == "compacted"
    summary, continued = made.view.get_messages()
    assert (summary.role, continued.role) == ("user", "user")
    inner = extract_summary_text(get_text(summary)) or ""
    assert inner.startswith(f"{OPENING}\n{HEADINGS[0]}\n")
    assert inner.endswith(f"\n{CLOSING}")
    note = get_text(continued)
    assert note.startswith("[System note: this conversation was compacted, because it outgrew the context window.")
    assert f"The user's current request is: `{REQUEST}`" in note
    assert note.endswith("without asking the user to repeat anything.]")


def test_without_a_users_word_the_continuation_has_no_request_clause() -> None:
    made, _ = make_scripted_session([make_reply(make_text(900, n)) for n in range(20)])
    assert made.compact(window=8_000).status == "compacted"
    note = get_text(made.view.get_messages()[1])
    assert "request" not in note
    assert note.endswith("without asking the user to repeat anything.]")


def test_system_prompt_open_step_pins_and_a_picture_stay_as_they_are() -> None:
    picture = Message("user", (Text("What is wrong here?"), Image(media_type="image/png", data="QUJD")), "human")
    open_call = make_call("open", "look", '{"at": 1}')
    made, _ = make_scripted_session(
        [make_system_message(), *make_work(12), make_reply("Kept."), picture, *make_read_step(91, "a.py"), open_call]
    )
    kept = next(s for s in made.view.get_visible_messages() if get_text(s.message) == "Kept.")
    made.pin(made.view.path.get_entry(kept.position).id)
    assert made.compact(window=8_000).status == "compacted"
    found = made.view.get_messages()
    assert [found[0], found[1], found[3], found[5]] == [make_system_message(), make_reply("Kept."), picture, open_call]
    assert is_continuation(found[4])
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert check_messages(found, wire) == [], wire


def test_the_request_stays_verbatim_at_every_later_step_and_through_the_next_compactions() -> None:
    """In the original the continuation lives for one request; at the next step the request is in the summary alone."""
    made, _ = make_scripted_session([*make_work(12), make_user_message(REQUEST)], SUMMARY, repeat=True)
    for number in range(4):
        made.append(*[m for n in range(12) for m in make_read_step(number * 100 + n, f"src/more{number}_{n}.py")])
        for window in (8_000, 8_000):
            made.compact(window=window)
            assert sum(REQUEST in get_text(m) for m in made.view.get_messages()) == 1
        made.append(*make_read_step(number * 100 + 50, "src/step.py"))
        assert any(REQUEST in get_text(m) for m in made.view.get_messages())
    assert len(get_blocks(made)) == 4
    made.append(make_user_message("Something else now."), *make_work(12)[1:])
    made.compact(window=8_600)  # the names of the twelve files and the facts before them leave room for it from here on
    (note,) = [m for m in made.view.get_messages() if is_continuation(m)]
    assert extract_request(note) == "Something else now."
    assert "Now finish `lib/billing.py`" in get_newest_summary(made), "the earlier request is told as one"


def test_a_thank_you_is_not_the_request_that_is_continued() -> None:
    made, _ = make_scripted_session([make_user_message(REQUEST), *make_work(12)[1:]], SUMMARY, repeat=True)
    for number, thanks in enumerate(("ok thanks, go on", "merci, continue")):
        made.append(make_user_message(thanks), *[m for n in range(12) for m in make_read_step(number * 20 + n, "a.py")])
        assert made.compact(window=8_000).status == "compacted"
        (note,) = [m for m in made.view.get_messages() if is_continuation(m)]
        assert extract_request(note) == REQUEST
        assert f"## Current request (user)\n{REQUEST}" in get_newest_summary(made) or REQUEST in get_text(note)


@pytest.mark.parametrize(
    ("recall", "way"), [("none", " left out ..."), ("tool", "recall_read"), ("cli", "tenfold expand")]
)
def test_a_request_beyond_a_quarter_of_the_target_is_quoted_by_head_and_tail(recall: RecallMode, way: str) -> None:
    long = "BEGIN " + make_text(4_000, 7) + " END"
    made, _ = make_scripted_session([*make_work(12), make_user_message(long), *make_read_step(92, "b.py")])
    outcome = made.compact(replace(made.compactor.build_call(window=16_000), recall=recall, demand="manual"))
    assert outcome.status == "compacted", outcome.reason
    note = get_text(made.view.get_messages()[-1])
    assert COUNTER.count([note])[0] <= outcome.target // 4
    assert "`BEGIN " in note
    assert " END`" in note
    assert "characters of the request left out" in note
    assert way in note


def test_exact_strings_are_found_again_and_the_earlier_summary_is_sent_once() -> None:
    """In the original they are gone for good, and the earlier summary is sent as block and as first entry."""
    exact = "the port is 48231 and the key begins with q9-Zx"
    made, model = make_scripted_session(
        [*make_work(12), make_reply(exact), make_user_message(REQUEST)], make_brief("Zebra one."), make_brief("Two.")
    )
    made.compact(window=8_000)
    assert made.search("48231")
    made.append(*make_work(12, start=40))
    made.compact(window=8_000)
    ask = model.asks[1]
    assert ask.prompt.count("Zebra one.") == len(HEADINGS)
    assert "<previous-summary>\n## Current State\nZebra one." in ask.prompt
    assert ask.purpose == "update"


def test_a_list_without_a_session_goes_on_from_its_own_compacted_form() -> None:
    contents: list[dict[str, Any]] = [{"role": "user", "content": make_text(900, n)} for n in range(60)]
    contents.append({"role": "user", "content": REQUEST})
    first = compact(contents, window=8_000, model="gpt-4", policy="threshold")
    assert len(first.messages) == 2
    calls = [
        [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": make_text(9_000, n)},
        ]
        for n in range(15)
    ]  # fmt: skip
    second = compact([*first.messages, *(m for c in calls for m in c)], window=8_000, model="gpt-4", policy="threshold")
    assert second.outcome.status == "compacted"
    assert len(second.messages) == 2
    assert second.messages[1] == first.messages[1], "the request is carried on, not the note as the user's words"


# -- how the text is asked for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "tokens", "words"), [(200_000, 10_000, 7_500), (8_000, 800, 600)])
def test_the_briefing_asks_for_four_sections_within_the_published_sizes(window: int, tokens: int, words: int) -> None:
    made, model = make_scripted_session([make_user_message(make_text(4_000, n)) for n in range(window // 1_900)])
    assert made.compact(window=window).status == "compacted"
    (ask,) = model.asks
    assert ask.max_tokens == tokens
    assert f"at most {words} words" in ask.system
    assert "only context" in ask.system
    assert "language" in ask.system
    assert [line for line in ask.prompt.partition("<conversation>")[0].split("\n") if line.startswith("## ")] == [
        *HEADINGS
    ]


def test_the_transcript_has_a_line_for_each_message_and_an_excerpt_of_what_tools_returned() -> None:
    """The original sends only that a tool returned a result: what it returned is lost, and counted all the same."""
    long = "\n".join(f"line {n} {make_text(60, n)}" for n in range(900))
    messages = [
        make_user_message("Look."),
        make_call("c", "look", '{"where": "cellar"}', "I look."),
        make_result("c", long, name="look"),
    ]
    made, model = make_scripted_session([*make_work(12), *messages, make_reply("It is dark.")])
    made.compact(window=16_000)
    prompt = model.asks[0].prompt
    assert "\nuser: Look.\nassistant: I look.\n" in prompt
    assert 'assistant: [called tool: look] {"where": "cellar"}\n' in prompt
    assert "tool: [tool look returned a result]\n<untrusted-data" in prompt
    assert "line 0 " in prompt
    assert "line 899 " in prompt
    assert "line 450 " not in prompt
    assert "assistant: It is dark.\n[End of the conversation]" in prompt


def test_the_to_do_list_of_the_log_is_sent_with_the_order_to_keep_it() -> None:
    arguments = '{"todos": [{"content": "write the tests", "status": "in_progress"}, {"content": "ship it"}]}'
    made, model = make_scripted_session(
        [*make_work(12), make_call("t", "todo_write", arguments), make_result("t", "ok", name="todo_write")]
    )
    made.compact(window=8_000)
    prompt = model.asks[0].prompt
    assert "<todos>\n- [~] write the tests\n- [ ] ship it\n</todos>" in prompt
    assert '"## Todo List"' in prompt.partition("</todos>")[2]
    assert "write the tests" in get_newest_summary(made), "whatever the model does with it"


def test_what_the_summary_model_has_no_room_for_is_left_out_oldest_first_and_said() -> None:
    """The original measures by bytes that it never sends, and drops dialogue to make room for them."""
    talk = [
        m
        for n in range(60)
        for m in (make_user_message(f"What of part {n}?"), make_reply(f"{make_text(300, n)}. Answer {n}."))
    ]
    talk[0] = make_user_message("Never touch the audit table.")
    tools = [m for n in range(10) for m in make_read_step(n, f"src/part{n}.py", words=60)]
    made, model = make_scripted_session([*talk, *tools, make_user_message(REQUEST)], input_tokens=8_000)
    outcome = made.compact(window=16_000)
    prompt = model.asks[0].prompt
    assert COUNTER.count([prompt])[0] <= 8_000
    assert "earlier messages are left out here" in prompt
    assert "Answer 59." in prompt
    (note,) = [n for n in outcome.notes if "had no room" in n]
    assert "messages (0 to " in note
    assert "Never touch the audit table." in get_newest_summary(made), "what is dropped still yields facts"


CHATS: dict[str, tuple[Counter, float]] = {
    "by characters, before any report": (COUNTER, 0.0),
    "by characters, reported": (COUNTER, 1.1),
    "with the model's vocabulary": (BytePairCounter("o200k"), 0.0),
    "with the model's vocabulary, reported": (BytePairCounter("o200k"), 1.02),
}


@pytest.mark.parametrize("name", CHATS)
def test_only_what_is_beyond_four_fifths_of_the_summary_models_window_is_left_out(name: str) -> None:
    """A correction that is known is taken, and a count with a real vocabulary is not doubled."""
    counter, ratio = CHATS[name]
    talk = [m for n in range(220) for m in (make_user_message(make_text(1_600, n)), make_reply(make_text(1_600, n)))]
    model = ScriptedModel([SUMMARY], repeat=True)
    settings_ = with_prompts(SummarySettings(models=("o3",), input_tokens=int(200_000 * 0.8)))
    made = open_session(talk[:-1], threshold(counter, summary=settings_), answerer=Answerer(model=model))
    size = sum(made.conversation.get_message_sizes().values())
    if ratio:
        made.append(talk[-1], usage=Usage.build(int(size * ratio)))
    assert made.compact(replace(made.compactor.build_call(window=200_000), demand="manual")).status == "compacted"
    factor = ratio or (2.0 if counter is COUNTER else 1.0)
    sent = counter.count([model.asks[0].prompt])[0] * factor
    assert min(size * factor, 160_000) * 0.93 <= sent <= 160_000 + 2_000


def test_the_window_of_a_summary_model_nobody_knows_is_that_of_the_conversation() -> None:
    talk = [m for n in range(60) for m in (make_user_message(make_text(1_600, n)), make_reply(make_text(1_600, n)))]
    made, model = make_scripted_session(talk)
    assert made.compact(window=64_000).status == "compacted"
    assert 64_000 * 0.8 * 0.9 <= COUNTER.count([model.asks[0].prompt])[0] * 2 <= 64_000 * 0.8 + 2_000


@pytest.mark.parametrize("name", ["claude-3-5-haiku", "claude-3-haiku", "gpt-4", "gpt-4o"])
def test_a_summary_model_is_asked_for_no_more_than_it_can_write(name: str) -> None:
    """Half the buffer of a large window is 10,000 tokens, and a provider refuses what is above its model's limit."""
    row = find_window_row(name)
    assert row is not None
    talk = [m for n in range(220) for m in (make_user_message(make_text(1_600, n)), make_reply(make_text(1_600, n)))]
    model = ScriptedModel([SUMMARY], repeat=True)
    settings_ = with_prompts(SummarySettings(models=(name,)))
    made = open_session(talk, threshold(COUNTER, summary=settings_), answerer=Answerer(model=model))
    assert made.compact(window=200_000).status == "compacted"
    (ask,) = model.asks
    allowed = int(ask.max_tokens * OUTPUT_SLACK)
    assert allowed <= row.max_output
    assert COUNTER.count([ask.system + ask.prompt])[0] + allowed <= row.window
    assert f"at most {int(ask.max_tokens * WORDS_PER_TOKEN)} words" in ask.system
    assert ask.max_tokens == 10_000 or row.max_output < 12_500


def test_the_earlier_summary_is_part_of_what_must_fit() -> None:
    made, model = make_scripted_session(
        [*make_work(40, words=60), make_user_message(REQUEST)],
        make_brief("Zebra one. " * 20),
        SUMMARY,
        input_tokens=6_000,
    )
    for _ in range(2):
        made.append(*make_work(60, start=60, words=60))
        assert made.compact(window=16_000).status == "compacted"
    assert "<previous-summary>" in model.asks[1].prompt
    assert COUNTER.count([model.asks[1].prompt])[0] * 2 <= 6_000 + 1_500


def test_a_text_that_is_too_long_is_asked_for_again_over_the_same_source_with_half_the_words() -> None:
    """The original summarises the summary again, and accepts by another measure than it decides by."""
    long = make_brief(make_text(6_000, 1))
    made, model = make_scripted_session(
        [*make_work(12), make_user_message(REQUEST)], long, long, make_brief("Short enough.")
    )
    outcome = made.compact(window=8_000)
    assert [re.findall(r"at most (\d+) words", ask.system) for ask in model.asks] == [["600"], ["300"], ["300"]]
    sources = {ask.prompt.partition("<conversation>")[2].partition("</conversation>")[0] for ask in model.asks}
    assert len(sources) == 1
    assert make_text(200, 1) not in model.asks[2].prompt, "what was rejected for its length is no source"
    assert (outcome.rung, outcome.spent.calls) == ("stricter", 3)
    assert "Short enough." in get_newest_summary(made)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_attempts_are_made_than_said_and_the_last_text_is_cut(attempts: int) -> None:
    lines = "\n".join(["- one more fact of the long list"] * 400)
    model = ScriptedModel([ScriptedReply(make_brief(lines))], repeat=True)
    summary = with_prompts(SummarySettings(models=("m",)))
    policy = threshold(COUNTER, summary=summary, max_compaction_attempts=attempts)
    made = open_session([*make_work(12), make_user_message(REQUEST)], policy, answerer=Answerer(model=model))
    outcome = made.compact(window=8_000)
    assert len(model.asks) == attempts
    assert outcome.status == "compacted"
    assert all(heading in get_newest_summary(made) for heading in HEADINGS)
    assert "- one more fact" in get_newest_summary(made)
    assert outcome.tokens_after * 2 < 6_400


def test_sections_of_one_paragraph_each_are_cut_between_sentences() -> None:
    told = "As agreed, the work goes on. " * 400
    made, _ = make_scripted_session([*make_work(12), make_user_message(REQUEST)], make_brief(told), repeat=True)
    assert made.compact(window=8_000).status == "compacted"
    summary = get_newest_summary(made)
    assert [summary.count(f"{heading}\nAs agreed, the work goes on.\n") for heading in HEADINGS] == [1, 1, 1, 1]
    told_lines = [line for line in summary.split("\n") if line.startswith("As agreed")]
    assert set(told_lines) == {"As agreed, the work goes on."}
    assert len(told_lines) > 40, "the room is used"


def test_an_invented_path_is_marked_and_nobody_is_asked_again() -> None:
    bad = make_brief("The work went well.\nIt also rewrote src/ghost/invented.py from scratch.")
    made, model = make_scripted_session([*make_work(12), make_user_message(REQUEST)], bad, repeat=True)
    outcome = made.compact(window=8_000)
    assert [ask.purpose for ask in model.asks] == ["first"]
    assert outcome.status == "compacted"
    assert "The work went well." in get_newest_summary(made)
    assert "It also rewrote src/ghost/invented.py [unconfirmed] from scratch." in get_newest_summary(made)


# -- without a model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", [ScriptedReply(error="503 the provider is down"), ScriptedReply(""), ScriptedReply(finish="tool")]
)
def test_a_summary_is_always_produced(reply: ScriptedReply) -> None:
    """The doc promises it; in the original an error of the sliding window lets the conversation pass as it is."""
    start = "Start. " + make_text(300, 1)
    made, model = make_scripted_session([make_user_message(start), *make_work(12), make_user_message(REQUEST)], reply)
    outcome = made.compact(window=8_000)
    assert (outcome.status, outcome.rung, len(model.asks)) == ("compacted", "mechanical", 1)
    assert outcome.notes
    narrative = get_newest_summary(made).partition("# Facts")[0]
    assert f"user: {start[:FALLBACK_CHARACTERS].rstrip()}" in narrative
    assert "assistant: Part 0 is done.\n" in narrative
    assert narrative.count("[called tool: edit]") == 12, "every message has its line"
    assert all(len(line) <= 220 for line in narrative.split("\n"))


def test_the_mechanical_text_has_the_published_form() -> None:
    items = [
        (0, make_user_message("a" * 200)),
        (1, make_user_message("b" * 201)),
        (2, make_call("c", "look", "{}", "I look.")),
        (3, make_result("c", "secret treasure", name="look")),
    ]
    made = write_fallback("Earlier.", items, budget=10_000, count=COUNTER.count)
    lines = [
        f"user: {'a' * 200}",
        f"user: {'b' * 200}...",
        "assistant: I look. [called tool: look]",
        "tool: [tool look returned] secret treasure",
    ]
    assert made == f"Earlier.{DIVIDER}" + "\n".join(lines)
    assert DIVIDER == "\n\n---\n\n"
    assert write_fallback("", items[2:3], budget=10_000, count=COUNTER.count) == lines[2]


@pytest.mark.parametrize("budget", [9_000, 4_000, 2_000, 1_000, 500])
def test_every_message_has_its_line_as_long_as_there_is_room_for_one(budget: int) -> None:
    """The older lines get shorter before any is left out. The published form drops none, whatever it takes."""
    talk = [m for n in range(40) for m in (make_user_message(f"Q{n} " + make_text(400, n)), make_reply(f"A{n} yes"))]
    made = write_fallback("", list(enumerate(talk)), budget=budget, count=COUNTER.count)
    lines = made.split("\n")
    assert COUNTER.count([made])[0] <= budget
    if budget < 1_000:
        assert re.match(r"\(\d+ of 80 messages have no line here: 40 assistant, \d+ user\.", lines[0])
        assert [line.split()[1] for line in lines[-2:]] == ["Q38", "Q39"]
        return
    assert [line.partition(": ")[2].split()[0] for line in lines] == [f"{who}{n}" for n in range(40) for who in "QA"]
    shown = [len(line.partition(": ")[2].removesuffix("...")) for line in lines if line.startswith("user")]
    assert shown == sorted(shown), "the newest are the longest"
    assert set(shown) <= {LEAST_FALLBACK_CHARACTERS, FALLBACK_CHARACTERS}
    assert COUNTER.count([made])[0] >= min(budget * 9 // 10, 2_100)


SPEAKERS: dict[str, Callable[[str], Message]] = {
    "user": make_user_message,
    "assistant": make_reply,
    "call": lambda text: make_call("c", "look", text),
    "tool": lambda text: make_result("c", text, name="look"),
}


@settings(max_examples=200 if IS_THOROUGH else 80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(SPEAKERS)), st.integers(1, 400)), max_size=120),
    st.integers(0, 4_000),
    st.sampled_from(["", "Earlier.", "An older line.\n" * 200]),
)
def test_words_of_people_keep_sixty_characters_before_a_tool_has_a_line_and_what_has_none_is_counted(
    shape: list[tuple[str, int]], budget: int, previous: str
) -> None:
    """300 messages in 3,400 tokens were lines of 20 characters, half of them `tool: [tool bash returned]...`."""
    said = [(speaker, make_text(size, n).strip()) for n, (speaker, size) in enumerate(shape)]
    items = [(n, SPEAKERS[speaker](f"#{n}# {text}")) for n, (speaker, text) in enumerate(said)]
    made = write_fallback(previous, items, budget=budget, count=COUNTER.count)
    assert COUNTER.count([made])[0] <= budget
    lines = made.rpartition(DIVIDER)[2].split("\n")
    shown = {int(found[1]): found[2] for line in lines if (found := re.search(r"#(\d+)# (.*)", line))}
    if not shown:
        return
    speakers = {said[n][0] for n in shown}
    people = ["user", "assistant"] if speakers & {"call", "tool"} else ["user"] if "assistant" in speakers else []
    for n, (speaker, text) in enumerate(said):
        if speaker in people:
            line = shown[n].removesuffix("...")
            assert text.startswith(line.strip())
            assert len(f"#{n}# {line}") >= min(LEAST_FALLBACK_CHARACTERS, len(f"#{n}# {text}"))
    note = re.match(r"\((\d+) of (\d+) messages have no line here: .* between \[(\d+)\] and \[(\d+)\]", lines[0])
    left_out = sorted(set(range(len(said))) - set(shown))
    assert (note is None) == (not left_out)
    if note is not None:
        assert tuple(map(int, note.groups())) == (len(left_out), len(said), left_out[0], left_out[-1])


def test_the_mechanical_text_is_bounded_over_generations_and_cuts_no_character() -> None:
    """The original carries the whole summary before it, so it grows each time, and cuts within characters."""
    before = ""
    for generation in range(12):
        items = [(n, make_user_message(f"{generation}-{n} " + "编译器🙂" * 80)) for n in range(60)]
        before = write_fallback(before, items, budget=600, count=COUNTER.count)
        assert COUNTER.count([before])[0] <= 600
        assert "\ufffd" not in before
        assert f"{generation}-59" in before, "the newest stay"
        assert re.search(r"\(\d+ of 60 messages have no line here: \d+ user\.", before)
    assert write_fallback("x" * 9_000, [], budget=50, count=COUNTER.count) == ""


# -- any history -------------------------------------------------------------------------------------------------------


def test_a_guard_over_a_store_goes_on_where_another_stopped() -> None:
    store = SqliteStore(":memory:")
    contents = [{"role": "user", "content": make_text(1_500, n)} for n in range(20)]
    requests = []
    for _ in range(2):
        model = ScriptedModel([SUMMARY])
        plugin = new(store=store).add("a", model, with_max_tokens(8_000), counter=CharacterCounter()).plugin_config()
        requests.append({"messages": list(contents)})
        plugin.before_model(Context("a"), requests[-1])
    assert requests[0] == requests[1]
    assert len(requests[1]["messages"]) == 2


def test_a_floor_over_the_window_is_one_event_and_an_overflow_still_compacts() -> None:
    """The original summarises at each step as soon as system prompt and tools alone are over the threshold."""
    told: list[Event] = []
    model = ScriptedModel([SUMMARY], repeat=True)
    policy = threshold(COUNTER, summary=with_prompts(SummarySettings(models=("m",))))
    made = open_session(
        [make_system_message(make_text(16_500, 1))], policy, answerer=Answerer(model=model, listeners=(told.append,))
    )
    for number in range(3):
        made.append(make_user_message(make_text(600, number)), make_reply(make_text(600, number)))
        assert made.compact(window=8_000).status == "unsatisfiable"
    assert not model.asks
    (event,) = [e for e in told if not isinstance(e, CompactionWarning)]
    assert isinstance(event, CompactionSkip)
    assert event.outcome.itemised["system prompt"] >= 4_125
    made.append(*[each for n in range(4) for each in make_read_step(n, "a.py", words=10)])
    outcome = made.compact(replace(made.compactor.build_call(window=8_000), demand="overflow"))
    assert outcome.status == "compacted", "a provider that refused is another matter"
