"""Automatic checks under every preset in windows of 8k, 32k and 200k: room is made, once, and not again."""

from __future__ import annotations

import pytest

from tenfold.engine import Call
from tenfold.llm.model import Model
from tenfold.record.message import Message, Text
from tests.laws import presets
from tests.laws.conversations import entries, sent, tokens
from tests.laws.presets import BAD, NAMES, Bad, Counted, Good, Judge

WINDOWS = (8_000, 32_000, 200_000)
MODELS = ("well", "badly", "none")
FREE = 5
ROUNDS = 3
SHORT = Message("user", (Text("And now go on with the next one."),), "human")


def judge_for(name: str, answers: str) -> Judge:
    """An empty session under the preset, with a model that answers so."""
    model: dict[str, Model] = {"well": Good(presets.using(name).summary), "badly": Bad(sorted(BAD))}
    models = () if answers == "none" else ("m",)
    return Judge(presets.opened(name, (), model.get(answers), models=models))


def fill_up(judge: Judge, call: Call, number: int) -> None:
    """Work goes on until the policy's trigger fires; what is within it is left alone, without a trace."""
    session, window = judge.session, call.window or 0
    held = len(entries(session))
    for part in range(40):
        session.append(*presets.work(1_000 * number + 100 * part, window // 8))
        if need(judge, call) in ("soft", "hard") or crowded(judge):
            return
        before, held = sent(session), len(entries(session))
        assert session.compact(call).status == "nothing"
        assert (sent(session), len(entries(session))) == (before, held)
    raise AssertionError(f"{tokens(session.view.messages())} tokens do not reach the trigger of {window}")


def need(judge: Judge, call: Call) -> str:
    """How badly the policy's trigger wants a compaction."""
    session, window = judge.session, call.window or 0
    reading = session.reading(window=window)
    return session.policy.trigger.limits(window, output_reserve=0, floor=reading.floor).need(reading.tokens)


def crowded(judge: Judge) -> bool:
    """Whether more entries follow the newest Block than the policy lets follow one (`sliding`)."""
    session = judge.session
    after = session.view.length - 1 - max(session.view.marks.live, default=-1)
    return bool(session.policy.turns) and after > session.policy.turns


def does_nothing(judge: Judge, call: Call) -> None:
    """A check that has nothing to do: no model is asked, nothing is written."""
    session = judge.session
    before, held = sent(session), entries(session)
    calls = session.answerer.model.calls if isinstance(session.answerer.model, Counted) else 0
    outcome = session.compact(call)
    assert outcome.status == "nothing", f"{outcome.status}: {outcome.reason}"
    assert (sent(session), entries(session)) == (before, held)
    assert not isinstance(session.answerer.model, Counted) or session.answerer.model.calls == calls


CASES = [
    (name, window, answers)
    for number, name in enumerate(NAMES)
    for window in WINDOWS
    for answers in (MODELS if window < WINDOWS[-1] else (MODELS[number % len(MODELS)],))
]
"""The largest window with one kind of model for each preset: there every check reads a million characters."""


@pytest.mark.parametrize(("name", "window", "answers"), CASES)
def test_one_check_leaves_a_fifth_of_the_window_and_the_next_does_nothing(name: str, window: int, answers: str) -> None:
    """Where a policy gives up with its summary (`abort`), a model that answers badly leaves the view as it was."""
    judge = judge_for(name, answers)
    session, call = judge.session, Call("check", window=window)
    aborts = answers == "badly" and session.policy.summary.on_failure == "abort"
    for number in range(1 if aborts or window == WINDOWS[-1] else ROUNDS):
        fill_up(judge, call, number)
        outcome = judge.compact(call)
        if aborts and outcome.status == "failed":
            if need(judge, call) == "hard":
                judge.compact(call)  # above the hard limit a second attempt is made, and no third
            does_nothing(judge, call)
            continue
        assert outcome.status == "compacted", outcome.reason
        reading = session.reading(window=window)
        least = sum(outcome.itemised.values())
        assert reading.tokens <= max(window - window // FREE, least), f"{reading.tokens} of {window} ({outcome.notes})"
        does_nothing(judge, call)
        session.append(SHORT)
        presets.well_formed(session)
        assert need(judge, call) != "hard"
        does_nothing(judge, call)
    if window == WINDOWS[0]:
        judge.whole()
