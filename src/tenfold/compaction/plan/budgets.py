"""How large tail and summary may be in a window, for policies whose published sizes are numbers of tokens.

Published numbers are upper bounds for large windows, and are clamped in smaller ones. `config.policy.Shares` divides a
target for all other policies.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Goal
from tenfold.compaction.trigger.limits import get_buffer


class Budgets(Protocol):
    """Puts a policy's sizes for a window into a goal."""

    def apply(self, goal: Goal, floor: int) -> Goal:
        """Returns the goal with these budgets. `floor` is what is sent besides the view, in tokens."""
        ...


class ReserveBudgets(Struct, frozen=True):
    """`tail`: the newest `keep_recent_tokens` stay, and a summary takes at most 0.8 of `reserve_tokens`."""

    reserve_tokens: int = 8_192
    keep_recent_tokens: int = 16_384

    def get_reserve(self, window: int) -> int:
        """Returns the reserve in this window: at most half of it."""
        return min(self.reserve_tokens, window // 2)

    def get_tail_tokens(self, window: int, floor: int) -> int:
        """Returns the recent tail in this window: at most half of what reserve and floor leave."""
        return min(self.keep_recent_tokens, max(0, window - self.get_reserve(window) - floor) // 2)

    def get_summary_budget(self, window: int, floor: int) -> int:
        """Returns the summary's budget: 0.8 of the reserve, at most half of what reserve, floor and tail leave."""
        rest = window - self.get_reserve(window) - floor - self.get_tail_tokens(window, floor)
        return min(int(0.8 * self.get_reserve(window)), max(0, rest) // 2)

    def get_target(self, window: int, floor: int) -> int:
        """Returns what a compaction aims at: floor + 4/3 x (tail + summary). A third is for facts."""
        return floor + (self.get_tail_tokens(window, floor) + self.get_summary_budget(window, floor)) * 4 // 3

    def apply(self, goal: Goal, floor: int) -> Goal:
        """Sets the tail, the limit of the text, and how far a last step may take the view above the target.

        That is four fifths of the trigger. Sizes of the window are converted to the counter's tokens, as the target
        was; not where the caller named the target.
        """
        window = goal.window
        if window is None:
            return replace(goal, tail_budget=self.keep_recent_tokens, text_limit=int(0.8 * self.reserve_tokens))
        ceiling = (window - self.get_reserve(window)) * 4 // 5
        aim = max(1, min(self.get_target(window, 0), ceiling))
        scale = 1.0 if goal.exact else min(1.0, goal.target / aim)
        return replace(
            goal,
            tail_budget=int(self.get_tail_tokens(window, floor) * scale),
            text_limit=self.get_summary_budget(window, floor),
            ceiling=0 if goal.exact else int(ceiling * scale),
        )


class BufferBudgets(Struct, frozen=True):
    """`threshold`: a summary takes at most half the buffer of its trigger."""

    @staticmethod
    def get_text_limit(window: int) -> int:
        """Returns the summary's budget: half the buffer."""
        return get_buffer(window) // 2

    def apply(self, goal: Goal, floor: int) -> Goal:  # noqa: ARG002 - the buffer is a share of the window alone
        """Sets the limit of the text, where the window is known."""
        return goal if goal.window is None else replace(goal, text_limit=self.get_text_limit(goal.window))
