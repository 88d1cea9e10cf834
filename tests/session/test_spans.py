"""OpenTelemetry: a compaction is one span with its figures, on either side, and nothing of what was said."""

from __future__ import annotations

import asyncio
from itertools import count

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from tenfold.record.ask import Outcome
from tenfold.session import AsyncSession
from tests.engine.making import make_work, open_session

EXPORTED = InMemorySpanExporter()


class Counting(IdGenerator):
    """Ids without the `random` module, whose state belongs to the property tests of the same process."""

    def __init__(self) -> None:
        self._next = count(1)

    def generate_span_id(self) -> int:
        return next(self._next)

    def generate_trace_id(self) -> int:
        return next(self._next)


def collect_spans() -> tuple[ReadableSpan, ...]:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider(id_generator=Counting())
        provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
        trace.set_tracer_provider(provider)
    found = EXPORTED.get_finished_spans()
    EXPORTED.clear()
    return found


def assert_span(span: ReadableSpan, outcome: Outcome) -> None:
    assert span.name == "tenfold.compact"
    assert dict(span.attributes or {}) == {
        "tenfold.session": "s",
        "tenfold.config.policy": "tenfold",
        "tenfold.status": outcome.status,
        "tenfold.tokens_before": outcome.tokens_before,
        "tenfold.tokens_after": outcome.tokens_after,
        "tenfold.target": outcome.target,
        "tenfold.model_calls": 0,
    }


def test_a_compaction_is_a_span_on_either_side() -> None:
    collect_spans()
    plain, awaited = open_session(make_work(20)), open_session(make_work(20))
    outcome = plain.compact(to=900)
    assert outcome.status == "compacted"
    (span,) = collect_spans()
    assert_span(span, outcome)
    outcome = asyncio.run(AsyncSession(awaited).compact(to=900))
    (span,) = collect_spans()
    assert_span(span, outcome)
