"""One request to a model's API: which API it is, and its body, cut so that what is not changed is sent as it came."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tenfold.core.wire import get_wire, splice
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.sdk_values import to_json_bytes

_ENDPOINTS = (
    (re.compile(r"/chat/completions$"), "openai-chat"),
    (re.compile(r"/responses$"), "openai-responses"),
    (re.compile(r"/messages$"), "anthropic"),
    (re.compile(r"/models/([^/]+):(?:streamG|g)enerateContent$"), "gemini"),
)
"""The end of the path of each API's call to a model, and the wire that it speaks."""
SERVER_STATE_FIELDS = ("previous_response_id", "conversation")
"""Fields that refer to messages which the provider holds. The list then has only what is new."""


def find_wire(path: str) -> str:
    """Returns the wire of a call to a model by its path, whatever its prefix. "" for any other path."""
    return next((wire for pattern, wire in _ENDPOINTS if pattern.search(path)), "")


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
    def list_field(self) -> str:
        """The field that holds the messages."""
        return self.profile.request.list_field

    def get_raw(self, *names: str) -> bytes:
        """Returns the bytes of the fields, one after the other. Fields that are not there are left out."""
        return b"\0".join(bytes(self.fields[name]) for name in names if name in self.fields)

    def read_output_limit(self) -> int:
        """Returns the limit that the request puts on the answer, in tokens. 0 if it has none."""
        request = self.profile.request
        names = (*request.output_fields, *request.settings_fields)
        return request.read_output_limit(
            {name: splice.parse_value(self.fields[name]) for name in names if name in self.fields}
        )

    def digest_fields(self) -> bytes:
        """Returns a digest of the model and of all fields but the list, in their order."""
        digest = hashlib.sha256(self.model.encode("utf-8", "replace"))
        for name, raw in self.fields.items():
            value = b"" if name == self.list_field else bytes(raw)
            digest.update(b"\0%s\0%d\0%s" % (name.encode("utf-8", "replace"), len(value), value))
        return digest.digest()

    def has_server_state(self) -> bool:
        """Whether the provider holds a part of the conversation."""
        return any(bytes(self.fields.get(name, b"null")) not in (b"null", b'""') for name in SERVER_STATE_FIELDS)

    def has_conversation(self) -> bool:
        """Whether it goes on a conversation object of the provider."""
        return bytes(self.fields.get("conversation", b"null")) != b"null"

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
        """Whether tools of these names can be added: there are others, none has such a name, and one answer is wanted.

        Gemini takes no functions beside tools of its own.
        """
        own, text = splice.parse_array(self.fields.get("tools")), self.get_raw("tools")
        if not own or any(splice.quote(name) in text for name in names):
            return False
        settings = splice.parse_object(self.fields.get("generationConfig", b"")) or {}
        counts = (self.fields.get("n", b"1"), settings.get("candidateCount", b"1"))
        if any(bytes(count) not in (b"1", b"null") for count in counts):
            return False
        return self.wire != "gemini" or any(_has_functions(raw) for raw in own)

    def with_tools(self, schemas: Sequence[Mapping[str, object]]) -> ModelRequest:
        """Returns the request with more tools after its own. Gemini's stand together in one list of functions."""
        added = list(map(msgspec.json.encode, schemas))
        own = splice.parse_array(self.fields.get("tools")) or []
        at = next((n for n, raw in enumerate(own) if self.wire == "gemini" and _has_functions(raw)), None)
        if at is None:
            return self.with_fields(tools=splice.build_array([*map(bytes, own), *added]))
        fields = splice.parse_object(own[at]) or {}
        key = next(key for key in _FUNCTION_FIELDS if key in fields)
        functions = splice.build_array([*map(bytes, splice.parse_array(fields[key]) or []), *added])
        own[at] = Raw(splice.join_fields({**fields, key: Raw(functions)}))
        return self.with_fields(tools=splice.build_array(map(bytes, own)))


_FUNCTION_FIELDS = ("functionDeclarations", "function_declarations")
"""Where Gemini has the functions of a tool."""


def _has_functions(tool: Raw) -> bool:
    """Whether a tool of Gemini's is a list of functions."""
    return any(name in (splice.parse_object(tool) or {}) for name in _FUNCTION_FIELDS)


def count_marks(body: bytes) -> int:
    """Counts the values that a body of JSON has at most: its texts may hold such marks too."""
    return len(body) - len(body.translate(None, b",[{"))


def parse_request(path: str, body: bytes, most_values: int | None = None) -> ModelRequest | None:
    """Returns the call to a model that a path and a body are. None for any other request, or one without messages.

    The values are counted if the caller has not done so: a body of 2 MB takes a millisecond.
    """
    endpoint = next(((found, wire) for p, wire in _ENDPOINTS if (found := p.search(path))), None)
    if endpoint is None:
        return None
    found, wire = endpoint
    request = parse_body(wire, body, most_values)
    if request is None or wire != "gemini":
        return request
    return replace(request, model=unquote(found[1]), is_stream=":stream" in path)


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
