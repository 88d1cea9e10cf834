"""Parses the one-line summary of a step, `[step] Edit({"path": "a.py"}) -> ok, 260 characters`, back into tool calls.

`plan/stubs.py` writes these lines. They come back as answers of the assistant when a host resends a view, or when an
exported session is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenfold.compaction.facts.tool_calls import ToolAction, classify_tool, interpret_call
from tenfold.compaction.facts.tool_results import ToolOutcome
from tenfold.core.record.message import ToolCall
from tenfold.core.wire.marks import STEP_PREFIX

_CALL = re.compile(
    r"(?:^|; )(?P<name>[\w.:/-]+)\((?P<arguments>.*?)\) -> "
    r"(?P<note>(?:ok|exit -?\d+|failed|errors in output|stopped by the user|unknown)\b[^;]*?), [\d,]+ characters",
    re.DOTALL,
)
_WHOLE_STRING = re.compile(r'"(?P<name>\w+)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*")')
_CUT_END = "..."
_MAX_LINE_CHARS = 20_000


def parse_step_line(text: str, open_file: str) -> Iterator[tuple[ToolAction, ToolOutcome]]:
    """Yields what each tool call of a step did and how it ended. A text that is no such line yields nothing.

    Of arguments that were cut, only what is whole counts: named strings, or the words of a command before the last.
    """
    if not text.startswith(STEP_PREFIX):
        return
    for found in _CALL.finditer(text[len(STEP_PREFIX) : _MAX_LINE_CHARS]):
        name, arguments = found["name"], found["arguments"]
        if arguments.endswith(_CUT_END):
            arguments = _drop_cut_end(name, arguments.removesuffix(_CUT_END))
        yield interpret_call(ToolCall("", name, arguments), open_file), ToolOutcome(found["note"])


def _drop_cut_end(name: str, arguments: str) -> str:
    if arguments.lstrip().startswith("{"):
        whole = (f'"{each["name"]}":{each["value"]}' for each in _WHOLE_STRING.finditer(arguments))
        return "{" + ",".join(whole) + "}"
    return arguments.rpartition(" ")[0] if classify_tool(name) == "shell" else arguments
