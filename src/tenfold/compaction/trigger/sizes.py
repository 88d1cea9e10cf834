"""Sizes that a user names in place of a policy's own: when to compact, and down to what."""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.trigger.limits import Limits, Trigger, ViewCheck, choose_window, get_view_check, take_share
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.errors import UsageError

Size = int | float
"""A whole number is tokens. A fraction is a share: of what is free in the window, or, for `to`, of the session."""
_THOUSANDS = {"k": 1_000, "m": 1_000_000}
MAX_TARGET_SHARE = 0.8
"""The largest target, as a share of the trigger: a compaction that frees less would be due again at once."""
WARNING_SHARE = 14 / 17
"""Where a summary begins to be prepared, as a share of the trigger: 70 % for one of 85 %."""
THRIFTY_TRIGGER, THRIFTY_TARGET = 0.45, 0.25
"""The shares of what is free at which the greatest thrift acts, and down to which, where that is less than these:"""
THRIFTY_TRIGGER_TOKENS, THRIFTY_TARGET_TOKENS = 14_000, 4_000
"""The tokens beside the floor at which the greatest thrift acts, and down to which. What a request costs depends on its
tokens, however large the window is. Caches take 10 to 12.5 times as much for writing as for reading, so at steps of
1,000 to 2,000 tokens a view is cheapest if it grows to about four times of what the last compaction left.
"""


def parse_size(name: str, value: Size | str) -> Size:
    """Parses `120000`, `"120,000"`, `"120k"`, `0.6` or `"60%"`, the value of the setting, argument or flag `name`.

    Raises `UsageError` for anything else.
    """
    text = str(value).strip().replace("_", "").replace(",", "").lower()
    size: Size = 0
    with suppress(ValueError, OverflowError):  # of what is no number, and of one without end
        if text[-1:] in _THOUSANDS:
            size = int(float(text[:-1]) * _THOUSANDS[text[-1:]])
        else:
            size = int(text) if text.isdecimal() else float(text.removesuffix("%")) / (100 if "%" in text else 1)
    if size > 0 and (isinstance(size, int) or size <= 1):
        return size
    raise UsageError(
        f"{name} is {value!r}, which is no size: give tokens, as in 120000 or 120k, or a share, as in 60% or 0.6"
    )


def convert_size(size: Size, total: int) -> int:
    """Returns a size in tokens, at least 1. A share is one of `total` tokens."""
    return max(1, take_share(size, total) if isinstance(size, float) else size)


class NamedSizes(Struct, frozen=True):
    """The sizes a user named: `compact_at` and `down_to`, None for the policy's own, and how far to save.

    `thrift` 0 saves nothing, 1 as much as it can: it compacts earlier and deeper, down to 4,000 tokens beside the
    system prompt and the tools, and in small windows to a quarter of what is free.
    """

    compact_at: Size | None = None
    down_to: Size | None = None
    thrift: float = 0.0

    def __post_init__(self) -> None:
        """Raises `UsageError` for a thrift outside 0..1, and for a target that is not below its trigger."""
        if not 0 <= self.thrift <= 1:
            raise UsageError(f"thrift is {self.thrift!r}: it is a number from 0 (off) to 1, as in 0.5")
        at, to = self.compact_at, self.down_to
        if at is not None and to is not None and type(at) is type(to) and to > MAX_TARGET_SHARE * at:
            raise UsageError(
                f"compact_at is {at} and down_to {to}: down_to has to be at most four fifths of compact_at, "
                f"{MAX_TARGET_SHARE * at:g}"
            )


class SizedTrigger(Struct, frozen=True):
    """A policy's trigger, with the sizes that a user named in place of its own."""

    trigger: Trigger
    sizes: NamedSizes

    @property
    def find_reason(self) -> ViewCheck | None:
        """The policy's own, if it has one."""
        return get_view_check(self.trigger)

    def get_limits(self, window: int, *, output_reserve: int, floor: ProviderTokens) -> Limits:
        """Returns the policy's limits with those sizes. Thrift only lowers them, and a named size comes before it."""
        limits, sizes = self.trigger.get_limits(window, output_reserve=output_reserve, floor=floor), self.sizes
        free = limits.hard
        thrifty = (
            min(THRIFTY_TRIGGER * free, floor + THRIFTY_TRIGGER_TOKENS),
            min(THRIFTY_TARGET * free, floor + THRIFTY_TARGET_TOKENS),
        )
        soft = _shift_size(limits.soft, thrifty[0], sizes.thrift)
        target = _shift_size(limits.target, thrifty[1], sizes.thrift)
        if sizes.down_to is not None:
            target = convert_size(sizes.down_to, free)
            soft = max(soft, min(limits.soft, ceil(target / MAX_TARGET_SHARE)))  # it comes before thrift
        if sizes.compact_at is not None:
            soft = min(convert_size(sizes.compact_at, free), free)
        if soft == limits.soft and target == limits.target:
            return limits
        target = max(1, min(target, int(MAX_TARGET_SHARE * soft)))
        warning = limits.warning if soft == limits.soft else min(int(WARNING_SHARE * soft), soft)
        named = ProviderTokens(soft), ProviderTokens(target), ProviderTokens(warning)
        return replace(limits, soft=named[0], target=named[1], warning=named[2], inclusive=True)

    def choose_window(self, known: int | None) -> int | None:
        """Returns the policy's window."""
        return choose_window(self.trigger, known)


def _shift_size(own: int, thrifty: float, thrift: float) -> int:
    """Returns a size between the policy's own and the thriftiest one; a smaller one of its own stays."""
    return own - round(thrift * max(0.0, own - thrifty))
