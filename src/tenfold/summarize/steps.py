"""Messages as lines of a story: what was asked, what the assistant said and did, what came of it.

Injected context and demonstrations (origin harness) are no part of the story.

Shared by the extractive summary and its coarser forms; nothing here invents a word that is not in the messages,
apart from counts and the names of roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.calls.doing import Doing, Verb, opened_by, read_call, text_action
from tenfold.calls.outcomes import judge, went_well
from tenfold.plan.stages.condense import retold
from tenfold.record.message import Message, Text, calls_of, result_of, text_of
from tenfold.redact import redacted
from tenfold.remembering import remembered
from tenfold.text import clip, flat, is_prose, opening


class Done(Struct, frozen=True):
    """One tool call and what came of it: `note` is "ok", "exit 1", "failed" and the like, "" without a result."""

    doing: Doing
    note: str = ""
    error: str = ""
    lines: int = 0


class Moment(Struct, frozen=True):
    """One line's worth of story: somebody's words, or one step of the assistant with its calls."""

    at: int
    last: int
    who: Literal["user", "assistant", "tool", "summary"]
    said: str
    calls: tuple[Done, ...] = ()


def moments(items: Iterable[tuple[int, Message]]) -> list[Moment]:
    """The story of a range: user messages as they come, each assistant answer with the results of its calls."""
    out: list[Moment] = []
    open_at: dict[str, tuple[int, int]] = {}
    calls: dict[int, list[Done]] = {}
    acting: int | None = None
    opened = ""
    for at, message in items:
        if message.origin == "harness":
            continue
        result = result_of(message)
        if message.role == "assistant":
            done = [Done(doing=read_call(call)) for call in calls_of(message)]
            for number, call in enumerate(calls_of(message)):
                open_at[call.id] = (len(out), number)
            action = None if done else text_action(message)
            acting = len(out) if action else None
            calls[len(out)] = [Done(doing=read_call(action, opened))] if action else done
            out.append(Moment(at=at, last=at, who="assistant", said=retold(_words(message))))
        elif result is not None or message.origin == "tool":
            place = (
                open_at.pop(result.call, None) if result is not None else (acting, 0) if acting is not None else None
            )
            if place is not None:
                step, number = place
                calls[step][number] = _came(calls[step][number].doing, message, at)
                out[step] = Moment(at=out[step].at, last=at, who="assistant", said=out[step].said)
            else:
                out.append(Moment(at=at, last=at, who="tool", said=text_of(message)))
            acting = None
            opened = opened_by(text_of(message), opened)
        elif message.role == "user":
            out.append(
                Moment(at=at, last=at, who="summary" if message.origin == "tenfold" else "user", said=text_of(message))
            )
    return [
        Moment(at=m.at, last=m.last, who=m.who, said=m.said, calls=tuple(calls.get(n, ()))) for n, m in enumerate(out)
    ]


def _words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _came(doing: Doing, message: Message, at: int) -> Done:
    result = result_of(message)
    text = text_of(message)
    outcome = judge(doing, text, flagged=bool(result and result.error), at=at)
    error = outcome.errors[0].text if outcome.errors else ""
    return Done(doing=doing, note=outcome.note, error=error, lines=text.count("\n") + 1 if text.strip() else 0)


@remembered
def first_sentence(text: str, limit: int) -> str:
    """The first line of words in a text (not code, not a heading's marks), at most `limit` characters, on one line."""
    lines = [line for line in text.split("\n") if line.strip()]
    chosen = next((line for line in lines if is_prose(line)), lines[0] if lines else "")
    chosen = flat(chosen.replace("**", "")).lstrip("#*- ")
    end = next((chosen.find(stop) + 1 for stop in (". ", "! ", "? ", "。") if 20 < chosen.find(stop) < limit), 0)
    return opening(chosen[:end] if end else chosen, limit)


def tell_call(done: Done, limit: int = 150) -> str:
    """One call: its name or command, its outcome, its first error line; tool output is quoted."""
    label = opening(flat(done.doing.label), limit)
    if not done.note:
        return f"{label} -> (no result)"
    size = f", {done.lines} lines" if went_well(done.note) and done.lines > 1 else ""
    error = f' tool: "{opening(flat(done.error), 160)}"' if done.error and not went_well(done.note) else ""
    return f"{label} -> {done.note}{size}{error}"


def tell(moment: Moment) -> str:
    """One moment in full: one line for the words and one for each call."""
    where = f"[{moment.at}]"
    match moment.who:
        case "user":
            lines = [f"{where} User: {clip(flat(clip(moment.said, 4_000)), 500)}"]
        case "tool" | "summary":
            lines = [f'{where} {moment.who}: "{opening(flat(moment.said[:2_000]), 160)}"']
        case _:
            said = first_sentence(moment.said, 240)
            lines = [f"{where} Assistant: {said}" if said else f"{where} Assistant:"]
            lines.extend(f"  - {tell_call(done)}" for done in moment.calls)
    return redacted("\n".join(lines))


_VERBS: dict[Verb, str] = {
    "read": "read",
    "write": "wrote",
    "modify": "edited",
    "delete": "deleted",
    "rename": "renamed",
    "shell": "ran",
    "todo": "updated plan with",
    "view": "read",
    "other": "called",
}


def tell_run(run: Sequence[Moment]) -> str:
    """Several steps as one line: calls grouped by what they do, with counts, names and how many failed."""
    groups: dict[str, list[Done]] = {}
    for moment in run:
        for done in moment.calls:
            groups.setdefault(_VERBS[done.doing.verb], []).append(done)
    parts: list[str] = []
    for verb, group in groups.items():
        names = list(dict.fromkeys(_name(done) for done in group))
        bad = sum(1 for done in group if done.note and not went_well(done.note))
        shown = ", ".join(names[:5]) + (f", +{len(names) - 5} more" if len(names) > 5 else "")
        times = f" {len(group)}x" if len(group) > 1 else ""
        parts.append(f"{verb}{times}: {shown}" + (f" ({bad} with errors)" if bad else ""))
    said = next((first_sentence(m.said, 120) for m in reversed(run) if m.said.strip()), "")
    span = f"[{run[0].at}-{run[-1].last}]" if run[-1].last > run[0].at else f"[{run[0].at}]"
    return redacted(f"{span} Assistant: {said}{' | ' if said and parts else ''}{'; '.join(parts)}".rstrip())


def _name(done: Done) -> str:
    if done.doing.verb == "todo":
        return done.doing.source
    if done.doing.effects and done.doing.verb != "shell":
        return "/".join(done.doing.effects[0].path.split("/")[-2:])
    return opening(flat(done.doing.label), 60)
