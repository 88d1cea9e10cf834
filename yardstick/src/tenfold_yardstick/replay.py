"""Replays sessions request by request: each method is asked before each request that the agent really made.

The main measure is the tokens that a provider's cache can serve, because they make up most of the bill. Two requests
share the whole messages that they begin with. Everything but the seconds is the same in every run. Two things are not
modelled: caches that expire between two requests, and providers that look for a shared beginning only where the client
set a mark. After a rewrite such a provider finds less than is credited here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import replace

from tenfold.models.prices import Prices
from tenfold_yardstick.bill import Bill, RequestTokens, build_price_table, compute_bill
from tenfold_yardstick.players import Player, PlayerFactory, Recording, ReplayMessage
from tenfold_yardstick.tables import Table, find_most_frequent, format_seconds

_MILLION = 1_000_000


MAX_CONCURRENT = 2
"""How many lanes of methods run at the same time."""


class SessionReplay(Struct, frozen=True):
    """One session played by one method in one window. All numbers are tokens or requests, unless stated otherwise.

    `overflows` are requests larger than the window, which a provider would refuse; the bill counts them all the same.
    `compactions` are requests that do not begin with all of the request before. `sent` is all input, `read` what came
    from the cache, and `rewritten` what was sent again although it is not new. `blocked` is how many seconds the
    conversation waited for the method, without model calls, and `longest` is the longest of these waits. `sizes` is the
    input of each request, and `rewrote` are the indexes of the requests counted in `compactions`. `asked` is how often
    a method without a trigger of its own was asked to compact. `refusals` is how often it then gave no result, so that
    the list was sent unchanged. `unable` is the reason if it never gave a result.
    """

    session: str
    method: str
    window: int
    requests: int
    peak: int
    overflows: int
    compactions: int
    sent: int
    read: int
    rewritten: int
    output: int
    summary_input: int
    summary_output: int
    bills: tuple[Bill, ...]
    blocked: float
    longest: float
    sizes: tuple[int, ...] = ()
    rewrote: tuple[int, ...] = ()
    asked: int = 0
    refusals: int = 0
    unable: str = ""


def replay_session(
    recording: Recording,
    method: str,
    build_player: PlayerFactory,
    *,
    window: int,
    prices: Sequence[Prices] = (),
    fills_window: bool = False,
) -> SessionReplay:
    """Plays a session with one method. Each request costs O(messages in view), and no message is counted twice.

    With `fills_window` a request above the window is billed as one that just fills it, all but what is new read from
    the cache: the least that a client could have paid whose request is not refused. The bill of `tenfold bill` does so.
    """
    began = time.perf_counter()
    player = build_player(recording, window)
    waits = [time.perf_counter() - began]
    requests, rewrote, answers = _play_requests(recording, player, waits)
    overflows = sum(r.total > window for r in requests)
    if fills_window:
        requests = [_cap_request(request, window) for request in requests]
    refusals = [reason for reason in answers if reason]
    return SessionReplay(
        recording.name,
        method,
        window,
        len(requests),
        max((r.total for r in requests), default=0),
        overflows,
        len(rewrote),
        sum(r.total for r in requests),
        sum(r.cache_reads for r in requests),
        sum(r.rewritten_input for r in requests),
        sum(r.output for r in requests),
        sum(r.summary_input for r in requests),
        sum(r.summary_output for r in requests),
        tuple(compute_bill(requests, each) for each in prices),
        sum(waits),
        max(waits),
        tuple(r.total for r in requests),
        tuple(rewrote),
        len(answers),
        len(refusals),
        refusals[0] if answers and all(answers) else "",
    )


def _play_requests(
    recording: Recording, player: Player, waits: list[float]
) -> tuple[list[RequestTokens], list[int], list[str]]:
    """Returns the requests, the indexes of those that rewrote the one before, and the answers to compaction requests.

    An answer is "" if there was a result, and otherwise the reason. The waits are appended to `waits`.
    """
    requests: list[RequestTokens] = []
    rewrote: list[int] = []
    answers: list[str] = []
    seen = 0
    before: list[ReplayMessage] = []
    for answer in recording.answer_indexes:
        new = range(seen, answer)
        seen = answer
        began = time.perf_counter()
        sent = player.prepare_request(new)
        waits.append(sent.seconds if sent.seconds is not None else time.perf_counter() - began)
        answers += [] if sent.unable is None else [sent.unable]
        pieces = list(sent.messages)
        same = count_shared(before, pieces)
        if same < len(before):
            rewrote.append(len(requests))
        total = recording.prefix + sum(piece.tokens for piece in pieces)
        requests.append(
            RequestTokens(
                recording.prefix + sum(piece.tokens for piece in pieces[:same]) if requests else 0,
                total,
                sum(recording.tokens[i] for i in new) + (0 if requests else recording.prefix),
                recording.tokens[answer],
                sent.summary_input,
                sent.summary_output,
            )
        )
        player.record_usage(total)
        before = pieces
    return requests, rewrote, answers


def _cap_request(request: RequestTokens, window: int) -> RequestTokens:
    if request.total <= window:
        return request
    return replace(request, total=window, shared=max(0, window - request.new_input))


def count_shared(before: Sequence[ReplayMessage], after: Sequence[ReplayMessage]) -> int:
    """Returns how many messages two lists have in common from the beginning on."""
    if before == after[: len(before)]:
        return len(before)
    return next(i for i, piece in enumerate(before) if i >= len(after) or piece != after[i])


# -- all sessions ------------------------------------------------------------------------------------------------------


def replay_sessions(
    recordings: Sequence[Recording],
    factories: Mapping[str, PlayerFactory],
    *,
    windows: Sequence[int],
    prices: Sequence[Prices] = (),
    on_progress: Callable[[str], object] = lambda _: None,
) -> list[SessionReplay]:
    """Plays every session in every window with every method, in that order.

    `on_progress` is told after each what it was. The methods of one peer share a process and take turns.
    """
    lanes: dict[str, list[str]] = {}
    for name in factories:
        lanes.setdefault(name.partition("/")[0], []).append(name)
    done: dict[tuple[int, int, str], SessionReplay] = {}

    def run_lane(lane: Sequence[str]) -> None:
        for number, track in enumerate(recordings):
            for window in windows:
                for name in lane:
                    done[number, window, name] = replay_session(
                        track, name, factories[name], window=window, prices=prices
                    )
                    on_progress(f"{track.name}, {name}")

    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        for ended in [pool.submit(run_lane, lane) for lane in lanes.values()]:
            ended.result()
    return [done[number, window, name] for number in range(len(recordings)) for window in windows for name in factories]


class Replays(Struct, frozen=True):
    """The result of one run, from which everything shown of it is drawn. `lists` names the source of the prices."""

    version: str
    counter: str
    prefix: int
    prices: tuple[Prices, ...]
    played: tuple[SessionReplay, ...]
    lists: str = ""


def select_able(replays: Replays) -> list[SessionReplay]:
    """Returns the results to compare, without methods that failed whenever they were asked in any session."""
    gave = {one.method for one in replays.played if one.asked > one.refusals}
    never = {one.method for one in replays.played if one.unable} - gave
    return [one for one in replays.played if one.method not in never]


def format_refusals(session_replays: Sequence[SessionReplay]) -> str:
    """Returns how often a method gave no result, out of the times it was asked."""
    asked = sum(one.asked for one in session_replays)
    return f"{sum(one.refusals for one in session_replays)}/{asked}" if asked else "-"


def compute_cached_share(session_replays: Sequence[SessionReplay]) -> float:
    """Returns the share of all input that came from the cache."""
    return sum(one.read for one in session_replays) / max(1, sum(one.sent for one in session_replays))


def build_tables(replays: Replays) -> list[Table]:
    """Returns a table for each session and window, then what could not run, then the prices.

    Methods keep their order.
    """
    found: dict[str, dict[str, list[SessionReplay]]] = {}
    for one in select_able(replays):
        found.setdefault(f"{one.session}, window {one.window:,}", {})[one.method] = [one]
    tables = [build_cost_table(replays, played, title) for title, played in found.items()]
    last = [build_unable_table(replays), build_price_table(replays.prices, replays.lists)]
    return [*tables, *(table for table in last if table.rows)]


def build_unable_table(replays: Replays) -> Table:
    """Returns the methods that never gave a result in some session, with the most frequent reason."""
    found: dict[str, list[SessionReplay]] = {}
    for one in replays.played:
        found.setdefault(one.method, []).append(one)
    rows: list[tuple[str, ...]] = [
        (name, format_refusals(own), find_most_frequent(one.unable for one in own if one.unable))
        for name, own in found.items()
        if any(one.unable for one in own)
    ]
    columns = ("method", "of the times asked", "the reason most often")
    return Table("Could not run in a replay", columns, rows, "A method that never gave a result is in no other table.")


def build_cost_table(
    replays: Replays,
    played: Mapping[str, Sequence[SessionReplay]],
    title: str,
    recall: Mapping[str, float] | None = None,
) -> Table:
    """Returns what these sessions took with each method, one session or several together. `recall` adds a column."""
    bills = tuple(prices.model.rpartition(":")[2] for prices in replays.prices)
    columns = ("peak", "over", "no result", "compactions", "sent", "cached", "rewritten", *bills, "blocked", "longest")
    scored = ("recall",) if recall is not None else ()
    rows = []
    for name, own in played.items():
        score = () if recall is None else (f"{recall[name]:.3f}",) if name in recall else ("-",)
        cells = (
            f"{max(one.peak for one in own):,}",
            f"{sum(one.overflows for one in own):,}",
            format_refusals(own),
            f"{sum(one.compactions for one in own):,}",
            f"{sum(one.sent for one in own) / _MILLION:.2f}M",
            f"{compute_cached_share(own):.1%}",
            f"{sum(one.rewritten for one in own) / _MILLION:.2f}M",
            *(f"${sum(one.bills[index].total for one in own):,.2f}" for index in range(len(bills))),
            format_seconds(sum(one.blocked for one in own)),
            format_seconds(max(one.longest for one in own)),
        )
        rows.append((name, *score, *cells))
    count = max((sum(one.requests for one in own) for own in played.values()), default=0)
    note = (
        f"{count:,} requests, each with {replays.prefix:,} tokens assumed for system prompt and tools. Over: requests "
        "larger than the window. No result: of the times that the method was asked. Compactions: requests that do not "
        "begin with all of the one before. Blocked and longest: how long calls waited, calls of models apart."
    )
    return Table(title, ("method", *scored, *columns), rows, note)
