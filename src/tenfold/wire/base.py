"""What all wires share: the `Wire` protocol and the result of an encoding, with a list of what had to change.

Each encoding has one `Ledger`, which records the Adjustments and keeps the ids of tool calls consistent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Thinking,
    ToolCall,
    get_tool_calls,
    get_tool_result,
    has_item_references,
)
from tenfold.wire import splice
from tenfold.wire.marks import SummaryConfirmer
from tenfold.wire.media import inline_document, render_placeholder
from tenfold.wire.profiles import MADE_ID_PREFIX, Profile

AdjustmentKind = Literal[
    "opening_stub",
    "results_joined",
    "id_made",
    "id_changed",
    "thinking_dropped",
    "signature_dropped",
    "image_dropped",
    "document_as_text",
    "document_dropped",
    "opaque_dropped",
    "compaction_dropped",
    "call_made",
    "system_folded",
    "error_flag_in_text",
    "empty_text_dropped",
    "empty_message_dropped",
    "arguments_wrapped",
    "envelope_dropped",
]


class Adjustment(Struct, frozen=True):
    """One loss or insertion of an encoding. `index` is the place of the message in the encoded list."""

    kind: AdjustmentKind
    index: int
    note: str


class EncodedItem(Struct, frozen=True):
    """One native message, or one item of OpenAI Responses.

    `indices` are those of our messages in it; an inserted one has none. `exact` says that the bytes are a native
    message as it arrived, so that a caller can return the same object that it was given.
    """

    raw: bytes
    indices: tuple[int, ...]
    exact: bool


class EncodedList(Struct, frozen=True):
    """An encoded list. `system` holds the leading system texts, for wires that take the system prompt separately."""

    items: tuple[EncodedItem, ...]
    system: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()


class DecodedPrefix(Struct, frozen=True):
    """The beginning of a list, which was decoded earlier: `item_count` items, now the first `message_count` `messages`.

    The last of these messages is not an answer of the model: an answer may go on, so it is decoded again as a whole.
    """

    item_count: int = 0
    message_count: int = 0
    messages: Sequence[Message] = ()

    def iterate_backwards(self) -> Iterator[Message]:
        """Yields the messages, newest first."""
        return (self.messages[at] for at in range(self.message_count - 1, -1, -1))


NO_PREFIX = DecodedPrefix()
"""The prefix of a list that is decoded from its beginning."""


class ToolNames:
    """The names of the tools, by call id, of all calls decoded so far. If calls share an id, the newest counts."""

    def __init__(self, prefix: DecodedPrefix = NO_PREFIX) -> None:
        self._prefix = prefix
        self._name_by_call: dict[str, str | None] = {}

    def add_calls(self, parts: Iterable[Part]) -> None:
        """Adds the tool calls among these parts."""
        self._name_by_call.update((p.id, p.name) for p in parts if isinstance(p, ToolCall))

    def get_name(self, call_id: str) -> str | None:
        """Returns the name of the tool that was called, None if there was no such call."""
        if call_id not in self._name_by_call:
            calls = (c for m in self._prefix.iterate_backwards() for c in reversed(get_tool_calls(m)))
            self._name_by_call[call_id] = next((c.name for c in calls if c.id == call_id), None)
        return self._name_by_call[call_id]


class Wire(Protocol):
    """One provider's message format. Get one from `WIRES`."""

    name: str
    profile: Profile

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """Decodes native messages, each as JSON bytes. `prefix` is the beginning of the list if it was decoded earlier.

        Raises `UnknownRole`, and `BadInput` for an item that is not a JSON object.
        """
        ...

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """Encodes messages: untouched ones byte for byte, the others rendered from their parts."""
        ...


class Ledger:
    """Collects the Adjustments of one encoding, and maps call ids to ids that the wire accepts."""

    def __init__(self, profile: Profile, messages: Sequence[Message]) -> None:
        self.profile, self.wire = profile, profile.wire
        self.adjustments: list[Adjustment] = []
        self._unanswered_ids: dict[str, list[str]] = {}
        self._latest_ids: dict[str, str] = {}
        self._used_ids: set[str] = set()
        source_format = next((m.native.format for m in messages if m.native is not None), "")
        self._is_source_own = profile.is_own_format(source_format)
        self._is_source_foreign = bool(source_format) and not self._is_source_own
        self._tool_names = {c.id: c.name for m in messages for c in get_tool_calls(m)}

    def note(self, kind: AdjustmentKind, index: int, note: str) -> None:
        """Records one loss or insertion."""
        self.adjustments.append(Adjustment(kind, index, note))

    def note_lost_thinking(self, part: Thinking, index: int, reason: str) -> None:
        """Records that a thinking part is not sent."""
        self.note("thinking_dropped" if part.text else "signature_dropped", index, reason)

    def note_empty_text(self, index: int) -> None:
        """Records that an empty text is not sent."""
        self.note("empty_text_dropped", index, "an empty text part")

    def replace_by_placeholder(self, part: Image | Document, index: int, reason: str = "") -> str:
        """Records that an image or document cannot be sent, and returns the text to send in its place."""
        if isinstance(part, Image):
            self.note("image_dropped", index, reason or "the image has neither data nor address")
        else:
            reason = reason or f"a document of type {part.media_type or 'unknown'} cannot be sent"
            self.note("document_dropped", index, reason)
        return render_placeholder(part)

    def replace_by_text(self, part: Document, index: int) -> str:
        """Records that a document is sent as text, and returns that text."""
        self.note("document_as_text", index, f"document {part.name or part.media_type or 'without a name'}")
        return inline_document(part)

    def is_foreign(self, message: Message) -> bool:
        """Whether the signatures and opaque parts of a message belong to another provider.

        A message without native bytes was made by us. It counts as one of the wire that the list came from.
        """
        if message.native is None:
            return self._is_source_foreign
        return not self.profile.is_own_format(message.native.format)

    def should_drop(self, part: OpaquePart, index: int, *, foreign: bool) -> bool:
        """Whether a part is another provider's and left out, which is recorded. `foreign`: its message is another's."""
        if part.bound_wire and part.bound_wire != self.wire:
            self.note("compaction_dropped", index, f"only {part.bound_wire} can read what it compacted into this part")
        elif foreign and not part.bound_wire:
            self.note("opaque_dropped", index, f"a {part.kind or 'nameless'} part of another format")
        else:
            return False
        return True

    def add_missing_calls(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Adds the calls of tool results whose call the message list of another provider only refers to."""
        named = [at for at, m in enumerate(messages) if has_item_references(m) and self.is_foreign(m)]
        if not named:
            return messages
        out = list(messages)
        for index in named:
            call_ids = {c.id for c in get_tool_calls(messages[index])}
            results = takewhile(bool, map(get_tool_result, islice(messages, index + 1, None)))
            missing_calls = [
                ToolCall(r.call_id, self.get_tool_name(r.call_id, r.name))
                for r in results
                if r and r.call_id not in call_ids
            ]
            if missing_calls:
                self.note("call_made", index, f"{len(missing_calls)} calls that are only named, sent without arguments")
                out[index] = replace(messages[index], parts=(*messages[index].parts, *missing_calls))
        return out

    def register_message(self, message: Message) -> None:
        """Records the ids of the calls and of the result of a message that is sent as it came."""
        for call in get_tool_calls(message):
            self._register_id(call.id, call.id)
        result = get_tool_result(message)
        if result is not None:
            self.assign_result_id(result.call_id)

    def assign_call_id(self, call: ToolCall, index: int) -> str:
        """Returns the id to send for a rendered call, "" if the wire needs none and the native call had none.

        If the list came from the same wire, ids stay as they are, since results that are sent untouched refer to them.
        """
        original_id = call.id
        if self.profile.ids_optional and (not original_id or original_id.startswith(MADE_ID_PREFIX)):
            return ""
        is_valid = re.fullmatch(self.profile.id_pattern, original_id) is not None and original_id not in self._used_ids
        if is_valid or self._is_source_own:
            if original_id.startswith(MADE_ID_PREFIX):
                self.note("id_made", index, f"the call of {call.name} had no id; it is sent as {original_id}")
            sent_id = original_id
        else:
            digest = hashlib.sha256(f"{original_id}\0{len(self._used_ids)}".encode("utf-8", "replace")).hexdigest()
            sent_id = f"call_{digest[:24]}"
            kind: AdjustmentKind = "id_changed" if original_id else "id_made"
            self.note(kind, index, f"call id {original_id!r} of {call.name} is sent as {sent_id}")
        self._register_id(original_id, sent_id)
        return sent_id

    def _register_id(self, original_id: str, sent_id: str) -> None:
        self._unanswered_ids.setdefault(original_id, []).append(sent_id)
        self._used_ids.add(sent_id)

    def assign_result_id(self, call_id: str) -> str:
        """Returns the id under which the call of a result was sent. If there are several, the first unanswered one."""
        if self.profile.ids_optional and (not call_id or call_id.startswith(MADE_ID_PREFIX)):
            return ""
        if waiting := self._unanswered_ids.get(call_id):
            self._latest_ids[call_id] = waiting.pop(0)
        return self._latest_ids.get(call_id, call_id)

    def get_tool_name(self, call_id: str, name: str) -> str:
        """Returns a result's tool name: its own, else that of its call, else "tool", since some wires need one."""
        return name or self._tool_names.get(call_id, "") or "tool"

    def render_arguments(self, call: ToolCall, index: int) -> bytes:
        """Renders the arguments of a call for a wire that wants a JSON object: the raw text, not re-encoded."""
        raw = call.arguments.strip()
        if not raw:
            return b"{}"
        data = raw.encode("utf-8", "replace")
        if splice.is_object(data):
            return data
        self.note("arguments_wrapped", index, f"the arguments of {call.name} are no JSON object; sent under `_raw`")
        return splice.build_object(("_raw", splice.quote(call.arguments)))

    def finish(self, items: Sequence[EncodedItem], system: Sequence[str] = ()) -> EncodedList:
        """Returns the result of the encoding."""
        return EncodedList(tuple(items), tuple(system), tuple(self.adjustments))
