"""The class `Session`: one conversation in a store, compacted when it grows too long for the model.

Every method is synchronous and can be called from several threads. `AsyncSession` has the same methods for coroutines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.redo import DEFAULT_REDO, RedoRequest
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.limits import Decision, Need
from tenfold.compaction.trigger.sizes import Size
from tenfold.core.meter.counters import MESSAGE_OVERHEAD, get_media_model
from tenfold.core.meter.media_counts import count_media
from tenfold.core.meter.reading import Reading
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry, Usage
from tenfold.core.record.message import Message, ToolResult
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire import WIRES, OriginCallback
from tenfold.errors import StoreError
from tenfold.events import CompactionSkip
from tenfold.session.compaction_runner import CompactionRunner
from tenfold.session.conversation import Conversation, PolicyProvider, build_provider
from tenfold.session.drive import Answerer, run_engine
from tenfold.session.log_cursor import SessionAddress, Stamps, check_address
from tenfold.session.requests import (
    HostList,
    HostRequest,
    can_send_unchanged,
    drop_opening_stub,
    find_check_point,
    read_request,
    read_usage,
    refresh_messages,
    with_items,
    with_messages,
)
from tenfold.store.archive import Archive
from tenfold.store.base import SessionInfo
from tenfold.store.own_summaries import is_stored_summary


class Session(Conversation):
    """One conversation. `Session.create` makes it in the store; `Session(address, policy)` opens an existing one."""

    def __init__(
        self,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        archive: Archive | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        """Opens a head. Raises `NotFoundError` if the session does not exist.

        `policy` is a Policy or the name of one, as in "tail", which then has its published settings. `model` names
        the agent's model, for its window and its calibration. A callable `policy` is called again at
        every check (`settings.LivePolicy` follows a file), but the counter stays the one the session was opened with.
        An `archive` receives every batch before the Block that contains it is appended. `stamps` are where new
        entries get their ids and times from.
        """
        super().__init__(address, policy, model=model, stamps=stamps)
        self.compactor = CompactionRunner(self, answerer or Answerer(), archive)
        self._last_call: Call | None = None
        self._last_sent: list[bytes] | None = None
        self._told_model: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.describe()}>"

    def describe(self) -> str:
        """Says which session it is, and how large the view that was read last. Nothing is counted or waited for."""
        model = f", model {self.model!r}" if self.model else ""
        return f" {self.address.session!r}, head {self.address.head!r}{model}: {self.view.describe_size()}"

    @classmethod
    def create(  # noqa: PLR0913 - those of the constructor, and the session's information
        cls,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        info: SessionInfo | None = None,
        archive: Archive | None = None,
        stamps: Stamps | None = None,
    ) -> Self:
        """Creates the session in the store, unless one with that id exists, and opens it. See the constructor."""
        policy = build_provider(policy, model)  # a wrong name creates nothing
        check_address(address)
        address.store.create(address.namespace, info or SessionInfo(address.session, model=model))
        return cls(address, policy, model=model, answerer=answerer, archive=archive, stamps=stamps)

    @property
    def policy(self) -> Policy:
        """The policy in force now. If it names no model, the session's own (if there is one) writes the summaries."""
        return self.get_policy(self.compactor.answerer.model)

    @property
    def answerer(self) -> Answerer:
        """The model, hooks and listeners of this session."""
        return self.compactor.answerer

    def use_answerer(self, answerer: Answerer) -> None:
        """Takes another model, or other hooks and listeners, for the compactions to come."""
        self.compactor.use_answerer(answerer)

    @property
    def archive(self) -> Archive | None:
        """Where batches are kept besides the log."""
        return self.compactor.archive

    @property
    def outcome(self) -> Outcome | None:
        """The Outcome of the last check that `before_model` made, None if none was due yet."""
        return self.compactor.outcome

    # -- for hosts -----------------------------------------------------------------------------------------------------

    def before_model(  # noqa: PLR0913 - what may be said of a request besides itself
        self,
        request: Mapping[str, Any],
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
        run: str = "",
        append: bool = False,
    ) -> dict[str, Any]:
        """Returns the request to send in place of this one, with its message list compacted if it is too long.

        `request` holds the keyword arguments of a provider's call. The list is synced with the log, then compacted if
        the policy's trigger fires; `outcome` holds the result. Messages that stay are the same objects that were
        passed in, so a message that was edited in place is sent as edited; a list of JSON bytes stays one. In a list of
        more than 64 messages, the log may notice an edit far from the end some requests later, but always before a
        compaction. Without a known window nothing is compacted. `origin` says whose words a user text is where its form
        does not: see `tenfold.compact`. `run` is the id of the run that new messages and a compaction belong to. Raises
        `UsageError` for a request that does not hold the whole conversation; with `append`, a list that does not
        continue the session is appended to it, as by `sync`, and the request goes out with the whole view.
        """
        with self.compactor.lock:
            host_request, host_list, call = self.sync_request(
                request, window=window, recall=recall, wire=wire, origin=origin, run=run, append=append
            )
            if call is not None:
                self.compactor.run_check(call)
            return self.build_request(request, host_request, host_list)

    def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Records the token usage the provider reported for the last request.

        `report` is a response, or only its usage, in any of the wire formats. Reports that are partial or failed, or
        that count no prompt tokens, are ignored.
        """
        usage = read_usage(report, model=self.model)
        if usage is not None:
            self.record_usage(usage)

    def note_hidden_parts(self) -> None:
        """Notes that the last request held more than was seen here, such as a prompt that a client's hooks do not show.

        Call it before `after_model`: our count then does not bound what may be reported.
        """
        with self.lock:
            self._cursor.note_hidden_parts()

    def record_usage(self, usage: Usage) -> None:
        """See `Conversation.record_usage`. What the store does not take is kept in memory, which is reported."""
        self._try_to_keep(lambda: super(Session, self).record_usage(usage))

    def _try_to_keep(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreError as exc:  # what a request took is worth no failed request
            self.answerer.report_problem(f"what is known of the last request is kept in memory only: {exc}")

    def sync(self, messages: Sequence[Message], *, run: str = "", append: bool = False) -> View:
        """See `Conversation.sync`. If a branch begins, the archive follows."""
        before = self.view
        view = super().sync(messages, run=run, append=append)
        self.compactor.sync_archive(before)
        return view

    def sync_request(  # noqa: PLR0913 - those of `before_model`, and `thorough`
        self,
        request: Mapping[str, Any],
        *,
        window: int | None,
        recall: RecallMode,
        wire: str,
        origin: OriginCallback | None = None,
        run: str = "",
        thorough: bool = False,
        append: bool = False,
    ) -> tuple[HostRequest, HostList, Call | None]:
        """Does the first half of `before_model`: reads the request and syncs its list with the log.

        Returns the request as read, the synced list, and the check to run if one is due. With `thorough`, and whenever
        the trigger may fire, the content of every message is compared with the log (decision 0014). Pass it before a
        compaction that no check asks for.
        """
        with self.lock:
            previous, confirm = self._host.history, self.is_own_summary
            read = read_request(
                request, confirm=confirm, origin=origin, wire=wire, previous=previous, thorough=thorough
            )
            self.use_model(read.model or self.model)
            floor = self._host.count_overhead(read.overhead_texts, self.policy.counter)
            floor += self._host.count_prompt_growth(read.history.get_messages())
            call = Call(window=window, floor=floor, output_reserve=read.output_reserve, recall=recall, run=run)
            new = read.history.get_new_messages(previous), read.history.get_new_raws(previous)
            if not thorough and self._find_highest_need(*new, call) != "none":
                again = {**request, read.field: read.items}
                read = read_request(
                    again, confirm=confirm, origin=origin, wire=read.wire, previous=read.history, thorough=True
                )
            self._host.keep_request(read.history)
            self._last_call, self._last_sent = call, None
            listed = drop_opening_stub(read.history.get_messages())
            messages = self._host.add_summaries(listed, read.summaries)
            if not read.summaries and WIRES[read.wire].profile.has_separate_system:
                messages = self._host.add_missing_summaries(listed)
                read = replace(read, lacks_summaries=messages is not listed)
        return read, *self.sync_and_check(messages, call, append=append)

    def encode_next(self, sent: Sequence[bytes], items: Sequence[bytes]) -> list[bytes] | None:
        """Encodes what a request adds to the last one, so that it can be sent before the session learns of it.

        `sent` is the very list that `before_model` has returned for the last request, and `items` are the native
        messages, as JSON bytes, that the next one has behind those of the last. Returns the items that `before_model`
        would send behind `sent`. None if it might send something else: a compaction may be due, or the session was
        changed or asked for something else since. Nothing is changed or written, and what other processes have written
        is not looked at: `before_model` still has to be called.
        """
        with self.lock:
            call = self._last_call
            if call is None or sent is not self._last_sent or self.policy.max_entries:
                return None
            new = self._host.read_next(items, self.is_own_summary)
            if new is None or self._find_highest_need(new, items, call) not in ("none", "warn"):
                return None
            return self._host.encode_next(new)

    def _find_highest_need(self, new: Sequence[Message], raws: Sequence[bytes], call: Call) -> Need:
        """Finds how badly the view may need a compaction at most, once the new messages of a list are added.

        The upper bound counts one token per byte of `raws`, the messages as they came, and images, files and
        recordings by their rules.
        """
        complete = self.build_call(window=call.window, floor=call.floor)
        if complete.window is None:
            return "none"
        complete = replace(complete, output_reserve=call.output_reserve)
        parts = sum(1 + len(p.content) if isinstance(p, ToolResult) else 1 for m in new for p in m.parts)
        media = count_media(new, get_media_model(self.policy.counter))
        added = sum(map(len, raws)) + parts * MESSAGE_OVERHEAD + media.tokens
        answers = sum(message.role == "assistant" for message in new)
        reading, limits = self.compactor.take_reading_with_limits(complete, answers=answers)
        return limits.get_need(reading.tokens + int(reading.slope * added))

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
        with self.lock:
            before = self.view
            host_list = self.write(
                lambda: self._host.sync(messages, is_floor_ignored=True, run=call.run, times=times, append=append)
            )
            self._try_to_keep(lambda: self._cursor.keep_overhead(call.floor))
        self.compactor.sync_archive(before)
        complete = self.build_call(window=call.window, floor=call.floor)
        check = replace(complete, demand="check", output_reserve=call.output_reserve, recall=call.recall, run=call.run)
        if check.window is None and self.policy.auto:
            self._report_unknown_window(check)
        return host_list, check if self.is_check_due(check, has_run_end_check=has_run_end_check) else None

    def _report_unknown_window(self, call: Call) -> None:
        """Keeps the Outcome of a check that cannot be made. Listeners and the log are told once for each model."""
        with self.lock:
            reading, known, self._told_model = self.compactor.take_reading(call), self._told_model, self.model
        reason = (
            f"{self.compactor.explain_unknown_window()}, so {reading.tokens:,} tokens cannot be held against it, and "
            "nothing is compacted: name a window (window=200_000), or a model whose window is known"
        )
        outcome = Outcome("nothing", reason, reading.tokens, reading.tokens, 0, policy=self.policy.name)
        outcome = replace(outcome, reading_before=reading, reading_after=reading)
        self.compactor.keep_outcome(outcome)
        if known != self.model:
            self.answerer.notify(CompactionSkip(self.address.session, outcome, self.stamps.now()))
            self.answerer.report_problem(reason)

    def is_check_due(self, call: Call, *, has_run_end_check: bool = False) -> bool:
        """Tells whether to check now: at the policy's check points, and wherever the hard limit may be exceeded."""
        points = {"before_call", find_check_point(self.view.path)}
        if "user_message" in points and not has_run_end_check:  # a user message means that the run before it has ended
            points.add("end_of_run")
        if call.window is None or not points.isdisjoint(self.policy.checks):
            return call.window is not None
        return self.compactor.can_overflow(call)

    def build_request(
        self, request: Mapping[str, Any], host_request: HostRequest, host_list: HostList
    ) -> dict[str, Any]:
        """Does the second half of `before_model`: returns the request with the view in place of its list.

        A history that the provider accepts unchanged is sent in its own order, even where the view has moved tool
        results next to their calls. A list of messages as JSON bytes stays one.
        """
        messages, wire = self.get_messages_to_send(host_list), host_request.wire
        if host_request.lacks_summaries:
            messages = refresh_messages(self.view.get_visible_messages(), host_list)
        is_kept = not self.view.state.live_blocks and self._host.is_whole_history(host_list)
        if messages is None or (is_kept and can_send_unchanged(host_list.messages, self.view, wire)):
            value = request[host_request.field]
            return {**request, host_request.field: value if isinstance(value, Sequence) else host_request.items}
        encoded = self._host.encode(messages, WIRES[wire])
        if set(map(type, host_request.items)) == {bytes}:
            self._last_sent = [item.raw for item in encoded.items]
            return with_items(host_request, encoded, self._last_sent)
        before = host_list.count - host_request.history.message_count
        places = {at - before for at in host_list.find_visible(self.view)}
        return with_messages(host_request, encoded, places)

    def get_messages_to_send(self, host_list: HostList) -> list[Message] | None:
        """Returns the messages to send: the view, with the host's newest version of each untouched message.

        Returns None if the host's list is the view already.
        """
        return self._host.get_messages_to_send(host_list)

    def is_own_summary(self, block: str, seal: str, is_whole: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - see `SummaryConfirmer`
        """Tells whether this session wrote the summary that carries this mark, also where it is a part of a message."""
        address = self.address
        return is_stored_summary(address.store, address.namespace, block, seal, session=address.session)

    # -- compacting ----------------------------------------------------------------------------------------------------

    def take_reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """Measures how many tokens the view takes, how reliable that number is, and out of which window.

        `floor` is the number of tokens sent besides the view. Without `window` the model's known window is used.
        """
        return self.compactor.take_reading(self.build_call(window=window, floor=floor))

    def get_provider_tokens(self, block: Block) -> tuple[int, int]:
        """Returns the size of the view before and after a Block as the provider counted it, by what was known then.

        Those of a Block that does not hold them are estimated, by what the provider's reports have taught so far.
        """
        if block.provider_tokens is not None:
            return block.provider_tokens
        reading = self.take_reading()
        return reading.convert_size(block.tokens_before), reading.convert_size(block.tokens_after)

    def build_call(self, *, to: Size | str | None = None, window: int | None = None, floor: int = 0) -> Call:
        """Builds a compaction call with this session's model, window and calibration filled in.

        With a target (`to`) it is a manual call, which no trigger holds back; without one it is an automatic check. A
        target is in tokens, or a share ("10%") of the whole path and the floor.
        Replace fields of the result for anything else.
        """
        return self.compactor.build_call(to=to, window=window, floor=floor)

    def compact(self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None) -> Outcome:
        """Compacts down to `to` (tokens, or a share as in "10%"), or, without it, when the policy's trigger fires.

        Raises `UsageError` when neither a target nor a window is known; every other failure is an Outcome.
        """
        call = self.compactor.validate_call(call or self.build_call(to=to, window=window))
        with self.compactor.lock:
            return self.compactor.run(call)

    def preview(
        self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None
    ) -> tuple[Decision, Plan | None]:
        """Returns what `compact` would decide and plan for the same arguments. Changes nothing and calls no model."""
        return self.compactor.preview(call or self.build_call(to=to, window=window))

    def undo(self) -> str:
        """Retracts the newest live Block and returns its id. Raises `UsageError` if there is none.

        Its batches leave the archive, and those of a text that stands again return to it.
        """
        before = self.view
        block = super().undo()
        self.compactor.sync_archive(before)
        return block

    def redo(self, block: str = "", request: RedoRequest = DEFAULT_REDO) -> Outcome:
        """Rewrites the summaries of the newest live Block from the originals, for instance with another model.

        `block`, if given, is the id of that Block or the beginning of it. The result is a new Block over the same
        ranges, so `undo` brings the earlier text back. Raises `UsageError` for any other Block, because newer Blocks
        build on it.
        """
        compactor = self.compactor
        with compactor.lock:
            effects, view = compactor.get_redo_effects(block, request)
            return compactor.apply_result(run_engine(effects, compactor.get_redo_answerer()), view)

    def move_to(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """See `Conversation.move_to`. What was being prepared for the old branch is dropped."""
        before = self.view
        is_moved = super().move_to(path, entries, expected=expected)
        if is_moved:
            self.compactor.drop_preparation()
            self.compactor.sync_archive(before)
        return is_moved
