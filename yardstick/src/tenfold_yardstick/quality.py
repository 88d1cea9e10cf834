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
from tenfold.testing.chats import count_total_tokens, get_counter
from tenfold.testing.false_facts import ViewSource
from tenfold.testing.methods import Method, MethodResult, Preset, UnableError, compact_in_rounds
from tenfold.testing.probes import IndexedView, PlantedRules, Probe, collect_probes, judge, plant_rules
from tenfold.testing.validity import Gate, GateFailure
from tenfold_yardstick import future_recall
from tenfold_yardstick.cases import Case
from tenfold_yardstick.future_recall import (
    FoundFacts,
    NeededFact,
    RecallScore,
    build_search,
    find_by_search,
    find_needed_facts,
    is_over_budget,
    score_result,
)
from tenfold_yardstick.gates import GateCounts, check_cuts, find_failures_within, find_refusal
from tenfold_yardstick.methods import RealSummaries, has_search
from tenfold_yardstick.own_format import OwnFormatCheck
from tenfold_yardstick.peers import Peer
from tenfold_yardstick.scores import ProbeScore, ProbeTally, Quality, count_verdicts

BUDGETS = (2_000, *future_recall.BUDGETS)
"""The sizes to compact to, in tokens."""
ROUNDS = (1, 3, 5, 10)
"""The numbers of compactions, one after the other, up to the cut."""
MIN_TENTH = 1_000
"""The smallest tenth of a past that is measured, in tokens. Below it there is a system prompt, not a conversation."""
MAX_CONCURRENT = 2
"""How many methods run at the same time. Peers have processes of their own; Tenfold's methods share this one."""


ProgressListener = Callable[[int, int, str], None]
"""Receives how many pieces of work are done, how many there are, and what the last one was. Any thread may call it."""


class TargetSize(NamedTuple):
    """What a case is compacted to, and how often.

    `own` means the size of the summary that the session really had. `planted` also measures what is left of rules
    planted into the past, which takes a second compaction.
    """

    budget: int
    rounds: int
    tenth: bool = False
    own: bool = False
    planted: bool = False


class PreparedCase(Struct, frozen=True):
    """A case and everything that a view of its past is asked.

    `found_facts` are the facts that one search would find.
    """

    case: Case
    tokens: int
    facts: tuple[NeededFact, ...]
    probes: tuple[Probe, ...]
    planted_rules: PlantedRules
    source: ViewSource
    sizes: tuple[TargetSize, ...]
    found_facts: FoundFacts = FoundFacts()


class Scores(NamedTuple):
    """The scores of one result: the facts that the future needed (None if it needed nothing), and all others."""

    recall: RecallScore | None
    probes: ProbeScore


ScoresByMethod = dict[tuple[str, int], list[Scores]]
"""Keyed by the method's name and the number of the case."""
GatesByMethod = dict[tuple[str, int], GateCounts]
"""Keyed by the method's name and the number of the session."""

# -- one case ----------------------------------------------------------------------------------------------------------


def prepare_case(
    case: Case, *, budgets: Sequence[int] = BUDGETS, rounds: Sequence[int] = (1,), search: bool = True
) -> PreparedCase:
    """Prepares what is asked of a case, and at which sizes. There are none if its past fits into the smallest budget.

    `search` False leaves out what one search would find, which only Tenfold's methods need.
    """
    tokens = count_total_tokens(case.past)
    facts = tuple(find_needed_facts(case))
    away = find_by_search(facts, build_search(case)) if search and facts else FoundFacts()
    sizes = tuple(_list_sizes(case, tokens, sorted(budgets), sorted(rounds)))
    planted = plant_rules(case.past, case.session)
    return PreparedCase(case, tokens, facts, collect_probes(case.past), planted, ViewSource(case.past), sizes, away)


def _list_sizes(case: Case, tokens: int, budgets: Sequence[int], rounds: Sequence[int]) -> Iterator[TargetSize]:
    """Yields the sizes to measure.

    These are every budget below the past's size after the fewest rounds, and a tenth of the past after each number of
    rounds. Planted rules are measured at the tenth, after the fewest and the most rounds.
    """
    below = [b for b in budgets if b < tokens]
    if not below:
        return
    tenth = tokens // 10
    yield from (TargetSize(b, rounds[0]) for b in below)
    for number in rounds if tenth >= MIN_TENTH else ():
        yield TargetSize(tenth, number, tenth=True, planted=number in (rounds[0], rounds[-1]))
    if case.summary:
        yield TargetSize(measure_real_summary(case), rounds[0], own=True)


def measure_real_summary(case: Case) -> int:
    """Returns the tokens of the session's real summary and the messages kept beside it, or 0 if there is none."""
    return RealSummaries((case,)).compact(case.past, budget=0).tokens if case.summary else 0


def score_method(prepared_case: PreparedCase, method: Method, size: TargetSize) -> Scores:
    """Compacts once and returns all scores of the result."""
    case, facts = prepared_case.case, prepared_case.facts
    recall = RecallScore(
        case.session, case.cut, case.kind, method.name, size.budget, size.rounds, len(facts), prepared_case.tokens
    )
    recall = replace(recall, own=size.own, tenth=size.tenth)
    probed = ProbeScore(
        case.session, case.cut, case.kind, method.name, size.budget, size.rounds, past_tokens=prepared_case.tokens
    )
    probed = replace(probed, own=size.own, tenth=size.tenth)
    try:
        result = compact_in_rounds(method, case.past, budget=size.budget, rounds=size.rounds)
    except UnableError as exc:
        lost = replace(score_result(recall, MethodResult((), 0, 0.0), facts, None), unable=str(exc)) if facts else None
        return Scores(lost, replace(probed, unable=str(exc), tallies=_count_all_missed(prepared_case)))
    away = prepared_case.found_facts if has_search(method) else None
    failures = find_failures_within(case.past, result.messages, size.budget)
    recall = replace(recall, refused=find_refusal(failures))
    return Scores(
        score_result(recall, result, facts, away) if facts else None,
        _score_probes(probed, result, failures, prepared_case, method if size.planted else None),
    )


def _score_probes(
    score: ProbeScore,
    result: MethodResult,
    failures: Sequence[GateFailure],
    prepared_case: PreparedCase,
    planting_method: Method | None,
) -> ProbeScore:
    over = is_over_budget(score.method, result.tokens, score.budget)
    view, past = IndexedView(result.messages), prepared_case.case.past
    failed: dict[Gate, int] = {}
    for each in failures:
        failed[each.gate] = failed.get(each.gate, 0) + 1
    return replace(
        score,
        tokens=result.tokens,
        tallies=_count_all_missed(prepared_case)
        if over or find_refusal(failures)
        else tuple(count_verdicts(prepared_case.probes, view, len(past))),
        planted=_score_planted_rules(prepared_case.planted_rules, planting_method, score)
        if planting_method is not None
        else {},
        false=len(prepared_case.source.find_false_facts(result.messages)),
        gates=failed,
        over=over,
    )


def _count_all_missed(prepared_case: PreparedCase) -> tuple[ProbeTally, ...]:
    """Returns the verdicts on a view that holds nothing."""
    return tuple(count_verdicts(prepared_case.probes, IndexedView(()), len(prepared_case.case.past)))


def _score_planted_rules(planted_rules: PlantedRules, method: Method, score: ProbeScore) -> dict[str, tuple[int, int]]:
    """Returns what is left of the planted rules, by place. A result that would not have been sent keeps nothing."""
    view = IndexedView(())
    with suppress(UnableError):
        result = compact_in_rounds(method, planted_rules.messages, budget=score.budget, rounds=score.rounds)
        is_refused = find_refusal(find_failures_within(planted_rules.messages, result.messages, score.budget))
        if not is_refused and not is_over_budget(score.method, result.tokens, score.budget):
            view = IndexedView(result.messages)
    return {probe.place: (int(judge(probe, view) == "present"), 1) for probe in planted_rules.probes}


# -- all cases -------------------------------------------------------------------------------------------------------


def measure_quality(
    cases: Sequence[Case],
    methods: Sequence[Method],
    *,
    budgets: Sequence[int] = BUDGETS,
    rounds: Sequence[int] = (1,),
    every_cut: bool = False,
    on_progress: ProgressListener | None = None,
) -> Quality:
    """Scores every method on every case, in a fixed order whichever finishes first. Ends the peers' processes.

    `every_cut` checks the gates of Tenfold's methods at every index of every session instead of the cases' cuts only.
    """
    sessions: dict[str, list[Case]] = {}
    for case in cases:
        sessions.setdefault(case.session, []).append(case)
    ours = [m for m in methods if isinstance(m, Preset)]
    work = _LaneRunner(len(cases) * (1 + len(methods)) + len(sessions) * len(ours), on_progress)
    grounds: list[PreparedCase] = []
    for case in cases:
        grounds.append(prepare_case(case, budgets=budgets, rounds=rounds, search=any(map(has_search, methods))))
        work.count_done(case.session)
    scores, checks = work.run_lanes(_build_lanes(methods), grounds, list(sessions.values()), every_cut=every_cut)
    ordered = [one for number in range(len(cases)) for m in methods for one in scores[m.name, number]]
    return Quality(
        __version__,
        get_counter().name,
        tuple(m.name for m in methods),
        tuple(sorted(budgets)),
        tuple(sorted(rounds)),
        tuple(one.recall for one in ordered if one.recall is not None),
        tuple(one.probes for one in ordered),
        tuple(checks[m.name, number] for number in range(len(sessions)) for m in ours),
    )


def check_gates(cuts: Sequence[Case], method: Preset, *, every_cut: bool = False) -> GateCounts:
    """Checks the gates of a method over the cuts of one session, or at every index, with two runs at each.

    Tenfold's policies also compact the session in its own format.
    """
    first = cuts[0]
    chosen = range(1, len(first.messages) + 1) if every_cut else [c.cut for c in cuts]
    own = OwnFormatCheck(first.native_messages, method.name)
    found = check_cuts(first.messages, method, chosen, session=first.session, find_more=own)
    return replace(found, thinking=own.count_thinking_cuts(chosen))


def _build_lanes(methods: Sequence[Method]) -> list[list[Method]]:
    """Groups methods that must not run at the same time: those of one peer. Peers' and Tenfold's lanes alternate."""
    lanes: dict[str, list[Method]] = {}
    for method in methods:
        lanes.setdefault(method.name.partition("/")[0], []).append(method)
    peer_lanes = [lane for lane in lanes.values() if isinstance(lane[0], Peer)]
    own_lanes = [lane for lane in lanes.values() if not isinstance(lane[0], Peer)]
    return [lane for pair in zip_longest(peer_lanes, own_lanes) for lane in pair if lane is not None]


class _LaneRunner:
    """Runs lanes of methods, `MAX_CONCURRENT` of them at a time, and counts the work done."""

    def __init__(self, total: int, on_progress: ProgressListener | None) -> None:
        self._total, self._on_progress = total, on_progress
        self._done = 0
        self._stopped = False
        self._lock = threading.Lock()

    def count_done(self, what: str) -> None:
        """Counts one piece of work."""
        with self._lock:
            self._done += 1
            if self._on_progress is not None:
                self._on_progress(self._done, self._total, what)

    def _check_running(self) -> bool:
        if self._stopped:
            raise UnableError("stopped")
        return True

    def run_lanes(
        self,
        lanes: Sequence[Sequence[Method]],
        prepared_cases: Sequence[PreparedCase],
        sessions: Sequence[Sequence[Case]],
        *,
        every_cut: bool,
    ) -> tuple[ScoresByMethod, GatesByMethod]:
        """Returns the scores of each method on each case. In any case no process of a peer is left behind."""
        scores: ScoresByMethod = {}
        checks: GatesByMethod = {}

        def run_lane(lane: Sequence[Method]) -> None:
            for method in lane:
                for number, each in enumerate(prepared_cases):
                    sizes = [s for s in each.sizes if s.own or not isinstance(method, RealSummaries)]
                    scores[method.name, number] = [
                        score_method(each, method, s) for s in sizes if self._check_running()
                    ]
                    self.count_done(f"{each.case.session}, {method.name}")
                for number, cuts in enumerate(sessions):
                    if isinstance(method, Preset) and self._check_running():
                        checks[method.name, number] = check_gates(cuts, method, every_cut=every_cut)
                        self.count_done(f"{cuts[0].session}, {method.name}")
            _close_peers([lane])

        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            running = [pool.submit(run_lane, lane) for lane in lanes]
            try:
                for lane in as_completed(running):
                    lane.result()
            finally:
                self._stopped = True
                while not all(each.cancel() or each.done() for each in running):
                    _close_peers(lanes)  # ending its process unblocks a lane that waits for a peer
                    wait(running, timeout=0.1)
        return scores, checks


def _close_peers(lanes: Sequence[Sequence[Method]]) -> None:
    for lane in lanes:
        for method in lane:
            if isinstance(method, Peer):
                method.close()
