"""What goes wrong around a running agent: summaries that fail, a process that is killed, settings that change."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.apps.agent import Agent
from tenfold.apps.agent.runtime import RESUME_PROMPT
from tenfold.compaction.engine.policy import Policy
from tenfold.config.extensions import Extension
from tenfold.config.settings import LivePolicy, build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import get_text, get_tool_calls, get_tool_result
from tenfold.core.view.units import NO_RESULT
from tenfold.events import CompactionEnd, CompactionStart
from tenfold.models.provider import ProviderModel
from tenfold.models.retry import RetryRule
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.agent import working
from tests.agent.killed import open_session
from tests.agent.test_long_runs import make_look_tool
from tests.agent.working import (
    ANTHROPIC,
    DONE,
    OPENAI,
    RULE,
    TASK,
    Provider,
    assert_log_complete,
    get_blocks,
    get_messages,
    make_session,
    serve_summary,
)
from tests.models.loopback import Got, Served, get_base_url

pytestmark = pytest.mark.costly(2)

WINDOW = 8_000
STEPS = 40
COUNTER = choose_counter("claude").counter
AT_ONCE = RetryRule(sleep=lambda _: None, async_sleep=lambda _: asyncio.sleep(0))
FAULTS = {"fails": Served(status=500, error="scripted"), "late": Served("late", hang=600), "empty": Served("")}
PAIRS = (
    *((policy, fault) for policy in ("tail", "tenfold") for fault in FAULTS),
    ("tiers", "fails"),
    ("threshold", "late"),
    ("threshold", "empty"),
    ("clip", "fails"),
    ("clip", "empty"),
)


def make_agent(
    provider: Provider, memory: Session, model: str = OPENAI, *, extensions: Sequence[Extension] = ()
) -> Agent:
    tools = [make_look_tool(40)]
    return working.make_agent(provider, model, memory=memory, tools=tools, extensions=extensions)


def make_answerer(provider: Provider, *, report: Callable[[str], None] | None = None) -> Answerer:
    """Summaries by a real client, from the same server."""
    model = ProviderModel(OPENAI, base_url=get_base_url(OPENAI, provider))
    return Answerer(model=model, retry_rule=AT_ONCE, problem_reporter=report)


# -- summaries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "fault"), PAIRS)
def test_a_run_goes_on_whatever_becomes_of_its_summaries(policy: str, fault: str) -> None:
    given = build_policy(policy, COUNTER)
    if fault == "late":
        given = replace(given, summary=replace(given.summary, timeout=0.2))
    with Provider(STEPS, WINDOW, writes=lambda _: FAULTS[fault], kept=1) as provider:
        made = make_agent(provider, make_session(given, answerer=make_answerer(provider)))
        assert asyncio.run(made.invoke(TASK)) == DONE
        newest = provider.newest_prompt
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.summaries or fault == "late", "the model was asked"
        assert len(provider.sizes) == STEPS + 1
    assert RULE in newest
    assert_log_complete(made.session, STEPS)
    assert get_blocks(made.session)


@pytest.mark.parametrize("policy", ["tail", "tiers", "threshold", "clip", "tenfold"])
def test_summaries_of_a_real_client_are_shown_to_the_model(policy: str) -> None:
    with Provider(STEPS, WINDOW, kept=1) as provider:
        made = make_agent(provider, make_session(policy, answerer=make_answerer(provider)))
        assert asyncio.run(made.invoke(TASK)) == DONE
        newest = provider.newest_prompt
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows == 0
        assert provider.summaries
    assert "The parts were looked at in turn." in newest
    assert RULE in newest
    assert_log_complete(made.session, STEPS)


# -- compactions by request, and extensions ----------------------------------------------------------------------------


def test_a_model_that_thinks_asks_for_a_compaction() -> None:
    def ask_for_compaction(done: int, got: Got) -> Served | None:
        if done != 25 or "toolu_c18" in got.prompt or not got.body.get("tools"):
            return None
        thought = ("There is little room left.", "signed-c18")
        return Served("A moment.", "tool", call=("c18", "compact", {"focus": "values"}), thought=thought)

    with Provider(40, 24_000, also=ask_for_compaction, thinks=True, several=6) as provider:
        made = make_agent(provider, make_session(), ANTHROPIC)
        assert asyncio.run(made.invoke(TASK)) == DONE
        assert [refused.message for _, refused in provider.refused] == []
        calls = provider.calls
        after = next(got.prompt for got in provider.requests if "toolu_c18" in got.prompt)
    first = get_blocks(made.session)[0]
    assert first.reason.startswith("tool")
    assert "signed-c18" in after
    assert_log_complete(made.session, calls)


def test_a_plug_in_that_raises_is_reported_and_ignored() -> None:
    clumsy, reports = Extension("clumsy"), list[str]()

    @clumsy.before
    def raise_before(consult: ConsultAsk) -> None:
        raise RuntimeError(f"before {consult.target}")

    @clumsy.after
    def raise_after(outcome: Outcome, block: Block) -> None:
        raise KeyError(outcome.status, block.id)

    @clumsy.on(CompactionStart, CompactionEnd)
    def raise_on_event(event: object) -> None:
        raise ValueError(type(event).__name__)

    with Provider(STEPS, WINDOW, kept=1) as provider:
        answerer = make_answerer(provider, report=reports.append)
        made = make_agent(provider, make_session("threshold", answerer=answerer), extensions=[clumsy])
        assert asyncio.run(made.invoke(TASK)) == DONE
        assert provider.refused == []
        assert provider.overflows == 0
    assert get_blocks(made.session)
    said = Counter(next(w for w in ("before-hook", "after-hook", "listener") if w in report) for report in reports)
    assert said["after-hook"] == len(get_blocks(made.session))
    assert said["before-hook"] >= said["after-hook"]
    assert said["listener"] >= 2 * said["after-hook"]
    assert_log_complete(made.session, STEPS)


# -- all of it, in the run of three hundred steps ----------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "then"), [("tenfold", "tail"), ("tail", "tiers")])
def test_three_hundred_steps_in_which_everything_goes_wrong(policy: str, then: str, tmp_path: Path) -> None:
    """Summaries fail, are late and empty in turn, settings change, the model asks, an extension objects and raises."""
    file, reports = tmp_path / "tenfold.toml", list[str]()
    file.write_text(f'[tenfold]\npolicy = "{policy}"\n')
    edits = {120: "[tenfold\n", 150: f'[tenfold]\npolicy = "{then}"\n'}
    answers = cycle((*FAULTS.values(), None))
    careful, asked = Extension("careful"), list[ConsultAsk]()

    @careful.before
    def veto(consult: ConsultAsk) -> Answer | None:
        asked.append(consult)
        if len(asked) == 2:
            raise RuntimeError("an extension with a fault")
        return Answer(cancel=True, error="not now") if len(asked) == 1 else None

    def disturb_step(done: int, got: Got) -> Served | None:
        if done in edits:
            file.write_text(edits.pop(done))
        if done == 90 and "toolu_c90" not in got.prompt:
            return Served("A moment.", "tool", call=("c90", "compact", {"focus": "values"}))
        return None

    live = LivePolicy(COUNTER, file, environ={}, report=reports.append)

    def build_impatient_policy() -> Policy:
        given = live()
        return replace(given, summary=replace(given.summary, timeout=0.2))

    with Provider(
        300, 32_000, also=disturb_step, writes=lambda got: next(answers) or serve_summary(got), kept=1
    ) as provider:
        memory = make_session(build_impatient_policy, answerer=make_answerer(provider, report=reports.append))
        made = make_agent(provider, memory, ANTHROPIC, extensions=[careful])
        assert asyncio.run(made.invoke(TASK)) == DONE
        newest = provider.newest_prompt
        assert [refused.message for _, refused in provider.refused] == []
    assert RULE in newest
    assert edits == {}
    assert any("not TOML" in report for report in reports)
    assert any("an extension with a fault" in report for report in reports)
    made_by = [block.policy for block in get_blocks(made.session)]
    assert set(made_by) == {policy, then}
    assert_log_complete(made.session, 300)


# -- kills -------------------------------------------------------------------------------------------------------------


class Killing(Provider):
    """Kills the process that asks: at requests that a seed chose, while it waits or a moment after its answer."""

    def __init__(self, steps: int, window: int, draw: random.Random, *, times: int) -> None:
        super().__init__(steps, window, also=self._kill_at_step, thinks=True, several=5, kept=1)
        self.moments = {
            done: draw.choice((0.0, draw.uniform(0.0, 0.03))) for done in draw.sample(range(3, steps - 10), times)
        }
        self.child = 0
        self.shown = 0

    def _kill_at_step(self, done: int, got: Got) -> None:
        self.shown += RESUME_PROMPT in (asked := got.prompt) and NO_RESULT in asked
        moment = self.moments.pop(done, None)
        if moment:
            threading.Timer(moment, kill_process, (self.child,)).start()
        elif moment is not None:
            kill_process(self.child)


def kill_process(child: int) -> None:
    """Kills a process. It may be gone: a tool killed it from within, or an earlier moment came late."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def restart_until_done(provider: Killing, model: str, log: Path, ran: Path, dies: str) -> int:
    """Starts the process again until it ends by itself; how often it was killed."""
    arguments = (str(log), get_base_url(model, provider), model, str(ran), dies)
    command = [sys.executable, "-m", "tests.agent.killed", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starts:
        assert starts.stdin is not None
        assert starts.stdout is not None
        for kills in range(20):
            print(file=starts.stdin, flush=True)
            said: list[str] = []
            for line in starts.stdout:
                said.append(line.strip())
                if line.startswith("pid "):
                    provider.child = int(line.split()[1])
                if line.startswith("ended "):
                    break
            if said[-1] != f"ended {-signal.SIGKILL}":
                starts.stdin.close()
                assert (DONE in said, said[-1]) == (True, "ended 0"), said
                return kills
    raise AssertionError("it was killed more often than anybody wanted")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_that_is_killed_goes_on_and_loses_and_repeats_nothing(tmp_path: Path) -> None:
    draw = random.Random(2)  # noqa: S311 - it chooses moments
    dies = f"src/part{draw.randint(5, 150)}.py"
    with Killing(160, 32_000, draw, times=4) as provider:
        kills = restart_until_done(provider, ANTHROPIC, tmp_path / "log.db", tmp_path / "ran", dies)
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows == 0
    assert kills >= 4
    log = open_session(tmp_path / "log.db")
    said = get_messages(log)
    called = [json.loads(call.arguments)["path"] for message in said for call in get_tool_calls(message)]
    ids = {call.id: json.loads(call.arguments)["path"] for message in said for call in get_tool_calls(message)}
    answered = [ids[part.call_id] for message in said if (part := get_tool_result(message)) is not None]
    ran = (tmp_path / "ran").read_text().split()
    assert sum(get_text(message) == TASK for message in said) == 1
    assert len(set(ran)) == len(ran), "no call is run twice"
    assert set(ran) <= set(called), "a call is in the log before it is run"
    assert called == sorted(called, key=parse_number), "and in order, each once"
    assert len(set(called)) == len(called)
    assert sorted(answered) == sorted(set(answered))
    assert set(answered) <= set(ran)
    assert dies in set(ran) - set(answered), "its outcome is not known"
    assert provider.shown, "and that is what the model is told"
    assert RULE in "".join(get_text(message) for message in log.view.get_messages())


def parse_number(path: str) -> int:
    """The number in a path of the task."""
    return int(path.removeprefix("src/part").removesuffix(".py"))
