"""The design's `Compaction`: settings, when to compact, what would be summarised, and the summary as a value.

`prepare` finds the cut with the stage of the policy `tail`, and `compact` writes with its writer, as a session does.
Neither needs a store. To append the result, see `append_compaction` in `session_context`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.config.presets.tail import DEFAULTS, tail
from tenfold.engine.call import Call, Measures
from tenfold.engine.compact import Effects, build_draft
from tenfold.engine.drive import Answerer, run_engine
from tenfold.facts.section import render_facts
from tenfold.llm.model import Model
from tenfold.meter.counters import CharacterCounter, Counter
from tenfold.meter.reading import RunningTotal, TokenCache
from tenfold.plan.budgets import ReserveBudgets
from tenfold.plan.draft import DraftPiece
from tenfold.plan.pipeline import Plan
from tenfold.plan.stages.cut import CutStage
from tenfold.record.ask import EngineResult, Outcome
from tenfold.record.block import Block, Fact, Substitute
from tenfold.record.entry import Entry
from tenfold.record.message import Message, get_text
from tenfold.summarize.fill import FilledPlan, FillRequest, collect_facts, count_frame, fill_plan
from tenfold.summarize.prompt_files import with_prompts
from tenfold.summarize.split_writer import FileLists, list_files, without_footer
from tenfold.summarize.transcript import render_message
from tenfold.summarize.visible_text import get_narrative
from tenfold.summarize.write import SummarySettings
from tenfold.trigger.limits import ReserveTrigger
from tenfold.view.fold import View
from tenfold.view.path import Path
from tenfold.wire.marks import extract_summary_text

UNBOUNDED_TARGET = 1 << 40
"""A target that never limits: `prepare` knows no window."""
_OWN_BLOCK = "0" * 8


class CompactionSettings(Struct, frozen=True):
    """The design's settings. The sizes, in tokens, are upper bounds for large windows; see `plan.budgets`."""

    enabled: bool = True
    reserve_tokens: int = DEFAULTS.reserve_tokens
    keep_recent_tokens: int = DEFAULTS.keep_recent_tokens

    @property
    def retain_recent_tokens(self) -> int:
        """The design's second name for `keep_recent_tokens`."""
        return self.keep_recent_tokens

    @property
    def trigger(self) -> ReserveTrigger:
        """Tenfold's trigger with these sizes."""
        return ReserveTrigger(ReserveBudgets(self.reserve_tokens, self.keep_recent_tokens))

    def should_compact(self, context_tokens: int, context_window: int) -> bool:
        """Whether the context is above window - reserve. False if disabled or if the window is unknown (0)."""
        if not self.enabled or context_window < 1:
            return False
        return self.trigger.get_limits(context_window, output_reserve=0, floor=0).get_need(context_tokens) in (
            "soft",
            "hard",
        )

    def build_policy(self, counter: Counter, summary: SummarySettings | None = None) -> Policy:
        """Builds the policy `tail` with these settings."""
        return tail(
            counter,
            summary=summary,
            enabled=self.enabled,
            reserve_tokens=self.reserve_tokens,
            keep_recent_tokens=self.keep_recent_tokens,
        )


DEFAULT_SETTINGS = CompactionSettings()
SettingsProvider = Callable[[], CompactionSettings]
"""Returns the current settings; called at every check."""


def should_compact(context_tokens: int, context_window: int, settings: CompactionSettings = DEFAULT_SETTINGS) -> bool:
    """Whether to compact; see `CompactionSettings.should_compact`."""
    return settings.should_compact(context_tokens, context_window)


class CompactionDetails(Struct, frozen=True):
    """The files that a compaction covers, sorted. A file that was modified is not listed as read."""

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


class CompactionPreparation(Struct, frozen=True):
    """What would be summarised. `plan` is the same as Tenfold's Plan; `Compaction.compact` carries it out."""

    retained_from_id: str
    messages_to_summarize: tuple[Message, ...]
    turn_prefix_messages: tuple[Message, ...]
    is_split_turn: bool
    tokens_before: int
    previous_summary: str | None
    file_ops: FileLists
    settings: CompactionSettings
    plan: Plan


class CompactionResult(Struct, frozen=True):
    """A summary, and the id of the first entry that stays. If there is no summary, `failed` says why."""

    summary: str
    retained_from_id: str
    tokens_before: int
    details: CompactionDetails = CompactionDetails()
    failed: str = ""


class Compaction:
    """The design's compaction of lists of entries. It keeps no state between calls."""

    def __init__(
        self,
        model: Model | None = None,
        *,
        settings: CompactionSettings | SettingsProvider = DEFAULT_SETTINGS,
        counter: Counter | None = None,
        summary: SummarySettings | None = None,
    ) -> None:
        """`settings` may be a callable, read at every use. Without `summary.models` code writes the summaries."""
        self._model = model
        self._settings = settings
        self._counter = counter or CharacterCounter()
        self._summary = summary

    @property
    def settings(self) -> CompactionSettings:
        """The current settings."""
        return self._settings() if callable(self._settings) else self._settings

    @property
    def policy(self) -> Policy:
        """The policy `tail` with the current settings."""
        policy = self.settings.build_policy(self._counter, self._summary)
        return replace(policy, summary=with_prompts(policy.summary))

    def should_compact(self, context_tokens: int, context_window: int) -> bool:
        """Whether to compact; see `CompactionSettings.should_compact`."""
        return self.settings.should_compact(context_tokens, context_window)

    def prepare(self, path_entries: Sequence[Entry]) -> CompactionPreparation | None:
        """Returns what would be summarised of a path (root to leaf), or None if there is nothing to do.

        There is nothing to do for an empty path, if the last entry is a compaction, or if all fits the tokens to keep.
        """
        if not path_entries or isinstance(path_entries[-1], Block):
            return None
        policy, settings = self.policy, self.settings
        view = View.from_path(Path(path_entries))
        known = TokenCache(policy.counter)
        draft = build_draft(view, policy, Call(), Measures(known, RunningTotal(known)))
        narrative = int(0.8 * settings.reserve_tokens)
        section = render_facts(collect_facts(draft), budget=narrative, count=policy.counter.count)
        goal = replace(
            policy.derive_goal(UNBOUNDED_TARGET, recall="none"),
            summary_overhead=count_frame(draft, "none", policy.summary),
            facts_budget=section.tokens,
            narrative_budget=narrative,
        )
        after = CutStage().apply(draft, goal)
        plan = Plan(after, goal, (), draft.tokens, after.tokens)
        return build_preparation(plan, settings, policy.summary) if plan.changed_pieces else None

    def compact(self, preparation: CompactionPreparation, custom_instructions: str | None = None) -> CompactionResult:
        """Writes the summary and appends nothing. A failure is stored in the result, not raised."""
        policy, plan = self.policy, preparation.plan
        facts = collect_facts(plan.draft)
        focus = custom_instructions or ""
        writing = FillRequest(_OWN_BLOCK, facts, policy.summary, policy.counter.count, focus, writer=policy.writer)
        results: list[FilledPlan] = []
        run_engine(_fill_plan(plan, writing, results), Answerer(model=self._model))
        (filled,) = results
        if filled.failure:
            return CompactionResult("", preparation.retained_from_id, preparation.tokens_before, failed=filled.failure)
        says = [s.message for r in filled.replacements for s in r.shown_items if isinstance(s, Substitute)]
        return CompactionResult(
            strip_summary_marks(says[-1], policy.summary),
            preparation.retained_from_id,
            preparation.tokens_before,
            extract_details(facts, plan.changed_pieces[0].last),
        )


def _fill_plan(plan: Plan, writing: FillRequest, results: list[FilledPlan]) -> Effects:
    results.append((yield from fill_plan(plan, writing)))
    return EngineResult(Outcome("nothing", "written, not appended", plan.tokens_before, plan.tokens_before, 0))


def extract_details(facts: Sequence[Fact], until: int | None = None) -> CompactionDetails:
    """Extracts the files from facts, up to position `until`."""
    files = list_files(facts, until=until)
    return CompactionDetails(files.read, files.modified)


def strip_summary_marks(message: Message, settings: SummarySettings) -> str:
    """Returns a summary's text without its tags and fixed sentences, but with its lists of files and facts."""
    text = extract_summary_text(get_text(message)) or get_text(message)
    return text.removeprefix(settings.opening).removesuffix(settings.closing).strip()


def build_preparation(plan: Plan, settings: CompactionSettings, summary: SummarySettings) -> CompactionPreparation:
    """Converts a plan of the policy `tail` to the design's fields. The plan must change something."""
    (piece,) = (p for p in plan.changed_pieces if p.summary_budget)
    turn = piece.cut_positions[0] if piece.cut_positions else None
    history: list[Message] = []
    prefix: list[Message] = []
    previous: list[str] = []
    for unit in piece.units:
        for shown in unit.visible_messages:
            text = extract_summary_text(get_text(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None:
                previous.append(without_footer(get_narrative(text, summary)).strip())
            else:
                (prefix if turn is not None and unit.first >= turn else history).append(shown.message)
    return CompactionPreparation(
        _find_retained_id(plan, piece),
        tuple(history),
        tuple(prefix),
        turn is not None,
        plan.tokens_before,
        "\n\n".join(previous) or None,
        list_files(collect_facts(plan.draft), until=piece.last),
        settings,
        plan,
    )


def _find_retained_id(plan: Plan, piece: DraftPiece) -> str:
    """Returns the id of the first entry that stays: the next one in view, else that of the open step."""
    view = plan.draft.view
    tail = (p.first for p in plan.draft.pieces if p.first > piece.last and p.get_visible_messages())
    step = view.open_step.first if view.open_step is not None else piece.last
    return view.path.get_entry(next(tail, step)).id


def serialize_conversation(messages: Sequence[Message]) -> str:
    """Renders messages as a summarising model reads them under `tail`: labelled, with a blank line between them.

    User and assistant text is complete here; a real request limits it. A tool result keeps 2,000 characters.
    """
    texts = (render_message(position, message, sys.maxsize, "labelled") for position, message in enumerate(messages))
    return "\n\n".join(text for text in texts if text)
