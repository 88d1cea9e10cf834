"""The trees of all the files are 150 MB: they are kept while these tests run, and no longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shape import scan, test_names


@pytest.fixture(scope="package", autouse=True)
def parsed_files() -> Iterator[None]:
    yield
    test_names.list_definitions.cache_clear()
    scan.parse_file.cache_clear()
