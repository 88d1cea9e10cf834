"""The effects the engine asks for, and the answers it is given.

The engine yields a tuple of independent Asks and receives a tuple of Answers in the same order. A failed Ask is an
`Answer` that holds the error as text, never an exception.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.record.block import Spent
from tenfold.record.entry import Entry

TIMEOUT = 120.0
"""Seconds that a model call may take unless the policy says otherwise: `clip`'s compaction_timeout, for all."""
Effort = Literal["", "high"]
"""How hard a model that can reason is to think before it answers; "" for as little as it can."""
TRIES = 3
"""How often a call that fails for the moment is made in all: `clip`'s max_retries of 2, for all."""


class Summarize(Struct, frozen=True, tag="summarize"):
    """Asks a model for the text that stands for a range. `model` "" means the first configured one.

    `system` and `prompt` are complete; `max_tokens` is the allotment of the answer. A call that gives none within
    `timeout` seconds has failed; what fails for the moment is called up to `tries` times, one that was late only
    with `repeat_late`. `temperature` None is the model's own. What a model thinks takes nothing of `max_tokens`.
    Nothing else calls a model.
    """

    system: str
    prompt: str
    max_tokens: int
    model: str = ""
    purpose: Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"] = "first"
    timeout: float = TIMEOUT
    tries: int = TRIES
    repeat_late: bool = True
    temperature: float | None = None
    effort: Effort = ""


class Consult(Struct, frozen=True, tag="consult"):
    """Asks the before-hooks: they may cancel, supply a summary text, or add a focus.

    `plan` is the printed Plan, `focus` what the caller asked to dwell on; `purpose` tells a compaction from a branch
    that is about to be left.
    """

    plan: str
    tokens_before: int
    target: int
    focus: str = ""
    purpose: Literal["compaction", "branch"] = "compaction"


class Read(Struct, frozen=True, tag="read"):
    """Asks for the original entries at `positions`, which an O(view) opening has not loaded."""

    positions: tuple[int, ...]


Ask = Summarize | Consult | Read


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to one Ask. `error` is set, and all else empty, when it could not be answered.

    Summarize: `text`, `finish` ("stop", "length", "tool", "refusal") and `spent`. Consult: `cancel`, `text` (a
    supplied summary, "" if none), `focus`; with `supplied`, what the hook says of it as JSON, the text stands word for
    word and without facts of ours. Read: `entries`, in the order asked. A failed call may be `retryable`, after
    `retry_after` seconds where the provider said so; `timed_out` is one that gave no answer in time.
    """

    text: str = ""
    finish: str = "stop"
    spent: Spent = Spent()
    cancel: bool = False
    focus: str = ""
    supplied: str = ""
    entries: tuple[Entry, ...] = ()
    error: str = ""
    retryable: bool = False
    retry_after: float = 0.0
    timed_out: bool = False


class Outcome(Struct, frozen=True, omit_defaults=True):
    """What came of a compaction. Tokens by the policy's counter over the view.

    `facts` maps a kind to (kept in view, total); `itemised` maps what the least size is made of to its tokens;
    `target_missed` says that the least was above the target; `violations` are rule violations found in the view.
    """

    status: Literal["compacted", "nothing", "cancelled", "unsatisfiable", "superseded", "failed"]
    reason: str
    tokens_before: int
    tokens_after: int
    target: int
    target_missed: bool = False
    messages_before: int = 0
    messages_after: int = 0
    block: str = ""
    policy: str = ""
    rung: str = ""
    facts: dict[str, tuple[int, int]] = {}
    itemised: dict[str, int] = {}
    violations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()


class Verdict(Struct, frozen=True):
    """What the engine hands to `drive`: the Outcome, and the entry to append (a Block, an Attempt, or nothing)."""

    outcome: Outcome
    entry: Entry | None = None
