"""One facts section in view, in what the newest Block shows: for every policy, over several compactions in a row."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from tenfold.compaction.facts.section_headings import TITLE
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire import WIRES
from tenfold.core.wire.marks import extract_summary_text
from tenfold.models.model import Model
from tenfold.session import Session, SessionAddress
from tenfold.session.stateless import compact
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.engine.making import make_call, make_result, make_user_message, open_session
from tests.laws import presets
from tests.laws.conversations import count_tokens
from tests.laws.presets import NAMES, Good
from tests.laws.recorded import get_path

pytestmark = pytest.mark.costly(4)


def find_sections(session: Session) -> list[Message]:
    """The messages in view that hold a facts section of ours."""
    return [m for m in session.view.get_messages() if m.origin == "tenfold" and TITLE in get_text(m)]


def build_model(name: str, *, asks: bool) -> Model | None:
    return Good(presets.build_preset(name).summary) if asks else None


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["gemini-cli/NotFollowingUserIntent.json", "claude-code/large-conversation.jsonl"])
def test_one_section_while_a_recorded_session_grows(file: str, name: str, asks: bool) -> None:  # noqa: FBT001
    sessions.require_sessions()
    recorded = max(sessions.read(sessions.FOLDER / file), key=lambda each: len(each.entries))
    said = [m for e in recorded.entries if (m := get_message(e)) is not None]
    session = presets.open_session(name, (), build_model(name, asks=asks), models=("m",) if asks else ())
    compacted = 0
    step = max(1, len(said) // 40)
    window = max(6_000, count_tokens(said) // 8)
    for start in range(0, len(said), step):
        session.append(*said[start : start + step])
        compacted += session.compact(window=window).status == "compacted"
        presets.assert_one_section(session)
    assert compacted > 4


@pytest.mark.parametrize("name", NAMES)
def test_one_section_in_a_list_that_is_compacted_again_and_again(name: str) -> None:
    """A plain list brings its earlier summaries along as messages: no Block at hand says what they hold."""
    rows: list[object] = []
    for number in range(5):
        more = WIRES["openai-chat"].encode(presets.build_work(number * 40, 6_000)).items
        done = compact(
            [*rows, *(json.loads(item.raw) for item in more)], to=3_000 if number % 2 else 6_000, policy=name
        )
        assert done.outcome.status == "compacted"
        rows = done.messages
        assert sum(TITLE in json.dumps(row) for row in rows) == 1
        assert "Never touch the table_" in json.dumps(rows)


def test_an_older_summary_keeps_its_text_and_undo_gives_its_section_back() -> None:
    """Under `blocks` the texts of earlier runs stay in view beside that of the current one."""
    session = presets.open_session("blocks", (), Good(presets.build_preset("blocks").summary))
    for number in range(5):
        session.append(*presets.build_work(number * 40, 5_000), run=f"run-{number}")
        before = session.view.get_messages()
        assert session.compact(to=4_000 + 1_000 * number).status == "compacted"
        presets.assert_one_section(session)
    (section,) = find_sections(session)
    assert f'block="{session.view.path.get_entry(session.view.state.live_blocks[-1]).id}"' in get_text(section)
    texts = [extract_summary_text(get_text(m)) for m in session.view.get_messages() if m.origin == "tenfold"]
    assert sum(t is not None and "Went on" in t for t in texts) > 1, "their texts stand without their facts"
    assert all(t is None or t.strip() for t in texts)
    session.compactor.use_answerer(
        replace(session.compactor.answerer, model=Good(presets.build_preset("blocks").summary))
    )
    again = session.redo()
    assert again.status in ("compacted", "failed", "nothing")
    presets.assert_one_section(session)
    while session.view.state.live_blocks and session.view.length:
        session.undo()
    assert session.view.get_messages()[-len(before[-3:]) :] == before[-3:]


@pytest.mark.parametrize("target", [2_500, 4_000, 6_000])
@pytest.mark.parametrize("name", ["desk.openai-chat.json", "logs.pi.jsonl", "pricing.claude-code.jsonl"])
def test_what_the_target_has_left_goes_to_the_facts(name: str, target: int) -> None:
    recorded = max(sessions.read(sessions.ROOT / "examples" / "sessions" / name), key=lambda each: len(each.entries))
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), build_policy("tenfold", choose_counter("gpt-4o").counter)
    )
    session.append(*(m for entry in get_path(recorded) if (m := get_message(entry)) is not None))
    outcome = session.compact(to=target)
    assert outcome.status == "compacted"
    assert target * 0.95 <= outcome.tokens_after <= target


STEPS = [
    message
    for n in range(40)
    for message in (make_call(f"c{n}", "sh", f'{{"command": "make step{n}"}}'), make_result(f"c{n}", "x " * 400))
]


def test_a_request_that_takes_too_much_room_is_shown_once_by_head_and_tail() -> None:
    asked = "Please mend the totals.\n" + "\n".join(f"Frame {n} of the report: shop.cart.Total#{n}" for n in range(300))
    session = open_session([make_user_message(asked), *STEPS], POLICIES["tenfold"](choose_counter("gpt-4o").counter))
    assert session.compact(to=6_000).status == "compacted"
    texts = [get_text(m) for m in session.view.get_messages()]
    assert sum("Please mend the totals." in text for text in texts) == 1
    (shown,) = (text for text in texts if "Please mend the totals." in text)
    assert re.search(r"\[\.\.\. [\d,]+ characters of the request left out", shown)
    assert shown.endswith("shop.cart.Total#299")
    again = session.compact(to=2_000)
    assert again.status == "compacted"
    assert sum("Please mend the totals." in get_text(m) for m in session.view.get_messages()) == 1


def test_what_is_pasted_in_a_long_request_is_cut_before_the_users_own_words() -> None:
    issue = "<issue>\n" + "The totals of the report are wrong since the last release.\n" * 60 + "</issue>\n"
    demands = [f"{number}. Look at part {number} of the report." for number in range(20)]
    request = "\n".join(["Here is a project.", issue, *demands])
    session = open_session([make_user_message(request), *STEPS], POLICIES["tenfold"](choose_counter("gpt-4o").counter))
    assert session.compact(to=1_500).status == "compacted"
    (shown,) = (text for m in session.view.get_messages() if "Here is a project." in (text := get_text(m)))
    assert [demand for demand in demands if demand not in shown] == []
    assert len(re.findall(r"\[\.\.\. [\d,]+ characters of the request left out", shown)) == 1


def test_the_demands_in_the_hidden_middle_of_a_long_request_are_told() -> None:
    issue = "<issue>\n" + "The totals of the report are wrong since the last release.\n" * 60 + "</issue>\n"
    demand = "You must make minimal changes to the files in src/report and not touch the tests."
    steps = [f"Step {number}: look at part {number} of the report and think about it." for number in range(60)]
    request = "\n".join(["Here is a project.", issue, *steps[:30], demand, *steps[30:]])
    session = open_session([make_user_message(request), *STEPS], POLICIES["tenfold"](choose_counter("gpt-4o").counter))
    assert session.compact(to=1_500).status == "compacted"
    texts = [get_text(m) for m in session.view.get_messages()]
    assert any("characters of the request left out" in text and demand not in text for text in texts)
    assert any(extract_summary_text(text) and demand in text for text in texts)
