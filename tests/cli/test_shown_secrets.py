"""What the command prints of a session holds none of its secrets: reports, timelines, hits, differences."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.cli.headless_run import JsonLines, run_headless
from tenfold.core.text.redaction import MASK
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli
from tests.clients.conftest import home
from tests.secrets import load_kinds
from tests.secrets.test_compacted_secrets import build_conversation, list_leaks

__all__ = ["home"]
KINDS = load_kinds()


def test_no_command_prints_a_secret(tenfold: Cli, tmp_path: Path) -> None:
    source = tmp_path / "talk.json"
    source.write_text(json.dumps(build_conversation(KINDS)))
    printed = [tenfold.run_ok("compact", source, "--to", "4000", "--format", "openai-chat", "--preview")]
    printed.append(tenfold.run_ok("compact", source, "--to", "4000", "--format", "openai-chat"))
    printed.append(tenfold.run_ok("show", "last"))
    printed.append(tenfold.run_ok("show", "last", "--all"))
    printed.append(tenfold.run_ok("show", "last", "--all", "--json"))
    printed.append(tenfold.run_ok("diff", "last"))
    printed.append(tenfold.run_ok("rules", "last", "--all"))
    printed.append(tenfold.run_ok("sessions"))
    printed += [tenfold.run_ok("search", f"part {number}", "--limit", "20") for number in range(0, len(KINDS), 25)]
    block = tenfold.run_ok("diff", "last", "--json").objects
    assert block
    printed.append(tenfold.run_ok("expand", "5", "--session", "last", "--around", "40"))
    assert list_leaks([ran.out + ran.err for ran in printed], KINDS) == []


def test_no_title_of_a_session_that_is_found_shows_a_secret(tenfold: Cli, home: Path) -> None:
    """As JSON they came as they were, and a secret at the end of a title was cut before it could be known."""
    kinds = KINDS[::12]
    folder = home / ".claude/projects/-shop"
    folder.mkdir(parents=True)
    for number, kind in enumerate(kinds):
        own = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": f"s{number}", "cwd": "/shop"}
        said = {"role": "user", "content": f"{'Look at it again. ' * (10 * (number % 2))}{kind.text}"}
        (folder / f"s{number}.jsonl").write_text(json.dumps({**own, "message": said}) + "\n", "utf-8")
    found = tenfold.run_ok("find", "--limit", "0", "--json")
    assert len(found.objects) == len(kinds)
    assert list_leaks([each["title"] for each in found.objects], kinds) == []
    assert list_leaks([tenfold.run_ok("find", "--limit", "0").out], kinds) == []


def test_no_report_of_an_evaluation_shows_a_secret(tenfold: Cli, tmp_path: Path) -> None:
    source, page = tmp_path / "talk.json", tmp_path / "page.html"
    source.write_text(json.dumps(build_conversation(KINDS)))
    methods = ("--methods", "tenfold,keep-last", "--format", "openai-chat")
    for command in (("quality", *methods), ("replay", *methods, "--windows", "16k")):
        for options in ((), ("--json",)):
            ran = tenfold.run_ok("eval", command[0], source, *command[1:], *options, "--html", page, "--force")
            assert list_leaks([ran.out + ran.err, page.read_text("utf-8")], KINDS) == []


def test_no_line_of_a_run_shows_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent says each kind, reads a file that holds it, puts it into a call, and fails with it in the error."""
    for number, kind in enumerate(KINDS):
        filler = "as it was\n" * 190
        (tmp_path / f"part-{number}.txt").write_text(f"{filler}{kind.text}\nas it is\n", "utf-8")

    batches = [KINDS[at : at + 20] for at in range(0, len(KINDS), 20)]

    async def work(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        step = sum(isinstance(message, ModelResponse) for message in messages)
        if step == len(batches):
            raise RuntimeError("\n".join(kind.text for kind in KINDS))
        yield "\n\n".join(f"For the next part this is needed:\n{kind.text}" for kind in batches[step])
        for at, kind in enumerate(batches[step]):
            reading, running = {"path": f"part-{20 * step + at}.txt"}, {"command": f"cd part\n{kind.text}"}
            yield {2 * at + 1: DeltaToolCall("read_file", json.dumps(reading))}
            yield {2 * at + 2: DeltaToolCall("run_command", json.dumps(running))}

    lines, wanted = JsonLines(frozenset()), AgentOptions(tmp_path, "demonstration")
    agent = open_agent(SqliteStore(":memory:"), wanted, lines.approve)
    agent.use(FunctionModel(stream_function=work), 2_000_000)
    assert asyncio.run(run_headless(agent, f"Go on, and remember: {KINDS[0].text}", wanted, lines)) == 4
    printed = capsys.readouterr()
    assert printed.out.count('"event":"result"') == 2 * len(KINDS)
    lines_read = [json.dumps(json.loads(line), ensure_ascii=False) for line in printed.out.splitlines()]
    assert list_leaks([*lines_read, printed.err], KINDS) == []


def test_an_argument_that_is_called_a_secret_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(frozenset())
    lines(
        "call", tool="log_in", arguments={"user": "anna", "password": "tide-Walker-42", "at": {"api_key": "mq7Zt4v2Lw"}}
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["arguments"] == {"user": "anna", "password": MASK, "at": {"api_key": MASK}}
