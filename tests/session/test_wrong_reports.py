"""Agents whose provider reports usage wrongly, in every way seen: no request is above the window where a smaller one
is possible, and nothing is called unsatisfiable that is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter, measure_messages
from tenfold.core.meter.estimators import SLACK, SeenReport, find_report_bounds, judge_report
from tenfold.core.record.token_reading import Counted, ProviderTokens
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tests.gateway.serving import run_loopback
from tests.models.loopback import Got, Served
from tests.thorough import IS_THOROUGH

ChatMessage = dict[str, Any]
MODEL = "gpt-4o"
COUNTER = choose_counter(MODEL).counter
SYSTEM = "You look at the parts of a program. " * 40
Report = Callable[[int, int, int], int | None]
"""What is reported of request N, of which the provider counted so many tokens, and so many of the one before."""
REPORTS: dict[str, Report] = {
    "right": lambda _, tokens, __: tokens,
    "half": lambda _, tokens, __: tokens // 2,
    "a tenth": lambda _, tokens, __: tokens // 10,
    "the part that is not cached": lambda _, tokens, last: max(10, tokens - last),
    "ten times": lambda _, tokens, __: tokens * 10,
    "zero": lambda _, __, ___: 0,
    "missing": lambda _, __, ___: None,
    "right and half in turn": lambda number, tokens, _: tokens // (1 + number % 2),
    "right and ten times in turn": lambda number, tokens, _: tokens * (1, 10)[number % 2],
    "ten times and a tenth in turn": lambda number, tokens, _: tokens * 10 if number % 2 else tokens // 10,
    "that of the request before": lambda _, __, last: last,
    "always the same": lambda _, __, ___: 1_234,
    "the same and likely at first": lambda _, __, ___: 4_000,
    "always the same and more than any window": lambda _, __, ___: 10**15,
    "more by the same, and that more than any window": lambda _, tokens, __: tokens + 10**9,
}


WINDOWS = (6_000, 32_000)
CASES = [(kind, w) for at, kind in enumerate(REPORTS) for w in (WINDOWS if IS_THOROUGH else (WINDOWS[at % 2],))]
"""Each kind in one of the windows, and in a thorough run in both."""
WORDS = ("alpha", "beta", "gamma", "part", "value", "line", "error", "file", "result", "check", "total", "name", "list")


def write(rng: random.Random, tokens: int) -> str:
    return " ".join(f"{rng.choice(WORDS)}{rng.randrange(99) if rng.random() < 0.2 else ''}" for _ in range(tokens))


def work(rng: random.Random, number: int, size: int) -> list[ChatMessage]:
    """What happens between two requests: a question and an answer, or a tool call and its result."""
    tokens = int(size * rng.choice((0.1, 0.5, 1.0, 1.0, 2.0)))
    if rng.random() < 0.3:
        said = {"role": "assistant", "content": write(rng, tokens // 3)}
        return [said, {"role": "user", "content": write(rng, tokens // 3)}]
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "look", "arguments": f'{{"path": "p{number}"}}'},
    }
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": write(rng, tokens)}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def count(messages: list[ChatMessage]) -> int:
    """The provider's own count, by the model's vocabulary."""
    return sum(count_message(json.dumps(message)) for message in messages)


@cache
def count_message(item: str) -> int:
    return sum(measure_messages(list(WIRES["openai-chat"].decode([item.encode()])), COUNTER))


@pytest.mark.costly(2)
@pytest.mark.parametrize(("kind", "window"), CASES)
def test_no_request_is_above_the_window_whatever_is_reported(kind: str, window: int, store: Store) -> None:
    rng = random.Random(f"{kind} {window}")  # noqa: S311 - a simulation, not a secret
    said: list[str] = []
    answerer = Answerer(problem_reporter=said.append)
    session = Session.create(SessionAddress(store, "s"), build_policy("tenfold", COUNTER), answerer=answerer)
    history: list[ChatMessage] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": write(rng, 60)}]
    sent, statuses = [0], set[str]()
    for number in range(70):
        request = {"model": MODEL, "messages": list(history)}
        sent.append(count(session.before_model(request, window=window)["messages"]))
        statuses.add(session.outcome.status if session.outcome is not None else "")
        reported = REPORTS[kind](number, sent[-1], sent[-2])
        if reported is not None:
            session.after_model({"usage": {"prompt_tokens": reported, "completion_tokens": 9}})
        history += work(rng, number, window // 20)
    assert max(sent) <= window
    assert "compacted" in statuses
    assert not statuses & {"unsatisfiable", "failed"}
    assert len(said) == (0 if kind in ("right", "zero", "missing") else 1), "a wrong report is said once"


def test_a_report_that_is_not_believed_is_said_in_numbers(store: Store) -> None:
    session = Session.create(SessionAddress(store, "s"), build_policy("tenfold", COUNTER), model=MODEL)
    history: list[ChatMessage] = [{"role": "user", "content": "one two three " * 1_000}]
    session.before_model({"model": MODEL, "messages": history}, window=32_000)
    session.after_model({"usage": {"prompt_tokens": 150}})
    notes: list[tuple[str, ...]] = []
    for _ in range(2):
        history += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And now?"}]
        session.before_model({"model": MODEL, "messages": history}, window=32_000)
        assert session.outcome is not None
        notes.append(session.outcome.notes)
    ((note,), nothing) = notes
    assert nothing == ()
    assert note.startswith("a report of usage is not believed: gpt-4o reported 150 tokens for a request of which 3,00")
    reading = session.take_reading(window=32_000)
    assert reading.source == "estimated"
    assert reading.tokens > 3_000


def test_a_prompt_that_somebody_adds_behind_us_is_believed_once_two_reports_show_it() -> None:
    seen: SeenReport | None = None
    found: list[bool] = []
    for sent in (200, 900, 1_800, 700, 1_500):
        seen = judge_report(
            seen, model=MODEL, counter="o200k", sent=Counted(sent), reported=ProviderTokens(sent + 20_000)
        )
        found.append(seen.is_believed)
    assert found == [False, True, True, True, True]


COUNTERS = [(MODEL, "o200k"), ("claude-opus-4-7", "o200k"), ("m", "chars4"), ("m", "the caller's")]


@pytest.mark.parametrize(("model", "counter"), COUNTERS)
@given(sizes=st.lists(st.integers(1, 20_000), min_size=2, max_size=20), more=st.integers(1, 10**9))
@example(sizes=[1_000, 1_000 + SLACK, 1_000 + 2 * SLACK], more=100)
def test_a_report_that_never_changes_shows_no_surplus(model: str, counter: str, sizes: list[int], more: int) -> None:
    _, most = find_report_bounds(model, counter)
    reported = ProviderTokens(int(most * max(sizes)) + SLACK + more)
    seen: SeenReport | None = None
    for sent in sizes:
        seen = judge_report(seen, model=model, counter=counter, sent=Counted(sent), reported=reported)
        assert not seen.is_believed


@given(sizes=st.lists(st.integers(1, 20_000), min_size=2, max_size=20), reported=st.integers(1, 50_000))
@example(sizes=[7_321, 12_207], reported=24_000)
@example(sizes=[3_900, 4_200, 4_250], reported=4_000)
def test_a_report_that_stays_as_it_was_while_the_request_does_not_is_not_believed(
    sizes: list[int], reported: int
) -> None:
    seen: SeenReport | None = None
    is_doubted = False
    for before, sent in pairwise([0, *sizes]):
        seen = judge_report(seen, model=MODEL, counter="o200k", sent=Counted(sent), reported=ProviderTokens(reported))
        is_doubted = is_doubted or (before > 0 and abs(sent - before) > 4 * SLACK)
        if is_doubted:
            assert not seen.is_believed
            assert "a report of usage is not believed" in seen.explain()


@pytest.mark.parametrize(("model", "counter"), COUNTERS[:3])
def test_what_a_tokenizer_may_count_is_believed_and_half_of_it_is_not(model: str, counter: str) -> None:
    least, most = find_report_bounds(model, counter)
    for share in (least, (least + most) / 2, most):
        assert judge_report(
            None, model=model, counter=counter, sent=Counted(5_000), reported=ProviderTokens(int(share * 5_000))
        ).is_believed
    below = judge_report(
        None, model=model, counter=counter, sent=Counted(5_000), reported=ProviderTokens(int(least * 5_000) - SLACK - 1)
    )
    assert not below.is_believed
    assert least > 0.5
    assert below.doubts == 1
    assert "it takes at least" in below.explain()


def test_a_refusal_teaches_what_reports_hide() -> None:
    """The provider counts 1.3 times our tokens, and reports as many as we count."""
    window, refused, sent = 8_000, 0, 0

    def answer(got: Got) -> Served:
        nonlocal refused, sent
        tokens = int(1.3 * count(got.body["messages"]))
        sent += 1
        if tokens > window:
            refused += 1
            error = {"message": "This model's maximum context length is exceeded.", "code": "context_length_exceeded"}
            return Served(status=400, body={"error": error})
        return Served("ok", tokens=(int(tokens / 1.3), 5))

    rng = random.Random(1)  # noqa: S311 - a simulation, not a secret
    history: list[ChatMessage] = [{"role": "user", "content": "Look at all parts."}]
    with (
        run_loopback(answer, window=window, summary_model="none", recall="none") as (_upstream, gateway),
        httpx.Client(headers={"authorization": "Bearer sk-one"}, timeout=500) as client,
    ):
        for number in range(60):
            answered = client.post(f"{gateway.url}/v1/chat/completions", json={"model": MODEL, "messages": history})
            assert answered.status_code == 200
            history += work(rng, number, 300)
    assert sent > 60
    assert refused == 1, "the next ones are compacted in time"


@pytest.mark.parametrize("kind", ["half", "ten times", "the part that is not cached"])
def test_a_gateway_sends_nothing_above_the_window(kind: str) -> None:
    window, sizes = 8_000, [0]

    def answer(got: Got) -> Served:
        sizes.append(count(got.body["messages"]))
        return Served("ok", tokens=(REPORTS[kind](len(sizes), sizes[-1], sizes[-2]) or 0, 5))

    rng = random.Random(2)  # noqa: S311 - a simulation, not a secret
    history: list[ChatMessage] = [{"role": "user", "content": "Look at all parts."}]
    with (
        run_loopback(answer, window=window, summary_model="none", recall="none") as (_upstream, gateway),
        httpx.Client(headers={"authorization": "Bearer sk-one"}, timeout=500) as client,
    ):
        for number in range(40):
            client.post(f"{gateway.url}/v1/chat/completions", json={"model": MODEL, "messages": history})
            history += work(rng, number, 500)
    assert max(sizes) <= window
    assert sizes[-1] < count(history), "it was compacted"
