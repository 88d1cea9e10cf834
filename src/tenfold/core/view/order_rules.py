"""The rules on how messages depend on one another, one small object for each. Rules report and repair nothing.

`find_violations` applies them to our messages. Differences between providers are read from the profile table; no rule
tests for a provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from msgspec import Struct

from tenfold.core.record.message import (
    Message,
    OpaquePart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_tool_calls,
    get_tool_result,
    has_item_references,
)
from tenfold.core.wire import Profile


class Violation(Struct, frozen=True):
    """One broken rule: what is wrong, and what to do about it.

    `index` is the message's index in the list that was checked, 0 for an empty list. `path` leads from the message to
    the place, such as `content[1].input`. It is "" if the whole message is meant.
    """

    rule: str
    index: int
    problem: str
    path: str = ""


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


class Rule(Protocol):
    """One condition that a provider puts on a list of messages."""

    name: str

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """Yields the index of each offending message, and what is wrong with it."""
        ...


class MatchedResultRule:
    """Every tool result follows the call it answers, and answers it once."""

    name = "result_follows_call"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        for step in request.call_pairs:
            if (
                step.call_index is None
                and step.result_index is not None
                and not _has_earlier_reference(request, step.result_index)
            ):
                yield (
                    step.result_index,
                    (
                        f"no unanswered call with id {step.call_id!r} stands before this result; "
                        "put the result behind its call, or leave it out"
                    ),
                )


class AnsweredCallRule:
    """Every tool call is answered. Until the list is sent, the step at its end may be open."""

    name = "call_answered"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        for step in request.call_pairs:
            if step.call_index is None or step.result_index is not None:
                continue
            if request.is_sending or not _is_open_end(request, step.call_index):
                problem = f"the call with id {step.call_id!r} has no result; add its result, or leave the call out"
                yield step.call_index, problem


class AdjacentResultsRule:
    """Parallel calls and their results form one block that no other message interrupts."""

    name = "results_together"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.results == "anywhere":
            return
        combined = request.profile.results == "next_message"
        for step in request.call_pairs:
            if step.call_index is None or step.result_index is None:
                continue
            at = step.call_index + 1
            while combined and request.messages[at].role == "assistant":
                at += 1
            while at < step.result_index and request.messages[at].role == "tool":
                at += 1
            if at < step.result_index:
                role = request.messages[at].role
                between = f"a message of role {role} stands between the call {step.call_id!r} and its result"
                yield step.result_index, f"{between}; move the result right behind the call"


class UniqueCallIdRule:
    """No two tool calls have the same id: in the whole list or in one answer, as the provider wants it."""

    name = "unique_call_ids"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
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


class SignedThinkingRule:
    """Signed thinking is followed by the text or tool call that it belongs to."""

    name = "thinking_with_step"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if not request.profile.reasoning_needs_successor:
            return
        for index, message in enumerate(request.messages):
            last = message.parts[-1] if message.role == "assistant" and message.parts else None
            signed = isinstance(last, Thinking) or (isinstance(last, OpaquePart) and last.kind == "redacted_thinking")
            after = request.messages[index + 1].role if index + 1 < len(request.messages) else ""
            if signed and after != "assistant":
                yield index, "this answer ends with thinking; add the text or call that it led to, or leave it out"


class LeadingThinkingRule:
    """Thinking is the first part of its message, for providers that require it.

    Messages with other parts are not judged: thinking may follow what the provider's own tools returned.
    """

    name = "thinking_first"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if not request.profile.thinking_leads:
            return
        for index, message in enumerate(request.messages):
            kinds = {type(part) for part in message.parts}
            opens_otherwise = message.role == "assistant" and isinstance(
                next(iter(message.parts), None), Text | ToolCall
            )
            if opens_otherwise and kinds <= {Text, ToolCall, Thinking} and Thinking in kinds:
                yield index, "thinking stands behind a text or a call; put it first, or leave it out"


class FirstMessageRule:
    """The list opens with a message that the provider accepts first."""

    name = "first_message"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        first = next(((i, m) for i, m in enumerate(request.messages) if m.role != "system"), None)
        if first is not None and first[1].role == "assistant" and not request.profile.opens_with_assistant:
            yield first[0], "the list opens with an assistant message; put a user message before it"


class CallPlacementRule:
    """No tool call stands in a message of its own after another answer, for providers that refuse that."""

    name = "call_after_user"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.calls_after_answer:
            return
        for index, (before, message) in enumerate(pairwise(request.messages), 1):
            is_part = message.native is not None and message.native.index > 0
            if before.role == "assistant" and get_tool_calls(message) and not is_part:
                yield (
                    index,
                    "a tool call stands right after another answer, and belongs after a user message or a result",
                )


class LastMessageRule:
    """A list that is sent ends with a user message or with tool results, for providers that require it.

    An answer that the provider's own tools interrupted may stand last: the provider goes on with it. Calls without
    results are `AnsweredCallRule`'s.
    """

    name = "last_message"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        last = request.messages[-1] if request.messages else None
        if not (request.is_sending and request.profile.ends_with_user) or last is None or last.role != "assistant":
            return
        if not get_tool_calls(last) and not (last.parts and isinstance(last.parts[-1], OpaquePart)):
            yield len(request.messages) - 1, "the list ends with an assistant message; end it with a user message"


class NonEmptyListRule:
    """A list that is sent holds a message."""

    name = "not_empty"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.is_sending and not request.messages:
            yield 0, "the list is empty; add a user message"


class EmptyTextRule:
    """No text part is empty or only white space, for providers that refuse such parts."""

    name = "no_empty_text"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.empty_text:
            return
        for index, message in enumerate(request.messages):
            if any(isinstance(p, Text) and not p.text.strip() for p in message.parts):
                yield index, "a text block is empty; leave it out"


class EmptyMessageRule:
    """Every message has content, for providers that refuse empty ones.

    A final assistant message may be empty.
    """

    name = "no_empty_message"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.empty_message:
            return
        last = len(request.messages) - 1
        for index, message in enumerate(request.messages):
            may_be_empty = (index == last and message.role == "assistant") or _has_only_settings(
                message, request.profile
            )
            if not message.parts and not may_be_empty:
                yield index, f"this {message.role} message has no content; leave it out, or fill it"


def _has_only_settings(message: Message, profile: Profile) -> bool:
    """Whether a system message holds settings and no words. Anthropic takes such a one anywhere in the list."""
    native = message.native
    if native is None or native.format != profile.wire or profile.midlist_system != "before_assistant":
        return False
    return message.role == "system" and not message.parts and b'"output_config"' in native.body


class AlternationRule:
    """User and assistant messages alternate, for providers that require it. Tool results count as user."""

    name = "alternation"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.consecutive_roles:
            return
        before = ""
        for index, message in enumerate(request.messages):
            if message.role != "tool" and message.role == before:
                yield index, f"two {message.role} messages stand in a row; join them"
            before = message.role


class SystemPlacementRule:
    """System messages stand only where the provider accepts them."""

    name = "system_place"

    def find(self, request: RuleInput) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if request.profile.midlist_system == "accepted":
            return
        leading = True
        for index, message in enumerate(request.messages):
            leading = leading and message.role == "system"
            after = request.messages[index + 1].role if index + 1 < len(request.messages) else "assistant"
            fits = request.profile.midlist_system == "before_assistant" and after == "assistant"
            if (
                message.role == "system"
                and not leading
                and not fits
                and not _has_only_settings(message, request.profile)
            ):
                yield (
                    index,
                    "a system message stands in the middle of the list; send it as system prompt or user message",
                )


RULES: tuple[Rule, ...] = (
    MatchedResultRule(),
    AnsweredCallRule(),
    AdjacentResultsRule(),
    UniqueCallIdRule(),
    SignedThinkingRule(),
    LeadingThinkingRule(),
    FirstMessageRule(),
    CallPlacementRule(),
    LastMessageRule(),
    NonEmptyListRule(),
    EmptyTextRule(),
    EmptyMessageRule(),
    AlternationRule(),
    SystemPlacementRule(),
)
"""Every rule about how messages depend on one another. A new provider quirk becomes one more."""


def find_violations(
    messages: Sequence[Message], profile: Profile, rules: Sequence[Rule] = RULES, *, sending: bool = False
) -> list[Violation]:
    """Returns the violations in these messages, ordered by index into `messages`.

    With `sending` the list is judged as a request that is sent, so its end may not be open.
    """
    scene = RuleInput(tuple(messages), profile, _pair_calls(messages), sending)
    found = [Violation(rule.name, index, what) for rule in rules for index, what in rule.find(scene)]
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


def _is_open_end(request: RuleInput, call: int) -> bool:
    combined = request.profile.results == "next_message"
    at = call + 1
    while combined and at < len(request.messages) and request.messages[at].role == "assistant":
        at += 1
    return all(m.role == "tool" for m in request.messages[at:])


def _has_earlier_reference(request: RuleInput, before: int) -> bool:
    """Whether an earlier item only names another one. The call we miss may be the one it names."""
    return any(has_item_references(m) for m in request.messages[:before])
