"""While the gateway works on what a streaming client does not see, the client hears that there is more to come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import httpx

from tenfold.gateway.recall_loop import QUIET_SECONDS
from tests.gateway.recall_setting import TALKS, Provider, look_up, serve_recall
from tests.gateway.test_recall_hidden import build_plain
from tests.llm.loopback import Served

DONE = Served("It is done.", hang=QUIET_SECONDS * 1.6)
PATIENCE = QUIET_SECONDS * 1.3
"""Seconds without a byte after which a client gives up."""
FIRST = {
    "nothing passed yet": look_up(thought=("I look it up.", "sig1")),
    "a text passed": look_up(text="Let me see. ", speaks_first=True),
}


def read_officially(wire: str, first: Served) -> str:
    """The text that the official client has in the end."""
    talk = TALKS[wire]
    with Provider(first, DONE) as provider, serve_recall(provider) as (url, _):
        return talk.ask(url, talk.build_history(), streamed=True).text


def read_impatiently(wire: str, first: Served) -> str:
    """The bytes that a client has which gives up after a while without any."""
    with Provider(first, DONE) as provider, serve_recall(provider) as (url, _):
        path, body = build_plain(TALKS[wire], streamed=True)
        return httpx.post(f"{url}{path}", content=body, timeout=PATIENCE).text


def test_a_client_that_waits_for_a_lookup_hears_that_there_is_more_to_come() -> None:
    cases = list(product(TALKS, FIRST))
    with ThreadPoolExecutor(2 * len(cases)) as pool:
        texts = {case: pool.submit(read_officially, case[0], FIRST[case[1]]) for case in cases}
        raws = {case: pool.submit(read_impatiently, case[0], FIRST[case[1]]) for case in cases}
        for case, text in texts.items():
            assert text.result().endswith("It is done."), case
        for case, raw in raws.items():
            assert "It is done." in raw.result(), case
            assert "recall_search" not in raw.result(), case
    assert "event: ping" in raws["anthropic", "nothing passed yet"].result()
    assert "\n: keep-alive\n\n" in raws["openai-chat", "a text passed"].result()
    assert ": keep-alive" not in raws["gemini", "a text passed"].result(), "Google's own client takes it for JSON"
