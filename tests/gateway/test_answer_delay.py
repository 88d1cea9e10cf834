"""A response is sent at once: its pieces do not wait until the client has confirmed the piece before."""

from __future__ import annotations

import time
from http.client import HTTPConnection

from tests.gateway.serving import serve_gateway

CONFIRMED_LATE = 0.04
"""Seconds after which a client confirms what it received, if it has nothing to send meanwhile."""


def test_the_body_does_not_wait_until_the_head_is_confirmed() -> None:
    with serve_gateway("http://127.0.0.1:9/v1") as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        connection = HTTPConnection(host, int(port), timeout=500)
        times = [CONFIRMED_LATE]
        while min(times) > CONFIRMED_LATE * 0.8 and len(times) < 500:  # another program may have the processor
            start = time.perf_counter()
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
            times.append(time.perf_counter() - start)
        connection.close()
    assert min(times) < CONFIRMED_LATE * 0.8, times
