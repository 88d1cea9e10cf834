"""A session remembers the last list it was brought level with: what it then does is what a fresh one would do."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message
from tenfold.core.wire.decoded_history import CHECKED_ITEMS, DecodedHistory
from tenfold.errors import TenfoldError, UsageError
from tenfold.session import Session, Stamps
from tenfold.session.requests import HostRequest, read_request
from tests.engine.making import (
    make_call,
    make_id_source,
    make_reply,
    make_result,
    make_user_message,
    open_session,
    reopen_session,
)

Item = dict[str, Any]


def reopen_with_ids(session: Session) -> Session:
    """The same head with nothing remembered, which goes on with the same ids."""
    return Session(session.address, session.policy, model=session.compactor.model, stamps=session.conversation.stamps)


def draw_next_messages(rng: random.Random, whole: list[Message], session: Session, number: int) -> list[Message]:
    """What a host may send next: grown, shortened, rewritten in place, or a view of ours."""
    kind = rng.choice(["grown", "grown", "grown", "step", "same", "shorter", "rewritten", "view"])
    if kind == "step":
        return [*whole, make_call(f"c{number}"), make_result(f"c{number}", "text " * 200)]
    if kind == "shorter":
        return whole[: rng.randint(1, max(1, len(whole)))]
    if kind == "rewritten" and whole:
        at = rng.randrange(len(whole))
        return [*whole[:at], make_user_message(f"changed {number}"), *whole[at + 1 :]]
    if kind == "view":
        return [*session.view.get_messages(), make_user_message(f"on {number}")]
    return (
        whole if kind == "same" else [*whole, make_user_message(f"go on {number} " * 60), make_reply(f"yes {number}")]
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_session_that_remembers_does_what_one_opened_anew_does(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same walk every time
    remembers, forgets = (open_session(stamps=Stamps(make_id_source())) for _ in range(2))
    whole: list[Message] = [make_user_message("begin"), make_reply("begun")]
    for number in range(25):
        whole = draw_next_messages(rng, whole, remembers, number)
        forgets = reopen_with_ids(forgets)
        try:
            remembers.sync(whole)
        except UsageError:  # rewritten at its beginning, and no answer is left in it
            with pytest.raises(UsageError, match="does not continue"):
                forgets.sync(whole)
            whole = remembers.view.get_messages()
            continue
        forgets.sync(whole)
        assert remembers.view.get_messages() == forgets.view.get_messages(), number
        act = rng.choice(["nothing", "nothing", "compact", "undo", "append"])
        for each in (remembers, forgets):
            if act == "compact":
                each.compact(to=200)
            elif act == "undo" and each.view.state.live_blocks:
                each.undo()
            elif act == "append":
                each.append(make_user_message(f"from elsewhere {number}"))
        assert remembers.conversation.count_messages(remembers.view) == len(remembers.view.get_messages())


def test_an_older_view_is_counted_as_it_was() -> None:
    session = open_session()
    session.sync([make_user_message("begin"), make_reply("begun")])
    older = session.view
    session.sync([make_user_message("begin"), make_reply("begun"), make_user_message("go on")])
    assert [session.conversation.count_messages(view) for view in (session.view, older, session.view)] == [3, 2, 3]


def test_a_head_that_was_opened_and_went_back_is_written_on() -> None:
    session = open_session()
    session.sync([make_user_message("one"), make_reply("two"), make_user_message("three"), make_reply("four")])
    opened_anew = reopen_session(session)
    opened_anew.sync([make_user_message("one"), make_reply("two")])
    opened_anew.append(make_user_message("five"))
    assert opened_anew.view.get_messages() == [make_user_message("one"), make_reply("two"), make_user_message("five")]


# -- whole requests, in a provider's own format ------------------------------------------------------------------------


def build_chat_round(number: int, size: int) -> list[Item]:
    call = {"type": "function", "function": {"name": f"tool{number % 3}", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"question {number} " * size},
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"{c}{number}", **call} for c in "cd"]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " * size},
        {"role": "tool", "tool_call_id": f"d{number}", "content": "nothing"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def build_anthropic_round(number: int, size: int) -> list[Item]:
    use = {"type": "tool_use", "name": f"tool{number % 3}", "input": {"line": number % 2}}
    other = {"type": "tool_result", "tool_use_id": f"d{number}", "content": "nothing"}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"result {number} " * size}
    reminder = {"type": "text", "text": f"<system-reminder>be brief {number}</system-reminder>"}
    return [
        {"role": "user", "content": [{"type": "text", "text": f"question {number} " * size}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "I look."}, {"id": f"c{number}", **use}, {"id": f"d{number}", **use}],
        },
        {"role": "user", "content": [other]},
        {"role": "user", "content": [{**result, "is_error": False}, reminder]},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def build_responses_round(number: int, size: int) -> list[Item]:
    call = {"type": "function_call", "name": f"tool{number % 3}", "arguments": "{}"}
    text = {"type": "output_text", "text": f"I look {number}"}
    return [
        {"role": "user", "content": [{"type": "input_text", "text": f"question {number} " * size}]},
        {"type": "reasoning", "id": f"rs_{number}", "summary": []},
        {"type": "message", "role": "assistant", "content": [text]},
        {"call_id": f"c{number}", **call},
        {"call_id": f"d{number}", **call},
        {"type": "function_call_output", "call_id": f"c{number}", "output": f"result {number} " * size},
        {"type": "function_call_output", "call_id": f"d{number}", "output": "nothing"},
    ]


def build_gemini_round(number: int, size: int) -> list[Item]:
    name = f"tool{number % 3}"
    calls = [{"functionCall": {"name": name, "args": {"at": at}}} for at in range(2)]
    answers = [{"functionResponse": {"name": name, "response": {"output": f"{at} {number} " * size}}} for at in (0, 1)]
    return [
        {"role": "user", "parts": [{"text": f"question {number} " * size}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": answers[:1]},
        {"role": "user", "parts": answers[1:]},
        {"role": "model", "parts": [{"text": f"answer {number}"}]},
    ]


Talk = Callable[[int, int], list[Item]]
WIRES = {
    "openai-chat": ("messages", build_chat_round),
    "anthropic": ("messages", build_anthropic_round),
    "openai-responses": ("input", build_responses_round),
    "gemini": ("contents", build_gemini_round),
}
HARMLESS = ["grown", "grown", "copied", "rebuilt", "number", "marked", "prompt"]
"""Changes after which every call still has its results."""
CHANGES = [*HARMLESS, "grown", "partly", "in place", "shorter", "left out"]
AGO = 5 * CHECKED_ITEMS + 3
"""Of a list of ten parts an item that neither this request nor the next looks at."""


def draw_next_items(
    rng: random.Random,
    items: list[Item],
    talk: Talk,
    number: int,
    *,
    changes: Sequence[str] = CHANGES,
    reach: int = CHECKED_ITEMS,
) -> list[Item]:
    """The list of a host's next request, which may hold the very dicts of the one before, changed in place.

    `reach` says how far from the end something is changed at most.
    """
    new = talk(number, 20)
    at = rng.randrange(min(len(items), reach) if rng.random() < 0.3 else min(len(items), 8))
    at = len(items) - 1 - at  # mostly near the end
    match rng.choice(changes):
        case "partly":  # results are still to come
            return [*items, *new[: rng.randint(1, len(new))]]
        case "copied":
            return [*copy.deepcopy(items), *new]
        case "rebuilt":
            return [*items[:at], copy.deepcopy(items[at]), *items[at + 1 :], *new]
        case "in place":
            changed = talk(number + 1_000, 3)
            items[at].clear()
            items[at].update(changed[rng.randrange(len(changed))])
        case "shorter":
            return items[: at + 1]
        case "number":
            flip_numbers(items[at])
        case "marked":
            items[at]["cache_control"] = {"type": "ephemeral", "ttl": number}
        case "prompt" if talk in (build_chat_round, build_responses_round):
            fresh = {"role": "system", "content": f"It is {number} o'clock."}
            return [fresh, *(items[1:] if items[0].get("role") == "system" else items), *new]
        case "left out":
            return [*items[:at], *items[at + 1 :], *new]
        case _:
            return [*items, *new]
    return items


def flip_numbers(value: Any) -> None:  # noqa: ANN401 - a provider's JSON
    """Makes each 1 a True and each 0 a False, and the other way round: Python calls them equal, JSON does not."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(inner, dict | list):
            flip_numbers(inner)
        elif isinstance(inner, bool):
            value[key] = int(inner)
        elif inner in (0, 1):
            value[key] = bool(inner)


def read_or_refuse(
    request: dict[str, Any], known: DecodedHistory | None = None, *, whole: bool = False
) -> HostRequest | type[TenfoldError]:
    try:
        return read_request(request, previous=known, thorough=whole)
    except TenfoldError as refusal:
        return type(refusal)


@pytest.mark.costly(8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("looked_at", ["whole", "newest"])
def test_a_request_held_against_the_last_one_is_read_as_if_there_was_none(looked_at: str, wire: str, seed: int) -> None:
    """Wherever it was changed in place, if all of it is looked at; if not, among its newest items."""
    rng = random.Random(f"{wire} {seed}")  # noqa: S311 - the same walk every time
    field, talk = WIRES[wire]
    items, known, whole = talk(0, 20), DecodedHistory(), looked_at == "whole"
    for number in range(1, 60):
        items = draw_next_items(rng, items, talk, number, reach=len(items) if whole else CHECKED_ITEMS) or talk(
            number, 20
        )
        request = {field: items, "model": rng.choice(["gpt-4o", "claude-x"])} if rng.random() < 0.1 else {field: items}
        fresh, held = read_or_refuse(request), read_or_refuse(request, known, whole=whole)
        if not isinstance(fresh, HostRequest) or not isinstance(held, HostRequest):
            assert fresh == held
            continue
        assert (held.wire, held.messages) == (fresh.wire, fresh.messages), number
        assert held.history.raws[: len(items)] == fresh.history.raws
        known = held.history


@pytest.mark.parametrize("wire", WIRES)
def test_a_list_is_read_on_from_anywhere(wire: str) -> None:
    field, talk = WIRES[wire]
    items = [item for number in range(3) for item in talk(number, 1)]
    fresh = read_request({field: items}, wire=wire)
    for cut in range(len(items) + 1):
        known = read_request({field: items[:cut]}, wire=wire).history
        held = read_request({field: items}, wire=wire, previous=known)
        assert held.messages == fresh.messages, cut


def test_a_list_of_another_wire_or_another_beginning_is_read_anew() -> None:
    talked = [make_user_item(), {"role": "assistant", "content": "Later."}, make_user_item()]
    chatted = read_request({"messages": talked, "model": "gpt-4o"})
    for request in (
        {"messages": talked, "model": "claude-x"},
        {"messages": [*talked, *build_anthropic_round(1, 1)]},
        {"messages": [{"role": "system", "content": "Be brief."}, *talked], "model": "claude-x"},
    ):
        held, fresh = read_request(request, previous=chatted.history), read_request(request)
        assert (held.wire, held.messages) == (fresh.wire, fresh.messages)
    call, result = build_chat_round(0, 1)[1:3]
    orphan = read_request({"messages": [{"role": "system", "content": "Be brief."}, result]})
    answer = {"messages": [call, result]}
    assert read_request(answer, previous=orphan.history).messages == read_request(answer).messages


def test_system_prompts_that_come_and_go_are_the_newest() -> None:
    known = DecodedHistory()
    for hour in (1, 2, 1, 1, 3):
        request = {
            "messages": [{"role": "system", "content": f"It is {hour}."}, *build_chat_round(0, 1), make_user_item()]
        }
        read = read_request(request, previous=known)
        assert read.messages == read_request(request).messages
        known = read.history


@pytest.mark.costly(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wire", WIRES)
def test_a_session_that_remembers_requests_answers_like_one_opened_anew(wire: str, seed: int) -> None:
    rng = random.Random(f"{wire} {seed}")  # noqa: S311 - the same walk every time
    field, talk = WIRES[wire]
    remembers, forgets = (open_session(stamps=Stamps(make_id_source())) for _ in range(2))
    items = talk(0, 20)
    compacted, gives_views = 0, seed % 2 == 1
    for number in range(1, 40):
        changes = HARMLESS if gives_views else CHANGES
        items = draw_next_items(rng, items, talk, number, changes=changes) or talk(number, 20)
        forgets = reopen_with_ids(forgets)
        given, theirs = ({field: items}, {field: copy.deepcopy(items)})
        sent = remembers.before_model(given, window=2_000, wire=wire)
        assert msgspec.json.encode(sent) == msgspec.json.encode(forgets.before_model(theirs, window=2_000, wire=wire))
        assert remembers.leaf == forgets.leaf, "as many entries were written"
        assert given[field] is items
        untouched = [item for item in sent[field] if item in items]
        assert all(any(item is own for own in items) for item in untouched), "the host's own objects"
        compacted += bool(remembers.outcome and remembers.outcome.status == "compacted")
        items = list(sent[field]) if gives_views and rng.random() < 0.2 else items
    assert compacted
    assert remembers.view.get_messages() == forgets.view.get_messages()


def test_a_message_edited_in_place_is_a_rewrite() -> None:
    session = open_session()
    items = [*build_chat_round(0, 1), *build_chat_round(1, 1)]
    session.before_model({"messages": items})
    before = session.view
    items[0]["content"] = "another question"
    items[6]["tool_calls"][0]["function"]["arguments"] = '{"deep": "down"}'
    assert session.before_model({"messages": items})["messages"] is items
    view = session.view
    assert view.get_messages()[0] == read_request({"messages": items}).messages[0]
    assert view.get_messages()[6] == read_request({"messages": items}).messages[6]
    assert view.path is not before.path


def build_word_items(many: int) -> list[Item]:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": f"word {n} " * 20} for n in range(many)]


def edit_long_ago(session: Session) -> list[Item]:
    """A list that a session was sent, and then edited far from its end, in place."""
    items = build_word_items(10 * CHECKED_ITEMS + 1)
    session.before_model({"messages": items}, window=1_000_000)
    items[AGO]["content"] = "what it says now"
    return items


@pytest.mark.parametrize("more", [1, CHECKED_ITEMS + 8])
def test_what_was_edited_in_place_long_ago_is_sent_at_once_and_read_when_its_turn_has_come(more: int) -> None:
    session = open_session()
    items = edit_long_ago(session)
    for _ in range(len(items) // CHECKED_ITEMS):
        assert session.view.get_messages() != read_request({"messages": items}).messages
        items.extend(make_user_item() for _ in range(more))
        assert session.before_model({"messages": items}, window=10_000_000)["messages"] is items
        if session.view.get_messages() == read_request({"messages": items}).messages:
            return
    raise AssertionError("its turn never came")


def test_a_number_of_another_kind_in_another_object_is_read_when_its_turn_has_come() -> None:
    session = open_session()
    items = [item for number in range(80) for item in build_anthropic_round(2 * number + 1, 1)]
    session.before_model({"messages": items, "system": ""}, window=10_000_000)
    items[6] = copy.deepcopy(items[6])
    items[6]["content"][1]["input"]["line"] = True
    for _ in range(len(items) // CHECKED_ITEMS + 1):
        items.append(make_user_item())
        session.before_model({"messages": items, "system": ""}, window=10_000_000)
    assert session.view.get_messages() == read_request({"messages": items, "system": ""}).messages


def test_what_was_edited_in_place_long_ago_is_read_when_the_same_list_comes_again() -> None:
    session = open_session()
    items = edit_long_ago(session)
    session.before_model({"messages": items}, window=1_000_000)
    assert session.view.get_messages() == read_request({"messages": items}).messages


def test_what_was_edited_in_place_long_ago_is_read_before_what_is_new_is_appended() -> None:
    session = open_session()
    items = edit_long_ago(session)
    items.append({"role": "user", "content": "zebra crossing"})
    session.before_model({"messages": items}, window=8_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert len(session.search("zebra")) == 1


def test_a_request_may_hold_an_iterator() -> None:
    session = open_session()
    items = build_word_items(2 * CHECKED_ITEMS + 1)
    session.before_model({"messages": iter(items)}, window=1_000_000)
    sent = session.before_model({"messages": iter([*items, make_user_item()])}, window=1_000_000)["messages"]
    assert list(sent) == [*items, make_user_item()]
    more = [*items, make_user_item(), *build_word_items(2 * CHECKED_ITEMS + 1)]
    sent = session.before_model({"messages": iter(more)}, window=4_000)["messages"]
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert sent[-1] is more[-1]


def test_a_message_is_sent_and_no_equal_one_that_was_compacted() -> None:
    session = open_session()
    items = build_word_items(10 * CHECKED_ITEMS + 1)
    items[3], items[41] = ({"role": "assistant", "content": "I go on."} for _ in range(2))
    session.before_model({"messages": items[: 2 * CHECKED_ITEMS + 1]})
    session.pin(session.view.path.get_entry(3).id)
    session.compact(to=1_000)
    for _ in range(2):
        items.append(make_user_item())
        sent = session.before_model({"messages": items}, window=1_000_000)["messages"]
        assert any(item is items[3] for item in sent)
        items[41]["content"] = "What it says is told by the Block."


def test_what_was_edited_in_place_long_ago_is_sent_at_once_beside_a_block() -> None:
    session = open_session()
    items = build_word_items(10 * CHECKED_ITEMS + 1)
    session.before_model({"messages": items[: 2 * CHECKED_ITEMS + 1]})
    session.compact(to=1_000)
    session.before_model({"messages": items}, window=1_000_000)
    items[AGO]["content"] = "what it says now"
    sent = session.before_model({"messages": items}, window=1_000_000)["messages"]
    assert session.view.state.live_blocks, "a Block is in force"
    assert sum(item is items[AGO] for item in sent) == 1


class Growing:
    """An SDK's message during whose reading the host appends another one to its list, as another thread may."""

    def __init__(self, items: list[Any]) -> None:
        self._items, self._once = items, True

    def model_dump(self, **_: object) -> Item:
        if self._once:
            self._once = False
            self._items.append({"role": "user", "content": "and one more"})
        return {"role": "user", "content": "now"}


@pytest.mark.parametrize("before", [0, 1, 2 * CHECKED_ITEMS])
def test_a_list_that_grows_while_it_is_read_is_read_as_it_was(before: int) -> None:
    session = open_session()
    items: list[Any] = [*build_word_items(before), make_user_item()]
    session.before_model({"messages": items})
    items.append(Growing(items))
    session.before_model({"messages": items})
    session.before_model({"messages": items})
    assert items[-1] == {"role": "user", "content": "and one more"}
    plain = [item.model_dump() if isinstance(item, Growing) else item for item in items]
    assert session.view.get_messages() == read_request({"messages": plain}).messages


def test_of_equal_messages_the_one_that_stays_is_sent() -> None:
    session = open_session()
    items = build_word_items(2 * CHECKED_ITEMS + 1)
    for at in (3, -4):
        items[at] = {"role": "assistant", "content": "I go on."}
    session.before_model({"messages": items})
    session.compact(to=1_000)
    sent = session.before_model({"messages": items})["messages"]
    assert [id(item) for item in sent if item == items[-4]] == [id(items[-4])]


def test_what_was_edited_in_place_long_ago_is_read_before_it_is_compacted() -> None:
    session = open_session()
    items = edit_long_ago(session)
    session.before_model({"messages": items}, window=8_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    said = [
        message
        for entry in session.view.path.get_entries(0, session.view.length - 1)
        if (message := get_message(entry))
    ]
    assert said[AGO] == read_request({"messages": items}).messages[AGO]


@pytest.mark.parametrize("at", [0, CHECKED_ITEMS, 5 * CHECKED_ITEMS, 10 * CHECKED_ITEMS])
def test_another_object_is_read_at_once_wherever_it_stands(at: int) -> None:
    session = open_session()
    items = edit_long_ago(session)
    items[at] = {**items[at], "content": "another"}
    session.before_model({"messages": items}, window=1_000_000)
    assert session.view.get_messages() == read_request({"messages": items}).messages


def test_a_list_that_was_copied_once_is_known_by_its_new_objects() -> None:
    session = open_session()
    items = edit_long_ago(session)
    copied = copy.deepcopy(items)
    for _ in range(2):
        session.before_model({"messages": copied}, window=1_000_000)
    assert session.view.get_messages() == read_request({"messages": items}).messages


def test_a_moved_cache_mark_is_no_rewrite_and_the_newest_form_is_sent() -> None:
    session = open_session()
    items = [item for number in range(12) for item in build_anthropic_round(number, 40)]
    items.append({"role": "user", "content": [{"type": "text", "text": "and now?"}]})
    session.before_model({"messages": items, "system": ""}, window=4_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    leaf = session.leaf
    items[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    sent = session.before_model({"messages": items, "system": ""}, window=4_000)["messages"]
    assert session.leaf == leaf, "nothing was written"
    assert sent[-1] is items[-1]


def test_equal_numbers_of_another_kind_are_another_message() -> None:
    session = open_session()
    items = build_anthropic_round(1, 1)
    session.before_model({"messages": items, "system": ""})
    items[1]["content"][1]["input"]["line"] = True
    session.before_model({"messages": items, "system": ""})
    assert read_request({"messages": items}).messages == session.view.get_messages()


def test_what_was_read_is_not_read_again() -> None:
    """The decoded messages of the part that stays are the very same ones, also behind a new system prompt."""
    for wire, (field, talk) in WIRES.items():
        items = [item for number in range(5) for item in talk(number, 1)]
        items = items[: -1 if wire != "openai-responses" else None]  # an answer at the end is read again
        first = read_request({field: items}, wire=wire)
        then = read_request({field: [*copy.deepcopy(items), *talk(5, 1)]}, wire=wire, previous=first.history)
        count = len(first.messages)
        assert all(old is new for old, new in zip(first.messages, then.messages[:count], strict=True)), wire
        assert len(then.messages) > count
    prompts = [{"role": "system", "content": f"It is {hour}."} for hour in (1, 2)]
    talked = [*build_chat_round(0, 1), make_user_item()]
    first = read_request({"messages": [prompts[0], *talked]})
    then = read_request({"messages": [prompts[1], *talked]}, previous=first.history)
    assert all(old is new for old, new in zip(first.messages[1:], then.messages[1:], strict=True))
    assert then.messages[0] != first.messages[0]
    assert first.history.messages[0] == first.messages[0], "what was read before stays as it was"


def make_user_item() -> Item:
    return {"role": "user", "content": "and now?"}


def test_a_request_that_is_refused_leaves_what_is_known_as_it_was() -> None:
    session = open_session()
    items = [*build_chat_round(0, 1), make_user_item()]
    session.before_model({"messages": items})
    with pytest.raises(TenfoldError):
        session.before_model({"messages": [*items, build_chat_round(1, 1)[0], {"role": "nobody", "content": ""}]})
    more = [*items, *build_chat_round(2, 1)]
    session.before_model({"messages": more})
    assert session.view.get_messages() == read_request({"messages": more}).messages


def test_words_between_a_call_and_its_result_are_sent_after_both() -> None:
    session = open_session()
    question, call, result, other, answer = build_chat_round(0, 1)
    items = [question, call, result, make_user_item(), other, answer]
    sent = session.before_model({"messages": items})["messages"]
    assert [items.index(item) for item in sent] == [0, 1, 2, 4, 3, 5]
    again_sent = session.before_model({"messages": [*items, make_user_item()]})["messages"]
    assert again_sent[:6] == sent


def test_a_list_from_before_is_not_what_a_longer_log_shows() -> None:
    session = open_session()
    earlier, _ = session.requests.sync_and_check(
        [make_user_message("one"), make_reply("two")], session.compactor.build_call()
    )
    session.requests.sync_and_check(
        [make_user_message("one"), make_reply("two"), make_user_message("three")], session.compactor.build_call()
    )
    assert session.requests.get_messages_to_send(earlier) == [
        make_user_message("one"),
        make_reply("two"),
        make_user_message("three"),
    ]
