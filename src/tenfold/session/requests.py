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

from tenfold.config.policy import CheckPoint
from tenfold.errors import UsageError
from tenfold.record.block import Block
from tenfold.record.entry import Pin, Usage, get_message
from tenfold.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.view.fold import View
from tenfold.view.path import Path
from tenfold.view.rules import find_violations
from tenfold.view.units import MessageKey, VisibleMessage, build_original_key, get_step_messages, is_visible
from tenfold.wire import (
    PROFILES,
    DecodedHistory,
    EncodedList,
    SummaryConfirmer,
    WireChooser,
    detect_wire,
    find_summary_mark,
)
from tenfold.wire.fingerprint import fingerprint_message

KeyLookup = Callable[[int, Message], bytes]
"""A function that returns the (cached) fingerprint of the original message at a position."""
_CHUNK_SIZE = 512


# -- a list against a log ----------------------------------------------------------------------------------------------


class HistoryMatch(Struct, frozen=True, order=True):
    """The result of matching a list against the log: the first `count` messages are known.

    `position` is that of the last entry they represent. `keys` are the `VisibleMessage.key` of the known messages, in
    order. Matches are ordered by how much they cover.
    """

    count: int
    position: int
    keys: tuple[MessageKey, ...] = ()


class HostList(Struct, frozen=True):
    """A host's message list after the log was synchronized with it.

    `view` is the view at that time, and `keys` are the `VisibleMessage.key` of each message. If requests only grow,
    their lists share `host_messages` and `keys`; only the first `count` belong to this one.
    """

    view: View
    host_messages: list[Message]
    keys: list[MessageKey]
    count: int
    is_floor_ignored: bool = False
    index_by_key: dict[MessageKey, int] = {}

    @property
    def messages(self) -> list[Message]:
        """The messages of the list. Do not change them."""
        return self.host_messages if len(self.host_messages) == self.count else self.host_messages[: self.count]

    def find_visible(self, view: View) -> set[int]:
        """Returns the indices of the messages that a view shows unchanged."""
        shown = {s.key for s in view.get_visible_messages()}
        return {at for at, key in enumerate(self.keys[: self.count]) if key in shown}

    def get_message(self, key: MessageKey) -> Message | None:
        """Returns the host's message with that key, None if there is none."""
        for at in range(len(self.index_by_key), self.count):
            self.index_by_key[self.keys[at]] = at
        at = self.index_by_key.get(key, self.count)
        return self.host_messages[at] if at < self.count else None

    def is_extended_by(self, messages: Sequence[Message], get_key: KeyLookup) -> bool:
        """Whether a list is this one plus new messages, so that the log need not be searched. See `match_list`."""
        count = self.count
        if len(messages) < count or messages is self.host_messages:
            return len(messages) >= count
        head, own = messages[:count], self.messages
        if head == own:
            return True
        passed = len(_match_prompts(messages, self.view.path, get_key)) if self.is_floor_ignored else 0
        changed = compress(range(passed, count), map(is_not, head[passed:], own[passed:]))
        pairs = ((head[at], own[at]) for at in changed)
        return all(new == old or fingerprint_message(new) == fingerprint_message(old) for new, old in pairs)


def match_list(
    messages: Sequence[Message], view: View, get_key: KeyLookup, *, is_floor_ignored: bool = False
) -> HistoryMatch:
    """Finds the best match of a host's list: the path's raw history, this view, or an older view and what follows it.

    With `is_floor_ignored`, the system prompts at the beginning of the list and of the path count as equal even if
    their texts differ, since hosts put the time into them.
    """
    keys = [fingerprint_message(m) for m in messages]
    if is_floor_ignored:
        prompts = _match_prompts(messages, view.path, get_key)
        keys[: len(prompts)] = prompts
    best = _match_raw_history(keys, view.path, get_key)
    if not view.state.live_blocks and best.count == len(keys):
        return best
    best = max(best, _match_view(keys, view, get_key))
    if best.count == len(keys):
        return best
    marks = (find_summary_mark(get_text(m)) for m in messages if m.role in ("user", "system"))
    blocks = {mark.block for mark in marks if mark is not None}
    if blocks:
        path = view.path
        for position in range(path.length - 1, -1, -1):
            entry = path.get_entry(position)
            if isinstance(entry, Block) and entry.id in blocks:
                return max(best, _match_view(keys, View.from_path(path.fork(position + 1)), get_key, later_path=path))
    return best


def _match_prompts(messages: Sequence[Message], path: Path, get_key: KeyLookup) -> list[bytes]:
    """Returns the fingerprints of the system prompts at the beginning of the path, if the list begins with as many."""
    prompts = list(takewhile(lambda m: m.role == "system" and m.origin != "tenfold", messages))
    path_messages = ((at, m) for at in range(path.length) if (m := get_message(path.get_entry(at))) is not None)
    fingerprints = (
        [get_key(at, m) for at, m in takewhile(lambda pair: pair[1].role == "system", path_messages)] if prompts else []
    )
    return fingerprints if len(fingerprints) == len(prompts) else []


def can_send_unchanged(messages: Sequence[Message], view: View, wire: str) -> bool:
    """Whether a whole history can be sent unchanged: nothing is compacted, and the provider accepts all of it."""
    return not view.state.live_blocks and not find_violations(messages, PROFILES[wire])


def find_next_message(path: Path, position: int) -> int | None:
    """Finds the position of the first message after `position` that shows anything. None if there is none."""
    for at in range(position + 1, path.length):
        message = get_message(path.get_entry(at))
        if message is not None and is_visible(message):
            return at
    return None


def find_carried_entries(view: View, position: int) -> list[tuple[int, Block | Pin]]:
    """Finds the Blocks and pins at or after a position that concern only entries before it. A branch can keep them.

    These are the pins of earlier messages, and the live Blocks that cover earlier positions only. The first Block that
    covers more or holds batches ends the search for Blocks, since later ones were made on top of it. Each entry comes
    with its own position.
    """
    path, live = view.path, set(view.state.live_blocks)
    out: list[tuple[int, Block | Pin]] = []
    blocks = True
    for at in range(position, path.length):
        entry = path.get_entry(at)
        if isinstance(entry, Block) and at in live:
            blocks = (
                blocks
                and not entry.top_batches
                and all(replacement.last < position for replacement in entry.replacements)
            )
            out += [(at, entry)] if blocks else []
        elif isinstance(entry, Pin) and entry.position < position:
            out.append((at, entry))
    return out


def _match_raw_history(keys: list[bytes], path: Path, get_key: KeyLookup) -> HistoryMatch:
    known: list[MessageKey] = []
    last = -1
    for start in range(0, path.length, _CHUNK_SIZE):
        for at, entry in enumerate(path.get_entries(start, min(start + _CHUNK_SIZE, path.length) - 1), start):
            message = get_message(entry)
            if message is None:
                continue
            if len(known) == len(keys) or get_key(at, message) != keys[len(known)]:
                return HistoryMatch(len(known), last, tuple(known))
            known.append(build_original_key(at))
            last = at
    return HistoryMatch(len(known), last, tuple(known))


def _match_view(keys: list[bytes], view: View, get_key: KeyLookup, *, later_path: Path | None = None) -> HistoryMatch:
    """Matches a view, and the messages of `later_path` after it. A replaced range matches completely or not at all."""
    known: list[MessageKey] = []
    position = -1
    for shown, last, is_replaced in _group_visible_messages(view):
        equal_count = 0
        for each in shown:
            fingerprint = (
                get_key(each.position, each.message) if each.is_original else fingerprint_message(each.message)
            )
            if keys[len(known) + equal_count : len(known) + equal_count + 1] != [fingerprint]:
                break
            equal_count += 1
        if equal_count < len(shown):
            if not is_replaced:
                position = max([position, *(s.position for s in shown[:equal_count] if s.is_original)])
                known.extend(s.key for s in shown[:equal_count])
            return HistoryMatch(len(known), position, tuple(known))
        known.extend(s.key for s in shown)
        position = last
    for at in range(view.length, later_path.length if later_path is not None else 0):
        message = get_message(view.path.get_entry(at)) if later_path is None else get_message(later_path.get_entry(at))
        if message is not None:
            if keys[len(known) : len(known) + 1] != [get_key(at, message)]:
                break
            known.append(build_original_key(at))
            position = at
    return HistoryMatch(len(known), position, tuple(known))


def _group_visible_messages(view: View) -> list[tuple[tuple[VisibleMessage, ...], int, bool]]:
    groups = [
        (u.visible_messages, u.last, u.block_part is not None)
        for u in view.units
        if u.block_part is not None or u.visible_messages
    ]
    if view.open_step is not None:
        groups.append((get_step_messages(view.open_step, closing=False), view.open_step.entries[-1][0], False))
    return groups


def find_check_point(path: Path) -> CheckPoint:
    """Finds which check point the end of a path is, by its last message: a tool result, a user message or an answer."""
    for at in range(path.length - 1, -1, -1):
        message = get_message(path.get_entry(at))
        if message is not None:
            if message.origin == "tool":
                return "after_tools"
            return "end_of_run" if message.role == "assistant" else "user_message"
    return "before_call"


# -- a provider's request ----------------------------------------------------------------------------------------------

_WIRE_BY_FIELD = {"messages": "", "input": "openai-responses", "contents": "gemini"}
"""The fields that hold the conversation of a request, and the wire that each implies, "" if it is open."""
_NON_ANTHROPIC_ROLES = frozenset({"system", "developer", "tool"})
"""Roles that no Anthropic message has."""
_OVERHEAD_FIELDS = ("system", "instructions", "tools", "systemInstruction", "system_instruction")
_OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_SETTINGS_FIELDS = ("config", "generationConfig", "generation_config")
"""The fields of a Gemini request that hold what other providers have at the top level."""


class HostRequest(Struct, frozen=True):
    """The parts of a provider's request (its keyword arguments as a mapping) that matter to a session.

    `field` is the name of the field with the conversation. `items` are the items of the conversation as they were
    passed (the host's own list, if it is a list), and `history` is what was decoded from them. `overhead_texts` are
    the texts of the system prompt and the tools. `output_reserve` is the number of tokens reserved for the answer.
    """

    wire: str
    field: str
    items: list[Any]
    history: DecodedHistory
    overhead_texts: tuple[str, ...]
    output_reserve: int
    model: str

    @property
    def messages(self) -> list[Message]:
        """The messages of the conversation."""
        return self.history.messages[: self.history.message_count]


def read_request(
    request: Mapping[str, Any],
    *,
    confirm: SummaryConfirmer | None = None,
    wire: str = "",
    previous: DecodedHistory | None = None,
    thorough: bool = False,
) -> HostRequest:
    """Reads a request of any wire. `wire` names the wire if it cannot be detected. `confirm` knows our own summaries.

    `previous` is the list of the previous request; what is unchanged is not decoded again. For `thorough` see
    `DecodedHistory.decode_next`. Raises `UsageError` if the request does not hold the whole conversation, and
    `BadInput` for items of no known format.
    """
    field = next((f for f in _WIRE_BY_FIELD if f in request), "")
    if not field:
        names = ", ".join(request)
        raise UsageError(
            f"a request holds its conversation under one of {', '.join(_WIRE_BY_FIELD)}; this one has {names}"
        )
    for partial in ("previous_response_id", "conversation"):
        if request.get(partial):
            raise UsageError(f"a request with {partial} holds only what is new: send the whole list in {field!r}")
    value = request[field]
    if isinstance(value, str) and (wire or field != "messages"):
        content = {"parts": [{"text": value}]} if "gemini" in (wire, _WIRE_BY_FIELD[field]) else {"content": value}
        value = [{"role": "user", **content}]
    items = value if type(value) is list else list(value)
    choice = wire or _WIRE_BY_FIELD[field] or _choose_wire(request, items)
    resent = (previous or DecodedHistory()).decode_next(items, choice, confirm=confirm, thorough=thorough)
    settings = next((found for s in _SETTINGS_FIELDS if (found := _get_set_fields(request.get(s))) is not None), {})
    merged: Mapping[str, Any] = {**settings, **request}
    return HostRequest(
        resent.wire,
        field,
        items,
        resent,
        overhead_texts=tuple(_to_text(merged[key]) for key in _OVERHEAD_FIELDS if merged.get(key)),
        output_reserve=next((n for key in _OUTPUT_FIELDS if isinstance(n := merged.get(key), int)), 0),
        model=str(request.get("model") or ""),
    )


def _choose_wire(request: Mapping[str, Any], items: Sequence[Any]) -> str | WireChooser:
    """Returns the wire of a list of messages, or a function that chooses it by their roles."""
    if "system" in request or "anthropic_version" in request:
        return "anthropic"
    claude = "claude" in str(request.get("model") or "")

    def choose(roles: Sequence[str], wires: Sequence[str]) -> str:
        wire = next(filter(None, wires), "")
        if claude and not wire and _NON_ANTHROPIC_ROLES.isdisjoint(roles):
            return "anthropic"
        if wire == "?" or not (wire or "user" in roles or "assistant" in roles):
            return detect_wire(items)  # raises an error that says what was seen
        return wire or "openai-chat"

    return choose


def _to_text(value: Any) -> str:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_to_plain).decode()


def _to_plain(value: Any) -> Any:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else str(value)


def refresh_messages(shown: Iterable[VisibleMessage], host_list: HostList) -> list[Message]:
    """Returns the view's messages, unchanged ones in the host's newest form: its cache marks may have moved."""
    return [
        g
        if (g := host_list.get_message(s.key)) is not None and _get_call_ids(g) == _get_call_ids(s.message)
        else s.message
        for s in shown
    ]


def _get_call_ids(message: Message) -> list[str]:
    result = get_tool_result(message)
    return [c.id for c in get_tool_calls(message)] + ([result.call_id] if result is not None else [])


def restore_objects(encoded: EncodedList, objects: Sequence[Any], raws: Sequence[bytes]) -> list[Any]:
    """Returns the encoded list, with the caller's own object for each item whose bytes are unchanged.

    If several objects have equal bytes, the newest ones are used, since those are what a compaction leaves.
    """
    exact_bytes = {item.raw for item in encoded.items if item.exact}
    places: dict[bytes, list[int]] = {}
    for index in compress(range(len(objects)), map(exact_bytes.__contains__, raws)):
        places.setdefault(raws[index], []).append(index)
    out: list[Any] = []
    for item in reversed(encoded.items):
        indices = places.get(item.raw) if item.exact else None
        out.append(objects[indices.pop()] if indices else msgspec.json.decode(item.raw))
    return out[::-1]


def with_messages(
    request: Mapping[str, Any], host_request: HostRequest, encoded: EncodedList, visible_places: Container[int]
) -> dict[str, Any]:
    """Returns a new request that holds the encoded view. Everything else is as it was.

    `visible_places` are the indices of the messages in the host's list that the view shows. If messages are equal, only
    the objects of these are sent.
    """
    resent, value = host_request.history, request[host_request.field]
    decoded_items, items = resent.host_items[: resent.item_count], host_request.items[: resent.item_count]
    if items != decoded_items:  # the host has changed its list meanwhile
        items = decoded_items
    ranges = pairwise((0, *resent.ends[: resent.item_count]))
    visible = [
        at
        for at, (start, end) in enumerate(ranges)
        if any(n in visible_places for n in range(min(start, end - 1), end))
    ]
    new_items = restore_objects(encoded, [items[at] for at in visible], [resent.raws[at] for at in visible])
    out = {**request, host_request.field: value if isinstance(value, str) and new_items == items else new_items}
    if encoded.system and host_request.wire == "anthropic":
        system_blocks = [{"type": "text", "text": text} for text in encoded.system]
        existing = request.get("system") or []
        out["system"] = [
            *([{"type": "text", "text": existing}] if isinstance(existing, str) else existing),
            *system_blocks,
        ]
    if encoded.system and host_request.wire == "gemini":
        out = _with_instruction(out, encoded.system)
    return out


def _with_instruction(request: dict[str, Any], system_texts: Sequence[str]) -> dict[str, Any]:
    """Adds our system texts after those of a Gemini request: in `config` if it has one, as calls of the SDK do."""
    config = request.get("config")
    settings = _get_set_fields(config)
    if settings is None:
        key = "system_instruction" if "system_instruction" in request else "systemInstruction"
        return {**request, key: _append_instruction(request.get(key), system_texts)}
    key = "systemInstruction" if "systemInstruction" in settings else "system_instruction"
    copy = getattr(config, "model_copy", None)
    if copy is not None:
        return {**request, "config": copy(update={key: _append_instruction(getattr(config, key), system_texts)})}
    return {**request, "config": {**settings, key: _append_instruction(settings.get(key), system_texts)}}


def _append_instruction(instruction: Any, system_texts: Sequence[str]) -> Any:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Appends our texts to a Gemini system instruction, in the form that it has."""
    if not instruction:
        return {"parts": [{"text": text} for text in system_texts]}
    if isinstance(instruction, str):
        return "\n\n".join((instruction, *system_texts))
    if isinstance(instruction, Mapping):
        return {**instruction, "parts": [*instruction.get("parts", ()), *({"text": text} for text in system_texts)]}
    parts = (
        instruction if isinstance(instruction, list | tuple) else getattr(instruction, "parts", None) or [instruction]
    )
    return [*parts, *system_texts]


def _get_set_fields(settings: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    """Returns a mapping as it is, or the fields that were set on an SDK object. None for anything else."""
    dump = getattr(settings, "model_dump", None)
    fields = dump(exclude_unset=True) if dump is not None else settings
    return fields if isinstance(fields, Mapping) else None


# -- what a response took ----------------------------------------------------------------------------------------------


def read_usage(report: Any, *, model: str = "") -> Usage | None:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Reads the usage from a response or usage mapping of any wire. None if it is partial, failed or has no prompt.

    `prompt` counts the whole prompt, including what was read from and written to a cache.
    """
    fields = report if isinstance(report, Mapping) else _to_mapping(report)
    if fields is None or fields.get("error") or fields.get("status") in ("failed", "cancelled", "in_progress"):
        return None
    if fields.get("object") == "response.compaction":  # the cost of compacting, not of a request with this view
        return None
    for name in ("usage", "usageMetadata", "usage_metadata"):
        if name in fields:
            inner = fields[name]
            fields = inner if isinstance(inner, Mapping) else _to_mapping(inner) or {}
            break

    def find_number(*names: str) -> int:
        return next((n for name in names if isinstance(n := fields.get(name), int) and n > 0), 0)

    detail_fields = [fields.get(k) for k in ("prompt_tokens_details", "input_tokens_details")]
    details: Mapping[str, Any] = next((d for d in detail_fields if isinstance(d, Mapping)), {})
    cache_read = find_number("cache_read_input_tokens", "cachedContentTokenCount", "cached_content_token_count")
    cache_write = find_number("cache_creation_input_tokens")
    prompt = find_number("prompt_tokens", "promptTokenCount", "prompt_token_count")
    prompt += find_number("toolUsePromptTokenCount", "tool_use_prompt_token_count") if prompt else 0
    if not prompt:
        prompt = find_number("input_tokens")
        if not details:  # Anthropic counts what came from the cache separately
            prompt += find_number("cache_read_input_tokens") + cache_write
    if prompt <= 0:
        return None
    cached_tokens = details.get("cached_tokens")
    return Usage(
        prompt,
        find_number("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count"),
        cache_read=cached_tokens if isinstance(cached_tokens, int) else cache_read,
        cache_write=cache_write,
        model=model,
    )


def _to_mapping(value: Any) -> Mapping[str, Any] | None:  # noqa: ANN401 - the same
    dump = getattr(value, "model_dump", None)
    fields = dump(mode="json") if dump is not None else None
    return fields if isinstance(fields, Mapping) else None
