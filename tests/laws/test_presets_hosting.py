"""Laws 2, 3, 6 and 11 for every preset as a host meets them: around each request, and with a model that is too late."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.token_reading import Counted as CountedTokens
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES
from tenfold.session.drive import Answerer
from tests.gateway.serving import wait_until
from tests.laws import nearby, presets
from tests.laws.conversations import NeverAsk, count_tokens, encode_view, read_entries
from tests.laws.presets import NAMES, QUICK, Counted, Good

WINDOW = 12_000
FIELDS = {"openai-chat": "messages", "anthropic": "messages", "openai-responses": "input", "gemini": "contents"}
Item = dict[str, Any]


def is_model_output(item: Item) -> bool:
    """Whether an item of a wire is what the model gave back: a request was made right before it."""
    return item.get("role") in ("assistant", "model") or item.get("type") in ("function_call", "reasoning")


@pytest.mark.costly(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_host_that_resends_its_history_is_served_by_the_laws(name: str) -> None:
    """Each preset speaks a wire. Every request fits the window, is well-formed, and begins with the one before it."""
    wire = nearby.WIRES[NAMES.index(name) % len(nearby.WIRES)]
    said = [m for number in range(6) for m in presets.build_work(100 * number, 5_000)]
    items: list[Item] = [json.loads(item.raw) for item in WIRES[wire].encode(said).items]
    session = presets.open_session(name, (), Good(presets.build_preset(name).summary))
    before: list[Item] = []
    live: tuple[int, ...] = ()
    blocks = 0
    for end in (n for n, item in enumerate(items) if is_model_output(item) and not is_model_output(items[n - 1])):
        request = {"model": "m", FIELDS[wire]: items[:end]}
        got: list[Item] = session.before_model(request, window=WINDOW, wire=wire)[FIELDS[wire]]
        assert validate(got, wire) == []
        assert count_tokens(session.view.get_messages()) <= WINDOW
        if session.view.state.live_blocks == live:
            assert got[: len(before)] == before, f"law 2: the request of {end} items does not begin with the last"
        else:
            blocks += 1
            held = read_entries(session)
            session.compactor.use_answerer(presets.build_answerer(NeverAsk()))
            assert session.before_model(request, window=WINDOW, wire=wire)[FIELDS[wire]] == got
            assert read_entries(session) == held
            session.compactor.use_answerer(presets.build_answerer(Good(presets.build_preset(name).summary)))
        before, live = got, session.view.state.live_blocks
    assert blocks >= 2, "so much does not fit without compactions"
    assert count_tokens([m for e in read_entries(session) if (m := getattr(e, "message", None))]) > 2 * WINDOW
    presets.assert_reachable(session)
    presets.assert_keeps_facts(session)


class Hangs(Counted):
    """A model that answers when it is let, however long after it was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.ended = threading.Event(), threading.Semaphore(0)

    def build_answer(self, ask: SummaryAsk) -> Answer:
        self.go.wait()
        self.ended.release()
        return Answer(text=f"Much too late for {ask.purpose}.")


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_comes_after_it_was_given_up_changes_nothing(name: str) -> None:
    """The run ends without it: by code, or `failed` with one Attempt (law 11). What comes then is not heard."""
    policy = presets.build_preset(name)
    session = presets.open_session(name, (), None)
    session.compactor.use_policy(replace(policy, summary=replace(policy.summary, timeout=0.02, tries=1)))
    session.append(*presets.build_work(0, 6_000))
    model = Hangs()
    session.compactor.use_answerer(Answerer(model, retry_rule=QUICK))
    judge = presets.Judge(session)
    outcome = judge.compact(Call(to=CountedTokens(1_000)))
    wait_until(lambda: model.calls)  # a thread may begin later than it is given up
    assert outcome.status in ("compacted", "failed"), outcome.reason
    assert outcome.status == "compacted" or policy.summary.on_failure != "ladder"
    before, held = encode_view(session), read_entries(session)
    model.go.set()
    for _ in range(model.calls):
        model.ended.acquire()
    assert (encode_view(session), read_entries(session)) == (before, held)
    assert "Much too late" not in str(session.view.get_messages())
