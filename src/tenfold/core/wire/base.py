"""What all wires share: the result of an encoding, with a list of what had to change, and what leads to it.

Each encoding has one `Ledger`, which records the Adjustments and keeps the ids of tool calls consistent. A renderer
sees it through the `OutgoingMessage` that it renders.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Origin,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
    has_item_references,
)
from tenfold.core.wire import splice
from tenfold.core.wire.marks import OriginCallback, SummaryConfirmer, find_origin, is_like_task, is_submission
from tenfold.core.wire.media import inline_document, render_placeholder
from tenfold.core.wire.profiles import MADE_ID_PREFIX, Profile

AdjustmentKind = Literal[
    "opening_stub", "results_joined", "answers_joined", "id_made", "id_changed", "thinking_dropped",
    "signature_dropped", "image_dropped", "document_as_text", "document_dropped", "opaque_dropped",
    "compaction_dropped", "call_made", "system_folded", "system_moved", "error_flag_in_text", "empty_text_dropped",
    "empty_message_dropped", "arguments_wrapped", "envelope_dropped",
]  # fmt: skip


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


class DecodingContext:
    """What a decoder knows besides the message at hand: the beginning of the list, and the tool calls so far."""

    def __init__(
        self, prefix: DecodedPrefix, confirm: SummaryConfirmer | None, origin: OriginCallback | None = None
    ) -> None:
        self.prefix, self._confirm, self._origin = prefix, confirm, origin
        self._has_answer = False
        self._has_submitted = False
        self._name_by_call: dict[str, str | None] = {}

    def find_origin(self, role: Role, text: str = "", *, is_whole: bool = True) -> Origin:
        """Finds the origin of a text in a message of that role. `is_whole` says that it is all of the message."""
        if role == "assistant":
            self._has_answer, self._has_submitted = True, is_submission(text)
        told = self._origin(text) if self._origin is not None and role == "user" and text else None
        found = told or find_origin(role, text, self._confirm, is_whole=is_whole)
        return "tool" if found == "human" and not told and is_like_task(text) and self._is_within_work() else found

    def _is_within_work(self) -> bool:
        """Tells whether a task cannot begin here: the model answered before, and did not submit what it had done.

        A demonstration ends so, in front of the task.
        """
        if self._has_answer:
            return not self._has_submitted
        newest = next((m for m in self.prefix.iterate_backwards() if m.role == "assistant"), None)
        return newest is not None and not is_submission(get_text(newest))

    def add_calls(self, parts: Iterable[Part]) -> None:
        """Adds the tool calls among the parts of an answer."""
        parts = tuple(parts)
        said = "".join(part.text for part in parts if isinstance(part, Text))
        self._has_answer, self._has_submitted = True, is_submission(said)
        self._name_by_call.update((p.id, p.name) for p in parts if isinstance(p, ToolCall))

    def find_tool_name(self, call_id: str) -> str | None:
        """Finds the name of the tool that was called, None if there was no such call. The newest call counts."""
        if call_id not in self._name_by_call:
            calls = (c for m in self.prefix.iterate_backwards() for c in reversed(get_tool_calls(m)))
            self._name_by_call[call_id] = next((c.name for c in calls if c.id == call_id), None)
        return self._name_by_call[call_id]


class Ledger:
    """What an encoding of a list keeps track of: its Adjustments, and the ids under which calls are sent."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.adjustments: list[Adjustment] = []
        self.sent_ids: set[str] = set()
        self.has_source = self.is_source_own = self._is_source_foreign = False
        self._message_by_call: dict[str, Message] = {}
        self._sought_ids: set[str] = set()
        self._unanswered_ids: dict[str, list[str]] = {}
        self._latest_ids: dict[str, str] = {}

    def copy(self) -> Ledger:
        """Returns a copy that goes on by itself."""
        out = Ledger(self.profile)
        out.has_source, out.is_source_own = self.has_source, self.is_source_own
        out._is_source_foreign = self._is_source_foreign
        out.adjustments, out.sent_ids = self.adjustments.copy(), self.sent_ids.copy()
        out._message_by_call, out._sought_ids = self._message_by_call.copy(), self._sought_ids.copy()
        out._unanswered_ids = {call_id: sent.copy() for call_id, sent in self._unanswered_ids.items()}
        out._latest_ids = self._latest_ids.copy()
        return out

    def register_list(self, messages: Sequence[Message]) -> None:
        """Takes in the calls of messages that are about to be encoded, and which format the list came in."""
        for message in messages:
            self._message_by_call.update((call.id, message) for call in get_tool_calls(message))
        source = None if self.has_source else next((m.native for m in messages if m.native is not None), None)
        if source is not None:
            self.has_source, self.is_source_own = True, self.profile.is_own_format(source.format)
            self._is_source_foreign = not self.is_source_own

    def can_take(self, messages: Sequence[Message]) -> bool:
        """Whether more messages leave as it is what was encoded already: none of it looked for a call of theirs."""
        return self._sought_ids.isdisjoint(call.id for message in messages for call in get_tool_calls(message))

    def note(self, kind: AdjustmentKind, index: int, note: str) -> None:
        """Records one loss or insertion."""
        self.adjustments.append(Adjustment(kind, index, note))

    def is_foreign(self, message: Message) -> bool:
        """Whether the signatures and opaque parts of a message belong to another provider.

        A message without native bytes was made by us. It counts as one of the wire that the list came from.
        """
        if message.native is None:
            return self._is_source_foreign
        return not self.profile.is_own_format(message.native.format)

    def is_left_out(self, message: Message, part: OpaquePart) -> bool:
        """Whether a part is not sent, since only another provider can read it."""
        return part.bound_wire != self.profile.wire if part.bound_wire else self.is_foreign(message)

    def add_missing_calls(self, messages: Sequence[Message], start: int) -> Sequence[Message]:
        """Adds the calls of tool results whose call the message list of another provider only refers to.

        The first of the messages has the index `start`.
        """
        named = [at for at, m in enumerate(messages) if has_item_references(m) and self.is_foreign(m)]
        if not named:
            return messages
        out = list(messages)
        for index in named:
            call_ids = {c.id for c in get_tool_calls(messages[index])}
            results = takewhile(bool, map(get_tool_result, islice(messages, index + 1, None)))
            missing_calls = [
                ToolCall(r.call_id, self.find_tool_name(r)) for r in results if r and r.call_id not in call_ids
            ]
            if missing_calls:
                note = f"{len(missing_calls)} calls that are only named, sent without arguments"
                self.note("call_made", start + index, note)
                out[index] = replace(messages[index], parts=(*messages[index].parts, *missing_calls))
        return out

    def find_tool_name(self, result: ToolResult) -> str:
        """Finds a result's tool name: its own, else that of its call, else "tool", since some wires need one."""
        message = None if result.name else self.find_call(result.call_id)
        calls = get_tool_calls(message) if message is not None else ()
        return result.name or next((call.name for call in reversed(calls) if call.id == result.call_id), "") or "tool"

    def find_call(self, call_id: str) -> Message | None:
        """Finds the last message of the list that makes this call, None if there is none."""
        self._sought_ids.add(call_id)
        return self._message_by_call.get(call_id)

    def register_message(self, message: Message) -> None:
        """Records the ids of the calls and of the result of a message that is sent as it came."""
        for call in get_tool_calls(message):
            self.register_id(call.id, call.id)
        result = get_tool_result(message)
        if result is not None:
            self.assign_result_id(result)

    def register_id(self, original_id: str, sent_id: str) -> None:
        """Records the id under which a call is sent."""
        self._unanswered_ids.setdefault(original_id, []).append(sent_id)
        self.sent_ids.add(sent_id)

    def assign_result_id(self, result: ToolResult) -> str:
        """Returns the id under which the call of a result was sent. If there are several, the first unanswered one."""
        call_id = result.call_id
        if self.has_no_id(call_id):
            return ""
        if waiting := self._unanswered_ids.get(call_id):
            self._latest_ids[call_id] = waiting.pop(0)
            if not waiting:
                del self._unanswered_ids[call_id]
        return self._latest_ids.get(call_id, call_id)

    def has_no_id(self, call_id: str) -> bool:
        """Whether a call had no id of its own and needs none."""
        return self.profile.ids_optional and (not call_id or call_id.startswith(MADE_ID_PREFIX))


class OutgoingMessage:
    """A message that is being rendered, and `index`, its place in the list. Its losses are recorded in the ledger."""

    def __init__(self, message: Message, index: int, ledger: Ledger) -> None:
        self.message, self.index, self.ledger = message, index, ledger
        self.is_foreign = ledger.is_foreign(message)

    @property
    def own_native(self) -> NativeBytes | None:
        """The bytes of the message, if they are of the wire to which it is encoded."""
        native = self.message.native
        return native if native is not None and native.format == self.ledger.profile.wire else None

    def note(self, kind: AdjustmentKind, note: str) -> None:
        """Records one loss or insertion."""
        self.ledger.note(kind, self.index, note)

    def note_empty_text(self) -> None:
        """Records that an empty text is not sent."""
        self.note("empty_text_dropped", "an empty text part")

    def note_lost_thinking(self, part: Thinking, reason: str) -> None:
        """Records that a thinking part is not sent."""
        self.note("thinking_dropped" if part.text else "signature_dropped", reason)

    def replace_by_placeholder(self, part: Image | Document, reason: str = "") -> str:
        """Records that an image or document cannot be sent, and returns the text to send in its place."""
        if isinstance(part, Image):
            self.note("image_dropped", reason or "the image has neither data nor address")
        else:
            reason = reason or f"a document of type {part.media_type or 'unknown'} cannot be sent"
            self.note("document_dropped", reason)
        return render_placeholder(part)

    def replace_by_text(self, part: Document) -> str:
        """Records that a document is sent as text, and returns that text."""
        self.note("document_as_text", f"document {part.name or part.media_type or 'without a name'}")
        return inline_document(part)

    def render_opaque(self, part: OpaquePart) -> list[bytes]:
        """Returns the bytes of a part, none if it is another provider's and left out, which is recorded."""
        if not self.ledger.is_left_out(self.message, part):
            return [part.raw]
        if part.bound_wire:
            self.note("compaction_dropped", f"only {part.bound_wire} can read what it compacted into this part")
        else:
            self.note("opaque_dropped", f"a {part.kind or 'nameless'} part of another format")
        return []

    def assign_call_id(self, call: ToolCall) -> str:
        """Returns the id to send for a rendered call, "" if the wire needs none and the native call had none.

        If the list came from the same wire, ids stay as they are, since results that are sent untouched refer to them.
        """
        original_id, ledger = call.id, self.ledger
        if ledger.has_no_id(original_id):
            return ""
        is_accepted = re.fullmatch(ledger.profile.id_pattern, original_id) is not None
        if ledger.is_source_own or (is_accepted and original_id not in ledger.sent_ids):
            if original_id.startswith(MADE_ID_PREFIX):
                self.note("id_made", f"the call of {call.name} had no id; it is sent as {original_id}")
            sent_id = original_id
        else:
            digest = hashlib.sha256(f"{original_id}\0{len(ledger.sent_ids)}".encode("utf-8", "replace")).hexdigest()
            sent_id = f"call_{digest[:24]}"
            kind: AdjustmentKind = "id_changed" if original_id else "id_made"
            self.note(kind, f"call id {original_id!r} of {call.name} is sent as {sent_id}")
        ledger.register_id(original_id, sent_id)
        return sent_id

    def render_arguments(self, call: ToolCall) -> bytes:
        """Renders the arguments of a call for a wire that wants a JSON object: the raw text, not re-encoded."""
        raw = call.arguments.strip()
        if not raw:
            return b"{}"
        data = raw.encode("utf-8", "replace")
        if splice.is_object(data):
            return data
        self.note("arguments_wrapped", f"the arguments of {call.name} are no JSON object; sent under `_raw`")
        return splice.build_object(_raw=splice.quote(call.arguments))
