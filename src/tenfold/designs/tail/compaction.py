"""The design's `Compaction`: settings, when to compact, what would be summarised, and the summary as a value.

`prepare` finds the cut with the stage of the policy `tail`, and `compact` writes with its writer, as a session does.
Neither needs a store. To append the result, see `append_compaction` in `session_context`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call, Measures
from tenfold.compaction.engine.compact import Effects, build_draft
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.file_footer import without_footer
from tenfold.compaction.facts.section import render_facts
from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, RecallMode
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.stages.condense import build_summary
from tenfold.compaction.plan.stubs import render_expand_hint
from tenfold.compaction.summarize.fill import FillRequest, collect_covered_files, collect_facts, count_frame, fill_plan
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.compaction.summarize.transcript import render_message
from tenfold.compaction.summarize.visible_text import get_narrative
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.meter.counters import CharacterCounter, Counter
from tenfold.core.meter.estimators import Calibration
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.ask import EngineResult, Outcome
from tenfold.core.record.block import FileLists, Run, Substitute
from tenfold.core.record.entry import Entry
from tenfold.core.record.message import Message, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.wire.marks import extract_summary_text, find_summary_mark
from tenfold.designs.tail.context_tokens import estimate_context_tokens
from tenfold.designs.tail.cut import CutStage, ReserveBudgets
from tenfold.designs.tail.policy import DEFAULTS, resolve_keep_tokens, tail
from tenfold.designs.tail.recorded_compaction import is_compaction_last
from tenfold.errors import UsageError
from tenfold.models.model import Model
from tenfold.session.compactor import name_writer
from tenfold.session.drive import Answerer, arun_engine, run_engine

UNBOUNDED_TARGET = Counted(1 << 40)
"""A target that never limits: `prepare` knows no window."""
_OWN_BLOCK = "0" * 8


@dataclass(frozen=True, init=False)
class CompactionSettings:
    """The design's settings. The sizes, in tokens, are upper bounds for large windows; see `ReserveBudgets`.

    The design has two names for `keep_recent_tokens`. The other one, `retain_recent_tokens`, can be given and read too.
    """

    enabled: bool = True
    reserve_tokens: int = DEFAULTS.reserve_tokens
    keep_recent_tokens: int = DEFAULTS.keep_recent_tokens

    def __init__(
        self,
        enabled: bool = True,  # noqa: FBT001, FBT002 - published in this place
        reserve_tokens: int = DEFAULTS.reserve_tokens,
        keep_recent_tokens: int = DEFAULTS.keep_recent_tokens,
        *,
        retain_recent_tokens: int | None = None,
    ) -> None:
        """Raises `UsageError` if both names are given with different numbers."""
        keep = resolve_keep_tokens(keep_recent_tokens, retain_recent_tokens)
        for name, value in (("enabled", enabled), ("reserve_tokens", reserve_tokens), ("keep_recent_tokens", keep)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_policy(cls, policy: Policy) -> CompactionSettings:
        """Returns the settings that a policy has: its sizes if it is of the preset `tail`, else the published ones."""
        sizes = next((stage.budgets for stage in policy.stages if isinstance(stage, CutStage)), DEFAULTS)
        return cls(policy.auto, sizes.reserve_tokens, sizes.keep_recent_tokens)

    @property
    def retain_recent_tokens(self) -> int:
        """The design's second name for `keep_recent_tokens`."""
        return self.keep_recent_tokens

    @property
    def budgets(self) -> ReserveBudgets:
        """The sizes, which depend on the window."""
        return ReserveBudgets(self.reserve_tokens, self.keep_recent_tokens)

    def should_compact(self, context_tokens: int, context_window: int) -> bool:
        """Whether the context is above window - reserve, for any window. False if disabled, or if the window is 0.

        This is the published formula. A session clamps the reserve to its window (see `ReserveBudgets`), so that one
        compaction also suffices in a small one.
        """
        return self.enabled and context_window > 0 and context_tokens > context_window - self.reserve_tokens

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


def track_settings(
    settings: CompactionSettings | SettingsProvider, base: Callable[[], Policy], report: Callable[[str], None]
) -> Callable[[], Policy]:
    """Returns a provider of the policy `tail` with these settings, for `session.compactor.use_policy`.

    `base` is the provider before it: its summary settings go on, and where its automatic checks are off they stay off.
    If the settings cannot be read or used, the last ones hold and `report` is told why. Raises what `settings` raises
    if there are no last ones yet.
    """
    read = settings if callable(settings) else lambda: settings
    last = read()

    def build() -> Policy:
        policy = base()
        built = last.build_policy(policy.counter, policy.summary)
        return replace(built, auto=built.auto and policy.auto)

    def read_policy() -> Policy:
        nonlocal last
        before = last
        try:
            last = read()
            return build()
        except Exception as exc:  # noqa: BLE001 - a user's callable may raise anything; it is reported
            report(f"the settings callable raised {type(exc).__name__}: {exc}; the last settings hold")
            last = before
            return build()

    build()
    return read_policy


def should_compact(context_tokens: int, context_window: int, settings: CompactionSettings = DEFAULT_SETTINGS) -> bool:
    """Whether to compact; see `CompactionSettings.should_compact`."""
    return settings.should_compact(context_tokens, context_window)


@dataclass(frozen=True)
class CompactionDetails:
    """The files that a compaction covers, sorted. A file that was modified is not listed as read."""

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


NO_DETAILS = CompactionDetails()
"""No files."""


@dataclass(frozen=True)
class CompactionPreparation:
    """What would be summarised. `plan` is the same as Tenfold's Plan; `Compaction.compact` carries it out.

    `file_ops` holds the paths that are "read" and those that are "modified" in all that would be summarised, and in
    what the compaction before covers.
    """

    retained_from_id: str
    messages_to_summarize: tuple[Message, ...]
    turn_prefix_messages: tuple[Message, ...]
    is_split_turn: bool
    tokens_before: int
    previous_summary: str | None
    file_ops: dict[str, tuple[str, ...]]
    settings: CompactionSettings
    plan: Plan


@dataclass(frozen=True)
class CompactionResult:
    """A summary, and the id of the first entry that stays. If there is no summary, `failed` says why."""

    summary: str
    retained_from_id: str
    tokens_before: int
    details: CompactionDetails = NO_DETAILS
    failed: str = ""


@dataclass(frozen=True)
class CutPointResult:
    """Where the retained tail begins, as indexes of entries. `turn_start_index` is -1 unless the cut splits a turn."""

    first_kept_entry_index: int
    turn_start_index: int
    is_split_turn: bool


def find_prev_compaction_index(path_entries: Sequence[Entry]) -> int:
    """Finds the newest compaction in force on a path, and returns its index; -1 if there is none."""
    live = View.from_path(Path(path_entries)).state.live_blocks
    return live[-1] if live else -1


def find_cut_point(
    path_entries: Sequence[Entry],
    start_index: int = 0,
    end_index: int | None = None,
    keep_recent_tokens: int = DEFAULTS.keep_recent_tokens,
    *,
    retain_recent_tokens: int | None = None,
) -> CutPointResult:
    """Finds where the newest tokens to keep begin, in the entries from `start_index` to before `end_index`.

    The tail begins with a whole step, never with a tool result. If all fits, the cut is at the start.
    """
    end = len(path_entries) if end_index is None else end_index
    keep = resolve_keep_tokens(keep_recent_tokens, retain_recent_tokens)
    compaction = Compaction(settings=CompactionSettings(keep_recent_tokens=keep))
    found = compaction.prepare(path_entries[:end]) if end else None
    ids = [entry.id for entry in path_entries]
    cut = ids.index(found.retained_from_id) if found is not None else start_index
    if found is None or cut <= start_index:
        return CutPointResult(start_index, -1, is_split_turn=False)
    if not found.is_split_turn:
        return CutPointResult(cut, -1, is_split_turn=False)
    (piece,) = (p for p in found.plan.changed_pieces if p.cut_positions)
    return CutPointResult(cut, max(start_index, piece.cut_positions[0]), is_split_turn=True)


class Compaction:
    """The design's compaction of lists of entries. It keeps no state between calls."""

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        settings: CompactionSettings | SettingsProvider = DEFAULT_SETTINGS,
        counter: Counter | None = None,
        summary: SummarySettings | None = None,
    ) -> None:
        """`model`, also by its name as for `Agent`, writes the summaries; without one code does.

        `settings` may be a callable, read at every use. Raises `UsageError` for a model that cannot be used.
        """
        self._model = open_model(model)
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
        return complete_policy(policy, self._model)

    def should_compact(self, context_tokens: int, context_window: int) -> bool:
        """Whether to compact; see `CompactionSettings.should_compact`."""
        return self.settings.should_compact(context_tokens, context_window)

    def prepare(self, path_entries: Sequence[Entry]) -> CompactionPreparation | None:
        """Returns what would be summarised of a path (root to leaf), or None if there is nothing to do.

        There is nothing to do for an empty path, if the last entry is a compaction, or if all fits the tokens to keep.
        """
        if not path_entries or is_compaction_last(path_entries):
            return None
        draft, goal = self._start_plan(View.from_path(Path(path_entries)))
        after = CutStage(self.settings.budgets).apply(draft, goal)
        plan, size = Plan(after, goal, (), draft.tokens, after.tokens), self._estimate_context(draft, path_entries)
        return build_preparation(plan, size, self.settings, self.policy.summary) if plan.changed_pieces else None

    def _estimate_context(self, draft: Draft, path_entries: Sequence[Entry]) -> int:
        """Estimates what the provider counts: by the last usage and what came since, else by our count, corrected."""
        found = estimate_context_tokens(path_entries)
        if found.last_usage_index is not None:
            return found.tokens
        estimator, name = self.policy.estimator, self._counter.name
        return estimator.read(draft.tokens, Calibration(), model="", window=None, counter=name).tokens

    def prepare_range(
        self, view: View, covered: Run, *, exchange_start: int | None, tokens_before: int
    ) -> CompactionPreparation:
        """Returns the preparation of a compaction that is already planned, as a hook is asked of it.

        `covered` is the range of positions that it summarises, and `exchange_start` where the exchange begins that the
        end of the range splits.
        """
        draft, goal = self._start_plan(view)
        inside = [n for n, p in enumerate(draft.pieces) if covered.first <= p.first <= covered.last]
        first, until = inside[0], inside[-1] + 1
        budget = goal.summary_overhead + goal.facts_budget + goal.narrative_budget
        piece = build_summary(draft, draft.pieces[first:until], draft.measure_kept(), budget)
        piece = replace(piece, cut_positions=() if exchange_start is None else (exchange_start,))
        after = draft.with_piece(first, piece, until=until)
        plan = Plan(after, goal, (), draft.tokens, after.tokens)
        return build_preparation(plan, tokens_before, self.settings, self.policy.summary)

    def _start_plan(self, view: View) -> tuple[Draft, Goal]:
        """Returns the draft that changes nothing, and a goal that no window limits."""
        policy, known = self.policy, TokenCache(self._counter)
        draft = build_draft(view, policy, Call(), Measures(known, RunningTotal(known)))
        narrative = Counted(int(0.8 * self.settings.reserve_tokens))
        section = render_facts(collect_facts(draft), budget=narrative, count=policy.counter.count)
        goal = replace(
            policy.derive_goal(UNBOUNDED_TARGET, recall="none"),
            summary_overhead=count_frame(draft, "none", policy.summary),
            facts_budget=Counted(section.tokens),
            narrative_budget=narrative,
        )
        return draft, goal

    def compact(self, preparation: CompactionPreparation, custom_instructions: str | None = None) -> CompactionResult:
        """Writes the summary and appends nothing. A failure is stored in the result, not raised."""
        results: list[CompactionResult] = []
        run_engine(self._write(preparation, custom_instructions or "", results), Answerer(model=self._model))
        return results[0]

    async def acompact(
        self, preparation: CompactionPreparation, custom_instructions: str | None = None
    ) -> CompactionResult:
        """Does the same as `compact` without blocking the event loop, for instance in a hook that is a coroutine."""
        results: list[CompactionResult] = []
        await arun_engine(self._write(preparation, custom_instructions or "", results), Answerer(model=self._model))
        return results[0]

    def _write(self, preparation: CompactionPreparation, focus: str, results: list[CompactionResult]) -> Effects:
        policy, plan, before = self.policy, preparation.plan, preparation.plan.tokens_before
        writing = FillRequest(
            _OWN_BLOCK, collect_facts(plan.draft), policy.summary, policy.counter.count, focus, writer=policy.writer
        )
        filled = yield from fill_plan(plan, writing)
        says = [s.message for r in filled.replacements for s in r.shown_items if isinstance(s, Substitute)]
        summary = "" if filled.failure else strip_summary_marks(says[-1], policy.summary)
        details = NO_DETAILS if filled.failure else to_details(filled.files)
        results.append(
            CompactionResult(
                summary, preparation.retained_from_id, preparation.tokens_before, details, failed=filled.failure
            )
        )
        return EngineResult(Outcome("nothing", "written, not appended", before, before, NO_TOKENS))


def open_model(model: Model | str | None) -> Model | None:
    """Opens a model by its name, or returns the given one. Raises `UsageError` for anything else."""
    if isinstance(model, str):
        from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an optional extra

        return ProviderModel(model)
    if model is not None and not callable(getattr(model, "answer", None)):
        raise UsageError(
            "`model` is a name as in 'anthropic:claude-haiku-4-5', or a `tenfold.models.model.Model`, which answers "
            f"Asks, and not a {type(model).__name__}"
        )
    return model


def complete_policy(policy: Policy, model: Model | None) -> Policy:
    """Returns the policy with the packaged prompts. If it names no model, `model` (if any) writes the summaries."""
    summary = with_prompts(policy.summary)
    if model is not None and not summary.models:
        summary = replace(summary, models=(name_writer(model),))
    return replace(policy, summary=summary)


def to_details(files: FileLists | None) -> CompactionDetails:
    """Converts lists of files to the design's details."""
    return NO_DETAILS if files is None else CompactionDetails(files.read, files.modified)


def strip_summary_marks(message: Message, settings: SummarySettings) -> str:
    """Returns a summary's text without its tags and fixed sentences, but with its lists of files and facts."""
    text = extract_summary_text(get_text(message)) or get_text(message)
    mark = find_summary_mark(get_text(message))
    if mark is not None:
        hints = (render_expand_hint(recall, mark.block) for recall in get_args(RecallMode))
        for hint in filter(None, hints):
            text = text.replace(f"\n\n{hint}", "")
    return text.removeprefix(settings.opening).removesuffix(settings.closing).strip()


def build_preparation(
    plan: Plan, tokens_before: int, settings: CompactionSettings, summary: SummarySettings
) -> CompactionPreparation:
    """Converts a plan of the policy `tail`, for a context of that many tokens, to the design's fields.

    The plan must change something.
    """
    (piece,) = (p for p in plan.changed_pieces if p.summary_budget)
    turn = piece.cut_positions[0] if piece.cut_positions else None
    files = collect_covered_files(plan.draft, piece.last)
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
        tokens_before,
        "\n\n".join(previous) or None,
        {"read": files.read, "modified": files.modified},
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
