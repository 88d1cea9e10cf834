"""Turns messages into the lines of a narrative: what was asked, what the assistant said and did, and how it ended.

Injected context and demonstrations (origin harness) are left out. The extractive summary uses it in full and in coarser
forms. Every word comes from the messages, apart from counts and the names of roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.tool_calls import ToolAction, Verb, find_open_file, interpret_call, parse_text_action
from tenfold.facts.tool_results import has_failed, is_success, judge_result
from tenfold.plan.stubs import strip_step_mark
from tenfold.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.text.excerpts import Keep, excerpt, flatten, is_prose
from tenfold.text.memoize import memoize
from tenfold.text.redaction import redact_cached


class NarratedCall(Struct, frozen=True):
    """One tool call and how it ended: `note` is "ok", "exit 1", "failed" and the like, "" without a result."""

    action: ToolAction
    note: str = ""
    error: str = ""
    lines: int = 0


class NarrativeItem(Struct, frozen=True):
    """One item of a narrative: somebody's words, or one step of the assistant with its calls."""

    first: int
    last: int
    speaker: Literal["user", "assistant", "tool", "summary"]
    text: str
    calls: tuple[NarratedCall, ...] = ()


def build_items(items: Iterable[tuple[int, Message]]) -> list[NarrativeItem]:
    """Returns the narrative of a range: user messages, and each assistant answer with the results of its calls."""
    out: list[NarrativeItem] = []
    open_calls: dict[str, tuple[int, int]] = {}
    calls: dict[int, list[NarratedCall]] = {}
    text_action: tuple[int, int] | None = None
    open_file = ""
    for at, message in items:
        if message.origin == "harness":
            continue
        text = get_text(message)
        result = get_tool_result(message)
        if message.role == "assistant":
            calls[len(out)] = [NarratedCall(interpret_call(call)) for call in get_tool_calls(message)]
            open_calls |= {call.id: (len(out), number) for number, call in enumerate(get_tool_calls(message))}
            text_call = None if calls[len(out)] else parse_text_action(message)
            text_action = (len(out), 0) if text_call else None
            if text_call:
                calls[len(out)] = [NarratedCall(interpret_call(text_call, open_file))]
            out.append(NarrativeItem(at, at, "assistant", strip_step_mark(_get_words(message))))
        elif result is not None or message.origin == "tool":
            place = text_action if result is None else open_calls.pop(result.call_id, None)
            if place is not None:
                step, number = place
                calls[step][number] = _read_outcome(calls[step][number].action, message, at)
                out[step] = replace(out[step], last=at)
            else:
                out.append(NarrativeItem(at, at, "tool", text))
            text_action = None
            open_file = find_open_file(text, open_file)
        elif message.role == "user":
            out.append(NarrativeItem(at, at, "summary" if message.origin == "tenfold" else "user", text))
    return [replace(item, calls=tuple(calls.get(number, ()))) for number, item in enumerate(out)]


def _get_words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _read_outcome(action: ToolAction, message: Message, position: int) -> NarratedCall:
    result = get_tool_result(message)
    text = get_text(message)
    outcome = judge_result(action, text, is_error=bool(result and result.is_error), position=position)
    error = outcome.errors[0].text if outcome.errors else ""
    return NarratedCall(
        action=action, note=outcome.note, error=error, lines=text.count("\n") + 1 if text.strip() else 0
    )


@memoize
def get_first_sentence(text: str, limit: int) -> str:
    """Returns the first sentence of prose in a text, at most `limit` characters, on one line."""
    lines = [line for line in text.split("\n") if line.strip()]
    chosen = next((line for line in lines if is_prose(line)), lines[0] if lines else "")
    chosen = flatten(chosen.replace("**", "")).lstrip("#*- ")
    end = next((chosen.find(stop) + 1 for stop in (". ", "! ", "? ", "。") if 20 < chosen.find(stop) < limit), 0)
    return excerpt(chosen[:end] if end else chosen, limit, Keep.START)


def render_call(call: NarratedCall, limit: int = 150) -> str:
    """Renders one call: its name or command, how it ended, its first error line. Tool output is quoted."""
    label = excerpt(flatten(call.action.label), limit, Keep.START)
    if not call.note:
        return f"{label} -> (no result)"
    size = f", {call.lines} lines" if is_success(call.note) and call.lines > 1 else ""
    error = (
        f' tool: "{excerpt(flatten(call.error), 160, Keep.START)}"' if call.error and not is_success(call.note) else ""
    )
    return f"{label} -> {call.note}{size}{error}"


def render_item(item: NarrativeItem) -> str:
    """Renders one item in full: one line for the words and one for each call."""
    label = f"[{item.first}]"
    match item.speaker:
        case "user":
            lines = [f"{label} User: {excerpt(flatten(excerpt(item.text, 4_000)), 500)}"]
        case "tool" | "summary":
            lines = [f'{label} {item.speaker}: "{excerpt(flatten(item.text[:2_000]), 160, Keep.START)}"']
        case _:
            sentence = get_first_sentence(item.text, 240)
            lines = [f"{label} Assistant: {sentence}" if sentence else f"{label} Assistant:"]
            lines.extend(f"  - {render_call(done)}" for done in item.calls)
    return redact_cached("\n".join(lines))


_VERBS: dict[Verb, str] = {
    "read": "read",
    "write": "wrote",
    "modify": "edited",
    "delete": "deleted",
    "rename": "renamed",
    "shell": "ran",
    "todo": "updated plan with",
    "other": "called",
}


def render_steps(run: Sequence[NarrativeItem]) -> str:
    """Renders several steps as one line: calls grouped by what they do, with counts, names and failures."""
    groups: dict[str, list[NarratedCall]] = {}
    for moment in run:
        for done in moment.calls:
            groups.setdefault(_VERBS[done.action.verb], []).append(done)
    parts: list[str] = []
    for verb, group in groups.items():
        names = list(dict.fromkeys(_get_call_name(done) for done in group))
        failed_count = sum(1 for done in group if has_failed(done.note))
        shown = ", ".join(names[:5]) + (f", +{len(names) - 5} more" if len(names) > 5 else "")
        times = f" {len(group)}x" if len(group) > 1 else ""
        parts.append(f"{verb}{times}: {shown}" + (f" ({failed_count} with errors)" if failed_count else ""))
    sentence = next((get_first_sentence(m.text, 120) for m in reversed(run) if m.text.strip()), "")
    span = f"[{run[0].first}-{run[-1].last}]" if run[-1].last > run[0].first else f"[{run[0].first}]"
    return redact_cached(
        f"{span} Assistant: {sentence}{' | ' if sentence and parts else ''}{'; '.join(parts)}".rstrip()
    )


def _get_call_name(call: NarratedCall) -> str:
    if call.action.verb == "todo":
        return call.action.source
    if call.action.effects and call.action.verb != "shell":
        return "/".join(call.action.effects[0].path.split("/")[-2:])
    return excerpt(flatten(call.action.label), 60, Keep.START)
