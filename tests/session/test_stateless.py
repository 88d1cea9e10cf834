"""`tenfold.compact` on plain lists: every format, as dicts and as the objects of the SDKs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

import tenfold
from tenfold.core.record.entry import MessageEntry
from tenfold.errors import UnknownFormat, UnknownRole, UsageError

Messages = list[Any]
RULE = "Never touch the file legacy.py, and always answer in English."
STEPS = 30
OUTPUT = "\n".join(f"row {n} of the listing, with some words to fill it" for n in range(40))


def make_output(n: int) -> str:
    """A long output whose own word stands where no stub quotes it."""
    return f"number {n}\n{OUTPUT[:900]}\ntag{n:03d} in the middle\n{OUTPUT[900:]}"


def build_openai_chat() -> Messages:
    out: Messages = [{"role": "system", "content": "You are a helper."}, {"role": "user", "content": RULE}]
    for n in range(STEPS):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": f'{{"command": "list {n}"}}'},
        }
        out += [
            {"role": "assistant", "content": f"Looking at {n}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": make_output(n)},
        ]
    return [*out, {"role": "user", "content": "Now finish."}]


def build_openai_responses() -> Messages:
    out: Messages = [{"role": "user", "content": RULE}]
    for n in range(STEPS):
        out += [
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"gAAA{n}"},
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"c{n}",
                "name": "bash",
                "arguments": f'{{"command": "list {n}"}}',
            },
            {"type": "function_call_output", "call_id": f"c{n}", "output": make_output(n)},
        ]
    return [*out, {"role": "user", "content": "Now finish."}]


def build_anthropic() -> Messages:
    out: Messages = [{"role": "user", "content": RULE}]
    for n in range(STEPS):
        thinking = {"type": "thinking", "thinking": f"hm {n}", "signature": f"sig{n}=="}
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": "bash", "input": {"command": f"list {n}"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": make_output(n)}
        out += [{"role": "assistant", "content": [thinking, use]}, {"role": "user", "content": [result]}]
    return [*out, {"role": "assistant", "content": "Done so far."}, {"role": "user", "content": "Now finish."}]


def build_gemini() -> Messages:
    out: Messages = [{"role": "user", "parts": [{"text": RULE}]}]
    for n in range(STEPS):
        call = {"functionCall": {"name": "bash", "args": {"command": f"list {n}"}}, "thoughtSignature": "c2ln"}
        response = {"functionResponse": {"name": "bash", "response": {"output": make_output(n)}}}
        out += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]
    return [
        *out,
        {"role": "model", "parts": [{"text": "Done so far."}]},
        {"role": "user", "parts": [{"text": "Now finish."}]},
    ]


FORMATS: dict[str, Callable[[], Messages]] = {
    "openai-chat": build_openai_chat,
    "openai-responses": build_openai_responses,
    "anthropic": build_anthropic,
    "gemini": build_gemini,
}
formats = pytest.mark.parametrize("wire", FORMATS)


def dump_messages(messages: Messages) -> str:
    return json.dumps([m if isinstance(m, dict) else m.model_dump(mode="json") for m in messages], ensure_ascii=False)


@formats
def test_a_list_comes_back_smaller_valid_and_in_its_format(wire: str) -> None:
    messages = FORMATS[wire]()
    before = copy.deepcopy(messages)
    result = tenfold.compact(messages, to=2_500)
    assert messages == before, "the input is never changed"
    assert result.wire == wire
    assert result.outcome.status == "compacted"
    assert result.outcome.tokens_after <= 2_500 < result.outcome.tokens_before
    assert result.outcome.violations == ()
    assert RULE in dump_messages(result.messages)
    assert "Now finish." in dump_messages(result.messages)
    again = tenfold.compact(result.messages, to=50_000)
    assert again.wire == wire
    assert again.outcome.status == "nothing"
    assert again.messages == result.messages


@formats
def test_what_was_not_touched_are_the_very_objects(wire: str) -> None:
    messages = FORMATS[wire]()
    result = tenfold.compact(messages, to=2_500)
    given = {id(m) for m in messages}
    same = [m for m in result.messages if id(m) in given]
    assert same[-1] is messages[-1]
    assert len(same) >= 2
    assert all(m not in messages for m in result.messages if id(m) not in given), "what is equal is the same"
    order = [next(i for i, m in enumerate(messages) if m is s) for s in same]
    assert order == sorted(order)
    untouched = tenfold.compact(messages, to=100_000)
    assert all(a is b for a, b in zip(untouched.messages, messages, strict=True))
    assert untouched.messages is not messages


@formats
def test_a_second_compaction_never_takes_the_summary_for_the_users_words(wire: str) -> None:
    first = tenfold.compact(FORMATS[wire](), to=2_500)
    assert "tenfold-summary" in dump_messages(first.messages)
    more = FORMATS[wire]()[-(2 * STEPS) : -1]
    last = FORMATS[wire]()[-1]
    second = tenfold.compact([*first.messages, *more, last], to=2_500)
    assert second.outcome.status == "compacted"
    assert RULE in dump_messages(second.messages), "what had to be kept is still there"
    session = second.session
    humans = [m for m in session.view.get_messages() if m.origin == "human"]
    assert humans
    assert not any("tenfold-summary" in tenfold_text for tenfold_text in (str(m.parts) for m in humans))
    rules = [
        f.text
        for e in session.view.state.live_blocks
        for f in getattr(session.view.path.get_entry(e), "facts", ())
        if f.kind == "rule"
    ]
    assert not any("tenfold-summary" in rule for rule in rules)


def test_an_openai_sdk_object_is_taken_and_given_back() -> None:
    types = pytest.importorskip("openai.types.chat", reason="the extra `sdk` is not installed")
    messages = build_openai_chat()
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            messages[at] = types.ChatCompletionMessage.model_validate(message)
    result = tenfold.compact(messages, to=2_500)
    objects = [m for m in result.messages if isinstance(m, types.ChatCompletionMessage)]
    assert objects
    assert all(any(m is given for given in messages) for m in objects)
    assert result.outcome.violations == ()


def test_openai_responses_sdk_objects_are_taken_and_given_back() -> None:
    types = pytest.importorskip("openai.types.responses", reason="the extra `sdk` is not installed")
    messages = build_openai_responses()
    for at, message in enumerate(messages):
        if message.get("type") == "function_call":
            messages[at] = types.ResponseFunctionToolCall.model_validate(message)
        if message.get("type") == "reasoning":
            messages[at] = types.ResponseReasoningItem.model_validate(message)
    result = tenfold.compact(messages, to=2_500)
    assert result.wire == "openai-responses"
    objects = [m for m in result.messages if isinstance(m, types.ResponseFunctionToolCall)]
    assert objects
    assert all(any(m is given for given in messages) for m in objects)


def test_anthropic_sdk_objects_are_taken_and_given_back() -> None:
    types = pytest.importorskip("anthropic.types", reason="the extra `sdk` is not installed")
    rest = {
        "id": "msg",
        "type": "message",
        "model": "m",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    messages = build_anthropic()
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and isinstance(message["content"], list):
            blocks = types.Message.model_validate(rest | message).content
            messages[at] = {"role": "assistant", "content": blocks}
    result = tenfold.compact(messages, to=2_500)
    kept = [m for m in result.messages if m["role"] == "assistant" and not isinstance(m["content"], str)]
    assert any(any(m is given for given in messages) for m in kept)
    assert result.outcome.violations == ()


def test_gemini_sdk_objects_are_taken_and_given_back() -> None:
    types = pytest.importorskip("google.genai.types", reason="the extra `sdk` is not installed")
    messages = [types.Content.model_validate(m) for m in build_gemini()]
    result = tenfold.compact(messages, to=2_500)
    assert result.wire == "gemini"
    objects = [m for m in result.messages if isinstance(m, types.Content)]
    assert objects
    assert all(any(m is given for given in messages) for m in objects)


@formats
def test_tools_come_with_the_stubs_that_name_them(wire: str) -> None:
    messages = FORMATS[wire]()
    result = tenfold.compact(messages, to=6_000, recall="tool")
    assert result.tools is not None
    assert "recall_read(" in dump_messages(result.messages)
    entry = dump_messages(result.messages).split('recall_read(entry=\\"')[1].split('\\"')[0].rstrip("\\")
    answer = result.tools.handle("recall_read", {"entry": entry})
    assert OUTPUT.splitlines()[-1] in answer
    assert len(result.tools.build_schemas(wire)) == 3
    assert "tag004 in the middle" not in dump_messages(result.messages)
    assert "tag004 in the middle" in result.tools.handle("recall_search", {"words": "tag004"})
    plain = tenfold.compact(messages, to=6_000)
    assert plain.tools is None
    assert "recall_" not in dump_messages(plain.messages)


def test_system_and_tools_count_towards_the_target() -> None:
    messages = build_openai_chat()
    alone = tenfold.compact(messages, to=3_000)
    beside = tenfold.compact(
        messages, to=3_000, system="Many rules. " * 300, tools=[{"name": "bash", "text": "x " * 200}]
    )
    assert beside.outcome.tokens_before - alone.outcome.tokens_before > 900
    assert beside.outcome.tokens_after <= 3_000
    assert len(dump_messages(beside.messages)) < len(dump_messages(alone.messages))


def test_a_window_or_a_known_model_decides_when_there_is_no_target() -> None:
    messages = build_openai_chat()
    assert tenfold.compact(messages, window=200_000).outcome.status == "nothing"
    assert tenfold.compact(messages, window=16_000).outcome.status == "compacted"
    assert tenfold.compact(messages, window=30_000).outcome.status == "nothing"
    assert tenfold.compact(messages, window=30_000, output_reserve=12_000).outcome.status == "compacted"
    assert tenfold.compact(messages, model="gpt-4o").outcome.status == "nothing"
    with pytest.raises(UsageError, match="neither a target nor a window"):
        tenfold.compact(messages)


def test_a_short_talk_with_a_recording_or_a_drawn_image_fits() -> None:
    data = "A" * 1_900_000
    recording = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    heard = [{"role": "user", "content": [recording]}, {"role": "assistant", "content": "It says hello."}]
    drawn = [{"role": "user", "content": "draw"}, {"type": "image_generation_call", "id": "ig_1", "result": data}]
    for wire, talk in (("openai-chat", heard), ("openai-responses", drawn)):
        messages = [*talk, {"role": "user", "content": "and now?"}]
        result = tenfold.compact(messages, model="gpt-4o", format=wire)
        assert (result.outcome.status, result.messages) == ("nothing", messages)
        assert result.outcome.tokens_before < 3_000


def test_an_outcome_says_what_the_provider_counts_before_and_after() -> None:
    result = tenfold.compact(build_openai_chat(), window=16_000, model="gpt-4o")
    before, after = result.outcome.reading_before, result.outcome.reading_after
    assert before is not None
    assert after is not None
    assert (before.tokens, after.tokens) == (result.outcome.tokens_before, result.outcome.tokens_after)
    assert 0 < after.low < after.tokens < after.high < before.low < before.high
    assert (before.window, before.evidence) == (16_000, ("tokenizer of the family",))
    unchanged = tenfold.compact(build_openai_chat(), window=200_000, model="claude-opus-4-7").outcome
    assert unchanged.reading_before == unchanged.reading_after
    assert unchanged.reading_before is not None
    assert unchanged.reading_before.low > before.high, "Claude's tokens are more than those of the same words here"


def test_a_reading_counts_what_is_sent_besides_the_list_and_media_of_unknown_size() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}
    messages = [{"role": "user", "content": [image]}]
    bare = tenfold.compact(messages, window=100_000, model="gpt-4o").outcome.reading_after
    told = tenfold.compact(messages, window=100_000, model="gpt-4o", system="Be brief. " * 500).outcome.reading_after
    assert bare is not None
    assert told is not None
    assert told.tokens > bare.tokens + 1_000
    assert bare.evidence == ("tokenizer of the family", "media of unknown size")
    assert bare.high - bare.low > 1_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"summarizer": "openai:gpt-4o-mini"}, r"ProviderModel\('openai:gpt-4o-mini'\)"),
        ({"summarizer": 7}, "has no answer"),
        ({"recall": "x"}, "one of none, tool, cli"),
        ({"policy": None}, "a name .*tenfold.* or a Policy"),
        ({"model": 3}, "as in 'gpt-4o'"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named_with_what_is_meant(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tenfold.compact(build_openai_chat(), to=3_000, **given)


def test_what_is_no_message_says_so() -> None:
    with pytest.raises(UnknownFormat):
        tenfold.compact([{"colour": "blue"}], to=100)
    with pytest.raises(UnknownRole, match="wizard"):
        tenfold.compact([{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}], to=100)
    with pytest.raises(UsageError, match="klingon"):
        tenfold.compact([], to=100, format="klingon")
    with pytest.raises(UsageError, match="did you mean 'tenfold'"):
        tenfold.compact(build_openai_chat(), to=100, policy="tenfould")


@formats
def test_awaiting_it_gives_the_same(wire: str) -> None:
    messages = FORMATS[wire]()
    result = asyncio.run(tenfold.acompact(messages, to=2_500))
    same = tenfold.compact(messages, to=2_500)
    assert result.outcome.status == same.outcome.status == "compacted"
    assert len(result.messages) == len(same.messages)
    assert [m in messages for m in result.messages] == [m in messages for m in same.messages]


@pytest.mark.parametrize("policy", sorted({*tenfold.POLICIES, "tenfold"}))
def test_the_same_list_gives_the_same_messages_and_no_time_is_made_up(policy: str) -> None:
    first, second = (tenfold.compact(build_openai_chat(), to=1_500, policy=policy) for _ in range(2))
    assert first.outcome.status == "compacted"
    assert first.messages == second.messages
    assert first.session is not None
    path = first.session.view.path
    assert {one.time for one in path.get_entries(0, path.length - 1) if isinstance(one, MessageEntry)} == {None}
