"""Laws 1 to 6 and 10 to 14 for every preset, over several compactions in a row, however the model answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.engine.call import Call
from tenfold.core.record.token_reading import Counted
from tenfold.models.model import Model
from tests.laws import conversations, presets
from tests.laws.conversations import count_tokens
from tests.laws.presets import NAMES, PRESET, Bad, Good, Judge
from tests.laws.strategies import Log

Rounds = Sequence[tuple[int, str]]


def rounds() -> st.SearchStrategy[list[tuple[int, str]]]:
    """Two to four demands: a share of the view in percent, asked for as a target or (larger) as a window."""
    target = st.tuples(st.integers(8, 70), st.just("to"))
    window = st.tuples(st.integers(55, 115), st.sampled_from(("check", "manual", "tool", "overflow")))
    return st.lists(target | window, min_size=2, max_size=4)


def build_call(size: int, share: int, kind: str) -> Call:
    """The demand that a round stands for, on a view of this size."""
    tokens = max(1, size * share // 100)
    match kind:
        case "check" | "manual" | "tool" | "overflow":
            return Call(kind, window=tokens)
        case _:
            return Call(to=Counted(tokens))


def run_journey(name: str, log: Log, wanted: Rounds, model: Model | None, models: tuple[str, ...] = ("m",)) -> Judge:
    """The session compacted round by round while it goes on: half of it first, the rest in equal parts."""
    half = len(log) // 2
    judge = Judge(presets.open_session(name, log[:half], model, models=models))
    said = conversations.extract_messages(log[half:])
    each = -(-len(said) // len(wanted))
    for number, (share, kind) in enumerate(wanted):
        judge.compact(build_call(count_tokens(judge.session.view.get_messages()), share, kind))
        judge.session.append(*said[number * each : (number + 1) * each])
        presets.assert_well_formed(judge.session)
    judge.check_whole_path()
    return judge


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), wanted=rounds())
def test_with_a_model_that_answers_well(name: str, log: Log, wanted: Rounds) -> None:
    judge = run_journey(name, log, wanted, Good(presets.build_preset(name).summary))
    for outcome in judge.outcomes:
        assert not any("heading" in note for note in outcome.notes), "the prompt asks for the headings that are checked"
        assert outcome.status != "failed" or "too long" in outcome.reason, "headings alone may be more than the room"


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), wanted=rounds(), ways=presets.bad_ways())
def test_with_a_model_that_answers_badly(name: str, log: Log, wanted: Rounds, ways: list[str]) -> None:
    judge = run_journey(name, log, wanted, Bad(ways))
    shown = str(judge.session.view.get_messages())
    assert shown.count(presets.INVENTED) == shown.count(f"{presets.INVENTED} [unconfirmed]")


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), wanted=rounds())
def test_without_any_model_all_is_done_by_code(name: str, log: Log, wanted: Rounds) -> None:
    judge = run_journey(name, log, wanted, None, models=())
    assert not any(outcome.spent.calls or "no model is" in str(outcome.notes) for outcome in judge.outcomes)


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(most=30), wanted=rounds())
def test_with_a_model_that_is_named_but_not_there(name: str, log: Log, wanted: Rounds) -> None:
    """Code writes in its place, or the run fails and is remembered (law 11); either says what is missing."""
    judge = run_journey(name, log, wanted, None)
    for outcome in judge.outcomes:
        assert not outcome.spent.calls or "no model is configured" in f"{outcome.reason} {outcome.notes}"
