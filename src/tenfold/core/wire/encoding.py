"""The wire: a profile, a decoder and a renderer. And what renderers share: putting blocks together to a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from tenfold.core.record.message import Message, NativeBytes, get_text
from tenfold.core.wire import splice
from tenfold.core.wire.api import Api
from tenfold.core.wire.base import (
    NO_PREFIX,
    DecodedPrefix,
    DecodingContext,
    EncodedItem,
    EncodedList,
    Ledger,
    OutgoingMessage,
)
from tenfold.core.wire.marks import OPENING_STUB, SYSTEM_NOTE, OriginCallback, SummaryConfirmer
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.segments import (
    EncodingBatch,
    ParsedMessage,
    batch_messages,
    build_envelope,
    can_divide,
    extract_blocks,
    parse_list,
)

ListDecoder = Callable[[Iterable[ParsedMessage], DecodingContext], Iterable[Message]]
"""Decodes the native messages of a list."""
BatchRenderer = Callable[[Sequence[OutgoingMessage]], Sequence[bytes]]
"""Renders messages that make one native message: as that message, as several items, or as none if nothing is left."""
LATEST_STEPS = 4
"""How many steps at the end of a list are encoded each time: cache marks move there from request to request."""


class Wire(Struct, frozen=True):
    """One provider: what is known of it, how its messages are decoded and rendered, and its HTTP side for the gateway.

    Without an `api`, the gateway does not know requests of this provider.
    """

    profile: Profile
    decode_natives: ListDecoder
    render_batch: BatchRenderer
    api: Api | None = None

    @property
    def name(self) -> str:
        """The name of the wire."""
        return self.profile.wire

    def decode(
        self,
        items: Sequence[bytes],
        *,
        confirm: SummaryConfirmer | None = None,
        origin: OriginCallback | None = None,
        prefix: DecodedPrefix = NO_PREFIX,
    ) -> list[Message]:
        """Decodes native messages, each as JSON bytes. `prefix` is the beginning of the list if it was decoded earlier.

        `origin` says whose words a user text is where its form does not. Raises `UnknownRole`, and `BadInput` for an
        item that is not a JSON object.
        """
        natives = parse_list(items, self.name, prefix.item_count)
        return list(self.decode_natives(natives, DecodingContext(prefix, confirm, origin)))

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """Encodes messages: untouched ones byte for byte, the others rendered from their parts."""
        encoding = ListEncoding(self)
        encoding.extend(messages)
        return encoding.build_list()


class ListEncoding:
    """The encoding of a list that may still grow: what is encoded so far, and what later messages depend on."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self.ledger = wire, Ledger(wire.profile)
        self._items: list[EncodedItem] = []
        self._system: list[str] = []
        self._count = 0

    def copy(self) -> ListEncoding:
        """Returns a copy that goes on by itself."""
        out = ListEncoding(self._wire)
        out.ledger, out._items, out._system = self.ledger.copy(), self._items.copy(), self._system.copy()
        out._count = self._count
        return out

    def build_list(self) -> EncodedList:
        """Returns what is encoded so far."""
        return EncodedList(tuple(self._items), tuple(self._system), tuple(self.ledger.adjustments))

    def extend(self, messages: Sequence[Message]) -> None:
        """Encodes the next messages of the list. The result is that of the whole list encoded at once.

        That holds where `can_divide` says that the list may be divided before them, and `Ledger.can_take` that nothing
        before them depends on them.
        """
        wire, ledger, start = self._wire, self.ledger, self._count
        ledger.register_list(messages)
        messages = ledger.add_missing_calls(messages, start)
        for batch in batch_messages(messages, wire.profile, ledger.is_left_out):
            self._add_batch([messages[at] for at in batch.indices], tuple([start + at for at in batch.indices]), batch)
        self._count += len(messages)

    def _add_batch(self, messages: Sequence[Message], indices: tuple[int, ...], batch: EncodingBatch) -> None:
        profile, ledger, items = self._wire.profile, self.ledger, self._items
        first, index, exact = messages[0], indices[0], batch.exact
        if first.role == "system" and any(index < at for item in items[-1:] for at in item.indices):
            ledger.note("system_moved", index, "a system message is sent after the user messages that follow it")
        if exact is not None:
            for message in messages:
                ledger.register_message(message)
            raws: Sequence[bytes] = split_answer(first, exact, profile)
        elif first.role == "system" and profile.has_separate_system and not items:
            self._system.extend([text] if (text := get_text(first)).strip() else [])
            return
        else:
            outgoing = [OutgoingMessage(m, at, ledger) for m, at in zip(messages, indices, strict=True)]
            raws = self._wire.render_batch(outgoing)
        if not raws:
            ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
            return
        if first.role == "assistant" and not items and not profile.opens_with_assistant:
            ledger.note("opening_stub", index, "the list would open with an assistant message")
            stub = msgspec.json.encode(profile.build_user_message(OPENING_STUB))
            items.append(EncodedItem(stub, (), exact=False))
        items.extend([EncodedItem(raw, indices, exact=exact is not None) for raw in raws])


class RepeatedEncoding:
    """Gives what `Wire.encode` gives, and encodes what a list has in common with the one before only once.

    It keeps the beginning of the last list, as messages and encoded, and nothing of the lists before that. It only
    saves work: a list that begins otherwise, as after a compaction or an undo, is encoded as a whole.
    """

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._messages: list[Message] = []
        self._encoding: ListEncoding | None = None
        self._last: tuple[ListEncoding, Message] | None = None

    def encode(self, messages: Sequence[Message], wire: Wire) -> EncodedList:
        """Encodes messages; see `Wire.encode`. Nobody may change the messages, which are kept."""
        encoding, count = self._encoding, len(self._messages)
        is_begun = encoding is not None and self._wire is wire and messages[:count] == self._messages
        if encoding is None or not is_begun or not encoding.ledger.can_take(messages[count:]):
            encoding, count = ListEncoding(wire), 0
        self._encoding = self._last = None  # if it fails half-way, the next list is encoded as a whole
        end = _find_division(messages, count)
        if end > count:
            encoding.extend(messages[count:end])
        if end and encoding.ledger.has_source and encoding.ledger.can_take(messages[end:]):
            self._wire, self._messages, self._encoding = wire, list(messages[:end]), encoding
            whole = encoding.copy()
        else:
            whole, end = ListEncoding(wire), 0
        whole.extend(messages[end:])
        self._last = (whole, messages[-1]) if messages else None
        return whole.build_list()

    def encode_next(self, messages: Sequence[Message]) -> list[bytes] | None:
        """Encodes messages that come behind the last list, and keeps nothing of them. Returns their native items.

        None if the last list would be encoded otherwise with them behind it.
        """
        if self._last is None or not messages:
            return None
        whole, newest = self._last
        is_apart = can_divide((newest, messages[0]), 1) and whole.ledger.can_take(messages)
        if not (is_apart and whole.ledger.has_source):
            return None
        longer, before = whole.copy(), whole.build_list()
        longer.extend(messages)
        after = longer.build_list()
        return [item.raw for item in after.items[len(before.items) :]] if after.system == before.system else None


def _find_division(messages: Sequence[Message], start: int) -> int:
    """Finds where the newest steps begin, if the list may be divided there after `start`. Else returns `start`."""
    places = (at for at in range(len(messages) - 1, start, -1) if can_divide(messages, at))
    return next(islice(places, LATEST_STEPS - 1, None), start)


def split_answer(message: Message, raw: bytes, profile: Profile) -> tuple[bytes, ...]:
    """Cuts the bytes of a message into its native items. It is one item, unless it is an answer of several items."""
    is_several = message.role == "assistant" and profile.splits_answers
    return splice.slice_array(b"[" + raw + b"]").items if is_several else (raw,)


class BlockList(Struct, frozen=True):
    """The content blocks of a native message that is put together, and the bytes of the messages they came from."""

    blocks: list[bytes]
    natives: list[NativeBytes]


def collect_blocks(
    batch: Sequence[OutgoingMessage], key: str, render: Callable[[OutgoingMessage], list[bytes]]
) -> BlockList:
    """Collects the blocks of a batch: the bytes of untouched messages, the others as `render` renders them.

    Tool results come first, since providers want them right after their calls. `key` is the field with the blocks.
    """
    results = [outgoing for outgoing in batch if outgoing.message.role == "tool"]
    for outgoing in results[1:]:
        outgoing.note("results_joined", "results of one step are sent in one message")
    collected = BlockList([], [])
    for outgoing in (*results, *(each for each in batch if each.message.role != "tool")):
        native = outgoing.own_native
        own_blocks = extract_blocks(native, key) if native is not None else None
        if native is not None and own_blocks is not None:
            collected.natives.append(native)
            outgoing.ledger.register_message(outgoing.message)
        collected.blocks.extend(own_blocks if own_blocks is not None else render(outgoing))
    return collected


def wrap_blocks(collected: BlockList, role: str, key: str, first: OutgoingMessage) -> bytes:
    """Puts blocks into a native message, with what is left of the native messages around them."""
    before, after, is_lossy = build_envelope(collected.natives, role, key)
    if is_lossy:
        first.note("envelope_dropped", f"fields beside role and {key} of a partly replaced message")
    return before + b",".join(collected.blocks) + after


def fold_system(outgoing: OutgoingMessage) -> str:
    """Renders a later system message as a user's text, for wires without them. "" if it is blank."""
    outgoing.note("system_folded", "a later system message is sent inside a user message")
    text = get_text(outgoing.message)
    return SYSTEM_NOTE.format(text) if text.strip() else ""
