"""Learns from the usage that providers report: a handful of numbers per model, folded along a path.

The transitions are pure: `record_usage` after each answer, `expire_reports` after a Block or a retraction. A snapshot
carries the numbers as bytes. Turning them into a Reading is the job of `reading.py`.

A provider's report may be wrong: half or a tenth of the request, the part that was not cached, ten times too much, or
that of an earlier request. Believing it would let requests grow past the window, or find that nothing fits it. So our
own count of a whole request bounds its report from below and above; what a log holds may be a part of what was sent.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.meter.counters import find_bounds, find_family, get_family_factor, is_own_vocabulary
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Status
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.errors import RecordError

MIN_GROWTH = 2_000
"""Estimated tokens of growth that must be seen before the slope is computed from them."""
MIN_SLOPE, MAX_SLOPE = 0.5, 5.0
HOST_CUT_SHARE = 0.8
"""A report below this share of the one before, while our view only grew, means that the host itself cut the list.

The two compactions in the recorded pi session went down to 0.15 of the size before. No other report there fell at all.
"""
RECENT_REPORTS = 12
"""How many reports of a model are kept."""
MAX_MODELS = 8
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
GROWTH_IN_SLACKS = 3
"""How many times the slack a request has to grow, by the least that a report allows, before the report can show that it
grew too: one that never changes is within the slack of a smaller growth."""


class ModelCalibration(Struct, frozen=True, array_like=True):
    """What one model reported under one counter. Estimates and reports are in tokens; -1 means none yet.

    `estimate_growth` and `reported_growth` sum the growth between consecutive requests with no Block between them.
    `smallest_estimate` and `reported_at_smallest` belong to the request with the smallest estimate. `last_estimate` and
    `last_reported` belong to the newest request; a reading builds on it as long as it is `fresh`. `diverged` means that
    the host shortened what it sent without telling us, so its reports describe another view than ours; or that what the
    provider counts beside the view comes and goes. `last_overhead` is our count of what the newest request held besides
    the view. `recent_reports` are the newest ones: our count of all that was sent, and what was reported. `unused` is
    in the place of a number that earlier versions wrote.
    """

    model: str
    counter: str
    estimate_growth: Counted = Counted(0)
    reported_growth: ProviderTokens = ProviderTokens(0)
    smallest_estimate: Counted = Counted(-1)
    reported_at_smallest: ProviderTokens = ProviderTokens(-1)
    last_estimate: Counted = Counted(-1)
    last_reported: ProviderTokens = ProviderTokens(-1)
    fresh: bool = False
    diverged: bool = False
    last_overhead: Counted = Counted(0)
    unused: int = 0
    recent_reports: tuple[tuple[Counted, ProviderTokens], ...] = ()

    def compute_slope(self, factor: float, least: float = 0.0) -> float:
        """Returns the reported tokens per estimated token, from growth and clamped.

        Returns `factor` until enough growth was seen, and where the reports grow by less than `least` allows.
        """
        if self.estimate_growth < MIN_GROWTH or (least and self.reported_growth < least * self.estimate_growth):
            return factor
        return min(max(self.reported_growth / self.estimate_growth, MIN_SLOPE), MAX_SLOPE)

    def compute_floor(self, slope: float) -> float:
        """Returns what requests hold that the estimate does not see (system prompt, tools); never below zero."""
        return max(0.0, self.reported_at_smallest - slope * self.smallest_estimate)


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
    doubted: ProviderTokens = ProviderTokens(0)
    doubted_sent: Counted = Counted(0)

    @property
    def least_slope(self) -> float:
        """How many reported tokens one of ours stands for at least: reports that grow by less are wrong."""
        return find_report_bounds(self.model, self.counter)[0]

    def explain(self) -> str:
        """Says which report was not believed, and why. "" if all were."""
        if not self.doubts:
            return ""
        least, most = find_report_bounds(self.model, self.counter)
        reason = "as many as for the one before, which was larger or smaller"
        if self.doubted < least * self.doubted_sent:
            reason = f"it takes at least {int(least * self.doubted_sent):,}"
        elif self.doubted > most * self.doubted_sent:
            reason = (
                f"it takes at most {int(most * self.doubted_sent):,}, unless the report before shows the same surplus"
            )
        return (
            f"a report of usage is not believed: {self.model or 'the model'} reported {self.doubted:,} tokens for a "
            f"request of which {self.doubted_sent:,} were counted, and {reason}; our own count decides"
        )


class Calibration(Struct, frozen=True, array_like=True):
    """The calibration of the models seen on a path, one row per model and counter, the newest last.

    `seen` are the newest reports for whole requests, believed or not.
    """

    rows: tuple[ModelCalibration, ...] = ()
    seen: tuple[SeenReport, ...] = ()

    def find_model(self, model: str, counter: str) -> ModelCalibration | None:
        """Returns the row of a model under a counter ("": any counter), or None before its first report."""
        for row in reversed(self.rows):
            if row.model == model and counter in (row.counter, ""):
                return row
        return None

    def find_seen(self, model: str, counter: str) -> SeenReport | None:
        """Returns the newest report of a model for a whole request, believed or not."""
        return next((each for each in self.seen if (each.model, each.counter) == (model, counter)), None)

    def find_other_model(self, model: str, counter: str) -> ModelCalibration | None:
        """Returns the newest row of another model under the same counter.

        It knows the floor, in that model's tokens.
        """
        return next((r for r in reversed(self.rows) if counter in (r.counter, "") and r.model != model), None)


def record_usage(
    calibration: Calibration, usage: Usage, estimate: Counted, counter: str, *, status: Status = "ok"
) -> Calibration:
    """Returns the calibration after an answer.

    `usage` is what the answer's request took, `estimate` our estimate of the view that was sent. Ignores answers that
    were aborted or failed, usage without prompt tokens, and a report that our count of a whole request contradicts.
    """
    if status != "ok" or usage.prompt <= 0 or estimate < 0:
        return calibration
    if usage.is_whole:
        calibration, is_believed = _judge(calibration, usage, estimate + usage.overhead, counter)
        if not is_believed:
            return calibration
    old = calibration.find_model(usage.model, counter) or ModelCalibration(usage.model, counter)
    sent, last = estimate + usage.overhead, old.last_estimate + old.last_overhead
    recent = (*old.recent_reports[1 - RECENT_REPORTS :], (sent, usage.prompt))
    is_cut = old.fresh and sent >= last and usage.prompt < HOST_CUT_SHARE * old.last_reported and not usage.is_whole
    if old.diverged or is_cut:
        return _with_row(calibration, replace(old, fresh=False, diverged=True, recent_reports=recent))
    grown_estimate, grown_reported = old.estimate_growth, old.reported_growth
    if old.fresh and estimate > old.last_estimate and usage.overhead == old.last_overhead:
        grown_estimate += estimate - old.last_estimate
        grown_reported += usage.prompt - old.last_reported
    lowest = old.smallest_estimate < 0 or estimate <= old.smallest_estimate
    row = ModelCalibration(
        usage.model,
        counter,
        grown_estimate,
        grown_reported,
        estimate if lowest else old.smallest_estimate,
        usage.prompt if lowest else old.reported_at_smallest,
        estimate,
        usage.prompt,
        True,
        last_overhead=usage.overhead,
        recent_reports=recent,
    )
    return _with_row(calibration, row)


def _with_row(calibration: Calibration, row: ModelCalibration) -> Calibration:
    others = tuple(r for r in calibration.rows if r.model != row.model or r.counter != row.counter)
    return replace(calibration, rows=(*others[1 - MAX_MODELS :], row))


def _judge(calibration: Calibration, usage: Usage, sent: Counted, counter: str) -> tuple[Calibration, bool]:
    """Returns the calibration that remembers the report of a whole request, and whether the report is believed."""
    before = calibration.find_seen(usage.model, counter)
    seen = judge_report(before, model=usage.model, counter=counter, sent=sent, reported=usage.prompt)
    others = tuple(each for each in calibration.seen if each is not before)
    return replace(calibration, seen=(*others[1 - MAX_MODELS :], seen)), seen.is_believed


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
    somebody adds behind us are constant, and a wrong number grows with the request. A number that stays while the
    request does not is of no request.
    """
    least, most = find_report_bounds(model, counter)
    has_grown = before is not None and least * abs(sent - before.sent) >= GROWTH_IN_SLACKS * SLACK
    if before is not None and reported == before.reported and (has_grown or not before.is_believed):
        is_believed = False
    elif reported > most * sent + SLACK:
        is_shown = before is not None and _has_same_surplus(before, sent, reported, least, most)
        is_believed = is_shown and before is not None and (has_grown or before.is_believed)
    else:
        is_believed = reported >= least * sent - SLACK
    known = before or SeenReport(model, counter, sent, reported)
    seen = replace(known, sent=sent, reported=reported, is_believed=is_believed)
    return seen if is_believed else replace(seen, doubts=seen.doubts + 1, doubted=reported, doubted_sent=sent)


def _has_same_surplus(before: SeenReport, sent: Counted, reported: ProviderTokens, least: float, most: float) -> bool:
    growth, shown = sent - before.sent, reported - before.reported
    low, high = sorted((least * growth, most * growth))
    return low - SLACK <= shown <= high + SLACK


def expire_reports(calibration: Calibration) -> Calibration:
    """Returns the calibration after a Block, a retraction or a change of branch.

    From then on no reading builds on an older report.
    """
    if not any(row.fresh or row.diverged for row in calibration.rows):
        return calibration
    rows = tuple(replace(row, fresh=False, diverged=False) for row in calibration.rows)
    return replace(calibration, rows=rows)


def encode_calibration(calibration: Calibration) -> bytes:
    """Returns the calibration as bytes, for a snapshot."""
    return msgspec.msgpack.encode(calibration)


def decode_calibration(data: bytes) -> Calibration:
    """Returns the calibration in a snapshot's bytes, an empty one for empty bytes.

    Raises `RecordError` for bytes that `encode_calibration` did not write.
    """
    if not data:
        return Calibration()
    try:
        return msgspec.msgpack.decode(data, type=Calibration)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordError(f"a snapshot's meter does not validate: {exc}; run `tenfold verify`") from exc
