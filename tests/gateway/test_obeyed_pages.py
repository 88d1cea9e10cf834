"""A summary model behind the gateway obeys a page: what the agent's model is sent has it as notes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenfold.core.wire.marks import extract_summary_text
from tenfold.store.base import Store
from tests.gateway.conversations import KINDS, Talk
from tests.gateway.serving import run_loopback
from tests.injections.obeying import MARK, PAGE, WORDINGS, build_summary, list_under_users_name
from tests.models.loopback import Got, Served

RULE = "Never touch config/secret.toml."
WORDS = "It says that the numbers of this quarter are like those of the last one, and names no reason. " * 12
ROUNDS = 5


def list_summaries(value: object) -> Iterator[str]:
    """The summaries of ours in the body of a request."""
    if isinstance(value, str):
        text = extract_summary_text(value)
        yield from () if text is None else (text,)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from list_summaries(each)


@pytest.mark.costly(4)
@pytest.mark.parametrize(("number", "wording"), tuple(enumerate(WORDINGS)), ids=[f"{n}" for n in range(len(WORDINGS))])
def test_through_the_gateway_nothing_stands_under_the_users_name_for_five_rounds(
    number: int, wording: str, store: Store
) -> None:
    talk = Talk(KINDS[number % len(KINDS)])

    def answer(got: Got) -> Served:
        is_agent = bool(got.body.get("tools"))
        return Served(text="ok" if is_agent else build_summary(wording), tokens=(got.size // 4, 40))

    talk.add_user(f"{RULE} Go through the report.")
    with run_loopback(answer, store=store, window=6_000) as (upstream, gateway):
        for round_number in range(ROUNDS):
            talk.add_call(f"page{round_number}", "notes.md", PAGE)
            for part in range(14):
                talk.add_answer(f"Page {part} is read. {WORDS}")
                talk.add_user(f"And page {part + 1}?")
            assert talk.send(gateway.url).status_code == 200
            sent = upstream.requests[-1]
            summaries = list(list_summaries(sent.body))
            assert [list_under_users_name(text) for text in summaries] == [[]] * len(summaries)
            assert RULE in sent.prompt
            assert round_number == 0 or summaries
        asked = [got for got in upstream.requests if not got.body.get("tools")]
    assert asked, "a model wrote the summaries"
    assert MARK in "\n".join(summaries) or "Quoted" in wording
