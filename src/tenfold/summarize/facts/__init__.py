"""Extracts facts by code: rules, corrections, files, commands, errors, identifiers, decisions, to-dos, the request.

It uses typed message parts and origins only. Tool output never becomes a rule, whatever it says. Injected context,
demonstrations (origin harness) and Tenfold's own summaries yield nothing. It calls no model and does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tenfold.calls.doing import Doing, opened_by, read_call, text_action
from tenfold.calls.outcomes import error_lines, judge, refused, took_effect
from tenfold.calls.shell import Effect, only_looks, program
from tenfold.record.block import Fact, FactKind
from tenfold.record.message import Message, Text, calls_of, result_of, text_of
from tenfold.redact import redact_value, redacted
from tenfold.summarize.facts.identifiers import Identifiers
from tenfold.summarize.facts.merging import REVERTED, merge
from tenfold.summarize.facts.names import SAID, Names
from tenfold.summarize.facts.said import decisions, spoken
from tenfold.summarize.facts.todos import from_file, from_text, from_tool
from tenfold.text import clip, edges, flat, head_of, key_of, middle
from tenfold.wire.marks import STEP, typed

__all__ = ["extract", "merge"]

COMMAND = 170
"""Most characters of a command that is shown. Its beginning and end tell it from others."""
_OPENING = 2
"""A range that starts deeper than this continues a conversation. System prompt and context may come before the first
words of the user."""
_KINDS: dict[str, FactKind] = {
    "read": "file_read",
    "write": "file_created",
    "modify": "file_modified",
    "delete": "file_deleted",
    "rename": "file_renamed",
    "revert": "file_modified",
}


def extract(entries: Iterable[tuple[int, Message]]) -> tuple[Fact, ...]:
    """Returns the facts of original messages, given as (position, message) in order. Settled ones have `live` False."""
    reader = _Reader()
    for number, (at, message) in enumerate(entries):
        if number == 0 and at > _OPENING:
            reader.resume()
        reader.read(at, message)
    return merge((), reader.finish())


class _Reader:
    """Reads the messages once, and remembers open calls until their results arrive."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._identifiers = Identifiers()
        self._names = Names()
        self._pending: dict[str, Doing] = {}
        self._acting: Doing | None = None
        self._seen: set[str] = set()
        self._opened = ""
        self._answered = False

    def read(self, at: int, message: Message) -> None:
        if message.origin in {"harness", "tenfold"}:
            return
        if message.origin == "tool" or message.role == "tool":
            self._result(at, message)
        elif message.origin == "model":
            self._answer(at, message)
        elif message.role == "user":
            self._words(at, message)

    def resume(self) -> None:
        """Marks the messages as a continued conversation: what the user says first may correct earlier work."""
        self._answered = True

    def finish(self) -> list[Fact]:
        return [*self._facts, *self._identifiers.facts(), *self._names.facts()]

    def _words(self, at: int, message: Message) -> None:
        text = "\n".join(typed(part.text) for part in message.parts if isinstance(part, Text))
        self._facts.extend(spoken(at, text, first=not self._answered))
        text = edges(text)
        self._facts.extend(decisions(at, text))
        self._facts.extend(from_text(at, text, user=True))
        self._identifiers.said(at, text, "user")
        self._names.read(at, text, SAID)
        if len(text) > 300:
            for line in error_lines(text, strict=True):
                self._facts.append(Fact(kind="error", text=line, key=key_of(line), at=at, note="user"))

    def _answer(self, at: int, message: Message) -> None:
        self._answered = True
        calls = calls_of(message)
        for call in calls:
            action = self._pending[call.id] = read_call(call, self._opened)
            arguments = call.arguments.replace("\\n", " ").replace('\\"', '"')
            self._identifiers.read(at, head_of(arguments, 2_000), "model")
            self._names.read(at, "\n".join(_strings(action.arguments)), _owner(action))
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        text = edges(text)
        if text and not text.startswith(STEP):  # else it is a step's line, returned by a host as an answer
            self._facts.extend(decisions(at, text))
            self._facts.extend(from_text(at, text, user=False))
            self._identifiers.said(at, text, "model")
        if text:
            self._names.read(at, text, SAID)
        text_call = None if calls else text_action(message)
        self._acting = read_call(text_call, self._opened) if text_call else None

    def _result(self, at: int, message: Message) -> None:
        result = result_of(message)
        text = text_of(message)
        action = self._pending.pop(result.call, None) if result else self._acting
        self._acting = None
        self._opened = opened_by(text, self._opened)
        if action is None:
            return
        if not (action.verb == "read" and len(text) > 4_000):
            self._identifiers.read(at, text, "tool")
        self._names.read(at, text, _owner(action), heard=True)
        self._came(at, action, text, flagged=bool(result and result.error))

    def _came(self, at: int, doing: Doing, text: str, *, flagged: bool) -> None:
        outcome = judge(doing, text, flagged=flagged, at=at)
        self._facts.extend(outcome.errors)
        if doing.verb in {"shell", "other"}:
            key = doing.source if doing.verb == "shell" else doing.label
            note = f"{outcome.note}: {outcome.cause}" if outcome.cause else outcome.note
            self._facts.append(Fact(kind="command", text=_shown(doing.label), key=key, at=at, note=note))
        failed = not took_effect(outcome.note)
        is_shell = doing.verb == "shell"
        for effect in doing.effects:
            if is_shell and refused(outcome.errors, effect):
                continue
            if not failed or (is_shell and effect.sure):
                self._touched(at, effect)
                if effect.verb in {"write", "modify"} and not is_shell:
                    self._facts.extend(from_file(at, effect.path, doing.arguments, whole=effect.verb == "write"))
        if doing.verb == "todo" and not failed:
            self._facts.extend(from_tool(at, doing.arguments))

    def _touched(self, at: int, effect: Effect) -> None:
        kind = _KINDS.get(effect.verb)
        if kind is None or not effect.path:
            return
        if kind == "file_created" and effect.path in self._seen:
            kind = "file_modified"
        key = effect.target or effect.path
        text = f"{effect.path} -> {effect.target}" if effect.target else effect.path
        self._seen.add(key)
        if kind == "file_deleted":
            self._seen.discard(key)
        is_revert = effect.verb == "revert"
        self._facts.append(
            Fact(kind=kind, text=text, key=key, at=at, live=not is_revert, note=REVERTED if is_revert else "")
        )


def _strings(value: object, label: str = "") -> Iterator[str]:
    """Yields the texts in a call's arguments, unescaped and without secrets."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, str(value.get("name", name) if name == "value" else name))
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, label)
    else:
        yield redact_value(label, str(value))


_AWAY = re.compile(r"^(?:cd [^\s;&|]+ ?(?:&&|;) ?)+(?=\S)")


def _shown(command: str) -> str:
    """Returns a command on one line, without a leading `cd`; a long one loses its middle."""
    return middle(_AWAY.sub("", flat(redacted(command))), COMMAND)


def _owner(doing: Doing) -> str:
    """Returns what the names of a call and its result belong to: the file it works on, else its program or tool."""
    if doing.effects:
        return doing.effects[0].target or doing.effects[0].path
    if doing.verb != "shell":
        return flat(clip(doing.source, 60))
    parts = doing.source.removeprefix("$ ").split(" && ")
    return flat(clip("$ " + program(next((part for part in parts if not only_looks(part)), parts[0])), 60))
