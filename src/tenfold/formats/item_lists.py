"""Files that hold one list of items, or one such list for each of several conversations.

A list is an array, a member of an object (in a path of keys), or the lines of a file. Several objects with such a list,
in an array or on lines, are several sessions. What an item means is for the formats that derive from these classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import MessageEntry, Usage
from tenfold.core.record.message import Message, NativeBytes
from tenfold.core.wire.foreign_shapes import has_shape
from tenfold.core.wire.splice import find_span
from tenfold.errors import BadInput, UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import dump_json
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.json_items import JsonArray, JsonItem, parse_array, parse_document
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import (
    LinkFields,
    OutputPiece,
    PieceRenderer,
    build_pieces,
    join_elements,
    join_lines,
    join_results,
    link_pieces,
    render_pieces,
    share_bytes,
)
from tenfold.formats.session_draft import SessionDraft, build_sessions, find_timestamp
from tenfold.store.base import SessionInfo

KeyPath = tuple[str, ...]


class Record(Struct):
    """What an item means: its messages, or if it is none, its `kind`."""

    messages: Sequence[Message] = ()
    usage: Usage | None = None
    kind: str = ""


class ItemListFormat(SessionFormat, Protocol):
    """A list of items, wherever it stands in a file. A format is what it says of these.

    `paths` are the keys that lead to the list, `session_keys` those of the session's id beside it. With `has_results`
    an answer's item holds the results of its calls. `frame` is what stands around the items of a new file.
    """

    paths: Sequence[KeyPath] = (("messages",),)
    session_keys: Sequence[str] = ("session_id", "sessionId", "id")
    has_results: bool = False
    frame: tuple[bytes, bytes] = (b"[", b"]\n")

    # -- what tells one format from another ----------------------------------------------------------------------------

    def is_item(self, value: dict[str, Any]) -> bool:
        """Returns whether a value can only be an item of this format: here one with the shape of the format's name."""
        return has_shape(value, self.name)

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:
        """Adds items to a session. `source` is the file if they are its lines."""
        ...

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Renders the messages of a piece as items."""
        ...

    def join_pieces(self, pieces: Sequence[OutputPiece], render: PieceRenderer) -> list[OutputPiece]:
        """Renders the pieces that are new, and whatever changes around them."""
        return render_pieces(pieces, render)

    def get_thread(self, value: Mapping[str, Any]) -> str:  # noqa: ARG002 - most have one
        """Returns the name of the sidechain that a line belongs to, "" for the conversation itself."""
        return ""

    def list_opening(self, top: Mapping[str, Any]) -> Sequence[Message]:  # noqa: ARG002 - most have none
        """Lists messages that stand beside the list, before it: a system prompt, the first question."""
        return ()

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Reads what the object around the list, or the first line with an id, says of the session."""
        session = next((v for key in self.session_keys if isinstance(v := top.get(key), str)), "")
        title = next((v for key in ("title", "name", "description") if isinstance(v := top.get(key), str)), "")
        model = top["model"] if isinstance(top.get("model"), str) else ""
        return SessionInfo(session, self.name, file, title, model, source_id=session)

    # -- reading -------------------------------------------------------------------------------------------------------

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an item."""
        return any(self.is_item(value) for value in self._iterate_values(inspect_shape(head)))

    def _iterate_values(self, shape: FileShape) -> Iterator[dict[str, Any]]:
        for value in shape.items or shape.lines:
            if isinstance(value, dict):
                yield value
                inner = _walk(value, self.find_path(value) or ("",))
                yield from (each for each in inner or () if isinstance(each, dict))

    def find_path(self, value: Mapping[str, Any]) -> KeyPath | None:
        """Finds the keys that lead to the list in an object, None if it holds none."""
        return next((path for path in self.paths if _walk(value, path) is not None), None)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the sessions of the file."""
        shape = inspect_shape(data)
        has_list = bool(shape.lines) and self.find_path(shape.lines[0]) is not None
        can_hold_list = any(path[0] in shape.members for path in self.paths)
        is_one_value = shape.members and (can_hold_list or b"\n" in data.strip())
        if shape.lines and not is_one_value:
            source = LineFile(data, file=file, skip_damaged=skip_damaged)
            if has_list and not self.is_item(shape.lines[0]):
                return self.read_conversations(source.lines, (source.before, source.after), file, source.problems)
            return self._read_lines(source, file)
        top = parse_document(data, file)
        if isinstance(top, list):
            array = parse_array(data, "", file)
            first = next((v for v in top if isinstance(v, dict)), {})
            if self.find_path(first) is not None and not self.is_item(first):
                return self.read_conversations(array.elements, (array.before, array.after), file)
            top = {}
        elif isinstance(top, dict) and self.find_path(top) is None and self.is_item(top):
            start, end = data.index(b"{"), data.rindex(b"}") + 1
            array, top = JsonArray(data[:start], [JsonItem(0, b"", data[start:end], top)], data[end:]), {}
        elif isinstance(top, dict):
            array = parse_array_at(data, self.find_path(top) or (self.paths or (("messages",),))[0], file)
        else:
            raise BadInput(f"{file}: neither a list of messages nor an object with one; is this the right --format?")
        return self.read_list(array, top, self.read_info(top, file), file)

    def read_list(self, array: JsonArray, top: Mapping[str, Any], info: SessionInfo, file: str) -> list[ParsedSession]:
        """Parses the one session of a list. `top` is the object around it."""
        draft = SessionDraft(file, "element")
        opening = self.list_opening(top)
        if opening:
            draft.start_item(-1)
            beside = NativeBytes(self.name, b"")  # their bytes are in the prefix
            draft.add_messages([replace(message, native=beside) for message in opening])
        self.add_items(draft, array.elements, file, None)
        return build_sessions([draft], [replace(info, prefix=array.before, suffix=array.after)])

    def _read_lines(self, source: LineFile, file: str) -> list[ParsedSession]:
        drafts = {"": SessionDraft(file)}
        for (is_damaged, thread), lines in groupby(
            source.lines, lambda line: (bool(line.problem), "" if line.problem else self.get_thread(line.value))
        ):
            draft = drafts.setdefault(thread, SessionDraft(file))
            if not is_damaged:
                self.add_items(draft, list(lines), file, source)
                continue
            for line in lines:
                draft.start_item(line.number, place=line.place)
                draft.add_damaged(line.problem, line.to_native(self.name))
        keys = [key for key in self.session_keys if key != "id"]  # on a line, that is the id of the item
        named = {
            key: line.value[key] for line in reversed(source.lines) for key in (*keys, "model") if key in line.value
        }
        info = replace(self.read_info(named, file), prefix=source.before, suffix=source.after)
        if not drafts[""].newest_entry and len(drafts) > 1:
            del drafts[""]  # a sidechain that was written alone
        if len(drafts) == 1:
            return build_sessions([*drafts.values()], [info], source.problems)
        infos = [replace(info, suffix=b"", standalone_suffix=source.after)]
        for thread in [*drafts][1:]:
            own = f"{info.id}#{thread}"
            infos.append(
                replace(infos[0], id=own, source_id=own, parent=info.id, title="", prefix=b"", file_prefix=b"\n")
            )
        infos[-1] = replace(infos[-1], file_suffix=source.after)
        return build_sessions([*drafts.values()], infos, source.problems)

    def read_conversations(
        self, items: Sequence[JsonItem], ends: tuple[bytes, bytes], file: str, problems: Sequence[str] = ()
    ) -> list[ParsedSession]:
        """Parses the lists of several objects, a session each. `ends` are the bytes before and behind these."""
        out: list[ParsedSession] = []
        gap, found = ends[0], list(problems)
        line_end = ends[1][: len(ends[1]) - len(ends[1].lstrip())]
        for item in items:
            path = self.find_path(item.value) if isinstance(item.value, dict) else None
            if path is None:
                found.append(item.problem or f"{item.number} holds no conversation")
                gap += item.lead + item.raw
                continue
            place = f"{file}, conversation {len(out) + 1}"
            info = self.read_info(item.value, file)
            info = replace(info, file_prefix=gap + item.lead, standalone_suffix=line_end)
            out += self.read_list(parse_array_at(item.raw, path, place), item.value, info, place)
            gap = b""
        if not out:
            raise BadInput(f"{file}: no object holds a list of messages; is this the right --format?")
        last = replace(out[-1], info=replace(out[-1].info, file_suffix=gap + ends[1]))
        return [*out[:-1], replace(last, problems=(*last.problems, *found))]

    # -- writing -------------------------------------------------------------------------------------------------------

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the list with the bytes around it in its file."""
        is_array = info.prefix.rstrip().endswith(b"[")

        def render(piece: OutputPiece) -> bytes:
            return (b",\n" if is_array else b"\n").join(self.render_items(piece))

        pieces = build_pieces(items, self.name)
        rendered = self.join_pieces(join_results(pieces) if self.has_results else pieces, render)
        return join_elements(info, rendered) if is_array else join_lines(info, rendered)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds the frame of a new file."""
        return SessionInfo(session_id, self.name, prefix=self.frame[0], suffix=self.frame[1])


class RecordFormat(ItemListFormat, Protocol):
    """A list of items that each mean the same wherever they stand.

    `id_key` and `parent_key` name an item's own id and that of its parent.
    """

    id_key: str = "id"
    parent_key: str = ""

    def parse(self, value: dict[str, Any]) -> Record:
        """Says what an item means. Raises `UnknownRole` with the role that it saw."""
        ...

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as items."""
        ...

    def get_about(self, value: dict[str, Any]) -> Mapping[str, Any]:
        """Returns the object with an item's id, its parent's and its time: here the item itself."""
        return value

    def get_answer_id(self, value: Mapping[str, Any]) -> str:  # noqa: ARG002 - most have one item for each answer
        """Returns the id of an item's answer. Items with the same one that follow each other are one answer."""
        return ""

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:
        """Adds the messages of each item, or the item as an entry without a message."""
        answer_id = ""
        for item in items:
            value = item.get_object(file)
            self._start_item(draft, item, self.get_about(value))
            last_id, answer_id = answer_id, self.get_answer_id(value)
            try:
                record = self.parse(value)
            except UnknownRole as exc:
                if source is None:
                    problem = f"element {item.number}: {exc.args[0]!r} is not a role of the {self.name} format"
                    raise UnknownRole(f"{file}: {problem}; correct it, or name another --format") from exc
                problem = source.reject_role(item, exc.args[0], self.name).problem
                draft.add_damaged(problem, item.to_native(self.name))
                continue
            self._add_record(draft, item, record, is_next=answer_id != "" and answer_id == last_id)

    def _start_item(self, draft: SessionDraft, item: JsonItem, about: Mapping[str, Any]) -> None:
        own, parent = about.get(self.id_key), about.get(self.parent_key)
        id_ = own if isinstance(own, str) and not draft.has_source(own) else ""
        draft.start_item(item.number, source_id=id_, timestamp=find_timestamp(about), place=item.place)
        if isinstance(parent, str) and draft.has_source(parent):
            draft.set_parent(parent)

    def _add_record(self, draft: SessionDraft, item: JsonItem, record: Record, *, is_next: bool) -> None:
        """Adds what an item means. With `is_next` it goes on with the answer of the item before."""
        native = item.to_native(self.name)
        if not record.messages:
            draft.add_custom(record.kind or "unknown", native)
        elif is_next and len(record.messages) == 1 and isinstance(draft.newest_entry, MessageEntry):
            draft.extend_newest(replace(record.messages[0], native=native), record.usage)
        else:
            has_more = len(record.messages) > 1  # the results of an answer, behind it
            messages = share_bytes(record.messages, native, f"{item.number}.{item.place}")
            draft.add_messages(messages, None if has_more else record.usage)
            draft.set_usage(record.usage if has_more else None)

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Renders the messages of a piece as items. Where items name their parents, a message is one item."""
        items = self.render(piece.messages)
        if self.parent_key:
            items = [{self.id_key: piece.source_id, self.parent_key: piece.parent_id or None} | items[0]]
        return list(map(dump_json, items))

    def join_pieces(self, pieces: Sequence[OutputPiece], render: PieceRenderer) -> list[OutputPiece]:
        """Renders the pieces that are new. Where items name their parents, none names one that is gone."""
        if not self.parent_key:
            return super().join_pieces(pieces, render)
        return link_pieces(pieces, LinkFields(self.id_key, self.parent_key, 36), render)


def parse_array_at(data: bytes, path: KeyPath, file: str) -> JsonArray:
    """Parses the array that a path of keys leads to in a JSON object. Raises `BadInput` that names the key."""
    start, end = 0, len(data)
    for key in path[:-1]:
        span = find_span(data[start:end], key)
        if span is None:
            raise BadInput(f"{file}: there is no object under {key!r}; is this the right --format?")
        start, end = start + span[0], start + span[1]
    array = parse_array(data[start:end], path[-1], file)
    return JsonArray(data[:start] + array.before, array.elements, array.after + data[end:])


def _walk(value: Mapping[str, Any], path: KeyPath) -> list[Any] | None:
    found: Any = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, list) else None
