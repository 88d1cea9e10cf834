"""Must-keep facts stand in view or are counted in `Block.unshown`: after every stage, over Blocks of every kind."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.facts.section import is_must_keep
from tenfold.compaction.facts.section_headings import TITLE
from tenfold.compaction.plan.pipeline import Stage
from tenfold.compaction.plan.stages import ClearStage, SummarizePrefixStage, SupersededReadsStage, TruncateStage
from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.text.excerpts import collapse_spaces, has_words
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.tiers.stages import SummarizeOlderStage
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.engine.making import (
    FILLER,
    Telling,
    build_policy,
    make_call,
    make_edit_step,
    make_read_step,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
)

LADDERS: dict[str, tuple[Stage, ...]] = {
    "tenfold": (),
    "elision": (SupersededReadsStage(), TruncateStage(), ClearStage()),
    "summarize-prefix": (SummarizePrefixStage(),),
    "summarize-all": (SummarizeOlderStage(keep_recent_messages=0),),
}


def find_must_keep(session: Session) -> list[Fact]:
    """The must-keep facts of the whole history, extracted from the originals."""
    path = session.view.path
    originals = [
        (p, m) for p, e in enumerate(path.get_entries(0, path.length - 1)) if (m := get_message(e)) is not None
    ]
    return [f for f in extract_facts(originals) if is_must_keep(f)]


def find_missing(session: Session) -> list[Fact]:
    """Those that no message in view says."""
    words = (
        get_text(m) + "\n" + "\n".join(c.arguments for c in get_tool_calls(m)) for m in session.view.get_messages()
    )
    text = collapse_spaces("\n".join(words))
    return [f for f in find_must_keep(session) if not has_words(collapse_spaces(f.text), text)]


def get_newest_block(session: Session) -> Block:
    block = session.view.path.get_entry(session.view.state.live_blocks[-1])
    assert isinstance(block, Block)
    return block


def make_eventful_work(start: int) -> list[Message]:
    """Work with rules, corrections, errors that stay open, and files that come and go."""
    at = 100 + start
    return [
        *make_work(5, start=start, words=30),
        make_user_message(f"No, do not touch config{start}.toml. Use port {4000 + start} instead."),
        make_call(f"t{at}", "bash", f'{{"command": "pytest tests/test_{start}.py"}}'),
        make_result(
            f"t{at}",
            f"collected 9 items\nFAILED tests/test_{start}.py::test_blue - AssertionError: assert {start} == 4\n"
            f"{FILLER * 8}\nexit code: 1",
        ),
        *make_edit_step(at, f"lib/fix{start}.py"),
        make_reply("I will look at it later."),
    ]


@pytest.mark.parametrize("ladder", LADDERS)
def test_three_successive_compactions_of_a_growing_session(ladder: str) -> None:
    session = open_session([], build_policy(stages=LADDERS[ladder]))
    compactions = 0
    for number in range(3):
        session.append(*make_eventful_work(number * 10))
        whole = sum(session.conversation.get_message_sizes().values())
        for percent in (80, 45, 25):
            compactions += session.compact(to=whole * percent // 100).status == "compacted"
            if session.view.state.live_blocks:
                assert len(find_missing(session)) <= get_newest_block(session).unshown_facts
    assert compactions >= 2
    assert len(find_must_keep(session)) > 10


def test_a_block_that_covers_less_than_the_one_before_carries_the_facts_of_both() -> None:
    """The first Block truncates a late failure, the second clears early outputs, the third hides both."""
    early = [
        m
        for n in range(6)
        for m in (make_call(f"a{n}", "grep", '{"q": "x"}'), make_result(f"a{n}", f"hit {n} " + FILLER * 20))
    ]
    log = (
        "ok line\n" * 3_000 + "FAILED tests/test_sky.py::test_blue - AssertionError: assert 3 == 4\n" + "tail\n" * 3_000
    )
    failing = [
        make_call("t", "bash", '{"command": "pytest tests/test_sky.py"}'),
        make_result("t", log, error=True),
        make_reply("I see."),
    ]
    late = [
        m
        for n in range(20, 24)
        for m in (make_call(f"a{n}", "grep", '{"q": "x"}'), make_result(f"a{n}", f"hit {n} " + FILLER * 9))
    ]
    session = open_session(
        [make_user_message("Find the failing test."), *early, *failing, *late],
        build_policy(stages=(TruncateStage(), ClearStage())),
    )
    session.compact(to=6_000)
    assert [(r.first, r.last) for r in get_newest_block(session).replacements] == [(13, 14)]
    session.compact(to=3_200)
    second = get_newest_block(session)
    assert (1, 2) in [(r.first, r.last) for r in second.replacements]
    assert [f.kind for f in session.view.list_block_facts() if f.live and f.kind == "error"] == ["error"]
    session.compactor.use_policy(build_policy(stages=(SummarizeOlderStage(keep_recent_messages=0),)))
    session.append(make_user_message("And now?"))
    session.compact(to=1_000)
    assert find_missing(session) == []
    assert "assert 3 == 4" in str(session.view.get_messages())


def test_there_is_one_facts_section_and_it_is_up_to_date() -> None:
    session = open_session(make_eventful_work(0), build_policy(stages=(ClearStage(),)))
    for number in range(3):
        session.append(*make_work(5, start=number * 10 + 5, words=30))
        assert (
            session.compact(to=sum(session.conversation.get_message_sizes().values()) * 5 // 10).status == "compacted"
        )
        sections = [
            m for m in session.view.get_messages() if (extract_summary_text(get_text(m)) or "").startswith(TITLE)
        ]
        assert len(sections) == 1
        assert f'block="{get_newest_block(session).id}"' in get_text(sections[0])
        passing = [
            make_call(f"p{number}", "bash", f'{{"command": "pytest tests/test_{number}0.py"}}'),
            make_result(f"p{number}", "1 passed"),
        ]
        session.append(*passing, *make_eventful_work(number * 10 + 10))
    section = get_text(sections[0])
    assert "(from: $ pytest tests/test_0.py)" in section
    assert "(from: $ pytest tests/test_10.py)" not in section


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
    assert has_words(words, text) == there


def test_a_changed_file_is_named_although_a_longer_path_in_view_holds_its_name() -> None:
    history = [
        make_user_message("Fix it."),
        *make_edit_step(1, "src/a.py"),
        *[m for n in range(8) for m in make_read_step(n + 10, f"q{n}.py")],
    ]
    history += [
        make_call("g", "grep", '{"q": "other/src/a.pyc"}'),
        make_result("g", "other/src/a.pyc"),
        make_user_message("Go on."),
    ]
    session = open_session(history, build_policy(stages=(SummarizePrefixStage(),)))
    session.compact(to=600)
    assert find_missing(session) == []
    assert "src/a.py" in {f.text for f in session.view.list_block_facts()}


def test_a_facts_section_is_never_summarized_as_ordinary_text() -> None:
    session = open_session([*make_eventful_work(0), *make_work(5, start=5)], build_policy(stages=(ClearStage(),)))
    assert session.compact(to=2_500).status == "compacted"
    assert "<tenfold-summary" in str(session.view.get_messages())
    model = Telling()
    session.compactor.use_policy(build_policy(models=("m",), stages=(SummarizeOlderStage(keep_recent_messages=0),)))
    session.compactor.use_answerer(Answerer(model))
    session.append(*make_work(3, start=50))
    assert session.compact(to=1_500).status == "compacted"
    assert "<tenfold-summary" not in model.asked[0].prompt
