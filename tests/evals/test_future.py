"""Future-use recall: what counts as needed, how it is scored, and that neither answers nor budgets leak."""

from __future__ import annotations

import pytest

from tenfold.evals.cases import Case, ChatMessage, tokens_of
from tenfold.evals.future import Away, Fact, Recall, area, found_by, needed, present, query_of, search_of, within
from tenfold.evals.methods import methods
from tenfold.evals.quality import Size, ground
from tenfold.evals.quality import score as scored
from tenfold.recall.tools import FOUND
from tests.evals.chats import calls, case, gives, long_past, says, step, user


def facts_of(*future: dict[str, object], past: list[dict[str, object]] | None = None) -> dict[str, Fact]:
    found = needed(case(past if past is not None else long_past(), list(future)))
    return {f.text: f for f in found}


def test_what_the_agent_uses_again_is_needed() -> None:
    found = facts_of(calls("edit", {"path": "src/module_03.py", "to": "handle_07_input"}, id_="x"))
    assert set(found) == {"src/module_03.py", "handle_07_input"}
    assert {f.kind for f in found.values()} == {"path", "id"}
    assert {f.use for f in found.values()} == {81}


def test_what_is_new_is_not_needed() -> None:
    assert facts_of(says("I write src/brand_new.py")) == {}


@pytest.mark.parametrize("back", [user("look at src/module_03.py"), gives("src/module_03.py:1", id_="x")])
def test_what_was_brought_back_is_not_needed(back: dict[str, object]) -> None:
    assert facts_of(says("Next."), back, says("I open src/module_03.py")) == {}


def test_what_the_agent_itself_repeats_is_needed_once_at_its_first_use() -> None:
    future = [says("open src/module_03.py"), user("src/module_03.py, yes"), says("now src/module_03.py")]
    assert facts_of(*future)["src/module_03.py"].use == 81


def test_what_comes_back_only_after_the_use_is_needed() -> None:
    assert set(facts_of(says("open src/module_03.py"), user("yes, src/module_03.py"))) == {"src/module_03.py"}


def test_names_of_tools_and_of_arguments_are_no_use() -> None:
    past = [*long_past(), says("The tool read_file takes a file_path.")]
    assert facts_of(calls("read_file", {"file_path": "x"}, id_="x"), past=past) == {}


def test_what_everyone_knows_is_not_needed() -> None:
    everywhere = [says(f"src/app.py, turn {n}") for n in range(10)]
    assert facts_of(says("src/app.py"), past=[user("go"), *everywhere]) == {}
    system: ChatMessage = {"role": "system", "content": "The repository is in /srv/app."}
    assert facts_of(says("cd /srv/app"), past=[system, user("in /srv/app"), *long_past()]) == {}


def test_a_fact_has_the_age_of_its_last_occurrence() -> None:
    past = long_past()
    found = facts_of(says("src/module_00.py, src/module_20.py, src/module_39.py"), past=past)
    first, middle, last = (found[f"src/module_{n}.py"] for n in ("00", "20", "39"))
    assert (first.age, middle.age, last.age) == (80, 40, 2)
    assert (first.quarter, middle.quarter, last.quarter) == (1, 3, 4)
    assert first.age_tokens == tokens_of(past[1:])


def test_a_fact_is_priced_by_the_smallest_message_that_holds_it() -> None:
    past = [*long_past(), says("handle_05_input")]
    fact = facts_of(says("call handle_05_input"), past=past)["handle_05_input"]
    assert (fact.source, fact.fetch) == (81, tokens_of(past[81:]))


def test_the_query_never_holds_the_answer() -> None:
    query = query_of("src/app.py", "I read src/app.py and the lexer", "Please fix src/app.py in the parser")
    assert query.split() == ["lexer", "read", "parser", "fix"]
    assert query_of("src/app.py", "one two three four", "five six", words=2).split() == ["four", "three", "six", "five"]


def test_an_early_query_holds_nothing_of_the_message_that_uses_the_fact() -> None:
    told = [says("Look at the lexer.")]
    fact = facts_of(*told, user("Mend the zebra."), says("The tokenizer is in src/module_06.py"))["src/module_06.py"]
    assert "tokenizer" in fact.query.split()
    assert set(fact.early.split()) == {"look", "lexer", "mend", "zebra"}


def test_a_search_brings_back_what_the_request_describes() -> None:
    past = [*long_past(), user("The zebra ticket is TK-4471."), says("Noted.")]
    fact = Fact("TK-4471", "id", 0, 0, 0, 4, 0, 0, "zebra ticket")
    search = search_of(case(past, []))
    assert found_by([fact], search) == Away(near=frozenset({"TK-4471"}))
    assert search("") == search("nosuchword") == []


def test_what_a_search_brings_back_is_bounded() -> None:
    texts = ["word " * 400] * 4
    assert within(texts, FOUND) == texts[:2]


def recall(name: str, made: Case, budget: int) -> Recall:
    got = scored(ground(made), methods([name])[0], Size(budget, 1)).recall
    assert got is not None
    return got


def test_the_view_is_scored_and_misses_are_priced() -> None:
    past = long_past()
    made = case(past, [says("src/module_00.py, src/module_39.py")])
    got = recall("keep-last", made, 1_000)
    assert (got.present, got.needed, got.over) == (1, 2, False)
    assert got.refetch == tokens_of(past[1:2]), "the call that named the file is the smallest message that holds it"


def test_a_result_above_its_budget_scores_nothing() -> None:
    made = case(long_past(), [says("src/module_00.py, src/module_39.py")])
    small, large = (recall("keep-all", made, budget) for budget in (1_000, 50_000))
    assert (small.present, small.over) == (0, True)
    assert (large.present, large.over) == (2, False)


def test_one_message_that_holds_several_misses_is_fetched_once() -> None:
    past = [user("go"), says("get_alpha and get_beta"), *long_past()[1:]]
    made = case(past, [says("get_alpha get_beta")])
    assert recall("keep-last", made, 1_000).refetch == tokens_of(past[1:2])


def test_only_methods_with_a_search_are_given_one() -> None:
    past = [user("The zebra ticket is TK-4471."), *long_past()]
    made = case(past, [user("And the zebra ticket?"), says("The zebra ticket is TK-4471")])
    assert recall("threshold", made, 1_000).within == 1
    assert recall("keep-last", made, 1_000).within is None


def test_the_area_is_over_the_logarithm_of_the_budget() -> None:
    assert area({4_000: 1.0, 32_000: 1.0}) == pytest.approx(1.0)
    assert area({4_000: 0.0, 8_000: 1.0, 32_000: 1.0}) == pytest.approx((0.5 + 2) / 3)
    assert area({8_000: 0.4}) == 0.4
    assert area({}) == 0.0


def test_present_is_word_for_word() -> None:
    fact = Fact("get_user", "symbol", 0, 0, 0, 1, 0, 0, "")
    assert present([says("see get_user")], [fact]) == {"get_user"}
    assert present([says("see get_users")], [fact]) == set()
    assert present([*step("f", {"a": "x\nget_user"}, "", id_="c")], [fact]) == {"get_user"}
