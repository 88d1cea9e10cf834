"""The orchestration of the design behind the preset `blocks`: records, scope, context and compaction of a session.

No state is kept here. A `LoopRecord` is built from the log, and its block from the live Blocks. The context is the
session's view, which is also what is measured and sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.compact import build_draft
from tenfold.compaction.engine.fit import build_goal
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import Draft, Goal
from tenfold.compaction.plan.stages.overlay import (
    BEYOND_SCOPE,
    CUT_OUTPUTS,
    OverlayStage,
    RunPieces,
    count_runs_in_scope,
    find_run_starts,
    find_runs,
    measure_compacted,
)
from tenfold.compaction.summarize.visible_text import is_shown_again
from tenfold.compaction.trigger.limits import DEFAULT_WINDOW, check_window
from tenfold.config.settings import suggest_nearest
from tenfold.core.meter.counters import Counter
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.units import Unit, VisibleMessage, get_step_messages, scan_entries
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.blocks.compaction_config import (
    CompactionConfig,
    CompactionScope,
    ContextConfig,
    FixedCount,
    SectionStrategy,
    TokenBudget,
    to_scope,
)
from tenfold.designs.blocks.policy import OVERLAY
from tenfold.designs.blocks.strategy import (
    STRATEGY_CUT,
    StrategyStage,
    build_policy,
    derive_config,
    find_overlay,
    use_strategy,
)
from tenfold.designs.blocks.turn_records import (
    CompactedSection,
    CompactionBlock,
    LoopRecord,
    TurnMessage,
    TurnRange,
    assign_turns,
)
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.session import Session

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
    entries = view.path.get_entries(0, view.length - 1) if view.length else []
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


def walk_chain(loops: Sequence[LoopRecord], current_loop_id: str) -> tuple[LoopRecord, ...]:
    """Returns the loops from the root to the current one, following parents; siblings are left out.

    Raises `BadInput` if the parents form a cycle, and `NotFoundError` for an unknown loop id.
    """
    by_id = {loop.loop_id: loop for loop in loops}
    out: list[LoopRecord] = []
    at: str | None = current_loop_id
    while at is not None:
        if at not in by_id:
            raise NotFoundError(f"no loop has the id {at!r}{suggest_nearest(at, by_id)}")
        if any(loop.loop_id == at for loop in out):
            raise BadInput(f"the loop {at!r} is its own ancestor: {' <- '.join(loop.loop_id for loop in out)}")
        out.append(by_id[at])
        at = by_id[at].parent_loop_id
    return tuple(reversed(out))


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
        created_at=datetime.fromtimestamp(block.time / 1_000_000, UTC),
    )


def _get_turns(unit: Unit, turns: dict[int, int], default: int = 0) -> list[int]:
    """Returns the turns of a unit's messages, or `[default]` for a unit without messages of the loop."""
    return [turns[p] for p in range(unit.first, unit.last + 1) if p in turns] or [default]


def _get_kind(view: View, unit: Unit) -> str:
    return view.get_replacement(unit.block_part).kind if unit.block_part is not None else ""


def find_violations(loops: Sequence[LoopRecord]) -> list[str]:
    """Lists the design's invariants that the blocks of a chain break, oldest loop first.

    The loops with a block are neighbours: those before are older than the scope, those behind came after the
    compaction. The sections of a loop cover its turns without a gap.
    """
    out: list[str] = []
    having = [number for number, loop in enumerate(loops) if loop.compaction_block is not None]
    for number, loop in enumerate(loops):
        block = loop.compaction_block
        if block is None:
            if having and having[0] < number < having[-1]:
                out.append(f"{loop.loop_id}: no block, though an earlier and a later loop have one")
            continue
        count = max((m.turn_id.turn_index for m in loop.messages if m.turn_id is not None), default=-1) + 1
        compacted, recent = block.keep_compacted, block.keep_recent
        ranges = [r for r in (block.keep_first, compacted and compacted.range, recent and recent.range) if r]
        ends, starts = [-1, *(r.end_turn for r in ranges)], [*(r.start_turn for r in ranges), count]
        if any(end + 1 < start for end, start in zip(ends, starts, strict=True)):
            out.append(f"{loop.loop_id}: turns in no section")
        if number < len(loops) - 1 and (block.keep_first or recent):
            out.append(f"{loop.loop_id}: an earlier loop with a first or recent section")
        if any(r.end_turn >= count for r in ranges):
            out.append(f"{loop.loop_id}: a section beyond its {count} turns")
        if any(a.end_turn >= b.start_turn for a, b in pairwise(ranges)):
            out.append(f"{loop.loop_id}: sections that overlap")
    return out


# -- scope and context -------------------------------------------------------------------------------------------------


def resolve_scope(session: Session, chain: Sequence[str], scope: CompactionScope, max_context_tokens: int) -> int:
    """Counts the earlier loops in scope. `chain` holds loop ids, the current one last; unknown ids are not counted.

    For a token budget each loop counts with what it takes compacted, starting with the current one. So a loop is in
    scope if what stands for it fits, however large its messages are. Loops that a Block has hidden are never in scope.
    Raises `UsageError` for a window below 1.
    """
    return _count_in_scope(session, chain, scope, max_context_tokens, session.policy)


def _count_in_scope(session: Session, chain: Sequence[str], scope: CompactionScope, window: int, policy: Policy) -> int:
    """Counts the earlier loops in scope where they are compacted by this policy: see `resolve_scope`."""
    check_window(window)
    loops = {loop.loop_id: loop for loop in find_loops(session.view)}
    known = [loops[loop] for loop in chain if loop in loops]
    draft, goal = _start_plan(session, window, policy)
    runs = find_runs(draft)
    hidden_end = _find_hidden_end(session.view)
    shown = [loop for loop in known if loop.positions[0] > hidden_end]
    if not shown:
        return 0
    overlay = find_overlay(policy)
    overlay_run = _find_overlay_stages(policy)[0].overlay_run

    def measure_loop(number: int) -> int:
        own = [run for run in runs if _find_owner(shown, draft, run) == shown[-1 - number].loop_id]
        return sum(measure_compacted(draft, goal, run, overlay.max_summary_tokens, overlay_run) for run in own)

    return count_runs_in_scope(to_scope(scope), len(shown) - 1, window=window, measure_run=measure_loop)


def _start_plan(session: Session, window: int, policy: Policy) -> tuple[Draft, Goal]:
    """Returns the view as a draft that changes nothing, and the goal of an automatic check in a window."""
    call = session.compactor.build_call(window=window)
    draft = build_draft(session.view, policy, call, session.conversation.get_measures())
    limits = policy.get_limits(window, floor=session.take_reading(window=window).floor)
    return draft, build_goal(draft, policy, limits.target, recall=call.recall, window=window)


def _find_owner(loops: Sequence[LoopPositions], draft: Draft, run: RunPieces) -> str:
    """Returns the id of the loop that a run of a draft begins in, "" for one of none of these loops."""
    first, last = draft.pieces[run.first].first, draft.pieces[run.last - 1].last
    return next((loop.loop_id for loop in loops if any(first <= p <= last for p in loop.positions)), "")


def _find_overlay_stages(policy: Policy) -> tuple[OverlayStage | StrategyStage, ...]:
    """Returns the stages of a policy that overlay loops, with the preset's own where the policy has none."""
    found = tuple(stage for stage in policy.stages if isinstance(stage, OverlayStage | StrategyStage))
    return found or (OVERLAY,)


def count_loop_tokens(session: Session) -> dict[str, int]:
    """Counts the tokens that each loop takes in view. The keys are loop ids."""
    view = session.view
    weights = session.conversation.get_message_sizes()
    owners = {p: loop.loop_id for loop in find_loops(view) for p in loop.positions}
    tokens = dict.fromkeys(owners.values(), 0)
    for unit in view.units:
        owner = next((owners[p] for p in range(unit.first, unit.last + 1) if p in owners), None)
        if owner is not None:
            tokens[owner] += sum(weights[s.key] for s in unit.visible_messages)
    if view.open_step is not None:
        closed = {s.key for u in view.units for s in u.visible_messages}
        tokens[owners[view.open_step.first]] += sum(size for key, size in weights.items() if key not in closed)
    return tokens


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
        policy = build_policy(ContextConfig(compaction=config), policy.counter, summary=policy.summary)
    own = find_overlay(policy).scope
    scope = TokenBudget() if own == "token_budget" else FixedCount(own)
    window = _choose_window(session, max_context_tokens)
    many = _count_in_scope(session, [loop.loop_id for loop in chain], scope, window, policy)
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
    strategy: SectionStrategy | None = None,
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
    if config is not None or not any(isinstance(stage, OverlayStage | StrategyStage) for stage in own.stages):
        context = ContextConfig(compaction=config or CompactionConfig())
        policy = build_policy(context, policy.counter, summary=own.summary)
    if strategy is not None:
        policy = use_strategy(policy, strategy, config or derive_config(policy))
    return _compact_now(session, policy, window)


def _compact_now(session: Session, policy: Policy, window: int) -> Outcome:
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
        target = int((policy.get_limits(window, floor=reading.floor).target - reading.floor) / reading.slope)
        if reading.estimate <= target:
            other.compactor.use_policy(replace(policy, stages=_find_overlay_stages(policy)))
            target = reading.estimate - 1
        call = other.compactor.build_call(to=max(1, target), window=window)
        outcome = other.compact(replace(call, run=_find_newest_run(session.view)))
        session.refresh()
    return outcome


def _find_newest_run(view: View) -> str:
    """Returns the run id of the last message on the path, "" if it has none."""
    messages = (view.path.get_entry(p) for p in range(view.length - 1, -1, -1))
    return next((entry.run for entry in messages if get_message(entry) is not None), "")


def count_compacted_loops(session: Session, outcome: Outcome) -> int:
    """Counts the loops whose view the Block of this Outcome changed; 0 if nothing was appended."""
    view = session.view
    block = next(
        (b for p in reversed(view.state.live_blocks) if (b := view.path.get_entry(p)).id == outcome.block), None
    )
    if not isinstance(block, Block):
        return 0
    ranges = [(r.first, r.last) for r in block.replacements if not is_shown_again(view, r)]
    return sum(any(a <= p <= z for p in loop.positions for a, z in ranges) for loop in find_loops(view))


def compact_context(session: Session | None, config: ContextConfig | None) -> int:
    """Compacts a session on request and returns how many loops changed; 0 without a session or a configuration.

    The window is the configuration's unless that is the default, else the policy's or the model's, else 100,000.
    """
    if session is None or config is None or not find_loops(session.view):
        return 0
    window = _choose_window(session, config.named_window)
    policy = build_policy(config, session.policy.counter, summary=session.policy.summary)
    return count_compacted_loops(session, _compact_now(session, policy, window))
