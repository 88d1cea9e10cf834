"""The adapter against the real clients: what each kind of answer becomes, and what goes over the wire."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from itertools import product

import pytest
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.errors import UsageError
from tenfold.models.model import AsyncModel
from tenfold.models.provider import OUTPUT_SLACK, ProviderModel, open_client
from tenfold.session.stateless import compact
from tests.cli.conftest import EXAMPLES
from tests.models.conftest import SECRET
from tests.models.loopback import ANSWERS, KEYS, OTHERS, Finish, Loopback, Served, get_base_url

ASK = SummaryAsk(system="You write summaries.", prompt="Sum this up: résumé 世界", max_tokens=400)
each_api = pytest.mark.parametrize("model", ANSWERS)
each_provider = pytest.mark.parametrize("model", [*ANSWERS, *OTHERS])
PRICES = {"openai": (0.15, 0.6), "openai-responses": (0.15, 0.6), "anthropic": (1.0, 5.0)}
"""US dollars for a million tokens in and out."""


@pytest.fixture(autouse=True)
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys that the clients of the other providers look for, unless a test is about those that are missing."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def answer_ask(model: str, *served: Served | str, ask: SummaryAsk = ASK) -> tuple[Answer, Loopback]:
    with Loopback(*served) as loopback:
        return ProviderModel(model, base_url=get_base_url(model, loopback)).answer(ask), loopback


@each_provider
def test_the_request_holds_the_ask_and_its_answer_comes_back_with_usage_and_price(model: str) -> None:
    answer, loopback = answer_ask(model, Served("all is well", tokens=(12_000, 340)), ask=replace(ASK, temperature=0.0))
    assert (answer.text, answer.finish_reason, answer.error) == ("all is well", "stop", "")
    spent = answer.spent
    assert (spent.calls, spent.input_tokens, spent.output_tokens, spent.model) == (1, 12_000, 340, model)
    assert (spent.price is None) == model.startswith("ollama")
    if prices := PRICES.get(model.partition(":")[0]):
        assert spent.price == pytest.approx((12_000 * prices[0] + 340 * prices[1]) / 1e6)
    (got,) = loopback.requests
    assert got.model == model.partition(":")[2]
    assert "You write summaries." in got.prompt
    assert "résumé 世界" in got.prompt
    limits = got.body.get("generationConfig") or got.body.get("inferenceConfig") or got.body
    assert int(ASK.max_tokens * OUTPUT_SLACK) in limits.values()
    assert limits["temperature"] == 0.0
    assert not got.streamed
    assert not got.body.get("tools")


@each_api
def test_the_key_goes_where_keys_go(model: str) -> None:
    _, loopback = answer_ask(model, "fine")
    (got,) = loopback.requests
    assert SECRET in " ".join(got.headers.values())
    assert SECRET not in got.prompt


@pytest.mark.parametrize(
    ("model", "finish"), [*product(ANSWERS, ("length", "tool", "refusal")), *product(OTHERS, ("length", "tool"))]
)
def test_how_an_answer_ended_is_told(model: str, finish: Finish) -> None:
    answer, _ = answer_ask(model, Served("half of i", finish=finish))
    assert (answer.finish_reason, answer.error) == (finish, "")


@each_api
def test_an_empty_answer_is_an_empty_text(model: str) -> None:
    answer, _ = answer_ask(model, "")
    assert (answer.text, answer.finish_reason, answer.error) == ("", "stop", "")


@pytest.mark.parametrize(
    ("model", "status"),
    [*product(ANSWERS, (400, 401, 404, 408, 429, 500, 503, 529)), *product(OTHERS, (400, 429, 503))],
)
def test_errors_are_answers_and_say_whether_and_when_to_try_again(model: str, status: int) -> None:
    answer, loopback = answer_ask(model, Served(status=status, retry_after=2))
    assert (answer.text, answer.error, answer.retry_after) == ("", f"HTTP {status}: scripted", 2.0)
    assert answer.retryable is (status in (408, 429) or status >= 500)
    assert answer.spent.calls == 1
    if not model.startswith("bedrock"):  # its client tries again by itself, and cannot be told not to
        assert len(loopback.requests) == 1, "the client's own retries are off: the driver tries again"


def test_exhausted_credit_is_not_tried_again() -> None:
    answer, _ = answer_ask("anthropic:claude-haiku-4-5", Served(status=402, error="billing"))
    assert answer.error
    assert not answer.retryable


@each_provider
def test_silence_ends_with_the_time_the_ask_allows(model: str) -> None:
    answer, _ = answer_ask(model, Served("late", hang=20), ask=replace(ASK, timeout=0.5))
    assert answer.timed_out
    assert answer.retryable
    assert answer.spent.price is None, "nobody knows whether it was charged for"


@each_api
def test_nobody_there_is_a_failure_for_the_moment(model: str) -> None:
    with Loopback("fine") as loopback:
        base = get_base_url(model, loopback)
    answer = ProviderModel(model, base_url=base).answer(ASK)
    assert answer.error
    assert answer.retryable


@each_api
def test_keys_in_error_texts_are_masked(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "without-any-known-shape")
    answer, _ = answer_ask(model, Served(status=400, error=f"no: {SECRET} and without-any-known-shape"))
    assert "no: " in answer.error
    assert SECRET not in answer.error
    assert "without-any-known-shape" not in answer.error


def test_an_ask_may_name_another_model() -> None:
    with Loopback("fine") as loopback:
        model = ProviderModel("openai:one", "openai:two", base_url=get_base_url("openai:", loopback))
        model.answer(ASK)
        answer = model.answer(replace(ASK, model="openai:two"))
        assert [g.body["model"] for g in loopback.requests] == ["one", "two"]
    assert answer.spent.model == "openai:two"
    assert answer.spent.price is None, "no price is known of a model of that name"


def test_a_plain_list_is_compacted_with_a_model() -> None:
    """The stateless function has one model, whatever the policy calls it."""
    messages = json.loads((EXAMPLES / "desk.openai-chat.json").read_text("utf-8"))
    with Loopback("The desk was asked about several orders, one after the other.") as loopback:
        model = ProviderModel("openai:gpt-4o-mini", base_url=get_base_url("openai:", loopback))
        done = compact(messages, to=4_000, summarizer=model)
        assert loopback.requests
    assert (done.outcome.status, done.outcome.rung) == ("compacted", "model")
    assert done.outcome.spent.model == "openai:gpt-4o-mini"
    assert any("one after the other" in json.dumps(message) for message in done.messages)


def test_an_ask_that_names_a_model_nobody_has_is_an_answer_too() -> None:
    answer = ProviderModel("openai:one").answer(replace(ASK, model="klingon:bird"))
    assert "no provider is called 'klingon'" in answer.error
    assert not answer.retryable


def test_it_may_be_called_inside_a_running_loop_and_from_several_threads() -> None:
    with Loopback("fine") as loopback:
        model = ProviderModel("openai:m", base_url=get_base_url("openai:", loopback))

        async def answer_inside() -> Answer:
            return model.answer(ASK)

        assert asyncio.run(answer_inside()).text == "fine"
        said: list[str] = []
        threads = [threading.Thread(target=lambda: said.append(model.answer(ASK).text)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == ["fine"] * 4


def test_cancelling_the_coroutine_ends_the_request() -> None:
    with Loopback(Served("late", hang=60)) as loopback:
        model = ProviderModel("anthropic:claude-haiku-4-5", base_url=loopback.url)
        assert isinstance(model, AsyncModel)

        async def cancel_request() -> None:
            task = asyncio.create_task(model.aanswer(ASK))
            while not loopback.requests:  # noqa: ASYNC110 - the server is a thread
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel_request())


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("openai:gpt-4o-mini", 0.0),
        ("anthropic:claude-haiku-4-5", 0.0),
        ("anthropic:claude-haiku-5-5", None),
        ("openai-responses:o3", None),
        ("openai:gpt-5-mini", None),
    ],
)
def test_a_temperature_is_sent_to_models_that_take_one_and_nobody_is_warned(model: str, sent: float | None) -> None:
    answer, loopback = answer_ask(model, "fine", ask=replace(ASK, temperature=0.0))
    assert (answer.text, answer.error) == ("fine", "")
    assert loopback.requests[0].body.get("temperature") == sent
    answer, loopback = answer_ask(model, "fine")
    assert "temperature" not in loopback.requests[0].body


def test_thinking_that_cannot_be_turned_off_gets_room_beside_the_answer() -> None:
    _, loopback = answer_ask("openai-responses:o3-mini", "fine")
    assert loopback.requests[0].body["max_output_tokens"] > 4 * ASK.max_tokens


@pytest.mark.parametrize(
    ("model", "key", "sent", "room"),
    [
        ("openai-responses:gpt-5-mini", "reasoning", {"effort": "high"}, "max_output_tokens"),
        ("openai:gpt-5-mini", "reasoning_effort", "high", "max_completion_tokens"),
        ("anthropic:claude-haiku-4-5", "thinking", {"type": "enabled", "budget_tokens": 16_384}, "max_tokens"),
        ("openai:gpt-4o-mini", "reasoning_effort", None, "max_completion_tokens"),
    ],
)
def test_effort_is_asked_of_models_that_can_reason_with_room_beside_the_answer(
    model: str, key: str, sent: object, room: str
) -> None:
    answer, loopback = answer_ask(model, "fine", ask=replace(ASK, effort="high", temperature=0.0))
    assert (answer.text, answer.error) == ("fine", "")
    body = loopback.requests[0].body
    assert body.get(key) == sent
    least = ASK.max_tokens + (24_576 if sent else 0)
    assert least <= body[room] <= least + ASK.max_tokens
    plain, loopback = answer_ask(model, "fine")
    assert plain.text == "fine"
    assert loopback.requests[0].body.get(key) != sent or sent is None, "and it is not where none was asked"


@each_api
@pytest.mark.parametrize("timeout", [120.0, float("inf")])
def test_long_answers_are_waited_for(model: str, timeout: float) -> None:
    """Anthropic's client refuses a call that may take ten minutes, unless it is told how long to wait."""
    answer, loopback = answer_ask(model, "fine", ask=replace(ASK, max_tokens=40_000, timeout=timeout))
    assert (answer.text, answer.error) == ("fine", "")
    assert 50_000 in loopback.requests[0].body.values()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("gpt-4o-mini", "write PROVIDER:MODEL, as in openai:gpt-4o-mini"),
        ("openai:", "write PROVIDER:MODEL"),
        ("klingon:bird", "no provider is called 'klingon'; there are anthropic, openai"),
        ("cohere:command-a", "pip install 'pydantic-ai-slim[cohere]'"),
        ("mistral:mistral-small-latest", "set the environment variable MISTRAL_API_KEY"),
        ("google:gemini-2.5-flash", "set the environment variable GOOGLE_API_KEY"),
        ("openrouter:x/y", "set the environment variable OPENROUTER_API_KEY"),
        ("ollama:llama3", "set the environment variable OLLAMA_BASE_URL"),
    ],
)
def test_what_is_missing_is_said_with_the_next_step(model: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    with pytest.raises(UsageError) as caught:
        ProviderModel(model)
    assert told in str(caught.value)


def test_a_provider_without_base_url_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_API_KEY", SECRET)
    with pytest.raises(UsageError, match="takes no base URL"):
        open_client("github:openai/gpt-4o-mini", "http://127.0.0.1:1/v1")


def test_a_local_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    answer, loopback = answer_ask("openai:qwen", "fine")
    assert answer.text == "fine"
    assert loopback.requests[0].api == "chat"


def test_a_base_url_in_the_environment_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback("fine") as loopback:
        monkeypatch.setenv("OPENAI_BASE_URL", get_base_url("openai:", loopback))
        assert ProviderModel("openai:m").answer(ASK).text == "fine"
        assert [g.api for g in loopback.requests] == ["chat"]


def test_openai_itself_is_asked_through_its_newest_interface() -> None:
    assert "Responses" in type(open_client("openai:gpt-4o-mini")).__name__


def test_without_the_extra_importing_it_names_the_install() -> None:
    program = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from tenfold.errors import UsageError\n"
        "try: import tenfold.models.provider\n"
        "except UsageError as exc: print(exc)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert "pip install 'tenfold[models]'" in done.stdout
