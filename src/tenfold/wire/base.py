"""What every wire gives back: encoded items, and the list of what had to change on the way.

`Ledger` is the one place that records Adjustments and keeps call ids consistent within one encoding.
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
    """One loss or insertion of an encoding. `index` is the message's place in the list that was encoded."""

    kind: AdjustmentKind
    index: int
    note: str


class EncodedItem(Struct, frozen=True):
    """One native message (or Responses item). `of`: indices of the messages in it; none for an inserted one.

    `exact`: the bytes are one native message as it came, so a caller may return the very object it was given.
    """

    raw: bytes
    of: tuple[int, ...]
    exact: bool


class Encoded(Struct, frozen=True):
    """An encoded list. `system` holds the leading system texts of wires that take the system prompt apart."""

    items: tuple[EncodedItem, ...]
    system: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()


class Before(Struct, frozen=True):
    """What comes before the items that are decoded: `items` of them, the first `count` of `messages` by now.

    The last of these messages is no answer: one that is still going on is read again as a whole.
    """

    items: int = 0
    count: int = 0
    messages: Sequence[Message] = ()

    def backwards(self) -> Iterator[Message]:
        """The messages, newest first."""
        return (self.messages[at] for at in range(self.count - 1, -1, -1))


START = Before()
"""Nothing comes before."""


class Names:
    """The tools' names by call id, of all calls decoded so far; of several with one id the newest counts."""

    def __init__(self, before: Before = START) -> None:
        self._before = before
        self._known: dict[str, str | None] = {}

    def add(self, parts: Iterable[Part]) -> None:
        """Takes the calls among these parts."""
        self._known.update((p.id, p.name) for p in parts if isinstance(p, ToolCall))

    def of(self, call: str) -> str | None:
        """The name of the tool that this call is for, None for a call that never was."""
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
        """Native messages, each as JSON bytes, as ours. Raises `UnknownRole`, and `BadInput` for what is no object.

        With `before` they go on a list whose beginning was decoded already.
        """
        ...

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """Ours as native messages: untouched ones byte for byte, others rendered from their parts."""
        ...


class Ledger:
    """Collects the Adjustments of one encoding and maps call ids to ones the wire accepts."""

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
        """Whether the message's signatures and opaque parts are another provider's.

        A message without native is one of ours, made from its neighbours: it has the family of the list.
        """
        if message.native is None:
            return self._source not in ("", self.wire)
        return FAMILY.get(message.native.format, message.native.format) != self.wire

    def drops(self, part: Opaque, index: int, *, foreign: bool) -> bool:
        """Whether a part is another provider's and left out, which is noted. `foreign` is what its message is."""
        if part.bound and part.bound != self.wire:
            self.note("compaction_dropped", index, f"only {part.bound} can read what it compacted into this part")
        elif foreign and not part.bound:
            self.note("opaque_dropped", index, f"a {part.kind or 'nameless'} part of another format")
        else:
            return False
        return True

    def paired(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, with a call for every result of one that another provider's list only names."""
        named = [at for at, m in enumerate(messages) if refers(m) and self.foreign(m)]
        if not named:
            return messages
        out = list(messages)
        for index in named:
            own = {c.id for c in calls_of(messages[index])}
            results = takewhile(bool, map(result_of, islice(messages, index + 1, None)))
            made = [ToolCall(r.call, self.named(r.call, r.name)) for r in results if r and r.call not in own]
            if made:
                self.note("call_made", index, f"{len(made)} calls that are only named, sent without arguments")
                out[index] = replace(messages[index], parts=(*messages[index].parts, *made))
        return out

    def saw(self, message: Message) -> None:
        """Remembers the calls and the result of a message that is sent as it came."""
        for call in calls_of(message):
            self._sent(call.id, call.id)
        result = result_of(message)
        if result is not None:
            self.result_id(result.call)

    def call_id(self, call: ToolCall, index: int) -> str:
        """The id to send for a call that is rendered. "" where the wire needs none and the native had none.

        In a list of this wire ids stay as they are, since results sent untouched name them.
        """
        wanted = call.id
        if self.profile.ids_optional and (not wanted or wanted.startswith(MADE)):
            return ""
        fits = re.fullmatch(self.profile.id_pattern, wanted) is not None and wanted not in self._taken
        if fits or self._source == self.wire:
            if wanted.startswith(MADE):
                self.note("id_made", index, f"the call of {call.name} had no id; it is sent as {wanted}")
            given = wanted
        else:
            digest = hashlib.sha256(f"{wanted}\0{len(self._taken)}".encode("utf-8", "replace")).hexdigest()
            given = f"call_{digest[:24]}"
            kind: AdjustmentKind = "id_changed" if wanted else "id_made"
            self.note(kind, index, f"call id {wanted!r} of {call.name} is sent as {given}")
        self._sent(wanted, given)
        return given

    def _sent(self, wanted: str, given: str) -> None:
        self._waiting.setdefault(wanted, []).append(given)
        self._taken.add(given)

    def result_id(self, call: str) -> str:
        """The id under which the call of a result was sent; of several, the first not answered yet."""
        if self.profile.ids_optional and (not call or call.startswith(MADE)):
            return ""
        if waiting := self._waiting.get(call):
            self._last[call] = waiting.pop(0)
        return self._last.get(call, call)

    def named(self, call: str, name: str) -> str:
        """The tool's name for a result: its own, else that of its call, else a word, since some wires need one."""
        return name or self._names.get(call, "") or "tool"

    def arguments(self, call: ToolCall, index: int) -> bytes:
        """A call's arguments where the wire wants a JSON object: the raw text, spliced in, not re-encoded."""
        raw = call.arguments.strip()
        if not raw:
            return b"{}"
        data = raw.encode("utf-8", "replace")
        if splice.valid(data):
            return data
        self.note("arguments_wrapped", index, f"the arguments of {call.name} are no JSON object; sent under `_raw`")
        return splice.obj(("_raw", splice.quote(call.arguments)))

    def done(self, items: Sequence[EncodedItem], system: Sequence[str] = ()) -> Encoded:
        """The result of the encoding."""
        return Encoded(tuple(items), tuple(system), tuple(self.adjustments))
