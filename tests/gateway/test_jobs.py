"""A gateway with durable jobs: summaries by the operator's model, and a route by which clients add jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread
from tenfold.apps.jobs.hosting import HostedJobs, host_jobs
from tenfold.apps.jobs.queue import JobQueue
from tenfold.config.settings import load_settings
from tenfold.core.record.block import Block
from tenfold.store.access import create_key
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time
from tests.gateway.conversations import Talk, list_sessions
from tests.gateway.serving import build_script, wait_until
from tests.jobs.places import MODEL, SUMMARY, add_session, create_place, open_place, wait_for_jobs
from tests.jobs.test_jobs import dump_jobs
from tests.models.loopback import Got, Loopback, Served

CLIENT_KEY, OPERATOR_KEY = "sk-client-0123456789abcdefghij", "operators-own-key-0123456789"


@contextmanager
def serve_jobs(store: Store, location: str, upstream: str) -> Iterator[tuple[GatewayThread, HostedJobs]]:
    """Serves with jobs. The operator's model is on loopback."""
    config = load_settings(environ={"TENFOLD_MODEL": MODEL})
    settings = GatewaySettings(port=0, upstream=upstream, window=16_000, jobs=True)
    with (
        host_jobs(store, location, config) as jobs,
        GatewayThread(Gateway(settings, store, config, jobs=jobs)) as served,
    ):
        yield served, jobs


def test_a_summary_is_written_by_the_operators_model_with_his_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plain, lock = list[str](), build_script(), threading.Lock()

    def answer(got: Got) -> Served:
        if got.body.get("tools"):
            return plain(got)
        with lock:
            asked.append(got.headers["authorization"])
        return Served(text=SUMMARY)

    with ExitStack() as stack:
        location = stack.enter_context(create_place("sqlite", tmp_path))
        store = stack.enter_context(open_place(location))
        upstream = stack.enter_context(Loopback(script=answer))
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", OPERATOR_KEY)
        served, jobs = stack.enter_context(serve_jobs(store, location, upstream.url))
        talk = Talk("chat")
        talk.headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        talk.add_user("Look at all parts.")
        while not any("tenfold-summary" in got.prompt for got in upstream.requests):
            talk.add_answer("Seen. " + "It is as it should be, part by part. " * 60)
            talk.add_user()
            talk.send(served.url)
            rows = jobs.queue.list()
            wait_until(lambda: all(row.state != "waiting" for row in jobs.queue.list()))
        assert rows
        (session,) = list_sessions(store)
        blocks = [e for e in store.read_entries("default", session) if isinstance(e, Block)]
        assert SUMMARY.splitlines()[1] in repr(blocks[0].replacements)
        assert asked
        assert set(asked) == {f"Bearer {OPERATOR_KEY}"}
        stored = dump_jobs(location)
        assert CLIENT_KEY not in stored
        assert OPERATOR_KEY not in stored


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_clients_add_jobs_and_ask_how_they_went(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        location = stack.enter_context(create_place(kind, tmp_path))
        store = stack.enter_context(open_place(location))
        add_session(store, "one", namespace="acme")
        add_session(store, "other", namespace="beta")
        keys = {}
        for namespace in ("acme", "beta"):
            key, text = create_key(namespace, namespace, get_current_time())
            store.save_key(replace(key, max_jobs=2))
            keys[namespace] = {"x-tenfold-key": text}
        settings = GatewaySettings(port=0, upstream="http://127.0.0.1:9", jobs=True)
        queue = stack.enter_context(JobQueue(location))
        gateway = Gateway(settings, store, load_settings(), jobs=HostedJobs(queue, None))
        url = stack.enter_context(GatewayThread(gateway)).url + "/tenfold/jobs"
        add = {"session": "one", "to": 4_000}
        assert httpx.post(url, json=add).status_code == 401
        added = httpx.post(url, json=add, headers=keys["acme"])
        assert added.status_code == 202
        job = added.json()["job"]
        assert httpx.get(f"{url}/{job}", headers=keys["acme"]).json()["state"] == "waiting"
        assert httpx.get(f"{url}/{job}", headers=keys["beta"]).status_code == 404, "it is another tenant's"
        assert httpx.get(url, headers=keys["beta"]).json() == {"jobs": []}
        assert [row["id"] for row in httpx.get(url, headers=keys["acme"]).json()["jobs"]] == [job]
        assert httpx.post(url, json=add, headers=keys["beta"]).status_code == 404, "so is the session"
        assert httpx.post(url, json=add, headers=keys["acme"]).status_code == 202
        refused = httpx.post(url, json=add, headers=keys["acme"])
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert "2 jobs of acme wait: the key of acme allows no more" in refused.text
        long = {"session": "one", "to": 9, "focus": "x" * 10_001}
        for wrong in ({"to": 1}, {"session": "one", "to": 0}, {"session": "one", "to": 9, "key": "x"}, [1], long):
            assert httpx.post(url, json=wrong, headers=keys["acme"]).status_code == 400
        queue.cancel([job])
        (row,) = wait_for_jobs(queue, job)
        assert row.state == "cancelled"
        assert httpx.get(f"{url}/{job}", headers=keys["acme"]).json()["state"] == "cancelled"
        assert [(line.actor, line.action) for line in store.read_record()] == [("acme", "jobs")] * 2
        assert httpx.get(f"{url}/%00", headers=keys["acme"]).status_code == 404


def test_without_jobs_the_route_says_so_and_asks_no_provider(tmp_path: Path) -> None:
    with open_place(str(tmp_path / "agents.db")) as store, Loopback("ok") as upstream:
        settings = GatewaySettings(port=0, upstream=upstream.url)
        with GatewayThread(Gateway(settings, store)) as served:
            answer = httpx.post(f"{served.url}/tenfold/jobs", json={"session": "s", "to": 9})
            assert (answer.status_code, "with --jobs" in answer.text) == (404, True)
        assert upstream.requests == []


def test_metrics_are_for_the_operators_keys(tmp_path: Path) -> None:
    """They tell of all tenants: they are for keys of the gateway's own namespace that read only, and no client's."""
    with open_place(str(tmp_path / "agents.db")) as store:
        texts = {}
        for name, namespace in (("prometheus", "default"), ("bob", "team"), ("client", "default")):
            key, texts[name] = create_key(name, namespace, get_current_time())
            store.save_key(replace(key, is_read_only=name != "client"))
        settings = GatewaySettings(port=0, upstream="http://127.0.0.1:9")
        with GatewayThread(Gateway(settings, store)) as served:
            asked = {
                name: httpx.get(f"{served.url}/metrics", headers={"authorization": f"Bearer {text}"}).status_code
                for name, text in texts.items()
            }
            assert asked == {"prometheus": 200, "bob": 403, "client": 403}
            assert httpx.get(f"{served.url}/{texts['bob']}/metrics").status_code == 403
            assert httpx.get(f"{served.url}/metrics").status_code == 401
