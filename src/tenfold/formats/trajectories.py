"""Trajectories and data sets: ATIF, the interchange format of Harbor, ShareGPT, SWE-agent and tau2.

docs/formats/agents.md, swe-agent.md and tau2.md describe the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import Message, Part, Thinking, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.profiles import MADE_ID_PREFIX
from tenfold.core.wire.splice import iterate_members
from tenfold.errors import UnknownRole
from tenfold.formats.base import ParsedSession
from tenfold.formats.content_blocks import (
    dump_json,
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_blocks,
    parse_call,
    parse_output,
    parse_texts,
    render_arguments,
    render_call,
)
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.item_lists import Record, RecordFormat
from tenfold.formats.json_items import (
    JsonItem,
    get_list,
    get_object,
    list_objects,
    parse_array,
    parse_document,
    parse_json,
)
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import OutputPiece
from tenfold.formats.session_draft import SessionDraft, build_usage
from tenfold.store.base import SessionInfo

# -- ATIF --------------------------------------------------------------------------------------------------------------


class Atif(RecordFormat):
    """Reads and writes trajectories of ATIF."""

    name = "atif"
    opaque_kinds = ("image", "audio", "file")
    paths = (("steps",),)
    session_keys = ("session_id", "trajectory_id")
    id_key = ""
    has_results = True
    frame = (b'{"schema_version": "ATIF-v1.4", "agent": {"name": "tenfold"}, "steps": [', b"]}\n")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a step to what was said, and what was observed then."""
        parts = parse_blocks(value.get("message"))
        observed = list_objects(get_object(value, "observation"), "results")
        if value.get("source") != "agent":
            return Record([make_prompt(str(value.get("source")), parts), *map(_make_output, observed)])
        calls = [
            parse_call(c.get("tool_call_id"), c.get("function_name"), c.get("arguments"))
            for c in list_objects(value, "tool_calls")
        ]
        thought = value.get("reasoning_content")
        thoughts: list[Part] = [Thinking(thought)] if isinstance(thought, str) and thought else []
        names = {call.id: call.name for call in calls}
        results = []
        for index, each in enumerate(observed):
            own = each.get("source_call_id")
            own = calls[index].id if own is None and len(calls) == len(observed) else own
            name = names.get(str(own))
            results.append(_make_output(each) if name is None else make_result(own, name, _read_output(each)))
        keys = ("prompt_tokens", "completion_tokens", "cached_tokens", "")
        usage = build_usage(value.get("metrics"), keys, value.get("model_name"))
        return Record([make_answer([*thoughts, *parts, *calls]), *results], usage)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as steps, each result as what was observed in the step before."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result = get_tool_result(message)
            if result is None:
                source = {"assistant": "agent", "system": "system"}.get(message.role, "user")
                step: dict[str, Any] = {"step_id": 0, "source": source, "message": "\n".join(list_texts(message))}
                if calls := get_tool_calls(message):
                    step["tool_calls"] = [_render_atif_call(c.id, c.name, render_arguments(c)) for c in calls]
                out.append(step)
                continue
            if not out:
                call = _render_atif_call(result.call_id, result.name, {})
                out.append({"step_id": 0, "source": "agent", "message": "", "tool_calls": [call]})
            observed = out[-1].setdefault("observation", {"results": []})
            observed["results"].append({"source_call_id": result.call_id, "content": get_text(message)})
        return out


def _read_output(result: Mapping[str, Any]) -> object:
    return result.get("content") if result.get("content") is not None else result.get("subagent_trajectory_ref")


def _make_output(result: Mapping[str, Any]) -> Message:
    """Makes the message of something observed that no call asked for."""
    return Message("user", parse_output(_read_output(result)), "tool")


def _render_atif_call(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


# -- ShareGPT ----------------------------------------------------------------------------------------------------------

_SHARE_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response", "function"), "tool"),
    "function_call": "call",
    "system": "system",
}
_CALL_ID = f"{MADE_ID_PREFIX}call"


class ShareGpt(RecordFormat):
    """Reads and writes conversations of ShareGPT."""

    name = "sharegpt"
    paths = (("conversations",), ("conversation",), ("items",))
    frame = (b'{"conversations": [', b"]}\n")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a turn."""
        said = value.get("value")
        match _SHARE_ROLES.get(str(value.get("from"))):
            case "assistant":
                return Record([make_answer(parse_blocks(said))])
            case "tool":
                return Record([make_result(_CALL_ID, "", said)])
            case "call":
                return Record([make_answer([_parse_share_call(said)])])
            case None:
                raise UnknownRole(str(value.get("from")))
            case role:
                return Record([make_prompt(role, parse_blocks(said))])

    def list_opening(self, top: Mapping[str, Any]) -> Sequence[Message]:
        """Lists the system prompt that stands beside the turns."""
        system = top.get("system")
        return [make_prompt("system", parse_blocks(system))] if isinstance(system, str) and system else []

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as turns, each call as one of its own."""
        names = {"user": "human", "assistant": "gpt", "tool": "observation", "system": "system"}
        out = []
        for message in messages:
            calls = get_tool_calls(message)
            if not calls or list_texts(message):
                out.append({"from": names[message.role], "value": get_text(message)})
            for call in calls:
                made = {"name": call.name, "arguments": render_arguments(call)}
                out.append({"from": "function_call", "value": dump_json(made).decode()})
        return out


def _parse_share_call(value: object) -> ToolCall:
    try:
        call = parse_json(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    except ValueError:
        call = None
    if isinstance(call, dict) and "name" in call:
        return parse_call(_CALL_ID, call["name"], call.get("arguments"))
    return parse_call(_CALL_ID, "tool", value)


# -- SWE-agent ---------------------------------------------------------------------------------------------------------


class SweAgent(RecordFormat):
    """Reads and writes `.traj` files: the `history` of a run, as text (0.x) or with native tool calls (1.x).

    The `trajectory`, which repeats the same content, is kept as bytes.
    """

    name = "swe-agent"
    paths = (("history",),)
    session_keys = ()
    id_key = ""
    frame = (b'{"trajectory": [], "history": [', b"]}\n")

    def can_read(self, head: bytes, name: str) -> bool:
        """Looks for an object with a `trajectory` of actions. The `history` may come later than `head` reaches."""
        top = inspect_shape(head).members
        if "trajectory" not in top:
            return False
        return isinstance(top.get("history"), list) or (name.endswith(".traj") and top["trajectory"] is None)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses the one run of the file."""
        top, history = parse_document(data, file), parse_array(data, self.paths[0][-1], file)
        return self.read_list(history, top, self.read_info(top, file), file)

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the title from the environment."""
        return SessionInfo("", self.name, file, str(top.get("environment") or ""))

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:
        """Adds the messages. The task is the first user's line outside a demonstration: those after it are output."""
        asked = [item for item in items if item.get_object(file).get("role") == "user" and not _is_demo(item.value)]
        outputs = {item.number for item in asked[1:]}
        marked = [replace(i, value=i.value | {"role": "output"}) if i.number in outputs else i for i in items]
        super().add_items(draft, marked, file, source)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a line. A demonstration is the harness's, whoever seems to speak in it."""
        role, text = value.get("role"), parse_texts(value.get("content"))
        match role:
            case "system" | "user" as said:
                message = Message(said, text, "harness" if said == "system" else "human")
            case "output":
                message = Message("user", text, "tool")
            case "assistant":
                calls = [(call.get("id"), get_object(call, "function")) for call in list_objects(value, "tool_calls")]
                made = [parse_call(id_, function.get("name"), function.get("arguments")) for id_, function in calls]
                message = make_answer([*text, *made])
            case "tool":
                ids = get_list(value, "tool_call_ids") or [value.get("tool_call_id") or ""]
                message = make_result(ids[0], "", [part.text for part in text])
            case _:
                raise UnknownRole(role)
        return Record([replace(message, origin="harness") if _is_demo(value) else message])

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages."""
        out = []
        for message in messages:
            line: dict[str, Any] = {"role": message.role, "content": get_text(message), "agent": "main"}
            calls, result = get_tool_calls(message), get_tool_result(message)
            if calls:
                line["tool_calls"] = [
                    {"function": {"arguments": c.arguments, "name": c.name}, "id": c.id, "type": "function"}
                    for c in calls
                ]
            if result is not None:
                line["tool_call_ids"] = [result.call_id]
            if message.origin == "harness" and message.role != "system":
                line["is_demo"] = True
            out.append(line)
        return out


class MiniSweAgent(SweAgent):
    """Reads and writes `.traj.json` files of mini-swe-agent, which has the roles of SWE-agent, and one for its end."""

    name = "mini-swe-agent"
    paths = (("messages",),)
    frame = (b'{"info": {}, "messages": [', b'], "trajectory_format": "mini-swe-agent-1.1"}\n')

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object that names the format, or that begins with what mini-swe-agent says of a run."""
        top = inspect_shape(head).members
        is_named = str(top.get("trajectory_format") or "").startswith("mini-swe-agent")
        return "messages" in top and (is_named or "mini_version" in get_object(top, "info"))

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the name of the task, where the run is one of a set."""
        return SessionInfo("", self.name, file, str(top.get("instance_id") or ""))

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a line. How the run ended is no message: no model was told."""
        if value.get("role") == "exit":
            return Record(kind="exit")
        response = get_object(get_object(value, "extra"), "response")
        keys = ("prompt_tokens", "completion_tokens", "", "")
        usage = build_usage(response.get("usage"), keys, response.get("model"))
        return Record(super().parse(value).messages, usage if value.get("role") == "assistant" else None)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages."""
        lines = super().render(messages)
        return [
            line | ({"tool_call_id": line["tool_call_ids"][0]} if "tool_call_ids" in line else {}) for line in lines
        ]


def _is_demo(value: Mapping[str, Any]) -> bool:
    return value.get("is_demo") is True or value.get("message_type") == "demonstration"


# -- tau2 --------------------------------------------------------------------------------------------------------------


class Tau2(RecordFormat):
    """Reads and writes result files of tau2: simulations, each a session between a customer and an agent with tools.

    The simulated user can call tools on their own device. The agent never saw those calls, so they become entries
    without a message.
    """

    name = "tau2"
    session_keys = ("id",)
    id_key = ""
    closing = b"]}\n"

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `simulations`, or that begins like one: run information, then tasks."""
        top = inspect_shape(head).members
        return "simulations" in top or ("tasks" in top and "environment_info" in get_object(top, "info"))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses one session for each simulation."""
        parse_document(data, file)
        simulations = parse_array(data, "simulations", file)
        opening = _render_opening(data)
        parsed = self.read_conversations(simulations.elements, (simulations.before, simulations.after), file)
        ends = {"standalone_prefix": opening, "standalone_suffix": self.closing}
        return [replace(each, info=replace(each.info, **ends)) for each in parsed]

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the title from the task."""
        task = str(top.get("task_id") or "")
        return replace(super().read_info(top, file), title=f"task {task}" if task else "")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message. One that wraps several results of tools is as many messages."""
        texts, calls = parse_texts(value.get("content")), list_objects(value, "tool_calls")
        results = list_objects(value, "tool_messages") or [value]
        keys = ("prompt_tokens", "completion_tokens", "", "")
        usage = build_usage(value.get("usage"), keys, "")
        match value.get("role"):
            case "user" if calls:
                return Record(kind="user_tool_call")
            case "system" | "user" as role:
                return Record([Message(role, texts, "harness" if role == "system" else "human")], usage)
            case "assistant":
                made = [parse_call(c.get("id"), c.get("name"), c.get("arguments")) for c in calls]
                return Record([make_answer([*texts, *made])], usage)
            case "tool" if all(result.get("requestor") == "user" for result in results):
                return Record(kind="user_tool_result")
            case "tool":
                return Record([_parse_tau2_result(result) for result in results])
            case role:
                raise UnknownRole(role)

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Renders messages. Several are results that one message wraps."""
        lines = self.render(piece.messages)
        return [dump_json(lines[0] if len(lines) == 1 else {"role": "tool", "tool_messages": lines})]

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders each message."""
        out = []
        for message in messages:
            line: dict[str, Any] = {"role": message.role, "content": get_text(message)}
            result = get_tool_result(message)
            if result is not None:
                line |= {"id": result.call_id, "requestor": "assistant", "error": result.is_error}
            if message.role == "assistant":
                calls = [render_call(call) | {"requestor": "assistant"} for call in get_tool_calls(message)]
                line["tool_calls"] = calls or None
            out.append(line)
        return out

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a results file without run information."""
        start = dump_json({"id": session_id or "tenfold", "task_id": "", "messages": []})
        return SessionInfo(
            session_id,
            prefix=start.removesuffix(b"]}"),
            suffix=b"]}",
            standalone_prefix=b'{"simulations": [',
            standalone_suffix=self.closing,
        )


def _render_opening(data: bytes) -> bytes:
    """Renders the beginning of a file with one simulation: all run information, but no tasks."""
    kept = [m for m in iterate_members(data) if m.key not in ("simulations", "tasks")]
    texts = [dump_json(m.key) + b": " + data[m.start : m.end] + b", " for m in kept]
    return b"{" + b"".join(texts) + b'"tasks": [], "simulations": ['


def _parse_tau2_result(value: Mapping[str, Any]) -> Message:
    return make_result(value.get("id"), "", value.get("content"), is_error=value.get("error") is True)
