"""A session remembers the last list it was brought level with: what it then does is what a fresh one would do."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tenfold.errors import TenfoldError
from tenfold.hosting import Request, read_request
from tenfold.record.entry import message_of
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.wire import Resent
from tenfold.wire.resent import PART
from tests.engine.making import again, called, gave, new_ids, opened, said, user

Item = dict[str, Any]


def anew(session: Session) -> Session:
    """The same head with nothing remembered, which goes on with the same ids."""
    made = again(session)
    made.new_id = session.new_id
    return made


def changed(rng: random.Random, whole: list[Message], session: Session, number: int) -> list[Message]:
    """What a host may send next: grown, shortened, rewritten in place, or a view of ours."""
    kind = rng.choice(["grown", "grown", "grown", "step", "same", "shorter", "rewritten", "view"])
    if kind == "step":
        return [*whole, called(f"c{number}"), gave(f"c{number}", "text " * 200)]
    if kind == "shorter":
        return whole[: rng.randint(1, max(1, len(whole)))]
    if kind == "rewritten" and whole:
        at = rng.randrange(len(whole))
        return [*whole[:at], user(f"changed {number}"), *whole[at + 1 :]]
    if kind == "view":
        return [*session.view.messages(), user(f"on {number}")]
    return whole if kind == "same" else [*whole, user(f"go on {number} " * 60), said(f"yes {number}")]


@pytest.mark.parametrize("seed", range(12))
def test_a_session_that_remembers_does_what_one_opened_anew_does(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same walk every time
    remembers, forgets = opened(), opened()
    remembers.new_id, forgets.new_id = new_ids(), new_ids()
    whole: list[Message] = [user("begin"), said("begun")]
    for number in range(25):
        whole = changed(rng, whole, remembers, number)
        forgets = anew(forgets)
        remembers.sync(whole)
        forgets.sync(whole)
        assert remembers.view.messages() == forgets.view.messages(), number
        act = rng.choice(["nothing", "nothing", "compact", "undo", "append"])
        for each in (remembers, forgets):
            if act == "compact":
                each.compact(to=200)
            elif act == "undo" and each.view.marks.live:
                each.undo()
            elif act == "append":
                each.append(user(f"from elsewhere {number}"))
        assert remembers.told(remembers.view) == len(remembers.view.messages())


def test_an_older_view_is_counted_as_it_was() -> None:
    session = opened()
    session.sync([user("begin"), said("begun")])
    older = session.view
    session.sync([user("begin"), said("begun"), user("go on")])
    assert [session.told(view) for view in (session.view, older, session.view)] == [3, 2, 3]


def test_a_list_that_changed_before_its_end_is_not_taken_for_the_last_one() -> None:
    session = opened()
    session.sync([user("one"), said("two"), user("three")])
    view = session.sync([user("one"), said("other"), user("three"), said("four")])
    assert view.messages() == [user("one"), said("other"), user("three"), said("four")]


def test_a_head_that_was_opened_and_went_back_is_written_on() -> None:
    session = opened()
    session.sync([user("one"), said("two"), user("three"), said("four")])
    opened_anew = again(session)
    opened_anew.sync([user("one"), said("two")])
    opened_anew.append(user("five"))
    assert opened_anew.view.messages() == [user("one"), said("two"), user("five")]


# -- whole requests, in a provider's own format ------------------------------------------------------------------------


def chat(number: int, size: int) -> list[Item]:
    call = {"type": "function", "function": {"name": f"tool{number % 3}", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"question {number} " * size},
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"{c}{number}", **call} for c in "cd"]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " * size},
        {"role": "tool", "tool_call_id": f"d{number}", "content": "nothing"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def anthropic(number: int, size: int) -> list[Item]:
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


def responses(number: int, size: int) -> list[Item]:
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


def gemini(number: int, size: int) -> list[Item]:
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
    "openai-chat": ("messages", chat),
    "anthropic": ("messages", anthropic),
    "openai-responses": ("input", responses),
    "gemini": ("contents", gemini),
}
HARMLESS = ["grown", "grown", "copied", "rebuilt", "number", "marked", "prompt"]
"""Changes after which every call still has its results."""
CHANGES = [*HARMLESS, "grown", "partly", "in place", "shorter", "left out"]
AGO = 5 * PART + 3
"""Of a list of ten parts an item that neither this request nor the next looks at."""


def sent_next(
    rng: random.Random,
    items: list[Item],
    talk: Talk,
    number: int,
    *,
    changes: Sequence[str] = CHANGES,
    reach: int = PART,
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
            flipped(items[at])
        case "marked":
            items[at]["cache_control"] = {"type": "ephemeral", "ttl": number}
        case "prompt" if talk in (chat, responses):
            fresh = {"role": "system", "content": f"It is {number} o'clock."}
            return [fresh, *(items[1:] if items[0].get("role") == "system" else items), *new]
        case "left out":
            return [*items[:at], *items[at + 1 :], *new]
        case _:
            return [*items, *new]
    return items


def flipped(value: Any) -> None:  # noqa: ANN401 - a provider's JSON
    """Makes each 1 a True and each 0 a False, and the other way round: Python calls them equal, JSON does not."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(inner, dict | list):
            flipped(inner)
        elif isinstance(inner, bool):
            value[key] = int(inner)
        elif inner in (0, 1):
            value[key] = bool(inner)


def as_read(
    request: dict[str, Any], known: Resent | None = None, *, whole: bool = False
) -> Request | type[TenfoldError]:
    try:
        return read_request(request, known=known, whole=whole)
    except TenfoldError as refusal:
        return type(refusal)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("looked_at", ["whole", "newest"])
def test_a_request_held_against_the_last_one_is_read_as_if_there_was_none(looked_at: str, wire: str, seed: int) -> None:
    """Wherever it was changed in place, if all of it is looked at; if not, among its newest items."""
    rng = random.Random(f"{wire} {seed}")  # noqa: S311 - the same walk every time
    field, talk = WIRES[wire]
    items, known, whole = talk(0, 20), Resent(), looked_at == "whole"
    for number in range(1, 60):
        items = sent_next(rng, items, talk, number, reach=len(items) if whole else PART) or talk(number, 20)
        request = {field: items, "model": rng.choice(["gpt-4o", "claude-x"])} if rng.random() < 0.1 else {field: items}
        fresh, held = as_read(request), as_read(request, known, whole=whole)
        if not isinstance(fresh, Request) or not isinstance(held, Request):
            assert fresh == held
            continue
        assert (held.wire, held.messages) == (fresh.wire, fresh.messages), number
        assert held.resent.raws[: len(items)] == fresh.resent.raws
        known = held.resent


@pytest.mark.parametrize("wire", WIRES)
def test_a_list_is_read_on_from_anywhere(wire: str) -> None:
    field, talk = WIRES[wire]
    items = [item for number in range(3) for item in talk(number, 1)]
    fresh = read_request({field: items}, wire=wire)
    for cut in range(len(items) + 1):
        known = read_request({field: items[:cut]}, wire=wire).resent
        held = read_request({field: items}, wire=wire, known=known)
        assert held.messages == fresh.messages, cut


def test_a_list_of_another_wire_or_another_beginning_is_read_anew() -> None:
    talked = [user_item(), {"role": "assistant", "content": "Later."}, user_item()]
    chatted = read_request({"messages": talked, "model": "gpt-4o"})
    for request in (
        {"messages": talked, "model": "claude-x"},
        {"messages": [*talked, *anthropic(1, 1)]},
        {"messages": [{"role": "system", "content": "Be brief."}, *talked], "model": "claude-x"},
    ):
        held, fresh = read_request(request, known=chatted.resent), read_request(request)
        assert (held.wire, held.messages) == (fresh.wire, fresh.messages)
    call, result = chat(0, 1)[1:3]
    orphan = read_request({"messages": [{"role": "system", "content": "Be brief."}, result]})
    answer = {"messages": [call, result]}
    assert read_request(answer, known=orphan.resent).messages == read_request(answer).messages


def test_system_prompts_that_come_and_go_are_the_newest() -> None:
    known = Resent()
    for hour in (1, 2, 1, 1, 3):
        request = {"messages": [{"role": "system", "content": f"It is {hour}."}, *chat(0, 1), user_item()]}
        read = read_request(request, known=known)
        assert read.messages == read_request(request).messages
        known = read.resent


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wire", WIRES)
def test_a_session_that_remembers_requests_answers_like_one_opened_anew(wire: str, seed: int) -> None:
    rng = random.Random(f"{wire} {seed}")  # noqa: S311 - the same walk every time
    field, talk = WIRES[wire]
    remembers, forgets = opened(), opened()
    remembers.new_id, forgets.new_id = new_ids(), new_ids()
    items = talk(0, 20)
    compacted, gives_views = 0, seed % 2 == 1
    for number in range(1, 40):
        changes = HARMLESS if gives_views else CHANGES
        items = sent_next(rng, items, talk, number, changes=changes) or talk(number, 20)
        forgets = anew(forgets)
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
    assert remembers.view.messages() == forgets.view.messages()


def test_a_message_edited_in_place_is_a_rewrite() -> None:
    session = opened()
    items = [*chat(0, 1), *chat(1, 1)]
    session.before_model({"messages": items})
    before = session.view
    items[0]["content"] = "another question"
    items[6]["tool_calls"][0]["function"]["arguments"] = '{"deep": "down"}'
    assert session.before_model({"messages": items})["messages"] is items
    view = session.view
    assert view.messages()[0] == read_request({"messages": items}).messages[0]
    assert view.messages()[6] == read_request({"messages": items}).messages[6]
    assert view.path is not before.path


def words_of(many: int) -> list[Item]:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": f"word {n} " * 20} for n in range(many)]


def long_ago(session: Session) -> list[Item]:
    """A list that a session was sent, and then edited far from its end, in place."""
    items = words_of(10 * PART + 1)
    session.before_model({"messages": items}, window=1_000_000)
    items[AGO]["content"] = "what it says now"
    return items


@pytest.mark.parametrize("more", [1, PART + 8])
def test_what_was_edited_in_place_long_ago_is_sent_at_once_and_read_when_its_turn_has_come(more: int) -> None:
    session = opened()
    items = long_ago(session)
    for _ in range(len(items) // PART):
        assert session.view.messages() != read_request({"messages": items}).messages
        items.extend(user_item() for _ in range(more))
        assert session.before_model({"messages": items}, window=10_000_000)["messages"] is items
        if session.view.messages() == read_request({"messages": items}).messages:
            return
    raise AssertionError("its turn never came")


def test_the_turn_comes_round_in_a_list_that_grows_fast() -> None:
    session = opened()
    items = words_of(10 * PART + 1)
    for number in range(40):
        session.before_model({"messages": items}, window=10_000_000)
        items.extend(user_item() for _ in range(PART + 8))
        if number == 3:
            items[3]["content"] = "what it says now"
    assert session.view.messages()[3] == read_request({"messages": items}).messages[3]


def test_a_number_of_another_kind_in_another_object_is_read_when_its_turn_has_come() -> None:
    session = opened()
    items = [item for number in range(80) for item in anthropic(2 * number + 1, 1)]
    session.before_model({"messages": items, "system": ""}, window=10_000_000)
    items[6] = copy.deepcopy(items[6])
    items[6]["content"][1]["input"]["line"] = True
    for _ in range(len(items) // PART + 1):
        items.append(user_item())
        session.before_model({"messages": items, "system": ""}, window=10_000_000)
    assert session.view.messages() == read_request({"messages": items, "system": ""}).messages


def test_what_was_edited_in_place_long_ago_is_read_when_the_same_list_comes_again() -> None:
    session = opened()
    items = long_ago(session)
    session.before_model({"messages": items}, window=1_000_000)
    assert session.view.messages() == read_request({"messages": items}).messages


def test_what_was_edited_in_place_long_ago_is_read_before_what_is_new_is_appended() -> None:
    session = opened()
    items = long_ago(session)
    items.append({"role": "user", "content": "zebra crossing"})
    session.before_model({"messages": items}, window=8_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert len(session.search("zebra")) == 1


def test_a_request_may_hold_an_iterator() -> None:
    session = opened()
    items = words_of(2 * PART + 1)
    session.before_model({"messages": iter(items)}, window=1_000_000)
    sent = session.before_model({"messages": iter([*items, user_item()])}, window=1_000_000)["messages"]
    assert list(sent) == [*items, user_item()]
    more = [*items, user_item(), *words_of(2 * PART + 1)]
    sent = session.before_model({"messages": iter(more)}, window=4_000)["messages"]
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert sent[-1] is more[-1]


def test_a_message_is_sent_and_no_equal_one_that_was_compacted() -> None:
    session = opened()
    items = words_of(10 * PART + 1)
    items[3], items[41] = ({"role": "assistant", "content": "I go on."} for _ in range(2))
    session.before_model({"messages": items[: 2 * PART + 1]})
    session.pin(session.view.path.at(3).id)
    session.compact(to=1_000)
    for _ in range(2):
        items.append(user_item())
        sent = session.before_model({"messages": items}, window=1_000_000)["messages"]
        assert any(item is items[3] for item in sent)
        items[41]["content"] = "What it says is told by the Block."


def test_what_was_edited_in_place_long_ago_is_sent_at_once_beside_a_block() -> None:
    session = opened()
    items = words_of(10 * PART + 1)
    session.before_model({"messages": items[: 2 * PART + 1]})
    session.compact(to=1_000)
    session.before_model({"messages": items}, window=1_000_000)
    items[AGO]["content"] = "what it says now"
    sent = session.before_model({"messages": items}, window=1_000_000)["messages"]
    assert session.view.marks.live, "a Block is in force"
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


@pytest.mark.parametrize("before", [0, 1, 2 * PART])
def test_a_list_that_grows_while_it_is_read_is_read_as_it_was(before: int) -> None:
    session = opened()
    items: list[Any] = [*words_of(before), user_item()]
    session.before_model({"messages": items})
    items.append(Growing(items))
    session.before_model({"messages": items})
    session.before_model({"messages": items})
    assert items[-1] == {"role": "user", "content": "and one more"}
    plain = [item.model_dump() if isinstance(item, Growing) else item for item in items]
    assert session.view.messages() == read_request({"messages": plain}).messages


def test_of_equal_messages_the_one_that_stays_is_sent() -> None:
    session = opened()
    items = words_of(2 * PART + 1)
    for at in (3, -4):
        items[at] = {"role": "assistant", "content": "I go on."}
    session.before_model({"messages": items})
    session.compact(to=1_000)
    sent = session.before_model({"messages": items})["messages"]
    assert [id(item) for item in sent if item == items[-4]] == [id(items[-4])]


def test_what_was_edited_in_place_long_ago_is_read_before_it_is_compacted() -> None:
    session = opened()
    items = long_ago(session)
    session.before_model({"messages": items}, window=8_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    said = [message for entry in session.view.path.span(0, session.view.length - 1) if (message := message_of(entry))]
    assert said[AGO] == read_request({"messages": items}).messages[AGO]


@pytest.mark.parametrize("at", [0, PART, 5 * PART, 10 * PART])
def test_another_object_is_read_at_once_wherever_it_stands(at: int) -> None:
    session = opened()
    items = long_ago(session)
    items[at] = {**items[at], "content": "another"}
    session.before_model({"messages": items}, window=1_000_000)
    assert session.view.messages() == read_request({"messages": items}).messages


def test_a_list_that_was_copied_once_is_known_by_its_new_objects() -> None:
    session = opened()
    items = long_ago(session)
    copied = copy.deepcopy(items)
    for _ in range(2):
        session.before_model({"messages": copied}, window=1_000_000)
    assert session.view.messages() == read_request({"messages": items}).messages


def test_a_moved_cache_mark_is_no_rewrite_and_the_newest_form_is_sent() -> None:
    session = opened()
    items = [item for number in range(12) for item in anthropic(number, 40)]
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
    session = opened()
    items = anthropic(1, 1)
    session.before_model({"messages": items, "system": ""})
    items[1]["content"][1]["input"]["line"] = True
    session.before_model({"messages": items, "system": ""})
    assert read_request({"messages": items}).messages == session.view.messages()


def test_what_was_read_is_not_read_again() -> None:
    """The decoded messages of the part that stays are the very same ones, also behind a new system prompt."""
    for wire, (field, talk) in WIRES.items():
        items = [item for number in range(5) for item in talk(number, 1)]
        items = items[: -1 if wire != "openai-responses" else None]  # an answer at the end is read again
        first = read_request({field: items}, wire=wire)
        then = read_request({field: [*copy.deepcopy(items), *talk(5, 1)]}, wire=wire, known=first.resent)
        count = len(first.messages)
        assert all(old is new for old, new in zip(first.messages, then.messages[:count], strict=True)), wire
        assert len(then.messages) > count
    prompts = [{"role": "system", "content": f"It is {hour}."} for hour in (1, 2)]
    talked = [*chat(0, 1), user_item()]
    first = read_request({"messages": [prompts[0], *talked]})
    then = read_request({"messages": [prompts[1], *talked]}, known=first.resent)
    assert all(old is new for old, new in zip(first.messages[1:], then.messages[1:], strict=True))
    assert then.messages[0] != first.messages[0]
    assert first.resent.messages[0] == first.messages[0], "what was read before stays as it was"


def user_item() -> Item:
    return {"role": "user", "content": "and now?"}


def test_a_request_that_is_refused_leaves_what_is_known_as_it_was() -> None:
    session = opened()
    items = [*chat(0, 1), user_item()]
    session.before_model({"messages": items})
    with pytest.raises(TenfoldError):
        session.before_model({"messages": [*items, chat(1, 1)[0], {"role": "nobody", "content": ""}]})
    more = [*items, *chat(2, 1)]
    session.before_model({"messages": more})
    assert session.view.messages() == read_request({"messages": more}).messages


def test_words_between_a_call_and_its_result_are_sent_after_both() -> None:
    session = opened()
    question, call, result, other, answer = chat(0, 1)
    items = [question, call, result, user_item(), other, answer]
    sent = session.before_model({"messages": items})["messages"]
    assert [items.index(item) for item in sent] == [0, 1, 2, 4, 3, 5]
    again_sent = session.before_model({"messages": [*items, user_item()]})["messages"]
    assert again_sent[:6] == sent


def test_a_list_from_before_is_not_what_a_longer_log_shows() -> None:
    session = opened()
    earlier, _ = session.demanded([user("one"), said("two")], session.call())
    session.demanded([user("one"), said("two"), user("three")], session.call())
    assert session.current(earlier) == [user("one"), said("two"), user("three")]
