"""The methods that are compared: each keeps to its rule, and several rounds are rounds over its own results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage, role_of, text_of_message, tokens_of
from tenfold.evals.methods import Compacted, Method, Unable, methods, steps_of
from tenfold.evals.rounds import grown, stretches
from tests.evals.chats import case, long_past, says, step, user

PRESETS = ("tenfold", "tail", "tiers", "blocks", "threshold", "sliding", "clip")


def one(name: str) -> Method:
    return methods([name])[0]


def orphans(messages: Sequence[ChatMessage]) -> set[str]:
    called = {str(c["id"]) for m in messages for c in m.get("tool_calls") or ()}  # type: ignore[attr-defined]
    answered = {str(m["tool_call_id"]) for m in messages if role_of(m) == "tool"}
    return called ^ answered


@pytest.mark.parametrize("name", [*PRESETS, "keep-last", "truncate-middle", "mask-10"])
@pytest.mark.parametrize("budget", [1_500, 3_000])
def test_a_method_lands_within_its_budget_with_whole_steps(name: str, budget: int) -> None:
    past = long_past()
    made = one(name).compact(past, budget=budget)
    assert tokens_of(past) > 2 * budget
    assert 0 < made.tokens == tokens_of(made.messages) <= budget
    assert orphans(made.messages) == set()


def test_keep_all_keeps_all_whatever_the_budget() -> None:
    past = long_past()
    assert one("keep-all").compact(past, budget=10).messages == tuple(past)


def test_keep_last_keeps_the_system_prompt_and_the_newest_steps() -> None:
    past: list[ChatMessage] = [{"role": "system", "content": "Be brief."}, *long_past()]
    made = one("keep-last").compact(past, budget=1_000).messages
    assert made[0] == past[0]
    assert made[1:] == tuple(past[len(past) - len(made) + 1 :])
    assert len(made) > 3


def test_truncate_middle_keeps_both_ends_and_says_what_is_gone() -> None:
    past = long_past()
    made = one("truncate-middle").compact(past, budget=1_000).messages
    gap = next(i for i, m in enumerate(made) if "left out" in text_of_message(m))
    assert made[:gap] == tuple(past[:gap])
    assert gap > 2
    assert made[gap + 1 :] == tuple(past[len(past) - (len(made) - gap - 1) :])
    assert f"{len(past) - len(made) + 1:,} earlier" in text_of_message(made[gap])


def test_truncate_middle_leaves_what_fits_alone() -> None:
    past = long_past(3)
    assert one("truncate-middle").compact(past, budget=50_000).messages == tuple(past)


def test_mask_10_masks_all_outputs_but_the_newest_ten() -> None:
    past = long_past()
    made = one("mask-10").compact(past, budget=50_000).messages
    outputs = [text_of_message(m) for m in made if role_of(m) == "tool"]
    assert all(text.startswith("[tool output left out") for text in outputs[:-10])
    assert [m for m in made if role_of(m) != "tool"] == [m for m in past if role_of(m) != "tool"]
    assert made[-20:] == tuple(past[-20:])


def test_the_real_summary_stands_for_what_it_stood_for() -> None:
    past = long_past()
    real = case(past, [says("on")], summary="Modules 0 to 29 were read.", kept=len(past) - 4)
    method = methods(["real-summary"], [real])[0]
    made = method.compact(past, budget=1).messages
    assert "Modules 0 to 29 were read." in text_of_message(made[0])
    assert made[1:] == tuple(past[-4:])
    with pytest.raises(Unable, match="no model-written summary"):
        method.compact(past[:-2], budget=1)


def test_all_names_every_method_once_and_the_real_one_only_where_there_is_one() -> None:
    names = [m.name for m in methods(["all"])]
    assert names[0] == "tenfold"
    assert len(names) == len(set(names)) == len(PRESETS) + 4
    real = case(long_past(2), [], summary="x")
    assert [m.name for m in methods(["tail", "all"], [real])][-1] == "real-summary"


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="keep-last"):
        methods(["keep-lost"])


def test_steps_are_calls_with_their_results() -> None:
    past: list[ChatMessage] = [
        {"role": "system", "content": "s"},
        user("q"),
        *step("f", {}, "1", id_="a"),
        says("done"),
    ]
    head, steps = steps_of(past)
    assert head == past[:1]
    assert steps == [past[1:2], past[2:4], past[4:]]


class Noting:
    """Keeps the last message, and notes what it was given."""

    name = "noting"

    def __init__(self) -> None:
        self.given: list[list[ChatMessage]] = []

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        self.given.append(list(past))
        return Compacted(tuple(past[-1:]), budget, 0.5, 3, 2)


def test_rounds_compact_the_last_result_with_what_is_new() -> None:
    past = long_past(10)
    method = Noting()
    made = grown(method, past, budget=7, rounds=3)
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
    past = long_past(12)
    found = stretches(past, rounds)
    assert [m for s in found for m in s] == past
    assert len(found) <= rounds
    assert all(orphans(s) == set() for s in found)


def test_no_round_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="at least once"):
        grown(Noting(), long_past(2), budget=10, rounds=0)


def test_a_preset_over_rounds_stays_within_its_budget() -> None:
    made = grown(one("tenfold"), long_past(), budget=2_000, rounds=4)
    assert made.tokens <= 2_000
    assert "legacy_config.toml" in "\n".join(map(text_of_message, made.messages))
