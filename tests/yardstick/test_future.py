"""Future-use recall: what counts as needed, how it is scored, and that neither answers nor budgets leak."""

from __future__ import annotations

import pytest

from tenfold.recall.tools import SEARCH_BUDGET
from tenfold.testing.chats import count_total_tokens
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case
from tenfold_yardstick.future_recall import (
    FoundFacts,
    NeededFact,
    RecallScore,
    build_query,
    build_search,
    compute_area,
    find_by_search,
    find_needed_facts,
    find_present_facts,
    take_fitting,
)
from tenfold_yardstick.methods import get_methods
from tenfold_yardstick.quality import TargetSize, prepare_case
from tenfold_yardstick.quality import score_method as scored
from tests.yardstick.chats import (
    make_call,
    make_case,
    make_long_past,
    make_reply,
    make_result,
    make_step,
    make_user_message,
)


def get_facts(*future: dict[str, object], past: list[dict[str, object]] | None = None) -> dict[str, NeededFact]:
    found = find_needed_facts(make_case(past if past is not None else make_long_past(), list(future)))
    return {f.text: f for f in found}


def test_what_the_agent_uses_again_is_needed() -> None:
    found = get_facts(make_call("edit", {"path": "src/module_03.py", "to": "handle_07_input"}, id_="x"))
    assert set(found) == {"src/module_03.py", "handle_07_input"}
    assert {f.kind for f in found.values()} == {"path", "id"}
    assert {f.use_index for f in found.values()} == {81}


def test_what_is_new_is_not_needed() -> None:
    assert get_facts(make_reply("I write src/brand_new.py")) == {}


@pytest.mark.parametrize(
    "back", [make_user_message("look at src/module_03.py"), make_result("src/module_03.py:1", id_="x")]
)
def test_what_was_brought_back_is_not_needed(back: dict[str, object]) -> None:
    assert get_facts(make_reply("Next."), back, make_reply("I open src/module_03.py")) == {}


def test_what_the_agent_itself_repeats_is_needed_once_at_its_first_use() -> None:
    future = [
        make_reply("open src/module_03.py"),
        make_user_message("src/module_03.py, yes"),
        make_reply("now src/module_03.py"),
    ]
    assert get_facts(*future)["src/module_03.py"].use_index == 81


def test_what_comes_back_only_after_the_use_is_needed() -> None:
    assert set(get_facts(make_reply("open src/module_03.py"), make_user_message("yes, src/module_03.py"))) == {
        "src/module_03.py"
    }


def test_names_of_tools_and_of_arguments_are_no_use() -> None:
    past = [*make_long_past(), make_reply("The tool read_file takes a file_path.")]
    assert get_facts(make_call("read_file", {"file_path": "x"}, id_="x"), past=past) == {}


def test_what_everyone_knows_is_not_needed() -> None:
    everywhere = [make_reply(f"src/app.py, turn {n}") for n in range(10)]
    assert get_facts(make_reply("src/app.py"), past=[make_user_message("go"), *everywhere]) == {}
    system: ChatMessage = {"role": "system", "content": "The repository is in /srv/app."}
    assert (
        get_facts(make_reply("cd /srv/app"), past=[system, make_user_message("in /srv/app"), *make_long_past()]) == {}
    )


def test_a_fact_has_the_age_of_its_last_occurrence() -> None:
    past = make_long_past()
    found = get_facts(make_reply("src/module_00.py, src/module_20.py, src/module_39.py"), past=past)
    first, middle, last = (found[f"src/module_{n}.py"] for n in ("00", "20", "39"))
    assert (first.age, middle.age, last.age) == (80, 40, 2)
    assert (first.quarter, middle.quarter, last.quarter) == (1, 3, 4)
    assert first.age_tokens == count_total_tokens(past[1:])


def test_a_fact_is_priced_by_the_smallest_message_that_holds_it() -> None:
    past = [*make_long_past(), make_reply("handle_05_input")]
    fact = get_facts(make_reply("call handle_05_input"), past=past)["handle_05_input"]
    assert (fact.source_index, fact.fetch_tokens) == (81, count_total_tokens(past[81:]))


def test_the_query_never_holds_the_answer() -> None:
    query = build_query("src/app.py", "I read src/app.py and the lexer", "Please fix src/app.py in the parser")
    assert query.split() == ["lexer", "read", "parser", "fix"]
    assert build_query("src/app.py", "one two three four", "five six", words=2).split() == [
        "four",
        "three",
        "six",
        "five",
    ]


def test_an_early_query_holds_nothing_of_the_message_that_uses_the_fact() -> None:
    told = [make_reply("Look at the lexer.")]
    fact = get_facts(*told, make_user_message("Mend the zebra."), make_reply("The tokenizer is in src/module_06.py"))[
        "src/module_06.py"
    ]
    assert "tokenizer" in fact.query.split()
    assert set(fact.early_query.split()) == {"look", "lexer", "mend", "zebra"}


def test_a_search_brings_back_what_the_request_describes() -> None:
    past = [*make_long_past(), make_user_message("The zebra ticket is TK-4471."), make_reply("Noted.")]
    fact = NeededFact("TK-4471", "id", 0, 0, 0, 4, 0, 0, "zebra ticket")
    search = build_search(make_case(past, []))
    assert find_by_search([fact], search) == FoundFacts(by_query=frozenset({"TK-4471"}))
    assert search("") == search("nosuchword") == []


def test_what_a_search_brings_back_is_bounded() -> None:
    texts = ["word " * 400] * 4
    assert take_fitting(texts, SEARCH_BUDGET) == texts[:2]


def measure_recall(name: str, made: Case, budget: int) -> RecallScore:
    got = scored(prepare_case(made), get_methods([name])[0], TargetSize(budget, 1)).recall
    assert got is not None
    return got


def test_the_view_is_scored_and_misses_are_priced() -> None:
    past = make_long_past()
    made = make_case(past, [make_reply("src/module_00.py, src/module_39.py")])
    got = measure_recall("keep-last", made, 1_000)
    assert (got.present, got.needed, got.over) == (1, 2, False)
    assert got.refetch == count_total_tokens(past[1:2]), (
        "the call that named the file is the smallest message that holds it"
    )


def test_a_result_above_its_budget_scores_nothing() -> None:
    made = make_case(make_long_past(), [make_reply("src/module_00.py, src/module_39.py")])
    small, large = (measure_recall("keep-all", made, budget) for budget in (1_000, 50_000))
    assert (small.present, small.over) == (0, True)
    assert (large.present, large.over) == (2, False)


def test_one_message_that_holds_several_misses_is_fetched_once() -> None:
    past = [make_user_message("go"), make_reply("get_alpha and get_beta"), *make_long_past()[1:]]
    made = make_case(past, [make_reply("get_alpha get_beta")])
    assert measure_recall("keep-last", made, 1_000).refetch == count_total_tokens(past[1:2])


def test_only_methods_with_a_search_are_given_one() -> None:
    past = [make_user_message("The zebra ticket is TK-4471."), *make_long_past()]
    made = make_case(past, [make_user_message("And the zebra ticket?"), make_reply("The zebra ticket is TK-4471")])
    assert measure_recall("threshold", made, 1_000).within == 1
    assert measure_recall("keep-last", made, 1_000).within is None


def test_the_area_is_over_the_logarithm_of_the_budget() -> None:
    assert compute_area({4_000: 1.0, 32_000: 1.0}) == pytest.approx(1.0)
    assert compute_area({4_000: 0.0, 8_000: 1.0, 32_000: 1.0}) == pytest.approx((0.5 + 2) / 3)
    assert compute_area({8_000: 0.4}) == 0.4
    assert compute_area({}) == 0.0


def test_present_is_word_for_word() -> None:
    fact = NeededFact("get_user", "symbol", 0, 0, 0, 1, 0, 0, "")
    assert find_present_facts([make_reply("see get_user")], [fact]) == {"get_user"}
    assert find_present_facts([make_reply("see get_users")], [fact]) == set()
    assert find_present_facts([*make_step("f", {"a": "x\nget_user"}, "", id_="c")], [fact]) == {"get_user"}
