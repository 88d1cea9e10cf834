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

from tenfold.designs.blocks_strategy import with_strategy
from tenfold.designs.blocks_values import (
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
    scope_of,
    turns_of,
)
from tenfold.engine import Call
from tenfold.errors import BadInput, NotFound, UsageError
from tenfold.log.ids import IDS
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Counter, counter_for, sizes
from tenfold.plan.stages.overlay import CUT, in_scope, run_starts
from tenfold.policy import Policy
from tenfold.record.ask import Outcome
from tenfold.record.block import Block
from tenfold.record.entry import message_of
from tenfold.record.message import Message
from tenfold.session import Place, Session
from tenfold.settings import nearest
from tenfold.summarize.fill import shown_again
from tenfold.view.units import Unit, scan, shown_of
from tenfold.view.view import View

# -- lists -------------------------------------------------------------------------------------------------------------


def compact_messages(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    """Shortens a list to at most `max_context_tokens` - `system_prompt_tokens`, in three levels.

    A list that fits is returned unchanged. Otherwise tool outputs are cut; if that is not enough, each earlier step
    becomes one line; then the middle is dropped. A facts section keeps what must not be lost.
    """
    policy = config.policy(counter_for(None).counter)
    budget = max(0, config.max_context_tokens - config.system_prompt_tokens)
    if sum(sizes(messages, policy.counter)) <= budget:
        return list(messages)
    session = Session.create(Place(MemoryStore(), IDS.new()), replace(policy, stages=policy.in_memory))
    session.append(*messages)
    session.compact(to=max(1, budget))
    return session.view.messages()


class DefaultCompaction(Struct, frozen=True):
    """The design's own strategy for lists that belong to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        """Calls `compact_messages`."""
        return compact_messages(messages, config)


def compacted_list(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    """Compacts a list that belongs to no session, with the configured in-memory strategy or the design's own."""
    strategy: CompactionStrategy = config.compaction.in_memory_strategy or DefaultCompaction()
    return list(strategy.compact(messages, config))


# -- records -----------------------------------------------------------------------------------------------------------


class Stretch(Struct, frozen=True):
    """A loop on a path: its id and the positions of its messages."""

    loop_id: str
    positions: tuple[int, ...]


def stretches(view: View) -> tuple[Stretch, ...]:
    """Finds the loops of the path, oldest first, by run id. Without run ids each exchange is one, numbered from 1."""
    entries = view.path.span(0, view.length - 1) if view.length else []
    units, step = scan(enumerate(entries), None)
    firsts = [unit.first for unit in units] + ([step.first] if step is not None else [])
    starts = run_starts((p, entries[p]) for p in firsts)
    ends = [*(position for _, position in starts[1:]), view.length][: len(starts)]
    out: list[Stretch] = []
    for number, ((run, _), end) in enumerate(zip(starts, ends, strict=True)):
        begin = starts[number][1] if number else 0
        positions = tuple(p for p in range(begin, end) if message_of(entries[p]) is not None)
        out.append(Stretch(run or f"exchange-{number + 1}", positions))
    return tuple(out)


def records(session: Session) -> tuple[LoopRecord, ...]:
    """Returns the loops of the session's path, oldest first, with their original messages and compaction blocks."""
    view = session.view
    out: list[LoopRecord] = []
    loops = stretches(view)
    for number, loop in enumerate(loops):
        originals = [m for p in loop.positions if (m := message_of(view.path.at(p))) is not None]
        messages = turns_of(originals, loop.loop_id)
        parent = loops[number - 1].loop_id if number else None
        block = _block_of(view, loop, messages, latest=number == len(loops) - 1)
        out.append(LoopRecord(loop.loop_id, messages, parent, block))
    return tuple(out)


def chain(loops: Sequence[LoopRecord], current_loop_id: str) -> tuple[LoopRecord, ...]:
    """Returns the loops from the root to the current one, following parents; siblings are left out.

    Raises `BadInput` if the parents form a cycle, and `NotFound` for an unknown loop id.
    """
    by_id = {loop.loop_id: loop for loop in loops}
    out: list[LoopRecord] = []
    at: str | None = current_loop_id
    while at is not None:
        if at not in by_id:
            raise NotFound(f"no loop has the id {at!r}{nearest(at, by_id)}")
        if any(loop.loop_id == at for loop in out):
            raise BadInput(f"the loop {at!r} is its own ancestor: {' <- '.join(loop.loop_id for loop in out)}")
        out.append(by_id[at])
        at = by_id[at].parent_loop_id
    return tuple(reversed(out))


def _block_of(view: View, loop: Stretch, messages: Sequence[TurnMessage], *, latest: bool) -> CompactionBlock | None:
    """Builds the design's three sections from the live Blocks; None for a loop that no Block has changed."""
    turn = {p: m.turn_id.turn_index for p, m in zip(loop.positions, messages, strict=True) if m.turn_id is not None}
    count = max(turn.values(), default=-1) + 1
    units = [u for u in view.units if u.first <= loop.positions[-1] and u.last >= loop.positions[0]]
    replaced = [u for u in units if u.ref is not None]
    if not replaced or not count:
        return None
    newest = max(u.ref.block for u in replaced if u.ref is not None)
    block = view.path.at(newest)
    when = datetime.fromtimestamp(block.time / 1_000_000, UTC) if block.time is not None else None
    inner = [n for u in replaced if _kind(view, u) != CUT for n in _turns(u, turn)]
    low, high = (min(inner), max(inner)) if inner and latest else (0, count - 1)

    def section(first: int, last: int) -> CompactedSection:
        own = [u for u in units if first <= _turns(u, turn, first)[0] <= last and u.first >= loop.positions[0]]
        return CompactedSection(TurnRange(first, last), tuple(s.message for u in own for s in u.shown))

    return CompactionBlock(
        keep_first=TurnRange(0, low - 1) if low else None,
        keep_compacted=section(low, high),
        keep_recent=section(high + 1, count - 1) if high < count - 1 else None,
        created_at=when,
    )


def _turns(unit: Unit, turn: dict[int, int], missing: int = 0) -> list[int]:
    """Returns the turns of a unit's messages, or `[default]` for a unit without messages of the loop."""
    return [turn[p] for p in range(unit.first, unit.last + 1) if p in turn] or [missing]


def _kind(view: View, unit: Unit) -> str:
    block = view.path.at(unit.ref.block) if unit.ref is not None else None
    return block.replacements[unit.ref.index].kind if isinstance(block, Block) and unit.ref is not None else ""


def violations(loops: Sequence[LoopRecord]) -> list[str]:
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
    tokens = sizes_in_view(session)
    known = [loop for loop in chain if loop in tokens]
    current = tokens[known[-1]] if known else 0
    earlier = [tokens[loop] for loop in known[:-1]]
    return in_scope(scope_of(scope), earlier, current=current, window=max_context_tokens)


def sizes_in_view(session: Session) -> dict[str, int]:
    """Counts the tokens that each loop takes in view. The keys are loop ids."""
    view = session.view
    weights = session.sizes()
    owners = {p: loop.loop_id for loop in stretches(view) for p in loop.positions}
    tokens = dict.fromkeys(owners.values(), 0)
    for unit in view.units:
        owner = next((owners[p] for p in range(unit.first, unit.last + 1) if p in owners), None)
        if owner is not None:
            tokens[owner] += sum(weights[s.key] for s in unit.shown)
    if view.step is not None:
        closed = {s.key for u in view.units for s in u.shown}
        tokens[owners[view.step.first]] += sum(size for key, size in weights.items() if key not in closed)
    return tokens


def build_context_from_session(session: Session, current_loop_id: str) -> list[Message]:
    """Returns the messages of the view up to the end of a loop. The same view is measured and sent.

    Raises `NotFound` for a loop that is not on the path.
    """
    last = _loop(session, current_loop_id).positions[-1]
    view = session.view
    shown = [s for unit in view.units if unit.first <= last for s in unit.shown]
    if view.step is not None and view.step.first <= last:
        shown += shown_of(view.step, closing=False)
    return [s.message for s in shown]


def _loop(session: Session, loop_id: str) -> Stretch:
    loops = stretches(session.view)
    found = next((loop for loop in loops if loop.loop_id == loop_id), None)
    if found is None:
        raise NotFound(f"no loop on this path has the id {loop_id!r}{nearest(loop_id, [s.loop_id for s in loops])}")
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
    else the preset's own. Raises `NotFound` for an unknown loop and `UsageError` for one that is not the current one.
    """
    last = stretches(session.view)[-1:]
    if _loop(session, current_loop_id) != last[0]:
        raise UsageError(f"{current_loop_id!r} is not the current loop: that is {last[0].loop_id!r}; fork to go back")
    config = config or CompactionConfig()
    window = max_context_tokens if max_context_tokens is not None else session.call().window
    context = ContextConfig(compaction=config, token_counter=counter)
    context = context if window is None else replace(context, max_context_tokens=window)
    policy = policy_of(context, session.policy, strategy)
    return _carried(session, policy, replace(session.call(window=context.max_context_tokens), demand="manual"))


def policy_of(config: ContextConfig, base: Policy, strategy: BlockCompactionStrategy | None = None) -> Policy:
    """Builds the policy of a configuration. It writes summaries with the summary settings of `base`."""
    chosen = strategy or config.compaction.block_strategy
    counter = config.token_counter or base.counter
    if chosen is not None:
        return with_strategy(chosen, counter, config=config, summary=base.summary)
    return config.policy(counter, summary=base.summary)


def _carried(session: Session, policy: Policy, call: Call) -> Outcome:
    other = Session(session.place, policy, model=session.model, answerer=session.answerer, archive=session.archive)
    outcome = other.compact(call)
    session.refresh()
    return outcome


def loops_compacted(session: Session, outcome: Outcome) -> int:
    """Counts the loops whose view the Block of this Outcome changed; 0 if nothing was appended."""
    view = session.view
    block = next((b for p in reversed(view.marks.live) if (b := view.path.at(p)).id == outcome.block), None)
    if not isinstance(block, Block):
        return 0
    ranges = [(r.first, r.last) for r in block.replacements if not shown_again(view, r)]
    return sum(any(a <= p <= z for p in loop.positions for a, z in ranges) for loop in stretches(view))


def compact_context(session: Session | None, config: ContextConfig | None) -> int:
    """Compacts a session on request and returns how many loops changed; 0 without a session or a configuration."""
    if session is None or config is None or not stretches(session.view):
        return 0
    policy = policy_of(config, session.policy)
    window = session.call().window or config.max_context_tokens
    outcome = _carried(session, policy, replace(session.call(window=window), demand="manual"))
    return loops_compacted(session, outcome)
