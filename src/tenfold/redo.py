"""Rewrites the summaries of the newest live Block from the originals, with another model or a larger budget.

Redo restores the range as it was before the Block, and reads the whole path up to there. It is therefore a separate
command and never runs as part of a conversation.

Like the engine, this is a generator without I/O that appends nothing. The new Block covers the older one's ranges, so
undo brings the older one back. Facts are carried over as they are; only the text changes.
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
    """How to rewrite: a `model` in place of the policy's ("" keeps the policy's), and a focus.

    `tokens` is the budget of the new text. With 0 it gets as many as the old one, and at least the policy's share.
    Without any model a number is required, because code writes more only if it gets a larger budget.
    """

    model: str = ""
    focus: str = ""
    tokens: int = 0


PLAIN = Again()
"""The policy's own models, no focus."""


class _Old(Struct, frozen=True):
    """One summary in view: its replacement, the index of its text, and the text split into narrative and facts."""

    index: int
    made: Replacement
    place: int
    story: str
    facts: str


def redo(view: View, policy: Policy, again: Again, bench: Bench, *, now: int, new_id: Callable[[], str]) -> Effects:
    """Rewrites the summaries of the newest live Block. Ends as "nothing" where it has none or nothing would change.

    Writes the way the Block's own preset does, with this policy's models. If a model fails, the view stays as it is.
    """
    tokens = bench.tally(view)
    position = view.marks.live[-1] if view.marks.live else -1
    block = view.path.at(position) if position >= 0 else None
    redo_policy = _way(policy, block.policy if isinstance(block, Block) else "", again)
    summaries = _summaries(view, position, block, redo_policy.summary) if isinstance(block, Block) else []
    if not isinstance(block, Block) or not summaries or not (redo_policy.summary.models or again.tokens):
        reason = "no model is named, and code has written what it can: name a model, or more tokens"
        if not summaries:
            reason = "the newest Block shows no summary" if block else "no compaction is in force on this path"
        return Verdict(Outcome("nothing", reason, tokens, tokens, 0, policy=policy.name))
    new, out, total = new_id(), [], Written("", "none")
    for old in summaries:
        budget = again.tokens or _room(old, block, redo_policy)
        job = yield from _job(view, old, redo_policy, (block, new), room=budget, focus=again.focus)
        if isinstance(job, str):
            return Verdict(Outcome("failed", job, tokens, tokens, 0, policy=redo_policy.name))
        written = _by_a_model((yield from redo_policy.writer.write(job)), redo_policy)
        spent = added(total.spent, written.spent) if written.spent.calls else total.spent
        total = replace(written, notes=(*total.notes, *written.notes), spent=spent)
        if written.failed or written.text.strip() in ("", old.story):
            return _spoiled(written.failed, total, tokens, redo_policy, new=new, now=now)
        part = Rep(position, old.index, old.made.first, old.made.last)
        rewritten = _replacement(old, part, written.text, new, redo_policy)
        out.append(replace(rewritten, sizes=tuple(_sizes(rewritten, view, policy))))
    after = tokens + sum(sum(r.sizes) - sum(_sizes(o.made, view, policy)) for r, o in zip(out, summaries, strict=True))
    new_block = replace(
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
        policy=redo_policy.name,
        rung=total.rung,
        notes=total.notes,
        spent=total.spent,
    )
    return Verdict(outcome, new_block)


_AGAIN = "redo of "


def _way(policy: Policy, name: str, again: Again) -> Policy:
    """Returns the Block's own preset with this policy's models. With models, code may not write in their place."""
    preset = policy if name in ("", policy.name) or name not in POLICIES else POLICIES[name](policy.counter)
    models = (again.model,) if again.model else policy.summary.models
    texts = {each: getattr(preset.summary, each) or getattr(policy.summary, each) for each in PROMPTS}
    on_failure: OnFailure = "abort" if models else "ladder"
    return replace(preset, summary=replace(preset.summary, models=models, on_failure=on_failure, **texts))


def _summaries(view: View, position: int, block: Block, settings: Settings) -> list[_Old]:
    out: list[_Old] = []
    for ref in view.refs:
        if not isinstance(ref, Rep) or ref.block != position:
            continue
        replacement = block.replacements[ref.index]
        if replacement.kind not in (SUMMARY, BATCHES) or shown_again(view, replacement):
            continue
        for text_index, show in enumerate(replacement.show):
            text = summary_text(text_of(show.message)) if isinstance(show, Say) else None
            mark = f'block="{block.id}"'
            if text is not None and isinstance(show, Say) and mark in text_of(show.message)[:200]:
                _, found, body = ("\n" + text.removesuffix(settings.closing)).partition("\n" + TITLE + "\n")
                facts = f"{TITLE}\n{body.strip()}" if found else ""
                out.append(_Old(ref.index, replacement, text_index, story_of(text, settings), facts))
    return out


def _room(old: _Old, block: Block, policy: Policy) -> int:
    """Returns the budget for a model's text, which may need more tokens than an extract took."""
    before = policy.counter.count([old.story])[0]
    return max(before, int(block.tokens_after * policy.shares.narrative), FRAME)


def _job(
    view: View, old: _Old, way: Policy, blocks: tuple[Block, str], *, room: int, focus: str
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Job | str]:
    """Builds the writing job from the range as it was before its first Block. Returns a reason if it cannot be read."""
    block, new = blocks
    position, replacement = _first_telling(view, view.marks.live[-1], old.index)
    (answer,) = yield (Read(tuple(range(position))),)
    if answer.error:
        return f"the originals could not be read: {answer.error}"
    before = View.of(Path(answer.entries))
    units = tuple(u for u in before.units if replacement.first <= u.first and u.last <= replacement.last)
    show = tuple(Say(TO_BE_WRITTEN) if place == old.place else s for place, s in enumerate(old.made.show))
    piece = Piece(units, 0, room, sizes=(), kind=replacement.kind, show=show, allotment=room)
    goal = way.goal(block.tokens_after, recall="none")
    writing = Writing(new, block.facts, way.summary, way.counter.count, focus)
    return job_of(before, goal, piece, room, writing)


def _first_telling(view: View, position: int, index: int) -> tuple[int, Replacement]:
    """Finds the Block that first summarized a range, behind all redos: its position and replacement."""
    while True:
        block = view.path.at(position)
        assert isinstance(block, Block)
        replacement = block.replacements[index]
        (*_, last) = replacement.covers
        if not (block.notes and block.notes[0].startswith(_AGAIN) and isinstance(last, Rep)):
            return position, replacement
        position, index = last.block, last.index


def _by_a_model(written: Written, way: Policy) -> Written:
    """Marks a text as failed if code wrote it although a model was named: that text is in view already."""
    if written.failed or not way.summary.models or written.rung not in ("extractive", "mechanical"):
        return written
    return replace(written, failed="no model gave a usable summary: " + "; ".join(written.notes))


def _replacement(old: _Old, rep: Rep, text: str, block: str, by: Policy) -> Replacement:
    """Builds the replacement with the new text in place of the old one, in the same role."""
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
    """Ends without a better text. Records an Attempt if it cost a model call."""
    status: Literal["failed", "nothing"] = "failed" if failed else "nothing"
    reason = failed or "the text came out the same"
    outcome = Outcome(status, reason, tokens, tokens, 0, policy=policy.name, notes=written.notes, spent=written.spent)
    attempt = Attempt(new, None, "", now, policy.name, status, reason, tokens, 0, written.spent)
    return Verdict(outcome, attempt if written.spent.calls else None)
