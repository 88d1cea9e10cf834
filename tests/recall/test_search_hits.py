"""What a search returns: few hits, the newest value first, excerpts that keep their lines, whatever the spelling."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.errors import NotFoundError, UsageError
from tenfold.recall.search import search_store
from tenfold.recall.tools import READ, SEARCH, SEARCH_BUDGET, RecallTools
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.store.base import HIT_LIMIT
from tenfold.store.search.entry_text import GAP
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import make_work

COUNTER = choose_counter("gpt-4o").counter
FILLER = ("the tide table was read again", "a crate was weighed and put back", "nobody had asked for the ferry")


def open_talk(*texts: str) -> Session:
    talk = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), build_policy("tenfold", COUNTER))
    talk.append(*(Message("user", (Text(text),), "human") for text in texts))
    return talk


def append_step(talk: Session, number: int, name: str, arguments: str, output: str) -> None:
    call = f"c{number}"
    talk.append(
        Message("assistant", (ToolCall(call, name, arguments),), "model"),
        Message("tool", (ToolResult(call, name, (Text(output),)),), "tool"),
    )


def make_tools(talk: Session) -> RecallTools:
    return RecallTools(talk.address.store, "default", "s", count=COUNTER.count)


def find_positions(talk: Session, words: str) -> list[int]:
    return [hit.position for hit in talk.search(words)]


def test_five_hits_are_the_default_everywhere() -> None:
    talk = open_talk(*(f"the ferry number {n} was late" for n in range(9)))
    store = talk.address.store
    assert len(talk.search("ferry")) == len(talk.search("late ferries")) == 5
    assert len(search_store(store, "default", "ferry")) == len(store.search("default", "ferry")) == 5
    assert make_tools(talk).handle(SEARCH, {"words": "ferry"}).count("the ferry number") == 5
    assert inspect.signature(AsyncSession.search).parameters["limit"].default == 5


def test_the_summary_in_view_is_no_hit_and_its_originals_are() -> None:
    talk = open_talk("Begin.")
    talk.append(*make_work(14))
    assert talk.compact(to=900).status == "compacted"
    shown = [s.original_position for s in talk.view.get_visible_messages() if s.is_original]
    for words in ("part0.py", "what came of part0.py", "found by code"):
        hits = [*talk.search(words), *search_store(talk.address.store, "default", words)]
        assert "block" not in {hit.kind for hit in hits}
    assert {hit.position for hit in talk.search("part0.py")} - set(shown)
    talk.undo()
    assert "block" in {hit.kind for hit in talk.search("found by code")}, "it stands in no view any more"


def test_an_excerpt_has_its_match_in_the_middle_and_keeps_its_lines() -> None:
    lines = [f"  {n:03d} {FILLER[n % 3]}" for n in range(200)]
    lines[120] = "  120 the reactor valve is K-17"
    talk = open_talk("\n".join(lines))
    for words in ('"valve is K-17"', "reactor valves"):
        snippet = talk.search(words)[0].snippet
        shown = snippet.strip(".").strip().split("\n")
        at = next(i for i, line in enumerate(shown) if "K-17" in line)
        assert shown[at].strip() == "120 the reactor valve is K-17", "a line of the text is a line of the excerpt"
        assert shown[at - 1].strip() == lines[119].strip()
        assert shown[at + 1].strip() == lines[121].strip()
        assert at > 2
        assert len(shown) - at > 2


EDITS = (
    '{"path": "lamp.py", "old_string": "port = 8080\\nhost = a", "new_string": "port = 9090\\nhost = b"}',
    '{"file_path": "lamp.py", "edits": [{"oldText": "port = 8080\\nhost = a", "newText": "port = 9090\\nhost = b"}]}',
    '{"path": "lamp.py", "search": "port = 8080\\nhost = a", "replace": "port = 9090\\nhost = b"}',
)


@pytest.mark.parametrize("arguments", EDITS)
def test_the_old_and_new_text_of_an_edit_are_labelled(arguments: str) -> None:
    talk = open_talk("Change the port.")
    append_step(talk, 1, "edit_file", arguments, "done")
    for words in ("9090", "which port has the host", "lamp.py 8080"):
        (snippet,) = [hit.snippet for hit in talk.search(words) if hit.position == 1]
        assert "[old] port = 8080\nhost = a\n" in snippet
        assert "[new] port = 9090\nhost = b" in snippet
    whole = make_tools(talk).handle(READ, {"entry": "1"})
    assert "[old]\nport = 8080\nhost = a\n[new]\nport = 9090\nhost = b" in whole
    assert "lamp.py" in whole


def test_arguments_that_are_no_edit_are_not_labelled() -> None:
    talk = open_talk("Look for it.")
    append_step(talk, 1, "grep", '{"search": "port", "path": "lamp.py"}', "nothing")
    assert all("[old]" not in hit.snippet for hit in talk.search("lamp.py"))
    assert '[call grep {"search": "port", "path": "lamp.py"}]' in make_tools(talk).handle(READ, {"entry": "1"})


PRINTS: Sequence[str] = (
    "generation: {n}",
    "store generation = {n}",
    '{{"status": "ok", "generation": {n}}}',
    "The generation is now {n}.",
    "Moved to generation {n}.",
)


@pytest.mark.parametrize("shape", PRINTS)
@pytest.mark.parametrize("query", ["generation", "which generation", "store generation", "generations now"])
def test_of_many_printed_values_the_newest_comes_first(shape: str, query: str) -> None:
    talk = open_talk("Watch the store.")
    for n in range(11):
        noise = [FILLER[(n * 7 + k) % 3] for k in range(1 + n * 5 % 7)]
        append_step(talk, n, "status", "{}", "\n".join(["store checked", *noise, shape.format(n=n), *noise[:2]]))
    hits = talk.search(query)
    assert [hit.position for hit in hits] == [22, 20, 18, 16, 14]
    assert [hit.latest_of for hit in hits] == [11, 0, 0, 0, 0]
    assert "latest of 11" in make_tools(talk).handle(SEARCH, {"words": query})


def test_what_prints_no_value_of_one_name_is_no_series() -> None:
    talk = open_talk(*(f"The ferry {what} again." for what in ("came", "went", "sank", "rose", "stayed")))
    assert {hit.latest_of for hit in talk.search("ferry")} == {0}
    same = open_talk(*(f"port: 8080, said {who}" for who in ("Ada", "Bob", "Cy")))
    assert {hit.latest_of for hit in same.search("port")} == {0}, "a value that never changed"
    numbered = open_talk(*(f"valve {n} of the reactor leaks" for n in range(4)))
    assert {hit.latest_of for hit in numbered.search("valve")} == {0}, "these are numbers of things"


def test_values_of_another_name_are_not_counted() -> None:
    talk = open_talk("gateway port: 7001", "queue port: 5", "gateway port: 7002", "queue port: 6", "gateway port: 7003")
    hits = talk.search("what is the port of the gateway")
    assert [hit.position for hit in hits[:3]] == [4, 2, 0]
    assert [hit.latest_of for hit in hits[:3]] == [3, 0, 0]


def test_near_ties_go_to_the_newer() -> None:
    text = f"the ferry left the pier at noon, and {FILLER[0]}, and {FILLER[1]}"
    talk = open_talk(text, f"{text} too", "nothing else")
    assert find_positions(talk, "ferry") == [1, 0]


def test_an_entry_can_be_named_by_its_number_and_read_with_its_neighbours() -> None:
    talk = open_talk(*(f"message {n}" for n in range(6)))
    tools = make_tools(talk)
    assert [line.position for line in talk.expand("3")] == [3]
    assert [line.position for line in talk.expand("3", around=1)] == [2, 3, 4]
    assert [line.position for line in talk.expand("0", around=2)] == [0, 1, 2]
    assert [line.position for line in talk.expand(talk.expand("5")[0].entry, around=1)] == [4, 5]
    answer = tools.handle(READ, {"entry": "3", "around": 1})
    assert [f"message {n}" in answer for n in range(6)] == [False, False, True, True, True, False]
    assert tools.handle(READ, {"entry": 3}) == tools.handle(READ, {"entry": "3"})
    number = tools.handle(SEARCH, {"words": '"message 4"'}).partition(" ")[0]
    assert "message 4" in tools.handle(READ, {"entry": number})
    assert "6 entries" in tools.handle(READ, {"entry": "6"})
    with pytest.raises(NotFoundError, match="6 entries"):
        talk.expand("6")
    assert "'around'" in tools.handle(READ, {"entry": "3", "around": -1})


def test_neighbours_of_a_summary_stand_outside_of_what_it_covers() -> None:
    talk = open_talk("Begin.")
    talk.append(*make_work(14))
    talk.compact(to=900)
    block = talk.view.path.get_entry(talk.view.state.live_blocks[-1]).id
    covered = [line.position for line in talk.expand(block, deep=True)]
    wider = [line.position for line in talk.expand(block, deep=True, around=1)]
    assert wider == sorted({*covered, *(p for p in (min(covered) - 1, max(covered) + 1) if p >= 0)})


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("the certificate expired", "certifcate"),
        ("the certificate expired", "why did the cretificate expire"),
        ("deployment went through", "deplyoment"),
        ("read_header_value is slow", "read_heder_value"),
        ("the Konfiguration changed", "Konfigurtaion"),
        ("a budget of 1,000 crates", "1000"),
        ("a budget of 1000 crates", "1,000"),
        ("a budget of 1.000 crates", "1,000 crates"),
        ("a budget of 1000 crates", "how large is the budget of 1.000"),
        ("a budget of 12\u202f345\u202f678 crates", "12,345,678"),
        ("we met at the caf\u00e9", "cafe"),
        ("we met at the cafe", "caf\u00e9"),
        ("we met at the cafe\u0301 again", "caf\u00e9"),
        ("Herr M\u00fcller called", "muller called"),
        ("Herr Muller called", "who is M\u00fcller"),
        ("\u0141\u00f3d\u017a is far", "lodz"),
    ],
)
def test_spelling_does_not_matter(said: str, query: str) -> None:
    talk = open_talk("nothing here", said, "nothing there")
    assert find_positions(talk, query)[:1] == [1]
    assert said.rpartition(" ")[2] in talk.search(query)[0].snippet


PORT_ZH, SERVER_JA, SERVER_KO = "\u7aef\u53e3", "\u30b5\u30fc\u30d0\u30fc", "\uc11c\ubc84"


@pytest.mark.parametrize(
    ("said", "query"),
    [
        pytest.param(f"\u628a{PORT_ZH}\u6539\u6210\u4e86 6432", PORT_ZH, id="Chinese, two characters"),
        pytest.param(f"{PORT_ZH}\u662f \uff16\uff14\uff13\uff12", "6432", id="wide digits"),
        pytest.param(f"{SERVER_JA}\u3092\u518d\u8d77\u52d5", "\uff7b\uff70\uff8a\uff9e\uff70", id="narrow kana"),
        pytest.param("\u30b5\u30fc\u30cf\u3099\u30fc\u3092\u518d\u8d77\u52d5", SERVER_JA, id="kana in parts"),
        pytest.param("\u1109\u1165\u1107\u1165\u1105\u1173\u11af", SERVER_KO, id="Korean in letters"),
        pytest.param(
            "\u0643\u064e\u062a\u064e\u0628\u064e \u0627\u0644\u0631\u0651\u0650\u0633\u0627\u0644\u064e\u0629\u064e",
            "\u0627\u0644\u0631\u0633\u0627\u0644\u0629",
            id="Arabic with vowel signs",
        ),
        pytest.param(
            "\u0643\u062a\u0628 \u0627\u0644\u0631\u0633\u0627\u0644\u0629",
            "\u0643\u064e\u062a\u064e\u0628\u064e",
            id="asked with vowel signs",
        ),
        pytest.param("\u0623\u062d\u0645\u062f \u0648\u0635\u0644", "\u0627\u062d\u0645\u062f", id="Arabic, hamza"),
        pytest.param("\ufefb \ufe83\ufea3\ufee4\ufeaa", "\u0627\u062d\u0645\u062f", id="Arabic, joined forms"),
        pytest.param("\u0643\u062a\u0640\u0640\u0627\u0628", "\u0643\u062a\u0627\u0628", id="Arabic, stretched"),
        pytest.param(
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645",
            id="Persian, not joined",
        ),
        pytest.param(
            "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05b9\u05dc\u05b8\u05dd",
            "\u05e9\u05dc\u05d5\u05dd",
            id="Hebrew with points",
        ),
        pytest.param(
            "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
            "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
            id="asked with points",
        ),
        pytest.param("C\u1ed5ng c\u1ee7a m\u00e1y ch\u1ee7", "cong cua may chu", id="Vietnamese with tones"),
        pytest.param("Cong cua may chu", "c\u1ed5ng c\u1ee7a m\u00e1y ch\u1ee7", id="asked with tones"),
        pytest.param("\u0938\u0921\u093c\u0915 \u092a\u0930", "\u0938\u095c\u0915", id="Hindi, nukta"),
    ],
)
def test_scripts_are_found_however_they_are_written(said: str, query: str) -> None:
    talk = open_talk("nothing here", said, "nothing there")
    assert find_positions(talk, query)[:1] == [1]
    asked = talk.search(f"{query} unheard")
    assert asked[0].position == 1, "as one of the words of a question"
    assert said.rpartition(" ")[2] in asked[0].snippet


def test_vowel_signs_of_indian_scripts_make_other_words() -> None:
    assert find_positions(open_talk("nothing", "\u0915\u093f"), '"\u0915\u0940"') == []


def test_a_misspelt_word_is_looked_for_in_the_session_that_is_searched() -> None:
    talk = open_talk("the certificate expired")
    other = Session.create(SessionAddress(talk.address.store, "other"), build_policy("tenfold", COUNTER))
    other.append(*(Message("user", (Text(f"certificate {n}"),), "human") for n in range(9)))
    assert [hit.session for hit in talk.search("certifcate")] == ["s"]
    assert {hit.session for hit in other.search("certifcate")} == {"other"}


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("port 8081", "8082"),
        ("the cat sat", "car"),
        ("the certificate expired", '"the certifcate"'),
        ("version 1.5 of it", "15"),
        ("the certificate expired", "gratification"),
    ],
)
def test_what_is_another_word_is_not_found(said: str, query: str) -> None:
    talk = open_talk("nothing here", said)
    assert 1 not in find_positions(talk, query)


def test_a_word_that_exists_is_not_taken_for_a_misspelling() -> None:
    talk = open_talk("the form was sent", "the farm was sold")
    assert find_positions(talk, "farms")[0] == 1
    assert find_positions(talk, "what of the farm")[0] == 1


SAID = (
    "The database listens on port 6432, and the queue on 7001.",
    "We deployed the billing service on Tuesday; it failed for want of a certificate.",
    "The weather is fine, and so is the coffee.",
    "Tests of the billing service run in eleven minutes.",
    "\u6570\u636e\u5e93\u7684\u7aef\u53e3\u662f 6432\u3002",
    "The certificate was renewed, the deployment went through.",
)
"""What is asked about in sentences of which no message holds every word."""


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Which port does the database listen on?", 0),
        ("Why did the deployment of the billing service fail?", 1),
        ("How long do the billing tests take to run?", 3),
        ("\u54ea\u4e2a\u7aef\u53e3\u5c5e\u4e8e\u6570\u636e\u5e93\uff1f", 4),
    ],
)
def test_a_question_finds_what_answers_it(question: str, best: int) -> None:
    talk = open_talk(*SAID)
    assert talk.search(question)[0].position == best


def test_what_holds_all_the_words_comes_first() -> None:
    talk = open_talk(*SAID)
    found = talk.search("billing certificate")
    assert found[0].position == 1
    assert {2, 3, 5} < {hit.position for hit in found[1:]}, "what stands between them is found with them"
    assert talk.search('"the billing certificate"') == [], "a phrase is one word"


def test_no_more_than_were_asked_for_and_none_twice() -> None:
    talk = open_talk(*SAID)
    found = talk.search("the billing service of Tuesday", limit=2)
    assert len({hit.entry for hit in found}) == len(found) == 2


def test_a_single_word_that_is_found_is_taken_as_it_stands() -> None:
    talk = open_talk(*SAID)
    assert [hit.position for hit in talk.search("ertific")] == [5, 1], "a part of a word, where every index is blind"
    assert [hit.position for hit in talk.search("deployed")] == [1]
    assert next(hit.position for hit in talk.search("deploying")) == 1, "nobody said it, so its stem counts"


def test_a_models_search_is_bounded_and_says_where_each_hit_stands() -> None:
    talk = open_talk(*SAID)
    for n in range(8):
        said = f"valve {n} of the reactor: " + " ".join(f"opened at {n * 100 + k} and shut again," for k in range(90))
        talk.append(Message("user", (Text(said),), "human"))
    found = talk.search("which reactor valves were opened", limit=HIT_LIMIT)
    whole = "\n".join(f"{hit.position} (message):\n{hit.snippet}" for hit in found)
    assert len(found) == HIT_LIMIT
    for room in range(60, SEARCH_BUDGET + 100, 40):
        tools = RecallTools(talk.address.store, "default", "s", count=COUNTER.count, cap=room)
        answer = tools.handle(SEARCH, {"words": "which reactor valves were opened"})
        assert COUNTER.count([answer])[0] <= min(room, SEARCH_BUDGET)
        assert whole.startswith(answer)
        assert not answer.split("\n")[-1].endswith("(message):"), "no hit of which nothing is shown"
    assert COUNTER.count([answer])[0] > SEARCH_BUDGET * 0.8


def test_another_session_is_not_searched() -> None:
    talk = open_talk(*SAID)
    store = talk.address.store
    other = Session.create(SessionAddress(store, "other"), build_policy("tenfold", COUNTER))
    other.append(Message("user", (Text("The port of the other database is 9999."),), "human"))
    assert {hit.session for hit in talk.search("Which port has the database?")} == {"s"}
    assert {hit.session for hit in search_store(store, "default", "Which port has the database?")} == {"s", "other"}


def test_a_hit_says_where_its_message_goes_on() -> None:
    filler = "\n".join(f"spread(...args{n}) does nothing of note" for n in range(60))
    talk = open_talk("nothing", f"{filler}\nthe flux valve leaks\n{filler}", "well", "the flux valve is shut")
    hits = {hit.position: hit.snippet for hit in talk.search("why does the flux valve leak")}
    assert hits[1].startswith(f"{GAP}\n")
    assert hits[1].partition("[next message]")[0].rstrip().endswith(f"\n{GAP}")
    assert hits[3] == "the flux valve is shut"


def test_a_search_without_a_word_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one word"):
        open_talk(*SAID).search("  ")
