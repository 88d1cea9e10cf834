"""What the documentation points at exists."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tenfold.config.plugins import PLUGIN_KINDS
from tests.shape.scan import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples" / "README.md"])
CURRENT_PAGES = [page for page in PAGES if {page.parent.name, page.name}.isdisjoint({"decisions", "CHANGELOG.md"})]
"""Without those that tell of the past."""
NOT_NAMES = {"tenfold.db", "tenfold.toml"}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|opt)/|/simple/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index_once() -> None:
    """Formats and decisions have an index of their own, which the index of all pages names."""
    folder = ROOT / "docs"
    own = [folder / "formats" / "README.md", folder / "decisions" / "README.md"]
    named = [folder / target for target in re.findall(r"\]\((\w[^)#]*)\)", (folder / "README.md").read_text("utf-8"))]
    assert len(named) == len(set(named))
    for index in own:
        named += {index.parent / target for target in LINK.findall(index.read_text("utf-8"))}
    pages = {page for page in folder.glob("**/*.md") if page.name != "template.md"} - {folder / "README.md"}
    assert sorted(pages - set(named)) == []


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made where the pages are read."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_anchors_are_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    assert [
        (target, anchor)
        for target, anchor in links
        if anchor not in list_anchors(page.parent / target if target else page)
    ] == []


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_names_of_the_package_exist(page: Path) -> None:
    """Those that a page names in full."""
    quoted = re.findall(r"`([^`\s]+)`", page.read_text("utf-8"))
    paths = [q for q in quoted if re.match(r"(?:src|tests|scripts|yardstick|examples|docs)/", q)]
    missing = [path for path in paths if re.search(r"[A-Z*]", path) is None and not (ROOT / path).exists()]
    groups = {f"tenfold.{kind}" for kind in PLUGIN_KINDS}
    names = [q for q in quoted if re.fullmatch(r"tenfold(?:\.\w+)+", q) and q not in {*NOT_NAMES, *groups}]
    assert missing + [name for name in names if not is_importable(name)] == []


def is_importable(name: str) -> bool:
    """Whether it is a module, or a name in one."""
    try:
        return resolve_name(name) is not None
    except (AttributeError, ImportError):
        return False


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
