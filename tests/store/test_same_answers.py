"""A store in SQLite and one in PostgreSQL, driven by the same calls, give the same answers and the same errors.

Hypothesis draws what the calls are made of: trees of entries with several heads, Blocks with their snapshots, purges,
calls that must be refused, and searches for pieces of what was said. Both stores live as long as the test. Each example
has namespaces of its own, and empties them at its end.

What is known to differ is not drawn, or compared less closely where it is:

- PostgreSQL keeps no NUL in a name or an id, and SQLite does. In texts both do.
- A search brings the index of all namespaces up to date in SQLite, and that of its own namespace in PostgreSQL. SQLite
  counts tombstones among the entries that it indexes. So a purge may find other rows there. See `Twins.is_index_alike`
  and `Twins.purge`.
- The length of a passage is weighed against all passages of the store in SQLite, and against those that are searched in
  PostgreSQL. See `Twins.compare_passages`.
- For a passage, SQLite takes characters that are newer than Unicode 6.1, or private, for letters. The texts have none
  beside a word. It finds no word that is longer than a passage.
- Of passages that score the same, either store may quote another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from itertools import count
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import Block, KeptOriginal, Replacement, ShownItem, Substitute
from tenfold.core.record.codec import encode_entry
from tenfold.core.record.entry import (
    AUTO_COMPACTION,
    RULE_ADDED,
    Attempt,
    BranchSummary,
    CustomEntry,
    Entry,
    MessageEntry,
    Pin,
    Retraction,
    Setting,
    Tombstone,
    Usage,
    get_message,
)
from tenfold.core.record.fact import CommandRun, Fact, Rule
from tenfold.core.record.message import Message, NativeBytes, Text, Thinking, ToolCall, ToolResult, get_text
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import Snapshot, View
from tenfold.core.view.path import Path
from tenfold.errors import TenfoldError
from tenfold.store.base import MAIN, MEMORY_LOCATION, Hit, SessionInfo, Store
from tenfold.store.sql.word_search import INDEX_LIMIT
from tenfold.store.sqlite.store import SqliteStore
from tests.postgres import open_postgres_store
from tests.store.build import START, make_entry_id, make_message

T = TypeVar("T")

WORDS = (
    "parse_header",
    "readHeaderValue",
    "src/app/Tokenizer.py:42",
    "C:\\Users\\Zoë\\notes.txt",
    "running",
    "runs",
    "the tokenizer drops trailing commas",
    "commas",
    "MAX_RETRIES = 5",
    "MAX_RETRIES = 8",
    "timeout: 30",
    "timeout: 45",
    "naïve café",
    "NAÏVE",
    "Straße",
    "STRASSE",
    "İstanbul",
    "e\u0301tude",
    "ﬁle №5",
    "用户要求保留所有数据库的密码规则",
    "数据库",
    "トークンの数を数える関数",
    "토큰을 세는 함수",
    "🚀 launched",
    "👩\u200d💻 here",
    '"quoted words"',
    "it's O'Brien",
    "100% of a_b",
    "%",
    "\\",
    "nul \x00 byte",
    "id 7",
    "to be or not to be",
    "AND OR NOT NEAR( * ^ : {x} -- ; DROP TABLE entry",
    "<b>bold</b> & more",
    "api_key = sk-" + "Zq9" * 12,
    "line one\nline two\ttabbed\r\n",
    "x" * 250,
)
ALPHABET = "abeEot _./-'\"()*%\\数据库関数ーのßéÉİ\n017\x00✅🚀"
LONG_TEXTS = ("supercalifragilistic" * 150, "filler words " * 5_100 + "needle_at_the_back")
"""A word of several passages, and a text of which the index of words holds only the beginning."""
TEXTS = (
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
    | st.sampled_from(WORDS)
    | st.text(ALPHABET, max_size=20)
    | st.sampled_from(["", " ", "\n", "", *LONG_TEXTS])
)
STRANGE_WORDS = ("", "  ", '"', '""', "\ud800", "\x00", "*", "_", "zzz", "tokenizr", "headr value", "数", "(" * 300)
NAMES = ("s", "S", "t", "é", "a b", "", "100%", "it's", 'say "x"', "back\\slash", "数据", "🙂")
HEADS = (MAIN, "left", "Left", "é", "", "100%")
COUNTERS = ("chars4", "o200k", "é")
ID_SHAPES = ("Run-{:04d}", "run-{:04d}", "é{:05d}", "%_{:05d}", "a\\b'{:05d}", "0000000{:x}")
ENTRY_KINDS = ("user", "call", "result", "answer", "pin", "setting", "custom", "attempt", "branch", "stone", "undo")
FAULTS = ("leaf", "id", "parent", "order", "none", "twice", "counts", "snapshot", "session")
NUMBERS = count(1)


class Failure(Struct, frozen=True):
    """How a call failed."""

    kind: str
    sentence: str


def get_answer(store: Store, call: Callable[[Store], T]) -> T | Failure:
    try:
        return call(store)
    except TenfoldError as exc:
        return Failure(type(exc).__name__, str(exc))


def has_same_reason(one: object, other: object) -> bool:
    """Whether both failed with one type of error, in sentences that name the place of the store."""
    if not isinstance(one, Failure) or not isinstance(other, Failure):
        return False
    return one.kind == other.kind and (MEMORY_LOCATION in one.sentence or "postgresql://" in other.sentence)


def find_places(hits: Collection[Hit]) -> set[tuple[str, str, int]]:
    return {(hit.session, hit.entry, hit.position) for hit in hits}


class Known:
    """What the test knows of a session that both stores hold."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.id, self.purges = namespace, name, 0
        self.entries: dict[str, Entry] = {}
        self.heads: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<{self.id!r} of {self.namespace!r}: {list(self.entries)}, heads {self.heads}>"

    def find_path(self, leaf: str | None) -> list[Entry]:
        path: list[Entry] = []
        while leaf is not None:
            path.append(self.entries[leaf])
            leaf = path[-1].parent
        return path[::-1]

    def note(self, entries: Sequence[Entry], head: str) -> None:
        """Notes what was appended."""
        self.entries.update((entry.id, entry) for entry in entries)
        self.heads[head] = entries[-1].id


class Twins(RuleBasedStateMachine):
    """Two stores that are asked the same.

    `is_index_alike` says that both have indexed the same entries.
    """

    def __init__(self, sqlite: Store, postgres: Store) -> None:
        super().__init__()
        self.sqlite, self.postgres = sqlite, postgres
        number = next(NUMBERS)
        self.namespaces = (f"tenant {number}", f"Tenant {number}", f"é'%_\\{number}")
        self.numbers = dict.fromkeys(self.namespaces, 0)
        self.sessions: dict[tuple[str, str], Known] = {}
        self.is_index_alike = True

    def ask(self, call: Callable[[Store], T]) -> T | Failure:
        """Asks both, and returns what both say."""
        one, other = get_answer(self.sqlite, call), get_answer(self.postgres, call)
        same = one == other or has_same_reason(one, other)
        assert same, f"\nSQLite says     {one!r}\nPostgreSQL says {other!r}"
        return one

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def draw_session(self, data: st.DataObject) -> Known:
        return data.draw(st.sampled_from(list(self.sessions.values())), "session")

    def draw_id(self, data: st.DataObject, session: Known) -> str:
        """The id of an entry, now and then of one that is not in this session."""
        every = [key for each in self.sessions.values() for key in each.entries]
        return data.draw(st.sampled_from([*list(session.entries) * 4, *every, "no such id", ""]), "id")

    def make_id(self, data: st.DataObject, namespace: str) -> str:
        self.numbers[namespace] += 1
        number = self.numbers[namespace]
        shape = data.draw(st.sampled_from([""] * 3 + list(ID_SHAPES)), "shape of id")
        return shape.format(number) if shape else make_entry_id(number)

    def make_entry(self, data: st.DataObject, namespace: str, before: Sequence[Entry]) -> Entry:
        """An entry of any kind but a Block, behind `before`."""
        key, parent = self.make_id(data, namespace), before[-1].id if before else None
        now = START + self.numbers[namespace]
        time = data.draw(st.sampled_from([now, now, None, 0, -1, 2**60]), "time")
        kind = data.draw(st.sampled_from(["user", "user", *ENTRY_KINDS]), "kind")
        text = data.draw(TEXTS, "text")
        match kind:
            case "call":
                call = ToolCall(f"call-{len(before)}", "edit_file", f'{{"new": "tab\\there", "path": "{text}"}}')
                return MessageEntry(key, parent, "run", time, Message("assistant", (Text(text), call), "model"))
            case "result":
                told = Message("tool", (ToolResult(f"call-{len(before) - 1}", "edit_file", (Text(text),)),), "tool")
                return MessageEntry(key, parent, "run", time, told, source_id="line 7")
            case "answer":
                parts = (Thinking(text, "signature"), Text(f"answer {text}"))
                return MessageEntry(key, parent, "", time, Message("assistant", parts, "model"), Usage.build(900, 80))
            case "pin" if before:
                at = data.draw(st.integers(0, len(before) - 1), "position")
                return Pin(key, parent, "run", now, before[at].id, at, data.draw(st.booleans(), "pinned"))
            case "setting":
                name = data.draw(st.sampled_from(["model", RULE_ADDED, AUTO_COMPACTION]), "setting")
                value = data.draw(st.sampled_from(["off", "on"]), "state") if name == AUTO_COMPACTION else text
                return Setting(key, parent, "run", time, name, value)
            case "custom":
                return CustomEntry(key, parent, "run", time, "note", NativeBytes("pi", f'{{"k":"{text}"}}'.encode()))
            case "attempt":
                return Attempt(key, parent, "run", now, "test", "failed", text, Counted(10), Counted(5))
            case "branch":
                left = make_message(f"We left.\n{text}", "user", "tenfold")
                return BranchSummary(key, parent, "run", time, left, before[0].id if before else "")
            case "stone":
                rest = Message("user", (Text("[purged]"),), "tenfold")
                return Tombstone(key, parent, "run", time, "said", hashlib.sha256(b"gone").digest(), now, rest)
            case "undo":
                return Retraction(key, parent, "run", now, before[-1].id if before else "")
            case _:
                return MessageEntry(key, parent, "run", time, make_message(text))

    def draw_view(self, data: st.DataObject, *, is_compacted: bool) -> tuple[Known, str, View] | None:
        """A head at which something is in view, or a Block to be undone."""
        views = [
            (session, head, view)
            for session in self.sessions.values()
            for head, leaf in session.heads.items()
            if (view := View.from_path(Path(session.find_path(leaf)))).units
            and (view.state.live_blocks or not is_compacted)
        ]
        return data.draw(st.sampled_from(views), "view") if views else None

    def draw_words(self, data: st.DataObject) -> str:
        """Words of the list, strange ones, or a piece of something that was said, at times as a phrase."""
        messages = [get_message(e) for each in self.sessions.values() for e in each.entries.values()]
        said = [text for message in messages if message is not None and (text := get_text(message))]
        if not said or data.draw(st.integers(0, 3), "0 to take listed words") == 0:
            listed = st.lists(st.sampled_from(WORDS + STRANGE_WORDS), min_size=1, max_size=3)
            return " ".join(data.draw(listed, "words"))
        text = data.draw(st.sampled_from(said), "said")
        start = data.draw(st.integers(0, min(len(text), 5_000) - 1), "start")
        piece = text[start : start + data.draw(st.integers(1, 24), "length")]
        found = data.draw(st.sampled_from([piece, piece.upper(), piece.lower(), f'"{piece}"']), "piece")
        return f"{found} {data.draw(st.sampled_from(['', '', *WORDS]), 'and')}"

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self,
        session: Known,
        entries: Sequence[Entry],
        head: str,
        *,
        snapshot: Snapshot | None = None,
        counts: dict[str, list[int]] | None = None,
        purges: int | None = None,
    ) -> None:
        """Appends what both take, unless something was purged since `purges`."""
        found = self.ask(
            lambda store: store.append(
                session.namespace,
                session.id,
                entries,
                expected=session.heads.get(head),
                head=head,
                snapshot=snapshot,
                counts=counts,
                purges=purges,
            )
        )
        if found is None:
            session.note(entries, head)
            self.is_index_alike &= not any(isinstance(entry, Tombstone) for entry in entries)
        self.ask(lambda store: store.open(session.namespace, session.id, head))

    @initialize(data=st.data(), texts=st.lists(TEXTS, min_size=1, max_size=5))
    def begin(self, data: st.DataObject, texts: list[str]) -> None:
        namespace = self.namespaces[0]
        session = self.sessions[namespace, "s"] = Known(namespace, "s")
        self.ask(lambda store: store.create(namespace, SessionInfo("s", format="openai-chat")))
        entries: list[Entry] = []
        for text in texts:
            key, parent = self.make_id(data, namespace), entries[-1].id if entries else None
            entries.append(MessageEntry(key, parent, "run", START + len(entries), make_message(text)))
        self.append(session, entries, MAIN)

    @rule(data=st.data(), namespace=st.integers(0, 2), name=st.sampled_from(NAMES), title=TEXTS)
    def create(self, data: st.DataObject, namespace: int, name: str, title: str) -> None:
        """A new session, or new information on one."""
        info = SessionInfo(
            name,
            format=data.draw(st.sampled_from(["", "openai-chat", "pi"]), "format"),
            file=data.draw(st.sampled_from(["", "/é/a.jsonl", "C:\\a%b.json"]), "file"),
            title=title,
            model=data.draw(st.sampled_from(["", "m-1"]), "model"),
            parent=data.draw(st.sampled_from(["", "s"]), "parent"),
            source_id=data.draw(st.sampled_from(["", "source é"]), "source"),
            prefix=data.draw(st.binary(max_size=4), "prefix"),
            suffix=b"\x00\xff\\",
            interleaving=data.draw(st.sampled_from([(), ((0, 0, 2), (1, 0, 1))]), "interleaving"),
        )
        where = self.namespaces[namespace]
        self.ask(lambda store: store.create(where, info))
        self.sessions.setdefault((where, name), Known(where, name))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), head=st.sampled_from(HEADS), size=st.integers(1, 4))
    def append_entries(self, data: st.DataObject, head: str, size: int) -> None:
        """A path or a tree, behind a head or any earlier entry, or from a new root."""
        session = self.draw_session(data)
        bases = [*[session.heads.get(head)] * 4, *session.entries, None]
        paths = [session.find_path(data.draw(st.sampled_from(bases), "base"))]
        new: list[Entry] = []
        for _ in range(size):
            back = data.draw(st.sampled_from([1, 1, 1, *range(1, len(paths) + 1)]), "which path from the end")
            new.append(self.make_entry(data, session.namespace, paths[-back]))
            paths.append([*paths[-back], new[-1]])
        counted = data.draw(st.lists(st.sampled_from(COUNTERS), unique=True), "counters")
        counts = {each: data.draw(st.lists(st.integers(0, 2**40), min_size=size, max_size=size)) for each in counted}
        snapshot = View.from_path(Path(paths[-1])).to_snapshot() if data.draw(st.booleans(), "snapshot") else None
        purges = data.draw(st.sampled_from([None, session.purges, session.purges - 1]), "purges")
        self.append(session, new, head, snapshot=snapshot, counts=counts or None, purges=purges)

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """A Block that quotes what it covers."""
        if (drawn := self.draw_view(data, is_compacted=False)) is None:
            return
        session, head, view = drawn
        path = session.find_path(session.heads[head])
        first = data.draw(st.integers(0, len(view.units) - 1), "first unit")
        last = data.draw(st.integers(first, len(view.units) - 1), "last unit")
        low, high = view.units[first].first, view.units[last].last
        said = [(at, message) for at in range(low, high + 1) if (message := get_message(path[at])) is not None]
        texts = [get_text(message) for _, message in said] or [""]
        shown: list[ShownItem] = [
            Substitute(Message("user", (Text(f"Summary:\n{text}\nTo be kept."),), "tenfold"))
            for text in data.draw(st.lists(st.sampled_from(texts), max_size=2), "quoted")
        ]
        if data.draw(st.booleans(), "keeps an original"):
            shown += [KeptOriginal(at) for at, message in said if message.role == "user"][:1]
        facts: list[Fact] = [Rule(get_text(message), at) for at, message in said[:1]]
        facts += [CommandRun("ls", at, command=f"$ {get_text(message)}", outcome="ok") for at, message in said[1:2]]
        covers = view.get_slice(low, high)
        assert covers is not None
        made = Replacement(low, high, covers, tuple(shown), "summary", sizes=(Counted(9),) * len(shown))
        under = path[view.state.live_blocks[-1]].id if view.state.live_blocks else None
        key = self.make_id(data, session.namespace)
        block = Block(key, path[-1].id, "run", START, "test", "chars4", (made,), tuple(facts), previous_block=under)
        assert view.can_append(block)
        after = View.from_path(Path([*path, block]))
        snapshot = after.to_snapshot() if data.draw(st.booleans(), "snapshot") else None
        purges = data.draw(st.sampled_from([None, session.purges, session.purges - 1]), "purges")
        self.append(session, [block], head, snapshot=snapshot, purges=purges)

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if (drawn := self.draw_view(data, is_compacted=True)) is None:
            return
        session, head, view = drawn
        path = session.find_path(session.heads[head])
        block = path[view.state.live_blocks[-1]].id
        undone = Retraction(self.make_id(data, session.namespace), path[-1].id, "run", START, block)
        self.append(session, [undone], head, snapshot=View.from_path(Path([*path, undone])).to_snapshot())

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), head=st.sampled_from(HEADS), fault=st.sampled_from(FAULTS))
    def append_wrongly(self, data: st.DataObject, head: str, fault: str) -> None:
        """What a store refuses, if it is not right by chance."""
        session = self.draw_session(data)
        expected = session.heads.get(head)
        path = session.find_path(expected)
        new = [self.make_entry(data, session.namespace, path)]
        new.append(self.make_entry(data, session.namespace, [*path, new[0]]))
        name, snapshot, counts = session.id, None, None
        match fault:
            case "leaf":
                expected = data.draw(st.sampled_from([None, "no such id", *session.entries]), "expected")
            case "id":
                new[1] = replace(new[1], id=self.draw_id(data, session))
            case "parent":
                new[0] = replace(new[0], parent=self.draw_id(data, session))
            case "order":
                new.reverse()
            case "none":
                new = []
            case "twice":
                new[1] = replace(new[1], id=new[0].id)
            case "counts":
                counts = {"chars4": [1] * data.draw(st.sampled_from([0, 1, 3]), "counts")}
            case "snapshot":
                wrong = data.draw(st.sampled_from([-2, -1, 1, 5]), "wrong by")
                snapshot = Snapshot(len(path) + len(new) + wrong, (), (), ())
            case _:
                name = "nowhere"
        found = self.ask(
            lambda store: store.append(
                session.namespace, name, new, expected=expected, head=head, snapshot=snapshot, counts=counts
            )
        )
        if found is None:
            session.note(new, head)
            self.is_index_alike = False

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), head=st.sampled_from([*HEADS, "nowhere"]))
    def keep_request(self, data: st.DataObject, head: str) -> None:
        session = self.draw_session(data)
        name = data.draw(st.sampled_from([session.id] * 4 + ["nowhere"]), "name")
        usage = data.draw(st.sampled_from([None, Usage.build(120, 7, 3, 2, "m é"), Usage.build(2**40)]), "usage")
        overhead = data.draw(st.sampled_from([None, Counted(0), Counted(2**40)]), "overhead")
        self.ask(lambda store: store.keep_request(session.namespace, name, head, usage=usage, overhead=overhead))
        self.ask(lambda store: store.open(session.namespace, name, head))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), path=st.sampled_from(["/a/b.json", "/a/B.json", "é\\%.json", ""]), digest=st.binary())
    def record_export(self, data: st.DataObject, path: str, digest: bytes) -> None:
        session = self.draw_session(data)
        name = data.draw(st.sampled_from([session.id] * 4 + ["nowhere"]), "name")
        self.ask(lambda store: store.record_export(session.namespace, name, path, digest))
        self.ask(lambda store: store.list_exports(session.namespace, name))

    def purge(self, session: Known, key: str | None) -> bool:
        """How many records change is the same where the same was indexed, and no text is too long for an index."""
        is_long = any(len(encode_entry(entry)) > INDEX_LIMIT for entry in session.entries.values())
        is_counted = self.is_index_alike and not is_long

        def purge(store: Store) -> int:
            changed = store.purge(session.namespace, session.id, key, now=START + 10**9)
            return changed if is_counted else changed > 0

        found = self.ask(purge)
        self.is_index_alike = False
        return not isinstance(found, Failure)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def purge_entry(self, data: st.DataObject) -> None:
        session = self.draw_session(data)
        if self.purge(session, self.draw_id(data, session)):
            entries = self.sqlite.read_entries(session.namespace, session.id)
            session.entries = {entry.id: entry for entry in entries}
            session.purges = self.sqlite.open(session.namespace, session.id).purges
            self.compare_session(session)

    @precondition(lambda self: len(self.sessions) > 2)
    @rule(data=st.data())
    def purge_session(self, data: st.DataObject) -> None:
        session = self.draw_session(data)
        assert self.purge(session, None)
        del self.sessions[session.namespace, session.id]
        self.ask(lambda store: store.open(session.namespace, session.id))
        self.ask(lambda store: store.purge(session.namespace, session.id, None, now=START))

    # -- reading -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), head=st.sampled_from([*HEADS, "nowhere"]))
    def open(self, data: st.DataObject, head: str) -> None:
        session = self.draw_session(data)
        after = data.draw(st.sampled_from([None, "nobody", *session.entries]), "after")
        name = data.draw(st.sampled_from([session.id] * 5 + ["nowhere"]), "name")
        self.ask(lambda store: store.open(session.namespace, name, head, after=after))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), first=st.integers(-1, 9), more=st.integers(-2, 9), counter=st.sampled_from([*COUNTERS, "?"]))
    def read_path(self, data: st.DataObject, first: int, more: int, counter: str) -> None:
        session = self.draw_session(data)
        where, name, leaf, last = session.namespace, session.id, self.draw_id(data, session), first + more
        self.ask(lambda store: store.read_range(where, name, leaf, first, last))
        self.ask(lambda store: store.read_counts(where, name, leaf, counter, first, last))
        self.ask(lambda store: store.list_other_branches(where, name, leaf))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), length=st.integers(0, 40), namespace=st.integers(0, 2))
    def locate(self, data: st.DataObject, length: int, namespace: int) -> None:
        key = self.draw_id(data, self.draw_session(data))
        beginnings = [key, key[:length], key[:8], key[:length].upper(), "%", "%_0000", "_" * 8, "00000000"]
        beginning = data.draw(st.sampled_from(beginnings), "beginning")
        self.ask(lambda store: store.locate(self.namespaces[namespace], beginning))

    @rule(data=st.data(), limit=st.integers(1, 3), namespace=st.integers(0, 2))
    def search(self, data: st.DataObject, limit: int, namespace: int) -> None:
        where = self.namespaces[namespace]
        names = [name for place, name in self.sessions if place == where]
        session = data.draw(st.sampled_from([None, None, *names, "nowhere"]), "session")
        ids = [key for each in self.sessions.values() for key in each.entries]
        without = data.draw(st.lists(st.sampled_from(ids), max_size=3), "without") if ids else []
        for _ in range(2):
            self.compare_searches(where, self.draw_words(data), session, without, limit)

    def compare_searches(
        self, namespace: str, words: str, session: str | None, without: Collection[str], limit: int
    ) -> None:
        """Both searches, for all that there is and for a few."""
        self.is_index_alike = False

        def search(store: Store, most: int) -> list[Hit]:
            return store.search(namespace, words, session=session, limit=most, without=without)

        def search_passages(store: Store, most: int) -> list[Hit]:
            return store.search_passages(namespace, words, session=session, limit=most, without=without)

        self.ask(lambda store: search(store, 1_000))
        self.ask(lambda store: search(store, limit))
        self.ask(lambda store: find_places(search_passages(store, 1_000)))
        self.ask(lambda store: len(search_passages(store, limit)))
        if self.is_all_searched(namespace, session):
            self.compare_passages(lambda store: search_passages(store, 1_000))

    def is_all_searched(self, namespace: str, session: str | None) -> bool:
        """Whether a search goes over all that the stores hold."""
        held = {key for key, each in self.sessions.items() if each.entries}
        return all(where == namespace and session in {None, name} for where, name in held)

    def compare_passages(self, search: Callable[[Store], list[Hit]]) -> None:
        """Their scores are alike, and so is their order but for those that score the same."""
        one, other = get_answer(self.sqlite, search), get_answer(self.postgres, search)
        if isinstance(one, Failure) or isinstance(other, Failure):
            return
        scores = {hit.entry: hit.score for hit in one}
        assert {hit.entry: hit.score for hit in other} == pytest.approx(scores, rel=0.01, abs=0.02)
        if one and one[0].entry != other[0].entry:
            assert scores[other[0].entry] == pytest.approx(one[0].score, rel=0.01, abs=0.02)
        details = [
            {(hit.entry, hit.session, hit.kind, hit.scanned, hit.latest_of) for hit in each} for each in (one, other)
        ]
        assert details[0] == details[1]

    @rule(limit=st.sampled_from([1, 3, 2_000]))
    def index(self, limit: int) -> None:
        """What was indexed is the same as long as nothing but `index` does it, and again when nothing is left."""
        if self.is_index_alike:
            self.ask(lambda store: store.index(limit=limit))
        else:
            for store in (self.sqlite, self.postgres):
                while store.index(limit=limit):
                    pass
            self.is_index_alike = True

    @rule(namespace=st.integers(0, 3))
    def compare_namespace(self, namespace: int) -> None:
        """What there is in a namespace, and that all of it is sound."""
        where = (*self.namespaces, "nobody")[namespace]
        known = self.ask(lambda store: store.list_namespaces())
        assert not isinstance(known, Failure)
        self.ask(lambda store: store.list_sessions(where))
        self.ask(lambda store: set(store.measure_sessions(where)))
        assert self.ask(lambda store: store.verify(where)) == [] or where not in known

    def compare_session(self, session: Known) -> None:
        """All that there is of a session."""
        where, name = session.namespace, session.id
        assert self.ask(lambda store: store.read_entries(where, name)) == list(session.entries.values())
        assert self.ask(lambda store: store.read_heads(where, name)) == session.heads
        self.ask(lambda store: store.list_exports(where, name))
        for head in session.heads:
            self.compare_head(session, head)

    def compare_head(self, session: Known, head: str) -> None:
        where, name, leaf = session.namespace, session.id, session.heads[head]
        path = session.find_path(leaf)
        last = len(path) - 1
        assert self.ask(lambda store: store.read_range(where, name, leaf, 0, last)) == path
        self.ask(lambda store: store.read_counts(where, name, leaf, COUNTERS[0], 0, last))
        self.ask(lambda store: store.open(where, name, head))

    def teardown(self) -> None:
        """Compares all at the end, and empties the namespaces."""
        try:
            for session in self.sessions.values():
                self.compare_session(session)
            for number in range(len(self.namespaces)):
                self.compare_namespace(number)
        finally:
            for store in (self.sqlite, self.postgres):
                for namespace in self.namespaces:
                    for row in store.list_sessions(namespace):
                        store.purge(namespace, row.info.id, None, now=START)
                while store.index():
                    pass


def test_sqlite_and_postgresql_give_the_same_answers() -> None:
    with closing(SqliteStore(MEMORY_LOCATION)) as sqlite, open_postgres_store() as postgres:

        class Machine(Twins):
            def __init__(self) -> None:
                super().__init__(sqlite, postgres)

        run_state_machine_as_test(Machine, settings=settings(Twins.TestCase.settings, stateful_step_count=40))
