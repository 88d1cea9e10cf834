"""Moves a session to another point of its tree and tells the model there what was tried on the branch it leaves.

    get_left_entries -> select_messages -> summarize_branch (asks a model) -> BranchSummary -> navigate (moves, appends)

The summary is appended at the new point, so it is on the path that goes on, not on the branch that is left. If any
step fails, nothing is written and the session stays where it was. `summarize_branch` is a generator of Asks, like the
engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.drive import run
from tenfold.engine import Effects
from tenfold.errors import NotFound
from tenfold.events import Moved
from tenfold.log.ids import IDS, now
from tenfold.meter.counters import sizes
from tenfold.policy import Policy
from tenfold.recall.expand import path_to
from tenfold.record.ask import Consult, Outcome, Verdict
from tenfold.record.block import Block, Fact, FactKind, Say
from tenfold.record.entry import Branch, Entry, Retraction, Said, message_of
from tenfold.record.message import Message, Text, text_of
from tenfold.session import Session
from tenfold.summarize.facts import extract, merge
from tenfold.summarize.fill import carrier
from tenfold.summarize.ladder import Written
from tenfold.summarize.parse import narrative, parse
from tenfold.summarize.section import render
from tenfold.summarize.summarize import Task, clean, write
from tenfold.trigger.triggers import Reserve
from tenfold.view.path import Path
from tenfold.wire.marks import summary_text

OPENING = """The user left a branch of this conversation and went on from here. What was done on that branch:
<summary>"""
CLOSING = "</summary>"
NOTHING = "No content to summarize"
WINDOW = 128_000
"""Tokens of the context window if the model's window is not known."""
RESERVE = Reserve(reserve_tokens=16_384)
"""Tokens kept free in the window (clamped to its size). The branch that is summarized may take the rest."""
SUMMARY_TOKENS = 2_048
"""The most tokens that the summary of a branch may take, not counting its list of files."""
FILE_TOKENS = 1_024
"""The most tokens that the list of files may take."""
STILL_TAKEN = 0.9
"""An earlier summary that exceeds the budget is still included if the rest fills less than this share of it."""
_FILES: frozenset[FactKind] = frozenset({"file_read", "file_modified", "file_created", "file_deleted", "file_renamed"})

Left = tuple[tuple[int, Entry], ...]
"""The entries of a branch that is left, with their positions, oldest first."""


class Wish(Struct, frozen=True):
    """How to treat the branch that is left.

    `focus` names what the summary should dwell on, `prompt` replaces the built-in prompt, and `window` is the model's
    context window in tokens.
    """

    summarize: bool = False
    focus: str = ""
    prompt: str = ""
    window: int | None = None

    @property
    def budget(self) -> int:
        """The most tokens of the branch that are summarized."""
        window = self.window or WINDOW
        return window - RESERVE.reserve(window)


PLAIN = Wish()
"""No summary of what is left."""


class Navigated(Struct, frozen=True):
    """Where a session stands after `navigate`.

    `text` is the text of the user message to edit, and `branch` the id of the entry with the summary; "" if there is
    none.
    """

    status: Literal["moved", "same", "cancelled", "failed", "superseded"]
    leaf: str | None
    text: str = ""
    branch: str = ""
    reason: str = ""


def shared(old: Path, new: Path) -> int:
    """Counts the entries that two paths of one tree have in common, from the root."""
    low, high = 0, min(old.length, new.length)
    while low < high:
        middle = (low + high + 1) // 2
        if old.at(middle - 1).id == new.at(middle - 1).id:
            low = middle
        else:
            high = middle - 1
    return low


def left_behind(old: Path, new: Path) -> Left:
    """Returns the entries of `old` after the deepest one that it shares with `new`, hidden ones included."""
    first = shared(old, new)
    return tuple(enumerate(old.span(first, old.length - 1), first)) if first < old.length else ()


def selected(left: Left, *, budget: int, policy: Policy) -> tuple[tuple[int, Message], ...]:
    """Selects the messages of a branch to summarize: the newest within `budget` tokens (0: all), oldest first.

    Tool calls are included, tool results are not. An earlier summary that exceeds the budget is still included if
    enough of the budget was left.
    """
    retracted = {e.block for _, e in left if isinstance(e, Retraction)}
    candidates = [
        (p, e, m) for p, e in left if e.id not in retracted and (m := _told(e)) is not None and m.role != "tool"
    ]
    weights = sizes([m for _, _, m in candidates], policy.counter)
    newest: list[tuple[int, Message]] = []
    total = 0
    for (position, entry, message), size in zip(reversed(candidates), reversed(weights), strict=True):
        if budget and total + size > budget:
            if isinstance(entry, Block | Branch) and total < STILL_TAKEN * budget:
                newest.append((position, message))
            break
        newest.append((position, message))
        total += size
    return tuple(reversed(newest))


def _told(entry: Entry) -> Message | None:
    if not isinstance(entry, Block):
        return message_of(entry)
    summaries = [s.message for r in entry.replacements for s in r.show if isinstance(s, Say)]
    texts = [t for m in summaries if (t := narrative(summary_text(text_of(m)) or ""))]
    return Message("user", (Text("\n\n".join(texts)),), "tenfold") if texts else None


def files_left(left: Left) -> tuple[Fact, ...]:
    """Extracts what the tool calls of a branch did to files, plus the files that earlier branch summaries list.

    All calls of the branch count, also those outside the summary's budget.
    """
    messages = [(p, m) for p, e in left if (m := message_of(e)) is not None]
    older: tuple[Fact, ...] = ()
    for position, message in messages:
        text = summary_text(text_of(message)) if message.origin == "tenfold" else None
        older = merge(older, tuple(replace(f, at=position) for f in parse(text))) if text else older
    return tuple(f for f in merge(older, extract(messages)) if f.kind in _FILES and f.live)


def leaving(left: Left, policy: Policy, wish: Wish, *, parent: str | None, consult: bool = False) -> Effects:
    """Writes the summary of a branch that is left, as a generator of Asks.

    The entry of the EngineResult is the BranchSummary, to be appended at `parent`. There is no entry if the Outcome is
    `nothing` (there is nothing to summarize), `cancelled` (by a before-hook) or `failed` (no usable text came).
    """
    items = selected(left, budget=wish.budget, policy=policy)
    before = sum(sizes([m for _, m in items], policy.counter))
    allotment = min(SUMMARY_TOKENS, wish.budget // 2)

    def ended(status: Literal["nothing", "cancelled", "failed"], reason: str) -> Verdict:
        return Verdict(Outcome(status, reason, before, before, allotment, policy=policy.name))

    written = Written("", "none")
    if consult:
        plan = f"leave a branch of {len(left):,} entries: {'summarize it' if wish.summarize else 'no summary'}"
        (advice,) = yield (Consult(plan, before, allotment, wish.focus, "branch"),)
        if advice.cancel:
            return ended("cancelled", advice.error or "a before-hook cancelled it")
        written = Written(clean(advice.text), "none")
        wish = replace(wish, focus=advice.focus or wish.focus)
    if not items or not wish.summarize:
        return ended("nothing", NOTHING)
    facts = files_left(left)
    if not written.text.strip():
        settings = replace(policy.summary, on_failure="abort", effort="", branch=wish.prompt or policy.summary.branch)
        task = Task(items, facts, allotment=allotment, purpose="branch", focus=wish.focus)
        written = yield from write(task, settings, policy.counter.count)
        if written.failed or not written.text.strip():
            return ended("failed", written.failed or "the summary is empty")
    section = render(facts, budget=min(FILE_TOKENS, wish.budget // 4), count=policy.counter.count)
    branch_id = IDS.new()
    summary_settings = replace(policy.summary, role="user", opening=OPENING, closing=CLOSING)
    message = carrier(branch_id, (written.text, section.text), summary_settings)
    after = sizes([message], policy.counter)[0]
    outcome = Outcome(
        "compacted",
        f"a branch of {len(left):,} entries is told in {after:,} tokens",
        before,
        after,
        allotment,
        policy=policy.name,
        rung=written.rung,
        notes=written.notes,
        spent=written.spent,
    )
    return Verdict(outcome, Branch(branch_id, parent, "", now(), message, left=left[-1][1].id))


def navigate(session: Session, target: str, wish: Wish = PLAIN) -> Navigated:
    """Moves the session to the entry `target` (an id or the beginning of one). New entries are appended there.

    For a message from a user or a program it moves to the entry before, and returns the text for editing. With
    `has_summary` set in the options, a `BranchSummary` at the new point summarizes the branch that is left. Nothing
    changes if a hook cancels, if no usable summary comes, or if the conversation went on meanwhile. A move without a
    summary is stored with the next append. Raises `NotFound` if this session has no such entry.
    """
    address, leaf, old = session.place, session.leaf, session.view.path
    located = address.store.locate(address.namespace, target)
    if located.session != address.session:
        raise NotFound(f"no entry {target} in this session: `tenfold show` lists the ones there are")
    if located.entry.id == leaf:
        return Navigated("same", leaf)
    path = path_to(address.store, address.namespace, located)
    text = _editable(located.entry)
    path = path.fork(path.length - 1) if text is not None else path
    parent = path.at(path.length - 1).id if path.length else None
    left = left_behind(old, path)
    branch: Entry | None = None
    with session.compacting:
        consult = bool(session.answerer.before)
        if left and (wish.summarize or consult):
            result = run(leaving(left, session.policy, wish, parent=parent, consult=consult), session.answerer)
            match result.outcome.status:
                case "cancelled" | "failed" as status:
                    return Navigated(status, leaf, reason=result.outcome.reason)
                case _:
                    branch = result.entry
        if not session.move(path, (branch,) if branch else (), expected=leaf):
            return Navigated("superseded", session.leaf, reason="the conversation went on meanwhile; nothing moved")
    session.answerer.tell(Moved(address.session, leaf, session.leaf, branch.id if branch else "", now()))
    return Navigated("moved", session.leaf, text or "", branch.id if branch else "")


def _editable(entry: Entry) -> str | None:
    """Returns the text of a user message that a person or the harness wrote, None for any other entry."""
    if isinstance(entry, Said) and entry.message.role == "user" and entry.message.origin in {"human", "harness"}:
        return text_of(entry.message)
    return None


def common_ancestor(old: Path, entries: Sequence[tuple[int, Entry]]) -> str | None:
    """Returns the id of the entry where a branch begins, None if it begins at the root."""
    first = entries[0][0] if entries else old.length
    return old.at(first - 1).id if first else None
