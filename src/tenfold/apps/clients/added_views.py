"""Adds a compacted view to a client's session, in the way in which the client itself says "go on from here".

Of each client the first function is the one that adds; it says what the client goes by. What the client has stays as it
is, but for cline's messages and those of old sessions of gemini-cli, which keep no others.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tenfold.apps.clients.view_copy import COMPACTED_NOTE, ViewCopy, append_lines, parse_lines, read_objects
from tenfold.formats import claude_code, codex, gemini_cli, opencode, pi
from tenfold.formats.claude_code import get_queued_prompt
from tenfold.formats.content_blocks import dump_json
from tenfold.formats.envelopes import encode_messages
from tenfold.formats.json_items import get_list
from tenfold.formats.output_pieces import join_results, unfold_restated
from tenfold.formats.session_draft import mark_applied
from tenfold.store.base import SessionInfo

Json = dict[str, Any]


def _dump_applied(line: Json, copy: ViewCopy) -> bytes:
    """Renders a line of a client's file, with the mark by which its readers know it for a copy."""
    return dump_json(mark_applied(line, copy.mark), compact=True)


# -- Claude Code -------------------------------------------------------------------------------------------------------

_CARRIED = ("cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug")
"""What every line of a session repeats."""
_CLAUDE_CODE = uuid.UUID("6f1d3c5e-6a0b-4d3f-9a57-6a2c1f0e8b11")


def add_to_claude_code(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with a boundary, as Claude Code writes it when it compacts, and the view behind its lines.

    Claude Code loads the chain of the newest message back to a line without a parent, and nothing before its newest
    boundary. So the boundary has no parent, and every message of the view hangs on the one before.
    """
    lines = read_objects(data)
    linked = [line for line in lines if line.get("uuid") and line.get("isSidechain") is not True]
    newest = linked[-1] if linked else {}
    carried = {key: newest[key] for key in _CARRIED if key in newest} | {"isSidechain": False}
    boundary = {
        "parentUuid": None,
        "logicalParentUuid": newest.get("uuid"),
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": {"trigger": "manual", "preTokens": _measure_newest(lines)},
    }
    parent: str | None = None
    out: list[bytes] = []
    mark = f"{copy.mark}/{len(data)}"
    for value in (boundary, *_copy_claude_lines(copy, str(carried.get("sessionId", "")), _find_model(lines))):
        own = str(uuid.uuid5(_CLAUDE_CODE, f"{mark}/{len(out)}"))
        line = carried | _with_own_id(value, mark) | {"uuid": own, "timestamp": copy.iso_time}
        if out:
            line["parentUuid"] = parent
        out.append(_dump_applied(line, copy))
        parent = own
    return append_lines(data, out)


def _measure_newest(lines: list[Json]) -> int:
    for line in reversed(lines):
        match line.get("message"):
            case {"usage": {"input_tokens": int(fresh), **rest}}:
                cached = (rest.get("cache_read_input_tokens"), rest.get("cache_creation_input_tokens"))
                return fresh + sum(n for n in cached if isinstance(n, int))
    return 0


def _find_model(lines: list[Json]) -> str:
    models = (m.get("model") for line in reversed(lines) if isinstance(m := line.get("message"), dict))
    return next((model for model in models if isinstance(model, str) and model != "<synthetic>"), "unknown")


def _copy_claude_lines(copy: ViewCopy, session: str, model: str) -> Iterator[Json]:
    for piece in copy.build_pieces(claude_code.FORMAT):
        lines = parse_lines(piece) if piece.exact else []
        if not lines or not all("message" in line or get_queued_prompt(line) is not None for line in lines):
            raw = claude_code.render_line(SessionInfo(session, claude_code.FORMAT, source_id=session), piece)
            lines = [json.loads(raw)] if raw else []
        for line in lines:
            yield _with_size(line, copy.tokens, model)


def _with_own_id(line: Json, mark: str) -> Json:
    """Returns an answer with another id: Claude Code takes lines with one id for one answer, wherever they stand."""
    message = line.get("message")
    if not isinstance(message, dict) or not message.get("id"):
        return line
    own = uuid.uuid5(_CLAUDE_CODE, f"{mark}/{message['id']}").hex[:24]
    return line | {"message": message | {"id": f"msg_{own}"}}


def _with_size(line: Json, tokens: int, model: str) -> Json:
    """Returns an answer with the size of the view as its usage: Claude Code decides by the newest when to compact."""
    message = line.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return line
    usage = {"input_tokens": tokens, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    own = uuid.uuid5(_CLAUDE_CODE, json.dumps(line, sort_keys=True)).hex[:24]  # for one that has none
    whole = {"id": f"msg_{own}", "type": "message", "model": model, "stop_reason": None} | message
    return line | {"message": whole | {"usage": usage}}


# -- Codex -------------------------------------------------------------------------------------------------------------


def add_to_codex(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the rollout with the line that Codex writes when it compacts behind its lines, and the size after it.

    Codex goes on from the `replacement_history` of its newest such line. Codex versions that number their lines say
    their rules and the environment again behind it, so these are left out of the view; for older ones they come first.
    """
    lines = read_objects(data)
    ordinal = max((n for line in lines if isinstance(n := line.get("ordinal"), int)), default=None)
    opening = list(_find_opening(lines)) if ordinal is None else []
    shown = [item for item in _copy_items(copy) if not _is_own(item)]
    payload = {"message": "", "replacement_history": [*opening, *shown]}
    added = [{"type": "compacted", "payload": mark_applied(payload, copy.mark)}]
    if (usage := _build_usage(lines, copy.tokens)) is not None:
        added.append({"type": "event_msg", "payload": usage})
    out = []
    for line in added:
        number: Json = {}
        if ordinal is not None:
            ordinal += 1
            number = {"ordinal": ordinal}
        out.append(dump_json({"timestamp": copy.iso_time} | number | line, compact=True))
    return append_lines(data, out)


def _get_item(line: Json) -> Json | None:
    """Returns the Responses item of a line, in the layout with payloads or the older one with bare items."""
    payload = line.get("payload")
    if line.get("type") == "response_item":
        return payload if isinstance(payload, dict) else None
    return line if "payload" not in line and ("role" in line or "call_id" in line or "summary" in line) else None


def _find_opening(lines: Sequence[Json]) -> Iterator[Json]:
    """Finds what Codex itself said before the user's first words: its rules and the environment."""
    for item in filter(None, map(_get_item, lines)):
        if _is_own(item):
            yield item
        elif item.get("role") in ("user", "assistant"):
            return


def _is_own(item: Json) -> bool:
    """Returns whether Codex itself says this at the start of a session."""
    content = item.get("content")
    first = content[0] if isinstance(content, list) and content else None
    text = str(first.get("text") or "") if isinstance(first, dict) else ""
    return item.get("role") == "developer" or (item.get("role") == "user" and text.startswith("<environment_context>"))


def _copy_items(copy: ViewCopy) -> Iterator[Json]:
    for piece in (unfold_restated(piece, codex.COMPACTING) for piece in copy.build_pieces(codex.FORMAT)):
        if piece.exact:
            yield from filter(None, map(_get_item, parse_lines(piece)))
        else:
            yield from codex.render_items(piece.messages)


def _build_usage(lines: Sequence[Json], tokens: int) -> Json | None:
    """Builds the report by which Codex knows how full its window is, from its newest one. None if it wrote none."""
    for line in reversed(lines):
        payload = line.get("payload")
        if isinstance(payload, dict) and payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            last = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0}
            return payload | {"info": payload["info"] | {"last_token_usage": last | {"total_tokens": tokens}}}
    return None


# -- gemini-cli --------------------------------------------------------------------------------------------------------

_GEMINI_CLI = uuid.UUID("0b8d0f0e-1c0f-4a55-8c1c-d2c0a9a5d7e4")


def add_to_gemini_cli(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with a line behind its lines that sets the messages anew: gemini-cli goes on from the newest.

    The older layout, one document, has no such lines: it is returned with the messages of the view in place of its own.
    """
    records = []
    for index, record in enumerate(_copy_records(copy)):
        own = str(uuid.uuid5(_GEMINI_CLI, f"{copy.mark}/{index}/{len(data)}"))
        kept = {key: value for key, value in record.items() if key not in ("id", "tokens")}
        records.append({"id": own, "timestamp": copy.iso_time} | kept)
    if not _has_lines(data):
        return dump_json(json.loads(data) | {"messages": records, "lastUpdated": copy.iso_time})
    line = {"$set": {"messages": records, "lastUpdated": copy.iso_time}}
    return append_lines(data, [_dump_applied(line, copy)])


def _has_lines(data: bytes) -> bool:
    try:
        return "messages" not in json.loads(data.split(b"\n", 1)[0])
    except ValueError:
        return False


def _copy_records(copy: ViewCopy) -> Iterator[Json]:
    for piece in join_results(
        unfold_restated(piece, gemini_cli.RESTATING) for piece in copy.build_pieces(gemini_cli.FORMAT)
    ):
        yield from parse_lines(piece) if piece.exact else gemini_cli.render_records(piece)


# -- cline -------------------------------------------------------------------------------------------------------------

_CLINE = uuid.UUID("b1f6b7d4-95f5-4d43-a3a5-4a0f0c1f6a57")


def add_to_cline(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with the messages of the view in place of its own. Untouched messages keep their fields.

    What stood there is in the backup alone, so cline shows only the compacted conversation until it is undone.
    """
    document = json.loads(data)
    messages: list[Json] = []
    tools: dict[str, str] = {}
    for piece in copy.build_pieces("cline"):
        raws = [piece.raw] if piece.exact else encode_messages("anthropic", piece.messages)
        for raw in raws:
            message = json.loads(raw)
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            tools |= {b["id"]: b["name"] for b in blocks if b.get("type") == "tool_use"}
            blocks = [_with_tool(block, tools) for block in blocks]
            own = str(uuid.uuid5(_CLINE, f"{copy.mark}/{len(messages)}"))
            messages.append({"id": own, "ts": copy.time // 1000} | message | {"content": blocks})
    return dump_json(document | {"messages": messages})


def _with_tool(block: Json, tools: dict[str, str]) -> Json:
    """Returns a result with the name of its tool, without which cline refuses the session. Others stay as they are."""
    if block.get("type") != "tool_result" or "name" in block:
        return block
    return block | {"name": tools.get(block["tool_use_id"], "unknown")}


# -- opencode ----------------------------------------------------------------------------------------------------------


def add_to_opencode(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the document with a compaction and the view behind its messages, which stay as they are.

    opencode sends nothing before its newest compaction: a user message with a part of that type, and the answer to it
    that is marked as a summary.
    """
    document = json.loads(data)
    builder = _MessageBuilder(document, copy)
    said = [{"type": "text", "text": COMPACTED_NOTE}]
    added = [
        builder.build({"info": {"role": "user"}, "parts": [{"type": "compaction", "auto": False}]}),
        builder.build({"info": {"role": "assistant"}, "parts": said}, summary=True),
    ]
    for piece in join_results(copy.build_pieces(opencode.FORMAT)):
        messages = [json.loads(piece.raw)] if piece.exact else opencode.render_messages(piece)
        added += map(builder.build, messages)
    document["messages"] += added
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


class _MessageBuilder:
    """Completes messages of the view with what opencode expects of every one, from the newest of the session."""

    def __init__(self, document: Json, copy: ViewCopy) -> None:
        infos: list[Json] = [message["info"] for message in document["messages"]]
        newest = max((int(info.get("time", {}).get("created") or 0) for info in infos), default=0)
        self._millis, self._mark, self._session = max(copy.time // 1000, newest + 1), copy.mark, document["info"]["id"]
        self._asked = _find_newest(infos, "role", "user", ("agent", "model"))
        self._answer = _find_newest(infos, "role", "assistant", ("mode", "agent", "path", "modelID", "providerID"))
        self._tokens = {"input": copy.tokens, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        self._count, self._question = 0, ""

    def build(self, message: Json, **more: bool) -> Json:
        """Builds a message with new ids, behind those built before."""
        own, time, info = self._make_id("msg"), {"created": self._millis}, Json()
        if message["info"]["role"] == "user":
            self._question = own
            info |= {"role": "user", "time": time} | self._asked
        else:
            calls = any(part.get("type") == "tool" for part in message["parts"])
            info |= {"parentID": self._question, "role": "assistant"} | self._answer
            info |= {"cost": 0, "tokens": self._tokens, "finish": "tool-calls" if calls else "stop"}
            info |= {"time": time | {"completed": self._millis}} | more
        parts = []
        for part in message["parts"]:
            end = {"id": self._make_id("prt"), "messageID": own, "sessionID": self._session}
            parts.append({key: value for key, value in part.items() if key not in end} | end)
        return {"info": info | {"id": own, "sessionID": self._session}, "parts": parts}

    def _make_id(self, kind: str) -> str:
        """Makes the next id in opencode's order of time: 12 digits for the millisecond and a counter, and 14 more."""
        self._count += 1
        moment = (self._millis * 4096 + self._count) & 0xFFFF_FFFF_FFFF
        rest = hashlib.sha256(f"{self._mark}{self._count}".encode()).hexdigest()[:7]
        return f"{kind}_{moment:012x}{opencode.APPLIED_ID}{rest}"


def _find_newest(values: Sequence[Json], key: str, value: str, kept: Sequence[str]) -> Json:
    """Returns these fields of the newest object that has a value, as far as it has them."""
    found: Json = next((each for each in reversed(values) if each.get(key) == value), {})
    return {name: found[name] for name in kept if name in found}


# -- pi ----------------------------------------------------------------------------------------------------------------

_SETTINGS = ("model_change", "thinking_level_change")
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def add_to_pi(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with the view behind its entries: a second root in their tree, which pi takes for the newest.

    The branch repeats the settings in force, since pi reads them along the branch. A file before version 2 is no tree:
    pi makes one chain of its lines when it opens it. There the view stands behind a compaction that keeps nothing. Each
    answer reports the size of the compacted view, because pi decides by the newest report whether to compact by itself.
    """
    lines = read_objects(data)
    answer = next((m for m in map(_get_answer, reversed(lines)) if m is not None), {})
    messages = _copy_pi_entries(copy, answer)
    is_chain = bool(lines) and (lines[0].get("version") or 1) < 2
    added = _build_chain(len(lines), messages, copy) if is_chain else _build_branch(lines, messages, copy, len(data))
    return append_lines(data, [_dump_applied(line | {"timestamp": copy.iso_time}, copy) for line in added])


def _build_branch(lines: list[Json], messages: Iterator[Json], copy: ViewCopy, size: int) -> Iterator[Json]:
    """Builds a branch from the root, with the settings in force."""
    used = {str(line.get("id")) for line in lines}
    newest = {line["type"]: line for line in lines if line.get("type") in _SETTINGS}
    settings = [newest[kind] for kind in _SETTINGS if kind in newest]
    parent: str | None = None
    for number, value in enumerate((*settings, *messages)):
        own = _choose_id(used, f"{copy.mark}{number}{size}")
        used.add(own)
        yield value | {"id": own, "parentId": parent}
        parent = own


def _build_chain(count: int, messages: Iterator[Json], copy: ViewCopy) -> Iterator[Json]:
    """Builds what a file before version 2 can hold, of which pi makes one chain: a compaction that keeps nothing.

    `count` is the number of lines before it. The settings in force stand before it and stay in force.
    """
    compaction = {"type": "compaction", "summary": COMPACTED_NOTE, "tokensBefore": copy.tokens}
    yield compaction | {"firstKeptEntryIndex": count + 1}
    for value in messages:
        yield {key: each for key, each in value.items() if key not in ("id", "parentId")}


def _get_answer(line: Json) -> Json | None:
    message = line.get("message")
    return message if isinstance(message, dict) and message.get("role") == "assistant" else None


def _choose_id(used: set[str], text: str) -> str:
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    return own if own not in used else _choose_id(used, text + ".")


def _copy_pi_entries(copy: ViewCopy, answer: Json) -> Iterator[Json]:
    for piece in copy.build_pieces(pi.FORMAT):
        raw = b"" if piece.exact else pi.render_line(piece)
        for value in parse_lines(piece) if piece.exact else [json.loads(raw)] if raw else []:
            message = value.get("message")
            yield value if not isinstance(message, dict) else value | {"message": _complete(message, copy, answer)}


def _complete(message: Json, copy: ViewCopy, answer: Json) -> Json:
    """Completes a message with what pi expects of every one. An answer names its model and the size of the view."""
    completed = {"timestamp": copy.time // 1000} | message
    if message.get("role") != "assistant":
        return completed
    usage = {"input": copy.tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": copy.tokens}
    named = {key: answer.get(key, "unknown") for key in ("api", "provider", "model")}
    return named | completed | {"usage": usage | {"cost": _NO_COST}, "content": get_list(message, "content")}


ADDERS: Mapping[str, Callable[[bytes, ViewCopy], bytes]] = {
    "pi": add_to_pi,
    "codex": add_to_codex,
    "claude-code": add_to_claude_code,
    "opencode": add_to_opencode,
    "gemini-cli": add_to_gemini_cli,
    "cline": add_to_cline,
}
"""What adds a view to a session of each client."""
