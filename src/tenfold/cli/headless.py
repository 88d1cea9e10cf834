"""A run of the agent told as JSON lines, one for each thing that happens, as it happens.

The lines go to a program or into a file, and through a terminal: control sequences and secrets are taken out of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.run import AgentRunResultEvent

from tenfold.agent.agent import Agent
from tenfold.agent.demonstration import NAME
from tenfold.agent.opening import Wanted
from tenfold.agent.workbench import Kind
from tenfold.cli.screen import json_line, note
from tenfold.errors import TenfoldError
from tenfold.events import Ended, Event, Failed, Overflowed, Skipped, Started, Warned
from tenfold.extensions import Extension
from tenfold.llm.provider import error_of, without_keys
from tenfold.record.entry import Said
from tenfold.shown import safe

MOST = 2_000
"""Characters of a tool's result that are printed; the whole of it stands in the session."""
INTERRUPTED = 130
FAILED = 4
Value = Any
"""What a line of JSON holds."""
EVENTS: Mapping[str, tuple[str, ...]] = {
    "started": ("session", "resumed", "model", "demonstration", "window", "policy", "folder"),
    "text": ("text", "partial"),
    "call": ("id", "tool", "arguments"),
    "refused": ("kind", "what"),
    "result": ("id", "tool", "ok", "text", "characters"),
    "compaction": ("type", "session", "time"),
    "note": ("text",),
    "usage": ("answers", "input_tokens", "output_tokens", "cache_read", "cache_write", "context", "window"),
    "finished": ("status", "answer", "error"),
}
"""The lines by their `event`, and the keys of each; a compaction has those of its type in `tenfold.events` as well."""


class Lines:
    """Prints the lines, from whichever thread they come, and answers for the user who is not there."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self._one = threading.Lock()

    def __call__(self, event: str, **values: Value) -> None:
        """Prints one line, safe for a terminal and without secrets. Raises `BrokenPipeError` where nobody reads."""
        data = msgspec.json.encode(self.shown({"event": event, **values}))
        with self._one:
            json_line(data)

    def shown(self, value: Value) -> Value:
        """A value as it may be printed, its texts safe and without secrets."""
        match value:
            case str():
                return without_keys(safe(value))
            case dict():
                return {self.shown(str(key)): self.shown(each) for key, each in value.items()}
            case list() | tuple():
                return [self.shown(each) for each in value]
            case _:
                return value

    async def approve(self, line: str, kind: Kind) -> bool:
        """The answer to the workbench's question: what the options say."""
        if kind not in self._allowed:
            self("refused", kind=kind, what=line)
        return kind in self._allowed

    def report(self, text: str) -> None:
        """What went wrong and was gone on without."""
        with suppress(BrokenPipeError):  # it may be told on a thread of its own; the run finds out by itself
            self("note", text=text)

    def extension(self) -> Extension:
        """Prints what becomes of compactions."""
        made = Extension("run")

        @made.on(Warned, Started, Ended, Skipped, Failed, Overflowed)
        def tell(event: Event) -> None:
            with suppress(BrokenPipeError):
                self("compaction", **msgspec.to_builtins(event))

        return made


async def carried_out(agent: Agent, words: str, wanted: Wanted, lines: Lines) -> int:
    """Runs to the end and gives the exit code."""
    session, scripted = agent.session, agent.model.model_name == NAME
    lines(
        "started",
        session=session.place.session,
        resumed=bool(wanted.session),
        model=NAME if scripted else agent.model.model_id,
        demonstration=scripted,
        window=agent.window,
        policy=session.policy.name,
        folder=str(wanted.root.resolve()),
    )
    before = session.view.path.length
    run = _Run(lines)
    status, error = "ok", ""
    try:
        async with aclosing(agent.stream(words)) as events:
            async for event in events:
                run.hear(event)
    except asyncio.CancelledError:  # Ctrl-C
        status = "interrupted"
    except (AgentRunError, UserError) as exc:
        status, error = "failed", error_of(exc)
    except BrokenPipeError:
        raise
    except (TenfoldError, OSError) as exc:
        status, error = "failed", str(exc)
    except Exception as exc:  # noqa: BLE001 - a client, a tool or a listener may raise anything: there is a last line
        status, error = "failed", f"{type(exc).__name__}: {exc}"
    run.broke_off()
    lines("usage", **_usage(agent, before))
    lines("finished", status=status, answer=run.answer, error=error)
    if error:
        note(f"tenfold: {lines.shown(error)}", style="red")
    return {"ok": 0, "failed": FAILED, "interrupted": INTERRUPTED}[status]


class _Run:
    """Turns pydantic-ai's events into lines: a text as a whole when it has ended."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self._text, self.answer = lines, "", ""

    def hear(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> None:
        """Prints what the event tells, if it is anything to tell."""
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                self._text = text
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                self._text += text
            case PartEndEvent(part=TextPart(content=text)):
                self._text = ""
                if text:
                    self._lines("text", text=text, partial=False)
            case FunctionToolCallEvent(part=part):
                self._lines("call", id=part.tool_call_id, tool=part.tool_name, arguments=_arguments(part))
            case FunctionToolResultEvent(part=part):
                text = part.content if isinstance(part.content, str) else part.model_response_str()
                ok = part.outcome == "success"
                values = {"text": text[:MOST], "characters": len(text)}
                self._lines("result", id=part.tool_call_id, tool=part.tool_name, ok=ok, **values)
            case AgentRunResultEvent(result=result):
                self.answer = result.output
            case _:
                pass

    def broke_off(self) -> None:
        """Prints the beginning of a text whose end never came."""
        if self._text:
            self._lines("text", text=self._text, partial=True)


def _arguments(part: ToolCallPart) -> Value:
    """A call's arguments; their text where it is no JSON object."""
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return part.args_as_json_str()


def _usage(agent: Agent, before: int) -> dict[str, int | None]:
    """What the providers reported of this run's answers, and the context as it is now."""
    path = agent.session.view.path
    said = [entry for at in range(min(before, path.length), path.length) if isinstance(entry := path.at(at), Said)]
    used = [entry.usage for entry in said if entry.usage is not None]
    return {
        "answers": len(used),
        "input_tokens": sum(one.prompt for one in used),
        "output_tokens": sum(one.output for one in used),
        "cache_read": sum(one.cache_read for one in used),
        "cache_write": sum(one.cache_write for one in used),
        "context": agent.session.reading(window=agent.window).tokens,
        "window": agent.window,
    }
