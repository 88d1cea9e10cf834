"""Strategies of the design behind the preset `blocks`: the design's own, and those of users.

`DefaultBlockCompaction` does section by section what the preset's stage `OverlayStage` does. `with_strategy` builds a
policy around a user's strategy. Its ranges become the plan; its compacted section becomes the summary, checked like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, start_draft, to_shown_item
from tenfold.compaction.plan.stages.overlay import (
    OverlayStage,
    RunPieces,
    RunSections,
    cut_outputs,
    divide_steps,
    find_runs,
    find_steps,
    overlay_runs,
    replace_with_lines,
    summarize_middle,
)
from tenfold.compaction.plan.stages.step_lines import LabelledLine, build_step_line, fit_lines, get_step
from tenfold.compaction.plan.stubs import cut_message
from tenfold.compaction.summarize.check import Expectation, check_summary, mend_summary
from tenfold.compaction.summarize.evidence import build_source
from tenfold.compaction.summarize.ladder import SummaryResult, SummarySettings, WritingGenerator
from tenfold.compaction.summarize.line_writer import LineWriter, render_lines, write_lines
from tenfold.compaction.summarize.write import clean_text
from tenfold.compaction.summarize.writer import Writer, WritingJob
from tenfold.compaction.trigger.limits import HeadroomTrigger
from tenfold.config.plugins import load_plugin
from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.block import ModelCost, Substitute
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire import can_take_text
from tenfold.designs.blocks.compaction_config import (
    BlockCompactionStrategy,
    CompactionConfig,
    ContextConfig,
    FixedCount,
    SectionStrategy,
    TokenBudget,
    build_preset,
    combine_sections,
)
from tenfold.designs.blocks.in_memory_stage import InMemoryStage
from tenfold.designs.blocks.list_levels import DefaultCompaction
from tenfold.designs.blocks.policy import HEADROOM, OVERLAY
from tenfold.designs.blocks.strategy_runner import (
    StrategyResult,
    StrategyReturn,
    combine_results,
    run_with_asks,
    run_without_model,
)
from tenfold.designs.blocks.turn_records import (
    CompactedSection,
    CompactionBlock,
    LoopRecord,
    TurnMap,
    TurnRange,
    assign_turns,
)
from tenfold.errors import UsageError

T = TypeVar("T")
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
        return self._cut_section(record, turn_map, config, _find_sections(turn_map, config, latest=True).recent)

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
        steps = [get_step(messages, at) for at, message in enumerate(messages) if message.role == "assistant"]

        def measure(lines: Sequence[str]) -> list[int]:
            return measure_messages([_build_line(line) for line in lines], self.counter)

        lines = fit_lines(
            [build_step_line(step) for step in steps],
            config.max_summary_tokens,
            measure,
            focus=config.focus_message or "",
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
                out.extend([_build_line(starts[number])] if number in starts else [])
                number += 1
            elif message.origin != "tool":
                out.append(message)
        return CompactedSection(covered, tuple(out))

    def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: FBT001 - the published signature
        """Builds all sections: see `combine_sections`. No turn is in two of them."""
        return cast("CompactionBlock", combine_sections(self, record, config, is_most_recent=is_most_recent))

    def _cut_section(
        self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig, turns: range
    ) -> CompactedSection | None:
        covered = _as_range(turns)
        if covered is None:
            return None
        most = config.tool_output_max_lines
        messages = [m.message for m in turn_map.messages_for_range(covered, record.messages)]
        return CompactedSection(covered, tuple(cut_message(m, most) or m for m in messages))


def _build_line(line: str) -> Message:
    return Message("user", (Text(line),), "tenfold")


def _find_sections(turn_map: TurnMap, config: CompactionConfig, *, latest: bool) -> RunSections:
    return divide_steps(turn_map.turn_count(), config.keep_first_turns, config.keep_recent_turns, latest=latest)


def _as_range(turns: range) -> TurnRange | None:
    return TurnRange(turns.start, turns.stop - 1) if turns else None


# -- a user's own ------------------------------------------------------------------------------------------------------


def build_policy(config: ContextConfig, counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
    """Builds the policy of a configuration: the preset `blocks` with its values, its strategies and its counter.

    `counter` is used if the configuration has no `token_counter`. The block strategy is for sessions, the in-memory
    strategy for plain lists; where they do not reach the target, the preset's later stages go on.
    """
    compaction = config.compaction
    policy = build_preset(config, counter, summary=summary)
    if compaction.in_memory_strategy is not None and type(compaction.in_memory_strategy) is not DefaultCompaction:
        stage = InMemoryStage(compaction.in_memory_strategy, config)
        policy = replace(policy, in_memory_stages=(stage, *policy.in_memory_stages))
    return policy if compaction.block_strategy is None else use_strategy(policy, compaction.block_strategy, compaction)


def use_strategy(policy: Policy, strategy: SectionStrategy, config: CompactionConfig) -> Policy:
    """Returns the policy with this strategy in place of its overlay, or of the strategy that it had."""
    stage: OverlayStage | StrategyStage = find_overlay(policy)
    writer: Writer = LineWriter()
    if type(strategy) is not DefaultBlockCompaction:
        own = UserStrategy(strategy, replace(config, block_strategy=None))
        stage, writer = StrategyStage(own, find_overlay(policy)), StrategyWriter(own)
    stages = tuple(stage if isinstance(each, OverlayStage | StrategyStage) else each for each in policy.stages)
    return replace(policy, stages=stages, writer=writer)


def find_overlay(policy: Policy) -> OverlayStage:
    """Finds the overlay of a policy; the preset's own where the policy has none."""
    for stage in policy.stages:
        if isinstance(stage, OverlayStage | StrategyStage):
            return stage if isinstance(stage, OverlayStage) else stage.overlay
    return OVERLAY


def derive_config(policy: Policy) -> CompactionConfig:
    """Returns a policy's numbers under the design's names, for a strategy that it is to be used with."""
    overlay = find_overlay(policy)
    trigger = policy.trigger if isinstance(policy.trigger, HeadroomTrigger) else HEADROOM
    return CompactionConfig(
        compact_at_pct=trigger.compact_at,
        compact_budget_threshold_pct=trigger.least_headroom,
        compaction_scope=TokenBudget() if overlay.scope == "token_budget" else FixedCount(overlay.scope),
        keep_first_turns=overlay.keep_first_steps,
        keep_recent_turns=overlay.keep_recent_steps,
        max_summary_tokens=overlay.max_summary_tokens,
        tool_output_max_lines=overlay.tool_output_max_lines,
        focus_message=policy.summary.instructions or None,
    )


def with_strategy(
    strategy: SectionStrategy,
    counter: Counter,
    *,
    config: ContextConfig | None = None,
    summary: SummarySettings | None = None,
) -> Policy:
    """Builds the preset `blocks` with a user's strategy in place of the stage `OverlayStage`, for sessions.

    If the strategy does not reach the target, the preset's later stages run, as they do after its own overlay.
    """
    config = config or ContextConfig()
    return build_policy(
        replace(config, compaction=replace(config.compaction, block_strategy=strategy)), counter, summary=summary
    )


def build_strategy_policy(  # noqa: PLR0913 - the design's own settings, one each
    counter: Counter,
    *,
    block_strategy: str,
    summary: SummarySettings | None = None,
    keep_first_turns: int = CompactionConfig().keep_first_turns,
    keep_recent_turns: int = CompactionConfig().keep_recent_turns,
    max_summary_tokens: int = CompactionConfig().max_summary_tokens,
    tool_output_max_lines: int = CompactionConfig().tool_output_max_lines,
    focus_message: str = "",
) -> Policy:
    """Does the same for a settings file: `policy = "tenfold.designs.blocks:build_strategy_policy"`.

    `block_strategy` names the strategy, as `package.module:name` or by its entry point in `tenfold.strategies`.
    """
    strategy = cast("BlockCompactionStrategy", load_plugin("strategies", block_strategy))
    config = CompactionConfig(
        keep_first_turns=keep_first_turns,
        keep_recent_turns=keep_recent_turns,
        max_summary_tokens=max_summary_tokens,
        tool_output_max_lines=tool_output_max_lines,
        focus_message=focus_message or None,
    )
    return with_strategy(strategy, counter, config=ContextConfig(compaction=config), summary=summary)


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


class UserStrategy(Struct, frozen=True):
    """A user's strategy with its configuration."""

    strategy: SectionStrategy
    config: CompactionConfig

    def collect_input(self, draft: Draft, run: RunPieces) -> StrategyInput:
        """Collects the run's original messages from the log, including those that a Block hides."""
        pieces = draft.pieces[run.first : run.last]
        path = draft.view.path
        entries = [(p, get_message(path.get_entry(p))) for p in range(pieces[0].first, pieces[-1].last + 1)]
        originals = [(p, m) for p, m in entries if m is not None]
        messages = assign_turns([m for _, m in originals], run.run_id)
        turns = {p: each.turn_id.turn_index for (p, _), each in zip(originals, messages, strict=True) if each.turn_id}
        return StrategyInput(LoopRecord(run.run_id, messages), TurnMap.from_messages(messages), turns)

    def choose_sections(self, inputs: StrategyInput, *, latest: bool) -> ChosenSections:
        """Asks `keep_first` and `keep_recent` of the latest run. What is of no use gives way to the default's part."""
        count = inputs.turn_map.turn_count()
        parts = _find_sections(inputs.turn_map, self.config, latest=latest)
        if not latest:
            return ChosenSections(parts)
        first, recent = self._ask_for_ranges(inputs)
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

    def _ask_for_ranges(self, inputs: StrategyInput) -> tuple[StrategyResult, StrategyResult]:
        """Returns what `keep_first` and `keep_recent` give, or the sections of one call of a `compact` of its own."""
        strategy, record, turn_map = self.strategy, inputs.record, inputs.turn_map
        if not has_own_compact(strategy):
            first = run_without_model(lambda: strategy.keep_first(record, turn_map, self.config))
            return first, run_without_model(lambda: strategy.keep_recent(record, turn_map, self.config))
        both = run_without_model(
            lambda: self._read_block(record, lambda block: (block.keep_first, block.keep_recent), latest=True)
        )
        values = both.value if isinstance(both.value, tuple) else (None, None)
        return StrategyResult(values[0], both.error), StrategyResult(values[1], both.error)

    def ask_for_text(self, inputs: StrategyInput, *, latest: bool) -> StrategyReturn[CompactedSection | None]:
        """Returns what `keep_compacted` gives, or the section of a `compact` of its own."""
        if has_own_compact(self.strategy):
            return self._read_block(inputs.record, lambda block: block.keep_compacted, latest=latest)
        return self.strategy.keep_compacted(inputs.record, inputs.turn_map, self.config, latest)

    def _read_block(
        self, record: LoopRecord, read_sections: Callable[[CompactionBlock], T], *, latest: bool
    ) -> StrategyReturn[T]:
        def read(block: object) -> T:
            if not isinstance(block, CompactionBlock):
                raise UsageError(f"compact gave a {type(block).__name__}, not a CompactionBlock")
            return read_sections(block)

        own = cast("BlockCompactionStrategy", self.strategy)
        return combine_results([own.compact(record, self.config, latest)], read)


def has_own_compact(strategy: SectionStrategy) -> bool:
    """Tells whether a strategy's `compact` is its own, and not a default that assembles the three methods."""
    own = getattr(strategy, "compact", None)
    defaults = (None, BlockCompactionStrategy.compact, DefaultBlockCompaction.compact)
    return getattr(own, "__func__", own) not in defaults


class StrategyStage(Struct, frozen=True):
    """A Stage that plans with a user's strategy: first and recent turns stay, one text replaces those between."""

    user_strategy: UserStrategy
    overlay: OverlayStage
    name: ClassVar[str] = "strategy"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """See `Stage.apply`."""
        return overlay_runs(draft, goal, self.overlay.scope, self.overlay.max_summary_tokens, self.overlay_run)

    def overlay_run(self, draft: Draft, goal: Goal, run: RunPieces, budget: int, latest: bool) -> Draft:  # noqa: FBT001 - see `RunOverlay`
        """Overlays one run with the strategy's sections, or one text in place of an earlier run."""
        inputs = self.user_strategy.collect_input(draft, run)
        chosen = self.user_strategy.choose_sections(inputs, latest=latest)
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
        shown = piece.get_visible_messages()
        if piece.protected_reason or not all(
            s.position in messages and _can_replace(s.message, messages[s.position]) for s in shown if s.is_original
        ):
            return cut_outputs(draft, piece, self.overlay.tool_output_max_lines)
        calls = {c.id for s in shown for c in get_tool_calls(s.message)}
        free = [n for n, s in enumerate(shown) if s.message.role == "tool" and can_take_text(s.message, calls)]
        changed = [n for n in free if shown[n].is_original and messages[shown[n].position] != shown[n].message]
        show, tokens = [to_shown_item(s) for s in shown], list(draft.measure_visible(shown))
        for n, size in zip(
            changed, draft.measure_messages([messages[shown[n].position] for n in changed]), strict=True
        ):
            show[n], tokens[n] = (
                Substitute(replace(messages[shown[n].position], native=None), shown[n].original_position),
                size,
            )
        if not changed or sum(tokens) >= piece.tokens:
            return piece
        why = "as the strategy keeps it"
        return replace(
            piece, kind=STRATEGY_CUT, shown_items=tuple(show), sizes=tuple(tokens), tokens=sum(tokens), reason=why
        )

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

    user_strategy: UserStrategy

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        draft = start_draft(job.view, lambda shown: [0] * len(shown), lambda messages: [0] * len(messages))
        every = find_runs(draft)
        runs = [r for r in every if draft.pieces[r.first].first <= job.piece.first]
        run = runs[-1]
        if job.piece.last > draft.pieces[run.last - 1].last:
            return (yield from LineWriter().write(job))
        inputs = self.user_strategy.collect_input(draft, run)
        user = self.user_strategy

        latest = run is every[-1]
        notes = user.choose_sections(inputs, latest=latest).problems  # again: a plan cannot hold notes
        result = yield from run_with_asks(lambda: user.ask_for_text(inputs, latest=latest))
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
