"""What a session tells an archive: a store of a user's that keeps what Blocks hold, besides the log."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tenfold.core.record.block import Block
from tenfold.core.view.fold import View
from tenfold.session.conversation import Conversation


@runtime_checkable
class Archive(Protocol):
    """Keeps what Blocks hold, besides the log. One object may serve many sessions; each call says which one it is for.

    Each method returns what could not be done, "" if all was.
    """

    def receive(self, session: Conversation, block: Block) -> str:
        """Is given each Block before it is appended. With any answer but "" the whole compaction fails.

        Entries of its own (`append_custom`) may be appended. If that raises `LostRace`, the compaction is superseded.
        """
        ...

    def finish(self, session: Conversation, block: Block, *, is_appended: bool) -> str:
        """Is told what became of a Block that it has received."""
        ...

    def follow(self, session: Conversation, before: View) -> str:
        """Is told that other Blocks are in force than in `before`: after undo, redo or a change of branch."""
        ...
