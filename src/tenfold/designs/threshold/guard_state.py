"""What the design keeps in a host's state dictionary, under its published keys: written after each hook, and read back.

The log has all of it. The dictionary is for hosts whose store does not outlive the process. Under one key of our own
(`StoredLog`) it holds all that the log has beside messages: its Blocks, its fruitless attempts, when the summary model
was last asked, and what the provider's reports have taught. The host sends all messages again, so a new session goes on
as the old one would. From a dictionary without that key, or for another list, it takes the summary and the newest
report, instead of beginning with the whole conversation and no idea of its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.model_breaker import MODEL_RUNGS
from tenfold.compaction.summarize.visible_text import get_narrative
from tenfold.core.meter.estimators import decode_calibration, encode_calibration, expire_reports
from tenfold.core.record.ask import Answer
from tenfold.core.record.block import Block, BlockPart
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.record.entry import Attempt, CustomEntry, Entry, MessageEntry, Retraction, Usage, get_message
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.view.fold import View
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.threshold.host_objects import Context
from tenfold.session import Session
from tenfold.session.requests import read_request

_STATE_KEYS = {
    "summary": "__context_guard_summary_",
    "summarized_at": "__context_guard_summarized_at_",
    "contents_at_compaction": "__context_guard_contents_at_compaction_",
    "real_tokens": "__context_guard_real_tokens_",
    "last_heuristic": "__context_guard_last_heuristic_",
}
_LOG_KEY = "__context_guard_log_"


class GuardState(Struct, frozen=True):
    """What the design stores in a host's state dictionary. Here it is derived from the log.

    `summarized_at` is the size before the newest summary, by the counter, and `contents_at_compaction` the number of
    messages that it covers. `real_tokens` is the provider's report for the last request, 0 if there is none since the
    newest summary. `last_heuristic` is our own count of the last request as it was sent.
    """

    summary: str = ""
    summarized_at: int = 0
    contents_at_compaction: int = 0
    real_tokens: int = 0
    last_heuristic: int = 0


def get_state(session: Session) -> GuardState:
    """Derives the current state from a session."""
    view = session.view
    state = GuardState(
        real_tokens=_find_real_tokens(session),
        last_heuristic=session.take_reading(floor=session.conversation.sent_overhead).estimate if view.length else 0,
    )
    blocks = (view.path.get_block(position) for position in reversed(view.state.live_blocks))
    # Where nothing could be summarized, a newer Block shows long messages shortened.
    block = next((b for b in blocks if any(r.kind == "summary" for r in b.replacements)), None)
    if block is None:
        return state
    texts = (
        extract_summary_text(t.text)
        for m in view.get_messages()
        for t in m.parts
        if m.origin == "tenfold" and isinstance(t, Text)
    )
    summary = next((text for text in texts if text is not None), "")
    last_covered = max(r.last for r in block.replacements if r.kind == "summary")
    return replace(
        state,
        summary=get_narrative(summary, session.policy.summary),
        summarized_at=block.tokens_before,
        contents_at_compaction=sum(1 for e in view.path.get_entries(0, last_covered) if get_message(e) is not None),
    )


def _find_real_tokens(session: Session) -> int:
    if session.conversation.pending_usage is not None:
        return session.conversation.pending_usage.prompt
    row = session.conversation.calibration.find_model(session.compactor.model, session.policy.counter.name)
    return row.last_reported if row is not None and row.fresh else 0


def export_state(session: Session, agent: str) -> dict[str, str | int]:
    """Exports the state under the published keys, and the log under our own, each with the agent's name behind it."""
    state = get_state(session)
    published = {key + agent: getattr(state, name) for name, key in _STATE_KEYS.items()}
    return {**published, _LOG_KEY + agent: export_log(session)}


def load_state(state: Any, agent: str) -> GuardState:  # noqa: ANN401 - a dictionary, or what a framework has
    """Loads the state from a host's dictionary. Numbers may be floats, as JSON can make them."""
    found = {name: state.get(key + agent) for name, key in _STATE_KEYS.items()}
    values = {name: value for name, value in found.items() if value is not None}
    numbers = {name: int(value) for name, value in values.items() if name != "summary"}
    return msgspec.convert({**numbers, "summary": str(values.get("summary", ""))}, GuardState)


def restore_stored_log(session: Session, context: Context, request: Mapping[str, Any], _window: int) -> None:
    """Brings a session without entries to where the log in the host's state was, if it holds one for this list."""
    text = context.state.get(_LOG_KEY + context.agent)
    if text:
        read = read_request(request)
        session.compactor.use_model(read.model or session.compactor.model)
        restore_log(session, str(text), read.messages)


def restore_session(session: Session, context: Context, request: Mapping[str, Any], window: int) -> None:
    """Brings a session without entries to where the published keys of the host's state say that an earlier one was.

    The messages that the stored summary covers are appended and shown as that summary, without asking a model. The
    stored report is filed with the newest answer, for whose request it was. A list that begins with a summary already
    needs none.
    """
    state = load_state(context.state, context.agent)
    if not state.summary and not state.real_tokens:
        return
    read = read_request(request)
    messages, covered = read.messages, state.contents_at_compaction
    session.compactor.use_model(read.model or session.compactor.model)
    first = next((m for m in messages if m.role != "system"), None)
    if not state.summary or covered > len(messages) or first is None or first.origin == "harness":
        covered = 0
    if covered > 0:
        session.sync(messages[:covered])
        _show_summary(session, state.summary, window)
    answer = _find_last_answer(messages)
    if state.real_tokens > 0 and answer >= max(covered, 1):
        session.sync(messages[:answer])
        overhead = Counted(sum(session.policy.counter.count(list(read.overhead_texts))) if read.overhead_texts else 0)
        usage = Usage(ProviderTokens(state.real_tokens), model=session.compactor.model, overhead=overhead)
        session.requests.record_usage(usage)


def _find_last_answer(messages: list[Message]) -> int:
    return next((at for at in reversed(range(len(messages))) if messages[at].role == "assistant"), -1)


def _show_summary(session: Session, summary: str, window: int) -> None:
    """Compacts what the session holds, with a text that is there already."""
    answerer = session.compactor.answerer
    session.compactor.use_answerer(replace(answerer, before_hooks=(lambda _: Answer(text=summary),)))
    try:
        session.compact(replace(session.compactor.build_call(window=window), demand="manual"))
    finally:
        session.compactor.use_answerer(answerer)


_LEFT_OUT = "left-out"
"""The kind of an entry that stands in the place of one that a stored log leaves out."""


class StoredLog(Struct, frozen=True):
    """A path of `length` entries without its messages.

    `entries` holds the encoded entries by their positions, and `left_out` are the positions of those that nothing
    depends on any more. `calibration` is encoded as in a snapshot. `usage` is the report whose answer is not there yet.
    """

    length: int
    entries: dict[int, bytes]
    left_out: tuple[int, ...]
    calibration: bytes
    usage: Usage | None = None

    @property
    def message_count(self) -> int:
        """How many messages there are on the path."""
        return self.length - len(self.entries) - len(self.left_out)


def export_log(session: Session) -> str:
    """Exports what a session knows beside its messages as JSON."""
    view = session.view
    path = enumerate(view.path.get_entries(0, view.length - 1) if view.length else ())
    others = {at: entry for at, entry in path if not isinstance(entry, MessageEntry)}
    kept = _find_kept(view, others)
    entries = {at: encode_entry(_with_all_facts(view, at, others[at])) for at in others if at in kept}
    left_out = tuple(at for at in others if at not in kept)
    calibration = encode_calibration(session.conversation.calibration)
    stored = StoredLog(view.length, entries, left_out, calibration, session.conversation.pending_usage)
    return msgspec.json.encode(stored).decode()


def _find_kept(view: View, others: Mapping[int, Entry]) -> set[int]:
    """Finds the entries to keep: of Blocks and attempts the newest in force, and all since a model was last of use."""
    kept = {at for at, e in others.items() if not isinstance(e, Block | Attempt | Retraction) and not _is_stand_in(e)}
    kept |= {*view.state.live_blocks[-1:], *view.state.attempts}
    for at, entry in reversed(list(others.items())):
        if isinstance(entry, Block | Attempt) and entry.spent.calls:
            kept.add(at)
            if isinstance(entry, Block) and entry.rung in MODEL_RUNGS:
                break
    blocks = {others[at].id for at in kept}
    return kept | {at for at, e in others.items() if isinstance(e, Retraction) and e.block in {"", *blocks}}


def _with_all_facts(view: View, at: int, entry: Entry) -> Entry:
    """Returns a Block with the facts of those before it too, which may be left out."""
    if not isinstance(entry, Block) or at not in view.state.live_blocks:
        return entry
    return replace(entry, facts=view.list_block_facts(at), ended_facts=None)


def _is_stand_in(entry: Entry) -> bool:
    return isinstance(entry, CustomEntry) and entry.kind == _LEFT_OUT


def restore_log(session: Session, text: str, messages: Sequence[Message]) -> bool:
    """Restores a log in a session without entries. `messages` is the host's whole list.

    Returns False where the list does not begin with that log's messages. Of the log, only what the provider's reports
    have taught is then of use. Raises `msgspec.MsgspecError` or `RecordError` for a text that is no export of a log.
    """
    stored = msgspec.json.decode(text, type=StoredLog)
    calibration = decode_calibration(stored.calibration)
    first = next((m for m in messages if m.role != "system"), None)
    if first is None or first.origin == "harness" or stored.message_count > len(messages):
        session.conversation.use_calibration(expire_reports(calibration))
        return False
    for count, entry in list(_list_entries(stored)):
        session.sync(messages[:count])
        if entry is None:
            session.conversation.append_custom(_LEFT_OUT, b"{}")
        else:
            session.conversation.append_result(_with_known_ranges(session, entry, stored))
    session.sync(messages[: stored.message_count])
    session.conversation.use_calibration(calibration)
    if stored.usage is not None:
        session.requests.record_usage(stored.usage)
    return True


def _list_entries(stored: StoredLog) -> Iterator[tuple[int, Entry | None]]:
    """Yields the entries in order, None for one that was left out, each with the number of messages before it."""
    for number, at in enumerate(sorted((*stored.entries, *stored.left_out))):
        body = stored.entries.get(at)
        yield at - number, None if body is None else decode_entry(body)


def _with_known_ranges(session: Session, entry: Entry, stored: StoredLog) -> Entry:
    """Returns a Block that covers the messages themselves where it covered a Block that was left out."""
    if not isinstance(entry, Block):
        return entry
    left_out = set(stored.left_out)
    replacements = []
    for each in entry.replacements:
        is_gone = any(isinstance(ref, BlockPart) and ref.block in left_out for ref in each.covered_ranges)
        known = session.view.get_slice(each.first, each.last) if is_gone else None
        replacements.append(replace(each, covered_ranges=known or each.covered_ranges))
    return replace(entry, replacements=tuple(replacements), previous_block=session.conversation.find_newest_block_id())
