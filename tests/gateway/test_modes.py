"""The gateway's ways to run: shadow, dry run, its settings, its spans."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.gateway_settings import GatewaySettings, load_gateway_settings
from tenfold.apps.gateway.upstreams import Upstreams, parse_upstreams
from tenfold.config.settings import load_settings
from tenfold.errors import UsageError
from tests.designs.hosts import HOSTS
from tests.gateway.serving import build_script, fill, run_loopback
from tests.gateway.test_running_agents import run_agent


def build_long_request(steps: int = 60) -> bytes:
    """A request that does not fit a window of 16,000 tokens."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Look at all parts. Never touch config.toml."}]
    for number in range(steps):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": fill(number)})
    return json.dumps({"model": "gpt-4o", "messages": messages}).encode()


def test_shadow_forwards_everything_and_records_what_it_would_have_saved() -> None:
    with run_loopback(build_script(), window=16_000, shadow=True) as (upstream, gateway):
        host = HOSTS["chat"](keeps_own=True)
        run_agent(host, gateway.url, 40)
        sent = [len(got.body["messages"]) for got in upstream.requests]
        totals = gateway.gateway.log.totals
    assert sent == [2 + 2 * n for n in range(40)], "the system prompt, the task, and all that came since"
    assert all(got.body.get("tools") for got in upstream.requests), "no model was asked for a summary"
    assert totals.compactions >= 1
    assert totals.tokens_after < totals.tokens_before


def test_a_dry_run_prints_what_would_be_sent_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("request.json").write_bytes(build_long_request())
    assert run(["serve", "--window", "16000", "--dry-run", "request.json"]) == 0
    first, tokens, compaction, size, body = capsys.readouterr().out.strip().split("\n", 4)
    assert first.startswith("openai-chat, model gpt-4o, 121 messages")
    before, after = (int(part.replace(",", "")) for part in tokens.removeprefix("tokens: ").split(" -> "))
    assert before > 16_000 > after
    assert compaction.startswith("compaction: compacted")
    assert f"{len(body.encode()):,}" in size
    sent = json.loads(body)
    assert "Never touch config.toml." in json.dumps(sent["messages"])
    assert sent["messages"][-1]["tool_call_id"] == "c59"
    assert [p.name for p in tmp_path.iterdir()] == ["request.json"]


def test_a_dry_run_of_a_short_request_says_that_it_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "short.json"
    file.write_bytes(build_long_request(2))
    assert run(["serve", "--window", "16000", "--dry-run", str(file)]) == 0
    assert "it is forwarded as it came" in capsys.readouterr().out
    file.write_bytes(b"[1]")
    assert run(["serve", "--dry-run", str(file)]) == 3
    assert "no request" in capsys.readouterr().err


def test_flags_come_before_variables_and_these_before_the_table(tmp_path: Path) -> None:
    file = tmp_path / "tenfold.toml"
    file.write_text(
        '[tenfold.gateway]\nupstream = "http://table:1/v1"\nwindow = 1000\nport = 1\n'
        '[tenfold.gateway.upstreams]\nanthropic = "http://a:1"\nopenai = "http://o:1"\n'
    )
    config = load_settings(file, environ={})
    environ = {
        "TENFOLD_UPSTREAM": "http://variable:2/v1",
        "TENFOLD_OPENAI_UPSTREAM": "http://o:2",
        "TENFOLD_GATEWAY_KEY": "k",
    }
    settings = load_gateway_settings(
        config, {"port": 3, "window": None, "upstreams": {"gemini": "http://g:3"}}, environ=environ
    )
    assert (settings.upstream, settings.port, settings.window) == ("http://variable:2/v1", 3, 1000)
    assert settings.upstreams == {"anthropic": "http://a:1", "openai": "http://o:2", "gemini": "http://g:3"}
    assert settings.key == "k"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("upstrem = 'http://x'", "upstream"),
        ("window = 'big'", "int"),
        ("window = 0", "above 0"),
        ("upstream = 'localhost:8000'", "is no address"),
        ("recall = 'outside'", "recall"),
        ("upstreams = 'http://x'", "upstreams"),
        ("[tenfold.gateway.upstreams]\nclaude = 'http://x'", "there is no API 'claude'"),
        ("[tenfold.gateway.upstreams]\nanthropic = 'localhost'", "is no address"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(tmp_path: Path, table: str, words: str) -> None:
    file = tmp_path / "tenfold.toml"
    file.write_text(f"[tenfold.gateway]\n{table}\n")
    with pytest.raises(UsageError, match=words):
        load_gateway_settings(load_settings(file, environ={}), {}, environ={})


def test_upstreams_are_given_for_all_apis_or_for_one() -> None:
    flags = parse_upstreams(["http://all:1/v1?a=b", "anthropic=http://one:2"])
    assert flags == {"upstream": "http://all:1/v1?a=b", "upstreams": {"anthropic": "http://one:2"}}
    with pytest.raises(UsageError, match="there are anthropic, gemini, openai"):
        GatewaySettings(**parse_upstreams(["claude=http://x"]))


@pytest.mark.parametrize(
    ("base", "wire", "path", "url"),
    [
        ("", "openai-chat", "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("", "openai-chat", "/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("", "openai-responses", "/my/prefix/v1/responses", "https://api.openai.com/v1/responses"),
        ("", "anthropic", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("", "anthropic", "/messages", "https://api.anthropic.com/v1/messages"),
        (
            "",
            "gemini",
            "/v1beta/models/g:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
        ),
        ("http://h:1", "openai-chat", "/v1/chat/completions", "http://h:1/v1/chat/completions"),
        ("https://h", "openai-chat", "/chat/completions", "https://h/chat/completions"),
        ("https://h/api/v1/", "openai-chat", "/v1/chat/completions", "https://h/api/v1/chat/completions"),
        ("https://h/api/v3", "openai-chat", "/chat/completions", "https://h/api/v3/chat/completions"),
    ],
)
def test_the_path_follows_the_upstreams_address(base: str, wire: str, path: str, url: str) -> None:
    assert Upstreams(everything=base).build_url(wire, path) == url
    assert Upstreams(everything=base).build_url(wire, path, "a=1") == f"{url}?a=1"


def test_each_request_is_a_span_without_a_word_of_the_conversation(spans: InMemorySpanExporter) -> None:
    with run_loopback(build_script(), window=16_000) as (_upstream, gateway):
        httpx.post(f"{gateway.url}/v1/chat/completions", content=build_long_request(), timeout=500)
    (span,) = (s for s in spans.get_finished_spans() if s.name == "tenfold.request")
    assert span.attributes is not None
    assert span.attributes["tenfold.wire"] == "openai-chat"
    assert span.attributes["http.response.status_code"] == 200
    assert "config.toml" not in str(dict(span.attributes))
