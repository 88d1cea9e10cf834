"""A device or a pipe in place of a session file is refused before it is opened: reading it may never end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.apps.installer.claude_hooks import answer_hook
from tenfold.errors import BadInput
from tenfold.formats import read_file
from tenfold.store.location import open_store
from tests.cli.conftest import Cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are neither such devices nor such pipes")


@pytest.fixture(params=["device", "pipe", "link to a device"])
def irregular(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    if request.param == "device":
        return Path("/dev/zero")
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def test_it_is_refused_where_files_are_read(irregular: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no regular file"):
        read_file(irregular)
    event = json.dumps({"hook_event_name": "PreCompact", "transcript_path": str(irregular)}).encode()
    with closing(open_store(tmp_path / "store.db")) as store, pytest.raises(BadInput, match="no regular file"):
        answer_hook(event, store)


def test_the_command_says_so_at_once(irregular: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "TENFOLD_STORE": str(tmp_path / "store.db")}
    command = [sys.executable, "-m", "tenfold", "compact", str(irregular), "--to", "10%"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 3
    assert "no regular file" in ran.stderr


def test_a_file_larger_than_any_memory_is_refused_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with path.open("wb") as file:
        file.truncate(10**13)  # a hole: it takes no place on the disk
    with pytest.raises(BadInput, match=r"has 10,000,000,000,000 bytes"):
        read_file(path)


def test_a_request_for_a_dry_run_is_a_regular_file(irregular: Path, tenfold: Cli) -> None:
    ran = tenfold("serve", "--dry-run", str(irregular))
    assert ran.code == 3
    assert "no regular file" in ran.err
