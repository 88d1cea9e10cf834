"""OpenTelemetry spans, where its API is installed; otherwise nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from tenfold.record.ask import Outcome

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

Tell = Callable[[Outcome], None]


@cache
def _tracer() -> Tracer | None:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an optional package, loaded at the first compaction
    except ImportError:
        return None
    return trace.get_tracer("tenfold")


@contextmanager
def compaction(session: str, policy: str) -> Iterator[Tell]:
    """The span `tenfold.compact` around one compaction; what is yielded is told its Outcome. Holds no session text."""
    tracer = _tracer()
    if tracer is None:
        yield lambda _: None
        return
    with tracer.start_as_current_span("tenfold.compact") as span:
        span.set_attribute("tenfold.session", session)
        span.set_attribute("tenfold.policy", policy)

        def tell(outcome: Outcome) -> None:
            span.set_attribute("tenfold.status", outcome.status)
            span.set_attribute("tenfold.tokens_before", outcome.tokens_before)
            span.set_attribute("tenfold.tokens_after", outcome.tokens_after)
            span.set_attribute("tenfold.target", outcome.target)
            span.set_attribute("tenfold.model_calls", outcome.spent.calls)

        yield tell
