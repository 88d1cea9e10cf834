"""What the engine asks its driver to do, and the answers it gets back.

The engine itself does no I/O. It yields a tuple of independent Asks and receives a tuple of Answers in the same order.
When an Ask fails, its `Answer` holds the error as text; no exception is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import FileLists, ModelCost, Receipt, Run
from tenfold.core.record.entry import Entry
from tenfold.core.record.fact import MUST_KEEP
from tenfold.core.record.token_reading import Counted, Reading, Tokens

DEFAULT_TIMEOUT = 120.0
"""Default time limit of a model call in seconds."""
Effort = Literal["", "high"]
"""How much a reasoning model should think before it answers. "" means as little as possible."""
DEFAULT_TRIES = 3
"""Default number of attempts for a model call that fails temporarily."""


class SummaryAsk(Struct, frozen=True, tag="summarize"):
    """Asks a model for the text that replaces a range. This is the only Ask that calls a model.

    `system` and `prompt` are the complete texts to send. `model` "" means the first configured model. `max_tokens`
    limits the answer; the model's thinking does not count towards it. A call without an answer after `timeout` seconds
    has failed. A call that fails temporarily is made up to `tries` times; one that timed out is repeated only if
    `can_retry_timeout` is set. `temperature` None leaves the model's own default.
    """

    system: str
    prompt: str
    max_tokens: int
    model: str = ""
    purpose: Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"] = "first"
    timeout: float = DEFAULT_TIMEOUT
    tries: int = DEFAULT_TRIES
    can_retry_timeout: bool = True
    temperature: float | None = None
    effort: Effort = ""


class ConsultAsk(Struct, frozen=True, tag="consult"):
    """Asks the before-hooks. A hook may cancel the compaction, supply the summary text, or add a focus.

    `plan` is the printed Plan. `focus` is what the caller asked the summary to concentrate on. `purpose` says whether
    a compaction is about to run or a branch is about to be left. `demand` says who asks for a compaction. `covered` is
    the range of positions in which the plan changes the view, or which is left with a branch, and `exchange_start` the
    position of the exchange that the end of the range splits; None where there is none. `target_entry` is the id of the
    entry that a session moves to when it leaves a branch. `tokens_before` and `target` are in the unit of an `Outcome`.
    """

    plan: str
    tokens_before: Tokens
    target: Tokens
    focus: str = ""
    purpose: Literal["compaction", "branch"] = "compaction"
    demand: Literal["check", "manual", "tool", "overflow"] = "manual"
    covered: Run | None = None
    exchange_start: int | None = None
    target_entry: str = ""


class ReadAsk(Struct, frozen=True, tag="read"):
    """Asks for the original entries at `positions`. A session is opened without loading entries hidden by Blocks."""

    positions: tuple[int, ...]


Ask = SummaryAsk | ConsultAsk | ReadAsk


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to one Ask. If the Ask failed, `error` is set and the result fields are empty.

    A `SummaryAsk` is answered with `text`, `finish_reason` ("stop", "length", "tool", "refusal") and `spent`.
    A `ConsultAsk` is answered with `cancel`, `focus` and `text` (the summary supplied by the hook, "" if none). If the
    hook also sets `supplied_details` (its own data as JSON), the text is used word for word and no facts are added.
    With `retained_from`, a position, the text stands for all before it, whatever the plan was; `files` are then files
    that it names, which later summaries list as well. With `error` the compaction fails for that reason.
    A `ReadAsk` is answered with `entries`, in the order of its positions.
    A failed call may be `retryable`, after `retry_after` seconds if the provider gave a delay. `timed_out` marks a call
    that gave no answer in time.
    """

    text: str = ""
    finish_reason: str = "stop"
    spent: ModelCost = ModelCost()
    cancel: bool = False
    focus: str = ""
    supplied_details: str = ""
    retained_from: int | None = None
    files: FileLists | None = None
    entries: tuple[Entry, ...] = ()
    error: str = ""
    retryable: bool = False
    retry_after: float = 0.0
    timed_out: bool = False


def render_table(rows: Iterable[tuple[object, ...]]) -> str:
    """Renders rows as an HTML table for a notebook, with every text escaped. The first cell of each is its heading."""
    lines = (
        f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return f"<table>{''.join(lines)}</table>"


class FactCount(Struct, frozen=True):
    """How many facts are in view, out of how many there are."""

    kept: int
    total: int


class Outcome(Struct, frozen=True, omit_defaults=True):
    """Says how a compaction ended, with the numbers and the reason. Nothing about a compaction is raised.

    - `status` is "compacted", or says why the view is as it was: there was "nothing" to do, a hook or the caller
      "cancelled" it, no smaller view is possible ("unsatisfiable"), another writer changed the range meanwhile
      ("superseded"), or no usable summary came ("failed"). `reason` is a sentence with the arithmetic.
    - `tokens_before`, `tokens_after` and `target` are sizes of the view, as the provider counts them. With an explicit
      target they are in the target's own tokens, those of the policy's counter. So they are in an Outcome that comes
      from no session. All three are in one unit, and can be compared; with another size only what `reading_before` and
      `reading_after` say can.
    - `reading_before` and `reading_after` are the same sizes with bounds and evidence. They count what is sent besides
      the messages as well, and are None if the Outcome comes from no session.
    - `target_missed` says that the view could not get as small as the target; `itemised` lists what had to stay, each
      with its tokens.
    - `block` is the id of the new Block, and `rung` says who wrote its text. `facts` maps each kind of fact to how many
      are in view, and how many there are.
    - `violations` are the rules of the provider that the view breaks, `notes` what else there is to know.
    - `spent` is what the summary models cost, and `receipt` what the compaction saves, if the prices are known.
    - `unconfirmed` counts the paths, numbers, names and quotations in the summaries that occur nowhere in what they
      stand for. Each is marked `[unconfirmed]` in the text.

        outcome.reading_after.explain()  # 41k-44k of 200k
    """

    status: Literal["compacted", "nothing", "cancelled", "unsatisfiable", "superseded", "failed"]
    reason: str
    tokens_before: Tokens
    tokens_after: Tokens
    target: Tokens
    target_missed: bool = False
    messages_before: int = 0
    messages_after: int = 0
    block: str = ""
    policy: str = ""
    rung: str = ""
    facts: dict[str, tuple[int, int]] = {}
    itemised: dict[str, Tokens] = {}
    violations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent: ModelCost = ModelCost()
    receipt: Receipt | None = None
    reading_before: Reading | None = None
    reading_after: Reading | None = None
    unconfirmed: int = 0

    def __repr__(self) -> str:
        """Says how it ended, with its sizes or its reason. The fields have the rest."""
        if self.status != "compacted":
            return f"<Outcome {self.status}: {self.reason}>"
        sizes = f"{self.tokens_before:,} -> {self.tokens_after:,} tokens"
        return f"<Outcome compacted: {sizes}, {self.messages_before} -> {self.messages_after} messages>"

    def _repr_html_(self) -> str:
        return render_table(self.list_rows())

    def list_rows(self) -> list[tuple[str, object]]:
        """Lists what a notebook shows of it: a name and a value for each row."""
        rows: list[tuple[str, object]] = [
            ("status", self.status),
            ("reason", self.reason),
            ("tokens", f"{self.tokens_before:,} -> {self.tokens_after:,}"),
            ("messages", f"{self.messages_before:,} -> {self.messages_after:,}"),
            ("target", f"{self.target:,}" if self.target else "none"),
        ]
        if self.reading_after is not None:
            rows.append(("sent now", self.reading_after.explain()))
        return rows

    def convert_sizes(self, before: Reading, after: Reading) -> Outcome:
        """Returns the Outcome with its sizes as the provider counts them. `after` counts only if a Block was made."""
        size = before.tokens
        target = before.to_provider(Counted(self.target)) if self.target else 0
        return replace(
            self, tokens_before=size, tokens_after=after.tokens if self.status == "compacted" else size, target=target
        )

    @property
    def unclassified_count(self) -> int:
        """How many of the user's messages are in a language without cues. They are kept, and not read for rules."""
        return self.facts.get("remark", (0, 0))[1]

    def describe_must_keep(self) -> str:
        """Describes how many of the must-keep facts are in view, kind by kind: `request 1/1, rule 4/5`."""
        found = [(kind, *count) for kind, count in sorted(self.facts.items()) if kind in MUST_KEEP]
        return ", ".join(f"{kind.replace('_', ' ')} {kept}/{total}" for kind, kept, total in found) or "there are none"

    @property
    def must_keep(self) -> FactCount:
        """The must-keep facts, counted over all their kinds."""
        counts = [count for kind, count in self.facts.items() if kind in MUST_KEEP]
        return FactCount(sum(kept for kept, _ in counts), sum(total for _, total in counts))


class EngineResult(Struct, frozen=True):
    """What the engine returns to `drive`: the Outcome, and the entry to append (a Block, an Attempt, or None)."""

    outcome: Outcome
    entry: Entry | None = None
