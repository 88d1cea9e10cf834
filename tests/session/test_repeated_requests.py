"""What a session sends does not depend on what it kept of the requests before: one opened anew sends the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.core.wire import WIRES
from tenfold.errors import NotFoundError, UsageError
from tenfold.session import Session
from tests.engine.making import open_session, reopen_session
from tests.session.test_hosting import FIELD, MORE, STEP, TEXT
from tests.thorough import IS_THOROUGH

Item = dict[str, Any]
WINDOW = 6_000
ACTIONS = ["step"] * 6 + ["say", "compact", "undo", "pin", "rule", "mark", "branch", "model"]


def mark_last(items: list[Item]) -> list[Item]:
    """The list with a cache mark on its last message only, as clients of Anthropic move theirs."""
    bare = [json.loads(json.dumps(item).replace(', "cache_control": {"type": "ephemeral"}', "")) for item in items]
    for block in bare[-1]["content"][-1:] if isinstance(bare[-1].get("content"), list) else ():
        block["cache_control"] = {"type": "ephemeral"}
    return bare


def change_session(session: Session, action: str, number: int) -> None:
    """Does what a command or a tool does between two requests, if there is anything to do it to."""
    shown = [s.position for s in session.view.get_visible_messages() if s.is_original]
    try:
        if action == "compact":
            session.compact(to=1_500)
        elif action == "undo":
            session.undo()
        elif action == "rule":
            session.add_rule(f"Always keep to rule {number}.")
        elif action == "pin" and shown:
            session.pin(session.view.path.get_entry(shown[number % len(shown)]).id)
    except (UsageError, NotFoundError):
        return


@pytest.mark.parametrize("as_bytes", [True, False], ids=["bytes", "mappings"])
@pytest.mark.parametrize("wire", FIELD)
@settings(max_examples=12 if IS_THOROUGH else 5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 20)), min_size=10, max_size=30))
def test_a_session_opened_anew_sends_the_same(wire: str, as_bytes: bool, actions: list[tuple[str, int]]) -> None:  # noqa: FBT001
    session, field = open_session(), FIELD[wire]
    items: list[Item] = [TEXT[wire]("Always run the tests. Please tidy up.")]
    for number, (action, choice) in enumerate(actions):
        if action == "step":
            items = [*items, *STEP[wire](number)]
        elif action == "say":
            items = [*items, TEXT[wire](f"Now part {choice}.")]
        elif action == "branch":
            items = [*items[: 1 + choice % len(items)], TEXT[wire](f"Rather do part {choice}.")]
        elif action == "mark" and wire == "anthropic":
            items = mark_last(items)
        else:
            change_session(session, action, choice)
        sent_form = [json.dumps(item).encode() for item in items] if as_bytes else items
        request = {**MORE[wire], field: sent_form, **({"model": f"m{choice % 2}"} if action == "model" else {})}
        sent = session.before_model(request, window=WINDOW, wire=wire)
        assert sent == reopen_session(session).before_model(request, window=WINDOW, wire=wire)
        kinds = {type(item) for item in sent[field]}
        assert kinds == ({bytes} if as_bytes else {dict})


@pytest.mark.parametrize("wire", FIELD)
def test_a_list_of_bytes_comes_back_as_bytes_that_say_the_same(wire: str) -> None:
    sessions = open_session(), open_session()
    items: list[Item] = [TEXT[wire]("Always run the tests. Please tidy up.")]
    for number in range(12):
        items += STEP[wire](number)
        raws = [json.dumps(item).encode() for item in items]
        plain = sessions[0].before_model({**MORE[wire], FIELD[wire]: items}, window=WINDOW, wire=wire)[FIELD[wire]]
        sent = sessions[1].before_model({**MORE[wire], FIELD[wire]: raws}, window=WINDOW, wire=wire)[FIELD[wire]]
        assert len(sent) == len(plain)
        assert [raw for raw in sent if raw in raws] == [raw for raw in map(_write, plain) if raw in raws]
    assert sent != raws
    assert WIRES[wire].decode(sent)


def _write(item: Item) -> bytes:
    return json.dumps(item).encode()
