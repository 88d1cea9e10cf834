"""What a provider compacted itself: carried byte for byte, in its place, whole, and to that provider alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest
from anthropic.types.beta import BetaCompactionBlock
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseCompactionItem

from tenfold.compaction.plan.protected import PROVIDER_COMPACTED, find_protected
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.config.policies import POLICIES
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import Message, OpaquePart, ToolCall, find_native_compaction, get_text
from tenfold.core.view.fold import View
from tenfold.core.wire import WIRES, to_json_bytes
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.marks import extract_summary_text
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tenfold.session.requests import read_usage
from tests.engine.making import FILLER, Telling, get_blocks, make_reply, make_result, make_user_message, open_session
from tests.sessions import require_sessions
from tests.thorough import IS_THOROUGH
from tests.wire.arrays import get_arrays_by_name

COUNTER = CharacterCounter()
TOLD = "the ledger of wharf nine"
BLOCK = {"type": "compaction", "content": f"So far: {TOLD} was read.", "encrypted_content": "eA=="}
ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA" + "x" * 80}
RAW = {"anthropic": json.dumps(BLOCK, indent=1).encode(), "openai-responses": json.dumps(ITEM, indent=1).encode()}


def make_native_list(wire: str, *, before: int = 2, after: int = 2) -> list[bytes]:
    """A provider's list with its own compaction in the middle, oddly spaced."""
    turns = [
        item
        for n in range(before + after)
        for item in ({"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"})
    ]
    raws = [json.dumps(t, indent=2).encode() for t in turns]
    own = RAW[wire] if wire == "openai-responses" else b'{"role": "assistant",\n "content": [%b, %b]}' % (
        RAW[wire],
        b'{"type":"text","text":"Go on."}',
    )  # fmt: skip
    middle = [own] if wire == "openai-responses" else [b'{"role":"user","content":"more"}', own]
    return [*raws[: 2 * before], *middle, *raws[2 * before :]]


def get_compaction_message(wire: str) -> Message:
    """The message in which a provider compacted, as it would come."""
    return next(m for m in WIRES[wire].decode(make_native_list(wire)) if find_native_compaction(m) is not None)


def find_first_read(messages: Sequence[Message], wire: str) -> int:
    """The index of the first message that a provider is sure to read: the newest into which it compacted the rest."""
    for index in range(len(messages) - 1, -1, -1):
        found = find_native_compaction(messages[index])
        if found is not None and found.bound_wire == wire:
            return index
    return 0


def read_items(name: str) -> list[bytes]:
    """The items of a recorded array."""
    return [bytes(raw) for raw in msgspec.json.decode(get_arrays_by_name()[name].data, type=list[msgspec.Raw])]


@pytest.mark.parametrize("wire", RAW)
def test_it_is_one_part_bound_to_its_provider(wire: str) -> None:
    message = get_compaction_message(wire)
    part = find_native_compaction(message)
    assert part == OpaquePart("compaction", RAW[wire], wire)
    assert (message.role, message.origin) == ("assistant", "model")
    assert TOLD not in get_text(message)


@pytest.mark.parametrize("wire", RAW)
def test_the_bytes_come_back_as_they_were(wire: str) -> None:
    raws = make_native_list(wire)
    encoded = WIRES[wire].encode(WIRES[wire].decode(raws))
    assert [item.raw for item in encoded.items] == raws
    assert encoded.adjustments == ()


@pytest.mark.parametrize("wire", RAW)
def test_its_bytes_stay_where_its_neighbours_are_replaced(wire: str) -> None:
    messages = WIRES[wire].decode(make_native_list(wire))
    short = [m if find_native_compaction(m) is not None else msgspec.structs.replace(m, native=None) for m in messages]
    raws = [item.raw for item in WIRES[wire].encode(short).items]
    assert any(RAW[wire] in raw for raw in raws)
    bare = msgspec.structs.replace(get_compaction_message(wire), native=None)
    rendered = WIRES[wire].encode([make_user_message("hello"), bare])
    assert any(RAW[wire] in item.raw for item in rendered.items)
    assert not any(a.kind.endswith("dropped") for a in rendered.adjustments)


@pytest.mark.parametrize("source", RAW)
@pytest.mark.parametrize("target", list(WIRES))
@pytest.mark.parametrize("bare", [False, True])
def test_another_provider_is_not_sent_it_and_that_is_named(source: str, target: str, *, bare: bool) -> None:
    messages = WIRES[source].decode(make_native_list(source))
    if bare:
        messages = [msgspec.structs.replace(m, native=None) for m in messages]
    encoded = WIRES[target].encode(messages)
    dropped = [a for a in encoded.adjustments if a.kind == "compaction_dropped"]
    there = b"".join(item.raw for item in encoded.items)
    if source == target:
        assert dropped == []
        assert RAW[source] in there
        return
    assert [find_native_compaction(messages[a.index]) is not None for a in dropped] == [True]
    assert source in dropped[0].note
    assert TOLD.encode() not in there
    assert b"gAAAA" not in there
    for n in range(4):
        assert f"q{n}".encode() in there
    assert "opaque_dropped" not in {a.kind for a in encoded.adjustments}


def test_a_failed_one_is_bound_to_nobody() -> None:
    for content in (None, 3):
        raw = json.dumps({"role": "assistant", "content": [{"type": "compaction", "content": content}]}).encode()
        (message,) = WIRES["anthropic"].decode([raw])
        assert find_native_compaction(message) is None
        assert [item.raw for item in WIRES["anthropic"].encode([make_user_message("hello"), message]).items][-1] == raw


def test_nobody_else_can_write_one() -> None:
    """A block of that type in a user's message, or inside a tool's output, is no answer of the provider."""
    result = {"type": "tool_result", "tool_use_id": "c", "content": [BLOCK]}
    for block in (BLOCK, result):
        raw = json.dumps({"role": "user", "content": [block]}).encode()
        assert [find_native_compaction(m) for m in WIRES["anthropic"].decode([raw])] == [None]
    trigger = json.dumps({"type": "compaction_trigger"}).encode()
    assert [find_native_compaction(m) for m in WIRES["openai-responses"].decode([trigger])] == [None]


def test_the_sdks_objects_are_read() -> None:
    block = BetaCompactionBlock.model_validate({**BLOCK, "signature": "s", "tool_changes": []})
    answer = {"role": "assistant", "content": [json.loads(to_json_bytes(block)), {"type": "text", "text": "Go on."}]}
    (message,) = WIRES["anthropic"].decode([to_json_bytes(answer)])
    part = find_native_compaction(message)
    assert part is not None
    assert b'"signature":"s"' in part.raw
    asked = {"type": "message", "id": "m", "role": "user", "content": [{"type": "input_text", "text": "What is 2+2?"}]}
    raws = [to_json_bytes(asked), to_json_bytes(ResponseCompactionItem.model_validate(ITEM))]
    decoded = WIRES["openai-responses"].decode(raws)
    assert [m.role for m in decoded] == ["user", "assistant"]
    assert find_native_compaction(decoded[1]) is not None
    assert [item.raw for item in WIRES["openai-responses"].encode(decoded).items] == raws


def test_the_usage_of_a_compaction_says_nothing_about_a_request() -> None:
    usage = {"input_tokens": 9_000, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}
    assert read_usage({"object": "response.compaction", "output": [], "usage": usage}) is None
    found = read_usage({"object": "response", "output": [], "usage": usage})
    assert found is not None
    assert found.prompt == 9_000


def test_the_recorded_round_trips() -> None:
    require_sessions()
    messages = WIRES["anthropic"].decode(read_items("anthropic_compaction_round_trip-0"))
    assert [find_native_compaction(m) is not None for m in messages] == [False, True, False]
    assert find_first_read(messages, "anthropic") == 1
    messages = WIRES["openai-responses"].decode(read_items("openai_responses_compact_messages-2-output"))
    assert [m.role for m in messages] == ["user", "user", "assistant"]
    assert find_first_read(messages, "openai-responses") == 2
    messages = WIRES["openai-responses"].decode(read_items("openai_responses_compact_messages-3-input"))
    assert find_native_compaction(messages[0]) is not None


def test_a_moved_cache_mark_does_not_make_it_another_message() -> None:
    def compute_key(block: dict[str, object]) -> bytes:
        raw = json.dumps({"role": "assistant", "content": [block]}).encode()
        return fingerprint_message(WIRES["anthropic"].decode([raw])[0])

    assert compute_key({**BLOCK, "cache_control": {"type": "ephemeral"}}) == compute_key(dict(reversed(BLOCK.items())))
    assert compute_key({**BLOCK, "content": "another"}) != compute_key(dict(BLOCK))
    request = {"model": "claude-sonnet-4-6", "max_tokens": 10, "system": "s"}
    session = open_session([])
    turns: list[dict[str, object]] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [BLOCK]}]
    session.before_model({**request, "messages": turns}, window=200_000)
    marked = {**BLOCK, "cache_control": {"type": "ephemeral"}}
    more = [turns[0], {"role": "assistant", "content": [marked]}, {"role": "user", "content": "next"}]
    sent = session.before_model({**request, "messages": more}, window=200_000)
    assert sent["messages"] == more
    assert session.view.length == 3


def test_records_with_and_without_it_load() -> None:
    entry = MessageEntry("e", None, "", 1, get_compaction_message("anthropic"))
    assert decode_entry(encode_entry(entry)) == entry
    plain = msgspec.msgpack.encode(OpaquePart("compaction", b"{}"))
    assert b"bound" not in plain
    assert msgspec.msgpack.decode(plain, type=OpaquePart) == OpaquePart("compaction", b"{}")


# -- compacting a conversation that holds one --------------------------------------------------------------------------


def make_talk(turns: int, start: int = 0) -> list[Message]:
    return [
        m
        for n in range(start, start + turns)
        for m in (make_user_message(f"{n} {FILLER * 12}"), make_reply(f"{n} {FILLER * 12}"))
    ]


def make_step(wire: str) -> list[Message]:
    """A provider's compaction at the beginning of an answer that goes on to call a tool."""
    own = get_compaction_message(wire)
    if wire == "anthropic":
        own = msgspec.structs.replace(own, parts=(*own.parts, ToolCall("k", "read", "{}")), native=None)
        return [own, make_result("k", FILLER * 60)]
    return [own]


def compact_history(name: str, history: Sequence[Message], share: int) -> tuple[Session, Telling]:
    using = POLICIES[name](COUNTER, summary=SummarySettings(models=("small",)))
    headings = with_prompts(using.summary).list_headings("first") or ("",)
    model = Telling("\n".join(f"{heading}\nThe work went on. {FILLER}" for heading in headings))
    session = open_session(history, using, answerer=Answerer(model=model))
    session.compact(to=sum(measure_messages(history, COUNTER)) * share // 100)
    return session, model


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("wire", RAW)
def test_every_preset_leaves_it_in_its_place_and_whole(name: str, wire: str) -> None:
    own = make_step(wire)
    history = [*make_talk(20), *own, *make_talk(20, 20), make_user_message("now this")]
    session, model = compact_history(name, history, 40)
    assert session.view.state.live_blocks
    shown = session.view.get_messages()
    place = shown.index(own[0])
    assert shown[place : place + len(own)] == own
    assert find_first_read(shown, wire) == place
    assert not any(TOLD in get_text(m) for m in shown)
    assert not any(TOLD in a.prompt or "gAAAA" in a.prompt for a in model.asked)
    for each in WIRES:
        assert session.conversation.find_violations(each) == ()
    block = get_blocks(session)[-1]
    for made in block.replacements:
        if made.first <= 40 <= made.last:
            covering = [s for s in shown if any(getattr(x, "message", None) is s for x in made.shown_items)]
            summaries = [s for s in covering if extract_summary_text(get_text(s)) is not None]
            assert all(shown.index(s) > place for s in summaries)
    session.undo()
    assert session.view.get_messages() == history


@pytest.mark.parametrize("wire", RAW)
def test_only_the_newest_of_a_provider_is_held(wire: str) -> None:
    own = make_step(wire)
    history = [*make_talk(3), *own, *make_talk(3, 3), *own, *make_talk(3, 6)]
    session = open_session(history)
    held = find_protected(session.view)
    first = 12 + len(own)
    assert sorted(k[0] for k, why in held.items() if why == PROVIDER_COMPACTED) == list(range(first, first + len(own)))
    other = "openai-responses" if wire == "anthropic" else "anthropic"
    session.append(*make_step(other), *make_talk(1, 9))
    both = {k[0] for k, why in find_protected(session.view).items() if why == PROVIDER_COMPACTED}
    assert {first} < both


@settings(deadline=None, max_examples=60 if IS_THOROUGH else 20)
@given(
    name=st.sampled_from(sorted(POLICIES)),
    wire=st.sampled_from(sorted(RAW)),
    places=st.lists(st.integers(0, 24), min_size=1, max_size=3, unique=True),
    share=st.integers(5, 90),
    again=st.integers(20, 90),
)
def test_wherever_it_stands_it_stays_whole_over_two_compactions(
    name: str, wire: str, places: list[int], share: int, again: int
) -> None:
    own = make_step(wire)
    history = make_talk(25)
    for place in sorted(places, reverse=True):
        history[2 * place + 1 : 2 * place + 1] = own
    session, _ = compact_history(name, history, share)
    session.append(*make_talk(6, 25))
    session.compact(to=max(1, sum(measure_messages(session.view.get_messages(), COUNTER)) * again // 100))
    shown = session.view.get_messages()
    place = find_first_read(shown, wire)
    assert shown[place : place + len(own)] == own
    for each in WIRES:
        assert session.conversation.find_violations(each) == ()
    raws = [item.raw for item in WIRES[wire].encode(shown).items]
    assert any(RAW[wire] in raw for raw in raws)
    assert View.from_path(session.view.path).get_messages() == shown
