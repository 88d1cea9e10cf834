"""The pages of the published designs: every code block runs, those of a page in order and in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.shape.scan import ROOT

PAGES = sorted((ROOT / "docs" / "designs").glob("*.md"))
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENFOLD_STORE", str(tmp_path / "store.db"))
    text = page.read_text("utf-8")
    names: dict[str, Any] = {"__name__": f"design_{page.stem}"}
    blocks = [found for found in BLOCK.finditer(text) if found["kind"] == "python"]
    assert any("assert " in found["code"] for found in blocks), "a page shows what is true, and not only calls"
    for found in blocks:
        lines_before = text.count("\n", 0, found.start("code"))
        code = compile("\n" * lines_before + found["code"], str(page), "exec")  # a failure names the page's own line
        exec(code, names)  # noqa: S102 - the page is ours, and running it is the point
