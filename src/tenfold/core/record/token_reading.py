"""A Reading: how many tokens a view takes, between which bounds, and how that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NewType, Protocol, Self, TypeVar, overload

from msgspec import Struct

if TYPE_CHECKING:
    from typing_extensions import deprecated

    T_contra = TypeVar("T_contra", contravariant=True)
    R_co = TypeVar("R_co", covariant=True)

    class _Operator(Protocol[T_contra, R_co]):
        """What adds or compares tokens of one unit. A plain number takes the unit of the tokens beside it."""

        @overload
        def __call__(self, other: T_contra, /) -> R_co: ...
        @overload
        @deprecated("these tokens are in two units, which only a Reading converts into each other")
        def __call__(self, other: Tokens, /) -> R_co: ...
        @overload
        def __call__(self, other: int, /) -> R_co: ...

    class Tokens(int):
        """Tokens in one of two units, `Counted` or `ProviderTokens`: where this is the type, the place says in which.

        Both are plain numbers at run time. A type checker refuses to take one for the other, and to add or compare the
        two. Only a Reading converts one into the other: `to_provider`, `to_provider_part` and `to_counted`.
        """

        def __new__(cls, number: int, /) -> Self:
            """Says in which unit a number is."""

        __add__: _Operator[Self, Self]
        __radd__: _Operator[Self, Self]
        __sub__: _Operator[Self, Self]
        __lt__: _Operator[Self, bool]
        __le__: _Operator[Self, bool]
        __gt__: _Operator[Self, bool]
        __ge__: _Operator[Self, bool]

        def __mul__(self, other: int, /) -> Self: ...
        def __rmul__(self, other: int, /) -> Self: ...
        def __floordiv__(self, other: int, /) -> Self: ...

    class Counted(Tokens):
        """Tokens by the policy's counter: what every message, piece and plan is measured in."""

    class ProviderTokens(Tokens):
        """Tokens as the provider counts them: what it reports and bills, and what windows and limits are in."""

else:
    Tokens, Counted, ProviderTokens = (NewType(name, int) for name in ("Tokens", "Counted", "ProviderTokens"))

NO_TOKENS = Counted(0)
"""What a sum of counts begins with."""
ReadingSource = Literal["reported", "calibrated", "estimated"]
Evidence = Literal[
    "reported usage",
    "count since the report",
    "earlier usage",
    "tokenizer of the family",
    "tokenizer of another family",
    "characters / 4",
    "counter of the caller",
    "media of unknown size",
]
"""What a Reading rests on: the provider's count of the last request, our count of what came since, what was learned
from earlier requests, the vocabulary of the model's family or of another one times a factor, characters alone, or a
counter that the caller brought, which is not corrected. Media of unknown size (an image by URL, a recording) count as
their provider's ceiling or as an assumption.
"""


class Reading(Struct, frozen=True, omit_defaults=True):
    """A view's size. Decide by `tokens`; `window` is None where the model's window is unknown.

    `source` says where the number comes from: reported (the last request's count plus what came since), calibrated
    (floor + slope x estimate, both learned from reports), estimated (no report of this model). `floor` is what requests
    hold besides the messages, `estimate` the uncorrected count of the messages. `below` and `above` are how far the
    provider's own count may lie under and over `tokens`: 0 where the number is no estimate of it, as for an explicit
    target. `evidence` says what the number rests on.
    """

    tokens: ProviderTokens
    source: ReadingSource
    window: ProviderTokens | None
    slope: float
    floor: ProviderTokens
    estimate: Counted
    below: ProviderTokens = ProviderTokens(0)
    above: ProviderTokens = ProviderTokens(0)
    evidence: tuple[Evidence, ...] = ()

    @property
    def fill(self) -> float | None:
        """The share of the window that is used, None where the window is unknown."""
        return self.tokens / self.window if self.window else None

    @property
    def low(self) -> ProviderTokens:
        """The lower bound of what the provider counts."""
        return max(ProviderTokens(0), self.tokens - self.below)

    @property
    def high(self) -> ProviderTokens:
        """The upper bound of what the provider counts."""
        return self.tokens + self.above

    def to_provider(self, size: Counted) -> ProviderTokens:
        """Converts the size of a whole view to what the provider would count for it."""
        return self.tokens if size == self.estimate else ProviderTokens(round(self.floor + self.slope * size))

    def to_provider_part(self, size: Counted) -> ProviderTokens:
        """Converts the size of a part of a view to what the provider would count for it."""
        return ProviderTokens(round(self.slope * size))

    def to_counted(self, size: ProviderTokens) -> Counted:
        """Converts what the provider counts for a whole view to the size of that view, at least 1."""
        return Counted(max(1, int((size - self.floor) / self.slope)))

    def build_record(self) -> dict[str, object]:
        """Builds what JSON outputs say of the Reading: the number, its bounds, the window, and how it is known."""
        names = ("tokens", "low", "high", "window", "source", "evidence")
        return {name: getattr(self, name) for name in names}

    def explain_source(self) -> str:
        """Says how `tokens` is known, with the arithmetic where there is any: `calibrated: 1.25 x 40,000 + 3,000`."""
        if self.slope == 1.0 and not self.floor:
            return self.source
        floor = f" + {self.floor:,} besides the messages" if self.floor else ""
        return f"{self.source}: {self.slope:.2f} x {self.estimate:,} counted{floor}"

    def explain(self) -> str:
        """Renders the interval in a compact form, as in `41k-44k of 200k`. Bounds that look alike are one number."""
        low, high = format_thousands(self.low), format_thousands(self.high)
        size = low if low == high else f"{low}-{high}"
        return f"{size} of {format_thousands(self.window)}" if self.window else size


PLAIN_READING = Reading(ProviderTokens(0), "estimated", None, 1.0, ProviderTokens(0), Counted(0))
"""Converts each size to itself: for sizes of which nothing else is known."""


def format_thousands(tokens: int) -> str:
    """Formats a number of tokens in a few characters: `950`, `4.1k`, `44k`, `1.05M`."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.3g}k"
    return f"{tokens / 1_000_000:.3g}M"
