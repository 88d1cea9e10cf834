"""What the laws over every preset share: the presets, models of four kinds, eventful conversations, and the judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.llm.model import Model
from tenfold.llm.patience import Patience
from tenfold.policies import POLICIES
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Outcome, Summarize
from tenfold.record.block import Block, Fact, Spent
from tenfold.record.entry import Attempt, Entry, Said, message_of
from tenfold.record.message import Message, Part, Text, ToolCall, ToolResult, calls_of, text_of
from tenfold.session import Session
from tenfold.settings import policy_for
from tenfold.summarize.batches import standing
from tenfold.summarize.facts import extract
from tenfold.summarize.fill import flat, stands
from tenfold.summarize.ladder import Settings
from tenfold.summarize.section import must_keep
from tenfold.view.path import Path
from tenfold.view.rules import check
from tenfold.view.view import View
from tests.laws import checks, conversations, strategies
from tests.laws.conversations import COUNTER, NeverAsk, entries, sent, tokens
from tests.laws.nearby import WIRES
from tests.laws.strategies import LAW, SILENT, TALK, Desk, Log, Move

NAMES = tuple(sorted(POLICIES))
PRESET = settings(strategies.ENGINE, max_examples=max(1, LAW.max_examples // 10))
"""How a law is tried for each preset: every example is several compactions."""


@cache
def using(name: str, *, models: tuple[str, ...] = ("m",)) -> Policy:
    """The preset with its published settings; without `models` it writes by code."""
    return policy_for(name, COUNTER, models=models)


async def _at_once(_: float) -> None:
    return None


QUICK = Patience(sleep=lambda _: None, asleep=_at_once, draw=lambda: 0.5)
"""Tries again without a pause."""


def answerer(model: Model | None) -> Answerer:
    """An answerer that asks this model, and loses no time."""
    return Answerer(model, patience=QUICK)


def opened(name: str, log: Log, model: Model | None, *, models: tuple[str, ...] = ("m",)) -> Session:
    """A session under the preset that asks this model."""
    return conversations.opened(log, using(name, models=models), answerer(model))


# -- models ------------------------------------------------------------------------------------------------------------

INVENTED = "src/ghost/invented_module.py"
KNOWN = re.compile(r"\blib/(?:part|fix)\d+\.py\b")


class Counted:
    """A model that counts its calls. What it says depends on nothing but the Ask."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, ask: Summarize) -> Answer:
        self.calls += 1
        return self.said(ask)

    def said(self, ask: Summarize) -> Answer:
        raise NotImplementedError


class Good(Counted):
    """A plausible summary: all the headings asked for, a line of its own under each, paths of the source only.

    It keeps to the tokens it is given where its headings leave room for anything.
    """

    def __init__(self, summary: Settings) -> None:
        super().__init__()
        self.summary = summary

    def said(self, ask: Summarize) -> Answer:
        asked = f"{ask.system}\n{ask.prompt}"
        headings = [h for h in self.summary.wanted(ask.purpose) if h in asked]
        paths = list(dict.fromkeys(KNOWN.findall(ask.prompt)))[:3]
        seal = int(hashlib.sha256(ask.prompt.encode()).hexdigest()[:4], 16)
        line = f"Went on in the {('first', 'second', 'third')[seal % 3]} way"
        texts = (f"{line} with {', '.join(paths)}." if paths else f"{line}.", f"{line}.", "Went on.")
        tried = ["\n".join(f"{heading}\n{text}" for heading in headings) or text for text in texts]
        text = next((t for t in tried if COUNTER.count([t])[0] <= ask.max_tokens), tried[-1])
        return Answer(text=text, spent=Spent(1, COUNTER.count([ask.prompt])[0], COUNTER.count([text])[0], "m"))


def _down(_: Summarize) -> Answer:
    return Answer(error="the provider is down", spent=Spent(1))


def _raises(ask: Summarize) -> Answer:
    raise ConnectionResetError(f"no connection for {ask.purpose}")


def _breaks(ask: Summarize) -> Answer:
    raise KeyError(ask.purpose)


def _invents(ask: Summarize) -> Answer:
    return Answer(
        text=f"All of it was moved to {INVENTED}, see #98765432.\nIt took {ask.max_tokens} steps.", spent=Spent(1)
    )


def _runs_on(ask: Summarize) -> Answer:
    return Answer(text="It then went on and on and on, as it had before.\n" * (ask.max_tokens // 2), spent=Spent(1))


def _fixed(answer: Answer) -> Callable[[Summarize], Answer]:
    return lambda _ask: answer


BAD: Mapping[str, Callable[[Summarize], Answer]] = MappingProxyType(
    {
        "empty": _fixed(Answer(text=" \n", spent=Spent(1))),
        "cut off": _fixed(Answer(text="## Goal\nThe work was abou", finish="length", spent=Spent(1))),
        "refusal": _fixed(Answer(text="No.", finish="refusal", spent=Spent(1))),
        "error text": _fixed(Answer(text="Error: prompt is too long", spent=Spent(1))),
        "call": _fixed(Answer(text='<tool_call>{"name": "bash"}</tool_call>', finish="tool", spent=Spent(1))),
        "no headings": _fixed(Answer(text="It went well, and nothing else is to be said.", spent=Spent(1))),
        "too late": _fixed(Answer(error="no answer", retryable=True, timed_out=True, spent=Spent(1))),
        "too big": _fixed(Answer(error="400: maximum context length exceeded", spent=Spent(1))),
        "invents": _invents,
        "runs on": _runs_on,
        "down": _down,
        "raises": _raises,
        "breaks": _breaks,
    }
)


class Bad(Counted):
    """Answers badly, in one of the given ways: which one depends on the Ask."""

    def __init__(self, ways: Sequence[str]) -> None:
        super().__init__()
        self.ways = tuple(ways)

    def said(self, ask: Summarize) -> Answer:
        seal = hashlib.sha256((ask.model + ask.system + ask.prompt).encode()).digest()[0]
        return BAD[self.ways[seal % len(self.ways)]](ask)


def bad_ways() -> st.SearchStrategy[list[str]]:
    """One to three ways of answering badly."""
    return st.lists(st.sampled_from(tuple(BAD)), min_size=1, max_size=3, unique=True)


# -- conversations -----------------------------------------------------------------------------------------------------


def _step(desk: Desk, name: str, arguments: str, output: str, *, error: bool = False) -> None:
    named = f"did_{desk.n}"
    desk.say(Message("assistant", (ToolCall(named, name, arguments),), "model"))
    desk.say(Message("tool", (ToolResult(named, name, (Text(output),), error=error),), "tool"))


def rule(desk: Desk, a: int, _b: int, _c: int) -> None:
    table = f"table_{desk.n}"
    says = (f"Never touch the {table} table.", f"No, do not use {table}. Use port {4000 + desk.n} instead.")
    desk.say(Message("user", (Text(says[a % 2]),), "human"))


def edit(desk: Desk, _a: int, _b: int, _c: int) -> None:
    path = f"lib/fix{desk.n}.py"
    _step(desk, "edit", f'{{"path": "{path}", "old": "a", "new": "b"}}', f"edited {path}")


def fails(desk: Desk, a: int, _b: int, _c: int) -> None:
    name = f"tests/test_{desk.n if a % 2 else a}.py"
    failed = f"FAILED {name}::test_blue - AssertionError: assert {desk.n} == 4"
    _step(desk, "bash", f'{{"command": "pytest {name}"}}', failed, error=True)


def passes(desk: Desk, a: int, _b: int, _c: int) -> None:
    _step(desk, "bash", f'{{"command": "pytest tests/test_{a}.py"}}', "1 passed")


def todo(desk: Desk, a: int, _b: int, _c: int) -> None:
    state = ("pending", "in_progress", "completed")[a % 3]
    items = f'{{"content": "step {desk.n}", "status": "{state}"}}, {{"content": "then {desk.n}", "status": "pending"}}'
    _step(desk, "TodoWrite", f'{{"todos": [{items}]}}', "ok")


def reads(desk: Desk, a: int, _b: int, _c: int) -> None:
    body = "\n".join(f"{n}: value_{desk.n}_{n} = compute({n})" for n in range(20 * (1 + a)))
    _step(desk, "read", f'{{"path": "lib/part{a}.py"}}', body)


def request(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.say(Message("user", (Text(f"Please look at lib/part{a}.py next, item {desk.n}."),), "human"))


EVENTS: Mapping[str, Callable[[Desk, int, int, int], None]] = MappingProxyType(
    {move.__name__: move for move in (rule, edit, fails, passes, todo, reads, request)}
)
_KINDS = (*TALK, *SILENT, *tuple(EVENTS) * 4)


def told(moves: Sequence[Move], factor: int) -> Log:
    """The log that these moves give, each text and output followed by so many sentences more."""
    desk = Desk([])
    for kind, a, b, c in moves:
        (EVENTS.get(kind) or strategies.PLAYS[kind])(desk, a, b, c)
    return tuple(
        replace(e, message=longer(e.message, n, factor)) if isinstance(e, Said) else e
        for n, e in enumerate(desk.entries)
    )


FILLER = "we went through part {n} of the report, and it was as it had been described in lib/part{n}.py before. "


def longer(message: Message, number: int, factor: int) -> Message:
    """The message with so many sentences more in its texts and outputs; a few of the user's own too."""
    if message.role == "user" and number % 5:
        return message
    more = FILLER.format(n=number % 8) * factor
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                parts.append(Text(f"{text}. {more}"))
            case ToolResult(content=content):
                parts.append(replace(part, content=(*content, Text(more))))
            case _:
                parts.append(part)
    return replace(message, parts=tuple(parts))


def stories(*, least: int = 20, most: int = 48) -> st.SearchStrategy[Log]:
    """Conversations with events that must be kept among shapes of every kind."""
    small = st.integers(0, 7)
    moves = st.lists(st.tuples(st.sampled_from(_KINDS), small, small, small), min_size=least, max_size=most)
    return st.builds(told, moves, st.sampled_from((4, 12, 30)))


def work(start: int, size: int) -> list[Message]:
    """Plain work of about `size` tokens with a few events in it, without Hypothesis."""
    desk = Desk([])
    moves: list[tuple[str, int]] = [("request", 1), ("rule", 0), ("reads", 3), ("edit", 0), ("answer", 0), ("reads", 7)]
    moves += [("fails", 1), ("todo", 0), ("answer", 0), ("rule", 1), ("reads", 5), ("user", 0), ("answer", 0)]
    for _ in range(start):
        desk.say(Message("user", (Text("before"),), "human"))
    for kind, a in moves * 2:
        (EVENTS.get(kind) or strategies.PLAYS[kind])(desk, a, 0, 0)
    bare = conversations.messages(tuple(desk.entries[start:]))
    missing = max(0, size - tokens(bare))
    each = tokens([longer(m, 0, 100) for m in bare]) - tokens(bare)
    factor = missing * 100 // each + 1
    return [longer(m, n, factor) for n, m in enumerate(bare, start)]


# -- the judge ---------------------------------------------------------------------------------------------------------


class Judge:
    """Carries out compactions of one session, and holds each against the laws."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.compactions = 0
        self.outcomes: list[Outcome] = []

    def compact(self, call: Call) -> Outcome:
        """Laws 1, 3, 4, 5, 6, 11, 12 and 14, and must-keep facts, on one compaction."""
        session = self.session
        before, held = session.view, entries(session)
        model = session.answerer.model
        asked = model.calls if isinstance(model, Counted) else 0
        outcome = session.compact(call)
        self.outcomes.append(outcome)
        calls = model.calls - asked if isinstance(model, Counted) else 0
        now = entries(session)
        assert now[: len(held)] == held, "the log is only appended to"
        assert outcome.reason
        assert outcome.policy == session.policy.name
        if outcome.status == "compacted":
            (block,) = now[len(held) :]
            assert isinstance(block, Block)
            self.compactions += 1
            shrinks(session, before, block, outcome, call)
            well_formed(session)
            reachable(session)
            reopens(session)
            asked_again(session, call)
            assert not session.view.fits(block), "law 14: over the same range a second Block is stale"
            keeps_facts(session)
        else:
            changes_nothing(session, before, now[len(held) :], outcome, calls)
        return outcome

    def whole(self) -> None:
        """Laws 1, 2, 5, 10 and 12 over the whole path, and law 13 on everything that is no compaction."""
        log = path_of(self.session)
        at = {len(log) * part // 4 for part in range(1, 5)} | {n + 1 for n, e in enumerate(log) if isinstance(e, Block)}
        checks.agrees_with_oracle(View, log)
        checks.opens_from_snapshots(View, log)
        checks.extends_as_it_folds(View, log, at=at)
        requests = [n for n, entry in enumerate(log) if checks.is_answer(entry)]
        checks.keeps_the_prefix(View, log, at=requests[:: 1 + len(requests) // 8])
        checks.reaches_every_original(View, log)
        checks.tiles_every_position(View, log)
        checks.undoes_each_block(View, log)
        quiet(self.session)


def path_of(session: Session) -> Log:
    """The session's entries from the root to the leaf."""
    return tuple(session.view.path.span(0, session.view.length - 1)) if session.view.length else ()


def newest(session: Session) -> Block | None:
    """The newest live Block."""
    live = session.view.marks.live
    block = session.view.path.at(live[-1]) if live else None
    assert block is None or isinstance(block, Block)
    return block


def shrinks(session: Session, before: View, block: Block, outcome: Outcome, call: Call) -> None:
    """Law 4, counted here: by the policy's minimum, to the target or it says what the least is made of."""
    was, now = tokens(before.messages()), tokens(session.view.messages())
    minimum = 1 if call.to is not None else session.policy.minimum_shrink(was)
    assert was - now >= minimum, f"saves {was - now} of {was}, not {minimum}"
    assert (outcome.tokens_before, outcome.tokens_after) == (was, now), "law 4: the figures of the Outcome"
    assert (block.tokens_before, block.tokens_after) == (was, now)
    assert now <= outcome.target or outcome.target_missed, f"{now} tokens, target {outcome.target}, not said"
    assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    assert outcome.block == block.id
    assert block.policy == outcome.policy


def well_formed(session: Session) -> None:
    """Law 3: what a provider of each wire accepts."""
    messages = session.view.messages()
    for wire in WIRES:
        assert check(messages, wire) == [], wire


def reachable(session: Session) -> None:
    """Law 5: each live Block, and each batch it stands for, expands to the originals as they are in the log."""
    path = session.view.path
    for position in session.view.marks.live:
        block = path.at(position)
        assert isinstance(block, Block)
        covered = sorted({p for r in block.replacements for p in range(r.first, r.last + 1)})
        lines = session.expand(block.id, deep=True)
        expected = [(p, path.at(p).id, m) for p in covered if (m := message_of(path.at(p))) is not None]
        assert [(line.position, line.entry, line.message) for line in lines] == expected
        assert all(line.original for line in lines)
        for index, batch in enumerate(block.batches):
            behind = session.expand(f"{block.id}/{index}", deep=True)
            inside = [e for p in range(batch.first, batch.last + 1) if message_of(e := path.at(p)) is not None]
            assert [(line.entry, line.message) for line in behind] == [(e.id, message_of(e)) for e in inside]
        if block.standing:
            tiled_by_batches(path, position, covered)


def tiled_by_batches(path: Path, position: int, covered: Sequence[int]) -> None:
    """Law 12 for an archive: each message under the Block that holds it lies in exactly one batch of its top level."""
    top = [batch for _, batch in standing(path, position)]
    for at in covered:
        if message_of(path.at(at)) is not None:
            holding = [(b.first, b.last) for b in top if b.first <= at <= b.last]
            assert len(holding) == 1, f"the message at {at} lies in {holding} of {[(b.first, b.last) for b in top]}"


def reopens(session: Session) -> None:
    """Law 1: opened anew from its snapshot, and folded from the root, the session shows the same bytes."""
    shown = sent(session)
    assert sent(Session(session.place, session.policy)) == shown
    assert [checks.BYTES.encode(m) for m in checks.whole_fold(View, path_of(session)).messages()] == shown


def asked_again(session: Session, call: Call) -> None:
    """Law 6: the same demand with nothing said since does nothing, leaves nothing and asks nobody."""
    held, usual = entries(session), session.answerer
    session.answerer = answerer(NeverAsk())
    for one in (session, Session(session.place, session.policy, answerer=session.answerer)):
        again = one.compact(call)
        assert again.status == "nothing", f"law 6: {again.status}: {again.reason}"
        assert entries(session) == held
    session.answerer = usual


def changes_nothing(session: Session, before: View, left: Sequence[Entry], outcome: Outcome, calls: int) -> None:
    """Law 11: no view changes; one Attempt where a model was called, at most one elsewhere, none for a cancelling."""
    assert list(session.view.shown()) == list(before.shown())
    assert not outcome.block
    assert outcome.status in ("nothing", "unsatisfiable", "failed", "cancelled")
    assert len(left) <= 1
    assert not calls or left, f"law 11: {calls} model calls are not remembered ({outcome.status})"
    assert outcome.status != "cancelled" or not left
    assert (outcome.status == "failed") <= bool(left)
    for entry in left:
        assert isinstance(entry, Attempt)
        assert (entry.status, entry.reason) == (outcome.status, outcome.reason)
        assert entry.tokens == outcome.tokens_before
        assert entry.target >= outcome.target, "what it aimed at: the target, or the least where that is larger"


def quiet(session: Session) -> None:
    """Law 13: reading, searching, expanding, previewing, opening and undoing ask no model."""
    size = max(2, tokens(session.view.messages()))
    other = Session(session.place, session.policy, answerer=Answerer(NeverAsk()))
    held = entries(other)
    other.reading(window=size)
    other.search("report on part")
    other.preview(to=size // 2)
    other.preview(window=size)
    other.sync(other.view.messages())
    assert entries(other) == held
    for _ in other.view.marks.live:
        other.undo()


# -- facts -------------------------------------------------------------------------------------------------------------


def live_facts(session: Session) -> list[Fact]:
    """The must-keep facts of the whole history, from the originals, without what the newest Block knows is settled."""
    originals = [(p, m) for p, e in enumerate(path_of(session)) if (m := message_of(e)) is not None]
    block = newest(session)
    settled = {(f.kind, f.key) for f in (block.facts if block else ()) if not f.live}
    return [f for f in extract(originals) if must_keep(f) and (f.kind, f.key) not in settled]


_GAP = re.compile(r"\[\.\.\. \d+ characters \.\.\.\]|open items not shown\)")
_HEAD = 10
STEP = 4
"""How far a call may stand before the result that its fact is dated by."""


def in_view(fact: Fact, text: str) -> bool:
    """Whether the fact stands in the text, or begins in it and the text says that something is left out there.

    A long list is shown by its open items, so of one an item stands there, and how many are not shown.
    """
    words = flat(fact.text)
    if stands(words, text):
        return True
    if fact.kind == "todo" and "open items not shown)" in text:
        return any(stands(flat(line), text) for line in fact.text.split("\n"))
    starts = (m.start() for m in re.finditer(re.escape(words[:_HEAD]), text))
    return any(gap.start() - start <= len(words) for start in starts if (gap := _GAP.search(text, start)))


def missing(session: Session) -> list[Fact]:
    """The must-keep facts that no message in view says, and whose original is not in view either."""
    words = (text_of(m) + "\n" + "\n".join(c.arguments for c in calls_of(m)) for m in session.view.messages())
    text = flat("\n".join(words))
    originals = {s.at for s in session.view.shown() if s.original}
    return [f for f in live_facts(session) if f.at not in originals and not in_view(f, text)]


def keeps_facts(session: Session) -> None:
    """Every must-keep fact is in view, or counted by the newest Block and found by search."""
    lost, block = missing(session), newest(session)
    assert block is not None
    counted = block.unshown + block.dropped
    assert len(lost) <= counted, (
        f"{counted} counted, {len(lost)} missing: {[(f.kind, f.at, f.text[:40]) for f in lost[:12]]}"
    )
    for fact in lost[:3]:
        words = " ".join(re.findall(r"\w\w+", fact.text.split("\n")[0])[:6])
        found = [hit.position for hit in session.search(words, limit=200)]
        near = [p for p in found if fact.at - STEP <= p <= fact.at]
        assert near, f"{fact.kind} {fact.text[:60]!r} at {fact.at} is not found by {words!r} but {found}"
