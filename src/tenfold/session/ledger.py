"""The ledger: what each request of a session took, what it would have taken with nothing hidden, and both in dollars.

It is read from the log, where it stands already: an answer holds the usage that its provider reported, a Block how much
it took out of the view and what its summary cost. So command line, chat, gateway and pages show the same figures, and
nothing is counted twice. Pure arithmetic: `bill.py` reads the store.

What a request would have been without Tenfold is never observed. The ledger reckons it so that Tenfold gains least:

- its input is what was sent and what the Blocks in force hide of it. What the model looked up is taken out again;
- of that the cache would have held the request before but for as many tokens as it missed of the one that was really
  sent: providers round what they cache. Where it missed more than half, it would have missed as large a share. Right
  after a compaction nobody can tell, and the whole request before counts as cached;
- a request that is larger than the window could not have been sent at all. It counts as one that fills the window, all
  but what is new read from the cache, which is the least that a client without Tenfold could have paid;
- the answer would have been the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import RECORDED, Block, ModelCost
from tenfold.core.record.entry import (
    PREPARED_SUMMARY,
    Attempt,
    Entry,
    MessageEntry,
    PreparedSummary,
    Retraction,
    Setting,
    Usage,
)
from tenfold.core.record.message import Message, get_tool_calls
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.models.prices import Dollars, Prices, TokenUse
from tenfold.recall.tools import describe_tools
from tenfold.store.ids import convert_time

RowKind = Literal["answer", "lookup", "summary"]
"""A request that the agent would have made anyway, one by which its model looked hidden messages up, and the model
calls that wrote a summary. Embeddings are computed on this machine, so they are no row and cost nothing."""
Grouping = Literal["session", "model", "client"]
PriceFinder = Callable[[str, str], Prices | None]
"""Finds the prices of a model on a day, such as `2026-11-30`; "" is today."""
NO_USE = TokenUse()
_LIVE = "live"
"""Stands for the place of a conversation that is added up while it goes on."""
_RECALL_TOOLS = frozenset(describe_tools())


class LedgerRow(Struct, frozen=True):
    """One request, or the model calls of one summary.

    `sent` is what the provider reported, and `unhidden` what it would have been with nothing hidden: nothing for
    lookups and summaries, which there would not have been. With `is_too_long` it would not have fitted the window.
    `served` is the model of the agent whose request a summary was written for, "" if that is `model`.
    `time` is in microseconds UTC, None if nobody knows it. `paid` and `unhidden_paid` are None where the prices of
    `model` are not known.
    """

    kind: RowKind
    session: str
    client: str
    model: str
    time: int | None
    sent: TokenUse
    unhidden: TokenUse = TokenUse()
    is_too_long: bool = False
    paid: Dollars | None = None
    unhidden_paid: Dollars | None = None
    served: str = ""

    def get_group(self, by: Grouping) -> str:
        """Returns the name under which a bill that is grouped like this lists the row.

        A summary is on the line of the model that it was written for: else that line would show the saving without it.
        """
        names = {"session": self.session, "model": self.served or self.model, "client": self.client}
        return names[by] or "unknown"


class SessionFacts(Struct, frozen=True):
    """What of a session stands in each of its rows. `window` is in tokens, None if nobody knows it."""

    session: str
    client: str = ""
    model: str = ""
    window: int | None = None


class _PathState(Struct, frozen=True):
    """What is known at one place of the tree.

    `hidden` are the Blocks in force with the tokens that each hides, `looked_up` the tokens of lookups in the view.
    `sent` and `unhidden` are the input of the request before, None if there was none, and `has_changed` says that the
    view was changed since. `lookup` is the input of the request before, if it was a lookup. With `is_cached` the
    provider has read from its cache, or written to it, before.
    """

    hidden: tuple[tuple[str, int], ...] = ()
    looked_up: int = 0
    sent: int | None = None
    unhidden: int = 0
    has_changed: bool = False
    lookup: int | None = None
    is_cached: bool = False

    @property
    def hidden_tokens(self) -> int:
        return max(0, sum(tokens for _, tokens in self.hidden))


class SessionLedger:
    """Reads the rows of one session from its entries, which may come in pieces, each after its parent."""

    def __init__(self, facts: SessionFacts, find_prices: PriceFinder, known: set[object] | None = None) -> None:
        """`known` are the requests that other ledgers of the same bill have read: copies of a session hold them too."""
        self._facts, self._find_prices = facts, find_prices
        self._states: dict[str | None, _PathState] = {}
        self._served = facts.model
        self._known = set() if known is None else known

    def read(self, entries: Iterable[Entry], pending: Mapping[str, Usage] = {}) -> list[LedgerRow]:
        """Returns the rows of these entries, in their order.

        `pending` are reports whose answers are not appended yet, by the id of the entry that they will follow.
        """
        rows: list[LedgerRow] = []
        time: int | None = None
        for entry in entries:
            state = self._states.get(entry.parent, _PathState())
            match entry:
                case MessageEntry(usage=Usage() as usage):
                    state, own = self._read_request(state, usage, entry.time, looks_up=is_lookup(entry.message))
                    rows += own if self._is_new(entry.time, usage, fingerprint_message(entry.message)) else []
                case Block() | Attempt():
                    rows += self._read_summary(entry)
                    state = _apply_block(state, entry) if isinstance(entry, Block) else state
                case Setting(key=key, value=value) if key == PREPARED_SUMMARY:
                    rows += self._read_summary(msgspec.json.decode(value, type=PreparedSummary))
                case Retraction(block=block) if any(block == each for each, _ in state.hidden):
                    kept = tuple(each for each in state.hidden if each[0] != block)
                    state = replace(state, hidden=kept, has_changed=True)
                case _:
                    pass
            self._states[entry.id] = state
            time = entry.time if entry.time is not None else time
        for leaf, usage in pending.items():
            rows += self._read_request(self._states.get(leaf, _PathState()), usage, time, looks_up=False)[1]
        return rows

    def add_request(
        self, usage: Usage, hidden: int, block: str | None, *, model: str = "", window: int | None = None
    ) -> list[LedgerRow]:
        """Returns the rows of one more request of a conversation that is added up while it goes on.

        `hidden` is how many tokens are hidden of it as the provider counts, and `block` the newest Block in force.
        """
        self._facts = replace(self._facts, model=model, window=window)
        state = self._states.get(_LIVE, _PathState())
        newest = "" if block is None else block
        has_changed = state.sent is not None and [name for name, _ in state.hidden] != [newest]
        state = replace(state, hidden=((newest, hidden),), has_changed=state.has_changed or has_changed)
        self._states[_LIVE], rows = self._read_request(state, usage, None, looks_up=False)
        return rows

    def add_summary(self, spent: ModelCost) -> list[LedgerRow]:
        """Returns the row of the model calls of one more compaction, none if there were none."""
        return self._price_summary(spent, None) if spent.calls else []

    def _is_new(self, *identity: object) -> bool:
        """Tells whether this was not read before, and notes it. What has no time is no copy that anybody can tell."""
        is_known = identity in self._known
        if identity[0] is not None:
            self._known.add(identity)
        return not is_known

    def _read_request(
        self, state: _PathState, usage: Usage, time: int | None, *, looks_up: bool
    ) -> tuple[_PathState, list[LedgerRow]]:
        """Reads one report. Returns what is known behind it, and its rows."""
        rounds = (usage, *usage.lookups)
        sent = split_usage(usage, rounds[-1].output)
        if looks_up:
            unhidden, is_too_long, state = TokenUse(), False, _note_lookup(state, sent)
        else:
            state = _take_lookup_back(state, sent.input)
            unhidden, is_too_long = estimate_unhidden(state, sent, self._facts.window)
            cached = state.is_cached or bool(sent.cached or sent.written)
            state = replace(state, sent=sent.input, unhidden=unhidden.input, has_changed=False, is_cached=cached)
        self._served = usage.model or self._served
        kind: RowKind = "lookup" if looks_up else "answer"
        rows = [self._build_row(kind, usage.model, time, sent, unhidden, is_too_long=is_too_long)]
        for before, each in pairwise(rounds):
            rows.append(self._build_row("lookup", each.model or usage.model, time, split_usage(each, before.output)))
        return state, rows

    def _read_summary(self, entry: Block | Attempt | PreparedSummary) -> list[LedgerRow]:
        """Reads what a compaction spent on models.

        A Block that was copied to another branch spent nothing again, nor does one that was written ahead and is used.
        """
        spent = entry.spent
        return self._price_summary(spent, entry.time) if spent.calls and self._is_new(entry.time, spent) else []

    def _price_summary(self, spent: ModelCost, time: int | None) -> list[LedgerRow]:
        use = TokenUse(uncached=spent.input_tokens, output=spent.output_tokens)
        row = replace(self._build_row("summary", spent.model, time, use), served=self._served)
        if self._served and self._find_prices(self._served, format_day(time)) is None:
            return [replace(row, paid=None, unhidden_paid=None)]  # with its price alone there would only be a loss
        if spent.price is not None:
            row = replace(row, paid=_split_price(spent, row.paid), unhidden_paid=Dollars())
        return [row]

    def _build_row(
        self,
        kind: RowKind,
        model: str,
        time: int | None,
        sent: TokenUse,
        unhidden: TokenUse = NO_USE,
        *,
        is_too_long: bool = False,
    ) -> LedgerRow:
        facts, name = self._facts, model or self._facts.model
        row = LedgerRow(kind, facts.session, facts.client, name, time, sent, unhidden, is_too_long)
        return price_row(row, self._find_prices)


def price_row(row: LedgerRow, find_prices: PriceFinder) -> LedgerRow:
    """Returns the row with what it costs by the prices of its day, unchanged where nobody knows them."""
    prices = find_prices(row.model, format_day(row.time)) if row.model else None
    if prices is None:
        return row
    return replace(row, paid=prices.compute_dollars(row.sent), unhidden_paid=prices.compute_dollars(row.unhidden))


def format_day(time: int | None) -> str:
    """Returns the day of a time in UTC, as `2026-11-30`. "" where it is not known."""
    return "" if time is None else convert_time(time).date().isoformat()


def split_usage(usage: Usage, output: int) -> TokenUse:
    """Splits the prompt of a report by what the cache did."""
    read = min(usage.cache_read, usage.prompt)
    written = min(usage.cache_write, usage.prompt - read)
    return TokenUse(usage.prompt - read - written, read, written, output)


def is_lookup(message: Message) -> bool:
    """Tells whether an answer does nothing but look hidden messages up, so that there is a request more."""
    calls = get_tool_calls(message)
    return bool(calls) and all(call.name in _RECALL_TOOLS for call in calls)


def _split_price(spent: ModelCost, listed: Dollars | None) -> Dollars:
    """Splits the price of a summary, which was noted when it was written, as the list prices divide it."""
    price = spent.price or 0.0
    share = listed.input / listed.total if listed is not None and listed.total else 1.0
    return Dollars(price * share, price * (1 - share))


def _apply_block(state: _PathState, block: Block) -> _PathState:
    """Returns the state behind a Block. One that another tool recorded would have been there without Tenfold too."""
    if block.reason == RECORDED:
        return replace(state, hidden=(), looked_up=0, sent=None, unhidden=0, lookup=None, has_changed=False)
    before, after = block.sizes
    return replace(state, hidden=(*state.hidden, (block.id, int(before) - int(after))), has_changed=True)


def _note_lookup(state: _PathState, sent: TokenUse) -> _PathState:
    state = _take_lookup_back(state, sent.input)
    return replace(state, sent=sent.input, lookup=sent.input, has_changed=False)


def _take_lookup_back(state: _PathState, sent: int) -> _PathState:
    """Notes how much a lookup before this request has added to it: the call and its results."""
    if state.lookup is None or state.has_changed:
        return replace(state, lookup=None)
    return replace(state, lookup=None, looked_up=state.looked_up + max(0, sent - state.lookup))


def estimate_unhidden(state: _PathState, sent: TokenUse, window: int | None) -> tuple[TokenUse, bool]:
    """Estimates what a request would have been with nothing hidden, and whether it would not have fitted the window."""
    hidden = state.hidden_tokens - state.looked_up
    if not hidden and not state.has_changed:
        return sent, False
    whole = max(1, sent.input + hidden)
    most = whole if window is None else max(window, sent.input)
    total = min(whole, most)
    cached = _estimate_cached(state, sent, total)
    rest = total - cached
    new = sent.uncached + sent.written
    written = round(rest * sent.written / new) if new else 0
    return TokenUse(rest - written, cached, written, sent.output), whole > most


def _estimate_cached(state: _PathState, sent: TokenUse, total: int) -> int:
    """Estimates what the cache would have held of a request of `total` tokens."""
    if state.sent is None:
        return min(sent.cached, total)
    before = min(state.unhidden, total)
    if state.has_changed:
        return before if state.is_cached or sent.cached or sent.written else 0
    missed = max(0, state.sent - sent.cached)
    if missed <= state.sent // 2:
        return max(0, before - missed)
    return round(before * sent.cached / state.sent)


# -- the bill ----------------------------------------------------------------------------------------------------------


class BillLine(Struct, frozen=True):
    """The sum of some rows: a group of a bill, or all of it. Figures in dollars leave out what has no known price.

    `answers`, `lookups` and `summaries` count rows, `too_long` those answers that would not have fitted the window, and
    `unpriced` the rows without a price. `sent`, `looked_up` and `summarized` are their tokens, and `unhidden` what the
    answers would have been without Tenfold. `paid` is what the answers cost, `lookup_paid` and `summary_paid` what
    Tenfold's own requests cost, and `unhidden_paid` what the answers would have cost. `session_paid` is what the whole
    sessions would have cost without Tenfold, from their first request on, whatever days the bill is of.
    """

    name: str
    answers: int = 0
    lookups: int = 0
    summaries: int = 0
    too_long: int = 0
    unpriced: int = 0
    sent: TokenUse = TokenUse()
    looked_up: TokenUse = TokenUse()
    summarized: TokenUse = TokenUse()
    unhidden: TokenUse = TokenUse()
    paid: Dollars = Dollars()
    lookup_paid: Dollars = Dollars()
    summary_paid: Dollars = Dollars()
    unhidden_paid: Dollars = Dollars()
    session_paid: Dollars = Dollars()

    @property
    def saved_tokens(self) -> int:
        """The input tokens that were not sent, less those of lookups and summaries. Below 0, there were more."""
        return self.unhidden.input - self.sent.input - self.looked_up.input - self.summarized.input

    @property
    def total_paid(self) -> float:
        """All that was paid: answers, lookups and summaries."""
        return self.paid.total + self.lookup_paid.total + self.summary_paid.total

    @property
    def saving(self) -> float:
        """The dollars saved, once lookups, summaries and rewritten caches are paid. Below 0, Tenfold cost so much."""
        return self.unhidden_paid.total - self.total_paid

    @property
    def shares(self) -> SavedShares:
        """What was saved, as a share of four denominators."""
        return SavedShares(
            of_input_tokens=_divide(self.saved_tokens, self.unhidden.input),
            of_input_bill=_divide(self.saving, self.unhidden_paid.input),
            of_whole_bill=_divide(self.saving, self.unhidden_paid.total),
            of_session=_divide(self.saving, self.session_paid.total),
        )


class SavedShares(Struct, frozen=True):
    """What was saved as a share of four denominators, each of them without Tenfold. None where it is nothing.

    Tokens are divided by tokens; the other three divide the same dollars, so that each is smaller than the one before:

    - `of_input_tokens`: of the tokens that would have been sent;
    - `of_input_bill`: of what these would have cost;
    - `of_whole_bill`: of that and what the answers cost;
    - `of_session`: of what the sessions would have cost from their first request on, whatever days the bill is of.

    A provider takes $1 for a million tokens of input, $0.10 for cached ones and $2 for those of an answer. A session
    had a request of 1,000,000 tokens yesterday, and an answer of 500,000: $1 and $1. Today a request of 200,000 tokens,
    all uncached, followed a compaction that hid 800,000, with a summary from 50,000 for $0.05; the answer had 100,000.
    So $0.20, $0.05 and $0.20 were paid today. With nothing hidden, the request would have had 1,000,000 tokens, all of
    them in the cache: $0.10, and the answer again $0.20. Tenfold saved 750,000 tokens of 1,000,000: 0.75 of the input
    tokens. It saved -$0.15, a loss: -1.5 of the input bill ($0.10), -0.5 of the whole bill ($0.30), and -0.065 of the
    session so far ($2.30). Each further request that reads its 200,000 tokens from the cache saves $0.08.
    """

    of_input_tokens: float | None = None
    of_input_bill: float | None = None
    of_whole_bill: float | None = None
    of_session: float | None = None


SHARE_NAMES: Mapping[str, str] = {
    "of_input_tokens": "of the input tokens",
    "of_input_bill": "of the input bill",
    "of_whole_bill": "of the whole bill",
    "of_session": "of the session so far",
}
"""How the four denominators are called wherever a share is shown."""


class BillPoint(Struct, frozen=True):
    """The dollars after one more request: all that was paid, Tenfold's own of it, and what would have been paid."""

    time: int | None
    paid: float
    own: float
    without: float


class Bill(Struct, frozen=True):
    """A bill: its lines, the dearest without Tenfold first, their sum, and what is known of the prices.

    `since` is the time from which on requests count (microseconds UTC), None for all. `untimed` counts the requests
    that were left out because nobody knows when they were. `unknown_prices` are the models without known prices, and
    `days` the first and the last day of the requests, "" where nobody knows it. `points` are the sums so far.
    """

    by: Grouping
    lines: tuple[BillLine, ...]
    total: BillLine
    prices: tuple[Prices, ...] = ()
    unknown_prices: tuple[str, ...] = ()
    since: int | None = None
    untimed: int = 0
    days: tuple[str, str] = ("", "")
    points: tuple[BillPoint, ...] = ()


def sum_rows(rows: Iterable[LedgerRow], name: str = "") -> BillLine:
    """Adds rows up. Those of lookups and summaries are costs, and have nothing to compare with."""
    line = BillLine(name)
    for row in rows:
        line = _add_row(line, row)
    return replace(line, session_paid=line.unhidden_paid)


def _add_row(line: BillLine, row: LedgerRow) -> BillLine:
    paid, unhidden_paid = row.paid or Dollars(), row.unhidden_paid or Dollars()
    line = replace(line, unpriced=line.unpriced + (row.paid is None))
    match row.kind:
        case "answer":
            return replace(
                line,
                answers=line.answers + 1,
                too_long=line.too_long + row.is_too_long,
                sent=line.sent + row.sent,
                unhidden=line.unhidden + row.unhidden,
                paid=line.paid + paid,
                unhidden_paid=line.unhidden_paid + unhidden_paid,
            )
        case "lookup":
            looked_up = line.looked_up + row.sent
            return replace(line, lookups=line.lookups + 1, looked_up=looked_up, lookup_paid=line.lookup_paid + paid)
        case "summary":
            summarized = line.summarized + row.sent
            return replace(
                line, summaries=line.summaries + 1, summarized=summarized, summary_paid=line.summary_paid + paid
            )


def compute_bill(
    rows: Sequence[LedgerRow], *, by: Grouping = "session", since: int | None = None, find_prices: PriceFinder
) -> Bill:
    """Adds up the rows of whole sessions, of which those since a time are billed."""
    billed = [row for row in rows if since is None or (row.time is not None and row.time >= since)]
    sessions = {row.session for row in billed}
    whole = [row for row in rows if row.session in sessions]
    lines = []
    for name in dict.fromkeys(row.get_group(by) for row in billed):
        line = sum_rows((row for row in billed if row.get_group(by) == name), name)
        session = sum_rows(row for row in whole if row.get_group(by) == name)
        lines.append(replace(line, session_paid=session.unhidden_paid))
    lines.sort(key=lambda line: (-line.unhidden_paid.total, -line.unhidden.input, line.name))
    total = replace(sum_rows(billed, "total"), session_paid=sum_rows(whole).unhidden_paid)
    found = {(row.model, format_day(row.time)) for row in billed if row.paid is not None and row.model}
    prices = {each for model, day in sorted(found) if (each := find_prices(model, day)) is not None}
    unknown = {row.model or "unknown" for row in billed if row.paid is None}
    untimed = 0 if since is None else sum(row.time is None for row in rows)
    shown = tuple(sorted(prices, key=lambda each: (each.model, each.since)))
    days = sorted(format_day(row.time) for row in billed if row.time is not None) or [""]
    points = _sum_so_far(billed)
    return Bill(by, tuple(lines), total, shown, tuple(sorted(unknown)), since, untimed, (days[0], days[-1]), points)


def _sum_so_far(rows: Iterable[LedgerRow]) -> tuple[BillPoint, ...]:
    """Adds up request by request. Those of unknown time come first."""
    points: list[BillPoint] = []
    paid = own = without = 0.0
    for row in sorted(rows, key=lambda row: row.time or 0):
        cost = (row.paid or Dollars()).total
        paid, own = paid + cost, own + (0.0 if row.kind == "answer" else cost)
        without += (row.unhidden_paid or Dollars()).total
        points.append(BillPoint(row.time, paid, own, without))
    return tuple(points)


def _divide(part: float, whole: float) -> float | None:
    return part / whole if whole else None
