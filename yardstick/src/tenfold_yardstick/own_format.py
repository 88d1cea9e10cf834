"""Validity gates that OpenAI Chat messages cannot express: roles, thinking and signatures in a session's own format.

They apply to Tenfold's methods, which accept any format; other libraries only get OpenAI Chat messages. The recorded
messages are compacted in their own format. Then the view is compared with them and encoded for the strictest providers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from tenfold.config.settings import build_policy
from tenfold.core.record.message import Message, OpaquePart, Part, Text, Thinking, ToolCall
from tenfold.core.view import rules
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.ids import IDS
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import MODEL, get_counter
from tenfold.testing.validity import Gate, GateFailure

STRICTEST_WIRES = ("anthropic", "gemini")
"""The wires whose providers reject most: a user must open the list, and system messages must come first."""
_GATE_BY_RULE: dict[str, Gate] = {
    "result_follows_call": "orphan result",
    "call_answered": "orphan call",
    "results_together": "split step",
    "thinking_with_step": "thinking moved",
    "no_empty_text": "empty content",
    "no_empty_message": "empty content",
    "not_empty": "empty content",
    "content_form": "empty content",
    "thinking_first": "thinking moved",
    "thinking_signed": "signature dropped",
}
"""The gate that each rule of a provider belongs to. All other rules are about roles and their order."""
_THINKING_KINDS = frozenset({"redacted_thinking", "reasoning"})

_ThinkingGroup = tuple[Thinking | OpaquePart, ...]
_PartKey = tuple[str, str]


class OwnFormatCheck:
    """Checks the gates at every cut of one session for one policy of Tenfold.

    `messages` lists, for each chat message, the messages of the session's format that it was made from.
    """

    def __init__(self, messages: Sequence[Sequence[Message]], policy: str) -> None:
        self._messages, self._policy = messages, policy

    def __call__(self, cut: int, budget: int) -> list[GateFailure]:
        """Returns what fails if the messages before the cut are compacted to the budget."""
        past = list(chain.from_iterable(self._messages[:cut]))
        return find_own_failures(past, compact_messages(past, self._policy, budget)) if past else []

    def count_thinking_cuts(self, cuts: Sequence[int]) -> int:
        """Counts the cuts whose past holds thinking or signatures."""
        first = next(
            (at for at, own in enumerate(self._messages) if any(map(_is_thinking, _iter_parts(own)))),
            len(self._messages),
        )
        return sum(cut > first for cut in cuts)


def compact_messages(past: Sequence[Message], policy: str, budget: int) -> list[Message]:
    """Returns the view of these messages, compacted to the budget by code alone."""
    chosen = build_policy(policy, get_counter())
    chosen = chosen.with_list_stages()
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), IDS.generate()), chosen, model=MODEL, answerer=Answerer()
    )
    session.append(*past)
    session.compact(session.compactor.build_call(to=budget))
    return session.view.get_messages()


def find_own_failures(source: Sequence[Message], view: Sequence[Message]) -> list[GateFailure]:
    """Returns every gate that the view fails more often than its source does."""
    family = _find_wire(source)
    found = [*_check_thinking(source, view), *_check_signatures(source, view, family)]
    for wire in dict.fromkeys((*STRICTEST_WIRES, *([family] if family in WIRES else ()))):
        found += find_refusals(source, [item.raw for item in WIRES[wire].encode(view).items], wire)
    return found


def find_refusals(source: Sequence[Message], sent: Sequence[bytes], wire: str) -> list[GateFailure]:
    """Returns what the provider would refuse in the view, apart from what it would refuse in the source as well."""
    found = rules.validate(sent, wire)
    had = Counter(v.rule for v in rules.check_messages(source, wire)) if found else Counter[str]()
    out: list[GateFailure] = []
    for each in found:
        if had[each.rule]:
            had[each.rule] -= 1
        else:
            out.append(
                GateFailure(_GATE_BY_RULE.get(each.rule, "rejected role"), each.index, f"{wire}: {each.problem}")
            )
    return out


def _find_wire(messages: Sequence[Message]) -> str:
    form = next((m.native.format for m in messages if m.native is not None), "")
    return next((name for name, wire in WIRES.items() if wire.profile.is_own_format(form)), form)


# -- thinking ----------------------------------------------------------------------------------------------------------


def _check_thinking(source: Sequence[Message], view: Sequence[Message]) -> Iterator[GateFailure]:
    """Checks that thinking is unchanged and in place, and that what is left of a signed answer has its signatures."""
    known: dict[_PartKey, set[_ThinkingGroup]] = {}
    before: dict[str, set[_ThinkingGroup]] = {}
    for _, atom, group in _group_thinking(source):
        known.setdefault(atom, set()).add(group)
        before.setdefault(atom[0], set()).add(group)
    for at, atom, group in _group_thinking(view):
        if group in known.get(atom, before.get(atom[0], ())):
            continue
        allowed = known.get(atom, set())
        if set(group) - set(chain.from_iterable(allowed)):
            yield GateFailure(
                "thinking moved", at, f"the thinking before this {atom[0]} did not stand there, or not so"
            )
        elif allowed and not any(set(_select_signed(g)) <= set(group) for g in allowed):
            yield GateFailure("signature dropped", at, f"the signature that came with this {atom[0]} is not there")
        elif not allowed and group:
            yield GateFailure("thinking moved", at, f"the thinking before this {atom[0]} stood elsewhere")


def _group_thinking(messages: Sequence[Message]) -> Iterator[tuple[int, _PartKey, _ThinkingGroup]]:
    """Yields each text and call of an answer with the thinking right before it, and thinking that ends an answer.

    An answer is everything that the model says in a row, since some formats write a message for each piece of it.
    """
    group: list[Thinking | OpaquePart] = []
    closed = False
    for at, message in enumerate(messages):
        if message.role != "assistant":
            if group and not closed:
                yield at, ("end", ""), tuple(group)
            group, closed = [], False
            continue
        for part in message.parts:
            if isinstance(part, Thinking | OpaquePart) and _is_thinking(part):
                group, closed = ([] if closed else group), False
                group.append(part)
            else:
                closed = True
                yield at, _build_part_key(part), tuple(group)
    if group and not closed:
        yield len(messages) - 1, ("end", ""), tuple(group)


def _build_part_key(part: Part) -> _PartKey:
    match part:
        case ToolCall(id=call):
            return "call", call
        case Text(text=text):
            return "text", text
        case _:
            return type(part).__name__.lower(), msgspec.json.encode(part).decode()


def _select_signed(group: _ThinkingGroup) -> _ThinkingGroup:
    return tuple(part for part in group if isinstance(part, OpaquePart) or part.signature)


def _iter_parts(messages: Sequence[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts)


def _is_thinking(part: Part) -> bool:
    return isinstance(part, Thinking) or (isinstance(part, OpaquePart) and part.kind in _THINKING_KINDS)


def _check_signatures(source: Sequence[Message], view: Sequence[Message], wire: str) -> Iterator[GateFailure]:
    """Checks that the view's own provider is sent the signatures of the view as often as it was sent them before."""
    if wire not in WIRES or not any(isinstance(p, Thinking) and p.signature for p in _iter_parts(view)):
        return
    before, after = (_count_sent_strings(messages, wire) for messages in (source, view))
    kept = Counter(p.signature for p in _iter_parts(view) if isinstance(p, Thinking) and p.signature)
    for signature, count in kept.items():
        if after[signature] < min(count, before[signature]):
            yield GateFailure("signature dropped", -1, f"{wire}: a signature in view is not in what is sent")


def _count_sent_strings(messages: Sequence[Message], wire: str) -> Counter[str]:
    """Counts how often each text occurs as a value in what is sent."""
    return Counter(
        chain.from_iterable(_iter_strings(msgspec.json.decode(i.raw)) for i in WIRES[wire].encode(messages).items)
    )


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from chain.from_iterable(map(_iter_strings, value.values() if isinstance(value, dict) else value))
