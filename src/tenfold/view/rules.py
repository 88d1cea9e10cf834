"""The rules that providers put on a list of messages, one small object for each. Rules report and repair nothing.

`validate` checks a caller's own provider messages, `check_messages` what our messages would be sent as. Differences
between providers are read from the profile table; no rule tests for a provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from tenfold.record.message import Message, Opaque, Text, Thinking, ToolResult, calls_of, refers, result_of
from tenfold.wire import PROFILES, Profile, items_in, raw_of, wire_of


class Violation(Struct, frozen=True):
    """One broken rule. `index` is the message's index in the list that was checked."""

    rule: str
    index: int
    what: str


class Step(Struct, frozen=True):
    """A tool call with its result, or one of the two without the other. Both are indexes into the list."""

    call: int | None
    result: int | None
    id: str


class Scene(Struct, frozen=True):
    """What the rules look at: the messages, the provider's profile, and every call with its result."""

    messages: tuple[Message, ...]
    profile: Profile
    steps: tuple[Step, ...]


class Rule(Protocol):
    """One condition that a provider puts on a list of messages."""

    name: str

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """Yields the index of each offending message, and what is wrong with it."""
        ...


class ResultHasCall:
    """Every tool result follows the call it answers, and answers it once."""

    name = "result_follows_call"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        for step in scene.steps:
            if step.call is None and step.result is not None and not _referred(scene, step.result):
                yield step.result, f"no unanswered call with id {step.id!r} stands before this result"


class CallHasResult:
    """Every tool call is answered, unless its step is the open end of the list."""

    name = "call_answered"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        for step in scene.steps:
            if step.call is not None and step.result is None and not _open_end(scene, step.call):
                yield step.call, f"the call with id {step.id!r} has no result"


class ResultsTogether:
    """Parallel calls and their results form one block that no other message interrupts."""

    name = "results_together"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if scene.profile.results == "anywhere":
            return
        combined = scene.profile.results == "next_message"
        for step in scene.steps:
            if step.call is None or step.result is None:
                continue
            at = step.call + 1
            while combined and scene.messages[at].role == "assistant":
                at += 1
            while at < step.result and scene.messages[at].role == "tool":
                at += 1
            if at < step.result:
                role = scene.messages[at].role
                yield step.result, f"a message of role {role} stands between the call {step.id!r} and its result"


class ThinkingKept:
    """Signed thinking is followed by the text or tool call that it belongs to."""

    name = "thinking_with_step"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if not scene.profile.reasoning_needs_successor:
            return
        for index, message in enumerate(scene.messages):
            last = message.parts[-1] if message.role == "assistant" and message.parts else None
            signed = isinstance(last, Thinking) or (isinstance(last, Opaque) and last.kind == "redacted_thinking")
            after = scene.messages[index + 1].role if index + 1 < len(scene.messages) else ""
            if signed and after != "assistant":
                yield index, "this answer ends with thinking, and what it led to is not there"


class FirstMessage:
    """The list opens with a message that the provider accepts first."""

    name = "first_message"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        first = next(((i, m) for i, m in enumerate(scene.messages) if m.role != "system"), None)
        if first is not None and first[1].role == "assistant" and not scene.profile.opens_with_assistant:
            yield first[0], "the list opens with an assistant message"


class NoEmptyText:
    """No text part is empty or only white space, for providers that refuse such parts."""

    name = "no_empty_text"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if scene.profile.empty_text:
            return
        for index, message in enumerate(scene.messages):
            if any(isinstance(p, Text) and not p.text.strip() for p in message.parts):
                yield index, "a text block is empty"


class NoEmptyMessage:
    """Every message has content, for providers that refuse empty ones.

    A final assistant message may be empty.
    """

    name = "no_empty_message"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if scene.profile.empty_message:
            return
        last = len(scene.messages) - 1
        for index, message in enumerate(scene.messages):
            if not message.parts and not (index == last and message.role == "assistant"):
                yield index, f"this {message.role} message has no content"


class Alternation:
    """User and assistant messages alternate, for providers that require it. Tool results count as user."""

    name = "alternation"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if scene.profile.consecutive_roles:
            return
        before = ""
        for index, message in enumerate(scene.messages):
            if message.role != "tool" and message.role == before:
                yield index, f"two {message.role} messages stand in a row"
            before = message.role


class SystemPlace:
    """System messages stand only where the provider accepts them."""

    name = "system_place"

    def find(self, scene: Scene) -> Iterator[tuple[int, str]]:
        """See `Rule.find`."""
        if scene.profile.midlist_system == "accepted":
            return
        leading = True
        for index, message in enumerate(scene.messages):
            leading = leading and message.role == "system"
            after = scene.messages[index + 1].role if index + 1 < len(scene.messages) else "assistant"
            fits = scene.profile.midlist_system == "before_assistant" and after == "assistant"
            if message.role == "system" and not leading and not fits:
                yield index, "a system message stands in the middle of the list"


RULES: tuple[Rule, ...] = (
    ResultHasCall(),
    CallHasResult(),
    ResultsTogether(),
    ThinkingKept(),
    FirstMessage(),
    NoEmptyText(),
    NoEmptyMessage(),
    Alternation(),
    SystemPlace(),
)
"""Every rule. A new provider quirk becomes one more."""


def broken(messages: Sequence[Message], profile: Profile, rules: Sequence[Rule] = RULES) -> list[Violation]:
    """Returns the violations in these messages, ordered by index into `messages`."""
    scene = Scene(tuple(messages), profile, _steps(messages))
    found = [Violation(rule.name, index, what) for rule in rules for index, what in rule.find(scene)]
    return sorted(found, key=lambda v: v.index)


def validate(messages: Sequence[object], wire: str) -> list[Violation]:
    """Returns what the provider would refuse in its own messages: dicts, JSON bytes or text, or an SDK's objects.

    Raises `UnknownFormat` for an unknown wire, `BadInput` for something that is no message, `UnknownRole`.
    """
    decoded = wire_of(wire).decode([raw_of(m) for m in messages])
    places = _places(decoded)
    return [Violation(v.rule, places[v.index], v.what) for v in broken(decoded, PROFILES[wire])]


def check(messages: Sequence[Message], wire: str) -> list[Violation]:
    """Returns what the provider would refuse if `messages` were sent over `wire`.

    `Violation.index` is the index into `messages`.
    """
    encoded = wire_of(wire).encode(messages)
    out: list[Violation] = []
    for violation in validate([item.raw for item in encoded.items], wire):
        of = encoded.items[violation.index].of
        out.append(Violation(violation.rule, of[0] if of else 0, violation.what))
    return out


def _places(messages: Sequence[Message]) -> list[int]:
    places: list[int] = []
    following = 0
    for message in messages:
        if message.native is None or message.native.index == 0:
            start, following = following, following + items_in(message)
        places.append(start)
    return places


def _steps(messages: Sequence[Message]) -> tuple[Step, ...]:
    waiting: dict[str, list[int]] = {}
    out: list[Step] = []
    for index, message in enumerate(messages):
        for call in calls_of(message):
            waiting.setdefault(call.id, []).append(index)
        result: ToolResult | None = result_of(message)
        if result is not None:
            calls = waiting.get(result.call)
            out.append(Step(calls.pop() if calls else None, index, result.call))
    out.extend(Step(index, None, call) for call, indices in waiting.items() for index in indices)
    return tuple(out)


def _open_end(scene: Scene, call: int) -> bool:
    combined = scene.profile.results == "next_message"
    at = call + 1
    while combined and at < len(scene.messages) and scene.messages[at].role == "assistant":
        at += 1
    return all(m.role == "tool" for m in scene.messages[at:])


def _referred(scene: Scene, before: int) -> bool:
    """Whether an earlier item only names another one. The call we miss may be the one it names."""
    return any(refers(m) for m in scene.messages[:before])
