"""What every store promises, as checks that a store of your own can be put to: see `check_store`.

Each check is given an empty store. It raises `AssertionError` where a promise is not kept.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
from msgspec.structs import replace

from tenfold.core.record.block import KeptOriginal
from tenfold.core.record.codec import encode_entry, hash_body
from tenfold.core.record.entry import CustomEntry, Entry, MessageEntry, Setting, Tombstone, Usage
from tenfold.core.record.message import NativeBytes
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.view.fold import Snapshot, View
from tenfold.core.view.path import Path
from tenfold.errors import BadInput, LostRace, NotFoundError, StoreError, TenfoldError, UsageError
from tenfold.store.access import AccessRecord, create_key, find_broken_record
from tenfold.store.base import MAIN, SessionInfo, Store
from tenfold.store.ids import IDS
from tenfold.testing.growing import NS, START, Growing, make_entry_id, make_message


@contextmanager
def expect(kind: type[TenfoldError]) -> Iterator[None]:
    """Fails unless the block raises an error of this kind."""
    try:
        yield
    except kind:
        return
    message = f"{kind.__name__} was not raised"
    raise AssertionError(message)


def make_entry(number: int, parent: str | None, text: str = "text") -> MessageEntry:
    """Makes an entry that a caller appends itself."""
    return MessageEntry(make_entry_id(number), parent, "run", START + number, make_message(text))


def assert_same_view(log: Growing) -> None:
    """Opening from the snapshot shows what folding the whole path shows."""
    opened = log.store.open(log.namespace, log.session, log.head)
    assert (opened.leaf, opened.length) == (log.leaf, len(log.entries))
    leaf = opened.leaf or ""
    after = opened.snapshot.length if opened.snapshot else 0
    assert list(opened.entries) == log.entries[after:]

    def load(first: int, last: int) -> list[Entry]:
        return log.store.read_range(log.namespace, log.session, leaf, first, last)

    path = Path(length=opened.length, load=load)
    for position, entry in opened.snapshot_entries.items():
        assert entry == log.entries[position]
        path.cache_entry(position, entry)
    if opened.snapshot is not None:  # what is held is enough to show the snapshot: nothing more is read
        bare = Path(length=after)
        for position, entry in opened.snapshot_entries.items():
            bare.cache_entry(position, entry)
        assert (
            View.from_snapshot(opened.snapshot, bare).get_messages()
            == View.from_path(Path(log.entries[:after])).get_messages()
        )
    view = View.from_snapshot(opened.snapshot, path) if opened.snapshot else View.from_path(path)
    assert view.get_messages() == View.from_path(Path(log.entries)).get_messages()
    assert view.to_snapshot() == View.from_path(Path(log.entries)).to_snapshot()


def _check_that_entries_come_back_as_they_were(store: Store) -> None:
    log = Growing(store)
    log.say("one", "two")
    log.call("bash", '{"command": "ls"}', "a.py\nb.py")
    custom = CustomEntry(
        make_entry_id(900), log.leaf, "run", None, "model_change", NativeBytes("pi", b'{"type":"x"}'), "src"
    )
    setting = Setting(make_entry_id(901), custom.id, "run", None, "model", "m1")
    store.append(NS, "s", [custom, setting], expected=log.leaf)
    log.entries += [custom, setting]
    opened = store.open(NS, "s")
    assert opened.snapshot is None
    assert list(opened.entries) == log.entries
    assert store.read_entries(NS, "s") == log.entries
    assert store.read_range(NS, "s", setting.id, 1, 3) == log.entries[1:4]
    assert store.verify(NS) == []


def _check_that_an_empty_session_and_an_unknown_head_open_empty(store: Store) -> None:
    store.create(NS, SessionInfo("s"))
    assert (store.open(NS, "s").leaf, store.open(NS, "s").length) == (None, 0)
    Growing(store).say("one")
    assert store.open(NS, "s", "other").leaf is None


def _check_that_a_moved_head_refuses_and_writes_nothing(store: Store) -> None:
    log = Growing(store)
    first = log.say("one")[0]
    with expect(LostRace):
        store.append(NS, "s", [make_entry(50, first.id)], expected=None)
    log.say("two")
    with expect(LostRace):
        store.append(NS, "s", [make_entry(50, first.id)], expected=first.id)
    with expect(LostRace):
        store.append(NS, "s", [make_entry(50, first.id)], expected=first.id, head="not there yet")
    assert store.read_entries(NS, "s") == log.entries
    assert store.read_heads(NS, "s") == {MAIN: log.leaf}


def _check_that_a_stored_id_is_refused_and_nothing_is_written(store: Store) -> None:
    log = Growing(store)
    one, two = log.say("one", "two")
    again = MessageEntry(one.id, make_entry_id(51), "", None, one.message)
    with expect(BadInput):
        store.append(NS, "s", [make_entry(50, two.id), make_entry(51, make_entry_id(50)), again], expected=two.id)
    with expect(BadInput):
        store.append(NS, "s", [make_entry(60, two.id), make_entry(60, make_entry_id(60))], expected=two.id)
    Growing(store, "other")
    with expect(BadInput):
        store.append(NS, "other", [MessageEntry(one.id, None, "", None, one.message)], expected=None)
    assert store.read_entries(NS, "s") == [one, two]
    store.append(NS, "s", [make_entry(50, two.id)], expected=two.id)
    assert store.verify(NS) == []


def _check_that_unknown_things_are_not_found(store: Store) -> None:
    with expect(NotFoundError):
        store.open(NS, "nowhere")
    with expect(NotFoundError):
        store.append(NS, "nowhere", [make_entry(1, None)], expected=None)
    log = Growing(store)
    leaf = log.say("one")[0].id
    other = Growing(store, "t", first=500)
    foreign = other.say("there")[0].id
    for parent in (make_entry_id(77), foreign):
        with expect(NotFoundError):
            store.append(NS, "s", [make_entry(50, parent)], expected=leaf)
    for call in (
        lambda: store.read_range(NS, "s", foreign, 0, 0),
        lambda: store.read_range(NS, "s", leaf, 0, 1),
        lambda: store.read_range(NS, "s", leaf, -1, 0),
        lambda: store.read_counts(NS, "s", "no such id", "chars4", 0, 0),
        lambda: store.purge(NS, "s", foreign, now=1),
        lambda: store.search(NS, "word", session="nowhere"),
    ):
        with expect(NotFoundError):
            call()
    assert store.read_entries(NS, "s") == log.entries


def _check_that_arguments_that_cannot_be_meant_are_refused(store: Store) -> None:
    leaf = Growing(store).say("one")[0].id
    with expect(UsageError):
        store.append(NS, "s", [], expected=leaf)
    with expect(UsageError):
        store.append(NS, "s", [make_entry(50, leaf)], expected=leaf, counts={"chars4": [1, 2]})
    with expect(UsageError):
        store.append(NS, "s", [make_entry(50, leaf)], expected=leaf, snapshot=Snapshot(7, (), (), ()))
    with expect(UsageError):
        store.search(NS, "  ")
    assert store.open(NS, "s").length == 1
    assert store.verify(NS) == []


def _check_that_branches_have_paths_of_their_own(store: Store) -> None:
    log = Growing(store)
    log.say(*(f"m{i}" for i in range(6)))
    left = log.fork(3, "left")
    left.say("left 3", "left 4")
    at_leaf = log.fork(6, "same leaf")
    at_leaf.say("other 6")
    log.say("m6")
    deeper = left.fork(4, "deeper")
    deeper.say("deeper 4")
    for each in (log, left, at_leaf, deeper):
        assert_same_view(each)
        length = len(each.entries)
        for first in range(length):
            for last in range(first, length):
                assert store.read_range(NS, "s", each.leaf or "", first, last) == each.entries[first : last + 1]
    assert store.read_heads(NS, "s") == {h.head: h.leaf for h in (log, left, at_leaf, deeper)}
    assert store.verify(NS) == []


def _check_that_a_head_may_move_to_a_branch(store: Store) -> None:
    log = Growing(store)
    log.say("a", "b", "c")
    again = log.fork(1, MAIN)
    again.say("b, rewritten")
    assert store.open(NS, "s").leaf == again.leaf
    assert [e.id for e in store.read_entries(NS, "s")] == [e.id for e in [*log.entries, again.entries[-1]]]
    assert_same_view(again)


def _check_that_a_tree_is_appended_in_one_call(store: Store) -> None:
    store.create(NS, SessionInfo("s"))
    parents = {1: None, 2: 1, 3: 1, 4: 2, 5: 3, 6: None, 7: 4, 8: 5}
    tree = [make_entry(number, make_entry_id(parent) if parent else None) for number, parent in parents.items()]
    store.append(NS, "s", tree, expected=None, counts={"chars4": [10, 20, 30, 40, 50, 60, 70, 80]})
    assert store.read_entries(NS, "s") == tree
    assert store.open(NS, "s").entries == tuple(tree[i - 1] for i in (1, 3, 5, 8))
    assert store.read_range(NS, "s", make_entry_id(7), 0, 3) == [tree[i - 1] for i in (1, 2, 4, 7)]
    assert store.read_counts(NS, "s", make_entry_id(7), "chars4", 0, 3) == [10, 20, 40, 70]
    assert store.locate(NS, make_entry_id(6)).position == 0
    assert store.verify(NS) == []


def _check_that_a_path_may_have_hundreds_of_forks(store: Store) -> None:
    log = Growing(store)
    log.say("root", "stub")
    for depth in range(1, 300):
        log = log.fork(depth + 1, f"h{depth}")
        log.say(f"d{depth}", "dead end")
        log.entries.pop()
    store.append(NS, "s", [make_entry(9_000_000, log.leaf)], expected=None, head="end")
    log.head = "end"
    log.entries.append(make_entry(9_000_000, log.leaf))
    assert store.read_range(NS, "s", log.leaf or "", 0, len(log.entries) - 1) == log.entries
    assert store.open(NS, "s", "end").entries == tuple(log.entries)
    assert store.verify(NS) == []


def _check_that_a_snapshot_shortens_the_opening(store: Store) -> None:
    log = Growing(store)
    log.say(*(f"m{i}" for i in range(8)))
    log.pin(2)
    log.compact(0, 3, "summary of four")
    log.say("more")
    before = log.view.get_messages()
    opened = store.open(NS, "s")
    assert opened.snapshot is not None
    assert opened.snapshot.length == 10
    assert opened.entries == (log.entries[-1],)
    assert_same_view(log)
    log.compact(4, 6, KeptOriginal(5), "summary of three")
    assert_same_view(log)
    log.undo()
    assert store.open(NS, "s").entries == ()
    assert_same_view(log)
    assert log.view.get_messages() == before
    branch = log.fork(10, "branch")
    branch.say("only the first Block is on this path")
    assert_same_view(branch)
    early = log.fork(5, "early")
    early.say("no Block is on this path")
    assert store.open(NS, "s", "early").snapshot is None
    assert_same_view(early)
    assert store.verify(NS) == []


def _check_that_counts_belong_to_entry_and_counter(store: Store) -> None:
    log = Growing(store)
    *_, three = log.say("one", "two", "three")
    store.append(NS, "s", [make_entry(50, three.id)], expected=three.id, counts={"chars4": [4], "o200k": [5]})
    leaf = make_entry_id(50)
    assert store.read_counts(NS, "s", leaf, "chars4", 0, 3) == [None, None, None, 4]
    assert store.read_counts(NS, "s", leaf, "o200k", 2, 3) == [None, 5]
    assert store.read_counts(NS, "s", leaf, "never used", 0, 1) == [None, None]


def _check_that_sessions_list_newest_first(store: Store) -> None:
    first = Growing(store, "first")
    first.say("a")
    second = Growing(store, "second", first=100)
    second.say("b", "c", "d")
    second.compact(0, 1, "b and c")
    store.create(NS, SessionInfo("empty"))
    rows = store.list_sessions(NS)
    assert [r.info.id for r in rows] == ["second", "first", "empty"]
    assert (rows[0].entry_count, rows[0].block_count, rows[0].heads) == (4, 1, {MAIN: second.leaf})
    assert (rows[0].first_time, rows[0].last_time) == (START + 101, START + 104)
    assert (rows[2].entry_count, rows[2].first_time, rows[2].last_time, rows[2].heads) == (0, None, None, {})
    info = SessionInfo("first", title="renamed", prefix=b"[", suffix=b"]")
    store.create(NS, info)
    assert [r.info for r in store.list_sessions(NS) if r.info.id == "first"] == [info]
    assert store.read_info(NS, "first") == info
    assert store.read_info(NS, "none") is None
    assert store.read_info("other", "first") is None
    assert store.read_entries(NS, "first") == first.entries


def _check_that_times_that_are_not_known_stay_unknown(store: Store) -> None:
    store.create(NS, SessionInfo("s"))
    store.append(NS, "s", [MessageEntry(make_entry_id(1), None, "", None, make_message("x"))], expected=None)
    assert (store.list_sessions(NS)[0].first_time, store.list_sessions(NS)[0].last_time) == (None, None)
    store.append(
        NS, "s", [MessageEntry(make_entry_id(2), make_entry_id(1), "", 7, make_message("x"))], expected=make_entry_id(1)
    )
    store.append(
        NS,
        "s",
        [MessageEntry(make_entry_id(3), make_entry_id(2), "", None, make_message("x"))],
        expected=make_entry_id(2),
    )
    assert (store.list_sessions(NS)[0].first_time, store.list_sessions(NS)[0].last_time) == (7, 7)
    stored_now = IDS.generate()
    store.create(NS, SessionInfo("stored now"))
    store.append(NS, "stored now", [MessageEntry(stored_now, None, "", None, make_message("y"))], expected=None)
    assert [row.info.id for row in store.list_sessions(NS)] == ["stored now", "s"]


def _check_that_an_entry_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    log = Growing(store)
    entries = log.say(*(f"m{i}" for i in range(40)))
    found = store.locate(NS, entries[5].id)
    assert (found.session, found.position, found.entry) == ("s", 5, entries[5])
    assert store.locate(NS, entries[5].id[:12]).entry == entries[5]
    for beginning in ("0000", "ffff", ""):
        with expect(NotFoundError):
            store.locate(NS, beginning)
    with expect(NotFoundError):
        store.locate(NS, "0000001")
    with expect(NotFoundError):
        store.locate("elsewhere", entries[5].id)


def _check_that_namespaces_do_not_see_each_other(store: Store) -> None:
    here, there = Growing(store), Growing(store, namespace="tenant")
    mine, theirs = here.say("alpha here")[0], there.say("alpha there")[0]
    assert mine.id == theirs.id
    assert store.read_entries(NS, "s") == [mine]
    assert store.read_entries("tenant", "s") == [theirs]
    assert [h.snippet for h in store.search("tenant", "alpha")] == ["alpha there"]
    assert [r.info.id for r in store.list_sessions("third")] == []
    assert store.search("third", "alpha") == []
    store.purge("tenant", "s", None, now=1)
    assert store.read_entries(NS, "s") == [mine]
    with expect(NotFoundError):
        store.open("tenant", "s")


def _check_that_threads_lose_nothing(store: Store) -> None:
    Growing(store).say("root")
    root = store.read_heads(NS, "s")[MAIN]
    lost: list[int] = []

    def write(number: int) -> None:
        done = 0
        while done < 25:
            leaf = store.read_heads(NS, "s")[MAIN]
            try:
                store.append(NS, "s", [make_entry(1000 * number + done, leaf)], expected=leaf)
                done += 1
            except LostRace:
                lost.append(number)
            store.open(NS, "s")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = store.open(NS, "s")
    assert opened.length == 101
    assert opened.entries[0].id == root
    assert {e.id for e in opened.entries[1:]} == {make_entry_id(1000 * n + i) for n in range(1, 5) for i in range(25)}
    assert store.verify(NS) == []


def _check_that_a_closed_store_says_so(store: Store) -> None:
    store.create(NS, SessionInfo("s"))
    store.close()
    with expect(StoreError):
        store.open(NS, "s")
    with expect(StoreError):
        store.append(NS, "s", [make_entry(1, None)], expected=None)
    store.close()


def _check_that_a_head_that_was_moved_on_gives_what_follows_a_known_entry(store: Store) -> None:
    log = Growing(store)
    log.say("one", "two")
    known = log.leaf
    assert store.open(NS, "s", after=known).entries == ()
    log.say("three", "four")
    state = store.open(NS, "s", after=known)
    assert (state.leaf, state.length, state.snapshot, list(state.entries)) == (log.leaf, 4, None, log.entries[2:])
    for unknown in ("nobody", None):
        assert store.open(NS, "s", after=unknown) == store.open(NS, "s")


def _check_that_a_head_that_was_moved_to_a_branch_gives_all_of_it(store: Store) -> None:
    log = Growing(store)
    first = log.say("one")[0]
    known = log.say("two")[0].id
    store.append(NS, "s", [make_entry(70, first.id), make_entry(71, make_entry_id(70))], expected=log.leaf)
    assert store.open(NS, "s", after=known) == store.open(NS, "s")
    assert [entry.id for entry in store.open(NS, "s", after=first.id).entries] == [make_entry_id(70), make_entry_id(71)]


def _check_that_a_number_beyond_64_bits_is_refused(store: Store) -> None:
    log = Growing(store)
    log.say("one")
    for entry in (replace(make_entry(700, log.leaf), time=1 << 63), make_entry(701, log.leaf)):
        counts = {"chars4": [1 << 63]} if entry.time != 1 << 63 else None
        with expect(StoreError):
            store.append(NS, "s", [entry], expected=log.leaf, counts=counts)
    assert store.read_entries(NS, "s") == log.entries


def _check_that_long_words_are_told_apart(store: Store) -> None:
    log = Growing(store)
    log.say(f"The token is {'a' * 300}end.")
    assert [hit.position for hit in store.search_passages(NS, "a" * 300 + "end")] == [0]
    assert store.search_passages(NS, "a" * 300 + "other") == []


def _check_that_one_holder_has_a_lease_until_it_ends(store: Store) -> None:
    store.create(NS, SessionInfo("s"))
    take = partial(store.take_lease, NS, "s", MAIN)
    assert take("one", now=10, until=100)
    assert not take("two", now=20, until=200)
    assert take("one", now=20, until=150), "whoever has it may have it longer"
    assert not take("two", now=149, until=300)
    assert store.take_lease(NS, "s", "other head", "two", now=20, until=200)
    assert take("two", now=151, until=300), "it has ended"
    store.drop_lease(NS, "s", MAIN, "one")
    assert not take("one", now=152, until=400), "what another has cannot be given back"
    store.drop_lease(NS, "s", MAIN, "two")
    assert take("one", now=153, until=400)


def _check_that_what_is_known_of_a_request_is_kept_until_its_answer(store: Store) -> None:
    log = Growing(store)
    leaf = log.say("one")[0].id
    usage = Usage(ProviderTokens(1_000), ProviderTokens(0), model="m")
    store.keep_request(NS, "s", MAIN, usage=usage, overhead=Counted(40))
    opened = store.open(NS, "s")
    assert (opened.pending_usage, opened.overhead) == (usage, 40)
    answer = replace(make_entry(80, leaf), message=make_message("yes", "assistant", "model"))
    with expect(LostRace):
        store.append(NS, "s", [answer], expected=leaf, knows_usage=False)
    store.append(NS, "s", [answer], expected=leaf)
    assert store.open(NS, "s").pending_usage is None
    assert store.open(NS, "s").overhead == 40


def _check_that_search_finds_what_is_there(store: Store) -> None:
    log = Growing(store)
    log.say(*SEARCHED)
    for words, positions in FOUND.items():
        found = {hit.position for hit in store.search(NS, words, limit=100)}
        assert found == positions, f"{words!r} finds {sorted(found)}, and stands in {sorted(positions)}"
    for words in STRANGE:
        hits = [*store.search(NS, words), *store.search_passages(NS, words)]
        assert all(0 <= hit.position < len(log.entries) for hit in hits)
    best = store.search_passages(NS, "which commas does the tokenizer drop?")
    assert best[0].position == 0
    assert store.check().late_entries == 0


def _check_that_a_purge_leaves_a_tombstone_and_nothing_else(store: Store) -> None:
    log = Growing(store)
    log.say("first", "the password is hunter-Kq7-violet-giraffe", "third")
    log.say(*["and so on"] * 3)
    block = log.compact(0, 3, "The password is hunter-Kq7-violet-giraffe.\nThey went on.")
    old, purges = log.entries[1], store.open(NS, "s").purges
    assert store.search(NS, "giraffe")
    assert store.purge(NS, "s", old.id, now=START) >= 1
    stone = store.locate(NS, old.id).entry
    assert isinstance(stone, Tombstone)
    assert (stone.id, stone.parent, stone.body_hash) == (old.id, old.parent, hash_body(encode_entry(old)))
    assert "giraffe" not in repr([msgspec.to_builtins(entry) for entry in store.read_entries(NS, "s")])
    assert "They went on." in repr(msgspec.to_builtins(store.locate(NS, block.id).entry))
    assert store.search(NS, "giraffe") == []
    assert store.open(NS, "s").purges > purges
    with expect(LostRace):
        store.append(NS, "s", [make_entry(90, log.leaf)], expected=log.leaf, purges=purges)
    assert store.verify(NS) == []
    store.purge(NS, "s", None, now=START)
    with expect(NotFoundError):
        store.open(NS, "s")
    assert store.list_sessions(NS) == []


def _check_that_exports_and_sizes_are_known(store: Store) -> None:
    log = Growing(store)
    log.say("one", "two " * 500)
    store.record_export(NS, "s", "/exports/a.json", b"1" * 32)
    store.record_export(NS, "s", "/exports/a.json", b"2" * 32)
    assert store.list_exports(NS, "s") == {"/exports/a.json": b"2" * 32}
    assert store.measure_sessions(NS)["s"] > 100
    state = store.check()
    assert (state.namespaces, state.sessions, state.entries) == (1, 1, 2)
    assert store.list_namespaces() == [NS]
    Growing(store, "t", namespace="another", first=400).say("there")
    assert store.list_namespaces() == sorted([NS, "another"])
    Growing(store, "u", first=600)
    assert store.list_exports(NS, "u") == {}
    assert store.release_space() > 0


def _check_that_keys_and_the_record_are_kept(store: Store) -> None:
    key, _ = create_key("anna", NS, START)
    store.save_key(key)
    store.save_key(replace(key, revoked=START + 1))
    assert store.list_keys() == [replace(key, revoked=START + 1)]
    assert store.find_key(key.id) == replace(key, revoked=START + 1)
    assert store.find_key("nobody") is None
    limited = replace(key, id="0" * 12, is_read_only=True, expires=START, max_requests=1, max_bytes=2, max_jobs=3)
    store.save_key(limited)
    assert store.find_key(limited.id) == limited
    for number in range(3):
        store.record_access(AccessRecord(0, START + number, "anna", "10.0.0.1", "export", NS, "s"))
    lines = store.read_record()
    assert [line.number for line in lines] == [1, 2, 3]
    assert find_broken_record(lines) == 0
    assert store.read_record(3) == lines[2:]


SEARCHED = (
    "The parser in src/app/Tokenizer.py drops trailing commas",
    "run `pytest -k test_read_header_value` again, please",
    "用户要求保留所有数据库的密码规则",
    "トークンの数を数える関数",
    "토큰을 세는 함수",
    'print("quoted \\"text\\"") AND OR NOT NEAR( * ^ : {x} -- ; DROP TABLE entry',
    "id 7 of 42",
)
FOUND: dict[str, set[int]] = {
    "tokenizer": {0}, "okeniz": {0}, "TOKENIZER commas": {0}, "tokenizer header": set(), "read_header": {1},
    '"again, please"': {1}, '"please again"': set(), "数据库": {2}, "密码": {2}, "密": {2}, "関数": {3}, "함수": {4},
    "id": {6}, "7 42": {6}, "DROP": {0, 5}, "NEAR(": {5}, "--": {5}, "zzz": set(),
}  # fmt: skip
"""Words, and the positions of the messages of `SEARCHED` in which all of them stand, as parts of words too."""
STRANGE = ("\x00", "\ud800", '"""', "'", "a" * 5_000, "(" * 300, "col:x", "- -", "NOT", "\\", "%", "_")
"""Words that a query language might stumble over."""

CHECKS: dict[str, Callable[[Store], None]] = {
    name.removeprefix("_check_that_").replace("_", " "): check
    for name, check in list(globals().items())
    if name.startswith("_check_that_")
}
"""The checks by what they ask for."""


def check_store(open_store: Callable[[], Store]) -> list[str]:
    """Puts a store of your own to every check, and returns their names. Call it in your tests.

    `open_store` opens an empty store each time it is called. Raises `AssertionError` with what the store does not keep,
    for all checks together.

        def test_my_store_keeps_the_contract(tmp_path):
            numbers = itertools.count()
            check_store(lambda: MyStore(tmp_path / f"{next(numbers)}.db"))
    """
    broken: list[str] = []
    for name, check in CHECKS.items():
        store = open_store()
        try:
            is_empty = not store.list_namespaces() and not store.list_keys()
            if is_empty:
                check(store)
        except Exception as exc:  # noqa: BLE001 - a store may raise anything, and the other checks are run as well
            broken.append(f"{name}: {type(exc).__name__}: {str(exc) or 'it does not hold'}; {_find_line(exc)}")
        finally:
            store.close()
        if not is_empty:
            raise UsageError("check_store writes and deletes: give it a function that opens an empty store")
    if broken:
        message = f"{len(broken)} of {len(CHECKS)} promises are not kept:\n" + "\n".join(broken)
        raise AssertionError(message)
    return list(CHECKS)


def _find_line(exc: Exception) -> str:
    """Says which line of a check did not hold."""
    frames = traceback.extract_tb(exc.__traceback__)
    frame = next((each for each in reversed(frames) if each.filename == __file__), frames[-1])
    return f"line {frame.lineno} of {frame.name}: {frame.line}"
