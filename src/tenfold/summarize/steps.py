"""Turns messages into the lines of a narrative: what was asked, what the assistant said and did, and how it ended.

Injected context and demonstrations (origin harness) are left out. The extractive summary uses it in full and in coarser
forms. Every word comes from the messages, apart from counts and the names of roles.
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
    """One tool call and how it ended: `note` is "ok", "exit 1", "failed" and the like, "" without a result."""

    doing: Doing
    note: str = ""
    error: str = ""
    lines: int = 0


class Moment(Struct, frozen=True):
    """One item of a narrative: somebody's words, or one step of the assistant with its calls."""

    at: int
    last: int
    who: Literal["user", "assistant", "tool", "summary"]
    said: str
    calls: tuple[Done, ...] = ()


def moments(items: Iterable[tuple[int, Message]]) -> list[Moment]:
    """Returns the narrative of a range: user messages, and each assistant answer with the results of its calls."""
    out: list[Moment] = []
    open_at: dict[str, tuple[int, int]] = {}
    calls: dict[int, list[Done]] = {}
    acting_item: int | None = None
    open_file = ""
    for at, message in items:
        if message.origin == "harness":
            continue
        result = result_of(message)
        if message.role == "assistant":
            narrated = [Done(doing=read_call(call)) for call in calls_of(message)]
            for number, call in enumerate(calls_of(message)):
                open_at[call.id] = (len(out), number)
            text_call = None if narrated else text_action(message)
            acting_item = len(out) if text_call else None
            calls[len(out)] = [Done(doing=read_call(text_call, open_file))] if text_call else narrated
            out.append(Moment(at=at, last=at, who="assistant", said=retold(_words(message))))
        elif result is not None or message.origin == "tool":
            place = (
                open_at.pop(result.call, None)
                if result is not None
                else (acting_item, 0)
                if acting_item is not None
                else None
            )
            if place is not None:
                step, number = place
                calls[step][number] = _came(calls[step][number].doing, message, at)
                out[step] = Moment(at=out[step].at, last=at, who="assistant", said=out[step].said)
            else:
                out.append(Moment(at=at, last=at, who="tool", said=text_of(message)))
            acting_item = None
            open_file = opened_by(text_of(message), open_file)
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
    """Returns the first sentence of prose in a text, at most `limit` characters, on one line."""
    lines = [line for line in text.split("\n") if line.strip()]
    chosen = next((line for line in lines if is_prose(line)), lines[0] if lines else "")
    chosen = flat(chosen.replace("**", "")).lstrip("#*- ")
    end = next((chosen.find(stop) + 1 for stop in (". ", "! ", "? ", "。") if 20 < chosen.find(stop) < limit), 0)
    return opening(chosen[:end] if end else chosen, limit)


def tell_call(done: Done, limit: int = 150) -> str:
    """Renders one call: its name or command, how it ended, its first error line. Tool output is quoted."""
    label = opening(flat(done.doing.label), limit)
    if not done.note:
        return f"{label} -> (no result)"
    size = f", {done.lines} lines" if went_well(done.note) and done.lines > 1 else ""
    error = f' tool: "{opening(flat(done.error), 160)}"' if done.error and not went_well(done.note) else ""
    return f"{label} -> {done.note}{size}{error}"


def tell(moment: Moment) -> str:
    """Renders one item in full: one line for the words and one for each call."""
    label = f"[{moment.at}]"
    match moment.who:
        case "user":
            lines = [f"{label} User: {clip(flat(clip(moment.said, 4_000)), 500)}"]
        case "tool" | "summary":
            lines = [f'{label} {moment.who}: "{opening(flat(moment.said[:2_000]), 160)}"']
        case _:
            sentence = first_sentence(moment.said, 240)
            lines = [f"{label} Assistant: {sentence}" if sentence else f"{label} Assistant:"]
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
    """Renders several steps as one line: calls grouped by what they do, with counts, names and failures."""
    groups: dict[str, list[Done]] = {}
    for moment in run:
        for done in moment.calls:
            groups.setdefault(_VERBS[done.doing.verb], []).append(done)
    parts: list[str] = []
    for verb, group in groups.items():
        names = list(dict.fromkeys(_name(done) for done in group))
        failed_count = sum(1 for done in group if done.note and not went_well(done.note))
        shown = ", ".join(names[:5]) + (f", +{len(names) - 5} more" if len(names) > 5 else "")
        times = f" {len(group)}x" if len(group) > 1 else ""
        parts.append(f"{verb}{times}: {shown}" + (f" ({failed_count} with errors)" if failed_count else ""))
    sentence = next((first_sentence(m.said, 120) for m in reversed(run) if m.said.strip()), "")
    span = f"[{run[0].at}-{run[-1].last}]" if run[-1].last > run[0].at else f"[{run[0].at}]"
    return redacted(f"{span} Assistant: {sentence}{' | ' if sentence and parts else ''}{'; '.join(parts)}".rstrip())


def _name(done: Done) -> str:
    if done.doing.verb == "todo":
        return done.doing.source
    if done.doing.effects and done.doing.verb != "shell":
        return "/".join(done.doing.effects[0].path.split("/")[-2:])
    return opening(flat(done.doing.label), 60)
