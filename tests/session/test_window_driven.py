"""The default policy acts when the window needs it, whatever the model costs: recorded sessions in three windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.block import Block
from tenfold.models.prices import find_rates
from tenfold.session import Session, SessionAddress
from tenfold.store.base import Store
from tests.gateway.serving import run_loopback
from tests.models.loopback import Served
from tests.session.replayed import list_requests, read_blocks, read_chat
from tests.sessions import get_short_name, list_session_files

MODELS = {32_000: "gpt-4o", 128_000: "claude-sonnet-4-5", 200_000: "gpt-4o"}
"""A model with a known price for each window."""
SESSIONS = (
    "pi/before-compaction.jsonl",
    "claude-code/large-conversation.jsonl",
    "examples/sessions/pricing.claude-code.jsonl",
    "examples/sessions/tracker.codex.jsonl",
)
FILES = [path for path in list_session_files() if path.is_file() and get_short_name(path) in SESSIONS]
CASES = [(path, window) for path in FILES for window in MODELS if path.stat().st_size > 8 * window]
"""The sessions in the windows that they may fill."""


FILLED_SHARE = 0.8
"""How much of the target a view has to fill."""


def check_blocks(blocks: Sequence[Block], window: int) -> None:
    """Each began at the trigger, and left no more than it aimed at, and not much less: the room is for content."""
    limits = build_policy("tenfold", choose_counter("gpt-4o").counter).get_limits(window)
    for block in blocks:
        assert block.provider_tokens is not None
        before, after = block.provider_tokens
        assert before >= limits.soft, f"{before:,} tokens are below the trigger of {limits.soft:,}"
        assert after <= limits.soft * 4 // 5, f"{after:,} tokens are left"
        assert after >= FILLED_SHARE * limits.target, f"{after:,} tokens are left, and {limits.target:,} may be"


@pytest.mark.parametrize(("path", "window"), CASES, ids=[f"{get_short_name(path)}-{size}" for path, size in CASES])
def test_before_model_compacts_at_the_trigger_and_not_before(path: Path, window: int, store: Store) -> None:
    model = MODELS[window]
    assert find_rates(model) is not None
    session = Session.create(SessionAddress(store, "s"), build_policy("tenfold", choose_counter(model).counter))
    for messages in list_requests(read_chat(path), window):
        session.before_model({"model": model, "messages": messages}, window=window)
    check_blocks(read_blocks(store, "s"), window)


@pytest.mark.parametrize("window", sorted({window for _, window in CASES}))
def test_the_gateway_compacts_at_the_trigger_and_not_before(window: int, store: Store) -> None:
    path = max((path for path, size in CASES if size == window), key=lambda each: each.stat().st_size)
    with (
        run_loopback(lambda _: Served(text="ok", tokens=(0, 0)), store=store, window=window, summary_model="none") as (
            _upstream,
            gateway,
        ),
        httpx.Client(headers={"authorization": "Bearer sk-one"}, timeout=500) as client,
    ):
        for messages in list_requests(read_chat(path), window):
            body = {"model": MODELS[window], "messages": messages}
            assert client.post(f"{gateway.url}/v1/chat/completions", json=body).status_code == 200
    blocks = [block for row in store.list_sessions("default") for block in read_blocks(store, row.info.id)]
    check_blocks(blocks, window)
    assert blocks
