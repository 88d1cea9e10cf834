"""When to compact and down to what. Triggers turn a window into limits, and a Decision says what follows from them.

A trigger is a frozen value with one method, `get_limits`. Published numbers are upper bounds for large windows. All
sizes are clamped, so that one compaction leaves at least a fifth of the window free in a small window as well. Whether
to act now, and whether acting again could help, is decided in `guard.py`.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from tenfold.errors import UsageError

Demand = Literal["check", "manual", "tool", "overflow"]
"""Who asks: an automatic check, a person, the model by a tool, or a provider that refused a request as too long."""
Need = Literal["none", "warn", "soft", "hard"]

DEFAULT_WINDOW = 100_000
"""For the preset `blocks` only, where neither the model's window nor the caller's is known."""


class Limits(Struct, frozen=True):
    """The sizes a view is compared with, in tokens as a Reading gives them (its floor included).

    `warning` <= `soft` <= `hard`, and `target` lies below `soft`. Above `hard`, view and answer exceed the window. With
    `inclusive`, a view of exactly `soft` tokens triggers; without it, only a larger one does.
    """

    soft: int
    hard: int
    target: int
    warn: int
    at_soft: bool = True

    def need(self, tokens: int) -> Need:
        """Returns how urgently a view of this size needs a compaction."""
        if tokens > self.hard:
            return "hard"
        if tokens > self.soft or (self.at_soft and tokens == self.soft):
            return "soft"
        return "warn" if tokens >= self.warn else "none"


class Decision(Struct, frozen=True):
    """Whether to act, how urgently, and down to which size. `reason` is one sentence that carries the arithmetic.

    `status` says why nothing is done although something was asked for. `target_missed` means that the least possible
    size lies above the target, so the compaction aims at that size. `already_recorded` means that the log has the same
    refusal, and it is not recorded again. `next_trigger` is the size from which it would act again, in the same tokens
    as the target.
    """

    act: bool
    need: Need
    target: int
    limit: int
    status: Literal["", "nothing", "unsatisfiable"]
    target_missed: bool
    reason: str
    known: bool = False
    fires: int = 0


class Trigger(Protocol):
    """When a policy acts."""

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Returns the limits in a window. `output_reserve` is kept free for the answer; `floor` cannot be compacted."""
        ...


class Fill(Struct, frozen=True):
    """`tenfold`: shares of (window - output reserve) at which to prepare, to act, and to aim."""

    prepare: float = 0.70
    act: float = 0.85
    target: float = 0.40

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - shares of the whole need no floor
        """Triggers at the limit. The floor needs no allowance, because the target is a share of the whole."""
        usable = _usable(window, output_reserve)
        return _clamped(
            window,
            usable,
            soft=_share(self.act, usable),
            target=_share(self.target, usable),
            warn=_share(self.prepare, usable),
        )


class Reserve(Struct, frozen=True):
    """`tail`: keeps `reserve_tokens` of the window free, and the newest `keep_recent_tokens` of the conversation."""

    reserve_tokens: int = 8_192
    keep_recent_tokens: int = 16_384

    def reserve(self, window: int) -> int:
        """Returns the reserve in this window: at most half of it."""
        return min(self.reserve_tokens, window // 2)

    def keep_recent(self, window: int, floor: int) -> int:
        """Returns the recent tail in this window: at most half of what reserve and floor leave."""
        return min(self.keep_recent_tokens, max(0, window - self.reserve(window) - floor) // 2)

    def summary(self, window: int, floor: int) -> int:
        """Returns the summary's budget: 0.8 of the reserve, at most half of what reserve, floor and tail leave."""
        rest = window - self.reserve(window) - floor - self.keep_recent(window, floor)
        return min(int(0.8 * self.reserve(window)), max(0, rest) // 2)

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers above window - reserve, not at it. Aims at floor + 4/3 x (tail + summary): a third for facts."""
        target = floor + (self.keep_recent(window, floor) + self.summary(window, floor)) * 4 // 3
        soft = window - self.reserve(window)
        return _clamped(window, _usable(window, output_reserve), soft=soft, target=target, at_soft=False)


class Fraction(Struct, frozen=True):
    """`tiers`: shares of what the window leaves after the output reserve (the larger of its own and the caller's)."""

    act: float = 0.80
    target: float = 0.60
    warn: float = 0.70
    output_reserve: int = 16_000

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - shares of the whole need no floor
        """Triggers at the limit. The reserve takes at most half the window, so some of it is always available."""
        available = _usable(window, max(self.output_reserve, output_reserve))
        return _clamped(
            window,
            available,
            soft=_share(self.act, available),
            target=_share(self.target, available),
            warn=_share(self.warn, available),
        )


class Headroom(Struct, frozen=True):
    """`blocks`: triggers when headroom = compact_at - system share - messages' share falls below `least_headroom`.

    In IEEE doubles, as published: with 100,000 and 4,000 tokens of system prompt, 80,999 stays and 81,000 triggers.
    """

    compact_at: float = 0.90
    least_headroom: float = 0.05
    system_prompt_tokens: int = 4_000
    target: float = 0.40

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers at the limit, the first size whose headroom is too small.

        A known floor takes the place of the system prompt, and then counts on both sides. Without one, the system
        prompt is `system_prompt_tokens`, at most a quarter of the window.
        """
        system = floor if floor > 0 else min(self.system_prompt_tokens, window // 4)
        usable = _usable(window, output_reserve)
        soft = self._first(window, system) + max(0, floor)
        return _clamped(window, usable, soft=soft, target=_share(self.target, usable))

    def _fires(self, messages: int, window: int, system: int) -> bool:
        return self.compact_at - system / window - messages / window < self.least_headroom

    def _first(self, window: int, system: int) -> int:
        first = max(0, int((self.compact_at - self.least_headroom) * window) - system - 2)
        while not self._fires(first, window, system):
            first += 1
        return first


class CalibratedBuffer(Struct, frozen=True):
    """`threshold`: a buffer of 20,000 tokens in windows of 200,000 and more, of a fifth in smaller ones."""

    large_window: int = 200_000
    large_buffer: int = 20_000
    share: float = 0.20

    def buffer(self, window: int) -> int:
        """Returns the buffer in this window. The jump at 200,000 (39,999 below, 20,000 from it on) is published."""
        return min(self.large_buffer, window // 2) if window >= self.large_window else _share(self.share, window)

    def summary(self, window: int) -> int:
        """Returns the summary's budget: half the buffer."""
        return int(self.buffer(window) * 0.50)

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers at the limit. Aims at floor + buffer: one half for the summary, one for facts and continuation."""
        buffer = self.buffer(window)
        return _clamped(window, _usable(window, output_reserve), soft=window - buffer, target=floor + buffer)


class Budget(Struct, frozen=True):
    """`clip`: triggers above a share of the window less the overhead of system prompt, tools and answer.

    A Reading's tokens already include system prompt and tools, so only the answer is subtracted here.
    """

    context_budget: float = 0.80
    target: float = 0.40

    def limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - shares of the whole need no floor
        """Triggers above the limit, not at it."""
        usable = _usable(window, output_reserve)
        soft = _share(self.context_budget, window) - (window - usable)
        return _clamped(window, usable, soft=soft, target=_share(self.target, usable), at_soft=False)


def _share(share: float, whole: int) -> int:
    """Returns a share in whole tokens: 0.7 of 184,000 is 128,800, whatever the binary fractions are."""
    return int(share * whole + 1e-6)


def _usable(window: int, output_reserve: int) -> int:
    """Returns the window less the output reserve, which takes at most half of it."""
    if window < 1:
        raise UsageError(f"a window of {window} tokens cannot hold anything; give the model's context window in tokens")
    return window - min(max(0, output_reserve), window // 2)


def _clamped(
    window: int, hard: int, *, soft: int, target: int, warn: int | None = None, at_soft: bool = True
) -> Limits:
    """Puts limits in order: soft within the hard limit, target at most four fifths of soft, warning below soft."""
    soft = max(1, min(soft, hard))
    target = max(1, min(target, soft * 4 // 5, window * 4 // 5))
    default_warning = soft * 14 // 17 if warn is None else warn
    return Limits(soft, hard, target, max(0, min(default_warning, soft)), at_soft)
