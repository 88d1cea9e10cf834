"""`tenfold export --html`: a file that a purge knows of, and that takes no other form at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_a_page_is_written_once_and_a_purge_names_it(tenfold: Cli, chat: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tenfold.run_ok("compact", chat, "--to", "20%")
    ran = tenfold.run_ok("export", "last", "--html", file)
    assert f"written: {file}" in ran.err
    assert file.read_text().startswith("<!doctype html>")
    assert "--force" in tenfold("export", "last", "--html", file).err
    tenfold.run_ok("export", "last", "--html", file, "--force")
    shown = tenfold.run_ok("show", "last", "--json").objects[0]
    entry = shown["timeline"][-1]["id"]
    assert tenfold.run_json("purge", entry, "--yes")["left_files"] == [str(file)]
    ran = tenfold.run_ok("purge", shown["session"], "--yes", "--delete-exports")
    assert f"deleted: {file}" in ran.out
    assert not file.exists()


@pytest.mark.parametrize("other", [("--original",), ("--as", "anthropic"), ("--out", "x.json")])
def test_a_page_has_no_other_form(tenfold: Cli, chat: Path, tmp_path: Path, other: tuple[str, ...]) -> None:
    tenfold.run_ok("compact", chat, "--to", "20%")
    assert "--html writes a page of its own" in tenfold("export", "--html", tmp_path / "p.html", *other).err
    assert not (tmp_path / "p.html").exists()
