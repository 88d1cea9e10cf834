"""Agents that offer their tools in the prompt, and read calls from the text of the answer: the fields of DSPy."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec.structs import replace

from tests.models.loopback import Got, Served

_STEP, _END = "[[ ## next_tool_name ## ]]", "[[ ## answer ## ]]"
"""Fields that an agent of DSPy asks for: of its next step, and of its answer."""
_PATH = {"properties": {"path": {"type": "string"}}, "required": ["path"]}


def offer_tools(got: Got) -> Got:
    """Returns a request that offers tools in its prompt as one that offers them in their field. Others stay."""
    if "tools" in got.body or _STEP not in got.prompt:
        return got
    tool = {"type": "function", "function": {"name": "read_file", "parameters": _PATH}}
    return replace(got, body={**got.body, "tools": [tool]})


def render_answer(got: Got, served: Served) -> Served:
    """Returns an answer to a request in the form that its prompt asks for."""
    if "tools" in got.body or served.status != 200:
        return served
    if _STEP in got.prompt:
        _, name, arguments = served.call if served.finish == "tool" else ("", "finish", {})
        fields = {"next_thought": served.text, "next_tool_name": name, "next_tool_args": json.dumps(arguments)}
    elif _END in got.prompt:
        fields = {"reasoning": "All was read.", "answer": "All parts were read. The task is done."}
    else:
        return served
    return Served(_render(fields), tokens=served.tokens)


def _render(fields: Mapping[str, str]) -> str:
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in (*fields.items(), ("completed", "")))
