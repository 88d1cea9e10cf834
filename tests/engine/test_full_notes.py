"""A model that uses all of its room: an explicit target holds, whatever stays beside the notes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenfold import compact
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold_yardstick.cases import read_sessions
from tests.sessions import ROOT

SESSIONS = tuple(sorted((ROOT / "examples" / "sessions").glob("*.json*")))
COUNT = choose_counter("gpt-4o").counter.count
WORDS = [f"part {number} is done and its value is {number * 7919 % 1009};" for number in range(4_000)]


class FullWriter:
    """A model that writes as many tokens as it may."""

    def answer(self, ask: SummaryAsk) -> Answer:
        """Writes lines until the next one would be too long."""
        low, high = 1, len(WORDS)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if COUNT(["\n".join(WORDS[:middle])])[0] <= ask.max_tokens else (low, middle - 1)
        return Answer(text="\n".join(WORDS[:low]))


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_an_explicit_target_holds_where_a_model_fills_its_room(path: Path, share: float) -> None:
    (session,) = read_sessions(path)
    for cut in session.legal_cuts[len(session.legal_cuts) // 3 :: 9]:
        messages = [msgspec.json.decode(msgspec.json.encode(m)) for m in session.messages[:cut]]
        target = int(compact(messages, model="gpt-4o").outcome.tokens_before * share)
        outcome = compact(messages, to=target, model="gpt-4o", summarizer=FullWriter()).outcome
        assert outcome.status == "compacted"
        assert outcome.tokens_after <= target, cut
