"""Search finds what is there, in any script, and never more than is there. The index only narrows it down."""

from __future__ import annotations

import random

import pytest

from tenfold.core.record.entry import PREPARED_SUMMARY, RULE_ADDED, SET_ASIDE, CustomEntry, Entry, Setting
from tenfold.core.record.message import Message, NativeBytes, Text, Thinking, ToolCall, ToolResult
from tenfold.store.base import Store
from tenfold.store.search.entry_text import EMPTY_RESULT, GAP, get_searchable_text
from tenfold.store.sql.word_search import INDEX_LIMIT, POOL_SIZE, SNIPPET_LENGTH
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing, make_entry_id

TEXTS = (
    "The parser in src/app/Tokenizer.py drops trailing commas",
    "run `pytest -k test_read_header_value` again, please",
    "用户要求保留所有数据库的密码规则",
    "トークンの数を数える関数",
    "토큰을 세는 함수",
    'print("quoted \\"text\\"") AND OR NOT NEAR( * ^ : {x} -- ; DROP TABLE entry',
    "Straße und İstanbul, naïve café",
    "id 7 of 42",
    "nul \x00 byte and emoji 🙂 here",
    "line one\nline two\ttabbed",
)


def find_positions(store: Store, words: str, session: str | None = None) -> set[int]:
    return {h.position for h in store.search(NS, words, session=session, limit=100)}


@pytest.fixture
def log(store: Store) -> Growing:
    log = Growing(store)
    log.say(*TEXTS)
    return log


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        ("tokenizer", {0}),
        ("okeniz", {0}),
        ("TOKENIZER commas", {0}),
        ("commas tokenizer", {0}),
        ("tokenizer header", set()),
        ("read_header", {1}),
        ("test_read_header_value", {1}),
        ('"again, please"', {1}),
        ('"please again"', set()),
        ("数据库", {2}),
        ("密码", {2}),
        ("密", {2}),
        ("関数", {3}),
        ("함수", {4}),
        ("토큰을", {4}),
        ("id", {7}),
        ("7 42", {7}),
        ("strasse", {6}),
        ("STRASSE", {6}),
        ("CAFÉ", {6}),
        ("byte", {8}),
        ("🙂", {8}),
        ('"line one"', {9}),
        ("DROP", {0, 5}),
        ('"', {5}),
        ('print("quoted', {5}),
        ("NEAR(", {5}),
        ("*", {5}),
        ("--", {5}),
        ("AND", {5, 8}),
        ("^ : {x}", {5}),
        ("zzz", set()),
        ("密碼", set()),
    ],
)
def test_words_find_exactly_their_entries(store: Store, log: Growing, words: str, positions: set[int]) -> None:
    assert find_positions(store, words) == positions
    assert len(log.entries) == len(TEXTS)


STRANGE = ("\x00", "\ud800", '"""', "'", "a" * 5_000, "(" * 300, "col:x", "- -", "NOT", "\\", "%", "_")


@pytest.mark.parametrize("words", STRANGE)
def test_no_words_raise(store: Store, log: Growing, words: str) -> None:
    hits = [*store.search(NS, words), *store.search_passages(NS, words)]
    assert all(0 <= h.position < len(log.entries) for h in hits)


def test_any_stretch_of_any_text_is_found(store: Store) -> None:
    chooser = random.Random(5)  # noqa: S311  texts that can be repeated
    log = Growing(store)
    alphabet = "abcdef _./-'\"()*数据库密码関数ßé\n0123"
    texts = ["".join(chooser.choice(alphabet) for _ in range(chooser.randint(1, 120))) for _ in range(60)]
    log.say(*texts)
    for _ in range(150):
        position = chooser.randrange(len(texts))
        start = chooser.randrange(len(texts[position]))
        piece = texts[position][start : start + chooser.randint(1, 12)].strip().replace('"', "")
        if piece and piece in texts[position] and "\n" not in piece:
            plain = [t.casefold().replace("\u00e9", "e") for t in texts]
            expected = {i for i, t in enumerate(plain) if piece.casefold().replace("\u00e9", "e") in t}
            assert find_positions(store, f'"{piece}"') == expected


def test_every_part_of_a_message_is_searched(store: Store) -> None:
    log = Growing(store)
    call = ToolCall("c", "edit_file", '{"new":"tab\\there"}')
    log.tell(
        [
            Message("assistant", (Thinking("deliberating", "sig"), call), "model"),
            Message("tool", (ToolResult("c", "edit_file", (Text("patched cleanly"),)),), "tool"),
        ]
    )
    custom = CustomEntry(make_entry_id(800), log.leaf, "run", None, "note", NativeBytes("pi", b'{"k":"bookmarked"}'))
    store.append(NS, "s", [custom], expected=log.leaf)
    assert find_positions(store, "deliberating") == {0}
    assert find_positions(store, "edit_file") == {0, 1}
    assert find_positions(store, '"tab\there"') == {0}
    assert find_positions(store, "patched") == {1}
    assert find_positions(store, "bookmarked") == {2}


def test_summaries_are_found_and_stubs_are_not_found_twice(store: Store) -> None:
    log = Growing(store)
    log.say("alpha details", "beta details", "gamma")
    log.compact(0, 1, "overview of greek letters")
    hit = store.search(NS, "greek")[0]
    assert (hit.kind, hit.position, hit.entry) == ("block", 3, log.leaf)
    assert [h.kind for h in store.search(NS, "alpha")] == ["said"]


def test_a_session_bounds_the_search(store: Store, log: Growing) -> None:
    other = Growing(store, "other", first=5_000)
    other.say("another tokenizer, id 9")
    assert {h.session for h in store.search(NS, "tokenizer")} == {"s", "other"}
    assert {h.session for h in store.search(NS, "tokenizer", session="other")} == {"other"}
    assert {h.session for h in store.search(NS, "id", session="other")} == {"other"}
    assert len(store.search(NS, "tokenizer", limit=1)) == 1
    assert log.session == "s"


def test_what_the_index_cannot_hold_is_scanned_and_says_so(store: Store) -> None:
    log = Growing(store)
    log.say("short words: id", "needle at the front " + "x" * (INDEX_LIMIT + 10) + " hidden needle_at_the_back end")
    assert [h.scanned for h in store.search(NS, "short")] == [False]
    assert [h.scanned for h in store.search(NS, "id", session="s")] == [True, True]
    assert [h.scanned for h in store.search(NS, "front")] == [False]
    back = store.search(NS, "needle_at_the_back")
    assert [(h.position, h.scanned) for h in back] == [(1, True)]
    assert "hidden needle_at_the_back end" in back[0].snippet


def test_snippets_are_short_and_redacted(store: Store) -> None:
    log = Growing(store)
    secret = "sk-" + "Zq9" * 12
    log.say("before " * 300 + f"api_key = {secret} marker word " + "after " * 300, f"only {secret}")
    hit = store.search(NS, "marker")[0]
    assert "marker word" in hit.snippet
    assert hit.snippet.startswith(f"{GAP}\n")
    assert hit.snippet.endswith(f"\n{GAP}")
    assert len(hit.snippet) <= SNIPPET_LENGTH + 2 * len(f"{GAP}\n")
    for words in ("marker", secret, secret[5:20], "only"):
        hits = store.search(NS, words)
        assert hits
        assert all(secret[3:12] not in h.snippet for h in hits)


def test_more_frequent_first_then_newer(store: Store) -> None:
    log = Growing(store)
    log.say("apple banana cherry dates", "apple apple apple dates", "apple banana cherry dates", "nothing")
    assert [h.position for h in store.search(NS, "apple")] == [1, 2, 0]


def test_many_matches_give_the_newest(store: Store) -> None:
    log = Growing(store)
    log.say(*(f"common text {i:04d}" for i in range(3 * POOL_SIZE)))
    hits = store.search(NS, "common", limit=5)
    assert [h.position for h in hits] == [3 * POOL_SIZE - 1 - i for i in range(5)]
    assert find_positions(store, '"text 0003"') == {3}


def test_indexing_goes_in_bounded_steps(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say(*(f"entry number {i}" for i in range(25)))
    steps = []
    while took := sqlite.index(limit=10):
        steps.append(took)
    assert steps == [10, 10, 5]
    log.say("the newest one")
    assert find_positions(sqlite, "newest") == {25}
    assert sqlite.index() == 0


def test_a_damaged_entry_does_not_stop_a_search(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say("good one", "bad one", "good two")
    with sqlite._database.write() as db:
        db.execute("UPDATE entry SET body = x'01ff' WHERE pos = 1")
    assert find_positions(sqlite, "one") == {0}
    assert find_positions(sqlite, "good") == {0, 2}
    assert [p.entry for p in sqlite.verify(NS)] == [log.entries[1].id]


def test_silent_kinds_have_no_text(store: Store) -> None:
    log = Growing(store)
    log.say("a", "b")
    silent: list[Entry] = [log.pin(0)]
    log.compact(0, 1, "sum")
    silent.append(log.undo())
    assert [get_searchable_text(e) for e in silent] == ["", ""]


def test_notes_of_tenfolds_own_are_not_found_and_a_persons_rules_are() -> None:
    def search_text(key: str) -> str:
        return get_searchable_text(Setting("s1", None, "", None, key, "never push"))

    assert [search_text(key) for key in (SET_ASIDE, PREPARED_SUMMARY)] == ["", ""]
    assert "never push" in search_text(RULE_ADDED)


def test_an_empty_result_is_found_and_shown_behind_its_call(store: Store) -> None:
    log = Growing(store)
    log.tell(
        [
            Message("assistant", (ToolCall("c1", "list_files", '{"path": "src/lamps"}'),), "model"),
            Message("tool", (ToolResult("c1", "", ()),), "tool"),
            Message("assistant", (ToolCall("c2", "flush", "{}"),), "model"),
        ]
    )
    assert [hit.position for hit in store.search(NS, f'"{EMPTY_RESULT}"')] == [1]
    assert [hit.position for hit in store.search(NS, "flush")] == [2]
    assert store.search_passages(NS, "files lamps", limit=1)[0].snippet.endswith(f"\n{EMPTY_RESULT}")
