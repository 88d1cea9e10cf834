"""OpenTelemetry: each piece of work is a span with its figures, on either side, and nothing of what was said."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.session import AsyncSession
from tenfold.session.drive import Answerer
from tenfold.telemetry import MAX_LABELS, BoundedLabels
from tests.engine.making import build_policy, make_work, open_session

WHERE = {"gen_ai.conversation.id": "s", "tenfold.namespace": "default"}


class Writer:
    """A model that is paid for."""

    def answer(self, ask: SummaryAsk) -> Answer:
        return Answer(text="Files were read, one after the other.", spent=ModelCost(1, 700, 10, ask.model))


def assert_span(span: ReadableSpan, outcome: Outcome) -> None:
    assert span.name == "tenfold.compact"
    assert dict(span.attributes or {}) == {
        **WHERE,
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


def test_a_call_of_a_summary_model_is_named_as_the_conventions_say(spans: InMemorySpanExporter) -> None:
    policy = build_policy(models=("openai:gpt-4o-mini",))
    session = open_session(make_work(60), policy, answerer=Answerer(Writer()))
    assert session.compact(to=900).status == "compacted"
    asked, compacted = spans.get_finished_spans()
    assert asked.name == "chat gpt-4o-mini"
    assert asked.kind is SpanKind.CLIENT
    assert asked.parent is not None
    assert compacted.context is not None
    assert asked.parent.span_id == compacted.context.span_id, "it stands below the compaction that it was made for"
    attributes = dict(asked.attributes or {})
    assert attributes.pop("gen_ai.request.max_tokens")
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 700,
        "gen_ai.usage.output_tokens": 10,
        "tenfold.purpose": "first",
    }


def test_requests_and_searches_are_spans_without_what_was_said(spans: InMemorySpanExporter) -> None:
    session = open_session([])
    session.before_model({"model": "gpt-4o", "messages": [{"role": "user", "content": "Find the heliotrope."}]})
    session.search("heliotrope")
    synced, searched = (each for each in spans.get_finished_spans() if each.name != "tenfold.compact")
    assert (synced.name, dict(synced.attributes or {})) == (
        "tenfold.sync",
        {**WHERE, "tenfold.messages": 1, "tenfold.new_entries": 1},
    )
    assert (searched.name, dict(searched.attributes or {})) == ("tenfold.search", {**WHERE, "tenfold.hits": 1})
    assert "heliotrope" not in str([span.to_json() for span in spans.get_finished_spans()])


def read_metrics(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, object], float]]]:
    """The points of each metric: their attributes, and the sum."""
    data = reader.get_metrics_data()
    assert data is not None
    found = [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]
    return {
        metric.name: [
            (dict(point.attributes or {}), getattr(point, "sum", getattr(point, "value", 0)))
            for point in metric.data.data_points
        ]
        for metric in found
    }


def test_a_library_has_figures_by_tenant_and_model(measured: InMemoryMetricReader) -> None:
    policy = replace(build_policy(models=("openai:gpt-4o-mini",)))
    session = open_session(make_work(60), policy, answerer=Answerer(Writer()))
    outcome = session.compact(to=900)
    session.search("nothing")
    figures = read_metrics(measured)
    labels = {"tenfold.namespace": "default", "gen_ai.request.model": session.compactor.model}
    counted = {**labels, "tenfold.policy": "tenfold", "tenfold.status": "compacted"}
    assert figures["tenfold.compactions"] == [(counted, 1)]
    saved = outcome.tokens_before - outcome.tokens_after
    assert figures["tenfold.compaction.saved_tokens"] == [(labels, saved)]
    call = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini"}
    assert figures["gen_ai.client.token.usage"] == [
        ({**call, "gen_ai.token.type": "input"}, 700),
        ({**call, "gen_ai.token.type": "output"}, 10),
    ]
    for name in ("tenfold.compaction.duration", "tenfold.search.duration", "gen_ai.client.operation.duration"):
        ((_, seconds),) = figures[name]
        assert seconds > 0


def test_clients_that_invent_names_make_no_more_labels() -> None:
    labels = BoundedLabels()
    names = [f"model-{number}" for number in range(MAX_LABELS + 50)]
    kept = [labels.fit(name) for name in names]
    assert kept == [*names[:MAX_LABELS], *["other"] * 50]
    assert [labels.fit(name) for name in names] == kept
