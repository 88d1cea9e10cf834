"""`tenfold run`: lines that programs can read, refusals, allowances, ends of every kind, and going on after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.cli.headless_run import MAX_RESULT_CHARACTERS, JsonLines, run_headless
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text
from tenfold.events import (
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
    CompactionWarning,
    RequestOverflow,
    SummaryFailure,
)
from tenfold.store.sqlite.store import SqliteStore
from tests.agent.bench import posix
from tests.agent.test_workbench_commands import is_gone
from tests.cli.conftest import Cli, Ran
from tests.models.conftest import SECRET
from tests.models.loopback import Got, Loopback, Served, get_base_url
from tests.shape.scan import ROOT

Line = dict[str, Any]
OPENAI, ANTHROPIC = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
COMPACTIONS = {
    kind.__struct_config__.tag: kind
    for kind in (
        CompactionWarning,
        CompactionStart,
        CompactionEnd,
        CompactionSkip,
        CompactionFailure,
        SummaryFailure,
        RequestOverflow,
    )
}
DEMONSTRATION = ("--model", "demonstration")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that open nothing."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, SECRET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "prices.txt").write_text("".join(f"price of item {n}: {n}.99\n" for n in range(60)))
    return folder


PAGE = (ROOT / "docs" / "run.md").read_text("utf-8")
EVENT_KEYS = {
    event: tuple(re.findall(r"`(\w+)`", keys))
    for event, keys in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE)
    if event != "event"
}
"""The keys of each line by its `event`, as the page lists them."""


def check_lines(lines: list[Line]) -> list[Line]:
    """The lines, each with the keys that the page lists."""
    for line in lines:
        keys = set(EVENT_KEYS[line["event"]]) | {"event"}
        if line["event"] == "compaction":
            keys |= set(COMPACTIONS[line["type"]].__struct_fields__)
        assert set(line) == keys
    return lines


def filter_lines(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


def run_task(tenfold: Cli, folder: Path, words: str, *options: str) -> Ran:
    return tenfold("run", "--json", "--task", words, "--folder", folder, *options)


def build_model_options(loopback: Loopback, model: str = OPENAI) -> tuple[str, ...]:
    return "--model", model, "--base-url", get_base_url(model, loopback)


def serve_call(tool: str, **given: str) -> Served:
    return Served("I do it.", finish="tool", call=("1", tool, given))


# -- the demonstration -------------------------------------------------------------------------------------------------


def test_without_any_key_or_setting_it_runs_the_demonstration(tmp_path: Path, folder: Path) -> None:
    env = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **get_windows_environment()}
    store = str(tmp_path / "s.db")
    program = [
        sys.executable,
        "-m",
        "tenfold",
        "run",
        "--json",
        "--task",
        "What is the price of item 7?",
        "--store",
        store,
    ]
    ran = subprocess.run(program, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
    assert ran.returncode == 0, ran.stderr
    lines = check_lines([json.loads(line) for line in ran.stdout.splitlines()])
    assert [line["event"] for line in lines] == [
        *("started", "text", "call", "result", "text", "call", "result", "text", "call", "result", "text"),
        *("usage", "finished"),
    ]
    started, finished = lines[0], lines[-1]
    assert (started["model"], started["demonstration"], started["window"]) == ("demonstration", True, 16_000)
    assert started["folder"] == str(folder.resolve())
    assert [line["tool"] for line in filter_lines(lines, "call")] == ["list_files", "search_files", "read_file"]
    assert finished["status"] == "ok"
    assert "scripted demonstration" in finished["answer"]
    assert finished["answer"] == filter_lines(lines, "text")[-1]["text"]


def get_windows_environment() -> dict[str, str]:
    """What Python itself needs on Windows."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "USERPROFILE") if name in os.environ}


def test_a_small_window_is_compacted_and_told_with_its_numbers(tenfold: Cli, folder: Path) -> None:
    lines: list[Line] = []
    for _ in range(6):
        more = ("--session", "last") if lines else ()
        lines += check_lines(
            run_task(tenfold, folder, "Which price is too low?", *DEMONSTRATION, "--window", "6000", *more).objects
        )
    told = [line["type"] for line in filter_lines(lines, "compaction")]
    assert "started" in told
    ended = next(line for line in lines if line.get("type") == "ended")
    assert 0 < ended["outcome"]["tokens_after"] < ended["outcome"]["tokens_before"]
    assert {line["session"] for line in lines if "session" in line} == {lines[0]["session"]}
    assert [line["resumed"] for line in filter_lines(lines, "started")] == [False, *[True] * 5]


def test_the_task_may_come_on_standard_input(tenfold: Cli, folder: Path) -> None:
    del tenfold  # its store is the one of the environment
    program = [sys.executable, "-m", "tenfold", "run", "--json", "--task", "-", *DEMONSTRATION]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ran = subprocess.run(program, env=env, cwd=folder, input=b"write a.txt x", capture_output=True, check=False)
    assert ran.returncode == 0
    assert b'"refused"' in ran.stdout
    bad = subprocess.run(program, env=env, cwd=folder, input=b"\xff", capture_output=True, check=False)
    assert bad.returncode == 3
    assert b"not UTF-8 at byte 0" in bad.stderr


# -- for people --------------------------------------------------------------------------------------------------------


def test_people_get_the_answer_and_beside_it_what_led_there(tenfold: Cli, folder: Path) -> None:
    read = serve_call("read_file", path="prices.txt")
    with Loopback(read, serve_call("write_file", path="a.txt", content="x"), "It is 7.99.") as loopback:
        ran = tenfold("run", "--task", "What is it?", "--folder", folder, *build_model_options(loopback))
    assert (ran.code, ran.out) == (0, "It is 7.99.\n")
    told = ran.err.splitlines()
    for line in (
        r"openai:gpt-4o-mini begins session [0-9a-f-]+ in .*shop",
        r"I do it\.",
        r"\* read_file path=prices\.txt",
        r"  \S+ price of item 0: 0\.99 \(60 lines\)",
        r"refused: write a\.txt: 1 bytes, a new file \(allow it with --allow-writes\)",
        r"3 answers: 3,000 tokens read, 0 of them from the cache; 300 written; the context takes .* of 128,000",
    ):
        assert any(re.fullmatch(line, each) for each in told), (line, told)


def test_an_unknown_window_is_told_once_and_how_to_set_it(tenfold: Cli, folder: Path) -> None:
    """It was told three times, twice as Python writes it."""
    with Loopback("Hello.") as loopback:
        options = "--model", "mine", "--base-url", get_base_url(OPENAI, loopback)
        ran = tenfold("run", "--task", "Hello", "--folder", folder, *options)
    assert ran.code == 0
    said = [line for line in ran.err.splitlines() if "window " in line]
    assert said == [
        "the context window of openai:mine is unknown, so nothing is compacted: set it, as in --window 200000"
    ]
    assert "1 answer: " in ran.err


def test_a_failure_leaves_standard_output_empty(tenfold: Cli, folder: Path) -> None:
    with Loopback(Served(status=401, error=f"no such key: {SECRET}")) as loopback:
        ran = tenfold("run", "--task", "What is it?", "--folder", folder, *build_model_options(loopback))
    assert (ran.code, ran.out) == (4, "")
    assert "tenfold: HTTP 401" in ran.err
    assert SECRET not in ran.err


# -- writes and commands -----------------------------------------------------------------------------------------------

WRITE = serve_call("write_file", path="new.txt", content="mine\n")
COMMAND = serve_call("run_command", command="echo mine > new.txt")
KINDS: Mapping[str, Served] = {"write": WRITE, "command": COMMAND}


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [True, False])
def test_what_is_not_allowed_is_refused_and_the_model_is_told(
    tenfold: Cli, folder: Path, model: str, kind: str, *, other: bool
) -> None:
    allowed = {"write": "--allow-commands", "command": "--allow-writes"}[kind]
    with Loopback(KINDS[kind], "So be it.") as loopback:
        ran = run_task(tenfold, folder, "Do it.", *build_model_options(loopback, model), *([allowed] if other else []))
        assert "nobody can be asked" in loopback.requests[1].prompt
    lines = check_lines(ran.objects)
    assert ran.code == 0
    (refused,) = filter_lines(lines, "refused")
    assert refused["kind"] == kind
    assert "new.txt" in refused["what"]
    (result,) = filter_lines(lines, "result")
    assert not result["ok"]
    assert lines[-1]["answer"] == "So be it."
    assert not (folder / "new.txt").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_allowed_is_done(tenfold: Cli, folder: Path, kind: str) -> None:
    with Loopback(KINDS[kind], "Done.") as loopback:
        ran = run_task(tenfold, folder, "Do it.", *build_model_options(loopback), f"--allow-{kind}s")
    lines = check_lines(ran.objects)
    assert filter_lines(lines, "refused") == []
    assert filter_lines(lines, "result")[0]["ok"]
    assert filter_lines(lines, "call")[0]["arguments"] == KINDS[kind].call[2]
    assert (folder / "new.txt").read_text() == "mine\n"


def test_a_long_result_is_printed_up_to_its_bound(tenfold: Cli, folder: Path) -> None:
    (folder / "long.txt").write_text("word " * 2_000)
    with Loopback(serve_call("read_file", path="long.txt"), "Done.") as loopback:
        (result,) = filter_lines(
            check_lines(run_task(tenfold, folder, "Read.", *build_model_options(loopback)).objects), "result"
        )
    assert (len(result["text"]), result["characters"]) == (MAX_RESULT_CHARACTERS, 10_000)


# -- safe to print -----------------------------------------------------------------------------------------------------


def test_no_secret_and_no_control_sequence_is_printed(tenfold: Cli, folder: Path) -> None:
    token = "plain-looking-value-91"  # noqa: S105 - stands in the environment of the run only
    os.environ["SHOP_TOKEN"] = token
    (folder / "notes.txt").write_text(f"\x1b[31mred\x1b[0m {token} {SECRET} \u202eabc\n")
    try:
        with Loopback(
            serve_call("read_file", path="notes.txt"), f"It says \x1b]0;title\x07{token} and {SECRET}"
        ) as loopback:
            ran = run_task(tenfold, folder, f"Say {token} {SECRET}", *build_model_options(loopback))
            assert token in loopback.requests[1].prompt, "the model itself sees the file"
    finally:
        del os.environ["SHOP_TOKEN"]
    everything = ran.out + ran.err
    assert token not in everything
    assert SECRET not in everything
    assert "\x1b" not in everything
    assert "\\u001b" not in everything
    assert "\u202e" not in everything
    assert "red [redacted]" in filter_lines(check_lines(ran.objects), "result")[0]["text"]


def test_every_kind_of_value_is_cleaned() -> None:
    assert JsonLines(frozenset()).sanitize({"a\x1b[1m": [f"x {SECRET}", 1, None, ("\x07",)]}) == {
        "a": ["x [redacted]", 1, None, [""]]
    }


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_provider_that_refuses_ends_it_with_code_4_and_a_last_line(tenfold: Cli, folder: Path) -> None:
    with Loopback(Served(status=401, error=f"Incorrect API key provided: {SECRET}")) as loopback:
        ran = run_task(tenfold, folder, "Hello", *build_model_options(loopback))
    lines = check_lines(ran.objects)
    assert ran.code == 4
    assert [line["event"] for line in lines] == ["started", "usage", "finished"]
    assert lines[-1]["status"] == "failed"
    assert "401" in lines[-1]["error"]
    assert SECRET not in ran.out + ran.err
    assert "tenfold: HTTP 401" in ran.err


def test_a_stream_that_breaks_is_told_as_far_as_it_came(tenfold: Cli, folder: Path) -> None:
    text = "One two three four five six seven eight nine ten."
    with Loopback(Served(text, breaks=4)) as loopback:
        ran = run_task(tenfold, folder, "Count", *build_model_options(loopback, ANTHROPIC))
    lines = check_lines(ran.objects)
    assert ran.code == 4
    (told,) = filter_lines(lines, "text")
    assert told["partial"]
    assert text.startswith(told["text"])
    assert lines[-1]["status"] == "failed"


def test_an_answer_that_breaks_off_as_if_it_were_whole_is_no_answer_and_is_resumed(tenfold: Cli, folder: Path) -> None:
    """A connection that is closed ends a body of HTTP/1.0. The first answer of a process counted as whole then."""
    text = "One two three four five six seven eight nine ten."
    with Loopback(Served(text, breaks=4, smoothly=True), "And so on.") as loopback:
        ran = run_task(tenfold, folder, "Count", *build_model_options(loopback))
        lines = check_lines(ran.objects)
        assert (ran.code, lines[-1]["status"]) == (4, "failed")
        assert "the answer broke off" in lines[-1]["error"]
        (told,) = filter_lines(lines, "text")
        assert told["partial"]
        again = run_task(tenfold, folder, "", "--session", lines[0]["session"], *build_model_options(loopback))
    assert (again.code, again.objects[-1]["answer"]) == (0, "And so on.")


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_a_server_that_is_not_there_is_named(tenfold: Cli, folder: Path, model: str) -> None:
    with Loopback("Never.") as loopback:
        options = build_model_options(loopback, model)
    ran = tenfold("run", "--task", "Hello", "--folder", folder, *options)
    assert ran.code == 4
    said = f"tenfold: no connection to {loopback.url}: nothing listens there; check that the server runs, and that its"
    assert said in ran.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--model", "gpt-4o"), 2, "write PROVIDER:MODEL"),
        (("--model", "groq:llama-3.3-70b-versatile"), 2, "GROQ_API_KEY"),
        (("--base-url", "http://127.0.0.1:9"), 2, "name it with --model"),
        (("--session", "zz"), 2, "holds no session yet"),
        (("--policy", "tenfolt"), 2, "did you mean 'tenfold'"),
        (("--window", "0"), 2, "--window"),
        (("--folder", "not-there"), 3, "there is no such folder"),
    ],
)
def test_what_cannot_begin_prints_no_line_and_names_the_next_step(
    tenfold: Cli, options: tuple[str, ...], code: int, said: str
) -> None:
    ran = tenfold("run", "--task", "Hello", *options)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_without_the_extra_it_names_what_to_install(tenfold: Cli) -> None:
    del tenfold
    program = (
        "import sys; from tenfold.apps.cli.main import run; loaded = 'pydantic_ai' in sys.modules\n"
        "sys.modules['pydantic_ai'] = None; code = run(['run', '--task', 'x']); sys.exit(code + 10 * loaded)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 2, "and the other commands do not load it"
    assert "pip install 'tenfold[models]'" in ran.stderr


def test_an_empty_task_needs_a_session(tenfold: Cli, folder: Path) -> None:
    ran = run_task(tenfold, folder, " ", *DEMONSTRATION)
    assert (ran.code, ran.out) == (2, "")
    assert "--task is empty" in ran.err


def test_a_pipe_that_is_closed_early_ends_it_quietly(tenfold: Cli, folder: Path) -> None:
    del tenfold
    program = [sys.executable, "-m", "tenfold", "run", "--json", "--task", "Which price is too low?", *DEMONSTRATION]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(program, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert json.loads(ran.stdout.readline())["event"] == "started"
        ran.stdout.close()
        said = ran.stderr.read().decode()
        assert ran.wait(timeout=500) == 0
    assert "Traceback" not in said
    assert "tenfold:" not in said


# -- stopped, killed, and on -------------------------------------------------------------------------------------------


class Child:
    """`tenfold run` as a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        program = [sys.executable, "-m", "tenfold", "run", "--json", "--folder", str(folder), *arguments]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read_until(self, event: str) -> None:
        """Reads lines up to the first of that event."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if json.loads(line)["event"] == event:
                return
        raise AssertionError(f"it ended without {event}")

    def stop(self, sent: int) -> tuple[int, list[Line], str]:
        """Sends a signal; the exit code, the lines that were left, and what it said."""
        self.process.send_signal(sent)
        out, err = self.process.communicate(timeout=500)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


@posix
def test_ctrl_c_ends_the_command_that_runs_and_keeps_what_was_said(tenfold: Cli, folder: Path) -> None:
    child = Child(folder, "--task", "run echo $$ > pid; sleep 600", "--allow-commands", *DEMONSTRATION)
    child.read_until("call")
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        time.sleep(0.02)
    code, lines, err = child.stop(signal.SIGINT)
    assert code == 130
    assert [line["event"] for line in check_lines(lines)] == ["usage", "finished"]
    assert lines[-1]["status"] == "interrupted"
    assert "interrupted; everything stored before is kept" in err
    assert "Traceback" not in err
    assert is_gone(int((folder / "pid").read_text()))
    tenfold.run_ok("verify")
    lines = check_lines(run_task(tenfold, folder, "What is this?", "--session", "last", *DEMONSTRATION).objects)
    assert lines[-1]["status"] == "ok"


def test_a_text_that_is_interrupted_is_printed_and_kept_as_far_as_it_came(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupt_run() -> int:
        reached = asyncio.Event()

        async def stream_endlessly(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
            del messages, info
            yield "One "
            yield "two"
            reached.set()
            await asyncio.Event().wait()

        agent.use(FunctionModel(stream_function=stream_endlessly), 16_000)
        running = asyncio.create_task(run_headless(agent, "Count", wanted, lines))
        await reached.wait()
        running.cancel()
        return await running

    lines, wanted = JsonLines(frozenset()), AgentOptions(folder, "demonstration")
    agent = open_agent(SqliteStore(":memory:"), wanted, lines.approve)
    assert asyncio.run(interrupt_run()) == 130
    printed = check_lines([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert filter_lines(printed, "text") == [{"event": "text", "text": "One two", "partial": True}]
    assert printed[-1]["status"] == "interrupted"
    newest = agent.session.view.path.get_entry(agent.session.view.path.length - 1)
    assert isinstance(newest, MessageEntry)
    assert (newest.message.status, get_text(newest.message)) == ("aborted", "One two")


@posix
def test_a_session_that_was_killed_goes_on_and_its_open_call_is_not_run_again(tenfold: Cli, folder: Path) -> None:
    slow = serve_call("run_command", command="echo once >> ran.txt; echo $$ > pid; sleep 600")

    def serve_slow_call(got: Got) -> Served:
        return Served("It goes on.") if "interrupted" in got.prompt else slow

    with Loopback(script=serve_slow_call) as loopback:
        child = Child(folder, "--task", "Do it once.", "--allow-commands", *build_model_options(loopback))
        child.read_until("call")
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            time.sleep(0.02)
        os.kill(child.process.pid, signal.SIGKILL)
        os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)  # what nobody could end any more
        child.process.communicate(timeout=500)
        assert child.process.returncode == -signal.SIGKILL
        ran = run_task(tenfold, folder, "", "--session", "last", "--allow-commands", *build_model_options(loopback))
        lines = check_lines(ran.objects)
        assert lines[-1]["answer"] == "It goes on.", ran.err
        assert "Do it once." in loopback.requests[-1].prompt
    assert lines[0]["resumed"]
    assert (folder / "ran.txt").read_text() == "once\n"
    tenfold.run_ok("verify")


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_names_every_kind_of_compaction_and_its_keys() -> None:
    told = dict(re.findall(r"^\| compaction, `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    assert {tag: tuple(re.findall(r"`(\w+)`", keys)) for tag, keys in told.items()} == {
        tag: tuple(f for f in kind.__struct_fields__ if f not in ("session", "time"))
        for tag, kind in COMPACTIONS.items()
    }
