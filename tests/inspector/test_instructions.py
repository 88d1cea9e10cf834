"""The page of the instructions says of each rule whether the model sees it, by what the view holds."""

from __future__ import annotations

import html
import re

import pytest
from starlette.testclient import TestClient

from tenfold.apps.cli.compact_report import SessionOutcome, print_report
from tenfold.apps.inspector.rules_in_view import InstructionList, ListedInstruction, list_instructions
from tenfold.apps.inspector.session_pages import MOST_RULE_CHARACTERS
from tenfold.apps.inspector.timeline import measure_session
from tenfold.core.record.message import get_text
from tenfold.session import Session
from tenfold.store.base import Store
from tests.engine.making import make_reply, make_user_message, make_work
from tests.inspector.sessions import RULE, append_summary, make_session

LATER = "Never delete config/legacy.yaml."


def find_rule(found: InstructionList, text: str) -> ListedInstruction:
    """The listed rule with this text."""
    return next(each for each in found.rules if each.instruction.text == text)


def list_rules(session: Session) -> InstructionList:
    """The instructions of a session as it is now."""
    session.refresh()
    return list_instructions(measure_session(session))


def read(client: TestClient, path: str, **fields: str) -> str:
    """A page, with its escapes read."""
    return html.unescape(client.get(path, params={"id": "work", **fields}).text)


def test_a_rule_says_where_it_is_in_view_or_since_when_it_is_not(client: TestClient, store: Store) -> None:
    session = make_session(store)
    session.append(make_user_message(f"Now the settings. {LATER}"), make_reply("Yes."), *make_work(10))
    found = list_rules(session)
    assert (find_rule(found, RULE).seen, find_rule(found, LATER).is_unseen, found.unseen) == (0, False, 0)
    assert "not in what the model sees" not in read(client, "/session/instructions")
    append_summary(session, 0, 9, f"The user said: {RULE}")
    append_summary(session, 14, 20, "work")
    summary = find_rule(list_rules(session), RULE)
    assert RULE in get_text(session.view.get_messages()[summary.seen])
    live = session.view.state.live_blocks
    assert len(live) == 2
    append_summary(session, 0, 30, "It went well.")
    found = list_rules(session)
    lost = find_rule(found, RULE)
    assert (lost.seen, lost.since, found.unseen) == (-1, 3, 1)
    assert RULE not in str(session.view.get_messages())
    page = read(client, "/session/instructions")
    assert f'#b{lost.block}">compaction 3</a>' in page
    assert f"#v{find_rule(found, LATER).seen}" in page
    for text in (page, read(client, "/session/rules")):
        assert f"1 of {found.in_force} rules is not in what the model sees" in text
        assert "Compact anew…" in text
    assert "/session/rules?" in read(client, "/session")


def test_the_same_words_in_a_tool_or_an_answer_are_no_rule_in_view(store: Store) -> None:
    session = make_session(store)
    append_summary(session, 0, 9, "It went well.")
    session.append(make_user_message("Go on."), make_reply(f"As you said: {RULE}"))
    assert find_rule(list_rules(session), RULE).is_unseen


def test_an_added_rule_is_unseen_until_a_compaction_shows_it(client: TestClient, store: Store) -> None:
    session = make_session(store, steps=60)
    answer = client.post("/session/instructions/add", data={"id": "work", "text": LATER}, follow_redirects=False)
    page = html.unescape(client.get(answer.headers["location"]).text)
    row = re.search(r"<li[^>]*data-focus[^>]*>.*?</li>", page, re.DOTALL)
    assert row is not None
    assert LATER in row[0]
    assert "no compaction has shown it yet" in row[0]
    assert "The next compaction shows it" in page
    assert "Compact…" in read(client, "/session/rules")
    assert LATER not in str(session.refresh().get_messages())
    session.compact(to="20%")
    added = find_rule(list_rules(session), LATER)
    assert LATER in get_text(session.view.get_messages()[added.seen])
    assert "rules-notice" not in read(client, "/session/rules")
    setting = read(client, "/session/message", at=str(added.instruction.position))
    assert f"rule added: {LATER}" in setting


def test_a_rule_that_cannot_be_one_is_refused_on_the_page_and_kept_in_the_form(
    client: TestClient, store: Store
) -> None:
    session = make_session(store)
    before = session.view.length
    long = "Never do that. " * 200
    for text, told in ((" \n ", "the rule is empty"), (long, f"{len(long.strip()):,}")):
        answer = client.post("/session/instructions/add", data={"id": "work", "text": text})
        assert answer.status_code == 400
        assert told in answer.text
        assert '<textarea id="rule"' in answer.text
        assert text.strip() in html.unescape(answer.text)
    assert session.refresh().length == before


def test_keep_it_as_a_rule_takes_a_message_whole_or_not_at_all(client: TestClient, store: Store) -> None:
    session = make_session(store)
    fits, exceeds = "a" * 450 + " b", "word " * (MOST_RULE_CHARACTERS // 4)
    session.append(make_user_message(fits), make_reply("Yes."), make_user_message(exceeds))
    field = re.compile(r'<textarea id="keep-text"[^>]*>\n?(.*?)</textarea>', re.DOTALL)
    for back, held in ((3, fits), (1, "")):
        page = read(client, "/session/message", at=str(session.view.length - back))
        found = field.search(page)
        assert found is not None
        assert found[1] == held
        assert (f"{len(exceeds):,} characters, and a rule may have {MOST_RULE_CHARACTERS:,}" in page) == (not held)


def test_what_ended_a_rule_is_linked_and_a_dropped_one_can_be_restored(client: TestClient, store: Store) -> None:
    session = make_session(store)
    session.append(make_user_message("You may push to main after all."), make_reply("Gladly."))
    revoking = session.view.length - 2
    revoked = find_rule(list_rules(session), RULE)
    assert (revoked.instruction.status, revoked.ended_by) == ("revoked", revoking)
    assert f"revoked by entry {revoking}</a>" in read(client, "/session/instructions")
    session.append(make_user_message(LATER))
    rule = "Two lines,\nalways both."
    client.post("/session/instructions/add", data={"id": "work", "text": rule.replace("\n", "\r\n")})
    assert not find_rule(list_rules(session), rule).seen >= 0
    for text in (LATER, rule):
        client.post("/session/instructions/drop", data={"id": "work", "text": text.replace("\n", "\r\n")})
        dropped = find_rule(list_rules(session), text)
        assert (dropped.instruction.status, dropped.ended_by) == ("dropped", session.view.length - 1)
    assert read(client, "/session/instructions").count("Restore</button>") == 3
    client.post("/session/instructions/add", data={"id": "work", "text": LATER})
    assert find_rule(list_rules(session), LATER).instruction.is_rule


def test_requests_stand_folded_below_the_rules(client: TestClient, store: Store) -> None:
    make_session(store)
    page = read(client, "/session/instructions")
    assert page.index("<h2>Rules</h2>") < page.index(RULE) < page.index('<details class="requests">')
    assert page.index("Please clean up part 0") > page.index('<details class="requests">')


def test_compacting_anew_is_previewed_from_the_originals_and_names_what_it_undoes(
    client: TestClient, store: Store
) -> None:
    session = make_session(store, steps=60)
    blocks = [append_summary(session, 0, 9, "first"), append_summary(session, 20, 40, "second")]
    assert find_rule(list_rules(session), RULE).since == 1
    asked = read(client, "/session/compact", anew="yes")
    assert "It undoes these 2 compactions" in asked
    assert all(block in asked for block in blocks)
    length = session.view.length
    preview = read(client, "/session/compact", anew="yes", to="20%")
    assert "with nothing compacted" in preview
    assert "Compact anew" in preview
    assert session.refresh().length == length
    at_most = int(re.search(r"at most <b>([\d,]+)</b>", preview)[1].replace(",", ""))  # type: ignore[index]
    answer = client.post("/session/compact", data={"id": "work", "anew": "yes", "to": "20%"}, follow_redirects=False)
    page = html.unescape(client.get(answer.headers["location"]).text)
    session.refresh()
    shown = sum(session.conversation.get_message_sizes().values())
    assert shown <= at_most
    assert len(session.view.state.live_blocks) == 1
    assert find_rule(list_rules(session), RULE).seen >= 0
    assert "Must-keep facts in view:" in page
    assert re.search(r"rule \d/\d", page)


def test_compacting_anew_undoes_nothing_where_nothing_could_be_compacted(client: TestClient, store: Store) -> None:
    session = make_session(store, steps=3)
    append_summary(session, 0, 3, "first")
    data = {"id": "work", "anew": "yes", "to": "99999"}
    assert "Nothing changed" in client.post("/session/compact", data=data).text
    session.refresh()
    assert len(session.view.state.live_blocks) == 1


def test_the_pages_and_the_command_line_count_the_same_facts(
    store: Store, capsys: pytest.CaptureFixture[str], client: TestClient
) -> None:
    session = make_session(store, steps=60)
    data = {"id": "work", "to": "15%"}
    answer = client.post("/session/compact", data=data, follow_redirects=False)
    page = html.unescape(client.get(answer.headers["location"]).text)
    told = re.search(r"Must-keep facts in view: ([^<]*?)\.", page)
    assert told is not None
    outcome = make_session(store, "again", steps=60).compact(to="15%")
    print_report([SessionOutcome("file", "again", "pi", "counter", outcome)], is_stored=True, unread=0)
    assert f"must-keep facts in view: {told[1]}" in " ".join(capsys.readouterr().out.split())
    assert session.refresh().state.live_blocks
