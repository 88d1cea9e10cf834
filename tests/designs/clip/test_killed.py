"""The preset `clip` where a process is killed between a user's archive and the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig, Compactor, get_memory
from tenfold.designs.clip.archive import ArchiveRecord, parse_record
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.clip.making import Telling, make_items


class FileMemory:
    """A memory in a directory: a file for each batch, with its label, content and conversation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)

    def _name_file(self, id: str) -> Path:
        return self.path / id.replace("/", "+")

    def write(self, record: ArchiveRecord) -> bool:
        kept = json.dumps([record.label, record.content, record.conversation])
        self._name_file(record.id).write_text(kept, encoding="utf-8")
        return True

    def read(self, id: str) -> ArchiveRecord | None:
        file = self._name_file(id)
        return parse_record(id, *json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None

    def search(self, words: str, *, limit: int = 20) -> list[ArchiveRecord]:
        return [record for record in self.list_records("conv") if words in record.content][:limit]

    def list_records(self, conversation: str) -> list[ArchiveRecord]:
        found = [self.read(file.name.replace("+", "/")) for file in sorted(self.path.iterdir())]
        return [record for record in found if record is not None and record.conversation == conversation]

    def delete(self, id: str) -> None:
        self._name_file(id).unlink()


class Killed(SqliteStore):
    """A store whose process ends as it is about to append a Block with batches."""

    def append(self, namespace: str, session: str, entries: Sequence[Any], **named: Any) -> None:  # noqa: ANN401 - see Store
        if any(getattr(entry, "batches", ()) for entry in entries):
            os._exit(9)
        super().append(namespace, session, entries, **named)


def run_killed_pass(log: Path, place: Path, count: int) -> None:
    """Compresses so many exchanges. The process ends between the archive and the log."""
    config = CompactionConfig(chunk_size=4)
    made = design.create_compactor(config, model=Telling("lost"), archive=FileMemory(place), store=Killed(log))
    made.compress(make_items(0, count), "conv")


@pytest.mark.parametrize("has_blocks", [False, True])
def test_a_pass_whose_process_is_killed_leaves_no_batch_after_the_next(tmp_path: Path, *, has_blocks: bool) -> None:
    """Would catch batches that no Block has: found by `memory_read`, or taken for those of an earlier log."""
    log, place = tmp_path / "log.db", tmp_path / "memory"
    memory, config = FileMemory(place), CompactionConfig(chunk_size=4)

    def open_compactor() -> Compactor:
        return design.create_compactor(config, model=Telling("kept"), archive=memory, store=SqliteStore(log))

    if has_blocks:
        assert not open_compactor().compress(make_items(0, 8), "conv").failed
    before = {record.id for record in memory.list_records("conv")}
    code = (
        "from pathlib import Path\nfrom tests.designs.clip.test_killed import run_killed_pass\n"
        f"run_killed_pass(Path({str(log)!r}), Path({str(place)!r}), 14)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 9, ended.stderr
    stray = {record.id for record in memory.list_records("conv")} - before
    assert stray
    again = open_compactor()
    assert not any("lost" in batch.content for batch in again.list_batches("conv"))
    done = again.compress(make_items(0, 16), "conv")
    assert not done.failed, done.reason
    own = get_memory(again.get_session("conv")).list_records("conv")
    assert {record.id for record in memory.list_records("conv")} == {record.id for record in own}
    assert stray.isdisjoint(record.id for record in own)
    assert not memory.search("lost")
