"""Strategies of the design behind the preset `blocks`: the design's own, and those of users.

`DefaultBlockCompaction` does section by section what `OverlayStage` does. `StrategyStage` and `StrategyWriter` run a
user's strategy: its ranges become the plan; its compacted section becomes the summary, checked like any other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, start_draft
from tenfold.compaction.plan.stages.elide import elide_outputs
from tenfold.compaction.plan.stubs import cut_message
from tenfold.compaction.summarize.check import Expectation, check_summary, mend_summary
from tenfold.compaction.summarize.ladder import SummaryResult, WritingGenerator
from tenfold.compaction.summarize.literals import build_source, mark_unconfirmed
from tenfold.compaction.summarize.write import clean_text
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.block import ModelCost
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text, get_tool_result
from tenfold.core.record.token_reading import NO_TOKENS
from tenfold.core.text.redaction import redact
from tenfold.core.view.units import VisibleMessage
from tenfold.designs.blocks.config import BlockCompactionStrategy, CompactionConfig
from tenfold.designs.blocks.lines import (
    LabelledLine,
    LineWriter,
    build_marker,
    build_step_line,
    fit_lines,
    get_step,
    render_lines,
    write_lines,
)
from tenfold.designs.blocks.runner import StrategyResult, StrategyReturn, run_with_asks, run_without_model, take_value
from tenfold.designs.blocks.stages import (
    OverlayStage,
    RunPieces,
    RunSections,
    cut_outputs,
    divide_steps,
    find_runs,
    find_steps,
    replace_with_lines,
    summarize_middle,
)
from tenfold.designs.blocks.turns import CompactedSection, CompactionBlock, LoopRecord, TurnMap, TurnRange, assign_turns

STRATEGY_CUT = "strategy"
"""The kind of the replacement of a recent step whose messages a user's strategy shortened."""


class DefaultBlockCompaction(Struct, frozen=True):
    """The design's own strategy. All numbers come from the configuration; `counter` counts the lines it writes."""

    counter: Counter = choose_counter(None).counter

    def keep_first(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> TurnRange | None:  # noqa: ARG002 - the protocol's
        """Returns the first `keep_first_turns` turns, or all if there are fewer; None if there are none."""
        return _as_range(_find_sections(turn_map, config, latest=True).first)

    def keep_recent(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> CompactedSection | None:
        """Returns the last `keep_recent_turns` turns that `keep_first` leaves, with their tool outputs cut."""
        covered = _as_range(_find_sections(turn_map, config, latest=True).recent)
        if covered is None:
            return None
        messages = (m.message for m in turn_map.messages_for_range(covered, record.messages))
        return CompactedSection(covered, tuple(cut_message(m, config.tool_output_max_lines) or m for m in messages))

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
        covered = _as_range(_find_sections(turn_map, config, latest=is_most_recent).middle)
        if covered is None:
            return None
        messages = [m.message for m in turn_map.messages_for_range(covered, record.messages)]
        starts = [at for at, message in enumerate(messages) if message.role == "assistant"]
        fitted = fit_lines(
            [build_step_line(get_step(messages, at)) for at in starts],
            config.max_summary_tokens,
            lambda lines: measure_messages([build_marker(line) for line in lines], self.counter),
            focus=config.focus_message or "",
        )
        ends = accumulate((each.count for each in fitted), initial=0)
        lines = {starts[number]: build_marker(each.line) for number, each in zip(ends, fitted, strict=False)}
        shown: list[Message] = []
        for at, message in enumerate(messages):
            if at in lines:
                shown.append(lines[at])
            elif message.role != "assistant" and message.origin != "tool":
                shown.append(message)
        return CompactedSection(covered, tuple(shown))

    def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: FBT001 - the published signature
        """Builds all sections, of an earlier loop the compacted one alone. No turn is in two of them."""
        turn_map = TurnMap.from_messages(record.messages)
        return CompactionBlock(
            keep_first=self.keep_first(record, turn_map, config) if is_most_recent else None,
            keep_compacted=self.keep_compacted(record, turn_map, config, is_most_recent),
            keep_recent=self.keep_recent(record, turn_map, config) if is_most_recent else None,
            created_at=datetime.now(UTC),
        )


def _find_sections(turn_map: TurnMap, config: CompactionConfig, *, latest: bool) -> RunSections:
    return divide_steps(turn_map.turn_count(), config.keep_first_turns, config.keep_recent_turns, latest=latest)


def _as_range(turns: range) -> TurnRange | None:
    return TurnRange(turns.start, turns.stop - 1) if turns else None


# -- a user's own ------------------------------------------------------------------------------------------------------


class StrategyInput(Struct, frozen=True):
    """What a strategy is given of a run: the original messages as a record, and the turn of each position."""

    record: LoopRecord
    turn_map: TurnMap
    turns: dict[int, int]


class ChosenSections(Struct, frozen=True):
    """How a strategy divides a run, what it shows of the recent turns, and what it gave that was of no use."""

    parts: RunSections
    recent: CompactedSection | None = None
    problems: tuple[str, ...] = ()


def collect_input(draft: Draft, run: RunPieces) -> StrategyInput:
    """Collects the run's original messages from the log, including those that a Block hides."""
    pieces = draft.pieces[run.first : run.last]
    path = draft.view.path
    entries = [(p, get_message(path.get_entry(p))) for p in range(pieces[0].first, pieces[-1].last + 1)]
    originals = [(p, m) for p, m in entries if m is not None]
    messages = assign_turns([m for _, m in originals], run.run_id)
    turns = {p: each.turn_id.turn_index for (p, _), each in zip(originals, messages, strict=True) if each.turn_id}
    return StrategyInput(LoopRecord(run.run_id, messages), TurnMap.from_messages(messages), turns)


def choose_sections(config: CompactionConfig, inputs: StrategyInput, *, latest: bool) -> ChosenSections:
    """Asks `keep_first` and `keep_recent` of the latest run. What is of no use gives way to the default's part."""
    count = inputs.turn_map.turn_count()
    parts = _find_sections(inputs.turn_map, config, latest=latest)
    if not latest:
        return ChosenSections(parts)
    first = run_without_model(lambda: ask_strategy(config, inputs, "keep_first"))
    recent = run_without_model(lambda: ask_strategy(config, inputs, "keep_recent"))
    errors = {"keep_first": _find_error(first, TurnRange), "keep_recent": _find_error(recent, CompactedSection)}
    problems = tuple(f"{name} of the block strategy was of no use ({why})" for name, why in errors.items() if why)
    section = recent.value if isinstance(recent.value, CompactedSection) else None
    end = parts.recent.start if errors["keep_recent"] else count
    end = end if section is None else section.range.start_turn
    begin = min(len(parts.first), end) if errors["keep_first"] else 0
    begin = first.value.end_turn + 1 if isinstance(first.value, TurnRange) else begin
    if begin <= end and (section is None or section.range.end_turn == count - 1):
        return ChosenSections(RunSections(range(begin), range(begin, end), range(end, count)), section, problems)
    last = f"those from {end} to {section.range.end_turn}" if section is not None else "no later one"
    why = f"of {count} turns, numbered from 0, the first {begin} stay and {last}; they overlap or miss the last one"
    return ChosenSections(parts, None, (*problems, f"the sections of the block strategy were of no use ({why})"))


Method = Literal["keep_first", "keep_recent", "keep_compacted"]


def ask_strategy(
    config: CompactionConfig, inputs: StrategyInput, method: Method, *, latest: bool = True
) -> StrategyReturn[object]:
    """Asks the strategy for a section: by its method, or by a `compact` of its own, which decides by itself."""
    strategy, record = config.block_strategy, inputs.record
    assert strategy is not None, "the stage and the writer stand for a strategy"
    defaults = (None, BlockCompactionStrategy.compact, DefaultBlockCompaction.compact)
    compact = getattr(strategy, "compact", None)
    if getattr(compact, "__func__", compact) not in defaults:
        return _take_section(strategy.compact(record, config, latest), method)
    match method:
        case "keep_first":
            return strategy.keep_first(record, inputs.turn_map, config)
        case "keep_recent":
            return strategy.keep_recent(record, inputs.turn_map, config)
        case "keep_compacted":
            return strategy.keep_compacted(record, inputs.turn_map, config, latest)


async def _take_section(block: StrategyReturn[CompactionBlock], section: Method) -> object:
    """Returns a section of a block, which has the names of the methods."""
    return getattr(await take_value(block), section)


class StrategyStage(OverlayStage, frozen=True):
    """A Stage that plans with a user's strategy: first and recent turns stay, one text replaces those between."""

    name: ClassVar[str] = "strategy"

    def overlay_run(self, draft: Draft, goal: Goal, run: RunPieces, budget: int, *, is_latest: bool) -> Draft:
        """Overlays one run with the strategy's sections, or one text in place of an earlier run."""
        inputs = collect_input(draft, run)
        chosen = choose_sections(self.config, inputs, latest=is_latest)
        parts, section = chosen.parts, chosen.recent
        for index in range(run.first, run.last):
            if _find_turn(draft.pieces[index], inputs) in parts.recent:
                draft = draft.with_piece(index, self._build_recent(draft, index, inputs, section))
        middle = [i for i in range(run.first, run.last) if _find_turn(draft.pieces[i], inputs) in parts.middle]
        if not middle:
            return draft
        return self._build_middle(draft, goal, range(middle[0], middle[-1] + 1), budget)

    def _build_recent(
        self, draft: Draft, index: int, inputs: StrategyInput, section: CompactedSection | None
    ) -> DraftPiece:
        """Returns the piece with the strategy's messages, if they match the originals one to one; else cuts outputs."""
        piece = draft.pieces[index]
        messages = _map_by_position(inputs, section) if section is not None else {}

        def pick(shown: VisibleMessage, _: int) -> Message | None:
            message = messages[shown.position] if shown.is_original else shown.message
            return replace(message, native=None) if message != shown.message else None

        originals = [s for s in piece.get_visible_messages() if s.is_original]
        if not all(s.position in messages and _can_replace(s.message, messages[s.position]) for s in originals):
            return cut_outputs(draft, piece, self.config.tool_output_max_lines)
        kept = elide_outputs(draft, piece, STRATEGY_CUT, pick, least_saving=1)
        return kept if kept is piece else replace(kept, reason="as the strategy keeps it")

    def _build_middle(self, draft: Draft, goal: Goal, span: range, budget: int) -> Draft:
        covered = draft.pieces[span.start : span.stop]
        if not any(
            p.units[0].block_part is None
            and p.get_visible_messages()
            and p.get_visible_messages()[0].message.role == "assistant"
            for p in covered
        ):
            return draft
        written = summarize_middle(draft, goal, span, budget)
        if written is not None:
            return written
        steps = [s for s in find_steps(draft, RunPieces("", span.start, span.stop)) if s.stop <= span.stop]
        return replace_with_lines(draft, steps, budget, focus=goal.focus)


def _find_turn(piece: DraftPiece, inputs: StrategyInput) -> int:
    """Returns the turn of a piece, -1 for one without messages of the run."""
    return next((inputs.turns[p] for p in range(piece.first, piece.last + 1) if p in inputs.turns), -1)


def _map_by_position(inputs: StrategyInput, section: CompactedSection) -> dict[int, Message]:
    """Maps positions to the section's messages; empty if they do not match the originals one to one."""
    covered = range(section.range.start_turn, section.range.end_turn + 1)
    positions = [p for p, turn in inputs.turns.items() if turn in covered]
    return dict(zip(positions, section.messages, strict=True)) if len(positions) == len(section.messages) else {}


def _can_replace(old: Message, new: Message) -> bool:
    """Whether one message may replace another: it has the same role and answers the same tool call."""
    before, after = get_tool_result(old), get_tool_result(new)
    return old.role == new.role and (before.call_id if before else "") == (after.call_id if after else "")


class StrategyWriter(Struct, frozen=True):
    """The Writer of a user's strategy: it turns the compacted section into text, checked and within its token budget.

    Turns that the section leaves out get one line each. So do all turns if the strategy returns nothing or raises.
    """

    config: CompactionConfig

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        draft = start_draft(
            job.view, lambda shown: [NO_TOKENS] * len(shown), lambda messages: [NO_TOKENS] * len(messages)
        )
        every = find_runs(draft)
        runs = [r for r in every if draft.pieces[r.first].first <= job.piece.first]
        run = runs[-1]
        if job.piece.last > draft.pieces[run.last - 1].last:
            return (yield from LineWriter().write(job))
        inputs, latest = collect_input(draft, run), run is every[-1]
        notes = choose_sections(self.config, inputs, latest=latest).problems  # again: a plan cannot hold notes
        result = yield from run_with_asks(lambda: ask_strategy(self.config, inputs, "keep_compacted", latest=latest))
        section = result.value
        if not isinstance(section, CompactedSection):
            why = _find_error(result, CompactedSection) or "it gave None"
            why += f"; the model that it asked failed: {result.model_error}" if result.model_error else ""
            note = f"keep_compacted of the block strategy was of no use ({why}); lines were written in its place"
            return write_lines(job, (*notes, note), result.spent)
        written = _write_section(job, inputs, section, result.spent)
        return replace(written, notes=(*notes, *written.notes))


def _find_error(result: StrategyResult, kind: type) -> str:
    """Says why a method's result is of no use, "" for a value of this kind or None."""
    is_useful = result.value is None or isinstance(result.value, kind)
    return result.error or ("" if is_useful else f"it gave a {type(result.value).__name__}, not a {kind.__name__}")


def _write_section(
    job: WritingJob, inputs: StrategyInput, section: CompactedSection, spent: ModelCost
) -> SummaryResult:
    covered = range(section.range.start_turn, section.range.end_turn + 1)
    originals = [m.message for m in inputs.record.messages]
    texts = [get_text(m) for m in section.messages if m.origin != "human" or m not in originals]
    rest = [m for p, m in job.items if inputs.turns.get(p, -1) not in covered and p in inputs.turns]
    story = "\n".join(t for t in (*texts, render_lines(rest, job.budget, job.count)) if t)
    notes: tuple[str, ...] = ()
    expected = Expectation(build_source(job.items, job.facts, "\n".join(job.previous)), job.budget)
    story = mark_unconfirmed(redact(story), expected.source)
    wrong = [f for f in check_summary(story, finish="stop", expected=expected, count=job.count) if f.kind != "too_long"]
    if wrong:
        story = mend_summary(story, wrong)
        notes = (f"the strategy's text was mended by code ({'; '.join(str(f) for f in wrong[:3])})",)
    if not story:
        return write_lines(job, notes, spent)
    if job.count([story])[0] > job.budget:
        lines = [LabelledLine("", line) for line in story.split("\n") if line.strip()]
        story = "\n".join(f.line for f in fit_lines(lines, job.budget - len(lines), job.count))
    return SummaryResult(clean_text(story), "model" if spent.calls else "extractive", notes, spent)
