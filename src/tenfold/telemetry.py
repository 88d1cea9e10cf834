"""OpenTelemetry: a span and figures for each piece of work, where its API is installed. Never a word of a message.

Spans: `tenfold.sync`, `tenfold.compact`, `chat MODEL` for a call of a summary model, `tenfold.search`; the gateway adds
`tenfold.request`, a worker `tenfold.job`. What the GenAI semantic conventions have a name for goes by that name
(https://opentelemetry.io/docs/specs/semconv/gen-ai/): `gen_ai.conversation.id` is the session.

Metrics, of the meter "tenfold": `tenfold.compactions`, `tenfold.compaction.duration`,
`tenfold.compaction.saved_tokens`, `tenfold.search.duration`, `tenfold.jobs`, and the conventions'
`gen_ai.client.token.usage` and `gen_ai.client.operation.duration`. Namespaces and models are labels. Of each, the
first `MAX_LABELS` of a process have their own name, and the others are "other": clients name models as they like.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tenfold.core.record.ask import Answer, Outcome, SummaryAsk

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram

Attributes = Mapping[str, str | int | float]
SpanRecorder = Callable[[Attributes], None]
"""Adds attributes to a span."""
_NONE: Attributes = MappingProxyType({})
MAX_LABELS = 100
"""How many namespaces, and how many models, have a label of their own."""
_TOKEN_BUCKETS = (
    1,
    4,
    16,
    64,
    256,
    1_024,
    4_096,
    16_384,
    65_536,
    262_144,
    1_048_576,
    4_194_304,
    16_777_216,
    67_108_864,
)
_SECOND_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The buckets that the semantic conventions advise for `gen_ai.client.token.usage` and `...operation.duration`."""


class BoundedLabels:
    """Keeps the number of values of a label small."""

    def __init__(self, most: int = MAX_LABELS) -> None:
        self._most, self._known, self._lock = most, set[str](), threading.Lock()

    def fit(self, value: str) -> str:
        """Returns the value, or "other" if too many different ones came before it."""
        if value in self._known:
            return value
        with self._lock:
            if len(self._known) >= self._most:
                return "other"
            self._known.add(value)
        return value


NAMESPACES, MODELS = BoundedLabels(), BoundedLabels()


class _Instruments:
    """The metrics of one meter provider."""

    def __init__(self, provider: Any) -> None:  # noqa: ANN401 - a class of an optional package
        meter = provider.get_meter("tenfold")

        def measure(name: str, unit: str, text: str, buckets: tuple[float, ...] = _SECOND_BUCKETS) -> Histogram:
            made: Histogram = meter.create_histogram(
                name, unit, text, explicit_bucket_boundaries_advisory=list(buckets)
            )
            return made

        self.provider = provider
        self.compactions = meter.create_counter("tenfold.compactions", "{compaction}", "Compactions, by outcome")
        self.saved = meter.create_counter("tenfold.compaction.saved_tokens", "{token}", "Tokens taken out of views")
        self.jobs = meter.create_counter("tenfold.jobs", "{job}", "Jobs that a worker ended, by outcome")
        self.compaction_seconds = measure("tenfold.compaction.duration", "s", "Time of a compaction")
        self.search_seconds = measure("tenfold.search.duration", "s", "Time of a search")
        self.model_seconds = measure("gen_ai.client.operation.duration", "s", "Time of a call of a summary model")
        self.model_tokens = measure("gen_ai.client.token.usage", "{token}", "Tokens of such a call", _TOKEN_BUCKETS)


_made: list[_Instruments] = []


def _get_instruments() -> _Instruments | None:
    """Returns the metrics of the provider that is in force, None where the API is not installed."""
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - an optional package
    except ImportError:
        return None
    provider = metrics.get_meter_provider()
    if not _made or _made[0].provider is not provider:
        _made[:] = [_Instruments(provider)]
    return _made[0]


@contextmanager
def trace_span(name: str, attributes: Attributes = _NONE) -> Iterator[SpanRecorder]:
    """Opens a span of that name. Call what it yields with further attributes. None may hold text of a session."""
    try:
        from opentelemetry.trace import SpanKind, get_tracer, use_span  # noqa: PLC0415 - an optional package
    except ImportError:
        yield lambda _: None
        return
    is_call = "gen_ai.operation.name" in attributes
    span = get_tracer("tenfold").start_span(name, kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL)
    if not span.get_span_context().is_valid:  # tracing is off
        yield lambda _: None
        return
    with use_span(span, end_on_exit=True):
        span.set_attributes(dict(attributes))
        yield span.set_attributes


@contextmanager
def trace_compaction(namespace: str, session: str, policy: str, model: str) -> Iterator[Callable[[Outcome], None]]:
    """Opens the span `tenfold.compact` and counts the compaction. Call what it yields with the Outcome."""
    attributes = {"gen_ai.conversation.id": session, "tenfold.namespace": namespace, "tenfold.policy": policy}
    start, outcomes = perf_counter(), list[Outcome]()
    with trace_span("tenfold.compact", attributes) as record:

        def record_outcome(outcome: Outcome) -> None:
            outcomes.append(outcome)
            record(
                {
                    "tenfold.status": outcome.status,
                    "tenfold.tokens_before": outcome.tokens_before,
                    "tenfold.tokens_after": outcome.tokens_after,
                    "tenfold.target": outcome.target,
                    "tenfold.model_calls": outcome.spent.calls,
                }
            )

        yield record_outcome
    if (made := _get_instruments()) is None or not outcomes:
        return
    (outcome,) = outcomes
    labels = {"tenfold.namespace": NAMESPACES.fit(namespace), "gen_ai.request.model": MODELS.fit(model)}
    made.compactions.add(1, {**labels, "tenfold.policy": policy, "tenfold.status": outcome.status})
    if outcome.status == "compacted":
        made.compaction_seconds.record(perf_counter() - start, labels)
        made.saved.add(max(0, outcome.tokens_before - outcome.tokens_after), labels)


@contextmanager
def trace_model_call(ask: SummaryAsk) -> Iterator[Callable[[Answer], None]]:
    """Opens the span of a call of a summary model, and counts its tokens. Call what it yields with the Answer."""
    provider, colon, name = ask.model.rpartition(":")
    request = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}
    if colon:
        request["gen_ai.provider.name"] = provider
    start, answers = perf_counter(), list[Answer]()
    limits = {"gen_ai.request.max_tokens": ask.max_tokens, "tenfold.purpose": ask.purpose}
    with trace_span(f"chat {name}".strip(), {**request, **limits}) as record:

        def record_answer(answer: Answer) -> None:
            answers.append(answer)
            record(
                {
                    "gen_ai.usage.input_tokens": answer.spent.input_tokens,
                    "gen_ai.usage.output_tokens": answer.spent.output_tokens,
                    **({"error.type": _name_error(answer)} if answer.error else {}),
                }
            )

        yield record_answer
    if (made := _get_instruments()) is None or not answers:
        return
    (answer,) = answers
    labels = {**request, "gen_ai.request.model": MODELS.fit(name)}
    failed = {"error.type": _name_error(answer)} if answer.error else {}
    made.model_seconds.record(perf_counter() - start, {**labels, **failed})
    for kind, tokens in (("input", answer.spent.input_tokens), ("output", answer.spent.output_tokens)):
        if tokens:
            made.model_tokens.record(tokens, {**labels, "gen_ai.token.type": kind})


def _name_error(answer: Answer) -> str:
    if answer.timed_out:
        return "timeout"
    return "retryable" if answer.retryable else "error"


@contextmanager
def trace_search(namespace: str, session: str) -> Iterator[Callable[[int], None]]:
    """Opens the span `tenfold.search` and measures the search. Call what it yields with the number of hits."""
    start = perf_counter()
    where = {"tenfold.namespace": namespace, **({"gen_ai.conversation.id": session} if session else {})}
    with trace_span("tenfold.search", where) as record:
        yield lambda hits: record({"tenfold.hits": hits})
    if (made := _get_instruments()) is not None:
        made.search_seconds.record(perf_counter() - start, {"tenfold.namespace": NAMESPACES.fit(namespace)})


def count_job(kind: str, namespace: str, outcome: str) -> None:
    """Counts a job that a worker ended: `done` or `failed`."""
    if (made := _get_instruments()) is not None:
        labels = {"tenfold.job.kind": kind, "tenfold.namespace": NAMESPACES.fit(namespace)}
        made.jobs.add(1, {**labels, "tenfold.job.state": outcome})
