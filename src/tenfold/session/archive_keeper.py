"""Keeps a user's archive of batches in line with a conversation's log."""

from __future__ import annotations

from tenfold.core.record.block import Block
from tenfold.core.view.fold import View
from tenfold.errors import LostRace
from tenfold.session.conversation import Conversation
from tenfold.store.archive import (
    ARCHIVING,
    Archive,
    LogArchive,
    build_note_id,
    delete_batches,
    delete_strays,
    sync_archive,
)


class ArchiveKeeper:
    """Writes and deletes what an archive has besides the log. Methods return what could not be done, "" if all was.

    A process may be killed between the archive and the log, so the log notes which Block is about to be archived.
    """

    def __init__(self, conversation: Conversation, archive: Archive) -> None:
        self.archive = archive
        self._conversation = conversation
        self._is_clean = False

    def note_block(self, block: Block) -> bool:
        """Notes in the log that a Block's batches are about to be archived. Tells whether other writers let it."""
        try:
            self._conversation.append_custom(ARCHIVING, b"{}", run=block.run, id=build_note_id(block.id))
        except LostRace:
            return False
        return True

    def delete_block(self, block: Block) -> str:
        """Deletes the batches of a Block that was not appended."""
        return delete_batches(self.archive, block, self._conversation.address.session)

    def delete_strays(self) -> str:
        """Deletes what earlier processes left of passes that made no Block. Once done, it is not done again."""
        if self._is_clean:
            return ""
        address = self._conversation.address
        problem = delete_strays(self.archive, LogArchive(address.store, address.namespace, address.session))
        self._is_clean = not problem
        return problem

    def sync(self, before: View) -> str:
        """Brings the archive in line with the log after an undo, a redo or a change of branch."""
        conversation = self._conversation
        name, view = conversation.address.session, conversation.view
        return sync_archive(self.archive, before, view, name, conversation.list_other_views)
