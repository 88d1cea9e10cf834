"""What a gateway tells of each request: a line of the log, and the numbers of /metrics. Never a word of a message."""

from __future__ import annotations

import logging
import os
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from tenfold.apps.gateway.request_events import RequestEvent, RequestEvents
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.text.hidden import escape_hidden
from tenfold.session.ledger import BillLine
from tenfold.store.ids import IDS, get_current_time
from tenfold.telemetry import MODELS, NAMESPACES

LOG = logging.getLogger("tenfold.gateway")
_OWNER = ("namespace", "model")
"""Labels with a bounded number of values each: see `tenfold.telemetry`."""
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder which the processes of one gateway share."""
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class RequestRecord(Struct):
    """One request, filled in while it is worked on.

    `head` is that of the session, and `window` the model's in tokens, 0 if nobody knows it. `tokens_before` is what the
    request would have taken with nothing hidden, `tokens_after` what was sent, both as the
    provider counts as far as that is known. `bill` is what the request and its lookups and summaries cost, and would
    have cost, by what the provider reported. `own_seconds` is the time that the gateway itself took. `reason` says what
    came of the session's check, or why there was none, `is_unchanged` that a call to a model was forwarded as it came,
    and `bypass` why it was although it should have been looked at. `has_fault` says that the gateway itself failed, and
    `is_cut` that the response ended early. With
    `is_shadow` nothing was changed, and the numbers are those that would have been.
    """

    method: str
    path: str
    namespace: str = ""
    wire: str = ""
    model: str = ""
    session: str = ""
    status: int = 0
    tokens_before: ProviderTokens = ProviderTokens(0)
    tokens_after: ProviderTokens = ProviderTokens(0)
    bill: BillLine = BillLine("")
    own_seconds: float = 0.0
    upstream_seconds: float = 0.0
    compaction: str = ""
    note: str = ""
    reason: str = ""
    bypass: str = ""
    is_unchanged: bool = False
    recall_calls: int = 0
    has_fault: bool = False
    is_cut: bool = False
    is_shadow: bool = False
    head: str = ""
    window: int = 0

    @property
    def forward_reason(self) -> str:
        """Why the call was forwarded as it came. "" if it was not."""
        return (self.bypass or self.reason) if self.is_unchanged else ""

    @property
    def what(self) -> str:
        """What was asked for: the API and the model, or the method and the path."""
        return f"{self.wire} {self.model}".strip() or f"{self.method} {self.path}"

    def build_event(self) -> RequestEvent:
        """Builds what those who watch are told."""
        return RequestEvent(
            id=IDS.generate(),
            time=get_current_time(),
            namespace=self.namespace,
            what=escape_hidden(self.what),
            model=self.model,
            session=self.session,
            head=self.head,
            status=self.status,
            tokens_before=self.tokens_before,
            tokens_after=self.tokens_after,
            window=self.window,
            paid=self.bill.total_paid,
            without=self.bill.unhidden_paid.total,
            compaction=self.compaction,
            reason=self.forward_reason or self.bypass or self.reason,
            note=self.note,
            is_unchanged=self.is_unchanged,
            is_cut=self.is_cut,
            has_fault=self.has_fault,
        )

    def get_attributes(self) -> dict[str, str | int | float]:
        """Returns what a span of the request holds."""
        return {
            "http.request.method": self.method,
            "http.response.status_code": self.status,
            "gen_ai.request.model": self.model,
            "gen_ai.conversation.id": self.session,
            "tenfold.namespace": self.namespace,
            "tenfold.wire": self.wire,
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
        parts = [self.what, f"status {self.status or '-'}"]
        if self.session:
            parts.append(f"session {self.session}")
        if self.is_shadow:
            parts.append("shadow, forwarded as it came, would have been")
        if self.tokens_before:
            parts.append(f"tokens {self.tokens_before} -> {self.tokens_after}")
        if self.bill.total_paid:
            parts.append(f"paid ${self.bill.total_paid:.4f}, without Tenfold ${self.bill.unhidden_paid.total:.4f}")
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
        registry = self._registry = CollectorRegistry()

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tenfold_gateway_{name}", text, labels, registry=registry)

        def measure(name: str, text: str) -> Gauge:
            return Gauge(f"tenfold_gateway_{name}", text, registry=registry, multiprocess_mode="livesum")

        self._requests = count("requests", "Requests, by API, status and tenant.", "wire", "status", "namespace")
        self._bypasses = count("bypasses", "Calls to a model that were forwarded as they came.")
        self._faults = count("faults", "Faults of the gateway; the request was forwarded.")
        self._compactions = count("compactions", "Compactions, by outcome.", "status", *_OWNER)
        self._before = count("tokens_before", "Tokens of all requests with nothing hidden.", *_OWNER)
        self._after = count("tokens_after", "Tokens of all requests as they were sent.", *_OWNER)
        self._paid = count("dollars_paid", "Dollars for requests, lookups and summaries.", *_OWNER)
        self._without = count("dollars_without", "Dollars that the requests would have cost unchanged.", *_OWNER)
        self._recalls = count("recall_calls", "Lookups that the gateway answered itself.")
        self._cuts = count("cut_responses", "Responses that ended early.")
        self._own = Histogram(
            "tenfold_gateway_own_seconds", "Time that the gateway took.", buckets=_SECONDS, registry=registry
        )
        self.running = measure("running_requests", "Requests that are being worked on.")
        self.sessions = measure("sessions", "Sessions in memory.")
        self.chain_bytes = measure("chain_bytes", "Bytes of responses that clients may name instead of resending.")
        self.forgotten_responses = measure("forgotten_responses", "Such responses that were dropped to bound memory.")
        self.jobs = Gauge(
            "tenfold_gateway_jobs",
            "Durable jobs of the store, by state; those that ended for as long as they are kept.",
            ("state",),
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self.totals = Totals()
        folder = os.environ.get(_FOLDER)
        self.events = RequestEvents(Path(folder) if folder else None)

    def add(self, record: RequestRecord) -> None:
        """Counts a finished request, logs its line, and tells those who watch."""
        namespace = NAMESPACES.fit(record.namespace)
        owner = namespace, MODELS.fit(record.model)
        self._requests.labels(record.wire or "other", str(record.status), namespace).inc()
        if record.wire:
            self._before.labels(*owner).inc(record.tokens_before)
            self._after.labels(*owner).inc(record.tokens_after)
            self._paid.labels(*owner).inc(record.bill.total_paid)
            self._without.labels(*owner).inc(record.bill.unhidden_paid.total)
        self._recalls.inc(record.recall_calls)
        self._own.observe(record.own_seconds)
        if record.bypass:
            self._bypasses.inc()
        if record.has_fault:
            self._faults.inc()
        if record.is_cut:
            self._cuts.inc()
            _IS_CUT_TOLD.set(True)
        if record.compaction:
            self._compactions.labels(record.compaction, *owner).inc()
        self.totals.add(record)
        self.events.add(record.build_event())
        LOG.log(logging.WARNING if record.has_fault or record.is_cut else logging.INFO, "%s", record.render())

    def render_metrics(self) -> bytes:
        """Returns the numbers in the form that Prometheus reads, of all workers if there are several."""
        folder = os.environ.get(_FOLDER)
        if not folder:
            return generate_latest(self._registry)
        for file in Path(folder).glob("gauge_live*_*.db"):
            if not _is_alive(pid := int(file.stem.rpartition("_")[2])):
                mark_process_dead(pid)  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        pass
    return True


class Totals(Struct):
    """What a gateway has done so far."""

    requests: int = 0
    compactions: int = 0
    bypasses: int = 0
    tokens_before: ProviderTokens = ProviderTokens(0)
    tokens_after: ProviderTokens = ProviderTokens(0)
    dollars_paid: float = 0.0
    dollars_without: float = 0.0
    unpriced: int = 0
    sessions: dict[str, int] = {}
    NUMBERS: ClassVar = (
        "requests",
        "compactions",
        "bypasses",
        "tokens_before",
        "tokens_after",
        "dollars_paid",
        "dollars_without",
        "unpriced",
    )

    def add(self, record: RequestRecord) -> None:
        """Adds one request."""
        self.requests += bool(record.wire)
        self.compactions += record.compaction == "compacted"
        self.bypasses += bool(record.bypass)
        self.tokens_before += record.tokens_before
        self.tokens_after += record.tokens_after
        self.dollars_paid += record.bill.total_paid
        self.dollars_without += record.bill.unhidden_paid.total
        self.unpriced += record.bill.unpriced
        if record.session:
            self.sessions[record.session] = self.sessions.get(record.session, 0) + 1
