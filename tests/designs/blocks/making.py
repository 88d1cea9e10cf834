"""Conversations of several loops for the tests of the preset `blocks`, counted by characters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, Text, get_text
from tenfold.designs.blocks import (
    BlockCompactionStrategy,
    CompactionBlock,
    CompactionConfig,
    ContextConfig,
    LoopRecord,
    blocks,
    build_policy,
    get_loop_records,
)
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import (
    COUNTER,
    FILLER,
    make_call,
    make_reply,
    make_result,
    make_system_message,
    make_user_message,
)

__all__ = ["COUNTER", "FILLER", "make_call", "make_reply", "make_result", "make_system_message", "make_user_message"]
Given = Any
"""What the methods of a block strategy are given: record, turns, configuration, whether it is the current loop."""


def make_turn(number: int, *, lines: int = 20, text: str = "") -> list[Message]:
    """A step that reads a file: an answer with a call, and its result of so many lines."""
    told = text or f"I look at part {number}."
    body = "\n".join(f"{line} of part {number}: {FILLER}" for line in range(lines))
    return [
        make_call(f"c{number}", "read", f'{{"path": "src/part{number}.py"}}', told),
        make_result(f"c{number}", body),
    ]


def make_loop(turns: int, *, start: int = 0, ask: str = "", lines: int = 20) -> list[Message]:
    """A run: a request and so many steps."""
    request = make_user_message(ask or f"Go over the parts from {start} on.")
    return [request, *(m for n in range(start, start + turns) for m in make_turn(n, lines=lines))]


def make_session(
    runs: Sequence[Sequence[Message]], using: Policy | None = None, *, answerer: Answerer | None = None, model: str = ""
) -> Session:
    """A session with these runs, named run-1, run-2 and so on."""
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), using or blocks(COUNTER), model=model, answerer=answerer
    )
    for number, messages in enumerate(runs, start=1):
        session.append(*messages, run=f"run-{number}")
    return session


def get_newest_block(session: Session) -> Block:
    """The newest Block in force."""
    made = session.view.path.get_entry(session.view.state.live_blocks[-1])
    assert isinstance(made, Block)
    return made


def compact_to(session: Session, tenths: int) -> Outcome:
    """A compaction to so many tenths of the view, which must come about."""
    outcome = session.compact(to=count_view_tokens(session) * tenths // 10)
    assert outcome.status == "compacted", outcome.reason
    return outcome


def get_loop_block(session: Session, loop: int = 0) -> CompactionBlock:
    """The block of a loop."""
    made = get_loop_records(session)[loop].compaction_block
    assert made is not None
    return made


def get_ranges(block: CompactionBlock) -> list[tuple[int, int] | None]:
    """The turns of the three sections."""
    compacted, recent = block.keep_compacted, block.keep_recent
    ranges = (block.keep_first, compacted.range if compacted else None, recent.range if recent else None)
    return [(r.start_turn, r.end_turn) if r else None for r in ranges]


def get_compacted_lines(block: CompactionBlock) -> list[str]:
    """The lines of the compacted section."""
    texts = map(get_text, block.keep_compacted.messages) if block.keep_compacted else ()
    return [text for text in texts if text.startswith("[Summary] ")]


def get_texts(messages: Sequence[Message]) -> list[str]:
    """The first text of each message."""
    return [next((getattr(p, "text", "") for p in m.parts if getattr(p, "text", "")), "") for m in messages]


def get_view_text(session: Session) -> str:
    """All text in view."""
    return "\n".join(map(get_text, session.view.get_messages()))


def make_line(text: str) -> Message:
    """A message as a strategy writes it."""
    return Message("user", (Text(text),), "tenfold")


def count_tokens(messages: Sequence[Message]) -> int:
    """Tokens of a list."""
    return sum(measure_messages(messages, COUNTER))


def count_view_tokens(session: Session) -> int:
    """Tokens of the view."""
    return sum(session.conversation.get_message_sizes().values())


def with_strategy(strategy: BlockCompactionStrategy, config: CompactionConfig | None = None) -> Policy:
    """The preset with a strategy of one's own."""
    own = replace(config or CompactionConfig(), block_strategy=strategy)
    return build_policy(ContextConfig(compaction=own), COUNTER)


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


class HookRecorder:
    """The two hooks of the design, one of them a coroutine, and a sender. `heard` is what they were given, in order."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def record_before(self, tokens: int, messages: int) -> bool:
        self.heard.append(("before", tokens, messages))
        return True

    async def record_after(self, *figures: int) -> None:
        await asyncio.sleep(0)
        self.heard.append(("after", *figures))


FULL = [make_user_message("go"), *(make_reply(f"note {n}: {FILLER * 20}") for n in range(180))]


DEFAULT = ContextConfig(token_counter=COUNTER)


class Halves:
    """Keeps the later half."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        return list(messages[len(messages) // 2 :])


class Raises:
    """Has no result."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        raise RuntimeError(f"no room for {len(messages)} in {config.max_context_tokens}")
