"""A request for a summary asks for no more than its prompt leaves of the window, and its prompt fits."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tenfold.apps.gateway.upstream_model import UpstreamCall, build_summary_request, choose_summary_models
from tenfold.core.record.ask import SummaryAsk
from tenfold.store.base import Store
from tests.gateway.conversations import KINDS, Talk
from tests.gateway.serving import run_loopback
from tests.models.loopback import Got, Served

FIELDS = {"openai-chat": "max_tokens", "anthropic": "max_tokens", "openai-responses": "max_output_tokens"}


@pytest.mark.parametrize(("wire", "field"), FIELDS.items())
@pytest.mark.parametrize(("prompt", "most"), [(40_000, 2_650), (54_000, 2_000), (58_000, 1_450), (400, 16_000)])
def test_the_room_to_think_is_what_the_prompt_leaves(wire: str, field: str, prompt: int, most: int) -> None:
    ask = SummaryAsk(system="Summarize.", prompt="word " * (prompt // 5), max_tokens=2_000)
    call = UpstreamCall(wire, "http://localhost", {}, "m", window=16_000)
    limit = msgspec.json.decode(build_summary_request(call, ask, "m"))[field]
    assert min(most, 2_000) - 200 <= limit <= most
    assert prompt // 4 + limit < 16_000
    free = msgspec.json.decode(build_summary_request(msgspec.structs.replace(call, window=None), ask, "m"))[field]
    assert free == 2_500 + 4_096, "where the window is not known, it is as before"


SUMMARY = "## Goal\nTo look at the parts of the program.\n\n## Done\nThe parts were looked at one by one."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["unheard-of-model", ""])
@pytest.mark.parametrize("share", [3.6, 2.4])
def test_a_summary_of_a_large_new_session_fits_however_the_provider_counts(
    kind: str, model: str, share: float, store: Store
) -> None:
    """The provider has reported nothing yet: its tokens may be shorter than ours."""
    window = 16_000

    def answer(got: Got) -> Served:
        size = int(got.size / share)
        if size > window:
            return Served(status=400, error=f"prompt is too long: {size} tokens > {window} maximum")
        return Served(text="ok" if got.body.get("tools") else SUMMARY, tokens=(size, 40))

    talk = Talk(kind)
    talk.extra = {"model": model} if model and kind != "generate" else {}
    talk.add_user("Look at all parts. Never touch config/secret.toml.")
    talk.add_steps(70, 300)
    with run_loopback(answer, store=store, window=window) as (upstream, gateway):
        assert talk.send(gateway.url).status_code == 200
        asked = [got for got in upstream.requests if not got.body.get("tools")]
        refused = [got for got in asked if int(got.size / share) > window]
        last = upstream.requests[-1].prompt
    assert "The parts were looked at one by one" in last, "a model wrote it"
    is_beyond_bounds = share < 3 and not model and kind in ("chat", "responses")  # no model of OpenAI's counts so
    assert len(refused) <= (len(asked) // 2 if is_beyond_bounds else 0)


@pytest.mark.parametrize(
    ("wire", "name", "asked"),
    [
        ("anthropic", "haiku", "anthropic:claude-haiku-"),
        ("anthropic", "gpt-4o-mini", "anthropic:claude-sonnet-5"),
        ("openai-chat", "gpt-4o-mini", "openai:gpt-4o-mini"),
        ("anthropic", "auto", "anthropic:claude-haiku-"),
    ],
)
def test_a_summary_model_named_without_its_provider_is_one_of_the_upstreams(wire: str, name: str, asked: str) -> None:
    call = UpstreamCall(wire, "http://localhost", {}, "claude-sonnet-5", is_own_address=True)
    assert choose_summary_models((name,), call)[0].startswith(asked)
    elsewhere = replace(call, is_own_address=False)
    expected = [elsewhere.qualified_model] if name == "auto" else [f"{call.qualified_model.split(':')[0]}:{name}"]
    assert choose_summary_models((name,), elsewhere)[0] == expected[0]
