"""Writes the summaries of the newest live Block again, from the originals: with another model, or a better rung.

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
from tenfold.plan.draft import FRAME
from tenfold.plan.stages.condense import SUMMARY
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Ask, Outcome, Read, Verdict
from tenfold.record.block import OWN, Block, Keep, Ref, Rep, Replacement, Run, Say
from tenfold.record.entry import Attempt, Entry, message_of
from tenfold.record.message import text_of
from tenfold.summarize.fill import carrier, story_of
from tenfold.summarize.ladder import Settings, Written, added
from tenfold.summarize.section import TITLE, narrative
from tenfold.summarize.summarize import Task, write
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

    A model that fails appends nothing: the Outcome is "failed", and what is in view stays.
    """
    tokens = bench.tally(view)
    position = view.marks.live[-1] if view.marks.live else -1
    block = view.path.at(position) if position >= 0 else None
    olds = _summaries(view, position, block, policy.summary) if isinstance(block, Block) else []
    settings = _settings(policy.summary, again)
    if not isinstance(block, Block) or not olds or not (settings.models or again.tokens):
        reason = "no model is named, and code has written what it can: name a model, or more tokens"
        if not olds:
            reason = "the newest Block shows no summary" if block else "no compaction is in force on this path"
        return Verdict(Outcome("nothing", reason, tokens, tokens, 0, policy=policy.name))
    new, out, total = new_id(), [], Written("", "none")
    for old in olds:
        room = again.tokens or _room(old, block, policy)
        task = yield from _task(view, old, position, room=room, focus=again.focus)
        if isinstance(task, str):
            return Verdict(Outcome("failed", task, tokens, tokens, 0, policy=policy.name))
        written = yield from write(task, settings, policy.counter.count)
        spent = added(total.spent, written.spent) if written.spent.calls else total.spent
        total = replace(written, notes=(*total.notes, *written.notes), spent=spent)
        if written.failed or written.text.strip() == old.story:
            return _spoiled(written.failed, total, tokens, policy, new=new, now=now)
        rep = Rep(position, old.index, old.made.first, old.made.last)
        out.append(_replacement(old, rep, written.text, new, (view, policy)))
    after = tokens + sum(sum(r.sizes) - sum(_sizes(o.made, view, policy)) for r, o in zip(out, olds, strict=True))
    made = replace(
        block,
        id=new,
        parent=None,
        time=now,
        policy=policy.name,
        counter=policy.counter.name,
        replacements=tuple(out),
        rung=total.rung,
        under=block.id,
        tokens_before=tokens,
        tokens_after=after,
        notes=(f"redo of {block.id}", *total.notes),
        spent=total.spent,
    )
    outcome = Outcome(
        "compacted",
        f"{len(out)} summaries of Block {block.id} were written again",
        tokens,
        after,
        after,
        block=new,
        policy=policy.name,
        rung=total.rung,
        notes=total.notes,
        spent=total.spent,
    )
    return Verdict(outcome, made)


def _settings(settings: Settings, again: Again) -> Settings:
    """Models only, where there are some: the rungs without one gave what is to be bettered."""
    models = (again.model,) if again.model else settings.models
    return replace(settings, models=models, on_failure="abort" if models else "ladder")


def _summaries(view: View, position: int, block: Block, settings: Settings) -> list[_Old]:
    out: list[_Old] = []
    for ref in view.refs:
        if not isinstance(ref, Rep) or ref.block != position or block.replacements[ref.index].kind != SUMMARY:
            continue
        made = block.replacements[ref.index]
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


def _task(
    view: View, old: _Old, position: int, *, room: int, focus: str
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Task | str]:
    """The range as it was before the Block: originals, and what older Blocks showed of theirs; or why there is none."""
    block = view.path.at(position)
    assert isinstance(block, Block)
    shows = _shows(view, old.made.covers, position)
    wanted = tuple(p for c in old.made.covers if isinstance(c, Run) for p in range(c.first, c.last + 1))
    kept = tuple(s.position for s in shows if isinstance(s, Keep))
    (answer,) = yield (Read((*wanted, *kept)),)
    if answer.error:
        return f"the originals could not be read: {answer.error}"
    entries: dict[int, Entry] = dict(zip((*wanted, *kept), answer.entries, strict=True))
    items = [(p, m) for p, e in entries.items() if (m := message_of(e)) is not None]
    previous: list[str] = []
    for show in shows:
        if isinstance(show, Say):
            text = summary_text(text_of(show.message))
            if text is not None:
                previous.append(narrative(text))
            else:
                items.append((show.of if show.of is not None else old.made.first, show.message))
    stays = {s.position for s in old.made.show if isinstance(s, Keep)}
    items = [(p, m) for p, m in items if not (p in stays and m.role == "user")]
    earlier = "\n\n".join(t for t in previous if t)
    return Task(
        items=tuple(sorted(items, key=lambda item: item[0])),
        facts=block.facts,
        previous=earlier,
        allotment=room,
        purpose="update" if earlier else "first",
        focus=focus,
    )


def _shows(view: View, covers: tuple[Ref, ...], position: int) -> list[Say | Keep]:
    """What replaced ranges among these showed; `position` is that of the Block the covers belong to."""
    out: list[Say | Keep] = []
    for ref in covers:
        if isinstance(ref, Rep):
            block = view.path.at(position if ref.block == OWN else ref.block)
            assert isinstance(block, Block)
            out.extend(block.replacements[ref.index].show)
    return out


def _replacement(old: _Old, rep: Rep, text: str, block: str, by: tuple[View, Policy]) -> Replacement:
    message = carrier(block, (text, old.facts), by[1].summary)
    show = tuple(Say(message) if i == old.place else s for i, s in enumerate(old.made.show))
    made = replace(
        old.made, covers=(rep,), show=show, level=old.made.level + 1, why=f"{old.made.why}; written again", sizes=()
    )
    return replace(made, sizes=tuple(_sizes(made, *by)))


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
