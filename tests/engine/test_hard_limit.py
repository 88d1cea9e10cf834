"""At the hard limit: what is sent stays below it, whatever policy, model and messages are."""

from __future__ import annotations

from typing import Any

import pytest

import tenfold
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.block import Block
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.laws.conversations import Broken
from tests.laws.limit_simulation import count_tokens, draw_run, simulate
from tests.laws.presets import build_answerer

pytestmark = pytest.mark.costly(9)

COUNTER = CharacterCounter()
NAMES = sorted(POLICIES)
Item = dict[str, Any]


def write_words(tokens: int) -> str:
    """A text of so many tokens."""
    return ("and so it went on with the next part. " * (tokens // 9 + 1))[: 4 * tokens]


def open_session(name: str, *, model: Broken | None = None) -> Session:
    policy = build_policy(name, COUNTER, models=("m",) if model else ())
    return Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, answerer=build_answerer(model))


GIANT = f"It begins here. {write_words(31_000)} It ends there."


def assert_shows_ends(sent: list[Item]) -> None:
    """The list fits, and of what is too large its beginning and end are there, with the call that reads the rest."""
    assert count_tokens(sent) <= 20_000
    for words in ("It begins here.", "It ends there.", "recall_read("):
        assert words in str(sent)


def play(session: Session, history: list[Item], requests: int, window: int, each: int) -> list[int]:
    """Sends so many requests, each with a question and an answer more, and returns their sizes."""
    sizes = []
    for number in range(requests):
        sizes.append(count_tokens(session.before_model({"messages": list(history)}, window=window)["messages"]))
        history.append({"role": "assistant", "content": write_words(each)})
        history.append({"role": "user", "content": f"Part {number}: {write_words(each)}"})
    return sizes


@pytest.mark.costly(18)
@pytest.mark.parametrize("group", range(20))
def test_in_the_simulation_nothing_is_sent_above_the_limit_and_no_model_is_asked_in_vain(group: int) -> None:
    found = [simulate(draw_run(number)) for number in range(group * 10, group * 10 + 10)]
    assert [line for one in found for line in one.above_limit] == []
    assert [line for one in found for line in one.vain_calls] == []
    assert sum(one.compactions for one in found) > 10, "the runs do go past their windows"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("system", "window"), [(7_100, 8_000), (30_300, 32_000), (180, 512), (400, 1_000)])
def test_a_system_prompt_that_nearly_fills_the_window_leaves_no_request_above_it(
    name: str, system: int, window: int
) -> None:
    """10 of 40 requests were above it: the best plan saved 881 tokens, and a Block had to save 1,000."""
    history = [{"role": "system", "content": write_words(system)}, {"role": "user", "content": "Go through it."}]
    sizes = play(open_session(name), history, 40, window, each=window // 100)
    assert max(sizes) <= window, f"{sum(size > window for size in sizes)} of 40 are above"


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_always_fails_is_left_alone_and_code_takes_its_place(name: str) -> None:
    """`tail` and `clip` sent 34 of 60 requests above the window, with a call of the model at each."""
    model = Broken()
    session = open_session(name, model=model)
    history = [{"role": "system", "content": write_words(500)}, {"role": "user", "content": "Go through it."}]
    sizes = play(session, history, 60, 8_000, each=200)
    assert max(sizes) <= 8_000
    assert model.calls < 15, "not at each of 60 requests"
    entries = session.address.store.read_entries(DEFAULT_NAMESPACE, "s")
    notes = " ".join(note for entry in entries if isinstance(entry, Block) for note in entry.notes)
    assert not model.calls or "the provider is down" in notes, "the failure is visible"


@pytest.mark.parametrize("name", NAMES)
def test_a_request_larger_than_the_window_is_shown_by_head_and_tail_and_the_rest_is_compacted(name: str) -> None:
    """Nothing was compacted around it, and the request grew from 20.9k to 31k."""
    session = open_session(name)
    history: list[Item] = [{"role": "system", "content": write_words(500)}, {"role": "user", "content": "Go."}]
    play(session, history, 12, 20_000, each=300)
    history[-1] = {"role": "user", "content": GIANT}
    sent = session.before_model({"messages": history}, window=20_000, recall="tool")["messages"]
    assert_shows_ends(sent)
    assert len(sent) < len(history)


def test_an_output_larger_than_the_window_is_shown_by_head_and_tail_as_well() -> None:
    """The published designs summarize it, as they do any step that does not fit their tail."""
    session = open_session("tenfold")
    history: list[Item] = [{"role": "system", "content": write_words(500)}, {"role": "user", "content": "Go."}]
    play(session, history, 12, 20_000, each=300)
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "log.txt"}'}}
    history.append({"role": "assistant", "content": None, "tool_calls": [call]})
    history.append({"role": "tool", "tool_call_id": "c", "content": GIANT})
    assert_shows_ends(session.before_model({"messages": history}, window=20_000, recall="tool")["messages"])


@pytest.mark.parametrize("name", NAMES)
def test_an_output_reserve_is_kept_as_given_or_refused_with_the_arithmetic(name: str) -> None:
    policy = POLICIES[name](COUNTER)
    kept = policy.get_limits(100_000, output_reserve=70_000)
    assert (kept.hard, kept.note) == (30_000, ""), "it was halved in silence to 50,000"
    refused = policy.get_limits(10_000, output_reserve=30_000)
    assert refused.note.startswith("an output reserve of 30,000 tokens leaves nothing of a window of 10,000")
    session = open_session(name)
    request = {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 30_000}
    assert session.before_model(request, window=10_000)["messages"] == request["messages"]
    if session.outcome is not None:  # a check is due here
        assert session.outcome.notes == (refused.note,)
    with pytest.raises(UsageError, match="30,000 tokens leaves nothing of a window of 10,000"):
        tenfold.compact(request["messages"], window=10_000, output_reserve=30_000, policy=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("messages", [[], [{"role": "system", "content": "Be brief."}]], ids=["nothing", "system"])
def test_a_list_without_a_conversation_is_accepted(name: str, messages: list[Item]) -> None:
    sent = open_session(name).before_model({"messages": messages}, window=8_000)
    assert sent["messages"] == messages
    done = tenfold.compact(messages, window=8_000, policy=name)
    assert (done.messages, done.outcome.status) == (messages, "nothing")
