"""A policy: when to act, what to do in which order, and how summaries are made. The presets are values of this type.

Every default of a policy is written here once; settings, help and docs read it from here.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Estimator
from tenfold.plan.draft import Goal, Recall
from tenfold.plan.plan import Stage
from tenfold.summarize.summarize import Settings
from tenfold.summarize.writer import Prose, Writer
from tenfold.trigger.triggers import Trigger

CheckPoint = Literal["before_call", "after_tools", "user_message", "end_of_run"]
DEEPEST = 3.0
"""How many times as much of a target names in use get, at most, the further it lies below a tenth of the session."""
MOST_FACTS = 0.75
"""How much of such a target facts get at most; both were measured (docs/decisions/0010)."""


class Shares(Struct, frozen=True):
    """How a target is divided: fractions of it for the protected tail, user messages, facts and narrative.

    `names` is the fraction that of the facts' room is kept for names in use. Where there are some, both fractions are
    those of a tenth of the session, and grow below it: see `Policy.goal`.
    """

    tail: float = 0.25
    users: float = 0.10
    facts: float = 0.25
    narrative: float = 0.20
    names: float = 0.0


class Policy(Struct, frozen=True):
    """Trigger, ordered stages, summary settings, estimator and check points.

    `checks` are where the soft check is made; the hard one (view and output would exceed the window) is made before
    every call; with `auto` False neither is, and only a demand compacts. With `prepares`, a model's
    summary is written ahead, in the warning zone. `writer` is how summaries are written.
    With `turns`, a check also acts when more entries than that follow the newest summary.
    `in_memory`, if any, are the stages for a plain list that belongs to no session.
    A Block shrinks the view by at least `shrink_tokens` and `shrink_share` of it; after an attempt or an
    undo nothing is tried until the view has grown by `growth_share` of the window.
    """

    name: str
    trigger: Trigger
    stages: tuple[Stage, ...]
    estimator: Estimator
    counter: Counter
    summary: Settings = Settings()
    shares: Shares = Shares()
    checks: tuple[CheckPoint, ...] = ("before_call",)
    fan_out: int = 4
    shrink_tokens: int = 1_000
    shrink_share: float = 0.10
    growth_share: float = 0.05
    writer: Writer = Prose()
    auto: bool = True
    prepares: bool = False
    turns: int = 0
    in_memory: tuple[Stage, ...] = ()
    by_code: Shares | None = None

    @property
    def split(self) -> Shares:
        """How a target is divided: as `by_code` says, if it says anything, where no model is there to write."""
        return self.by_code if self.by_code is not None and not self.summary.models else self.shares

    def goal(self, target: int, *, recall: Recall, whole: int = 0) -> Goal:
        """The sizes, in tokens, that this policy derives from a target, for a session of `whole` tokens.

        The deeper it goes below a tenth, the less can be quoted, and the more room facts and names get.
        """
        split = self.split
        depth = min(DEEPEST, max(1.0, whole / (10 * target))) if split.names else 1.0
        facts = max(split.facts, min(MOST_FACTS, split.facts * depth))
        return Goal(
            target=target,
            stop=target,
            tail=int(target * split.tail),
            users=int(target * split.users),
            facts=int(target * facts),
            narrative=int(target * split.narrative),
            names=int(target * split.names * depth),
            depth=depth,
            fan_out=self.fan_out,
            recall=recall,
            asks=bool(self.summary.models),
            focus=self.summary.instructions,
        )

    def minimum_shrink(self, tokens: int) -> int:
        """How many tokens a Block must save on a view of this size: the larger of the two bounds."""
        return max(self.shrink_tokens, int(tokens * self.shrink_share))

    def minimum_growth(self, window: int) -> int:
        """How many tokens the view must grow before the next attempt on the same path."""
        return max(1, int(window * self.growth_share))
