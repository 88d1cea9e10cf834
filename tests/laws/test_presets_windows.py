"""Automatic checks under every preset in windows of 8k, 32k and 200k: room is made, once, and not again."""

from __future__ import annotations

import pytest

from tenfold.compaction.engine.call import Call
from tenfold.core.record.message import Message, Text
from tenfold.designs.threshold.trigger import EntryTrigger
from tenfold.models.model import Model
from tests.laws import presets
from tests.laws.conversations import count_tokens, encode_view, read_entries
from tests.laws.presets import BAD, NAMES, Bad, Counted, Good, Judge

WINDOWS = (8_000, 32_000, 200_000)
MODELS = ("well", "badly", "none")
FREE = 5
ROUNDS = 3
SHORT = Message("user", (Text("And now go on with the next one."),), "human")


def build_judge(name: str, answers: str) -> Judge:
    """An empty session under the preset, with a model that answers so."""
    model: dict[str, Model] = {"well": Good(presets.build_preset(name).summary), "badly": Bad(sorted(BAD))}
    models = () if answers == "none" else ("m",)
    return Judge(presets.open_session(name, (), model.get(answers), models=models))


def fill_up(judge: Judge, call: Call, number: int) -> None:
    """Work goes on until the policy's trigger fires; what is within it is left alone, without a trace."""
    session, window = judge.session, call.window or 0
    held = len(read_entries(session))
    for part in range(40):
        session.append(*presets.build_work(1_000 * number + 100 * part, window // 8))
        if get_need(judge, call) in ("soft", "hard") or has_too_many_entries(judge):
            return
        before, held = encode_view(session), len(read_entries(session))
        assert session.compact(call).status == "nothing"
        assert (encode_view(session), len(read_entries(session))) == (before, held)
    raise AssertionError(f"{count_tokens(session.view.get_messages())} tokens do not reach the trigger of {window}")


def get_need(judge: Judge, call: Call) -> str:
    """How badly the policy's trigger wants a compaction."""
    session, window = judge.session, call.window or 0
    reading = session.take_reading(window=window)
    return session.policy.trigger.get_limits(window, output_reserve=0, floor=reading.floor).get_need(reading.tokens)


def has_too_many_entries(judge: Judge) -> bool:
    """Whether more entries follow the newest Block than the policy lets follow one (`sliding`)."""
    session = judge.session
    after = session.view.length - 1 - max(session.view.state.live_blocks, default=-1)
    return isinstance(session.policy.trigger, EntryTrigger) and after > session.policy.trigger.max_entries


def assert_does_nothing(judge: Judge, call: Call) -> None:
    """A check that has nothing to do: no model is asked, nothing is written."""
    session = judge.session
    before, held = encode_view(session), read_entries(session)
    calls = session.compactor.answerer.model.calls if isinstance(session.compactor.answerer.model, Counted) else 0
    outcome = session.compact(call)
    assert outcome.status == "nothing", f"{outcome.status}: {outcome.reason}"
    assert (encode_view(session), read_entries(session)) == (before, held)
    assert not isinstance(session.compactor.answerer.model, Counted) or session.compactor.answerer.model.calls == calls


CASES = [
    (name, window, answers)
    for number, name in enumerate(NAMES)
    for window in WINDOWS
    for answers in (MODELS if window < WINDOWS[-1] else (MODELS[number % len(MODELS)],))
]
"""The largest window with one kind of model for each preset: there every check reads a million characters."""


@pytest.mark.costly(8)
@pytest.mark.parametrize(("name", "window", "answers"), CASES)
def test_one_check_leaves_a_fifth_of_the_window_and_the_next_does_nothing(name: str, window: int, answers: str) -> None:
    """Where a policy gives up with its summary (`abort`), a model that answers badly leaves the view as it was."""
    judge = build_judge(name, answers)
    session, call = judge.session, Call("check", window=window)
    aborts = answers == "badly" and session.policy.summary.on_failure == "abort"
    for number in range(1 if aborts or window == WINDOWS[-1] else ROUNDS):
        fill_up(judge, call, number)
        outcome = judge.compact(call)
        if aborts and outcome.status == "failed":
            if get_need(judge, call) == "hard":
                judge.compact(call)  # above the hard limit a second attempt is made, and no third
            assert_does_nothing(judge, call)
            continue
        assert outcome.status == "compacted", outcome.reason
        reading = session.take_reading(window=window)
        least = sum(outcome.itemised.values())
        assert reading.tokens <= max(window - window // FREE, least), f"{reading.tokens} of {window} ({outcome.notes})"
        assert_does_nothing(judge, call)
        session.append(SHORT)
        presets.assert_well_formed(session)
        assert get_need(judge, call) != "hard"
        assert_does_nothing(judge, call)
    if window == WINDOWS[0]:
        judge.check_whole_path()
