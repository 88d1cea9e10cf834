"""Each Block stores what it changes of the facts: folded, they are those of everything at once, with and without it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Retraction, get_message
from tenfold.core.record.fact import Fact, Rule
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import MAX_FACT_BLOCKS, View
from tenfold.core.view.path import Path
from tenfold.formats import ParsedSession
from tests.laws import recorded
from tests.laws.strategies import ID, LAW, TALK, Log, logs

EMPTY = Block(ID.format(0), None, "", 0, "law", "chars4", (), tokens_before=Counted(1))


def extract_all(log: Log) -> list[Fact]:
    """The facts of every message, unmerged, oldest first."""
    said = [(at, m) for at, entry in enumerate(log) if (m := get_message(entry)) is not None]
    return sorted(extract_facts(said), key=lambda fact: fact.order)


def assert_facts_fold(log: Log, ends: Sequence[int], whole: int | None) -> None:
    """Blocks that cover the log up to each of these positions hold its facts together. The `whole`-th holds all."""
    said = extract_all(log)
    view = View.from_path(Path())
    before: list[tuple[Fact, ...]] = [()]
    for number, end in enumerate(ends):
        new = [f for f in said if (ends[number - 1] if number else -1) < f.position <= end]
        facts = merge_facts(view.list_block_facts(), new)
        assert facts == merge_facts((), [f for f in said if f.position <= end]), "merged at once"
        block = replace(EMPTY, id=ID.format(number + 1))
        block = replace(block, facts=facts) if number == whole else view.with_facts(block, facts)
        view.path.append(block)
        view = view.extend([block])
        assert view.list_block_facts() == facts
        changed = {fact.order for fact in facts if fact not in before[-1]}
        assert number == whole or {fact.order for fact in block.facts} == changed, "no more than what is new"
        before.append(facts)
    for number in range(len(ends), 0, -1):
        undo = Retraction(ID.format(100 + number), None, "", 0, ID.format(number))
        view.path.append(undo)
        view = view.extend([undo])
        assert view.list_block_facts() == before[number - 1], "undone"


@LAW
@given(logs(TALK, most=40), st.lists(st.integers(0, 40), min_size=1, max_size=5), st.none() | st.integers(0, 4))
def test_facts_of_blocks_fold_to_those_of_everything(log: Log, ends: list[int], whole: int | None) -> None:
    assert_facts_fold(log, sorted(set(ends)), whole)


def test_a_long_chain_is_not_read_to_its_beginning() -> None:
    read: list[int] = []

    def load(first: int, last: int) -> list[Block]:
        read.extend(range(first, last + 1))
        return stored[first : last + 1]

    view = View.from_path(Path())
    stored: list[Block] = []
    for number in range(100):
        facts = tuple(Rule(f"Rule {at}.", at, live=at == number) for at in range(number + 1))
        stored.append(view.with_facts(replace(EMPTY, id=ID.format(number + 1)), facts))
        view.path.append(stored[-1])
        view = view.extend(stored[-1:])
        read.clear()
        later = View(Path(length=len(stored), load=load), len(stored), (), [], 0, None, view.state)
        assert later.list_block_facts() == facts
        assert 0 < len(read) <= MAX_FACT_BLOCKS
    assert sum(len(block.facts) for block in stored) < 100 * 100 / 10


@pytest.mark.costly(4)
def test_facts_of_recorded_sessions_fold_as_well(session: ParsedSession) -> None:
    log = recorded.get_path(session)
    ends = [len(log) * tenth // 10 for tenth in range(1, 11)]
    assert_facts_fold(log, sorted(set(ends)), None)
    assert_facts_fold(log, sorted(set(ends)), 4)
