from __future__ import annotations

import math
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.meter.estimators import (
    RECENT_REPORTS,
    Calibration,
    decode_calibration,
    encode_calibration,
    expire_reports,
    record_usage,
)
from tenfold.core.meter.media_counts import NO_MEDIA, MediaTokens
from tenfold.core.meter.reading import AnchoredEstimator, Estimator, build_plain_reading
from tenfold.core.record.entry import Usage
from tenfold.core.record.token_reading import Counted, ProviderTokens, Reading, ReadingSource
from tenfold.designs.threshold.estimator import RatioEstimator, correct_by_ratio
from tenfold.errors import RecordError

BPE = "o200k"


def build_anchors(*requests: tuple[int, int], model: str = "m", counter: str = BPE) -> Calibration:
    """Anchors after requests of (estimate, reported)."""
    anchors = Calibration()
    for estimate, prompt in requests:
        anchors = record_usage(anchors, Usage.build(prompt, model=model), Counted(estimate), counter)
    return anchors


def make_reading(
    tokens: int,
    source: ReadingSource,
    window: int | None,
    slope: float,
    floor: int,
    estimate: int,
    *,
    below: int = 0,
    above: int = 0,
) -> Reading:
    wide = None if window is None else ProviderTokens(window)
    reading = Reading(ProviderTokens(tokens), source, wide, slope, ProviderTokens(floor), Counted(estimate))
    return replace(reading, below=below, above=above)


def read(
    estimate: int,
    anchors: Calibration = Calibration(),  # noqa: B008 - an immutable value
    estimator: Estimator = AnchoredEstimator(),  # noqa: B008 - an immutable value
    *,
    model: str = "m",
    window: int | None = None,
    counter: str = BPE,
    media: MediaTokens = NO_MEDIA,
) -> Reading:
    size = Counted(estimate)
    return estimator.read(size, anchors, model=model, window=window, counter=counter, media=media)


def read_estimate(estimate: int, anchors: Calibration, factor: float | None = 1.0, model: str = "m") -> Reading:
    """The Reading without its interval."""
    reading = read(estimate, anchors, AnchoredEstimator(factor), model=model, window=100_000)
    return replace(reading, below=0, above=0, evidence=())


read_interval = partial(read, model="gpt-4o", window=200_000)


def test_without_a_report_the_factor_corrects() -> None:
    assert read_estimate(1_000, Calibration(), 1.35) == make_reading(1_350, "estimated", 100_000, 1.35, 0, 1_000)
    assert read(1_000, model="claude-opus-4-5").tokens == 1_250
    assert read(1_000, model="claude-opus-4-5", counter="chars4").tokens == 1_350


def test_a_host_that_cut_its_list_itself_says_nothing_of_our_view() -> None:
    before = build_anchors((1_000, 2_000), (101_000, 102_000))
    cut = record_usage(before, Usage.build(15_000, model="m"), Counted(102_000), BPE)
    again = record_usage(cut, Usage.build(16_000, model="m"), Counted(103_000), BPE)
    newest = (*cut.rows[0].recent_reports, (103_000, 16_000))
    assert again.rows == (replace(cut.rows[0], recent_reports=newest),), "it learns nothing else of them"
    assert read_estimate(103_000, again) == make_reading(104_000, "calibrated", 100_000, 1.0, 1_000, 103_000)
    ours = record_usage(expire_reports(again), Usage.build(9_000, model="m"), Counted(8_000), BPE)
    assert read_estimate(8_000, ours).tokens == 9_000


def test_the_last_report_carries_what_came_since() -> None:
    anchors = build_anchors((100, 3_000))
    assert read_estimate(100, anchors) == make_reading(3_000, "reported", 100_000, 1.0, 2_900, 100)
    assert read_estimate(600, anchors, 1.2).tokens == 3_000 + 600


def test_the_slope_is_the_growth_between_requests_once_enough_was_seen() -> None:
    young = build_anchors((100, 3_000), (2_099, 5_600))
    assert read_estimate(2_099, young).slope == 1.0
    grown = build_anchors((100, 3_000), (2_100, 5_600))
    assert read_estimate(3_100, grown) == make_reading(5_600 + 1_300, "reported", 100_000, 1.3, 2_870, 3_100)


@pytest.mark.parametrize(("growth", "slope"), [(0, 0.5), (100_000, 5.0), (-500, 0.5)])
def test_the_slope_is_clamped(growth: int, slope: float) -> None:
    assert read_estimate(10_100, build_anchors((100, 3_000), (10_100, 3_000 + growth))).slope == slope


def test_after_a_block_the_line_is_used_not_the_old_report() -> None:
    anchors = expire_reports(build_anchors((100, 3_000), (10_100, 15_000)))
    assert read_estimate(2_100, anchors) == make_reading(2_880 + 2_520, "calibrated", 100_000, 1.2, 2_880, 2_100)


def test_growth_is_not_measured_across_a_block() -> None:
    anchors = expire_reports(build_anchors((100, 3_000), (10_100, 15_000)))
    anchors = record_usage(anchors, Usage.build(90_000, model="m"), Counted(12_200), BPE)
    assert read_estimate(12_200, anchors).slope == 1.2
    assert read_estimate(12_300, anchors).tokens == 90_120


def test_the_floor_comes_from_the_request_with_the_smallest_estimate() -> None:
    anchors = expire_reports(build_anchors((5_000, 9_000), (8_000, 12_000), (50, 4_050)))
    assert read_estimate(50, anchors).floor == 4_000


def test_a_floor_is_never_negative() -> None:
    assert read_estimate(1_000, expire_reports(build_anchors((10_000, 2_000)))) == make_reading(
        1_000, "calibrated", 100_000, 1.0, 0, 1_000
    )


@pytest.mark.parametrize("status", ["aborted", "error"])
def test_answers_that_were_cut_off_teach_nothing(status: str) -> None:
    before = build_anchors((100, 3_000))
    assert record_usage(before, Usage.build(9_000, model="m"), Counted(200), BPE, status=status) is before  # type: ignore[arg-type]
    assert record_usage(before, Usage.build(0, model="m"), Counted(200), BPE) is before


def test_anchors_are_kept_per_counter() -> None:
    anchors = record_usage(build_anchors((100, 3_000)), Usage.build(3_000, model="m"), Counted(80), "chars4")
    assert read(100, anchors).tokens == 3_000
    assert read(80, anchors, counter="chars4").tokens == 3_000
    assert len(anchors.rows) == 2


def test_another_model_lends_its_floor_and_slope_as_an_estimate() -> None:
    anchors = build_anchors((100, 3_000), (10_100, 15_000), model="claude-opus-4-5")
    lent = read(10_100, anchors, model="claude-sonnet-4-5")
    assert (lent.tokens, lent.source) == (15_000, "estimated")
    newer = read(10_100, anchors, model="claude-opus-4-7")
    assert newer.tokens == pytest.approx(15_000 * 1.6 / 1.25, abs=2)
    assert read(10_100, anchors, model="claude-sonnet-4-5", counter="chars4").floor == 0


def test_a_model_that_returns_still_has_its_own_anchor() -> None:
    anchors = record_usage(build_anchors((100, 3_000)), Usage.build(4_000, model="n"), Counted(200), BPE)
    assert read_estimate(100, anchors).tokens == 3_000
    assert read_estimate(200, anchors, model="n").tokens == 4_000


def test_only_a_handful_of_models_is_kept() -> None:
    anchors = Calibration()
    for index in range(50):
        anchors = record_usage(anchors, Usage.build(1_000, model=f"m{index}"), Counted(10), BPE)
    assert [r.model for r in anchors.rows] == [f"m{i}" for i in range(42, 50)]
    assert len(encode_calibration(anchors)) < 400


def test_an_explicit_target_counts_plainly() -> None:
    assert build_plain_reading(Counted(500), 1_000) == make_reading(500, "estimated", 1_000, 1.0, 0, 500)
    assert build_plain_reading(Counted(500), 1_000).fill == 0.5
    assert build_plain_reading(Counted(500)).fill is None


@pytest.mark.parametrize(
    ("real", "last", "now", "tokens"),
    [
        (1_000, 500, 750, 1_500),
        (300, 600, 500, 500),
        (100_000, 50_000, 100, 100_000),
        (140_000, 70_000, 90_009, 180_018),
        (0, 0, 400, 800),
        (500, 0, 400, 800),
        (5_000, 0, 400, 5_000),
    ],
)
def test_the_published_ratio(real: int, last: int, now: int, tokens: int) -> None:
    assert correct_by_ratio(ProviderTokens(real), Counted(last), Counted(now), factor=2.0)[0] == tokens


def test_the_ratio_is_reset_by_a_block() -> None:
    estimator = RatioEstimator(2.0)
    anchors = build_anchors((500, 1_500))
    assert read(600, anchors, estimator).tokens == 1_800
    reset = read(600, expire_reports(anchors), estimator)
    assert (reset.tokens, reset.source) == (1_200, "estimated")


@pytest.mark.parametrize(
    ("requests", "hidden"),
    [
        ([(200, 400), (1_200, 2_400)], 0),
        ([(200, 4_400), (1_200, 6_400)], 4_000),
        ([(200, 4_400), (300, 4_600)], 4_000),
        ([(200, 900), (300, 1_350)], 0),
        ([(150, 8_970)], 8_670),
        ([(200, 7_000), (1_200, 7_000)], 6_600),
        ([(1_000, 6_000), (200, 4_400)], 4_000),
    ],
    ids=["a plain ratio", "a floor", "too little growth", "large", "once", "a constant", "before and after a Block"],
)
def test_the_ratio_sets_apart_what_the_reports_hold_beside_the_estimate(
    requests: list[tuple[int, int]], hidden: int
) -> None:
    anchors = Calibration()
    for request in requests:
        anchors = record_usage(expire_reports(anchors), Usage.build(request[1], model="m"), Counted(request[0]), BPE)
    reset = read(100, expire_reports(anchors), RatioEstimator(2.0))
    assert reset.tokens == hidden + 200
    assert (reset.floor, reset.slope) == (hidden, 2.0)


BURST = [(1_000, 2_000), (1_100, 6_200), (300, 600), (400, 800)]
"""At the second request, 4,000 tokens are hidden; a Block follows."""


@pytest.mark.parametrize(
    ("later", "hidden"), [(0, 4_000), (RECENT_REPORTS - 3, 4_000), (RECENT_REPORTS - 2, 0)], ids=["new", "old", "gone"]
)
def test_what_came_and_went_is_expected_again_for_so_many_reports(later: int, hidden: int) -> None:
    """One step in five took 4,000 tokens more, and each of them overflowed the window."""
    anchors = build_anchors(*BURST[:2])
    anchors = expire_reports(anchors)
    for sent, reported in [*BURST[2:], *[BURST[3]] * later]:
        anchors = record_usage(anchors, Usage.build(reported, model="m"), Counted(sent), BPE)
    reading = read(500, anchors, RatioEstimator(2.0), window=8_000)
    assert (reading.tokens, reading.floor) == (hidden + 1_000, hidden)


def test_what_fills_the_window_alone_is_not_expected_for_long() -> None:
    """No compaction makes room for it, so the conversation is not held down for its sake."""
    anchors = build_anchors((1_000, 2_000), (1_100, 11_200), (1_200, 2_400))
    for sent, tokens in ((1_300, 11_600), (1_400, 11_800), (1_500, 12_000), (1_600, 3_200)):
        reading = read(sent, anchors, RatioEstimator(2.0), window=8_000)
        assert reading.tokens == tokens
        anchors = record_usage(anchors, Usage.build(2 * sent, model="m"), Counted(sent), BPE)


def test_what_is_hidden_from_some_day_on_is_measured_by_the_recent_reports() -> None:
    """Beside the smallest request of all it looked like a steep correction, and a model was asked in vain."""
    lasting = [(sent, 2 * sent + 10_000) for sent in range(2_100, 3_500, 100)]
    anchors = build_anchors((60, 200), (1_000, 2_000), *lasting)
    reading = read(3_400, anchors, RatioEstimator(2.0), window=8_000)
    assert (reading.tokens, reading.floor, reading.slope) == (16_800, 10_000, 2.0)


def test_a_snapshot_from_before_reports_were_kept_is_read() -> None:
    row = ("m", BPE, 0, 0, 100, 300, 100, 300, True, False, 0, 3)
    (read,) = decode_calibration(msgspec.msgpack.encode(((row,),))).rows
    assert (read.last_reported, read.recent_reports) == (300, ())


def test_a_report_that_leaves_out_most_of_the_request_is_not_believed() -> None:
    """A provider may not count what it read from its cache."""
    anchors = build_anchors((1_000, 300))
    reading = read(1_100, anchors, RatioEstimator(2.0))
    assert reading.tokens == 2_200


def test_anchors_survive_a_snapshot() -> None:
    anchors = expire_reports(build_anchors((100, 3_000), (10_100, 15_000)))
    assert decode_calibration(encode_calibration(anchors)) == anchors
    assert decode_calibration(b"") == Calibration()
    with pytest.raises(RecordError, match="meter"):
        decode_calibration(b"\xc1nonsense")


tokens_st = st.integers(0, 5_000_000)


@given(
    st.lists(st.tuples(tokens_st, tokens_st, st.booleans()), max_size=12),
    tokens_st,
    tokens_st,
    st.sampled_from(["anchored", "ratio"]),
    st.floats(0.5, 5),
)
def test_a_reading_is_finite_monotone_and_never_negative(
    requests: list[tuple[int, int, bool]], estimate: int, more: int, kind: str, factor: float
) -> None:
    anchors = Calibration()
    for at, prompt, block in requests:
        anchors = record_usage(
            expire_reports(anchors) if block else anchors, Usage.build(prompt, model="m"), Counted(at), BPE
        )
    estimator = RatioEstimator(factor) if kind == "ratio" else AnchoredEstimator(factor)
    small = read(estimate, anchors, estimator, window=1)
    large = read(estimate + more, anchors, estimator, window=1)
    assert 0 <= small.tokens <= large.tokens
    assert math.isfinite(small.slope)
    assert 0.5 <= small.slope <= 5
    assert small.floor >= 0
    assert decode_calibration(encode_calibration(anchors)) == anchors


def test_without_usage_the_interval_is_as_wide_as_the_evidence_is_weak() -> None:
    own, another, characters = (
        read_interval(10_000),
        read_interval(10_000, model="claude-sonnet-4-5"),
        read_interval(10_000, counter="chars4"),
    )
    assert (own.low, own.high, own.evidence) == (9_500, 10_500, ("tokenizer of the family",))
    assert (another.low, another.tokens, another.high) == (10_250, 12_500, 15_125)
    assert another.evidence == ("tokenizer of another family",)
    assert (characters.low, characters.high) == (9_450, 16_875)
    assert characters.evidence == ("characters / 4",)


def test_a_report_bounds_all_but_what_came_since() -> None:
    anchors = build_anchors((100_000, 120_000), model="gpt-4o")
    exact = read_interval(100_000, anchors)
    assert (exact.low, exact.high, exact.evidence) == (120_000, 120_000, ("reported usage",))
    grown = read_interval(102_000, anchors)
    assert (grown.low, grown.tokens, grown.high) == (120_800, 122_000, 123_200)
    assert grown.evidence == ("reported usage", "count since the report")
    tiny = read_interval(100_010, anchors)
    assert (tiny.low, tiny.high) == (120_000, 120_215), "what is only added makes a request no smaller"
    shrunk = read_interval(98_000, anchors)
    assert shrunk.low < shrunk.tokens == 118_000 < shrunk.high


def test_what_was_learned_bounds_a_reading_whose_report_expired() -> None:
    learned = expire_reports(build_anchors((10_000, 22_000), (110_000, 122_000), model="gpt-4o"))
    reading = read_interval(50_000, learned)
    assert (reading.low, reading.tokens, reading.high) == (60_140, 62_000, 65_720)
    assert reading.evidence == ("earlier usage",)
    early = read_interval(50_000, expire_reports(build_anchors((10_000, 22_000), model="gpt-4o")))
    assert (early.low, early.tokens, early.high) == (58_900, 62_000, 65_100)
    other = read_interval(50_000, learned, model="claude-sonnet-4-5")
    assert other.evidence == ("earlier usage",)
    assert other.high - other.low > reading.high - reading.low


def test_media_have_bounds_of_their_own_which_no_slope_corrects() -> None:
    known = read_interval(11_600, model="claude-opus-4-7", media=MediaTokens.build(1_600, 1_600, 1_600))
    assert known.tokens == round(11_600 * 1.6)
    assert (known.low, known.high) == (12_000 + 1_600, 20_000 + 1_600)
    assert known.evidence == ("tokenizer of another family",)
    unknown = read_interval(11_600, media=MediaTokens.build(1_600, 1, 4_800, 1))
    assert (unknown.low, unknown.high) == (9_501, 10_500 + 4_800)
    assert unknown.evidence == ("tokenizer of the family", "media of unknown size")


def test_media_that_a_report_has_counted_are_known() -> None:
    anchors = build_anchors((100_000, 120_000), model="gpt-4o")
    media = MediaTokens.build(3_000, 2, 36_000, 1)
    assert read_interval(100_000, anchors, media=media).evidence == ("reported usage",)
    assert read_interval(100_000, anchors, media=media).high == 120_000
    added = read_interval(103_000, anchors, media=media)
    assert added.high >= 120_000 + 36_000
    assert added.evidence == ("reported usage", "count since the report", "media of unknown size")


def test_an_estimator_that_aims_high_still_says_what_is_likely() -> None:
    careful = read_interval(10_000, estimator=RatioEstimator(2.0))
    assert (careful.low, careful.tokens, careful.high) == (9_500, 20_000, 20_000)


@given(
    st.integers(0, 300_000),
    st.lists(st.tuples(st.integers(0, 300_000), st.integers(1, 300_000)), max_size=5),
    st.sampled_from(["gpt-4o", "claude-opus-4-7", "claude-3-5-sonnet", "unknown"]),
    st.sampled_from([BPE, "chars4"]),
    st.sampled_from([AnchoredEstimator(), RatioEstimator(2.0), AnchoredEstimator(factor=0.5)]),
    st.tuples(st.integers(0, 50_000), st.integers(0, 50_000), st.integers(0, 50_000)),
)
def test_an_interval_always_holds_its_middle(
    estimate: int,
    requests: list[tuple[int, int]],
    model: str,
    counter: str,
    estimator: Estimator,
    media: tuple[int, int, int],
) -> None:
    reported = build_anchors(*requests, model="gpt-4o", counter=counter)
    low, tokens, high = sorted(media)
    bounds = MediaTokens.build(min(tokens, estimate), min(low, estimate), high, 1)
    for anchors in (reported, expire_reports(reported)):
        reading = read_interval(estimate, anchors, model=model, counter=counter, estimator=estimator, media=bounds)
        assert 0 <= reading.low <= reading.tokens <= reading.high
        assert reading.evidence


def test_an_interval_is_shown_in_a_few_characters() -> None:
    assert (
        make_reading(42_000, "estimated", 200_000, 1.0, 0, 0, below=1_000, above=2_000).explain() == "41k-44k of 200k"
    )
    assert make_reading(42_000, "reported", 200_000, 1.0, 0, 0).explain() == "42k of 200k"
    assert make_reading(42_010, "reported", None, 1.0, 0, 0, below=5, above=20).explain() == "42k"
    assert make_reading(950, "estimated", 1_048_576, 1.0, 0, 0, below=47, above=3_150).explain() == "903-4.1k of 1.05M"
    assert make_reading(999_700, "reported", 1_000_000, 1.0, 0, 0).explain() == "1M of 1M"
