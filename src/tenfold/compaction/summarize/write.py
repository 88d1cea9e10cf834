"""Writes the text that stands for a range: asks model after model, down the ladder, and writes by code if none helps.

`write_summary` is a generator that the engine delegates to (`yield from write_summary(...)`). It always returns a
`SummaryResult` and never raises for what a model did. Facts are added elsewhere, by code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from tenfold.compaction.summarize.asking import (
    AskedText,
    RejectedAnswer,
    WritingContext,
    ask_model,
    build_ask,
    build_context,
    build_repair,
    clean_text,
    describe_left_out,
    fill_prompt,
    render_earlier_texts,
)
from tenfold.compaction.summarize.headings import render_guide
from tenfold.compaction.summarize.ladder import (
    RUNGS,
    LadderStep,
    Purpose,
    SummaryResult,
    SummarySettings,
    SummaryTask,
    WritingGenerator,
    is_worth_trying,
    list_steps,
)
from tenfold.compaction.summarize.mechanical import write_mechanical
from tenfold.compaction.summarize.quotations import find_quoted_rules
from tenfold.compaction.summarize.reserved_marks import NOTES_FRAME
from tenfold.compaction.summarize.story import write_story
from tenfold.compaction.summarize.transcript import render_transcript, split_messages
from tenfold.core.record.ask import SummaryAsk
from tenfold.core.record.block import ModelCost, Rung, add_costs
from tenfold.core.record.fact import Rule
from tenfold.core.text.excerpts import Count

__all__ = ["SummaryResult", "SummarySettings", "SummaryTask", "clean_text", "write_summary"]

NO_SUMMARY = "(no prior summary)"
"""Stands for an earlier summary in a user's own prompt, if there is none."""
_PLACE = re.compile(r"\{([A-Za-z_]+)\}")


def interpolate(template: str, values: Mapping[str, str]) -> str:
    """Returns a user's own prompt with each place in `values` filled wherever it occurs. Other places stay.

    All are filled in one pass, so braces in a conversation are never taken for a place.
    """
    return _PLACE.sub(lambda found: values.get(found.group(1), found.group()), template)


def find_places(template: str) -> list[str]:
    """Returns the names of a template's places, in order."""
    return _PLACE.findall(template)


def write_summary(task: SummaryTask, settings: SummarySettings, count: Count) -> WritingGenerator:
    """Writes the summary of `task` within its allotment. Without models, code writes it and nothing is asked.

    Messages beyond what the first model can be sent are summarized in pieces, each folded into the text so far. If
    `on_failure` is "ladder", the last resort is the extractive or mechanical text; with "keep_stages" and "abort" the
    result has a `failure`.
    """
    if not settings.models:
        return _write_by_code(task, settings, SummaryResult("", "none"), count)
    task, whole = _with_room_for_frame(task, settings, count), task.allotment
    budget = _get_message_budget(task, settings, settings.models[0], count)
    chunks = split_messages(task.items, budget=budget, max_chunks=settings.chunks, count=count, style=settings.style)
    notes: list[str] = [describe_left_out(chunks.left_out, budget)] if chunks.left_out else []
    spent, current = ModelCost(), task
    rules: tuple[Rule, ...] = ()
    rung: Rung = "model"
    for number, piece in enumerate(chunks.chunks):
        current = replace(task if not number else replace(current, parts=()), items=piece)
        written = yield from _climb_ladder(current, settings, count)
        spent = add_costs(spent, written.spent) if written.spent.calls else spent
        prefix = f"piece {number + 1} of {len(chunks.chunks)}: " if len(chunks.chunks) > 1 else ""
        notes.extend(prefix + note for note in written.notes)
        rules += written.rules
        if written.failure:
            items = tuple(item for piece in chunks.chunks[number:] for item in piece)
            rest = replace(current, items=items, allotment=whole)
            failed = SummaryResult("", "none", tuple(notes), spent)
            return replace(_finish_without_model(rest, settings, failed, count), rules=rules)
        rung = max(rung, written.rung, key=RUNGS.index)
        current = replace(current, previous=written.text, facts=(*task.facts, *rules))
    text = f"{NOTES_FRAME}\n\n{current.previous}" if task.allotment < whole else current.previous
    return SummaryResult(text, rung, tuple(notes), spent, rules=rules)


def _with_room_for_frame(task: SummaryTask, settings: SummarySettings, count: Count) -> SummaryTask:
    """Returns the task with room for `NOTES_FRAME`, for a policy without a frame of its own for its summaries."""
    size = 0 if settings.opening or settings.role == "system" else count([NOTES_FRAME + "\n\n"])[0] + 1
    return replace(task, allotment=task.allotment - size) if size * 3 < task.allotment else task


def _finish_without_model(
    task: SummaryTask, settings: SummarySettings, result: SummaryResult, count: Count
) -> SummaryResult:
    """Applies the policy's `on_failure` after no model gave a usable text."""
    match settings.on_failure:
        case "ladder":
            return _write_by_code(task, settings, result, count)
        case "keep_stages" | "abort":
            return result.reject()
        case _:
            assert_never(settings.on_failure)


def _climb_ladder(task: SummaryTask, settings: SummarySettings, count: Count) -> WritingGenerator:
    """Writes one text by the rungs that have a model. The result has a `failure` if none gave a usable text."""
    context = build_context(task, settings, count)
    notes: list[str] = []
    spent = ModelCost()
    error = ""
    for step in list_steps(settings):
        if not is_worth_trying(step, error):
            continue
        first_ask, left_out_note = _build_request(context, step)

        def build_next(
            rejected: tuple[RejectedAnswer, ...], step: LadderStep = step, first_ask: SummaryAsk = first_ask
        ) -> SummaryAsk | None:
            if not rejected:
                return first_ask
            can_repair = bool(context.headings) and step.rung == "model" and len(rejected) == 1
            return build_repair(first_ask, context, rejected[0]) if can_repair else None

        asked = yield from ask_model(context, build_next)
        spent = add_costs(spent, asked.spent)
        reason = _describe_step(asked, left_out_note)
        if asked.text:
            notes.extend([f"{step.model}: {reason}"] if reason else [])
            rules, missing = find_quoted_rules(asked.quotations, task.items, task.facts)
            if missing:
                what = f"{missing} of {len(asked.quotations)} quoted instructions"
                notes.append(f"{step.model}: {what} are no words of the user's and were dropped")
            return SummaryResult(clean_text(asked.text), step.rung, tuple(notes), spent, rules=rules)
        notes.append(f"{step.rung} {step.model}: {reason}")
        error = "" if asked.rejected else asked.error
    return SummaryResult(text="", rung="none", notes=tuple(notes), spent=spent, failure="; ".join(notes))


def _describe_step(asked: AskedText, left_out_note: str) -> str:
    """Describes how a step of the ladder ended; "" if the first answer could be used and all messages were sent."""
    if not asked.rejected:
        return f"the call failed: {asked.error[:200]}" if asked.error else left_out_note
    failures = asked.rejected[0].failures
    found = "; ".join(str(failure) for failure in failures[:4])
    found += f"; and {len(failures) - 4} more" if len(failures) > 4 else ""
    what = "repaired by asking" if asked.text else "not usable"
    what = "mended by code" if asked.is_mended else what
    return f"{what} ({found})" + (f"; {left_out_note}" if left_out_note else "")


def _write_by_code(task: SummaryTask, settings: SummarySettings, asked: SummaryResult, count: Count) -> SummaryResult:
    """Writes the text without a model: the story of the messages, after what is kept of earlier summaries.

    A model's text among those stays framed as notes. `asked` holds what asking models in vain has cost, and the notes
    about it.
    """
    whole = task.allotment
    task = _with_room_for_frame(task, settings, count) if task.has_notes else task
    frame = f"{NOTES_FRAME}\n\n" if task.allotment < whole else ""
    budget = task.allotment
    earlier = task.earlier_texts
    write = partial(
        write_story, task.items, count=count, earlier=earlier, kept=task.kept, told=task.told, tools=settings.tools
    )
    for _ in range(_STORY_TRIES):
        text = clean_text(write(budget=budget))
        excess = count([text])[0] - task.allotment
        if not text.strip():
            break
        if excess <= 0:
            return SummaryResult(frame + text, "extractive", asked.notes, asked.spent)
        budget -= excess
    text = write_mechanical(task.items, budget=task.allotment, count=count)
    return SummaryResult(text, "mechanical", asked.notes, asked.spent)


_STORY_TRIES = 3
"""How often a story is written anew, with less room, if what makes it safe to show has lengthened it."""


def _get_message_budget(task: SummaryTask, settings: SummarySettings, model: str, count: Count) -> int:
    """Returns how many tokens of messages fit a request beside prompt, earlier texts, and an answer to repair."""
    bound = settings.get_input_limit(model, task.allotment)
    fixed_texts = (
        settings.system,
        _choose_prompt(task, settings),
        render_guide(headings, settings.sections) if (headings := task.list_headings(settings)) else settings.told,
        render_earlier_texts(task, bound // 2, count),
        task.focus,
        settings.instructions,
    )
    return max(bound - sum(count(fixed_texts)) - task.allotment - _TAG_TOKENS, _MIN_MESSAGE_TOKENS)


_TAG_TOKENS, _MIN_MESSAGE_TOKENS = 40, 200
"""Tokens for the tags between the parts of a request, and the fewest tokens of messages worth sending."""


def _build_request(context: WritingContext, step: LadderStep) -> tuple[SummaryAsk, str]:
    """Builds the request: what never changes first, then the earlier texts, then the new messages.

    What a user's own prompt already contains is not added again. Also returns a note about messages that did not fit.
    """
    task, settings, count = context.task, context.settings, context.count
    allowed = max(int(task.allotment * step.share), 1)
    budget = max(int(_get_message_budget(task, settings, step.model, count) * step.share), _MIN_MESSAGE_TOKENS)
    body = render_transcript(task.items, budget=budget, count=count, style=settings.style)
    before = render_earlier_texts(task, settings.get_input_limit(step.model, task.allotment) // 2, count)
    messages = f"<conversation>\n{body.text}\n</conversation>" if task.items else ""
    head = fill_prompt(_choose_prompt(task, settings), context, allowed)
    places = {"existing_summary": before or NO_SUMMARY, "messages": messages}
    named = set(find_places(head))
    rest = ("" if "existing_summary" in named else before, "" if "messages" in named else messages)
    beside = _BESIDE.format(task.told) if context.is_prose and task.told else ""
    purpose: Purpose = "update" if task.previous.strip() and task.purpose == "first" else task.purpose
    ask = build_ask(
        context,
        fill_prompt(settings.system, context, allowed),
        (interpolate(head, places), *rest, beside),
        model=step.model,
        max_tokens=allowed,
        purpose=purpose,
    )
    return ask, describe_left_out(body.left_out, budget) if body.left_out else ""


_BESIDE = """<beside-your-text>
{}
</beside-your-text>
The reader has this beside your text. Do not repeat it; tell what it does not say."""


def _choose_prompt(task: SummaryTask, settings: SummarySettings) -> str:
    """Returns the prompt for this purpose, or the update prompt if there is an earlier text to update."""
    match task.purpose:
        case "merge":
            return settings.merge
        case "prefix" | "batch" | "branch" | "first" if not task.previous.strip():
            return task.prompt or settings.get_prompt(task.purpose)
        case _:
            return settings.update
