"""Collects the changes to files that messages show: those of tool calls, and of lines that stand for steps."""

from __future__ import annotations

from collections.abc import Iterable

from tenfold.facts.edit_content import describe_edit, join_contents
from tenfold.facts.shortened_steps import parse_step_line
from tenfold.facts.tool_calls import ToolAction, interpret_call
from tenfold.facts.tool_results import has_taken_effect, judge_result
from tenfold.record.message import Message, get_text, get_tool_calls, get_tool_result


def collect_changes(messages: Iterable[Message]) -> dict[str, str]:
    """Returns what the messages show of each file that they change, by the file's path: a line for each change.

    A call without a result, or one that failed, changes nothing. A file that was deleted or renamed has an empty text.
    """
    open_calls: dict[str, ToolAction] = {}
    changes: dict[str, str] = {}

    def add(action: ToolAction, note: str) -> None:
        for effect in action.effects if has_taken_effect(note) else ():
            if effect.verb != "read":
                path = effect.target or effect.path
                changes[path] = join_contents(changes.get(path, ""), describe_edit(action, effect))

    for message in messages:
        for call in get_tool_calls(message):
            open_calls[call.id] = interpret_call(call)
        result = get_tool_result(message)
        if result is not None and (action := open_calls.pop(result.call_id, None)) is not None:
            outcome = judge_result(action, get_text(message), is_error=result.is_error, position=0)
            add(action, outcome.note)
        elif message.origin != "human":
            for action, outcome in parse_step_line(get_text(message), ""):
                add(action, outcome.note)
    return changes
