"""One request to a model's API: which API it is, and its body, cut so that what is not changed is sent as it came."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES, get_wire, splice
from tenfold.core.wire.api import Api
from tenfold.core.wire.base import DecodedPrefix
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.sdk_values import to_json_bytes


def find_wire(path: str) -> str:
    """Returns the wire of a call to a model by its path, whatever its prefix. "" for any other path."""
    return next((name for name, wire in WIRES.items() if wire.api is not None and wire.api.path.search(path)), "")


class ModelRequest(Struct, frozen=True):
    """A call to a model. `fields` are the members of its body as they came, and `items` the messages of its list.

    `most_values` is how many values the body had at most, as it came.
    """

    wire: str
    body: bytes
    fields: Mapping[str, Raw]
    items: list[bytes]
    model: str
    is_stream: bool
    most_values: int

    @property
    def profile(self) -> Profile:
        """What is known of the API."""
        return get_wire(self.wire).profile

    @property
    def api(self) -> Api | None:
        """The HTTP side of the API, None if only its messages are known."""
        return get_wire(self.wire).api

    @property
    def list_field(self) -> str:
        """The field that holds the messages."""
        return self.profile.request.list_field

    def get_raw(self, *names: str) -> bytes:
        """Returns the bytes of the fields, one after the other. Fields that are not there are left out."""
        return b"\0".join(bytes(self.fields[name]) for name in names if name in self.fields)

    def read_output_limit(self) -> int:
        """Returns the limit that the request puts on the answer, in tokens. 0 if it has none."""
        request = self.profile.request
        return request.read_output_limit(self._parse_fields(*request.output_fields, *request.settings_fields))

    def digest_fields(self) -> bytes:
        """Returns a digest of the model and of all fields but the list, in their order."""
        digest = hashlib.sha256(self.model.encode("utf-8", "replace"))
        for name, raw in self.fields.items():
            value = b"" if name == self.list_field else bytes(raw)
            digest.update(b"\0%s\0%d\0%s" % (name.encode("utf-8", "replace"), len(value), value))
        return digest.digest()

    def has_server_state(self) -> bool:
        """Whether the provider holds a part of the conversation."""
        return any(self._has_value(name) for name in self.profile.request.partial_fields)

    def find_answer_field(self) -> str:
        """Returns the field that names an answer which the provider holds, if nothing else is held. "" otherwise."""
        stored = self.api.stored if self.api is not None else None
        held = [name for name in self.profile.request.partial_fields if self._has_value(name)]
        return stored.answer_field if stored is not None and held == [stored.answer_field] else ""

    def has_said(self, at: int, item: bytes) -> bool:
        """Whether the message at a place says the same as another one, apart from cache marks and the like."""
        return fingerprint_messages(self.decode_item(at)) == fingerprint_item(self.wire, item)

    def decode_item(self, at: int) -> list[Message]:
        """Decodes one item of the list by itself. What is said of one that cannot be read names its own place."""
        return get_wire(self.wire).decode([self.items[at]], prefix=DecodedPrefix(at))

    def build_mapping(self) -> dict[str, Any]:
        """Returns the request as `Session.before_model` takes it: its messages as bytes, its tools as one text."""
        out: dict[str, Any] = {
            name: splice.parse_value(raw) for name, raw in self.fields.items() if name not in (self.list_field, "tools")
        }
        if "tools" in self.fields:
            out["tools"] = bytes(self.fields["tools"]).decode()
        return {**out, "model": self.model, self.list_field: self.items}

    def with_mapping(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> ModelRequest:
        """Returns the request with what differs between two mappings. Everything else keeps its bytes."""
        field, fields = self.list_field, dict(self.fields)
        sent = after[field]
        is_changed = sent is not self.items and isinstance(sent, Sequence)
        items = [to_json_bytes(item) for item in sent] if is_changed else self.items
        for name, value in after.items():
            if name not in (field, "tools", "model") and value is not before.get(name):
                fields[name] = Raw(msgspec.json.encode(value))
        return self if items == self.items and fields == self.fields else self.with_items(items, fields)

    def with_items(self, items: list[bytes], fields: Mapping[str, Raw] | None = None) -> ModelRequest:
        """Returns the request with other messages, and with other fields if they are given."""
        changed = {**(fields or self.fields), self.list_field: Raw(splice.build_array(items))}
        return replace(self, fields=changed, items=items, body=splice.join_fields(changed))

    def with_fields(self, **values: bytes | None) -> ModelRequest:
        """Returns the request with other values of some fields; None removes the field."""
        changed = {**self.fields, **{name: Raw(value) for name, value in values.items() if value is not None}}
        kept = {name: raw for name, raw in changed.items() if values.get(name, b"") is not None}
        return replace(self, fields=kept, body=splice.join_fields(kept))

    def can_take_tools(self, names: Collection[str]) -> bool:
        """Whether tools of these names can be added, and calls of them be answered here.

        There have to be others, none may have such a name, and one answer has to be wanted. Where functions stand
        together in one tool, there has to be one.
        """
        api, request = self.api, self.profile.request
        if api is None or (self.is_stream and api.stream is None):
            return False
        own, text = splice.parse_array(self.fields.get("tools")), self.get_raw("tools")
        if not own or any(splice.quote(name) in text for name in names):
            return False
        if not request.is_for_one_answer(self._parse_fields(*request.count_fields, *request.settings_fields)):
            return False
        return not api.tool_lists or any(_find_list_field(raw, api) for raw in own)

    def with_tools(self, schemas: Sequence[Mapping[str, object]]) -> ModelRequest:
        """Returns the request with more tools after its own: in one list of functions where they stand together."""
        added = list(map(msgspec.json.encode, schemas))
        own, api = splice.parse_array(self.fields.get("tools")) or [], self.api
        at = next((n for n, raw in enumerate(own) if api is not None and _find_list_field(raw, api)), None)
        if at is None or api is None:
            return self.with_fields(tools=splice.build_array([*map(bytes, own), *added]))
        fields, key = splice.parse_object(own[at]) or {}, _find_list_field(own[at], api)
        functions = splice.build_array([*map(bytes, splice.parse_array(fields[key]) or []), *added])
        own[at] = Raw(splice.join_fields({**fields, key: Raw(functions)}))
        return self.with_fields(tools=splice.build_array(map(bytes, own)))

    def with_cache_mark(self, own_items: Collection[bytes]) -> ModelRequest:
        """Returns the request with a cache mark at the end of what was compacted, where the API has such marks.

        `own_items` are the client's messages.
        """
        mark = self.api.mark_prefix if self.api is not None else None
        items = mark(self.items, own_items, self.fields) if mark is not None else None
        return self if items is None else self.with_items(items)

    def _has_value(self, name: str) -> bool:
        return bytes(self.fields.get(name, b"null")) not in (b"null", b'""')

    def _parse_fields(self, *names: str) -> dict[str, Any]:
        return {name: splice.parse_value(self.fields[name]) for name in names if name in self.fields}


def _find_list_field(tool: Raw, api: Api) -> str:
    """Returns the field in which a tool has a list of functions, "" if it has none."""
    fields = (splice.parse_object(tool) if api.tool_lists else None) or {}
    return next((name for name in api.tool_lists if name in fields), "")


def fingerprint_item(wire: str, item: bytes) -> list[bytes]:
    """Returns what a native message says, apart from cache marks and the like, to be compared."""
    return fingerprint_messages(get_wire(wire).decode([item]))


def fingerprint_messages(messages: Sequence[Message]) -> list[bytes]:
    """Returns what messages say, apart from cache marks and the like, to be compared."""
    return list(map(fingerprint_message, messages))


_PIECE = 65_536
"""Bytes that are counted at a time: two copies of a whole large body cost more than the counting."""


def count_marks(body: bytes) -> int:
    """Counts the values that a body of JSON has at most: its texts may hold such marks too."""
    pieces = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
    return sum(len(piece) - len(piece.translate(None, b",[{")) for piece in pieces)


def parse_request(path: str, body: bytes, most_values: int | None = None) -> ModelRequest | None:
    """Returns the call to a model that a path and a body are. None for any other request, or one without messages.

    The values are counted if the caller has not done so: a body of 2 MB takes a millisecond.
    """
    wire = find_wire(path)
    request = parse_body(wire, body, most_values) if wire else None
    if request is None or request.api is None or not request.api.model_path:
        return request
    found = request.api.path.search(path)
    assert found is not None
    return replace(request, model=unquote(found["model"]), is_stream=bool(found["stream"]))


def parse_body(wire: str, body: bytes, most_values: int | None = None) -> ModelRequest | None:
    """Returns the call to a model that a body of this wire is, None if it is none."""
    fields = splice.parse_object(body)
    if fields is None:
        return None
    profile = get_wire(wire).profile
    value = fields.get(profile.request.list_field)
    text = splice.parse_string(value)
    raws = splice.parse_array(value)
    if text is not None and profile.takes_text:
        items = [msgspec.json.encode(profile.build_user_message(text))]
    elif raws is not None:
        items = [bytes(raw) for raw in raws]
    else:
        return None
    most_values = count_marks(body) if most_values is None else most_values
    model, is_stream = splice.get_text(fields, "model"), splice.is_true(fields.get("stream"))
    return ModelRequest(wire, body, fields, items, model, is_stream, most_values)
