"""Environments of pinned packages, made without a package index: of nothing, of what is missing, of another Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold_yardstick.environments import get_python, is_current, list_environments, make_environment, read_failure
from tenfold_yardstick.peers import PEERS, find_version, get_peers


def write_requirements(folder: Path, name: str, text: str) -> Path:
    (folder / "from" / name).mkdir(parents=True)
    (folder / "from" / name / "requirements.txt").write_text(text)
    return folder / "from"


def test_an_environment_is_made_once_and_anew_when_its_requirements_change(tmp_path: Path) -> None:
    source = write_requirements(tmp_path, "empty", "")
    assert list_environments(source) == ["empty"]
    assert not is_current(source, tmp_path, "empty")
    assert make_environment(source, tmp_path, "empty") == ""
    assert is_current(source, tmp_path, "empty")
    where = [str(get_python(tmp_path, "empty")), "-c", "import sys; print(sys.prefix)"]
    assert subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip() == str(tmp_path / "empty")
    (source / "empty" / "requirements.txt").write_text("# changed\n")
    assert not is_current(source, tmp_path, "empty")


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        ("# python >= 99.1\n", "it needs Python 99.1, which is not here"),
        ("nothing @ file:///nowhere/nothing.whl\n", "nothing.whl"),
    ],
)
def test_what_cannot_be_made_leaves_its_reason_and_nothing_else(requirements: str, reason: str, tmp_path: Path) -> None:
    source = write_requirements(tmp_path, "langchain", requirements)
    folder = tmp_path / "into"
    assert reason in make_environment(source, folder, "langchain")
    assert reason in read_failure(folder, "langchain")
    assert [path.name for path in folder.iterdir()] == ["langchain.failed"]
    (peer,) = get_peers(["langchain/trim"], folder=folder)
    assert peer.missing == f"could not be installed: {read_failure(folder, 'langchain')}"


def test_the_peers_are_listed_with_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".peers").mkdir()
    (tmp_path / ".peers" / "agno.failed").write_text("no index\n")
    assert run(["eval", "peers", "list"]) == 0
    rows = {line.split("\t")[0]: line.split("\t") for line in capsys.readouterr().out.splitlines()}
    assert {peer.worker for peer in PEERS} == set(rows) - {"peer"}
    assert rows["langchain"][1:3] == list(find_version("langchain"))
    assert "summarization, clear-tool-uses, trim" in rows["langchain"]
    assert (rows["langchain"][-1], rows["agno"][-1]) == ("-", "no index")
    assert run(["eval", "peers", "install", "langgraph"]) == 2
    assert "no peer is called 'langgraph'; there are langchain" in capsys.readouterr().err


def test_a_peer_that_is_not_installed_says_how_and_ends_with_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Path(__file__).resolve().parents[2] / "examples" / "sessions" / "desk.openai-chat.json"
    monkeypatch.chdir(tmp_path)
    assert run(["eval", "search", str(desk), "--methods", "langchain/trim,keep-last"]) == 4
    assert "not installed in .peers: tenfold eval peers install langchain" in capsys.readouterr().err
