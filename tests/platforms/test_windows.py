"""What Windows and macOS do differently, by giving each place the platform's value: nothing here ran on either."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.apps.agent.coding_tools import build_kill_command
from tenfold.apps.agent.file_tree import FileTree, Refusal
from tenfold.apps.cli.gateway_commands import _PrivateLog
from tenfold.apps.cli.process import is_closed_pipe, join_command
from tenfold.apps.listening import find_port_option
from tenfold.config.settings import load_settings
from tenfold.errors import UnwritableStore
from tenfold.store.ids import convert_time
from tenfold.store.sqlite.connections import check_place, connect_read_only
from tenfold.store.sqlite.store import SqliteStore
from tests.shape.scan import ROOT

WITHOUT_POSIX = Path(__file__).with_name("without_posix")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="it takes from a Python on Linux what others do not have")

IMPORT_ALL = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path("src").rglob("*.py")):
    name = ".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith(("__main__", "mcp_server")) and not {"adapters", "objects"} & {*name.split(".")}:
        importlib.import_module(name)
"""
"""The MCP SDK needs `fcntl` where it takes the system for one of POSIX; frameworks are environments of their own."""


def run_without_posix(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs Python without what Windows does not have. Without names of its user either, as a service there."""
    env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), **environ}
    env |= {"TENFOLD_STORE": str(folder / "store.db"), "PYTHONPATH": os.pathsep.join([str(WITHOUT_POSIX), "src"])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


@on_linux
def test_every_module_is_imported_without_what_only_posix_has(tmp_path: Path) -> None:
    ran = run_without_posix(tmp_path, "-W", "ignore", "-c", IMPORT_ALL)
    assert (ran.returncode, ran.stderr) == (0, "")


@on_linux
def test_the_commands_run_without_what_only_posix_has(tmp_path: Path) -> None:
    """Also the note who did it, in a store with keys, for a user without a name."""
    session, copy = "examples/sessions/logs.pi.jsonl", tmp_path / "copy.db"
    for command in (f"compact {session} --to 10%", "show last", "keys create me", f"store backup {copy}", "audit"):
        ran = run_without_posix(tmp_path, "-m", "tenfold", *command.split())
        assert ran.returncode == 0, f"{command}: {ran.stderr}"
    assert "backup" in ran.stdout


@on_linux
def test_a_folder_that_cannot_be_linked_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    own = tmp_path / ".pi" / "agent"
    own.mkdir(parents=True)
    (own / "models.json").write_text('{"providers": {"mine": {"baseUrl": "http://localhost:9/v1"}}}', "utf-8")
    (own / "auth.json").write_text("{}", "utf-8")
    program = tmp_path / "pi"
    program.write_text("#!/bin/sh\necho it was started\n", "utf-8")
    program.chmod(0o755)
    ran = run_without_posix(tmp_path, "-m", "tenfold", "wrap", "pi")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "A required privilege is not held by the client): on Windows, turn on the developer mode" in ran.stderr


@pytest.mark.parametrize(
    "path", ["NUL", "sub/con.txt", "sub\\Lpt1", "a.txt:stream", "sub./a", "a.txt ", "C:/x/aux .log"]
)
def test_a_name_that_windows_takes_for_something_else_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Refusal, match="is no file name on Windows"):
        FileTree(tmp_path, windows=True).locate(path)


@pytest.mark.parametrize("path", ["console.txt", "sub/../b.py", "./nullable", ".git", "com10"])
def test_other_names_are_names_on_windows_and_all_are_elsewhere(tmp_path: Path, path: str) -> None:
    assert FileTree(tmp_path, windows=True).locate(path)
    assert FileTree(tmp_path, windows=False).locate("NUL") == ("NUL",)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize("has_dir_fd", [True, False])
def test_a_search_leaves_out_a_folder_that_became_a_way_out(tmp_path: Path, *, has_dir_fd: bool) -> None:
    """A junction of Windows is no link to `scandir`, as here what was a folder a moment ago. One ended the search."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder, name in ((outside, "secret"), (root / "a", "1"), (root / "b", "2"), (root / "c", "3")):
        folder.mkdir(parents=True)
        (folder / name).write_text("needle", "utf-8")
    tree = FileTree(root, has_dir_fd=has_dir_fd)
    found = tree.walk_files(())
    assert next(found) == ("a", "1")
    (root / "b" / "2").unlink()
    (root / "b").rmdir()
    (root / "b").symlink_to(outside)
    assert [parts for parts in found if parts[-1] in ("2", "3", "secret")] == [("c", "3")]


@pytest.mark.parametrize("has_dir_fd", [True, False])
def test_files_are_read_and_replaced_by_whole_paths_too(tmp_path: Path, *, has_dir_fd: bool) -> None:
    tree = FileTree(tmp_path, has_dir_fd=has_dir_fd)
    parts = tree.locate("new/folder/a.txt")
    tree.replace(parts, b"one", expected=None)
    stamp = tree.get_stamp(parts)
    tree.replace(parts, b"two", expected=stamp)
    assert tree.read_text(parts) == "two"
    with pytest.raises(Refusal, match="has changed"):
        tree.replace(parts, b"three", expected=stamp)
    assert [name for name, _ in tree.list_entries(parts[:-1])] == ["a.txt"]


def test_a_pipe_that_nobody_reads_is_told_from_a_failure() -> None:
    invalid = OSError(errno.EINVAL, "Invalid argument")
    assert is_closed_pipe(invalid, windows=True)
    assert not is_closed_pipe(invalid, windows=False)
    assert not is_closed_pipe(OSError(errno.EINVAL, "Invalid argument", "C:/a?"), windows=True)
    assert is_closed_pipe(BrokenPipeError(), windows=False)


def test_a_command_is_quoted_as_the_shell_wants_it() -> None:
    words = ["codex", "resume", r"C:\my work"]
    assert join_command(words, windows=True) == r'codex resume "C:\my work"'
    assert join_command(words, windows=False) == r"codex resume 'C:\my work'"


def test_no_second_program_gets_the_port_of_the_first() -> None:
    assert find_port_option({"SO_EXCLUSIVEADDRUSE": -5, "SO_REUSEADDR": 4}) == -5
    assert find_port_option({"SO_REUSEADDR": 4}) == 4
    assert find_port_option() == getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)


def test_a_program_in_the_agents_folder_is_not_taken_for_the_systems() -> None:
    assert build_kill_command(7, {"SYSTEMROOT": r"D:\Win"})[0] == r"D:\Win\System32\taskkill.exe"
    assert build_kill_command(7, {})[0] == r"C:\Windows\System32\taskkill.exe"


def test_a_log_that_another_program_has_open_grows_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(source: str, dest: str) -> None:
        raise PermissionError(errno.EACCES, "The process cannot access the file", source, dest)

    path = tmp_path / "wrap.log"
    handler = _PrivateLog(path, maxBytes=10, backupCount=1, encoding="utf-8", delay=True)
    handler.rotator = refuse
    with closing(handler):
        for text in ("the first line", "the second line"):
            handler.handle(logging.LogRecord("a", logging.INFO, "", 0, text, None, None))
    assert path.read_text("utf-8").splitlines() == ["the first line", "the second line"]
    assert capsys.readouterr().err == ""


def test_a_store_on_a_network_share_is_refused_before_anything_is_made() -> None:
    check_place(PureWindowsPath(r"C:\Users\me\a b.db"))
    check_place(PurePosixPath("/a/b.db"))
    with pytest.raises(UnwritableStore, match=r"is on a network share, .*: name a file on a disk of this machine"):
        check_place(PureWindowsPath(r"\\server\share\a.db"))


def test_a_checkpoint_reaches_the_disk_on_macos(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "store.db").close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as plain, connect_read_only(str(tmp_path / "store.db")) as own:
        assert plain.execute("PRAGMA checkpoint_fullfsync").fetchone() == (0,)
        assert own.execute("PRAGMA checkpoint_fullfsync").fetchone() == (1,)


def test_settings_may_begin_with_a_mark_and_end_lines_as_windows_does(tmp_path: Path) -> None:
    path = tmp_path / "tenfold.toml"
    path.write_bytes(b'\xef\xbb\xbf[tenfold]\r\npolicy = "tail"\r\n')
    assert load_settings(path, environ={}).common.policy == "tail"


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_times_of_all_years_are_converted(moment: int) -> None:
    """Exactly, and as Linux does it, to the second: it goes by way of a float."""
    converted = convert_time(moment)
    seconds = moment // 1_000_000
    assert converted.replace(microsecond=0) == datetime.fromtimestamp(seconds, UTC)
    assert converted.microsecond == moment % 1_000_000
