"""The compactor of the design behind the preset `clip`.

    createCompactor(config, model=...) -> Compactor.compress(history, conversation_id) -> CompactionResult

Names follow Python's spelling. Those that the design exports can also be imported in the design's spelling, and its
records encode to JSON with its field names. Each conversation is a session: `compress` syncs the history with it,
compacts, and returns the list to continue with. The log keeps everything, so the next call may pass the raw history or
the compacted one, also to a compactor on another store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from tenfold.compaction.engine.compact import build_draft, collect_history
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.trigger.limits import check_window
from tenfold.core.record.block import Batch
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire import DEFAULT_WIRE, get_wire
from tenfold.core.wire.marks import find_summary_mark, get_summary_text
from tenfold.designs.clip.archive import BatchArchive, BatchMemory, get_memory
from tenfold.designs.clip.archive_tools import FAILURES, build_full_call, explain_nothing
from tenfold.designs.clip.batch_writer import BatchWriter
from tenfold.designs.clip.batches import list_fresh_batches, parse_stored_batch, select_stored_batches
from tenfold.designs.clip.compaction_records import (
    DEFAULT_WINDOW,
    CompactionConfig,
    CompactionResult,
    SummaryBatch,
    count_content_tokens,
)
from tenfold.errors import UsageError
from tenfold.models.model import Model
from tenfold.models.retry import RetryRule
from tenfold.session import Session, SessionAddress
from tenfold.session.concurrency import wait_for_result
from tenfold.session.conversation import Stamps
from tenfold.session.drive import Answerer
from tenfold.session.requests import HostRequest, drop_opening_stub, read_request, read_times
from tenfold.session.stateless import is_whole_summary
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Compactor:
    """Compresses conversations, each a session in one store. Use `create_compactor` to make one."""

    def __init__(
        self,
        config: CompactionConfig,
        answerer: Answerer,
        store: Store,
        *,
        archive: BatchMemory | None = None,
        window: int = DEFAULT_WINDOW,
        wire: str = "",
    ) -> None:
        """Sets up the compactor; see `create_compactor`."""
        self.config, self.store, self.archive, self.window, self.wire = config, store, archive, window, wire
        self._answerer = answerer
        self._policy = config.build_policy()
        self._keeper = BatchArchive(archive) if archive is not None else None

    def get_session(self, conversation_id: str) -> Session:
        """Opens the conversation's session, for its log, view, search, expand and undo.

        Each call opens it from the store, so a server keeps none open. Raises `UsageError` for what is no name.
        """
        _check_name(conversation_id)
        address = SessionAddress(self.store, conversation_id)
        stamps = Stamps(message_time=lambda: None)  # a list does not say when its messages were written
        return Session.create(address, self._policy, answerer=self._answerer, archive=self._keeper, stamps=stamps)

    def list_batches(self, conversation_id: str) -> list[SummaryBatch]:
        """Lists the conversation's batches that stand, oldest first.

        Where its log has none yet, they are those of the archive, from their headers.
        """
        session = self.get_session(conversation_id)
        refs = [unit.block_part for unit in session.view.units if unit.block_part is not None]
        standing = [batch for ref in refs for _, batch in session.view.path.list_top_batches(ref.block)]
        return [SummaryBatch.from_batch(b) for b in standing or select_stored_batches(self._find_restored(session))]

    def compress(
        self, history: Sequence[Any], conversation_id: str = "", *, times: Sequence[datetime | None] = ()
    ) -> CompactionResult:
        """Folds all but the recent messages into batches, whatever the budget. Never raises: failures are reported.

        `times` says when each item of the history was written, None where nobody knows. Without it the items' own
        times count, and batches of items that carry none say `unknown`. An archive at the head of the history, of this
        design or of an earlier compactor, is set aside and folded.
        """
        before = 0
        try:
            session = self.get_session(conversation_id)
            field = get_wire(self.wire or DEFAULT_WIRE).profile.request.list_field
            request = {field: list(history)}
            parsed = read_request(request, confirm=is_whole_summary, wire=self.wire, thorough=True)
            messages, known_times = _read_messages(session, parsed, times)
            session.compactor.use_policy(self._get_policy(parsed.wire, self._find_restored(session)))
            host_list, _ = session.requests.sync_and_check(
                messages, session.compactor.build_call(window=self.window), times=known_times
            )
            before = count_content_tokens(parsed.messages)

            def build_unchanged_result(reason: str) -> CompactionResult:
                """Returns the list that was passed in, or the view if the raw list was compressed earlier."""
                view = session.requests.build_request(request, parsed, host_list)[field]
                same = view is request[field]
                after = before if same else count_content_tokens(session.view.get_messages())
                return CompactionResult(history if same else view, 0, 0, before, after, reason=reason)

            nothing = explain_nothing(session, window=self.window)
            if nothing:
                return build_unchanged_result(nothing)
            reason = self._get_skip_reason(session)
            if reason:
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=reason)
            outcome = session.compact(build_full_call(session, window=self.window))
            if outcome.status != "compacted":
                if outcome.status not in FAILURES:
                    return build_unchanged_result(outcome.reason)
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=outcome.reason)
            block = session.view.find_newest_block()
            fresh = list_fresh_batches(block) if block else []
            new = session.requests.build_request(request, parsed, host_list)[field]
            count = sum(b.count for b in fresh)
            return CompactionResult(new, len(fresh), count, before, count_content_tokens(session.view.get_messages()))
        except Exception as exc:  # noqa: BLE001 - published: it never throws, and the store may be a user's code
            return CompactionResult(history, 0, 0, before, before, failed=True, reason=f"{type(exc).__name__}: {exc}")

    async def acompress(
        self, history: Sequence[Any], conversation_id: str = "", *, times: Sequence[datetime | None] = ()
    ) -> CompactionResult:
        """Runs `compress` in a thread, so that the event loop is not blocked."""
        return await asyncio.to_thread(self.compress, history, conversation_id, times=times)

    def consecutive_failures(self, conversation_id: str) -> int:
        """Counts the failed passes since the last one that succeeded, from the log."""
        return _count_failures(self.get_session(conversation_id))

    def _find_restored(self, session: Session) -> tuple[Batch, ...]:
        """Finds all batches of a conversation that were made before its log was. There are none once it has its own."""
        if session.view.state.live_blocks or self.archive is None:
            return ()
        conversation, own = session.address.session, get_memory(session)
        records: Any = wait_for_result(self.archive.list_records(conversation))
        found = [each for each in records if each.conversation == conversation and not own.has_made(each.id)]
        parsed = [(each, parse_stored_batch(each.content)) for each in found]
        cycle = max((batch.depth for _, batch in parsed), default=0) + 1  # the least that the headers prove
        return tuple(
            replace(batch, archive_id=each.id, serial=each.batch.serial, cycle=cycle) for each, batch in parsed
        )

    def _get_policy(self, wire: str, restored: tuple[Batch, ...]) -> Policy:
        """Returns the policy, with the archive as a user's message where system text does not stand in the list."""
        policy = self._policy
        if restored:
            policy = replace(policy, writer=replace(cast("BatchWriter", policy.writer), restored=restored))
        if get_wire(wire).profile.has_separate_system:
            policy = replace(policy, summary=replace(policy.summary, role="user"))
        return policy

    def _get_skip_reason(self, session: Session) -> str:
        failures = _count_failures(session)
        if failures < self.config.max_consecutive_failures:
            return ""
        call = session.compactor.build_call(window=self.window)
        draft = build_draft(session.view, self._policy, call, session.conversation.get_measures())
        growth = collect_history(draft, self._policy, call, session.compactor.take_reading(call)).growth or 0
        minimum = self._policy.get_minimum_growth(self.window)
        if growth >= minimum:
            return ""
        return f"{failures} passes failed in a row; tried again once {minimum:,} tokens were added ({growth:,} so far)"


def _check_name(name: object) -> None:
    """Raises `UsageError` for what names no conversation."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"conversation_id is {name!r}: name the conversation with a text, as in 'support-17'")


def _count_failures(session: Session) -> int:
    path = session.view.path
    return sum(1 for at in session.view.state.attempts if getattr(path.get_entry(at), "status", "") == "failed")


def _read_messages(
    session: Session, parsed: HostRequest, times: Sequence[datetime | None]
) -> tuple[list[Message], list[int | None]]:
    """Returns the messages of a history and when each was written.

    A summary that the store does not know is taken for ours at the head only: what comes later may be a tool's output.
    """
    items = parsed.items
    if times and len(times) != len(items):
        raise UsageError(
            f"times has {len(times)} values for {len(items)} items: give one for each, None where it is not known"
        )
    ends = parsed.history.ends[: len(items)]
    given = zip(map(_convert_time, times), (0, *ends), ends, strict=False)
    all_times = [time for time, start, end in given for _ in range(end - start)]
    all_times = all_times or read_times(parsed.history.raws, ends)
    decoded = parsed.history.get_messages()
    messages = list(drop_opening_stub(decoded))
    if len(messages) < len(decoded):
        first = next(at for at, message in enumerate(decoded) if message.role != "system")
        del all_times[first]
    head = True
    for at, message in enumerate(messages):
        is_summary = message.origin == "tenfold" and get_summary_text(message) is not None
        head = head and (is_summary or message.role == "system")
        mark = find_summary_mark(get_text(message))
        if is_summary and not head and (mark is None or not session.requests.is_own_summary(*mark)):
            messages[at] = replace(message, origin="harness")
    return messages, all_times


def _convert_time(time: datetime | None) -> int | None:
    """Converts a time to microseconds UTC. Raises `UsageError` for one without a time zone."""
    if time is None:
        return None
    if getattr(time, "tzinfo", None) is None:
        raise UsageError(f"{time!r} is no time with a time zone: give datetime(..., tzinfo=UTC), or None")
    return (time - _EPOCH) // timedelta(microseconds=1)


def create_compactor(
    config: CompactionConfig | None = None,
    *,
    model: Model | None = None,
    store: Store | None = None,
    archive: BatchMemory | None = None,
    window: int = DEFAULT_WINDOW,
    wire: str = "",
) -> Compactor:
    """Creates a compactor. Without a `model` code writes the batches; without a `store` all is kept in memory.

    `archive` receives every batch, and a conversation that is new to the store begins with the batches it lists. `wire`
    names the format of the histories if it cannot be detected. Raises `UsageError` for a prompt with an unknown
    placeholder and for impossible sizes, and `UnknownFormat` for an unknown wire.
    """
    config = CompactionConfig() if config is None else config
    check_window(window)
    get_wire(wire or DEFAULT_WIRE)
    patience = RetryRule(first_pause=config.backoff_base_ms / 1_000)
    answerer = Answerer(model=model, retry_rule=patience)
    return Compactor(config, answerer, store or SqliteStore(":memory:"), archive=archive, window=window, wire=wire)
