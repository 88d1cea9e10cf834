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

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.facts.section import is_must_keep
from tenfold.compaction.facts.section_headings import TITLE
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import Attempt, Entry, MessageEntry, Usage, get_message
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text, get_tool_calls
from tenfold.core.text.excerpts import collapse_spaces, has_words
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import check_messages
from tenfold.core.wire.marks import find_summary_mark
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.models.model import Model
from tenfold.models.retry import RetryRule
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE
from tests.laws import checks, conversations, strategies
from tests.laws.conversations import COUNTER, NeverAsk, count_tokens, encode_view, get_minimum_saving, read_entries
from tests.laws.nearby import WIRES
from tests.laws.strategies import LAW, SILENT, TALK, Desk, Log, Move
from tests.thorough import IS_THOROUGH

NAMES = tuple(sorted(POLICIES))
PRESET = settings(strategies.ENGINE, max_examples=max(1, LAW.max_examples // (10 if IS_THOROUGH else 20)))
"""How a law is tried for each preset: every example is several compactions."""


@cache
def build_preset(name: str, *, models: tuple[str, ...] = ("m",)) -> Policy:
    """The preset with its published settings; without `models` it writes by code."""
    return build_policy(name, COUNTER, models=models)


async def _skip_sleep(_: float) -> None:
    return None


QUICK = RetryRule(sleep=lambda _: None, async_sleep=_skip_sleep, draw=lambda: 0.5)
"""Tries again without a pause."""


def build_answerer(model: Model | None) -> Answerer:
    """An answerer that asks this model, and loses no time."""
    return Answerer(model, retry_rule=QUICK)


def open_session(name: str, log: Log, model: Model | None, *, models: tuple[str, ...] = ("m",)) -> Session:
    """A session under the preset that asks this model."""
    return conversations.open_session(log, build_preset(name, models=models), build_answerer(model))


# -- models ------------------------------------------------------------------------------------------------------------

INVENTED = "src/ghost/invented_module.py"
KNOWN = re.compile(r"\blib/(?:part|fix)\d+\.py\b")


class Counted:
    """A model that counts its calls. What it says depends on nothing but the Ask."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, ask: SummaryAsk) -> Answer:
        self.calls += 1
        return self.build_answer(ask)

    def build_answer(self, ask: SummaryAsk) -> Answer:
        raise NotImplementedError


class Good(Counted):
    """A plausible summary: all the headings asked for, a line of its own under each, paths of the source only.

    It keeps to the tokens it is given where its headings leave room for anything.
    """

    def __init__(self, summary: SummarySettings) -> None:
        super().__init__()
        self.summary = summary

    def build_answer(self, ask: SummaryAsk) -> Answer:
        asked = f"{ask.system}\n{ask.prompt}"
        known = PREFIX_HEADINGS if ask.purpose == "prefix" else self.summary.list_headings(ask.purpose)
        headings = [h for h in known if h in asked]
        paths = list(dict.fromkeys(KNOWN.findall(ask.prompt)))[:3]
        seal = int(hashlib.sha256(ask.prompt.encode()).hexdigest()[:4], 16)
        line = f"Went on in the {('first', 'second', 'third')[seal % 3]} way"
        texts = (f"{line} with {', '.join(paths)}." if paths else f"{line}.", f"{line}.", "Went on.")
        said = " ".join(re.findall(r"\w+", ask.prompt)[-30:])
        bare = (f"{texts[0]} The last words were: {said}", *texts)
        tried = ["\n".join(f"{heading}\n{text}" for heading in headings) for text in texts] if headings else [*bare]
        text = next((t for t in tried if COUNTER.count([t])[0] <= ask.max_tokens), tried[-1])
        return Answer(text=text, spent=ModelCost(1, COUNTER.count([ask.prompt])[0], COUNTER.count([text])[0], "m"))


def _fail(_: SummaryAsk) -> Answer:
    return Answer(error="the provider is down", spent=ModelCost(1))


def _lose_connection(ask: SummaryAsk) -> Answer:
    raise ConnectionResetError(f"no connection for {ask.purpose}")


def _raise_key_error(ask: SummaryAsk) -> Answer:
    raise KeyError(ask.purpose)


def _invent_path(ask: SummaryAsk) -> Answer:
    return Answer(
        text=f"All of it was moved to {INVENTED}, see #98765432.\nIt took {ask.max_tokens} steps.", spent=ModelCost(1)
    )


def _run_on(ask: SummaryAsk) -> Answer:
    return Answer(text="It then went on and on and on, as it had before.\n" * (ask.max_tokens // 2), spent=ModelCost(1))


def _build_fixed(answer: Answer) -> Callable[[SummaryAsk], Answer]:
    return lambda _ask: answer


RANDOM_WORDS = "marmalade trombone velvet glacier umbrella walrus saffron pyramid "
NO_WORDS = "qwrt zxcvb plmko vfrtg "
BAD: Mapping[str, Callable[[SummaryAsk], Answer]] = MappingProxyType(
    {
        "empty": _build_fixed(Answer(text=" \n", spent=ModelCost(1))),
        "cut off": _build_fixed(Answer(text="## Goal\nThe work was abou", finish_reason="length", spent=ModelCost(1))),
        "refusal": _build_fixed(Answer(text="No.", finish_reason="refusal", spent=ModelCost(1))),
        "error text": _build_fixed(Answer(text="Error: prompt is too long", spent=ModelCost(1))),
        "call": _build_fixed(
            Answer(text='<tool_call>{"name": "bash"}</tool_call>', finish_reason="tool", spent=ModelCost(1))
        ),
        "a character": _build_fixed(Answer(text="¤x", spent=ModelCost(1))),
        "random words": _build_fixed(Answer(text=RANDOM_WORDS * 3, spent=ModelCost(1))),
        "random words, cut off": _build_fixed(Answer(text=NO_WORDS * 100, finish_reason="length", spent=ModelCost(1))),
        "no headings": _build_fixed(Answer(text="It went well, and nothing else is to be said.", spent=ModelCost(1))),
        "too late": _build_fixed(Answer(error="no answer", retryable=True, timed_out=True, spent=ModelCost(1))),
        "too big": _build_fixed(Answer(error="400: maximum context length exceeded", spent=ModelCost(1))),
        "invents": _invent_path,
        "runs on": _run_on,
        "down": _fail,
        "raises": _lose_connection,
        "breaks": _raise_key_error,
    }
)


class Bad(Counted):
    """Answers badly, in one of the given ways: which one depends on the Ask."""

    def __init__(self, ways: Sequence[str]) -> None:
        super().__init__()
        self.ways = tuple(ways)

    def build_answer(self, ask: SummaryAsk) -> Answer:
        seal = hashlib.sha256((ask.model + ask.system + ask.prompt).encode()).digest()[0]
        return BAD[self.ways[seal % len(self.ways)]](ask)


def bad_ways() -> st.SearchStrategy[list[str]]:
    """One to three ways of answering badly."""
    return st.lists(st.sampled_from(tuple(BAD)), min_size=1, max_size=3, unique=True)


# -- conversations -----------------------------------------------------------------------------------------------------


def _add_step(desk: Desk, name: str, arguments: str, output: str, *, error: bool = False) -> None:
    named = f"did_{desk.n}"
    desk.say(Message("assistant", (ToolCall(named, name, arguments),), "model"))
    desk.say(Message("tool", (ToolResult(named, name, (Text(output),), is_error=error),), "tool"))


def play_rule(desk: Desk, a: int, _b: int, _c: int) -> None:
    table = f"table_{desk.n}"
    says = (f"Never touch the {table} table.", f"No, do not use {table}. Use port {4000 + desk.n} instead.")
    desk.say(Message("user", (Text(says[a % 2]),), "human"))


def play_edit(desk: Desk, _a: int, _b: int, _c: int) -> None:
    path = f"lib/fix{desk.n}.py"
    _add_step(desk, "edit", f'{{"path": "{path}", "old": "a", "new": "b"}}', f"edited {path}")


def play_fails(desk: Desk, a: int, _b: int, _c: int) -> None:
    name = f"tests/test_{desk.n if a % 2 else a}.py"
    failed = f"FAILED {name}::test_blue - AssertionError: assert {desk.n} == 4"
    _add_step(desk, "bash", f'{{"command": "pytest {name}"}}', failed, error=True)


def play_passes(desk: Desk, a: int, _b: int, _c: int) -> None:
    _add_step(desk, "bash", f'{{"command": "pytest tests/test_{a}.py"}}', "1 passed")


def play_todo(desk: Desk, a: int, _b: int, _c: int) -> None:
    state = ("pending", "in_progress", "completed")[a % 3]
    items = f'{{"content": "step {desk.n}", "status": "{state}"}}, {{"content": "then {desk.n}", "status": "pending"}}'
    _add_step(desk, "TodoWrite", f'{{"todos": [{items}]}}', "ok")


def play_reads(desk: Desk, a: int, _b: int, _c: int) -> None:
    body = "\n".join(f"{n}: value_{desk.n}_{n} = compute({n})" for n in range(20 * (1 + a)))
    _add_step(desk, "read", f'{{"path": "lib/part{a}.py"}}', body)


def play_request(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.say(Message("user", (Text(f"Please look at lib/part{a}.py next, item {desk.n}."),), "human"))


EVENTS: Mapping[str, Callable[[Desk, int, int, int], None]] = MappingProxyType(
    {
        move.__name__.removeprefix("play_"): move
        for move in (play_rule, play_edit, play_fails, play_passes, play_todo, play_reads, play_request)
    }
)
_KINDS = (*TALK, *SILENT, *tuple(EVENTS) * 4)


def build_story(moves: Sequence[Move], factor: int) -> Log:
    """The log that these moves give, each text and output followed by so many sentences more."""
    desk = Desk([])
    for kind, a, b, c in moves:
        (EVENTS.get(kind) or strategies.PLAYS[kind])(desk, a, b, c)
    return tuple(
        replace(e, message=lengthen_message(e.message, n, factor)) if isinstance(e, MessageEntry) else e
        for n, e in enumerate(desk.entries)
    )


def lengthen_message(message: Message, number: int, factor: int) -> Message:
    """The message with so many sentences more in its texts and outputs; a few of the user's own too."""
    if message.role == "user" and number % 5:
        return message
    return conversations.lengthen_message(message, number % 8, factor)


def stories(*, least: int = 20, most: int = 48) -> st.SearchStrategy[Log]:
    """Conversations with events that must be kept among shapes of every kind."""
    small = st.integers(0, 7)
    moves = st.lists(st.tuples(st.sampled_from(_KINDS), small, small, small), min_size=least, max_size=most)
    return st.builds(build_story, moves, st.sampled_from((4, 12, 30)))


def build_work(start: int, size: int) -> list[Message]:
    """Plain work of about `size` tokens with a few events in it, without Hypothesis."""
    desk = Desk([])
    moves: list[tuple[str, int]] = [("request", 1), ("rule", 0), ("reads", 3), ("edit", 0), ("answer", 0), ("reads", 7)]
    moves += [("fails", 1), ("todo", 0), ("answer", 0), ("rule", 1), ("reads", 5), ("user", 0), ("answer", 0)]
    for _ in range(start):
        desk.say(Message("user", (Text("before"),), "human"))
    for kind, a in moves * 2:
        (EVENTS.get(kind) or strategies.PLAYS[kind])(desk, a, 0, 0)
    bare = conversations.extract_messages(tuple(desk.entries[start:]))
    missing = max(0, size - count_tokens(bare))
    each = count_tokens([lengthen_message(m, 0, 100) for m in bare]) - count_tokens(bare)
    factor = missing * 100 // each + 1
    return [lengthen_message(m, n, factor) for n, m in enumerate(bare, start)]


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
        before, held = session.view, read_entries(session)
        minimum = get_minimum_saving(session, before.get_messages(), call)
        model = session.compactor.answerer.model
        asked = model.calls if isinstance(model, Counted) else 0
        outcome = session.compact(call)
        self.outcomes.append(outcome)
        calls = model.calls - asked if isinstance(model, Counted) else 0
        now = read_entries(session)
        assert now[: len(held)] == held, "the log is only appended to"
        assert outcome.reason
        assert outcome.policy == session.policy.name
        if outcome.status == "compacted":
            (block,) = now[len(held) :]
            assert isinstance(block, Block)
            self.compactions += 1
            assert_shrinks(session, before, block, outcome, minimum)
            assert_well_formed(session)
            assert_reachable(session)
            assert_reopens(session)
            assert_repeat_does_nothing(session, call)
            assert not session.view.can_append(block), "law 14: over the same range a second Block is stale"
            assert_keeps_facts(session)
            assert_one_section(session)
        else:
            assert_nothing_changed(session, before, now[len(held) :], outcome, calls)
        return outcome

    def check_whole_path(self) -> None:
        """Laws 1, 2, 5, 10 and 12 over the whole path, and law 13 on everything that is no compaction."""
        log = get_path(self.session)
        at = {len(log) * part // 4 for part in range(1, 5)} | {n + 1 for n, e in enumerate(log) if isinstance(e, Block)}
        checks.assert_agrees_with_oracle(View, log)
        checks.assert_opens_from_snapshots(View, log)
        checks.assert_extends_as_it_folds(View, log, at=at)
        requests = [n for n, entry in enumerate(log) if checks.is_answer(entry)]
        checks.assert_keeps_prefix(View, log, at=requests[:: 1 + len(requests) // 8])
        checks.assert_originals_reachable(View, log)
        checks.assert_positions_tiled(View, log)
        checks.assert_blocks_undoable(View, log)
        assert_asks_no_model(self.session)


def get_path(session: Session) -> Log:
    """The session's entries from the root to the leaf."""
    return tuple(session.view.path.get_entries(0, session.view.length - 1)) if session.view.length else ()


def find_newest_block(session: Session) -> Block | None:
    """The newest live Block."""
    live = session.view.state.live_blocks
    block = session.view.path.get_entry(live[-1]) if live else None
    assert block is None or isinstance(block, Block)
    return block


def assert_shrinks(session: Session, before: View, block: Block, outcome: Outcome, minimum: int) -> None:
    """Law 4, counted here: by the policy's minimum, to the target or it says what the least is made of."""
    was, now = count_tokens(before.get_messages()), count_tokens(session.view.get_messages())
    assert was - now >= minimum, f"saves {was - now} of {was}, not {minimum}"
    counted = checks.get_counted(outcome)
    assert (counted.before, counted.after) == (was, now), "law 4: the figures of the Outcome"
    assert (block.tokens_before, block.tokens_after) == (was, now)
    assert now <= counted.target or outcome.target_missed, f"{now} tokens, target {outcome.target}, not said"
    assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    assert outcome.block == block.id
    assert block.policy == outcome.policy


def assert_well_formed(session: Session) -> None:
    """Law 3: what a provider of each wire accepts."""
    messages = session.view.get_messages()
    for wire in WIRES:
        assert check_messages(messages, wire) == [], wire


def assert_reachable(session: Session) -> None:
    """Law 5: each live Block, and each batch it stands for, expands to the originals as they are in the log."""
    path = session.view.path
    for position in session.view.state.live_blocks:
        block = path.get_entry(position)
        assert isinstance(block, Block)
        covered = sorted({p for r in block.replacements for p in range(r.first, r.last + 1)})
        lines = session.expand(block.id, deep=True)
        expected = [(p, path.get_entry(p).id, m) for p in covered if (m := get_message(path.get_entry(p))) is not None]
        assert [(line.position, line.entry, line.message) for line in lines] == expected
        assert all(line.original for line in lines)
        for index, batch in enumerate(block.batches):
            behind = session.expand(f"{block.id}/{index}", deep=True)
            inside = [e for p in range(batch.first, batch.last + 1) if get_message(e := path.get_entry(p)) is not None]
            assert [(line.entry, line.message) for line in behind] == [(e.id, get_message(e)) for e in inside]
        if block.top_batches:
            assert_tiled_by_batches(path, position, covered)


def assert_tiled_by_batches(path: Path, position: int, covered: Sequence[int]) -> None:
    """Law 12 for an archive: each message under the Block that holds it lies in exactly one batch of its top level."""
    top = [batch for _, batch in path.list_top_batches(position)]
    for at in covered:
        if get_message(path.get_entry(at)) is not None:
            holding = [(b.first, b.last) for b in top if b.first <= at <= b.last]
            assert len(holding) == 1, f"the message at {at} lies in {holding} of {[(b.first, b.last) for b in top]}"


def assert_one_section(session: Session) -> None:
    """At most one section of facts is in view, and a host that sends a summary of the view back is understood."""
    texts = [get_text(m) for m in session.view.get_messages() if m.origin == "tenfold"]
    assert sum(TITLE in text for text in texts) <= 1, "an older summary's section stays in view beside a newer one"
    live = {session.view.path.get_entry(at).id for at in session.view.state.live_blocks}
    for mark in filter(None, map(find_summary_mark, texts)):
        assert mark.block in live
        assert session.requests.is_own_summary(mark.block, mark.hash)


def assert_reopens(session: Session) -> None:
    """Law 1: opened anew from its snapshot, and folded from the root, the session shows the same bytes."""
    shown = encode_view(session)
    assert encode_view(Session(session.address, session.policy)) == shown
    assert [checks.BYTES.encode(m) for m in checks.fold_from_root(View, get_path(session)).get_messages()] == shown


def assert_repeat_does_nothing(session: Session, call: Call) -> None:
    """Law 6: the same demand with nothing said since does nothing, leaves nothing and asks nobody."""
    held, usual = read_entries(session), session.compactor.answerer
    session.compactor.use_answerer(build_answerer(NeverAsk()))
    for one in (session, Session(session.address, session.policy, answerer=session.compactor.answerer)):
        again = one.compact(call)
        assert again.status == "nothing", f"law 6: {again.status}: {again.reason}"
        assert read_entries(session) == held
    session.compactor.use_answerer(usual)


def assert_nothing_changed(session: Session, before: View, left: Sequence[Entry], outcome: Outcome, calls: int) -> None:
    """Law 11: no view changes; one Attempt where a model was called, at most one elsewhere, none for a cancelling."""
    assert list(session.view.get_visible_messages()) == list(before.get_visible_messages())
    assert not outcome.block
    assert outcome.status in ("nothing", "unsatisfiable", "failed", "cancelled")
    assert len(left) <= 1
    assert not calls or left, f"law 11: {calls} model calls are not remembered ({outcome.status})"
    assert outcome.status != "cancelled" or not left
    assert (outcome.status == "failed") <= bool(left)
    for entry in left:
        assert isinstance(entry, Attempt)
        assert (entry.status, entry.reason) == (outcome.status, outcome.reason)
        counted = checks.get_counted(outcome)
        assert entry.tokens == counted.before
        assert entry.target + 1 >= counted.target, "what it aimed at: the target, or the least where that is larger"


def assert_asks_no_model(session: Session) -> None:
    """Law 13: reading, searching, expanding, previewing, opening and undoing ask no model."""
    size = max(2, count_tokens(session.view.get_messages()))
    other = Session(session.address, session.policy, answerer=Answerer(NeverAsk()))
    held = read_entries(other)
    other.take_reading(window=size)
    other.search("report on part")
    other.preview(to=size // 2)
    other.preview(window=size)
    other.sync(other.view.get_messages())
    other.refresh()
    assert other.conversation.find_violations("anthropic") == ()
    assert other.address.store.verify(DEFAULT_NAMESPACE) == []
    for position in other.view.state.live_blocks:
        assert other.expand(other.view.path.get_entry(position).id)
    assert read_entries(other) == held
    for _ in other.view.state.live_blocks:
        other.undo()
    other.requests.record_usage(Usage.build(size))


# -- facts -------------------------------------------------------------------------------------------------------------


def get_live_facts(session: Session) -> list[Fact]:
    """The must-keep facts of the whole history, from the originals, without what the newest Block knows is settled."""
    originals = [(p, m) for p, e in enumerate(get_path(session)) if (m := get_message(e)) is not None]
    settled = {(f.kind, f.text) for f in session.view.list_block_facts() if not f.live}
    return [f for f in extract_facts(originals) if is_must_keep(f) and (f.kind, f.text) not in settled]


_GAP = re.compile(r"\[\.\.\. [\d,]+ characters (?:of the request left out[^\]]*)?\.\.\.\]|open items not shown\)")
_HEAD = 10
STEP = 4
"""How far a call may stand before the result that its fact is dated by."""


def is_in_view(fact: Fact, text: str) -> bool:
    """Whether the fact stands in the text, or begins in it and the text says that something is left out there.

    A long list is shown by its open items, so of one an item stands there, and how many are not shown. Several finished
    items share a line, which may leave out the oldest.
    """
    words = collapse_spaces(fact.text)
    if has_words(words, text):
        return True
    if fact.kind == "todo" and "open items not shown)" in text:
        return any(has_words(collapse_spaces(line), text) for line in fact.text.split("\n"))
    if fact.kind == "todo" and re.search(r"\[x\] \(\d+ done", text):
        lines = (collapse_spaces(line) for line in fact.text.split("\n"))
        return all(has_words(line, text) for line in lines if "[x]" not in line[:8].lower())
    starts = (m.start() for m in re.finditer(re.escape(words[:_HEAD]), text))
    return any(gap.start() - start <= len(words) for start in starts if (gap := _GAP.search(text, start)))


def find_missing_facts(session: Session) -> list[Fact]:
    """The must-keep facts that no message in view says, and whose original is not in view either."""
    words = (
        get_text(m) + "\n" + "\n".join(c.arguments for c in get_tool_calls(m)) for m in session.view.get_messages()
    )
    text = collapse_spaces("\n".join(words))
    originals = {s.position for s in session.view.get_visible_messages() if s.is_original}
    return [f for f in get_live_facts(session) if f.position not in originals and not is_in_view(f, text)]


def assert_keeps_facts(session: Session) -> None:
    """Every must-keep fact is in view, or counted by the newest Block and found by search."""
    lost, block = find_missing_facts(session), find_newest_block(session)
    assert block is not None
    counted = block.unshown_facts + block.dropped_facts
    assert len(lost) <= counted, (
        f"{counted} counted, {len(lost)} missing: {[(f.kind, f.position, f.text[:40]) for f in lost[:12]]}"
    )
    for fact in lost[:3]:
        words = " ".join(re.findall(r"\w\w+", fact.text.split("\n")[0])[:6])
        found = [hit.position for hit in session.search(words, limit=200)]
        near = [p for p in found if fact.position - STEP <= p <= fact.position]
        assert near, f"{fact.kind} {fact.text[:60]!r} at {fact.position} is not found by {words!r} but {found}"
