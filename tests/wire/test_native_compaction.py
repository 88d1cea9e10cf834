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

from tenfold.drive import Answerer
from tenfold.hosting import usage_of
from tenfold.meter.counters import Characters4, sizes
from tenfold.plan.draft import COMPACTED, held_messages
from tenfold.policies import POLICIES
from tenfold.record.codec import decode_entry, encode_entry
from tenfold.record.entry import Said
from tenfold.record.message import Message, Opaque, Text, ToolCall, native_compaction, text_of
from tenfold.session import Session
from tenfold.summarize.summarize import Settings
from tenfold.view.view import View
from tenfold.wire import PROFILES, WIRES, raw_of
from tenfold.wire.marks import summary_text
from tenfold.wire.profiles import COMPACTIONS, read_from
from tenfold.wire.same import same_key
from tests.engine.making import FILLER, Telling, blocks, gave, opened, said, user
from tests.sessions import needed
from tests.wire.arrays import by_name

COUNTER = Characters4()
TOLD = "the ledger of wharf nine"
BLOCK = {"type": "compaction", "content": f"So far: {TOLD} was read.", "encrypted_content": "eA=="}
ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA" + "x" * 80}
RAW = {"anthropic": json.dumps(BLOCK, indent=1).encode(), "openai-responses": json.dumps(ITEM, indent=1).encode()}


def native(wire: str, *, before: int = 2, after: int = 2) -> list[bytes]:
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


def compacted_of(wire: str) -> Message:
    """The message in which a provider compacted, as it would come."""
    return next(m for m in WIRES[wire].decode(native(wire)) if native_compaction(m) is not None)


def items(name: str) -> list[bytes]:
    """The items of a recorded array."""
    return [bytes(raw) for raw in msgspec.json.decode(by_name()[name].data, type=list[msgspec.Raw])]


@pytest.mark.parametrize("wire", list(COMPACTIONS))
def test_it_is_one_part_bound_to_its_provider(wire: str) -> None:
    message = compacted_of(wire)
    part = native_compaction(message)
    assert part == Opaque("compaction", RAW[wire], wire)
    assert (message.role, message.origin) == ("assistant", "model")
    assert TOLD not in text_of(message)


def test_where_it_stands_is_the_providers_way() -> None:
    assert [PROFILES[w].native_compaction for w in PROFILES] == ["in_answer", "none", "alone", "none", "none"]
    assert {w for w in PROFILES if PROFILES[w].native_compaction != "none"} == set(COMPACTIONS)
    assert all("native_compaction" in PROFILES[w].evidence for w in COMPACTIONS)
    assert [type(p) for p in compacted_of("anthropic").parts] == [Opaque, Text]
    assert len(compacted_of("openai-responses").parts) == 1


@pytest.mark.parametrize("wire", list(COMPACTIONS))
def test_the_bytes_come_back_as_they_were(wire: str) -> None:
    raws = native(wire)
    encoded = WIRES[wire].encode(WIRES[wire].decode(raws))
    assert [item.raw for item in encoded.items] == raws
    assert encoded.adjustments == ()


@pytest.mark.parametrize("wire", list(COMPACTIONS))
def test_its_bytes_stay_where_its_neighbours_are_replaced(wire: str) -> None:
    messages = WIRES[wire].decode(native(wire))
    short = [m if native_compaction(m) is not None else msgspec.structs.replace(m, native=None) for m in messages]
    raws = [item.raw for item in WIRES[wire].encode(short).items]
    assert any(RAW[wire] in raw for raw in raws)
    bare = msgspec.structs.replace(compacted_of(wire), native=None)
    rendered = WIRES[wire].encode([user("hello"), bare])
    assert any(RAW[wire] in item.raw for item in rendered.items)
    assert not any(a.kind.endswith("dropped") for a in rendered.adjustments)


@pytest.mark.parametrize("source", list(COMPACTIONS))
@pytest.mark.parametrize("target", list(WIRES))
@pytest.mark.parametrize("bare", [False, True])
def test_another_provider_is_not_sent_it_and_that_is_named(source: str, target: str, *, bare: bool) -> None:
    messages = WIRES[source].decode(native(source))
    if bare:
        messages = [msgspec.structs.replace(m, native=None) for m in messages]
    encoded = WIRES[target].encode(messages)
    dropped = [a for a in encoded.adjustments if a.kind == "compaction_dropped"]
    there = b"".join(item.raw for item in encoded.items)
    if source == target:
        assert dropped == []
        assert RAW[source] in there
        return
    assert [native_compaction(messages[a.index]) is not None for a in dropped] == [True]
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
        assert native_compaction(message) is None
        assert [item.raw for item in WIRES["anthropic"].encode([user("hello"), message]).items][-1] == raw


def test_nobody_else_can_write_one() -> None:
    """A block of that type in a user's message, or inside a tool's output, is no answer of the provider."""
    result = {"type": "tool_result", "tool_use_id": "c", "content": [BLOCK]}
    for block in (BLOCK, result):
        raw = json.dumps({"role": "user", "content": [block]}).encode()
        assert [native_compaction(m) for m in WIRES["anthropic"].decode([raw])] == [None]
    trigger = json.dumps({"type": "compaction_trigger"}).encode()
    assert [native_compaction(m) for m in WIRES["openai-responses"].decode([trigger])] == [None]


def test_the_sdks_objects_are_read() -> None:
    block = BetaCompactionBlock.model_validate({**BLOCK, "signature": "s", "tool_changes": []})
    answer = {"role": "assistant", "content": [json.loads(raw_of(block)), {"type": "text", "text": "Go on."}]}
    (message,) = WIRES["anthropic"].decode([raw_of(answer)])
    part = native_compaction(message)
    assert part is not None
    assert b'"signature":"s"' in part.raw
    asked = {"type": "message", "id": "m", "role": "user", "content": [{"type": "input_text", "text": "What is 2+2?"}]}
    raws = [raw_of(asked), raw_of(ResponseCompactionItem.model_validate(ITEM))]
    decoded = WIRES["openai-responses"].decode(raws)
    assert [m.role for m in decoded] == ["user", "assistant"]
    assert native_compaction(decoded[1]) is not None
    assert [item.raw for item in WIRES["openai-responses"].encode(decoded).items] == raws


def test_the_usage_of_a_compaction_says_nothing_about_a_request() -> None:
    usage = {"input_tokens": 9_000, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}
    assert usage_of({"object": "response.compaction", "output": [], "usage": usage}) is None
    found = usage_of({"object": "response", "output": [], "usage": usage})
    assert found is not None
    assert found.prompt == 9_000


def test_the_recorded_round_trips() -> None:
    needed()
    messages = WIRES["anthropic"].decode(items("anthropic_compaction_round_trip-0"))
    assert [native_compaction(m) is not None for m in messages] == [False, True, False]
    assert read_from(messages, "anthropic") == 1
    messages = WIRES["openai-responses"].decode(items("openai_responses_compact_messages-2-output"))
    assert [m.role for m in messages] == ["user", "user", "assistant"]
    assert read_from(messages, "openai-responses") == 2
    messages = WIRES["openai-responses"].decode(items("openai_responses_compact_messages-3-input"))
    assert native_compaction(messages[0]) is not None


def test_the_place_from_which_a_provider_reads() -> None:
    anthropic, openai = compacted_of("anthropic"), compacted_of("openai-responses")
    messages = [user("a"), anthropic, user("b"), openai, user("c"), anthropic, said("d")]
    assert read_from(messages, "anthropic") == 5
    assert read_from(messages, "openai-responses") == 3
    assert read_from(messages, "openai-chat") == read_from([], "anthropic") == 0


def test_a_moved_cache_mark_does_not_make_it_another_message() -> None:
    def key(block: dict[str, object]) -> bytes:
        raw = json.dumps({"role": "assistant", "content": [block]}).encode()
        return same_key(WIRES["anthropic"].decode([raw])[0])

    assert key({**BLOCK, "cache_control": {"type": "ephemeral"}}) == key(dict(reversed(BLOCK.items())))
    assert key({**BLOCK, "content": "another"}) != key(dict(BLOCK))
    request = {"model": "claude-sonnet-4-6", "max_tokens": 10, "system": "s"}
    session = opened([])
    turns: list[dict[str, object]] = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [BLOCK]}]
    session.before_model({**request, "messages": turns}, window=200_000)
    marked = {**BLOCK, "cache_control": {"type": "ephemeral"}}
    more = [turns[0], {"role": "assistant", "content": [marked]}, {"role": "user", "content": "next"}]
    sent = session.before_model({**request, "messages": more}, window=200_000)
    assert sent["messages"] == more
    assert session.view.length == 3


def test_records_with_and_without_it_load() -> None:
    entry = Said("e", None, "", 1, compacted_of("anthropic"))
    assert decode_entry(encode_entry(entry)) == entry
    plain = msgspec.msgpack.encode(Opaque("compaction", b"{}"))
    assert b"bound" not in plain
    assert msgspec.msgpack.decode(plain, type=Opaque) == Opaque("compaction", b"{}")


def test_it_is_counted_by_its_bytes() -> None:
    bare = Message("assistant", (Opaque("compaction", b"x" * 400, "anthropic"),), "model")
    assert sizes([bare], COUNTER) == [104]


# -- compacting a conversation that holds one --------------------------------------------------------------------------


def talk(turns: int, start: int = 0) -> list[Message]:
    return [m for n in range(start, start + turns) for m in (user(f"{n} {FILLER * 12}"), said(f"{n} {FILLER * 12}"))]


def step(wire: str) -> list[Message]:
    """A provider's compaction at the beginning of an answer that goes on to call a tool."""
    own = compacted_of(wire)
    if wire == "anthropic":
        own = msgspec.structs.replace(own, parts=(*own.parts, ToolCall("k", "read", "{}")), native=None)
        return [own, gave("k", FILLER * 60)]
    return [own]


def compacted(name: str, history: Sequence[Message], share: int) -> tuple[Session, Telling]:
    model = Telling(f"The work went on. {FILLER}")
    using = POLICIES[name](COUNTER, summary=Settings(models=("small",)))
    session = opened(history, using, answerer=Answerer(model=model))
    session.compact(to=sum(sizes(history, COUNTER)) * share // 100)
    return session, model


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("wire", list(COMPACTIONS))
def test_every_preset_leaves_it_in_its_place_and_whole(name: str, wire: str) -> None:
    own = step(wire)
    history = [*talk(20), *own, *talk(20, 20), user("now this")]
    session, model = compacted(name, history, 40)
    assert session.view.marks.live
    shown = session.view.messages()
    place = shown.index(own[0])
    assert shown[place : place + len(own)] == own
    assert read_from(shown, wire) == place
    assert not any(TOLD in text_of(m) for m in shown)
    assert not any(TOLD in a.prompt or "gAAAA" in a.prompt for a in model.asked)
    for each in WIRES:
        assert session.violations(each) == ()
    block = blocks(session)[-1]
    for made in block.replacements:
        if made.first <= 40 <= made.last:
            covering = [s for s in shown if any(getattr(x, "message", None) is s for x in made.show)]
            summaries = [s for s in covering if summary_text(text_of(s)) is not None]
            assert all(shown.index(s) > place for s in summaries)
    session.undo()
    assert session.view.messages() == history


@pytest.mark.parametrize("wire", list(COMPACTIONS))
def test_only_the_newest_of_a_provider_is_held(wire: str) -> None:
    own = step(wire)
    history = [*talk(3), *own, *talk(3, 3), *own, *talk(3, 6)]
    session = opened(history)
    held = held_messages(session.view)
    first = 12 + len(own)
    assert sorted(k[0] for k, why in held.items() if why == COMPACTED) == list(range(first, first + len(own)))
    other = "openai-responses" if wire == "anthropic" else "anthropic"
    session.append(*step(other), *talk(1, 9))
    both = {k[0] for k, why in held_messages(session.view).items() if why == COMPACTED}
    assert {first} < both


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(POLICIES)),
    wire=st.sampled_from(sorted(COMPACTIONS)),
    places=st.lists(st.integers(0, 24), min_size=1, max_size=3, unique=True),
    share=st.integers(5, 90),
    again=st.integers(20, 90),
)
def test_wherever_it_stands_it_stays_whole_over_two_compactions(
    name: str, wire: str, places: list[int], share: int, again: int
) -> None:
    own = step(wire)
    history = talk(25)
    for place in sorted(places, reverse=True):
        history[2 * place + 1 : 2 * place + 1] = own
    session, _ = compacted(name, history, share)
    session.append(*talk(6, 25))
    session.compact(to=max(1, sum(sizes(session.view.messages(), COUNTER)) * again // 100))
    shown = session.view.messages()
    place = read_from(shown, wire)
    assert shown[place : place + len(own)] == own
    for each in WIRES:
        assert session.violations(each) == ()
    raws = [item.raw for item in WIRES[wire].encode(shown).items]
    assert any(RAW[wire] in raw for raw in raws)
    assert View.of(session.view.path).messages() == shown
