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
LINES = [f"part {number} is done and its value is {number * 7919 % 1009};" for number in range(1_000)]
LINE_TOKENS = COUNT(["\n".join(LINES)])[0] / len(LINES)


class FullWriter:
    """A model that writes about as many tokens as it may, and never more."""

    def answer(self, ask: SummaryAsk) -> Answer:
        """Writes lines, one less until they fit."""
        lines = LINES[: int(ask.max_tokens / LINE_TOKENS) + 1]
        while COUNT(["\n".join(lines)])[0] > ask.max_tokens:
            lines.pop()
        return Answer(text="\n".join(lines))


@pytest.mark.costly(3)
@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_an_explicit_target_holds_where_a_model_fills_its_room(path: Path, share: float) -> None:
    (session,) = read_sessions(path)
    for cut in session.legal_cuts[len(session.legal_cuts) // 3 :: 15]:
        messages = [msgspec.json.decode(msgspec.json.encode(m)) for m in session.messages[:cut]]
        target = int(compact(messages, model="gpt-4o").outcome.tokens_before * share)
        outcome = compact(messages, to=target, model="gpt-4o", summarizer=FullWriter()).outcome
        assert outcome.status == "compacted"
        assert outcome.tokens_after <= target, cut
