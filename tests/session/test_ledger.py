"""The ledger: what was sent, what would have been sent with nothing hidden, and what that saves, if anything."""

from __future__ import annotations

from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.block import RECORDED, Block, ModelCost
from tenfold.core.record.entry import Attempt, Entry, MessageEntry, Retraction, Usage
from tenfold.core.record.message import Message, Part, Text, ToolCall
from tenfold.core.record.token_reading import Counted
from tenfold.models.prices import Prices, Tier, TokenUse
from tenfold.session import Session, SessionAddress
from tenfold.session.bill import build_bill
from tenfold.session.ledger import BillLine, LedgerRow, SessionFacts, SessionLedger, compute_bill, sum_rows
from tenfold.store.base import SessionInfo
from tenfold.store.sqlite.store import SqliteStore

PRICES = Prices("m", (Tier(-1, 1.0),), (Tier(-1, 0.1),), (Tier(-1, 1.25),), (Tier(-1, 2.0),), "test 1")
NO_COST = ModelCost()
DAY = 86_400_000_000


def find_test_prices(model: str, _day: str) -> Prices | None:
    return None if model == "unpriced" else replace(PRICES, model=model)


class Log:
    """The entries of one path, each after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._numbers = count(1)

    @property
    def last(self) -> str | None:
        return self.entries[-1].id if self.entries else None

    def _add(self, entry: Entry) -> str:
        self.entries.append(replace(entry, id=f"e{next(self._numbers)}", parent=self.last))
        return self.entries[-1].id

    def answer(self, usage: Usage, *, time: int | None = None, calls: tuple[str, ...] = ()) -> str:
        said: list[Part] = [Text(f"answer {len(self.entries)}")]
        parts = (*said, *(ToolCall(f"c{n}", name, "{}") for n, name in enumerate(calls)))
        return self._add(MessageEntry("", None, "", time, Message("assistant", parts, "model"), usage))

    def hide(self, tokens: int, *, spent: ModelCost = NO_COST, reason: str = "", time: int = 0) -> str:
        sizes = Counted(tokens + 10), Counted(10)
        block = Block(
            "", None, "", time, "p", "chars4", (), reason=reason, tokens_before=sizes[0], tokens_after=sizes[1]
        )
        return self._add(replace(block, spent=spent))

    def retract(self, block: str) -> str:
        return self._add(Retraction("", None, "", 0, block))

    def fail(self, spent: ModelCost) -> str:
        return self._add(Attempt("", None, "", 0, "p", "failed", "", Counted(1), Counted(1), spent))

    def read(self, *, window: int | None = None, session: str = "s") -> list[LedgerRow]:
        return SessionLedger(SessionFacts(session, "c", "m", window), find_test_prices).read(self.entries)


def report(prompt: int, output: int = 0, read: int = 0, write: int = 0, model: str = "m") -> Usage:
    return Usage.build(prompt, output, read, write, model)


def test_the_worked_example() -> None:
    log = Log()
    log.answer(report(1_000_000, 500_000), time=DAY)
    log.answer(report(1_000_000, 0, 1_000_000), time=DAY + 1)
    log.hide(800_000, spent=ModelCost(1, 50_000, 0, "m", 0.05), time=2 * DAY)
    log.answer(report(200_000, 100_000), time=2 * DAY)
    log.answer(report(200_000, 0, 200_000), time=3 * DAY)
    rows = [row for row in log.read() if row.time != DAY + 1]  # it only shows that there is a cache
    total = compute_bill(rows[:3], since=2 * DAY, find_prices=find_test_prices).total
    assert (total.saved_tokens, total.unhidden.input) == (750_000, 1_000_000)
    assert (total.paid.total, total.summary_paid.total) == pytest.approx((0.40, 0.05))
    assert (total.unhidden_paid.input, total.unhidden_paid.total, total.session_paid.total) == pytest.approx(
        (0.10, 0.30, 2.30)
    )
    shares = total.shares
    assert (shares.of_input_tokens, shares.of_input_bill) == pytest.approx((0.75, -1.5))
    assert (shares.of_whole_bill, shares.of_session) == pytest.approx((-0.5, -0.15 / 2.30))
    assert sum_rows(rows[3:]).saving == pytest.approx(0.08)


tokens = st.integers(0, 300_000)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    prompt = draw(st.integers(1, 300_000))
    read = draw(st.integers(0, prompt))
    return report(
        prompt, draw(tokens), read, draw(st.integers(0, prompt - read)), draw(st.sampled_from(["m", "n", "unpriced"]))
    )


@st.composite
def logs(draw: st.DrawFn, *, hides: bool = True) -> Log:
    log, blocks = Log(), list[str]()
    for number in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["answer", "answer", "hide", "undo", "lookup", "failure"] if hides else ["answer"])):
            case "answer":
                log.answer(draw(usages()), time=draw(st.none() | st.just(number * DAY)))
            case "lookup":
                log.answer(draw(usages()), time=number * DAY, calls=("recall_search",))
            case "hide":
                spent = ModelCost(1, draw(tokens), draw(tokens), "m", draw(st.none() | st.floats(0, 10)))
                blocks.append(log.hide(draw(tokens), spent=spent, time=number))
            case "undo" if blocks:
                log.retract(blocks.pop())
            case "failure":
                log.fail(ModelCost(1, draw(tokens), draw(tokens), "unpriced"))
    return log


@given(logs(hides=False), st.none() | st.integers(1, 400_000))
def test_without_a_compaction_nothing_is_saved(log: Log, window: int | None) -> None:
    total = sum_rows(log.read(window=window))
    assert (total.saving, total.saved_tokens, total.too_long) == (0, 0, 0)


@given(st.lists(logs(), min_size=1, max_size=3), st.sampled_from(["session", "model", "client"]), st.integers(0, 12))
def test_a_total_is_the_sum_of_its_lines(several: list[Log], by: str, day: int) -> None:
    rows = [row for n, log in enumerate(several) for row in log.read(session=f"s{n}")]
    bill = compute_bill(rows, by=by, since=day * DAY, find_prices=find_test_prices)  # type: ignore[arg-type]
    total = bill.total
    for name in ("answers", "lookups", "summaries", "unpriced", "too_long", "saved_tokens"):
        assert sum(getattr(line, name) for line in bill.lines) == getattr(total, name)
    for use in ("sent", "unhidden", "looked_up", "summarized"):
        assert sum((getattr(line, use) for line in bill.lines), TokenUse()) == getattr(total, use)
    assert sum(line.saving for line in bill.lines) == pytest.approx(total.saving)
    if by != "model":  # a session may have had requests to models that are not billed
        assert sum(line.session_paid.total for line in bill.lines) == pytest.approx(total.session_paid.total)
    assert total.answers + total.lookups + total.summaries == sum(
        row.time is not None and row.time >= day * DAY for row in rows
    )
    if total.saving > 0:  # the same dollars over ever more
        shares = total.shares
        found = [s for s in (shares.of_input_bill, shares.of_whole_bill, shares.of_session) if s is not None]
        assert all(a >= b for a, b in pairwise(found))
    if bill.points:
        assert bill.points[-1].without - bill.points[-1].paid == pytest.approx(total.saving)


@given(logs())
def test_no_request_is_counted_twice(log: Log) -> None:
    known: set[object] = set()
    facts = SessionFacts("s", "c", "m")
    first = SessionLedger(facts, find_test_prices, known).read(log.entries)
    copies = [replace(entry, id=f"{entry.id}-copy", parent=f"{entry.parent}-copy") for entry in log.entries]
    again = SessionLedger(replace(facts, session="copy"), find_test_prices, known).read(copies)
    assert [row for row in again if row.time is not None] == []
    answers = sum(isinstance(entry, MessageEntry) for entry in log.entries)
    spent = sum(isinstance(entry, Block | Attempt) and entry.spent.calls > 0 for entry in log.entries)
    assert len(first) == answers + spent


@given(usages(), st.integers(1, 200_000))
def test_hidden_tokens_would_have_been_sent(usage: Usage, hidden: int) -> None:
    log = Log()
    log.hide(hidden)
    log.answer(usage)
    (row,) = log.read()
    assert row.unhidden.input == row.sent.input + hidden
    assert row.unhidden.output == row.sent.output
    assert sum_rows([row]).saved_tokens == hidden


def test_after_a_compaction_the_whole_request_before_counts_as_cached() -> None:
    log = Log()
    log.answer(report(100_000, 0, 90_000, 10_000))
    log.hide(70_000)
    log.answer(report(31_000, 0, 5_000, 26_000))
    log.answer(report(32_000, 0, 31_000, 1_000))
    log.answer(report(33_000, 0, 0, 33_000))  # the cache has expired, as it would have without Tenfold
    rows = log.read()
    assert rows[1].unhidden == TokenUse(0, 100_000, 1_000)
    assert rows[2].unhidden == TokenUse(0, 101_000, 1_000)
    assert rows[3].unhidden == TokenUse(0, 0, 103_000)
    assert sum_rows(rows[:2]).saving < 0 < sum_rows(rows).saving


def test_what_exceeds_the_window_counts_as_a_full_window() -> None:
    log = Log()
    log.answer(report(90_000, 0, 80_000, 10_000))
    log.hide(60_000)
    log.answer(report(50_000, 0, 0, 50_000))
    log.answer(report(60_000, 0, 50_000, 10_000))
    log.answer(report(70_000, 0, 60_000, 10_000))
    rows = log.read(window=100_000)
    assert [row.is_too_long for row in rows] == [False, True, True, True]
    assert rows[1].unhidden == TokenUse(0, 90_000, 10_000)
    assert rows[3].unhidden == TokenUse(0, 100_000, 0)
    assert sum_rows(rows).too_long == 3


def test_an_undone_compaction_hides_nothing_any_more() -> None:
    log = Log()
    log.answer(report(50_000, 0, 40_000, 10_000))
    block = log.hide(40_000)
    log.answer(report(11_000, 0, 0, 11_000))
    log.retract(block)
    log.answer(report(52_000, 0, 0, 52_000))
    row = log.read()[-1]
    assert row.unhidden == TokenUse(0, 51_000, 1_000)  # the undo made the provider read it all again
    assert sum_rows([row]).saving < 0


def test_what_another_tool_compacted_is_not_saved_by_tenfold() -> None:
    log = Log()
    log.answer(report(90_000, 0, 80_000, 10_000))
    log.hide(70_000, reason=RECORDED)
    log.answer(report(21_000, 0, 2_000, 19_000))
    assert sum_rows(log.read()).saving == 0


def test_lookups_are_costs_and_what_they_add_is_no_saving() -> None:
    log = Log()
    log.answer(report(90_000, 10, 80_000, 10_000))
    log.hide(60_000)
    log.answer(report(30_000, 50, 0, 30_000), calls=("recall_search",))
    log.answer(report(34_000, 70, 30_000, 4_000))
    first, lookup, last = log.read()
    assert (first.kind, lookup.kind, last.kind) == ("answer", "lookup", "answer")
    assert lookup.unhidden == TokenUse()
    assert last.unhidden.input == 90_000  # one request, without what was looked up
    total = sum_rows([lookup, last])
    assert total.lookup_paid.total > 0
    assert total.saved_tokens == 90_000 - 30_000 - 34_000


def test_lookups_that_the_host_did_not_see_are_costs_too() -> None:
    log = Log()
    log.answer(replace(report(10_000, 5), lookups=(report(12_000, 6), report(13_000, 7))))
    rows = log.read()
    assert [(row.kind, row.sent.input, row.sent.output) for row in rows] == [
        ("answer", 10_000, 7),
        ("lookup", 12_000, 5),
        ("lookup", 13_000, 6),
    ]
    assert sum_rows(rows).saved_tokens == -25_000


def test_unknown_prices_are_said_and_add_nothing() -> None:
    log = Log()
    log.answer(report(10_000, 5, model="unpriced"))
    log.hide(5_000, spent=ModelCost(1, 1_000, 10, "unpriced", None))
    log.answer(report(6_000, 5))
    bill = compute_bill(log.read(), find_prices=find_test_prices)
    assert (bill.total.unpriced, bill.unknown_prices) == (2, ("unpriced",))
    assert bill.total.summary_paid.total == 0
    assert bill.total.unhidden_paid.input == pytest.approx(0.011)
    assert BillLine("").shares.of_whole_bill is None


def test_the_bill_of_a_store() -> None:
    store = SqliteStore(":memory:")
    policy = build_policy("tenfold", CharacterCounter())
    info = SessionInfo("s", model="gpt-5", window=20_000, client="mine")
    session = Session.create(SessionAddress(store, "s"), policy, model="gpt-5", info=info)
    messages: list[dict[str, str]] = []
    for number in range(45):
        messages.append({"role": "user", "content": f"{number}: " + "look at the next part of it, please. " * 60})
        sent = session.before_model({"model": "gpt-5", "messages": messages}, window=20_000)
        prompt = sum(len(m["content"]) // 4 for m in sent["messages"])
        session.after_model({"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2})
        messages.append({"role": "assistant", "content": f"done {number}"})
    bill = build_bill(store, by="client")
    (line,) = bill.lines
    assert (line.name, line.answers, bill.total.unpriced) == ("mine", 45, 0)  # the last answer is yet to be appended
    assert session.view.state.live_blocks
    assert bill.total.saved_tokens > 10_000
    assert bill.total.too_long > 0
    assert bill.total.unhidden.input == bill.total.sent.input + bill.total.saved_tokens
    assert [p.source.partition(" ")[0] for p in bill.prices] == ["genai-prices"]
    assert build_bill(store, sessions=["other"]).lines == ()
    last = store.read_entries("default", "s")[-1]
    assert last.time is not None
    assert build_bill(store, since=last.time + 1).lines == ()


def test_a_summary_is_on_the_line_of_the_model_that_it_was_written_for() -> None:
    """By model, the line of the agent showed the saving without its price, and the summary's own one a loss."""
    log = Log()
    log.answer(report(100_000, 10, model="large"), time=1)
    log.hide(80_000, spent=ModelCost(1, 50_000, 100, "openai:small"), time=2)
    log.answer(report(20_000, 10, model="large"), time=3)
    (line,) = compute_bill(log.read(), by="model", find_prices=find_test_prices).lines
    assert (line.name, line.answers, line.summaries) == ("large", 2, 1)
    assert line.summary_paid == PRICES.compute_dollars(TokenUse(50_000, output=100))


@pytest.mark.parametrize(("cached", "expected"), [(1_920, 9_920), (1_024, 9_024), (800, 4_000), (0, 0)])
def test_what_the_cache_missed_it_would_have_missed_of_a_longer_request_too(cached: int, expected: int) -> None:
    """Providers round what they cache to 128 tokens. As a share that was a large part of a longer request."""
    log = Log()
    log.answer(report(10_000, 0, 1_024))
    log.hide(8_000)
    log.answer(report(2_000, 0, 1_024))
    log.answer(report(2_000, 0, cached))
    assert log.read()[-1].unhidden.cached == expected


def test_a_summary_for_a_model_without_known_prices_is_no_loss() -> None:
    log = Log()
    log.answer(report(100_000, 10, model="unpriced"), time=1)
    log.hide(80_000, spent=ModelCost(1, 50_000, 100, "m", 0.12), time=2)
    log.answer(report(20_000, 10, model="unpriced"), time=3)
    total = compute_bill(log.read(), find_prices=find_test_prices).total
    assert (total.saving, total.unpriced, total.saved_tokens) == (0, 3, 30_000)
