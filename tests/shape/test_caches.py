"""Caches are bounded by bytes: a function that is asked with texts keeps none that may be of any length."""

from __future__ import annotations

import ast
import gc
import tracemalloc
import weakref
from collections.abc import Callable

import pytest

from tenfold.apps.gateway.lanes import find_opening
from tenfold.apps.gateway.model_request import parse_body
from tenfold.core.meter.counters import find_family
from tenfold.core.meter.media_rules import find_image_rule, find_page_rule, find_recording_rule
from tenfold.core.meter.model_names import normalize_model_name
from tenfold.core.meter.windows import find_window
from tenfold.core.text.redaction import redact_cached
from tenfold.models.prices import find_rates
from tests.shape import scan

ALLOWED = {
    "src/tenfold/apps/adapters/llama_index.py": "no argument",
    "src/tenfold/core/text/memoize.py": "it bounds the texts",
    "src/tenfold/core/text/hidden.py": "one character",
    "src/tenfold/core/text/language.py": "the names of cues",
    "src/tenfold/core/text/language_tables.py": "the names of fields",
    "src/tenfold/compaction/facts/current_request.py": "no argument",
    "src/tenfold/store/search/entry_text.py": "one character",
    "src/tenfold/store/sqlite/meanings.py": "no argument",
    "src/tenfold/store/sqlite/connections.py": "the store's own queries",
    "src/tenfold/store/postgres/connections.py": "the store's own queries",
    "src/tenfold/store/postgres/schema.py": "no argument",
    "src/tenfold/store/postgres/stems.py": "words, up to a length",
    "src/tenfold/core/meter/counters.py": "the names of two vocabularies",
    "src/tenfold/formats/file_shape.py": "the beginnings of two files",
    "src/tenfold/formats/session_files.py": "one file, until it has been read",
    "src/tenfold/compaction/facts/user_words.py": "no argument",
    "src/tenfold/store/search/terms.py": "no argument",
    "src/tenfold/compaction/facts/tool_calls.py": "calls, up to a length",
    "src/tenfold/compaction/summarize/prompt_files.py": "no argument",
    "src/tenfold/apps/cli/main.py": "no argument",
    "src/tenfold/apps/inspector/rendering.py": "no argument",
    "src/tenfold/apps/inspector/readings.py": "16 views of a record, by their names",
    "src/tenfold/core/wire/unread_text.py": "the names of the wires",
    "src/tenfold/config/policies.py": "the names of installed policies",
}
"""Where `functools` caches, and of what."""


def test_caches_without_a_bound_on_their_texts_are_known() -> None:
    found = {
        scan.get_relative_name(path)
        for path in scan.list_python_files("src")
        if "functools" in path.read_text("utf-8")
        for node in ast.walk(scan.parse_file(path))
        if isinstance(node, ast.ImportFrom) and node.module == "functools"
        for name in node.names
        if name.name in ("lru_cache", "cache")
    }
    assert found == ALLOWED.keys()


class Text(str):
    """A text that can be watched."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize(
    "ask",
    [
        find_window, find_rates, find_family, find_image_rule, find_page_rule, find_recording_rule,
        normalize_model_name, redact_cached,
    ],
)  # fmt: skip
def test_a_long_text_is_not_kept(ask: Callable[[str], object]) -> None:
    text = Text("abcdefgh" * 10_000)
    watch = weakref.ref(text)
    ask(text)
    del text
    gc.collect()
    assert watch() is None


def test_the_first_messages_of_lists_are_not_kept() -> None:
    """Forty of two megabytes, whose digests are."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(40):
        body = b'{"model":"m","messages":[{"role":"user","content":"%d %s"}]}' % (number, b"word " * 400_000)
        request = parse_body("openai-chat", body)
        assert request is not None
        assert find_opening(request)
    del body, request
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 2_000_000
