"""How many requests a gateway works on at a time, in all and for the same credentials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.request_log import RequestLog


class RequestLimits:
    """Counts the requests of one gateway that are running, on whichever route they came."""

    def __init__(self, settings: GatewaySettings, log: RequestLog) -> None:
        """`log` shows the number in the metrics."""
        self._settings, self._log = settings, log
        self._running: Counter[str] = Counter()

    def find_refusal(self, tenant: str) -> tuple[int, str] | None:
        """Returns the status and the reason if a tenant's next request is not taken now."""
        running, most = self._running.total(), self._settings.max_requests
        if running >= most:
            return 503, f"{running} requests are running, and {most} are the most"
        most = self._settings.max_tenant_requests
        if self._running[tenant] >= most:
            return 429, f"{most} requests with these credentials are running, which is the most"
        return None

    @contextmanager
    def hold(self, tenant: str) -> Iterator[None]:
        """Counts a request of a tenant for as long as the block lasts."""
        self._running[tenant] += 1
        self._log.running.set(self._running.total())
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]
            self._log.running.set(self._running.total())
