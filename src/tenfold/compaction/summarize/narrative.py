"""Turns messages into the items of a narrative: what was asked, what the assistant said and did, and how it ended.

Injected context and demonstrations (origin harness) are left out. Summaries of unknown source are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.demonstrations import find_task_start, is_later_range
from tenfold.compaction.facts.parse import get_text_before_facts
from tenfold.compaction.facts.tool_calls import (
    ToolAction,
    find_open_file,
    interpret_call,
    parse_arguments,
    parse_text_action,
)
from tenfold.compaction.facts.tool_results import judge_result
from tenfold.compaction.plan.stubs import strip_step_mark
from tenfold.core.record.message import Message, Text, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.marks import STEP_PREFIX, find_unconfirmed_summary


class NarratedCall(Struct, frozen=True):
    """One tool call and how it ended: `note` is "ok", "exit 1", "failed" and the like, "" without a result.

    `error` is the first error line of the `result`, the text that the tool returned.
    """

    action: ToolAction
    note: str = ""
    error: str = ""
    result: str = ""


class NarrativeItem(Struct, frozen=True):
    """One item of a narrative: somebody's words, or one step of the assistant with its calls."""

    first: int
    last: int
    speaker: Literal["user", "assistant", "tool", "summary", "unconfirmed"]
    text: str
    calls: tuple[NarratedCall, ...] = ()


def build_items(items: Sequence[tuple[int, Message]]) -> list[NarrativeItem]:
    """Returns the narrative of a range: user messages, and each assistant answer with the results of its calls."""
    items = items if is_later_range(items) else items[find_task_start(items) :]
    out: list[NarrativeItem] = []
    open_calls: dict[str, tuple[int, int]] = {}
    calls: dict[int, list[NarratedCall]] = {}
    text_call: tuple[int, ToolCall] | None = None
    open_file = ""
    for at, message in items:
        text = get_text(message)
        if message.origin in ("tenfold", "harness") and text.startswith(STEP_PREFIX):
            out.append(NarrativeItem(at, at, "assistant", strip_step_mark(text)))
            continue
        if message.origin == "harness":
            told = get_text_before_facts(find_unconfirmed_summary(text) or "")
            out += [NarrativeItem(at, at, "unconfirmed", told)] if told else []
            continue
        result = get_tool_result(message)
        if message.role == "assistant":
            calls[len(out)] = [NarratedCall(interpret_call(call)) for call in get_tool_calls(message)]
            open_calls |= {call.id: (len(out), number) for number, call in enumerate(get_tool_calls(message))}
            action = None if calls[len(out)] else parse_text_action(message)
            text_call = (len(out), action) if action else None
            out.append(NarrativeItem(at, at, "assistant", strip_step_mark(_get_words(message))))
        elif result is not None or message.origin == "tool":
            place = open_calls.pop(result.call_id, None) if result else None
            if result is None and text_call:  # a command in a fence that has no output is advice
                at_item, action = text_call
                place = at_item, 0
                calls[at_item] = [NarratedCall(interpret_call(action, open_file))]
                words = out[at_item].text.replace(str(parse_arguments(action)["command"]), "")
                out[at_item] = replace(out[at_item], text=_EMPTY_BLOCK.sub("", words))
            if place is not None:
                step, number = place
                calls[step][number] = _read_outcome(calls[step][number].action, message, at)
                out[step] = replace(out[step], last=at)
            else:
                out.append(NarrativeItem(at, at, "tool", text))
            text_call = None
            open_file = find_open_file(text, open_file)
        elif message.role == "user":
            text_call = None
            out.append(NarrativeItem(at, at, "summary" if message.origin == "tenfold" else "user", text))
    return [replace(item, calls=tuple(calls.get(number, ()))) for number, item in enumerate(out)]


_EMPTY_BLOCK = re.compile(r"<command>\s*</command>|```\w*\s*```")
"""What is left of the block in which an agent wrote its action as text."""


def _get_words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _read_outcome(action: ToolAction, message: Message, position: int) -> NarratedCall:
    result = get_tool_result(message)
    text = get_text(message)
    outcome = judge_result(action, text, is_error=bool(result and result.is_error), position=position)
    error = outcome.errors[0].text if outcome.errors else ""
    return NarratedCall(action=action, note=outcome.note, error=error, result=text)
