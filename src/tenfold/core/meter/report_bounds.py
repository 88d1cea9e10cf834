"""Which reports of usage can be true: our own count of the whole request bounds them from below and above.

A provider's report may be wrong: half or a tenth of the request, the part that was not cached, ten times too much, or
that of an earlier request. Believing it would let requests grow past the window, or find that nothing fits it. Only a
request that we have seen as a whole bounds its report; what a log holds may be a part of what was sent.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.meter.counters import find_bounds, find_family, get_family_factor, is_own_vocabulary
from tenfold.core.record.token_reading import Counted, ProviderTokens

UNMEASURED_TEXT, UNMEASURED_CHARACTERS = 0.85, 0.6
"""What of the least measured tokens a text of a language or kind that was not measured may take, by a vocabulary of
another family and by characters / 4: Chinese takes 0.58 tokens for each that `chars4` counts (docs/meter.md).
"""
UNMEASURED_ABOVE = 2.0
"""What such a text may take of the most measured tokens: Thai takes up to 3.6 for each that `chars4` counts."""
CALLERS_LEAST, CALLERS_MOST = 0.5, 5.0
"""The same for a counter of the caller, whose error nobody has measured."""
SLACK = 50
"""Tokens by which small requests may be off: the marks around messages."""


class SeenReport(Struct, frozen=True, array_like=True):
    """The newest report of a model for a whole request: what we counted of it, and what was reported.

    `doubts` is how many reports of the model were not believed, and `doubted` the newest of them, 0 if there is none.
    """

    model: str
    counter: str
    sent: Counted
    reported: ProviderTokens
    is_believed: bool = True
    doubts: int = 0
    doubted: int = 0
    doubted_sent: int = 0

    @property
    def least_slope(self) -> float:
        """How many reported tokens one of ours stands for at least: reports that grow by less are wrong."""
        return find_report_bounds(self.model, self.counter)[0]

    def explain(self) -> str:
        """Says which report was not believed, and why. "" if all were."""
        if not self.doubts:
            return ""
        least, most = find_report_bounds(self.model, self.counter)
        bound = (
            f"at least {int(least * self.doubted_sent):,}"
            if self.doubted < self.doubted_sent
            else f"at most {int(most * self.doubted_sent):,}, unless the report before shows the same surplus"
        )
        return (
            f"a report of usage is not believed: {self.model or 'the model'} reported {self.doubted:,} tokens for a "
            f"request of which {self.doubted_sent:,} were counted, and it takes {bound}; our own count decides"
        )


def find_report_bounds(model: str, counter: str) -> tuple[float, float]:
    """Returns the least and the most reported tokens that one of our tokens can stand for."""
    if counter != "chars4" and not is_own_vocabulary(counter):
        return CALLERS_LEAST, CALLERS_MOST
    factor, bounds = get_family_factor(model, counter), find_bounds(model, counter)
    least, most = factor * (1 - bounds.below), factor * (1 + bounds.above) * UNMEASURED_ABOVE
    if counter == "chars4":
        return least * UNMEASURED_CHARACTERS, most
    return (least if find_family(model).factor == 1.0 else least * UNMEASURED_TEXT), most


def judge_report(
    before: SeenReport | None, *, model: str, counter: str, sent: Counted, reported: ProviderTokens
) -> SeenReport:
    """Judges the report of a whole request of which we count `sent` tokens, beside the one `before` it.

    More than our count explains is believed only where the report before shows the same surplus: a prompt or tools that
    somebody adds behind us are constant, and a wrong number grows with the request.
    """
    least, most = find_report_bounds(model, counter)
    if reported > most * sent + SLACK:
        is_believed = before is not None and _has_same_surplus(before, sent, reported, least, most)
    else:
        is_believed = reported >= least * sent - SLACK
    known = before or SeenReport(model, counter, sent, reported)
    seen = replace(known, sent=sent, reported=reported, is_believed=is_believed)
    return seen if is_believed else replace(seen, doubts=seen.doubts + 1, doubted=reported, doubted_sent=sent)


def _has_same_surplus(before: SeenReport, sent: int, reported: int, least: float, most: float) -> bool:
    growth, shown = sent - before.sent, reported - before.reported
    if abs(growth) < SLACK:  # too little to tell what grows from what is constant
        return before.is_believed and abs(shown) <= most * SLACK
    low, high = sorted((least * growth, most * growth))
    return low - SLACK <= shown <= high + SLACK
