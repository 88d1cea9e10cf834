"""A small result of every part, made by hand, for what is drawn from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tenfold.evals.bill import Bill, Prices, Tier
from tenfold.evals.future import Recall
from tenfold.evals.gold import Answered
from tenfold.evals.probes import Tally
from tenfold.evals.quality import Size
from tenfold.evals.replay import Replayed, Replays
from tenfold.evals.report import Probed, Quality, Yardstick
from tenfold.evals.searching import Asked
from tenfold.evals.speed import Blocked, Speed, Turned

BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
PEER, OTHER = "langchain/summarization", "headroom/compress"
KEPT = {"tenfold": 8, "tail": 6, PEER: 5, OTHER: 3, "keep-last": 4, "keep-all": 0}
"""Facts of ten that a method keeps at 4k; one more at each budget above, one fewer below."""


def quality(kept: Mapping[str, int] = KEPT, *, session: str = "one.jsonl", rounds: Sequence[int] = (1, 10)) -> Quality:
    """Ten facts needed at one cut; every typed probe that stands for a rule is answered by `tenfold` alone."""
    recall: list[Recall] = []
    probes: list[Probed] = []
    for method, least in kept.items():
        over = method == "keep-all"
        for size in _sizes(rounds):
            step = BUDGETS.index(size.budget) - 1 if not size.tenth else 1
            present = 0 if over else min(10, least + step) - (size.rounds > 1)
            recall.append(
                Recall(
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
            tallies = (Tally("constraint", 1, 4, answers, 0, 4), Tally("number", 4, 5, least // 2, 0, 5))
            rules = {place: (int(least > lost), 1) for place, lost in (("top", 5), ("middle", 4), ("bottom", 3))}
            one = Probed(session, 40, "50%", method, 9_000, often, 8_900, 90_000, tenth=True, tallies=tallies)
            probes.append(replace(one, planted=rules))
    return Quality("0.1.0", "o200k", tuple(kept), BUDGETS, tuple(rounds), tuple(recall), tuple(probes))


def _sizes(rounds: Sequence[int]) -> list[Size]:
    """What `measure` compacts to: every budget after the fewest rounds, and a tenth of the past after all."""
    return [*(Size(budget, rounds[0]) for budget in BUDGETS), *(Size(9_000, often, tenth=True) for often in rounds)]


def replayed(method: str, dollars: float, *, over: bool = False, session: str = "one.jsonl") -> Replayed:
    """Six requests in a window of 10,000 tokens; the fourth is smaller than the third."""
    sizes = (2_000, 5_000, 12_000 if over else 8_000, 4_000, 6_000, 7_000)
    bill = Bill("anthropic:claude-sonnet-4-5", dollars, 0.0, 0.0, 0.0, 0.0)
    sent = sum(sizes)
    return Replayed(
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


def replays(session: str = "one.jsonl") -> Replays:
    """One session played by four methods; `none` does not fit."""
    tiers = (Tier(-1, 3.0),)
    played = (
        replayed("none", 9.0, over=True, session=session),
        replayed("tenfold", 2.0, session=session),
        replayed("tail", 2.5, session=session),
        replayed(PEER, 1.0, session=session),
    )
    return Replays("0.1.0", "o200k", 1_000, (Prices("anthropic:claude-sonnet-4-5", tiers, tiers, (), tiers),), played)


def speed() -> Speed:
    """Turns at two lengths, and what calls wait."""
    turns = [
        Turned(method, way, length, seconds * length / 1_000, seconds, 5)
        for length in (1_000, 10_000)
        for method, way, seconds in (
            ("tenfold", "append", 0.0001),
            ("tenfold", "sync", 0.001),
            (PEER, "hook", 0.02),
            (OTHER, "hook", 0.04),
        )
    ]
    return Speed("0.1.0", "o200k", tuple(turns), blocked=(Blocked("in the background", 90, 3, 0.004, 0.02, 0.0),))


def yardstick(session: str = "one.jsonl", kept: Mapping[str, int] = KEPT) -> Yardstick:
    """All of it."""
    return Yardstick(
        quality(kept, session=session),
        replays(session),
        speed(),
        (Asked(session, "tenfold", 1, (1, 1, 1)), Asked(session, "bm25 with stemming", 1, (0, 0, 0))),
        (Answered(session, "tenfold", 5_000, 3, 2, 1, 2),),
        "2026-11-22",
        "2 cores",
        {"langchain": "1.4.7"},
    )
