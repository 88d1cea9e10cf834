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

from tenfold.config.policy import Policy
from tenfold.config.settings import suggest_nearest
from tenfold.designs.blocks.strategy import with_strategy
from tenfold.designs.blocks.turn_records import (
    BlockCompactionStrategy,
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    CompactionScope,
    CompactionStrategy,
    ContextConfig,
    LoopRecord,
    TurnMessage,
    TurnRange,
    assign_turns,
    to_scope,
)
from tenfold.engine.call import Call
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.meter.counters import Counter, choose_counter, measure_messages
from tenfold.plan.stages.overlay import CUT_OUTPUTS, count_runs_in_scope, find_run_starts
from tenfold.record.ask import Outcome
from tenfold.record.block import Block
from tenfold.record.entry import get_message
from tenfold.record.message import Message
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS
from tenfold.store.sqlite import SqliteStore
from tenfold.summarize.visible_text import is_shown_again
from tenfold.view.fold import View
from tenfold.view.units import Unit, get_step_messages, scan_entries

# -- lists -------------------------------------------------------------------------------------------------------------


def compact_messages(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    """Shortens a list to at most `max_context_tokens` - `system_prompt_tokens`, in three levels.

    A list that fits is returned unchanged. Otherwise tool outputs are cut; if that is not enough, each earlier step
    becomes one line; then the middle is dropped. A facts section keeps what must not be lost.
    """
    policy = config.build_policy(choose_counter(None).counter)
    budget = max(0, config.max_context_tokens - config.system_prompt_tokens)
    if sum(measure_messages(messages, policy.counter)) <= budget:
        return list(messages)
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), IDS.generate()), replace(policy, stages=policy.in_memory_stages)
    )
    session.append(*messages)
    session.compact(to=max(1, budget))
    return session.view.get_messages()


class DefaultCompaction(Struct, frozen=True):
    """The design's own strategy for lists that belong to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        """Calls `compact_messages`."""
        return compact_messages(messages, config)


def compact_in_memory(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    """Compacts a list that belongs to no session, with the configured in-memory strategy or the design's own."""
    strategy: CompactionStrategy = config.compaction.in_memory_strategy or DefaultCompaction()
    return list(strategy.compact(messages, config))


# -- records -----------------------------------------------------------------------------------------------------------


class LoopPositions(Struct, frozen=True):
    """A loop on a path: its id and the positions of its messages."""

    loop_id: str
    positions: tuple[int, ...]


def find_loops(view: View) -> tuple[LoopPositions, ...]:
    """Finds the loops of the path, oldest first, by run id. Without run ids each exchange is one, numbered from 1."""
    entries = view.path.get_entries(0, view.length - 1) if view.length else []
    units, step = scan_entries(enumerate(entries), None)
    firsts = [unit.first for unit in units] + ([step.first] if step is not None else [])
    starts = find_run_starts((p, entries[p]) for p in firsts)
    ends = [*(position for _, position in starts[1:]), view.length][: len(starts)]
    out: list[LoopPositions] = []
    for number, ((run, _), end) in enumerate(zip(starts, ends, strict=True)):
        begin = starts[number][1] if number else 0
        positions = tuple(p for p in range(begin, end) if get_message(entries[p]) is not None)
        out.append(LoopPositions(run or f"exchange-{number + 1}", positions))
    return tuple(out)


def get_loop_records(session: Session) -> tuple[LoopRecord, ...]:
    """Returns the loops of the session's path, oldest first, with their original messages and compaction blocks."""
    view = session.view
    out: list[LoopRecord] = []
    loops = find_loops(view)
    for number, loop in enumerate(loops):
        originals = [m for p in loop.positions if (m := get_message(view.path.get_entry(p))) is not None]
        messages = assign_turns(originals, loop.loop_id)
        parent = loops[number - 1].loop_id if number else None
        block = _build_block(view, loop, messages, latest=number == len(loops) - 1)
        out.append(LoopRecord(loop.loop_id, messages, parent, block))
    return tuple(out)


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
    """Builds the design's three sections from the live Blocks; None for a loop that no Block has changed."""
    turn = {p: m.turn_id.turn_index for p, m in zip(loop.positions, messages, strict=True) if m.turn_id is not None}
    count = max(turn.values(), default=-1) + 1
    units = [u for u in view.units if u.first <= loop.positions[-1] and u.last >= loop.positions[0]]
    replaced = [u for u in units if u.block_part is not None]
    if not replaced or not count:
        return None
    newest = max(u.block_part.block for u in replaced if u.block_part is not None)
    block = view.path.get_entry(newest)
    when = datetime.fromtimestamp(block.time / 1_000_000, UTC) if block.time is not None else None
    inner = [n for u in replaced if _get_kind(view, u) != CUT_OUTPUTS for n in _get_turns(u, turn)]
    low, high = (min(inner), max(inner)) if inner and latest else (0, count - 1)

    def build_section(first: int, last: int) -> CompactedSection:
        own = [u for u in units if first <= _get_turns(u, turn, first)[0] <= last and u.first >= loop.positions[0]]
        return CompactedSection(TurnRange(first, last), tuple(s.message for u in own for s in u.visible_messages))

    return CompactionBlock(
        keep_first=TurnRange(0, low - 1) if low else None,
        keep_compacted=build_section(low, high),
        keep_recent=build_section(high + 1, count - 1) if high < count - 1 else None,
        created_at=when,
    )


def _get_turns(unit: Unit, turns: dict[int, int], default: int = 0) -> list[int]:
    """Returns the turns of a unit's messages, or `[default]` for a unit without messages of the loop."""
    return [turns[p] for p in range(unit.first, unit.last + 1) if p in turns] or [default]


def _get_kind(view: View, unit: Unit) -> str:
    return view.get_replacement(unit.block_part).kind if unit.block_part is not None else ""


def find_violations(loops: Sequence[LoopRecord]) -> list[str]:
    """Lists the design's invariants that the blocks of a chain break, oldest loop first."""
    out: list[str] = []
    for number, loop in enumerate(loops):
        block = loop.compaction_block
        if block is None:
            continue
        count = max((m.turn_id.turn_index for m in loop.messages if m.turn_id is not None), default=-1) + 1
        compacted, recent = block.keep_compacted, block.keep_recent
        ranges = [r for r in (block.keep_first, compacted and compacted.range, recent and recent.range) if r]
        if compacted is None and (block.keep_first or recent):
            out.append(f"{loop.loop_id}: a first or recent section without a compacted one")
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

    For a token budget each loop counts with its size in view, starting with the current one. So a compacted loop counts
    with its compacted size, however large its originals are. Raises `UsageError` for a window below 1.
    """
    if max_context_tokens < 1:
        raise UsageError(f"max_context_tokens is {max_context_tokens}; give the model's context window")
    tokens = count_loop_tokens(session)
    known = [loop for loop in chain if loop in tokens]
    current = tokens[known[-1]] if known else 0
    earlier = [tokens[loop] for loop in known[:-1]]
    return count_runs_in_scope(to_scope(scope), earlier, current=current, window=max_context_tokens)


def count_loop_tokens(session: Session) -> dict[str, int]:
    """Counts the tokens that each loop takes in view. The keys are loop ids."""
    view = session.view
    weights = session.get_message_sizes()
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


def build_context_from_session(session: Session, current_loop_id: str) -> list[Message]:
    """Returns the messages of the view up to the end of a loop. The same view is measured and sent.

    Raises `NotFoundError` for a loop that is not on the path.
    """
    last = _find_loop(session, current_loop_id).positions[-1]
    view = session.view
    shown = [s for unit in view.units if unit.first <= last for s in unit.visible_messages]
    if view.open_step is not None and view.open_step.first <= last:
        shown += get_step_messages(view.open_step, closing=False)
    return [s.message for s in shown]


def _find_loop(session: Session, loop_id: str) -> LoopPositions:
    loops = find_loops(session.view)
    found = next((loop for loop in loops if loop.loop_id == loop_id), None)
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
    *,
    max_context_tokens: int | None = None,
    counter: Counter | None = None,
) -> Outcome:
    """Compacts the current loop and the earlier ones in scope, whatever the trigger says. It appends one Block.

    The window is the argument, else the model's, else 100,000. The strategy is the argument, else the configured one,
    else the preset's own. Raises `NotFoundError` for an unknown loop and `UsageError` for one that is not the current
    one.
    """
    last = find_loops(session.view)[-1:]
    if _find_loop(session, current_loop_id) != last[0]:
        raise UsageError(f"{current_loop_id!r} is not the current loop: that is {last[0].loop_id!r}; fork to go back")
    config = config or CompactionConfig()
    window = max_context_tokens if max_context_tokens is not None else session.build_call().window
    context = ContextConfig(compaction=config, token_counter=counter)
    context = context if window is None else replace(context, max_context_tokens=window)
    policy = build_policy(context, session.policy, strategy)
    return _compact_with(
        session, policy, replace(session.build_call(window=context.max_context_tokens), demand="manual")
    )


def build_policy(config: ContextConfig, base: Policy, strategy: BlockCompactionStrategy | None = None) -> Policy:
    """Builds the policy of a configuration. It writes summaries with the summary settings of `base`."""
    chosen = strategy or config.compaction.block_strategy
    counter = config.token_counter or base.counter
    if chosen is not None:
        return with_strategy(chosen, counter, config=config, summary=base.summary)
    return config.build_policy(counter, summary=base.summary)


def _compact_with(session: Session, policy: Policy, call: Call) -> Outcome:
    other = Session(session.address, policy, model=session.model, answerer=session.answerer, archive=session.archive)
    outcome = other.compact(call)
    session.refresh()
    return outcome


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
    """Compacts a session on request and returns how many loops changed; 0 without a session or a configuration."""
    if session is None or config is None or not find_loops(session.view):
        return 0
    policy = build_policy(config, session.policy)
    window = session.build_call().window or config.max_context_tokens
    outcome = _compact_with(session, policy, replace(session.build_call(window=window), demand="manual"))
    return count_compacted_loops(session, outcome)
