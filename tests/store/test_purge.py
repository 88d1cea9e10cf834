"""What purge removes is gone: from the record, the index, the Blocks that quote it, and the bytes of the file."""

from __future__ import annotations

import random
from pathlib import Path as FilePath

import pytest

from tenfold.core.record.block import Block, KeptOriginal, Substitute
from tenfold.core.record.codec import encode_entry, hash_body
from tenfold.core.record.entry import BranchSummary, Entry, MessageEntry, Tombstone
from tenfold.core.record.fact import ChangedFile, CommandRun, Fact, Rule
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_tool_calls
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.errors import NotFoundError, UsageError
from tenfold.store import purge
from tenfold.store.base import MAIN, SessionInfo, Store
from tenfold.store.compressed_bodies import compress_body
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, START, Growing, make_message

SECRET = "hunter-Kq7-violet-giraffe"  # noqa: S105  nobody's
RARE = "鼊龘靐"  # one trigram, which the index holds as these very bytes
WHEN = START + 10**9


def read_bytes(store: SqliteStore) -> bytes:
    """Everything the store has on disk."""
    sides = (store.path, store.path + "-wal", store.path + "-journal")
    return b"".join(FilePath(p).read_bytes() for p in sides if FilePath(p).exists())


def find_pieces(entry: Entry, mark: bytes) -> list[bytes]:
    """What tells that an entry, or a part of it, is on disk: the mark in its text, or stretches of it as compressed."""
    body = encode_entry(entry)
    stored = compress_body(body)
    return [mark] if stored == body else [stored[at : at + 16] for at in range(64, len(stored) - 15, 16)]


def render_entry(entry: Entry) -> str:
    return encode_entry(entry).decode("utf-8", "replace")


def test_a_tombstone_stands_where_the_entry_was(store: Store) -> None:
    log = Growing(store)
    log.say("first", f"the password is {SECRET}", "third", counts=[3, 9, 2])
    old = log.entries[1]
    assert store.purge(NS, "s", old.id, now=WHEN) >= 2
    stone = store.locate(NS, old.id).entry
    assert isinstance(stone, Tombstone)
    assert (stone.id, stone.parent, stone.kind, stone.purge_time) == (old.id, old.parent, "said", WHEN)
    assert stone.body_hash == hash_body(encode_entry(old))
    assert stone.message == Message("user", (Text(purge.PURGED_TEXT),), "tenfold")
    assert store.read_entries(NS, "s") == [log.entries[0], stone, log.entries[2]]
    assert store.read_counts(NS, "s", log.leaf or "", "chars4", 0, 1) == [3, None]
    assert store.search(NS, SECRET) == []
    assert store.search(NS, "password") == []
    assert store.verify(NS) == []
    with pytest.raises(UsageError, match="purged already"):
        store.purge(NS, "s", old.id, now=WHEN)


def test_steps_keep_their_shape(store: Store) -> None:
    log = Growing(store)
    log.say("please look")
    call, result = log.call("bash", f'{{"command": "echo {SECRET}"}}', f"{SECRET}\n")
    log.say("go on")
    before = log.view.to_snapshot()
    for entry in (call, result):
        store.purge(NS, "s", entry.id, now=WHEN)
    entries = store.read_entries(NS, "s")
    assert View.from_path(Path(entries)).to_snapshot() == before
    stones = [e.message for e in entries if isinstance(e, Tombstone)]
    assert stones[0] is not None
    assert stones[1] is not None
    called = next(p for p in stones[0].parts if isinstance(p, ToolCall))
    assert (called.name, called.arguments) == ("bash", "{}")
    assert isinstance(stones[1].parts[0], ToolResult)
    assert stones[1].parts[0].call_id == called.id
    assert SECRET not in "".join(map(render_entry, entries))


def test_blocks_lose_what_they_quote_and_nothing_else(store: Store) -> None:
    log = Growing(store)
    log.say("Use tabs in every Makefile.", f"The password is {SECRET}; keep it.", "Files live in src/app/main.py.")
    log.say("x", "y")
    facts: list[Fact] = [
        Rule("Use tabs in every Makefile.", 0),
        CommandRun("login", 1, command=f"$ login {SECRET}", outcome="ok"),
        ChangedFile("src/app/main.py", 2, content=f"login with {SECRET}"),
    ]
    summary = f"# Summary\nUse tabs in every Makefile.\nLogin: {SECRET}\nTo be kept.\nFiles live in src/app/main.py."
    log.compact(0, 2, summary, facts=facts)
    log.compact(0, 2, f"shorter: {SECRET}\nMakefile tabs")
    messages = len(log.view.get_messages())
    store.purge(NS, "s", log.entries[1].id, now=WHEN)
    entries = store.read_entries(NS, "s")
    assert SECRET not in "".join(map(render_entry, entries))
    first, second = (e for e in entries if isinstance(e, Block))
    assert [f.text for f in first.facts] == ["Use tabs in every Makefile.", "", ""], "each keeps its place"
    assert [f.text for f in View.from_path(Path(entries[:6])).list_block_facts()] == ["Use tabs in every Makefile."]
    say = first.replacements[0].shown_items[0]
    assert isinstance(say, Substitute)
    assert isinstance(say.message.parts[0], Text)
    lines = say.message.parts[0].text.splitlines()
    assert lines[:3] == ["# Summary", "Use tabs in every Makefile.", purge.PURGED_TEXT]
    assert lines[-1] == "Files live in src/app/main.py."
    assert first.replacements[0].sizes == ()
    assert isinstance(second.replacements[0].shown_items[0], Substitute)
    view = View.from_path(Path(entries))
    assert len(view.get_messages()) == messages
    assert view.state.stale_entries == ()
    assert store.verify(NS) == []
    assert store.search(NS, SECRET) == []
    assert {h.position for h in store.search(NS, "makefile")} == {0, 5, 6}


def test_a_stub_of_the_entry_becomes_a_tombstone_text(store: Store) -> None:
    log = Growing(store)
    log.say("start")
    call, result = log.call("cat", '{"path": "notes"}', "many ordinary lines of plain output " * 20)
    log.say("later")
    name = get_tool_calls(call.message)[0].id
    stub = Message("tool", (ToolResult(name, "cat", (Text("many ordinary lines ..."),)),), "tenfold")
    log.compact(1, 2, KeptOriginal(1), Substitute(stub, 2))
    store.purge(NS, "s", result.id, now=WHEN)
    block = store.read_entries(NS, "s")[4]
    assert isinstance(block, Block)
    say = block.replacements[0].shown_items[1]
    assert isinstance(say, Substitute)
    assert isinstance(say.message.parts[0], ToolResult)
    assert say.message.parts[0].content == (Text(purge.PURGED_TEXT),)
    assert say.message.parts[0].call_id == name
    assert store.verify(NS) == []


def test_blocks_of_another_branch_are_left_alone(store: Store) -> None:
    log = Growing(store)
    log.say("root", "common words on the left", "left two")
    right = log.fork(1, "right")
    right.say("common words on the right", "right two")
    fact = Rule("right fact", 1)
    untouched = right.compact(0, 1, "common words on the right", facts=[fact])
    log.compact(0, 1, "common words on the left")
    store.purge(NS, "s", log.entries[1].id, now=WHEN)
    assert store.locate(NS, untouched.id).entry == untouched
    assert store.verify(NS) == []


def test_branch_summaries_are_reached(store: Store) -> None:
    log = Growing(store)
    log.say("root", f"secret {SECRET}")
    back = log.fork(1, "back")
    left = make_message(f"We left.\nIt was {SECRET}.", "user", "tenfold")
    told = BranchSummary("ffffffff-0000-7000-8000-000000000001", back.leaf, "r", 5, left)
    store.append(NS, "s", [told], expected=None, head="back")
    store.purge(NS, "s", log.entries[1].id, now=WHEN)
    kept = store.locate(NS, told.id).entry
    assert isinstance(kept, BranchSummary)
    assert kept.message.parts == (Text(f"We left.\n{purge.PURGED_TEXT}"),)
    assert kept.message.native is None
    assert store.verify(NS) == []


def test_a_block_can_be_reached_twice(store: Store) -> None:
    log = Growing(store)
    log.say(f"one {SECRET}", "two violetta-99", "three")
    log.compact(0, 1, f"sum\n{SECRET}\nvioletta-99\nthe end")
    for position in (0, 1):
        store.purge(NS, "s", log.entries[position].id, now=WHEN)
    block = store.read_entries(NS, "s")[3]
    assert "violetta" not in render_entry(block)
    assert SECRET not in render_entry(block)
    assert "the end" in render_entry(block)
    assert store.verify(NS) == []


def test_text_that_another_entry_also_holds_stays_in_the_summary(store: Store) -> None:
    log = Growing(store)
    log.say("deploy to staging-7 today", "staging-7 is the right one", "ok")
    log.compact(0, 1, "target: staging-7")
    store.purge(NS, "s", log.entries[0].id, now=WHEN)
    assert "staging-7" in render_entry(store.read_entries(NS, "s")[3])
    store.purge(NS, "s", log.entries[1].id, now=WHEN)
    assert "staging-7" not in render_entry(store.read_entries(NS, "s")[3])


def test_a_title_taken_from_the_entry_goes_too(store: Store) -> None:
    log = Growing(store)
    log.say(f"please rotate {SECRET} now", "ok")
    store.create(NS, SessionInfo("s", title=f"please rotate {SECRET}..."))
    store.purge(NS, "s", log.entries[0].id, now=WHEN)
    assert store.list_sessions(NS)[0].info.title == ""


def test_structure_is_not_purged(store: Store) -> None:
    log = Growing(store)
    log.say("a", "b")
    block = log.compact(0, 1, "sum")
    pin = log.pin(0)
    for entry in (block, pin):
        with pytest.raises(UsageError, match="purge the originals"):
            store.purge(NS, "s", entry.id, now=WHEN)
    assert store.read_entries(NS, "s") == log.entries


def test_a_purged_session_is_gone_and_its_ids_are_free(store: Store) -> None:
    log = Growing(store)
    log.say("keep me")
    gone = Growing(store, "gone", first=500)
    gone.say(SECRET, "two", "three")
    gone.compact(0, 1, SECRET)
    assert store.search(NS, SECRET)
    assert store.purge(NS, "gone", None, now=WHEN) == 4
    with pytest.raises(NotFoundError):
        store.open(NS, "gone")
    assert store.search(NS, SECRET) == []
    with pytest.raises(NotFoundError):
        store.locate(NS, gone.entries[0].id)
    again = Growing(store, "gone", first=500)
    again.say("new words under old ids")
    assert [h.position for h in store.search(NS, "new words")] == [0]
    assert store.read_heads(NS, "gone") == {MAIN: again.leaf}
    assert store.read_entries(NS, "s") == log.entries
    assert store.verify(NS) == []


@pytest.mark.parametrize("indexed", [True, False])
def test_no_byte_of_it_is_left_in_the_file(sqlite: SqliteStore, *, indexed: bool) -> None:
    chooser = random.Random(3)  # noqa: S311  texts that can be repeated
    log = Growing(sqlite)
    pieces = {}
    for number in range(400):
        size = chooser.choice((10, 300, 3_000, 30_000)) if number % 40 == 7 else chooser.randint(5, 900)
        size = 10 if number in {47, 50} else size  # too short to be compressed
        words = " ".join(f"mark{number:03d}x{chooser.randrange(10**9)}" for _ in range(size // 16 + 1))
        log.say(words + {47: f" {RARE}", 50: f" {RARE[::-1]}"}.get(number, ""))
        pieces[number] = find_pieces(log.entries[number], f"mark{number:03d}x".encode())
    log.compact(0, 99, "\n".join(f"line mark{n:03d}x tells" for n in range(100)))
    assert 50 < sum(len(each) > 1 for each in pieces.values()) < 350, "some are compressed"
    if indexed:
        assert sqlite.search(NS, "mark007x")
    chosen = [7, 47, 99, *chooser.sample(range(100, 399), 5), 399]
    for number in chosen:
        assert any(piece in read_bytes(sqlite) for piece in pieces[number])
        sqlite.purge(NS, "s", log.entries[number].id, now=WHEN)
        assert (RARE.encode() in read_bytes(sqlite)) == (number == 7), "its trigram is still in the index"
    left = read_bytes(sqlite)
    assert [n for n in pieces if not any(piece in left for piece in pieces[n])] == sorted(chosen)
    assert RARE[::-1].encode() in left
    assert sqlite.verify(NS) == []
    if indexed:
        for number in chosen:
            assert sqlite.search(NS, f"mark{number:03d}x") == []
        assert sqlite.search(NS, "mark008x")
    sqlite.purge(NS, "s", None, now=WHEN)
    left = read_bytes(sqlite)
    assert not any(piece in left for each in pieces.values() for piece in each)
    assert RARE[::-1].encode() not in left


def test_lines_that_only_share_common_words_stay() -> None:
    purged = MessageEntry("1", None, "", 1, make_message("the meeting is on Thursday in the blue room"))
    others = [MessageEntry("2", None, "", 1, make_message("the deployment is on Friday in the blue room"))]
    quoting = MessageEntry("3", None, "", 1, make_message("q"))
    block = BranchSummary(
        "4", None, "", 1, make_message("in the blue room\nthe deployment\nThursday it is", "user", "tenfold")
    )
    pieces = purge.find_distinctive_pieces(purged, [block], [*others, quoting])
    assert purge.without_pieces("in the blue room\nthe deployment\nThursday it is", pieces) == (
        f"in the blue room\nthe deployment\n{purge.PURGED_TEXT}"
    )
    assert purge.without_pieces("用户的密码是蓝色长颈鹿", frozenset({"蓝色长颈"})) == purge.PURGED_TEXT
