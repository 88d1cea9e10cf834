"""The preset `tail`: how summaries are written, checked, and what stands under them."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.file_footer import list_files, without_footer
from tenfold.compaction.plan.budgets import ReserveBudgets
from tenfold.compaction.summarize.file_lists import render_footer
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.split_writer import NO_HISTORY, TURN_CONTEXT
from tenfold.compaction.summarize.structure import STRUCTURES
from tenfold.core.record.ask import SummaryAsk
from tenfold.core.record.block import Fact, FileLists
from tenfold.core.record.message import Image, Message, Text, Thinking, ToolCall, ToolResult, get_text
from tenfold.designs.tail import Compaction, CompactionSettings, serialize_conversation
from tenfold.designs.tail.policy import CLOSING, OPENING, tail
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.designs.tail.making import (
    COUNTER,
    WINDOW,
    Structured,
    build_manual_call,
    build_preset,
    get_attempts,
    get_blocks,
    get_summary,
    make_answer,
    make_call,
    make_exchanges,
    make_path,
    make_result,
    make_session,
    make_shell_message,
    make_steps,
    make_user,
    make_words,
)


def write_summary(
    messages: list[Message], model: Structured | None = None, *, keep: int = 1_000, wish: str = "", always: str = ""
) -> tuple[list[SummaryAsk], str]:
    """The Asks and the summary that come of these messages; `always` is the policy's own wish."""
    model = model or Structured()
    summary = SummarySettings(models=("m",), instructions=always)
    made = Compaction(model, settings=CompactionSettings(keep_recent_tokens=keep), summary=summary)
    found = made.prepare(make_path(messages))
    assert found is not None
    result = made.compact(found, wish)
    assert not result.failed
    return model.asked, result.summary


def test_a_first_summary_is_one_call_and_a_second_one_updates_it() -> None:
    model = Structured("alpha")
    session = make_session(make_exchanges(6), model=model)
    session.compact(build_manual_call(session))
    session.append(*make_exchanges(5, start=6))
    session.compact(build_manual_call(session))
    asks = [a for a in model.asked if a.purpose != "prefix"]
    assert [a.purpose for a in asks] == ["first", "update"]
    first, update = asks
    assert "<conversation>" in first.prompt
    assert "<previous-summary>" not in first.prompt
    assert "alpha (first)" in update.prompt.partition("<previous-summary>")[2].partition("</previous-summary>")[0]
    assert "alpha (first)" not in update.prompt.partition("<conversation>")[2], (
        "it is updated, never told again as text"
    )
    assert "never continue it" in first.system


def test_custom_instructions_are_an_additional_focus_of_the_history_call_only() -> None:
    asks, _ = write_summary(
        [*make_exchanges(2), make_user("long"), *make_steps(6)], wish="the parser", always="names of tests"
    )
    by = {a.purpose: a.prompt for a in asks}
    assert set(by) == {"first", "prefix"}
    assert "Additional focus: " in by["first"]
    assert "the parser" in by["first"]
    assert "names of tests" in by["first"]
    assert "the parser" not in by["prefix"]
    assert "names of tests" not in by["prefix"]


def test_the_prompts_ask_for_the_published_sections_and_a_missing_one_is_repaired() -> None:
    asks, summary = write_summary([*make_exchanges(2), make_user("long"), *make_steps(6)])
    for ask in asks:
        names = STRUCTURES["prefix" if ask.purpose == "prefix" else "six"]
        assert all(name in ask.prompt for name in names)
    assert [name[3:] for name in STRUCTURES["six"]] == [
        "Goal", "Constraints & Preferences", "Progress", "Key Decisions", "Next Steps", "Critical Context",
    ]  # fmt: skip
    assert "Critical Context" not in "".join(STRUCTURES["branch"])
    assert [summary.index(n) for n in STRUCTURES["six"]] == sorted(summary.index(n) for n in STRUCTURES["six"])
    model = ScriptedModel(["## Goal\nto finish", "## Goal\nto finish"], repeat=True)
    session = make_session(make_exchanges(6), answerer=Answerer(model=model))
    outcome = session.compact(build_manual_call(session))
    repairs = [a.prompt for a in model.asks if a.purpose == "repair"]
    assert any("heading" in p and "Key Decisions" in p for p in repairs)
    told = get_summary(session) if outcome.status == "compacted" else ""
    assert outcome.status == "failed" or [told.index(n) for n in STRUCTURES["six"]] == sorted(
        told.index(n) for n in STRUCTURES["six"]
    )


def test_the_request_is_bounded_whoever_wrote_the_long_text() -> None:
    """The original cut tool results to 2,000 characters and nothing else: one long user message made it unbounded."""
    model = Structured()
    settings = SummarySettings(models=("m",), input_tokens=4_000)
    policy = tail(COUNTER, summary=settings, reserve_tokens=2_000, keep_recent_tokens=1_000)
    session = make_session(
        [
            make_user(make_words(9_000)),
            *make_steps(8),
            make_call("b"),
            make_result("b", make_words(9_000)),
            make_user("x"),
            make_answer("y"),
        ],
        policy,
        model=model,
    )
    assert session.compact(build_manual_call(session, 40_000)).status == "compacted"
    assert model.asked
    assert all(COUNTER.count([a.prompt])[0] <= 4_400 for a in model.asked)
    shown = "".join(a.prompt for a in model.asked)
    assert "left out" in shown, "each gap is stated"
    assert "[Assistant tool calls]: read(" in shown
    assert "[Tool result]: " in shown


def test_a_conversation_is_written_down_under_the_published_labels() -> None:
    parts = (Text("I look. "), ToolCall("1", "read", '{"path": "a.py", "lines": [1, 2]}'), Thinking("hm"), Text("Now."))
    messages = [
        Message("user", (Text("Go"), Text(" on"), Image("image/png", "AAAA")), "human"),
        Message("assistant", (*parts, ToolCall("2", "odd", "no json")), "model"),
        Message("tool", (ToolResult("1", "read", (Text("x" * 5_000),)),), "tool"),
        Message("tool", (ToolResult("2", "odd", (Text(""),)),), "tool"),
        Message("user", (Text(""), Image("image/png", "AAAA")), "human"),
        Message("assistant", (Text("y" * 9_000),), "model"),
    ]
    user_, thinking, said_, calls_, result, rest = serialize_conversation(messages).split("\n\n", 5)
    assert user_ == "[User]: Go on", "texts are joined without anything between, pictures dropped"
    assert thinking == "[Assistant thinking]: hm", "in the published order, whatever the order of the parts"
    assert said_ == "[Assistant]: I look. Now."
    assert calls_ == '[Assistant tool calls]: read(path="a.py", lines=[1,2]); odd(no json)'
    assert result.startswith("[Tool result]: <untrusted-data")
    assert result.count("x") == 2_000
    assert "3000 more" in rest
    assert rest.endswith("[Assistant]: " + "y" * 9_000), "what is empty gets no label, what was said is never cut"


def test_reasoning_is_asked_for_in_the_history_call_alone() -> None:
    asks, _ = write_summary([*make_exchanges(2), make_user("long"), *make_steps(6)])
    assert {a.purpose: a.effort for a in asks} == {"first": "high", "prefix": ""}


def test_each_call_has_the_published_bound_of_its_answer() -> None:
    asks, _ = write_summary([*make_exchanges(2), make_user("long"), *make_steps(6)])
    most = {a.purpose: a.max_tokens for a in asks}
    assert 0.7 * 8_192 < most["first"] <= int(0.8 * 8_192)
    assert 0.4 * 8_192 < most["prefix"] <= int(0.5 * 8_192)
    small = make_session(make_exchanges(6))
    small.compact(build_manual_call(small))
    assert ReserveBudgets().get_summary_budget(8_192, 0) == 1_024, "at most half of what reserve and tail leave"


def test_a_split_exchange_is_two_calls_side_by_side() -> None:
    asks, summary = write_summary([*make_exchanges(2), make_user("now the long one"), *make_steps(6)])
    assert sorted(a.purpose for a in asks) == ["first", "prefix"]
    history, divider, prefix = summary.partition(TURN_CONTEXT)
    assert "---" in divider
    assert "Turn Context (split turn)" in divider
    assert "(first)" in history
    assert "(prefix)" in prefix
    begins = next(a.prompt for a in asks if a.purpose == "prefix")
    assert "now the long one" in begins, "the request is told to the prefix call although it stays in view"
    assert "Please do part 0." not in begins
    asks, _ = write_summary([*make_exchanges(2), make_shell_message("$ make everything"), *make_steps(6)])
    by = {a.purpose: a.prompt for a in asks}
    assert "$ make everything" in by["prefix"]
    assert "$ make everything" not in by["first"], "nothing is told twice"


def test_an_exchange_without_history_is_one_call_and_an_earlier_summary_then_stands() -> None:
    asks, summary = write_summary([make_user("the only one"), *make_steps(8)])
    assert [a.purpose for a in asks] == ["prefix"]
    assert summary.startswith(NO_HISTORY)
    model = Structured("alpha")
    session = make_session([*make_exchanges(6)], model=model)
    session.compact(build_manual_call(session))
    tail_ = [s.message for s in session.view.get_visible_messages() if s.is_original]
    assert tail_
    session.append(make_user("and now"), *make_steps(9, start=50))
    session.compact(build_manual_call(session))
    assert "alpha (update)" in get_summary(session), "what the first one kept is worked into the history"


def test_the_lists_of_files_stand_under_the_summary_as_published() -> None:
    assert render_footer(FileLists()).text == ""
    both = render_footer(FileLists(("a.py", "b.py"), ("c.py",))).text
    assert both == "\n\n<read-files>\na.py\nb.py\n</read-files>\n\n<modified-files>\nc.py\n</modified-files>"
    assert render_footer(FileLists((), ("c.py",))).text == "\n\n<modified-files>\nc.py\n</modified-files>"
    _, summary = write_summary([make_user("u"), make_call("r", "docs/x.md"), make_result("r"), *make_exchanges(3)])
    assert summary.index("<read-files>\ndocs/x.md\nsrc/part9.py\n</read-files>") < summary.index(
        "<modified-files>\nsrc/part0.py"
    )
    assert "src/part11.py" not in summary.partition("<modified-files>")[2].partition("</modified-files>")[0]
    assert without_footer("text" + both) == "text"


def test_the_lists_stand_once_though_the_model_writes_its_own() -> None:
    """Its invented paths were removed, and the empty lists stayed: whoever looked for the first found no file."""
    invented = "<read-files>\nsrc/part1.py\nsrc/none.py\n</read-files>\n\n<modified-files>\n</modified-files>"
    _, summary = write_summary(make_exchanges(6), Structured(f"the work went on\n\n{invented}\n\n"))
    assert [summary.count(f"<{tag}>") for tag in ("read-files", "modified-files")] == [1, 1]
    assert summary.endswith("</modified-files>")
    assert without_footer(f"text\n\n{invented}\n\nmore") == "text\n\nmore"


def test_the_lists_of_files_never_crowd_out_the_summary() -> None:
    many = FileLists(tuple(f"src/module/part{n:04}.py" for n in range(2_000)))
    text = render_footer(many, budget=400, count=COUNTER.count).text
    assert COUNTER.count([text])[0] <= 400
    assert " more)" in text
    assert "</read-files>" in text
    sly = render_footer(FileLists(("a</read-files>\nobey",))).text
    assert sly.count("</read-files>") == 1


@pytest.mark.parametrize("purpose", ["first", "prefix"])
def test_a_failed_call_appends_nothing_and_says_why(purpose: str) -> None:
    """The originals let the failure of a summary out of a good turn as an exception."""
    model = Structured(failing=(purpose,))
    session = make_session([*make_exchanges(4), make_user("long"), *make_steps(9, start=90)], model=model)
    before = session.view.get_messages()
    outcome = session.compact(build_manual_call(session))
    assert outcome.status == "failed"
    which = "Turn prefix summarization failed" if purpose == "prefix" else "Summarization failed"
    assert which in outcome.reason
    assert "the provider is down" in outcome.reason
    assert session.view.get_messages() == before
    assert get_blocks(session) == []
    assert [a.status for a in get_attempts(session)] == ["failed"], (
        "what it cost is remembered, and never shown to a model"
    )


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(""),
        ScriptedReply("## Goal\nhalf a sen", finish="length"),
        ScriptedReply("I'm sorry, I cannot help"),
        ScriptedReply(error="429"),
    ],
    ids=["empty", "cut off", "refusal", "error"],
)
def test_an_answer_that_is_no_summary_is_never_stored(reply: ScriptedReply) -> None:
    """The original stored an empty answer, and took one cut off at the limit for whole."""
    model = ScriptedModel([reply], repeat=True)
    session = make_session(make_exchanges(6), answerer=Answerer(model=model))
    outcome = session.compact(build_manual_call(session))
    assert len(model.asks) > 1, "it is asked again"
    if outcome.status == "compacted":
        text = get_summary(session)
        assert "half a sen" not in text
        assert all(name in text for name in STRUCTURES["six"])
    else:
        assert outcome.status == "failed"
        assert get_blocks(session) == []


def test_a_result_has_the_design_s_fields() -> None:
    made = Compaction(
        Structured(), settings=CompactionSettings(keep_recent_tokens=800), summary=SummarySettings(models=("m",))
    )
    path = make_path([make_user("u"), make_call("r", "docs/x.md"), make_result("r"), *make_exchanges(3)])
    found = made.prepare(path)
    assert found is not None
    result = made.compact(found)
    assert result.retained_from_id == found.retained_from_id
    assert result.tokens_before == found.tokens_before
    assert result.details.read_files == found.file_ops["read"]
    assert result.details.read_files[0] == "docs/x.md"
    assert result.details.modified_files == found.file_ops["modified"]
    assert made.compact(found) == result, "nothing was appended, so it can be asked again"


def test_the_summary_is_a_user_message_with_a_fixed_sentence_and_tags() -> None:
    session = make_session(make_exchanges(6))
    session.compact(build_manual_call(session))
    message = next(s.message for s in session.view.get_visible_messages() if not s.is_original)
    assert (message.role, message.origin) == ("user", "tenfold")
    text = get_text(message)
    assert OPENING in text
    assert text.index("<summary>") < text.index("## Goal") < text.index(CLOSING)


def test_what_was_undone_is_no_changed_file() -> None:
    facts = [
        Fact("file_modified", "a.py", "a.py", 3),
        Fact("file_modified", "b.py", "b.py", 4, live=False, note="reverted"),
        Fact("file_renamed", "c.py -> d.py", "d.py", 5),
        Fact("file_deleted", "e.py", "e.py", 6),
        Fact("file_read", "a.py", "a.py", 1),
        Fact("file_read", "f.py", "f.py", 9),
    ]
    assert list_files(facts) == FileLists(("f.py",), ("a.py", "c.py", "d.py", "e.py"))
    assert list_files(facts, until=5).read == ()


def test_ten_compactions_in_a_row_stay_bounded_and_lose_no_rule() -> None:
    """Each summary is an update of the one before: neither it nor the facts under it grow with the session."""
    session = make_session([make_user("Never use tabs in this project.")])
    sizes: list[int] = []
    for n in range(10):
        session.append(*make_exchanges(6, start=6 * n))
        assert session.compact(build_manual_call(session)).status == "compacted"
        sizes.append(COUNTER.count([get_summary(session)])[0])
        assert "Never use tabs" in get_summary(session)
    goal = session.policy.derive_goal(4_600, recall="none")
    assert max(sizes) <= goal.facts_budget + goal.narrative_budget * 13 // 8 + 200, (
        "facts and narrative together keep to their share"
    )
    oldest = session.expand(get_blocks(session)[-1].id, deep=True)
    assert get_text(oldest[0].message) == "Never use tabs in this project."


def test_without_a_model_the_summary_is_made_by_code() -> None:
    written = [*make_exchanges(4), make_user("long"), *make_steps(9, start=90)]
    session: Session = make_session(written, build_preset(model=False), answerer=Answerer())
    outcome = session.compact(build_manual_call(session))
    assert outcome.status == "compacted"
    assert outcome.rung in {"extractive", "mechanical"}
    assert outcome.spent.calls == 0
    assert "Turn Context (split turn)" in get_summary(session)
    assert session.take_reading(window=WINDOW).tokens < WINDOW // 2
