"""The `Policy` type: when to act, what to do in which order, and how summaries are made. Presets are values of it.

The default policy `tenfold` stands here as well. It acts rarely, in one batch, and deep: it prepares at 70 % and acts
at 85 % of the window less the output reserve, down to 40 %. Rewriting old messages a little before every call would
break the provider's prompt cache, and cost more than doing nothing.

Every default of a policy is written here once. Settings, help and docs read it from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Goal, RecallMode
from tenfold.compaction.plan.pipeline import SessionStage, Stage
from tenfold.compaction.plan.stages import (
    ClearStage,
    MergeStage,
    SummarizePrefixStage,
    SupersededReadsStage,
    TruncateStage,
)
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.compaction.summarize.writer import SingleTextWriter, Writer
from tenfold.compaction.trigger.limits import FillTrigger, Limits, Trigger, check_window, choose_window
from tenfold.core.meter.counters import Counter
from tenfold.core.meter.reading import AnchoredEstimator, Estimator
from tenfold.core.record.ask import Outcome
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.errors import UsageError

NO_FLOOR = ProviderTokens(0)
CheckPoint = Literal["before_call", "after_tools", "user_message", "end_of_run"]

Restorer = Callable[[Any], Outcome | None]
"""Takes a `Session`. Returns what became of the compaction that its file records, None if it records none."""


class Shares(Struct, frozen=True):
    """How a target is divided: fractions of it for the protected tail, user messages, facts and narrative.

    `words` is the part of `facts`, also as a fraction of the target, for all that the user said, word for word.
    `head` is for the first messages of the conversation, which stay as they are, so that the provider's cache holds
    them after an automatic compaction too.
    `with_model` takes the place of all of them where a model writes.
    `request` is what the current request may take word for word; of a longer one head and tail are shown. With
    `fills_room`, what the target has left goes to the summary and to outputs that were elided; without it, facts keep
    to their share.
    """

    tail: float = 0.25
    users: float = 0.10
    facts: float = 0.25
    narrative: float = 0.20
    words: float = 0.0
    request: float = 1.0
    head: float = 0.0
    fills_room: bool = False
    with_model: Shares | None = None


class Policy(Struct, frozen=True):
    """Says when a conversation is compacted, in which steps, and who writes the summaries.

    Take one by its name, `build_policy("tenfold", counter)`, and replace the fields that shall be different.

    - `trigger` decides when to act and down to which size. It is asked at the points in `checks`, and before every
      call whether the request still fits the window. With `auto` False nobody asks it: the policy compacts on demand.
    - `stages` make the view smaller, in this order, until it fits the target. `shares` divide the target
      among them.
    - `counter` counts tokens, and `estimator` corrects its counts by what the provider has reported.
    - `summary` holds the prompts and the models, and `writer` writes with them. With `can_prepare`, a model writes
      ahead of time, before the trigger fires.
    - A Block has to save at least `shrink_tokens`, and `shrink_share` of the view. After a failed attempt or an undo,
      the policy waits until the view has grown by `growth_share` of the window.
    - `restorer`, if there is one, gets each session that was read from another tool's file. It puts the newest
      compaction in force that the file records.
    """

    name: str
    trigger: Trigger
    stages: tuple[Stage, ...]
    counter: Counter
    estimator: Estimator = AnchoredEstimator()
    summary: SummarySettings = SummarySettings()
    shares: Shares = Shares()
    checks: tuple[CheckPoint, ...] = ("before_call",)
    shrink_tokens: int = 1_000
    shrink_share: float = 0.10
    growth_share: float = 0.05
    writer: Writer = SingleTextWriter()
    auto: bool = True
    can_prepare: bool = False
    restorer: Restorer | None = None

    def __repr__(self) -> str:
        """Says its name and how many stages it has, not what they are set to."""
        count = len(self.stages)
        return f"<Policy {self.name!r}: {count} stage{'s' * (count != 1)}{'' if self.auto else ', by hand only'}>"

    @property
    def can_shorten(self) -> bool:
        """Whether it shows head and tail of a current request that would take too much of the target."""
        return self.shares.request < 1

    @property
    def token_factor(self) -> float:
        """How many of its model's tokens one of the counter's is taken for, where a text must fit that model."""
        return self.estimator.get_factor(self.summary.models[0], self.counter.name) if self.summary.models else 1.0

    def derive_goal(
        self, target: Counted, *, recall: RecallMode, window: int | None = None, exact: bool = False
    ) -> Goal:
        """Derives the sizes of a Goal from a target, all in tokens."""
        has_model = bool(self.summary.models)
        shares = (self.shares.with_model if has_model else None) or self.shares
        return Goal(
            target=target,
            stage_target=target,
            tail_budget=Counted(int(target * shares.tail)),
            user_budget=Counted(int(target * shares.users)),
            facts_budget=Counted(int(target * shares.facts)),
            narrative_budget=Counted(int(target * shares.narrative)),
            words_budget=Counted(int(target * shares.words)),
            fills_room=shares.fills_room,
            recall=recall,
            window=window,
            exact=exact,
            has_model=has_model,
            focus=self.summary.instructions,
        )

    def get_limits(self, window: int, *, output_reserve: int = 0, floor: ProviderTokens = NO_FLOOR) -> Limits:
        """Returns the sizes in tokens at which it acts in a window, and what became of the output reserve (`note`).

        `output_reserve` is what the answer may take, `floor` what is sent besides the messages. A reserve that leaves
        nothing of the window is refused: a session goes on without it and says so in each Outcome. Raises `UsageError`
        for a window below 1.

            limits = policy.get_limits(200_000, output_reserve=20_000)
            limits.hard  # 180000
        """
        check_window(window)
        return self.trigger.get_limits(window, output_reserve=output_reserve, floor=floor)

    def choose_window(self, known: int | None) -> int | None:
        """Returns the window where the caller names none: the trigger's own (`WindowTrigger`), else the `known` one."""
        return choose_window(self.trigger, known)

    def with_list_stages(self) -> Policy:
        """Returns the policy for a plain list that belongs to no session: see `SessionStage`."""
        lists = (stage.list_stages for stage in self.stages if isinstance(stage, SessionStage))
        return replace(self, stages=next(lists, self.stages))

    def get_minimum_shrink(self, tokens: Counted) -> Counted:
        """Returns how many tokens a Block must save on a view of this size: the larger of both bounds."""
        return Counted(max(self.shrink_tokens, int(tokens * self.shrink_share)))

    def get_minimum_growth(self, window: int) -> ProviderTokens:
        """Returns how much the view must grow before the next attempt on the same path, as the provider counts it."""
        return ProviderTokens(max(1, int(window * self.growth_share)))


_WITH_MODEL = Shares(tail=0.15, users=0.0, facts=0.25, narrative=0.60, words=0.15, request=0.25, fills_room=True)
"""A model tells as much in less room than code, so the user's own words and the newest messages get more."""
_HEAD = 0.375
"""15 % of the window, at the default target (docs/decisions/0036)."""
SHARES = Shares(
    tail=0.15, users=0.0, facts=0.25, narrative=0.60, request=0.25, head=_HEAD, fills_room=True, with_model=_WITH_MODEL
)
"""Shares of the target: where code writes, what it tells gets most of the room (docs/decisions/0018)."""


def tenfold(counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
    """The policy `tenfold`, counting with `counter`."""
    return Policy(
        name="tenfold",
        trigger=FillTrigger(),
        stages=(SupersededReadsStage(), TruncateStage(), ClearStage(), SummarizePrefixStage(), MergeStage()),
        counter=counter,
        summary=summary or SummarySettings(),
        shares=SHARES,
        can_prepare=True,
    )


def check_least(numbers: Mapping[str, object], least: int) -> None:
    """Raises `UsageError` naming the first value that is no whole number, or smaller than `least`."""
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"{name} is {value!r}; give a whole number of {least} or more")


def is_share(value: object) -> bool:
    """Whether a value is a share of a whole: a number above 0 and at most 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
