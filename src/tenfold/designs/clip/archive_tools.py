"""The two tools of the design behind the preset `clip`: one makes room, the other reads what was put away."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.token_reading import Counted, Reading
from tenfold.core.view.fold import View
from tenfold.core.wire import parse_value, to_json_bytes
from tenfold.core.wire.marks import get_summary_text
from tenfold.designs.clip.archive import BatchMemory, call_archive
from tenfold.designs.clip.batches import list_fresh_batches
from tenfold.designs.clip.compaction_records import count_content_tokens
from tenfold.designs.clip.fold_stage import FoldStage
from tenfold.session import Session
from tenfold.session.concurrency import wait_for_result

FAILURES = ("failed", "unsatisfiable", "superseded")
"""The statuses of an Outcome that the design calls a failure."""


NOTHING = "nothing to compress"
"""The reason where only recent messages follow the archive. It may go on."""


def explain_nothing(session: Session, *, window: int) -> str:
    """Says why nothing is to be compressed, "" where something is.

    A view above the policy's target is always compacted. One within it is not, where all messages after the archive are
    recent, or where what stands before these is too short.
    """
    reading = session.take_reading(window=window)
    if reading.estimate > _get_target(session, reading, window):
        return ""
    stages = session.policy.stages
    most = next((stage.keep_recent_messages for stage in stages if isinstance(stage, FoldStage)), 0)
    units = session.view.units
    since = next((i for i in range(len(units), 0, -1) if units[i - 1].block_part is not None), 0)
    shown = [s.message for unit in units[since:] for s in unit.visible_messages]
    after = [m for m in shown if m.role != "system" and get_summary_text(m) is None]
    in_units = sum(len(unit.visible_messages) for unit in units)
    open_count = len(list(session.view.get_visible_messages())) - in_units
    if len(after) + open_count <= most:
        return NOTHING
    plan = session.preview(build_full_call(session, window=window))[1]
    if plan is None or not plan.changed_pieces:
        return ""
    end = takewhile(lambda piece: not piece.is_changed, reversed(plan.draft.pieces))
    staying = sum(len(piece.get_visible_messages()) for piece in end) + open_count
    too_short = f"{NOTHING}: what stands before the last {most} messages is shorter than a summary"
    return "" if staying >= most else too_short


def _get_target(session: Session, reading: Reading, window: int) -> Counted:
    return reading.to_counted(session.policy.get_limits(window, floor=reading.floor).target)


def build_full_call(session: Session, *, window: int | None) -> Call:
    """Builds the call that compacts whatever the budget: down to the policy's target, or by a token if that is reached.

    Raises `UsageError` if no window is known.
    """
    call = session.compactor.validate_call(session.compactor.build_call(window=window))
    assert call.window is not None
    reading = session.take_reading(window=call.window)
    target = min(_get_target(session, reading, call.window), reading.estimate - 1)
    return session.compactor.build_call(to=max(Counted(1), target), window=call.window)


class CompactContextTool:
    """The tool `compact_context` of a session. Without a session it answers that compaction is not configured."""

    name = "compact_context"
    description = "Summarise the older part of this conversation to make room. Takes no parameters."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}

    def __init__(self, session: Session | None = None, *, window: int | None = None) -> None:
        """`window` is the model's, in tokens, if the session does not know it."""
        self._session, self._window = session, window

    def handle(self, arguments: Mapping[str, Any] | None = None) -> str:  # noqa: ARG002 - it takes none
        """Compacts whatever the budget, and returns the four counters as JSON. The next request sends the new view.

        `reason` is there if no batch was made, since nothing was compacted or another policy compacted, and `failed` if
        that is a failure. An error is part of the answer, not raised.
        """
        if self._session is None:
            answer: dict[str, object] = {"success": False, "output": "Compaction not configured"}
        else:
            try:
                answer = self._compact(self._session)
            except Exception as exc:  # noqa: BLE001 - the store may be a user's code, and the agent goes on
                answer = {"success": False, "output": f"{type(exc).__name__}: {exc}"}
        return msgspec.json.encode(answer).decode()

    def _compact(self, session: Session) -> dict[str, object]:
        before = session.view
        call = replace(build_full_call(session, window=self._window), demand="tool")
        assert call.window is not None
        nothing = explain_nothing(session, window=call.window)
        outcome = None if nothing else session.compact(call)
        is_compacted = outcome is not None and outcome.status == "compacted"
        block = session.view.find_newest_block() if is_compacted else None
        fresh = list_fresh_batches(block) if block else []
        counters = {
            "messagesCompressed": len(_find_originals(before) - _find_originals(session.view)) if is_compacted else 0,
            "batchesCreated": len(fresh),
            "tokensEstimateBefore": count_content_tokens(before.get_messages()),
            "tokensEstimateAfter": count_content_tokens(session.view.get_messages()),
        }
        failed = {"failed": True} if outcome and outcome.status in FAILURES else {}
        reason = outcome.reason if outcome else nothing
        if is_compacted:
            reason = "" if fresh else f"compacted by the policy {session.policy.name}, which makes no batches"
        return {**counters, **failed, **({"reason": reason} if reason else {})}


def _find_originals(view: View) -> set[int]:
    """Finds the messages of the log that a view shows as they are, by their positions."""
    return {shown.position for shown in view.get_visible_messages() if shown.is_original}


class MemoryReadTool:
    """The tool `memory_read`, which the archive's omission line names. It searches batches or reads one by its id."""

    name = "memory_read"
    description = "Read archived summaries of earlier parts of this conversation that hold the given words."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words that occur, a question, or a summary's id or label."}
        },
        "required": ["query"],
    }

    def __init__(self, archive: BatchMemory, *, limit: int = 5) -> None:
        """`archive` is a user's own, or `get_memory` of a session. `limit` is the most batches that are returned."""
        self._archive, self._limit = archive, limit

    def handle(self, arguments: object = None, *, query: object = None) -> str:
        """Returns the matching batches, each with id, label and header. A failure is part of the text, not raised.

        `arguments` are those of the call, as a mapping or as the JSON text that a model wrote; or give the `query`.
        """
        if isinstance(arguments, str | bytes):
            arguments = parse_value(to_json_bytes(arguments))
        if isinstance(arguments, Mapping):
            query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "memory_read needs the argument 'query', a string: words that occur, a question, or a summary's id"
        reply = call_archive(lambda: self._render_records(query.strip()))
        if reply.problem:
            return f"memory_read could not read the archive: {reply.problem}"
        return str(reply.value) or f"no archived summary holds {query!r}"

    def _render_records(self, query: str) -> str:
        record: Any = wait_for_result(self._archive.read(query))
        found: Any = [record] if record is not None else wait_for_result(self._archive.search(query, limit=self._limit))
        return "\n\n".join(f"{each.id} {each.label}\n{each.content}" for each in found)
