"""What a session and an agent tell their listeners: values, one type for each kind of news.

    Warned        an automatic check found the view in the warning zone: nothing is done yet
    Started       a compaction is about to be carried out: the trigger fired, no before-hook objected
    Ended         a Block was appended
    Skipped       it was called for and not done: cancelled, nothing to gain, unsatisfiable, superseded
    Failed        no usable summary, and the policy does not go on without one
    Moved         the session went to another branch of its tree
    RunStarted    an agent begins to work on what it was told
    RunEnded      it has answered, failed, or was stopped
    Overflowed    a provider refused a request as too long

A check that finds all quiet is no news. `Started` is always followed by one of the last three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from tenfold.record.ask import Outcome


class Warned(Struct, frozen=True, tag="warning"):
    """`tokens` of the view, out of `window`, lie at or above the warning size and below the trigger of `limit`."""

    session: str
    policy: str
    tokens: int
    limit: int
    window: int
    time: int

    @property
    def fill(self) -> float:
        """The share of the window that is taken."""
        return self.tokens / self.window if self.window else 0.0


class Started(Struct, frozen=True, tag="started"):
    """A view of `tokens` is to be brought down to `target`. `plan` is the printed Plan."""

    session: str
    policy: str
    tokens: int
    target: int
    plan: str
    time: int


class Ended(Struct, frozen=True, tag="ended"):
    """A Block was appended; the Outcome has its id and the figures."""

    session: str
    outcome: Outcome
    time: int


class Skipped(Struct, frozen=True, tag="skipped"):
    """Nothing was appended; the Outcome says why."""

    session: str
    outcome: Outcome
    time: int


class Failed(Struct, frozen=True, tag="failed"):
    """There was no usable summary; the Outcome says why. The conversation is as it was."""

    session: str
    outcome: Outcome
    time: int


class Moved(Struct, frozen=True, tag="moved"):
    """The session went from the entry `left` to another branch of its tree and stands at `leaf` (None: at the root).

    `branch` is the summary of what was left, appended there, "" without one.
    """

    session: str
    left: str | None
    leaf: str | None
    branch: str
    time: int


class RunStarted(Struct, frozen=True, tag="run_started"):
    """An agent was told `prompt` ("": to go on) and begins."""

    session: str
    prompt: str
    time: int


class RunEnded(Struct, frozen=True, tag="run_ended"):
    """A run is over. `text` is the answer of one that went well, `reason` the error of one that failed."""

    session: str
    status: Literal["ok", "failed", "stopped"]
    text: str
    reason: str
    time: int


class Overflowed(Struct, frozen=True, tag="overflowed"):
    """The provider of `model` refused a request of `tokens` by our count as too long; room is made for the next."""

    session: str
    model: str
    tokens: int
    time: int


Event = Warned | Started | Ended | Skipped | Failed | Moved | RunStarted | RunEnded | Overflowed
Listener = Callable[[Event], None]
"""Told of each event, in order, on the thread that compacts. One that raises is reported and ignored."""


def news_of(session: str, outcome: Outcome, time: int) -> Event | None:
    """The event that an Outcome is, None for a check that found all quiet."""
    match outcome.status:
        case "compacted":
            return Ended(session, outcome, time)
        case "failed":
            return Failed(session, outcome, time)
        case "nothing" if not outcome.target:
            return None
        case _:
            return Skipped(session, outcome, time)
