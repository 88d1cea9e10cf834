"""`tenfold serve --workers`: several processes on one port, which nobody can tell from one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx

from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.location import open_store
from tests.gateway.conversations import read_stored
from tests.gateway.program import ServeProgram
from tests.gateway.replicas import ANSWER, FLAGS, begin_talk, go_on, send_until_answered
from tests.gateway.serving import RawUpstream, wait_until

_STARTED = re.compile(r"Started server process \[(\d+)\]")


def test_workers_share_a_port_a_store_and_their_numbers(tmp_path: Path) -> None:
    path, talks = tmp_path / "sessions.db", [begin_talk("chat", f"c{n}", 12) for n in range(3)]
    requests = 0
    with RawUpstream(ANSWER) as upstream, ServeProgram(path, upstream.url, *FLAGS, "--workers", "3") as gateway:
        gateway.wait_until_ready()
        wait_until(lambda: len(_STARTED.findall(gateway.read_log())) == 3)
        for number in range(4):
            for talk in talks:
                go_on(talk)
                send_until_answered(talk, [gateway.url], iter(range(1_000)))
                requests += 1
            if number == 1:
                os.kill(int(_STARTED.findall(gateway.read_log())[0]), signal.SIGKILL)
        wait_until(lambda: len(_STARTED.findall(gateway.read_log())) == 4)
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
        gateway.terminate()
        assert gateway.wait(200) in (0, -15, 143)
        log = gateway.read_log()
    assert log.count("3 workers") == 1
    assert log.count("Application shutdown complete") == 3, "running responses are finished first"
    assert "Traceback" not in log
    counted = re.search(r'requests_total\{namespace="default",status="200",wire="openai-chat"\} (\d+)', metrics)
    assert counted is not None
    assert requests - 1 <= int(counted[1]) <= requests, "any worker tells what all did"
    with closing(open_store(path)) as store:
        assert store.verify(DEFAULT_NAMESPACE) == []
        stored = read_stored(store)
    assert sorted(stored.values(), key=str) == sorted((Counter(dict(t.marks)) for t in talks), key=str)


def test_workers_cannot_share_a_store_in_memory() -> None:
    command = [sys.executable, "-m", "tenfold", "serve", "--workers", "2", "--store", ":memory:", "--port", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 2
    assert "workers share a store, and one in memory belongs to one process" in ran.stderr
