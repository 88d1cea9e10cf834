"""Measures what a compaction keeps: every method compacts every case at every size, and all scores use that result.

The scores are the facts that the real future needed, the typed probes, the identifiers that the source never held, and
the gates of validity. At a tenth of the past, a second compaction measures what is left of rules planted into a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tenfold import __version__
from tenfold.evals import future
from tenfold.evals.cases import Case, counter, tokens_of
from tenfold.evals.false_facts import Source
from tenfold.evals.future import TOLERANCE, Away, Fact, Recall, found_by, needed, scored, search_of
from tenfold.evals.methods import Compacted, Method, Preset, RealSummaries, Unable
from tenfold.evals.own_wire import OwnWire
from tenfold.evals.peers import Peer
from tenfold.evals.probes import Planted, Probe, Shown, Tally, judge, plant, probes_of, tallies
from tenfold.evals.report import Probed, Quality
from tenfold.evals.rounds import grown
from tenfold.evals.validity import Checked, Gate, broken, check

BUDGETS = (2_000, *future.BUDGETS)
"""The sizes to compact to, in tokens."""
ROUNDS = (1, 3, 5, 10)
"""The numbers of compactions, one after the other, up to the cut."""
LEAST = 1_000
"""The smallest tenth of a past that is measured, in tokens. Below it there is a system prompt, not a conversation."""
AT_ONCE = 2
"""How many methods run at the same time. Peers have processes of their own; Tenfold's methods share this one."""


Told = Callable[[int, int], None]
"""Receives how many pieces of work are done, and how many there are. Any thread may call it."""


class Size(NamedTuple):
    """What a case is compacted to, and how often.

    `own` means the size of the summary that the session really had. `planted` also measures what is left of rules
    planted into the past, which takes a second compaction.
    """

    budget: int
    rounds: int
    tenth: bool = False
    own: bool = False
    planted: bool = False


class Ground(Struct, frozen=True):
    """A case and everything that a view of its past is asked.

    `found_facts` are the facts that one search would find.
    """

    case: Case
    tokens: int
    facts: tuple[Fact, ...]
    probes: tuple[Probe, ...]
    planted: Planted
    source: Source
    sizes: tuple[Size, ...]
    away: Away = Away()


class Scores(NamedTuple):
    """The scores of one result: the facts that the future needed (None if it needed nothing), and all others."""

    recall: Recall | None
    probed: Probed


Found = dict[tuple[str, int], list[Scores]]
"""Keyed by the method's name and the number of the case."""
Gates = dict[tuple[str, int], Checked]
"""Keyed by the method's name and the number of the session."""

# -- one case ----------------------------------------------------------------------------------------------------------


def ground(
    case: Case, *, budgets: Sequence[int] = BUDGETS, rounds: Sequence[int] = (1,), search: bool = True
) -> Ground:
    """Prepares what is asked of a case, and at which sizes. There are none if its past fits into the smallest budget.

    `search` False leaves out what one search would find, which only Tenfold's methods need.
    """
    tokens = tokens_of(case.past)
    facts = tuple(needed(case))
    away = found_by(facts, search_of(case)) if search and facts else Away()
    sizes = tuple(_sizes(case, tokens, sorted(budgets), sorted(rounds)))
    planted = plant(case.past, case.session)
    return Ground(case, tokens, facts, probes_of(case.past), planted, Source(case.past), sizes, away)


def _sizes(case: Case, tokens: int, budgets: Sequence[int], rounds: Sequence[int]) -> Iterator[Size]:
    """Yields the sizes to measure.

    These are every budget below the past's size after the fewest rounds, and a tenth of the past after each number of
    rounds. Planted rules are measured at the tenth, after the fewest and the most rounds.
    """
    below = [b for b in budgets if b < tokens]
    if not below:
        return
    tenth = tokens // 10
    yield from (Size(b, rounds[0]) for b in below)
    for number in rounds if tenth >= LEAST else ():
        yield Size(tenth, number, tenth=True, planted=number in (rounds[0], rounds[-1]))
    if case.summary:
        yield Size(own_size(case), rounds[0], own=True)


def own_size(case: Case) -> int:
    """Returns the tokens of the session's real summary and the messages kept beside it, or 0 if there is none."""
    return RealSummaries((case,)).compact(case.past, budget=0).tokens if case.summary else 0


def score(asked: Ground, method: Method, size: Size) -> Scores:
    """Compacts once and returns all scores of the result."""
    case, facts = asked.case, asked.facts
    recall = Recall(case.session, case.cut, case.kind, method.name, size.budget, size.rounds, len(facts), asked.tokens)
    recall = replace(recall, own=size.own, tenth=size.tenth)
    probed = Probed(case.session, case.cut, case.kind, method.name, size.budget, size.rounds, past_tokens=asked.tokens)
    probed = replace(probed, own=size.own, tenth=size.tenth)
    try:
        result = grown(method, case.past, budget=size.budget, rounds=size.rounds)
    except Unable as exc:
        lost = replace(scored(recall, Compacted((), 0, 0.0), facts, None), unable=str(exc)) if facts else None
        return Scores(lost, replace(probed, unable=str(exc), tallies=_none(asked)))
    away = asked.away if isinstance(method, Preset) else None
    return Scores(
        scored(recall, result, facts, away) if facts else None,
        _probed(probed, result, asked, method if size.planted else None),
    )


def _probed(probed: Probed, made: Compacted, asked: Ground, planting: Method | None) -> Probed:
    over = made.tokens > probed.budget * TOLERANCE
    view, past = Shown(made.messages), asked.case.past
    failed: dict[Gate, int] = {}
    for each in broken(past, made.messages, budget=probed.budget):
        failed[each.gate] = failed.get(each.gate, 0) + 1
    return replace(
        probed,
        tokens=made.tokens,
        tallies=_none(asked) if over else tuple(tallies(asked.probes, view, len(past))),
        planted=_planted(asked.planted, planting, probed) if planting is not None else {},
        false=len(asked.source.false_facts(made.messages)),
        gates=failed,
        over=over,
    )


def _none(asked: Ground) -> tuple[Tally, ...]:
    """Returns the verdicts on a view that holds nothing."""
    return tuple(tallies(asked.probes, Shown(()), len(asked.case.past)))


def _planted(planted: Planted, method: Method, probed: Probed) -> dict[str, tuple[int, int]]:
    """Returns what is left of the planted rules, by place. A result over its budget keeps nothing."""
    view = Shown(())
    with suppress(Unable):
        result = grown(method, planted.messages, budget=probed.budget, rounds=probed.rounds)
        view = Shown(result.messages) if result.tokens <= probed.budget * TOLERANCE else view
    return {probe.place: (int(judge(probe, view) == "present"), 1) for probe in planted.probes}


# -- all cases -------------------------------------------------------------------------------------------------------


def measure(
    cases: Sequence[Case],
    methods: Sequence[Method],
    *,
    budgets: Sequence[int] = BUDGETS,
    rounds: Sequence[int] = (1,),
    every_cut: bool = False,
    told: Told | None = None,
) -> Quality:
    """Scores every method on every case, in a fixed order whichever finishes first. Ends the peers' processes.

    `every_cut` checks the gates of Tenfold's methods at every index of every session instead of the cases' cuts only.
    """
    sessions: dict[str, list[Case]] = {}
    for case in cases:
        sessions.setdefault(case.session, []).append(case)
    ours = [m for m in methods if isinstance(m, Preset)]
    work = _Work(len(cases) * (1 + len(methods)) + len(sessions) * len(ours), told)
    grounds: list[Ground] = []
    for case in cases:
        grounds.append(ground(case, budgets=budgets, rounds=rounds, search=bool(ours)))
        work.did()
    scores, checks = work.through(_lanes(methods), grounds, list(sessions.values()), every_cut=every_cut)
    ordered = [one for number in range(len(cases)) for m in methods for one in scores[m.name, number]]
    return Quality(
        __version__,
        counter().name,
        tuple(m.name for m in methods),
        tuple(sorted(budgets)),
        tuple(sorted(rounds)),
        tuple(one.recall for one in ordered if one.recall is not None),
        tuple(one.probed for one in ordered),
        tuple(checks[m.name, number] for number in range(len(sessions)) for m in ours),
    )


def checked(cuts: Sequence[Case], method: Preset, *, every_cut: bool = False) -> Checked:
    """Checks the gates of a method over the cuts of one session, or at every index, with two runs at each.

    Tenfold's policies also compact the session in its own format.
    """
    first = cuts[0]
    chosen = range(1, len(first.messages) + 1) if every_cut else [c.cut for c in cuts]
    own = OwnWire(first.own, method.name)
    found = check(first.messages, method, session=first.session, cuts=chosen, also=own)
    return replace(found, thinking=own.thinking(chosen))


def _lanes(methods: Sequence[Method]) -> list[list[Method]]:
    """Groups methods that must not run at the same time: those of one peer. Peers' and Tenfold's lanes alternate."""
    lanes: dict[str, list[Method]] = {}
    for method in methods:
        lanes.setdefault(method.name.partition("/")[0], []).append(method)
    peer_lanes = [lane for lane in lanes.values() if isinstance(lane[0], Peer)]
    own_lanes = [lane for lane in lanes.values() if not isinstance(lane[0], Peer)]
    return [lane for pair in zip_longest(peer_lanes, own_lanes) for lane in pair if lane is not None]


class _Work:
    """Runs lanes of methods, `MAX_CONCURRENT` of them at a time, and counts the work done."""

    def __init__(self, total: int, told: Told | None) -> None:
        self._total, self._told = total, told
        self._done = 0
        self._stopped = False
        self._lock = threading.Lock()

    def did(self) -> None:
        """Counts one piece of work."""
        with self._lock:
            self._done += 1
            if self._told is not None:
                self._told(self._done, self._total)

    def _going(self) -> bool:
        if self._stopped:
            raise Unable("stopped")
        return True

    def through(
        self,
        lanes: Sequence[Sequence[Method]],
        grounds: Sequence[Ground],
        sessions: Sequence[Sequence[Case]],
        *,
        every_cut: bool,
    ) -> tuple[Found, Gates]:
        """Returns the scores of each method on each case. In any case no process of a peer is left behind."""
        scores: Found = {}
        checks: Gates = {}

        def through_lane(lane: Sequence[Method]) -> None:
            for method in lane:
                for number, each in enumerate(grounds):
                    sizes = [s for s in each.sizes if s.own or not isinstance(method, RealSummaries)]
                    scores[method.name, number] = [score(each, method, s) for s in sizes if self._going()]
                    self.did()
                for number, cuts in enumerate(sessions):
                    if isinstance(method, Preset) and self._going():
                        checks[method.name, number] = checked(cuts, method, every_cut=every_cut)
                        self.did()
            _close([lane])

        with ThreadPoolExecutor(AT_ONCE) as pool:
            running = [pool.submit(through_lane, lane) for lane in lanes]
            try:
                for lane in as_completed(running):
                    lane.result()
            finally:
                self._stopped = True
                while not all(each.cancel() or each.done() for each in running):
                    _close(lanes)  # ending its process unblocks a lane that waits for a peer
                    wait(running, timeout=0.1)
        return scores, checks


def _close(lanes: Sequence[Sequence[Method]]) -> None:
    for lane in lanes:
        for method in lane:
            if isinstance(method, Peer):
                method.close()
