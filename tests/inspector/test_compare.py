"""Policies side by side on a copy that stores nothing, and a reading test's answers beside the view that gave them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tenfold.apps.inspector.application import Inspector
from tenfold.apps.inspector.readings import GivenAnswer, find_passage, load_readings, mark_answer
from tenfold.apps.inspector.visits import PageSources
from tenfold.config.policies import POLICIES
from tenfold.errors import BadInput
from tenfold.models.prices import find_rates
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session.bill_text import format_dollars
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tenfold.testing.chats import count_total_tokens, read_chats, render_view
from tenfold.testing.methods import Preset
from tests.engine.making import make_user_message
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import DETAIL, MARKUP, RULE, make_hostile_session, make_session

EXAMPLES = Path(__file__).parents[2] / "examples"
HOST = "http://127.0.0.1"


def read_view(client: TestClient, policy: str, *, to: str = "20%", id_: str = "work") -> str:
    answer = client.get("/session/compare/policy", params={"id": id_, "policy": policy, "to": to})
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def read_text(client: TestClient, policy: str) -> str:
    """What a view says, without the id and the hash of its Block."""
    return re.sub(r"[0-9a-f-]{16,}", "", read_view(client, policy).partition("What it says")[2])


# -- policies side by side ---------------------------------------------------------------------------------------------


def test_each_chosen_policy_has_a_column_beside_the_view_in_force(client: TestClient, store: Store) -> None:
    make_session(store, steps=4)
    page = client.get("/session/compare?id=work&with.tail=yes&with.clip=yes&to=15%25").text
    asked = re.findall(r'hx-get="(/session/compare/policy[^"]+)"', page)
    assert [re.findall(r"policy=([\w+]+)", each)[0] for each in asked] == ["as+it+is+now", "clip", "tail"]
    assert all("to=15%25" in each for each in asked)
    assert all(f'name="with.{name}"' in page for name in POLICIES)
    assert "/session/compare/policy" not in client.get("/session/compare?id=work").text, "nothing runs unasked"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_compacts_a_copy_and_nothing_is_stored(client: TestClient, store: Store, policy: str) -> None:
    session = make_session(store, steps=12)
    before = store.read_entries("default", "work")
    said = read_view(client, policy)
    assert store.read_entries("default", "work") == before
    assert not session.refresh().state.live_blocks
    tokens, whole = re.findall(r"Tokens ([\d,]+) of ([\d,]+)", said)[0]
    assert int(whole.replace(",", "")) == session.conversation.count_uncompacted()
    assert int(tokens.replace(",", "")) < int(whole.replace(",", ""))
    assert re.search(r"Must-keep facts found in it (\d+ of \d+)", said)


def test_it_is_as_if_no_compaction_were_in_force(client: TestClient, store: Store) -> None:
    """So that all policies begin with the same, and a session that was compacted is compared like any other."""
    session = make_session(store, steps=12)
    fresh = read_text(client, "tail")
    session.compact(to="30%")
    assert read_text(client, "tail") == fresh
    assert session.refresh().state.live_blocks, "the session itself keeps its own"
    assert read_text(client, "as it is now") != fresh


def test_it_shows_what_each_view_says_what_is_missing_and_the_price(client: TestClient, store: Store) -> None:
    session = make_session(store, steps=12)
    said = read_view(client, "tenfold")
    assert RULE in said
    rates = find_rates("gpt-4o")
    assert rates is not None
    now = read_view(client, "as it is now")
    tokens = session.take_reading().tokens
    assert f"The next request {format_dollars(tokens * rates.write / 1e6)}" in now
    assert DETAIL in now
    tiny = read_view(client, "tail", to="300")
    assert "Not found in it word for word" in tiny


def test_no_model_is_asked(client: TestClient, store: Store, keeper: Keeper) -> None:
    make_session(store, steps=12)
    model = ScriptedModel(["A summary."], repeat=True)
    keeper.answerer = Answerer(model=model)
    assert "compacted" not in read_view(client, "tenfold"), "no refusal is shown"
    assert model.asks == ()


def test_a_wrong_size_is_said_and_hostile_texts_are_text(client: TestClient, store: Store) -> None:
    session = make_hostile_session(store)
    session.append(*(make_user_message(f"{MARKUP} {number}") for number in range(30)))
    id_ = session.address.session
    page = client.get("/session/compare/policy", params={"id": id_, "policy": "tail", "to": "10%"}).text
    assert MARKUP not in page
    assert "&lt;script&gt;" in page
    refused = client.get("/session/compare/policy", params={"id": id_, "policy": "tail", "to": "much"})
    assert refused.status_code == 400
    assert "much" in refused.text


# -- readings ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(store: Store, keeper: Keeper) -> Iterator[TestClient]:
    inspector = Inspector(store, keeper, sources=PageSources(readings=load_readings([EXAMPLES])))
    with TestClient(inspector.application, base_url=HOST) as asked:
        asked.get(f"/?token={inspector.gate.token}")
        yield asked


def test_recorded_readings_are_listed_with_their_grades(reader: TestClient) -> None:
    page = reader.get("/readings").text
    lines = (EXAMPLES / "reading" / "readings.jsonl").read_bytes().splitlines()
    grades = [each.grade for line in lines if (each := msgspec.json.decode(line, type=GivenAnswer)).session == "desk"
              and each.method == "plain" and each.grade is not None]  # fmt: skip
    assert f"{sum(grades) / len(grades):.2f}" in page
    assert 'href="/readings">Readings</a>' in reader.get("/").text


def test_an_answer_stands_beside_question_gold_grade_and_its_passage(reader: TestClient) -> None:
    base = {"session": "desk", "method": "tenfold", "size": "0.1", "rounds": "1", "recall": "no"}
    page = reader.get("/readings/view", params={**base, "question": "desk-02", "answer": "0"}).text
    assert "From which amount on does a refund need Marta&#39;s word" in page
    assert "Above 200 euros; her explicit yes with the amount" in page
    assert '<b class="grade good">1</b>' in page
    passage = re.findall(r'<span id="passage" class="passage">(.*?)</span>', page, re.DOTALL)
    assert len(passage) == 1
    assert "<mark>200</mark> <mark>euros</mark>" in passage[0]


def test_the_view_is_the_one_that_the_yardstick_renders(tmp_path: Path, store: Store, keeper: Keeper) -> None:
    """An answer counts for the very text that was read, by its hash. Otherwise the page says that it has changed."""
    chat = EXAMPLES / "sessions" / "desk.openai-chat.json"
    past = read_chats(chat)[0].messages[:180]
    overhead = count_total_tokens(past[:1])
    budget = int((count_total_tokens(past) - overhead) * 0.1) + overhead
    text = render_view(Preset("tail").compact(past, budget=budget).messages)
    (tmp_path / chat.name).write_bytes(chat.read_bytes())
    (tmp_path / "desk.reading.toml").write_bytes((EXAMPLES / "sessions" / "desk.reading.toml").read_bytes())
    lines = [
        GivenAnswer("desk", "tail", 0.1, 1, False, sha256(text.encode()).hexdigest(), "desk-01", MARKUP),
        GivenAnswer("desk", "tail", 0.2, 1, False, "0" * 64, "desk-01", "another text", -1.0),
        GivenAnswer("desk", "plain", 0.1, 1, False, "0" * 64, "desk-99", "a model wrote the view"),
    ]
    (tmp_path / "readings.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    inspector = Inspector(store, keeper, sources=PageSources(readings=load_readings([tmp_path])))
    with TestClient(inspector.application, base_url=HOST) as client:
        client.get(f"/?token={inspector.gate.token}")
        base = {"session": "desk", "rounds": "1", "recall": "no"}
        same = client.get("/readings/view", params={**base, "method": "tail", "size": "0.1"}).text
        assert "This is the very view that was read." in same
        assert MARKUP not in same
        changed = client.get("/readings/view", params={**base, "method": "tail", "size": "0.2"}).text
        assert "The view has changed since" in changed
        assert "\N{MINUS SIGN}1" in changed
        other = client.get("/readings/view", params={**base, "method": "plain", "size": "0.1"}).text
        assert "no policy or baseline that code alone runs" in other
        assert "stand in no sheet that was named" in other
        unknown = client.get("/readings/view", params={**base, "method": "tail", "size": "0.9"})
        assert unknown.status_code == 404


def test_without_readings_there_is_no_such_page(client: TestClient) -> None:
    assert client.get("/readings").status_code == 404
    assert 'href="/readings"' not in client.get("/").text


@pytest.mark.parametrize("content", [None, b"", b'{"session": 1}\n'])
def test_what_holds_no_answers_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "readings.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match="readings"):
        load_readings([path])


def test_a_passage_is_where_most_of_the_rare_words_stand() -> None:
    text = "The shop sells bags.\nA refund above 200 euros needs a yes.\nThe end of the day.\n" + "The shop.\n" * 50
    span = find_passage(text, "Above 200 euros, the shop says")
    assert span is not None
    assert "A refund above 200 euros" in text[slice(*span)]
    assert find_passage(text, "zebra") is None
    assert find_passage("", "a") is None
    scattered = "\n".join(f"only {word} is here\n\n\n\n\n" for word in ["alpha", "beta", "gamma", "delta", "epsilon"])
    assert find_passage(scattered, "alpha beta gamma delta epsilon") is None, "no lines hold half of them"


def test_whole_words_of_the_answer_are_marked() -> None:
    marked = mark_answer("That starts with 200 euros, the others", "the 200 Euros a")
    assert [text for text, is_word in marked if is_word] == ["200", "euros", "the"]
    assert "".join(text for text, _ in marked) == "That starts with 200 euros, the others"
