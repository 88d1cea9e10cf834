"""The design's session functions: append a compaction, build the context at a leaf, summarise a branch.

They read and write a Tenfold session and return values with the design's names.
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
    """A Block under the design's names. `timestamp` is ISO 8601, UTC.

    `from_hook` means that a hook supplied it. Its id, token count and files are then exactly those of the hook.
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
        """The same values as a `CompactionResult`."""
        return CompactionResult(self.summary, self.first_kept_entry_id, self.tokens_before, self.details)


class SessionContext(Struct, frozen=True):
    """The messages that the model sees at a leaf, and the last model and thinking level set on the path."""

    messages: tuple[Message, ...]
    model: str | None
    thinking_level: str | None


class Supplied(Struct, frozen=True):
    """What a hook states about a summary that it supplies. Stored on the Block as JSON."""

    retained_from_id: str
    tokens_before: int
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def append_compaction(session: Session, result: CompactionResult, *, demand: Demand = "manual") -> Outcome:
    """Appends an existing summary unchanged, as a Block over everything before `result.retained_from_id`.

    The Block becomes the new leaf. It must cover whole steps and be smaller than what it replaces; otherwise nothing is
    appended and the Outcome says why. Raises `NotFound` unless the id begins a message or a step in view.
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
    supplied = Supplied(result.retained_from_id, result.tokens_before, details.read_files, details.modified_files)
    answer = Answer(text=result.summary, supplied=msgspec.json.encode(supplied).decode())
    view = session.view
    call = Call(demand, to=1, model=session.model, consult=True)
    effects = compact(view, policy, call, session.fixed(view), now=now(), new_id=IDS.new)
    return session.install(run(effects, Answerer(before=(lambda _: answer,))), view)


def compaction_entry(session: Session, block: str) -> CompactionEntry:
    """Returns a Block of this session under the design's names. Raises `NotFound` if the id is not a Block's."""
    place = session.place
    located = place.store.locate(place.namespace, block)
    entry = located.entry
    if not isinstance(entry, Block):
        raise NotFound(f"{block} is no compaction but a {type(entry).__name__.lower()} entry")
    says = [s.message for r in entry.replacements for s in r.show if isinstance(s, Say)]
    last = max(r.last for r in entry.replacements)
    path = path_to(place.store, place.namespace, located)
    kept = next((e.id for e in path.span(last + 1, path.length - 1) if message_of(e) is not None), "")
    compaction = CompactionEntry(
        entry.id,
        entry.parent,
        datetime.fromtimestamp(entry.time / 1e6, UTC).isoformat(),
        bare(says[-1], tail(session.policy.counter).summary) if says else "",
        kept,
        entry.tokens_before,
        details_of(entry.facts),
    )
    if not entry.supplied:
        return compaction
    try:
        supplied = msgspec.json.decode(entry.supplied.encode(), type=Supplied)
    except (
        msgspec.ValidationError,
        msgspec.DecodeError,
    ):  # another kind of hook supplied it: mark it, and keep the figures of the Block
        return replace(compaction, from_hook=True)
    return replace(
        compaction,
        first_kept_entry_id=supplied.retained_from_id,
        tokens_before=supplied.tokens_before,
        details=CompactionDetails(supplied.read_files, supplied.modified_files),
        from_hook=True,
    )


_NEWEST = "\0newest"


def build_session_context(entries: Sequence[Entry], leaf: str | None = _NEWEST) -> SessionContext:
    """Builds what the model sees at a leaf of a tree of entries, by folding the path from the root.

    `leaf` None means before the first entry. An unknown leaf, or the default, means the last entry. The path ends at a
    missing parent.
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
    """The entries of a branch that would be left, oldest first with their positions, and where it forks off."""

    entries: Left
    common_ancestor_id: str | None


class BranchPreparation(Struct, frozen=True):
    """The messages of a branch that would be summarised, their size in tokens, and the files that it touched."""

    messages: tuple[Message, ...]
    file_ops: CompactionDetails
    total_tokens: int


class BranchSummaryResult(Struct, frozen=True):
    """The summary of a branch. Without one, `aborted` is True or `error` says why."""

    summary: str = ""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    aborted: bool = False
    error: str = ""


def collect_entries_for_branch_summary(session: Session, old_leaf: str | None, target: str) -> Collected:
    """Collects the entries between the deepest common ancestor (exclusive) and the old leaf, across compactions.

    Without an old leaf there are no entries and no ancestor. Raises `NotFound` for an unknown id.
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
    """Selects the newest messages within the token budget (0: no limit), without tool results, and all touched files.

    The messages are in order, oldest first. The policy's counter counts them; without a policy it is characters / 4.
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
    """Summarises a branch. `custom_instructions` are added to the prompt, or replace it. Failures are in the result.

    Raises `UsageError` for `replace_instructions` without `custom_instructions`.
    """
    if replace_instructions and not custom_instructions.strip():
        raise UsageError("replace_instructions without custom_instructions: give the prompt that is to stand instead")
    prompt, focus = (custom_instructions, "") if replace_instructions else ("", custom_instructions)
    options = Wish(summarize=True, focus=focus, prompt=prompt, window=window)
    result = run(leaving(entries, policy, options, parent=None, consult=bool(answerer.before)), answerer)
    if isinstance(result.entry, Branch):
        files = details_of(files_left(entries))
        return BranchSummaryResult(branch_text(result.entry), files.read_files, files.modified_files)
    aborted = result.outcome.status == "cancelled"
    return BranchSummaryResult(aborted=aborted, error="" if aborted else result.outcome.reason or NOTHING)


def branch_text(entry: Branch) -> str:
    """Returns the text of a branch summary, without its tags, fixed sentences and facts."""
    text = summary_text(text_of(entry.message)) or text_of(entry.message)
    return narrative(text.removeprefix(OPENING).removesuffix(CLOSING).strip())
