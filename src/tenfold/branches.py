"""Going to another point of a session's tree, and telling the model there what was tried on the branch that is left.

    left -> selected -> leaving (asks) -> Branch -> navigate (moves, appends)

The summary hangs at the new point, so it is on the path that goes on and not on the one that was left. Nothing is
written and nothing moves unless all of it came about. `leaving` is a generator of Asks like the engine's.
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
"""Tokens of the window where the model's is not known."""
RESERVE = Reserve(reserve_tokens=16_384)
"""What is kept free of it (clamped to the window); the branch takes at most the rest."""
SUMMARY_TOKENS = 2_048
"""The most that the summary of a branch may take, its facts apart."""
FILE_TOKENS = 1_024
"""The most that its files may take."""
STILL_TAKEN = 0.9
"""A summary that does not fit is taken all the same while the rest fills less than this share of the budget."""
_FILES: frozenset[FactKind] = frozenset({"file_read", "file_modified", "file_created", "file_deleted", "file_renamed"})

Left = tuple[tuple[int, Entry], ...]
"""The entries of a branch that is left with their positions, oldest first."""


class Wish(Struct, frozen=True):
    """What is wanted of the branch that is left: a summary or none, what it dwells on, a prompt in place of ours."""

    summarize: bool = False
    focus: str = ""
    prompt: str = ""
    window: int | None = None

    @property
    def budget(self) -> int:
        """Tokens of the branch that are told of."""
        window = self.window or WINDOW
        return window - RESERVE.reserve(window)


PLAIN = Wish()
"""No summary of what is left."""


class Navigated(Struct, frozen=True):
    """Where a session stands after `navigate`. `text` is the message to edit anew, `branch` the summary's entry."""

    status: Literal["moved", "same", "cancelled", "failed", "superseded"]
    leaf: str | None
    text: str = ""
    branch: str = ""
    reason: str = ""


def shared(old: Path, new: Path) -> int:
    """How many entries two paths of one tree have in common, from the root."""
    low, high = 0, min(old.length, new.length)
    while low < high:
        middle = (low + high + 1) // 2
        if old.at(middle - 1).id == new.at(middle - 1).id:
            low = middle
        else:
            high = middle - 1
    return low


def left_behind(old: Path, new: Path) -> Left:
    """The entries of `old` after the deepest one that it shares with `new`, across compactions."""
    first = shared(old, new)
    return tuple(enumerate(old.span(first, old.length - 1), first)) if first < old.length else ()


def selected(left: Left, *, budget: int, policy: Policy) -> tuple[tuple[int, Message], ...]:
    """What is told of a branch: the newest messages within `budget` tokens (0: all), oldest first.

    Tool outputs are left out, their calls are not. A summary that does not fit is taken while there is some room.
    """
    gone = {e.block for _, e in left if isinstance(e, Retraction)}
    told = [(p, e, m) for p, e in left if e.id not in gone and (m := _told(e)) is not None and m.role != "tool"]
    weights = sizes([m for _, _, m in told], policy.counter)
    taken: list[tuple[int, Message]] = []
    total = 0
    for (position, entry, message), size in zip(reversed(told), reversed(weights), strict=True):
        if budget and total + size > budget:
            if isinstance(entry, Block | Branch) and total < STILL_TAKEN * budget:
                taken.append((position, message))
            break
        taken.append((position, message))
        total += size
    return tuple(reversed(taken))


def _told(entry: Entry) -> Message | None:
    if not isinstance(entry, Block):
        return message_of(entry)
    says = [s.message for r in entry.replacements for s in r.show if isinstance(s, Say)]
    stories = [t for m in says if (t := narrative(summary_text(text_of(m)) or ""))]
    return Message("user", (Text("\n\n".join(stories)),), "tenfold") if stories else None


def files_left(left: Left) -> tuple[Fact, ...]:
    """What the calls on a branch did to files, the ones that are not told of included, and earlier branches' files."""
    said = [(p, m) for p, e in left if (m := message_of(e)) is not None]
    older: tuple[Fact, ...] = ()
    for position, message in said:
        text = summary_text(text_of(message)) if message.origin == "tenfold" else None
        older = merge(older, tuple(replace(f, at=position) for f in parse(text))) if text else older
    return tuple(f for f in merge(older, extract(said)) if f.kind in _FILES and f.live)


def leaving(left: Left, policy: Policy, wish: Wish, *, parent: str | None, consult: bool = False) -> Effects:
    """Writes the summary of a branch that is left. The Verdict's entry is the Branch, to be appended at `parent`.

    Ends with `nothing` where there is nothing to tell, `cancelled` where a before-hook says so, `failed` where no
    usable text came: then there is no entry.
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
    own = IDS.new()
    around = replace(policy.summary, role="user", opening=OPENING, closing=CLOSING)
    message = carrier(own, (written.text, section.text), around)
    after = sizes([message], policy.counter)[0]
    told = Outcome(
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
    return Verdict(told, Branch(own, parent, "", now(), message, left=left[-1][1].id))


def navigate(session: Session, target: str, wish: Wish = PLAIN) -> Navigated:
    """Goes to the entry `target` (or the beginning of its id): what is appended next hangs there.

    For what a user or a program said it goes to the entry before, and gives the text back to be edited. With
    `wish.summarize` the branch that is left is told in a `Branch` at the new point. Where a hook cancels, no usable
    summary comes, or the conversation went on meanwhile, everything stays as it was. A move without a summary is
    kept by the store with the next append. Raises `NotFound`.
    """
    place, leaf, old = session.place, session.leaf, session.view.path
    located = place.store.locate(place.namespace, target)
    if located.session != place.session:
        raise NotFound(f"no entry {target} in this session: `tenfold show` lists the ones there are")
    if located.entry.id == leaf:
        return Navigated("same", leaf)
    path = path_to(place.store, place.namespace, located)
    text = _editable(located.entry)
    path = path.fork(path.length - 1) if text is not None else path
    parent = path.at(path.length - 1).id if path.length else None
    left = left_behind(old, path)
    branch: Entry | None = None
    with session.compacting:
        consult = bool(session.answerer.before)
        if left and (wish.summarize or consult):
            verdict = run(leaving(left, session.policy, wish, parent=parent, consult=consult), session.answerer)
            match verdict.outcome.status:
                case "cancelled" | "failed" as status:
                    return Navigated(status, leaf, reason=verdict.outcome.reason)
                case _:
                    branch = verdict.entry
        if not session.move(path, (branch,) if branch else (), expected=leaf):
            return Navigated("superseded", session.leaf, reason="the conversation went on meanwhile; nothing moved")
    session.answerer.tell(Moved(place.session, leaf, session.leaf, branch.id if branch else "", now()))
    return Navigated("moved", session.leaf, text or "", branch.id if branch else "")


def _editable(entry: Entry) -> str | None:
    """The text of what a user or a program said, None for everything else."""
    if isinstance(entry, Said) and entry.message.role == "user" and entry.message.origin in {"human", "harness"}:
        return text_of(entry.message)
    return None


def common_ancestor(old: Path, entries: Sequence[tuple[int, Entry]]) -> str | None:
    """The id of the entry that a branch hangs at, None where it begins at the root."""
    first = entries[0][0] if entries else old.length
    return old.at(first - 1).id if first else None
