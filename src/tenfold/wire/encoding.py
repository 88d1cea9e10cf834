"""What the encoders of all wires share: the walk over the messages, and putting blocks together to a native message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from tenfold.record.message import Message, NativeBytes, get_text
from tenfold.wire import splice
from tenfold.wire.base import EncodedItem, EncodedList, Ledger
from tenfold.wire.marks import OPENING_STUB, render_system_note
from tenfold.wire.profiles import Profile
from tenfold.wire.segments import EncodingBatch, batch_messages, build_envelope, extract_blocks

MessageRenderer = Callable[[Sequence[Message], EncodingBatch, Ledger], Sequence[bytes]]
"""Renders the messages of a batch as native messages: none if nothing is left of them."""


def encode_list(messages: Sequence[Message], profile: Profile, render: MessageRenderer) -> EncodedList:
    """Encodes messages: untouched ones by their bytes, the others as `render` renders them.

    Leading system texts are kept apart, and an opening stub is put in front, if the profile says so.
    """
    ledger = Ledger(profile, messages)
    messages = ledger.add_missing_calls(messages)
    items: list[EncodedItem] = []
    system: list[str] = []
    for batch in batch_messages(messages, profile.wire, join_results=profile.results == "next_message"):
        index = batch.indices[0]
        first = messages[index]
        if batch.exact is not None:
            for at in batch.indices:
                ledger.register_message(messages[at])
            raws: Sequence[bytes] = split_answer(first, batch.exact, profile).items
        elif first.role == "system" and profile.has_separate_system and not items:
            system.extend([text] if (text := get_text(first)).strip() else [])
            continue
        else:
            raws = render(messages, batch, ledger)
        if not raws:
            ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
            continue
        if first.role == "assistant" and not items and not profile.opens_with_assistant:
            ledger.note("opening_stub", index, "the list would open with an assistant message")
            items.append(EncodedItem(msgspec.json.encode(profile.build_user_message(OPENING_STUB)), (), exact=False))
        items.extend(EncodedItem(raw, batch.indices, exact=batch.exact is not None) for raw in raws)
    return ledger.finish(items, system)


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
    messages: Sequence[Message],
    batch: EncodingBatch,
    ledger: Ledger,
    key: str,
    render: Callable[[Message, int, Ledger], list[bytes]],
) -> BlockList:
    """Collects the blocks of a batch: the bytes of untouched messages, the others as `render` renders them.

    Tool results come first, since providers want them right after their calls. `key` is the field with the blocks.
    """
    order = sorted(batch.indices, key=lambda i: messages[i].role != "tool")
    for index in [i for i in order if messages[i].role == "tool"][1:]:
        ledger.note("results_joined", index, "results of one step are sent in one message")
    collected = BlockList([], [])
    for index in order:
        message = messages[index]
        is_own = message.native is not None and message.native.format == ledger.wire
        own_blocks = extract_blocks(message, key) if is_own else None
        if own_blocks is not None and message.native is not None:
            collected.natives.append(message.native)
            ledger.register_message(message)
        collected.blocks.extend(own_blocks if own_blocks is not None else render(message, index, ledger))
    return collected


def wrap_blocks(collected: BlockList, role: str, key: str, index: int, ledger: Ledger) -> bytes:
    """Puts blocks into a native message, with what is left of the native messages around them."""
    before, after, is_lossy = build_envelope(collected.natives, role, key)
    if is_lossy:
        ledger.note("envelope_dropped", index, f"fields beside role and {key} of a partly replaced message")
    return before + b",".join(collected.blocks) + after


def fold_system(message: Message, index: int, ledger: Ledger) -> str:
    """Renders a later system message as a user's text, for wires without them. "" if it is blank."""
    ledger.note("system_folded", index, "a later system message is sent inside a user message")
    text = get_text(message)
    return render_system_note(text) if text.strip() else ""
