"""OpenTelemetry: a compaction is one span with its figures, on either side, and nothing of what was said."""

from __future__ import annotations

import asyncio

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tenfold.core.record.ask import Outcome
from tenfold.session import AsyncSession
from tests.engine.making import make_work, open_session


def assert_span(span: ReadableSpan, outcome: Outcome) -> None:
    assert span.name == "tenfold.compact"
    assert dict(span.attributes or {}) == {
        "tenfold.session": "s",
        "tenfold.policy": "tenfold",
        "tenfold.status": outcome.status,
        "tenfold.tokens_before": outcome.tokens_before,
        "tenfold.tokens_after": outcome.tokens_after,
        "tenfold.target": outcome.target,
        "tenfold.model_calls": 0,
    }


def test_a_compaction_is_a_span_on_either_side(spans: InMemorySpanExporter) -> None:
    plain, awaited = open_session(make_work(20)), open_session(make_work(20))
    outcome = plain.compact(to=900)
    assert outcome.status == "compacted"
    (span,) = spans.get_finished_spans()
    assert_span(span, outcome)
    spans.clear()
    outcome = asyncio.run(AsyncSession(awaited).compact(to=900))
    (span,) = spans.get_finished_spans()
    assert_span(span, outcome)
