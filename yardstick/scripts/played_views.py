"""What an agent saw at the end of a run in a window of 100,000, as methods of the reading test: MODULE:FUNCTION.

    tenfold eval reading FILES... --sizes 100% --methods yardstick.scripts.played_views:show_thrift

Each plays the past request by request, as the bill's runs do, and returns the messages of the request that comes next.
The size that the test asks for is not theirs: with 100 % of the past no view is above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenfold.core.wire import WIRES
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import EvalSession
from tenfold_yardstick.players import build_recording
from tenfold_yardstick.run_recall import SizedPlayer

WINDOW = 100_000


def show_default(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Shows what `tenfold` sends by default."""
    return _play(past, {})


def show_half_thrift(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Shows what is sent with `thrift` at 0.5."""
    return _play(past, {"thrift": 0.5})


def show_thrift(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Shows what is sent with `thrift` at 1."""
    return _play(past, {"thrift": 1.0})


def _play(past: Sequence[ChatMessage], settings: Mapping[str, Any]) -> list[ChatMessage]:
    recording = build_recording(EvalSession("played", tuple(past), (), ()))
    player = SizedPlayer(recording, WINDOW, settings=settings)
    seen = 0
    for answer in (*recording.answer_indexes, len(past)):
        sent = player.prepare_request(range(seen, answer))
        player.record_usage(recording.prefix + sum(piece.tokens for piece in sent.messages))
        seen = answer
    encoded = WIRES["openai-chat"].encode(player.list_messages())
    return [msgspec.json.decode(item.raw) for item in encoded.items]
