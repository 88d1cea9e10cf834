"""What every policy makes of every recorded session, by one call and request by request: whatever it decides to keep,
the provider accepts it, it fits, the newest messages are untouched, and all of it can be read again and taken back.

The project's own sessions are tried with every policy, the others with one policy in three. Of all these one in four is
run at a time, and in a thorough run every session with every policy.
What holds at every cut of these sessions is in `tests/laws/test_every_compaction.py`, what holds where a model answers
in `tests/laws/test_presets_*.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

import tenfold
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import get_message
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire import WIRES
from tenfold.formats import ParsedSession
from tenfold.session import Session, SessionAddress, Stamps
from tenfold.store.ids import ContentIdGenerator
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.laws.recorded import get_path
from tests.session.test_sent_requests import find_requests
from tests.thorough import is_taken

Item = dict[str, Any]
MANY, EVERY_SESSION, EVERY_POLICY = 20, 10, 3
"""Of a file with more than so many sessions one in ten is tried; of foreign sessions one policy in three."""
SHARE, LEAST_TARGET = 10, 2_000
LONG = 8_000
"""From how many characters on even the newest message may be shortened."""
WINDOW, REQUESTS = 16_000, 12
"""The window of the host that resends its list, and how many of its requests are made."""


def list_cases() -> Iterator[object]:
    """Yields `pytest.param`s of a session and a policy, with ids like `pi/file.jsonl#0-tail`."""
    for path in sessions.list_session_files():
        found = sessions.read(path)
        for number in range(0, len(found), EVERY_SESSION if len(found) > MANY else 1):
            name, is_own = f"{sessions.get_short_name(path)}#{number}", path.is_relative_to(sessions.ROOT)
            for at, policy in enumerate(sorted(POLICIES)):
                if get_path(found[number]) and (is_own or is_taken(name, at, EVERY_POLICY)):
                    yield pytest.param(found[number], policy, id=f"{name}-{policy}")


CASES = list(list_cases())


def encode_list(session: ParsedSession) -> tuple[str, list[Item]]:
    """The format of a session's provider (OpenAI Chat where it has none), and its messages as a list of that format.

    Broken calls are repaired: some of the sessions were recorded by programs that sent what a provider refuses.
    """
    messages = View.from_path(Path(get_path(session))).get_messages()
    wire = next((m.native.format for m in messages if m.native and m.native.format in WIRES), "openai-chat")
    return wire, [msgspec.json.decode(item.raw) for item in WIRES[wire].encode(messages).items]


def assert_newest_untouched(given: Sequence[Item], sent: Sequence[Item], policy: str) -> None:
    """What is left as it was are the same objects in the same order.

    `tenfold` leaves the newest message as it was, unless it is long: then it may be shortened. Other policies may put
    it into a summary, or shorten it, wherever that is what it takes to fit. Known gap: in a list without results of
    tools, as agents send it that write their actions as text, `tenfold` may summarise even a short newest message.
    """
    places = {id(item): place for place, item in enumerate(given)}
    kept = [places[id(item)] for item in sent if id(item) in places]
    assert kept == sorted(set(kept))
    has_results = any(item.get("role") == "tool" for item in given)
    is_promised = policy == "tenfold" and len(str(given[-1])) <= LONG and has_results
    assert not is_promised or kept[-1] == len(given) - 1, "not even the newest message is left as it was"


def assert_all_readable(session: Session) -> None:
    """Each message that is not in view as it was stands among the originals that some Block expands to."""
    path, view = session.view.path, session.view
    shown = {each.position for each in view.get_visible_messages() if each.is_original}
    said = {p: m for p in range(view.length) if (m := get_message(path.get_entry(p))) is not None}
    lines = [line for at in view.state.live_blocks for line in session.expand(path.get_entry(at).id, deep=True)]
    assert all(line.original and line.message == said[line.position] for line in lines)
    assert said.keys() - shown <= {line.position for line in lines}


def assert_undone(session: Session, wire: str, given: Sequence[Item]) -> None:
    """Undo, as often as there are Blocks, gives back what came, byte for byte."""
    while session.view.state.live_blocks:
        session.undo()
    items = WIRES[wire].encode(session.view.get_messages()).items
    assert [item.raw for item in items] == [msgspec.json.encode(item) for item in given]


def explains_size(outcome: Outcome | None) -> bool:
    """Whether the Outcome says why what is sent is no smaller."""
    return outcome is not None and bool(outcome.reason) and (outcome.status != "compacted" or outcome.target_missed)


@pytest.mark.costly(6)
@pytest.mark.parametrize(("recorded", "policy"), CASES)
def test_a_list_is_compacted_in_one_call(recorded: ParsedSession, policy: str) -> None:
    wire, items = encode_list(recorded)
    target = max(LEAST_TARGET, sum(choose_counter(None).counter.count([str(item) for item in items])) // SHARE)
    done, again = (tenfold.compact(items, to=target, policy=policy, format=wire, recall="tool") for _ in range(2))
    assert (done.messages, done.system, done.outcome.status) == (again.messages, again.system, again.outcome.status)
    assert tenfold.validate(done.messages, wire) == []
    assert done.outcome.tokens_after <= target or explains_size(done.outcome)
    assert_newest_untouched(items, done.messages, policy)
    assert_all_readable(done.session)
    assert_undone(done.session, wire, items)


def play_host(name: str, policy: str, wire: str, items: Sequence[Item]) -> tuple[Session, list[list[Item]]]:
    """The session of a host that resends its whole list before some of its requests, and what it was given to send."""
    chosen = build_policy(policy, choose_counter(None).counter)
    stamps = Stamps(ContentIdGenerator(name.encode()).generate, message_time=lambda: None)
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "host"), chosen, stamps=stamps)
    field = WIRES[wire].profile.request.list_field
    ends = find_requests(items) or [len(items)]
    sent = []
    for end in ends[:: 1 + len(ends) // REQUESTS]:
        given = session.before_model({field: list(items[:end])}, window=WINDOW, wire=wire)[field]
        assert tenfold.validate(given, wire) == []
        reading = session.take_reading(window=WINDOW)
        assert reading.tokens <= WINDOW or explains_size(session.outcome)
        assert_newest_untouched(items[:end], given, policy)
        assert_all_readable(session)
        sent.append(given)
    assert_undone(session, wire, items[:end])
    return session, sent


@pytest.mark.costly(6)
@pytest.mark.parametrize(("recorded", "policy"), CASES)
def test_a_host_resends_its_list_before_each_request(recorded: ParsedSession, policy: str) -> None:
    wire, items = encode_list(recorded)
    (_, first), (_, second) = (play_host("host", policy, wire, items) for _ in range(2))
    assert first == second
