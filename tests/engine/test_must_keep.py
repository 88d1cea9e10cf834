"""Must-keep facts stand in view or are counted in `Block.unshown`: after every stage, over Blocks of every kind."""

from __future__ import annotations

import pytest

from tenfold.drive import Answerer
from tenfold.plan.plan import Stage
from tenfold.plan.stages import Clear, DropMiddle, OneLine, SummarizePrefix, SupersededReads, Truncate
from tenfold.record.block import Block, Fact
from tenfold.record.entry import message_of
from tenfold.record.message import Message, calls_of, text_of
from tenfold.session import Session
from tenfold.summarize.facts import extract
from tenfold.summarize.fill import flat, is_section, stands
from tenfold.summarize.section import must_keep
from tests.engine.making import FILLER, Telling, called, edited, gave, opened, policy, read, said, user, work

LADDERS: dict[str, tuple[Stage, ...]] = {
    "tenfold": (),
    "elision": (SupersededReads(), Truncate(), Clear()),
    "one-line": (OneLine(),),
    "drop-middle": (DropMiddle(),),
    "summarize-prefix": (SummarizePrefix(),),
    "summarize-all": (SummarizePrefix(keep_tail=False),),
}


def live(session: Session) -> list[Fact]:
    """The must-keep facts of the whole history, extracted from the originals."""
    path = session.view.path
    originals = [(p, m) for p, e in enumerate(path.span(0, path.length - 1)) if (m := message_of(e)) is not None]
    return [f for f in extract(originals) if must_keep(f)]


def missing(session: Session) -> list[Fact]:
    """Those that no message in view says."""
    words = (text_of(m) + "\n" + "\n".join(c.arguments for c in calls_of(m)) for m in session.view.messages())
    text = flat("\n".join(words))
    return [f for f in live(session) if not stands(flat(f.text), text)]


def newest(session: Session) -> Block:
    block = session.view.path.at(session.view.marks.live[-1])
    assert isinstance(block, Block)
    return block


def eventful(start: int) -> list[Message]:
    """Work with rules, corrections, errors that stay open, and files that come and go."""
    at = 100 + start
    return [
        *work(5, start=start, words=30),
        user(f"No, do not touch config{start}.toml. Use port {4000 + start} instead."),
        called(f"t{at}", "bash", f'{{"command": "pytest tests/test_{start}.py"}}'),
        gave(f"t{at}", f"FAILED tests/test_{start}.py::test_blue - AssertionError: assert {start} == 4", error=True),
        *edited(at, f"lib/fix{start}.py"),
        said("I will look at it later."),
    ]


@pytest.mark.parametrize("ladder", LADDERS)
def test_three_successive_compactions_of_a_growing_session(ladder: str) -> None:
    session = opened([], policy(stages=LADDERS[ladder]))
    compactions = 0
    for number in range(3):
        session.append(*eventful(number * 10))
        whole = sum(session.sizes().values())
        for percent in (80, 45, 25):
            compactions += session.compact(to=whole * percent // 100).status == "compacted"
            if session.view.marks.live:
                assert len(missing(session)) <= newest(session).unshown
    assert compactions >= 2
    assert len(live(session)) > 10


def test_a_block_that_covers_less_than_the_one_before_carries_the_facts_of_both() -> None:
    """The first Block truncates a late failure, the second clears early outputs, the third hides both."""
    early = [
        m for n in range(6) for m in (called(f"a{n}", "grep", '{"q": "x"}'), gave(f"a{n}", f"hit {n} " + FILLER * 20))
    ]
    log = (
        "ok line\n" * 3_000 + "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4\n" + "tail\n" * 3_000
    )
    failing = [
        called("t", "bash", '{"command": "pytest tests/test_sky.py"}'),
        gave("t", log, error=True),
        said("I see."),
    ]
    late = [
        m
        for n in range(20, 24)
        for m in (called(f"a{n}", "grep", '{"q": "x"}'), gave(f"a{n}", f"hit {n} " + FILLER * 9))
    ]
    session = opened([user("Find the failing test."), *early, *failing, *late], policy(stages=(Truncate(), Clear())))
    session.compact(to=6_000)
    assert [(r.first, r.last) for r in newest(session).replacements] == [(13, 14)]
    session.compact(to=3_200)
    second = newest(session)
    assert (1, 2) in [(r.first, r.last) for r in second.replacements]
    assert [f.kind for f in second.facts if f.live and f.kind == "error"] == ["error"]
    session.policy = policy(stages=(SummarizePrefix(keep_tail=False),))
    session.append(user("And now?"))
    session.compact(to=1_000)
    assert missing(session) == []
    assert "assert 3 == 4" in str(session.view.messages())


def test_there_is_one_facts_section_and_it_is_up_to_date() -> None:
    session = opened(eventful(0), policy(stages=(Clear(),)))
    for number in range(3):
        assert session.compact(to=sum(session.sizes().values()) * 6 // 10).status == "compacted"
        sections = [m for m in session.view.messages() if is_section(m)]
        assert len(sections) == 1
        assert f'block="{newest(session).id}"' in text_of(sections[0])
        passing = [
            called(f"p{number}", "bash", f'{{"command": "pytest tests/test_{number}0.py"}}'),
            gave(f"p{number}", "1 passed"),
        ]
        session.append(*passing, *eventful(number * 10 + 10))
    section = text_of(sections[0])
    assert "[failed] pytest tests/test_20.py" in section
    assert "[failed] pytest tests/test_10.py" not in section


@pytest.mark.parametrize(
    ("words", "text", "there"),
    [
        ("src/a.py", "see src/a.py", True),
        ("src/a.py", "changed src/a.py.", True),
        ("src/a.py", '{"path": "src/a.py"}', True),
        ("src/a.py", "src/a.pyc", False),
        ("src/a.py", "src/a.py.bak", False),
        ("src/a.py", "other/src/a.py", False),
        ("a.py", "data.py", False),
        ("a.py", "data.py and a.py", True),
        ("Use port 80", "Use port 8080", False),
        ("", "anything", False),
    ],
)
def test_a_fact_stands_only_for_itself(words: str, text: str, there: bool) -> None:  # noqa: FBT001
    assert stands(words, text) == there


def test_a_changed_file_is_named_although_a_longer_path_in_view_holds_its_name() -> None:
    history = [user("Fix it."), *edited(1, "src/a.py"), *[m for n in range(8) for m in read(n + 10, f"q{n}.py")]]
    history += [called("g", "grep", '{"q": "other/src/a.pyc"}'), gave("g", "other/src/a.pyc"), user("Go on.")]
    session = opened(history, policy(stages=(SummarizePrefix(),)))
    session.compact(to=600)
    assert missing(session) == []
    assert "src/a.py" in {f.text for f in newest(session).facts}


def test_a_facts_section_is_never_summarized_as_ordinary_text() -> None:
    session = opened(eventful(0), policy(stages=(Clear(),)))
    assert session.compact(to=2_500).status == "compacted"
    assert "<tenfold-summary" in str(session.view.messages())
    model = Telling()
    session.policy = policy(models=("m",), stages=(SummarizePrefix(keep_tail=False),))
    session.answerer = Answerer(model)
    session.append(*work(3, start=50))
    assert session.compact(to=1_500).status == "compacted"
    assert "<tenfold-summary" not in model.asked[0].prompt
