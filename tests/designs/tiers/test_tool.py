"""`tiers`: the tool `compact` and the command `/compact`."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.meter.reading import AnchoredEstimator
from tenfold.core.record.message import Message, get_text
from tenfold.designs.tiers import (
    MINIMUM_TOKENS,
    NOT_NEEDED,
    CompactionStatus,
    CompactTool,
    build_listener,
    get_summary,
    run_compact_command,
)
from tenfold.designs.tiers.policy import tiers
from tenfold.errors import UnknownFormat, UsageError
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.designs.tiers.making import COUNTER, GOOD
from tests.engine.making import (
    FILLER,
    Telling,
    get_blocks,
    make_call,
    make_reply,
    make_result,
    make_user_message,
    open_session,
)

WINDOW = 40_000
"""Trigger 19,200, target 14,400, by the counter's own numbers."""


def build_policy() -> Policy:
    made = tiers(COUNTER, summary=SummarySettings(models=("small",)))
    return replace(made, estimator=AnchoredEstimator(1.0))


def make_talk(tokens: int) -> list[Message]:
    """Questions and answers of about so many tokens, and the call of the tool at the end."""
    out: list[Message] = []
    while COUNTER.count(["".join(get_text(m) for m in out)])[0] < tokens:
        out += [make_user_message(f"{len(out)}: {FILLER * 10}"), make_reply(f"{len(out)}: {FILLER * 10}")]
    return [*out, make_user_message("Now the migration."), make_call("k", "compact")]


def make_tool_session(tokens: int, model: object, told: list[object] | None = None) -> Session:
    listen = () if told is None else (build_listener(told.append),)
    answerer = Answerer(model=model, listeners=listen)  # type: ignore[arg-type]
    return open_session(make_talk(tokens), build_policy(), answerer=answerer)


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_the_tool_is_called_compact_and_takes_an_optional_focus(wire: str) -> None:
    schema = CompactTool(make_tool_session(100, None)).build_schema(wire)
    inner = schema["function"] if wire == "openai-chat" else schema
    assert isinstance(inner, dict)
    assert inner["name"] == "compact"
    parameters = inner["input_schema" if wire == "anthropic" else "parameters"]
    assert list(parameters["properties"]) == ["focus"]
    assert parameters["properties"]["focus"]["type"] == "string"
    assert parameters["required"] == []
    with pytest.raises(UnknownFormat):
        CompactTool(make_tool_session(100, None)).build_schema("carrier pigeon")


def test_its_result_is_the_summary_and_the_status_is_told() -> None:
    """The original gave a placeholder, later rewritten to two sizes: the model never read what survived."""
    told: list[object] = []
    model = Telling(GOOD)
    session = make_tool_session(18_000, model, told)
    result = CompactTool(session, window=WINDOW).handle({"focus": "the migration of the orders table"})
    summary = get_summary(session)
    assert summary is not None
    assert summary in result
    assert "## Task State" in result
    assert "the migration of the orders table" in model.asked[0].prompt
    (status,) = told
    assert isinstance(status, CompactionStatus)
    assert result.startswith(status.line)
    assert get_blocks(session)[0].reason.startswith("tool")
    session.append(make_result("k", result, name="compact"))
    assert session.view.get_messages()[-1] == make_result("k", result, name="compact")
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert session.conversation.find_violations(wire) == ()


def test_under_the_target_it_says_that_no_compaction_is_needed() -> None:
    """The original left its placeholder behind there: a silent no-op."""
    model = Telling(GOOD)
    session = make_tool_session(12_000, model)
    before = session.view.get_messages()
    assert CompactTool(session, window=WINDOW).handle({}) == NOT_NEEDED == "No compaction needed"
    assert session.view.get_messages() == before
    assert model.asked == []


def test_below_the_trigger_and_above_the_target_the_tool_compacts() -> None:
    session = make_tool_session(16_000, Telling(GOOD))
    assert session.compact(window=WINDOW).status == "nothing"
    assert "compacted" in CompactTool(session, window=WINDOW).handle()
    assert session.take_reading(window=WINDOW).tokens <= 14_400


def test_below_10000_tokens_the_tool_is_not_eligible() -> None:
    """The original designed the limit and did not build it: a model could compact over and over."""
    model = Telling(GOOD)
    session = make_tool_session(9_000, model)
    assert MINIMUM_TOKENS == 10_000
    used = session.take_reading(window=20_000).tokens
    assert 7_200 < used < 10_000  # above the target in this window, so that only the limit holds it back
    result = CompactTool(session, window=20_000).handle({"focus": "x"})
    assert result == f"{NOT_NEEDED}: the context has {used:,} tokens, and this is of use from 10,000 on"
    assert model.asked == []
    assert get_blocks(session) == []


def test_a_failure_is_told_as_the_result() -> None:
    session = make_tool_session(18_000, ScriptedModel([ScriptedReply(error="HTTP 500")], repeat=True))
    before = session.view.get_messages()
    result = CompactTool(session, window=WINDOW).handle({})
    assert result.startswith("Not compacted: ")
    assert "HTTP 500" in result
    assert session.view.get_messages() == before


def test_wrong_arguments_and_an_unknown_window_are_answered_not_raised() -> None:
    session = make_tool_session(18_000, Telling(GOOD))
    assert "string" in CompactTool(session, window=WINDOW).handle({"focus": 3})
    assert CompactTool(session).handle({}).startswith("Not compacted: ")


def test_where_tool_outputs_were_enough_the_result_says_so_and_gives_the_facts() -> None:
    history = [make_user_message("Never touch db.py. Fix the build.")]
    for n in range(10):
        output = f"run {n}\n" + "output\n" * 6_000
        history += [make_call(f"c{n}", "bash", '{"command": "make"}'), make_result(f"c{n}", output, name="bash")]
    model = Telling(GOOD)
    session = open_session([*history, make_call("k", "compact")], build_policy(), answerer=Answerer(model=model))
    result = CompactTool(session, window=WINDOW).handle({})
    assert "compacted" in result
    assert model.asked == []
    assert "make" in result or "Only tool outputs were shortened." in result


def test_the_coroutine_side_gives_the_same() -> None:
    session = make_tool_session(18_000, Telling(GOOD))
    tool = CompactTool(session, window=WINDOW)
    result = asyncio.run(tool.ahandle(AsyncSession(session), {"focus": "the migration"}))
    assert get_summary(session) is not None
    assert (get_summary(session) or "") in result


def test_the_command_runs_the_full_pipeline_with_what_follows_as_focus() -> None:
    model = Telling(GOOD)
    session = make_tool_session(18_000, model)
    outcome = run_compact_command(session, "/compact the migration", window=WINDOW)
    assert outcome.status == "compacted"
    assert {r.kind for r in get_blocks(session)[0].replacements} == {"summary"}
    assert "the migration" in model.asked[0].prompt
    assert run_compact_command(session, window=WINDOW).status == "nothing"
    with pytest.raises(UsageError):
        run_compact_command(session)


def test_the_tool_says_when_to_call_it_and_what_it_returns() -> None:
    text = CompactTool.description
    for words in ("something new", "work is finished", "lose track", "The result says what was kept"):
        assert words in text
