"""Hooks, events and the recorder of the design behind the preset `blocks`, put onto a session's own.

The order of a compaction: `before_compaction_start`, `CompactionStarted`, the work, `CompactionEnded`,
`after_compaction_end`. A before-hook that says False skips this one, without any event.
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
    """A compaction is about to be carried out. `timestamp` in microseconds UTC."""

    loop_id: str
    estimated_tokens: int
    message_count: int
    timestamp: int


class CompactionEnded(Struct, frozen=True, tag="compaction_ended"):
    """It ended. `loops_compacted` counts the loops that are shown otherwise since; none where nothing came of it."""

    loop_id: str
    messages_before: int
    messages_after: int
    estimated_tokens_before: int
    estimated_tokens_after: int
    loops_compacted: int
    timestamp: int


class AgentStart(Struct, frozen=True, tag="agent_start"):
    """A loop is open. `kind` "compaction" brackets a demand by hand."""

    loop_id: str
    kind: Literal["run", "compaction"] = "run"


class AgentEnd(Struct, frozen=True, tag="agent_end"):
    """A loop is closed, with the messages it said."""

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
    """The session's answerer with the design's hooks and events: set it as `session.answerer`.

    Hooks may be plain or coroutines. One that raises is reported and ignored, and the compaction goes on.
    """
    answerer = session.answerer

    def before(consult: Consult) -> Answer | None:
        assert before_compaction_start is not None
        said = settled(lambda: before_compaction_start(consult.tokens_before, _count(session)))
        if said.error:
            raise UsageError(f"before_compaction_start: {said.error}")
        return Answer(cancel=True, error="before_compaction_start said False") if said.value is False else None

    def after(outcome: Outcome, _block: Block) -> None:
        assert after_compaction_end is not None
        figures = (outcome.messages_before, outcome.messages_after, outcome.tokens_before, outcome.tokens_after)
        said = settled(lambda: after_compaction_end(*figures))
        if said.error:
            raise UsageError(f"after_compaction_end: {said.error}")

    return replace(
        answerer,
        before=(*answerer.before, *([before] if before_compaction_start is not None else [])),
        after=(*answerer.after, *([after] if after_compaction_end is not None else [])),
        listen=(*answerer.listen, *([_Telling(session, send).hear] if send is not None else [])),
    )


def _count(session: Session) -> int:
    return sum(1 for _ in session.view.shown())


class _Telling:
    """Turns a session's events into the design's: each `CompactionStarted` is followed by one `CompactionEnded`."""

    def __init__(self, session: Session, send: Send) -> None:
        self._session, self._send = session, send
        self._open = ""

    def hear(self, event: Event) -> None:
        """Tells of a start, and of the end of what was started; what never started is no event of the design."""
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
    """The id of the loop that the path ends with, "" where nothing was said yet."""
    loops = stretches(session.view)
    return loops[-1].loop_id if loops else ""


def compact_context_with_sender(session: Session | None, config: ContextConfig | None, send: Send) -> int:
    """`compact_context` with its events: AgentStart, CompactionStarted, CompactionEnded, AgentEnd."""
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
    """Writes what loops say into a session, and keeps what it hears of them, numbered loop by loop.

    The messages come with `AgentEnd` and get the loop as their run; compactions are in the log as Blocks already.
    `flush` gives the loops still open up as aborted. Streamed pieces are left out unless `deltas` is set.
    """

    def __init__(self, session: Session, *, deltas: bool = False) -> None:
        """Records into an open session."""
        self._session, self._deltas = session, deltas
        self._open: set[str] = set()
        self._heard: dict[str, list[tuple[int, LoopEvent]]] = {}
        self._aborted: set[str] = set()

    def record(self, event: LoopEvent) -> None:
        """Takes an event; one of a loop that is not open, and is no beginning of one, is not kept."""
        loop = event.loop_id
        if isinstance(event, MessageDelta) and not self._deltas:
            return
        if isinstance(event, AgentStart) and event.kind == "run":
            self._open.add(loop)
        if loop in self._open:
            heard = self._heard.setdefault(loop, [])
            heard.append((len(heard) + 1, event))
        if isinstance(event, AgentEnd) and event.kind == "run" and loop in self._open:
            self._open.discard(loop)
            self._session.append(*event.messages, run=loop)

    def flush(self) -> None:
        """Gives up the loops that are still open."""
        self._aborted |= self._open
        self._open.clear()

    def events(self, loop_id: str) -> Sequence[tuple[int, LoopEvent]]:
        """What was heard of a loop, numbered from 1."""
        return tuple(self._heard.get(loop_id, ()))

    def loops(self) -> tuple[LoopRecord, ...]:
        """The loops of the session with their events, and those that said nothing because they were given up."""
        said = {loop.loop_id: loop for loop in records(self._session)}
        ids = [*said, *(loop for loop in self._heard if loop not in said)]
        return tuple(self._with_events(said.get(loop) or LoopRecord(loop, ())) for loop in ids)

    def _with_events(self, loop: LoopRecord) -> LoopRecord:
        events = tuple((n, type(e).__name__) for n, e in self._heard.get(loop.loop_id, ()))
        aborted, running = loop.loop_id in self._aborted, loop.loop_id in self._open
        return replace(loop, events=events, status="aborted" if aborted else "running" if running else loop.status)
