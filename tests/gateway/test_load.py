"""Many clients at a time, an upstream that is cut, slow, full and refuses: nothing is mixed up, nothing is lost."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, PATHS, Talk, find_marks, list_sessions, read_marks
from tests.gateway.program import ServeProgram
from tests.gateway.serving import RawAnswer, RawRequest, RawUpstream
from tests.thorough import IS_THOROUGH

REQUESTS = 2_000 if IS_THOROUGH else 300
CLIENTS = 64 if IS_THOROUGH else 32
WINDOW = 8_000
MEMORY = 90
"""Megabytes by which a gateway may grow between the first third of the requests and the end."""


class MoodyProvider:
    """An upstream that misbehaves at random. It never answers a request with another's marks."""

    def __init__(self) -> None:
        self._chooser = random.Random(64)  # noqa: S311  moods that can be repeated
        self._lock = threading.Lock()
        self.moods: Counter[str] = Counter()
        self.seen: list[set[str]] = []

    def answer(self, request: RawRequest) -> RawAnswer:
        """Nine of ten requests are answered."""
        text = request.body.decode()
        with self._lock:
            mood = self._chooser.choices(("well", "cut", "full", "broken", "long", "slow"), (88, 2, 3, 3, 2, 2), k=1)[0]
            mood = mood if '"tools"' in text else "well"
            self.moods[mood] += 1
            self.seen.append({mark.partition(":")[0] for mark in find_marks(text)})
        stream = b"stream" in request.path or '"stream": true' in text
        kind = b"text/event-stream" if stream else b"application/json"
        headers = ((b"content-type", kind), (b"x-mood", mood.encode()))
        match mood:
            case "full":
                return RawAnswer(
                    (b'{"error":{"message":"Rate limit reached"}}',), 429, (*headers, (b"retry-after", b"1"))
                )
            case "broken":
                return RawAnswer((b'{"error":{"message":"oops"}}',), 500, headers)
            case "long" if len(text) > 20_000:
                return RawAnswer((b'{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}',), 400, headers)
            case "slow":
                return RawAnswer(build_chunks(stream), 200, headers, wait=SlowEvent())
            case _:
                return RawAnswer(build_chunks(stream), 200, headers, cut=mood == "cut")


class SlowEvent(threading.Event):
    """Waits half a second."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - the caller's is longer
        return super().wait(0.5)


def build_chunks(stream: bool) -> tuple[bytes, ...]:  # noqa: FBT001 - as the request says
    """A whole answer, of no API in particular."""
    return (b"data: {}\n\n",) * 4 + (b"data: [DONE]\n\n",) if stream else (b'{"ok":', b"true}")


class ManyClients:
    """The clients of one run: each has its conversation, its credentials and one of the four APIs."""

    def __init__(self, count: int) -> None:
        self.talks: list[Talk] = []
        for number, kind in zip(range(count), itertools.cycle(KINDS), strict=False):
            talk = Talk(kind, f"s{number}")
            talk.headers = {"authorization": f"Bearer sk-{number % 7}"}
            if number % 3 == 0:
                talk.headers["x-session-id"] = f"ses_{number}"
            talk.extra = {"stream": True} if number % 2 and kind != "generate" else {}
            talk.add_user("Look at all parts of the program.")
            self.talks.append(talk)
        self.outcomes: Counter[str] = Counter()
        self.problems: list[str] = []
        self.acknowledged: list[Counter[str]] = [Counter() for _ in self.talks]

    def step(self, number: int, url: str, client: httpx.Client) -> None:
        """One request of one client, again and again until the provider answers."""
        talk = self.talks[number]
        talk.add_answer()
        talk.add_user()
        talk.add_step(500)
        for _ in range(60):
            outcome = self.send(talk, url, client)
            self.outcomes[outcome] += 1
            if outcome == "well":
                self.acknowledged[number] = talk.marks
                return
            time.sleep(0.01)
        self.problems.append(f"{talk.tag} was never answered")

    def send(self, talk: Talk, url: str, client: httpx.Client) -> str:
        """Sends a request and says how it went."""
        try:
            answer = client.post(f"{url}{PATHS[talk.kind]}", content=talk.build_body(), headers=talk.headers)
        except httpx.RemoteProtocolError:
            return "cut"
        mood = answer.headers.get("x-mood", "")
        if "x-tenfold-bypass" in answer.headers:
            self.problems.append(f"{talk.tag}: {answer.headers['x-tenfold-bypass']}")
        if mood == "cut":
            self.problems.append(f"{talk.tag}: a cut answer looked whole")
        if answer.status_code != 200:
            return f"{answer.status_code}"
        whole = {b"".join(build_chunks(is_stream)) for is_stream in (True, False)}
        if answer.content not in whole:
            self.problems.append(f"{talk.tag}: another answer: {answer.content[:80]!r}")
        return "well"


def test_many_clients_at_a_time_are_never_mixed_up(tmp_path: Path) -> None:
    provider, count = MoodyProvider(), CLIENTS
    clients, path = ManyClients(count), tmp_path / "sessions.db"
    rounds = REQUESTS // count
    memory: list[float] = []
    flags = ("--window", str(WINDOW), "--summary-model", "none", "--recall", "none")
    start = time.monotonic()
    with RawUpstream(provider.answer) as upstream, ServeProgram(path, upstream.url, *flags) as gateway:
        gateway.wait_until_ready()
        with (
            httpx.Client(timeout=500, limits=httpx.Limits(max_connections=CLIENTS)) as client,
            ThreadPoolExecutor(CLIENTS) as pool,
        ):
            for number in range(rounds):
                wanted = [pool.submit(clients.step, n, gateway.url, client) for n in range(count)]
                for one in wanted:
                    one.result()
                if number >= rounds // 3:
                    memory.append(gateway.measure_memory())
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
        log = gateway.read_log()
    upstream.requests.clear()
    gc.collect()
    took = time.monotonic() - start
    store = open_store(path)
    stored = {session: read_marks(store, session) for session in list_sessions(store)}
    verified = store.verify(DEFAULT_NAMESPACE)
    store.close()
    print(
        f"{sum(clients.outcomes.values())} requests by {count} clients in {took:.1f} s, {dict(provider.moods)}; memory "
        f"{memory[0]:.0f} to {memory[-1]:.0f} MB"
    )
    assert clients.problems == []
    assert "Traceback" not in log
    assert log.count("compaction compacted") > count / 2
    assert verified == []
    assert [tags for tags in provider.seen if len(tags) > 1] == [], "a request with two conversations in it"
    by_tag: dict[str, Counter[str]] = {}
    for session, marks in stored.items():
        tags = {mark.partition(":")[0] for mark in marks}
        assert len(tags) == 1, f"{session} holds several conversations"
        assert tags.isdisjoint(by_tag), f"{tags} stands in several sessions"
        by_tag[tags.pop()] = marks
    for talk in clients.talks:
        assert by_tag[talk.tag] == Counter(dict.fromkeys(talk.marks, 1))
    assert clients.outcomes["cut"] == provider.moods["cut"]
    assert f"tenfold_gateway_cut_responses_total {provider.moods['cut']}.0" in metrics
    assert "tenfold_gateway_faults_total 0.0" in metrics
    assert "tenfold_gateway_running_requests 0.0" in metrics
    assert memory[-1] - memory[0] < MEMORY
