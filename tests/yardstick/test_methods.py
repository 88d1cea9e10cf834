"""The methods that are compared: each keeps to its rule, and several rounds are rounds over its own results."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tenfold.errors import UsageError
from tenfold.testing.chats import count_total_tokens, get_role
from tenfold.testing.methods import Method, MethodResult, UnableError, compact_in_rounds, split_past, split_steps
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.future_recall import is_over_budget
from tenfold_yardstick.methods import CONTROLS, get_methods
from tests.yardstick.chats import make_case, make_long_past, make_reply, make_step, make_user_message

PRESETS = ("tenfold", "tail", "tiers", "blocks", "threshold", "sliding", "clip")


def get_method(name: str) -> Method:
    return get_methods([name])[0]


def find_orphans(messages: Sequence[ChatMessage]) -> set[str]:
    called = {str(c["id"]) for m in messages for c in m.get("tool_calls") or ()}  # type: ignore[attr-defined]
    answered = {str(m["tool_call_id"]) for m in messages if get_role(m) == "tool"}
    return called ^ answered


@pytest.mark.parametrize("name", [*PRESETS, "keep-last", "truncate-middle", "mask-10"])
@pytest.mark.parametrize("budget", [1_500, 3_000])
def test_a_method_lands_within_its_budget_with_whole_steps(name: str, budget: int) -> None:
    past = make_long_past()
    made = get_method(name).compact(past, budget=budget)
    assert count_total_tokens(past) > 2 * budget
    assert 0 < made.tokens == count_total_tokens(made.messages) <= budget
    assert find_orphans(made.messages) == set()


def test_keep_all_keeps_all_whatever_the_budget() -> None:
    past = make_long_past()
    assert get_method("keep-all").compact(past, budget=10).messages == tuple(past)


def test_keep_last_keeps_the_system_prompt_and_the_newest_steps() -> None:
    past: list[ChatMessage] = [{"role": "system", "content": "Be brief."}, *make_long_past()]
    made = get_method("keep-last").compact(past, budget=1_000).messages
    assert made[0] == past[0]
    assert made[1:] == tuple(past[len(past) - len(made) + 1 :])
    assert len(made) > 3


def test_truncate_middle_keeps_both_ends_and_says_what_is_gone() -> None:
    past = make_long_past()
    made = get_method("truncate-middle").compact(past, budget=1_000).messages
    gap = next(i for i, m in enumerate(made) if "left out" in get_text(m))
    assert made[:gap] == tuple(past[:gap])
    assert gap > 2
    assert made[gap + 1 :] == tuple(past[len(past) - (len(made) - gap - 1) :])
    assert f"{len(past) - len(made) + 1:,} earlier" in get_text(made[gap])


def test_truncate_middle_leaves_what_fits_alone() -> None:
    past = make_long_past(3)
    assert get_method("truncate-middle").compact(past, budget=50_000).messages == tuple(past)


def test_mask_10_masks_all_outputs_but_the_newest_ten() -> None:
    past = make_long_past()
    made = get_method("mask-10").compact(past, budget=50_000).messages
    outputs = [get_text(m) for m in made if get_role(m) == "tool"]
    assert all(text.startswith("[tool output left out") for text in outputs[:-10])
    assert [m for m in made if get_role(m) != "tool"] == [m for m in past if get_role(m) != "tool"]
    assert made[-20:] == tuple(past[-20:])


def test_the_real_summary_stands_for_what_it_stood_for() -> None:
    past = make_long_past()
    real = make_case(past, [make_reply("on")], summary="Modules 0 to 29 were read.", kept=len(past) - 4)
    method = get_methods(["real-summary"], [real])[0]
    made = method.compact(past, budget=1).messages
    assert "Modules 0 to 29 were read." in get_text(made[0])
    assert made[1:] == tuple(past[-4:])
    with pytest.raises(UnableError, match="no model-written summary"):
        method.compact(past[:-2], budget=1)


def test_all_names_every_method_once_and_the_real_one_only_where_there_is_one() -> None:
    names = [m.name for m in get_methods(["all"])]
    assert names[0] == "tenfold"
    assert len(names) == len(set(names)) == len(PRESETS) + 4 + len(CONTROLS)
    real = make_case(make_long_past(2), [], summary="x")
    assert [m.name for m in get_methods(["tail", "all"], [real])][-1] == "real-summary"


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="keep-last"):
        get_methods(["keep-lost"])


def test_steps_are_calls_with_their_results() -> None:
    past: list[ChatMessage] = [
        {"role": "system", "content": "s"},
        make_user_message("q"),
        *make_step("f", {}, "1", id_="a"),
        make_reply("done"),
    ]
    head, steps = split_steps(past)
    assert head == past[:1]
    assert steps == [past[1:2], past[2:4], past[4:]]


class Noting:
    """Keeps the last message, and notes what it was given."""

    name = "noting"

    def __init__(self) -> None:
        self.given: list[list[ChatMessage]] = []

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        self.given.append(list(past))
        return MethodResult(tuple(past[-1:]), budget, 0.5, 3, 2)


def test_rounds_compact_the_last_result_with_what_is_new() -> None:
    past = make_long_past(10)
    method = Noting()
    made = compact_in_rounds(method, past, budget=7, rounds=3)
    assert len(method.given) == 3
    assert method.given[0] == past[: len(method.given[0])]
    seen = len(method.given[0])
    for given in method.given[1:]:
        assert given[0] == past[seen - 1]
        assert given[1:] == past[seen : seen + len(given) - 1]
        seen += len(given) - 1
    assert seen == len(past)
    assert (made.tokens, made.seconds, made.spent_input, made.spent_output) == (7, 1.5, 9, 6)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 10, 100])
def test_stretches_make_up_the_past_and_split_no_step(rounds: int) -> None:
    past = make_long_past(12)
    found = split_past(past, rounds)
    assert [m for s in found for m in s] == past
    assert len(found) <= rounds
    assert all(find_orphans(s) == set() for s in found)


def test_no_round_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="at least once"):
        compact_in_rounds(Noting(), make_long_past(2), budget=10, rounds=0)


def test_a_preset_over_rounds_stays_within_its_budget() -> None:
    made = compact_in_rounds(get_method("tenfold"), make_long_past(), budget=2_000, rounds=4)
    assert made.tokens <= 2_000
    assert "legacy_config.toml" in "\n".join(map(get_text, made.messages))


def test_controls_show_what_a_measure_gives_to_no_view_to_names_and_to_everything() -> None:
    past = make_long_past()
    for name, control in CONTROLS.items():
        made = control.compact(past, budget=300)
        text = json.dumps(made.messages)
        if name == "full-past":
            assert made.messages == tuple(past)
            assert not is_over_budget(name, made.tokens, 300)
        elif name == "empty-view":
            assert made.messages == ()
        else:
            assert 250 < made.tokens <= 300
            assert "src/module_39.py" in text
            assert "function" not in text
    assert is_over_budget("keep-all", 400, 300)
