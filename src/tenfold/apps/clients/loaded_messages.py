"""Reads a client's session as the client itself does when it resumes it: the messages that it will send.

Each client goes by rules of its own where its file holds more than one conversation. They are stated here once more,
apart from what writes a view, so that what was written can be compared with what was promised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tenfold.apps.clients.view_copy import COMPACTED_NOTE, read_objects
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import BadInput
from tenfold.formats.content_blocks import dump_json, parse_texts
from tenfold.formats.gemini_cli import is_unsent
from tenfold.formats.json_items import list_objects
from tenfold.formats.opencode import RESULT_NOT_KEPT
from tenfold.formats.session_draft import APPLIED_KEY
from tenfold.formats.session_files import get_format

Json = dict[str, Any]


def load_messages(client: str, data: bytes) -> list[Message]:
    """Returns the messages that the client sends when it resumes this session.

    Raises `BadInput` if the client cannot load it.
    """
    loaded = _LOADERS[client](data)
    (session,) = get_format(client).read(loaded, file=f"the session of {client}", skip_damaged=False)
    return [message for entry in session.entries if (message := get_message(entry)) is not None]


def list_words(client: str, messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Lists what messages say, in order: texts, calls and results.

    Left out is what a client leaves out or says anew by itself when it resumes a session, and its own compaction.
    """
    out: list[tuple[str, str]] = []
    for message in messages:
        text, result = get_text(message), get_tool_result(message)
        if text == COMPACTED_NOTE or (
            result is None and message.role != "assistant" and _is_own(client, message, text)
        ):
            continue
        words = "".join(text.split())
        if words and result is None:
            out.append(("text", words))
        out += [("call", call.name) for call in get_tool_calls(message)]
        if result is not None and text != RESULT_NOT_KEPT:
            out.append(("result", words))
    return out


def _is_own(client: str, message: Message, text: str) -> bool:
    """Returns whether this message is of the client itself, or one that it never sends again."""
    if client == "codex":
        is_rule = message.role == "system" and find_summary_mark(text) is None
        return is_rule or text.startswith("<environment_context>")
    return client == "gemini-cli" and is_unsent({"type": "user"}, [message])


def _read_unmarked(data: bytes) -> list[Json]:
    return [{key: value for key, value in line.items() if key != APPLIED_KEY} for line in read_objects(data)]


def _join_lines(values: Iterable[Json]) -> bytes:
    return b"".join(dump_json(value, compact=True) + b"\n" for value in values)


def _list_chain(entries: Sequence[Json], id_key: str, parent_key: str, is_first: Callable[[Json], bool]) -> list[Json]:
    """Lists the entries from the beginning, or the newest that `is_first`, to the last one."""
    known = {entry[id_key]: entry for entry in entries}
    chain: list[Json] = []
    entry: Json | None = entries[-1] if entries else None
    while entry is not None and len(chain) <= len(entries):
        chain.append(entry)
        entry = None if is_first(entry) else known.get(entry.get(parent_key) or "")
    return chain[::-1]


def _load_claude_code(data: bytes) -> bytes:
    """The chain of the newest line, and nothing before the newest boundary."""
    lines = [
        line | {"isCompactSummary": False}  # it is sent like any other
        for line in _read_unmarked(data)
        if line.get("uuid") and line.get("isSidechain") is not True
    ]
    return _join_lines(_list_chain(lines, "uuid", "parentUuid", lambda line: line.get("subtype") == "compact_boundary"))


def _load_codex(data: bytes) -> bytes:
    """What the newest compaction put in place of the history, and the items behind it."""
    head, *lines = _read_unmarked(data)
    if head.get("type") != "session_meta":
        raise BadInput("Codex does not resume sessions of this old layout, whose lines have no payload")
    items: list[Json] = []
    for line in lines:
        payload = line.get("payload")
        if line.get("type") == "compacted" and isinstance(payload, dict):
            items = [
                {"type": "response_item", "payload": item} for item in list_objects(payload, "replacement_history")
            ]
        elif line.get("type") == "response_item":
            items.append(line)
    return _join_lines([head, *items])


def _load_pi(data: bytes) -> bytes:
    """The branch of the last entry, from its newest compaction on. Before version 2 all entries are one branch."""
    head, *entries = _read_unmarked(data)
    if head.get("type") != "session" or not isinstance(head.get("id"), str):
        raise BadInput("pi takes a file without a header for an empty session")
    if (head.get("version") or 1) < 2:
        lines = [head, *entries]
        for number, entry in enumerate(lines):
            entry |= {"id": f"{number}", "parentId": f"{number - 1}" if number > 1 else None}
        for entry in entries:
            if isinstance(index := entry.get("firstKeptEntryIndex"), int) and 0 < index < len(lines):
                entry["firstKeptEntryId"] = lines[index]["id"]
    path = _list_chain(entries, "id", "parentId", lambda _: False)
    place = next((n for n in reversed(range(len(path))) if path[n].get("type") == "compaction"), None)
    if place is not None:
        ids = [entry["id"] for entry in path[:place]]
        first = path[place].get("firstKeptEntryId")
        kept = path[ids.index(first) : place] if first in ids else []
        summary = {"role": "user", "content": path[place].get("summary")}
        path = [{"type": "message", "message": summary}, *kept, *path[place + 1 :]]
    chained = [
        entry | {"id": f"{number}", "parentId": f"{number - 1}" if number else None}
        for number, entry in enumerate(path)
    ]
    return _join_lines([{"type": "session", "version": 3, "id": "s", "cwd": "/"}, *chained])


def _load_gemini_cli(data: bytes) -> bytes:
    """The records by their ids, as the lines change them one after another."""
    records: dict[str, Json] = {}
    whole = _parse_document(data)
    lines = [whole] if whole is not None else _read_unmarked(data)
    for line in lines:
        changed = line.get("$set")
        stated = changed if isinstance(changed, dict) else line
        if isinstance(line.get("$rewindTo"), str):
            ids = list(records)
            end = ids.index(line["$rewindTo"]) if line["$rewindTo"] in ids else 0
            records = {own: records[own] for own in ids[:end]}
        elif isinstance(line.get("id"), str):
            records[line["id"]] = line
        elif isinstance(stated.get("messages"), list):
            records = {} if changed is not None else records
            records |= {str(record["id"]): record for record in list_objects(stated, "messages") if "id" in record}
    sent = [record for record in records.values() if not _is_left_out(record)]
    return dump_json({"sessionId": "s", "projectHash": "p", "messages": sent})


def _parse_document(data: bytes) -> Json | None:
    try:
        whole = json.loads(data)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) and "messages" in whole else None


def _is_left_out(record: Json) -> bool:
    return is_unsent(record, [Message("user", parse_texts(record.get("content")), "human")])


def _load_opencode(data: bytes) -> bytes:
    """The messages from the newest compaction on that was answered by a summary."""
    document = json.loads(data)
    messages = list_objects(document, "messages")
    summaries = {m["info"].get("parentID") for m in messages if m["info"].get("summary") is True}
    starts = [
        place
        for place, message in enumerate(messages)
        if message["info"]["id"] in summaries
        and any(part.get("type") == "compaction" for part in list_objects(message, "parts"))
    ]
    sent = messages[starts[-1] :] if starts else messages
    numbered = [message | {"info": message["info"] | {"id": f"m{number}"}} for number, message in enumerate(sent)]
    return dump_json(document | {"messages": numbered})


def _load_cline(data: bytes) -> bytes:
    """All messages of the file."""
    document = json.loads(data)
    if not all("name" in b for m in list_objects(document, "messages") for b in _list_results(m)):
        raise BadInput("cline refuses a session with a result that does not name its tool")
    return data


def _list_results(message: Json) -> list[Json]:
    return [block for block in list_objects(message, "content") if block.get("type") == "tool_result"]


_LOADERS: dict[str, Callable[[bytes], bytes]] = {
    "claude-code": _load_claude_code,
    "codex": _load_codex,
    "pi": _load_pi,
    "gemini-cli": _load_gemini_cli,
    "opencode": _load_opencode,
    "cline": _load_cline,
}
