"""The ledger of values: one line a subject with its newest value, what it was before, and what is open."""

from __future__ import annotations

import re

import pytest

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.facts.merge import merge_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import render_facts
from tenfold.compaction.facts.values import find_printed_values, find_stated_values
from tenfold.core.record.block import Fact
from tenfold.core.record.message import Message, get_text
from tests.engine.making import make_read_step, open_session
from tests.summarize.making import estimate_tokens, get_facts, make_answer, make_run, make_user


def get_values(*messages: Message) -> dict[str, str]:
    """The values in view, by subject."""
    facts = get_facts(*messages, kind="value")
    return dict(fact.text.split(" = ", 1) for fact in facts if fact.live)


@pytest.mark.parametrize(
    ("text", "subject", "value"),
    [
        ("The port of the gateway is now 8081.", "port of the gateway", "8081"),
        ("gateway port = 9090", "gateway port", "9090"),
        ("- Retention: 30 days", "Retention", "30 days"),
        ("We changed the retry limit from 3 to 5.", "retry limit", "5"),
        ("Okay, the owner of the ledger is now Ines.", "owner of the ledger", "Ines"),
        ("I set max_tokens to 4096.", "max_tokens", "4096"),
        ("The budget of team north rose to $4,500.", "budget of team north", "$4,500"),
        ("The branch is `release-2`.", "branch", "release-2"),
        ("Der Port ist jetzt 8081.", "Der Port", "8081"),
        ("端口现在是 8081", "端口", "8081"),
    ],
)
def test_a_stated_value(text: str, subject: str, value: str) -> None:
    (found,) = find_stated_values(text)
    assert (found.subject, found.value) == (subject, value)


@pytest.mark.parametrize(
    "text",
    [
        "Is the port now 8081?",
        "It is now 5.",
        "There are 12 files.",
        "The suite is green.",
        "See line 12: 40",
        "```\nport = 8081\n```",
    ],
)
def test_no_value_is_stated(text: str) -> None:
    assert find_stated_values(text) == ()


def test_the_order_of_words_does_not_matter() -> None:
    told = [make_user("The port of the gateway is 8080."), make_answer("Noted. The gateway port is now 8081.")]
    assert get_values(*told) == {"gateway port": "8081"}


def test_what_a_value_was_is_told_with_its_place() -> None:
    (value,) = get_facts(make_user("The quota is 40."), make_answer("The quota is now 50."), kind="value")
    section = render_facts([value], budget=200, count=estimate_tokens).text
    assert "- quota = 50 (was: 40 [0])" in section
    (read,) = parse_facts(section)
    assert (read.text, read.key, read.was) == ("quota = 50", "quota", "40 [0]")


def test_ten_printed_values_of_one_name_are_one_line() -> None:
    runs = [message for n in range(10) for message in make_run("python train.py", f"generation: {n}\nbest={n * 7}\n")]
    assert get_values(*runs) == {"generation": "9", "best": "63"}
    assert get_values(*runs[:2]) == {}, "a value that was printed once has no history"


def test_a_name_means_what_its_command_means_by_it() -> None:
    runs = [*make_run("python train.py", "loss=3"), *make_run("python eval.py", "loss=5")]
    assert get_values(*runs, *make_run("python train.py", "loss=2")) == {"loss": "2"}


def test_a_printed_value_replaces_a_stated_one_of_the_same_subject() -> None:
    told = [make_answer("The queue limit is 40."), *make_run("./show", "queue limit: 44\n")]
    assert get_values(make_user("Go."), *told) == {"queue limit": "44"}
    assert get_values(*told, make_answer("Hm."), make_user("The queue limit is now 60.")) == {"queue limit": "60"}


def test_where_tool_and_model_differ_both_are_open() -> None:
    told = [make_user("The queue limit is 30."), *make_run("./show", "queue limit: 44\n")]
    assert get_values(*told, make_answer("The queue limit is 40.")) == {"queue limit": "44 (tool) or 40 (model)"}


def test_a_sentence_with_an_older_value_is_left_out() -> None:
    told = [make_answer("The port of the gateway is 8080."), make_user("The gateway port is now 9090.")]
    texts = [fact.text for fact in get_facts(*told) if fact.kind not in {"request", "name"}]
    assert [text for text in texts if "8080" in text] == []


def test_merging_in_parts_gives_the_same_ledger() -> None:
    story = [make_user(f"The quota of team {n % 3} is now {n}0.") for n in range(12)]
    at_once = [fact for fact in extract_facts(enumerate(story)) if fact.kind == "value"]
    merged: tuple[Fact, ...] = ()
    for start in range(0, 12, 4):
        merged = merge_facts(merged, extract_facts(list(enumerate(story))[start : start + 4]))
    assert [fact for fact in merged if fact.kind == "value"] == at_once


SUBJECTS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def tell_value(round_number: int, place: int, value: int) -> list[Message]:
    """Tells a value in one of four ways: by the user, by the model twice, by a tool."""
    name = SUBJECTS[place]
    match (round_number + place) % 4:
        case 0:
            return [make_user(f"The quota of {name} is now {value}. Go on."), make_answer("Will do.")]
        case 1:
            return [make_answer(f"I have set the {name} quota to {value}.")]
        case 2:
            return [*make_run(f"./quota {name}", f"{name} quota: {value}\n")]
        case _:
            return [make_answer(f"Done: the quota of {name} rose to {value}.")]


def test_the_latest_of_ten_changing_subjects_after_ten_rounds() -> None:
    """At a window of 8,000 tokens. Before, lists of identifiers showed old sentences as latest values."""
    session = open_session([make_user("Keep the quotas of the ten teams up to date."), make_answer("I will.")])
    latest: dict[str, int] = {}
    for number in range(10):
        for place, name in enumerate(SUBJECTS):
            latest[name] = 1_000 + 37 * (10 * number + place)
            session.append(*tell_value(number, place, latest[name]))
        for step in range(4):
            session.append(*make_read_step(10 * number + step, f"src/{number}/{step}.py"))
        session.compact(to=3_200)
    text = "\n".join(get_text(message) for message in session.view.get_messages())
    ledger = [line for line in text.split("\n") if "quota" in line and " = " in line]
    missing = {
        name: value
        for name, value in latest.items()
        if not any(f"= {value}" in line for line in ledger if name in line)
    }
    assert missing == {}
    current = re.sub(r"\(was: [^)]*\)", "", "\n".join(ledger))
    assert set(re.findall(r"\d{4}", current)) == {str(value) for value in latest.values()}


def test_printed_names_in_a_row() -> None:
    found = find_printed_values("epoch 3, loss: 0.4, acc: 99%\nfoo.py:12: error\nExit Code: 0\nhttp://a:80\n")
    assert [(each.subject, each.value) for each in found] == [("loss", "0.4"), ("acc", "99%")]
