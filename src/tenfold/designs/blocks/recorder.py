"""The recorder of the design behind the preset `blocks`: the events of loops, kept in the log of their session.

An event is a custom entry of the log. No model is shown it, and whoever opens the session again finds it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile

import msgspec
from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.core.record.entry import CustomEntry, get_message
from tenfold.core.record.message import Message, Part, Text, Thinking, ToolResult
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.wire import WIRES
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.marks import ERROR_FLAG, is_system_prompt
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

        An event is dropped if its loop is not open, unless it opens one or brackets a demand by hand.
        """
        loop = event.loop_id
        if isinstance(event, MessageDelta) and not self._has_deltas:
            return
        is_bracket = isinstance(event, AgentStart | AgentEnd) and event.kind == "compaction"
        if isinstance(event, AgentStart) and not is_bracket:
            self._open_loops[loop] = None
        if loop not in self._open_loops and not is_bracket:
            return
        if isinstance(event, AgentEnd) and not is_bracket:
            self._session.conversation.write(lambda: self._append_missing(loop, event.messages))
            del self._open_loops[loop]
        self._append_event(event)

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
        path = self._session.view.path
        for position, entry in enumerate(path.get_entries(0, path.length - 1) if path.length else ()):
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
        """Appends an event. A compaction that is in the log already, heard or sent, is not appended again."""
        if isinstance(event, CompactionStarted | CompactionEnded) and any(
            replace(known, loop_id=event.loop_id) == event for _, known in self._read_events()
        ):
            return
        body = msgspec.json.encode(replace(event, messages=()) if isinstance(event, AgentEnd) else event)
        self._session.conversation.append_custom(LOOP_EVENT, body, run=event.loop_id)

    def _append_missing(self, loop: str, messages: Sequence[Message]) -> None:
        """Appends those of a loop's messages that neither a request, a list nor the host has appended.

        What a Block shows in place of messages is none of them: a host that is sent the view has it in its list. Nor is
        the system prompt with which the view begins, nor what the session had before the loop, if all of it is given.
        """
        session = self._session
        visible = list(session.view.get_visible_messages())
        opening = takewhile(lambda shown: is_system_prompt(shown.message), visible)
        shown = {fingerprint_message(s.message) for s in (*opening, *(s for s in visible if not s.is_original))}
        earlier, own = self._find_messages(loop)
        seen = [s.message for s in takewhile(lambda shown: shown.original_position not in own, visible)]
        known = list(own.values())
        wire = next((m.native.format for m in reversed(known) if m.native is not None), "")
        if wire in WIRES and WIRES[wire].profile.has_separate_system:
            messages = list(dropwhile(is_system_prompt, messages))
        start, end = _find_earlier([self._clean(message) for message in messages], known, (earlier, seen))
        counts = Counter(key for message in known for key in _list_keys(message))
        missing: list[Message] = []
        for message in (*messages[:start], *messages[end:]):
            said = self._clean(message)
            keys = Counter(_list_keys(said))
            if keys <= counts:
                counts -= keys
            elif fingerprint_message(said) not in shown:
                missing.append(message)
        session.append(*missing, run=loop)

    def _clean(self, message: Message) -> Message:
        """Returns a message in the form in which the log has it."""
        message = replace_surrogates(message)
        return redact_message(message) if self._session.address.store.redact_at_rest else message

    def _find_messages(self, loop: str) -> tuple[list[Message], dict[int, Message]]:
        """Finds the messages on the path that were there before a loop, and by position those of the loop itself.

        Its own are those of its run, and those without one that came after its start. Where the run has ended before
        and goes on, those before that end are left out.
        """
        own = [(p, e) for p, e in self._read_events() if e.loop_id == loop]
        start = max((p for p, e in own if isinstance(e, AgentStart) and e.kind == "run"), default=0)
        end = max((p for p, e in own if isinstance(e, AgentEnd) and e.kind == "run"), default=-1)
        path = self._session.view.path
        earlier: list[Message] = []
        found: dict[int, Message] = {}
        for position, entry in enumerate(path.get_entries(0, path.length - 1) if path.length else ()):
            message = get_message(entry)
            if message is None:
                continue
            if (entry.run == loop and position > end) or (not entry.run and position > start):
                found[position] = message
            elif position < start:
                earlier.append(message)
        return earlier, found


def _list_keys(message: Message) -> list[bytes]:
    """Lists what a message says, one key for each part, the same whatever wire has brought it.

    Some wires mark a failed tool in the text of its result, leave thinking out, or join two answers in one.
    """
    said = [part for part in message.parts if not isinstance(part, Thinking)] or message.parts
    return [fingerprint_message(replace(message, parts=(_without_flag(part),))) for part in said]


def _without_flag(part: Part) -> Part:
    """Returns a part without the mark of a failed tool."""
    if not isinstance(part, ToolResult):
        return part
    content = (replace(p, text=p.text.removeprefix(ERROR_FLAG)) if isinstance(p, Text) else p for p in part.content)
    return replace(part, content=tuple(content))


def _find_earlier(
    messages: Sequence[Message], known: Sequence[Message], histories: Sequence[Sequence[Message]]
) -> tuple[int, int]:
    """Finds the messages of earlier loops, as a slice, where a host gives its whole history as the loop's.

    `histories` are forms of what the session had before the loop. One has to stand at the beginning, whole, with
    something behind it. Messages that begin as the `known` ones of the loop are its own, whatever an earlier loop said.
    """
    start = len(list(takewhile(is_system_prompt, messages)))
    rest = messages[start:]
    if not _count_opening(rest, known):
        for history in histories:
            count = _count_opening(rest, history)
            if 0 < count < len(rest):
                return start, start + count
    return start, start


def _count_opening(messages: Sequence[Message], known: Sequence[Message]) -> int:
    """Counts the messages at the beginning that say what the known ones do, 0 if some of those are not among them."""
    wanted = Counter(key for message in dropwhile(is_system_prompt, known) for key in _list_keys(message))
    for count, message in enumerate(messages, 1):
        keys = Counter(_list_keys(message))
        if not keys <= wanted:
            return 0
        wanted -= keys
        if not wanted:
            return count
    return 0
