"""What a user of the design `tiers` sees: the status bar, the events of a compaction, the command `/compact`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.ask import Outcome
from tenfold.events import CompactionEnd, CompactionFailure, CompactionWarning, Event, Listener, SummaryFailure
from tenfold.session import Session
from tenfold.session.compact_tool import format_thousands, render_compaction_mark


class TokenUsage(Struct, frozen=True):
    """The context in use and what it may take, `max`, in tokens; 0 for an unknown window.

    `max` is the window less the output reserve. The thresholds are shares of the same, so a compaction comes at 80 %.
    """

    used: int
    max: int

    @classmethod
    def from_session(cls, session: Session, *, window: int | None = None, output_reserve: int = 0) -> TokenUsage:
        """Reads a session's context size. A larger `output_reserve` than the policy's own takes its place."""
        reading = session.take_reading(window=window)
        if reading.window is None:
            return cls(reading.tokens, 0)
        limits = session.policy.get_limits(reading.window, output_reserve=output_reserve, floor=reading.floor)
        return cls(reading.tokens, limits.hard)

    @property
    def percent(self) -> int:
        """The percentage in use, rounded down."""
        return self.used * 100 // self.max if self.max else 0


def format_status_line(usage: TokenUsage) -> str:
    """Formats the status bar's context use: `[ctx: 45%]`, or tokens if the window is unknown."""
    return f"[ctx: {usage.percent}%]" if usage.max else f"[ctx: {format_thousands(usage.used)}]"


class ContextWarning(Struct, frozen=True):
    """`AgentEvent::ContextWarning`: the context is at 70 % or more, but below the trigger. `max` as in `TokenUsage`."""

    used: int
    max: int


class CompactionStatus(Struct, frozen=True):
    """`AgentEvent::CompactionStatus`: a compaction was done. Sizes are in tokens."""

    before: int
    after: int

    @property
    def line(self) -> str:
        """The line that is shown for it."""
        return render_compaction_mark(self.before, self.after)


class SummarizationFailure(Struct, frozen=True):
    """A summary model failed, and what the first two tiers did was kept, or nothing was done. `reason` says why."""

    reason: str


AgentEvent = ContextWarning | CompactionStatus | SummarizationFailure


def to_agent_event(event: Event) -> AgentEvent | None:
    """Converts a Tenfold event to the design's, None if it has none."""
    match event:
        case CompactionWarning():
            return ContextWarning(event.tokens, event.usable or event.window)
        case SummaryFailure(reason=reason) | CompactionFailure(outcome=Outcome(reason=reason)):
            return SummarizationFailure(reason)
        case CompactionEnd():
            return CompactionStatus(event.outcome.tokens_before, event.outcome.tokens_after)
        case _:
            return None


def build_listener(handler: Callable[[AgentEvent], None]) -> Listener:
    """Builds a listener for `Answerer(listen=...)` that passes the design's events to `handler`."""

    def forward_event(event: Event) -> None:
        converted = to_agent_event(event)
        if converted is not None:
            handler(converted)

    return forward_event


def run_compact_command(session: Session, line: str = "/compact", *, window: int | None = None) -> Outcome:
    """Runs `/compact`, optionally followed by a focus, through all tiers. Raises `UsageError` for an unknown window."""
    focus = line.strip().removeprefix("/compact").strip()
    return session.compact(replace(session.compactor.build_call(window=window), demand="manual", focus=focus))
