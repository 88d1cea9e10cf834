"""Finds the files that messages show to be changed: by tool calls, and by lines that stand for steps."""

from __future__ import annotations

from collections.abc import Iterable

from tenfold.compaction.facts.shortened_steps import parse_step_line
from tenfold.compaction.facts.tool_calls import ToolAction, interpret_call
from tenfold.compaction.facts.tool_results import has_taken_effect, judge_result
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result


def find_changed_files(messages: Iterable[Message]) -> set[str]:
    """Finds the paths of the files that calls in these messages wrote, deleted or renamed (to what they are now).

    A call without a result, or one that failed, changes nothing.
    """
    open_calls: dict[str, ToolAction] = {}
    paths: set[str] = set()

    def add(action: ToolAction, note: str) -> None:
        if has_taken_effect(note):
            paths.update(effect.target or effect.path for effect in action.effects if effect.verb != "read")

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
    return paths
