"""The coding agent's commands, really run, and all of its tools as pydantic-ai offers them to a model."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenfold.apps.agent.coding_tools import MAX_RETRIES, Action, CodingTools, Section
from tenfold.core.text.hidden import escape_hidden
from tests.agent.bench import Asked, make_folder, make_python_command, make_workbench, posix


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_a_command_gives_its_exit_code_and_both_outputs_as_they_are(root: Path) -> None:
    asked = Asked()
    command = make_python_command(
        "import os, sys; os.write(1, b' out\\n\\x1b[1m'); os.write(2, b'err\\xff\\n\\n');"
        " print(os.getcwd()); sys.exit(3)"
    )
    said = asyncio.run(make_workbench(root, asked).run_command(command))
    assert said == f"[exit code 3]\n out\n\x1b[1merr\\xff\n\n{root.resolve()}\n"
    assert asked.lines == [f"run {command}"]
    assert asked.sections == [(Section("", command),)]


def test_the_question_is_one_line_with_every_character_to_be_seen(root: Path) -> None:
    asked = Asked(yes=False)
    with pytest.raises(ToolFailed):
        asyncio.run(make_workbench(root, asked).run_command("echo a\nrm b\r\t\x1b[8m\x7f\u202e\\n"))
    assert asked.lines == ["run echo a\u240arm b\u240d\u2409\u241b[8m\u2421<U+202E>\\n"]
    long = "echo " + "x" * 20_000
    with pytest.raises(ToolFailed):
        asyncio.run(make_workbench(root, asked).run_command(long))
    assert asked.lines[1] == f"run {long}", "the whole command, however long"
    assert escape_hidden("caf\u00e9 \u65e5\u672c") == "caf\u00e9 \u65e5\u672c"
    with pytest.raises(ToolFailed):
        asyncio.run(make_workbench(root, asked).write_file("a\nb", "x"))
    assert asked.lines[2] == "write a\u240ab: 1 bytes, a new file"


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
def test_a_command_that_is_none_is_refused_without_a_question(root: Path, command: str) -> None:
    asked = Asked()
    with pytest.raises(ToolFailed, match="nothing was run"):
        asyncio.run(make_workbench(root, asked).run_command(command))
    assert asked.lines == []


def test_a_command_that_cannot_start_is_told(root: Path) -> None:
    with pytest.raises(ToolFailed, match=r"U\+D800"):
        asyncio.run(make_workbench(root).run_command("echo \ud800"))
    work = make_workbench(root)
    root.rename(root.parent / "moved")
    with pytest.raises(ToolFailed, match="no such file or folder"):
        asyncio.run(work.run_command("echo x"))


def test_long_output_keeps_head_and_tail_and_states_the_gap(root: Path) -> None:
    text = "".join(f"\u00e9{number:05}\n" for number in range(20_000))
    program = "print(''.join(f'\\u00e9{n:05}\\n' for n in range(20_000)), end='')"
    command = make_python_command(f"import sys; sys.stdout.reconfigure(encoding='utf-8', newline=''); {program}")
    for most in range(1000, 1016, 2):  # each of the eight places in a line where head and tail can be cut
        said = asyncio.run(CodingTools(root, Asked(), max_size=most).run_command(command))
        found = re.fullmatch(r"\[exit code 0\]\n(.*)\n\[([\d,]+) bytes left out\]\n(.*)", said, re.DOTALL)
        assert found is not None
        head, gap, tail = found.group(1), int(found.group(2).replace(",", "")), found.group(3)
        assert text.startswith(head)
        assert text.endswith(tail)
        shown = len(head.encode()) + len(tail.encode())
        assert most - 8 < shown <= most
        assert shown + gap == len(text.encode())


def test_output_at_the_bound_is_whole(root: Path) -> None:
    work = CodingTools(root, Asked(), max_size=1000)
    assert (
        asyncio.run(work.run_command(make_python_command("print('x' * 1000, end='')")))
        == "[exit code 0]\n" + "x" * 1000
    )
    assert "[1 bytes left out]" in asyncio.run(work.run_command(make_python_command("print('x' * 1001, end='')")))


def test_a_command_cannot_take_what_the_user_types(root: Path) -> None:
    typed, typing = os.pipe()
    os.write(typing, b"meant for the agent")
    os.close(typing)
    terminal = os.dup(0)
    os.dup2(typed, 0)
    try:
        said = asyncio.run(
            make_workbench(root).run_command(make_python_command("import sys; print(repr(sys.stdin.read()))"))
        )
    finally:
        os.dup2(terminal, 0)
        os.close(terminal)
        os.close(typed)
    assert said == "[exit code 0]\n''\n"


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # an orphan that nobody has collected yet is dead too
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


async def wait_until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.02)


FAMILY = (
    "import os, subprocess, sys, time; print('begun', flush=True);"
    " child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    " open('pids.new', 'w').write(f'{os.getpid()} {child.pid}'); os.replace('pids.new', 'pids');"
)


@posix
def test_a_time_out_kills_the_command_and_its_children_and_keeps_the_output(root: Path) -> None:
    for seconds in (2, 10, 50):  # by then a slow machine has begun, too
        work = CodingTools(root, Asked(), timeout=seconds)
        said = asyncio.run(work.run_command(make_python_command(FAMILY + "time.sleep(600)") + "; echo never"))
        if (root / "pids").exists():
            break
    assert said == f"[killed after {seconds} seconds; its output until then:]\nbegun\n"
    pids = [int(pid) for pid in (root / "pids").read_text().split()]
    asyncio.run(wait_until(lambda: all(is_gone(pid) for pid in pids)))


@posix
def test_a_cancellation_kills_the_command_and_its_children(root: Path) -> None:
    async def cancel_command() -> list[int]:
        running = asyncio.create_task(make_workbench(root).run_command(make_python_command(FAMILY + "time.sleep(600)")))
        await wait_until((root / "pids").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        pids = [int(pid) for pid in (root / "pids").read_text().split()]
        await wait_until(lambda: all(is_gone(pid) for pid in pids))
        return pids

    assert len(asyncio.run(cancel_command())) == 2


@posix
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_a_cancellation_while_a_command_is_being_started_leaves_nothing(root: Path, turns: int) -> None:
    """The event loop makes the process before it has connected its output: at these turns it is just there."""

    async def cancel_command() -> None:
        running = asyncio.create_task(make_workbench(root).run_command("echo $$ > pids; sleep 600 & wait"))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 20)

        if (root / "pids").exists():  # the shell came as far as that
            await wait_until(lambda: _has_ended((root / "pids").read_text()))

    asyncio.run(cancel_command())


def _has_ended(leader: str) -> bool:
    """Whether nothing is left of the group of a process, or it was ended before it could say its number."""
    if not leader.strip():
        return True
    try:
        os.killpg(int(leader), 0)
    except ProcessLookupError:
        return True
    return False


@posix
def test_a_process_left_behind_with_the_output_is_ended_and_one_without_stays(root: Path) -> None:
    said = asyncio.run(make_workbench(root).run_command(make_python_command(FAMILY + "os._exit(0)")))
    assert said == "[exit code 0]\nbegun\n[a process it left behind kept the output open and was ended]"
    child = int((root / "pids").read_text().split()[1])
    asyncio.run(wait_until(lambda: is_gone(child)))
    said = asyncio.run(make_workbench(root).run_command("sleep 600 >log 2>&1 & echo $!"))
    stays = int(said.removeprefix("[exit code 0]\n"))
    try:
        assert not is_gone(stays)
    finally:
        os.kill(stays, signal.SIGKILL)


@posix
def test_a_signal_is_named(root: Path) -> None:
    assert asyncio.run(make_workbench(root).run_command("kill -9 $$")) == "[ended by signal 9]\n"


# -- as pydantic-ai's tools --------------------------------------------------------------------------------------------


def play_calls(root: Path, asked: Asked, calls: list[list[ToolCallPart]]) -> list[ToolReturnPart]:
    """What an agent's tools gave back when a model makes these calls, one list for each of its answers."""
    left = iter(calls)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert messages
        assert len(info.function_tools) == 6
        return ModelResponse(next(left, [TextPart("done")]))

    ran = asyncio.run(Agent(FunctionModel(answer), toolsets=[make_workbench(root, asked).build_toolset()]).run("go"))
    assert ran.output == "done"
    return [part for message in ran.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


def test_every_tool_has_a_description_and_so_has_every_argument(root: Path) -> None:
    tools = make_workbench(root).build_toolset().tools
    assert list(tools) == ["read_file", "list_files", "search_files", "write_file", "edit_file", "run_command"]
    for tool in tools.values():
        assert tool.description
        assert all(entry["description"] for entry in tool.function_schema.json_schema["properties"].values())


def test_refusals_in_a_row_do_not_end_a_run(root: Path) -> None:
    refused = [[ToolCallPart("read_file", {"path": "../outside/secret.txt"})] for _ in range(20)]
    given = play_calls(root, Asked(), [*refused, [ToolCallPart("read_file", {"path": "src/a.py"})]])
    assert [part.outcome for part in given] == ["failed"] * 20 + ["success"]
    assert "outside the working folder" in str(given[0].content)
    assert given[-1].content == "one\ntwo\nthree\n"


def test_malformed_arguments_in_a_row_do_not_end_a_run(root: Path) -> None:
    malformed = [[ToolCallPart("read_file", {"file": 7})] for _ in range(MAX_RETRIES)]
    given = play_calls(root, Asked(), [*malformed, [ToolCallPart("read_file", {"path": "src/a.py"})]])
    assert given[-1].content == "one\ntwo\nthree\n"


def test_two_questions_are_never_open_at_once(root: Path) -> None:
    class Counting(Asked):
        open = most = 0

        async def __call__(self, action: Action) -> bool:
            self.open += 1
            self.most = max(self.most, self.open)
            await asyncio.sleep(0.01)
            self.open -= 1
            return await super().__call__(action)

    asked = Counting()
    calls = [ToolCallPart("edit_file", {"path": "src/a.py", "old": old, "new": "x"}) for old in ("one", "two", "three")]
    given = play_calls(root, asked, [calls])
    assert [part.outcome for part in given] == ["success"] * 3
    assert (root / "src" / "a.py").read_text() == "x\nx\nx\n"
    assert asked.most == 1
    assert len(asked.lines) == 3
