"""Reads what a host sends, and says what to send in its place: its requests, message lists and usage reports.

`read_request` finds the conversation in a provider's request of any wire, and `read_usage` the tokens that a response
reports. `Requests` syncs the lists with the log of one conversation and builds the requests to send.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from http import HTTPStatus
from itertools import compress, pairwise, takewhile
from operator import is_
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.trigger.limits import Need, get_view_check
from tenfold.core.meter.counters import MESSAGE_OVERHEAD, Counter, get_media_model, measure_messages
from tenfold.core.meter.media_counts import count_media
from tenfold.core.record.entry import MessageEntry, Usage, get_message
from tenfold.core.record.message import Message, Text, ToolResult, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import find_violations
from tenfold.core.view.units import MessageKey, Unit, build_original_key, get_step_messages, scan_entries
from tenfold.core.wire import WIRES, OriginCallback, get_wire, parse_value
from tenfold.core.wire.base import DecodedPrefix, EncodedList
from tenfold.core.wire.decoded_history import DecodedHistory
from tenfold.core.wire.encoding import RepeatedEncoding
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.given_values import list_messages, list_own_messages, name_type
from tenfold.core.wire.marks import OPENING_STUB, SummaryConfirmer, is_system_prompt
from tenfold.core.wire.registry import choose_wire, find_list_field, find_only_wire
from tenfold.core.wire.sdk_values import get_set_fields
from tenfold.core.wire.system_prompt import take_request_summaries
from tenfold.errors import StoreError, UnrelatedList, UsageError
from tenfold.formats.session_draft import TIME_KEYS, find_timestamp, parse_micros
from tenfold.models.overflow import find_named_limit, is_overflow, read_provider_error
from tenfold.session.compactor import CompactionRunner
from tenfold.session.conversation import Conversation
from tenfold.session.host_lists import (
    HostList,
    count_before_undo,
    find_carried_entries,
    find_next_message,
    find_start_of_tail,
    is_continuation,
    match_list,
    refresh_messages,
)
from tenfold.session.repeated_blocks import find_repeated_blocks
from tenfold.store.lookup import is_stored_summary
from tenfold.telemetry import trace_span

REFUSED_SHARE = 0.5
"""With less than this share of its window in the request, a refused model has a smaller window than was thought: no
tokenizer's count is that wrong."""
OVERFLOW_SHARE = 0.5
"""How much of a request stays that a provider refused as too long, where nobody knows the model's window."""


# -- a provider's request ----------------------------------------------------------------------------------------------


class HostRequest(Struct, frozen=True):
    """The parts of a provider's request (its keyword arguments as a mapping) that matter to a session.

    `field` is the name of the field with the conversation. `items` are the items of the conversation as they were
    passed (the host's own list, if it is a list), and `history` is what was decoded from them. `overhead_texts` are
    the texts of the system prompt and the tools. `output_reserve` is the number of tokens reserved for the answer.
    `summaries` are this session's own summaries that stood in a separate system prompt, as messages before the list,
    and `bare_request` is the request without them. With `lacks_summaries` the list goes on from a view whose summaries
    were sent in the system prompt, and this request's is without them.
    """

    wire: str
    field: str
    items: list[Any]
    history: DecodedHistory
    overhead_texts: tuple[str, ...]
    output_reserve: int
    model: str
    bare_request: Mapping[str, Any]
    summaries: tuple[Message, ...] = ()
    lacks_summaries: bool = False

    @property
    def messages(self) -> list[Message]:
        """The messages of the list."""
        return self.history.messages[: self.history.message_count]


def read_request(
    request: Mapping[str, Any],
    *,
    confirm: SummaryConfirmer | None = None,
    origin: OriginCallback | None = None,
    wire: str = "",
    previous: DecodedHistory | None = None,
    thorough: bool = False,
) -> HostRequest:
    """Reads a request of any wire. `wire` names the wire if it cannot be detected.

    `confirm` knows our own summaries, and `origin` whose words a user text is. `previous` is the list of the previous
    request; what is unchanged is not decoded again. For `thorough` see `DecodedHistory.decode_next`. Raises
    `UsageError` if the request does not hold the whole conversation, and `BadInput` for items of no known format.
    """
    if not isinstance(request, Mapping):
        raise UsageError(
            f"a request is {name_type(request)}: it is the keyword arguments of the provider's call as a dict, as in "
            "before_model({'model': ..., 'messages': [...]})"
        )
    field = find_list_field(request)
    value = request[field]
    known_wire = get_wire(wire).profile.wire if wire else find_only_wire(field)
    if isinstance(value, str) and known_wire:
        value = [get_wire(known_wire).profile.build_user_message(value)]
    items = value if type(value) is list else list_messages(value)
    choice = known_wire or choose_wire(request, field, items)
    resent = (previous or DecodedHistory()).decode_next(
        items, choice, confirm=confirm, origin=origin, thorough=thorough
    )
    profile = get_wire(resent.wire).profile
    bare_request, summaries = take_request_summaries(request, profile, confirm) if confirm else (request, [])
    return HostRequest(
        resent.wire,
        field,
        items,
        resent,
        overhead_texts=profile.request.read_overhead(bare_request),
        output_reserve=profile.request.read_output_limit(request),
        model=str(request.get("model") or ""),
        bare_request=bare_request,
        summaries=tuple(Message("system", (Text(text),), "tenfold") for text in summaries),
    )


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


_TIME_FIELDS = tuple(f'"{key}"'.encode() for key in TIME_KEYS)


def read_times(raws: Sequence[bytes], ends: Sequence[int]) -> list[int | None]:
    """Reads when each message was written (microseconds UTC) from what its item carries, None where that is nothing.

    `ends` are the numbers of messages up to and with each item, as in `DecodedHistory`.
    """
    times = (
        parse_micros(find_timestamp(parse_value(raw))) if any(field in raw for field in _TIME_FIELDS) else None
        for raw in raws
    )
    return [time for time, start, end in zip(times, (0, *ends), ends, strict=False) for _ in range(end - start)]


def drop_opening_stub(messages: list[Message]) -> list[Message]:
    """Returns a list without the stub that we put before an answer, for providers that take no list that opens so.

    It stands for nothing in the log. Without such a stub it is the same list.
    """
    first = next((at for at, m in enumerate(messages) if m.role != "system"), len(messages))
    opening = messages[first : first + 2]
    is_stub = [m.role for m in opening] == ["user", "assistant"] and get_text(opening[0]) == OPENING_STUB
    return [*messages[:first], *messages[first + 1 :]] if is_stub else messages


def with_messages(host_request: HostRequest, encoded: EncodedList, visible_places: Container[int]) -> dict[str, Any]:
    """Returns a new request that holds the encoded view. Everything else is as it was.

    `visible_places` are the indices of the messages in the host's list that the view shows. If messages are equal, only
    the objects of these are sent.
    """
    resent, value = host_request.history, host_request.bare_request[host_request.field]
    decoded_items, items = resent.host_items[: resent.item_count], host_request.items[: resent.item_count]
    if items != decoded_items:  # the host has changed its list meanwhile
        items = decoded_items
    ranges = pairwise((0, *resent.ends[: resent.item_count]))
    visible = [
        at
        for at, (start, end) in enumerate(ranges)
        if end - 1 in visible_places or any(n in visible_places for n in range(start, end - 1))
    ]
    new_items = restore_objects(encoded, [items[at] for at in visible], [resent.raws[at] for at in visible])
    return with_items(host_request, encoded, value if isinstance(value, str) and new_items == items else new_items)


def with_items(host_request: HostRequest, encoded: EncodedList, items: str | list[Any]) -> dict[str, Any]:
    """Returns a new request with other items, and with the texts of the encoded view that stand beside them."""
    out = {**host_request.bare_request, host_request.field: items}
    add_system = get_wire(host_request.wire).profile.add_system
    return add_system(out, encoded.system) if encoded.system and add_system is not None else out


# -- what a response took ----------------------------------------------------------------------------------------------


def read_usage(response: Any, *, model: str = "") -> Usage | None:  # noqa: ANN401 - a provider's JSON, or its SDK's object
    """Reads the usage from a response or usage mapping of any wire. None if it is partial, failed or has no prompt.

    `prompt` counts the whole prompt, including what was read from and written to a cache. Of a sum over several
    requests the last one counts, if it is listed.
    """
    fields = get_set_fields(response)
    if fields is None or fields.get("error"):
        return None
    profiles = [wire.profile for wire in WIRES.values()]
    if any(fields.get(name) in values for profile in profiles for name, values in profile.unfinished.items()):
        return None
    usage_fields = [usage for profile in profiles for usage in profile.usage]
    holder = next((usage.holder for usage in usage_fields if usage.holder in fields), "")
    report = (get_set_fields(fields[holder]) or {}) if holder else fields
    if isinstance(count := report.get("requests"), int) and count > 1:  # as agents' SDKs sum up a run
        listed = report.get("request_usage_entries")
        report = (get_set_fields(listed[-1]) or {}) if listed else {}
    return next((found for usage in usage_fields if (found := usage.read(report, model)) is not None), None)


def can_send_unchanged(messages: Sequence[Message], view: View, wire: str) -> bool:
    """Whether a whole history can be sent unchanged: nothing is compacted, and the provider accepts all of it."""
    return not view.state.live_blocks and not find_violations(messages, get_wire(wire).profile)


# -- the requests of one conversation ----------------------------------------------------------------------------------


class Requests:
    """The requests of a host: syncs their message lists with the log, and builds what is sent in their place.

    What it remembers from one request to the next only saves work: known messages are recognized by content.
    """

    def __init__(self, conversation: Conversation, compactor: CompactionRunner) -> None:
        """Begins without a list: the first one is matched message by message."""
        self._conversation, self._compactor = conversation, compactor
        self._history = DecodedHistory()
        self._last_call: Call | None = None
        self._last_sent: list[bytes] | None = None
        self._last_list: HostList | None = None
        self._given: list[Message] = []
        self._clean: list[Message] = []
        self._path: Path | None = None
        self._fingerprints: dict[int, bytes] = {}
        self._grown: tuple[list[Message], Counted] = ([], NO_TOKENS)
        self._counted: tuple[tuple[str, ...], Counter | None] = ((), None)
        self._count = NO_TOKENS
        self._encoding = RepeatedEncoding()
        self._compared: tuple[list[Unit] | None, list[MessageKey] | None, int, int] = (None, None, 0, 0)

    # -- a request, and what is sent in its place ----------------------------------------------------------------------

    def sync_request(  # noqa: PLR0913 - those of `before_model`
        self,
        request: Mapping[str, Any],
        *,
        window: int | None,
        recall: RecallMode,
        wire: str,
        origin: OriginCallback | None = None,
        run: str = "",
        append: bool = False,
    ) -> tuple[HostRequest, HostList, Call | None]:
        """Does the first half of `before_model`: reads the request and syncs its list with the log.

        Returns the request as read, the synced list, and the check to run if one is due. Whenever the trigger may fire,
        the content of every message is compared with the log (decision 0014).
        """
        with self._conversation.lock:
            previous, confirm, compactor = self._history, self.is_own_summary, self._compactor
            read = read_request(request, confirm=confirm, origin=origin, wire=wire, previous=previous)
            compactor.use_model(read.model or compactor.model)
            floor = self._count_overhead(read.overhead_texts, compactor.policy.counter)
            floor += self._count_prompt_growth(read.history.get_messages())
            call = Call(window=window, floor=floor, output_reserve=read.output_reserve, recall=recall, run=run)
            new = read.history.get_new_messages(previous), read.history.get_new_raws(previous)
            if self._find_highest_need(*new, call) != "none":
                again = {**request, read.field: read.items}
                read = read_request(
                    again, confirm=confirm, origin=origin, wire=read.wire, previous=read.history, thorough=True
                )
            self._history, self._last_call, self._last_sent = read.history, call, None
            listed = drop_opening_stub(read.history.get_messages())
            messages = self._add_summaries(listed, read.summaries)
            if not read.summaries and WIRES[read.wire].profile.has_separate_system:
                messages = self._add_missing_summaries(listed)
                read = replace(read, lacks_summaries=messages is not listed)
        return read, *self.sync_and_check(messages, call, append=append)

    def sync_and_check(
        self,
        messages: list[Message],
        call: Call,
        *,
        has_run_end_check: bool = False,
        times: Sequence[int | None] | None = None,
        append: bool = False,
    ) -> tuple[HostList, Call | None]:
        """Syncs the log with a host's whole message list. Returns the synced list and the check to run, if one is due.

        Nobody may change `messages` afterwards. Five fields of `call` are used: the window, the floor (tokens sent
        besides the list), the output reserve, `recall` and the run that new messages belong to. `has_run_end_check`
        says that the host runs the check at the end of a run itself. `times` says when each message was written
        (microseconds UTC, None if unknown); without it the new ones came now. For `append` see `sync`. Leading system
        prompts may change between requests: the newest are sent, and the log keeps the first.
        """
        conversation, before, address = self._conversation, self._conversation.view, self._conversation.address
        where = {"gen_ai.conversation.id": address.session, "tenfold.namespace": address.namespace}
        with trace_span("tenfold.sync", where) as record, conversation.lock:
            host_list = conversation.write(
                lambda: self._sync_list(messages, is_floor_ignored=True, run=call.run, times=times, append=append)
            )
            self._try_to_keep(lambda: self._conversation.keep_overhead(call.floor))
            record({"tenfold.messages": len(messages), "tenfold.new_entries": conversation.view.length - before.length})
        self._compactor.sync_archive(before)
        return host_list, self._compactor.build_check(call, has_run_end_check=has_run_end_check)

    def build_request(
        self, request: Mapping[str, Any], host_request: HostRequest, host_list: HostList
    ) -> dict[str, Any]:
        """Does the second half of `before_model`: returns the request with the view in place of its list.

        A history that the provider accepts unchanged is sent in its own order, even where the view has moved tool
        results next to their calls. A list of messages as JSON bytes stays one.
        """
        messages, wire, view = self.get_messages_to_send(host_list), host_request.wire, self._conversation.view
        if host_request.lacks_summaries:
            messages = refresh_messages(view.get_visible_messages(), host_list)
        is_kept = not view.state.live_blocks and self._is_whole_history(host_list)
        if messages is None or (is_kept and can_send_unchanged(host_list.messages, view, wire)):
            value = request[host_request.field]
            return {**request, host_request.field: value if isinstance(value, Sequence) else host_request.items}
        encoded = self._encoding.encode(messages, WIRES[wire])
        if set(map(type, host_request.items)) == {bytes}:
            self._last_sent = [item.raw for item in encoded.items]
            return with_items(host_request, encoded, self._last_sent)
        before = host_list.count - host_request.history.message_count
        places = {at - before for at in host_list.find_visible(view)}
        return with_messages(host_request, encoded, places)

    def get_messages_to_send(self, host_list: HostList) -> list[Message] | None:
        """Returns the messages to send: the view, with the host's newest version of each untouched message.

        Returns None if the host's list is the view already.
        """
        if self._is_view(host_list):
            return None
        return refresh_messages(self._conversation.view.get_visible_messages(), host_list)

    def encode_next(self, sent: Sequence[bytes], items: Sequence[bytes]) -> list[bytes] | None:
        """Encodes what a request adds to the last one, so that it can be sent before the session learns of it.

        `sent` is the very list that `before_model` has returned for the last request, and `items` are the native
        messages, as JSON bytes, that the next one has behind those of the last. Returns the items that `before_model`
        would send behind `sent`. None if it might send something else: a compaction may be due, or the session was
        changed or asked for something else since. Nothing is changed or written, and what other processes have written
        is not looked at: `before_model` still has to be called.
        """
        with self._conversation.lock:
            call = self._last_call
            if call is None or sent is not self._last_sent or get_view_check(self._compactor.policy.trigger):
                return None
            new = self._read_next(items)
            if new is None or self._find_highest_need(new, items, call) not in ("none", "warn"):
                return None
            return self._encoding.encode_next(new)

    def _find_highest_need(self, new: Sequence[Message], raws: Sequence[bytes], call: Call) -> Need:
        """Finds how badly the view may need a compaction at most, once the new messages of a list are added.

        The upper bound counts one token per byte of `raws`, the messages as they came, and images, files and
        recordings by their rules.
        """
        compactor = self._compactor
        complete = compactor.build_call(window=call.window, floor=call.floor)
        if complete.window is None:
            return "none"
        complete = replace(complete, output_reserve=call.output_reserve)
        parts = sum(1 + len(p.content) if isinstance(p, ToolResult) else 1 for m in new for p in m.parts)
        media = count_media(new, get_media_model(compactor.policy.counter))
        added = sum(map(len, raws)) + parts * MESSAGE_OVERHEAD + media.counted_tokens
        answers = sum(message.role == "assistant" for message in new)
        reading, limits = compactor.take_reading_with_limits(complete, answers=answers)
        return limits.get_need(reading.tokens + reading.to_provider_part(added))

    # -- what a provider refused ---------------------------------------------------------------------------------------

    def build_overflow_call(self, error: BaseException, window: int | None) -> Call:
        """Builds the compaction to run once the provider has refused the last request with this error.

        If the error names how much the model takes, that is its window from now on; so is what was sent, if that was
        far less than the window. Where no window is known, the target is half of what was sent. Raises the error itself
        if it is about something else.
        """
        text, status = read_provider_error(error)
        if not is_overflow(text, status=status):
            raise error
        compactor, last = self._compactor, self._last_call
        floor = last.floor if last is not None else NO_TOKENS
        named = find_named_limit(text, status=status)
        reading = compactor.take_reading(compactor.build_call(window=window, floor=floor))
        is_about_bytes = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE  # as of large pictures
        if named is None and not is_about_bytes and reading.fill is not None and reading.fill < REFUSED_SHARE:
            named = int(reading.tokens)
            compactor.answerer.report_problem(
                f"the provider refused {named:,} tokens as too long, far less than the {reading.window:,} that were "
                f"taken for the model's window: {named:,} are taken for it from now on; name the window to correct that"
            )
        if named is not None:
            compactor.use_window(named)
        call = compactor.build_call(window=named or window, floor=floor)
        if call.window is None:
            tokens = compactor.take_reading(call).estimate
            call = compactor.build_call(to=max(1, int(OVERFLOW_SHARE * tokens)), floor=call.floor)
        call = replace(call, demand="overflow")
        return call if last is None else replace(call, output_reserve=last.output_reserve, recall=last.recall)

    def is_own_summary(self, block: str, seal: str, is_whole: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - see `SummaryConfirmer`
        """Tells whether this session wrote the summary that carries this mark, also where it is a part of a message."""
        address = self._conversation.address
        return is_stored_summary(address.store, address.namespace, block, seal, session=address.session)

    # -- what a response took ------------------------------------------------------------------------------------------

    def record_usage(self, usage: Usage) -> None:
        """Keeps the usage the provider reported for the last request; the next appended answer is stored with it.

        Any object of this session may append the answer: the store keeps the usage until then. What the store does not
        take is kept in memory, which is reported. Reports without prompt tokens are ignored.
        """
        if usage.prompt <= 0:
            return
        conversation = self._conversation
        with self._conversation.lock:
            whole = conversation.has_whole_request and not self._compactor.policy_provider().estimator.covers_overhead
            overhead = usage.overhead or conversation.sent_overhead
            complete = replace(usage, overhead=overhead, is_whole=usage.is_whole or whole)
            self._try_to_keep(lambda: conversation.keep_usage(complete))

    def note_hidden_parts(self) -> None:
        """Notes that the last request held more than was seen here, such as a prompt that a client's hooks do not show.

        Call it before `after_model`: our count then does not bound what may be reported.
        """
        with self._conversation.lock:
            self._conversation.note_hidden_parts()

    def _try_to_keep(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreError as exc:  # what a request took is worth no failed request
            self._compactor.answerer.report_problem(f"what is known of the last request is kept in memory only: {exc}")

    # -- a list and the log --------------------------------------------------------------------------------------------

    def sync(self, messages: Sequence[Message], *, run: str = "", append: bool = False) -> View:
        """Syncs the log with a host's whole message list, and returns the view. See `Session.sync`."""
        conversation = self._conversation
        before = conversation.view
        with conversation.lock:
            clean = self._clean_list(messages)
            conversation.write(lambda: self._sync_list(clean, run=run, append=append))
            view = conversation.view
        self._compactor.sync_archive(before)
        return view

    def match(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """Matches a host's list with the log, as `sync` would, and changes nothing.

        Returns how many messages at its beginning are known, and whether it goes on from the end of the log, so that
        syncing it makes no branch.
        """
        with self._conversation.lock:
            self._forget_other_path()
            view = self._conversation.view
            found = match_list(list_own_messages(messages), view, self._get_fingerprint, is_floor_ignored=True)
            return found.count, find_next_message(view.path, found.position) is None

    def find_view_before(self, messages: Sequence[Message]) -> View | None:
        """Finds the view that a list goes on behind: it begins, in the middle of the log, with all that follows there.

        So does the list of a host that has lost an older one, and has asked somebody else since. None for any other.
        """
        with self._conversation.lock:
            path = self._forget_other_path()
            given = list_own_messages(messages)
            if match_list(given, self._conversation.view, self._get_fingerprint, is_floor_ignored=True).count > sum(
                map(is_system_prompt, given)
            ):
                return None
            start = find_start_of_tail(given, path, self._get_fingerprint)
            return None if start is None else View.from_path(path.fork(start))

    def _clean_list(self, messages: Sequence[Message]) -> list[Message]:
        """Returns a host's list without lone surrogates. What it began with the last time is not looked at again."""
        given = list(list_own_messages(messages))
        known = len(self._given) if given[: len(self._given)] == self._given else 0
        self._given, self._clean = given, [*self._clean[:known], *map(replace_surrogates, given[known:])]
        return self._clean

    def _sync_list(
        self,
        messages: list[Message],
        *,
        is_floor_ignored: bool = False,
        run: str = "",
        times: Sequence[int | None] | None = None,
        append: bool = False,
    ) -> HostList:
        """Appends what of a list the log does not have yet, on a new branch if a known message was changed.

        Raises `UsageError` for a list that does not continue the log (see `is_continuation`). With `append` there is no
        branch: a list that does not go on from the end of the log is appended to it, whatever it repeats.

        Nobody may change `messages` afterwards. With `is_floor_ignored`, leading system prompts count as equal
        whatever their text. `run` is the id of the run that new messages belong to. `times` says when each message was
        written; without, the new ones came now.
        """
        if self._conversation.address.store.redact_at_rest:  # it is compared with what the log holds
            messages = [redact_message(message) for message in messages]
        self._forget_other_path()
        view, known = self._conversation.view, self._find_known_list(messages, is_floor_ignored=is_floor_ignored)
        if known is not None:
            return self._append_new(messages, known, run, times)
        match = match_list(messages, view, self._get_fingerprint, is_floor_ignored=is_floor_ignored)
        changed = find_next_message(view.path, match.position)
        if changed is not None and append:
            return self._append_apart(messages, run, times, is_floor_ignored=is_floor_ignored)
        if changed is not None and not is_continuation(messages, match, view, self._get_fingerprint):
            raise UnrelatedList(self._explain_apart(messages))
        if changed is None:
            matched = HostList(view, messages, list(match.keys), match.count, is_floor_ignored)
            return self._append_new(messages, matched, run, times)
        repeated = list(find_repeated_blocks(view, changed, messages[match.count :], self._get_fingerprint))
        undone, positions = count_before_undo(view, changed), self._branch_before(changed)
        if positions:
            again = match_list(
                messages, self._conversation.view, self._get_fingerprint, is_floor_ignored=is_floor_ignored
            )
            repeated, match = repeated if again.count == match.count else [], again
        matched = HostList(self._conversation.view, messages, list(match.keys), match.count, is_floor_ignored)
        for each in repeated:
            end = match.count + len(each.originals)
            last = self._append_new(messages[:end], matched, run, times)
            new = (position for position, *_ in last.keys[match.count : end])
            positions.update(zip(each.originals, new, strict=True))
            self._conversation.append_copies([(each.position, each.block)], positions, are_facts_new=True)
            matched = last.add_known(self._conversation.view, ())
        if undone is not None:
            matched = self._append_with_undo(messages[: match.count + undone], matched, run, times)
        return self._append_new(messages, matched, run, times)

    def _append_apart(
        self, messages: list[Message], run: str, times: Sequence[int | None] | None, *, is_floor_ignored: bool
    ) -> HostList:
        """Appends a list of new messages. Those at its beginning that the log ends with are not appended again."""
        path_messages = list(self._conversation.view.path.list_messages())
        prompts = list(takewhile(is_system_prompt, messages))
        own = list(takewhile(lambda pair: is_system_prompt(pair[1]), path_messages))
        known = own if len(own) == len(prompts) else []
        if own and not known:
            messages, times = messages[len(prompts) :], times and times[len(prompts) :]
        new = messages[len(known) :]
        held, fingerprints = path_messages[-len(new) :] if new else [], [fingerprint_message(m) for m in new]
        ends = [self._get_fingerprint(*pair) for pair in held]
        starts = (at for at, end in enumerate(ends) if end == fingerprints[0])
        start = next((at for at in starts if ends[at:] == fingerprints[: len(ends) - at]), len(ends))
        known = [*known, *held[start:]]
        keys = [build_original_key(position) for position, _ in known]
        matched = HostList(self._conversation.view, messages, keys, len(keys), is_floor_ignored, is_partial=True)
        return self._append_new(messages, matched, run, times)

    def _append_with_undo(
        self, messages: list[Message], matched: HostList, run: str, times: Sequence[int | None] | None
    ) -> HostList:
        """Appends the messages in place of those before an undo on the branch that was left, and then the undo.

        So what the view has grown by since is what came behind them, and what was undone is not made again at once.
        """
        self._append_new(messages, matched, run, times)
        self._conversation.note_undo()
        assert self._last_list is not None
        return self._last_list.add_known(self._conversation.view, ())

    def _append_new(
        self, messages: list[Message], matched: HostList, run: str, times: Sequence[int | None] | None
    ) -> HostList:
        """Appends the messages after the matched ones, and keeps the list for the next request."""
        conversation, start, count = self._conversation, self._conversation.view.length, matched.count
        if count < len(messages):
            new = messages[count:]
            conversation.append_messages(new, usage=None, run=run, times=times and times[count : count + len(new)])
        self._last_list = matched.extend(messages, conversation.view, range(start, start + len(messages) - count))
        return self._last_list

    def _find_known_list(self, messages: list[Message], *, is_floor_ignored: bool) -> HostList | None:
        """Returns the last list, if this one goes on from it, with the messages that the log has got from others since.

        None if the list does not, or if the log did otherwise: then the list is looked for in the whole log.
        """
        last, view = self._last_list, self._conversation.view
        if last is None or last.is_floor_ignored != is_floor_ignored or last.view.path is not view.path:
            return None
        if last.view.state.last_change != view.state.last_change or view.length < last.view.length:
            return None
        if not last.is_extended_by(messages, self._get_fingerprint):
            return None
        positions: list[int] = []
        for position in range(last.view.length, view.length):
            message, at = get_message(view.path.get_entry(position)), last.count + len(positions)
            if message is None:
                continue
            if at >= len(messages) or fingerprint_message(messages[at]) != self._get_fingerprint(position, message):
                return None
            positions.append(position)
        return last.add_known(view, positions)

    def _branch_before(self, changed: int) -> dict[int, int]:
        """Branches off before a changed message. Returns the positions of the Blocks and pins carried to the branch.

        They are given by those on the path that is left.
        """
        conversation, positions = self._conversation, dict[int, int]()
        kept = find_carried_entries(conversation.view, changed)
        conversation.rewind(changed - 1)
        self._fingerprints = {position: key for position, key in self._fingerprints.items() if position < changed}
        self._path = conversation.view.path
        conversation.drop_usage()
        conversation.append_copies(kept, positions)
        return positions

    def _explain_apart(self, messages: Sequence[Message]) -> str:
        held = sum(not is_system_prompt(m) for _, m in self._conversation.view.path.list_messages())
        new = sum(not is_system_prompt(m) for m in messages)
        name = self._conversation.address.session
        return (
            f"this list of {new:,} does not continue session {name!r}: it begins otherwise, and "
            f"has no answer, tool result or summary of the {held:,} messages there. Send the whole list, as with every "
            f"request; or append=True appends these {new:,}; to begin anew, create another session"
        )

    def _read_next(self, items: Sequence[bytes]) -> list[Message] | None:
        """Reads items that come after those of the last list. Nothing is changed.

        None if somebody has changed the view since, or if it would show them otherwise than in their own order.
        """
        last, view, history = self._last_list, self._conversation.view, self._history
        is_redacted = self._conversation.address.store.redact_at_rest
        if last is None or last.view is not view or view.open_step is not None or is_redacted:
            return None
        prefix = DecodedPrefix(history.item_count, history.message_count, history.messages)
        messages = WIRES[history.wire].decode(items, confirm=self.is_own_summary, prefix=prefix)
        entries = ((at, MessageEntry("", None, "", None, message)) for at, message in enumerate(messages))
        units, step = scan_entries(entries, None)
        shown = [each.message for unit in units for each in unit.visible_messages]
        shown += [each.message for each in get_step_messages(step, closing=False)] if step is not None else []
        return messages if len(shown) == len(messages) and all(map(is_, shown, messages)) else None

    def _add_summaries(self, messages: list[Message], summaries: Sequence[Message]) -> list[Message]:
        """Returns a list with the summaries of the system prompt before it, where other wires have them.

        A host may also keep its own list and send it with the system prompt that it got back. Then the log knows more
        of the list alone, and that is returned.
        """
        if not summaries:
            return messages
        whole = [*summaries, *messages]
        known = self._find_extension(whole, messages)
        if known is not None:
            return known
        counts = self.match(whole)[0], self.match(messages)[0]
        return messages if counts[1] > max(0, counts[0] - len(summaries)) else whole

    def _add_missing_summaries(self, messages: list[Message]) -> list[Message]:
        """Returns a list with the view's own summaries before it, if it goes on from the view without them.

        They were sent in a system prompt beside the list, and the host wrote a new one. Any other list is returned as
        it is.
        """
        opening = takewhile(
            lambda shown: shown.message.role == "system", self._conversation.view.get_visible_messages()
        )
        missing = [shown.message for shown in opening if shown.message.origin == "tenfold"]
        if not missing:
            return messages
        whole = [*missing, *messages]
        known = self._find_extension(messages, whole)
        if known is not None:
            return known
        return whole if self.match(whole)[0] - len(missing) > self.match(messages)[0] else messages

    def _find_extension(self, *lists: list[Message]) -> list[Message] | None:
        """Returns the first of these lists that goes on from the last one, if that is still the newest."""
        last = self._last_list
        if last is None or last.view is not self._conversation.view or not last.is_floor_ignored:
            return None
        self._forget_other_path()
        return next((each for each in lists if last.is_extended_by(each, self._get_fingerprint)), None)

    def _count_overhead(self, texts: tuple[str, ...], counter: Counter) -> Counted:
        """Counts what a request holds besides its list. Mostly it is the same as in the request before."""
        if self._counted != (texts, counter):
            self._counted, self._count = (texts, counter), Counted(sum(counter.count(list(texts))) if texts else 0)
        return self._count

    def _count_prompt_growth(self, messages: Sequence[Message]) -> Counted:
        """Counts by how much the system prompts at the beginning of a list are longer than those of the log.

        The newest are sent, and the log keeps the first: what it measures of them may be too little.
        """
        prompts, path = list(takewhile(is_system_prompt, messages)), self._forget_other_path()
        if len(prompts) == len(self._grown[0]) and all(map(is_, prompts, self._grown[0])):
            return self._grown[1]
        entries = (get_message(path.get_entry(at)) for at in range(min(path.length, len(prompts))))
        known = [message for message in entries if message is not None and is_system_prompt(message)]
        growth = NO_TOKENS
        if known and len(known) == len(prompts):  # else they differ as any other message does
            new, old = (sum(measure_messages(each, self._conversation.counter), NO_TOKENS) for each in (prompts, known))
            growth = max(NO_TOKENS, new - old)
            self._grown = prompts, growth
        return growth

    def _is_view(self, host_list: HostList) -> bool:
        """Tells whether a list is exactly what the view shows. Goes on from where they last agreed."""
        view = self._conversation.view
        units, count = view.closed_units
        last_units, last_keys, index, total = self._compared
        if units is not last_units or host_list.keys is not last_keys or count < index:
            index = total = 0
        for unit in units[index:count]:
            keys = [s.key for s in unit.visible_messages]
            if host_list.keys[total : total + len(keys)] != keys:
                break
            index, total = index + 1, total + len(keys)
        self._compared = (units, host_list.keys, index, total)
        rest = [s.key for s in get_step_messages(view.open_step, closing=False)] if view.open_step is not None else []
        is_complete = total + len(rest) == host_list.count
        return is_complete and index == count and rest == host_list.keys[total : host_list.count]

    def _is_whole_history(self, host_list: HostList) -> bool:
        """Tells whether a list is the whole history, with no message replaced by a summary or a stub."""
        if host_list.is_partial:
            return False
        keys = host_list.keys[: host_list.count]
        last = keys[-1][0] if keys else -1
        return all(kind == -1 for _, _, kind in keys) and find_next_message(self._conversation.view.path, last) is None

    def _forget_other_path(self) -> Path:
        """Forgets which entry stands where, if the conversation was moved or read again since. Returns the path."""
        path = self._conversation.view.path
        if path is not self._path:
            self._path, self._fingerprints, self._grown = path, {}, ([], NO_TOKENS)
        return path

    def _get_fingerprint(self, position: int, message: Message) -> bytes:
        key = self._fingerprints.get(position)
        if key is None:
            key = self._fingerprints[position] = fingerprint_message(message)
        return key
