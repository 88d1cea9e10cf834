"""The custom stages of docs/custom-stage.md, run exactly as they are printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.pipeline import Stage
from tests.engine.making import (
    FILLER,
    build_policy,
    get_blocks,
    make_edit_step,
    make_read_step,
    make_reply,
    make_user_message,
    open_session,
)

PAGE = Path(__file__).parents[2] / "docs" / "custom-stage.md"
STAGE, POLICY, KEEPING = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def printed() -> dict[str, object]:
    """What the page defines."""
    names: dict[str, object] = {}
    exec(compile(STAGE + POLICY, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours, and running it is the point
    return names


def test_it_is_about_twenty_lines() -> None:
    body = STAGE.partition("class ")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_the_printed_policy_runs_it_first(printed: dict[str, object]) -> None:
    made = printed["policy"]
    assert isinstance(made, Policy)
    assert made.stages[0].name == "drop-musings"
    assert len(made.stages) == 6


def test_it_hides_musings_and_nothing_else_under_all_laws(printed: dict[str, object]) -> None:
    musing = make_reply("Let me think about this. " + FILLER * 10)
    history = [
        make_user_message("Never touch db.py. Tidy up."),
        *make_read_step(1, "a.py"),
        musing,
        *make_edit_step(2, "a.py"),
        make_reply("Done."),
    ]
    history += [make_user_message("Now the rest."), *make_read_step(3, "b.py"), musing, *make_edit_step(4, "b.py")]
    kind = printed["DropMusings"]
    assert isinstance(kind, type)
    stage: Stage = kind()
    using = replace(build_policy(), stages=(stage,), shares=replace(build_policy().shares, tail=0.02))
    session = open_session(history, using)
    outcome = session.compact(to=900)
    assert outcome.status == "compacted"
    (block,) = get_blocks(session)
    assert [(r.first, r.last, r.kind) for r in block.replacements] == [(3, 3, "drop-musings"), (10, 10, "drop-musings")]
    rest = [m for m in history if m != musing]
    assert [m for m in session.view.get_messages() if m.origin != "tenfold"] == rest
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert session.conversation.find_violations(wire) == ()
    assert [line.message for line in session.expand(block.id, deep=True)] == [musing, musing]
    session.undo()
    assert session.view.get_messages() == history


def test_it_is_discarded_where_it_saves_nothing(printed: dict[str, object]) -> None:
    kind = printed["DropMusings"]
    assert isinstance(kind, type)
    session = open_session(
        [make_user_message("go"), *make_read_step(1, "a.py"), make_reply("ok")],
        replace(build_policy(), stages=(kind(),)),
    )
    held = session.view.get_messages()
    assert session.compact(to=10).status == "nothing"
    assert session.view.get_messages() == held


def test_the_users_last_messages_stay_word_for_word(printed: dict[str, object]) -> None:
    exec(compile(KEEPING, str(PAGE), "exec"), printed)  # noqa: S102 - the page is ours, as above
    made = printed["policy"]
    assert isinstance(made, Policy)
    asked = [make_user_message(f"Request {number}: tidy up file {number}. {FILLER}") for number in range(8)]
    history = [m for n, said in enumerate(asked) for m in (said, *make_read_step(n, f"{n}.py"), make_reply(FILLER * 8))]
    kept = {}
    for using in (replace(made, stages=made.stages[1:]), made):
        session = open_session(history, using)
        assert session.compact(to=1_500).status == "compacted"
        shown = session.view.get_messages()
        assert [session.conversation.find_violations(wire) for wire in ("anthropic", "openai-chat", "gemini")] == [
            ()
        ] * 3
        kept[using.stages[0].name] = [said for said in asked if said in shown]
    assert kept["keep-last-requests"] == asked[-3:]
    assert len(kept["drop-musings"]) < 3
