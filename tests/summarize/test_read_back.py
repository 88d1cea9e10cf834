"""What a section told goes on as it was when it is read back: a host that keeps no session has nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.compaction.facts.extractor import merge_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import render_facts
from tenfold.core.record.fact import Fact
from tests.summarize.making import estimate_tokens, get_facts, make_run, make_user

PLENTY = 10_000


def render_text(facts: Sequence[Fact]) -> str:
    return render_facts(facts, budget=PLENTY, count=estimate_tokens).text


def read_back(facts: Sequence[Fact], *more: Fact) -> tuple[Fact, ...]:
    """The facts of a list that begins with a summary of those facts, as a host sends it that keeps no session."""
    read = tuple(replace(fact, position=1) for fact in parse_facts(render_text(facts)))
    return merge_facts(read, [replace(fact, position=fact.position + 2) for fact in more])


def test_a_section_that_is_read_back_again_and_again_stays_as_it_is() -> None:
    facts = get_facts(
        make_user("Always run the tests."),
        *(m for n in range(6) for m in make_run(f"pytest part_{n}.py", f"ValueError: part {n}\n1 failed", error=True)),
    )
    first = render_text(facts)
    assert first.count("ValueError: part") == 6
    again = facts = list(facts)
    for _ in range(3):
        again = list(read_back(again))
        assert render_text(again) == first
