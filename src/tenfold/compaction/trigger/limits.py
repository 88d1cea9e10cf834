"""When to compact and down to what. Triggers turn a window into limits, and a Decision says what follows from them.

A trigger is a frozen value with the method `get_limits`. Published numbers are upper bounds for large windows. All
sizes are clamped, so that one compaction leaves at least a fifth of the window free in a small window as well. Whether
to act now, and whether acting again could help, is decided in `guard.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.view.fold import View
from tenfold.errors import UsageError

Demand = Literal["check", "manual", "tool", "overflow"]
"""Who asks: an automatic check, a person, the model by a tool, or a provider that refused a request as too long."""
Need = Literal["none", "warn", "soft", "hard"]

Unit = TypeVar("Unit", Counted, ProviderTokens)


class Limits(Struct, frozen=True):
    """The sizes a view is compared with, as the provider counts (the floor of a Reading included).

    `warning` <= `soft` <= `hard` <= `ceiling`, and `target` lies below `soft`. Above `hard`, view and answer exceed the
    window. Above `ceiling` (0: as `hard`) they do so even without what the policy itself keeps free for an answer. With
    `inclusive`, a view of exactly `soft` tokens triggers; without it, only a larger one does. `note` says what became
    of an output reserve that could not be kept as it was given, "" if it was.
    """

    soft: ProviderTokens
    hard: ProviderTokens
    target: ProviderTokens
    warning: ProviderTokens
    inclusive: bool = True
    ceiling: ProviderTokens = ProviderTokens(0)
    note: str = ""

    def get_need(self, tokens: ProviderTokens) -> Need:
        """Returns how urgently a view of this size needs a compaction."""
        if tokens > self.hard:
            return "hard"
        if tokens > self.soft or (self.inclusive and tokens == self.soft):
            return "soft"
        return "warn" if tokens >= self.warning else "none"


class Decision(Struct, Generic[Unit], frozen=True):
    """Whether to act, how urgently, and down to which size. `reason` is one sentence that carries the arithmetic.

    Its sizes are what the provider counts where it is decided, and by the policy's counter where it is carried out.

    `status` says why nothing is done although something was asked for. `target_missed` means that the least possible
    size lies above the target, so the compaction aims at that size. `already_recorded` means that the log says already
    that nothing fits the limit, and no target was reached since: it is not recorded again. `next_trigger` is the size
    from which it would act again, in the same tokens as the target. `doubt` says why nothing fits the limit by the
    Reading, where something does by our own count and is tried.
    """

    should_act: bool
    need: Need
    target: Unit
    limit: Unit
    status: Literal["", "nothing", "unsatisfiable"]
    target_missed: bool
    reason: str
    already_recorded: bool = False
    next_trigger: Unit | None = None
    doubt: str = ""

    def explain(self) -> str:
        """Says in a line whether a compaction would be made, and why."""
        action = "would compact" if self.should_act else self.status or "nothing to do"
        return f"{action}: {self.reason}"


class Trigger(Protocol):
    """When a policy acts."""

    def get_limits(self, window: int, *, output_reserve: int, floor: ProviderTokens) -> Limits:
        """Returns the limits in a window. `output_reserve` is kept free for the answer; `floor` cannot be compacted."""
        ...


ViewCheck = Callable[[View], str]
"""Says why a view must be compacted although its size does not demand it. "" if nothing else does."""


def get_view_check(trigger: Trigger) -> ViewCheck | None:
    """Returns the method `find_reason` of a trigger that looks at more than sizes, None for one without it.

    An automatic check asks it. Where it gives a reason, the view is compacted down to half of its size at most.
    """
    check: ViewCheck | None = getattr(trigger, "find_reason", None)
    return check


class WindowTrigger(Trigger, Protocol):
    """A trigger with a window of its own, where the caller names none."""

    def choose_window(self, known: int | None) -> int | None:
        """Returns the window to reckon with, given that of the model, None where nobody knows it."""
        ...


def choose_window(trigger: Trigger, known: int | None) -> int | None:
    """Returns the window of a trigger where the caller names none: its own, else the `known` one of the model."""
    # isinstance() of a protocol takes a twentieth of a gateway's time in Python 3.11
    choose: Callable[[int | None], int | None] | None = getattr(trigger, "choose_window", None)
    return known if choose is None else choose(known)


class FillTrigger(Struct, frozen=True):
    """Shares of the window less the output reserve, at which to act, to aim, and to prepare.

    The output reserve is the larger of `output_reserve`, at most half of the window, and the caller's.
    """

    act_share: float = 0.85
    target_share: float = 0.40
    warning_share: float = 0.70
    output_reserve: int = 0

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:  # noqa: ARG002 - shares of the whole need no floor
        """Triggers at the limit. The floor needs no allowance, because the target is a share of the whole."""
        parts = divide_window(window, output_reserve, least_reserve=self.output_reserve)
        soft, target, warning = (
            take_share(share, parts.usable) for share in (self.act_share, self.target_share, self.warning_share)
        )
        return clamp_limits(parts, soft=soft, target=target, warning=warning)


def check_window(window: object) -> None:
    """Raises `UsageError` unless a window is a whole number of tokens, at least 1."""
    if not isinstance(window, int) or isinstance(window, bool):
        raise UsageError(f"a window is a whole number of tokens, at least 1, and not {window!r}")
    if window < 1:
        raise UsageError(f"a window of {window} tokens cannot hold anything; give the model's context window in tokens")


def take_share(share: float, total: int) -> int:
    """Returns a share in whole tokens: 0.7 of 184,000 is 128,800, whatever the binary fractions are."""
    return int(share * total + 1e-6)


class WindowParts(Struct, frozen=True):
    """What of a window is left for the view: `usable` by the policy, at most `ceiling`. `note` is that of `Limits`."""

    window: int
    usable: int
    ceiling: int
    note: str = ""


def divide_window(window: int, output_reserve: int, *, least_reserve: int = 0) -> WindowParts:
    """Divides the window between the view and the answer.

    The caller's reserve is kept as it is, or refused if it leaves nothing of the window. `least_reserve` is that of the
    policy, a size for large windows; of a smaller one it takes at most half.
    """
    check_window(window)
    own = min(max(0, least_reserve), window // 2)
    if output_reserve >= window:
        note = (
            f"an output reserve of {output_reserve:,} tokens leaves nothing of a window of {window:,}, so {own:,} are "
            f"kept free for the answer; ask for at most {window - 1:,}, or name the model's real window"
        )
        return WindowParts(window, window - own, window, note)
    note = ""
    if output_reserve < own < least_reserve:
        note = f"the policy keeps {least_reserve:,} tokens free for the answer; of a window of {window:,} it is {own:,}"
    return WindowParts(window, window - max(own, output_reserve), window - max(0, output_reserve), note)


def clamp_limits(
    parts: WindowParts, *, soft: int, target: int, warning: int | None = None, inclusive: bool = True
) -> Limits:
    """Puts limits in order: soft within the hard limit, target at most four fifths of soft, warning below soft."""
    soft = max(1, min(soft, parts.usable))
    target = max(1, min(target, soft * 4 // 5, parts.window * 4 // 5))
    default_warning = soft * 14 // 17 if warning is None else warning
    warning = max(0, min(default_warning, soft))
    return Limits(
        ProviderTokens(soft),
        ProviderTokens(parts.usable),
        ProviderTokens(target),
        ProviderTokens(warning),
        inclusive,
        ProviderTokens(parts.ceiling),
        parts.note,
    )
