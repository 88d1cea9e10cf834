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

from tenfold.record.message import Message, Opaque, Part, ToolCall, calls_of, refers, result_of
from tenfold.wire import splice
from tenfold.wire.marks import Confirm
from tenfold.wire.profiles import FAMILY, MADE, PROFILES, Profile

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
    of: tuple[int, ...]
    exact: bool


class Encoded(Struct, frozen=True):
    """An encoded list. `system` holds the leading system texts, for wires that take the system prompt separately."""

    items: tuple[EncodedItem, ...]
    system: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()


class Before(Struct, frozen=True):
    """The beginning of a list, which was decoded earlier: `item_count` items, now the first `message_count` `messages`.

    The last of these messages is not an answer of the model: an answer may go on, so it is decoded again as a whole.
    """

    items: int = 0
    count: int = 0
    messages: Sequence[Message] = ()

    def backwards(self) -> Iterator[Message]:
        """Yields the messages, newest first."""
        return (self.messages[at] for at in range(self.count - 1, -1, -1))


START = Before()
"""The prefix of a list that is decoded from its beginning."""


class Names:
    """The names of the tools, by call id, of all calls decoded so far. If calls share an id, the newest counts."""

    def __init__(self, before: Before = START) -> None:
        self._before = before
        self._known: dict[str, str | None] = {}

    def add(self, parts: Iterable[Part]) -> None:
        """Adds the tool calls among these parts."""
        self._known.update((p.id, p.name) for p in parts if isinstance(p, ToolCall))

    def of(self, call: str) -> str | None:
        """Returns the name of the tool that was called, None if there was no such call."""
        if call not in self._known:
            calls = (c for m in self._before.backwards() for c in reversed(calls_of(m)))
            self._known[call] = next((c.name for c in calls if c.id == call), None)
        return self._known[call]


class Wire(Protocol):
    """One provider's message format. Get one from `WIRES`."""

    name: str

    def decode(
        self, items: Sequence[bytes], *, confirm: Confirm | None = None, before: Before = START
    ) -> list[Message]:
        """Decodes native messages, each as JSON bytes. `prefix` is the beginning of the list if it was decoded earlier.

        Raises `UnknownRole`, and `BadInput` for an item that is not a JSON object.
        """
        ...

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """Encodes messages: untouched ones byte for byte, the others rendered from their parts."""
        ...


class Ledger:
    """Collects the Adjustments of one encoding, and maps call ids to ids that the wire accepts."""

    def __init__(self, wire: str, messages: Sequence[Message]) -> None:
        self.profile: Profile = PROFILES[wire]
        self.wire = wire
        self.adjustments: list[Adjustment] = []
        self._waiting: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}
        self._taken: set[str] = set()
        formats = (FAMILY.get(m.native.format, m.native.format) for m in messages if m.native is not None)
        self._source = next(formats, "")
        self._names = {c.id: c.name for m in messages for c in calls_of(m)}

    def note(self, kind: AdjustmentKind, index: int, note: str) -> None:
        """Records one loss or insertion."""
        self.adjustments.append(Adjustment(kind, index, note))

    def foreign(self, message: Message) -> bool:
        """Whether the signatures and opaque parts of a message belong to another provider.

        A message without native bytes was made by us. It counts as one of the wire that the list came from.
        """
        if message.native is None:
            return self._source not in ("", self.wire)
        return FAMILY.get(message.native.format, message.native.format) != self.wire

    def drops(self, part: Opaque, index: int, *, foreign: bool) -> bool:
        """Whether a part is another provider's and left out, which is recorded. `foreign`: its message is another's."""
        if part.bound and part.bound != self.wire:
            self.note("compaction_dropped", index, f"only {part.bound} can read what it compacted into this part")
        elif foreign and not part.bound:
            self.note("opaque_dropped", index, f"a {part.kind or 'nameless'} part of another format")
        else:
            return False
        return True

    def paired(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Adds the calls of tool results whose call the message list of another provider only refers to."""
        named = [at for at, m in enumerate(messages) if refers(m) and self.foreign(m)]
        if not named:
            return messages
        out = list(messages)
        for index in named:
            call_ids = {c.id for c in calls_of(messages[index])}
            results = takewhile(bool, map(result_of, islice(messages, index + 1, None)))
            missing_calls = [
                ToolCall(r.call, self.named(r.call, r.name)) for r in results if r and r.call not in call_ids
            ]
            if missing_calls:
                self.note("call_made", index, f"{len(missing_calls)} calls that are only named, sent without arguments")
                out[index] = replace(messages[index], parts=(*messages[index].parts, *missing_calls))
        return out

    def saw(self, message: Message) -> None:
        """Records the ids of the calls and of the result of a message that is sent as it came."""
        for call in calls_of(message):
            self._sent(call.id, call.id)
        result = result_of(message)
        if result is not None:
            self.result_id(result.call)

    def call_id(self, call: ToolCall, index: int) -> str:
        """Returns the id to send for a rendered call, "" if the wire needs none and the native call had none.

        If the list came from the same wire, ids stay as they are, since results that are sent untouched refer to them.
        """
        original_id = call.id
        if self.profile.ids_optional and (not original_id or original_id.startswith(MADE)):
            return ""
        is_valid = re.fullmatch(self.profile.id_pattern, original_id) is not None and original_id not in self._taken
        if is_valid or self._source == self.wire:
            if original_id.startswith(MADE):
                self.note("id_made", index, f"the call of {call.name} had no id; it is sent as {original_id}")
            sent_id = original_id
        else:
            digest = hashlib.sha256(f"{original_id}\0{len(self._taken)}".encode("utf-8", "replace")).hexdigest()
            sent_id = f"call_{digest[:24]}"
            kind: AdjustmentKind = "id_changed" if original_id else "id_made"
            self.note(kind, index, f"call id {original_id!r} of {call.name} is sent as {sent_id}")
        self._sent(original_id, sent_id)
        return sent_id

    def _sent(self, wanted: str, given: str) -> None:
        self._waiting.setdefault(wanted, []).append(given)
        self._taken.add(given)

    def result_id(self, call: str) -> str:
        """Returns the id under which the call of a result was sent. If there are several, the first unanswered one."""
        if self.profile.ids_optional and (not call or call.startswith(MADE)):
            return ""
        if waiting := self._waiting.get(call):
            self._last[call] = waiting.pop(0)
        return self._last.get(call, call)

    def named(self, call: str, name: str) -> str:
        """Returns a result's tool name: its own, else that of its call, else "tool", since some wires need one."""
        return name or self._names.get(call, "") or "tool"

    def arguments(self, call: ToolCall, index: int) -> bytes:
        """Renders the arguments of a call for a wire that wants a JSON object: the raw text, not re-encoded."""
        raw = call.arguments.strip()
        if not raw:
            return b"{}"
        data = raw.encode("utf-8", "replace")
        if splice.valid(data):
            return data
        self.note("arguments_wrapped", index, f"the arguments of {call.name} are no JSON object; sent under `_raw`")
        return splice.obj(("_raw", splice.quote(call.arguments)))

    def done(self, items: Sequence[EncodedItem], system: Sequence[str] = ()) -> Encoded:
        """Returns the result of the encoding."""
        return Encoded(tuple(items), tuple(system), tuple(self.adjustments))
