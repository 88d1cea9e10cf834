"""The rules that providers put on messages: on each native one by itself, on the request, and on their order.

`validate` checks a caller's own provider messages, `check_messages` what our messages would be sent as. Nothing is
repaired here. What a single native message has to look like is written down in the profile of its wire. Differences
between providers are read from the profile as well; no rule tests for a provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import get_args

from msgspec import Struct

from tenfold.core.record.message import (
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_tool_calls,
    get_tool_result,
    has_item_references,
)
from tenfold.core.text.json_text import quote_deep
from tenfold.core.text.surrogates import find_cut_texts
from tenfold.core.wire import Wire, count_items, encode_messages, get_wire, parse_value
from tenfold.core.wire.given_values import list_messages
from tenfold.core.wire.native_form import FormRule, find_form_faults
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.sdk_values import get_set_fields
from tenfold.core.wire.splice import has_lone_surrogate


class Violation(Struct, frozen=True):
    """One broken rule: what is wrong, and what to do about it.

    `index` is the message's index in the list that was checked, 0 for an empty list. `path` leads from the message to
    the place, such as `content[1].input`. It is "" if the whole message is meant.
    """

    rule: str
    index: int
    problem: str
    path: str = ""


# -- how messages depend on one another --------------------------------------------------------------------------------


class CallPair(Struct, frozen=True):
    """A tool call with its result, or one of the two without the other. Both are indexes into the list."""

    call_index: int | None
    result_index: int | None
    call_id: str


class RuleInput(Struct, frozen=True):
    """What the rules look at: the messages, the provider's profile, and every call with its result.

    `is_sending` says that the list is a request as it is sent. Otherwise its end may be open.
    """

    messages: tuple[Message, ...]
    profile: Profile
    call_pairs: tuple[CallPair, ...]
    is_sending: bool = False


Rule = Callable[[RuleInput], Iterator[tuple[int, str]]]
"""One condition on a list of messages. Yields the index of each offending message, and what is wrong with it."""


def _find_unmatched_results(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Every tool result follows the call it answers, and answers it once."""
    for step in request.call_pairs:
        at = step.result_index
        if step.call_index is None and at is not None and not _has_earlier_reference(request, at):
            problem = f"no unanswered call with id {step.call_id!r} stands before this result"
            yield at, f"{problem}; put the result behind its call, or leave it out"


def _find_unanswered_calls(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Every tool call is answered. Until the list is sent, the step at its end may be open."""
    for step in request.call_pairs:
        if step.call_index is None or step.result_index is not None:
            continue
        if request.is_sending or not _is_open_end(request, step.call_index):
            problem = f"the call with id {step.call_id!r} has no result; add its result, or leave the call out"
            yield step.call_index, problem


def _find_parted_results(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Parallel calls and their results form one block that no other message interrupts."""
    if request.profile.results == "anywhere":
        return
    for step in request.call_pairs:
        if step.call_index is None or step.result_index is None:
            continue
        at = _find_answer_end(request, step.call_index)
        while at < step.result_index and request.messages[at].role == "tool":
            at += 1
        if at < step.result_index:
            role = request.messages[at].role
            between = f"a message of role {role} stands between the call {step.call_id!r} and its result"
            yield step.result_index, f"{between}; move the result right behind the call"


def _find_repeated_call_ids(request: RuleInput) -> Iterator[tuple[int, str]]:
    """No two tool calls have the same id: in the whole list or in one answer, as the provider wants it."""
    scope = request.profile.unique_call_ids
    if scope == "nowhere":
        return
    seen: dict[str, int] = {}
    for index, message in enumerate(request.messages):
        if scope == "answer":
            seen.clear()
        for call in get_tool_calls(message):
            if call.id in seen:
                problem = f"the id {call.id!r} is that of a call in message {seen[call.id]}, too; give it another"
                yield index, problem
            seen.setdefault(call.id, index)


def _find_thinking_without_step(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Signed thinking is followed by the text or tool call that it belongs to."""
    if not request.profile.reasoning_needs_successor:
        return
    for index, message in enumerate(request.messages):
        last = message.parts[-1] if message.role == "assistant" and message.parts else None
        signed = isinstance(last, Thinking) or (isinstance(last, OpaquePart) and last.kind == "redacted_thinking")
        after = request.messages[index + 1].role if index + 1 < len(request.messages) else ""
        if signed and after != "assistant":
            yield index, "this answer ends with thinking; add the text or call that it led to, or leave it out"


def _find_late_thinking(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Thinking is the first part of its message, for providers that require it.

    Messages with other parts are not judged: thinking may follow what the provider's own tools returned.
    """
    if not request.profile.thinking_leads:
        return
    for index, message in enumerate(request.messages):
        kinds = {type(part) for part in message.parts}
        opens_otherwise = message.role == "assistant" and isinstance(next(iter(message.parts), None), Text | ToolCall)
        if opens_otherwise and kinds <= {Text, ToolCall, Thinking} and Thinking in kinds:
            yield index, "thinking stands behind a text or a call; put it first, or leave it out"


def _find_refused_opening(request: RuleInput) -> Iterator[tuple[int, str]]:
    """The list opens with a message that the provider accepts first."""
    first = next(((i, m) for i, m in enumerate(request.messages) if m.role != "system"), None)
    if first is not None and first[1].role == "assistant" and not request.profile.opens_with_assistant:
        yield first[0], "the list opens with an assistant message; put a user message before it"


def _find_calls_after_answers(request: RuleInput) -> Iterator[tuple[int, str]]:
    """No tool call stands in a message of its own after another answer, for providers that refuse that."""
    if request.profile.calls_after_answer:
        return
    for index, (before, message) in enumerate(pairwise(request.messages), 1):
        is_part = message.native is not None and message.native.index > 0
        if before.role == "assistant" and get_tool_calls(message) and not is_part:
            yield index, "a tool call stands right after another answer, and belongs after a user message or a result"


def _find_refused_end(request: RuleInput) -> Iterator[tuple[int, str]]:
    """A list that is sent ends with a user message or with tool results, for providers that require it.

    An answer that the provider's own tools interrupted may stand last: the provider goes on with it. Calls without
    results are those of `call_answered`.
    """
    last = request.messages[-1] if request.messages else None
    if not (request.is_sending and request.profile.ends_with_user) or last is None or last.role != "assistant":
        return
    if not get_tool_calls(last) and not (last.parts and isinstance(last.parts[-1], OpaquePart)):
        yield len(request.messages) - 1, "the list ends with an assistant message; end it with a user message"


def _find_empty_list(request: RuleInput) -> Iterator[tuple[int, str]]:
    """A list that is sent holds a message."""
    if request.is_sending and not request.messages:
        yield 0, "the list is empty; add a user message"


def _find_empty_texts(request: RuleInput) -> Iterator[tuple[int, str]]:
    """No text part is empty or only white space, for providers that refuse such parts."""
    for index, message in enumerate(() if request.profile.empty_text else request.messages):
        if any(isinstance(p, Text) and not p.text.strip() for p in message.parts):
            yield index, "a text block is empty; leave it out"


def _find_empty_messages(request: RuleInput) -> Iterator[tuple[int, str]]:
    """Every message has content, for providers that refuse empty ones. A final assistant message may be empty."""
    last = len(request.messages) - 1
    for index, message in enumerate(() if request.profile.empty_message else request.messages):
        is_last_answer = index == last and message.role == "assistant"
        if not (message.parts or is_last_answer or _has_only_settings(message, request.profile)):
            yield index, f"this {message.role} message has no content; leave it out, or fill it"


def _find_misplaced_system(request: RuleInput) -> Iterator[tuple[int, str]]:
    """System messages stand only where the provider accepts them."""
    if request.profile.midlist_system == "accepted":
        return
    problem = "a system message stands in the middle of the list; send it as system prompt or user message"
    leading = True
    for index, message in enumerate(request.messages):
        leading = leading and message.role == "system"
        after = request.messages[index + 1].role if index + 1 < len(request.messages) else "assistant"
        fits = request.profile.midlist_system == "before_assistant" and after == "assistant"
        if message.role == "system" and not (leading or fits or _has_only_settings(message, request.profile)):
            yield index, problem


RULES: Mapping[str, Rule] = {
    "result_follows_call": _find_unmatched_results,
    "call_answered": _find_unanswered_calls,
    "results_together": _find_parted_results,
    "unique_call_ids": _find_repeated_call_ids,
    "thinking_with_step": _find_thinking_without_step,
    "thinking_first": _find_late_thinking,
    "first_message": _find_refused_opening,
    "call_after_user": _find_calls_after_answers,
    "last_message": _find_refused_end,
    "not_empty": _find_empty_list,
    "no_empty_text": _find_empty_texts,
    "no_empty_message": _find_empty_messages,
    "system_place": _find_misplaced_system,
}
"""Every rule about how messages depend on one another, by its name. A new provider quirk becomes one more."""


def find_violations(messages: Sequence[Message], profile: Profile, *, sending: bool = False) -> list[Violation]:
    """Returns the violations in these messages, ordered by index into `messages`.

    With `sending` the list is judged as a request that is sent, so its end may not be open.
    """
    request = RuleInput(tuple(messages), profile, _pair_calls(messages), sending)
    found = [Violation(name, index, what) for name, rule in RULES.items() for index, what in rule(request)]
    return sorted(found, key=lambda v: v.index)


def _pair_calls(messages: Sequence[Message]) -> tuple[CallPair, ...]:
    waiting: dict[str, list[int]] = {}
    out: list[CallPair] = []
    for index, message in enumerate(messages):
        for call in get_tool_calls(message):
            waiting.setdefault(call.id, []).append(index)
        result: ToolResult | None = get_tool_result(message)
        if result is not None:
            calls = waiting.get(result.call_id)
            out.append(CallPair(calls.pop() if calls else None, index, result.call_id))
    out.extend(CallPair(index, None, call) for call, indices in waiting.items() for index in indices)
    return tuple(out)


def _find_answer_end(request: RuleInput, call: int) -> int:
    """Finds the first message behind the answer with a call. Some providers combine answers that follow each other."""
    at = call + 1
    is_combined = request.profile.results == "next_message"
    while is_combined and at < len(request.messages) and request.messages[at].role == "assistant":
        at += 1
    return at


def _is_open_end(request: RuleInput, call: int) -> bool:
    return all(m.role == "tool" for m in request.messages[_find_answer_end(request, call) :])


def _has_earlier_reference(request: RuleInput, before: int) -> bool:
    """Whether an earlier item only names another one. The call we miss may be the one it names."""
    return any(has_item_references(m) for m in request.messages[:before])


def _has_only_settings(message: Message, profile: Profile) -> bool:
    """Whether a system message holds settings and no words. Anthropic takes such a one anywhere in the list."""
    native = message.native
    if native is None or native.format != profile.wire or profile.midlist_system != "before_assistant":
        return False
    return message.role == "system" and not message.parts and b'"output_config"' in native.body


# -- what only native messages can break -------------------------------------------------------------------------------


class NativeInput(Struct, frozen=True):
    """What the rules about a request of native messages look at. `tools` are those beside the list, None: not known."""

    natives: tuple[object, ...]
    profile: Profile
    tools: Sequence[object] | None


NativeRule = Callable[[NativeInput], Iterator[tuple[int, str, str]]]
"""One condition on a request. Yields the index of each offending message, the path from there, and what is wrong."""


def _find_repeated_items(request: NativeInput) -> Iterator[tuple[int, str, str]]:
    """Every item stands in the request once, for providers whose items have ids.

    Their compactions are not counted: a provider may drop what stands before the newest one.
    """
    seen: dict[str, int] = {}
    for index, native in enumerate(request.natives if request.profile.unique_item_ids else ()):
        if not isinstance(native, Mapping) or native.get("type") in request.profile.compaction_types:
            continue
        item_id = native.get("id")
        if not isinstance(item_id, str):
            continue
        if item_id in seen:
            yield index, "id", f"the item {item_id!r} stands at {seen[item_id]} already; leave one of them out"
        seen.setdefault(item_id, index)


def _find_refused_marks(request: NativeInput) -> Iterator[tuple[int, str, str]]:
    """A request has no more cache marks than the provider takes, and none of them on thinking."""
    most, count = request.profile.max_cache_marks, 0
    for index, native in enumerate(request.natives if most else ()):
        for path, kind in _find_marks(native, "content"):
            count += 1
            if "thinking" in kind:
                yield index, path, "thinking takes no cache mark; put it on another block"
            elif count > most:
                yield index, path, f"this is cache mark {count} of at most {most} (system and tools count, too)"


def _find_undefined_calls(request: NativeInput) -> Iterator[tuple[int, str, str]]:
    """A call of a tool in a namespace has the definition of that namespace in the list, if `tools` does not hold it."""
    types = request.profile.definition_types
    if request.tools is None or not types:
        return
    items = [native for native in request.natives if isinstance(native, Mapping)]
    listed = [item.get("tools") for item in items if item.get("type") in types]
    lists = [*(each for each in listed if isinstance(each, list)), request.tools]
    defined = {tool.get("name") for each in lists for tool in each if isinstance(tool, Mapping)}
    for index, native in enumerate(request.natives):
        space = native.get("namespace") if isinstance(native, Mapping) and "call_id" in native else None
        if isinstance(space, str) and space not in defined:
            what = f"the call is of {space!r}, which no item of the list defines"
            yield index, "namespace", f"{what}; keep the item that did, or pass tools= if the request has it there"


NATIVE_RULES: Mapping[str, NativeRule] = {
    "unique_item_ids": _find_repeated_items,
    "cache_marks": _find_refused_marks,
    "call_defined": _find_undefined_calls,
}
"""Every rule about a request as a whole that only the provider's own messages can break, by its name."""
CUT_TEXT = "whole_characters"
"""The rule that no text holds half of a character. It is about what was given: our JSON has U+FFFD there."""
_REPLACED = "\ufffd".encode()
_UNREADABLE = frozenset({"message_form", "known_role"})
"""After a violation of these, the list cannot be read as messages."""
RULE_NAMES: tuple[str, ...] = (*RULES, *get_args(FormRule), *NATIVE_RULES, CUT_TEXT)
"""The names of all rules. What those between ask of a single message is the `form` of a profile."""


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
    request = NativeInput(tuple(natives), profile, tools)
    for name, rule in NATIVE_RULES.items():
        found += [Violation(name, at, problem, path) for at, path, problem in rule(request)]
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
