"""A purge names the exported files that still quote what was purged, and deletes the unchanged ones on demand."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.conftest import Cli


def test_a_purged_session_names_and_deletes_its_exports(tenfold: Cli, chat: Path, tmp_path: Path) -> None:
    first, second, gone = tmp_path / "smaller.json", tmp_path / "original.json", tmp_path / "gone.json"
    (session,) = tenfold.run_ok("compact", chat, "--to", "20%", "--out", first, "--json").objects
    for out in (second, gone):
        tenfold.run_ok("export", "last", "--original", "--out", out)
    second.write_text(second.read_text() + "\n")
    gone.unlink()
    ran = tenfold.run_ok("purge", session["session"], "--yes", "--delete-exports")
    assert f"deleted: {first}" in ran.out
    assert f"still quotes it: {second}; it was changed since" in ran.out
    assert str(gone) not in ran.out
    assert not first.exists()
    assert second.exists()


def find_own_word(results: list[str], at: int, shown: str) -> str:
    """Returns a word that only this result has, if the view shows no such word; else ""."""
    others = {word for number, each in enumerate(results) if number != at for word in _WORD.findall(each)}
    own = sorted(set(_WORD.findall(results[at])) - others)
    return own[0] if own and not any(word in shown for word in own) else ""


_WORD = re.compile(r"\w{5,}")


def test_a_purged_entry_concerns_only_the_files_that_quote_it(tenfold: Cli, chat: Path, tmp_path: Path) -> None:
    whole, view = tmp_path / "whole.json", tmp_path / "view.json"
    tenfold.run_ok("compact", chat, "--to", "10%")
    tenfold.run_ok("export", "last", "--original", "--out", whole)
    tenfold.run_ok("export", "last", "--out", view)
    shown = "\n".join(str(each["content"]) for each in json.loads(view.read_text()))
    results = [m["content"] for m in json.loads(whole.read_text()) if m["role"] == "tool"]
    words = next(own for at in range(len(results)) if (own := find_own_word(results, at, shown)))
    entry = tenfold.run_ok("search", words, "--json").objects[0]["entry"]
    found = tenfold.run_json("purge", entry, "--yes")
    assert found["left_files"] == [str(whole)]
    assert found["deleted_files"] == []
    assert whole.exists()
