"""The design's session: append a compaction, build the context at a leaf, summarise a branch.

They read and write a Tenfold session and return values with the design's names. `SessionManager` has them as methods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import compact
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.file_footer import list_files
from tenfold.compaction.facts.parse import get_text_before_facts
from tenfold.compaction.plan.stages.condense import CutAtStage
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.ask import Answer, Outcome
from tenfold.core.record.block import Block, FileLists, Substitute
from tenfold.core.record.entry import BranchSummary, Entry, MessageEntry, Setting, get_message
from tenfold.core.record.message import Message, get_text
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.tail.compaction import (
    NO_DETAILS,
    CompactionDetails,
    CompactionResult,
    complete_policy,
    open_model,
    strip_summary_marks,
    to_details,
)
from tenfold.designs.tail.policy import tail
from tenfold.designs.tail.recorded_compaction import SuppliedCompaction, restore_compaction
from tenfold.errors import NotFoundError, UsageError
from tenfold.models.model import Model
from tenfold.recall.expand import open_path
from tenfold.session import Session
from tenfold.session.branches import (
    CLOSING,
    NO_CONTENT,
    OPENING,
    BranchEntries,
    BranchOptions,
    extract_file_facts,
    get_left_entries,
    select_messages,
    summarize_branch,
)
from tenfold.session.drive import Answerer, run_engine
from tenfold.store.ids import IDS, convert_time, get_current_time


@dataclass(frozen=True)
class CompactionEntry:
    """A Block under the design's names. `timestamp` is ISO 8601, UTC.

    `from_hook` means that a hook supplied it. Where a hook, `append_compaction` or another tool's file stated its first
    kept entry, token count and files, they are exactly those.
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


@dataclass(frozen=True)
class SessionContext:
    """The messages that the model sees at a leaf, and the last model and thinking level set on the path."""

    messages: tuple[Message, ...]
    model: str | None
    thinking_level: str | None


def build_supplied_answer(session: Session, result: CompactionResult, *, from_hook: bool = True) -> Answer:
    """Builds the answer of a before-hook that supplies a compaction. Raises `NotFoundError` for an unknown first entry.

    Later summaries list the files of its details, and those that are known of the covered range.
    """
    path = session.view.path
    starts = [unit.first for unit in session.view.units]
    if session.view.open_step is not None:
        starts.append(session.view.open_step.first)
    position = next((at for at in starts if path.get_entry(at).id == result.retained_from_id), None)
    if position is None:
        raise NotFoundError(
            f"{result.retained_from_id!r} opens nothing in view: the tail must begin with a message or a whole step"
        )
    files = FileLists(tuple(result.details.read_files), tuple(result.details.modified_files))
    supplied = SuppliedCompaction(result.retained_from_id, result.tokens_before, files.read, files.modified, from_hook)
    return Answer(
        text=result.summary,
        supplied_details=msgspec.json.encode(supplied).decode(),
        retained_from=position,
        files=files,
    )


def get_compaction_entry(session: Session, block: str, *, tokens_before: int | None = None) -> CompactionEntry:
    """Returns a Block of this session under the design's names. Raises `NotFoundError` if the id is not a Block's.

    `tokens_before` is what the provider counted then, as its Outcome says; without it that is estimated.
    """
    place = session.address
    located = place.store.locate(place.namespace, block)
    entry = located.entry
    if not isinstance(entry, Block):
        raise NotFoundError(f"{block} is no compaction but a {type(entry).__name__.lower()} entry")
    says = [s.message for r in entry.replacements for s in r.shown_items if isinstance(s, Substitute)]
    last = max(r.last for r in entry.replacements)
    path = open_path(place.store, place.namespace, located)
    kept = next((e.id for e in path.get_entries(last + 1, path.length - 1) if get_message(e) is not None), "")
    files = entry.files if entry.files is not None else list_files(View.from_path(path).list_block_facts(), until=last)
    compaction = CompactionEntry(
        entry.id,
        entry.parent,
        convert_time(entry.time).isoformat(),
        strip_summary_marks(says[-1], tail(session.policy.counter).summary) if says else "",
        kept,
        session.compactor.get_provider_tokens(entry)[0] if tokens_before is None else tokens_before,
        to_details(files),
    )
    if not entry.supplied_details:
        return compaction
    try:
        supplied = msgspec.json.decode(entry.supplied_details.encode(), type=SuppliedCompaction)
    except (
        msgspec.ValidationError,
        msgspec.DecodeError,
    ):  # another kind of hook supplied it: mark it, and keep the figures of the Block
        return dataclasses.replace(compaction, from_hook=True)
    return dataclasses.replace(
        compaction,
        first_kept_entry_id=supplied.retained_from_id,
        tokens_before=supplied.tokens_before,
        details=CompactionDetails(supplied.read_files, supplied.modified_files),
        from_hook=supplied.from_hook,
    )


class SessionManager:
    """A session with the methods of the design's session. `session` is the session itself."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_branch(self) -> list[Entry]:
        """Returns the entries from the root to the leaf: what `Compaction.prepare` takes."""
        path = self.session.view.path
        return path.get_entries(0, path.length - 1)

    def append_compaction(
        self, *, summary: str, first_kept_entry_id: str, tokens_before: int, details: CompactionDetails = NO_DETAILS
    ) -> Outcome:
        """Appends an existing summary unchanged, as a Block over everything before the first kept entry.

        The Block becomes the new leaf. It must cover whole steps and be smaller than what it replaces; otherwise
        nothing is appended and the Outcome says why. Raises `NotFoundError` unless the id begins a message or a step in
        view. Hooks are not asked; listeners are told.
        """
        session = self.session
        stated = CompactionResult(summary, first_kept_entry_id, tokens_before, details)
        answer = build_supplied_answer(session, stated, from_hook=False)
        assert answer.retained_from is not None
        policy = replace(session.policy, stages=(CutAtStage(answer.retained_from),))
        said = f"{answer.supplied_details}\n{answer.text}".encode("utf-8", "surrogatepass")
        supplied = sha256(said).hexdigest()[:8]
        call = Call("manual", to=Counted(1), model=session.compactor.model, has_before_hooks=True, supplied=supplied)
        with session.compactor.lock:
            view = session.view
            measures = session.conversation.freeze_measures(view)
            effects = compact(view, policy, call, measures, now=get_current_time(), new_id=IDS.generate)
            result = run_engine(effects, Answerer(before_hooks=(lambda _: answer,)))
            return session.compactor.apply_result(result, view)

    def restore_compaction(self) -> Outcome | None:
        """Appends the newest compaction that pi or Claude Code recorded in this session's file as a Block.

        The view is then the context that the tool sent. See `recorded_compaction.restore_compaction`.
        """
        return restore_compaction(self.session)

    def build_session_context(self, leaf: str | None = None) -> SessionContext:
        """Builds what the model sees at the session's leaf, or at the entry `leaf` of the current path."""
        return build_session_context(self.get_branch(), leaf or self.session.leaf)


_NEWEST_LEAF = "\0newest"


def build_session_context(entries: Sequence[Entry], leaf: str | None = _NEWEST_LEAF) -> SessionContext:
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
        elif isinstance(entry, MessageEntry) and entry.usage is not None and entry.usage.model:
            model = entry.usage.model
    return SessionContext(tuple(View.from_path(Path(path)).get_messages()), model, thinking)


@dataclass(frozen=True)
class CollectedEntries:
    """The entries of a branch that would be left, oldest first with their positions, and where it forks off."""

    entries: BranchEntries
    common_ancestor_id: str | None


@dataclass(frozen=True)
class BranchPreparation:
    """The messages of a branch that would be summarised, their size in tokens, and the files that it touched."""

    messages: tuple[Message, ...]
    file_ops: CompactionDetails
    total_tokens: int


@dataclass(frozen=True)
class BranchSummaryResult:
    """The summary of a branch. Without one, `aborted` is True or `error` says why."""

    summary: str = ""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    aborted: bool = False
    error: str = ""


def collect_entries_for_branch_summary(session: Session, old_leaf: str | None, target: str) -> CollectedEntries:
    """Collects the entries between the deepest common ancestor (exclusive) and the old leaf, across compactions.

    Without an old leaf there are no entries and no ancestor. Raises `NotFoundError` for an unknown id.
    """
    if old_leaf is None:
        return CollectedEntries((), None)
    place = session.address
    old, new = (
        open_path(place.store, place.namespace, place.store.locate(place.namespace, each))
        for each in (old_leaf, target)
    )
    left = get_left_entries(old, new)
    first = left[0][0] if left else old.length
    return CollectedEntries(left, old.get_entry(first - 1).id if first else None)


def prepare_branch_entries(
    entries: BranchEntries, budget: int = 0, *, policy: Policy | None = None
) -> BranchPreparation:
    """Selects the newest messages within the token budget (0: no limit), without tool results, and all touched files.

    `entries` are those of `collect_entries_for_branch_summary`. The messages are in order, oldest first. The policy's
    counter counts them; without a policy it is characters / 4.
    """
    policy = policy or tail(CharacterCounter())
    messages = tuple(m for _, m in select_messages(entries, budget=budget, policy=policy))
    files = to_details(list_files(extract_file_facts(entries)))
    return BranchPreparation(messages, files, sum(measure_messages(messages, policy.counter)))


def generate_branch_summary(
    entries: BranchEntries,
    policy: Policy,
    answerer: Answerer | Model | str,
    *,
    custom_instructions: str = "",
    replace_instructions: bool = False,
    window: int | None = None,
) -> BranchSummaryResult:
    """Summarises a branch. `custom_instructions` are added to the prompt, or replace it. Failures are in the result.

    `answerer` may be the model that writes, or its name, as for `Compaction`. Raises `UsageError` for a model that
    cannot be used, and for `replace_instructions` without `custom_instructions`.
    """
    if not isinstance(answerer, Answerer):
        answerer = Answerer(model=open_model(answerer))
    if replace_instructions and not custom_instructions.strip():
        raise UsageError("replace_instructions without custom_instructions: give the prompt that is to stand instead")
    prompt, focus = (custom_instructions, "") if replace_instructions else ("", custom_instructions)
    options = BranchOptions(has_summary=True, focus=focus, prompt=prompt, window=window)
    policy = complete_policy(policy, answerer.model)
    result = run_engine(
        summarize_branch(entries, policy, options, parent=None, consult=bool(answerer.before_hooks)), answerer
    )
    if isinstance(result.entry, BranchSummary):
        files = to_details(list_files(extract_file_facts(entries)))
        return BranchSummaryResult(get_branch_text(result.entry), files.read_files, files.modified_files)
    aborted = result.outcome.status == "cancelled"
    return BranchSummaryResult(aborted=aborted, error="" if aborted else result.outcome.reason or NO_CONTENT)


def get_branch_text(entry: BranchSummary) -> str:
    """Returns the text of a branch summary, without its tags, fixed sentences and facts."""
    text = extract_summary_text(get_text(entry.message)) or get_text(entry.message)
    return get_text_before_facts(text.removeprefix(OPENING).removesuffix(CLOSING).strip())
