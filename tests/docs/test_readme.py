"""What the README tells a reader to type works, in the order it is told. A block that is not run says why."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tests.docs.commands import build_readme
from tests.models.loopback import Loopback, Served
from tests.shape.scan import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


def collect_blocks(kind: str) -> list[Any]:
    """What is run of each page: its blocks of that kind in order, as one."""
    found = []
    for page in PAGES:
        run = [m["text"] for m in BLOCK.finditer(page.read_text("utf-8")) if m["kind"] == kind and m["why"] is None]
        if run:
            found.append(pytest.param("\n".join(run), id=page.relative_to(ROOT).as_posix()))
    return found


CLIENTS = ("OpenAI", "Anthropic", "Client")
SESSIONS = ROOT / "examples" / "sessions"
OWN_SESSIONS = {
    ".claude/projects/-home-me-shop/4f1e9b7c.jsonl": "pricing.claude-code.jsonl",
    ".codex/sessions/2026/11/24/rollout-2026-11-24-4f1e.jsonl": "tracker.codex.jsonl",
    ".pi/agent/sessions/--home-me-logs--/2026-11-24_4f1e.jsonl": "logs.pi.jsonl",
}
"""Where three tools keep their sessions: a file there, and the example that stands in for it."""


def get_readme_blocks(kind: str) -> list[str]:
    return [m["text"] for m in BLOCK.finditer((ROOT / "README.md").read_text("utf-8")) if m["kind"] == kind]


@pytest.fixture(scope="module")
def provider() -> Iterator[Loopback]:
    """A provider that answers what the pages ask."""
    with Loopback(script=lambda _: Served("It is on its way.", tokens=(60, 8))) as server:
        yield server


@pytest.mark.parametrize("code", collect_blocks("python"))
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Loopback) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE"):
        monkeypatch.setenv(f"{name}_API_KEY", "nothing")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", provider.url)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("TENFOLD_STORE", str(tmp_path / "store.db"))
    messages = json.loads((SESSIONS / "desk.openai-chat.json").read_text("utf-8"))
    names: dict[str, Any] = {"messages": messages}
    exec(compile(code, "example", "exec"), names)  # noqa: S102 - running the example is the test
    for client in (value for value in names.values() if type(value).__name__ in CLIENTS):
        client.close()  # a page does not show the end of a program
    assert logging.getLogger("tenfold").level == logging.NOTSET, "a page changes what later tests can read in the log"


@pytest.mark.parametrize("script", collect_blocks("shell"))
def test_shell_runs(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TENFOLD_STORE", str(tmp_path / "store.db"))
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "tenfold", line
        assert run(words[1:]) == 0, (line, capsys.readouterr().err)


def test_the_first_commands_list_your_sessions_and_compact_one_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (commands,) = get_readme_blocks("sh")
    first, second = (shlex.split(line) for line in commands.splitlines())
    assert (first, second[:2], second[3:]) == (["tenfold", "find"], ["tenfold", "compact"], ["--to", "10%"])
    for place, example in OWN_SESSIONS.items():
        own = tmp_path / "home" / place
        own.parent.mkdir(parents=True)
        shutil.copyfile(SESSIONS / example, own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TENFOLD_STORE", str(tmp_path / "store.db"))
    assert run(first[1:]) == 0
    listed = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(listed) == len(OWN_SESSIONS)
    assert second[2] in {row[2] for row in listed}, "the id in the README is one of the form that is listed"
    for row in listed:
        code, printed = run(["compact", row[2], *second[3:]]), capsys.readouterr()
        assert (code, "compacted: " in printed.out) == (0, True), printed.err
    for place, example in OWN_SESSIONS.items():
        assert (tmp_path / "home" / place).read_bytes() == (SESSIONS / example).read_bytes()


def test_the_output_shown_is_what_the_command_prints() -> None:
    """All but the ids, which are new each time, and the sizes after, which depend on the tokens of the ids."""
    ids = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{9,27}|(?<= -> )[0-9,]+ \((?:9\.9|10\.0)%|(?<=messages 298 -> )[78]")
    now = ids.sub("ID", (ROOT / "README.md").read_text("utf-8"))
    assert now == ids.sub("ID", build_readme()), "run `python -m tests.docs.commands --write`"


def test_there_are_examples_and_they_are_few_lines() -> None:
    assert get_readme_blocks("python"), "the README shows Python"
    assert len(get_readme_blocks("python")[0].strip().splitlines()) <= 8
    assert get_readme_blocks("shell")
