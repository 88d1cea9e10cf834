"""A host that goes on with the request it got back: one session, one root, and nothing of the history is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from tenfold import compact
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text, get_tool_result
from tenfold.core.view.rules import validate
from tenfold.designs.clip import create_compactor
from tenfold.errors import UsageError
from tenfold.session import AsyncSession, Session
from tests.laws import presets
from tests.session.test_hosting import FIELD, MORE, STEP, TEXT, WIRES

Item = dict[str, Any]
ROUNDS = 9
WINDOW = 8_000
PROMPT = "Be careful."


def make_answer(wire: str, text: str) -> Item:
    if wire == "gemini":
        return {"role": "model", "parts": [{"text": text}]}
    return {"role": "assistant", "content": text}


def make_round(wire: str, number: int) -> list[Item]:
    """What a host adds between two user messages: six steps, an answer, and the next request."""
    steps = [item for n in range(6 * number, 6 * number + 6) for item in STEP[wire](n)]
    return [*steps, make_answer(wire, f"Answer {number}."), TEXT[wire](f"Now do part {number} of the work.")]


def open_session(policy: str) -> Session:
    return presets.open_session(policy, (), presets.Good(presets.build_preset(policy).summary))


def find_system_texts(value: object) -> list[str]:
    """The texts of a separate system prompt, in whatever form it stands."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for each in value for text in find_system_texts(each)]
    if isinstance(value, dict):
        return find_system_texts(value.get("parts") or value.get("text") or "")
    return find_system_texts(getattr(value, "parts", None) or getattr(value, "text", None) or "")


def get_system(request: Item) -> object:
    config = request.get("config")
    inside = config.get("system_instruction") if isinstance(config, dict) else getattr(config, "system_instruction", "")
    names = ("system", "systemInstruction", "system_instruction", "instructions")
    return next((request[name] for name in names if request.get(name)), inside or "")


def assert_one_history(session: Session, rounds: int, steps: int = 6) -> None:
    """One root, each message of the host once, all on the path, in the order in which they came.

    A summary that is prepared beside the host, and what it cost, may be stored at any moment.
    """
    path = session.view.path
    on_path = [path.get_entry(at).id for at in range(path.length)]
    entries = session.address.store.read_entries(session.address.namespace, session.address.session)
    assert sum(entry.parent is None for entry in entries) == 1
    said = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    assert sum(get_tool_result(m) is not None for m in said) == steps * rounds
    answers = [get_text(m) for m in said if m.role == "assistant" and get_text(m)]
    assert answers == [f"Answer {n}." for n in range(rounds)]
    assert [entry.id for entry in entries[: len(on_path)]] == on_path
    assert not [entry for entry in entries[len(on_path) :] if isinstance(entry, MessageEntry)]


@pytest.mark.parametrize("policy", presets.NAMES)
@pytest.mark.parametrize("wire", WIRES)
def test_a_host_may_go_on_with_the_request_it_got(wire: str, policy: str) -> None:
    session = open_session(policy)
    request: Item = {**MORE[wire], FIELD[wire]: [TEXT[wire]("Always run the tests. Please tidy up.")]}
    compacted = 0
    for number in range(ROUNDS):
        items = [*request[FIELD[wire]], *make_round(wire, number)]
        request = session.before_model({**request, FIELD[wire]: items}, window=WINDOW, wire=wire)
        assert validate(request[FIELD[wire]], wire) == []
        compacted += session.outcome is not None and session.outcome.status == "compacted"
        assert_one_history(session, number + 1)
        prompt = "".join(find_system_texts(get_system(request)))
        assert wire == "openai-chat" or prompt.startswith(PROMPT)
        shown = [m for m in session.view.get_messages() if m.role == "system" and m.origin == "tenfold"]
        assert prompt.count("<tenfold-summary") == (len(shown) if wire in ("anthropic", "gemini") else 0)
    assert compacted >= 2


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_a_host_may_go_on_with_the_list_it_got_and_its_own_system_prompt(wire: str) -> None:
    """The summary stands in the system prompt, which such a host writes anew for each request."""
    session = open_session("clip")
    items, shown = [TEXT[wire]("Always run the tests. Please tidy up.")], 0
    for number in range(ROUNDS):
        request = {**MORE[wire], FIELD[wire]: [*items, *make_round(wire, number)]}
        for _ in ("first", "again"):
            sent = session.before_model(request, window=WINDOW, wire=wire)
            assert_one_history(session, number + 1)
            prompt = "".join(find_system_texts(get_system(sent)))
            shown = sum(m.role == "system" and m.origin == "tenfold" for m in session.view.get_messages())
            assert prompt.count("<tenfold-summary") == shown
            assert prompt.startswith(PROMPT)
            assert "Always run the tests." in prompt + str(sent[FIELD[wire]])
            request = {**MORE[wire], FIELD[wire]: sent[FIELD[wire]]}
        items = sent[FIELD[wire]]
    assert shown


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_a_new_list_is_no_part_of_a_session_with_a_summary_in_the_system_prompt(wire: str) -> None:
    session = open_session("clip")
    items = [TEXT[wire]("Please tidy up.")]
    for number in range(ROUNDS):
        items += make_round(wire, number)
        session.before_model({**MORE[wire], FIELD[wire]: list(items)}, window=WINDOW, wire=wire)
    assert any(m.role == "system" and m.origin == "tenfold" for m in session.view.get_messages())
    leaf = session.leaf
    with pytest.raises(UsageError, match="does not continue session"):
        session.before_model({**MORE[wire], FIELD[wire]: [TEXT[wire]("Something else.")]}, window=WINDOW, wire=wire)
    assert session.leaf == leaf


CONFIGS: dict[str, Callable[[str], Item]] = {
    "text": lambda text: {"config": {"system_instruction": text}},
    "parts": lambda text: {"systemInstruction": {"parts": [{"text": text}]}},
    "snake": lambda text: {"system_instruction": {"parts": [{"text": text}]}},
    "rest": lambda text: {"generationConfig": {"temperature": 1}, "systemInstruction": text},
    "object": lambda text: {"config": types.GenerateContentConfig(system_instruction=text, temperature=0.5)},
    "content": lambda text: {
        "config": types.GenerateContentConfig(system_instruction=types.Content(parts=[types.Part(text=text)]))
    },
    "none": lambda _: {"config": types.GenerateContentConfig(temperature=0.5)},
    "nothing": lambda _: {},
}


@pytest.mark.parametrize("form", CONFIGS)
def test_a_summary_is_found_in_every_form_of_a_system_instruction(form: str) -> None:
    session = open_session("clip")
    request: Item = {"model": "gemini-x", **CONFIGS[form](PROMPT), "contents": [TEXT["gemini"]("Please tidy up.")]}
    for number in range(ROUNDS):
        items = [*request["contents"], *make_round("gemini", number)]
        request = session.before_model({**request, "contents": items}, window=WINDOW)
        assert_one_history(session, number + 1)
        text = "".join(find_system_texts(get_system(request)))
        assert text.startswith(PROMPT if form not in ("none", "nothing") else "")
        assert text.count("<tenfold-summary") <= 1
    assert "<tenfold-summary" in text


@pytest.mark.parametrize("join", ["joined", "list"])
def test_a_host_may_join_the_texts_of_the_system_prompt(join: str) -> None:
    session = open_session("clip")
    request: Item = {"model": "claude-x", "system": PROMPT, "messages": [TEXT["anthropic"]("Please tidy up.")]}
    for number in range(ROUNDS):
        items = [*request["messages"], *make_round("anthropic", number)]
        request = session.before_model({**request, "messages": items, "max_tokens": 500}, window=WINDOW)
        assert_one_history(session, number + 1)
        texts = find_system_texts(request["system"])
        assert "".join(texts).startswith(PROMPT)
        assert "".join(texts).count("<tenfold-summary") <= 1
        if join == "joined":
            request["system"] = "\n\n".join(texts)
    assert "<tenfold-summary" in str(request["system"])


def test_a_host_may_keep_its_own_list_and_only_the_system_prompt_that_it_got() -> None:
    session = open_session("clip")
    items = [TEXT["anthropic"]("Please tidy up.")]
    system: object = PROMPT
    for number in range(ROUNDS):
        items += make_round("anthropic", number)
        request = {"model": "claude-x", "system": system, "messages": list(items), "max_tokens": 500}
        sent = session.before_model(request, window=WINDOW)
        system = sent["system"]
        assert_one_history(session, number + 1)
        assert "".join(find_system_texts(system)).count("<tenfold-summary") <= 1
    assert len(sent["messages"]) < len(items) / 2


def test_a_summary_of_somebody_else_stays_in_the_system_prompt() -> None:
    other, session = open_session("clip"), open_session("clip")
    request: Item = {"model": "claude-x", "max_tokens": 500, "messages": [TEXT["anthropic"]("Please tidy up.")]}
    foreign = request
    for number in range(3):
        foreign = other.before_model(
            {**foreign, "messages": [*foreign["messages"], *make_round("anthropic", number)]}, window=WINDOW
        )
    assert "<tenfold-summary" in str(foreign["system"])
    sent = session.before_model({**request, "system": foreign["system"]}, window=WINDOW)
    assert sent["system"] == foreign["system"]
    for number in range(3):
        sent = session.before_model(
            {**sent, "messages": [*sent["messages"], *make_round("anthropic", number)]}, window=WINDOW
        )
    assert sent["system"][0] == foreign["system"][0]
    assert len(sent["system"]) == 2


def test_an_asynchronous_host_is_served_alike() -> None:
    async def run() -> Session:
        session = open_session("clip")
        wrapped = AsyncSession(session)
        request: Item = {**MORE["anthropic"], "messages": [TEXT["anthropic"]("Please tidy up.")]}
        for number in range(ROUNDS):
            items = [*request["messages"], *make_round("anthropic", number)]
            request = await wrapped.before_model({**request, "messages": items}, window=WINDOW)
            assert_one_history(session, number + 1)
        return session

    assert asyncio.run(run()).view.find_newest_block() is not None


@pytest.mark.parametrize("wire", WIRES)
def test_a_list_that_was_compressed_may_be_given_again(wire: str) -> None:
    """The design's own face takes and returns a list alone, so the archive has to stand in the list."""
    model = presets.Good(presets.build_preset("clip").summary)
    compactor = create_compactor(model=model, wire=wire, window=WINDOW)
    items: list[Item] = [TEXT[wire]("Always run the tests. Please tidy up.")]
    created = 0
    for number in range(ROUNDS):
        items = [*items, *make_round(wire, number)]
        result = compactor.compress(items, "c")
        assert not result.failed, result.reason
        items, created = list(result.history), created + result.batches_created
        assert validate(items, wire) == []
        assert "<tenfold-summary" in str(items)
        assert_one_history(compactor.get_session("c"), number + 1)
    assert created >= ROUNDS


@pytest.mark.parametrize("wire", WIRES)
def test_lists_alone_are_compacted_on_from_the_system_text_that_came_back(wire: str) -> None:
    items: list[Item] = [TEXT[wire]("Always run the tests. Please tidy up.")]
    system = PROMPT
    for number in range(4):
        items += make_round(wire, number)
        result = compact(items, to=1_500, system=system, format=wire, policy="clip")
        assert result.outcome.status == "compacted", result.outcome.reason
        items, system = result.messages, "\n\n".join((PROMPT, *result.system))
        shown = system + str(items)
        assert shown.count("<tenfold-summary") == 1
        assert "Always run the tests." in shown, f"after round {number}"
