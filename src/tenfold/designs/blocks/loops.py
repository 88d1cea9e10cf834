"""The orchestration of the design behind the preset `blocks`: records, scope, context and compaction of a session.

No state is kept here. A `LoopRecord` is built from the log, and its block from the live Blocks. The context is the
session's view, which is also what is measured and sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.compact import build_draft
from tenfold.compaction.engine.fit import build_goal
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import Draft, Goal
from tenfold.compaction.summarize.visible_text import is_shown_again
from tenfold.compaction.trigger.limits import check_window
from tenfold.core.meter.counters import Counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.units import Unit, VisibleMessage, get_step_messages, scan_entries
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.blocks.config import (
    DEFAULT_WINDOW,
    BlockCompactionStrategy,
    CompactionConfig,
    CompactionScope,
    ContextConfig,
)
from tenfold.designs.blocks.policy import build_policy, find_overlay, use_strategy
from tenfold.designs.blocks.stages import BEYOND_SCOPE, CUT_OUTPUTS, OverlayStage, RunPieces, find_run_starts, find_runs
from tenfold.designs.blocks.strategy import STRATEGY_CUT
from tenfold.designs.blocks.turns import (
    CompactedSection,
    CompactionBlock,
    LoopRecord,
    TurnMessage,
    TurnRange,
    assign_turns,
)
from tenfold.errors import NotFoundError, UsageError, suggest_nearest
from tenfold.session import Session
from tenfold.store.ids import convert_time

# -- records -----------------------------------------------------------------------------------------------------------


class LoopPositions(Struct, frozen=True):
    """A loop on a path: its id, the positions of its messages, and their run id, "" if they have none."""

    loop_id: str
    positions: tuple[int, ...]
    run: str = ""


def find_loops(view: View) -> tuple[LoopPositions, ...]:
    """Finds the loops of the path, oldest first, by run id. Without run ids each exchange is one, numbered from 1.

    A run that goes on after another one is a loop of its own then, and its id has a number: "main", "main (2)".
    """
    entries = view.path.get_entries(0, view.length - 1)
    units, step = scan_entries(enumerate(entries), None)
    firsts = [unit.first for unit in units] + ([step.first] if step is not None else [])
    starts = find_run_starts((p, entries[p]) for p in firsts)
    ends = [*(position for _, position in starts[1:]), view.length][: len(starts)]
    out: list[LoopPositions] = []
    stretches: dict[str, int] = {}
    for number, ((run, _), end) in enumerate(zip(starts, ends, strict=True)):
        begin = starts[number][1] if number else 0
        positions = tuple(p for p in range(begin, end) if get_message(entries[p]) is not None)
        stretches[run] = stretches.get(run, 0) + 1
        name = f"{run} ({stretches[run]})" if stretches[run] > 1 else run
        out.append(LoopPositions(name if run else f"exchange-{number + 1}", positions, run))
    return tuple(out)


def get_loop_records(session: Session) -> tuple[LoopRecord, ...]:
    """Returns the loops of the session's path, oldest first, with their original messages and compaction blocks.

    A loop that is older than the scope of a compaction has no block: nothing is shown in its place.
    """
    view = session.view
    out: list[LoopRecord] = []
    loops = find_loops(view)
    hidden_end = _find_hidden_end(view)
    for number, loop in enumerate(loops):
        originals = [m for p in loop.positions if (m := get_message(view.path.get_entry(p))) is not None]
        messages = assign_turns(originals, loop.loop_id)
        parent = loops[number - 1].loop_id if number else None
        in_scope = loop.positions[0] > hidden_end
        block = _build_block(view, loop, messages, latest=number == len(loops) - 1) if in_scope else None
        out.append(LoopRecord(loop.loop_id, messages, parent, block))
    return tuple(out)


def _find_hidden_end(view: View) -> int:
    """Returns the last position that a Block hides because its loop is older than the scope, -1 if there is none."""
    return max((unit.last for unit in view.units if _get_kind(view, unit) == BEYOND_SCOPE), default=-1)


def _build_block(
    view: View, loop: LoopPositions, messages: Sequence[TurnMessage], *, latest: bool
) -> CompactionBlock | None:
    """Builds the design's three sections from the live Blocks; None if neither this loop nor a later one is changed.

    A loop without changes before a compacted one is shown as it is by its compacted section.
    """
    turn = {p: m.turn_id.turn_index for p, m in zip(loop.positions, messages, strict=True) if m.turn_id is not None}
    count = max(turn.values(), default=-1) + 1
    later = [u for u in view.units if u.last >= loop.positions[0]]
    units = [u for u in later if u.first <= loop.positions[-1]]
    replaced = [u for u in units if u.block_part is not None]
    made = [u.block_part.block for u in replaced or later if u.block_part is not None]
    if not made or not count:
        return None
    block = view.path.get_entry(max(made))
    assert isinstance(block, Block), "only Blocks replace units"
    inner = [n for u in replaced if _get_kind(view, u) not in (CUT_OUTPUTS, STRATEGY_CUT) for n in _get_turns(u, turn)]
    if not latest:
        low, high = 0, count - 1
    elif inner:
        low, high = min(inner), max(inner)
    else:  # nothing is compacted: the recent turns begin where an output is cut
        low = min(n for u in replaced for n in _get_turns(u, turn))
        high = low - 1

    def build_section(first: int, last: int) -> CompactedSection:
        own = [u for u in units if first <= _get_turns(u, turn, first)[0] <= last and u.first >= loop.positions[0]]
        return CompactedSection(TurnRange(first, last), tuple(s.message for u in own for s in u.visible_messages))

    return CompactionBlock(
        keep_first=TurnRange(0, low - 1) if low else None,
        keep_compacted=build_section(low, high) if low <= high else None,
        keep_recent=build_section(high + 1, count - 1) if high < count - 1 else None,
        created_at=convert_time(block.time),
    )


def _get_turns(unit: Unit, turns: dict[int, int], default: int = 0) -> list[int]:
    """Returns the turns of a unit's messages, or `[default]` for a unit without messages of the loop."""
    return [turns[p] for p in range(unit.first, unit.last + 1) if p in turns] or [default]


def _get_kind(view: View, unit: Unit) -> str:
    return view.get_replacement(unit.block_part).kind if unit.block_part is not None else ""


# -- scope and context -------------------------------------------------------------------------------------------------


def resolve_scope(session: Session, chain: Sequence[str], scope: CompactionScope, max_context_tokens: int) -> int:
    """Counts the earlier loops in scope. `chain` holds loop ids, the current one last; unknown ids are not counted.

    For a token budget each loop counts with what it takes compacted, starting with the current one. So a loop is in
    scope if what stands for it fits, however large its messages are. Loops that a Block has hidden are never in scope.
    Raises `UsageError` for a window below 1.
    """
    check_window(max_context_tokens)
    overlay = find_overlay(session.policy)
    overlay = replace(overlay, config=replace(overlay.config, compaction_scope=scope))
    return _count_in_scope(session, chain, overlay, max_context_tokens, session.policy)


def _count_in_scope(session: Session, chain: Sequence[str], overlay: OverlayStage, window: int, policy: Policy) -> int:
    """Counts the earlier loops in scope where they are compacted by this overlay: see `resolve_scope`."""
    hidden_end = _find_hidden_end(session.view)
    loops = {loop.loop_id: loop for loop in find_loops(session.view) if loop.positions[0] > hidden_end}
    shown = [loops[loop] for loop in chain if loop in loops]
    if not shown:
        return 0
    draft, goal = _start_plan(session, window, policy)
    owners = [(run, _find_owner(shown, draft, run)) for run in find_runs(draft)]
    runs = [[run for run, owner in owners if owner == loop.loop_id] for loop in shown]
    return overlay.count_in_scope(runs, draft, goal, window)


def _start_plan(session: Session, window: int, policy: Policy) -> tuple[Draft, Goal]:
    """Returns the view as a draft that changes nothing, and the goal of an automatic check in a window."""
    call = session.compactor.build_call(window=window)
    draft = build_draft(session.view, policy, call, session.conversation.get_measures())
    reading = session.take_reading(window=window)
    target = reading.to_counted(policy.get_limits(window, floor=reading.floor).target)
    return replace(draft, reading=reading), build_goal(draft, policy, target, recall=call.recall, window=window)


def _find_owner(loops: Sequence[LoopPositions], draft: Draft, run: RunPieces) -> str:
    """Returns the id of the loop that a run of a draft begins in, "" for one of none of these loops."""
    first, last = draft.pieces[run.first].first, draft.pieces[run.last - 1].last
    return next((loop.loop_id for loop in loops if any(first <= p <= last for p in loop.positions)), "")


def build_context_from_session(
    session: Session,
    current_loop_id: str,
    config: CompactionConfig | None = None,
    max_context_tokens: int | None = None,
) -> list[Message]:
    """Returns what is loaded for a loop: of the view, that loop and the earlier ones in scope.

    A loop that a Block has compacted is loaded as the Block shows it, any other with its own messages. System prompts,
    pinned messages and summaries are loaded whatever the scope is. Without `config`, the scope is that of the session's
    policy. The window is the argument, else the policy's or the model's, else 100,000. A request of
    `Session.before_model` holds the whole view: there, loops leave the scope at a compaction. Raises `NotFoundError`
    for a loop that is not on the path.
    """
    current = _find_loop(session, current_loop_id)
    view = session.view
    loops = find_loops(view)
    chain = loops[: loops.index(current) + 1]
    policy = session.policy
    if config is not None:
        policy = build_policy(config, policy.counter, summary=policy.summary)
    window = _choose_window(session, max_context_tokens)
    check_window(window)
    many = _count_in_scope(session, [loop.loop_id for loop in chain], find_overlay(policy), window, policy)
    first, last = chain[-1 - many].positions[0], current.positions[-1]
    shown = [s for unit in view.units if unit.first <= last for s in _load_unit(view, unit, first)]
    if view.open_step is not None and view.open_step.first <= last:
        shown += get_step_messages(view.open_step, closing=False)
    return [s.message for s in shown]


def _load_unit(view: View, unit: Unit, first: int) -> Sequence[VisibleMessage]:
    """Returns what is loaded of a unit where loading begins at `first`: of an older one, what no scope leaves out."""
    if unit.last >= first:
        return unit.visible_messages
    pinned = view.state.pins
    return [s for s in unit.visible_messages if _is_always_loaded(s) or s.position in pinned]


def _is_always_loaded(shown: VisibleMessage) -> bool:
    is_summary = shown.is_from_block and extract_summary_text(get_text(shown.message)) is not None
    return is_summary or (shown.is_original and shown.message.role == "system")


def _choose_window(session: Session, window: int | None) -> int:
    return window if window is not None else session.compactor.build_call().window or DEFAULT_WINDOW


def _find_loop(session: Session, loop_id: str) -> LoopPositions:
    """Returns the loop with this id, or the newest of the run with this id."""
    loops = find_loops(session.view)
    found = next((loop for loop in reversed(loops) if loop_id and loop_id in (loop.loop_id, loop.run)), None)
    if found is None:
        raise NotFoundError(
            f"no loop on this path has the id {loop_id!r}{suggest_nearest(loop_id, [s.loop_id for s in loops])}"
        )
    return found


# -- compaction --------------------------------------------------------------------------------------------------------


def compact_session_loops(
    session: Session,
    current_loop_id: str,
    strategy: BlockCompactionStrategy | None = None,
    config: CompactionConfig | None = None,
    max_context_tokens: int | None = None,
    *,
    counter: Counter | None = None,
) -> Outcome:
    """Compacts the current loop and the earlier ones in scope, whatever the trigger says. It appends one Block.

    The window is the argument, else the policy's or the model's, else 100,000. Without `config`, the session's policy
    says how to compact, if it is one of this design. The strategy is the argument, else the configured one, else the
    preset's own. `counter` is used in place of the policy's. The Outcome is `nothing` where the loops are as compact as
    they are to be. Raises `NotFoundError` for an unknown loop and `UsageError` for one that is not the current one.
    """
    last = find_loops(session.view)[-1:]
    if _find_loop(session, current_loop_id) != last[0]:
        raise UsageError(f"{current_loop_id!r} is not the current loop: that is {last[0].loop_id!r}; fork to go back")
    own, window = session.policy, _choose_window(session, max_context_tokens)
    policy = replace(own, counter=counter or own.counter)
    if config is not None or not any(isinstance(stage, OverlayStage) for stage in own.stages):
        policy = build_policy(config or CompactionConfig(), policy.counter, summary=own.summary)
    if strategy is not None:
        policy = use_strategy(policy, strategy)
    return _run_compaction(session, policy, window)


def compact_now(session: Session, config: ContextConfig) -> Outcome:
    """Compacts a session by a configuration, whatever the trigger says. For the window see `compact_context`."""
    policy = build_policy(config, session.policy.counter, summary=session.policy.summary)
    return _run_compaction(session, policy, _choose_window(session, config.named_window))


def _run_compaction(session: Session, policy: Policy, window: int) -> Outcome:
    """Compacts down to the target of the trigger; a view that is smaller by the overlay alone, as far as that goes."""
    with session.compactor.lock:
        other = Session(
            session.address,
            policy,
            model=session.compactor.model,
            answerer=session.compactor.answerer,
            archive=session.compactor.archive,
        )
        reading = other.take_reading(window=window)
        target = reading.to_counted(policy.get_limits(window, floor=reading.floor).target)
        if reading.estimate <= target:
            other.compactor.use_policy(replace(policy, stages=(find_overlay(policy),)))
            target = reading.estimate - 1
        call = other.compactor.build_call(to=max(1, target), window=window)
        outcome = other.compact(replace(call, run=find_loops(session.view)[-1].run))
        session.refresh()
    return outcome


def count_compacted_loops(session: Session, outcome: Outcome) -> int:
    """Counts the loops whose view the Block of this Outcome changed; 0 if nothing was appended."""
    view = session.view
    block = view.find_newest_block()
    if block is None or block.id != outcome.block:
        return 0
    ranges = [(r.first, r.last) for r in block.replacements if not is_shown_again(view, r)]
    return sum(any(a <= p <= z for p in loop.positions for a, z in ranges) for loop in find_loops(view))
