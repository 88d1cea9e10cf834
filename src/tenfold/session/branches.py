"""Moves a session to another point of its tree and tells the model there what was tried on the branch it leaves.

    get_left_entries -> select_messages -> summarize_branch (asks a model) -> BranchSummary -> navigate (moves, appends)

The summary is appended at the new point, so it is on the path that goes on, not on the branch that is left. If any
step fails, nothing is written and the session stays where it was. `summarize_branch` is a generator of Asks, like the
engine.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.compact import Effects
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.parse import get_text_before_facts, parse_facts
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.facts.section import render_facts
from tenfold.compaction.summarize.fill import build_summary_message
from tenfold.compaction.summarize.ladder import SummaryResult
from tenfold.compaction.summarize.write import SummaryTask, clean_text, write_summary
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import ConsultAsk, EngineResult, Outcome
from tenfold.core.record.block import Block, Run, Substitute
from tenfold.core.record.entry import BranchSummary, Entry, MessageEntry, Retraction, get_message
from tenfold.core.record.fact import Fact, FactKind
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.path import Path
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import NotFoundError
from tenfold.events import BranchSwitch
from tenfold.recall.expand import open_path
from tenfold.session.drive import run_engine
from tenfold.session.facade import Session
from tenfold.store.ids import IDS, get_current_time

OPENING = """The user left a branch of this conversation and went on from here. What was done on that branch:
<summary>"""
CLOSING = "</summary>"
NO_CONTENT = "No content to summarize"
DEFAULT_WINDOW = 128_000
"""Tokens of the context window if the model's window is not known."""
RESERVE_TOKENS = 16_384
"""Tokens kept free in the window, at most half of it. The branch that is summarized may take the rest."""
MAX_SUMMARY_TOKENS = 2_048
"""The most tokens that the summary of a branch may take, not counting its list of files."""
MAX_FILE_TOKENS = 1_024
"""The most tokens that the list of files may take."""
OVERSIZE_SUMMARY_SHARE = 0.9
"""An earlier summary that exceeds the budget is still included if the rest fills less than this share of it."""
_FILE_KINDS: frozenset[FactKind] = frozenset(
    {"file_read", "file_modified", "file_created", "file_deleted", "file_renamed"}
)

BranchEntries = tuple[tuple[int, Entry], ...]
"""The entries of a branch that is left, with their positions, oldest first."""


class BranchOptions(Struct, frozen=True):
    """How to treat the branch that is left.

    `focus` names what the summary should dwell on, `prompt` replaces the built-in prompt, and `window` is the model's
    context window in tokens.
    """

    has_summary: bool = False
    focus: str = ""
    prompt: str = ""
    window: int | None = None

    @property
    def budget(self) -> int:
        """The most tokens of the branch that are summarized."""
        window = self.window or DEFAULT_WINDOW
        return window - min(RESERVE_TOKENS, window // 2)


NO_SUMMARY = BranchOptions()
"""No summary of what is left."""


class NavigateResult(Struct, frozen=True):
    """Where a session stands after `navigate`.

    `text` is the text of the user message to edit, and `branch` the id of the entry with the summary; "" if there is
    none.
    """

    status: Literal["moved", "same", "cancelled", "failed", "superseded"]
    leaf: str | None
    text: str = ""
    branch: str = ""
    reason: str = ""


def count_shared_entries(old_path: Path, new_path: Path) -> int:
    """Counts the entries that two paths of one tree have in common, from the root."""
    low, high = 0, min(old_path.length, new_path.length)
    while low < high:
        middle = (low + high + 1) // 2
        if old_path.get_entry(middle - 1).id == new_path.get_entry(middle - 1).id:
            low = middle
        else:
            high = middle - 1
    return low


def get_left_entries(old_path: Path, new_path: Path) -> BranchEntries:
    """Returns the entries of `old` after the deepest one that it shares with `new`, hidden ones included."""
    first = count_shared_entries(old_path, new_path)
    return tuple(enumerate(old_path.get_entries(first, old_path.length - 1), first)) if first < old_path.length else ()


def select_messages(entries: BranchEntries, *, budget: int, policy: Policy) -> tuple[tuple[int, Message], ...]:
    """Selects the messages of a branch to summarize: the newest within `budget` tokens (0: all), oldest first.

    Tool calls are included, tool results are not. An earlier summary that exceeds the budget is still included if
    enough of the budget was left.
    """
    retracted = {e.block for _, e in entries if isinstance(e, Retraction)}
    candidates = [
        (p, e, m)
        for p, e in entries
        if e.id not in retracted and (m := _get_branch_message(e)) is not None and m.role != "tool"
    ]
    candidates = [(position, entry, redact_message(message)) for position, entry, message in candidates]
    weights = measure_messages([m for _, _, m in candidates], policy.counter)
    newest: list[tuple[int, Message]] = []
    total = NO_TOKENS
    for (position, entry, message), size in zip(reversed(candidates), reversed(weights), strict=True):
        if budget and total + size > budget:
            if isinstance(entry, Block | BranchSummary) and total < OVERSIZE_SUMMARY_SHARE * budget:
                newest.append((position, message))
            break
        newest.append((position, message))
        total += size
    return tuple(reversed(newest))


def _get_branch_message(entry: Entry) -> Message | None:
    if not isinstance(entry, Block):
        return get_message(entry)
    summaries = [s.message for r in entry.replacements for s in r.shown_items if isinstance(s, Substitute)]
    texts = [t for m in summaries if (t := get_text_before_facts(extract_summary_text(get_text(m)) or ""))]
    return Message("user", (Text("\n\n".join(texts)),), "tenfold") if texts else None


def extract_file_facts(entries: BranchEntries) -> tuple[Fact, ...]:
    """Extracts what the tool calls of a branch did to files, plus the files that earlier branch summaries list.

    All calls of the branch count, also those outside the summary's budget.
    """
    messages = [(p, m) for p, e in entries if (m := get_message(e)) is not None]
    older: tuple[Fact, ...] = ()
    for position, message in messages:
        text = extract_summary_text(get_text(message)) if message.origin == "tenfold" else None
        older = merge_facts(older, tuple(replace(f, position=position) for f in parse_facts(text))) if text else older
    return tuple(f for f in merge_facts(older, extract_facts(messages)) if f.kind in _FILE_KINDS and f.live)


def summarize_branch(
    entries: BranchEntries,
    policy: Policy,
    options: BranchOptions,
    *,
    parent: str | None,
    consult: bool = False,
    target: str = "",
) -> Effects:
    """Writes the summary of a branch that is left for the entry `target`, as a generator of Asks.

    The entry of the EngineResult is the BranchSummary, to be appended at `parent`. There is no entry if the Outcome is
    `nothing` (there is nothing to summarize), `cancelled` (by a before-hook) or `failed` (no usable text came).
    """
    items = select_messages(entries, budget=options.budget, policy=policy)
    before = sum(measure_messages([m for _, m in items], policy.counter), NO_TOKENS)
    allotment = Counted(min(MAX_SUMMARY_TOKENS, options.budget // 2))

    def build_result(status: Literal["nothing", "cancelled", "failed"], reason: str) -> EngineResult:
        return EngineResult(Outcome(status, reason, before, before, allotment, policy=policy.name))

    written = SummaryResult("", "none")
    if consult:
        (advice,) = yield (_build_consult_ask(entries, options, before, allotment, target=target),)
        if advice.cancel:
            return build_result("cancelled", advice.error or "a before-hook cancelled it")
        written = SummaryResult(clean_text(advice.text), "none")
        options = replace(options, focus=advice.focus or options.focus)
    if not items or not options.has_summary:
        return build_result("nothing", NO_CONTENT)
    facts = extract_file_facts(entries)
    if not written.text.strip():
        settings = replace(
            policy.summary, on_failure="abort", effort="", branch=options.prompt or policy.summary.branch
        )
        task = SummaryTask(items, facts, allotment=allotment, purpose="branch", focus=options.focus)
        written = yield from write_summary(task, settings, policy.counter.count)
        if written.failure or not written.text.strip():
            return build_result("failed", written.failure or "the summary is empty")
    section = render_facts(facts, budget=min(MAX_FILE_TOKENS, options.budget // 4), count=policy.counter.count)
    branch_id = IDS.generate()
    summary_settings = replace(policy.summary, role="user", opening=OPENING, closing=CLOSING)
    message = build_summary_message(branch_id, (written.text, section.text), summary_settings)
    after = measure_messages([message], policy.counter)[0]
    outcome = Outcome(
        "compacted",
        f"a branch of {len(entries):,} entries is told in {after:,} tokens",
        before,
        after,
        allotment,
        policy=policy.name,
        rung=written.rung,
        notes=written.notes,
        spent=written.spent,
    )
    return EngineResult(
        outcome, BranchSummary(branch_id, parent, "", get_current_time(), message, previous_leaf=entries[-1][1].id)
    )


def _build_consult_ask(
    entries: BranchEntries, options: BranchOptions, before: Counted, allotment: Counted, *, target: str
) -> ConsultAsk:
    plan = f"leave a branch of {len(entries):,} entries: {'summarize it' if options.has_summary else 'no summary'}"
    covered = Run(entries[0][0], entries[-1][0]) if entries else None
    return ConsultAsk(plan, before, allotment, options.focus, "branch", covered=covered, target_entry=target)


def navigate(session: Session, target: str, options: BranchOptions = NO_SUMMARY) -> NavigateResult:
    """Moves the session to the entry `target` (an id or the beginning of one). New entries are appended there.

    For a message from a user or a program it moves to the entry before, and returns the text for editing. With
    `has_summary` set in the options, a `BranchSummary` at the new point summarizes the branch that is left. Nothing
    changes if a hook cancels, if no usable summary comes, or if the conversation went on meanwhile. A move without a
    summary is stored with the next append. Raises `NotFoundError` if this session has no such entry.
    """
    address, leaf, old = session.address, session.leaf, session.view.path
    located = address.store.locate(address.namespace, target)
    if located.session != address.session:
        raise NotFoundError(f"no entry {target} in this session: `tenfold show` lists the ones there are")
    if located.entry.id == leaf:
        return NavigateResult("same", leaf)
    path = open_path(address.store, address.namespace, located)
    text = _get_editable_text(located.entry)
    path = path.fork(path.length - 1) if text is not None else path
    parent = path.get_entry(path.length - 1).id if path.length else None
    left = get_left_entries(old, path)
    branch: Entry | None = None
    with session.compactor.lock:
        consult = bool(session.compactor.answerer.before_hooks)
        if left and (options.has_summary or consult):
            result = run_engine(
                summarize_branch(
                    left, session.policy, options, parent=parent, consult=consult, target=located.entry.id
                ),
                session.compactor.answerer,
            )
            match result.outcome.status:
                case "cancelled" | "failed" as status:
                    return NavigateResult(status, leaf, reason=result.outcome.reason)
                case _:
                    branch = result.entry
        if not session.compactor.move_to(path, (branch,) if branch else (), expected=leaf):
            return NavigateResult(
                "superseded", session.leaf, reason="the conversation went on meanwhile; nothing moved"
            )
    session.compactor.answerer.notify(
        BranchSwitch(address.session, leaf, session.leaf, branch.id if branch else "", get_current_time())
    )
    return NavigateResult("moved", session.leaf, text or "", branch.id if branch else "")


def _get_editable_text(entry: Entry) -> str | None:
    """Returns the text of a user message that a person or the harness wrote, None for any other entry."""
    if (
        isinstance(entry, MessageEntry)
        and entry.message.role == "user"
        and entry.message.origin in {"human", "harness"}
    ):
        return get_text(entry.message)
    return None
