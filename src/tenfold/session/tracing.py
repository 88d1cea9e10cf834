"""Records compactions and requests as OpenTelemetry spans, if its API is installed. Otherwise does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenfold.core.record.ask import Outcome

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SpanRecorder = Callable[[Mapping[str, str | int | float]], None]
"""Adds attributes to a span."""
OutcomeRecorder = Callable[[Outcome], None]


def _get_tracer() -> Tracer | None:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an optional package
    except ImportError:
        return None
    return trace.get_tracer("tenfold")


@contextmanager
def trace_span(name: str) -> Iterator[SpanRecorder]:
    """Opens a span of that name. Call what it yields with attributes. No attribute may hold session text."""
    tracer = _get_tracer()
    span = tracer.start_span(name) if tracer is not None else None
    if span is None or not span.get_span_context().is_valid:  # tracing is off
        yield lambda _: None
        return
    from opentelemetry.trace import use_span  # noqa: PLC0415 - installed, since there is a span

    with use_span(span, end_on_exit=True):
        yield span.set_attributes


@contextmanager
def trace_compaction(session: str, policy: str) -> Iterator[OutcomeRecorder]:
    """Opens the span `tenfold.compact` for one compaction. Call what it yields with the Outcome."""
    with trace_span("tenfold.compact") as record:
        record({"tenfold.session": session, "tenfold.policy": policy})

        def record_outcome(outcome: Outcome) -> None:
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
