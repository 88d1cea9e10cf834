"""The whole of summarising by code over every recorded session."""

from __future__ import annotations

from tenfold.engine import drafted
from tenfold.meter.counters import counter_for
from tenfold.policies import POLICIES
from tenfold.record.entry import message_of
from tenfold.record.message import Message, calls_of, text_of
from tenfold.summarize.extract import extractive
from tenfold.summarize.facts import extract, merge
from tenfold.summarize.fill import known_facts, section_of
from tenfold.summarize.parse import parse
from tenfold.summarize.section import must_keep, render
from tenfold.transcripts import Recorded
from tests.engine.making import opened
from tests.summarize.making import quarter


def items_of(session: Recorded) -> list[tuple[int, Message]]:
    return [(at, message) for at, entry in enumerate(session.entries) if (message := message_of(entry)) is not None]


def test_facts_and_story_of_a_session_fit_a_tenth_of_it(session: Recorded) -> None:
    items = items_of(session)
    total = sum(quarter([text_of(m) + "".join(c.arguments for c in calls_of(m)) for _, m in items]))
    target = max(total // 10, 2_000)
    facts = extract(items)
    section = render(facts, budget=target // 4, count=quarter)
    assert quarter([section.text])[0] == section.tokens <= target // 4
    assert quarter([extractive(items, budget=target // 10, count=quarter)])[0] <= target // 10
    request = [fact for fact in facts if fact.kind == "request" and fact.live]
    assert all(fact in section.kept for fact in request)
    wide = render(facts, budget=10**9, count=quarter)
    assert wide.unshown == ()
    assert sum(map(must_keep, parse(wide.text))) <= sum(map(must_keep, facts))


def test_facts_of_two_halves_merge_to_those_of_the_whole(session: Recorded) -> None:
    items = items_of(session)
    starts = [n for n, (_, m) in enumerate(items) if m.role == "user" and m.origin == "human"]
    cut = starts[len(starts) // 2] if len(starts) > 1 else 0
    halves = merge(extract(items[:cut]), extract(items[cut:]))
    whole = extract(items)
    said = {(fact.kind, fact.key) for fact in whole if fact.kind in {"request", "file_deleted", "file_renamed"}}
    assert said <= {(fact.kind, fact.key) for fact in halves}
    rules = {fact.text for fact in whole if fact.kind in {"rule", "correction"}}
    assert rules == {fact.text for fact in halves if fact.kind in {"rule", "correction"}}


def test_rules_are_the_users_own_words(session: Recorded) -> None:
    items = items_of(session)
    said = {at: text_of(m) for at, m in items if m.origin == "human"}
    for fact in extract(items):
        if fact.kind in {"rule", "correction"}:
            assert fact.text in said[fact.at]


def test_what_a_plan_takes_out_of_view_is_told_in_a_section(session: Recorded) -> None:
    messages = [message for entry in session.entries if (message := message_of(entry)) is not None]
    for cut in (len(messages) // 2, len(messages) * 3 // 4):
        begun = opened(messages[:cut], POLICIES["tenfold"](counter_for("gpt-4o").counter))
        facts = known_facts(drafted(begun.view, begun.policy, begun.call(), begun.bench()))
        for target in (1_500, 2_000, 3_000, 8_000):
            _, plan = begun.preview(to=target)
            if plan is not None and plan.changed and not any(piece.allotment for piece in plan.changed):
                told = section_of(plan, facts, budget=target, count=begun.policy.counter.count)
                assert not told.text
