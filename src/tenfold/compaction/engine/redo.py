"""Rewrites the summaries of the newest live Block from the originals, with another model or a larger budget.

Redo restores the range as it was before the Block, and reads the whole path up to there. It is therefore a separate
command and never runs as part of a conversation.

Like the engine, this is a generator without I/O that appends nothing. The new Block covers the older one's ranges, so
undo brings the older one back. The older one's facts hold on; only the text changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Measures
from tenfold.compaction.engine.compact import Effects
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.file_footer import without_footer
from tenfold.compaction.facts.section_headings import split_at_title
from tenfold.compaction.plan.draft import SUMMARY_OVERHEAD, UNWRITTEN_SUMMARY, DraftPiece
from tenfold.compaction.summarize.fill import FillRequest, build_job, build_summary_message
from tenfold.compaction.summarize.ladder import PROMPT_FIELDS, OnFailure, SummaryResult
from tenfold.compaction.summarize.literals import count_unconfirmed
from tenfold.compaction.summarize.visible_text import get_narrative, is_shown_again
from tenfold.compaction.summarize.writer import WritingJob, get_text_kinds
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import Answer, Ask, EngineResult, Outcome, ReadAsk
from tenfold.core.record.block import REDO_NOTE, Block, BlockPart, Replacement, Substitute, add_costs
from tenfold.core.record.entry import Attempt, get_message
from tenfold.core.record.message import get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire.marks import extract_summary_text, find_summary_mark


class RedoRequest(Struct, frozen=True):
    """How to rewrite: a `model` in place of the policy's ("" keeps the policy's), and a focus.

    `tokens` is the budget of the new text. With 0 it gets as many as the old one, and at least the policy's share.
    Without any model a number is required, because code writes more only if it gets a larger budget.
    """

    model: str = ""
    focus: str = ""
    tokens: int = 0


DEFAULT_REDO = RedoRequest()
"""The policy's own models, no focus."""


class _OldSummary(Struct, frozen=True):
    """One summary in view: its replacement, the index of its text, and the text split into narrative and facts."""

    index: int
    replacement: Replacement
    text_index: int
    narrative: str
    facts_text: str


def redo(
    view: View, redo_policy: Policy, request: RedoRequest, measures: Measures, *, now: int, new_id: Callable[[], str]
) -> Effects:
    """Rewrites the summaries of the newest live Block. Ends as "nothing" where it has none or nothing would change.

    `redo_policy` is what `build_redo_policy` returns. If a model fails, the view stays as it is.
    """
    tokens = measures.count_view(view)
    position = view.state.live_blocks[-1] if view.state.live_blocks else -1
    block = view.find_newest_block()
    summaries = _find_summaries(view, position, block, redo_policy) if block is not None else []
    if block is None or not summaries or not (redo_policy.summary.models or request.tokens):
        reason = "no model is named, and code has written what it can: name a model, or more tokens"
        if not summaries:
            reason = "the newest Block shows no summary" if block else "no compaction is in force on this path"
        return EngineResult(Outcome("nothing", reason, tokens, tokens, NO_TOKENS, policy=redo_policy.name))
    new, out, total = new_id(), [], SummaryResult("", "none")
    for old in summaries:
        budget = Counted(request.tokens) or _get_text_budget(old, block, redo_policy)
        job = yield from _build_job(view, old, redo_policy, (block, new), budget=budget, focus=request.focus)
        if isinstance(job, str):
            return EngineResult(Outcome("failed", job, tokens, tokens, NO_TOKENS, policy=redo_policy.name))
        written = _reject_code_text((yield from redo_policy.writer.write(job)), redo_policy)
        spent = add_costs(total.spent, written.spent) if written.spent.calls else total.spent
        total = replace(written, notes=(*total.notes, *written.notes), spent=spent)
        if written.failure or get_narrative(written.text, redo_policy.summary) in ("", old.narrative):
            return _build_failure(written.failure, total, tokens, redo_policy, new=new, now=now)
        part = BlockPart(position, old.index, old.replacement.first, old.replacement.last)
        rewritten = _build_replacement(old, part, written.text, new, redo_policy)
        out.append(replace(rewritten, sizes=tuple(_measure_shown(rewritten, view, redo_policy))))
    after = tokens + sum(
        sum(r.sizes) - sum(_measure_shown(o.replacement, view, redo_policy))
        for r, o in zip(out, summaries, strict=True)
    )
    new_block = replace(
        block,
        id=new,
        parent=None,
        time=now,
        counter=redo_policy.counter.name,
        replacements=tuple(out),
        facts=(),
        ended_facts=(),
        rung=total.rung,
        previous_block=block.id,
        tokens_before=tokens,
        tokens_after=after,
        notes=(f"{REDO_NOTE}{block.id}", *total.notes),
        spent=total.spent,
        batches=total.batches.added,
        top_batches=total.batches.top,
    )
    reason = f"{len(out)} summaries of Block {block.id} were written again"
    outcome = Outcome("compacted", reason, tokens, after, after, block=new, policy=redo_policy.name)
    unconfirmed = count_unconfirmed(out)
    outcome = replace(outcome, rung=total.rung, notes=total.notes, spent=total.spent, unconfirmed=unconfirmed)
    return EngineResult(outcome, new_block)


def build_redo_policy(
    policy: Policy, block: Block | None, request: RedoRequest, policies: Mapping[str, Callable[..., Policy]]
) -> Policy:
    """Returns the Block's own policy with this policy's models. With models, code may not write in their place.

    `policies` are those that can be found by name.
    """
    if block is None:
        return policy
    name = block.policy
    preset = policy if name in ("", policy.name) or name not in policies else policies[name](policy.counter)
    models = (request.model,) if request.model else policy.summary.models
    texts = {each: getattr(preset.summary, each) or getattr(policy.summary, each) for each in PROMPT_FIELDS}
    on_failure: OnFailure = "abort" if models else "ladder"
    return replace(preset, summary=replace(preset.summary, models=models, on_failure=on_failure, **texts))


def _find_summaries(view: View, position: int, block: Block, policy: Policy) -> list[_OldSummary]:
    out: list[_OldSummary] = []
    settings, kinds = policy.summary, get_text_kinds(policy.writer)
    for ref in view.range_refs:
        if not isinstance(ref, BlockPart) or ref.block != position:
            continue
        replacement = block.replacements[ref.index]
        if replacement.kind not in kinds or is_shown_again(view, replacement):
            continue
        for text_index, show in enumerate(replacement.shown_items):
            text = extract_summary_text(get_text(show.message)) if isinstance(show, Substitute) else None
            mark = find_summary_mark(get_text(show.message)) if isinstance(show, Substitute) else None
            if text is not None and mark is not None and mark.block == block.id:
                inner = text.removesuffix(settings.closing)
                halves = split_at_title(inner)
                facts = inner[len(halves[0]) :].strip() if halves is not None else ""
                narrative = get_narrative(text, settings)
                if halves is None:
                    narrative = without_footer(narrative)
                    facts = get_narrative(text, settings).removeprefix(narrative).strip()
                out.append(_OldSummary(ref.index, replacement, text_index, narrative, facts))
    return out


def _get_text_budget(old: _OldSummary, block: Block, policy: Policy) -> Counted:
    """Returns the budget for a model's text, which may need more tokens than an extract took."""
    before = policy.counter.count([old.narrative])[0]
    return Counted(max(before, int(block.tokens_after * policy.shares.narrative), SUMMARY_OVERHEAD))


def _build_job(
    view: View, old: _OldSummary, policy: Policy, blocks: tuple[Block, str], *, budget: Counted, focus: str
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], WritingJob | str]:
    """Builds the writing job from the range as it was before its first Block. Returns a reason if it cannot be read."""
    block, new = blocks
    position, replacement = _find_first_summary(view, view.state.live_blocks[-1], old.index)
    (answer,) = yield (ReadAsk(tuple(range(position))),)
    if answer.error:
        return f"the originals could not be read: {answer.error}"
    before = View.from_path(Path(answer.entries))
    units = tuple(u for u in before.units if replacement.first <= u.first and u.last <= replacement.last)
    show = tuple(
        Substitute(UNWRITTEN_SUMMARY) if place == old.text_index else s
        for place, s in enumerate(old.replacement.shown_items)
    )
    piece = DraftPiece(
        units, NO_TOKENS, budget, sizes=(), kind=replacement.kind, shown_items=show, summary_budget=budget
    )
    goal = policy.derive_goal(block.tokens_after, recall="none")
    writing = FillRequest(
        new, view.list_block_facts(), policy.summary, policy.counter.count, focus, token_factor=policy.token_factor
    )
    return replace(build_job(before, goal, piece, budget, writing), redone=block)


def _find_first_summary(view: View, position: int, index: int) -> tuple[int, Replacement]:
    """Finds the Block that first summarized a range, behind all redos: its position and replacement."""
    while True:
        block = view.path.get_block(position)
        replacement = block.replacements[index]
        (*_, last) = replacement.covered_ranges
        if not (block.redone_block and isinstance(last, BlockPart)):
            return position, replacement
        position, index = last.block, last.index


def _reject_code_text(written: SummaryResult, policy: Policy) -> SummaryResult:
    """Marks a text as failed if code wrote it although a model was named: that text is in view already."""
    if written.failure or not policy.summary.models or written.rung not in ("extractive", "mechanical"):
        return written
    return written.reject()


def _build_replacement(old: _OldSummary, rep: BlockPart, text: str, block: str, policy: Policy) -> Replacement:
    """Builds the replacement with the new text in place of the old one, in the same role."""
    before = old.replacement.shown_items[old.text_index]
    assert isinstance(before, Substitute)
    role = "system" if before.message.role == "system" else "user"
    message = build_summary_message(block, (text, old.facts_text), replace(policy.summary, role=role))
    show = tuple(Substitute(message) if i == old.text_index else s for i, s in enumerate(old.replacement.shown_items))
    return replace(
        old.replacement,
        covered_ranges=(rep,),
        shown_items=show,
        level=old.replacement.level + 1,
        reason=f"{old.replacement.reason}; written again",
        sizes=(),
    )


def _measure_shown(replacement: Replacement, view: View, policy: Policy) -> list[Counted]:
    messages = [
        s.message if isinstance(s, Substitute) else get_message(view.path.get_entry(s.position))
        for s in replacement.shown_items
    ]
    return measure_messages([m for m in messages if m is not None], policy.counter)


def _build_failure(
    failure: str, written: SummaryResult, tokens: Counted, policy: Policy, *, new: str, now: int
) -> EngineResult:
    """Ends without a better text. Records an Attempt if it cost a model call."""
    status: Literal["failed", "nothing"] = "failed" if failure else "nothing"
    reason = failure or "the text came out the same"
    outcome = Outcome(
        status, reason, tokens, tokens, NO_TOKENS, policy=policy.name, notes=written.notes, spent=written.spent
    )
    attempt = Attempt(new, None, "", now, policy.name, status, reason, tokens, NO_TOKENS, written.spent)
    return EngineResult(outcome, attempt if written.spent.calls else None)
