"""A log that grows by hand: messages, Blocks with their snapshots, undo and forks, mirrored in an independent list."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.log.base import DEFAULT_NAMESPACE, MAIN, SessionInfo, Store
from tenfold.record.block import Block, Fact, Keep, Replacement, Say, Show
from tenfold.record.entry import Entry, Pin, Retraction, Said
from tenfold.record.message import Message, Native, Origin, Role, Text, ToolCall, ToolResult
from tenfold.view.path import Path
from tenfold.view.view import View

NS = DEFAULT_NAMESPACE
START = 1_700_000_000_000_000


def entry_id(number: int) -> str:
    """Ids that sort by number, shaped like those the library makes."""
    return f"{number:08x}-0000-7000-8000-00000000{number % 65536:04x}"


def message(text: str, role: Role = "user", origin: Origin = "human") -> Message:
    """A plain message with native bytes, so that the text stands in the record twice, as in a real session."""
    return Message(role, (Text(text),), origin, native=Native("openai-chat", f'{{"content":"{text}"}}'.encode()))


class Growing:
    """One head of one session. `entries` is what the test expects to find again."""

    def __init__(self, store: Store, session: str = "s", *, namespace: str = NS, first: int = 1) -> None:
        self.store, self.session, self.namespace, self.head = store, session, namespace, MAIN
        self.number = first
        self.entries: list[Entry] = []
        self.view = View.of(Path())
        store.create(namespace, SessionInfo(session, format="openai-chat", title=f"session {session}"))

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path."""
        return self.entries[-1].id if self.entries else None

    def next_id(self) -> str:
        """A fresh id."""
        self.number += 1
        return entry_id(self.number)

    def say(self, *texts: str) -> list[Said]:
        """Appends plain user messages in one call."""
        return self.tell([message(t) for t in texts])

    def tell(self, messages: Sequence[Message], source: str = "") -> list[Said]:
        """Appends messages in one call."""
        new: list[Said] = []
        for each in messages:
            parent = new[-1].id if new else self.leaf
            foreign = source and f"{source}{len(new)}"
            new.append(Said(self.next_id(), parent, "run", START + self.number, each, source=foreign))
        self._append(new)
        return new

    def call(self, name: str, arguments: str, output: str) -> list[Said]:
        """Appends a step: one tool call and its result."""
        call = f"call-{self.number}"
        return self.tell(
            [
                Message("assistant", (ToolCall(call, name, arguments),), "model"),
                Message("tool", (ToolResult(call, name, (Text(output),)),), "tool"),
            ]
        )

    def compact(self, first: int, last: int, *show: str | Show, facts: Sequence[Fact] = ()) -> Block:
        """Appends a Block over `first`..`last`, showing summaries for strings, with its snapshot."""
        covers = self.view.slice(first, last)
        assert covers is not None
        shown = tuple(Say(Message("user", (Text(s),), "tenfold")) if isinstance(s, str) else s for s in show)
        replacement = Replacement(first, last, covers, shown, "summary", sizes=tuple(9 for _ in shown), why="test")
        under = self.entries[self.view.marks.live[-1]].id if self.view.marks.live else None
        block = Block(
            self.next_id(),
            self.leaf,
            "run",
            START + self.number,
            "test",
            "chars4",
            (replacement,),
            tuple(facts),
            under=under,
        )
        assert self.view.fits(block)
        self._append([block], snapshot=True)
        assert self.view.marks.stale == ()
        return block

    def undo(self) -> Retraction:
        """Appends a retraction of the newest live Block, with its snapshot."""
        block = self.entries[self.view.marks.live[-1]].id
        entry = Retraction(self.next_id(), self.leaf, "run", START + self.number, block)
        self._append([entry], snapshot=True)
        return entry

    def pin(self, position: int) -> Pin:
        """Pins an entry."""
        entry = Pin(self.next_id(), self.leaf, "run", START + self.number, self.entries[position].id, position)
        self._append([entry])
        return entry

    def fork(self, length: int, head: str) -> Growing:
        """Another head, whose path shares the first `length` entries."""
        twin = object.__new__(Growing)
        twin.store, twin.session, twin.namespace, twin.head = self.store, self.session, self.namespace, head
        twin.number = self.number + 10_000 * (1 + sum(map(ord, head)) % 97)
        twin.entries = self.entries[:length]
        twin.view = View.of(Path(twin.entries))
        return twin

    def expected(self) -> str | None:
        """The leaf that the store believes this head has."""
        return self.store.heads(self.namespace, self.session).get(self.head)

    def _append(self, new: Sequence[Entry], *, snapshot: bool = False) -> None:
        view = self.view
        for entry in new:
            view.path.append(entry)
        view = view.extend(new)
        self.store.append(
            self.namespace,
            self.session,
            new,
            expected=self.expected(),
            head=self.head,
            snapshot=view.snapshot() if snapshot else None,
        )
        self.view = view
        self.entries.extend(new)


__all__ = ["NS", "START", "Growing", "Keep", "entry_id", "message"]
