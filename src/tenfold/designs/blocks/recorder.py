"""The recorder of the design behind the preset `blocks`: the events of loops, kept in the log of their session.

An event is a custom entry of the log. No model is shown it, and whoever opens the session again finds it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.core.record.entry import CustomEntry, get_message
from tenfold.core.record.message import Message
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.designs.blocks.events import (
    AgentEnd,
    AgentStart,
    CompactionEnded,
    CompactionStarted,
    EventTranslator,
    LoopEvent,
    MessageDelta,
    get_current_loop_id,
)
from tenfold.designs.blocks.loops import find_loops, get_loop_records
from tenfold.designs.blocks.turns import LoopRecord
from tenfold.session import Session

LOOP_EVENT = "tenfold loop event"
"""The kind of the log's entries that hold an event, as JSON."""


class SessionRecorder:
    """Records the events of loops in their session, numbered from 1 in each loop, and the messages of loops that end.

    It hears `CompactionStarted` and `CompactionEnded` by itself, whatever compacts the session: a request, a coroutine,
    a demand by hand. They are filed with the run that the compaction was made for, else with the loop opened last, also
    before its first message. The other events are given to `record`. Streamed pieces are left out unless `deltas` is
    set.
    """

    def __init__(self, session: Session, *, deltas: bool = False) -> None:
        """Records into an open session and adds a listener to its answerer, so set another answerer before this.

        Loops that the log says were opened and not ended are open.
        """
        self._session, self._has_deltas = session, deltas
        self._open_loops = dict.fromkeys(loop for loop, status in self._read_statuses().items() if status == "running")
        translator = EventTranslator(session, self._append_event, self._find_loop)
        answerer = session.compactor.answerer
        session.compactor.use_answerer(replace(answerer, listeners=(*answerer.listeners, translator.handle_event)))

    def record(self, event: LoopEvent) -> None:
        """Records an event, and with the end of a loop those of its messages that the log does not have yet.

        An event is dropped if its loop is not open, unless it opens one or brackets a demand by hand. So are the events
        of a compaction, which are heard already.
        """
        match event:
            case CompactionStarted() | CompactionEnded():
                return
            case AgentStart(kind="compaction") | AgentEnd(kind="compaction"):
                self._append_event(event)
                return
            case AgentStart():
                self._open_loops[event.loop_id] = None
            case MessageDelta() if not self._has_deltas:
                return
            case AgentEnd() as end if end.loop_id in self._open_loops:
                self._session.conversation.write(lambda: self._append_missing(end))
        if event.loop_id in self._open_loops:
            self._append_event(event)
        if isinstance(event, AgentEnd):
            self._open_loops.pop(event.loop_id, None)

    def flush(self) -> None:
        """Marks the loops that are still open as aborted."""
        for loop in tuple(self._open_loops):
            self.record(AgentEnd(loop, status="aborted"))

    def get_events(self, loop_id: str) -> Sequence[tuple[int, LoopEvent]]:
        """Returns the events of a loop, numbered from 1. An `AgentEnd` comes without messages: the log has them."""
        own = (event for _, event in self._read_events() if event.loop_id == loop_id)
        return tuple(enumerate(own, start=1))

    def get_loops(self) -> tuple[LoopRecord, ...]:
        """Returns the loops of the session with their events, oldest first, also those without any message yet."""
        names: dict[str, list[str]] = {}
        starts = {loop.loop_id: loop.positions[0] for loop in find_loops(self._session.view)}
        for position, event in self._read_events():
            names.setdefault(event.loop_id, []).append(type(event).__name__)
            starts[event.loop_id] = min(position, starts.get(event.loop_id, position))
        known = {loop.loop_id: loop for loop in get_loop_records(self._session)}
        statuses = self._read_statuses()
        return tuple(
            replace(
                known.get(loop) or LoopRecord(loop, ()),
                events=tuple(enumerate(names.get(loop, ()), start=1)),
                status=statuses.get(loop, "completed"),
            )
            for loop in sorted(starts, key=lambda loop: starts[loop])
        )

    def _find_loop(self) -> str:
        """Returns the loop opened last, else the last one on the path."""
        return next(reversed(self._open_loops), "") or get_current_loop_id(self._session)

    def _read_events(self) -> Iterator[tuple[int, LoopEvent]]:
        """Reads the events on the path, oldest first, with their positions."""
        view = self._session.view
        for position, entry in enumerate(view.path.get_entries(0, view.length - 1)):
            if isinstance(entry, CustomEntry) and entry.kind == LOOP_EVENT:
                event: LoopEvent = msgspec.json.decode(entry.native.body, type=LoopEvent)
                yield position, event

    def _read_statuses(self) -> dict[str, str]:
        """Reads how each loop with a start ended: "running" where it did not."""
        out: dict[str, str] = {}
        for _, event in self._read_events():
            if isinstance(event, AgentStart | AgentEnd) and event.kind == "run":
                out[event.loop_id] = "running" if isinstance(event, AgentStart) else event.status
        return out

    def _append_event(self, event: LoopEvent) -> None:
        body = msgspec.json.encode(replace(event, messages=()) if isinstance(event, AgentEnd) else event)
        self._session.conversation.append_custom(LOOP_EVENT, body, run=event.loop_id)

    def _append_missing(self, end: AgentEnd) -> None:
        """Appends those of a loop's messages that nobody has appended since its start: a request, a list or the host.

        They are told apart by what they say. What is said twice is appended as often as it was said.
        """
        session = self._session
        starts = (p for p, e in self._read_events() if isinstance(e, AgentStart) and e.loop_id == end.loop_id)
        entries = session.view.path.get_entries(max(starts), session.view.length - 1)
        own = (get_message(entry) for entry in entries if entry.run in (end.loop_id, ""))
        known = Counter(fingerprint_message(message) for message in own if message is not None)
        missing: list[Message] = []
        for message in end.messages:
            key = fingerprint_message(self._clean(message))
            if known[key]:
                known[key] -= 1
            else:
                missing.append(message)
        session.append(*missing, run=end.loop_id)

    def _clean(self, message: Message) -> Message:
        """Returns a message in the form in which the log has it."""
        message = replace_surrogates(message)
        return redact_message(message) if self._session.address.store.redact_at_rest else message
