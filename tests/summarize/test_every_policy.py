"""Over every preset: no must-keep fact is lost and nothing invented kept, whatever the model does, however often."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tenfold.compaction.plan.draft import SUMMARY_OVERHEAD
from tenfold.compaction.summarize.fill import MAX_CARRIED_MUST_KEEP, MAX_CARRIED_OTHERS
from tenfold.config.policies import POLICIES
from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.block import BlockPart, ModelCost
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.core.wire.marks import extract_summary_text
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests import sessions
from tests.engine.making import (
    COUNTER,
    make_call,
    make_edit_step,
    make_read_step,
    make_reply,
    make_result,
    make_user_message,
    open_session,
)
from tests.laws.presets import QUICK, find_missing_facts, find_newest_block, get_live_facts
from tests.thorough import is_taken

INVENTED = "src/ghost/invented_module.py"
RULES = tuple(f"Never touch the {name} table." for name in ("orders", "users", "invoices", "audit"))
ERROR = "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4"


class Answering:
    """A model that writes under the headings it is asked for what `tell` gives for an Ask, and counts its calls."""

    def __init__(self, tell: Callable[[SummaryAsk], str]) -> None:
        self.tell = tell
        self.asked: list[SummaryAsk] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        told = self.tell(ask)
        asked_for = ask.prompt.partition("\n<")[0]
        headings = [line for line in asked_for.split("\n") if line.startswith("## ")]
        text = "\n".join(f"{heading}\n{told}" for heading in headings) or told
        return Answer(text=text, spent=ModelCost(1, 10, 10, "m"))


def open_with_model(name: str, model: object | None, messages: Sequence[Message] = ()) -> Session:
    """A session under the preset, which asks `model` for its summaries, or nobody."""
    made = POLICIES[name](COUNTER)
    if model is None:
        return open_session(messages, made)
    made = replace(made, summary=replace(made.summary, models=("m",)))
    return open_session(messages, made, answerer=Answerer(model, retry_rule=QUICK))  # type: ignore[arg-type]


def get_view_text(session: Session) -> str:
    words = (
        get_text(m) + "\n" + "\n".join(c.arguments for c in get_tool_calls(m)) for m in session.view.get_messages()
    )
    return collapse_spaces("\n".join(words))


def build_eventful_messages() -> list[Message]:
    """A conversation of many words and few outputs, with eight facts that must be kept."""
    talk = "We looked at how the parts depend on each other, and talked through what follows from that for the rest. "
    out: list[Message] = [make_user_message("Please move the billing code to the new schema.")]
    for number, rule in enumerate(RULES):
        out += [
            make_reply(f"Part {number}: " + talk * 12),
            make_user_message(f"Go on. {rule}"),
            make_reply("I see. " + talk * 12),
        ]
        out += make_edit_step(number, f"lib/billing_{number}.py")
    out += [make_call("t", "bash", '{"command": "pytest tests/test_sky.py"}'), make_result("t", ERROR, error=True)]
    for number in range(8):
        out += [
            make_reply(f"On {number}: " + talk * 12),
            make_user_message(f"And what is in part {number} of the old schema?"),
        ]
    return [*out, make_reply("That is all of it. " + talk * 6), make_user_message("Now finish the invoices page.")]


def build_long_run() -> list[Message]:
    """The same, with all that the user says in one message at the beginning, and long outputs."""
    talk = build_eventful_messages()
    asked = " ".join(get_text(m) for m in talk if m.role == "user")
    out = [make_user_message(asked), *(m for m in talk if m.role != "user")]
    return [*out, *(m for n in range(6) for m in make_read_step(n, f"lib/old_{n}.py"))]


def compact_with_model(name: str, tell: Callable[[SummaryAsk], str]) -> tuple[Session, Outcome, Answering]:
    """A session with a summary that a model wrote; `blocks` asks one only where lines are not enough."""
    for history, target in (
        (build_eventful_messages(), 1_600),
        (build_long_run(), 1_600),
        (build_long_run(), 1_200),
        (build_long_run(), 900),
    ):
        model = Answering(tell)
        session = open_with_model(name, model, history)
        outcome = session.compact(to=target)
        if outcome.status == "compacted" and model.asked:
            return session, outcome, model
    raise AssertionError(f"{name} asked no model: {outcome.reason}")


@pytest.mark.parametrize("name", POLICIES)
def test_a_model_that_drops_half_of_the_facts_and_invents_a_path(name: str) -> None:
    half = " ".join(RULES[::2])

    def answer_carelessly(_ask: SummaryAsk) -> str:
        return f"The schema work went on. {half} It also rewrote {INVENTED} from scratch. The rest is planned."

    session, outcome, _ = compact_with_model(name, answer_carelessly)
    facts = get_live_facts(session)
    assert all(any(must in f.text for f in facts) for must in (*RULES, ERROR))
    text = get_view_text(session)
    assert all(rule in text for rule in RULES)
    if name != "clip":  # there other facts take at most a quarter of the archive, and the rest is counted
        assert find_missing_facts(session) == []
        assert all(must in text for must in (ERROR, "lib/billing_0.py", "lib/billing_3.py"))
    block = find_newest_block(session)
    assert block is not None
    assert text.count(INVENTED) == text.count(f"{INVENTED} [unconfirmed]") == outcome.unconfirmed > 0
    assert "The schema work went on." in text, "no sentence is taken out"


@pytest.mark.parametrize(("window", "said"), [(8_000, 1), (8_000, 10), (32_000, 1)])
@pytest.mark.parametrize("name", POLICIES)
def test_the_users_rules_stay_however_short_the_text_is(name: str, window: int, said: int) -> None:
    """`tail` and `clip` bind their facts to the length of the text, and dropped the rules with the rest."""
    rules = [f"Never change lib/part{n}.py without the approval of the owner." for n in range(12)]
    history: list[Message] = []
    for number, rule in enumerate(rules):
        history += [make_user_message(f"Please see to part {number}. {rule}"), *make_read_step(number, f"a{number}.py")]
        history += [make_reply(f"Part {number} is done. " + "We went on with the parts as agreed. " * (window // 200))]
    session = open_with_model(name, Answering(lambda _: "We went on with the parts as agreed. " * said), history)
    assert session.compact(window=window).status == "compacted"
    text = get_view_text(session)
    assert [rule for rule in rules if rule not in text] == []


LONGEST = ("claude-code/large-conversation.jsonl", "pi/before-compaction.jsonl")
GENERATIONS, TARGET = 10, 6_000


def read_stretches(name: str) -> list[list[Message]]:
    """A recorded session in ten stretches."""
    sessions.require_sessions()
    path = next(p for p in sessions.list_session_files() if sessions.get_short_name(p) == name)
    longest = max(sessions.read(path), key=lambda each: len(each.entries))
    messages = [m for e in longest.entries if (m := get_message(e)) is not None]
    size = -(-len(messages) // GENERATIONS)
    return [messages[start : start + size] for start in range(0, len(messages), size)]


def answer_well(ask: SummaryAsk) -> str:
    """A summary of some length that holds words of the source, and of the summary before it."""
    told = re.findall(r"^\[\d+\] USER\n([^\n]{10,80})", ask.prompt, re.MULTILINE)[:3]
    return (
        " ".join(f"It was asked: {' '.join(re.findall(r'[A-Za-z]+', each))}." for each in told) or "The work went on."
    )


def find_own_messages(session: Session) -> list[tuple[Message, int]]:
    """All that we wrote and that stands in view (summaries, facts, lines and stubs), each with its tokens."""
    sizes = session.conversation.get_message_sizes()
    return [(s.message, sizes[s.key]) for s in session.view.get_visible_messages() if s.message.origin == "tenfold"]


def is_reachable(session: Session, position: int) -> bool:
    """Whether the original at this position is in view, or among what the Block over it expands to."""
    path = session.view.path
    wanted = path.get_entry(position).id
    if any(s.is_original and s.position == position for s in session.view.get_visible_messages()):
        return True
    for ref in session.view.range_refs:
        if isinstance(ref, BlockPart) and ref.first <= position <= ref.last:
            return any(line.entry == wanted for line in session.expand(path.get_entry(ref.block).id, deep=True))
    return False


def is_found(session: Session, fact: Fact) -> bool:
    """Whether one search for a fact's words, or its file's name, finds the step that it was taken from."""
    name = fact.text.rpartition("/")[2] if fact.kind.startswith("file_") else fact.text
    words = " ".join(re.findall(r"\w+", name)[:6])
    return any(fact.position - 10 <= hit.position <= fact.position for hit in session.search(words, limit=100))


GROWING = [
    (name, file, model)
    for at, (name, file, model) in enumerate(itertools.product(POLICIES, LONGEST, ("well", "none")))
    if is_taken("", at + at // 2, 2)
]
"""Each policy with each session, with one model or the other; with both in a thorough run."""


@pytest.mark.costly(3)
@pytest.mark.parametrize(("name", "file", "model"), GROWING)
def test_ten_compactions_of_a_growing_session(name: str, file: str, model: str) -> None:
    session = open_with_model(name, Answering(answer_well) if model == "well" else None)
    done = 0
    for stretch in read_stretches(file):
        session.append(*stretch)
        outcome = session.compact(to=TARGET)
        done += outcome.status == "compacted"
        assert sum(size for _, size in find_own_messages(session)) <= TARGET
        summaries = [size for m, size in find_own_messages(session) if extract_summary_text(get_text(m)) is not None]
        share = session.policy.derive_goal(Counted(TARGET), recall="none").summary_budget
        most = max(share, TARGET * 6 // 10) + SUMMARY_OVERHEAD
        assert max(summaries) <= most, "narrative and facts together keep to their share"
        block = find_newest_block(session)
        lost = find_missing_facts(session)
        assert block is not None
        assert len(lost) <= block.unshown_facts + block.dropped_facts
        assert len(session.view.list_block_facts()) <= MAX_CARRIED_MUST_KEEP + MAX_CARRIED_OTHERS + 200
    assert done >= GENERATIONS // 2
    said_at = (p for p in range(session.view.length) if get_message(session.view.path.get_entry(p)) is not None)
    first = next(p for p in said_at if get_message(session.view.path.get_entry(p)).role == "user")  # type: ignore[union-attr]
    for position in (first, first + 1):
        assert is_reachable(session, position)


@pytest.mark.costly(2)
@pytest.mark.parametrize("file", LONGEST)
def test_what_must_be_kept_is_found_by_its_words(file: str) -> None:
    session = open_with_model("tail", None)
    for stretch in read_stretches(file):
        session.append(*stretch)
        session.compact(to=TARGET)
    facts = get_live_facts(session)
    assert len(facts) > GENERATIONS
    for fact in (fact for at, fact in enumerate(facts) if is_taken(file, at, 4)):
        assert is_found(session, fact), f"{fact.kind} {fact.text[:80]!r} at {fact.position} is not found"
