"""The lines in which gemini-cli keeps a session since it no longer writes one document: records and changes to them.

A record that comes again with the same id takes the place of the earlier one. `$set` changes what is known of the
session, `messages` among it. `$rewindTo` goes back to before a record: what it leaves is kept here all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenfold.formats.applied_lines import APPLIED_KIND, is_applied
from tenfold.formats.base import ParsedSession
from tenfold.formats.json_items import JsonItem, list_objects
from tenfold.formats.json_lines import LineFile
from tenfold.formats.session_draft import SessionDraft, build_sessions
from tenfold.record.message import Message, NativeBytes, Text
from tenfold.store.base import SessionInfo
from tenfold.wire import find_text_origin

AddRecord = Callable[[SessionDraft, JsonItem, str], None]
"""Adds one record to a draft, as the documents hold it."""


def read_lines(
    data: bytes, *, file: str, skip_damaged: bool, format: str, add_record: AddRecord
) -> list[ParsedSession]:
    """Parses the one session of a file of lines."""
    source = LineFile(data, file=file, skip_damaged=skip_damaged)
    header = source.take_header(lambda value: "sessionId" in value and "projectHash" in value)
    newest = {str(line.value["id"]): line.number for line in source.lines if line.value.get("id")}
    answered = {
        str(c.get("id")) for line in source.lines for c in list_objects(line.value, "toolCalls") if c.get("result")
    }
    draft = SessionDraft(file)
    for line in source.lines:
        value = line.value
        own = str(value.get("id") or "")
        native = line.to_native(format)
        if own and newest[own] == line.number:
            if _is_kept_elsewhere(value, answered):
                draft.start_item(line.number, source_id=own, timestamp=value.get("timestamp"), place=line.place)
                draft.add_custom("function_response", native)
            else:
                add_record(draft, line, file)
            continue
        draft.start_item(line.number, place=line.place)
        if line.problem:
            draft.add_damaged(line.problem, native)
        elif is_applied(value):
            draft.add_custom(APPLIED_KIND, native)
        elif messages := _find_new_messages(value, newest):
            draft.add_messages(_share_bytes(messages, replace(native, group=f"line{line.number}")))
        else:
            draft.add_custom(next(iter(value), "unknown") if not own else "earlier_form", native)
    session = str(header.get("sessionId") or "")
    info = SessionInfo(session, format, file, source_id=session, prefix=source.before, suffix=source.after)
    return build_sessions([draft], [info], source.problems)


def _is_kept_elsewhere(value: dict[str, Any], answered: set[str]) -> bool:
    """Returns whether a record holds only results, which the records of their calls hold as well."""
    responses = [part.get("functionResponse") for part in list_objects(value, "content")]
    ids = [str(response.get("id")) for response in responses if isinstance(response, dict)]
    return bool(ids) and len(ids) == len(responses) and answered.issuperset(ids)


def _find_new_messages(value: dict[str, Any], known: dict[str, int]) -> list[Message]:
    """Finds the messages of the user that a `$set` line adds, as gemini-cli writes those that begin a session."""
    changed = value.get("$set")
    records = list_objects(changed, "messages") if isinstance(changed, dict) else []
    out = []
    for record in records:
        text = " ".join(str(part.get("text") or "") for part in list_objects(record, "content"))
        if record.get("type") == "user" and text.strip() and str(record.get("id")) not in known:
            out.append(Message("user", (Text(text),), find_text_origin(text)))
    return out


def _share_bytes(messages: list[Message], native: NativeBytes) -> list[Message]:
    """Gives the messages of one line its bytes: the first has them all, and only together are they the line."""
    if len(messages) == 1:
        return [replace(messages[0], native=replace(native, group=""))]
    first = replace(native, count=len(messages))
    rest = replace(native, body=b"", lead=b"", count=len(messages))
    return [
        replace(message, native=replace(first if index == 0 else rest, index=index))
        for index, message in enumerate(messages)
    ]
