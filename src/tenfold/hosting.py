"""Reads what a host sends: its requests and usage reports in any of the four wires, and its message lists.

Hosts resend their whole history on every request, either raw or beginning with one of our views. `match_list` finds how
much of a list the log already holds, `read_request` finds the conversation in a provider's request, and `read_usage`
the tokens that a response reports. Nothing here writes to the log; the session does.
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
"""A function that returns the (cached) fingerprint of the original message at a position."""
_CHUNK = 512


# -- a list against a log ----------------------------------------------------------------------------------------------


class Match(Struct, frozen=True, order=True):
    """The result of matching a list against the log: the first `count` messages are known.

    `position` is that of the last entry they represent. `keys` are the `VisibleMessage.key` of the known messages, in
    order. Matches are ordered by how much they cover.
    """

    count: int
    position: int
    keys: tuple[Key, ...] = ()


class Level(Struct, frozen=True):
    """A host's message list after the log was synchronized with it.

    `view` is the view at that time, and `keys` are the `VisibleMessage.key` of each message. If requests only grow,
    their lists share `host_messages` and `keys`; only the first `count` belong to this one.
    """

    view: View
    given: list[Message]
    keys: list[Key]
    count: int
    floor: bool = False
    places: dict[Key, int] = {}

    @property
    def messages(self) -> list[Message]:
        """The messages of the list. Do not change them."""
        return self.given if len(self.given) == self.count else self.given[: self.count]

    def standing(self, view: View) -> set[int]:
        """Returns the indices of the messages that a view shows unchanged."""
        shown = {s.key for s in view.shown()}
        return {at for at, key in enumerate(self.keys[: self.count]) if key in shown}

    def of(self, key: Key) -> Message | None:
        """Returns the host's message with that key, None if there is none."""
        for at in range(len(self.places), self.count):
            self.places[self.keys[at]] = at
        at = self.places.get(key, self.count)
        return self.given[at] if at < self.count else None

    def known(self, given: Sequence[Message], key_of: KeyOf) -> bool:
        """Whether a list is this one plus new messages, so that the log need not be searched. See `match_list`."""
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
    """Finds the best match of a host's list: the path's raw history, this view, or an older view and what follows it.

    With `is_floor_ignored`, the system prompts at the beginning of the list and of the path count as equal even if
    their texts differ, since hosts put the time into them.
    """
    keys = [same_key(m) for m in messages]
    if floor:
        prompts = _prompts(messages, view.path, key_of)
        keys[: len(prompts)] = prompts
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
    """Returns the fingerprints of the system prompts at the beginning of the path, if the list begins with as many."""
    prompts = list(takewhile(lambda m: m.role == "system" and m.origin != "tenfold", messages))
    path_messages = ((at, m) for at in range(path.length) if (m := message_of(path.at(at))) is not None)
    fingerprints = (
        [key_of(at, m) for at, m in takewhile(lambda pair: pair[1].role == "system", path_messages)] if prompts else []
    )
    return fingerprints if len(fingerprints) == len(prompts) else []


def accepted(messages: Sequence[Message], view: View, wire: str) -> bool:
    """Whether a whole history can be sent unchanged: nothing is compacted, and the provider accepts all of it."""
    return not view.marks.live and not broken(messages, PROFILES[wire])


def next_message(path: Path, position: int) -> int | None:
    """Finds the position of the first message after `position` that shows anything. None if there is none."""
    for at in range(position + 1, path.length):
        message = message_of(path.at(at))
        if message is not None and shows(message):
            return at
    return None


def carried(view: View, position: int) -> list[tuple[int, Block | Pin]]:
    """Finds the Blocks and pins at or after a position that concern only entries before it. A branch can keep them.

    These are the pins of earlier messages, and the live Blocks that cover earlier positions only. The first Block that
    covers more or holds batches ends the search for Blocks, since later ones were made on top of it. Each entry comes
    with its own position.
    """
    path, live = view.path, set(view.marks.live)
    out: list[tuple[int, Block | Pin]] = []
    blocks = True
    for at in range(position, path.length):
        entry = path.at(at)
        if isinstance(entry, Block) and at in live:
            blocks = (
                blocks and not entry.standing and all(replacement.last < position for replacement in entry.replacements)
            )
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
    """Matches a view, and the messages of `later_path` after it. A replaced range matches completely or not at all."""
    known: list[Key] = []
    position = -1
    for shown, last, is_replaced in _groups(view):
        equal_count = 0
        for each in shown:
            fingerprint = key_of(each.at, each.message) if each.original else same_key(each.message)
            if keys[len(known) + equal_count : len(known) + equal_count + 1] != [fingerprint]:
                break
            equal_count += 1
        if equal_count < len(shown):
            if not is_replaced:
                position = max([position, *(s.at for s in shown[:equal_count] if s.original)])
                known.extend(s.key for s in shown[:equal_count])
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
    """Finds which check point the end of a path is, by its last message: a tool result, a user message or an answer."""
    for at in range(path.length - 1, -1, -1):
        message = message_of(path.at(at))
        if message is not None:
            if message.origin == "tool":
                return "after_tools"
            return "end_of_run" if message.role == "assistant" else "user_message"
    return "before_call"


# -- a provider's request ----------------------------------------------------------------------------------------------

_BY_FIELD = {"messages": "", "input": "openai-responses", "contents": "gemini"}
"""The fields that hold the conversation of a request, and the wire that each implies, "" if it is open."""
_OTHERS = frozenset({"system", "developer", "tool"})
"""Roles that no Anthropic message has."""
_FLOOR = ("system", "instructions", "tools", "systemInstruction", "system_instruction")
_OUTPUT = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_SETTINGS = ("config", "generationConfig", "generation_config")
"""The fields of a Gemini request that hold what other providers have at the top level."""


class Request(Struct, frozen=True):
    """The parts of a provider's request (its keyword arguments as a mapping) that matter to a session.

    `field` is the name of the field with the conversation. `items` are the items of the conversation as they were
    passed (the host's own list, if it is a list), and `history` is what was decoded from them. `overhead_texts` are
    the texts of the system prompt and the tools. `output_reserve` is the number of tokens reserved for the answer.
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
        """The messages of the conversation."""
        return self.resent.messages[: self.resent.count]


def read_request(
    request: Mapping[str, Any],
    *,
    confirm: Confirm | None = None,
    wire: str = "",
    known: Resent | None = None,
    whole: bool = False,
) -> Request:
    """Reads a request of any wire. `wire` names the wire if it cannot be detected. `confirm` knows our own summaries.

    `previous` is the list of the previous request; what is unchanged is not decoded again. For `thorough` see
    `DecodedHistory.decode_next`. Raises `UsageError` if the request does not hold the whole conversation, and
    `BadInput` for items of no known format.
    """
    field = next((f for f in _BY_FIELD if f in request), "")
    if not field:
        names = ", ".join(request)
        raise UsageError(f"a request holds its conversation under one of {', '.join(_BY_FIELD)}; this one has {names}")
    for partial in ("previous_response_id", "conversation"):
        if request.get(partial):
            raise UsageError(f"a request with {partial} holds only what is new: send the whole list in {field!r}")
    value = request[field]
    if isinstance(value, str) and (wire or field != "messages"):
        content = {"parts": [{"text": value}]} if "gemini" in (wire, _BY_FIELD[field]) else {"content": value}
        value = [{"role": "user", **content}]
    items = value if type(value) is list else list(value)
    choice = wire or _BY_FIELD[field] or _choice(request, items)
    resent = (known or Resent()).next(items, choice, confirm=confirm, whole=whole)
    settings = next((found for s in _SETTINGS if (found := _set_in(request.get(s))) is not None), {})
    merged: Mapping[str, Any] = {**settings, **request}
    return Request(
        resent.wire,
        field,
        items,
        resent,
        apart=tuple(_text(merged[key]) for key in _FLOOR if merged.get(key)),
        output=next((n for key in _OUTPUT if isinstance(n := merged.get(key), int)), 0),
        model=str(request.get("model") or ""),
    )


def _choice(request: Mapping[str, Any], items: Sequence[Any]) -> str | Choose:
    """Returns the wire of a list of messages, or a function that chooses it by their roles."""
    if "system" in request or "anthropic_version" in request:
        return "anthropic"
    claude = "claude" in str(request.get("model") or "")

    def choose(roles: Sequence[str], wires: Sequence[str]) -> str:
        wire = next(filter(None, wires), "")
        if claude and not wire and _OTHERS.isdisjoint(roles):
            return "anthropic"
        if wire == "?" or not (wire or "user" in roles or "assistant" in roles):
            return detect(items)  # raises an error that says what was seen
        return wire or "openai-chat"

    return choose


def _text(value: Any) -> str:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else str(value)


def renewed(shown: Iterable[Shown], level: Level) -> list[Message]:
    """Returns the view's messages, unchanged ones in the host's newest form: its cache marks may have moved."""
    return [g if (g := level.of(s.key)) is not None and _ids(g) == _ids(s.message) else s.message for s in shown]


def _ids(message: Message) -> list[str]:
    result = result_of(message)
    return [c.id for c in calls_of(message)] + ([result.call] if result is not None else [])


def returned(encoded: Encoded, given: Sequence[Any], raws: Sequence[bytes]) -> list[Any]:
    """Returns the encoded list, with the caller's own object for each item whose bytes are unchanged.

    If several objects have equal bytes, the newest ones are used, since those are what a compaction leaves.
    """
    exact_bytes = {item.raw for item in encoded.items if item.exact}
    places: dict[bytes, list[int]] = {}
    for index in compress(range(len(given)), map(exact_bytes.__contains__, raws)):
        places.setdefault(raws[index], []).append(index)
    out: list[Any] = []
    for item in reversed(encoded.items):
        indices = places.get(item.raw) if item.exact else None
        out.append(given[indices.pop()] if indices else msgspec.json.decode(item.raw))
    return out[::-1]


def with_list(request: Mapping[str, Any], read: Request, encoded: Encoded, standing: Container[int]) -> dict[str, Any]:
    """Returns a new request that holds the encoded view. Everything else is as it was.

    `visible_places` are the indices of the messages in the host's list that the view shows. If messages are equal, only
    the objects of these are sent.
    """
    resent, value = read.resent, request[read.field]
    decoded_items, items = resent.given[: resent.items], read.given[: resent.items]
    if items != decoded_items:  # the host has changed its list meanwhile
        items = decoded_items
    ranges = pairwise((0, *resent.ends[: resent.items]))
    visible = [
        at for at, (start, end) in enumerate(ranges) if any(n in standing for n in range(min(start, end - 1), end))
    ]
    new_items = returned(encoded, [items[at] for at in visible], [resent.raws[at] for at in visible])
    out = {**request, read.field: value if isinstance(value, str) and new_items == items else new_items}
    if encoded.system and read.wire == "anthropic":
        system_blocks = [{"type": "text", "text": text} for text in encoded.system]
        existing = request.get("system") or []
        out["system"] = [
            *([{"type": "text", "text": existing}] if isinstance(existing, str) else existing),
            *system_blocks,
        ]
    if encoded.system and read.wire == "gemini":
        out = _with_instruction(out, encoded.system)
    return out


def _with_instruction(request: dict[str, Any], ours: Sequence[str]) -> dict[str, Any]:
    """Adds our system texts after those of a Gemini request: in `config` if it has one, as calls of the SDK do."""
    config = request.get("config")
    settings = _set_in(config)
    if settings is None:
        key = "system_instruction" if "system_instruction" in request else "systemInstruction"
        return {**request, key: _instruction(request.get(key), ours)}
    key = "systemInstruction" if "systemInstruction" in settings else "system_instruction"
    copy = getattr(config, "model_copy", None)
    if copy is not None:
        return {**request, "config": copy(update={key: _instruction(getattr(config, key), ours)})}
    return {**request, "config": {**settings, key: _instruction(settings.get(key), ours)}}


def _instruction(theirs: Any, ours: Sequence[str]) -> Any:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Appends our texts to a Gemini system instruction, in the form that it has."""
    if not theirs:
        return {"parts": [{"text": text} for text in ours]}
    if isinstance(theirs, str):
        return "\n\n".join((theirs, *ours))
    if isinstance(theirs, Mapping):
        return {**theirs, "parts": [*theirs.get("parts", ()), *({"text": text} for text in ours)]}
    parts = theirs if isinstance(theirs, list | tuple) else getattr(theirs, "parts", None) or [theirs]
    return [*parts, *ours]


def _set_in(settings: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    """Returns a mapping as it is, or the fields that were set on an SDK object. None for anything else."""
    dump = getattr(settings, "model_dump", None)
    fields = dump(exclude_unset=True) if dump is not None else settings
    return fields if isinstance(fields, Mapping) else None


# -- what a response took ----------------------------------------------------------------------------------------------


def usage_of(report: Any, *, model: str = "") -> Usage | None:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Reads the usage from a response or usage mapping of any wire. None if it is partial, failed or has no prompt.

    `prompt` counts the whole prompt, including what was read from and written to a cache.
    """
    fields = report if isinstance(report, Mapping) else _mapping(report)
    if fields is None or fields.get("error") or fields.get("status") in ("failed", "cancelled", "in_progress"):
        return None
    if fields.get("object") == "response.compaction":  # the cost of compacting, not of a request with this view
        return None
    for name in ("usage", "usageMetadata", "usage_metadata"):
        if name in fields:
            inner = fields[name]
            fields = inner if isinstance(inner, Mapping) else _mapping(inner) or {}
            break

    def number(*names: str) -> int:
        return next((n for name in names if isinstance(n := fields.get(name), int) and n > 0), 0)

    detail_fields = [fields.get(k) for k in ("prompt_tokens_details", "input_tokens_details")]
    details: Mapping[str, Any] = next((d for d in detail_fields if isinstance(d, Mapping)), {})
    cache_read = number("cache_read_input_tokens", "cachedContentTokenCount", "cached_content_token_count")
    cache_write = number("cache_creation_input_tokens")
    prompt = number("prompt_tokens", "promptTokenCount", "prompt_token_count")
    prompt += number("toolUsePromptTokenCount", "tool_use_prompt_token_count") if prompt else 0
    if not prompt:
        prompt = number("input_tokens")
        if not details:  # Anthropic counts what came from the cache separately
            prompt += number("cache_read_input_tokens") + cache_write
    if prompt <= 0:
        return None
    cached_tokens = details.get("cached_tokens")
    return Usage(
        prompt,
        number("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count"),
        cache_read=cached_tokens if isinstance(cached_tokens, int) else cache_read,
        cache_write=cache_write,
        model=model,
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    fields = dump(mode="json") if dump is not None else None
    return fields if isinstance(fields, Mapping) else None
