"""The writer of `threshold` and `sliding`: one briefing that replaces everything before.

If the model's text is too long, it is asked again over the same messages for half the words; a summary is never
summarized. If a call fails or gives nothing usable, the text is written mechanically, so there always is one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.protected import extract_request, is_continuation
from tenfold.compaction.summarize.asking import (
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
from tenfold.compaction.summarize.ladder import Asking, SummaryResult, SummaryTask, WritingGenerator
from tenfold.compaction.summarize.transcript import Items, fit_messages, get_speaker
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.meter.windows import find_window_row
from tenfold.core.record.ask import SummaryAsk
from tenfold.core.record.block import Block, ModelCost, Rung, Substitute, add_costs
from tenfold.core.record.entry import Attempt, get_message
from tenfold.core.record.message import Message, Part, Text, ToolCall, ToolResult, get_text
from tenfold.core.text.excerpts import Count, Keep, flatten, trim_lines
from tenfold.core.text.redaction import redact
from tenfold.core.view.fold import View
from tenfold.designs.threshold.trigger import get_text_limit

MIN_TURNS, MIN_ANSWERS = 3, 6
"""How long a text stands at least for each time that a model was asked for it, in messages of the user, or in answers
of the agent."""
_MAX_ENTRIES = 2_000
"""Entries that are looked at for the last time that a model was asked."""
WORDS_PER_TOKEN = 0.75
"""Words to ask for per token of the answer, as published."""
FALLBACK_CHARACTERS = 200
"""Characters of each message in the mechanical summary, as published (there: bytes)."""
LEAST_FALLBACK_CHARACTERS = 60
"""What a line keeps of them at least, about ten words: fewer say nothing, so then a message has no line."""
_LINE_ORDER = (
    ("user", LEAST_FALLBACK_CHARACTERS),
    ("model", LEAST_FALLBACK_CHARACTERS),
    ("user", FALLBACK_CHARACTERS),
    ("model", FALLBACK_CHARACTERS),
    ("tool", LEAST_FALLBACK_CHARACTERS),
    ("tool", FALLBACK_CHARACTERS),
)
"""Whose lines get their room first, and how many characters of a message. `tool` is all that nobody said."""
DIVIDER = "\n\n---\n\n"
END_MARK = "[End of the conversation]"
TODO_ORDER = (
    'Keep a "## Todo List" section with these items and their states at the end of the summary; whoever continues '
    "restores the list from it with the todos tool."
)


class BriefingWriter(Struct, frozen=True):
    """Writes one text of at most half the buffer, asking up to `attempts` times.

    The conversation and the earlier summary take at most the share of the model's window that the settings allow.
    `briefing` is a prompt that follows the system prompt, with the places `{headings}` and `{words}`.
    """

    attempts: int = 3
    briefing: str = ""

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

    @staticmethod
    def explain_wait(view: View) -> str:
        """Explains why it is too early to ask a model again. "" if it may be asked.

        It is where a text would be written anew in every turn or two, since there is little room above what must stay.
        """
        turns = answers = 0
        for position in range(view.length - 1, max(view.length - _MAX_ENTRIES, 0) - 1, -1):
            entry = view.path.get_entry(position)
            if isinstance(entry, Block | Attempt) and entry.spent.calls:
                calls = entry.spent.calls
                if turns >= MIN_TURNS * calls or answers >= MIN_ANSWERS * calls:
                    return ""
                times = "" if calls == 1 else f"{calls} times "
                return (
                    f"the summary model was asked {times}{turns:,} messages of the user and {answers:,} answers ago, "
                    f"and is asked again after {MIN_TURNS * calls} messages or {MIN_ANSWERS * calls} answers"
                )
            message = get_message(entry)
            turns += message is not None and message.origin == "human"
            answers += message is not None and message.origin == "model"
        return ""

    def get_answer_budget(self, job: WritingJob) -> int:
        """Returns the tokens of the answer: half the buffer of the window, and never more than the job's budget."""
        return job.budget if job.goal.window is None else min(get_text_limit(job.goal.window), job.budget)

    def _ask_for_briefing(
        self, context: WritingContext, job: WritingJob, model: str
    ) -> Asking[tuple[AskedText, tuple[str, ...]]]:
        """Asks one model. Also returns a note about messages that did not fit."""
        allowed = _limit_answer(self.get_answer_budget(job), model)
        limit = job.settings.get_input_limit(model, allowed, job.goal.window)
        budget = int(limit / max(1.0, job.token_factor))
        earlier = render_earlier_texts(context.task, budget // 2, job.count)
        budget -= job.count([earlier])[0]
        transcript = fit_messages(context.task.items, budget=budget, count=job.count)
        body = f"<conversation>\n{transcript.text}\n{END_MARK}\n</conversation>"
        rest = (earlier, body, _render_latest_todos(job))

        def build_next(rejected: tuple[RejectedAnswer, ...]) -> SummaryAsk | None:
            last = rejected[-1] if rejected else None
            if last is None:
                return _build_briefing_ask(context, (self.briefing, *rest), model, allowed, 1)
            has_been_repaired = len(rejected) > 1 and not last.is_only_too_long
            if last.is_fatal or has_been_repaired or len(rejected) >= self.attempts:
                return None
            shorter = _build_briefing_ask(context, (self.briefing, *rest), model, allowed, 2)
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
    context: WritingContext, texts: Sequence[str], model: str, allowed: int, divisor: int
) -> SummaryAsk:
    """Builds a request for so many tokens, and a `divisor`th of the words that they hold."""
    settings, is_update = context.settings, bool(context.task.previous)
    words = max(1, int(allowed * WORDS_PER_TOKEN) // divisor)
    headings = "; ".join(heading.lstrip("# ") for heading in context.headings)
    system, briefing, prompt = (
        fill_prompt(text, context, allowed, words=str(words), headings=headings)
        for text in (settings.system, texts[0], settings.update if is_update else settings.first)
    )
    return build_ask(
        context,
        "\n\n".join(text for text in (system, briefing) if text),
        (prompt, *texts[1:]),
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

    Each message has a line with its role and its first 200 characters. Where that is too much, see `_fit_lines`, and a
    line says which messages have none. The earlier summary takes at most half, as beginning and end.
    """
    before = trim_lines(previous.strip(), budget // 2, count, Keep.ENDS) if previous.strip() else ""
    head = before + DIVIDER if before else ""
    available = budget - (count([head])[0] + 1 if head else 0)
    lines = [line for position, message in items if (line := _render_line(position, message)).words]
    text = clean_text(head + "\n".join(_fit_lines(lines, available, count)))
    while (excess := count([text])[0] - budget) > 0 and available > 0:  # joined, lines may count more than one by one
        available -= excess
        text = clean_text(head + "\n".join(_fit_lines(lines, available, count)))
    return text if excess <= 0 else trim_lines(text, budget, count)


class _FallbackLine(Struct, frozen=True):
    """A message on one line, so that it cannot look like another. `kind` is its place in `_LINE_ORDER`."""

    position: int
    speaker: str
    words: str
    kind: str

    def cut(self, limit: int) -> str:
        """Returns the line with so many characters of the message."""
        return f"{self.speaker}: {self.words[:limit]}{'...' if len(self.words) > limit else ''}"


def _fit_lines(lines: Sequence[_FallbackLine], budget: int, count: Count) -> list[str]:
    """Returns the lines in at most `budget` tokens, with the characters that each has room for in `_LINE_ORDER`.

    Of a kind, the newest get their room first. It ends at the first line that does not fit, so no tool has a line where
    words of a person have none.
    """
    if not lines:
        return []
    sizes = {n: count([line.cut(n) + "\n" for line in lines]) for n in (LEAST_FALLBACK_CHARACTERS, FALLBACK_CHARACTERS)}
    if sum(sizes[LEAST_FALLBACK_CHARACTERS]) > budget:
        budget -= count([_describe_left_out(lines, lines) + "\n"])[0] + 1
    shown: dict[int, int] = {}
    for kind, characters in _LINE_ORDER:
        for at in range(len(lines) - 1, -1, -1):
            if lines[at].kind == kind:
                budget -= sizes[characters][at] - (sizes[shown[at]][at] if at in shown else 0)
                if budget < 0:
                    break
                shown[at] = characters
    left_out = [line for at, line in enumerate(lines) if at not in shown]
    note = [_describe_left_out(left_out, lines)] if left_out else []
    return [*note, *(lines[at].cut(shown[at]) for at in sorted(shown))]


def _describe_left_out(left_out: Sequence[_FallbackLine], lines: Sequence[_FallbackLine]) -> str:
    speakers = Counter(line.speaker for line in left_out)
    whose = ", ".join(f"{number:,} {speaker}" for speaker, number in speakers.most_common())
    return (
        f"({len(left_out):,} of {len(lines):,} messages have no line here: {whose}. They lie between "
        f"[{left_out[0].position}] and [{left_out[-1].position}] of the session, which keeps them in full.)"
    )


def _render_line(position: int, message: Message) -> _FallbackLine:
    words = " ".join(text for part in message.parts if (text := _render_part(part)))
    said = any(isinstance(part, Text) and part.text.strip() for part in message.parts)
    kind = {"human": "user", "model": "model"}.get(message.origin, "tool") if said else "tool"
    return _FallbackLine(position, get_speaker(message, "roles"), flatten(redact(words)), kind)


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
