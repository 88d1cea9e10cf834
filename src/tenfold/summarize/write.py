"""Writes the text that stands for a range: asks a model, checks the answer, repairs it once, and goes down the ladder.

`write_summary` is a generator that the engine delegates to (`yield from write_summary(...)`). It yields Asks and
receives Answers. It always returns a `SummaryResult` and never raises for what a model did. Facts are added elsewhere,
by code.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.section import TITLE
from tenfold.record.ask import Answer, Ask, SummaryAsk
from tenfold.record.block import Fact, ModelCost, Rung
from tenfold.record.message import Message
from tenfold.summarize.check import FATAL_KINDS, CheckFailure, Expectation, build_source, check_summary, mend_summary
from tenfold.summarize.headings import EMPTY_SECTION, arrange_sections, restore_headings
from tenfold.summarize.ladder import LadderStep, SummaryResult, SummarySettings, add_costs, is_worth_trying, list_steps
from tenfold.summarize.structure import render_guide
from tenfold.summarize.template import NO_SUMMARY, find_places, interpolate
from tenfold.summarize.transcript import render_transcript, split_messages
from tenfold.summarize.without_model import write_extractive, write_mechanical
from tenfold.text.excerpts import Count, Keep, trim_lines
from tenfold.text.redaction import redact

__all__ = ["SummaryResult", "SummarySettings", "SummaryTask", "clean_text", "write_summary"]

Purpose = Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"]
WritingGenerator = Generator[tuple[Ask, ...], tuple[Answer, ...], SummaryResult]


class SummaryTask(Struct, frozen=True):
    """What is to be summarized, in at most `allotment` tokens.

    `facts` are already merged; `focus` is what the caller asks to dwell on. `previous` is an earlier summary that the
    new text updates and replaces. `parts` are several summaries to be merged into one, oldest first. `context` is
    earlier text that helps to understand the messages and is not repeated.
    """

    items: tuple[tuple[int, Message], ...]
    facts: tuple[Fact, ...] = ()
    previous: str = ""
    allotment: int = 1_000
    purpose: Purpose = "first"
    focus: str = ""
    context: str = ""
    parts: tuple[str, ...] = ()

    @property
    def earlier_texts(self) -> tuple[str, ...]:
        """The earlier summaries that the new text replaces, oldest first."""
        return tuple(text for text in (self.previous.strip(), *(part.strip() for part in self.parts)) if text)


class _StepResult(Struct, frozen=True):
    """The result of one step of the ladder: a usable `text`, or the `reason` why there is none."""

    text: str
    reason: str
    error: str = ""
    spent: ModelCost = ModelCost()


class _WritingContext(Struct, frozen=True):
    """What is needed to write one text: its task, the settings, and what it is checked against."""

    task: SummaryTask
    settings: SummarySettings
    expected: Expectation
    count: Count


def write_summary(task: SummaryTask, settings: SummarySettings, count: Count) -> WritingGenerator:
    """Writes the summary of `task` within its allotment. Without models, code writes it and nothing is asked.

    Messages beyond what the first model can be sent are summarized in pieces, each folded into the text so far. If
    `on_failure` is "ladder", the last resort is the extractive or mechanical text; with "keep_stages" and "abort" the
    result has a `failure`.
    """
    if not settings.models:
        return _write_by_code(task, count, (), ModelCost())
    budget = _get_message_budget(task, settings, settings.models[0], count)
    chunks = split_messages(task.items, budget=budget, max_chunks=settings.chunks, count=count, style=settings.style)
    notes: list[str] = [_describe_left_out(chunks.left_out, budget)] if chunks.left_out else []
    spent, rung, current = ModelCost(), MODEL_RUNGS[0], task
    for number, piece in enumerate(chunks.chunks):
        current = replace(task if not number else replace(current, parts=()), items=piece)
        written = yield from _climb_ladder(current, settings, count)
        spent = add_costs(spent, written.spent) if written.spent.calls else spent
        prefix = f"piece {number + 1} of {len(chunks.chunks)}: " if len(chunks.chunks) > 1 else ""
        notes.extend(prefix + note for note in written.notes)
        if written.failure:
            rest = replace(current, items=tuple(item for piece in chunks.chunks[number:] for item in piece))
            return _finish_without_model(rest, settings, SummaryResult("", "none", tuple(notes), spent), count)
        rung = max(rung, written.rung, key=MODEL_RUNGS.index)
        current = replace(current, previous=written.text)
    return SummaryResult(current.previous, rung, tuple(notes), spent)


MODEL_RUNGS: tuple[Rung, ...] = ("model", "stricter", "next_model")
"""The rungs with a model, in order. A text written in pieces is on the lowest one that any of them needed."""


def _describe_left_out(items: Sequence[tuple[int, Message]], budget: int) -> str:
    """Describes the messages that the text leaves out because they exceed what the model can be sent."""
    which = f"{items[0][0]} to {items[-1][0]}" if len(items) > 1 else f"{items[0][0]}"
    what = f"{len(items):,} messages ({which})" if len(items) > 1 else f"1 message ({which})"
    return f"{what} had no room in the {budget:,} tokens that the summary model is sent; only their facts are carried"


def _finish_without_model(
    task: SummaryTask, settings: SummarySettings, result: SummaryResult, count: Count
) -> SummaryResult:
    """Applies the policy's `on_failure` after no model gave a usable text."""
    match settings.on_failure:
        case "ladder":
            return _write_by_code(task, count, result.notes, result.spent)
        case "keep_stages" | "abort":
            return replace(result, failure="no model gave a usable summary: " + "; ".join(result.notes))
        case _:
            assert_never(settings.on_failure)


def _climb_ladder(task: SummaryTask, settings: SummarySettings, count: Count) -> WritingGenerator:
    """Writes one text by the rungs that have a model. The result has a `failure` if none gave a usable text."""
    way = _WritingContext(task, settings, _build_expectation(task, settings, count), count)
    notes: list[str] = []
    spent = ModelCost()
    error = ""
    for step in list_steps(settings):
        if not is_worth_trying(step, error):
            continue
        tried = yield from _try_step(way, step)
        spent = add_costs(spent, tried.spent) if tried.spent.calls else spent
        if tried.text:
            notes.extend([f"{step.model}: {tried.reason}"] if tried.reason else [])
            return SummaryResult(text=clean_text(tried.text), rung=step.rung, notes=tuple(notes), spent=spent)
        notes.append(f"{step.rung} {step.model}: {tried.reason}")
        error = tried.error
    return SummaryResult(text="", rung="none", notes=tuple(notes), spent=spent, failure="; ".join(notes))


def _build_expectation(task: SummaryTask, settings: SummarySettings, count: Count) -> Expectation:
    """Builds what a text is checked against. Headings that would take half of the allotment are not asked for."""
    headings = settings.list_headings(task.purpose)
    if (
        headings
        and count(["\n".join(f"{heading}\n{EMPTY_SECTION}\n" for heading in headings)])[0] > task.allotment // 2
    ):
        headings = ()
    known = "\n".join((*task.earlier_texts, task.context, task.focus, settings.instructions))
    return Expectation(build_source(task.items, task.facts, known), allotment=task.allotment, headings=headings)


def _write_by_code(task: SummaryTask, count: Count, notes: tuple[str, ...], spent: ModelCost) -> SummaryResult:
    """Writes the text without a model. Earlier summaries come first, in at most half of the allotment."""
    earlier = _fit_earlier_texts(task, task.allotment // 2 if task.items else task.allotment - 1, count)
    budget = task.allotment - (count([earlier + "\n"])[0] + 1 if earlier else 0)
    narrative = write_extractive(task.items, budget=budget, count=count) if task.items else ""
    text = clean_text(f"{earlier}\n{narrative}".strip() if earlier else narrative)
    if text.strip() and count([text])[0] <= task.allotment:
        bare = write_mechanical(task.items, budget=budget, count=count)
        return SummaryResult(
            text=text,
            rung="mechanical" if narrative == bare and not earlier else "extractive",
            notes=notes,
            spent=spent,
        )
    return SummaryResult(
        text=write_mechanical(task.items, budget=task.allotment, count=count),
        rung="mechanical",
        notes=notes,
        spent=spent,
    )


def _fit_earlier_texts(task: SummaryTask, budget: int, count: Count) -> str:
    """Returns the earlier summaries in at most `budget` tokens: whole, or each shortened to an equal share."""
    joined = "\n".join(task.earlier_texts)
    if not joined or count([joined])[0] <= budget:
        return joined
    share = budget // len(task.earlier_texts) - 1
    return "\n".join(text for each in task.earlier_texts if (text := trim_lines(each, share, count, Keep.ENDS)))


def _try_step(
    context: _WritingContext, step: LadderStep
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], _StepResult]:
    """Runs one step: ask, check, on the first rung ask once for a repair, then mend by code."""
    allowed = max(int(context.task.allotment * step.share), 1)
    ask, left_out_note = _build_request(context, step, allowed)
    (answer,) = yield (ask,)
    spent = _get_cost(answer, step)
    if answer.error:
        return _StepResult(text="", reason=f"the call failed: {answer.error[:200]}", error=answer.error, spent=spent)
    text, failures = _check_answer(answer, context)
    if not failures:
        return _StepResult(text=text, reason=left_out_note, spent=spent)
    found = _list_failures(failures)
    also = f"; {left_out_note}" if left_out_note else ""
    if step.rung == "model":
        (second_answer,) = yield (_build_repair(ask, context, text, failures),)
        spent = add_costs(spent, _get_cost(second_answer, step))
        if not second_answer.error:
            repaired, repaired_failures = _check_answer(second_answer, context)
            if not repaired_failures:
                return _StepResult(text=repaired, reason=f"repaired by asking ({found}){also}", spent=spent)
            if _rank_failures(repaired_failures) <= _rank_failures(failures):
                text, failures = repaired, repaired_failures
    mended = _mend_by_code(text, failures, context)
    why = f"mended by code ({found})" if mended else f"not usable ({found})"
    return _StepResult(text=mended, reason=why + also, spent=spent)


def _check_answer(answer: Answer, context: _WritingContext) -> tuple[str, tuple[CheckFailure, ...]]:
    """Returns the answer's text with its headings restored, and what is wrong with it."""
    text = restore_headings(answer.text.strip(), context.expected.headings)
    return text, check_summary(text, finish=answer.finish_reason, expected=context.expected, count=context.count)


def _mend_by_code(text: str, failures: tuple[CheckFailure, ...], context: _WritingContext) -> str:
    """Mends the text by code; "" if it still fails. Up to a quarter over the allotment is cut."""
    expected, count = context.expected, context.count
    mended = mend_summary(text, failures)
    if not mended or count([mended])[0] > expected.allotment * 5 // 4:
        return ""
    if expected.headings:
        mended = arrange_sections(
            mended, expected.headings, context.task.facts, allotment=expected.allotment, count=count
        )
    elif count([mended])[0] > expected.allotment:
        mended = trim_lines(mended, expected.allotment, count)
    return mended if mended and not check_summary(mended, finish="stop", expected=expected, count=count) else ""


def _rank_failures(failures: tuple[CheckFailure, ...]) -> tuple[bool, int]:
    return any(failure.kind in FATAL_KINDS for failure in failures), len(failures)


def _list_failures(failures: tuple[CheckFailure, ...]) -> str:
    shown = "; ".join(str(failure) for failure in failures[:4])
    return shown + (f"; and {len(failures) - 4} more" if len(failures) > 4 else "")


def _get_cost(answer: Answer, step: LadderStep) -> ModelCost:
    spent = answer.spent
    return ModelCost(
        calls=max(spent.calls, 1),
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        model=spent.model or step.model,
        price=spent.price,
    )


def _get_message_budget(task: SummaryTask, settings: SummarySettings, model: str, count: Count) -> int:
    """Returns how many tokens of messages fit a request beside prompt, earlier texts, and an answer to repair."""
    bound = settings.get_input_limit(model, task.allotment)
    fixed_texts = (
        settings.system,
        _choose_prompt(task, settings),
        render_guide(settings.list_headings(task.purpose), settings.sections),
    )
    fixed = sum(
        count([*fixed_texts, _render_earlier_texts(task, bound // 2, count), task.focus, settings.instructions])
    )
    return max(bound - fixed - task.allotment - _TAG_TOKENS, _MIN_MESSAGE_TOKENS)


_TAG_TOKENS, _MIN_MESSAGE_TOKENS = 40, 200
"""Tokens for the tags between the parts of a request, and the fewest tokens of messages worth sending."""


def _build_request(context: _WritingContext, step: LadderStep, allowed: int) -> tuple[SummaryAsk, str]:
    """Builds the request: what never changes first, then the earlier texts, then the new messages.

    Also returns a note about messages that did not fit.
    """
    task, settings, count = context.task, context.settings, context.count
    budget = max(int(_get_message_budget(task, settings, step.model, count) * step.share), _MIN_MESSAGE_TOKENS)
    body = render_transcript(task.items, budget=budget, count=count, style=settings.style)
    before = _render_earlier_texts(task, settings.get_input_limit(step.model, task.allotment) // 2, count)
    messages = f"<conversation>\n{body.text}\n</conversation>" if task.items else ""
    head = _fill_prompt(_choose_prompt(task, settings), context, allowed)
    values = {"existing_summary": before or NO_SUMMARY, "messages": messages}
    named_places = set(find_places(head))
    head = interpolate(head, values)
    purpose: Purpose = "update" if task.previous.strip() and task.purpose == "first" else task.purpose
    ask = SummaryAsk(
        system=_fill_prompt(settings.system, context, allowed),
        prompt="\n\n".join(_list_request_parts(head, before, messages, named_places)),
        max_tokens=allowed,
        model=step.model,
        purpose=purpose,
        timeout=settings.timeout,
        tries=settings.tries,
        temperature=settings.temperature,
        effort=settings.effort,
    )
    return ask, _describe_left_out(body.left_out, budget) if body.left_out else ""


def _list_request_parts(head: str, before: str, messages: str, named_places: set[str]) -> list[str]:
    """Returns the parts of a request. What a user's own prompt already contains is not added again."""
    parts = (head, "" if "existing_summary" in named_places else before, "" if "messages" in named_places else messages)
    return [part for part in parts if part]


def _choose_prompt(task: SummaryTask, settings: SummarySettings) -> str:
    """Returns the prompt for this purpose, or the update prompt if there is an earlier text to update."""
    match task.purpose:
        case "merge":
            return settings.merge
        case "prefix" | "batch" | "branch" | "first" if not task.previous.strip():
            prompts = {"prefix": settings.prefix, "batch": settings.batch, "branch": settings.branch}
            return prompts.get(task.purpose, settings.first)
        case _:
            return settings.update


def _render_earlier_texts(task: SummaryTask, budget: int, count: Count) -> str:
    """Renders what goes before the messages, each in its own tag: context, earlier summary, summaries to be merged."""
    texts = [("context", task.context.strip()), ("previous-summary", task.previous.strip())]
    texts += [("summary", part.strip()) for part in task.parts]
    tagged = [(tag, text) for tag, text in texts if text]
    share = budget // max(len(tagged), 1)
    return "\n\n".join(f"<{tag}>\n{trim_lines(text, share, count, Keep.ENDS)}\n</{tag}>" for tag, text in tagged)


def _build_repair(
    ask: SummaryAsk, context: _WritingContext, text: str, failures: tuple[CheckFailure, ...]
) -> SummaryAsk:
    listed = "\n".join(f"- {failure}" for failure in failures[:20])
    wish = _fill_prompt(context.settings.repair, context, ask.max_tokens).replace("{failures}", listed)
    prompt = f"{ask.prompt}\n\n<rejected-summary>\n{text}\n</rejected-summary>\n\n{wish or listed}"
    return replace(ask, prompt=prompt, purpose="repair")


def _fill_prompt(prompt: str, context: _WritingContext, allowed: int) -> str:
    """Fills the placeholders of a prompt."""
    wishes = dict.fromkeys((context.settings.instructions.strip(), context.task.focus.strip()))
    headings = context.expected.headings
    structure = render_guide(headings, context.settings.sections)
    if not headings and context.task.purpose in ("first", "update"):
        structure = context.settings.told
    filled = (
        prompt.replace("{allotment}", str(allowed))
        .replace("{structure}", structure)
        .replace("{focus}", "\n".join(f"Additional focus: {wish}" for wish in wishes if wish))
    )
    return _EXTRA_BLANK_LINES.sub("\n\n", filled).strip()


_EXTRA_BLANK_LINES = re.compile(r"\n{3,}")


def clean_text(text: str) -> str:
    """Removes secrets from a summary, and text that looks like Tenfold's own marks."""
    return redact(text.replace("tenfold-summary", "tenfold summary").replace(TITLE, "Facts"))
