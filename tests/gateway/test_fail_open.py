"""Whatever is wrong with us or odd about a request: the bytes that came are forwarded, and the reason is told."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, PATHS, Talk, post
from tests.gateway.serving import RawAnswer, run_gateway

WINDOW = 16_000
START = b'{"model":"gpt-4o","messages":[{"role":"user","content":"<<a:1>> hello"},{"role":"assistant","content":'


def drop_tables(path: Path) -> None:
    """Someone deletes what the store consists of."""
    with closing(sqlite3.connect(path)) as other, other:
        names = [row[0] for row in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        other.execute("PRAGMA foreign_keys = OFF")
        for name in names:
            with suppress(sqlite3.Error):
                other.execute(f"DROP TABLE {name}")


def test_a_store_that_fails_stops_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that another process holds is tried in `test_locked_store`."""
    path, talk, fresh = tmp_path / "s.db", Talk("chat"), Talk("chat", "b")
    usage = b'{"usage":{"prompt_tokens":900,"completion_tokens":9,"total_tokens":909}}'
    store = open_store(path)
    with caplog.at_level("INFO"), run_gateway(RawAnswer((usage,)), store=store) as (upstream, gateway):
        talk.add_user()
        talk.add_steps(2)
        talk.send(gateway.url)
        httpx.get(f"{gateway.url}/metrics", timeout=500)
        drop_tables(path)
        for each in (talk, fresh):
            each.add_user()
            each.add_steps(2)
            answer = each.send(gateway.url)
            assert (answer.status_code, answer.content) == (200, usage)
            assert upstream.requests[-1].body == each.build_body()
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
    assert "a fault of the gateway" in caplog.text
    assert "tenfold_gateway_faults_total 0.0" not in metrics
    assert "tenfold_gateway_running_requests 0.0" in metrics
    with suppress(Exception):
        store.close()


def test_a_full_disk_stops_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, talk = tmp_path / "s.db", Talk("chat")
    store = open_store(path)
    with caplog.at_level("INFO"), run_gateway(store=store) as (_upstream, gateway):
        talk.add_user()
        talk.add_steps(2)
        talk.send(gateway.url)
        while not gateway.gateway.log.totals.requests:  # its session is written after the answer
            time.sleep(0.01)
        for connection in store._database._idle_connections:  # type: ignore[attr-defined]
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(3):
            talk.add_steps(30, 200)
            assert talk.send(gateway.url).status_code == 200
    assert "a fault of the gateway" in caplog.text
    store.close()


def nest(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


ODD: dict[str, bytes] = {
    "the same key twice": START + b'"a"}], "messages":[{"role":"user","content":"other"}], "model":"gpt-4o"}',
    "the same key twice in a message": START + b'"a","content":"b"},{"role":"user","role":"user","content":"x"}]}',
    "deep nesting": START + b'"a"}],"metadata":' + nest(20_000) + b"}",
    "deep nesting in a message": START + b'"a","x":' + nest(20_000) + b"}]}",
    "NaN": START + b'"a"}],"temperature":NaN}',
    "infinity": START + b'"a","x":-Infinity}]}',
    "a lone surrogate": START + b'"\\ud83d lone"}]}',
    "a lone surrogate in a name": START + b'"a"}],"\\ud83d":1}',
    "a mark of byte order": b"\xef\xbb\xbf" + START + b'"a"}]}',
    "no UTF-8": START + b'"caf\xe9"}]}',
    "no UTF-8 in a field": START + b'"a"}],"user":"caf\xe9"}',
    "UTF-16": (START + b'"a"}]}').decode().encode("utf-16"),
    "a NUL": START + b'"a\\u0000b"}]}',
    "a raw NUL": START + b'"a\x00b"}]}',
    "a role of tomorrow": START + b'"a"},{"role":"critic","content":"x"}]}',
    "a type of tomorrow": START + b'[{"type":"hologram","data":"x"}]}]}',
    "content of tomorrow": START + b'{"any":1}}]}',
    "a number as content": START + b"7}]}",
    "messages that are null": START + b'"a"},null]}',
    "a huge number": START + b'"a"}],"seed":' + b"9" * 5_000 + b"}",
    "a model that is none": START.replace(b'"gpt-4o"', b'{"a":1}') + b'"a"}]}',
    "no model": b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}',
    "a call without an id": START + b'null,"tool_calls":[{"type":"function"}]}]}',
    "tool calls that are none": START + b'null,"tool_calls":"x"}]}',
    "arguments that are none": START
    + b'null,"tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{oops"}}]},'
    + b'{"role":"tool","tool_call_id":"c","content":"x"}]}',
    "tools that are none": START + b'"a"}],"tools":{"a":1}}',
    "something after it": START + b'"a"}]} {"more":1}',
    "ten megabytes": START + b'"' + b"a" * 10_000_000 + b'"}]}',
    "a hundred thousand messages": b'{"model":"x","messages":['
    + b'{"role":"assistant","content":"y"},' * 20_000
    + b"{}]}",
    "huge white space": START + b" " * 1_000_000 + b'"a"}]}',
}


@pytest.fixture
def odd_place():  # type: ignore[no-untyped-def]  # noqa: ANN201
    store = open_store(":memory:")
    with run_gateway(store=store, window=10**9, summary_model="auto") as (upstream, gateway):
        yield upstream, gateway
    store.close()


@pytest.mark.costly(6)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_body_is_forwarded_as_it_came(odd: str, odd_place, caplog) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    upstream, gateway = odd_place
    for _ in range(2):
        with caplog.at_level("INFO"):
            answer = post(gateway.url, "chat", ODD[odd])
        assert (answer.status_code, answer.content) == (200, b"{}")
        assert upstream.requests[-1].body == ODD[odd]
    talk = Talk("chat", odd.replace(" ", "-").lower())
    talk.add_user()
    talk.add_steps(2)
    answer = talk.send(gateway.url)
    assert "x-tenfold-bypass" not in answer.headers, "the next request is treated as any"


@pytest.mark.costly(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_items_of_unknown_types_survive_a_compaction(kind: str, place: str) -> None:
    talk, store = Talk(kind), open_store(":memory:")
    part = {"type": "hologram", "data": {"x": [1, None]}}
    unknowns: dict[str, Any] = {
        "chat": {"role": "user", "content": [part]},
        "responses": {"type": "hologram", "x": 1},
        "messages": {"role": "user", "content": [part]},
        "generate": {"role": "user", "parts": [{"hologram": {"x": 1}}]},
    }
    unknown = unknowns[kind]
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        talk.add_user()
        if place == "first":
            talk.items.insert(len(talk.items) - 1, unknown)
        for number in range(30):
            talk.add_answer()
            talk.add_user()
            if place == "middle" and number == 9:
                talk.items[-1:] = [unknown, talk.items[-1]]
            talk.add_step(300)
            sent = talk.copy()
            if place == "last":
                sent.items.append(unknown)
            answer = sent.send(gateway.url)
            assert answer.status_code == 200
            assert "x-tenfold-bypass" not in answer.headers
            assert len(upstream.requests[-1].body) < WINDOW * 5
            if place == "last":
                assert json.loads(upstream.requests[-1].body)[_get_field(kind)][-1] == unknown
    store.close()


def _get_field(kind: str) -> str:
    return {"responses": "input", "generate": "contents"}.get(kind, "messages")


def test_a_bypass_is_told_in_a_header_the_log_and_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), run_gateway() as (_upstream, gateway):
        for kind, path in PATHS.items():
            answer = post(gateway.url, kind, b"{")
            assert answer.headers["x-tenfold-bypass"], path
        assert "tenfold_gateway_bypasses_total 4.0" in httpx.get(f"{gateway.url}/metrics", timeout=500).text
    assert caplog.text.count("forwarded as it came") == 4


def test_messages_of_which_text_would_be_lost_are_forwarded_with_what_was_seen() -> None:
    odd = [{"role": "assistant", "content": [{"toolUse": {"name": f"look at shed {n}"}}]} for n in range(9)]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "<<a:1>> hello"}, *odd]}).encode()
    with run_gateway() as (upstream, gateway):
        answer = post(gateway.url, "chat", body)
        assert upstream.requests[-1].body == body
    assert "9 of 10 messages have" in answer.headers["x-tenfold-bypass"]
    assert "parts {toolUse}" in answer.headers["x-tenfold-bypass"]
