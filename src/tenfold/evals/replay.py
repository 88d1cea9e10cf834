"""Replays sessions request by request: each method is asked before each request that the agent really made.

The main measure is the tokens that a provider's cache can serve, because they make up most of the bill. Two requests
share the whole messages that they begin with. Everything but the seconds is the same in every run, up to a token or two
where a summary names the id of its Block. Two things are not modelled: caches that expire between two requests, and
providers that look for a shared beginning only where the client set a mark. After a rewrite such a provider finds less
than is credited here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from tenfold.evals.bill import Bill, Prices, Request, billed, price_table
from tenfold.evals.players import Piece, Player, Start, Track
from tenfold.evals.tables import Table, most_often

_MILLION = 1_000_000


AT_ONCE = 2
"""How many lanes of methods run at the same time."""


class Replayed(Struct, frozen=True):
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

    @property
    def hit(self) -> float:
        """The share of the input that came from the cache."""
        return self.read / self.sent if self.sent else 0.0


def replay(track: Track, method: str, start: Start, *, window: int, prices: Sequence[Prices] = ()) -> Replayed:
    """Plays a session with one method. Each request costs O(messages in view), and no message is counted twice."""
    began = time.perf_counter()
    player = start(track, window)
    waits = [time.perf_counter() - began]
    requests, rewrote, answers = _played(track, player, waits)
    refusals = [reason for reason in answers if reason]
    return Replayed(
        track.name,
        method,
        window,
        len(requests),
        max((r.total for r in requests), default=0),
        sum(r.total > window for r in requests),
        len(rewrote),
        sum(r.total for r in requests),
        sum(r.read for r in requests),
        sum(r.rewritten for r in requests),
        sum(r.output for r in requests),
        sum(r.summary_input for r in requests),
        sum(r.summary_output for r in requests),
        tuple(billed(requests, each) for each in prices),
        sum(waits),
        max(waits),
        tuple(r.total for r in requests),
        tuple(rewrote),
        len(answers),
        len(refusals),
        refusals[0] if answers and all(answers) else "",
    )


def _played(track: Track, player: Player, waits: list[float]) -> tuple[list[Request], list[int], list[str]]:
    """Returns the requests, the indexes of those that rewrote the one before, and the answers to compaction requests.

    An answer is "" if there was a result, and otherwise the reason. The waits are appended to `waits`.
    """
    requests: list[Request] = []
    rewrote: list[int] = []
    answers: list[str] = []
    seen = 0
    before: list[Piece] = []
    for answer in track.requests:
        new = range(seen, answer)
        seen = answer
        began = time.perf_counter()
        sent = player.before(new)
        waits.append(sent.seconds if sent.seconds is not None else time.perf_counter() - began)
        answers += [] if sent.unable is None else [sent.unable]
        pieces = list(sent.pieces)
        same = shared(before, pieces)
        if same < len(before):
            rewrote.append(len(requests))
        total = track.prefix + sum(piece.tokens for piece in pieces)
        requests.append(
            Request(
                track.prefix + sum(piece.tokens for piece in pieces[:same]) if requests else 0,
                total,
                sum(track.tokens[i] for i in new) + (0 if requests else track.prefix),
                track.tokens[answer],
                sent.summary_input,
                sent.summary_output,
            )
        )
        player.after(total)
        before = pieces
    return requests, rewrote, answers


def shared(before: Sequence[Piece], after: Sequence[Piece]) -> int:
    """Returns how many messages two lists have in common from the beginning on."""
    if before == after[: len(before)]:
        return len(before)
    return next(i for i, piece in enumerate(before) if i >= len(after) or piece != after[i])


# -- all sessions ------------------------------------------------------------------------------------------------------


def replays(
    tracks: Sequence[Track],
    chosen: Mapping[str, Start],
    *,
    windows: Sequence[int],
    prices: Sequence[Prices] = (),
    told: Callable[[], object] = lambda: None,
) -> list[Replayed]:
    """Plays every session in every window with every method, in that order. Calls `on_progress` after each.

    The methods of one peer share a process and take turns.
    """
    lanes: dict[str, list[str]] = {}
    for name in chosen:
        lanes.setdefault(name.partition("/")[0], []).append(name)
    done: dict[tuple[int, int, str], Replayed] = {}

    def through(lane: Sequence[str]) -> None:
        for number, track in enumerate(tracks):
            for window in windows:
                for name in lane:
                    done[number, window, name] = replay(track, name, chosen[name], window=window, prices=prices)
                    told()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for ended in [pool.submit(through, lane) for lane in lanes.values()]:
            ended.result()
    return [done[number, window, name] for number in range(len(tracks)) for window in windows for name in chosen]


class Replays(Struct, frozen=True):
    """The result of one run, from which everything shown of it is drawn. `lists` names the source of the prices."""

    version: str
    counter: str
    prefix: int
    prices: tuple[Prices, ...]
    played: tuple[Replayed, ...]
    lists: str = ""


def able(made: Replays) -> list[Replayed]:
    """Returns the results to compare, without methods that failed whenever they were asked in any session."""
    gave = {one.method for one in made.played if one.asked > one.refusals}
    never = {one.method for one in made.played if one.unable} - gave
    return [one for one in made.played if one.method not in never]


def no_result(played: Sequence[Replayed]) -> str:
    """Returns how often a method gave no result, out of the times it was asked."""
    asked = sum(one.asked for one in played)
    return f"{sum(one.refusals for one in played)}/{asked}" if asked else "-"


def tables(made: Replays) -> list[Table]:
    """Returns a table for each session and window, then what could not run, then the prices.

    Methods keep their order.
    """
    found: dict[tuple[str, int], list[Replayed]] = {}
    for one in able(made):
        found.setdefault((one.session, one.window), []).append(one)
    last = [unable(made), price_table(made.prices, made.lists)]
    return [*(_table(made, played) for played in found.values()), *(table for table in last if table.rows)]


def unable(made: Replays) -> Table:
    """Returns the methods that never gave a result in some session, with the most frequent reason."""
    found: dict[str, list[Replayed]] = {}
    for one in made.played:
        found.setdefault(one.method, []).append(one)
    rows: list[tuple[str, ...]] = [
        (name, no_result(own), most_often(one.unable for one in own if one.unable))
        for name, own in found.items()
        if any(one.unable for one in own)
    ]
    columns = ("method", "of the times asked", "the reason most often")
    return Table("Could not run in a replay", columns, rows, "one that never gave a result stands in no other table")


def _table(made: Replays, played: Sequence[Replayed]) -> Table:
    bills = tuple(prices.model.rpartition(":")[2] for prices in made.prices)
    columns = ("method", "peak", "over", "no result", "compactions", "sent", "cached", "rewritten", *bills)
    columns += ("blocked", "longest")
    rows = [
        (
            one.method,
            f"{one.peak:,}",
            f"{one.overflows}",
            no_result([one]),
            f"{one.compactions}",
            f"{one.sent / _MILLION:.2f}M",
            f"{one.hit:.1%}",
            f"{one.rewritten / _MILLION:.2f}M",
            *(f"${bill.total:.2f}" for bill in one.bills),
            f"{one.blocked:.2f}s",
            f"{one.longest:.2f}s",
        )
        for one in played
    ]
    count = max(one.requests for one in played)
    note = (
        f"{count:,} requests, {made.prefix:,} tokens of system prompt and tools assumed in each; over: requests larger "
        "than the window; no result: of the times the method was asked; blocked: model calls apart"
    )
    return Table(f"{played[0].session}, window {played[0].window:,}", columns, rows, note)
