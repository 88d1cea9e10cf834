"""`tenfold compact` by the settings: the file in the working folder, and the environment."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tenfold.designs.clip import BatchArchive
from tests.cli.conftest import Cli
from tests.designs.clip.making import Cabinet
from tests.models.conftest import keys
from tests.models.loopback import Loopback, get_base_url

__all__ = ["keys"]


def test_the_settings_say_which_policy_compacts(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    text = '[tenfold]\npolicy = "short"\n\n[tenfold.presets.short]\npolicy = "threshold"\n'
    (tmp_path / "tenfold.toml").write_text(text, encoding="utf-8")
    with contextlib.chdir(tmp_path):
        assert tenfold.run_json("compact", pi, "--to", "10%")["policy"] == "threshold"
        assert tenfold.run_json("compact", pi, "--to", "5%", "--policy", "tail")["policy"] == "tail"
        ran = tenfold("compact", pi, "--to", "4%", "--policy", "shrot")
    assert ran.code == 2
    assert "did you mean 'short'?" in ran.err


def test_a_wrong_setting_is_said_before_anything_is_read(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    (tmp_path / "tenfold.toml").write_text('[tenfold]\npolcy = "tail"\n', encoding="utf-8")
    with contextlib.chdir(tmp_path):
        ran = tenfold("compact", pi, "--to", "10%")
    assert ran.code == 2
    assert "'polcy': did you mean 'policy'?" in ran.err
    assert not tenfold.store.exists()


def test_the_model_of_the_settings_writes(
    tenfold: Cli, pi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tenfold.toml").write_text('[tenfold]\nmodel = "openai:small"\n', encoding="utf-8")
    with contextlib.chdir(tmp_path), Loopback("The logs were read and the tests pass.") as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        told = tenfold.run_json("compact", pi, "--to", "10%")
        assert [g.body["model"] for g in loopback.requests] == ["small"]
    assert told["spent"]["model"] == "openai:small"


SHELF = Cabinet()
ARCHIVE = BatchArchive(SHELF)


def test_undo_reaches_the_archive_that_the_settings_name(
    tenfold: Cli, pi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch batches that stay in a user's memory though their compaction was taken back."""
    settings = '[tenfold]\npolicy = "clip"\narchive = "tests.cli.test_settings:ARCHIVE"\n'
    (tmp_path / "tenfold.toml").write_text(settings, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session = tenfold.run_json("compact", pi, "--to", "10%")["session"]
    assert SHELF.kept
    tenfold.run_ok("undo", session)
    assert SHELF.kept == {}
