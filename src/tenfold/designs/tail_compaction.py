"""The design's `Compaction`: settings, when to compact, what would be summarised, and the summary as a value.

`prepare` finds the cut with the stage of the policy `tail`, and `compact` writes with its writer, as a session does.
Neither needs a store. To append the result, see `append_compaction` in `session_context`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.drive import Answerer, run
from tenfold.engine import Bench, Call, Effects, drafted
from tenfold.llm.model import Model
from tenfold.meter.counters import Characters4, Counter
from tenfold.meter.reading import Sizes, Tally
from tenfold.plan.draft import Piece
from tenfold.plan.plan import Plan
from tenfold.plan.stages.cut import Cut
from tenfold.policies.tail import DEFAULTS, tail
from tenfold.policy import Policy
from tenfold.record.ask import Outcome, Verdict
from tenfold.record.block import Block, Fact, Say
from tenfold.record.entry import Entry
from tenfold.record.message import Message, text_of
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.fill import Filled, Writing, fill, frame_of, known_facts, story_of
from tenfold.summarize.labelled import labelled
from tenfold.summarize.section import render
from tenfold.summarize.split import Files, files_of, without_footer
from tenfold.summarize.summarize import Settings
from tenfold.trigger.triggers import Reserve
from tenfold.view.path import Path
from tenfold.view.view import View
from tenfold.wire.marks import summary_text

UNBOUNDED = 1 << 40
"""A target that never limits: `prepare` knows no window."""
_OWN = "0" * 8


class CompactionSettings(Struct, frozen=True):
    """The design's settings. The sizes, in tokens, are upper bounds for large windows; see `trigger.Reserve`."""

    enabled: bool = True
    reserve_tokens: int = DEFAULTS.reserve_tokens
    keep_recent_tokens: int = DEFAULTS.keep_recent_tokens

    @property
    def retain_recent_tokens(self) -> int:
        """The design's second name for `keep_recent_tokens`."""
        return self.keep_recent_tokens

    @property
    def sizes(self) -> Reserve:
        """Tenfold's trigger with these sizes."""
        return Reserve(self.reserve_tokens, self.keep_recent_tokens)

    def should_compact(self, context_tokens: int, context_window: int) -> bool:
        """Whether the context is above window - reserve. False if disabled or if the window is unknown (0)."""
        if not self.enabled or context_window < 1:
            return False
        return self.sizes.limits(context_window, output_reserve=0, floor=0).need(context_tokens) in ("soft", "hard")

    def policy(self, counter: Counter, summary: Settings | None = None) -> Policy:
        """Builds the policy `tail` with these settings."""
        return tail(
            counter,
            summary=summary,
            enabled=self.enabled,
            reserve_tokens=self.reserve_tokens,
            keep_recent_tokens=self.keep_recent_tokens,
        )


DEFAULT = CompactionSettings()
SettingsProvider = Callable[[], CompactionSettings]
"""Returns the current settings; called at every check."""


def should_compact(context_tokens: int, context_window: int, settings: CompactionSettings = DEFAULT) -> bool:
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
    file_ops: Files
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
        settings: CompactionSettings | SettingsProvider = DEFAULT,
        counter: Counter | None = None,
        summary: Settings | None = None,
    ) -> None:
        """`settings` may be a callable, read at every use. Without `summary.models` code writes the summaries."""
        self._model = model
        self._settings = settings
        self._counter = counter or Characters4()
        self._summary = summary

    @property
    def settings(self) -> CompactionSettings:
        """The current settings."""
        return self._settings() if callable(self._settings) else self._settings

    @property
    def policy(self) -> Policy:
        """The policy `tail` with the current settings."""
        policy = self.settings.policy(self._counter, self._summary)
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
        view = View.of(Path(path_entries))
        known = Sizes(policy.counter)
        draft = drafted(view, policy, Call(), Bench(known, Tally(known)))
        narrative = int(0.8 * settings.reserve_tokens)
        section = render(known_facts(draft), budget=narrative, count=policy.counter.count)
        goal = replace(
            policy.goal(UNBOUNDED, recall="none"),
            frame=frame_of(draft, "none", policy.summary),
            facts=section.tokens,
            narrative=narrative,
        )
        after = Cut(settings.sizes).apply(draft, goal)
        plan = Plan(after, goal, (), draft.tokens, after.tokens)
        return preparation_of(plan, settings, policy.summary) if plan.changed else None

    def compact(self, preparation: CompactionPreparation, custom_instructions: str | None = None) -> CompactionResult:
        """Writes the summary and appends nothing. A failure is stored in the result, not raised."""
        policy, plan = self.policy, preparation.plan
        facts = known_facts(plan.draft)
        focus = custom_instructions or ""
        writing = Writing(_OWN, facts, policy.summary, policy.counter.count, focus, writer=policy.writer)
        results: list[Filled] = []
        run(_filling(plan, writing, results), Answerer(model=self._model))
        (filled,) = results
        if filled.failed:
            return CompactionResult("", preparation.retained_from_id, preparation.tokens_before, failed=filled.failed)
        says = [s.message for r in filled.replacements for s in r.show if isinstance(s, Say)]
        return CompactionResult(
            bare(says[-1], policy.summary),
            preparation.retained_from_id,
            preparation.tokens_before,
            details_of(facts, plan.changed[0].last),
        )


def _filling(plan: Plan, writing: Writing, done: list[Filled]) -> Effects:
    done.append((yield from fill(plan, writing)))
    return Verdict(Outcome("nothing", "written, not appended", plan.tokens_before, plan.tokens_before, 0))


def details_of(facts: Sequence[Fact], until: int | None = None) -> CompactionDetails:
    """Extracts the files from facts, up to position `until`."""
    files = files_of(facts, until=until)
    return CompactionDetails(files.read, files.modified)


def bare(message: Message, settings: Settings) -> str:
    """Returns a summary's text without its tags and fixed sentences, but with its lists of files and facts."""
    text = summary_text(text_of(message)) or text_of(message)
    return text.removeprefix(settings.opening).removesuffix(settings.closing).strip()


def preparation_of(plan: Plan, settings: CompactionSettings, summary: Settings) -> CompactionPreparation:
    """Converts a plan of the policy `tail` to the design's fields. The plan must change something."""
    (piece,) = (p for p in plan.changed if p.allotment)
    turn = piece.cuts[0] if piece.cuts else None
    history: list[Message] = []
    prefix: list[Message] = []
    previous: list[str] = []
    for unit in piece.units:
        for shown in unit.shown:
            text = summary_text(text_of(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None:
                previous.append(without_footer(story_of(text, summary)).strip())
            else:
                (prefix if turn is not None and unit.first >= turn else history).append(shown.message)
    return CompactionPreparation(
        _retained(plan, piece),
        tuple(history),
        tuple(prefix),
        turn is not None,
        plan.tokens_before,
        "\n\n".join(previous) or None,
        files_of(known_facts(plan.draft), until=piece.last),
        settings,
        plan,
    )


def _retained(plan: Plan, piece: Piece) -> str:
    """Returns the id of the first entry that stays: the next one in view, else that of the open step."""
    view = plan.draft.view
    tail = (p.first for p in plan.draft.pieces if p.first > piece.last and p.shown())
    step = view.step.first if view.step is not None else piece.last
    return view.path.at(next(tail, step)).id


def serialize_conversation(messages: Sequence[Message]) -> str:
    """Renders messages as a summarising model reads them under `tail`: labelled, with a blank line between them.

    User and assistant text is complete here; a real request limits it. A tool result keeps 2,000 characters.
    """
    return "\n\n".join(text for text in (labelled(message, sys.maxsize) for message in messages) if text)
