"""The writer of `threshold` and `sliding`: one briefing that replaces everything before.

If the model's text is too long, it is asked again over the same messages for half the words; a summary is never
summarized. If a call fails or gives nothing usable, the text is written mechanically, so there always is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.meter.windows import find_window_row
from tenfold.plan.continuation import extract_request, is_continuation
from tenfold.record.ask import SummaryAsk
from tenfold.record.block import ModelCost, Rung, Substitute, add_costs
from tenfold.record.message import Message, Part, Text, ToolCall, ToolResult, get_text
from tenfold.summarize.asking import (
    NO_ROOM,
    AskedText,
    RejectedAnswer,
    WritingContext,
    ask_model,
    build_ask,
    build_context,
    build_repair,
    clean_text,
    fill_prompt,
    render_earlier_texts,
)
from tenfold.summarize.ladder import Asking, SummaryResult, SummaryTask, WritingGenerator
from tenfold.summarize.transcript import Items, fit_messages, get_speaker
from tenfold.summarize.writer import WritingJob
from tenfold.text.excerpts import Count, Keep, flatten, trim_lines
from tenfold.text.redaction import redact

WORDS_PER_TOKEN = 0.75
"""Words to ask for per token of the answer, as published."""
FALLBACK_CHARACTERS = 200
"""Characters of each message in the mechanical summary, as published (there: bytes)."""
_LEAST_FALLBACK_CHARACTERS = 20
"""Fewer than these say nothing: then the oldest messages have no line."""
DIVIDER = "\n\n---\n\n"
END_MARK = "[End of the conversation]"
TODO_ORDER = (
    'Keep a "## Todo List" section with these items and their states at the end of the summary; whoever continues '
    "restores the list from it with the todos tool."
)


class BriefingWriter(Struct, frozen=True):
    """Writes one text of at most half the buffer, asking up to `attempts` times.

    The conversation and the earlier summary take at most the share of the model's window that the settings allow.
    """

    attempts: int = 3

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        context = _build_briefing_context(job)
        notes: list[str] = []
        spent = ModelCost()
        for number, model in enumerate(job.settings.models):
            asked, left_out_note = yield from self._ask_for_briefing(context, job, model)
            spent = add_costs(spent, asked.spent)
            notes.extend((*left_out_note, *_describe_attempts(asked, model)))
            if asked.text:
                answers = len(asked.rejected) + (not asked.is_mended)
                rung: Rung = "next_model" if number else "model"
                rung = "stricter" if rung == "model" and answers > 1 else rung
                return SummaryResult(clean_text(asked.text), rung, tuple(notes), spent)
        text = write_fallback("\n\n".join(job.previous), context.task.items, budget=job.budget, count=job.count)
        return SummaryResult(text, "mechanical", tuple(notes), spent)

    def get_answer_budget(self, job: WritingJob) -> int:
        """Returns the tokens of the answer: half the buffer of the window, and never more than the job's budget."""
        return job.budget if job.goal.text_limit is None else min(job.goal.text_limit, job.budget)

    def _ask_for_briefing(
        self, context: WritingContext, job: WritingJob, model: str
    ) -> Asking[tuple[AskedText, tuple[str, ...]]]:
        """Asks one model. Also returns a note about messages that did not fit."""
        allowed = _limit_answer(self.get_answer_budget(job), model)
        limit = job.settings.get_input_limit(model, allowed, job.goal.window)
        budget = int(limit / max(1.0, job.goal.token_factor))
        earlier = render_earlier_texts(context.task, budget // 2, job.count)
        budget -= job.count([earlier])[0]
        transcript = fit_messages(context.task.items, budget=budget, count=job.count)
        body = f"<conversation>\n{transcript.text}\n{END_MARK}\n</conversation>"
        rest = (earlier, body, _render_latest_todos(job))

        def build_next(rejected: tuple[RejectedAnswer, ...]) -> SummaryAsk | None:
            last = rejected[-1] if rejected else None
            if last is None:
                return _build_briefing_ask(context, rest, model, allowed, 1)
            has_been_repaired = len(rejected) > 1 and not last.is_only_too_long
            if last.is_fatal or has_been_repaired or len(rejected) >= self.attempts:
                return None
            shorter = _build_briefing_ask(context, rest, model, allowed, 2)
            return shorter if last.is_only_too_long else build_repair(shorter, context, last)

        asked = yield from ask_model(context, build_next)
        left_out = transcript.left_out
        if not left_out:
            return asked, ()
        return asked, (f"{len(left_out):,} messages ({left_out[0][0]} to {left_out[-1][0]}) {NO_ROOM.format(budget)}",)


def _limit_answer(tokens: int, model: str) -> int:
    """Limits an answer to what a known model can write: its largest answer, and a quarter of its window.

    A fifth of each is left, since a provider counts more for a text than we do.
    """
    row = find_window_row(model)
    return tokens if row is None else min(tokens, (row.max_output or tokens) * 4 // 5, row.window // 5)


def _build_briefing_context(job: WritingJob) -> WritingContext:
    """Builds what the text is written from and checked against. However long the last answer is, code cuts it."""
    quoted_requests = [
        s.message for s in job.piece.shown_items if isinstance(s, Substitute) and is_continuation(s.message)
    ]
    task = SummaryTask(
        items=_list_messages(job, {extract_request(message) for message in quoted_requests}),
        facts=job.facts,
        previous="\n\n".join(job.previous),
        allotment=job.budget,
        focus=job.focus,
    )
    context = build_context(task, job.settings, job.count, "\n".join(get_text(message) for message in quoted_requests))
    return replace(context, headings=job.settings.list_headings("first"), cut_share=math.inf)


def _list_messages(job: WritingJob, quoted_requests: set[str]) -> tuple[tuple[int, Message], ...]:
    """Returns the messages to summarize. An older continuation becomes the request it quotes, if no other quotes it."""
    out: list[tuple[int, Message]] = []
    for at, message in job.items:
        if not is_continuation(message):
            out.append((at, message))
        elif (request := extract_request(message)) and request not in quoted_requests:
            out.append((at, Message("user", (Text(request),), "human")))
    return tuple(out)


def _build_briefing_ask(
    context: WritingContext, rest: Sequence[str], model: str, allowed: int, divisor: int
) -> SummaryAsk:
    """Builds a request for so many tokens, and a `divisor`th of the words that they hold."""
    settings, is_update = context.settings, bool(context.task.previous)
    words = max(1, int(allowed * WORDS_PER_TOKEN) // divisor)
    headings = "; ".join(heading.lstrip("# ") for heading in context.headings)
    system, briefing, prompt = (
        fill_prompt(text, context, allowed, words=str(words), headings=headings)
        for text in (settings.system, settings.briefing, settings.update if is_update else settings.first)
    )
    return build_ask(
        context,
        "\n\n".join(text for text in (system, briefing) if text),
        (prompt, *rest),
        model=model,
        max_tokens=allowed,
        purpose="update" if is_update else "first",
    )


def _describe_attempts(asked: AskedText, model: str) -> list[str]:
    """Describes what was wrong with each rejected answer, and the call that failed."""
    notes = [
        f"{model}, attempt {number}: {'; '.join(str(failure) for failure in each.failures[:4])}"
        for number, each in enumerate(asked.rejected, 1)
    ]
    return [*notes, f"{model}: the call failed: {asked.error[:200]}"] if asked.error else notes


def _render_latest_todos(job: WritingJob) -> str:
    """Renders the latest to-do list of the facts, for the model to carry on; "" if there is none."""
    lists = [fact for fact in job.facts if fact.kind == "todo" and fact.live]
    return render_todos(max(lists, key=lambda fact: fact.position).text.split("\n")) if lists else ""


def render_todos(lines: Sequence[str]) -> str:
    """Renders a to-do list, one line an item, and the instruction to keep it; "" if there is none."""
    items = [line.strip() for line in lines if line.strip()]
    listed = "\n".join(item if item.startswith(("-", "*")) else f"- {item}" for item in items)
    return f"<todos>\n{listed}\n</todos>\n{TODO_ORDER}" if items else ""


# -- without a model ---------------------------------------------------------------------------------------------------


def write_fallback(previous: str, items: Items, *, budget: int, count: Count) -> str:
    """Writes the mechanical summary in at most `budget` tokens: the earlier one, then how each message begins.

    Each message has a line with its role and its first 200 characters, or fewer where that is too much: of what tools
    returned first, since what matters of it is in the facts. The earlier summary takes at most half, as beginning and
    end. Where the shortest lines are too much as well, the newest stay.
    """
    before = trim_lines(previous.strip(), budget // 2, count, Keep.ENDS) if previous.strip() else ""
    head = before + DIVIDER if before else ""
    available = budget - (count([head])[0] + 1 if head else 0)
    lines, sizes = _fit_lines([line for _, message in items if (line := _render_line(message)).words], available, count)
    gap = "({} earlier messages are left out here)"
    first, total = 0, sum(sizes)
    reserve = count([gap.format(len(lines)) + "\n"])[0] + 1
    while first < len(lines) and total + (reserve if first else 0) > available:
        total -= sizes[first]
        first += 1
    shown_lines = [gap.format(first), *lines[first:]] if first else lines
    text = clean_text(head + "\n".join(shown_lines))
    return text if count([text])[0] <= budget else trim_lines(text, budget, count)


class _FallbackLine(Struct, frozen=True):
    """A message on one line, so that it cannot look like another."""

    speaker: str
    words: str
    is_tool: bool

    def cut(self, room: int) -> str:
        """Returns the line with as many characters as it has in this room: see `_fit_lines`."""
        least, most = _LEAST_FALLBACK_CHARACTERS, FALLBACK_CHARACTERS
        limit = max(least, room - most) if self.is_tool else min(most, room - least)
        return f"{self.speaker}: {self.words[:limit]}{'...' if len(self.words) > limit else ''}"


def _fit_lines(lines: Sequence[_FallbackLine], budget: int, count: Count) -> tuple[list[str], list[int]]:
    """Cuts the lines so that all fit, if they can, and returns them with their tokens.

    The room is what a tool's line and another one have together: it comes out of the tool's line first.
    """

    def cut_all(room: int) -> tuple[list[str], list[int]]:
        texts = [line.cut(room) for line in lines]
        return texts, count([text + "\n" for text in texts]) if texts else []

    low, high = 2 * _LEAST_FALLBACK_CHARACTERS, 2 * FALLBACK_CHARACTERS
    best = cut_all(high)
    if sum(best[1]) <= budget:
        return best
    best = cut_all(low)
    while high - low > 1:
        tried = cut_all(middle := (low + high) // 2)
        if sum(tried[1]) <= budget:
            low, best = middle, tried
        else:
            high = middle
    return best


def _render_line(message: Message) -> _FallbackLine:
    words = " ".join(text for part in message.parts if (text := _render_part(part)))
    return _FallbackLine(get_speaker(message, "roles"), flatten(redact(words)), message.origin == "tool")


def _render_part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text.strip()
        case ToolCall(name=name, arguments=arguments):
            return f"[called tool: {name}] {arguments if arguments.strip('{} ') else ''}".strip()
        case ToolResult(name=name):
            return f"[tool {name or 'unknown'} returned] {get_text(Message('tool', (part,), 'tool'))}".strip()
        case _:
            return ""
