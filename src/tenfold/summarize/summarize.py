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

from tenfold.record.ask import Answer, Ask, Summarize
from tenfold.record.block import Fact, Rung, Spent
from tenfold.record.message import Message
from tenfold.redact import redact
from tenfold.summarize.arrange import NONE, arranged, tidied
from tenfold.summarize.check import FATAL, Expected, Failure, check, mend, shortened, source_of, thinned
from tenfold.summarize.extract import extractive, mechanical
from tenfold.summarize.ladder import Settings, Step, Written, added, steps_of, worth_trying
from tenfold.summarize.section import TITLE, Count
from tenfold.summarize.structure import guide
from tenfold.summarize.template import NO_SUMMARY, interpolate, places
from tenfold.summarize.transcript import pieces, transcript

__all__ = ["Settings", "Task", "Written", "clean", "write"]

Purpose = Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"]
Writing = Generator[tuple[Ask, ...], tuple[Answer, ...], Written]


class Task(Struct, frozen=True):
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
    def earlier(self) -> tuple[str, ...]:
        """The earlier summaries that the new text replaces, oldest first."""
        return tuple(text for text in (self.previous.strip(), *(part.strip() for part in self.parts)) if text)


class _Tried(Struct, frozen=True):
    """The result of one step of the ladder: a usable `text`, or the `reason` why there is none."""

    text: str
    why: str
    error: str = ""
    spent: Spent = Spent()


class _Way(Struct, frozen=True):
    """What is needed to write one text: its task, the settings, and what it is checked against."""

    task: Task
    settings: Settings
    expected: Expected
    count: Count


def write(task: Task, settings: Settings, count: Count) -> Writing:
    """Writes the summary of `task` within its allotment. Without models, code writes it and nothing is asked.

    Messages beyond what the first model can be sent are summarized in pieces, each folded into the text so far. If
    `on_failure` is "ladder", the last resort is the extractive or mechanical text; with "keep_stages" and "abort" the
    result has a `failure`.
    """
    if not settings.models:
        return _offline(task, count, (), Spent())
    budget = _room(task, settings, settings.models[0], count)
    chunks = pieces(task.items, budget=budget, most=settings.chunks, count=count, style=settings.style)
    notes: list[str] = [_unread(chunks.left_out, budget)] if chunks.left_out else []
    spent, rung, current = Spent(), RUNGS[0], task
    for number, piece in enumerate(chunks.pieces):
        current = replace(task if not number else replace(current, parts=()), items=piece)
        written = yield from _climb(current, settings, count)
        spent = added(spent, written.spent) if written.spent.calls else spent
        prefix = f"piece {number + 1} of {len(chunks.pieces)}: " if len(chunks.pieces) > 1 else ""
        notes.extend(prefix + note for note in written.notes)
        if written.failed:
            rest = replace(current, items=tuple(item for piece in chunks.pieces[number:] for item in piece))
            return _without_model(rest, settings, Written("", "none", tuple(notes), spent), count)
        rung = max(rung, written.rung, key=RUNGS.index)
        current = replace(current, previous=written.text)
    return Written(current.previous, rung, tuple(notes), spent)


RUNGS: tuple[Rung, ...] = ("model", "stricter", "next_model")
"""The rungs with a model, in order. A text written in pieces is on the lowest one that any of them needed."""


def _unread(items: Sequence[tuple[int, Message]], room: int) -> str:
    """Describes the messages that the text leaves out because they exceed what the model can be sent."""
    which = f"{items[0][0]} to {items[-1][0]}" if len(items) > 1 else f"{items[0][0]}"
    what = f"{len(items):,} messages ({which})" if len(items) > 1 else f"1 message ({which})"
    return f"{what} had no room in the {room:,} tokens that the summary model is sent; only their facts are carried"


def _without_model(task: Task, settings: Settings, tried: Written, count: Count) -> Written:
    """Applies the policy's `on_failure` after no model gave a usable text."""
    match settings.on_failure:
        case "ladder":
            return _offline(task, count, tried.notes, tried.spent)
        case "keep_stages" | "abort":
            return replace(tried, failed="no model gave a usable summary: " + "; ".join(tried.notes))
        case _:
            assert_never(settings.on_failure)


def _climb(task: Task, settings: Settings, count: Count) -> Writing:
    """Writes one text by the rungs that have a model. The result has a `failure` if none gave a usable text."""
    way = _Way(task, settings, _expected(task, settings, count), count)
    notes: list[str] = []
    spent = Spent()
    error = ""
    for step in steps_of(settings):
        if not worth_trying(step, error):
            continue
        tried = yield from _try(way, step)
        spent = added(spent, tried.spent) if tried.spent.calls else spent
        if tried.text:
            notes.extend([f"{step.model}: {tried.why}"] if tried.why else [])
            return Written(text=clean(tried.text), rung=step.rung, notes=tuple(notes), spent=spent)
        notes.append(f"{step.rung} {step.model}: {tried.why}")
        error = tried.error
    return Written(text="", rung="none", notes=tuple(notes), spent=spent, failed="; ".join(notes))


def _expected(task: Task, settings: Settings, count: Count) -> Expected:
    """Builds what a text is checked against. Headings that would take half of the allotment are not asked for."""
    headings = settings.wanted(task.purpose)
    if headings and count(["\n".join(f"{heading}\n{NONE}\n" for heading in headings)])[0] > task.allotment // 2:
        headings = ()
    known = "\n".join((*task.earlier, task.context, task.focus, settings.instructions))
    return Expected(source_of(task.items, task.facts, known), allotment=task.allotment, headings=headings)


def _offline(task: Task, count: Count, notes: tuple[str, ...], spent: Spent) -> Written:
    """Writes the text without a model. Earlier summaries come first, in at most half of the allotment."""
    earlier = _earlier(task, task.allotment // 2 if task.items else task.allotment - 1, count)
    budget = task.allotment - (count([earlier + "\n"])[0] + 1 if earlier else 0)
    narrative = extractive(task.items, budget=budget, count=count) if task.items else ""
    text = clean(f"{earlier}\n{narrative}".strip() if earlier else narrative)
    if text.strip() and count([text])[0] <= task.allotment:
        bare = mechanical(task.items, budget=budget, count=count)
        return Written(
            text=text,
            rung="mechanical" if narrative == bare and not earlier else "extractive",
            notes=notes,
            spent=spent,
        )
    return Written(
        text=mechanical(task.items, budget=task.allotment, count=count), rung="mechanical", notes=notes, spent=spent
    )


def _earlier(task: Task, room: int, count: Count) -> str:
    """Returns the earlier summaries in at most `budget` tokens: whole, or each shortened to an equal share."""
    joined = "\n".join(task.earlier)
    if not joined or count([joined])[0] <= room:
        return joined
    share = room // len(task.earlier) - 1
    return "\n".join(text for each in task.earlier if (text := thinned(each, share, count)))


def _try(way: _Way, step: Step) -> Generator[tuple[Ask, ...], tuple[Answer, ...], _Tried]:
    """Runs one step: ask, check, on the first rung ask once for a repair, then mend by code."""
    allowed = max(int(way.task.allotment * step.share), 1)
    ask, left_out_note = _asking(way, step, allowed)
    (answer,) = yield (ask,)
    spent = _cost(answer, step)
    if answer.error:
        return _Tried(text="", why=f"the call failed: {answer.error[:200]}", error=answer.error, spent=spent)
    text, failures = _checked(answer, way)
    if not failures:
        return _Tried(text=text, why=left_out_note, spent=spent)
    found = _listed(failures)
    also = f"; {left_out_note}" if left_out_note else ""
    if step.rung == "model":
        (second_answer,) = yield (_repairing(ask, way, text, failures),)
        spent = added(spent, _cost(second_answer, step))
        if not second_answer.error:
            repaired, repaired_failures = _checked(second_answer, way)
            if not repaired_failures:
                return _Tried(text=repaired, why=f"repaired by asking ({found}){also}", spent=spent)
            if _weight(repaired_failures) <= _weight(failures):
                text, failures = repaired, repaired_failures
    mended = _mended(text, failures, way)
    why = f"mended by code ({found})" if mended else f"not usable ({found})"
    return _Tried(text=mended, why=why + also, spent=spent)


def _checked(answer: Answer, way: _Way) -> tuple[str, tuple[Failure, ...]]:
    """Returns the answer's text with its headings restored, and what is wrong with it."""
    text = tidied(answer.text.strip(), way.expected.headings)
    return text, check(text, finish=answer.finish, expected=way.expected, count=way.count)


def _mended(text: str, failures: tuple[Failure, ...], way: _Way) -> str:
    """Mends the text by code; "" if it still fails. Up to a quarter over the allotment is cut."""
    expected, count = way.expected, way.count
    mended = mend(text, failures)
    if not mended or count([mended])[0] > expected.allotment * 5 // 4:
        return ""
    if expected.headings:
        mended = arranged(mended, expected.headings, way.task.facts, allotment=expected.allotment, count=count)
    elif count([mended])[0] > expected.allotment:
        mended = shortened(mended, expected.allotment, count)
    return mended if mended and not check(mended, finish="stop", expected=expected, count=count) else ""


def _weight(failures: tuple[Failure, ...]) -> tuple[bool, int]:
    return any(failure.what in FATAL for failure in failures), len(failures)


def _listed(failures: tuple[Failure, ...]) -> str:
    shown = "; ".join(str(failure) for failure in failures[:4])
    return shown + (f"; and {len(failures) - 4} more" if len(failures) > 4 else "")


def _cost(answer: Answer, step: Step) -> Spent:
    spent = answer.spent
    return Spent(
        calls=max(spent.calls, 1),
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        model=spent.model or step.model,
        price=spent.price,
    )


def _room(task: Task, settings: Settings, model: str, count: Count) -> int:
    """Returns how many tokens of messages fit a request beside prompt, earlier texts, and an answer to repair."""
    bound = settings.input_bound(model, task.allotment)
    fixed_texts = (settings.system, _prompt(task, settings), guide(settings.wanted(task.purpose), settings.sections))
    fixed = sum(count([*fixed_texts, _before(task, bound // 2, count), task.focus, settings.instructions]))
    return max(bound - fixed - task.allotment - _MARKS, _LEAST_ROOM)


_MARKS, _LEAST_ROOM = 40, 200
"""Tokens for the tags between the parts of a request, and the fewest tokens of messages worth sending."""


def _asking(way: _Way, step: Step, allowed: int) -> tuple[Summarize, str]:
    """Builds the request: what never changes first, then the earlier texts, then the new messages.

    Also returns a note about messages that did not fit.
    """
    task, settings, count = way.task, way.settings, way.count
    budget = max(int(_room(task, settings, step.model, count) * step.share), _LEAST_ROOM)
    body = transcript(task.items, budget=budget, count=count, style=settings.style)
    before = _before(task, settings.input_bound(step.model, task.allotment) // 2, count)
    messages = f"<conversation>\n{body.text}\n</conversation>" if task.items else ""
    head = _filled(_prompt(task, settings), way, allowed)
    values = {"existing_summary": before or NO_SUMMARY, "messages": messages}
    named_places = set(places(head))
    head = interpolate(head, values)
    purpose: Purpose = "update" if task.previous.strip() and task.purpose == "first" else task.purpose
    ask = Summarize(
        system=_filled(settings.system, way, allowed),
        prompt="\n\n".join(_beside(head, before, messages, named_places)),
        max_tokens=allowed,
        model=step.model,
        purpose=purpose,
        timeout=settings.timeout,
        tries=settings.tries,
        temperature=settings.temperature,
        effort=settings.effort,
    )
    return ask, _unread(body.left_out, budget) if body.left_out else ""


def _beside(head: str, before: str, messages: str, named: set[str]) -> list[str]:
    """Returns the parts of a request. What a user's own prompt already contains is not added again."""
    parts = (head, "" if "existing_summary" in named else before, "" if "messages" in named else messages)
    return [part for part in parts if part]


def _prompt(task: Task, settings: Settings) -> str:
    """Returns the prompt for this purpose, or the update prompt if there is an earlier text to update."""
    match task.purpose:
        case "merge":
            return settings.merge
        case "prefix" | "batch" | "branch" | "first" if not task.previous.strip():
            prompts = {"prefix": settings.prefix, "batch": settings.batch, "branch": settings.branch}
            return prompts.get(task.purpose, settings.first)
        case _:
            return settings.update


def _before(task: Task, room: int, count: Count) -> str:
    """Renders what goes before the messages, each in its own tag: context, earlier summary, summaries to be merged."""
    texts = [("context", task.context.strip()), ("previous-summary", task.previous.strip())]
    texts += [("summary", part.strip()) for part in task.parts]
    tagged = [(tag, text) for tag, text in texts if text]
    share = room // max(len(tagged), 1)
    return "\n\n".join(f"<{tag}>\n{thinned(text, share, count)}\n</{tag}>" for tag, text in tagged)


def _repairing(ask: Summarize, way: _Way, text: str, failures: tuple[Failure, ...]) -> Summarize:
    listed = "\n".join(f"- {failure}" for failure in failures[:20])
    wish = _filled(way.settings.repair, way, ask.max_tokens).replace("{failures}", listed)
    prompt = f"{ask.prompt}\n\n<rejected-summary>\n{text}\n</rejected-summary>\n\n{wish or listed}"
    return replace(ask, prompt=prompt, purpose="repair")


def _filled(prompt: str, way: _Way, allowed: int) -> str:
    """Fills the placeholders of a prompt."""
    wishes = dict.fromkeys((way.settings.instructions.strip(), way.task.focus.strip()))
    headings = way.expected.headings
    structure = guide(headings, way.settings.sections)
    if not headings and way.task.purpose in ("first", "update"):
        structure = way.settings.told
    filled = (
        prompt.replace("{allotment}", str(allowed))
        .replace("{structure}", structure)
        .replace("{focus}", "\n".join(f"Additional focus: {wish}" for wish in wishes if wish))
    )
    return _GAP.sub("\n\n", filled).strip()


_GAP = re.compile(r"\n{3,}")


def clean(text: str) -> str:
    """Removes secrets from a summary, and text that looks like Tenfold's own marks."""
    return redact(text.replace("tenfold-summary", "tenfold summary").replace(TITLE, "Facts"))
