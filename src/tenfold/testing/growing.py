"""A log that grows by hand: messages, Blocks with their snapshots, undo and forks, mirrored in an independent list."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.core.record.block import Block, Replacement, ShownItem, Substitute
from tenfold.core.record.entry import Entry, MessageEntry, Pin, Retraction
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message, NativeBytes, Origin, Role, Text, ToolCall, ToolResult
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, SessionInfo, Store

NS = DEFAULT_NAMESPACE
START = 1_700_000_000_000_000


def make_entry_id(number: int) -> str:
    """Ids that sort by number, shaped like those the library makes."""
    return f"{number:08x}-0000-7000-8000-00000000{number % 65536:04x}"


def make_message(text: str, role: Role = "user", origin: Origin = "human") -> Message:
    """A plain message with native bytes, so that the text stands in the record twice, as in a real session."""
    return Message(role, (Text(text),), origin, native=NativeBytes("openai-chat", f'{{"content":"{text}"}}'.encode()))


class Growing:
    """One head of one session. `entries` is what a check expects to find again."""

    def __init__(self, store: Store, session: str = "s", *, namespace: str = NS, first: int = 1) -> None:
        self.store, self.session, self.namespace, self.head = store, session, namespace, MAIN
        self.number = first
        self.entries: list[Entry] = []
        self.view = View.from_path(Path())
        store.create(namespace, SessionInfo(session, format="openai-chat", title=f"session {session}"))

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path."""
        return self.entries[-1].id if self.entries else None

    def make_id(self) -> str:
        """A fresh id."""
        self.number += 1
        return make_entry_id(self.number)

    def say(self, *texts: str, counts: Sequence[int] = ()) -> list[MessageEntry]:
        """Appends plain user messages in one call, with their token counts by "chars4"."""
        return self.tell([make_message(t) for t in texts], counts=counts)

    def tell(self, messages: Sequence[Message], counts: Sequence[int] = ()) -> list[MessageEntry]:
        """Appends messages in one call."""
        new: list[MessageEntry] = []
        for each in messages:
            parent = new[-1].id if new else self.leaf
            new.append(MessageEntry(self.make_id(), parent, "run", START + self.number, each))
        self._append(new, counts=counts)
        return new

    def call(self, name: str, arguments: str, output: str) -> list[MessageEntry]:
        """Appends a step: one tool call and its result."""
        call = f"call-{self.number}"
        return self.tell(
            [
                Message("assistant", (ToolCall(call, name, arguments),), "model"),
                Message("tool", (ToolResult(call, name, (Text(output),)),), "tool"),
            ]
        )

    def compact(self, first: int, last: int, *show: str | ShownItem, facts: Sequence[Fact] = ()) -> Block:
        """Appends a Block over `first`..`last`, showing summaries for strings, with its snapshot."""
        covers = self.view.get_slice(first, last)
        assert covers is not None
        shown = tuple(Substitute(Message("user", (Text(s),), "tenfold")) if isinstance(s, str) else s for s in show)
        replacement = Replacement(
            first, last, covers, shown, "summary", sizes=(Counted(9),) * len(shown), reason="test"
        )
        under = self.entries[self.view.state.live_blocks[-1]].id if self.view.state.live_blocks else None
        block = Block(
            self.make_id(),
            self.leaf,
            "run",
            START + self.number,
            "test",
            "chars4",
            (replacement,),
            tuple(facts),
            previous_block=under,
        )
        assert self.view.can_append(block)
        self._append([block], snapshot=True)
        assert self.view.state.stale_entries == ()
        return block

    def undo(self) -> Retraction:
        """Appends a retraction of the newest live Block, with its snapshot."""
        block = self.entries[self.view.state.live_blocks[-1]].id
        entry = Retraction(self.make_id(), self.leaf, "run", START + self.number, block)
        self._append([entry], snapshot=True)
        return entry

    def pin(self, position: int) -> Pin:
        """Pins an entry."""
        entry = Pin(self.make_id(), self.leaf, "run", START + self.number, self.entries[position].id, position)
        self._append([entry])
        return entry

    def fork(self, length: int, head: str) -> Growing:
        """Another head, whose path shares the first `length` entries."""
        twin = object.__new__(Growing)
        twin.store, twin.session, twin.namespace, twin.head = self.store, self.session, self.namespace, head
        twin.number = self.number + 10_000 * (1 + sum(map(ord, head)) % 97)
        twin.entries = self.entries[:length]
        twin.view = View.from_path(Path(twin.entries))
        return twin

    def get_expected_leaf(self) -> str | None:
        """The leaf that the store believes this head has."""
        return self.store.read_heads(self.namespace, self.session).get(self.head)

    def _append(self, new: Sequence[Entry], *, snapshot: bool = False, counts: Sequence[int] = ()) -> None:
        view = self.view
        for entry in new:
            view.path.append(entry)
        view = view.extend(new)
        self.store.append(
            self.namespace,
            self.session,
            new,
            expected=self.get_expected_leaf(),
            head=self.head,
            snapshot=view.to_snapshot() if snapshot else None,
            counts={"chars4": counts} if counts else None,
        )
        self.view = view
        self.entries.extend(new)
