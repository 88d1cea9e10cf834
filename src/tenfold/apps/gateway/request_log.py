"""What a gateway tells of each request: a line of the log, and the numbers of /metrics. Never a word of a message."""

from __future__ import annotations

import logging
from contextvars import ContextVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tenfold.core.text.hidden import escape_hidden

LOG = logging.getLogger("tenfold.gateway")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class RequestRecord(Struct):
    """One request, filled in while it is worked on.

    `tokens_before` is what the request would have taken with nothing hidden, `tokens_after` what was sent, both as the
    provider counts as far as that is known. `dollars_saved` counts what was left out at the price of input that is read
    from a cache, the lowest there is. `own_seconds` is the time that the gateway itself took. `reason` says what came
    of the session's check, or why there was none, `is_unchanged` that a call to a model was forwarded as it came, and
    `bypass` why it was although it should have been looked at. `is_cut` says that the response ended early. With
    `is_shadow` nothing was changed, and the numbers are those that would have been.
    """

    method: str
    path: str
    wire: str = ""
    model: str = ""
    session: str = ""
    status: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    dollars_saved: float = 0.0
    own_seconds: float = 0.0
    upstream_seconds: float = 0.0
    compaction: str = ""
    note: str = ""
    reason: str = ""
    bypass: str = ""
    is_unchanged: bool = False
    recall_calls: int = 0
    is_cut: bool = False
    is_shadow: bool = False

    @property
    def forward_reason(self) -> str:
        """Why the call was forwarded as it came. "" if it was not."""
        return (self.bypass or self.reason) if self.is_unchanged else ""

    def get_attributes(self) -> dict[str, str | int | float]:
        """Returns what a span of the request holds."""
        return {
            "http.request.method": self.method,
            "http.response.status_code": self.status,
            "gen_ai.request.model": self.model,
            "tenfold.wire": self.wire,
            "tenfold.session": self.session,
            "tenfold.tokens_before": self.tokens_before,
            "tenfold.tokens_after": self.tokens_after,
            "tenfold.own_seconds": self.own_seconds,
            "tenfold.compaction": self.compaction,
            "tenfold.bypass": self.bypass,
            "tenfold.unchanged": self.forward_reason,
            "tenfold.is_cut": int(self.is_cut),
        }

    def render(self) -> str:
        """Returns the line for the log."""
        what = f"{self.wire} {self.model}".strip() or f"{self.method} {self.path}"
        parts = [what, f"status {self.status or '-'}"]
        if self.session:
            parts.append(f"session {self.session}")
        if self.is_shadow:
            parts.append("shadow, forwarded as it came, would have been")
        if self.tokens_before:
            parts.append(f"tokens {self.tokens_before} -> {self.tokens_after}")
        if self.dollars_saved:
            parts.append(f"saved ${self.dollars_saved:.4f}")
        parts.append(f"own {self.own_seconds * 1e3:.1f} ms, upstream {self.upstream_seconds * 1e3:.0f} ms")
        if self.compaction or (self.reason and not self.is_unchanged and not self.bypass):
            parts.append(f"compaction {self.compaction or 'not needed'}: {self.reason}")
        if self.recall_calls:
            parts.append(f"recall {self.recall_calls}")
        if self.forward_reason or self.bypass:
            parts.append(f"forwarded as it came: {self.forward_reason or self.bypass}")
        if self.note:
            parts.append(self.note)
        if self.is_cut:
            parts.append("CUT: the response ended before it was complete")
        return escape_hidden("; ".join(parts))  # a model may be called anything: it begins no line of its own


_IS_CUT_TOLD: ContextVar[bool] = ContextVar("is_cut_told", default=False)
"""Whether the log has said that the response which is being sent was cut."""


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the server says more than the gateway's own: it has one for each response that was cut."""
    return not (_IS_CUT_TOLD.get() and "without completing response" in str(record.msg))


logging.getLogger("uvicorn.error").addFilter(is_news)


class RequestLog:
    """Counts and logs the requests of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self._requests = Counter(
            "tenfold_gateway_requests", "Requests, by API and status.", ("wire", "status"), registry=own
        )
        self._bypasses = Counter(
            "tenfold_gateway_bypasses", "Calls to a model that were forwarded as they came.", registry=own
        )
        self._faults = Counter(
            "tenfold_gateway_faults", "Faults of the gateway; the request was forwarded.", registry=own
        )
        self._compactions = Counter(
            "tenfold_gateway_compactions", "Compactions, by outcome.", ("status",), registry=own
        )
        self._before = Counter(
            "tenfold_gateway_tokens_before", "Tokens of all requests with nothing hidden.", registry=own
        )
        self._after = Counter("tenfold_gateway_tokens_after", "Tokens of all requests as they were sent.", registry=own)
        self._dollars = Counter(
            "tenfold_gateway_dollars_saved", "Dollars saved, at the price of cached input.", registry=own
        )
        self._recalls = Counter(
            "tenfold_gateway_recall_calls", "Lookups that the gateway answered itself.", registry=own
        )
        self._cuts = Counter("tenfold_gateway_cut_responses", "Responses that ended early.", registry=own)
        self._own = Histogram(
            "tenfold_gateway_own_seconds", "Time that the gateway took.", buckets=_SECONDS, registry=own
        )
        self.running = Gauge("tenfold_gateway_running_requests", "Requests that are being worked on.", registry=own)
        self.sessions = Gauge("tenfold_gateway_sessions", "Sessions in memory.", registry=own)
        self.chain_bytes = Gauge(
            "tenfold_gateway_chain_bytes",
            "Bytes of responses that clients may name instead of resending.",
            registry=own,
        )
        self.forgotten_responses = Gauge(
            "tenfold_gateway_forgotten_responses", "Such responses that were dropped to bound memory.", registry=own
        )
        self.totals = Totals()

    def add(self, record: RequestRecord, *, fault: bool = False) -> None:
        """Counts a finished request and logs its line."""
        self._requests.labels(record.wire or "other", str(record.status)).inc()
        self._before.inc(record.tokens_before)
        self._after.inc(record.tokens_after)
        self._dollars.inc(record.dollars_saved)
        self._recalls.inc(record.recall_calls)
        self._own.observe(record.own_seconds)
        if record.bypass:
            self._bypasses.inc()
        if fault:
            self._faults.inc()
        if record.is_cut:
            self._cuts.inc()
            _IS_CUT_TOLD.set(True)
        if record.compaction:
            self._compactions.labels(record.compaction).inc()
        self.totals.add(record)
        LOG.log(logging.WARNING if fault or record.is_cut else logging.INFO, "%s", record.render())

    def render_metrics(self) -> bytes:
        """Returns the numbers in the form that Prometheus reads."""
        return generate_latest(self._registry)


class Totals(Struct):
    """What a gateway has done so far."""

    requests: int = 0
    compactions: int = 0
    bypasses: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    dollars_saved: float = 0.0
    sessions: dict[str, int] = {}

    def add(self, record: RequestRecord) -> None:
        """Adds one request."""
        self.requests += bool(record.wire)
        self.compactions += record.compaction == "compacted"
        self.bypasses += bool(record.bypass)
        self.tokens_before += record.tokens_before
        self.tokens_after += record.tokens_after
        self.dollars_saved += record.dollars_saved
        if record.session:
            self.sessions[record.session] = self.sessions.get(record.session, 0) + 1
