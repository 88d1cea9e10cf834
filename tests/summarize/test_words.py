"""The user's own words beside a model's notes: whole messages with their numbers, and read back from a plain list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.compaction.facts.extractor import merge_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import FactsSection, render_facts
from tenfold.compaction.facts.user_words import shorten_words
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message
from tests.summarize.making import estimate_tokens, get_facts, make_answer, make_user

TASK = "Mend the totals of the shop. Never touch orders/.\n- one commit per fix"
SAID = [TASK, "Use plain unittest.", "T-04: where is the filter?", "Send it to Lund.", "Now write the page."]


def build_talk(said: list[str]) -> list[Message]:
    return [message for text in said for message in (make_user(text), make_answer("It is done."))]


def render(facts: tuple[Fact, ...], budget: int = 800, words: int = 400) -> FactsSection:
    return render_facts(facts, budget=budget, count=estimate_tokens, words_budget=words)


def test_all_that_the_user_said_stands_there_once_and_numbered() -> None:
    text = render(tuple(get_facts(*build_talk(SAID)))).text
    assert "- [0] Mend the totals of the shop. Never touch orders/.\n  - one commit per fix" in text
    assert [f"- [{2 * n}] {said}" in text for n, said in enumerate(SAID[1:], 1)] == [True] * 4
    assert text.count("Never touch orders/.") == 1, "a rule needs no line beside its message"
    assert text.index("Use plain unittest.") < text.index("Send it to Lund."), "in the order in which it was said"


def test_where_it_does_not_fit_the_task_and_the_newest_stay_and_rules_get_lines() -> None:
    rule = f"Never deploy on Fridays. {'That was a long story, and it goes on for a while. ' * 12}"
    section = render(tuple(get_facts(*build_talk([TASK, rule, *SAID[1:]]))), words=90)
    assert "- [0] Mend the totals" in section.text
    assert "- [8] Send it to Lund." in section.text
    assert "\n- Never deploy on Fridays.\n" in section.text + "\n"
    assert section.unshown == ()


def test_it_is_read_back_with_its_numbers_and_told_again() -> None:
    first = render(tuple(get_facts(*build_talk(SAID))))
    back = merge_facts(parse_facts(first.text, position=0), ())
    again = render(back)
    assert [line for line in again.text.split("\n") if line.startswith("- [")] == [
        line for line in first.text.split("\n") if line.startswith("- [")
    ]


def test_of_a_long_message_what_is_pasted_goes_first() -> None:
    log = "\n".join(f"2026-01-01 12:00:{n:02} worker[{n}]: read /srv/app/{n}.log" for n in range(50))
    shown = shorten_words(f"The job fails.\n\n{log}\n\nKeep the retries at 3.", 600)
    assert shown.startswith("The job fails.")
    assert shown.endswith("Keep the retries at 3.")
    assert "characters ...]" in shown
    assert len(shown) < 700


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*SAID, "Always sign.", "ok"]), max_size=9), st.integers(0, 400), st.integers(0, 300))
def test_it_never_takes_more_than_the_budget(said: list[str], budget: int, words: int) -> None:
    section = render(tuple(get_facts(*build_talk(said))), budget, words)
    assert estimate_tokens([section.text])[0] == section.tokens <= budget
