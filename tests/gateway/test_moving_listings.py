"""What aider adds to its history anew at each turn, as its listing of files, comes whole, and the rest is compacted."""

from __future__ import annotations

import json

import pytest

from tenfold.apps.gateway.model_request import ModelRequest, parse_request
from tenfold.apps.gateway.moving_listings import set_listings_aside
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text
from tenfold.store.location import open_store
from tests.gateway.conversations import PATHS, Json, Talk, list_sessions, post, read_stored
from tests.gateway.serving import run_gateway

WINDOW = 16_000
FILES = "I have *added these files to the chat* so you can go ahead and edit them.\n\n"


@pytest.mark.parametrize("opening", [FILES, "Here are the files: "])
def test_what_moves_stays_within_the_window_and_a_known_listing_comes_whole(opening: str) -> None:
    """No list begins as the one before. Where the listing is not known as aider's, each turn is a branch."""
    talk, store = Talk("chat"), open_store(":memory:")
    talk.tools = []
    listing: Json = {"role": "user", "content": opening + "src/x.py def f(): pass; " * 400}
    agreed: Json = {"role": "assistant", "content": "Ok, any changes I propose will be to those files."}
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        for number in range(40):
            talk.add_user("word " * 200)
            moved = talk.copy()
            listing["content"] += f"src/new{number}.py "
            moved.items[-1:-1] = [dict(listing), agreed]
            moved.send(gateway.url)
            sent = upstream.requests[-1].body
            kept = 3 if opening == FILES else 1
            assert json.loads(sent)["messages"][-kept:] == moved.items[-kept:]
            assert len(sent) < WINDOW * 4
            if number < 8:
                assert sent == moved.build_body(), "what fits goes as it came"
            talk.add_answer("word " * 200)
        assert gateway.gateway.log.totals.compactions >= 1
        assert gateway.gateway.log.totals.compactions <= 8 or opening != FILES
    stored = read_stored(store)
    assert len(set().union(*stored.values())) == 79, "all but the last answer, which was never sent"
    if opening == FILES:
        assert [set(marks.values()) for marks in stored.values()] == [{1}], "one line of one session"
    assert store.verify("default") == []
    store.close()


RULES = "# *SEARCH/REPLACE block* Rules:\n\nEvery block must use this format.\n" + "Never leave a block out.\n" * 10
TURNS = (
    ("I have *added these files to the chat* so you can go ahead and edit them.\n\n*Trust", "Ok, any changes"),
    ("I have *added these files to the chat* so you see all of their contents.\n*Trust", "Ok, I will use that as"),
    ("These files have been *added these files to the chat* so we can see all of", "Ok, I will use that as the true"),
    ("These are some files we have been discussing that we may want to edit after you", "Ok, any changes I propose"),
    ("I am not sharing any files that you can edit yet.", "Ok."),
    ("I am not sharing the full contents of any files with you yet.", "Ok."),
    ("I am not sharing any files with you.", "Ok."),
    ("Don't try and edit any existing code without asking me to add the files", "Ok, based on your requests I will"),
    ("Here are summaries of some files present in my git repository.\nDo not", "Ok, I won't try and edit those files"),
    (
        "I am working with you on code in a git repository.\nHere are summaries of some files present in my git repo.",
        "Ok, I won't try and edit those files without asking first.",
    ),
    ("Here are some READ ONLY files, provided for your reference.\nDo not", "Ok, I will use these files"),
)
"""What aider 0.86 says of files, and the answer that it writes behind it."""


@pytest.mark.parametrize("kind", ["chat", "messages"])
@pytest.mark.parametrize(("listing", "answer"), TURNS)
def test_everything_that_aider_says_of_files_is_kept_out_of_the_session(listing: str, answer: str, kind: str) -> None:
    said: list[Json] = [{"role": "user", "content": listing}, {"role": "assistant", "content": answer}]
    if kind == "messages":
        said = [{**each, "content": [{"type": "text", "text": each["content"]}]} for each in said]
    check_set_aside(kind, said)


def test_an_image_of_the_chat_is_kept_out_of_the_session() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 900, "detail": "high"}}
    content = [{"type": "text", "text": "Image file: docs/a.png"}, image]
    check_set_aside("chat", [{"role": "user", "content": content}, {"role": "assistant", "content": "Ok."}])


def test_what_the_user_says_himself_is_no_listing() -> None:
    talk = Talk("chat")
    talk.items.append({"role": "user", "content": "I am not sharing any files with you. Why is that?"})
    talk.add_answer()
    talk.add_user()
    request = read_request(talk)
    kept, aside = set_listings_aside(request)
    assert kept is request
    assert aside is None


@pytest.mark.parametrize("wire", ["chat", "messages"])
def test_a_request_without_messages_passes_as_it_came(wire: str) -> None:
    with run_gateway() as (upstream, gateway):
        response = post(gateway.url, wire, b'{"model":"m","messages":[]}')
        assert "x-tenfold-bypass" not in response.headers
        assert upstream.requests[-1].body == b'{"model":"m","messages":[]}'


def check_set_aside(kind: str, said: list[Json]) -> None:
    """Exactly these messages are taken out, and come back where they stood."""
    talk = Talk(kind)
    talk.add_user()
    talk.add_answer()
    talk.add_user()
    plain = list(map(json.loads, read_request(talk).items))
    talk.items[-1:-1] = said
    request = read_request(talk)
    kept, aside = set_listings_aside(request)
    assert aside is not None
    assert list(map(json.loads, kept.items)) == plain
    assert aside.put_back(kept).items == request.items


def read_request(talk: Talk) -> ModelRequest:
    """The request as the gateway reads it."""
    request = parse_request(PATHS[talk.kind], talk.build_body())
    assert request is not None
    return request


@pytest.mark.parametrize(("kind", "place"), [("chat", "system"), ("chat", "user"), ("messages", "user")])
def test_the_rules_that_aider_repeats_at_the_end_are_no_part_of_the_session(kind: str, place: str) -> None:
    """It repeats the end of its system prompt: as a message behind the last one, or in it, by the model's settings."""
    talk, store = Talk(kind, system=f"Act as an expert software developer.\n{RULES}"), open_store(":memory:")
    talk.tools = []
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        for number in range(40):
            talk.add_user("word " * 200)
            asked = talk.copy()
            if place == "system":
                asked.items.append({"role": "system", "content": RULES})
            else:
                asked.items[-1]["content"] += f"\n\n{RULES}"
            asked.send(gateway.url)
            sent = upstream.requests[-1].body
            count = 2 if place == "system" else 1
            assert json.loads(sent)["messages"][-count:] == asked.items[-count:]
            assert len(sent) < WINDOW * 5
            if number < 8:
                assert sent == asked.build_body(), "what fits goes as it came"
            talk.add_answer("word " * 200)
        assert 1 <= gateway.gateway.log.totals.compactions <= 8
    (session,) = list_sessions(store)
    assert len(store.read_heads("default", session)) == 1, "no request is a branch"
    assert set(read_stored(store)[session].values()) == {1}
    assert sum(read_stored(store)[session].values()) == 79
    assert "Never leave a block out" not in "".join(
        get_text(e.message) for e in store.read_entries("default", session)
        if isinstance(e, MessageEntry) and e.message.role == "user"
    )  # fmt: skip
    store.close()


def test_two_chats_that_begin_with_the_same_examples_are_two_sessions() -> None:
    """With most models aider's examples stand before the first prompt, as messages."""
    store = open_store(":memory:")
    examples: list[Json] = [
        {"role": "user", "content": "Change get_factorial() to use math.factorial"},
        {"role": "assistant", "content": "To make this change we need to modify mathweb/flask/app.py."},
        {"role": "user", "content": "I switched to a new code base. Please don't consider the above files or try to"},
        {"role": "assistant", "content": "Ok."},
    ]
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        for tag in "ab":
            talk = Talk("chat", tag)
            talk.tools = []
            talk.items += examples
            for _ in range(30):
                talk.add_user(f"{tag} word " * 150)
                talk.send(gateway.url)
                sent = json.loads(upstream.requests[-1].body)["messages"]
                at = sent.index(examples[0])
                assert sent[at : at + 4] == examples, "the examples come whole"
                talk.add_answer("word " * 200)
        assert gateway.gateway.log.totals.compactions
    stored = read_stored(store)
    assert len(stored) == 2
    assert sorted(len(marks) for marks in stored.values()) == [59, 59]
    store.close()
