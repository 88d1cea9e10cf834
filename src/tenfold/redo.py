"""Writes the summaries of the newest live Block again, from the originals: with another model, or a better rung.

The range is read as it was before the Block, which takes the whole path up to there: this is no step of a conversation.

Like the engine, a generator without I/O that appends nothing. The new Block covers the older one's ranges, so undo
gives the older one back. Facts are carried as they are; only the text changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.engine import Bench, Effects
from tenfold.meter.counters import sizes
from tenfold.plan.draft import FRAME, TO_BE_WRITTEN, Piece
from tenfold.plan.stages.condense import BATCHES, SUMMARY
from tenfold.policies import POLICIES
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Ask, Outcome, Read, Verdict
from tenfold.record.block import Block, Rep, Replacement, Say
from tenfold.record.entry import Attempt, message_of
from tenfold.record.message import text_of
from tenfold.summarize.fill import Writing, carrier, job_of, shown_again, story_of
from tenfold.summarize.ladder import PROMPTS, OnFailure, Settings, Written, added
from tenfold.summarize.section import TITLE
from tenfold.summarize.writer import Job
from tenfold.view.path import Path
from tenfold.view.view import View
from tenfold.wire.marks import summary_text


class Again(Struct, frozen=True):
    """What is asked for: `model` in place of the policy's ("": the policy's), and a focus.

    `tokens` are what the new text may take (0: as many as the old one, at least the policy's share). Without any
    model they are needed: code writes more with more room, and the same with the same.
    """

    model: str = ""
    focus: str = ""
    tokens: int = 0


PLAIN = Again()
"""The same models, no focus."""


class _Old(Struct, frozen=True):
    """One summary in view: its replacement, the place of its text among the shows, and the text in two parts."""

    index: int
    made: Replacement
    place: int
    story: str
    facts: str


def redo(view: View, policy: Policy, again: Again, bench: Bench, *, now: int, new_id: Callable[[], str]) -> Effects:
    """The newest live Block's summaries, written again. Ends "nothing" where it has none or nothing would change.

    A Block of another policy is written as that policy writes, by this one's models. A model that fails appends
    nothing: the Outcome is "failed", and what is in view stays.
    """
    tokens = bench.tally(view)
    position = view.marks.live[-1] if view.marks.live else -1
    block = view.path.at(position) if position >= 0 else None
    way = _way(policy, block.policy if isinstance(block, Block) else "", again)
    olds = _summaries(view, position, block, way.summary) if isinstance(block, Block) else []
    if not isinstance(block, Block) or not olds or not (way.summary.models or again.tokens):
        reason = "no model is named, and code has written what it can: name a model, or more tokens"
        if not olds:
            reason = "the newest Block shows no summary" if block else "no compaction is in force on this path"
        return Verdict(Outcome("nothing", reason, tokens, tokens, 0, policy=policy.name))
    new, out, total = new_id(), [], Written("", "none")
    for old in olds:
        room = again.tokens or _room(old, block, way)
        job = yield from _job(view, old, way, (block, new), room=room, focus=again.focus)
        if isinstance(job, str):
            return Verdict(Outcome("failed", job, tokens, tokens, 0, policy=way.name))
        written = _by_a_model((yield from way.writer.write(job)), way)
        spent = added(total.spent, written.spent) if written.spent.calls else total.spent
        total = replace(written, notes=(*total.notes, *written.notes), spent=spent)
        if written.failed or written.text.strip() in ("", old.story):
            return _spoiled(written.failed, total, tokens, way, new=new, now=now)
        rep = Rep(position, old.index, old.made.first, old.made.last)
        told = _replacement(old, rep, written.text, new, way)
        out.append(replace(told, sizes=tuple(_sizes(told, view, policy))))
    after = tokens + sum(sum(r.sizes) - sum(_sizes(o.made, view, policy)) for r, o in zip(out, olds, strict=True))
    made = replace(
        block,
        id=new,
        parent=None,
        time=now,
        counter=policy.counter.name,
        replacements=tuple(out),
        rung=total.rung,
        under=block.id,
        tokens_before=tokens,
        tokens_after=after,
        notes=(f"{_AGAIN}{block.id}", *total.notes),
        spent=total.spent,
        batches=total.batches,
        standing=total.standing,
    )
    outcome = Outcome(
        "compacted",
        f"{len(out)} summaries of Block {block.id} were written again",
        tokens,
        after,
        after,
        block=new,
        policy=way.name,
        rung=total.rung,
        notes=total.notes,
        spent=total.spent,
    )
    return Verdict(outcome, made)


_AGAIN = "redo of "


def _way(policy: Policy, name: str, again: Again) -> Policy:
    """How the Block's own policy writes, with the models of this one: rungs without one gave what is to be bettered."""
    own = policy if name in ("", policy.name) or name not in POLICIES else POLICIES[name](policy.counter)
    models = (again.model,) if again.model else policy.summary.models
    texts = {each: getattr(own.summary, each) or getattr(policy.summary, each) for each in PROMPTS}
    on_failure: OnFailure = "abort" if models else "ladder"
    return replace(own, summary=replace(own.summary, models=models, on_failure=on_failure, **texts))


def _summaries(view: View, position: int, block: Block, settings: Settings) -> list[_Old]:
    out: list[_Old] = []
    for ref in view.refs:
        if not isinstance(ref, Rep) or ref.block != position:
            continue
        made = block.replacements[ref.index]
        if made.kind not in (SUMMARY, BATCHES) or shown_again(view, made):
            continue
        for place, show in enumerate(made.show):
            text = summary_text(text_of(show.message)) if isinstance(show, Say) else None
            mark = f'block="{block.id}"'
            if text is not None and isinstance(show, Say) and mark in text_of(show.message)[:200]:
                _, found, body = ("\n" + text.removesuffix(settings.closing)).partition("\n" + TITLE + "\n")
                facts = f"{TITLE}\n{body.strip()}" if found else ""
                out.append(_Old(ref.index, made, place, story_of(text, settings), facts))
    return out


def _room(old: _Old, block: Block, policy: Policy) -> int:
    """Tokens for a model's text, which may need more than an extract took."""
    before = policy.counter.count([old.story])[0]
    return max(before, int(block.tokens_after * policy.shares.narrative), FRAME)


def _job(
    view: View, old: _Old, way: Policy, blocks: tuple[Block, str], *, room: int, focus: str
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Job | str]:
    """The range as it was before the Block that first covered it; or why it cannot be had."""
    block, new = blocks
    position, made = _first_telling(view, view.marks.live[-1], old.index)
    (answer,) = yield (Read(tuple(range(position))),)
    if answer.error:
        return f"the originals could not be read: {answer.error}"
    before = View.of(Path(answer.entries))
    units = tuple(u for u in before.units if made.first <= u.first and u.last <= made.last)
    show = tuple(Say(TO_BE_WRITTEN) if place == old.place else s for place, s in enumerate(old.made.show))
    piece = Piece(units, 0, room, sizes=(), kind=made.kind, show=show, allotment=room)
    goal = way.goal(block.tokens_after, recall="none")
    writing = Writing(new, block.facts, way.summary, way.counter.count, focus)
    return job_of(before, goal, piece, room, writing)


def _first_telling(view: View, position: int, index: int) -> tuple[int, Replacement]:
    """The Block, by position, that put the first summary over a range, and how: behind all that were written again."""
    while True:
        block = view.path.at(position)
        assert isinstance(block, Block)
        made = block.replacements[index]
        (*_, last) = made.covers
        if not (block.notes and block.notes[0].startswith(_AGAIN) and isinstance(last, Rep)):
            return position, made
        position, index = last.block, last.index


def _by_a_model(written: Written, way: Policy) -> Written:
    """What was written, failed where a model was named and code had to write after all: that is in view already."""
    if written.failed or not way.summary.models or written.rung not in ("extractive", "mechanical"):
        return written
    return replace(written, failed="no model gave a usable summary: " + "; ".join(written.notes))


def _replacement(old: _Old, rep: Rep, text: str, block: str, by: Policy) -> Replacement:
    """The same shows with the new text in its place, in the same role."""
    before = old.made.show[old.place]
    assert isinstance(before, Say)
    role = "system" if before.message.role == "system" else "user"
    message = carrier(block, (text, old.facts), replace(by.summary, role=role))
    show = tuple(Say(message) if i == old.place else s for i, s in enumerate(old.made.show))
    return replace(
        old.made, covers=(rep,), show=show, level=old.made.level + 1, why=f"{old.made.why}; written again", sizes=()
    )


def _sizes(made: Replacement, view: View, policy: Policy) -> list[int]:
    messages = [s.message if isinstance(s, Say) else message_of(view.path.at(s.position)) for s in made.show]
    return sizes([m for m in messages if m is not None], policy.counter)


def _spoiled(failed: str, written: Written, tokens: int, policy: Policy, *, new: str, now: int) -> Verdict:
    """No better text: remembered in the log where it cost a model call."""
    status: Literal["failed", "nothing"] = "failed" if failed else "nothing"
    reason = failed or "the text came out the same"
    outcome = Outcome(status, reason, tokens, tokens, 0, policy=policy.name, notes=written.notes, spent=written.spent)
    attempt = Attempt(new, None, "", now, policy.name, status, reason, tokens, 0, written.spent)
    return Verdict(outcome, attempt if written.spent.calls else None)
