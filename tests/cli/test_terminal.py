"""Tables as a person sees them: in a terminal of 80 columns no word is broken and each row is one line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold.config.policies import POLICIES
from tenfold.core.text.terminal_safe import strip_controls
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.ids import shorten_id
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli, write_messages


class Terminal(StringIO):
    """Standard output that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(tenfold: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The lines that a command prints in a terminal of 80 columns."""

    def run_lines(*arguments: str | Path, width: int = 80) -> list[str]:
        screen = Terminal()
        for name, value in (("COLUMNS", str(width)), ("NO_COLOR", "1")):
            monkeypatch.setenv(name, value)
        with redirect_stdout(screen):
            assert run([str(a) for a in arguments]) == 0
        return strip_controls(screen.getvalue()).splitlines()

    assert not tenfold.store.exists()
    return run_lines


def test_a_comparison_has_one_line_for_each_policy(typed: Callable[..., list[str]], chat: Path) -> None:
    lines = typed("compact", chat, "--compare", "all", "--store", ":memory:")
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[-len(POLICIES) :]] == list(POLICIES)
    assert all(line.split()[-1] == "4" for line in lines[-len(POLICIES) :])


def test_a_timeline_has_one_line_for_each_message(typed: Callable[..., list[str]], tmp_path: Path, pi: Path) -> None:
    store = ("--store", tmp_path / "seen.db")
    assert run(["compact", str(pi), "--to", "10%", "--store", str(store[1])]) == 0
    lines = typed("show", "last", "--brief", *store)
    assert max(map(len, lines)) <= 80
    (head,) = [i for i, line in enumerate(lines) if line.split()[-5:-1] == ["step", "who", "tokens", "seen"]]
    rows = lines[head + 2 : -2]
    assert len(rows) > 10
    assert all(row.split()[0].isdigit() and len(row) > 56 for row in rows)
    assert all("as it was" in row or "shortened" in row or "summary" in row for row in rows), "the main thing"


def test_a_list_of_sessions_shows_how_their_files_names_begin(
    typed: Callable[..., list[str]], tmp_path: Path, pi: Path
) -> None:
    store = ("--store", tmp_path / "seen.db")
    assert run(["compact", str(pi), "--to", "10%", "--store", str(store[1])]) == 0
    row = typed("sessions", *store)[-1]
    assert len(row) <= 80
    assert pi.name[:5] in row


@pytest.mark.parametrize("width", [60, 80])
def test_no_id_is_torn_apart_in_a_narrow_terminal(typed: Callable[..., list[str]], tmp_path: Path, width: int) -> None:
    """Tables of 60 columns folded ids, file names and headings into pieces of seven letters."""
    folder, store = tmp_path / "sessions", ("--store", tmp_path / "seen.db")
    folder.mkdir()
    for number in range(4):
        messages = [{"role": "user", "content": f"Session {number}: what came of the parcel?"}]
        write_messages(folder / f"a-session-with-a-long-name-{number}.json", messages)
    printed = {
        "totals": typed("compact", folder, "--to", "5000", *store, width=width),
        "sessions": typed("sessions", *store, width=width),
        "brief": typed("show", "--brief", *store, width=width),
    }
    with closing(SqliteStore(store[1])) as place:
        ids = [shorten_id(row.info.id) for row in place.list_sessions(DEFAULT_NAMESPACE)]
    for name, lines in printed.items():
        assert max(map(len, lines)) <= width, name
        words = " ".join(" ".join(lines).replace(",", " ").split())
        assert all(id_ in words for id_ in (ids if name in ("totals", "sessions") else [])), (name, lines)
    assert "status nothing" in " ".join(printed["totals"]) or width == 80
