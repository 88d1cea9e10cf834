"""`before_model` and `after_model`: what adapters, an agent and a gateway call around every request, in every wire."""

from __future__ import annotations

import asyncio
import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.core.record.entry import Usage
from tenfold.core.view.rules import validate
from tenfold.designs.clip.policy import clip
from tenfold.errors import UsageError
from tenfold.session import AsyncSession, Session
from tenfold.session.requests import read_request, read_usage
from tests.engine.making import (
    COUNTER,
    FILLER,
    build_policy,
    get_blocks,
    get_entries,
    make_system_message,
    make_user_message,
    open_session,
)

Item = dict[str, Any]
ARGUMENTS = '{"path": "a.py"}'
BODY = FILLER * 12


def build_chat_step(number: int) -> list[Item]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": ARGUMENTS}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": BODY},
    ]


def build_anthropic_step(number: int) -> list[Item]:
    return [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"p": "a"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": BODY}]},
    ]


def build_responses_step(number: int) -> list[Item]:
    return [
        {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": f"c{number}", "output": BODY},
    ]


def build_gemini_step(number: int) -> list[Item]:
    return [
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": f"a{number}.py"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": BODY}}}]},
    ]


TEXT: dict[str, Callable[[str], Item]] = {
    "openai-chat": lambda t: {"role": "user", "content": t},
    "anthropic": lambda t: {"role": "user", "content": t},
    "openai-responses": lambda t: {"role": "user", "content": t},
    "gemini": lambda t: {"role": "user", "parts": [{"text": t}]},
}
STEP = {
    "openai-chat": build_chat_step,
    "anthropic": build_anthropic_step,
    "openai-responses": build_responses_step,
    "gemini": build_gemini_step,
}
FIELD = {"openai-chat": "messages", "anthropic": "messages", "openai-responses": "input", "gemini": "contents"}
MORE: dict[str, Item] = {
    "openai-chat": {"model": "gpt-4o", "max_completion_tokens": 500, "tools": [{"type": "function"}]},
    "anthropic": {"model": "claude-x", "max_tokens": 500, "system": "Be careful."},
    "openai-responses": {"model": "gpt-4o", "instructions": "Be careful.", "max_output_tokens": 500},
    "gemini": {"model": "gemini-x", "config": {"system_instruction": "Be careful.", "max_output_tokens": 500}},
}
USAGE: dict[str, Item] = {
    "openai-chat": {
        "usage": {"prompt_tokens": 900, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 600}}
    },
    "anthropic": {
        "usage": {
            "input_tokens": 100,
            "cache_read_input_tokens": 600,
            "cache_creation_input_tokens": 200,
            "output_tokens": 7,
        }
    },
    "openai-responses": {
        "status": "completed",
        "usage": {"input_tokens": 900, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 600}},
    },
    "gemini": {"usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 7, "cachedContentTokenCount": 600}},
}
WIRES = list(STEP)


def build_request(wire: str, steps: int) -> Item:
    items = [TEXT[wire]("Always run the tests. Please tidy up."), *(i for n in range(steps) for i in STEP[wire](n))]
    return {FIELD[wire]: items, **MORE[wire]}


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_fits_goes_out_as_it_came(wire: str) -> None:
    session, given = open_session(), build_request(wire, 3)
    sent = session.before_model(given, window=20_000)
    assert sent == given
    assert sent is not given
    assert all(a is b for a, b in zip(sent[FIELD[wire]], given[FIELD[wire]], strict=True))
    assert session.outcome is not None
    assert session.outcome.status == "nothing"


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_does_not_fit_is_brought_down_and_untouched_items_are_the_same_objects(wire: str) -> None:
    session, given = open_session(), build_request(wire, 30)
    before = copy.deepcopy(given)
    sent = session.before_model(given, window=8_000)
    assert given == before
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    items = sent[FIELD[wire]]
    assert {k: v for k, v in sent.items() if k != FIELD[wire]} == {k: v for k, v in given.items() if k != FIELD[wire]}
    assert validate(items, wire) == []
    given_ids = {id(i) for i in given[FIELD[wire]]}
    assert sum(1 for i in items if i in given[FIELD[wire]]) == sum(1 for i in items if id(i) in given_ids)
    assert items[0] is given[FIELD[wire]][0]
    assert len(str(items)) < len(str(given[FIELD[wire]])) / 2


@pytest.mark.parametrize("wire", WIRES)
def test_the_raw_history_sent_again_gives_the_same_view_and_a_kept_prefix(wire: str) -> None:
    session, given = open_session(), build_request(wire, 30)
    first = session.before_model(given, window=8_000)[FIELD[wire]]
    given[FIELD[wire]] += [*STEP[wire](40), TEXT[wire]("go on")]
    second = session.before_model(given, window=8_000)[FIELD[wire]]
    assert second[: len(first)] == first
    assert second[-1] is given[FIELD[wire]][-1]
    assert len(get_blocks(session)) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_what_was_reported_calibrates_the_next_reading(wire: str) -> None:
    session, given = open_session(), build_request(wire, 2)
    session.before_model(given, window=20_000)
    estimate = sum(session.conversation.get_message_sizes().values())
    session.after_model(USAGE[wire])
    given[FIELD[wire]] += STEP[wire](7)
    session.before_model(given, window=20_000)
    reading = session.take_reading(window=20_000)
    assert reading.source == "reported"
    grown = sum(session.conversation.get_message_sizes().values()) - estimate
    assert reading.tokens == pytest.approx(900 + reading.slope * grown, abs=2)


@pytest.mark.parametrize("wire", WIRES)
def test_usage_counts_the_whole_prompt_in_every_wire(wire: str) -> None:
    usage = read_usage(USAGE[wire], model="m")
    assert usage is not None
    assert (usage.prompt, usage.output, usage.cache_read, usage.model) == (900, 7, 600, "m")


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"usage": None},
        {"usage": {"output_tokens": 9}},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 3}},
        {"status": "failed", "usage": {"input_tokens": 9}},
        {"error": {"message": "no"}, "usage": {"input_tokens": 9}},
        "nothing",
        None,
    ],
)
def test_partial_failed_and_empty_reports_are_left_out(report: object) -> None:
    session = open_session([make_user_message("go")])
    session.after_model(report)
    assert read_usage(report) is None
    session.append(make_user_message("x"))
    assert session.take_reading(window=9_000).source == "estimated"


def test_system_prompt_and_tools_given_apart_are_counted() -> None:
    small, large = open_session(), open_session()
    given = build_request("openai-responses", 8)
    small.before_model(given, window=8_000)
    large.before_model({**given, "instructions": FILLER * 500}, window=8_000)
    assert small.outcome is not None
    assert large.outcome is not None
    assert (small.outcome.status, large.outcome.status) == ("nothing", "unsatisfiable")
    assert large.outcome.itemised["given apart"] > 5_000


def test_a_policy_without_that_check_point_acts_at_the_hard_limit_only() -> None:
    quiet = replace(build_policy(), checks=("end_of_run",))
    given = build_request("openai-chat", 19)
    soft = open_session()
    soft.before_model(given, window=8_000)
    hard = open_session((), quiet)
    hard.before_model(given, window=8_000)
    assert (get_last_status(soft), get_last_status(hard)) == ("compacted", "")
    given["messages"] += [i for n in range(40, 60) for i in build_chat_step(n)]
    hard.before_model(given, window=8_000)
    assert get_last_status(hard) == "compacted"


def get_last_status(session: Session) -> str:
    """How the newest check ended, "" where none was made."""
    return session.outcome.status if session.outcome is not None else ""


def test_a_plain_string_is_one_user_message() -> None:
    for wire in ("openai-responses", "gemini"):
        session = open_session()
        given = {FIELD[wire]: "hello", "model": "m"}
        assert session.before_model(given, window=9_000) == given
        assert [m.role for m in session.view.get_messages()] == ["user"]


def test_requests_without_a_whole_conversation_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="messages, input, contents"):
        open_session().before_model({"prompt": "x"})
    with pytest.raises(UsageError, match="previous_response_id"):
        open_session().before_model({"input": "x", "previous_response_id": "r1"})


def test_claude_by_name_and_by_shape() -> None:
    plain = [{"role": "user", "content": "hi"}]
    assert read_request({"messages": plain, "model": "claude-x"}).wire == "anthropic"
    assert read_request({"messages": plain, "model": "gpt-4o"}).wire == "openai-chat"
    routed = [{"role": "system", "content": "s"}, *plain]
    assert read_request({"messages": routed, "model": "anthropic/claude-x"}).wire == "openai-chat"
    assert read_request({"messages": plain, "model": "gpt-4o"}, wire="anthropic").wire == "anthropic"


PICTURE: Item = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
SOURCE: Item = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


@pytest.mark.parametrize(
    ("wire", "messages"),
    [
        ("openai-chat", [{"role": "user", "content": [PICTURE]}]),
        ("openai-chat", [{"role": "user", "content": "go"}, build_chat_step(0)[0]]),
        ("anthropic", [{"role": "user", "content": [{"type": "image", "source": SOURCE}]}]),
        ("anthropic", [{"role": "user", "content": "go"}, *build_anthropic_step(0)]),
    ],
)
def test_what_the_items_tell_goes_before_the_name_of_the_model(wire: str, messages: list[Item]) -> None:
    for model in ("anthropic/claude-x", "claude-x", "gpt-4o"):
        assert read_request({"messages": messages, "model": model}).wire == wire


def test_a_picture_sent_to_claude_by_openais_format_is_counted_as_one_and_known_again() -> None:
    session = open_session()
    items: list[Item] = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, PICTURE]}]
    session.before_model({"messages": items, "model": "anthropic/claude-x"}, window=200_000)
    assert session.take_reading(window=200_000).tokens < 5_000
    session.before_model({"messages": [*items, *build_chat_step(0)], "model": "anthropic/claude-x"}, window=200_000)
    assert len(get_entries(session)) == 3


def test_the_summary_of_another_session_is_one_of_unknown_source() -> None:
    session, given = open_session(), build_request("openai-chat", 90)
    ours = next(i for i in session.before_model(given, window=8_000)["messages"] if "<tenfold-summary" in str(i))
    other = Session.create(session.address.__class__(session.address.store, "other"), build_policy())
    other.before_model({"model": "gpt-4o", "messages": [ours, {"role": "user", "content": "go"}]}, window=8_000)
    assert [m.origin for m in other.view.get_messages()] == ["harness", "human"]


def test_the_async_side_does_the_same() -> None:
    given = build_request("openai-chat", 30)
    session, twin = open_session(), open_session()

    async def run_async_side() -> Item:
        side = AsyncSession(twin)
        sent = await side.before_model(given, window=8_000)
        await side.after_model(USAGE["openai-chat"])
        return sent

    sent = asyncio.run(run_async_side())
    assert len(sent["messages"]) == len(session.before_model(given, window=8_000)["messages"])
    assert twin.outcome is not None
    assert twin.outcome.status == "compacted"
    twin.append(make_system_message("x"))
    assert isinstance(twin.conversation.pending_usage, Usage)


def test_usage_in_objects_of_the_sdks_is_read() -> None:
    anthropic = pytest.importorskip("anthropic.types", reason="the extra `sdk` is not installed")
    chat = pytest.importorskip("openai.types", reason="the extra `sdk` is not installed")
    google = pytest.importorskip("google.genai.types", reason="the extra `sdk` is not installed")
    counts = USAGE["gemini"]["usageMetadata"]
    reports = (
        anthropic.Usage.model_validate(USAGE["anthropic"]["usage"]),
        chat.CompletionUsage.model_validate({**USAGE["openai-chat"]["usage"], "total_tokens": 907}),
        google.GenerateContentResponse(
            usage_metadata=google.GenerateContentResponseUsageMetadata.model_validate(counts)
        ),
    )
    for report in reports:
        usage = read_usage(report)
        assert usage is not None
        assert (usage.prompt, usage.output, usage.cache_read) == (900, 7, 600)


def read_path(path: str) -> str:
    """Reads a file."""
    return path


def test_settings_in_an_object_of_geminis_sdk_are_read() -> None:
    types = pytest.importorskip("google.genai.types", reason="the extra `sdk` is not installed")
    content = types.Content(parts=[types.Part(text="Be careful.")])
    for said in ("Be careful.", content):
        config = types.GenerateContentConfig(system_instruction=said, max_output_tokens=500, tools=[read_path])
        read = read_request({**build_request("gemini", 1), "config": config})
        assert (read.output_reserve, len(read.overhead_texts)) == (500, 2)
        assert any("Be careful." in text for text in read.overhead_texts)


def test_system_text_of_ours_goes_into_a_copy_of_geminis_settings() -> None:
    types = pytest.importorskip("google.genai.types", reason="the extra `sdk` is not installed")
    transformers = pytest.importorskip("google.genai._transformers", reason="the extra `sdk` is not installed")
    theirs = types.Content(parts=[types.Part(text="Be careful.")])
    for config in (
        types.GenerateContentConfig(temperature=0.5),
        types.GenerateContentConfig(system_instruction="Be careful.", temperature=0.5),
        types.GenerateContentConfig(system_instruction=theirs, temperature=0.5),
        {"system_instruction": theirs, "temperature": 0.5},
    ):
        before = copy.deepcopy(config)
        session = open_session((), clip(COUNTER))
        sent = session.before_model({**build_request("gemini", 40), "config": config}, window=8_000)
        assert get_last_status(session) == "compacted"
        assert sent.keys() == {"model", "contents", "config"}
        assert config == before
        assert type(sent["config"]) is type(config)
        made = types.GenerateContentConfig.model_validate(sent["config"], from_attributes=True)
        assert made.temperature == 0.5
        with warnings.catch_warnings(action="error"):
            made.model_dump()
        told = "".join(part.text for part in transformers.t_content(made.system_instruction).parts)
        assert told.count("Be careful.") == str(config).count("Be careful.")
        assert len(told) > 100
