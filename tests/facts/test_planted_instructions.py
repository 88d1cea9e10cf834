"""What a user said in seventeen languages, after compactions of long sessions: rules stay, the rest is no rule."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.compaction.facts.parse import parse_facts
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.session import Session
from tests.engine.making import FILLER, make_read_step, make_reply, make_user_message, open_session

CASES = tomllib.loads(Path(__file__).with_name("planted_instructions.toml").read_text("utf-8"))["case"]
CASES_PER_SESSION = 9
STEPS_PER_MESSAGE = 4


@dataclass
class Found:
    """What the views show: active rules found, lines that read as rules, and of these the wrong ones."""

    held: int = 0
    asked: int = 0
    lines: int = 0
    false: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.held / self.asked

    @property
    def precision(self) -> float:
        return 1 - len(self.false) / self.lines


def group_cases() -> list[list[dict[str, list[str]]]]:
    """The cases in groups of mixed languages and kinds."""
    count = -(-len(CASES) // CASES_PER_SESSION)
    return [CASES[number::count] for number in range(count)]


def make_session_messages(cases: list[dict[str, list[str]]]) -> Iterator[list[Message]]:
    """Yields two exchanges for each message: the first ones of all cases, then the second ones, and so on.

    Between them the user talks at length, so that not all of it can be kept word for word.
    """
    longest = max(len(case["says"]) for case in cases)
    says = [case["says"][turn] for turn in range(longest) for case in cases if turn < len(case["says"])]
    for number, said in enumerate([*says, *["Go on."] * 4]):
        steps = [make_read_step(10 * number + n, f"src/p{number}_{n}.py") for n in range(STEPS_PER_MESSAGE)]
        order = make_user_message(f"Read part {number} and tell me what it does. {FILLER * 6}")
        work = [m for step in steps for m in step]
        yield [make_user_message(said), make_reply("Noted."), order, *work, make_reply(f"Part {number} is read.")]


def compact_around(cases: list[dict[str, list[str]]], share: float, rounds: int) -> Session:
    exchanges = list(make_session_messages(cases))
    whole = open_session([m for exchange in exchanges for m in exchange])
    total = sum(whole.conversation.get_message_sizes().values())
    assert total >= 20_000
    session = open_session()
    for number in range(rounds):
        first, last = (len(exchanges) * n // rounds for n in (number, number + 1))
        session.append(*(m for exchange in exchanges[first:last] for m in exchange))
        session.compact(to=int(total * share))
    assert session.view.state.live_blocks
    return session


def judge_view(session: Session, cases: list[dict[str, list[str]]], found: Found) -> None:
    texts = [get_text(message) for message in session.view.get_messages()]
    view = collapse_spaces("\n".join(texts))
    rules = [fact.text for text in texts for fact in parse_facts(text) if fact.kind == "rule"]
    holds = [text for case in cases for text in case.get("holds", [])]
    gone = [text for case in cases for text in case.get("gone", [])]
    found.asked += len(holds)
    found.held += sum(text in view for text in holds)
    found.lost += [text for text in holds if text not in view]
    found.lines += len(rules)
    found.false += [rule for rule in rules if not any(text in rule for text in holds)]
    found.gone += [rule for rule in rules if any(text in rule for text in gone)]


@pytest.mark.costly(2)
@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("share", [0.1, 0.05])
def test_active_rules_stay_and_nothing_else_reads_as_one(share: float, rounds: int) -> None:
    found = Found()
    for cases in group_cases():
        judge_view(compact_around(cases, share, rounds), cases, found)
    assert found.asked >= 50
    assert found.recall >= 0.97, found.lost
    assert found.precision >= 0.9, found.false
    assert found.gone == []


def test_seventeen_languages_are_planted_in_every_kind() -> None:
    assert len({case["language"] for case in CASES} - {"fi", "el"}) == 17
    assert len(CASES) >= 60
    assert {case["kind"] for case in CASES} == {"active", "revoked", "once", "pasted", "prose", "unknown"}


@pytest.mark.parametrize("language", sorted({case["language"] for case in CASES if case["kind"] == "active"}))
def test_each_active_instruction_is_a_rule(language: str) -> None:
    """By its message alone: in a long session it may as well be found in the user's words, which stay a while."""
    cases = [case for case in CASES if (case["language"], case["kind"]) == (language, "active")]
    said = [extract_instructions(5, text, first=False) for case in cases for text in case["says"]]
    rules = [fact.text for facts in said for fact in facts if fact.kind == "rule"]
    assert [text for case in cases for text in case["holds"] if not any(text in rule for rule in rules)] == []


@pytest.mark.parametrize(
    "text",
    [
        "By the way, the guests leave the house on Friday, a bit out of the way.",
        "Laisse le bot Telegram répondre au client, il connaît le dossier.",
        "Laisse le serveur tourner, il répond comme hier.",
        "Laat het rapport zien, het ziet eruit zoals gisteren.",
        "Deixe o cliente ver a lista, como esta aqui ao lado.",
    ],
)
def test_leaving_something_is_no_rule_by_itself(text: str) -> None:
    assert [fact.text for fact in extract_instructions(5, text, first=False) if fact.kind == "rule"] == []
