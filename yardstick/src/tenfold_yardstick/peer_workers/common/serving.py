"""The base of every peer's worker: it answers JSON lines, counts tokens as the yardstick does, and stays offline.

A worker is a script that runs in one peer's environment. On standard input it gets `{"id", "method", "messages",
"sizes", "budget", "window"}`. On standard output it answers `{"id", "messages", "note", "seconds", "spent_input",
"spent_output"}` or `{"id", "unable"}`. Messages are OpenAI Chat messages in both directions. `sizes` are the tokens
that the yardstick counts for each. Nothing of Tenfold is imported.

A request may have `"turns"`, a list of the messages that each turn adds to `"messages"`. It is answered with `{"id",
"note", "seconds": [...]}`: how long the peer's hook took in each turn, with nothing to compact.
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
"""Tokens around one message, as the yardstick counts them."""

NEAR = 0.95
"""A try that fills this share of the budget ends the search for a larger one."""

_SURROGATE = re.compile("[\ud800-\udfff]")

BEYOND = 2_000_000_000
"""More tokens than any session has. With this as its window or limit, a peer has nothing to compact."""

TRIES = 9
"""How often a peer is asked at most to land within the budget."""


class Unable(Exception):
    """Raised if this peer cannot do what was asked. The text is the reason."""


class Spent:
    """The tokens that the stand-in model read and wrote in the current call."""

    read = 0
    written = 0

    @classmethod
    def reset(cls) -> None:
        """Sets both counts to 0, before each call of the peer."""
        cls.read = cls.written = 0

    @classmethod
    def add(cls, read: str, written: str) -> str:
        """Adds one call of the stand-in, and returns what it wrote."""
        cls.read += tokens(read)
        cls.written += tokens(written)
        return written


class Tried(NamedTuple):
    """The result of a peer with one setting."""

    setting: int
    messages: list[Chat]
    size: int
    seconds: float
    spent: tuple[int, int]


@lru_cache(maxsize=50_000)
def tokens(text: str) -> int:
    """Returns the tokens of a text in o200k, as the yardstick counts.

    Cached, since each try counts the same messages.
    """
    return int(toktok.batch_count([_SURROGATE.sub("\ufffd", text)], "o200k_base")[0])


_BESIDE: dict[str, int] = {}
"""The tokens of a message besides its texts, mostly of images, by the message's content."""


def learn_sizes(messages: Sequence[Chat], sizes: Sequence[int]) -> None:
    """Learns how many tokens the yardstick counts for each message of the past."""
    _BESIDE.clear()
    beside = [(message, whole - size([message])) for message, whole in zip(messages, sizes, strict=True)]
    _BESIDE.update({_build_key(message): more for message, more in beside if more})


def size(messages: Sequence[Chat]) -> int:
    """Returns the tokens of whole messages: texts, frames, and what the yardstick counts besides the texts."""
    beside = sum(_BESIDE.get(_build_key(message), 0) for message in messages) if _BESIDE else 0
    return beside + sum(FRAME + sum(tokens(piece) for piece in pieces(message)) for message in messages)


def pieces(message: Chat) -> list[str]:
    """Returns the texts in a message that a model reads: its content, and the names and arguments of its calls."""
    found = [get_text(message)]
    for each in message.get("tool_calls") or ():
        found += [each["function"]["name"], each["function"]["arguments"]]
    return [each for each in found if each]


def get_text(message: Chat) -> str:
    """Returns a message's content as one text."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def render_messages(messages: Sequence[Chat]) -> list[str]:
    """Returns each message as one text that begins with its role, for a stand-in that is given messages."""
    return [f"{message['role']}: " + "\n".join(pieces(message)) for message in messages]


def call_names(messages: Sequence[Chat]) -> dict[str, str]:
    """Returns the tool's name by call id, since formats other than OpenAI's also need it on the result."""
    return {c["id"]: c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()}


def call(identifier: str, name: str, arguments: str) -> Chat:
    """Returns a tool call in the form of OpenAI Chat."""
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def fit_setting(
    run: Callable[[int], list[Chat]], past: Sequence[Chat], budget: int, highest: int, *, first: int | None = None
) -> Tried:
    """Finds the largest result within `budget` over the values of one setting of the peer, from 0 to `highest`.

    A peer counts in its own way, or knows only messages, so a single request lands far from the budget. Its main
    setting is therefore searched by bisection, with the yardstick's counter. If nothing fits, returns the smallest
    result.
    """
    low, high, best, least = 0, highest, None, None
    setting = min(highest, first if first is not None else highest)
    for _ in range(TRIES):
        Spent.reset()
        start = time.perf_counter()
        made = run(setting)
        seconds = time.perf_counter() - start
        made = restore_messages(made, past)
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
"""What a worker implements: from past, budget and window to what the peer leaves.

Leading system messages are left out.
"""


class Turn(NamedTuple):
    """What a host pays before a model call when there is nothing to compact.

    `grows` adds a turn's messages to the history, in the peer's own form; it is not timed. `hook` is the peer's own
    code as its framework calls it, and is timed. It returns True if everything was left unchanged.
    """

    grows: Callable[[list[Chat]], object]
    hook: Callable[[], bool]


Turns = Callable[[list[Chat]], Turn]
"""What a worker implements to be timed: from a past to a turn that continues it. System messages are left out."""


def run_in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on one shared loop, since a framework's hook runs in a loop that already exists."""
    return _LOOP.run_until_complete(work)


_LOOP = asyncio.new_event_loop()


def serve(methods: dict[str, Compact], packages: Sequence[str], turns: dict[str, Turns] | None = None) -> None:
    """Answers requests until standard input ends. What a peer prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.addaudithook(_refuse_connection)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = (
                _time_turns(turns or {}, request, versions)
                if "turns" in request
                else _answer(methods, request, versions)
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
    learn_sizes(messages, request["sizes"])
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
        made = Tried(0, restore_messages(made, rest), 0, time.perf_counter() - start, (Spent.read, Spent.written))
    return _reply(made._replace(messages=system + made.messages), f"{versions}; setting {made.setting}")


def _time_turns(turns: dict[str, Turns], request: dict[str, Any], versions: str) -> dict[str, Any]:
    """Returns the seconds of each hook. The first turn is a warm-up, unless it alone takes all the time there is."""
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


def restore_messages(messages: Sequence[Chat], past: Sequence[Chat]) -> list[Chat]:
    """Replaces messages by those of the past with the same content, since a peer may write null or JSON differently."""
    known = {_build_key(message): message for message in past}
    return [known.get(_build_key(message), message) for message in messages]


def _build_key(message: Chat) -> str:
    calls = [
        (c["id"], c["function"]["name"], _parse_arguments(c["function"]["arguments"]))
        for c in message.get("tool_calls") or ()
    ]
    return json.dumps([message["role"], get_text(message), calls, message.get("tool_call_id")], sort_keys=True)


def _parse_arguments(arguments: str) -> Any:
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


def _refuse_connection(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        raise OSError(f"this worker is offline: no connection to {args[1][0]}")
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise OSError(f"this worker is offline: no name is looked up ({args[0]})")
