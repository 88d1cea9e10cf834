"""While the gateway works on what a streaming client does not see, the client hears that there is more to come."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import httpx

from tenfold.apps.gateway.recall_loop import QUIET_SECONDS
from tests.gateway.recall_setting import TALKS, Provider, look_up, open_stream, serve_recall
from tests.gateway.test_recall_hidden import build_plain
from tests.models.loopback import Got, Served

DONE = Served("It is done.")
FIRST = {
    "nothing passed yet": look_up(thought=("I look it up.", "sig1")),
    "a text passed": look_up(text="Let me see. ", speaks_first=True),
}


def read_officially(wire: str, first: Served) -> str:
    """The text that the official client has in the end, of an answer that comes after a sign of life."""
    talk = TALKS[wire]
    late = Served(DONE.text, hang=QUIET_SECONDS * 1.6)
    with Provider(first, late) as provider, serve_recall(provider) as (url, _):
        return talk.ask(url, talk.build_history(), streamed=True).text


def read_in_steps(wire: str, first: Served) -> tuple[bool, bytes]:
    """Reads an answer that the provider holds back until the client has heard a sign of life, or for a minute.

    Returns whether it heard one, and all bytes.
    """
    is_heard = threading.Event()

    def answer(_: Got) -> Served:
        is_heard.wait(QUIET_SECONDS * 6)
        return DONE

    read = b""
    path, body = build_plain(TALKS[wire], streamed=True)
    with (
        Provider(first, answer) as provider,
        serve_recall(provider) as (url, _),
        httpx.stream("POST", f"{url}{path}", content=body, timeout=QUIET_SECONDS * 12) as response,
    ):
        for chunk in response.iter_raw():
            read += chunk
            if chunk == open_stream(wire).keep_alive and DONE.text.encode() not in read:
                is_heard.set()
    return is_heard.is_set(), read


def test_a_client_that_waits_for_a_lookup_hears_that_there_is_more_to_come() -> None:
    cases = list(product(TALKS, FIRST))
    with ThreadPoolExecutor(2 * len(cases)) as pool:
        texts = {case: pool.submit(read_officially, case[0], FIRST[case[1]]) for case in cases}
        steps = {case: pool.submit(read_in_steps, case[0], FIRST[case[1]]) for case in cases}
        for case, text in texts.items():
            assert text.result().endswith(DONE.text), case
        for case, step in steps.items():
            is_heard, read = step.result()
            assert is_heard, case
            assert DONE.text.encode() in read, case
            assert b"recall_search" not in read, case
    assert b"event: ping" in steps["anthropic", "nothing passed yet"].result()[1]
    assert b"\n: keep-alive\n\n" in steps["openai-chat", "a text passed"].result()[1]
    assert b": keep-alive" not in steps["gemini", "a text passed"].result()[1], "Google's own client takes it for JSON"
