"""One compaction of a prefix, judged by every law that it can break. What it needs is shared between the prefixes.

The plan, the facts and the texts are made anew at every cut; only the token counts of the messages are remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call, Measures
from tenfold.compaction.engine.compact import Effects, compact
from tenfold.compaction.engine.policy import Policy
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.ask import Answer, EngineResult, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Entry, Retraction, get_message
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import check_messages
from tenfold.core.view.units import VisibleMessage
from tenfold.recall.expand import expand
from tenfold.session.drive import Answerer, arun_engine, run_engine
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tests.engine.making import Awaited
from tests.laws import checks, oracle
from tests.laws.conversations import Broken, Echo, NeverAsk, count_tokens, record_answers
from tests.laws.nearby import WIRES
from tests.laws.strategies import ID, Log
from tests.stores import open_law_store

SESSION = "law"
SHARE = 10
AFTERWARDS = 4
"""Entries that go on after the Block in law 2 and 3."""
ROOMY = 100
NO_MODEL = Answerer(NeverAsk())


class Desk(Struct, frozen=True):
    """What every cut of one session is compacted with: its log, a store that holds it, known token counts.

    The ids of what it makes begin with the cut's length and `series`.
    """

    log: Log
    policy: Policy
    store: Store
    sizes: TokenCache
    series: str = "0000"

    @classmethod
    def from_log(cls, log: Log, policy: Policy) -> Desk:
        """A desk for a path that begins at its root."""
        store = open_law_store()
        store.create(DEFAULT_NAMESPACE, SessionInfo(SESSION))
        if log:
            store.append(DEFAULT_NAMESPACE, SESSION, log, expected=None)
        return cls(log, policy, store, TokenCache(policy.counter))

    def get_result(self, view: View, call: Call, answerer: Answerer = NO_MODEL) -> EngineResult:
        """The engine's verdict."""
        return run_engine(self.start_engine(view, call), answerer)

    def start_engine(self, view: View, call: Call) -> Effects:
        """The engine's generator. Ids and times depend on nothing but the cut."""
        count = iter(range(1 << 20))
        new_id = lambda: f"{view.length:08}-{self.series}-7000-8000-{next(count):012x}"  # noqa: E731 - one line, used once
        bench = Measures(self.sizes, RunningTotal(self.sizes))
        return compact(view, self.policy, call, bench, now=view.length, new_id=new_id)

    def append_block(self, view: View, block: Block) -> View:
        """The view with the Block at its leaf, on a path of its own, and the same in the store as a head."""
        path = view.path.fork(view.length)
        path.append(block)
        after = checks.with_path(View, view, path).extend([block])
        parented = replace(block, parent=self.log[view.length - 1].id)
        self.store.append(
            DEFAULT_NAMESPACE, SESSION, [parented], expected=None, head=block.id, snapshot=after.to_snapshot()
        )
        return after


def build_tenth_call(before: int) -> Call:
    """A demand for a tenth."""
    return Call(to=Counted(max(1, before // SHARE)))


def assert_view_unchanged(view: View, verdict: EngineResult, *, attempt: bool) -> View:
    """Laws 4 and 11: no Block, so a reason, an Attempt if that is called for, and the same view, which is given."""
    entry, outcome = verdict.entry, verdict.outcome
    assert outcome.reason
    assert not outcome.block
    assert isinstance(entry, Attempt) == attempt
    if entry is None:
        return view
    assert isinstance(entry, Attempt)
    told = (outcome.status, outcome.tokens_before, outcome.target, outcome.reason)
    assert (entry.status, entry.tokens, entry.target, entry.reason) == told
    path = view.path.fork(view.length)
    path.append(entry)
    after = checks.with_path(View, view, path).extend([entry])
    assert list(after.get_visible_messages()) == list(view.get_visible_messages())
    assert after.state.attempts == (view.length,)
    return after


def assert_ends_without_block(desk: Desk, view: View, size: int) -> None:
    """Laws 11 and 13: with room to spare nothing is done; in a window that nothing fits, that is said once."""
    spared = desk.get_result(view, Call("check", window=ROOMY * (size + 1_000)))
    assert spared.outcome.status == "nothing"
    assert_view_unchanged(view, spared, attempt=False)
    call = Call("overflow", window=1)
    refused = desk.get_result(view, call)
    assert refused.outcome.status == "unsatisfiable"
    after = assert_view_unchanged(view, refused, attempt=True)
    again = desk.get_result(after, call)
    assert again.outcome.status == "unsatisfiable"
    assert_view_unchanged(after, again, attempt=False)


def assert_failures_harmless(desk: Desk, view: View, call: Call) -> None:
    """Law 11: a model that fails, and where one is asked a hook that cancels. Only what cost a call is remembered."""
    model = Broken()
    failed = desk.get_result(view, call, Answerer(model))
    assert (failed.outcome.status == "failed") == (model.calls > 0)
    if model.calls:
        assert_view_unchanged(view, failed, attempt=True)
        assert isinstance(failed.entry, Attempt)
        assert failed.entry.spent.calls == model.calls
        hook = Answerer(NeverAsk(), before_hooks=(lambda _: Answer(cancel=True, error="not now"),))
        cancelled = desk.get_result(view, replace(call, has_before_hooks=True), hook)
        assert cancelled.outcome.status == "cancelled"
        assert_view_unchanged(view, cancelled, attempt=False)


def assert_replays(desk: Desk, view: View, call: Call, loop: asyncio.Runner) -> None:
    """Law 9: what was answered once is answered from the record, on the async side, to the same verdict.

    The loop is the caller's, so that not every cut of a session starts one, and a thread with it.
    """
    known: dict[bytes, Answer] = {}
    plain = run_engine(record_answers(desk.start_engine(view, call), known), Answerer(Echo()))

    async def answer_from_record(ask: SummaryAsk) -> Answer:
        await asyncio.sleep(0)
        return known[checks.BYTES.encode(ask)]

    assert loop.run(arun_engine(desk.start_engine(view, call), Answerer(Awaited(answer_from_record)))) == plain


def assert_shrinks(view: View, after: View, verdict: EngineResult) -> None:
    """Law 4, counted here: the Block saves something, says how much, and reaches its target or says why not."""
    block, outcome = verdict.entry, verdict.outcome
    assert isinstance(block, Block)
    was, now = count_tokens(view.get_messages()), count_tokens(after.get_messages())
    assert now < was
    assert (outcome.tokens_before, outcome.tokens_after) == (block.tokens_before, block.tokens_after) == (was, now)
    assert now <= outcome.target or outcome.target_missed
    assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    assert outcome.reason


def assert_allowed(after: View, wires: Sequence[str] = WIRES) -> None:
    """Law 3: the whole view, in every wire."""
    messages = after.get_messages()
    for wire in wires:
        assert check_messages(messages, wire) == [], wire


def assert_reachable(desk: Desk, after: View, block: Block) -> None:
    """Law 5: what the Block covers is found through `covers`, and through the store from its id, as it was."""
    log = (*desk.log[: after.length - 1], block)
    covered: list[int] = []
    for unit in after.units:
        if unit.block_part is not None:
            assert oracle.expand_refs(log, [unit.block_part]) == list(range(unit.first, unit.last + 1))
            covered.extend(range(unit.first, unit.last + 1) if unit.block_part.block == after.length - 1 else ())
    lines = expand(desk.store, DEFAULT_NAMESPACE, block.id, deep=True, session=SESSION)
    expected = [(p, log[p].id, m) for p in covered if (m := get_message(log[p])) is not None]
    assert [(line.position, line.entry, line.message) for line in lines] == expected
    assert all(line.original for line in lines)


def assert_reopens(desk: Desk, after: View, block: Block) -> None:
    """Law 1: the store opens the branch from its snapshot as it was folded."""
    opened = desk.store.open(DEFAULT_NAMESPACE, SESSION, block.id)
    assert opened.snapshot is not None
    leaf = opened.leaf or ""
    load = lambda first, last: desk.store.read_range(DEFAULT_NAMESPACE, SESSION, leaf, first, last)  # noqa: E731 - one line, used once
    view = View.from_snapshot(opened.snapshot, Path(length=opened.length, load=load))
    assert list(view.get_visible_messages()) == list(after.get_visible_messages())
    assert (view.range_refs, view.length, view.state.live_blocks) == (
        after.range_refs,
        after.length,
        after.state.live_blocks,
    )


def assert_repeat_does_nothing(desk: Desk, after: View, call: Call) -> None:
    """Law 6: the same demand, with nothing said since, does nothing and leaves nothing.

    And it is for that reason: the size alone, which by now is within the target, must not be what decides.
    """
    again = desk.get_result(after, call)
    assert (again.outcome.status, again.entry) == ("nothing", None)
    assert "no message followed" in again.outcome.reason


def assert_undo_restores(view: View, after: View, block: Block) -> None:
    """Law 10: retracted, the view is what it was; what the messages are is compared, not only where they stand."""
    entry = Retraction(ID.format(1 << 21), block.id, "", 0, block.id)
    path = after.path.fork(after.length)
    path.append(entry)
    undone = checks.with_path(View, after, path).extend([entry])
    assert list(undone.get_visible_messages()) == list(view.get_visible_messages())
    assert undone.state.live_blocks == view.state.live_blocks
    assert undone.can_append(block), "what was in view before is in view again"


def assert_second_block_refused(after: View, block: Block) -> None:
    """Law 14: the range is covered, so a second Block over it is stale, and changes nothing."""
    assert not after.can_append(block)
    path = after.path.fork(after.length)
    path.append(block)
    twice = checks.with_path(View, after, path).extend([block])
    assert list(twice.get_visible_messages()) == list(after.get_visible_messages())
    assert (twice.state.live_blocks, twice.state.stale_entries) == (after.state.live_blocks, (after.length,))


def assert_goes_on(after: View, later: Sequence[Entry], wire: str) -> None:
    """Laws 2 and 3: with the rest of the session behind the Block, what was sent stays the beginning, and well-formed.

    An open step may still be mended; what is closed stays.
    """
    path = after.path.fork(after.length)
    view = checks.with_path(View, after, path)
    sent: list[VisibleMessage] = list(after.get_visible_messages()) if after.open_step is None else []
    for entry in later:
        path.append(entry)
        view = view.extend([entry])
        if view.open_step is None:
            shown = list(view.get_visible_messages())
            assert shown[: len(sent)] == sent
            sent = shown
    assert_allowed(view, (wire,))


def assert_fits_later(view: View, after: View, block: Block) -> None:
    """Law 14: planned earlier on the path, the Block fits this later leaf, and shows there what it planned."""
    assert view.can_append(block), f"planned at {after.length - 1}, refused at {view.length}"
    late = checks.with_path(View, view, view.path).extend([block])
    assert late.state.live_blocks == (*view.state.live_blocks, view.length)
    for each in block.replacements:
        assert checks.encode_shown_range(late, each.first, each.last) == checks.encode_shown_range(
            after, each.first, each.last
        )
