"""Pins what a client has put before the first answer: the project's instruction file, the directory, its reminders.

Clients send these once, at the beginning of the conversation, and count on them as on a system prompt: Claude Code's
CLAUDE.md and Codex's AGENTS.md stand there. A summary is no replacement for them.
"""

from __future__ import annotations

from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire.marks import get_summary_text
from tenfold.session import Session

OPENING_SHARE = 0.125
"""What is pinned takes at most this share of the window. What does not fit is compacted like everything else."""


def pin_opening(session: Session, window: int | None) -> list[str]:
    """Pins the client's own messages before the first answer of the model, oldest first, and returns their ids.

    Call it once the session knows of them and before it is compacted. What is pinned already is left as it is. Nothing
    is pinned where the window is not known.
    """
    if window is None:
        return []
    room = OPENING_SHARE * window / session.take_reading(window=window, floor=session.conversation.sent_overhead).slope
    sizes, pins = session.conversation.get_message_sizes(), session.view.state.pins
    pinned: list[str] = []
    for shown in _list_opening(session):
        room -= sizes[shown.key]
        if room < 0:
            break
        if shown.position not in pins:
            (entry,) = session.conversation.read_entries([shown.position])
            pinned.append(session.pin(entry.id))
    return pinned


def _list_opening(session: Session) -> list[VisibleMessage]:
    out: list[VisibleMessage] = []
    for shown in session.view.get_visible_messages():
        if shown.message.role == "assistant":
            break
        is_own = shown.is_original and shown.message.role == "user" and shown.message.origin == "harness"
        if is_own and get_summary_text(shown.message) is None:
            out.append(shown)
    return out
