"""A store takes at most twice the conversation after twenty compactions, and opening reads only what is in view."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenfold.core.record.block import Block
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.session.replayed import read_chat
from tests.sessions import FOLDER, ROOT, require_sessions

LONG = FOLDER / "pi" / "before-compaction.jsonl"
OWN = ROOT / "examples" / "sessions" / "pricing.claude-code.jsonl"


@pytest.mark.parametrize(("file", "window"), [(OWN, 6_000), (LONG, 32_000)], ids=["own", "long"])
def test_after_twenty_compactions_a_store_takes_at_most_twice_the_conversation(
    tmp_path: Path, file: Path, window: int
) -> None:
    if file == LONG:
        require_sessions()
    path, messages = tmp_path / "store.db", list(read_chat(file))
    SqliteStore(path).close()
    empty = path.stat().st_size
    store = SqliteStore(path)
    session = Session.create(SessionAddress(store, "s"), "tenfold", model="gpt-4o")
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and at:
            session.before_model({"model": "gpt-4o", "messages": messages[:at]}, window=window)
    facts = session.view.list_block_facts()
    live = [session.view.path.get_block(at) for at in session.view.state.live_blocks]
    assert len(live) >= 19
    assert sum(len(block.facts) for block in live) < 5 * len(facts), "each would hold most of them"
    state = store.open(DEFAULT_NAMESPACE, "s")
    assert sum(isinstance(entry, Block) for entry in state.snapshot_entries.values()) < len(live) / 2
    again = Session(SessionAddress(store, "s"), "tenfold", model="gpt-4o")
    assert again.view.list_block_facts() == facts
    assert again.view.get_messages() == session.view.get_messages()
    store.close()
    taken = path.stat().st_size - empty
    assert taken <= 2 * sum(len(msgspec.json.encode(message)) for message in messages)
