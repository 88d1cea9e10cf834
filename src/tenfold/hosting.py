"""What a host sends, read: its requests and usage reports in any of the four wires, and its lists held against a log.

Hosts resend their whole history on every request, raw or beginning with a view of ours. `matched` says how much of a
list the log knows, `Request` what of a provider's request is conversation, `usage_of` what a response took. Nothing
here writes; `session.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import compress, pairwise, takewhile
from operator import is_not
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.policy import CheckPoint
from tenfold.record.block import Block
from tenfold.record.entry import Pin, Usage, message_of
from tenfold.record.message import Message, calls_of, result_of, text_of
from tenfold.view.path import Path
from tenfold.view.rules import broken
from tenfold.view.units import Shown, shown_of, shows
from tenfold.view.view import View
from tenfold.wire import PROFILES, Choose, Confirm, Encoded, Resent, detect, summary_mark
from tenfold.wire.same import same_key

Key = tuple[int, int, int]
KeyOf = Callable[[int, Message], bytes]
"""The `same_key` of the original at a position, remembered."""
_CHUNK = 512


# -- a list against a log ----------------------------------------------------------------------------------------------


class Match(Struct, frozen=True, order=True):
    """How many messages of a list the log knows, the position of the last entry they stand for, and which they are.

    `keys` holds the `Shown.key` of each known message, in order.
    """

    count: int
    position: int
    keys: tuple[Key, ...] = ()


class Level(Struct, frozen=True):
    """A host's list that a log was brought level with, the view it then had, and the `Shown.key` of each message.

    The lists of requests that only grow share `given` and `keys`, of which the first `count` are this one's.
    """

    view: View
    given: list[Message]
    keys: list[Key]
    count: int
    floor: bool = False
    places: dict[Key, int] = {}

    @property
    def messages(self) -> list[Message]:
        """The messages of the list, to be read only."""
        return self.given if len(self.given) == self.count else self.given[: self.count]

    def standing(self, view: View) -> set[int]:
        """The places of the messages that a view shows untouched."""
        shown = {s.key for s in view.shown()}
        return {at for at, key in enumerate(self.keys[: self.count]) if key in shown}

    def of(self, key: Key) -> Message | None:
        """The host's message of that key, None where the list has none."""
        for at in range(len(self.places), self.count):
            self.places[self.keys[at]] = at
        at = self.places.get(key, self.count)
        return self.given[at] if at < self.count else None

    def known(self, given: Sequence[Message], key_of: KeyOf) -> bool:
        """Whether a list is this one and what is new: the log need not be looked at. For `key_of` see `matched`."""
        count = self.count
        if len(given) < count or given is self.given:
            return len(given) >= count
        head, own = given[:count], self.messages
        if head == own:
            return True
        passed = len(_prompts(given, self.view.path, key_of)) if self.floor else 0
        changed = compress(range(passed, count), map(is_not, head[passed:], own[passed:]))
        pairs = ((head[at], own[at]) for at in changed)
        return all(new == old or same_key(new) == same_key(old) for new, old in pairs)


def matched(messages: Sequence[Message], view: View, key_of: KeyOf, *, floor: bool = False) -> Match:
    """The best match of a host's list: the path's raw history, this view, or an older view and what came after it.

    With `floor` the system prompts that a list and the path begin with are the same, whatever they say: hosts put the
    time into them.
    """
    keys = [same_key(m) for m in messages]
    if floor:
        known = _prompts(messages, view.path, key_of)
        keys[: len(known)] = known
    best = _as_history(keys, view.path, key_of)
    if not view.marks.live and best.count == len(keys):
        return best
    best = max(best, _as_view(keys, view, key_of))
    if best.count == len(keys):
        return best
    marks = (summary_mark(text_of(m)) for m in messages if m.role in ("user", "system"))
    blocks = {mark.block for mark in marks if mark is not None}
    if blocks:
        path = view.path
        for position in range(path.length - 1, -1, -1):
            entry = path.at(position)
            if isinstance(entry, Block) and entry.id in blocks:
                return max(best, _as_view(keys, View.of(path.fork(position + 1)), key_of, then=path))
    return best


def _prompts(messages: Sequence[Message], path: Path, key_of: KeyOf) -> list[bytes]:
    """The keys of the system prompts that the path begins with, if the list begins with as many."""
    given = list(takewhile(lambda m: m.role == "system" and m.origin != "tenfold", messages))
    said = ((at, m) for at in range(path.length) if (m := message_of(path.at(at))) is not None)
    known = [key_of(at, m) for at, m in takewhile(lambda one: one[1].role == "system", said)] if given else []
    return known if len(known) == len(given) else []


def accepted(messages: Sequence[Message], view: View, wire: str) -> bool:
    """Whether a whole history can be sent as it is: nothing of it is compacted, and its provider refuses none of it."""
    return not view.marks.live and not broken(messages, PROFILES[wire])


def next_message(path: Path, position: int) -> int | None:
    """The position of the first message after `position` that shows anything, None when only silent entries follow."""
    for at in range(position + 1, path.length):
        message = message_of(path.at(at))
        if message is not None and shows(message):
            return at
    return None


def carried(view: View, position: int) -> list[tuple[int, Block | Pin]]:
    """What stands on a view's path from a position on and speaks of nothing from there on, with its own position.

    The Blocks in force that cover only what lies before, up to the first that covers more (later ones were made on top
    of it) or that keeps batches, and the pins of messages before it.
    """
    path, live = view.path, set(view.marks.live)
    out: list[tuple[int, Block | Pin]] = []
    blocks = True
    for at in range(position, path.length):
        entry = path.at(at)
        if isinstance(entry, Block) and at in live:
            blocks = blocks and not entry.standing and all(made.last < position for made in entry.replacements)
            out += [(at, entry)] if blocks else []
        elif isinstance(entry, Pin) and entry.at < position:
            out.append((at, entry))
    return out


def _as_history(keys: list[bytes], path: Path, key_of: KeyOf) -> Match:
    known: list[Key] = []
    last = -1
    for start in range(0, path.length, _CHUNK):
        for at, entry in enumerate(path.span(start, min(start + _CHUNK, path.length) - 1), start):
            message = message_of(entry)
            if message is None:
                continue
            if len(known) == len(keys) or key_of(at, message) != keys[len(known)]:
                return Match(len(known), last, tuple(known))
            known.append((at, 0, -1))
            last = at
    return Match(len(known), last, tuple(known))


def _as_view(keys: list[bytes], view: View, key_of: KeyOf, *, then: Path | None = None) -> Match:
    """A replaced range matches as a whole or not at all. `then` goes on with the raw messages after the view's end."""
    known: list[Key] = []
    position = -1
    for shown, last, whole in _groups(view):
        agreed = 0
        for each in shown:
            own = key_of(each.at, each.message) if each.original else same_key(each.message)
            if keys[len(known) + agreed : len(known) + agreed + 1] != [own]:
                break
            agreed += 1
        if agreed < len(shown):
            if not whole:
                position = max([position, *(s.at for s in shown[:agreed] if s.original)])
                known.extend(s.key for s in shown[:agreed])
            return Match(len(known), position, tuple(known))
        known.extend(s.key for s in shown)
        position = last
    for at in range(view.length, then.length if then is not None else 0):
        message = message_of(view.path.at(at)) if then is None else message_of(then.at(at))
        if message is not None:
            if keys[len(known) : len(known) + 1] != [key_of(at, message)]:
                break
            known.append((at, 0, -1))
            position = at
    return Match(len(known), position, tuple(known))


def _groups(view: View) -> list[tuple[tuple[Shown, ...], int, bool]]:
    groups = [(u.shown, u.last, u.ref is not None) for u in view.units if u.ref is not None or u.shown]
    if view.step is not None:
        groups.append((shown_of(view.step, closing=False), view.step.entries[-1][0], False))
    return groups


def check_point(path: Path) -> CheckPoint:
    """Which check point the end of a path is, by the last message: a tool's output, a user's words, or an answer."""
    for at in range(path.length - 1, -1, -1):
        message = message_of(path.at(at))
        if message is not None:
            if message.origin == "tool":
                return "after_tools"
            return "end_of_run" if message.role == "assistant" else "user_message"
    return "before_call"


# -- a provider's request ----------------------------------------------------------------------------------------------

_BY_FIELD = {"messages": "", "input": "openai-responses", "contents": "gemini"}
"""Where requests keep their conversation, and which wire that tells."""
_OTHERS = frozenset({"system", "developer", "tool"})
"""Roles that no message of Anthropic's has."""
_FLOOR = ("system", "instructions", "tools", "systemInstruction", "system_instruction")
_OUTPUT = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_SETTINGS = ("config", "generationConfig", "generation_config")
"""Where Gemini's requests keep what the others have at the top."""


class Request(Struct, frozen=True):
    """What of a provider's request (its keyword arguments as a mapping) concerns a session.

    `field` holds the conversation, `given` its items as they were passed (the host's own list, where it is one),
    `resent` what was read of them. `apart` are the texts of system prompt and tools, `output` what it reserves for its
    answer.
    """

    wire: str
    field: str
    given: list[Any]
    resent: Resent
    apart: tuple[str, ...]
    output: int
    model: str

    @property
    def messages(self) -> list[Message]:
        """What the conversation says."""
        return self.resent.messages[: self.resent.count]


def read_request(
    request: Mapping[str, Any],
    *,
    confirm: Confirm | None = None,
    wire: str = "",
    known: Resent | None = None,
    whole: bool = False,
) -> Request:
    """Reads a request of any wire; `wire` names it where it cannot be told. `confirm` knows our own summaries.

    `known` is the list of the request before, in which most of this one's was read already; for `whole` see `Resent`.
    Raises `UsageError` for a request that holds no whole conversation, `BadInput` for items of no known format.
    """
    field = next((f for f in _BY_FIELD if f in request), "")
    if not field:
        there = ", ".join(request)
        raise UsageError(f"a request holds its conversation under one of {', '.join(_BY_FIELD)}; this one has {there}")
    for partial in ("previous_response_id", "conversation"):
        if request.get(partial):
            raise UsageError(f"a request with {partial} holds only what is new: send the whole list in {field!r}")
    value = request[field]
    if isinstance(value, str) and (wire or field != "messages"):
        said = {"parts": [{"text": value}]} if "gemini" in (wire, _BY_FIELD[field]) else {"content": value}
        value = [{"role": "user", **said}]
    given = value if type(value) is list else list(value)
    named = wire or _BY_FIELD[field] or _choice(request, given)
    resent = (known or Resent()).next(given, named, confirm=confirm, whole=whole)
    inner = next((found for s in _SETTINGS if (found := _set_in(request.get(s))) is not None), {})
    both: Mapping[str, Any] = {**inner, **request}
    return Request(
        resent.wire,
        field,
        given,
        resent,
        apart=tuple(_text(both[key]) for key in _FLOOR if both.get(key)),
        output=next((n for key in _OUTPUT if isinstance(n := both.get(key), int)), 0),
        model=str(request.get("model") or ""),
    )


def _choice(request: Mapping[str, Any], items: Sequence[Any]) -> str | Choose:
    """The wire of a list of messages, or what will tell it by these."""
    if "system" in request or "anthropic_version" in request:
        return "anthropic"
    claude = "claude" in str(request.get("model") or "")

    def choose(roles: Sequence[str], wires: Sequence[str]) -> str:
        wire = next(filter(None, wires), "")
        if claude and not wire and _OTHERS.isdisjoint(roles):
            return "anthropic"
        if wire == "?" or not (wire or "user" in roles or "assistant" in roles):
            return detect(items)  # which says what it saw
        return wire or "openai-chat"

    return choose


def _text(value: Any) -> str:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else str(value)


def renewed(shown: Iterable[Shown], level: Level) -> list[Message]:
    """The view with the host's newest form of each message that it shows untouched: cache marks move, ids stay."""
    return [g if (g := level.of(s.key)) is not None and _ids(g) == _ids(s.message) else s.message for s in shown]


def _ids(message: Message) -> list[str]:
    result = result_of(message)
    return [c.id for c in calls_of(message)] + ([result.call] if result is not None else [])


def returned(encoded: Encoded, given: Sequence[Any], raws: Sequence[bytes]) -> list[Any]:
    """The encoded list, with the caller's own objects wherever the bytes are the ones they gave.

    Of equal ones the newest are taken, which are what a compaction leaves.
    """
    wanted = {item.raw for item in encoded.items if item.exact}
    places: dict[bytes, list[int]] = {}
    for index in compress(range(len(given)), map(wanted.__contains__, raws)):
        places.setdefault(raws[index], []).append(index)
    out: list[Any] = []
    for item in reversed(encoded.items):
        found = places.get(item.raw) if item.exact else None
        out.append(given[found.pop()] if found else msgspec.json.decode(item.raw))
    return out[::-1]


def with_list(request: Mapping[str, Any], read: Request, encoded: Encoded, standing: Container[int]) -> dict[str, Any]:
    """A new request that holds the encoded view, everything else as it was.

    `standing` are the places of the messages in the host's list that the view shows: of equal ones only they are sent.
    """
    resent, value = read.resent, request[read.field]
    read_of, given = resent.given[: resent.items], read.given[: resent.items]
    if given != read_of:  # the host went on with its list meanwhile
        given = read_of
    owns = pairwise((0, *resent.ends[: resent.items]))
    there = [at for at, (start, end) in enumerate(owns) if any(n in standing for n in range(min(start, end - 1), end))]
    sent = returned(encoded, [given[at] for at in there], [resent.raws[at] for at in there])
    out = {**request, read.field: value if isinstance(value, str) and sent == given else sent}
    if encoded.system and read.wire == "anthropic":
        ours = [{"type": "text", "text": text} for text in encoded.system]
        theirs = request.get("system") or []
        out["system"] = [*([{"type": "text", "text": theirs}] if isinstance(theirs, str) else theirs), *ours]
    if encoded.system and read.wire == "gemini":
        out = _with_instruction(out, encoded.system)
    return out


def _with_instruction(request: dict[str, Any], ours: Sequence[str]) -> dict[str, Any]:
    """A Gemini request with our system texts after its own: in `config` where it has one, as the SDK's calls do."""
    config = request.get("config")
    where = _set_in(config)
    if where is None:
        key = "system_instruction" if "system_instruction" in request else "systemInstruction"
        return {**request, key: _instruction(request.get(key), ours)}
    key = "systemInstruction" if "systemInstruction" in where else "system_instruction"
    copied = getattr(config, "model_copy", None)
    if copied is not None:
        return {**request, "config": copied(update={key: _instruction(getattr(config, key), ours)})}
    return {**request, "config": {**where, key: _instruction(where.get(key), ours)}}


def _instruction(theirs: Any, ours: Sequence[str]) -> Any:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """A Gemini system instruction with our texts after it, in the form it has."""
    if not theirs:
        return {"parts": [{"text": text} for text in ours]}
    if isinstance(theirs, str):
        return "\n\n".join((theirs, *ours))
    if isinstance(theirs, Mapping):
        return {**theirs, "parts": [*theirs.get("parts", ()), *({"text": text} for text in ours)]}
    parts = theirs if isinstance(theirs, list | tuple) else getattr(theirs, "parts", None) or [theirs]
    return [*parts, *ours]


def _set_in(settings: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    """What a mapping holds, or what was set of an object of the SDK, as it was set; None for anything else."""
    dump = getattr(settings, "model_dump", None)
    found = dump(exclude_unset=True) if dump is not None else settings
    return found if isinstance(found, Mapping) else None


# -- what a response took ----------------------------------------------------------------------------------------------


def usage_of(report: Any, *, model: str = "") -> Usage | None:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """The usage in a response or usage mapping of any wire; None when it is partial, failed or counts no prompt.

    `prompt` is the whole prompt: what was read from and written to a cache included.
    """
    found = report if isinstance(report, Mapping) else _mapping(report)
    if found is None or found.get("error") or found.get("status") in ("failed", "cancelled", "in_progress"):
        return None
    if found.get("object") == "response.compaction":  # what compacting took, not what a request of this view took
        return None
    for name in ("usage", "usageMetadata", "usage_metadata"):
        if name in found:
            inner = found[name]
            found = inner if isinstance(inner, Mapping) else _mapping(inner) or {}
            break

    def number(*names: str) -> int:
        return next((n for name in names if isinstance(n := found.get(name), int) and n > 0), 0)

    cached = [found.get(k) for k in ("prompt_tokens_details", "input_tokens_details")]
    details: Mapping[str, Any] = next((d for d in cached if isinstance(d, Mapping)), {})
    read = number("cache_read_input_tokens", "cachedContentTokenCount", "cached_content_token_count")
    written = number("cache_creation_input_tokens")
    prompt = number("prompt_tokens", "promptTokenCount", "prompt_token_count")
    prompt += number("toolUsePromptTokenCount", "tool_use_prompt_token_count") if prompt else 0
    if not prompt:
        prompt = number("input_tokens")
        if not details:  # Anthropic counts what came from the cache apart
            prompt += number("cache_read_input_tokens") + written
    if prompt <= 0:
        return None
    part = details.get("cached_tokens")
    return Usage(
        prompt,
        number("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count"),
        cache_read=part if isinstance(part, int) else read,
        cache_write=written,
        model=model,
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    found = dump(mode="json") if dump is not None else None
    return found if isinstance(found, Mapping) else None
