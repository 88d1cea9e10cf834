"""Over every preset: no must-keep fact is lost and nothing invented kept, whatever the model does, however often."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.policies import POLICIES
from tenfold.record.ask import Answer, Outcome, Summarize
from tenfold.record.block import Block, Fact, Rep, Spent
from tenfold.record.entry import message_of
from tenfold.record.message import Message, calls_of, text_of
from tenfold.session import Session
from tenfold.summarize.facts import extract
from tenfold.summarize.fill import CARRIED, CARRIED_BESIDE, flat, stands
from tenfold.summarize.section import must_keep
from tenfold.wire.marks import summary_text
from tests import sessions
from tests.engine.making import COUNTER, called, edited, gave, opened, read, said, user
from tests.laws.presets import QUICK

INVENTED = "src/ghost/invented_module.py"
RULES = tuple(f"Never touch the {name} table." for name in ("orders", "users", "invoices", "audit"))
ERROR = "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4"


class Answering:
    """A model that writes under the headings it is asked for what `tell` gives for an Ask, and counts its calls."""

    def __init__(self, tell: Callable[[Summarize], str]) -> None:
        self.tell = tell
        self.asked: list[Summarize] = []

    def answer(self, ask: Summarize) -> Answer:
        self.asked.append(ask)
        told = self.tell(ask)
        asked_for = ask.prompt.partition("\n<")[0]
        headings = [line for line in asked_for.split("\n") if line.startswith("## ")]
        text = "\n".join(f"{heading}\n{told}" for heading in headings) or told
        return Answer(text=text, spent=Spent(1, 10, 10, "m"))


def opened_with(name: str, model: object | None, messages: Sequence[Message] = ()) -> Session:
    """A session under the preset, which asks `model` for its summaries, or nobody."""
    made = POLICIES[name](COUNTER)
    if model is None:
        return opened(messages, made)
    made = replace(made, summary=replace(made.summary, models=("m",)))
    return opened(messages, made, answerer=Answerer(model, patience=QUICK))  # type: ignore[arg-type]


def live(session: Session) -> list[Fact]:
    """The must-keep facts of the whole history, from the originals."""
    path = session.view.path
    originals = [(p, m) for p, e in enumerate(path.span(0, path.length - 1)) if (m := message_of(e)) is not None]
    return [f for f in extract(originals) if must_keep(f)]


def words_in_view(session: Session) -> str:
    words = (text_of(m) + "\n" + "\n".join(c.arguments for c in calls_of(m)) for m in session.view.messages())
    return flat("\n".join(words))


def missing(session: Session) -> list[Fact]:
    """The must-keep facts that no message in view says, neither in full nor shortened with the gap stated.

    What the Block in force knows to be settled is left out: it has followed each step, where `live` reads the whole
    history at once and counts a request that was made twice as one.
    """
    text = words_in_view(session)
    block = newest(session)
    settled = {(f.kind, f.key) for f in (block.facts if block else ()) if not f.live}
    return [f for f in live(session) if (f.kind, f.key) not in settled and not told(f, text)]


def told(fact: Fact, text: str) -> bool:
    """Whether a fact stands in the text, or begins in it and the text says that something is left out there.

    A long list is shown by its open items, so of one an item stands there, and how many are not shown.
    """
    words = flat(fact.text)
    if fact.kind == "todo" and "open items not shown)" in text:
        return any(stands(flat(line), text) for line in fact.text.split("\n"))
    start = text.find(words[:40])
    return stands(words, text) or (
        len(words) > 400 and start >= 0 and bool(_GAP.search(text, start, start + len(words)))
    )


_GAP = re.compile(r"\[\.\.\. \d+ characters \.\.\.\]|open items not shown\)")


def newest(session: Session) -> Block | None:
    marks = session.view.marks
    block = session.view.path.at(marks.live[-1]) if marks.live else None
    assert block is None or isinstance(block, Block)
    return block


def eventful() -> list[Message]:
    """A conversation of many words and few outputs, with eight facts that must be kept."""
    talk = "We looked at how the parts depend on each other, and talked through what follows from that for the rest. "
    out: list[Message] = [user("Please move the billing code to the new schema.")]
    for number, rule in enumerate(RULES):
        out += [said(f"Part {number}: " + talk * 12), user(f"Go on. {rule}"), said("I see. " + talk * 12)]
        out += edited(number, f"lib/billing_{number}.py")
    out += [called("t", "bash", '{"command": "pytest tests/test_sky.py"}'), gave("t", ERROR, error=True)]
    for number in range(8):
        out += [said(f"On {number}: " + talk * 12), user(f"And what is in part {number} of the old schema?")]
    return [*out, said("That is all of it. " + talk * 6), user("Now finish the invoices page.")]


def in_one_run() -> list[Message]:
    """The same, with all that the user says in one message at the beginning, and long outputs."""
    talk = eventful()
    asked = " ".join(text_of(m) for m in talk if m.role == "user")
    out = [user(asked), *(m for m in talk if m.role != "user")]
    return [*out, *(m for n in range(6) for m in read(n, f"lib/old_{n}.py"))]


def compacted_by(name: str, tell: Callable[[Summarize], str]) -> tuple[Session, Outcome, Answering]:
    """A session with a summary that a model wrote; `blocks` asks one only where lines are not enough."""
    for history, target in ((eventful(), 1_600), (in_one_run(), 1_600), (in_one_run(), 1_200), (in_one_run(), 900)):
        model = Answering(tell)
        session = opened_with(name, model, history)
        outcome = session.compact(to=target)
        if outcome.status == "compacted" and model.asked:
            return session, outcome, model
    raise AssertionError(f"{name} asked no model: {outcome.reason}")


@pytest.mark.parametrize("name", POLICIES)
def test_a_model_that_drops_half_of_the_facts_and_invents_a_path(name: str) -> None:
    half = " ".join(RULES[::2])

    def careless(_ask: Summarize) -> str:
        return f"The schema work went on. {half} It also rewrote {INVENTED} from scratch. The rest is planned."

    session, outcome, model = compacted_by(name, careless)
    facts = live(session)
    assert all(any(must in f.text for f in facts) for must in (*RULES, ERROR))
    assert missing(session) == []
    text = words_in_view(session)
    assert all(must in text for must in (*RULES, ERROR, "lib/billing_0.py", "lib/billing_3.py"))
    block = newest(session)
    assert block is not None
    assert INVENTED not in text
    assert INVENTED not in repr(replace(block, notes=()))
    assert any(ask.purpose == "repair" for ask in model.asked)
    assert "The schema work went on." in text, "what was good in the answer stays"
    assert any("unknown" in note for note in outcome.notes)


BAD = {
    "late": Answer(error="TimeoutError: no answer within 120 s", retryable=True, spent=Spent(1)),
    "empty": Answer(text=" \n", spent=Spent(1)),
    "cut off": Answer(text="The wo", finish="length", spent=Spent(1)),
    "refused": Answer(text="No.", finish="refusal", spent=Spent(1)),
    "an error as text": Answer(text="Error: prompt is too long", spent=Spent(1)),
    "a call": Answer(text='<tool_call>{"name": "bash"}</tool_call>', finish="tool", spent=Spent(1)),
}


class Always:
    """A model that gives one answer to everything."""

    def __init__(self, answer: Answer) -> None:
        self.answers = answer
        self.calls = 0

    def answer(self, _ask: Summarize) -> Answer:
        self.calls += 1
        return self.answers


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", POLICIES)
def test_no_must_keep_fact_is_lost_whatever_the_model_does(name: str, bad: str) -> None:
    model = Always(BAD[bad])
    session = opened_with(name, model, eventful())
    before = session.view.messages()
    outcome = session.compact(to=1_600)
    if outcome.status == "failed":
        assert session.policy.summary.on_failure != "ladder"
        assert session.view.messages() == before
        assert model.calls
    else:
        assert outcome.status == "compacted", outcome.reason
        block = newest(session)
        assert block is not None
        assert len(missing(session)) <= block.unshown
    assert model.calls <= 12, "a model that fails is not asked for ever"


LONGEST = ("claude-code/large-conversation.jsonl", "pi/before-compaction.jsonl")
GENERATIONS, TARGET = 10, 6_000


def growing(name: str) -> list[list[Message]]:
    """A recorded session in ten stretches."""
    sessions.needed()
    path = next(p for p in sessions.session_files() if sessions.name_of(p) == name)
    longest = max(sessions.read(path), key=lambda each: len(each.entries))
    messages = [m for e in longest.entries if (m := message_of(e)) is not None]
    size = -(-len(messages) // GENERATIONS)
    return [messages[start : start + size] for start in range(0, len(messages), size)]


def well(ask: Summarize) -> str:
    """A summary of some length that holds words of the source, and of the summary before it."""
    told = re.findall(r"^\[\d+\] USER\n([^\n]{10,80})", ask.prompt, re.MULTILINE)[:3]
    return (
        " ".join(f"It was asked: {' '.join(re.findall(r'[A-Za-z]+', each))}." for each in told) or "The work went on."
    )


def ours(session: Session) -> list[tuple[Message, int]]:
    """All that we wrote and that stands in view (summaries, facts, lines and stubs), each with its tokens."""
    sizes = session.sizes()
    return [(s.message, sizes[s.key]) for s in session.view.shown() if s.message.origin == "tenfold"]


def reachable(session: Session, position: int) -> bool:
    """Whether the original at this position is in view, or among what the Block over it expands to."""
    path = session.view.path
    wanted = path.at(position).id
    if any(s.original and s.at == position for s in session.view.shown()):
        return True
    for ref in session.view.refs:
        if isinstance(ref, Rep) and ref.first <= position <= ref.last:
            return any(line.entry == wanted for line in session.expand(path.at(ref.block).id, deep=True))
    return False


def found(session: Session, fact: Fact) -> bool:
    """Whether one search for a fact's words, or its file's name, finds the step that it was taken from."""
    name = fact.text.rpartition("/")[2] if fact.kind.startswith("file_") else fact.text
    words = " ".join(re.findall(r"\w+", name)[:6])
    return any(fact.at - 10 <= hit.position <= fact.at for hit in session.search(words, limit=100))


@pytest.mark.parametrize("model", ["well", "none"])
@pytest.mark.parametrize("file", LONGEST)
@pytest.mark.parametrize("name", POLICIES)
def test_ten_compactions_of_a_growing_session(name: str, file: str, model: str) -> None:
    session = opened_with(name, Answering(well) if model == "well" else None)
    done = 0
    for stretch in growing(file):
        session.append(*stretch)
        outcome = session.compact(to=TARGET)
        done += outcome.status == "compacted"
        assert sum(size for _, size in ours(session)) <= TARGET
        summaries = [size for m, size in ours(session) if summary_text(text_of(m)) is not None]
        share = session.policy.goal(TARGET, recall="none", whole=session.uncompacted()).summary
        assert max(summaries) <= max(share, TARGET * 6 // 10), "narrative and facts together keep to their share"
        block = newest(session)
        lost = missing(session)
        assert block is not None
        assert len(lost) <= block.unshown + block.dropped
        assert len(block.facts) <= CARRIED + CARRIED_BESIDE + 200
    assert done >= GENERATIONS // 2
    said_at = (p for p in range(session.view.length) if message_of(session.view.path.at(p)) is not None)
    first = next(p for p in said_at if message_of(session.view.path.at(p)).role == "user")  # type: ignore[union-attr]
    for position in (first, first + 1):
        assert reachable(session, position)


def test_names_have_the_room_of_a_long_session_however_often_it_is_compacted() -> None:
    session = opened_with("tenfold", None)
    for stretch in growing("pi/before-compaction.jsonl"):
        session.append(*stretch)
        session.compact(to=TARGET)
    (summary,) = (text for m, _ in ours(session) if (text := summary_text(text_of(m))) is not None)
    (names,) = COUNTER.count([summary.partition("## Names in use")[2]])
    share = session.policy.split.names * TARGET
    assert names > share, f"{names} tokens of names in {TARGET}, for a session of {session.uncompacted():,}"


@pytest.mark.parametrize("file", LONGEST)
def test_what_must_be_kept_is_found_by_its_words(file: str) -> None:
    session = opened_with("tail", None)
    for stretch in growing(file):
        session.append(*stretch)
        session.compact(to=TARGET)
    facts = live(session)
    assert len(facts) > GENERATIONS
    for fact in facts:
        assert found(session, fact), f"{fact.kind} {fact.text[:80]!r} at {fact.at} is not found"
