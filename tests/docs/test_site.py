"""The documentation site is built from the pages, its links lead somewhere, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shape.scan import ROOT

LOADED = re.compile(
    r'<(?:script|img|iframe)\b[^>]*\bsrc="(https?:)?//|<link\b[^>]*rel="stylesheet"[^>]*href="(https?:)?//'
)


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """Each worker builds its own: two of them in one folder would take each other's files away."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="docs-", dir=ROOT / "build") as folder:
        command = [sys.executable, "site/build.py", Path(folder).name]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        yield Path(folder) / "site"


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert {page for page in pages if page.name not in ("README.html", "template.html")} <= built


def test_the_reference_tells_of_the_public_names(site: Path) -> None:
    text = (site / "reference" / "sessions.html").read_text("utf-8")
    for name in ("open_session", "before_model", "after_refusal"):
        assert f'id="tenfold.{name}"' in text or f".{name}" in text
    assert "Opens the session" in text


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert [path.name for path in site.rglob("*.html") if LOADED.search(path.read_text("utf-8"))] == []
