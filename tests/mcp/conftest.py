"""A store with two recorded sessions of one tenant and one of another, as `tenfold` itself brings them in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.core.meter.counters import choose_counter
from tenfold.formats import read_file
from tenfold.formats.importer import import_sessions
from tenfold.store.location import open_store
from tests.shape.scan import ROOT

EXAMPLES = ROOT / "examples" / "sessions"


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the store. `default` has pricing and tracker, `other` has logs."""
    path = tmp_path_factory.mktemp("mcp") / "store.db"
    store = open_store(path)
    counter = choose_counter(None).counter
    for name, namespace in (
        ("pricing.claude-code.jsonl", "default"),
        ("tracker.codex.jsonl", "default"),
        ("logs.pi.jsonl", "other"),
    ):
        import_sessions(read_file(EXAMPLES / name), store, namespace, counter)
    store.close()
    return path
