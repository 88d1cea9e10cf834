"""The events that a session and an agent send to their listeners, one type for each.

    CompactionWarning    an automatic check found the view in the warning zone; nothing is done yet
    CompactionStart      a compaction is about to run: the trigger fired and no before-hook objected
    CompactionEnd        a Block was appended
    CompactionSkip       a compaction was due but not done: cancelled, nothing to gain, unsatisfiable, superseded
    CompactionFailure    there was no usable summary, and the policy does not go on without one
    SummaryFailure       a summary model failed, and the compaction went on without it: a CompactionEnd follows
    BranchSwitch         the session went to another branch of its tree
    RunStart             an agent begins to work on a prompt
    RunSave              the agent has answered and all of it is stored; the check at the end of the run follows
    RunEnd               the agent has answered, failed, or was stopped; it is idle again
    RequestOverflow      a provider refused a request as too long

A check that finds nothing to do sends no event. After a `CompactionStart` there is always a `CompactionEnd`,
`CompactionSkip` or `CompactionFailure`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.token_reading import Counted, ProviderTokens, Tokens


class CompactionWarning(Struct, frozen=True, tag="warning"):
    """The view has reached the warning size with `tokens` out of `window`, but not the trigger size `limit`.

    `usable` is what the window leaves beside what is kept free for the answer, 0 if that is not known.
    """

    session: str
    policy: str
    tokens: ProviderTokens
    limit: ProviderTokens
    window: int
    time: int
    usable: ProviderTokens = ProviderTokens(0)

    @property
    def fill(self) -> float:
        """The share of `usable`, else of the window, that the view takes. 0.0 if neither is known."""
        whole = self.usable or self.window
        return self.tokens / whole if whole else 0.0


class CompactionStart(Struct, frozen=True, tag="started"):
    """A view of `tokens` is about to be reduced to `target`. `plan` is the printed Plan, and `run` that of the call.

    The sizes are what the provider counts; with an explicit target, what the policy's counter counts.
    """

    session: str
    policy: str
    tokens: Tokens
    target: Tokens
    plan: str
    time: int
    run: str = ""


class _OutcomeEvent(Struct, frozen=True):
    session: str
    outcome: Outcome
    time: int


class CompactionEnd(_OutcomeEvent, frozen=True, tag="ended"):
    """A Block was appended. The Outcome has its id and the numbers."""


class CompactionSkip(_OutcomeEvent, frozen=True, tag="skipped"):
    """Nothing was appended. The Outcome says why."""


class CompactionFailure(_OutcomeEvent, frozen=True, tag="failed"):
    """There was no usable summary. The Outcome says why. The conversation is unchanged."""


class SummaryFailure(Struct, frozen=True, tag="summary_failed"):
    """A model gave no usable summary, for instance because its key is wrong. `reason` says which, and why.

    The compaction goes on: with another model, with what code wrote, or with what the policy shows without a summary.
    """

    session: str
    reason: str
    time: int


class BranchSwitch(Struct, frozen=True, tag="moved"):
    """The session moved from the entry `previous_leaf` to another branch, where it is now at `leaf` (None: the root).

    `branch` is the id of the entry that summarizes the branch left behind, "" if there is none.
    """

    session: str
    previous_leaf: str | None
    leaf: str | None
    branch: str
    time: int


class RunStart(Struct, frozen=True, tag="run_started"):
    """An agent begins to work on `prompt`. An empty prompt means that it continues."""

    session: str
    prompt: str
    time: int


class RunSave(Struct, frozen=True, tag="run_saved"):
    """A run went well, and all its messages are stored. If the context is checked at the end of a run, that follows."""

    session: str
    time: int


class RunEnd(Struct, frozen=True, tag="run_ended"):
    """A run has ended. `text` is the answer if it went well, `reason` the error if it failed."""

    session: str
    status: Literal["ok", "failed", "stopped"]
    text: str
    reason: str
    time: int


class RequestOverflow(Struct, frozen=True, tag="overflowed"):
    """A provider refused a request to `model` as too long: `tokens` by our count. A compaction follows."""

    session: str
    model: str
    tokens: Counted
    time: int


Event = (
    CompactionWarning
    | CompactionStart
    | CompactionEnd
    | CompactionSkip
    | CompactionFailure
    | SummaryFailure
    | BranchSwitch
    | RunStart
    | RunSave
    | RunEnd
    | RequestOverflow
)
BeforeHook = Callable[[ConsultAsk], Awaitable[Answer | None] | Answer | None]
"""Runs before a compaction. Its Answer may cancel, supply a summary text, or add a focus. None changes nothing."""
AfterHook = Callable[[Outcome, Block], Awaitable[None] | None]
"""Is called with each Block once it is appended, and its Outcome."""
Listener = Callable[[Event], Awaitable[None] | None]
"""Called with each event, in order, on the thread that compacts. If it raises, that is reported and ignored."""


def build_summary_failure(session: str, outcome: Outcome, time: int) -> SummaryFailure | None:
    """Builds the event of a summary model that failed although there is a Block. Returns None if none failed."""
    is_by_first_model = outcome.rung in ("model", "stricter") or not outcome.notes
    if outcome.status != "compacted" or not outcome.spent.calls or is_by_first_model:
        return None
    return SummaryFailure(session, "; ".join(outcome.notes), time)


def build_event(session: str, outcome: Outcome, time: int) -> Event | None:
    """Builds the event for an Outcome. Returns None for a check that found nothing to do."""
    match outcome.status:
        case "compacted":
            return CompactionEnd(session, outcome, time)
        case "failed":
            return CompactionFailure(session, outcome, time)
        case "nothing" if not outcome.target:
            return None
        case _:
            return CompactionSkip(session, outcome, time)
