"""What the documentation points at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shape.scan import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples" / "README.md"])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|opt)/|/simple/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_speak_of_the_project_only(page: Path) -> None:
    assert MACHINE.findall(page.read_text("utf-8")) == []


def test_the_architecture_page_and_its_picture_name_every_part_of_the_source() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    picture = (ROOT / "docs/architecture.svg").read_text("utf-8").split("</style>")[1]
    parts = sorted(path for path in (ROOT / "src" / "tenfold").iterdir() if not path.name.startswith(("_", "py.typed")))
    missing = [path.name for path in parts if f"`{path.name}{'/' if path.is_dir() else ''}`" not in page]
    assert missing == []
    assert [path.stem for path in parts if not re.search(rf"\b{path.stem}\b", picture)] == []


def test_make_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    told = set(re.findall(r"@echo 'make (\w+)", makefile))
    assert set(phony.group(1).split()) - {"help"} == told
