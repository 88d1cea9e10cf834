"""Builds the conversation of a kind from its TOML file: what is written out at its place, filler between.

Nothing is random. Sentences and the words in their gaps are dealt in turn, each list from its own place, so that a
sentence comes back with other words only, as it does when people talk for a day about one thing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "conversations"
_GAP = re.compile(r"\{([a-z_]+)(?::(\d+))?\}")


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call and what the tool returned."""

    tool: str
    arguments: str
    result: str


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written out of the exchange number `at`. Filler takes the place of what is left empty.

    `mode` comes from the program and replaces its earlier ones. `change` is what the calls change in the world: the
    object, and words for what came of it.
    """

    at: int
    name: str = ""
    mode: str = ""
    user: str = ""
    calls: tuple[Call, ...] = ()
    assistant: str = ""
    change: tuple[str, ...] = ()


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a careful reader knows afterwards, in its current meaning.

    `stated` names the turns that say it. `kept` are the words that must stand near one another, the value first; a bar
    separates words that do equally. `stale` is the value that was put right later.
    """

    question: str
    stated: tuple[str, ...]
    kept: tuple[str, ...]
    stale: str = ""


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of conversation. `rules` are words of each rule that the user gave, and nobody else gave one."""

    exchanges: int
    sentences: tuple[int, ...]
    ask: tuple[str, ...]
    say: tuple[str, ...]
    request: str
    facts: tuple[Fact, ...]
    turns: tuple[Turn, ...]
    slots: dict[str, tuple[str, ...]] = {}
    joiner: str = " "
    system: str = ""
    rules: tuple[str, ...] = ()
    reads: tuple[Call, ...] = ()
    fenced_files: tuple[str, ...] = ()


def load_kind(name: str) -> Kind:
    """Reads the file of a kind. Raises `msgspec.ValidationError` where it is wrong."""
    return msgspec.toml.decode((FOLDER / f"{name}.toml").read_bytes(), type=Kind)


def list_kinds() -> list[str]:
    """The names of all kinds."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


class Dealer:
    """Deals the items of each list in turn, and begins each further round one item later."""

    def __init__(self, kind: Kind) -> None:
        self.lists: dict[str, tuple[str, ...]] = {**kind.slots, "ask": kind.ask, "say": kind.say}
        self.dealt: dict[str, int] = {}
        self.joiner = kind.joiner

    def deal(self, name: str) -> str:
        """The next item of a list with its gaps filled. The lists `num` and `big` are numbers."""
        count = self.dealt.get(name, 0)
        self.dealt[name] = count + 1
        if name in ("num", "big"):
            return str(11 + count * 37 % 83) if name == "num" else str(1207 + count * 1361 % 7919)
        items = self.lists[name]
        text = self.fill(items[(count + count // len(items)) % len(items)])
        return text[:1].upper() + text[1:] if name == "say" else text

    def fill(self, text: str) -> str:
        """Fills the gaps of a text: `{name}` by the next item of that list, `{say:3}` by three sentences."""

        def replace_gap(gap: re.Match[str]) -> str:
            name, times = gap[1], int(gap[2] or 1)
            known = name in self.lists or name in ("num", "big")
            return self.joiner.join(self.deal(name) for _ in range(times)) if known else gap[0]

        return _GAP.sub(replace_gap, text.strip())


class Talk(msgspec.Struct):
    """The messages of a conversation in the form of OpenAI Chat, and the name of the turn that each comes from."""

    messages: list[Json] = []
    names: list[str] = []

    def add(self, name: str, role: str, content: str | None, **more: object) -> None:
        """Appends a message."""
        self.messages.append({"role": role, "content": content, **more})
        self.names.append(name)

    def leave_out(self, names: tuple[str, ...]) -> list[Json]:
        """The messages of all other turns."""
        return [each for each, name in zip(self.messages, self.names, strict=True) if name not in names]


def build_talk(kind: Kind) -> Talk:
    """The whole conversation of a kind. The request that is still open is its last message."""
    dealer, talk, turns = Dealer(kind), Talk(), {turn.at: turn for turn in kind.turns}
    if kind.system:
        talk.add("system", "system", kind.system.strip())
    for number in range(kind.exchanges):
        _add_exchange(talk, dealer, kind, turns.get(number, Turn(number)))
    talk.add("request", "user", kind.request)
    return talk


def _add_exchange(talk: Talk, dealer: Dealer, kind: Kind, turn: Turn) -> None:
    if turn.mode:
        talk.add(turn.name, "developer", dealer.fill(turn.mode))
    talk.add(turn.name, "user", dealer.fill(turn.user or "{ask}"))
    reads = (kind.reads * 2)[turn.at % len(kind.reads) :][:2] if kind.reads else ()
    for call in (*reads, *turn.calls):
        known = f"call_{len(talk.messages)}"
        arguments = json.loads(dealer.fill(call.arguments))
        function = {"name": call.tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
        talk.add(turn.name, "assistant", None, tool_calls=[{"id": known, "type": "function", "function": function}])
        talk.add(turn.name, "tool", dealer.fill(call.result), tool_call_id=known)
    sentences = kind.sentences[turn.at % len(kind.sentences)]
    talk.add(turn.name, "assistant", dealer.fill(turn.assistant or f"{{say:{sentences}}}"))
