"""Questions find what speaks of them: in other endings, in parts of names, in the midst of long text."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tenfold.store.base import Store
from tenfold.store.search.entry_text import read_plain_text
from tenfold.store.search.terms import MAX_TERMS, PASSAGE_LENGTH, build_index_text, parse_question, split_passages
from tenfold.store.sql.passages import search_passages
from tenfold.store.sql.stored_entries import find_scope
from tenfold.store.sql.word_search import SNIPPET_LENGTH
from tenfold.store.sqlite import schema
from tenfold.store.sqlite.search_index import SqliteIndex, has_unindexed
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing, make_message

TEXTS = (
    "We deployed the billing service on Tuesday; it failed for want of a certificate.",
    "The weather is fine.",
    "class HeaderParser lives in src/app/header_parser.py",
    "\u6570\u636e\u5e93\u7684\u7aef\u53e3\u662f 6432\u3002",
    "Nothing else of note.",
    "Die Stra\u00dfe ist gesperrt.",
    "Deploying again went through.",
)


@pytest.fixture
def log(store: Store) -> Growing:
    log = Growing(store)
    log.say(*TEXTS)
    return log


def test_identifiers_give_their_parts_and_wide_scripts_pairs() -> None:
    assert build_index_text("Parsing HTTPHeader, __read_one__ x 2fa") == (
        "parsing httpheader, __read_one__ x 2fa http header read one fa"
    )
    assert build_index_text("\u6570\u636e\u5e93 id\u7684").split() == ["\u6570\u636e", "\u636e\u5e93", "id", "\u7684"]
    assert build_index_text("aB" * 40) == "ab" * 40, "data, no name"
    assert parse_question('where is "the one" parser') == ["one", "parser"]
    assert parse_question("to be or not") == ["to", "be", "or", "not"], "there is nothing else to go by"
    assert parse_question('"the one" "phrase"') == []
    assert len(parse_question(" ".join(f"word{i:03d}x" for i in range(90)))) == MAX_TERMS


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("deployed", "deploying"),
        ("replacement", "replacing"),
        ("relational", "relate"),
        ("ponies", "pony"),
        ("HeaderParser", "parsers"),
        ("read_header_value", "headers"),
        ("HeaderParser", "headerparser"),
        ("na\u00efve", "naive"),
    ],
)
def test_other_endings_and_parts_of_names_are_found(store: Store, said: str, asked: str) -> None:
    Growing(store).say("something else", f"we spoke of {said} there")
    assert [hit.position for hit in store.search_passages(NS, asked)] == [1, 0], "and its neighbour behind it"


@pytest.mark.parametrize("text", ["", "short", "line\n" * 900, "word " * 900, "x" * 5_000, "\n" * 3_000])
def test_passages_are_the_whole_text_in_pieces(text: str) -> None:
    cut = split_passages(text)
    assert "".join(text[start:stop] for start, stop in cut) == text
    assert all(0 < stop - start <= PASSAGE_LENGTH for start, stop in cut)
    assert all(text[stop - 1] in "\n " for _, stop in cut[:-1]) or " " not in text + text.replace("\n", " ")


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("why did the deployment of the bill fail", 0),
        ("which parser reads headers", 2),
        ("header parsers", 2),
        ("\u54ea\u4e2a\u7aef\u53e3\u5c5e\u4e8e\u6570\u636e\u5e93", 3),
        ("welche STRASSE", 5),
    ],
)
def test_a_question_finds_its_answer_first(store: Store, log: Growing, question: str, best: int) -> None:
    assert store.search_passages(NS, question, session="s")[0].position == best
    assert log.session == "s"


def test_what_speaks_of_most_that_is_asked_comes_before_what_repeats_one_rare_word(store: Store) -> None:
    log = Growing(store)
    log.say("The certificate: certificate, certificate, certificate and once more the certificate.")
    log.say("For want of it the billing service stopped right after its deployment.")
    common = ("billing", "service", "stopped", "deployment")
    log.say(*(f"Of the {word} there is nothing to report on day {day}." for day in range(8) for word in common))
    hits = store.search_passages(NS, "billing service stopped deployment certificate", session=log.session, limit=2)
    assert [hit.position for hit in hits] == [1, 0]


def test_words_that_any_question_is_made_of_do_not_decide(store: Store) -> None:
    log = Growing(store)
    log.say("W-5043 refused: packing.", "Noted.")
    log.say(*("What we did there was not what you would do, all the same, when it was with us." for _ in range(3)))
    log.say("W-5044 refused: shipped.", "W-5045 refused: lost.", "W-5046 refused: lost.")
    question = "What did it say when we all the same would have the W-5043 refused?"
    assert store.search_passages(NS, question, session=log.session, limit=1)[0].position == 0


def test_the_neighbours_of_an_answer_come_behind_what_holds_the_words(store: Store, log: Growing) -> None:
    assert [hit.position for hit in store.search_passages(NS, "who deploys")] == [6, 0, 5, 1, 4]
    assert store.search_passages(NS, "zzyzx") == store.search_passages(NS, '"deployed the billing"') == []
    assert [hit.position for hit in store.search_passages(NS, "who deploys", limit=1)] == [6]
    assert log.session == "s"


def test_where_there_is_room_a_hit_shows_what_follows_it(store: Store) -> None:
    log = Growing(store)
    log.say("Shall the lamp go to Kiruna?", "No, send it to Narvik.", "Then the crate?", "Kiruna it is.")
    shown = [hit.snippet for hit in store.search_passages(NS, "lamp crates", limit=2)]
    assert shown == [
        "Then the crate?\n[next message]\nKiruna it is.",
        "Shall the lamp go to Kiruna?\n[next message]\nNo, send it to Narvik.",
    ]
    log.say("Tell me of the harbour. " * 30, "word " * 200)
    (full,) = store.search_passages(NS, "harbour", limit=1)
    assert "[next message]" not in full.snippet, "its own text comes first"
    log.say("A crane stands in the yard.", "x" * 700 + "\n" + "y" * 700)
    (hit,) = store.search_passages(NS, "cranes", limit=1)
    assert hit.snippet.startswith("A crane stands in the yard.\n[next message]\nxxx")
    assert len(hit.snippet) <= SNIPPET_LENGTH + 40


def test_sessions_and_namespaces_are_kept_apart(store: Store, log: Growing) -> None:
    Growing(store, "other", first=5_000).say("They deploy daily.")
    Growing(store, "s", namespace="tenant", first=9_000).say("We deploy never.")
    assert {hit.session for hit in store.search_passages(NS, "deploying")} == {"s", "other"}
    assert [hit.session for hit in store.search_passages(NS, "deploying", session="other")] == ["other"]
    assert ["never" in hit.snippet for hit in store.search_passages("tenant", "deploying")] == [True]
    assert store.search_passages("nobody", "deploying") == []
    assert log.session == "s"


def test_sessions_that_share_a_range_of_the_index_are_kept_apart(sqlite: SqliteStore) -> None:
    Growing(sqlite, "first").say("They deploy daily.")
    with sqlite._database.write() as db:
        db.execute("UPDATE sqlite_sequence SET seq = seq - 1 + (1 << 20) WHERE name = 'session'")
    Growing(sqlite, "a million later", first=5_000).say("We deploy never.", "Noted.")
    for session in ("first", "a million later"):
        hits = sqlite.search_passages(NS, "deploying", session=session)
        assert {hit.session for hit in hits} == {session}
        assert hits[0].position == 0
    assert len(sqlite.search_passages(NS, "deploying")) == 3


def test_a_hit_shows_the_lines_that_answer_out_of_a_long_text(store: Store) -> None:
    log = Growing(store)
    filler = "".join(f"nothing of note happened on day {n} of the voyage\n" for n in range(400))
    long = filler + "the reactor was throttled by valve K-17 at noon\n" + filler + "valve K-17 was replaced\n" + filler
    log.tell([make_message("A calm start."), make_message(long)])
    (hit,) = store.search_passages(NS, "which valves throttle reactors", limit=1)
    assert "throttled by valve K-17 at noon" in hit.snippet
    assert len(hit.snippet) <= SNIPPET_LENGTH + 40
    (wide,) = [each for each in store.search_passages(NS, "which valves throttle reactors") if each.position == 1]
    assert "throttled by valve K-17 at noon" in wide.snippet
    assert "valve K-17 was replaced" in wide.snippet


@pytest.mark.parametrize("before", range(PASSAGE_LENGTH - 60, PASSAGE_LENGTH + 10, 7))
def test_no_cut_shows_a_secret(store: Store, before: int) -> None:
    log = Growing(store)
    secret = "sk-" + "Zq9x" * 12
    log.say(("pad " * 400)[:before].rstrip() + f"\nkey {secret}\nmarker line\n" + "more text\n" * 100)
    for words in ("where is the marker", "what keys", "more pads", secret):
        assert all("Zq9xZq" not in hit.snippet for hit in store.search_passages(NS, words))
    assert "marker line" in store.search_passages(NS, "where is the marker")[0].snippet


def test_the_same_text_is_shown_once_and_the_newest_of_it(store: Store) -> None:
    log = Growing(store)
    for n in range(4):
        log.say("the gateway timed out", f"turn {n}")
    found = [hit.position for hit in store.search_passages(NS, "gateway timeouts timing", limit=4)]
    assert found[0] == 6
    assert not {0, 2, 4} & set(found)


def test_calls_are_read_as_a_reader_sees_them(store: Store) -> None:
    log = Growing(store)
    log.call("edit_file", '{"path": "src/lamp.py", "new": ["say \\"on\\"\\n", 3, null, {"deep": "er"}]}', "patched")
    assert read_plain_text(log.entries[0]).text == 'edit_file\nsrc/lamp.py\nsay "on"\n\n3\ner'
    log.call("edit_file", "{no json", "failed")
    assert read_plain_text(log.entries[2]).text == "edit_file\n{no json"
    assert [hit.position for hit in store.search_passages(NS, "edited lamps", limit=1)] == [0]


def test_a_purged_text_answers_no_more(store: Store, log: Growing) -> None:
    Growing(store, "other", first=5_000).say("They deploy daily.")
    assert 0 in {hit.position for hit in store.search_passages(NS, "who bills", session="s")}
    store.purge(NS, "s", log.entries[0].id, now=1)
    assert store.search_passages(NS, "who bills", session="s") == []
    assert [hit.position for hit in store.search_passages(NS, "who deploys", session="s")] == [6, 5, 4]
    store.purge(NS, "s", None, now=1)
    assert [hit.session for hit in store.search_passages(NS, "who deploys or parses")] == ["other"]


def test_no_term_of_a_purged_text_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    log = Growing(store)
    log.say("the quokkaword is gone soon", "another")
    assert store.search_passages(NS, "which quokkaword")
    assert b"quokkaword" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
    store.purge(NS, "s", log.entries[0].id, now=1)
    store.close()
    assert b"quokka" not in path.read_bytes()


def test_what_the_index_has_not_seen_is_found(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say("The gateway was deployed.", "Noted.", "The second gateway was deployed.")
    assert [hit.position for hit in sqlite.search_passages(NS, "gateways deploying")] == [0, 2, 1]
    log.say("The third gateway was deployed, and nothing else.", *(f"Of no importance: {n}" for n in range(3)))
    with sqlite._database.read() as db:
        assert has_unindexed(db)
        index = SqliteIndex().open_search(db, find_scope(db, NS, "s"))
        late = search_passages(index, "gateways deploying", 20)
    assert {hit.position for hit in late[:4]} == {0, 1, 2, 3}
    (new,) = [hit.snippet for hit in late if hit.position == 3]
    assert new == "The third gateway was deployed, and nothing else."
    indexed = sqlite.search_passages(NS, "gateways deploying", limit=20)
    assert {hit.position for hit in indexed} == {hit.position for hit in late}


def test_a_store_of_the_first_schema_is_indexed_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    log = Growing(store)
    log.say(*TEXTS, "x" * 70_000 + " the far end")
    while store.index():
        pass
    store.close()
    db = sqlite3.connect(path, isolation_level=None)
    for table, column in (("session", "purges"), ("head", "pending"), ("head", "overhead")):
        db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    for table in ("passages", "export", "vector", "lease", "access_key", "access_record"):
        db.execute(f"DROP TABLE {table}")
    db.execute("PRAGMA user_version = 1")
    db.close()
    store = SqliteStore(path)
    assert store.search_passages(NS, "who deploys")[0].position == 6
    assert [hit.position for hit in store.search(NS, "far end")] == [len(TEXTS)]
    assert store.verify(NS) == []
    with store._database.read() as reading:
        assert reading.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION,)
        assert reading.execute("SELECT count(*) FROM rest").fetchone() == (1,)
    assert len(log.entries) == len(TEXTS) + 1
    store.close()


@pytest.mark.parametrize("before", range(PASSAGE_LENGTH // 2 - 12, PASSAGE_LENGTH // 2 + 12, 2))
def test_no_cut_shows_half_of_a_control_sequence(store: Store, before: int) -> None:
    log = Growing(store)
    pad = "pad " * 300
    log.say(pad[:before].rstrip() + " \x1b]0;owned title\x07 marker \x1b[31m" + pad)
    log.say(pad[: before + PASSAGE_LENGTH // 2].rstrip() + " \x1b]0;owned title\x07 marker \x1b[31m" + pad)
    for hit in (*store.search(NS, "marker"), *store.search_passages(NS, "where are markers")):
        assert "marker" in hit.snippet
        assert "owned" not in hit.snippet
        assert "\x1b" not in hit.snippet
