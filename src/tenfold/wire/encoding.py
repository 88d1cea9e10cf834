"""The wire: a profile, a decoder and a renderer. And what renderers share: putting blocks together to a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct

from tenfold.record.message import Message, NativeBytes, get_text
from tenfold.wire import splice
from tenfold.wire.base import (
    NO_PREFIX,
    DecodedPrefix,
    DecodingContext,
    EncodedItem,
    EncodedList,
    Ledger,
    OutgoingMessage,
)
from tenfold.wire.marks import OPENING_STUB, OriginCallback, SummaryConfirmer, render_system_note
from tenfold.wire.profiles import Profile
from tenfold.wire.segments import ParsedMessage, batch_messages, build_envelope, extract_blocks, parse_list

ListDecoder = Callable[[Iterable[ParsedMessage], DecodingContext], Iterable[Message]]
"""Decodes the native messages of a list."""
BatchRenderer = Callable[[Sequence[OutgoingMessage]], Sequence[bytes]]
"""Renders messages that make one native message: as that message, as several items, or as none if nothing is left."""


class Wire(Struct, frozen=True):
    """One provider's message format: what is known of the provider, and how its messages are decoded and rendered."""

    profile: Profile
    decode_natives: ListDecoder
    render_batch: BatchRenderer

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
        profile, ledger = self.profile, Ledger(self.profile, messages)
        messages = ledger.add_missing_calls(messages)
        items: list[EncodedItem] = []
        system: list[str] = []
        batches = batch_messages(
            messages,
            self.name,
            join_results=profile.results == "next_message",
            join_answers=not profile.calls_after_answer,
            move_system=profile.midlist_system == "before_assistant",
        )
        for batch in batches:
            index = batch.indices[0]
            first = messages[index]
            if first.role == "system" and any(index < at for item in items[-1:] for at in item.indices):
                ledger.note("system_moved", index, "a system message is sent after the user messages that follow it")
            if batch.exact is not None:
                for at in batch.indices:
                    ledger.register_message(messages[at])
                raws: Sequence[bytes] = split_answer(first, batch.exact, profile).items
            elif first.role == "system" and profile.has_separate_system and not items:
                system.extend([text] if (text := get_text(first)).strip() else [])
                continue
            else:
                raws = self.render_batch([OutgoingMessage(messages[at], at, ledger) for at in batch.indices])
            if not raws:
                ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
                continue
            if first.role == "assistant" and not items and not profile.opens_with_assistant:
                ledger.note("opening_stub", index, "the list would open with an assistant message")
                stub = msgspec.json.encode(profile.build_user_message(OPENING_STUB))
                items.append(EncodedItem(stub, (), exact=False))
            items.extend(EncodedItem(raw, batch.indices, exact=batch.exact is not None) for raw in raws)
        return EncodedList(tuple(items), tuple(system), tuple(ledger.adjustments))


def split_answer(message: Message, raw: bytes, profile: Profile) -> splice.Slices:
    """Cuts the bytes of a message into its native items. It is one item, unless it is an answer of several items."""
    if message.role == "assistant" and profile.splits_answers:
        return splice.slice_array(b"[" + raw + b"]")
    return splice.Slices((b"",), (raw,), b"")


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
    return render_system_note(text) if text.strip() else ""
