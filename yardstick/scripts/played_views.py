"""What an agent saw at the end of a run in a window of 100,000, as methods of the reading test: MODULE:FUNCTION.

    tenfold eval reading FILES... --sizes 100% --methods yardstick.scripts.played_views:show_thrift

Each plays the past request by request, as the bill's runs do, and returns the messages of the request that comes next.
The size that the test asks for is not theirs: with 100 % of the past no view is above it. What the same runs cost:

    python -m yardstick.scripts.played_views FILES...
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tenfold.core.wire import WIRES
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.bill import DEFAULT_PRICE_LISTS, get_prices
from tenfold_yardstick.cases import EvalSession
from tenfold_yardstick.players import PlayerFactory, Recording, UnchangedPlayer, build_recording
from tenfold_yardstick.reading.question_files import read_case
from tenfold_yardstick.replay import replay_session
from tenfold_yardstick.run_recall import SizedPlayer

WINDOW = 100_000
_PRICES = [get_prices(name) for name in DEFAULT_PRICE_LISTS]


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
    recording = _record(past)
    player = SizedPlayer(recording, WINDOW, settings=settings)
    seen = 0
    for answer in (*recording.answer_indexes, len(past)):
        sent = player.prepare_request(range(seen, answer))
        player.record_usage(recording.prefix + sum(piece.tokens for piece in sent.messages))
        seen = answer
    encoded = WIRES["openai-chat"].encode(player.list_messages())
    return [msgspec.json.decode(item.raw) for item in encoded.items]


def _record(past: Sequence[ChatMessage]) -> Recording:
    return build_recording(EvalSession("played", tuple(past), (), ()))


def main(files: Sequence[str]) -> None:
    """Prints what the runs cost together, as shares of one without compaction, for each price list."""
    recordings = [_record(read_case(Path(name)).past) for name in files]
    players: dict[str, PlayerFactory] = {"none": UnchangedPlayer, "default": SizedPlayer}
    players |= {f"thrift {each}": partial(SizedPlayer, settings={"thrift": each}) for each in (0.5, 1.0)}
    none: list[float] = []
    for method, build in players.items():
        replays = [
            replay_session(each, method, build, window=WINDOW, prices=_PRICES, fills_window=build is UnchangedPlayer)
            for each in recordings
        ]
        totals = [sum(replay.bills[at].total for replay in replays) for at in range(len(_PRICES))]
        none = none or totals
        shares = ", ".join(f"${own:,.2f} {own / whole:.2f}" for own, whole in zip(totals, none, strict=True))
        print(f"{method:12} {sum(replay.compactions for replay in replays):3} compactions  {shares}")


if __name__ == "__main__":
    main(sys.argv[1:])
