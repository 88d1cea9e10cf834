"""Files that a command writes: never through links or devices, never over anything unasked, and private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ran

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes as POSIX has them")


@pytest.fixture
def export(tenfold: Cli, pi: Path) -> Export:
    """Exports a stored session to a file."""
    tenfold.run_ok("compact", pi, "--to", "10%")
    return Export(tenfold)


class Export:
    """`tenfold export last --out FILE`."""

    def __init__(self, tenfold: Cli) -> None:
        self.tenfold = tenfold

    def __call__(self, out: str | Path, *flags: str) -> Ran:
        return self.tenfold("export", "last", "--original", "--out", out, *flags)

    def assert_refused(self, out: Path, *words: str, flags: tuple[str, ...] = ()) -> None:
        """It is refused with those words, whatever the flags."""
        ran = self(out, *flags)
        assert ran.code == 2, ran.err
        assert [word for word in (str(out), *words) if word not in ran.err] == []


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_only_with_force(export: Export, tmp_path: Path, pi: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    export.assert_refused(out, "exists already", "--force")
    assert out.read_text() == "precious"
    assert export(out, "--force").code == 0
    assert out.read_bytes() == pi.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


@posix
def test_a_new_file_is_private_and_a_replaced_one_keeps_its_mode(export: Export, tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        out = tmp_path / "out.jsonl"
        assert export(out).code == 0
        assert read_mode(out) == read_mode(export.tenfold.store) == 0o600
        for mode in (0o400, 0o640, 0o644):
            out.chmod(mode)
            assert export(out, "--force").code == 0
            assert read_mode(out) == mode
    finally:
        os.umask(old_mask)


@posix
@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_links_devices_and_pipes_are_refused(export: Export, tmp_path: Path, flags: tuple[str, ...]) -> None:
    target, link, dangling, pipe = (tmp_path / name for name in ("target", "link", "dangling", "pipe"))
    target.write_text("precious")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nothing")
    os.mkfifo(pipe)
    export.assert_refused(link, "is a link", flags=flags)
    export.assert_refused(dangling, "is a link", flags=flags)
    export.assert_refused(pipe, "a device or a pipe", flags=flags)
    export.assert_refused(Path(os.devnull), "a device or a pipe", flags=flags)
    export.assert_refused(tmp_path, "is a folder", flags=flags)
    assert target.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


@posix
def test_a_folder_may_be_reached_through_a_link(export: Export, tmp_path: Path, pi: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert export(tmp_path / "alias" / "out.jsonl").code == 0
    assert (tmp_path / "real" / "out.jsonl").read_bytes() == pi.read_bytes()


def test_the_store_is_never_replaced(export: Export, tmp_path: Path) -> None:
    store = export.tenfold.store
    export.assert_refused(store, "is a database", flags=("--force",))
    ran = export.tenfold("salvage", store)
    assert (ran.code, "is a database" in ran.err) == (2, True)
    export.assert_refused(tmp_path / "no" / "folder", "make it first")
    export.tenfold.run_ok("verify")


@posix
def test_compact_asks_the_same_before_it_works(tenfold: Cli, tmp_path: Path, pi: Path, chat: Path) -> None:
    link, old = tmp_path / "link", tmp_path / "old.jsonl"
    link.symlink_to(tmp_path / "nothing")
    old.write_text("precious")
    for out, word in ((link, "is a link"), (old, "--force")):
        ran = tenfold("compact", pi, "--to", "10%", "--out", out)
        assert (ran.code, word in ran.err) == (2, True)
    assert not tenfold.store.exists(), "nothing was done"
    tenfold.run_ok("compact", pi, "--to", "10%", "--out", old, "--force")
    assert old.read_text() != "precious"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / chat.name).symlink_to(old)
    ran = tenfold("compact", pi, chat, "--to", "10%", "--out", folder, "--force")
    assert (ran.code, "is a link" in ran.err) == (2, True)


@posix
def test_pages_and_recordings_are_written_with_the_same_care(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    pytest.importorskip("tenfold_yardstick.page")
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("precious")
    link.symlink_to(page)
    for out, word in ((page, "--force"), (link, "is a link")):
        ran = tenfold("eval", "search", pi, "--methods", "keep-last", "--html", out)
        assert (ran.code, word in ran.err) == (2, True), ran.err
    assert page.read_text() == "precious"
    tenfold.run_ok("eval", "search", pi, "--methods", "keep-last", "--html", page, "--force")
    assert "<html" in page.read_text()
    sheets = pi.with_name("logs.reading.toml")
    records = tmp_path / "records"
    records.mkdir()
    (records / "readings.jsonl").symlink_to(page)
    ran = tenfold("eval", "reading", sheets, "--methods", "keep-last", "--sizes", "10%", "--record", records)
    assert (ran.code, "is a link" in ran.err) == (2, True), ran.err
    (records / "readings.jsonl").unlink()
    (records / "readings.jsonl").write_text("")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "texts.jsonl").write_text("")
    options = ("--methods", "keep-last", "--sizes", "10%", "--replay", tmp_path / "others", "--record", records)
    ran = tenfold("eval", "reading", sheets, *options)
    assert (ran.code, "--force" in ran.err) == (2, True), ran.err
    tenfold.run_ok("eval", "reading", sheets, *options, "--force")
    assert read_mode(records / "texts.jsonl") == 0o600
