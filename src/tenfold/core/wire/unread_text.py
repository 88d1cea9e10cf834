"""Finds the text of native messages that nothing of ours holds: what reading them in the wrong format would lose.

Unknown parts and fields are kept in the bytes of a message, so that a few of them do no harm. In a list where many
messages have them, the text would vanish as soon as it is compacted. Such a list is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate

from msgspec import Struct

from tenfold.core.record.message import Document, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.wire import splice
from tenfold.core.wire.foreign_shapes import explain_shape, find_shape_of_any
from tenfold.core.wire.native_form import PartForms, ValueForm, find_part_faults
from tenfold.core.wire.registry import WIRES, get_wire
from tenfold.errors import UnknownFormat

_MANY = 3
"""More messages with unread text than these are too many, if they are also more than a twentieth of the list."""
_LITTLE = 0.1
"""The share of all text up to which text in fields beside understood parts is little."""
_BESIDE_TEXT = frozenset({
    "annotations", "cache_control", "citations", "details", "extra_content", "logprobs", "metadata", "metrics", "model",
    "modelInfo", "name", "provider_specific_fields", "reasoning_details", "thinking_blocks", "timestamp", "usage",
})  # fmt: skip
"""Fields that describe or repeat the text of a message."""
_BESIDE_RESULT = _BESIDE_TEXT | {"query"}
"""The same in the untyped objects that Cline writes its results as: `query` says what the call asked for."""

_MAX_SEARCHED = 10_000_000
"""Characters that are searched for pieces in one message."""
_CONTENT = ("the field 'content'", "the field 'parts'")
_ENVELOPES = ("message", "payload", "data", "kwargs", "raw_item")
"""Where the lines and records of a tool have their message, if they are none themselves."""
_SAID = ("content", "parts", "text", "value", "arguments", "input", "output")
"""The fields of such a message that hold what was said. Others repeat it for people, or describe it."""


class UnreadMessage(Struct, frozen=True):
    """A native message with text that no part holds. `seen` names what holds it, `chars` counts its characters.

    Several native items that became one answer are one of these. `count` is how many of them were not understood, in
    the messages of a wire. `is_beside` says that its parts are understood, and the text stands in fields beside them.
    """

    index: int
    chars: int
    seen: tuple[str, ...]
    count: int = 1
    is_beside: bool = False


PartTest = Callable[[OpaquePart], bool]


def find_unread_items(
    messages: Sequence[Message], wire: str, start: int = 0, *, is_known: PartTest | None = None
) -> list[UnreadMessage]:
    """Finds the native messages with text that no part of the decoded `messages` holds. The first one is `start`.

    `wire` names the wire that they were decoded from. It is "" for the lines and records of a tool, of which only what
    was said counts, and what an earlier message of them holds is not lost: a result may repeat what its call asked for.
    `is_known` says whether an opaque part is one that the tool's format has; any part is by default.
    """
    is_known = is_known or (lambda part: not wire or is_well_formed(part, wire))
    found: list[UnreadMessage] = []
    earlier: set[str] = set()
    for own in _group_native(messages):
        raw = b"".join(n.head + n.body + n.tail for m in own if (n := m.native) is not None)
        items = splice.parse_value(b"[%s]" % raw)  # an answer may be several items
        count = len(items) if isinstance(items, list) else 1
        unread = _find_unread(start, items, own, wire, is_known, earlier)
        found += [unread] if unread is not None else []
        start += count
    return found


def _find_unread(
    index: int, items: object, messages: Sequence[Message], wire: str, is_known: PartTest, earlier: set[str]
) -> UnreadMessage | None:
    """Finds what the messages that native ones became do not hold, nor `earlier` ones, to which it adds them.

    None if it is nothing. Messages of a wire are added to nothing: a list of them may be read in parts.
    """
    understood: set[str] = set()
    unknown: list[str] = []
    lost: list[tuple[str, str]] = []
    for part in _iterate_parts(messages):
        if not isinstance(part, OpaquePart) or part.bound_wire or is_known(part):
            understood.update(_list_strings(part))
            continue
        value = splice.parse_value(part.raw)
        texts = [] if wire else [(_name_part(value), text) for _, text in _iterate_texts(value)]
        lost += texts
        unknown += [_name_part(value)] if wire or texts else []
    said = items if wire or not isinstance(items, list) else list(map(_get_said, items))
    known = understood | {text for _, text in lost}
    lost += [(holder, text) for holder, text in _iterate_texts(said) if text not in known]
    lost = [pair for pair in _drop_pieces(lost, understood) if pair[1] not in earlier]
    if not wire:
        earlier |= understood
    seen = dict.fromkeys([*unknown, *(holder for holder, _ in lost)])
    count = max(1, len(unknown)) if wire and isinstance(items, list) and len(items) > 1 else 1
    chars, is_beside = sum(len(text) for _, text in lost), not unknown and any(understood)
    return UnreadMessage(index, chars, tuple(seen), count, is_beside) if seen else None


def _drop_pieces(lost: Sequence[tuple[str, str]], understood: set[str]) -> list[tuple[str, str]]:
    """Leaves out texts that are a piece of an understood one. Of very many, the first are searched."""
    whole = "\0".join(understood) if lost else ""
    count = _MAX_SEARCHED // (len(whole) + 1) + 1
    return [pair for pair in lost[:count] if pair[1] not in whole] + list(lost[count:])


def refuse_unread(
    unread: Sequence[UnreadMessage],
    count: int,
    wire: str,
    list_values: Callable[[], Iterable[object]],
    *,
    is_sent: bool = False,
) -> None:
    """Raises `UnknownFormat` if too many of `count` messages have unread text. `list_values` lists these messages.

    `wire` names the wire or the format that they were read in. The error says what was seen, how much text would be
    lost, and what the messages look like. With `is_sent` they are what a provider is sent: a little text in fields
    beside understood parts is then what a program notes for itself, and no model reads it.
    """
    beside = sum(each.chars for each in unread if each.is_beside) if is_sent else 0
    sizes = (len(text) for value in list_values() for _, text in _iterate_texts(value))
    if beside and any(total * _LITTLE >= beside for total in accumulate(sizes)):
        unread = [each for each in unread if not each.is_beside]
    number = sum(each.count for each in unread)
    if not unread or (number * 2 < count if number <= _MANY else number * 20 <= count):
        return
    seen = dict.fromkeys(name for each in unread for name in each.seen)
    names = ", ".join(list(seen)[:4]) + (" and more" if len(seen) > 4 else "")
    chars = sum(each.chars for each in unread)
    shape = find_shape_of_any(list_values())
    shape = shape if shape is None or shape.format != wire else None  # what they were read as is no other
    near = [name for name in WIRES if name != wire and any(f"'{kind}'" in names for kind in _list_kinds(name))]
    advice = f"{' and '.join(near)} have such parts" if near else f"convert them, or name another format than {wire}"
    advice = explain_shape(shape) if shape is not None else advice
    loss = f"{chars:,} characters of text would be lost" if chars else "no summary would have what they say"
    raise UnknownFormat(
        f"{number} of {count} messages have what {wire} messages do not have: {names}; {loss}; {advice}"
    )


def _group_native(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Groups messages by the native message that they came from."""
    own: list[Message] = []
    for message in messages:
        if own and (message.native is None or message.native.index == 0):
            yield own
            own = []
        own.append(message)
    if own:
        yield own


def _iterate_parts(messages: Iterable[Message]) -> Iterator[Part]:
    for message in messages:
        for part in message.parts:
            yield part
            if isinstance(part, ToolResult):
                yield from part.content


def _list_strings(part: Part) -> list[str]:
    """Lists the texts that a part holds. JSON in a text counts with the texts inside it."""
    match part:
        case Text(text):
            texts = [text]
        case Thinking(text, signature):
            texts = [text, signature]
        case ToolCall(_, name, arguments):
            texts = [name, arguments]
        case Document():
            texts = [part.name, part.text]
        case OpaquePart():
            texts = [part.raw.decode("utf-8", "replace")]
        case _:
            texts = []
    return [*texts, *(text for _, text in _iterate_texts(texts))]


def _iterate_texts(value: object) -> Iterator[tuple[str, str]]:
    """Yields the texts in a JSON value that are no mere words or codes, each with the part or field that holds it."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        holder, inner = waiting.pop()
        if isinstance(inner, str) and (parsed := _parse_inner(inner)) is not None:
            waiting.append((holder, parsed))
        elif isinstance(inner, str):
            if " " in inner or "\n" in inner or not inner.isascii():
                yield holder, inner
        elif isinstance(inner, list):
            is_content = holder in _CONTENT
            waiting.extend((_name_part(each) if is_content else holder, each) for each in inner)
        elif isinstance(inner, dict):
            beside = _BESIDE_RESULT if "result" in inner and "type" not in inner else _BESIDE_TEXT
            fields = ((key, each) for key, each in inner.items() if key not in beside)
            waiting.extend((holder or f"the field {ascii(key)[:40]}", each) for key, each in fields)


def _parse_inner(text: str) -> object:
    """Parses a text that is JSON itself, as the arguments of a call often are. None for any other."""
    return splice.parse_value(text.encode("utf-8", "replace")) if text[:1] in ("{", "[") else None


def _name_part(part: object) -> str:
    """Names a part by its type, or by its fields if it has none."""
    if not isinstance(part, Mapping):
        return "parts that are no objects"
    kind = part.get("type")
    names = ", ".join(ascii(key)[1:21].rstrip("'") for key in list(part)[:3])
    return f"parts of type {ascii(kind)[:40]}" if isinstance(kind, str) else f"parts {{{names}}}"


def _get_said(record: object) -> object:
    """Returns what a tool's line or record says: the fields of its message that hold it."""
    if not isinstance(record, dict):
        return record
    message = next((inner for key in _ENVELOPES if isinstance(inner := record.get(key), dict)), record)
    return {key: message[key] for key in _SAID if key in message}


def is_well_formed(part: OpaquePart, wire: str) -> bool:
    """Returns whether the wire has parts of this kind that no other type of ours holds."""
    forms, fields = _collect_forms(wire)
    value = splice.parse_value(part.raw)
    is_part = isinstance(value, dict) and any(not any(find_part_faults(value, form)) for form in forms)
    return is_part or part.kind in fields


@cache
def _collect_forms(wire: str) -> tuple[tuple[PartForms, ...], frozenset[str]]:
    """Collects the forms of all parts that a wire has, and the names of fields that stand for a part."""
    form = get_wire(wire).profile.form
    found: list[PartForms] = []
    fields: set[str] = set()
    waiting: list[PartForms | ValueForm] = []
    if form is not None:
        waiting += [value for each in form.roles.values() for value in each.values()]
        waiting += [form.items] if form.items is not None else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, ValueForm):
            fields.update(each.unless)
            waiting += [*each.fields.values(), *([each.parts] if each.parts is not None else [])]
        else:
            found.append(each)
            waiting += [value for inner in each.kinds.values() for value in inner.values()]
    return tuple(found), frozenset(fields)


def _list_kinds(wire: str) -> set[str]:
    forms, fields = _collect_forms(wire)
    return {kind for form in forms for kind in form.kinds if kind not in ("", "text")} | fields  # all have texts
