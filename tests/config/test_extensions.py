"""A user's hooks and listeners: from code, from the settings, in a session and in an agent."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import get_args

import pytest
from pydantic_ai.models.test import TestModel

from tenfold.apps.agent import Agent
from tenfold.apps.cli.main import run
from tenfold.config.extensions import EVENT_TYPES, Extension
from tenfold.config.settings import load_settings
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import get_text
from tenfold.errors import UsageError
from tenfold.events import (
    BranchSwitch,
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
    CompactionWarning,
    Event,
    RequestOverflow,
    RunEnd,
    RunSave,
    RunStart,
)
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session
from tenfold.session.branches import BranchOptions, navigate
from tenfold.session.drive import Answerer
from tests.agent.working import DONE, TASK, Provider, look, make_agent
from tests.engine.making import make_reply, make_user_message, open_session
from tests.sessions import ROOT

WHEN_NAMED = Extension("when-named")
HEARD: list[Event] = []
WHEN_NAMED.on()(HEARD.append)
WORDS = "words " * 300


def make_session(answerer: Answerer) -> Session:
    said = [(make_user_message(f"question {n} {WORDS}"), make_reply(f"answer {n} {WORDS}")) for n in range(20)]
    return open_session([message for both in said for message in both], answerer=answerer)


def test_hooks_and_listeners_have_their_say_in_order() -> None:
    heard: list[str] = []
    one, two = Extension("one"), Extension("two")

    @one.before
    def dwell(consult: ConsultAsk) -> Answer:
        heard.append(f"one before: {consult.purpose}")
        return Answer(focus="the numbers")

    @two.before
    def say_nothing(consult: ConsultAsk) -> None:
        heard.append("two before")
        del consult

    @one.after
    def note_end(outcome: Outcome, block: Block) -> None:
        heard.append(f"one after: {outcome.block == block.id}")

    @two.on(CompactionStart, CompactionEnd)
    def tell(event: CompactionStart | CompactionEnd) -> None:
        heard.append(f"two on {type(event).__name__}")

    model = ScriptedModel(["A summary."], repeat=True)
    made = make_session(Answerer(model=model).with_extensions([one, two]))
    assert made.compact(to=2_000).status == "compacted"
    assert heard == [
        "one before: compaction",
        "two before",
        "two on CompactionStart",
        "two on CompactionEnd",
        "one after: True",
    ]
    assert "the numbers" in model.asks[0].prompt


def test_an_extension_cancels_and_supplies() -> None:
    keep, own = Extension("keep"), Extension("own")
    keep.before(lambda _: Answer(cancel=True, error="a release is under way"))
    own.before(lambda _: Answer(text="What matters is the answer 19."))
    outcome = make_session(Answerer().with_extensions([keep])).compact(to=2_000)
    assert (outcome.status, "a release is under way" in outcome.reason) == ("cancelled", True)
    made = make_session(Answerer().with_extensions([own]))
    assert made.compact(to=2_000).status == "compacted"
    assert any("What matters is the answer 19." in get_text(m) for m in made.view.get_messages())


def test_one_that_raises_is_reported_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    bad = Extension("bad")

    @bad.before
    def raise_before(_: ConsultAsk) -> Answer | None:
        raise RuntimeError(f"broken, with sk-{'a' * 40}")

    @bad.after
    def raise_after(*_: Outcome | Block) -> None:
        raise KeyError("after")

    @bad.on(CompactionEnd)
    def raise_on_event(_: Event) -> None:
        raise ValueError("on")

    reports: list[str] = []
    heard = Answerer(problem_reporter=reports.append).with_extensions([bad])
    assert make_session(heard).compact(to=2_000).status == "compacted"
    assert [r.partition(":")[0] for r in reports] == [
        "a before-hook raised RuntimeError",
        "a listener raised ValueError",
        "an after-hook raised KeyError",
    ]
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        assert make_session(Answerer().with_extensions([bad])).compact(to=2_000).status == "compacted"
    assert len(caplog.records) == 3, "without anybody to report to, the log of the program is told"
    assert "sk-aaaa" not in caplog.text


def test_moving_between_branches_is_asked_about_and_told() -> None:
    asked: list[str] = []
    moved: list[Event] = []
    watch = Extension("watch")

    @watch.before
    def ask(consult: ConsultAsk) -> Answer | None:
        asked.append(consult.purpose)
        return Answer(cancel=True, error="not away from here") if len(asked) == 1 else None

    watch.on(BranchSwitch)(moved.append)
    made = make_session(Answerer().with_extensions([watch]))
    target = made.view.path.get_entry(5).id
    assert navigate(made, target, BranchOptions(has_summary=True)).status == "cancelled"
    assert moved == []
    assert navigate(made, target, BranchOptions(has_summary=True)).status == "moved"
    assert asked == ["branch", "branch"]
    assert len(moved) == 1


def test_an_agent_tells_of_its_runs_and_of_overflows() -> None:
    heard: list[Event] = []
    watch = Extension("watch")
    watch.on(RunStart, RunEnd, RequestOverflow)(heard.append)
    with Provider(60, 20_000) as provider:
        plain = make_agent(provider)
        made = Agent(plain.model, session=plain.session, window=200_000, tools=[look], extensions=[watch])
        assert asyncio.run(made.invoke(TASK)) == DONE
    assert isinstance(heard[0], RunStart)
    assert heard[0].prompt == TASK
    assert any(isinstance(event, RequestOverflow) and event.tokens > 5_000 for event in heard)
    assert isinstance(heard[-1], RunEnd)
    assert heard[-1].status == "ok"


@pytest.fixture(params=["tests.config.test_extensions:WHEN_NAMED", "watch"])
def settings_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that name an extension: by its module, or by the name under which an installed package publishes it."""
    info = tmp_path / "watching-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: watching\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tenfold.extensions]\nwatch = tests.config.test_extensions:WHEN_NAMED\n")
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / "tenfold.toml"
    place.write_text(f'[tenfold]\nextensions = ["{request.param}"]\n')
    HEARD.clear()
    return place


def test_settings_name_extensions(settings_file: Path) -> None:
    extensions = load_settings(settings_file, environ={}).load_extensions()
    assert [extension.name for extension in extensions] == ["when-named"]
    asyncio.run(Agent(TestModel(call_tools=[]), window=100_000, extensions=extensions).invoke("Hello."))
    assert [type(event) for event in HEARD] == [RunStart, RunSave, RunEnd]


def test_the_command_line_takes_them_too(settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_CONFIG", str(settings_file))
    session = str(ROOT / "examples" / "sessions" / "desk.openai-chat.json")
    assert run(["compact", session, "--to", "10%", "--store", str(tmp_path / "s.db")]) == 0
    assert [type(event) for event in HEARD] == [CompactionStart, CompactionEnd]


def test_what_is_no_hook_is_said() -> None:
    extension = Extension("mine")
    with pytest.raises(UsageError, match="mine: no type of event: int; there are CompactionWarning"):
        extension.on(int)  # type: ignore[arg-type]
    assert set(EVENT_TYPES) == set(get_args(Event))
    assert {CompactionSkip, CompactionFailure, CompactionWarning} < set(EVENT_TYPES)
