"""The writer of `threshold` and `sliding`: one briefing that replaces everything before.

If the model's text is too long, it is asked again over the same messages for half the words; a summary is never
summarized. If a call fails or gives nothing usable, the text is written mechanically, so there always is one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.section import Count
from tenfold.plan.continuation import extract_request, is_continuation
from tenfold.record.ask import Answer, Ask, SummaryAsk
from tenfold.record.block import ModelCost, Rung, Substitute
from tenfold.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.summarize.check import (
    FATAL_KINDS,
    CheckFailure,
    Expectation,
    build_source,
    check_summary,
    mend_summary,
    trim_end,
    trim_middle,
)
from tenfold.summarize.headings import EMPTY_SECTION, arrange_sections, restore_headings
from tenfold.summarize.ladder import SummaryResult, add_costs
from tenfold.summarize.structure import render_guide
from tenfold.summarize.write import clean_text
from tenfold.summarize.writer import WritingGenerator, WritingJob
from tenfold.text.excerpts import flatten
from tenfold.text.fence import fence_text, shorten_text
from tenfold.text.redaction import redact

Items = Sequence[tuple[int, Message]]

WORDS_PER_TOKEN = 0.75
"""Words to ask for per token of the answer, as published."""
FALLBACK_CHARACTERS = 200
"""Characters of each text in the mechanical summary, as published (there: bytes)."""
DIVIDER = "\n\n---\n\n"
END_MARK = "[End of the conversation]"
TODO_ORDER = (
    'Keep a "## Todo List" section with these items and their states at the end of the summary; whoever continues '
    "restores the list from it with the todos tool."
)
_EXCERPT_CHARS = (8_000, 2_000, 500)
"""Characters of one part sent to the model. Fewer are tried before any message is left out."""
_MIN_MESSAGES = 2
"""Messages that are always sent, as published."""


class BriefingWriter(Struct, frozen=True):
    """Writes one text of at most half the buffer, asking up to `attempts` times.

    The input is bounded by the model's window; `factor` is how far a token count may be off.
    """

    attempts: int = 3
    factor: float = 2.0

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        items = _list_messages(job)
        notes: list[str] = []
        spent = ModelCost()
        for number, model in enumerate(job.settings.models):
            written = yield from self._ask_model(job, items, model)
            spent = add_costs(spent, written.spent)
            notes.extend(written.notes)
            if written.text:
                rung: Rung = "next_model" if number else written.rung
                return SummaryResult(clean_text(written.text), rung, tuple(notes), spent)
        text = write_fallback("\n\n".join(job.previous), items, budget=job.budget, count=job.count)
        return SummaryResult(text, "mechanical", tuple(notes), spent)

    def get_answer_budget(self, job: WritingJob) -> int:
        """Returns the tokens of the answer: half the buffer of the window, and never more than the job's budget."""
        return job.budget if job.goal.text_limit is None else min(job.goal.text_limit, job.budget)

    def _ask_model(
        self, job: WritingJob, items: Items, model: str
    ) -> Generator[tuple[Ask, ...], tuple[Answer, ...], SummaryResult]:
        """Asks one model. The result has no text if the model gave none that can be used."""
        budget = int(job.settings.get_input_limit(model, self.get_answer_budget(job)) / self.factor)
        transcript = fit_messages(items, budget=budget, count=job.count)
        notes = [_describe_left_out(transcript, budget)] if transcript.left_out else []
        expected = _build_expectation(job, items)
        spent, rejected = ModelCost(), _RejectedAnswer()
        for attempt in range(max(1, self.attempts)):
            ask = self._build_request(job, transcript.text, model, attempt=attempt, rejected=rejected)
            (answer,) = yield (ask,)
            spent = add_costs(spent, _get_cost(answer, model))
            if answer.error:
                notes.append(f"{model}: the call failed: {answer.error[:200]}")
                break
            text = restore_headings(answer.text.strip(), expected.headings)
            failures = check_summary(text, finish=answer.finish_reason, expected=expected, count=job.count)
            rung: Rung = "stricter" if attempt else "model"
            if not failures:
                return SummaryResult(text, rung, tuple(notes), spent)
            notes.append(f"{model}, attempt {attempt + 1}: {'; '.join(str(f) for f in failures[:4])}")
            rejected = _RejectedAnswer(text, failures)
            if any(f.kind in FATAL_KINDS for f in failures):
                break
            last = attempt + 1 >= self.attempts
            if (attempt and not rejected.is_only_too_long) or last:
                mended = _mend_by_code(rejected, job, expected)
                if mended or last:
                    return SummaryResult(mended, rung, tuple(notes), spent)
        return SummaryResult("", "none", tuple(notes), spent)

    def _build_request(
        self, job: WritingJob, body: str, model: str, *, attempt: int, rejected: _RejectedAnswer
    ) -> SummaryAsk:
        settings = job.settings
        allowed = self.get_answer_budget(job)
        words = max(1, int(allowed * WORDS_PER_TOKEN) // (2 if attempt else 1))
        headings = settings.list_headings("first")
        earlier = "\n\n".join(job.previous)

        def fill_prompt(prompt: str) -> str:
            wishes = dict.fromkeys(w for w in (settings.instructions.strip(), job.focus.strip()) if w)
            return (
                prompt.replace("{allotment}", str(allowed))
                .replace("{words}", f"{words:,}".replace(",", ""))
                .replace("{headings}", "; ".join(h.lstrip("# ") for h in headings))
                .replace("{structure}", render_guide(headings, settings.sections))
                .replace("{focus}", "\n".join(f"Additional focus: {wish}" for wish in wishes))
                .replace("{failures}", "\n".join(f"- {f}" for f in rejected.failures[:20]))
                .strip()
            )

        limit = int(settings.get_input_limit(model, allowed) / self.factor) // 2
        before = f"<previous-summary>\n{trim_middle(earlier, limit, job.count)}\n</previous-summary>" if earlier else ""
        again = ""
        if rejected.text and not rejected.is_only_too_long:
            again = f"<rejected-summary>\n{rejected.text}\n</rejected-summary>\n\n{fill_prompt(settings.repair)}"
        prompt = fill_prompt(settings.update if earlier else settings.first)
        parts = (
            prompt,
            before,
            f"<conversation>\n{body}\n{END_MARK}\n</conversation>",
            _render_latest_todos(job),
            again,
        )
        return SummaryAsk(
            system="\n\n".join(fill_prompt(text) for text in (settings.system, settings.briefing) if text),
            prompt="\n\n".join(part for part in parts if part),
            max_tokens=allowed,
            model=model,
            purpose="repair" if again else "update" if earlier else "first",
            timeout=settings.timeout,
            tries=settings.tries,
        )


class _RejectedAnswer(Struct, frozen=True):
    """A text that was rejected, and why."""

    text: str = ""
    failures: tuple[CheckFailure, ...] = ()

    @property
    def is_only_too_long(self) -> bool:
        return all(f.kind in ("too_long", "cut_off") for f in self.failures)


def _build_expectation(job: WritingJob, items: Items) -> Expectation:
    headings = job.settings.list_headings("first")
    if (
        headings
        and job.count(["\n".join(f"{heading}\n{EMPTY_SECTION}\n" for heading in headings)])[0] > job.budget // 2
    ):
        headings = ()
    requests = (
        get_text(s.message) for s in job.piece.shown_items if isinstance(s, Substitute) and is_continuation(s.message)
    )
    known = "\n".join((*job.previous, *requests, job.focus, job.settings.instructions))
    return Expectation(build_source(items, job.facts, known), allotment=job.budget, headings=headings)


def _mend_by_code(rejected: _RejectedAnswer, job: WritingJob, expected: Expectation) -> str:
    """Mends the text by code: no lines with unknown names, under its headings, within its budget. "" if it fails."""
    mended = mend_summary(rejected.text, rejected.failures)
    if mended and expected.headings:
        mended = arrange_sections(mended, expected.headings, job.facts, allotment=expected.allotment, count=job.count)
    elif mended:
        mended = trim_end(mended, expected.allotment, job.count)
    return mended if mended and not check_summary(mended, finish="stop", expected=expected, count=job.count) else ""


def _get_cost(answer: Answer, model: str) -> ModelCost:
    return replace(answer.spent, calls=max(answer.spent.calls, 1), model=answer.spent.model or model)


def _render_latest_todos(job: WritingJob) -> str:
    """Renders the latest to-do list of the facts, for the model to carry on; "" if there is none."""
    lists = [fact for fact in job.facts if fact.kind == "todo" and fact.live]
    return render_todos(max(lists, key=lambda fact: fact.position).text.split("\n")) if lists else ""


def render_todos(lines: Sequence[str]) -> str:
    """Renders a to-do list, one line an item, and the instruction to keep it; "" if there is none."""
    items = [line.strip() for line in lines if line.strip()]
    listed = "\n".join(item if item.startswith(("-", "*")) else f"- {item}" for item in items)
    return f"<todos>\n{listed}\n</todos>\n{TODO_ORDER}" if items else ""


# -- what the model is sent --------------------------------------------------------------------------------------------


class BriefingTranscript(Struct, frozen=True):
    """The conversation as text, and the oldest messages that did not fit."""

    text: str
    left_out: tuple[tuple[int, Message], ...] = ()


def fit_messages(items: Items, *, budget: int, count: Count) -> BriefingTranscript:
    """Renders the messages in at most `budget` tokens: long parts get shorter, then the oldest messages go.

    At least the last two stay, however long.
    """
    lines: list[str] = []
    sizes: list[int] = []
    for limit in _EXCERPT_CHARS:
        lines = [_render_message(message, limit) for _, message in items]
        sizes = count([line + "\n" for line in lines]) if lines else []
        if sum(sizes) <= budget:
            break
    first, total = 0, sum(sizes)
    while total > budget and len(lines) - first > _MIN_MESSAGES:
        total -= sizes[first]
        first += 1
    left_out = tuple(items[:first])
    head = [f"({first} earlier messages are left out here)"] if first else []
    return BriefingTranscript("\n".join((*head, *(line for line in lines[first:] if line))), left_out)


def _describe_left_out(transcript: BriefingTranscript, budget: int) -> str:
    first, last = transcript.left_out[0][0], transcript.left_out[-1][0]
    return (
        f"{len(transcript.left_out):,} messages ({first} to {last}) had no room in the {budget:,} "
        "tokens that the summary "
        "model is sent; only their facts are carried"
    )


def _render_message(message: Message, limit: int) -> str:
    """Renders one message: texts after their role, each call and each result by name with an excerpt."""
    label = get_speaker(message)
    out: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                foreign = message.origin in ("tool", "harness")
                shown_text = fence_text(text, limit, message.origin) if foreign else shorten_text(text, limit)
                out.append(f"{label}: {shown_text}")
            case ToolCall(name=name, arguments=arguments):
                out.append(f"{label}: [called tool: {name}] {shorten_text(arguments, limit // 2)}")
            case ToolResult(name=name):
                failed = " (an error)" if part.is_error else ""
                out.append(f"{label}: [tool {name or 'unknown'} returned a result]{failed}")
                body = get_text(Message("tool", (part,), "tool"))
                out.extend([fence_text(body, limit, name or "result")] if body else [])
            case _:
                pass
    return redact("\n".join(out))


_SPEAKERS = {"human": "user", "model": "assistant", "tool": "tool", "harness": "context", "tenfold": "summary"}


def get_speaker(message: Message) -> str:
    """Returns whose words a message holds, as the briefing names them: by origin, since a tool may write user lines."""
    return _SPEAKERS[message.origin]


def _list_messages(job: WritingJob) -> Items:
    """Returns the messages to summarize. An older continuation becomes the request it quotes, if no other quotes it."""
    quoted_requests = {
        extract_request(s.message)
        for s in job.piece.shown_items
        if isinstance(s, Substitute) and is_continuation(s.message)
    }
    out: list[tuple[int, Message]] = []
    for at, message in job.items:
        if not is_continuation(message):
            out.append((at, message))
        elif (request := extract_request(message)) and request not in quoted_requests:
            out.append((at, Message("user", (Text(request),), "human")))
    return out


# -- without a model ---------------------------------------------------------------------------------------------------


def write_fallback(previous: str, items: Items, *, budget: int, count: Count) -> str:
    """Writes the mechanical summary in at most `budget` tokens: the earlier one, then how each text begins.

    Each text has its role. The earlier summary takes at most half, as beginning and end; of the texts the newest stay.
    Tool calls and results have no lines here, since what matters of them is in the facts.
    """
    before = trim_middle(previous.strip(), budget // 2, count) if previous.strip() else ""
    head = before + DIVIDER if before else ""
    lines = [line for _, message in items for line in _list_beginnings(message)]
    available = budget - (count([head])[0] + 1 if head else 0)
    sizes = count([line + "\n" for line in lines]) if lines else []
    gap = "({} earlier texts are left out here)"
    first, total = 0, sum(sizes)
    reserve = count([gap.format(len(lines)) + "\n"])[0] + 1
    while first < len(lines) and total + (reserve if first else 0) > available:
        total -= sizes[first]
        first += 1
    shown_lines = [gap.format(first), *lines[first:]] if first else lines
    text = clean_text(head + "\n".join(shown_lines))
    return text if count([text])[0] <= budget else trim_end(text, budget, count)


def _list_beginnings(message: Message) -> list[str]:
    """Returns the first characters of each text with its role, on one line so that it cannot look like another."""
    if message.origin == "tool":
        return []
    texts = [flatten(redact(part.text)) for part in message.parts if isinstance(part, Text) and part.text.strip()]
    cut = FALLBACK_CHARACTERS
    return [f"{get_speaker(message)}: {t[:cut]}{'...' if len(t) > cut else ''}" for t in texts]
