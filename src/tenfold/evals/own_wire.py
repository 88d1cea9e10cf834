"""Validity gates that OpenAI Chat messages cannot express: roles, thinking and signatures in a session's own format.

They apply to Tenfold's methods, which accept any format; other libraries only get OpenAI Chat messages. The recorded
messages are compacted in their own format. Then the view is compared with them and encoded for the strictest providers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.errors import UnknownRole
from tenfold.evals.cases import MODEL, counter
from tenfold.evals.validity import Broken, Gate
from tenfold.log.ids import IDS
from tenfold.log.memory import MemoryStore
from tenfold.record.message import Message, Opaque, Part, Text, Thinking, ToolCall
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.view import rules
from tenfold.wire import FAMILY, PROFILES, WIRES

STRICTEST = ("anthropic", "gemini")
"""The wires whose providers reject most: a user must open the list, and system messages must come first."""
_GATES: dict[str, Gate] = {
    "result_follows_call": "orphan result",
    "call_answered": "orphan call",
    "results_together": "split step",
    "thinking_with_step": "thinking moved",
    "no_empty_text": "empty content",
    "no_empty_message": "empty content",
}
"""The gate that each rule of a provider belongs to. All other rules are about roles and their order."""
_THINKING = frozenset({"redacted_thinking", "reasoning"})

_Group = tuple[Thinking | Opaque, ...]
_Atom = tuple[str, str]


class OwnWire:
    """Checks the gates at every cut of one session for one policy of Tenfold.

    `messages` lists, for each chat message, the messages of the session's format that it was made from.
    """

    def __init__(self, own: Sequence[Sequence[Message]], policy: str) -> None:
        self._own, self._policy = own, policy

    def __call__(self, cut: int, budget: int) -> list[Broken]:
        """Returns what fails if the messages before the cut are compacted to the budget."""
        past = list(chain.from_iterable(self._own[:cut]))
        return broken(past, compacted(past, self._policy, budget)) if past else []

    def thinking(self, cuts: Sequence[int]) -> int:
        """Counts the cuts whose past holds thinking or signatures."""
        first = next((at for at, own in enumerate(self._own) if any(map(_is_thinking, _parts(own)))), len(self._own))
        return sum(cut > first for cut in cuts)


def compacted(past: Sequence[Message], policy: str, budget: int) -> list[Message]:
    """Returns the view of these messages, compacted to the budget by code alone."""
    chosen = policy_for(policy, counter())
    chosen = replace(chosen, stages=chosen.in_memory or chosen.stages)
    session = Session.create(Place(MemoryStore(), IDS.new()), chosen, model=MODEL, answerer=Answerer())
    session.append(*past)
    session.compact(session.call(to=budget))
    return session.view.messages()


def broken(source: Sequence[Message], view: Sequence[Message]) -> list[Broken]:
    """Returns every gate that the view fails more often than its source does."""
    family = _family(source)
    found = [*_thinking(source, view), *_unsigned(source, view, family)]
    for wire in dict.fromkeys((*STRICTEST, *([family] if family in PROFILES else ()))):
        found += refused(source, [item.raw for item in WIRES[wire].encode(view).items], wire)
    return found


def refused(source: Sequence[Message], sent: Sequence[bytes], wire: str) -> list[Broken]:
    """Returns what the provider would refuse in the view, apart from what it would refuse in the source as well."""
    try:
        found = rules.validate(sent, wire)
    except UnknownRole as exc:
        return [Broken("rejected role", -1, f"{wire}: {exc}")]
    had = Counter(v.rule for v in rules.check(source, wire)) if found else Counter[str]()
    out: list[Broken] = []
    for each in found:
        if had[each.rule]:
            had[each.rule] -= 1
        else:
            out.append(Broken(_GATES.get(each.rule, "rejected role"), each.index, f"{wire}: {each.what}"))
    return out


def _family(messages: Sequence[Message]) -> str:
    form = next((m.native.format for m in messages if m.native is not None), "")
    return FAMILY.get(form, form)


# -- thinking ----------------------------------------------------------------------------------------------------------


def _thinking(source: Sequence[Message], view: Sequence[Message]) -> Iterator[Broken]:
    """Checks that thinking is unchanged and in place, and that what is left of a signed answer has its signatures."""
    known: dict[_Atom, set[_Group]] = {}
    before: dict[str, set[_Group]] = {}
    for _, atom, group in _groups(source):
        known.setdefault(atom, set()).add(group)
        before.setdefault(atom[0], set()).add(group)
    for at, atom, group in _groups(view):
        if group in known.get(atom, before.get(atom[0], ())):
            continue
        allowed = known.get(atom, set())
        if set(group) - set(chain.from_iterable(allowed)):
            yield Broken("thinking moved", at, f"the thinking before this {atom[0]} did not stand there, or not so")
        elif allowed and not any(set(_signed(g)) <= set(group) for g in allowed):
            yield Broken("signature dropped", at, f"the signature that came with this {atom[0]} is not there")
        elif not allowed and group:
            yield Broken("thinking moved", at, f"the thinking before this {atom[0]} stood elsewhere")


def _groups(messages: Sequence[Message]) -> Iterator[tuple[int, _Atom, _Group]]:
    """Yields each text and call of an answer with the thinking right before it, and thinking that ends an answer.

    An answer is everything that the model says in a row, since some formats write a message for each piece of it.
    """
    group: list[Thinking | Opaque] = []
    closed = False
    for at, message in enumerate(messages):
        if message.role != "assistant":
            if group and not closed:
                yield at, ("end", ""), tuple(group)
            group, closed = [], False
            continue
        for part in message.parts:
            if isinstance(part, Thinking | Opaque) and _is_thinking(part):
                group, closed = ([] if closed else group), False
                group.append(part)
            else:
                closed = True
                yield at, _atom(part), tuple(group)
    if group and not closed:
        yield len(messages) - 1, ("end", ""), tuple(group)


def _atom(part: Part) -> _Atom:
    match part:
        case ToolCall(id=call):
            return "call", call
        case Text(text=text):
            return "text", text
        case _:
            return type(part).__name__.lower(), msgspec.json.encode(part).decode()


def _signed(group: _Group) -> _Group:
    return tuple(part for part in group if isinstance(part, Opaque) or part.signature)


def _parts(messages: Sequence[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts)


def _is_thinking(part: Part) -> bool:
    return isinstance(part, Thinking) or (isinstance(part, Opaque) and part.kind in _THINKING)


def _unsigned(source: Sequence[Message], view: Sequence[Message], family: str) -> Iterator[Broken]:
    """Checks that the view's own provider is sent the signatures of the view as often as it was sent them before."""
    if family not in WIRES or not any(isinstance(p, Thinking) and p.signature for p in _parts(view)):
        return
    before, after = (_sent(messages, family) for messages in (source, view))
    kept = Counter(p.signature for p in _parts(view) if isinstance(p, Thinking) and p.signature)
    for signature, count in kept.items():
        if after[signature] < min(count, before[signature]):
            yield Broken("signature dropped", -1, f"{family}: a signature in view is not in what is sent")


def _sent(messages: Sequence[Message], wire: str) -> Counter[str]:
    """Counts how often each text occurs as a value in what is sent."""
    return Counter(
        chain.from_iterable(_strings(msgspec.json.decode(i.raw)) for i in WIRES[wire].encode(messages).items)
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from chain.from_iterable(map(_strings, value.values() if isinstance(value, dict) else value))
