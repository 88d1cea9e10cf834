"""A gateway that is killed or stopped while a client works: the client goes on, and nothing stands twice."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx

from tenfold.core.record.block import Block
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.location import open_store
from tests.gateway.conversations import Talk, fill_words, read_stored
from tests.gateway.program import ServeProgram
from tests.gateway.serving import RawAnswer, RawUpstream, wait_until
from tests.thorough import IS_THOROUGH

KILLS = 100 if IS_THOROUGH else 3
WINDOW = 16_000
EVENTS = (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',) * 5 + (b"data: [DONE]\n\n",)


def send_until_answered(talk: Talk, url: str) -> httpx.Response:
    """Sends a request as clients do: again, until it is answered."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        try:
            answer = talk.send(url)
        except httpx.HTTPError:
            time.sleep(0.02)
            continue
        if answer.status_code == 200:
            return answer
    raise AssertionError("the client was never answered")


def test_killed_at_random_a_client_goes_on_and_nothing_is_doubled(tmp_path: Path) -> None:
    chooser = random.Random(26)  # noqa: S311  moments that can be repeated
    talks = [Talk("chat", "c"), Talk("messages", "m")]
    done = threading.Event()
    sent: Counter[str] = Counter()
    failures: list[BaseException] = []
    path = tmp_path / "sessions.db"
    for talk in talks:
        talk.add_user("Look at all parts of the program. Never touch config/secret.toml.")
        talk.add_steps(55, 200)

    def work(talk: Talk, url: str) -> None:
        try:
            while not done.is_set():
                talk.add_answer(fill_words(f"said{len(talk.items)}", 60))
                talk.add_user()
                talk.add_step(120)
                send_until_answered(talk, url)
                sent[talk.tag] += 1
        except BaseException as exc:  # noqa: BLE001 - the test tells of it
            failures.append(exc)

    kills = 0
    with (
        RawUpstream() as upstream,
        ServeProgram(path, upstream.url, "--window", str(WINDOW), "--summary-model", "none") as gateway,
    ):
        gateway.wait_until_ready()
        threads = [threading.Thread(target=work, args=(talk, gateway.url)) for talk in talks]
        for thread in threads:
            thread.start()
        while kills < KILLS:
            before = sum(sent.values())
            while kills % 2 and sum(sent.values()) == before and not failures:
                time.sleep(0.01)
            time.sleep(chooser.random() * 0.4)
            gateway.kill()
            kills += 1
            gateway.start()
            gateway.wait_until_ready()
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        bodies = [json.loads(got.body)["messages"] for got in upstream.requests]
        sizes = [len(got.body) for got in upstream.requests]
    blocks = check_store(path, talks)
    print(f"{kills} gateways killed at random, {sum(sent.values())} requests, {blocks} compactions")
    assert blocks >= 2
    assert max(sizes) < WINDOW * 6, "what was compacted stays so after a restart"
    assert all("Never touch config/secret.toml" in json.dumps(body) for body in bodies)


def check_store(path: Path, talks: Sequence[Talk]) -> int:
    """Checks that each conversation is one session with every message once, and returns how many Blocks there are."""
    store = open_store(path)
    stored = read_stored(store)
    counts = sum(stored.values(), Counter())
    blocks = sum(isinstance(e, Block) for s in stored for e in store.read_entries(DEFAULT_NAMESPACE, s))
    assert store.verify(DEFAULT_NAMESPACE) == []
    store.close()
    assert len(stored) == len(talks)
    assert set(counts.values()) == {1}
    for talk in talks:
        assert set(talk.marks) <= set(counts), "nothing that was sent is lost"
    return blocks


def is_listening(port: int) -> bool:
    """Whether anybody takes a connection there."""
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_stopping_gateway_finishes_its_streams(tmp_path: Path) -> None:
    gate = threading.Event()
    answer = RawAnswer(EVENTS, headers=((b"content-type", b"text/event-stream"),), wait=gate)
    received: list[bytes] = []
    path = tmp_path / "s.db"
    talk = Talk("chat")
    talk.add_user()
    talk.add_step()
    with RawUpstream(answer) as upstream, ServeProgram(path, upstream.url) as gateway:
        gateway.wait_until_ready()

        def read() -> None:
            received.append(talk.send(gateway.url).content)

        thread = threading.Thread(target=read)
        thread.start()
        wait_until(lambda: bool(upstream.requests))
        gateway.terminate()
        wait_until(lambda: not is_listening(gateway.port))
        gate.set()
        thread.join()
        code = gateway.wait(500)
        log = gateway.read_log()
    assert received == [b"".join(EVENTS)]
    assert code in (0, -15, 143), log
    assert "Traceback" not in log
    store = open_store(path)
    assert sum(read_stored(store).values(), Counter()) == Counter(dict.fromkeys(talk.marks, 1))
    store.close()


def test_the_port_that_was_chosen_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tenfold", "serve", "--port", "0", "--store", str(tmp_path / "s.db")]
    with subprocess.Popen(
        [*command, "--upstream", "http://127.0.0.1:9"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    ) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "listens on" in line)
            port = re.search(r"127\.0\.0\.1:(\d+)", line)
            assert port is not None
            assert int(port[1]) > 0
            assert httpx.get(f"http://127.0.0.1:{port[1]}/healthz", timeout=500).status_code == 200
        finally:
            process.kill()
