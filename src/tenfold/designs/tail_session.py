"""The design's session calls: a compaction appended from a result, the context it leads to, and branches.

All of them read and write a Tenfold session; what they return has the design's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.branches import (
    CLOSING,
    NOTHING,
    OPENING,
    Left,
    Wish,
    common_ancestor,
    files_left,
    leaving,
    left_behind,
    selected,
)
from tenfold.designs.tail_compaction import CompactionDetails, CompactionResult, bare, details_of
from tenfold.drive import Answerer, run
from tenfold.engine import Call, compact
from tenfold.errors import NotFound, UsageError
from tenfold.log.ids import IDS, now
from tenfold.meter.counters import Characters4, sizes
from tenfold.plan.stages.cut import CutAt
from tenfold.policies.tail import tail
from tenfold.policy import Policy
from tenfold.recall.expand import path_to
from tenfold.record.ask import Answer, Outcome
from tenfold.record.block import Block, Say
from tenfold.record.entry import Branch, Entry, Said, Setting, message_of
from tenfold.record.message import Message, text_of
from tenfold.session import Session
from tenfold.summarize.parse import narrative
from tenfold.trigger.triggers import Demand
from tenfold.view.path import Path
from tenfold.view.view import View
from tenfold.wire.marks import summary_text


class CompactionEntry(Struct, frozen=True):
    """A Block by the design's names. `timestamp` is ISO 8601, UTC.

    `from_hook` marks one that a hook supplied: its figures are then the hook's, word for word.
    """

    id: str
    parent_id: str | None
    timestamp: str
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: CompactionDetails
    from_hook: bool = False

    @property
    def result(self) -> CompactionResult:
        """The same as the result that led to it."""
        return CompactionResult(self.summary, self.first_kept_entry_id, self.tokens_before, self.details)


class SessionContext(Struct, frozen=True):
    """What the model sees at a leaf, and the model and thinking level set last on the way there."""

    messages: tuple[Message, ...]
    model: str | None
    thinking_level: str | None


class Supplied(Struct, frozen=True):
    """What a hook says of a summary it supplies; kept on the Block as JSON."""

    retained_from_id: str
    tokens_before: int
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def append_compaction(session: Session, result: CompactionResult, *, demand: Demand = "manual") -> Outcome:
    """Appends a summary that is at hand, as it is, with everything before `result.retained_from_id` behind it.

    The Block's parent is the leaf, and it becomes the leaf. It must be valid where it stands: whole steps, and smaller
    than what it replaces; else the Outcome says why and nothing is appended. Raises `NotFound` for an unknown entry.
    """
    path = session.view.path
    ids = {path.at(unit.first).id: unit.first for unit in session.view.units}
    if session.view.step is not None:
        ids[path.at(session.view.step.first).id] = session.view.step.first
    if result.retained_from_id not in ids:
        raise NotFound(
            f"{result.retained_from_id!r} opens nothing in view: the tail must begin with a message or a whole step"
        )
    policy = replace(session.policy, stages=(CutAt(ids[result.retained_from_id]),))
    details = result.details
    told = Supplied(result.retained_from_id, result.tokens_before, details.read_files, details.modified_files)
    answer = Answer(text=result.summary, supplied=msgspec.json.encode(told).decode())
    view = session.view
    call = Call(demand, to=1, model=session.model, consult=True)
    effects = compact(view, policy, call, session.fixed(view), now=now(), new_id=IDS.new)
    return session.install(run(effects, Answerer(before=(lambda _: answer,))), view)


def compaction_entry(session: Session, block: str) -> CompactionEntry:
    """A Block of this session by the design's names. Raises `NotFound` where the id is not that of a Block."""
    place = session.place
    located = place.store.locate(place.namespace, block)
    entry = located.entry
    if not isinstance(entry, Block):
        raise NotFound(f"{block} is no compaction but a {type(entry).__name__.lower()} entry")
    says = [s.message for r in entry.replacements for s in r.show if isinstance(s, Say)]
    last = max(r.last for r in entry.replacements)
    path = path_to(place.store, place.namespace, located)
    kept = next((e.id for e in path.span(last + 1, path.length - 1) if message_of(e) is not None), "")
    made = CompactionEntry(
        entry.id,
        entry.parent,
        datetime.fromtimestamp(entry.time / 1e6, UTC).isoformat(),
        bare(says[-1], tail(session.policy.counter).summary) if says else "",
        kept,
        entry.tokens_before,
        details_of(entry.facts),
    )
    if not entry.supplied:
        return made
    try:
        told = msgspec.json.decode(entry.supplied.encode(), type=Supplied)
    except (
        msgspec.ValidationError,
        msgspec.DecodeError,
    ):  # another hook's, not the design's: marked, and ours otherwise
        return replace(made, from_hook=True)
    return replace(
        made,
        first_kept_entry_id=told.retained_from_id,
        tokens_before=told.tokens_before,
        details=CompactionDetails(told.read_files, told.modified_files),
        from_hook=True,
    )


_NEWEST = "\0newest"


def build_session_context(entries: Sequence[Entry], leaf: str | None = _NEWEST) -> SessionContext:
    """What the model sees at a leaf of a tree of entries: the path to the root, folded.

    `leaf` None is before the first entry; an unknown one, and none given, is the last entry. A parent that is missing
    ends the path there.
    """
    known: Mapping[str, Entry] = {e.id: e for e in entries}
    at = None if leaf is None else known.get(leaf, entries[-1] if entries else None)
    path: list[Entry] = []
    while at is not None:
        path.append(at)
        at = known.get(at.parent) if at.parent is not None else None
    path.reverse()
    model = thinking = None
    for entry in path:
        if isinstance(entry, Setting):
            model = entry.value if entry.key == "model" else model
            thinking = entry.value if entry.key == "thinking" else thinking
        elif isinstance(entry, Said) and entry.usage is not None and entry.usage.model:
            model = entry.usage.model
    return SessionContext(tuple(View.of(Path(path)).messages()), model, thinking)


class Collected(Struct, frozen=True):
    """The entries of a branch that would be left, oldest first with their positions, and where it hangs."""

    entries: Left
    common_ancestor_id: str | None


class BranchPreparation(Struct, frozen=True):
    """What would be told of a branch, the files it touched, and its size by the counter."""

    messages: tuple[Message, ...]
    file_ops: CompactionDetails
    total_tokens: int


class BranchSummaryResult(Struct, frozen=True):
    """The summary of a branch; or `aborted`, or an `error`, and then no summary. Never an exception."""

    summary: str = ""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    aborted: bool = False
    error: str = ""


def collect_entries_for_branch_summary(session: Session, old_leaf: str | None, target: str) -> Collected:
    """The entries between the deepest common ancestor (exclusive) and the old leaf, across compactions.

    No old leaf: nothing, and no ancestor. Raises `NotFound` for an id that the session does not have.
    """
    if old_leaf is None:
        return Collected((), None)
    place = session.place
    old, new = (
        path_to(place.store, place.namespace, place.store.locate(place.namespace, each)) for each in (old_leaf, target)
    )
    left = left_behind(old, new)
    return Collected(left, common_ancestor(old, left))


def prepare_branch_entries(entries: Left, budget: int = 0, *, policy: Policy | None = None) -> BranchPreparation:
    """The newest messages within the budget (0: all), oldest first, tool outputs left out; and all files touched.

    Counted by the policy's counter, without one by characters / 4.
    """
    policy = policy or tail(Characters4())
    items = selected(entries, budget=budget, policy=policy)
    messages = tuple(m for _, m in items)
    return BranchPreparation(messages, details_of(files_left(entries)), sum(sizes(messages, policy.counter)))


def generate_branch_summary(
    entries: Left,
    policy: Policy,
    answerer: Answerer,
    *,
    custom_instructions: str = "",
    replace_instructions: bool = False,
    window: int | None = None,
) -> BranchSummaryResult:
    """The summary of a branch. `custom_instructions` are added to the prompt, or stand in its place."""
    if replace_instructions and not custom_instructions.strip():
        raise UsageError("replace_instructions without custom_instructions: give the prompt that is to stand instead")
    prompt, focus = (custom_instructions, "") if replace_instructions else ("", custom_instructions)
    wish = Wish(summarize=True, focus=focus, prompt=prompt, window=window)
    verdict = run(leaving(entries, policy, wish, parent=None, consult=bool(answerer.before)), answerer)
    if isinstance(verdict.entry, Branch):
        files = details_of(files_left(entries))
        return BranchSummaryResult(branch_text(verdict.entry), files.read_files, files.modified_files)
    aborted = verdict.outcome.status == "cancelled"
    return BranchSummaryResult(aborted=aborted, error="" if aborted else verdict.outcome.reason or NOTHING)


def branch_text(entry: Branch) -> str:
    """A branch summary's own text, without the sentence and the marks around it and without its facts."""
    text = summary_text(text_of(entry.message)) or text_of(entry.message)
    return narrative(text.removeprefix(OPENING).removesuffix(CLOSING).strip())
