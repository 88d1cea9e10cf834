"""Strategies of the design behind the preset `blocks`: the design's own, and those of users.

`DefaultBlockCompaction` does section by section what the preset's stage `Overlay` does. `with_strategy` builds a policy
around a user's strategy. Its ranges become the plan; its compacted section becomes the summary, checked like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from msgspec import Struct
from msgspec.structs import replace

from tenfold.designs.blocks_asking import settled, settling
from tenfold.designs.blocks_values import (
    BlockCompactionStrategy,
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    ContextConfig,
    Given,
    LoopRecord,
    TurnMap,
    TurnRange,
    turns_of,
)
from tenfold.meter.counters import Counter, counter_for, sizes
from tenfold.plan.draft import Draft, Goal, Piece, as_show, start
from tenfold.plan.stages.lines import Told, fitted, step_line
from tenfold.plan.stages.overlay import (
    Loop,
    Overlay,
    Sections,
    across,
    cut_message,
    cut_outputs,
    lined,
    loops,
    sections,
    steps_of,
    written_over,
)
from tenfold.plugins import found
from tenfold.policy import Policy
from tenfold.record.block import Say, Spent
from tenfold.record.entry import message_of
from tenfold.record.message import Message, Text, calls_of, result_of, text_of
from tenfold.summarize.check import Expected, check, mend, source_of
from tenfold.summarize.ladder import Settings, Written
from tenfold.summarize.lines import Lines, lines_of, written_lines
from tenfold.summarize.summarize import clean
from tenfold.summarize.writer import Effect, Job
from tenfold.wire import takes_text


class DefaultBlockCompaction(Struct, frozen=True):
    """The design's own strategy. All numbers come from the configuration; `counter` counts the lines it writes."""

    counter: Counter = counter_for(None).counter

    def keep_first(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> TurnRange | None:  # noqa: ARG002 - the protocol's
        """Returns the first `keep_first_turns` turns, or all if there are fewer; None if there are none."""
        return _as_range(_parts(turn_map, config, latest=True).first)

    def keep_recent(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> CompactedSection | None:
        """Returns the last `keep_recent_turns` turns that `keep_first` leaves, with their tool outputs cut."""
        return self._cut(record, turn_map, config, _parts(turn_map, config, latest=True).recent)

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001 - the published signature
    ) -> CompactedSection | None:
        """Writes one line per turn between the two, or per turn of an earlier loop. User messages stay unchanged.

        All lines together take at most `max_summary_tokens`. Lines are shortened first; only then do turns share one.
        Returns None if there is no turn to write about.
        """
        covered = _as_range(_parts(turn_map, config, latest=is_most_recent).middle)
        if covered is None:
            return None
        messages = [m.message for m in turn_map.messages_for_range(covered, record.messages)]
        answers = [m for m in messages if m.role == "assistant"]

        def measure(lines: Sequence[str]) -> list[int]:
            return sizes([_said(line) for line in lines], self.counter)

        lines = fitted(
            [step_line(m) for m in answers], config.max_summary_tokens, measure, focus=config.focus_message or ""
        )
        starts: dict[int, str] = {}
        number = 0
        for each in lines:
            starts[number] = each.line
            number += each.count
        out: list[Message] = []
        number = 0
        for message in messages:
            if message.role == "assistant":
                out.extend([_said(starts[number])] if number in starts else [])
                number += 1
            elif message.origin != "tool":
                out.append(message)
        return CompactedSection(covered, tuple(out))

    def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: FBT001 - the published signature
        """Builds all sections. If no turn lies between first and recent, all turns go into the compacted section.

        So a block never has a first or recent section without a compacted one, and no turn is in two sections.
        """
        turn_map = TurnMap.from_messages(record.messages)
        compacted = self.keep_compacted(record, turn_map, config, is_most_recent)
        if not is_most_recent:
            return CompactionBlock(keep_compacted=compacted)
        first, recent = self.keep_first(record, turn_map, config), self.keep_recent(record, turn_map, config)
        if compacted is None:
            section = self._cut(record, turn_map, config, range(turn_map.turn_count()))
            return CompactionBlock(keep_compacted=section)
        return CompactionBlock(first, compacted, recent)

    def _cut(
        self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig, turns: range
    ) -> CompactedSection | None:
        covered = _as_range(turns)
        if covered is None:
            return None
        most = config.tool_output_max_lines
        messages = [m.message for m in turn_map.messages_for_range(covered, record.messages)]
        return CompactedSection(covered, tuple(cut_message(m, most) or m for m in messages))


def _said(line: str) -> Message:
    return Message("user", (Text(line),), "tenfold")


def _parts(turn_map: TurnMap, config: CompactionConfig, *, latest: bool) -> Sections:
    return sections(turn_map.turn_count(), config.keep_first_turns, config.keep_recent_turns, latest=latest)


def _as_range(turns: range) -> TurnRange | None:
    return TurnRange(turns.start, turns.stop - 1) if turns else None


# -- a user's own ------------------------------------------------------------------------------------------------------


def with_strategy(
    strategy: BlockCompactionStrategy,
    counter: Counter,
    *,
    config: ContextConfig | None = None,
    summary: Settings | None = None,
) -> Policy:
    """Builds the preset `blocks` with a user's strategy in place of the stage `Overlay`, for sessions.

    If the strategy does not reach the target, the preset's later stages run, as they do after its own overlay.
    """
    config = config or ContextConfig()
    base = config.policy(counter, summary=summary)
    overlay = next(stage for stage in base.stages if isinstance(stage, Overlay))
    own = Own(strategy, replace(config.compaction, block_strategy=None))
    stages = tuple(Laying(own, overlay) if stage is overlay else stage for stage in base.stages)
    return replace(base, stages=stages, writer=Telling(own))


def strategy_blocks(  # noqa: PLR0913 - the design's own settings, one each
    counter: Counter,
    *,
    block_strategy: str,
    summary: Settings | None = None,
    keep_first_turns: int = CompactionConfig().keep_first_turns,
    keep_recent_turns: int = CompactionConfig().keep_recent_turns,
    max_summary_tokens: int = CompactionConfig().max_summary_tokens,
    tool_output_max_lines: int = CompactionConfig().tool_output_max_lines,
    focus_message: str = "",
) -> Policy:
    """Does the same for a settings file: `policy = "tenfold.designs.blocks:build_strategy_policy"`.

    `block_strategy` names the strategy, as `package.module:name` or by its entry point in `tenfold.strategies`.
    """
    strategy = cast("BlockCompactionStrategy", found("strategies", block_strategy))
    config = CompactionConfig(
        keep_first_turns=keep_first_turns,
        keep_recent_turns=keep_recent_turns,
        max_summary_tokens=max_summary_tokens,
        tool_output_max_lines=tool_output_max_lines,
        focus_message=focus_message or None,
    )
    return with_strategy(strategy, counter, config=ContextConfig(compaction=config), summary=summary)


class Laid(Struct, frozen=True):
    """What a strategy is given of a run: the original messages as a record, and the turn of each position."""

    record: LoopRecord
    turn_map: TurnMap
    turns: dict[int, int]


class Own(Struct, frozen=True):
    """A user's strategy with its configuration."""

    strategy: BlockCompactionStrategy
    config: CompactionConfig

    def seen(self, draft: Draft, run: Loop) -> Laid:
        """Collects the run's original messages from the log, including those that a Block hides."""
        pieces = draft.pieces[run.first : run.last]
        path = draft.view.path
        entries = [(p, message_of(path.at(p))) for p in range(pieces[0].first, pieces[-1].last + 1)]
        originals = [(p, m) for p, m in entries if m is not None]
        messages = turns_of([m for _, m in originals], run.run)
        turns = {p: each.turn_id.turn_index for (p, _), each in zip(originals, messages, strict=True) if each.turn_id}
        return Laid(LoopRecord(run.run, messages), TurnMap.from_messages(messages), turns)


class Laying(Struct, frozen=True):
    """A Stage that plans with a user's strategy: first and recent turns stay, one text replaces those between."""

    own: Own
    overlay: Overlay
    name: ClassVar[str] = "strategy"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """See `Stage.apply`."""
        return across(draft, goal, self.overlay.scope, self.overlay.max_summary_tokens, self._laid)

    def _laid(self, draft: Draft, goal: Goal, run: Loop, room: int, latest: bool) -> Draft:  # noqa: FBT001 - see `Lay`
        inputs = self.own.seen(draft, run)
        count = inputs.turn_map.turn_count()
        parts = sections(count, self.overlay.keep_first, self.overlay.keep_recent, latest=latest)
        section = None
        if latest:
            parts, section = self._wanted(inputs, parts, count)
        for index in range(run.first, run.last):
            if _turn(draft.pieces[index], inputs) in parts.recent:
                draft = draft.swap(index, self._recent(draft, index, inputs, section))
        middle = [i for i in range(run.first, run.last) if _turn(draft.pieces[i], inputs) in parts.middle]
        if not middle:
            return draft
        return self._middle(draft, goal, range(middle[0], middle[-1] + 1), room)

    def _wanted(self, seen: Laid, parts: Sections, count: int) -> tuple[Sections, CompactedSection | None]:
        """Returns the sections that the strategy chose, or the default ones if its ranges make no sense."""
        user = self.own
        first = settled(lambda: user.strategy.keep_first(seen.record, seen.turn_map, user.config)).value
        recent = settled(lambda: user.strategy.keep_recent(seen.record, seen.turn_map, user.config))
        section = recent.value if isinstance(recent.value, CompactedSection) else None
        begin = first.end_turn + 1 if isinstance(first, TurnRange) else 0
        missing = parts.recent.start if recent.error else count
        end = missing if section is None else section.range.start_turn
        if begin > end or (section is not None and section.range.end_turn != count - 1):
            return parts, None
        return Sections(range(begin), range(begin, end), range(end, count)), section

    def _recent(self, draft: Draft, index: int, seen: Laid, section: CompactedSection | None) -> Piece:
        """Returns the piece with the strategy's messages, if they match the originals one to one; else cuts outputs."""
        piece = draft.pieces[index]
        messages = _by_position(seen, section) if section is not None else {}
        shown = piece.shown()
        if piece.held or not all(s.at in messages and _pairs(s.message, messages[s.at]) for s in shown if s.original):
            return cut_outputs(draft, index, self.overlay.tool_output_max_lines)
        calls = {c.id for s in shown for c in calls_of(s.message)}
        free = [n for n, s in enumerate(shown) if s.message.role == "tool" and takes_text(s.message, calls)]
        changed = [n for n in free if shown[n].original and messages[shown[n].at] != shown[n].message]
        show, tokens = [as_show(s) for s in shown], list(draft.sizer(shown))
        for n, size in zip(changed, draft.weigh([messages[shown[n].at] for n in changed]), strict=True):
            show[n], tokens[n] = Say(replace(messages[shown[n].at], native=None), shown[n].of), size
        if not changed or sum(tokens) >= piece.tokens:
            return piece
        why = "as the strategy keeps it"
        return replace(piece, kind="strategy", show=tuple(show), sizes=tuple(tokens), tokens=sum(tokens), why=why)

    def _middle(self, draft: Draft, goal: Goal, ends: range, room: int) -> Draft:
        covered = draft.pieces[ends.start : ends.stop]
        if not any(p.units[0].ref is None and p.shown() and p.shown()[0].message.role == "assistant" for p in covered):
            return draft
        written = written_over(draft, goal, ends, room)
        if written is not None:
            return written
        steps = [s for s in steps_of(draft, Loop("", ends.start, ends.stop)) if s.stop <= ends.stop]
        return lined(draft, steps, room, focus=goal.focus)


def _turn(piece: Piece, seen: Laid) -> int:
    """Returns the turn of a piece, -1 for one without messages of the run."""
    return next((seen.turns[p] for p in range(piece.first, piece.last + 1) if p in seen.turns), -1)


def _by_position(seen: Laid, section: CompactedSection) -> dict[int, Message]:
    """Maps positions to the section's messages; empty if they do not match the originals one to one."""
    covered = range(section.range.start_turn, section.range.end_turn + 1)
    positions = [p for p, turn in seen.turns.items() if turn in covered]
    return dict(zip(positions, section.messages, strict=True)) if len(positions) == len(section.messages) else {}


def _pairs(old: Message, new: Message) -> bool:
    """Whether one message may replace another: it has the same role and answers the same tool call."""
    before, after = result_of(old), result_of(new)
    return old.role == new.role and (before.call if before else "") == (after.call if after else "")


class Telling(Struct, frozen=True):
    """The Writer of a user's strategy: it turns the compacted section into text, checked and within its token budget.

    Turns that the section leaves out get one line each. So do all turns if the strategy returns nothing or raises.
    """

    own: Own

    def write(self, job: Job) -> Effect:
        """See `Writer.write`."""
        draft = start(job.view, lambda shown: [0] * len(shown), lambda messages: [0] * len(messages))
        every = loops(draft)
        runs = [r for r in every if draft.pieces[r.first].first <= job.piece.first]
        run = runs[-1]
        if job.piece.last > draft.pieces[run.last - 1].last:
            return (yield from Lines().write(job))
        inputs = self.own.seen(draft, run)
        user = self.own

        def given() -> Given[CompactedSection | None]:
            return user.strategy.keep_compacted(inputs.record, inputs.turn_map, user.config, run is every[-1])

        notes = _complaints(user, inputs) if run is every[-1] else ()
        result = yield from settling(given)
        section = result.value
        if not isinstance(section, CompactedSection):
            why = result.error or ("it gave None" if section is None else f"it gave a {type(section).__name__}")
            note = f"keep_compacted of the block strategy was of no use ({why}); lines were written in its place"
            return written_lines(job, (*notes, note), result.spent)
        written = _told(job, inputs, section, result.spent)
        return replace(written, notes=(*notes, *written.notes))


def _complaints(own: Own, seen: Laid) -> tuple[str, ...]:
    """Lists the errors of the strategy's range methods. They run again here, since a plan cannot hold notes."""
    first = settled(lambda: own.strategy.keep_first(seen.record, seen.turn_map, own.config)).error
    recent = settled(lambda: own.strategy.keep_recent(seen.record, seen.turn_map, own.config)).error
    errors = (("keep_first", first), ("keep_recent", recent))
    return tuple(f"{name} of the block strategy was of no use ({why})" for name, why in errors if why)


def _told(job: Job, seen: Laid, section: CompactedSection, spent: Spent) -> Written:
    covered = range(section.range.start_turn, section.range.end_turn + 1)
    texts = [text_of(m) for m in section.messages if m.origin != "human"]
    rest = [m for p, m in job.items if seen.turns.get(p, -1) not in covered and p in seen.turns]
    story = "\n".join(t for t in (*texts, lines_of(rest, job.room, job.count)) if t)
    notes: tuple[str, ...] = ()
    expected = Expected(source_of(job.items, job.facts, "\n".join(job.previous)), job.room)
    wrong = [f for f in check(story, finish="stop", expected=expected, count=job.count) if f.what != "too_long"]
    if wrong:
        story = mend(story, wrong)
        notes = (f"the strategy's text was mended by code ({'; '.join(str(f) for f in wrong[:3])})",)
    if not story:
        return written_lines(job, notes, spent)
    if job.count([story])[0] > job.room:
        lines = [Told("", line) for line in story.split("\n") if line.strip()]
        story = "\n".join(f.line for f in fitted(lines, job.room - len(lines), job.count))
    return Written(clean(story), "model" if spent.calls else "extractive", notes, spent)
