"""One compaction of a prefix, judged by every law that it can break. What it needs is shared between the prefixes.

The plan, the facts and the texts are made anew at every cut; only the token counts of the messages are remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.drive import Answerer, arun, run
from tenfold.engine import Bench, Call, Effects, compact
from tenfold.log.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.log.memory import MemoryStore
from tenfold.meter.reading import Sizes, Tally
from tenfold.policy import Policy
from tenfold.recall.expand import expand
from tenfold.record.ask import Answer, Summarize, Verdict
from tenfold.record.block import Block
from tenfold.record.entry import Attempt, Entry, Retraction, message_of
from tenfold.view.path import Path
from tenfold.view.rules import check
from tenfold.view.units import Shown
from tenfold.view.view import View
from tests.laws import checks, oracle
from tests.laws.conversations import Broken, Echo, NeverAsk, recording, tokens
from tests.laws.nearby import WIRES
from tests.laws.strategies import ID, Log

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
    store: MemoryStore
    sizes: Sizes
    series: str = "0000"

    @classmethod
    def of(cls, log: Log, policy: Policy) -> Desk:
        """A desk for a path that begins at its root."""
        store = MemoryStore()
        store.create(DEFAULT_NAMESPACE, SessionInfo(SESSION))
        if log:
            store.append(DEFAULT_NAMESPACE, SESSION, log, expected=None)
        return cls(log, policy, store, Sizes(policy.counter))

    def verdict(self, view: View, call: Call, answerer: Answerer = NO_MODEL) -> Verdict:
        """The engine's verdict."""
        return run(self.effects(view, call), answerer)

    def effects(self, view: View, call: Call) -> Effects:
        """The engine's generator. Ids and times depend on nothing but the cut."""
        count = iter(range(1 << 20))
        new_id = lambda: f"{view.length:08}-{self.series}-7000-8000-{next(count):012x}"  # noqa: E731 - one line, used once
        bench = Bench(self.sizes, Tally(self.sizes))
        return compact(view, self.policy, call, bench, now=view.length, new_id=new_id)

    def branch(self, view: View, block: Block) -> View:
        """The view with the Block at its leaf, on a path of its own, and the same in the store as a head."""
        path = view.path.fork(view.length)
        path.append(block)
        after = checks.on(View, view, path).extend([block])
        parented = replace(block, parent=self.log[view.length - 1].id)
        self.store.append(
            DEFAULT_NAMESPACE, SESSION, [parented], expected=None, head=block.id, snapshot=after.snapshot()
        )
        return after


def tenth_of(before: int) -> Call:
    """A demand for a tenth."""
    return Call(to=max(1, before // SHARE))


def leaves_the_view(view: View, verdict: Verdict, *, attempt: bool) -> View:
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
    after = checks.on(View, view, path).extend([entry])
    assert list(after.shown()) == list(view.shown())
    assert after.marks.attempts == (view.length,)
    return after


def ends_without_a_block(desk: Desk, view: View, size: int) -> None:
    """Laws 11 and 13: with room to spare nothing is done; in a window that nothing fits, that is said once."""
    spared = desk.verdict(view, Call("check", window=ROOMY * (size + 1_000)))
    assert spared.outcome.status == "nothing"
    leaves_the_view(view, spared, attempt=False)
    call = Call("overflow", window=1)
    refused = desk.verdict(view, call)
    assert refused.outcome.status == "unsatisfiable"
    after = leaves_the_view(view, refused, attempt=True)
    again = desk.verdict(after, call)
    assert again.outcome.status == "unsatisfiable"
    leaves_the_view(after, again, attempt=False)


def comes_to_nothing(desk: Desk, view: View, call: Call) -> None:
    """Law 11: a model that fails, and where one is asked a hook that cancels. Only what cost a call is remembered."""
    model = Broken()
    failed = desk.verdict(view, call, Answerer(model))
    assert (failed.outcome.status == "failed") == (model.calls > 0)
    if model.calls:
        leaves_the_view(view, failed, attempt=True)
        assert isinstance(failed.entry, Attempt)
        assert failed.entry.spent.calls == model.calls
        hook = Answerer(NeverAsk(), before=(lambda _: Answer(cancel=True, error="not now"),))
        cancelled = desk.verdict(view, replace(call, consult=True), hook)
        assert cancelled.outcome.status == "cancelled"
        leaves_the_view(view, cancelled, attempt=False)


def replays(desk: Desk, view: View, call: Call, loop: asyncio.Runner) -> None:
    """Law 9: what was answered once is answered from the record, on the async side, to the same verdict.

    The loop is the caller's, so that not every cut of a session starts one, and a thread with it.
    """
    known: dict[bytes, Answer] = {}
    plain = run(recording(desk.effects(view, call), known), Answerer(Echo()))

    async def recorded(ask: Summarize) -> Answer:
        await asyncio.sleep(0)
        return known[checks.BYTES.encode(ask)]

    assert loop.run(arun(desk.effects(view, call), Answerer(NeverAsk()), answer=recorded)) == plain


def shrinks(view: View, after: View, verdict: Verdict) -> None:
    """Law 4, counted here: the Block saves something, says how much, and reaches its target or says why not."""
    block, outcome = verdict.entry, verdict.outcome
    assert isinstance(block, Block)
    was, now = tokens(view.messages()), tokens(after.messages())
    assert now < was
    assert (outcome.tokens_before, outcome.tokens_after) == (block.tokens_before, block.tokens_after) == (was, now)
    assert now <= outcome.target or outcome.target_missed
    assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    assert outcome.reason


def allowed(after: View, wires: Sequence[str] = WIRES) -> None:
    """Law 3: the whole view, in every wire."""
    messages = after.messages()
    for wire in wires:
        assert check(messages, wire) == [], wire


def tiled(after: View, log: Sequence[Entry]) -> None:
    """Law 12: no position falls between, in view or under the Block."""
    ends = [(u.first, u.last) for u in after.units]
    if after.step is not None:
        ends.append((after.step.first, len(log) - 1))
    checks.assert_tiled(ends, 0, len(log) - 1)
    checks.assert_refs(log, after.refs, 0, len(log) - 1)


def reachable(desk: Desk, after: View, block: Block) -> None:
    """Law 5: what the Block covers is found through `covers`, and through the store from its id, as it was."""
    log = (*desk.log[: after.length - 1], block)
    covered: list[int] = []
    for unit in after.units:
        if unit.ref is not None:
            assert oracle.expanded(log, [unit.ref]) == list(range(unit.first, unit.last + 1))
            covered.extend(range(unit.first, unit.last + 1) if unit.ref.block == after.length - 1 else ())
    lines = expand(desk.store, DEFAULT_NAMESPACE, block.id, deep=True, session=SESSION)
    expected = [(p, log[p].id, m) for p in covered if (m := message_of(log[p])) is not None]
    assert [(line.position, line.entry, line.message) for line in lines] == expected
    assert all(line.original for line in lines)


def reopens(desk: Desk, after: View, block: Block) -> None:
    """Law 1: the store opens the branch from its snapshot as it was folded."""
    opened = desk.store.open(DEFAULT_NAMESPACE, SESSION, block.id)
    assert opened.snapshot is not None
    leaf = opened.leaf or ""
    load = lambda first, last: desk.store.span(DEFAULT_NAMESPACE, SESSION, leaf, first, last)  # noqa: E731 - one line, used once
    view = View.opened(opened.snapshot, Path(length=opened.length, load=load))
    assert list(view.shown()) == list(after.shown())
    assert (view.refs, view.length, view.marks.live) == (after.refs, after.length, after.marks.live)


def asked_again(desk: Desk, after: View, call: Call) -> None:
    """Law 6: the same demand, with nothing said since, does nothing and leaves nothing.

    And it is for that reason: the size alone, which by now is within the target, must not be what decides.
    """
    again = desk.verdict(after, call)
    assert (again.outcome.status, again.entry) == ("nothing", None)
    assert "no message followed" in again.outcome.reason


def undoes(view: View, after: View, block: Block) -> None:
    """Law 10: retracted, the view is what it was; what the messages are is compared, not only where they stand."""
    entry = Retraction(ID.format(1 << 21), block.id, "", 0, block.id)
    path = after.path.fork(after.length)
    path.append(entry)
    undone = checks.on(View, after, path).extend([entry])
    assert list(undone.shown()) == list(view.shown())
    assert undone.marks.live == view.marks.live
    assert undone.fits(block), "what was in view before is in view again"


def refused(after: View, block: Block) -> None:
    """Law 14: the range is covered, so a second Block over it is stale, and changes nothing."""
    assert not after.fits(block)
    path = after.path.fork(after.length)
    path.append(block)
    twice = checks.on(View, after, path).extend([block])
    assert list(twice.shown()) == list(after.shown())
    assert (twice.marks.live, twice.marks.stale) == (after.marks.live, (after.length,))


def goes_on(after: View, later: Sequence[Entry], wire: str) -> None:
    """Laws 2 and 3: with the rest of the session behind the Block, what was sent stays the beginning, and well-formed.

    An open step may still be mended; what is closed stays.
    """
    path = after.path.fork(after.length)
    view = checks.on(View, after, path)
    sent: list[Shown] = list(after.shown()) if after.step is None else []
    for entry in later:
        path.append(entry)
        view = view.extend([entry])
        if view.step is None:
            shown = list(view.shown())
            assert shown[: len(sent)] == sent
            sent = shown
    allowed(view, (wire,))


def fits_later(view: View, after: View, block: Block) -> None:
    """Law 14: planned earlier on the path, the Block fits this later leaf, and shows there what it planned."""
    assert view.fits(block), f"planned at {after.length - 1}, refused at {view.length}"
    late = checks.on(View, view, view.path).extend([block])
    assert late.marks.live == (*view.marks.live, view.length)
    for each in block.replacements:
        assert checks.shown_over(late, each.first, each.last) == checks.shown_over(after, each.first, each.last)
