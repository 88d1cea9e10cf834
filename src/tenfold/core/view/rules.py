"""The rules that providers put on messages: on each native one by itself, on the request, and on their order.

`validate` checks a caller's own provider messages, `check_messages` what our messages would be sent as. Nothing is
repaired here. What a single native message has to look like is written down in the profile of its wire, and how
messages depend on one another in `order_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, get_args

from tenfold.core.record.message import Message, OpaquePart, Part, ToolResult
from tenfold.core.text.json_text import quote_deep
from tenfold.core.text.surrogates import find_cut_texts
from tenfold.core.view.order_rules import RULES, Violation, find_violations
from tenfold.core.wire import (
    FormRule,
    Profile,
    Wire,
    count_items,
    encode_messages,
    find_form_faults,
    get_wire,
    parse_value,
)
from tenfold.core.wire.given_values import list_messages
from tenfold.core.wire.sdk_values import get_set_fields
from tenfold.core.wire.splice import has_lone_surrogate

__all__ = [
    "FORM_RULES",
    "NATIVE_RULES",
    "RULES",
    "RULE_NAMES",
    "Violation",
    "check_messages",
    "find_violations",
    "validate",
]

FORM_RULES: tuple[str, ...] = get_args(FormRule)
"""The rules that a native message can break by itself. What they ask for is the `form` of a profile."""
_UNREADABLE = frozenset({"message_form", "known_role"})
"""After a violation of these, the list cannot be read as messages."""


class NativeRule(Protocol):
    """One condition that a provider puts on a request, about fields that are only in its own messages."""

    name: str

    def find(self, natives: Sequence[object], profile: Profile) -> Iterator[tuple[int, str, str]]:
        """Yields the index of each offending message, the path from there, and what is wrong."""
        ...


class UniqueItemIdRule:
    """Every item stands in the request once, for providers whose items have ids.

    Their compactions are not counted: a provider may drop what stands before the newest one.
    """

    name = "unique_item_ids"

    def find(self, natives: Sequence[object], profile: Profile) -> Iterator[tuple[int, str, str]]:
        """See `NativeRule.find`."""
        seen: dict[str, int] = {}
        for index, native in enumerate(natives if profile.unique_item_ids else ()):
            if not isinstance(native, Mapping) or native.get("type") in profile.compaction_types:
                continue
            item_id = native.get("id")
            if not isinstance(item_id, str):
                continue
            if item_id in seen:
                yield index, "id", f"the item {item_id!r} stands at {seen[item_id]} already; leave one of them out"
            seen.setdefault(item_id, index)


class CacheMarkRule:
    """A request has no more cache marks than the provider takes, and none of them on thinking."""

    name = "cache_marks"

    def find(self, natives: Sequence[object], profile: Profile) -> Iterator[tuple[int, str, str]]:
        """See `NativeRule.find`."""
        most, count = profile.max_cache_marks, 0
        for index, native in enumerate(natives if most else ()):
            for path, kind in _find_marks(native, "content"):
                count += 1
                if "thinking" in kind:
                    yield index, path, "thinking takes no cache mark; put it on another block"
                elif count > most:
                    yield index, path, f"this is cache mark {count} of at most {most} (system and tools count, too)"


class DefinedCallRule:
    """A call of a tool in a namespace has the definition of that namespace in the list, if `tools` does not hold it."""

    name = "call_defined"

    def find(
        self, natives: Sequence[object], profile: Profile, tools: Sequence[object] = ()
    ) -> Iterator[tuple[int, str, str]]:
        """See `NativeRule.find`. `tools` are those that the request holds beside the list."""
        items = [native for native in natives if isinstance(native, Mapping)]
        listed = [item.get("tools") for item in items if item.get("type") in profile.definition_types]
        lists = [*(each for each in listed if isinstance(each, list)), tools]
        defined = {tool.get("name") for each in lists for tool in each if isinstance(tool, Mapping)}
        for index, native in enumerate(natives):
            space = native.get("namespace") if isinstance(native, Mapping) and "call_id" in native else None
            if profile.definition_types and isinstance(space, str) and space not in defined:
                what = f"the call is of {space!r}, which no item of the list defines"
                yield index, "namespace", f"{what}; keep the item that did, or pass tools= if the request has it there"


NATIVE_RULES: tuple[NativeRule, ...] = (UniqueItemIdRule(), CacheMarkRule())
"""Every rule about a request as a whole that only the provider's own messages can break."""
CUT_TEXT = "whole_characters"
"""The rule that no text holds half of a character. It is about what was given: our JSON has U+FFFD there."""
_REPLACED = "\ufffd".encode()
_DEFINED_CALLS = DefinedCallRule()
"""The rule about calls and the definitions of their tools. It holds for a list that is sent."""
RULE_NAMES: tuple[str, ...] = (
    *(rule.name for rule in RULES),
    *FORM_RULES,
    *(rule.name for rule in NATIVE_RULES),
    _DEFINED_CALLS.name,
    CUT_TEXT,
)
"""The names of all rules."""


def validate(
    messages: Sequence[object], wire: str, *, sending: bool = False, tools: Sequence[object] = ()
) -> list[Violation]:
    """Returns what the provider would refuse in its own messages: dicts, JSON bytes or text, or an SDK's objects.

    Call it with `sending=True` right before a request is sent. Then the end counts as well: every call has its result,
    the list is not empty, it ends with whom the provider wants to hear last, and a tool that was defined inside the
    list is defined there, or in `tools`, which the request holds beside it. Without, the end may be open, as in a
    session that goes on. The violations are ordered by index.

        for violation in tenfold.validate(request["messages"], "anthropic", sending=True):
            print(violation.index, violation.path, violation.problem)

    Raises `UnknownFormat` for an unknown wire, and `BadInput` for what is no list of messages or JSON cannot hold.
    """
    chosen = get_wire(wire)
    if isinstance(messages, str | bytes | Mapping):
        return _judge_single_value(messages, chosen.profile)
    given = list_messages(messages)
    items = encode_messages(given)
    found = _find_native_violations(items, chosen.profile, tools if sending else None) + _find_cut_texts(given, items)
    if not any(violation.rule in _UNREADABLE for violation in found):
        found += _find_list_violations(items, chosen, sending=sending)
    return sorted(found, key=lambda violation: violation.index)


def check_messages(messages: Sequence[Message], wire: str, *, sending: bool = False) -> list[Violation]:
    """Returns what the provider would refuse if `messages` were sent over `wire`. See `validate` for `sending`.

    `Violation.index` is the index into `messages`. Parts of a type that nobody here knows are sent as they came, and
    are not judged.
    """
    items = get_wire(wire).encode(messages).items
    out: list[Violation] = []
    for violation in validate([item.raw for item in items], wire, sending=sending):
        of = items[violation.index].indices if items else ()
        if violation.rule == "known_part" and any(_has_opaque_part(messages[index].parts) for index in of):
            continue
        out.append(Violation(violation.rule, of[0] if of else 0, violation.problem, violation.path))
    return out


def _has_opaque_part(parts: Sequence[Part]) -> bool:
    return any(isinstance(p, OpaquePart) or (isinstance(p, ToolResult) and _has_opaque_part(p.content)) for p in parts)


def _find_cut_texts(given: Sequence[object], items: Sequence[bytes]) -> list[Violation]:
    out: list[Violation] = []
    for index, (message, raw) in enumerate(zip(given, items, strict=True)):
        value: object = None
        if isinstance(message, str | bytes):
            value = json.loads(quote_deep(raw)) if has_lone_surrogate(raw) else None
        elif _REPLACED in raw:  # a dict that JSON cannot hold as it is
            value = get_set_fields(message)
        for path in find_cut_texts(value):
            what = f"half of a character (a lone surrogate) stands in {path!r}, and no request can hold it"
            out.append(Violation(CUT_TEXT, index, f"{what}; replace it, for instance by U+FFFD", path))
    return out


def _judge_single_value(messages: str | bytes | Mapping[str, object], profile: Profile) -> list[Violation]:
    if isinstance(messages, str) and messages and profile.takes_text:
        return []
    found = "an object" if isinstance(messages, Mapping) else "a text"
    field = profile.request.list_field
    return [Violation("message_form", 0, f"{field!r} is a list of messages, not {found}; pass the list itself")]


def _find_native_violations(
    items: Sequence[bytes], profile: Profile, tools: Sequence[object] | None
) -> list[Violation]:
    if profile.form is None:
        return []
    natives = [parse_value(quote_deep(item)) for item in items]
    found = [
        Violation(fault.rule, index, fault.problem, fault.path)
        for index, native in enumerate(natives)
        for fault in find_form_faults(native, profile.form)
    ]
    for rule in NATIVE_RULES:
        found += [Violation(rule.name, at, problem, path) for at, path, problem in rule.find(natives, profile)]
    undefined = _DEFINED_CALLS.find(natives, profile, tools) if tools is not None else ()
    found += [Violation(_DEFINED_CALLS.name, at, problem, path) for at, path, problem in undefined]
    return found


def _find_list_violations(items: Sequence[bytes], wire: Wire, *, sending: bool) -> list[Violation]:
    decoded = wire.decode(items)
    places = _find_source_indexes(decoded)
    found = find_violations(decoded, wire.profile, sending=sending)
    return [Violation(v.rule, places[v.index] if places else 0, v.problem) for v in found]


def _find_marks(value: object, key: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields the path and the type of every block under `key` with a cache mark, nested ones too."""
    blocks = value.get(key) if isinstance(value, Mapping) else None
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        place = f"{path}{key}[{index}]"
        if isinstance(block, Mapping) and block.get("cache_control") is not None:
            yield f"{place}.cache_control", str(block.get("type"))
        yield from _find_marks(block, key, f"{place}.")


def _find_source_indexes(messages: Sequence[Message]) -> list[int]:
    places: list[int] = []
    following = 0
    for message in messages:
        if message.native is None or message.native.index == 0:
            start, following = following, following + count_items(message)
        places.append(start)
    return places
