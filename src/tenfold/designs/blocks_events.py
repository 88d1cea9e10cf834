"""The hooks, events and recorder of the design behind the preset `blocks`, built on those of a session.

The order of a compaction: `before_compaction_start`, `CompactionStarted`, the work, `CompactionEnded`,
`after_compaction_end`. If the before-hook returns False, this compaction is skipped and no event is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.designs.blocks_asking import settled
from tenfold.designs.blocks_session import compact_context, loops_compacted, records, stretches
from tenfold.designs.blocks_values import ContextConfig, LoopRecord
from tenfold.drive import Answerer
from tenfold.errors import UsageError
from tenfold.events import Ended, Event, Failed, Skipped, Started
from tenfold.record.ask import Answer, Consult, Outcome
from tenfold.record.block import Block
from tenfold.record.message import Message
from tenfold.session import Session


class CompactionStarted(Struct, frozen=True, tag="compaction_started"):
    """A compaction is about to start. `timestamp` is in microseconds UTC."""

    loop_id: str
    estimated_tokens: int
    message_count: int
    timestamp: int


class CompactionEnded(Struct, frozen=True, tag="compaction_ended"):
    """A compaction ended. `loops_compacted` counts the loops whose view it changed, 0 if nothing was appended."""

    loop_id: str
    messages_before: int
    messages_after: int
    estimated_tokens_before: int
    estimated_tokens_after: int
    loops_compacted: int
    timestamp: int


class AgentStart(Struct, frozen=True, tag="agent_start"):
    """A loop begins. `kind` is "compaction" around a compaction that was requested by hand."""

    loop_id: str
    kind: Literal["run", "compaction"] = "run"


class AgentEnd(Struct, frozen=True, tag="agent_end"):
    """A loop ended, with its messages."""

    loop_id: str
    messages: tuple[Message, ...] = ()
    kind: Literal["run", "compaction"] = "run"


class MessageDelta(Struct, frozen=True, tag="message_delta"):
    """A piece of an answer that is still being written."""

    loop_id: str
    text: str


LoopEvent = CompactionStarted | CompactionEnded | AgentStart | AgentEnd | MessageDelta
Send = Callable[[LoopEvent], None]
BeforeStart = Callable[[int, int], bool | Awaitable[bool]]
"""`before_compaction_start(estimated_tokens, message_count)`: False skips this compaction."""
AfterEnd = Callable[[int, int, int, int], Awaitable[None] | None]
"""`after_compaction_end(messages_before, messages_after, tokens_before, tokens_after)`."""


def hooked(
    session: Session,
    *,
    before_compaction_start: BeforeStart | None = None,
    after_compaction_end: AfterEnd | None = None,
    send: Send | None = None,
) -> Answerer:
    """Returns the session's answerer with the design's hooks and events added; assign it to `session.answerer`.

    Hooks may be plain functions or coroutines. If one raises, that is reported and the compaction goes on.
    """
    answerer = session.answerer

    def before(consult: Consult) -> Answer | None:
        assert before_compaction_start is not None
        result = settled(lambda: before_compaction_start(consult.tokens_before, _count(session)))
        if result.error:
            raise UsageError(f"before_compaction_start: {result.error}")
        return Answer(cancel=True, error="before_compaction_start said False") if result.value is False else None

    def after(outcome: Outcome, _block: Block) -> None:
        assert after_compaction_end is not None
        figures = (outcome.messages_before, outcome.messages_after, outcome.tokens_before, outcome.tokens_after)
        result = settled(lambda: after_compaction_end(*figures))
        if result.error:
            raise UsageError(f"after_compaction_end: {result.error}")

    return replace(
        answerer,
        before=(*answerer.before, *([before] if before_compaction_start is not None else [])),
        after=(*answerer.after, *([after] if after_compaction_end is not None else [])),
        listen=(*answerer.listen, *([_Telling(session, send).hear] if send is not None else [])),
    )


def _count(session: Session) -> int:
    return sum(1 for _ in session.view.shown())


class _Telling:
    """Translates a session's events into the design's. A `CompactionEnded` follows each `CompactionStarted`."""

    def __init__(self, session: Session, send: Send) -> None:
        self._session, self._send = session, send
        self._open = ""

    def hear(self, event: Event) -> None:
        """Sends an event for each start and its end. A compaction that never started sends none."""
        match event:
            case Started():
                self._session.refresh()
                self._open = current_loop(self._session)
                self._send(CompactionStarted(self._open, event.tokens, _count(self._session), event.time))
            case Ended(outcome=outcome) | Skipped(outcome=outcome) | Failed(outcome=outcome) if self._open:
                self._session.refresh()
                loop, self._open = self._open, ""
                self._send(
                    CompactionEnded(
                        loop,
                        outcome.messages_before,
                        outcome.messages_after,
                        outcome.tokens_before,
                        outcome.tokens_after,
                        loops_compacted(self._session, outcome),
                        event.time,
                    )
                )
            case _:
                return


def current_loop(session: Session) -> str:
    """Returns the id of the last loop on the path, "" if there are no messages yet."""
    loops = stretches(session.view)
    return loops[-1].loop_id if loops else ""


def compact_context_with_sender(session: Session | None, config: ContextConfig | None, send: Send) -> int:
    """Like `compact_context`, and sends AgentStart, CompactionStarted, CompactionEnded and AgentEnd."""
    if session is None or config is None:
        return 0
    loop = current_loop(session)
    before = session.answerer
    send(AgentStart(loop, "compaction"))
    session.answerer = hooked(session, send=send)
    try:
        return compact_context(session, config)
    finally:
        session.answerer = before
        send(AgentEnd(loop, (), "compaction"))


class SessionRecorder:
    """Appends the messages of loops to a session and keeps their events, numbered from 1 in each loop.

    Messages arrive with `AgentEnd` and are appended with the loop's id as their run. Compactions need no recording: the
    log has them as Blocks. Streamed pieces are left out unless `deltas` is set.
    """

    def __init__(self, session: Session, *, deltas: bool = False) -> None:
        """Records into `session`, which is open already."""
        self._session, self._deltas = session, deltas
        self._open: set[str] = set()
        self._heard: dict[str, list[tuple[int, LoopEvent]]] = {}
        self._aborted: set[str] = set()

    def record(self, event: LoopEvent) -> None:
        """Records an event. It is dropped if its loop is not open, unless it opens one."""
        loop = event.loop_id
        if isinstance(event, MessageDelta) and not self._deltas:
            return
        if isinstance(event, AgentStart) and event.kind == "run":
            self._open.add(loop)
        if loop in self._open:
            events = self._heard.setdefault(loop, [])
            events.append((len(events) + 1, event))
        if isinstance(event, AgentEnd) and event.kind == "run" and loop in self._open:
            self._open.discard(loop)
            self._session.append(*event.messages, run=loop)

    def flush(self) -> None:
        """Marks the loops that are still open as aborted."""
        self._aborted |= self._open
        self._open.clear()

    def events(self, loop_id: str) -> Sequence[tuple[int, LoopEvent]]:
        """Returns the events of a loop, numbered from 1."""
        return tuple(self._heard.get(loop_id, ()))

    def loops(self) -> tuple[LoopRecord, ...]:
        """Returns the loops of the session with their events, and those that were aborted before any message."""
        known = {loop.loop_id: loop for loop in records(self._session)}
        ids = [*known, *(loop for loop in self._heard if loop not in known)]
        return tuple(self._with_events(known.get(loop) or LoopRecord(loop, ())) for loop in ids)

    def _with_events(self, loop: LoopRecord) -> LoopRecord:
        events = tuple((n, type(e).__name__) for n, e in self._heard.get(loop.loop_id, ()))
        aborted, running = loop.loop_id in self._aborted, loop.loop_id in self._open
        return replace(loop, events=events, status="aborted" if aborted else "running" if running else loop.status)
