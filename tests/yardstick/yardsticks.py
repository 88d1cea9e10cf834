"""A small result of every part, made by hand, for what is drawn from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tenfold.models.prices import Prices, Tier
from tenfold_yardstick.bill import Bill
from tenfold_yardstick.future_recall import RecallScore
from tenfold_yardstick.gold_answers import AnswerCounts
from tenfold_yardstick.quality import TargetSize
from tenfold_yardstick.quality_report import Yardstick
from tenfold_yardstick.question_search import EvidenceHits
from tenfold_yardstick.reading.scoring import AnswerScore, ReadingScores
from tenfold_yardstick.reading.views import ReadView
from tenfold_yardstick.replay import Replays, SessionReplay
from tenfold_yardstick.scores import ProbeScore, ProbeTally, Quality
from tenfold_yardstick.speed import Speed, TurnTiming, WaitTiming

BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
PEER, OTHER = "langchain/summarization", "headroom/compress"
KEPT = {"tenfold": 8, "tail": 6, PEER: 5, OTHER: 3, "keep-last": 4, "keep-all": 0}
"""Facts of ten that a method keeps at 4k; one more at each budget above, one fewer below."""


def make_quality(
    kept: Mapping[str, int] = KEPT, *, session: str = "one.jsonl", rounds: Sequence[int] = (1, 10)
) -> Quality:
    """Ten facts needed at one cut; every typed probe that stands for a rule is answered by `tenfold` alone."""
    recall: list[RecallScore] = []
    probes: list[ProbeScore] = []
    for method, least in kept.items():
        over = method == "keep-all"
        for size in _make_sizes(rounds):
            step = BUDGETS.index(size.budget) - 1 if not size.tenth else 1
            present = 0 if over else min(10, least + step) - (size.rounds > 1)
            recall.append(
                RecallScore(
                    session,
                    40,
                    "50%",
                    method,
                    size.budget,
                    size.rounds,
                    10,
                    90_000,
                    90_000 if over else size.budget - 100,
                    present=present,
                    within=min(10, present + 1) if method in ("tenfold", "tail") else None,
                    quarters={"1": (present // 2, 5), "4": (present - present // 2, 5)},
                    over=over,
                    tenth=size.tenth,
                )
            )
        for often in rounds:
            answers = 4 if method == "tenfold" else 1
            tallies = (ProbeTally("constraint", 1, 4, answers, 0, 4), ProbeTally("number", 4, 5, least // 2, 0, 5))
            rules = {place: (int(least > lost), 1) for place, lost in (("top", 5), ("middle", 4), ("bottom", 3))}
            one = ProbeScore(session, 40, "50%", method, 9_000, often, 8_900, 90_000, tenth=True, tallies=tallies)
            probes.append(replace(one, planted=rules))
    return Quality("0.1.0", "o200k", tuple(kept), BUDGETS, tuple(rounds), tuple(recall), tuple(probes))


def _make_sizes(rounds: Sequence[int]) -> list[TargetSize]:
    """What `measure` compacts to: every budget after the fewest rounds, and a tenth of the past after all."""
    return [
        *(TargetSize(budget, rounds[0]) for budget in BUDGETS),
        *(TargetSize(9_000, often, tenth=True) for often in rounds),
    ]


def make_replayed(method: str, dollars: float, *, over: bool = False, session: str = "one.jsonl") -> SessionReplay:
    """Six requests in a window of 10,000 tokens; the fourth is smaller than the third."""
    sizes = (2_000, 5_000, 12_000 if over else 8_000, 4_000, 6_000, 7_000)
    bill = Bill("anthropic:claude-sonnet-4-5", dollars, 0.0, 0.0, 0.0, 0.0)
    sent = sum(sizes)
    return SessionReplay(
        session,
        method,
        10_000,
        6,
        max(sizes),
        int(over),
        1,
        sent,
        9_000,
        4_000,
        600,
        0,
        0,
        (bill,),
        0.1,
        0.05,
        sizes,
        (3,),
    )


def make_replays(session: str = "one.jsonl") -> Replays:
    """One session played by four methods; `none` does not fit."""
    tiers = (Tier(-1, 3.0),)
    played = (
        make_replayed("none", 9.0, over=True, session=session),
        make_replayed("tenfold", 2.0, session=session),
        make_replayed("tail", 2.5, session=session),
        make_replayed(PEER, 1.0, session=session),
    )
    return Replays("0.1.0", "o200k", 1_000, (Prices("anthropic:claude-sonnet-4-5", tiers, tiers, (), tiers),), played)


def make_speed() -> Speed:
    """Turns at two lengths, and what calls wait."""
    turns = [
        TurnTiming(method, way, length, seconds * length / 1_000, seconds, 5)
        for length in (1_000, 10_000)
        for method, way, seconds in (
            ("tenfold", "append", 0.0001),
            ("tenfold", "sync", 0.001),
            (PEER, "hook", 0.02),
            (OTHER, "hook", 0.04),
        )
    ]
    return Speed("0.1.0", "o200k", tuple(turns), blocked=(WaitTiming("in the background", 90, 3, 0.004, 0.02, 0.0),))


def make_yardstick(session: str = "one.jsonl", kept: Mapping[str, int] = KEPT) -> Yardstick:
    """All of it."""
    return Yardstick(
        make_quality(kept, session=session),
        make_replays(session),
        make_speed(),
        (EvidenceHits(session, "tenfold", 1, (1, 1, 1)), EvidenceHits(session, "bm25 with stemming", 1, (0, 0, 0))),
        (AnswerCounts(session, "tenfold", 5_000, 3, 2, 1, 2),),
        "2026-11-22",
        "2 cores",
        {"langchain": "1.4.7"},
        make_reading(session),
    )


def make_reading(session: str) -> ReadingScores:
    """Two questions, read from the views of two methods."""
    scores = tuple(
        AnswerScore(session, method, 0.1, 1, recall, f"one-{n}", "instruction", "first", grade, False, (grade,), 1)
        for method, recall in (("tenfold", False), ("tenfold", True), ("keep-last", False))
        for n, grade in enumerate((1.0, -1.0 if method == "keep-last" else 0.5))
    )
    views = tuple(ReadView(session, method, 0.1, 1, 1_000, 900, hash="a" * 64) for method in ("tenfold", "keep-last"))
    return ReadingScores("0.1.0", "o200k", views, scores, ("reader",), ("judge",))
