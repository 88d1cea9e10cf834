"""What every peer's worker does: answers JSON lines with JSON lines, counts as the yardstick counts, stays offline.

A worker is a script that runs inside one peer's environment. It takes `{"id", "method", "messages", "sizes", "budget",
"window"}` on standard input and answers `{"id", "messages", "note", "seconds", "spent_input", "spent_output"}` or
`{"id", "unable"}` on standard output. Messages are OpenAI Chat messages both ways, `sizes` what the yardstick counts of
each. Nothing of Tenfold is imported.

A request with `"turns"`, a list of the messages that each turn adds to `"messages"`, is answered with `{"id", "note",
"seconds": [...]}`: how long the peer's hook took in each turn, with nothing to compact.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import toktok

Chat = dict[str, Any]
"""One OpenAI Chat message."""

FRAME = 4
"""Tokens around one message: the yardstick's own figure."""

NEAR = 0.95
"""A try that fills this much of the budget ends the search for a larger one."""

_SURROGATE = re.compile("[\ud800-\udfff]")

BEYOND = 2_000_000_000
"""Tokens no session has: with this for a window or a limit, a peer has nothing to compact."""

TRIES = 9
"""How often a peer is asked at most until it lands within the budget."""


class Unable(Exception):
    """This peer cannot do what was asked; the text is the reason."""


class Spent:
    """What the stand-in read and wrote in the call that is being made."""

    read = 0
    written = 0

    @classmethod
    def reset(cls) -> None:
        """Before each call of the peer."""
        cls.read = cls.written = 0

    @classmethod
    def add(cls, read: str, written: str) -> str:
        """One call of the stand-in; gives back what it wrote."""
        cls.read += tokens(read)
        cls.written += tokens(written)
        return written


class Tried(NamedTuple):
    """What a peer made of one setting."""

    setting: int
    messages: list[Chat]
    size: int
    seconds: float
    spent: tuple[int, int]


@lru_cache(maxsize=50_000)
def tokens(text: str) -> int:
    """Tokens of a text in o200k, as the yardstick counts them. Remembered: each try counts the same messages again."""
    return int(toktok.batch_count([_SURROGATE.sub("\ufffd", text)], "o200k_base")[0])


_BESIDE: dict[str, int] = {}
"""Tokens that the yardstick counts beside the texts of a message, by what it says: images, mostly."""


def told(messages: Sequence[Chat], sizes: Sequence[int]) -> None:
    """Learns what the yardstick counts of each message of the past."""
    _BESIDE.clear()
    beside = [(message, whole - size([message])) for message, whole in zip(messages, sizes, strict=True)]
    _BESIDE.update({_meaning(message): more for message, more in beside if more})


def size(messages: Sequence[Chat]) -> int:
    """Tokens of whole messages, their frames included, and what the yardstick counts beside their texts."""
    beside = sum(_BESIDE.get(_meaning(message), 0) for message in messages) if _BESIDE else 0
    return beside + sum(FRAME + sum(tokens(piece) for piece in pieces(message)) for message in messages)


def pieces(message: Chat) -> list[str]:
    """The texts in a message that a model reads: its content, the names and the arguments of its calls."""
    found = [text_of(message)]
    for each in message.get("tool_calls") or ():
        found += [each["function"]["name"], each["function"]["arguments"]]
    return [each for each in found if each]


def text_of(message: Chat) -> str:
    """A message's content as one text."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def rendered(messages: Sequence[Chat]) -> list[str]:
    """Each message as one text that begins with its role: what the stand-in reads where a peer gives it messages."""
    return [f"{message['role']}: " + "\n".join(pieces(message)) for message in messages]


def call_names(messages: Sequence[Chat]) -> dict[str, str]:
    """The tool's name by call id: formats other than OpenAI's want it on the result too."""
    return {c["id"]: c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()}


def call(identifier: str, name: str, arguments: str) -> Chat:
    """A tool call as OpenAI Chat writes it."""
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def fitted(
    run: Callable[[int], list[Chat]], past: Sequence[Chat], budget: int, highest: int, *, first: int | None = None
) -> Tried:
    """The largest result within `budget` that one setting of the peer, from 0 to `highest`, leads to.

    A peer counts with a rule of its own, or knows messages only: asked once, it lands far beside the budget. So its
    main setting is searched, by halving, and the yardstick's counter decides. Where nothing fits, the smallest result.
    """
    low, high, best, least = 0, highest, None, None
    setting = min(highest, first if first is not None else highest)
    for _ in range(TRIES):
        Spent.reset()
        start = time.perf_counter()
        made = run(setting)
        seconds = time.perf_counter() - start
        made = restored(made, past)
        tried = Tried(setting, made, size(made), seconds, (Spent.read, Spent.written))
        least = tried if least is None or tried.size < least.size else least
        if tried.size <= budget:
            best = tried if best is None or tried.size > best.size else best
            low = setting + 1
        else:
            high = setting - 1
        if low > high or (best is not None and best.size >= NEAR * budget):
            break
        setting = (low + high) // 2
    found = best or least
    assert found is not None
    return found


Compact = Callable[[list[Chat], int, "int | None"], "list[Chat] | Tried"]
"""What a worker writes: past, budget, window -> what the peer leaves of it. Leading system messages are not in it."""


class Turn(NamedTuple):
    """What a host pays before a model call when there is nothing to compact.

    `grows` takes what a turn adds to the history, into messages of the peer's own kind: it is not timed. `hook` is
    the peer's own code as its framework calls it, and is; it gives True where all was left as it was.
    """

    grows: Callable[[list[Chat]], object]
    hook: Callable[[], bool]


Turns = Callable[[list[Chat]], Turn]
"""What a worker writes to be timed: a past -> a turn that goes on from it. System messages are not in it."""


def waited(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives, on one loop for all: a framework's hook runs in a loop that is there already."""
    return _LOOP.run_until_complete(work)


_LOOP = asyncio.new_event_loop()


def serve(methods: dict[str, Compact], packages: Sequence[str], turns: dict[str, Turns] | None = None) -> None:
    """Answers requests until standard input ends. What a peer prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.addaudithook(_offline)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = (
                _timed(turns or {}, request, versions) if "turns" in request else _answer(methods, request, versions)
            )
        except Unable as reason:
            answer = {"unable": str(reason)}
        except Exception as error:  # noqa: BLE001 - a peer's own failure is a result of the measurement
            traceback.print_exc()
            answer = {"unable": f"{versions} raised {type(error).__name__}: {str(error)[:300]}"}
        answers.write(json.dumps({"id": request["id"], **answer}) + "\n")
        answers.flush()


def _answer(methods: dict[str, Compact], request: dict[str, Any], versions: str) -> dict[str, Any]:
    if request["method"] not in methods:
        raise Unable(f"no method {request['method']!r}; this worker has {', '.join(methods)}")
    messages, budget = request["messages"], int(request["budget"])
    told(messages, request["sizes"])
    opening = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
    system, rest = messages[:opening], messages[opening:]
    left = budget - size(system)
    if left <= 0:
        raise Unable(f"the system prompt alone takes {size(system):,} of {budget:,} tokens")
    if size(rest) <= left:
        return _reply(Tried(0, messages, 0, 0.0, (0, 0)), f"{versions}; fits as it is")
    Spent.reset()
    start = time.perf_counter()
    made = methods[request["method"]](rest, left, request.get("window"))
    if not isinstance(made, Tried):
        made = Tried(0, restored(made, rest), 0, time.perf_counter() - start, (Spent.read, Spent.written))
    return _reply(made._replace(messages=system + made.messages), f"{versions}; setting {made.setting}")


def _timed(turns: dict[str, Turns], request: dict[str, Any], versions: str) -> dict[str, Any]:
    """Seconds of each hook. The first turn is a warm-up, unless it alone takes all the time there is."""
    if request["method"] not in turns:
        raise Unable(f"{request['method']!r} has no hook before a model call that could be timed")
    turn, took = turns[request["method"]](request["messages"]), list[float]()
    for step in request["turns"]:
        turn.grows(step)
        start = time.perf_counter()
        untouched = turn.hook()
        took.append(time.perf_counter() - start)
        if not untouched:
            raise Unable("it changed a history that it was to leave alone")
        if sum(took) > request["limit"]:
            break
    return {"note": versions, "seconds": took[1:] or took}


def restored(messages: Sequence[Chat], past: Sequence[Chat]) -> list[Chat]:
    """What says the same as a message of the past is that one again: a peer's form may write null or JSON otherwise."""
    known = {_meaning(message): message for message in past}
    return [known.get(_meaning(message), message) for message in messages]


def _meaning(message: Chat) -> str:
    calls = [
        (c["id"], c["function"]["name"], _parsed(c["function"]["arguments"])) for c in message.get("tool_calls") or ()
    ]
    return json.dumps([message["role"], text_of(message), calls, message.get("tool_call_id")], sort_keys=True)


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _reply(made: Tried, note: str) -> dict[str, Any]:
    return {
        "messages": made.messages,
        "note": note,
        "seconds": made.seconds,
        "spent_input": made.spent[0],
        "spent_output": made.spent[1],
    }


def _offline(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        raise OSError(f"this worker is offline: no connection to {args[1][0]}")
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise OSError(f"this worker is offline: no name is looked up ({args[0]})")
