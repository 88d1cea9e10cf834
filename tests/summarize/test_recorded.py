"""The whole of summarising by code over every recorded session."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import is_must_keep, render_facts
from tenfold.compaction.summarize.story import write_story
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.formats import ParsedSession
from tests.summarize.making import estimate_tokens

pytestmark = pytest.mark.costly(6)


def get_items(session: ParsedSession) -> list[tuple[int, Message]]:
    return [(at, message) for at, entry in enumerate(session.entries) if (message := get_message(entry)) is not None]


def test_facts_and_story_of_a_session_fit_a_tenth_of_it(session: ParsedSession) -> None:
    items = get_items(session)
    total = sum(estimate_tokens([get_text(m) + "".join(c.arguments for c in get_tool_calls(m)) for _, m in items]))
    target = max(total // 10, 2_000)
    facts = extract_facts(items)
    section = render_facts(facts, budget=target // 4, count=estimate_tokens)
    assert estimate_tokens([section.text])[0] == section.tokens <= target // 4
    assert estimate_tokens([write_story(items, budget=target // 10, count=estimate_tokens)])[0] <= target // 10
    request = [fact for fact in facts if fact.kind == "request" and fact.live]
    assert all(fact in section.visible for fact in request)
    wide = render_facts(facts, budget=10**9, count=estimate_tokens)
    assert wide.unshown == ()
    assert sum(map(is_must_keep, parse_facts(wide.text))) <= sum(map(is_must_keep, facts))


def test_facts_of_two_halves_merge_to_those_of_the_whole(session: ParsedSession) -> None:
    items = get_items(session)
    starts = [n for n, (_, m) in enumerate(items) if m.role == "user" and m.origin == "human"]
    cut = starts[len(starts) // 2] if len(starts) > 1 else 0
    halves = merge_facts(extract_facts(items[:cut]), extract_facts(items[cut:]))
    whole = extract_facts(items)
    said = {(fact.kind, fact.label) for fact in whole if fact.kind in {"request", "file_deleted", "file_renamed"}}
    assert said <= {(fact.kind, fact.label) for fact in halves}
    rules = {fact.text for fact in whole if fact.kind in {"rule", "correction"}}
    assert rules == {fact.text for fact in halves if fact.kind in {"rule", "correction"}}


def test_rules_are_the_users_own_words(session: ParsedSession) -> None:
    items = get_items(session)
    said = {at: get_text(m) for at, m in items if m.origin == "human"}
    for fact in extract_facts(items):
        if fact.kind in {"rule", "correction"}:
            assert fact.text in said[fact.position]
