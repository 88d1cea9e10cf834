"""Prints a run of the agent as it happens: for people, or as JSON lines, one for each thing that happens.

The lines go to programs, files and terminals, so control sequences and secrets are taken out of them.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from pydantic_ai.exceptions import AgentRunError, ToolFailed, UserError
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartEndEvent,
    TextPart,
)
from pydantic_ai.run import AgentRunResultEvent

from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.demonstration import DEMONSTRATION
from tenfold.apps.agent.factory import AgentOptions
from tenfold.apps.agent.pydantic_messages import get_result_text, get_text_piece
from tenfold.apps.agent.run_lines import render_call, render_result
from tenfold.apps.agent.runtime import Agent
from tenfold.apps.cli.console import format_id, print_json, print_note, render_count, show
from tenfold.apps.cli.process import ExitCode
from tenfold.config.extensions import Extension
from tenfold.core.record.entry import MessageEntry
from tenfold.core.text.json_text import decode_arguments
from tenfold.core.text.redaction import MASK
from tenfold.core.text.terminal_safe import strip_controls
from tenfold.errors import TenfoldError
from tenfold.events import (
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
    CompactionWarning,
    Event,
    RequestOverflow,
    SummaryFailure,
)
from tenfold.models.provider import describe_error, without_keys

MAX_RESULT_CHARACTERS = 2_000
"""Maximum characters of a tool result that are printed. The session holds all of it."""
JsonValue = Any
"""A value in a JSON line."""
Record = dict[str, JsonValue]
"""What is printed of one event."""


class JsonLines:
    """Prints what happens as JSON lines, from any thread, and answers questions in place of a user."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed_kinds = allowed
        self._lock = threading.Lock()

    def __call__(self, event: str, **values: JsonValue) -> None:
        """Prints an event, safe for a terminal and without secrets. Raises `BrokenPipeError` if nobody reads it."""
        record = self.sanitize({"event": event, **values})
        with self._lock:
            self.print_record(record)

    def print_record(self, record: Record) -> None:
        """Prints a record that is safe to print."""
        print_json(record)

    def sanitize(self, value: JsonValue) -> JsonValue:
        """Returns a value with all its texts safe for a terminal and without secrets."""
        match value:
            case str():
                return without_keys(strip_controls(value))
            case dict():
                return {self.sanitize(str(key)): self._sanitize_value(str(key), each) for key, each in value.items()}
            case list() | tuple():
                return [self.sanitize(each) for each in value]
            case _:
                return value

    def _sanitize_value(self, key: str, value: JsonValue) -> JsonValue:
        """Returns a value as `sanitize` does, or the mask if its key says that it is a secret."""
        start = f'"{key}": "'
        if isinstance(value, str) and without_keys(f'{start}{value}"') == f'{start}{MASK}"':
            return MASK
        return self.sanitize(value)

    async def approve(self, action: Action) -> bool:
        """Answers the agent's question by the options, and prints a line for what they refuse.

        Raises `ToolFailed` for that: the model is not told that the user said no, for nobody asked.
        """
        if action.kind not in self._allowed_kinds:
            self("refused", kind=action.kind, what=action.line)
            raise ToolFailed(
                f"This run may not do that, and nobody can be asked: {action.line}\nNothing was changed or run. Say "
                "what has to be done."
            )
        return True

    def report(self, text: str) -> None:
        """Prints a problem that does not stop the run."""
        with suppress(BrokenPipeError):  # maybe on another thread; the run itself notices the closed pipe
            self("note", text=text)

    def build_extension(self) -> Extension:
        """Builds an extension that prints what happens to compactions."""
        extension = Extension("run")

        @extension.on(
            CompactionWarning,
            CompactionStart,
            CompactionEnd,
            CompactionSkip,
            CompactionFailure,
            SummaryFailure,
            RequestOverflow,
        )
        def print_event(event: Event) -> None:
            with suppress(BrokenPipeError):
                self("compaction", **msgspec.to_builtins(event))

        return extension


class ReadableLines(JsonLines):
    """Prints what happens for people: the answer to standard output, and what leads to it to standard error.

    So `tenfold run ... > answer.md` keeps the answer alone.
    """

    def __init__(self, allowed: frozenset[str]) -> None:
        super().__init__(allowed)
        self._text = ""  # the newest text: the answer, unless something else follows
        self._usage = ""

    def print_record(self, record: Record) -> None:
        """Prints a record that is safe to print."""
        match record["event"]:
            case "text":
                self._print_text()
                self._text = record["text"]
            case "usage":
                self._usage = describe_record(record)
            case "finished":
                if record["status"] == "ok":
                    show(record["answer"])
                else:
                    self._print_text()
                print_note(self._usage)
            case event:
                self._print_text()
                line = describe_record(record)
                if line:
                    print_note(line, style="red" if event == "refused" else "dim")

    def _print_text(self) -> None:
        """Prints a text that is not the answer."""
        text, self._text = self._text, ""
        if text:
            print_note(text, style="")


def describe_record(record: Record) -> str:
    """Describes a record on a line for people. Returns "" for one that is shown in another way."""
    match record:
        case {"event": "started", "session": session, "model": model, "folder": folder}:
            scripted = "a script, not a model: name one with --model PROVIDER:NAME" if record["demonstration"] else ""
            verb = "goes on with" if record["resumed"] else "begins"
            return f"{model} {verb} session {format_id(session)} in {folder}{f' ({scripted})' if scripted else ''}"
        case {"event": "call", "tool": tool, "arguments": arguments}:
            given = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            return f"* {render_call(tool, given)}"
        case {"event": "result", "text": text, "ok": ok}:
            return f" {render_result(text, failed=not ok)}"
        case {"event": "refused", "kind": kind, "what": what}:
            return f"refused: {what} (allow it with --allow-{kind}s)"
        case {"event": "compaction", "type": "ended", "outcome": outcome}:
            before, after = outcome["tokens_before"], outcome["tokens_after"]
            return f"context compacted: {before:,} -> {after:,} tokens"
        case {"event": "compaction", "type": "skipped" | "failed" as kind, "outcome": outcome}:
            return f"compaction {kind}: {outcome['reason']}"
        case {"event": "compaction", "type": "summary_failed", "reason": reason}:
            return f"a summary model failed: {reason}"
        case {"event": "compaction", "type": "overflowed", "model": model, "tokens": tokens}:
            return f"{model} refused a request of {tokens:,} tokens as too long, so the context is compacted"
        case {"event": "note", "text": text}:
            return str(text)
        case {"event": "usage"}:
            window = f" of {record['window']:,}" if record["window"] else ""
            read = f"{record['input_tokens']:,} tokens read, {record['cache_read']:,} of them from the cache"
            return (
                f"{render_count(record['answers'], 'answer')}: {read}; {record['output_tokens']:,} written; "
                f"the context takes {record['context']:,}{window}"
            )
    return ""


async def run_headless(agent: Agent, prompt: str, options: AgentOptions, lines: JsonLines) -> int:
    """Runs the agent to the end and returns the exit code."""
    session, scripted = agent.session, agent.model.model_name == DEMONSTRATION
    lines(
        "started",
        session=session.address.session,
        resumed=bool(options.session),
        model=DEMONSTRATION if scripted else agent.model.model_id,
        demonstration=scripted,
        window=agent.window,
        policy=session.policy.name,
        folder=str(options.root.resolve()),
    )
    before = session.view.path.length
    run = _RunPrinter(lines)
    status, error = "ok", ""
    try:
        async with aclosing(agent.stream(prompt)) as events:
            async for event in events:
                run.print_event(event)
    except asyncio.CancelledError:  # Ctrl-C
        status = "interrupted"
    except (AgentRunError, UserError) as exc:
        status, error = "failed", describe_error(exc)
    except BrokenPipeError:
        raise
    except (TenfoldError, OSError) as exc:
        status, error = "failed", str(exc)
    except Exception as exc:  # noqa: BLE001 - a client, a tool or a listener may raise anything: there is a last line
        status, error = "failed", f"{type(exc).__name__}: {exc}"
    run.print_partial_text()
    lines("usage", **_sum_usage(agent, before))
    lines("finished", status=status, answer=run.answer, error=error)
    if error:
        print_note(f"tenfold: {lines.sanitize(error)}", style="red")
    return {"ok": ExitCode.OK, "failed": ExitCode.FAILED, "interrupted": ExitCode.INTERRUPTED}[status]


class _RunPrinter:
    """Turns pydantic-ai's events into lines.

    A text becomes one line when it is complete: when something follows it, for a stream that is cut off ends it too.
    """

    def __init__(self, lines: JsonLines) -> None:
        self._lines, self._text, self.answer = lines, "", ""
        self._is_ended = False

    def print_event(self, event: AgentStreamEvent | AgentRunResultEvent[str]) -> None:
        """Prints a line for the event, if there is one for it."""
        if self._is_ended:
            self._print_text(is_partial=False)
        match event:
            case PartEndEvent(part=TextPart(content=text)):
                self._text, self._is_ended = text, True
            case FunctionToolCallEvent(part=part):
                text = part.args_as_json_str()
                values = decode_arguments(text)
                arguments = text if values is None else values
                self._lines("call", id=part.tool_call_id, tool=part.tool_name, arguments=arguments)
            case FunctionToolResultEvent(part=part):
                text, ok = get_result_text(part), part.outcome == "success"
                # A secret that is cut in two would no longer be recognised.
                shown = {"text": self._lines.sanitize(text)[:MAX_RESULT_CHARACTERS], "characters": len(text)}
                self._lines("result", id=part.tool_call_id, tool=part.tool_name, ok=ok, **shown)
            case AgentRunResultEvent(result=result):
                self.answer = result.output
            case _:
                self._text += get_text_piece(event)

    def print_partial_text(self) -> None:
        """Prints the beginning of a text that was cut off."""
        self._print_text(is_partial=True)

    def _print_text(self, *, is_partial: bool) -> None:
        text, self._text, self._is_ended = self._text, "", False
        if text:
            self._lines("text", text=text, partial=is_partial)


def _sum_usage(agent: Agent, start: int) -> dict[str, int | None]:
    """Adds up what the providers reported for this run's answers, and measures the context as it is now."""
    path = agent.session.view.path
    entries = path.get_entries(min(start, path.length), path.length - 1)
    usages = [entry.usage for entry in entries if isinstance(entry, MessageEntry) and entry.usage is not None]
    return {
        "answers": len(usages),
        "input_tokens": sum(usage.prompt for usage in usages),
        "output_tokens": sum(usage.output for usage in usages),
        "cache_read": sum(usage.cache_read for usage in usages),
        "cache_write": sum(usage.cache_write for usage in usages),
        "context": agent.session.take_reading(window=agent.window).tokens,
        "window": agent.window,
    }
