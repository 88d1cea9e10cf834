"""The writer of `threshold` and `sliding`: one briefing that replaces everything before.

If the model's text is too long, it is asked again over the same messages for half the words; a summary is never
summarized. If a call fails or gives nothing usable, the text is written mechanically, so there always is one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.stages.whole import is_continuation, quoted
from tenfold.record.ask import Answer, Ask, Summarize
from tenfold.record.block import Rung, Say, Spent
from tenfold.record.message import Message, Text, ToolCall, ToolResult, text_of
from tenfold.redact import redact
from tenfold.summarize.arrange import NONE, arranged, tidied
from tenfold.summarize.check import FATAL, Expected, Failure, check, mend, shortened, source_of, thinned
from tenfold.summarize.fence import bounded, fenced
from tenfold.summarize.ladder import Written, added
from tenfold.summarize.section import Count
from tenfold.summarize.structure import guide
from tenfold.summarize.summarize import clean
from tenfold.summarize.writer import Effect, Job
from tenfold.text import flat
from tenfold.trigger.triggers import CalibratedBuffer

Items = Sequence[tuple[int, Message]]

WORDS = 0.75
"""Words to ask for per token of the answer, as published."""
FALLBACK_CHARACTERS = 200
"""Characters of each text in the mechanical summary, as published (there: bytes)."""
DIVIDER = "\n\n---\n\n"
END = "[End of the conversation]"
TODO_ORDER = (
    'Keep a "## Todo List" section with these items and their states at the end of the summary; whoever continues '
    "restores the list from it with the todos tool."
)
_EXCERPTS = (8_000, 2_000, 500)
"""Characters of one part sent to the model. Fewer are tried before any message is left out."""
_FEWEST = 2
"""Messages that are always sent, as published."""


class Briefing(Struct, frozen=True):
    """Writes one text of at most half the buffer, asking up to `attempts` times.

    The input is bounded by the model's window; `factor` is how far a token count may be off.
    """

    attempts: int = 3
    factor: float = 2.0
    buffer: CalibratedBuffer = CalibratedBuffer()

    def write(self, job: Job) -> Effect:
        """See `Writer.write`."""
        items = _spoken(job)
        notes: list[str] = []
        spent = Spent()
        for number, model in enumerate(job.settings.models):
            written = yield from self._asked(job, items, model)
            spent = added(spent, written.spent)
            notes.extend(written.notes)
            if written.text:
                rung: Rung = "next_model" if number else written.rung
                return Written(clean(written.text), rung, tuple(notes), spent)
        text = fallback("\n\n".join(job.previous), items, budget=job.room, count=job.count)
        return Written(text, "mechanical", tuple(notes), spent)

    def allowed(self, job: Job) -> int:
        """Returns the tokens of the answer: half the buffer of the window, and never more than the job's budget."""
        return job.room if job.goal.window is None else min(self.buffer.summary(job.goal.window), job.room)

    def _asked(self, job: Job, items: Items, model: str) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Written]:
        """Asks one model. The result has no text if the model gave none that can be used."""
        budget = int(job.settings.input_bound(model, self.allowed(job)) / self.factor)
        transcript = fitting(items, budget=budget, count=job.count)
        notes = [_unsent(transcript, budget)] if transcript.left_out else []
        expected = _expected(job, items)
        spent, rejected = Spent(), _Answered()
        for attempt in range(max(1, self.attempts)):
            ask = self._ask(job, transcript.text, model, attempt=attempt, rejected=rejected)
            (answer,) = yield (ask,)
            spent = added(spent, _cost(answer, model))
            if answer.error:
                notes.append(f"{model}: the call failed: {answer.error[:200]}")
                break
            text = tidied(answer.text.strip(), expected.headings)
            failures = check(text, finish=answer.finish, expected=expected, count=job.count)
            rung: Rung = "stricter" if attempt else "model"
            if not failures:
                return Written(text, rung, tuple(notes), spent)
            notes.append(f"{model}, attempt {attempt + 1}: {'; '.join(str(f) for f in failures[:4])}")
            rejected = _Answered(text, failures)
            if any(f.what in FATAL for f in failures):
                break
            last = attempt + 1 >= self.attempts
            if (attempt and not rejected.only_long) or last:
                mended = _mended(rejected, job, expected)
                if mended or last:
                    return Written(mended, rung, tuple(notes), spent)
        return Written("", "none", tuple(notes), spent)

    def _ask(self, job: Job, body: str, model: str, *, attempt: int, rejected: _Answered) -> Summarize:
        settings = job.settings
        allowed = self.allowed(job)
        words = max(1, int(allowed * WORDS) // (2 if attempt else 1))
        headings = settings.wanted("first")
        earlier = "\n\n".join(job.previous)

        def filled(prompt: str) -> str:
            wishes = dict.fromkeys(w for w in (settings.instructions.strip(), job.focus.strip()) if w)
            return (
                prompt.replace("{allotment}", str(allowed))
                .replace("{words}", f"{words:,}".replace(",", ""))
                .replace("{headings}", "; ".join(h.lstrip("# ") for h in headings))
                .replace("{structure}", guide(headings, settings.sections))
                .replace("{focus}", "\n".join(f"Additional focus: {wish}" for wish in wishes))
                .replace("{failures}", "\n".join(f"- {f}" for f in rejected.failures[:20]))
                .strip()
            )

        limit = int(settings.input_bound(model, allowed) / self.factor) // 2
        before = f"<previous-summary>\n{thinned(earlier, limit, job.count)}\n</previous-summary>" if earlier else ""
        again = ""
        if rejected.text and not rejected.only_long:
            again = f"<rejected-summary>\n{rejected.text}\n</rejected-summary>\n\n{filled(settings.repair)}"
        prompt = filled(settings.update if earlier else settings.first)
        parts = (prompt, before, f"<conversation>\n{body}\n{END}\n</conversation>", _todos(job), again)
        return Summarize(
            system="\n\n".join(filled(text) for text in (settings.system, settings.briefing) if text),
            prompt="\n\n".join(part for part in parts if part),
            max_tokens=allowed,
            model=model,
            purpose="repair" if again else "update" if earlier else "first",
            timeout=settings.timeout,
            tries=settings.tries,
        )


class _Answered(Struct, frozen=True):
    """A text that was rejected, and why."""

    text: str = ""
    failures: tuple[Failure, ...] = ()

    @property
    def only_long(self) -> bool:
        return all(f.what in ("too_long", "cut_off") for f in self.failures)


def _expected(job: Job, items: Items) -> Expected:
    headings = job.settings.wanted("first")
    if headings and job.count(["\n".join(f"{heading}\n{NONE}\n" for heading in headings)])[0] > job.room // 2:
        headings = ()
    requests = (text_of(s.message) for s in job.piece.show if isinstance(s, Say) and is_continuation(s.message))
    known = "\n".join((*job.previous, *requests, job.focus, job.settings.instructions))
    return Expected(source_of(items, job.facts, known), allotment=job.room, headings=headings)


def _mended(answered: _Answered, job: Job, expected: Expected) -> str:
    """Mends the text by code: no lines with unknown names, under its headings, within its budget. "" if it fails."""
    mended = mend(answered.text, answered.failures)
    if mended and expected.headings:
        mended = arranged(mended, expected.headings, job.facts, allotment=expected.allotment, count=job.count)
    elif mended:
        mended = shortened(mended, expected.allotment, job.count)
    return mended if mended and not check(mended, finish="stop", expected=expected, count=job.count) else ""


def _cost(answer: Answer, model: str) -> Spent:
    return replace(answer.spent, calls=max(answer.spent.calls, 1), model=answer.spent.model or model)


def _todos(job: Job) -> str:
    """Renders the latest to-do list of the facts, for the model to carry on; "" if there is none."""
    lists = [fact for fact in job.facts if fact.kind == "todo" and fact.live]
    return todo_block(max(lists, key=lambda fact: fact.at).text.split("\n")) if lists else ""


def todo_block(lines: Sequence[str]) -> str:
    """Renders a to-do list, one line an item, and the instruction to keep it; "" if there is none."""
    items = [line.strip() for line in lines if line.strip()]
    listed = "\n".join(item if item.startswith(("-", "*")) else f"- {item}" for item in items)
    return f"<todos>\n{listed}\n</todos>\n{TODO_ORDER}" if items else ""


# -- what the model is sent --------------------------------------------------------------------------------------------


class Sent(Struct, frozen=True):
    """The conversation as text, and the oldest messages that did not fit."""

    text: str
    left_out: tuple[tuple[int, Message], ...] = ()


def fitting(items: Items, *, budget: int, count: Count) -> Sent:
    """Renders the messages in at most `budget` tokens: long parts get shorter, then the oldest messages go.

    At least the last two stay, however long.
    """
    lines: list[str] = []
    sizes: list[int] = []
    for limit in _EXCERPTS:
        lines = [_lines(message, limit) for _, message in items]
        sizes = count([line + "\n" for line in lines]) if lines else []
        if sum(sizes) <= budget:
            break
    first, total = 0, sum(sizes)
    while total > budget and len(lines) - first > _FEWEST:
        total -= sizes[first]
        first += 1
    left_out = tuple(items[:first])
    head = [f"({first} earlier messages are left out here)"] if first else []
    return Sent("\n".join((*head, *(line for line in lines[first:] if line))), left_out)


def _unsent(sent: Sent, room: int) -> str:
    first, last = sent.left_out[0][0], sent.left_out[-1][0]
    return (
        f"{len(sent.left_out):,} messages ({first} to {last}) had no room in the {room:,} tokens that the summary "
        "model is sent; only their facts are carried"
    )


def _lines(message: Message, limit: int) -> str:
    """Renders one message: texts after their role, each call and each result by name with an excerpt."""
    label = speaker(message)
    out: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                foreign = message.origin in ("tool", "harness")
                shown_text = fenced(text, limit, message.origin) if foreign else bounded(text, limit)
                out.append(f"{label}: {shown_text}")
            case ToolCall(name=name, arguments=arguments):
                out.append(f"{label}: [called tool: {name}] {bounded(arguments, limit // 2)}")
            case ToolResult(name=name):
                failed = " (an error)" if part.error else ""
                out.append(f"{label}: [tool {name or 'unknown'} returned a result]{failed}")
                body = text_of(Message("tool", (part,), "tool"))
                out.extend([fenced(body, limit, name or "result")] if body else [])
            case _:
                pass
    return redact("\n".join(out))


_SPEAKERS = {"human": "user", "model": "assistant", "tool": "tool", "harness": "context", "tenfold": "summary"}


def speaker(message: Message) -> str:
    """Returns whose words a message holds, as the briefing names them: by origin, since a tool may write user lines."""
    return _SPEAKERS[message.origin]


def _spoken(job: Job) -> Items:
    """Returns the messages to summarize. An older continuation becomes the request it quotes, if no other quotes it."""
    quoted_requests = {quoted(s.message) for s in job.piece.show if isinstance(s, Say) and is_continuation(s.message)}
    out: list[tuple[int, Message]] = []
    for at, message in job.items:
        if not is_continuation(message):
            out.append((at, message))
        elif (request := quoted(message)) and request not in quoted_requests:
            out.append((at, Message("user", (Text(request),), "human")))
    return out


# -- without a model ---------------------------------------------------------------------------------------------------


def fallback(previous: str, items: Items, *, budget: int, count: Count) -> str:
    """Writes the mechanical summary in at most `budget` tokens: the earlier one, then how each text begins.

    Each text has its role. The earlier summary takes at most half, as beginning and end; of the texts the newest stay.
    Tool calls and results have no lines here, since what matters of them is in the facts.
    """
    before = thinned(previous.strip(), budget // 2, count) if previous.strip() else ""
    head = before + DIVIDER if before else ""
    lines = [line for _, message in items for line in _beginnings(message)]
    available = budget - (count([head])[0] + 1 if head else 0)
    sizes = count([line + "\n" for line in lines]) if lines else []
    gap = "({} earlier texts are left out here)"
    first, total = 0, sum(sizes)
    reserve = count([gap.format(len(lines)) + "\n"])[0] + 1
    while first < len(lines) and total + (reserve if first else 0) > available:
        total -= sizes[first]
        first += 1
    shown_lines = [gap.format(first), *lines[first:]] if first else lines
    text = clean(head + "\n".join(shown_lines))
    return text if count([text])[0] <= budget else shortened(text, budget, count)


def _beginnings(message: Message) -> list[str]:
    """Returns the first characters of each text with its role, on one line so that it cannot look like another."""
    if message.origin == "tool":
        return []
    texts = [flat(redact(part.text)) for part in message.parts if isinstance(part, Text) and part.text.strip()]
    cut = FALLBACK_CHARACTERS
    return [f"{speaker(message)}: {t[:cut]}{'...' if len(t) > cut else ''}" for t in texts]
