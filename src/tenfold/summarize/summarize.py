"""Writes the text that stands for a range: asks a model, checks, repairs once, and falls down the ladder.

A generator the engine delegates to (`yield from write(...)`): it yields Asks and receives Answers, and it always
returns a `Written`, never raises for what a model did. Facts are not its business: they are carried by code.
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
    """What is to be summarised, in at most `allotment` tokens.

    `facts` are already merged; `focus` is what the caller asks to dwell on. `previous` is an earlier summary that the
    new text takes up and replaces, `parts` are several to be merged into one, oldest first; `context` is earlier text
    to understand the messages by, which the new text does not repeat.
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
        """The earlier summaries that the new text stands for, oldest first."""
        return tuple(text for text in (self.previous.strip(), *(part.strip() for part in self.parts)) if text)


class _Tried(Struct, frozen=True):
    """What one step of the ladder gave: a usable `text`, or why there is none."""

    text: str
    why: str
    error: str = ""
    spent: Spent = Spent()


class _Way(Struct, frozen=True):
    """How one text is written: its task, the settings, and what the text is held against."""

    task: Task
    settings: Settings
    expected: Expected
    count: Count


def write(task: Task, settings: Settings, count: Count) -> Writing:
    """The summary of `task` within its allotment. Without models it is written by code and nothing is asked.

    Messages beyond what the first model can be sent are told in pieces, each folded into the text of those before.
    `on_failure` "ladder" ends with the extractive or mechanical text; "keep_stages" and "abort" end with `failed`.
    """
    if not settings.models:
        return _offline(task, count, (), Spent())
    room = _room(task, settings, settings.models[0], count)
    cut = pieces(task.items, budget=room, most=settings.chunks, count=count, style=settings.style)
    notes: list[str] = [_unread(cut.left_out, room)] if cut.left_out else []
    spent, rung, now = Spent(), RUNGS[0], task
    for number, piece in enumerate(cut.pieces):
        now = replace(task if not number else replace(now, parts=()), items=piece)
        written = yield from _climb(now, settings, count)
        spent = added(spent, written.spent) if written.spent.calls else spent
        where = f"piece {number + 1} of {len(cut.pieces)}: " if len(cut.pieces) > 1 else ""
        notes.extend(where + note for note in written.notes)
        if written.failed:
            rest = replace(now, items=tuple(item for piece in cut.pieces[number:] for item in piece))
            return _without_model(rest, settings, Written("", "none", tuple(notes), spent), count)
        rung = max(rung, written.rung, key=RUNGS.index)
        now = replace(now, previous=written.text)
    return Written(now.previous, rung, tuple(notes), spent)


RUNGS: tuple[Rung, ...] = ("model", "stricter", "next_model")
"""The rungs with a model, in order; a text written in pieces is on the last one that any of them needed."""


def _unread(items: Sequence[tuple[int, Message]], room: int) -> str:
    """What the text does not tell, because the model could not be sent it."""
    which = f"{items[0][0]} to {items[-1][0]}" if len(items) > 1 else f"{items[0][0]}"
    what = f"{len(items):,} messages ({which})" if len(items) > 1 else f"1 message ({which})"
    return f"{what} had no room in the {room:,} tokens that the summary model is sent; only their facts are carried"


def _without_model(task: Task, settings: Settings, tried: Written, count: Count) -> Written:
    """What a policy does where no model gave a usable text."""
    match settings.on_failure:
        case "ladder":
            return _offline(task, count, tried.notes, tried.spent)
        case "keep_stages" | "abort":
            return replace(tried, failed="no model gave a usable summary: " + "; ".join(tried.notes))
        case _:
            assert_never(settings.on_failure)


def _climb(task: Task, settings: Settings, count: Count) -> Writing:
    """One text by the rungs that have a model; `failed` when none of them gave a usable one."""
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
    """What a text is held against. Headings that would take half of the allotment by themselves are not asked for."""
    headings = settings.wanted(task.purpose)
    if headings and count(["\n".join(f"{heading}\n{NONE}\n" for heading in headings)])[0] > task.allotment // 2:
        headings = ()
    known = "\n".join((*task.earlier, task.context, task.focus, settings.instructions))
    return Expected(source_of(task.items, task.facts, known), allotment=task.allotment, headings=headings)


def _offline(task: Task, count: Count, notes: tuple[str, ...], spent: Spent) -> Written:
    """The rungs without a model. Earlier summaries are carried on in front, in half of the allotment."""
    before = _earlier(task, task.allotment // 2 if task.items else task.allotment - 1, count)
    room = task.allotment - (count([before + "\n"])[0] + 1 if before else 0)
    story = extractive(task.items, budget=room, count=count) if task.items else ""
    text = clean(f"{before}\n{story}".strip() if before else story)
    if text.strip() and count([text])[0] <= task.allotment:
        bare = mechanical(task.items, budget=room, count=count)
        return Written(
            text=text, rung="mechanical" if story == bare and not before else "extractive", notes=notes, spent=spent
        )
    return Written(
        text=mechanical(task.items, budget=task.allotment, count=count), rung="mechanical", notes=notes, spent=spent
    )


def _earlier(task: Task, room: int, count: Count) -> str:
    """The earlier summaries in at most `room` tokens: whole, or each thinned to an equal share."""
    whole = "\n".join(task.earlier)
    if not whole or count([whole])[0] <= room:
        return whole
    share = room // len(task.earlier) - 1
    return "\n".join(text for each in task.earlier if (text := thinned(each, share, count)))


def _try(way: _Way, step: Step) -> Generator[tuple[Ask, ...], tuple[Answer, ...], _Tried]:
    """One step: ask, check, on the first rung ask for a repair once, then mend by code."""
    allowed = max(int(way.task.allotment * step.share), 1)
    ask, unread = _asking(way, step, allowed)
    (answer,) = yield (ask,)
    spent = _cost(answer, step)
    if answer.error:
        return _Tried(text="", why=f"the call failed: {answer.error[:200]}", error=answer.error, spent=spent)
    text, failures = _checked(answer, way)
    if not failures:
        return _Tried(text=text, why=unread, spent=spent)
    found = _listed(failures)
    also = f"; {unread}" if unread else ""
    if step.rung == "model":
        (again,) = yield (_repairing(ask, way, text, failures),)
        spent = added(spent, _cost(again, step))
        if not again.error:
            other, better = _checked(again, way)
            if not better:
                return _Tried(text=other, why=f"repaired by asking ({found}){also}", spent=spent)
            if _weight(better) <= _weight(failures):
                text, failures = other, better
    mended = _mended(text, failures, way)
    why = f"mended by code ({found})" if mended else f"not usable ({found})"
    return _Tried(text=mended, why=why + also, spent=spent)


def _checked(answer: Answer, way: _Way) -> tuple[str, tuple[Failure, ...]]:
    """The answer's text, with headings as they were asked for where it has them, and what is wrong with it."""
    text = tidied(answer.text.strip(), way.expected.headings)
    return text, check(text, finish=answer.finish, expected=way.expected, count=way.count)


def _mended(text: str, failures: tuple[Failure, ...], way: _Way) -> str:
    """The text mended by code, "" when it still fails. Up to a quarter over the allotment is cut."""
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
    """Tokens of messages that a model can be sent beside the prompt, the earlier texts, and an answer to repair."""
    bound = settings.input_bound(model, task.allotment)
    sent = (settings.system, _prompt(task, settings), guide(settings.wanted(task.purpose), settings.sections))
    fixed = sum(count([*sent, _before(task, bound // 2, count), task.focus, settings.instructions]))
    return max(bound - fixed - task.allotment - _MARKS, _LEAST_ROOM)


_MARKS, _LEAST_ROOM = 40, 200
"""Tokens for the tags between the parts of a request, and the fewest that are worth sending of the messages."""


def _asking(way: _Way, step: Step, allowed: int) -> tuple[Summarize, str]:
    """The request: what never changes first, then the earlier texts, then the new messages; and what had no room."""
    task, settings, count = way.task, way.settings, way.count
    room = max(int(_room(task, settings, step.model, count) * step.share), _LEAST_ROOM)
    body = transcript(task.items, budget=room, count=count, style=settings.style)
    before = _before(task, settings.input_bound(step.model, task.allotment) // 2, count)
    messages = f"<conversation>\n{body.text}\n</conversation>" if task.items else ""
    head = _filled(_prompt(task, settings), way, allowed)
    given = {"existing_summary": before or NO_SUMMARY, "messages": messages}
    named = set(places(head))
    head = interpolate(head, given)
    purpose: Purpose = "update" if task.previous.strip() and task.purpose == "first" else task.purpose
    ask = Summarize(
        system=_filled(settings.system, way, allowed),
        prompt="\n\n".join(_beside(head, before, messages, named)),
        max_tokens=allowed,
        model=step.model,
        purpose=purpose,
        timeout=settings.timeout,
        tries=settings.tries,
        temperature=settings.temperature,
        effort=settings.effort,
    )
    return ask, _unread(body.left_out, room) if body.left_out else ""


def _beside(head: str, before: str, messages: str, named: set[str]) -> list[str]:
    """The parts of a request: what a user's own prompt has put in itself is not added once more."""
    parts = (head, "" if "existing_summary" in named else before, "" if "messages" in named else messages)
    return [part for part in parts if part]


def _prompt(task: Task, settings: Settings) -> str:
    """The prompt for this purpose; where there is an earlier text to take up, that for an update."""
    match task.purpose:
        case "merge":
            return settings.merge
        case "prefix" | "batch" | "branch" | "first" if not task.previous.strip():
            given = {"prefix": settings.prefix, "batch": settings.batch, "branch": settings.branch}
            return given.get(task.purpose, settings.first)
        case _:
            return settings.update


def _before(task: Task, room: int, count: Count) -> str:
    """What goes before the messages, each apart: the context, the earlier summary, the summaries to be merged."""
    texts = [("context", task.context.strip()), ("previous-summary", task.previous.strip())]
    texts += [("summary", part.strip()) for part in task.parts]
    given = [(tag, text) for tag, text in texts if text]
    share = room // max(len(given), 1)
    return "\n\n".join(f"<{tag}>\n{thinned(text, share, count)}\n</{tag}>" for tag, text in given)


def _repairing(ask: Summarize, way: _Way, text: str, failures: tuple[Failure, ...]) -> Summarize:
    listed = "\n".join(f"- {failure}" for failure in failures[:20])
    wish = _filled(way.settings.repair, way, ask.max_tokens).replace("{failures}", listed)
    prompt = f"{ask.prompt}\n\n<rejected-summary>\n{text}\n</rejected-summary>\n\n{wish or listed}"
    return replace(ask, prompt=prompt, purpose="repair")


def _filled(prompt: str, way: _Way, allowed: int) -> str:
    """A prompt with its places filled."""
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
    """A summary that cannot pass for our own marks, without secrets."""
    return redact(text.replace("tenfold-summary", "tenfold summary").replace(TITLE, "Facts"))
