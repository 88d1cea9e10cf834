"""What every folder of tests shares: the recorded sessions, and which cases of costly tests are run."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from opentelemetry import trace
from opentelemetry.metrics import _internal as metrics_state
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.util._once import Once

from tenfold.formats import ParsedSession
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests import sessions
from tests.leftovers import find_leftovers, read_state
from tests.postgres import start_server
from tests.thorough import IS_THOROUGH, is_taken

settings.register_profile(
    "same",
    deadline=None,
    derandomize="TENFOLD_EXAMPLES" not in os.environ,
    database=None,
    max_examples=100 if IS_THOROUGH else 40,
)
settings.load_profile("same")
"""Property tests try the same examples on every machine, and fresh ones where TENFOLD_EXAMPLES is set."""

os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))
"""No test talks to another machine, and each client that is made would read the authorities of all the world."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts what runs in its background deaf to Ctrl-C, and so would be every command that a test interrupts."""


@pytest.fixture(autouse=True)
def leave_nothing_behind() -> Iterator[None]:
    """Fails a test that leaves something to the next ones: see `tests.leftovers`."""
    before = read_state()
    yield
    left = find_leftovers(before)
    assert not left, f"the test leaves behind: {'; '.join(left)}"


class CountedIds(IdGenerator):
    """Ids without the `random` module, whose state belongs to the property tests of the same process."""

    def __init__(self) -> None:
        self._ids = count(1)

    def generate_span_id(self) -> int:
        return next(self._ids)

    def generate_trace_id(self) -> int:
        return next(self._ids)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Turns tracing on for one test. The ended spans are what `get_finished_spans` of it returns.

    OpenTelemetry lets a process set its provider once and has no public way back.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider(id_generator=CountedIds())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()


@pytest.fixture
def measured() -> Iterator[InMemoryMetricReader]:
    """Turns metrics on for one test. `get_metrics_data` of what it returns has the figures."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    before = metrics_state._METER_PROVIDER
    metrics_state._METER_PROVIDER = provider
    yield reader
    metrics_state._METER_PROVIDER = before
    provider.shutdown()


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    opened = open_store(":memory:")
    yield opened
    opened.close()


def pytest_sessionfinish() -> None:
    """Stops the PostgreSQL server of this process, if a test has started it."""
    if start_server.cache_info().currsize:
        server = start_server()
        if not isinstance(server, str):
            server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps what is collected, which stays to the end, out of the garbage collector's sight: it would be walked anew
    each time, in every worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `session_file` or `session` once for each of the recorded ones."""
    if "session_file" in metafunc.fixturenames:
        files: list[Path | None] = list(sessions.list_session_files())
        if not sessions.FOLDER.is_dir():
            files.append(None)
        ids = [sessions.get_short_name(f) if f is not None else "recorded-sessions-missing" for f in files]
        metafunc.parametrize("session_file", files, ids=ids, indirect=True)
    if "session" in metafunc.fixturenames:
        metafunc.parametrize("session", sessions.build_params(), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the cases of a costly test that are not taken: see `tests.thorough`."""
    numbers: Counter[str] = Counter()
    left_out: set[pytest.Item] = set()
    for item in items:
        marker = item.get_closest_marker("costly")
        name, is_case, _ = item.nodeid.partition("[")
        if marker is not None and is_case:
            if not is_taken(name, numbers[name], *marker.args):
                left_out.add(item)
            numbers[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def session_file(request: pytest.FixtureRequest) -> Path:
    """A recorded session file. The test runs once for each."""
    if request.param is None:
        sessions.require_sessions()
    path: Path = request.param
    return path


@pytest.fixture
def session(request: pytest.FixtureRequest) -> ParsedSession:
    """A recorded session. The test runs once for each."""
    if request.param is None:
        sessions.require_sessions()
    found: ParsedSession = request.param
    return found
