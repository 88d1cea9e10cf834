"""Writes the text that stands for a range: asks a model, checks, repairs once, and falls down the ladder.

A generator the engine delegates to (`yield from write(...)`): it yields Asks and receives Answers, and it always
returns a `Written`, never raises for what a model did. Facts are not its business: they are carried by code.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal, assert_never

from msgspec import Struct

from tenfold.record.ask import Answer, Ask, Summarize
from tenfold.record.block import Fact, Spent
from tenfold.record.message import Message
from tenfold.summarize.check import FATAL, Expected, Failure, check, mend, shortened, source_of
from tenfold.summarize.extract import extractive, mechanical
from tenfold.summarize.ladder import Settings, Step, Written, added, steps_of, worth_trying
from tenfold.summarize.redact import redact
from tenfold.summarize.section import TITLE, Count
from tenfold.summarize.transcript import transcript

__all__ = ["Settings", "Task", "Written", "clean", "write"]

Purpose = Literal["first", "update", "prefix", "batch", "merge", "branch", "repair"]
Writing = Generator[tuple[Ask, ...], tuple[Answer, ...], Written]


class Task(Struct, frozen=True):
    """What is to be summarised, in at most `allotment` tokens.

    `facts` are already merged; `previous` is the earlier summary's text, "" if none; `focus` is what the caller asks
    to dwell on.
    """

    items: tuple[tuple[int, Message], ...]
    facts: tuple[Fact, ...] = ()
    previous: str = ""
    allotment: int = 1_000
    purpose: Purpose = "first"
    focus: str = ""


class _Tried(Struct, frozen=True):
    """What one step of the ladder gave: a usable `text`, or why there is none."""

    text: str
    why: str
    error: str = ""
    spent: Spent = Spent()


def write(task: Task, settings: Settings, count: Count) -> Writing:
    """The summary of `task` within its allotment. Without models it is written by code and nothing is asked.

    `on_failure` "ladder" ends with the extractive or mechanical text; "keep_stages" and "abort" end with `failed`.
    """
    if not settings.models:
        return _offline(task, count, (), Spent())
    expected = Expected(
        source=source_of(task.items, task.facts, task.previous), allotment=task.allotment, headings=settings.headings
    )
    notes: list[str] = []
    spent = Spent()
    error = ""
    for step in steps_of(settings):
        if not worth_trying(step, error):
            continue
        tried = yield from _try(task, settings, step, expected, count)
        spent = added(spent, tried.spent) if tried.spent.calls else spent
        if tried.text:
            notes.extend([f"{step.model}: {tried.why}"] if tried.why else [])
            return Written(text=clean(tried.text), rung=step.rung, notes=tuple(notes), spent=spent)
        notes.append(f"{step.rung} {step.model}: {tried.why}")
        error = tried.error
    match settings.on_failure:
        case "ladder":
            return _offline(task, count, tuple(notes), spent)
        case "keep_stages" | "abort":
            return Written(
                text="",
                rung="none",
                notes=tuple(notes),
                spent=spent,
                failed="no model gave a usable summary: " + "; ".join(notes),
            )
        case _:
            assert_never(settings.on_failure)


def _offline(task: Task, count: Count, notes: tuple[str, ...], spent: Spent) -> Written:
    """The rungs without a model. An earlier summary is carried on in front, shortened to half of the allotment."""
    before = shortened(task.previous.strip(), task.allotment // 2, count) if task.previous.strip() else ""
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


def _try(
    task: Task, settings: Settings, step: Step, expected: Expected, count: Count
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], _Tried]:
    """One step: ask, check, on the first rung ask for a repair once, then mend by code."""
    allowed = max(int(task.allotment * step.share), 1)
    ask = _asking(task, settings, step, allowed, count)
    (answer,) = yield (ask,)
    spent = _cost(answer, step)
    if answer.error:
        return _Tried(text="", why=f"the call failed: {answer.error[:200]}", error=answer.error, spent=spent)
    text = answer.text.strip()
    failures = check(text, finish=answer.finish, expected=expected, count=count)
    if not failures:
        return _Tried(text=text, why="", spent=spent)
    found = _listed(failures)
    if step.rung == "model":
        (again,) = yield (_repairing(ask, settings, text, failures, allowed),)
        spent = added(spent, _cost(again, step))
        if not again.error:
            better = check(again.text.strip(), finish=again.finish, expected=expected, count=count)
            if not better:
                return _Tried(text=again.text.strip(), why=f"repaired by asking ({found})", spent=spent)
            if _weight(better) <= _weight(failures):
                text, failures = again.text.strip(), better
    mended = _mended(text, failures, expected, count)
    return _Tried(text=mended, why=f"mended by code ({found})" if mended else f"not usable ({found})", spent=spent)


def _mended(text: str, failures: tuple[Failure, ...], expected: Expected, count: Count) -> str:
    """The text mended by code, "" when it still fails. Up to a quarter over the allotment is cut at the end."""
    mended = mend(text, failures)
    if not mended:
        return ""
    if expected.allotment < count([mended])[0] <= expected.allotment * 5 // 4 and not expected.headings:
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


def _asking(task: Task, settings: Settings, step: Step, allowed: int, count: Count) -> Summarize:
    """The request: what never changes first, then the earlier summary, then the new messages."""
    prompt = settings.update if task.previous.strip() else settings.first
    head = _filled(prompt, allowed, settings, task.focus)
    system = _filled(settings.system, allowed, settings, "")
    before = f"\n\n<earlier-summary>\n{task.previous.strip()}\n</earlier-summary>" if task.previous.strip() else ""
    room = int(settings.input_tokens * step.share) - sum(count([system, head, before])) - 40
    body = transcript(task.items, budget=max(room, 200), count=count)
    purpose: Purpose = "update" if task.previous.strip() and task.purpose == "first" else task.purpose
    return Summarize(
        system=system,
        prompt=f"{head}{before}\n\n<messages>\n{body}\n</messages>",
        max_tokens=allowed,
        model=step.model,
        purpose=purpose,
    )


def _repairing(ask: Summarize, settings: Settings, text: str, failures: tuple[Failure, ...], allowed: int) -> Summarize:
    listed = "\n".join(f"- {failure}" for failure in failures[:20])
    wish = _filled(settings.repair, allowed, settings, "").replace("{failures}", listed)
    prompt = f"{ask.prompt}\n\n<rejected-summary>\n{text}\n</rejected-summary>\n\n{wish or listed}"
    return Summarize(system=ask.system, prompt=prompt, max_tokens=allowed, model=ask.model, purpose="repair")


def _filled(prompt: str, allowed: int, settings: Settings, focus: str) -> str:
    wish = f"Dwell in particular on: {focus}" if focus else ""
    return (
        prompt.replace("{allotment}", str(allowed))
        .replace("{headings}", "\n".join(settings.headings))
        .replace("{focus}", wish)
        .strip()
    )


def clean(text: str) -> str:
    """A summary that cannot pass for our own marks, without secrets."""
    return redact(text.replace("tenfold-summary", "tenfold summary").replace(TITLE, "Facts"))
