"""Session files of Kimi Code: `agents/*/wire.jsonl`, a journal of what happened to the conversation.

docs/formats/agents.md describes the mapping. The lines of one step become one answer with the results of its calls, and
the lines that change what is in the conversation (undo, clear, compaction) do here what they do in Kimi Code.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from tenfold.core.record.message import Message, NativeBytes, Part, Text, get_text, get_tool_calls, get_tool_result
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import (
    dump_json,
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_block,
    parse_blocks,
    parse_call,
    render_arguments,
)
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, get_object, list_objects
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import (
    OutputPiece,
    build_pieces,
    has_replacements,
    join_lines,
    render_pieces,
    share_bytes,
    unfold_restated,
)
from tenfold.formats.session_draft import SessionDraft, build_sessions, build_usage, parse_token_count
from tenfold.store.base import SessionInfo

FORMAT = "kimi-code"
_APPEND, _EVENT, _COMPACTION = "context.append_message", "context.append_loop_event", "context.apply_compaction"
_COMPACTING = re.compile(rb'[^\\]{0,300}"type" *: *"context\.apply_compaction"')
_HEADER = {"type": "metadata", "protocol_version": "1.5", "created_at": 0}
_TYPED = ("user", "skill_activation", "plugin_command")
"""The origins of what begins a user's turn: his words, or a skill or command that he called by its name."""
_INJECTED = {"kind": "injection", "variant": "note"}
_ORIGINS = {"human": {"kind": "user"}, "tenfold": {"kind": "compaction_summary"}}
_USAGE_KEYS = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")


class KimiCode(SessionFormat):
    """Reads and writes the journals of Kimi Code, of which each agent of a session has one."""

    name = FORMAT
    opaque_kinds = ("audio_url", "video_url")

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for the header, or for a line that adds to the conversation."""
        lines = inspect_shape(head).lines
        return any(_is_header(line) or line.get("type") in (_APPEND, _EVENT) for line in lines)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file. Its id is that of the folder; a helper's has the helper's name behind."""
        source = LineFile(data, file=file, skip_damaged=skip_damaged)
        while source.take_header(_is_preamble):
            pass
        parser = _Journal(source, file)
        for line in source.lines:
            parser.add_line(line)
        parser.flush()
        path = Path(file)
        is_in_place = path.name == "wire.jsonl" and path.parent.parent.name == "agents"
        session, agent = (path.parents[2].name, path.parent.name) if is_in_place else ("", "main")
        own, parent = (session, "") if agent == "main" else (f"{session}#{agent}", session)
        info = SessionInfo(own, FORMAT, file, "", parser.model, source_id=own, parent=parent)
        return build_sessions(
            [parser.draft], [replace(info, prefix=source.before, suffix=source.after)], source.problems
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's lines. A compaction of Kimi Code's own is written out: it names lines that are gone."""
        said: set[tuple[str, str]] = set()
        out: list[OutputPiece] = []
        for piece in build_pieces(items, FORMAT):
            texts = {(message.role, get_text(message)) for message in piece.messages}
            is_kept = len(texts - said) <= 1 and not has_replacements(items)  # the summary alone is new
            out.append(piece if is_kept else unfold_restated(piece, _COMPACTING))
            said |= texts
        return join_lines(info, render_pieces(out, _render_lines))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a new header."""
        return SessionInfo(session_id, FORMAT, prefix=dump_json(_HEADER, compact=True), suffix=b"\n")


def _is_header(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "metadata" and "protocol_version" in value


def _is_preamble(value: Mapping[str, Any]) -> bool:
    """Whether a line says with what the session runs: its model, its system prompt. Without it none can be resumed."""
    kind = value.get("type")
    return isinstance(kind, str) and not kind.startswith(("context.", "turn."))


class _Told(Struct, frozen=True):
    """A message that the model is told from now on, the entry before it, and where it came from."""

    message: Message
    before: str | None
    source: Mapping[str, Any] = {}
    is_summary: bool = False

    @property
    def origin(self) -> dict[str, Any]:
        """Who wrote it, as Kimi Code says."""
        return get_object(self.source, "origin")

    @property
    def is_typed(self) -> bool:
        """Whether a user's turn begins with it."""
        kind = self.origin.get("kind", "user")
        is_called = kind == "user" or self.origin.get("trigger") == "user-slash"
        return self.message.role == "user" and not self.is_summary and kind in _TYPED and is_called


class _Answered(Struct):
    """Lines that follow each other and hold the parts of an answer, and the results of its calls."""

    lines: list[JsonItem] = field(default_factory=list)
    between: list[JsonItem] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    results: list[JsonItem] = field(default_factory=list)


class _Journal:
    """Parses one file. The lines of a step wait until it is over, since its calls may run side by side.

    `_callers` has the calls without a result, each with the answer that made it.
    """

    def __init__(self, source: LineFile, file: str) -> None:
        self.draft = SessionDraft(file)
        self.model = ""
        self._source = source
        self._answers: list[_Answered] = []
        self._callers: dict[str, _Answered] = {}
        self._others: list[JsonItem] = []
        self._later: list[JsonItem] = []
        self._usage: object = None
        self._told: list[_Told] = []

    def add_line(self, line: JsonItem) -> None:
        """Adds the next line."""
        kind, event = line.value.get("type"), get_object(line.value, "event")
        step = event.get("type") if kind == _EVENT else ""
        if line.problem:
            self.flush()
            self._start(line)
            self.draft.add_damaged(line.problem, line.to_native(FORMAT))
        elif step in ("content.part", "tool.call"):
            self._add_part(line, event)
        elif step == "tool.result":
            self._add_result(line, event)
        elif kind == _APPEND and self._callers:
            self._later.append(line)  # Kimi Code puts it behind the results, too
        elif kind in (_APPEND, _COMPACTION, "context.clear", "context.undo"):
            self.flush()
            self._start(line)
            self._change(line, str(kind))
        else:
            if step == "step.begin":
                self.flush()
            self._usage = event.get("usage") if step == "step.end" else self._usage
            self._add_other(line)

    def _add_part(self, line: JsonItem, event: Mapping[str, Any]) -> None:
        if not self._answers or self._answers[-1].results:
            self._answers.append(_Answered())
        answer = self._answers[-1]
        answer.lines += [*answer.between, line]
        answer.between = []
        if event.get("type") == "tool.call":
            call = parse_call(event.get("toolCallId"), event.get("name"), event.get("args"))
            self._callers[call.id] = answer
            answer.parts.append(call)
        else:
            answer.parts.append(parse_block(event.get("part")))

    def _add_result(self, line: JsonItem, event: Mapping[str, Any]) -> None:
        answer = self._callers.pop(str(event.get("toolCallId") or ""), None)
        if answer is not None:
            answer.results.append(line)
        else:
            self.flush()
            self._tell(line, _parse_result(event))

    def _add_other(self, line: JsonItem) -> None:
        """Adds a line that is no message. Between the parts of an answer it is kept with them."""
        waits = self._answers and not self._answers[-1].results
        (self._answers[-1].between if waits else self._others).append(line)

    def flush(self) -> None:
        """Adds what waits: answers each with its results, then what came while calls were running.

        Other lines keep their place among them.
        """
        answers, later, usage = self._answers, self._later, self._usage
        behind = (line for answer in answers for line in answer.between)
        others = deque(sorted([*self._others, *behind], key=lambda line: (line.number, line.place)))
        self._answers, self._callers, self._others, self._later, self._usage = [], {}, [], [], None
        for answer in answers:
            first = answer.lines[0]
            self._add_others(others, first)
            body = first.raw + b"".join(line.lead + line.raw for line in answer.lines[1:])
            parts = [part for part in answer.parts if part != Text("")]
            self._tell(first, replace(make_answer(parts), native=NativeBytes(FORMAT, body, first.lead)))
            for line in answer.results:
                self._add_others(others, line)
                self._tell(line, _parse_result(get_object(line.value, "event")))
        if answers:
            self.draft.set_usage(build_usage(usage, _USAGE_KEYS, self.model, is_fresh=True))
        for line in later:
            self._add_others(others, line)
            self._start(line)
            self._change(line, _APPEND)
        self._add_others(others)

    def _add_others(self, lines: deque[JsonItem], end: JsonItem | None = None) -> None:
        """Adds those of the lines that stand before `end`, all if there is none."""
        while lines and (end is None or (lines[0].number, lines[0].place) < (end.number, end.place)):
            line = lines.popleft()
            self._start(line)
            kind, step = str(line.value.get("type") or "unknown"), get_object(line.value, "event").get("type")
            model = line.value.get("model") if kind == "llm.request" else None
            if isinstance(model, str) and model not in ("", self.model):
                self.model = model
                self.draft.add_setting("model", model, line.to_native(FORMAT))
            else:
                self.draft.add_custom(f"{kind}:{step}" if step else kind, line.to_native(FORMAT))

    def _start(self, line: JsonItem) -> None:
        self.draft.start_item(line.number, timestamp=line.value.get("time"), place=line.place)

    def _tell(self, line: JsonItem, message: Message, source: Mapping[str, Any] | None = None) -> None:
        """Adds a message, by default with the bytes of the line."""
        self._start(line)
        native = message.native or line.to_native(FORMAT)
        (key,) = self.draft.add_messages([replace(message, native=native)])
        self._told.append(_Told(message, self.draft.get_parent(key), source or {}))

    def _change(self, line: JsonItem, kind: str) -> None:
        """Does what a line says to the conversation: appends to it, empties it, takes turns back, compacts it."""
        value = line.value
        if kind == _APPEND:
            source = get_object(value, "message")
            try:
                self._tell(line, _parse_message(source), source)
            except UnknownRole as exc:
                rejected = self._source.reject_role(line, exc.args[0], FORMAT)
                self.draft.add_damaged(rejected.problem, line.to_native(FORMAT))
        elif kind == _COMPACTION:
            self._compact(line)
        else:
            told = self._told
            kept = 0 if kind == "context.clear" else _find_cut(told, parse_token_count(value.get("count")))
            if kept < len(told):
                self.draft.set_parent_key(told[kept].before if kept else None)
                del told[kept:]
            self.draft.add_custom(kind, line.to_native(FORMAT))

    def _compact(self, line: JsonItem) -> None:
        """Adds the messages that Kimi Code put in place of all before: a new beginning with them."""
        value, told = line.value, self._told
        given = value.get("contextSummary") or value.get("summary")
        text = get_text(_parse_message(given)) if isinstance(given, dict) else str(given or "")
        summary = _Told(Message("user", (Text(text),), "harness"), None, is_summary=True)
        if is_newer := isinstance(value.get("keptUserMessageCount"), int):
            count, head = (parse_token_count(value.get(f"kept{key}MessageCount")) for key in ("User", "HeadUser"))
            typed = [each for each in told if each.is_typed]
            kept = typed if count >= len(typed) else [*typed[:head], *typed[len(typed) - max(0, count - head) :]]
        else:  # older: the newest messages as they are
            kept = told[parse_token_count(value.get("compactedCount", value.get("count"))) :]
        restated = [*kept, summary] if is_newer else [summary, *kept]
        messages = share_bytes([each.message for each in restated], line.to_native(FORMAT), f"line{line.number}")
        if self.draft.has_messages:
            self.draft.set_parent_key(None)
        keys = self.draft.add_messages(messages)
        self._told = [
            replace(each, before=self.draft.get_parent(key)) for each, key in zip(restated, keys, strict=True)
        ]


def _find_cut(told: Sequence[_Told], turns: int) -> int:
    """Finds where the newest `turns` turns of the user begin. Behind the end if there are not so many since a summary.

    What was put into the conversation for a turn stands before it and goes with it.
    """
    for place in range(len(told) - 1, -1, -1):
        each = told[place]
        if each.is_summary or turns <= 0:
            break
        turns -= each.is_typed
        if turns == 0:
            own, cut = each.source.get("id"), place
            while cut and own and told[cut - 1].origin.get("ownerPromptId") == own:
                cut -= 1
            return cut
    return len(told)


def _parse_result(event: Mapping[str, Any]) -> Message:
    """Parses what a tool returned, with the note that Kimi Code tells the model behind it."""
    result = get_object(event, "result")
    output, note = result.get("output"), result.get("note")
    if isinstance(note, str) and note:
        output = [*(output if isinstance(output, list) else [output or ""]), note]
    return make_result(event.get("toolCallId"), "", output, is_error=result.get("isError") is True)


def _parse_message(source: Mapping[str, Any]) -> Message:
    """Parses a message. Raises `UnknownRole`."""
    role, content = source.get("role"), source.get("content")
    if role == "assistant":
        calls = [(call, get_object(call, "function") or call) for call in list_objects(source, "toolCalls")]
        return make_answer(
            [*parse_blocks(content), *(parse_call(c.get("id"), f.get("name"), f.get("arguments")) for c, f in calls)]
        )
    if role == "tool":
        is_error = source.get("isError") is True
        return make_result(source.get("toolCallId"), source.get("name"), content, is_error=is_error)
    prompt = make_prompt(str(role), parse_blocks(content))
    origin = get_object(source, "origin")
    if origin.get("kind", "user") == "user":
        return prompt
    return replace(prompt, origin="tool" if origin.get("phase") == "output" else "harness")


def _render_lines(piece: OutputPiece) -> bytes:
    """Renders messages as lines that append them."""
    lines: list[bytes] = []
    for message in piece.messages:
        result = get_tool_result(message)
        source: dict[str, Any] = {"role": message.role, "content": [], "toolCalls": []}
        if result is not None:
            source |= {"toolCallId": result.call_id} | ({"isError": True} if result.is_error else {})
        texts = [get_text(message)] if result is not None else list_texts(message)
        source["content"] = [{"type": "text", "text": text} for text in texts]
        source["toolCalls"] = [
            {"type": "function", "id": c.id, "name": c.name, "arguments": dump_json(render_arguments(c)).decode()}
            for c in get_tool_calls(message)
        ]
        if message.role == "user":
            source["origin"] = _ORIGINS.get(message.origin, _INJECTED)
        lines.append(dump_json({"type": _APPEND, "agentId": "main", "message": source}, compact=True))
    return b"\n".join(lines)
