"""The custom stage of docs/custom-stage.md, run exactly as it is printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.plan.plan import Stage
from tenfold.policy import Policy
from tests.engine.making import FILLER, blocks, edited, opened, policy, read, said, user

PAGE = Path(__file__).parents[2] / "docs" / "custom-stage.md"
STAGE, POLICY = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


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
    musing = said("Let me think about this. " + FILLER * 10)
    history = [user("Never touch db.py. Tidy up."), *read(1, "a.py"), musing, *edited(2, "a.py"), said("Done.")]
    history += [user("Now the rest."), *read(3, "b.py"), musing, *edited(4, "b.py")]
    kind = printed["DropMusings"]
    assert isinstance(kind, type)
    stage: Stage = kind()
    using = replace(policy(), stages=(stage,), shares=replace(policy().shares, tail=0.02))
    session = opened(history, using)
    outcome = session.compact(to=900)
    assert outcome.status == "compacted"
    (block,) = blocks(session)
    assert [(r.first, r.last, r.kind) for r in block.replacements] == [(3, 3, "drop-musings"), (10, 10, "drop-musings")]
    rest = [m for m in history if m != musing]
    assert [m for m in session.view.messages() if m.origin != "tenfold"] == rest
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert session.violations(wire) == ()
    assert [line.message for line in session.expand(block.id, deep=True)] == [musing, musing]
    session.undo()
    assert session.view.messages() == history


def test_it_is_discarded_where_it_saves_nothing(printed: dict[str, object]) -> None:
    kind = printed["DropMusings"]
    assert isinstance(kind, type)
    session = opened([user("go"), *read(1, "a.py"), said("ok")], replace(policy(), stages=(kind(),)))
    held = session.view.messages()
    assert session.compact(to=10).status == "nothing"
    assert session.view.messages() == held
