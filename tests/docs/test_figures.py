"""Each page with measured figures says of which commit they are, and `make figures` finds those that are old."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.figures import MEASURED, PAGES, ROOT, FigurePage, HistoryMissing, describe_age, describe_measurement

DATED = re.compile(r"^.*\bmeasured\W+(?:on|at)\W+\d{4}-\d\d-\d\d.*$", re.IGNORECASE | re.MULTILINE)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="it makes a history")


def commit(root: Path, name: str, text: str) -> None:
    """Writes a file and commits it."""
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text, "utf-8")
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*settings, "commit", "-qm", name)):
        subprocess.run(["git", *command], cwd=root, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_page_says_of_which_commit_its_figures_are(page: FigurePage) -> None:
    assert MEASURED.search((ROOT / page.name).read_text("utf-8"))
    assert [folder for folder in page.folders if not (ROOT / folder).is_dir()] == []


def test_no_other_page_has_measured_figures_and_all_say_it_alike() -> None:
    texts = {str(p.relative_to(ROOT)): p.read_text("utf-8") for p in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    lines = {name: found for name, text in texts.items() if (found := [m[0] for m in DATED.finditer(text)])}
    assert lines.keys() <= {page.name for page in PAGES}
    assert [line for found in lines.values() for line in found if not MEASURED.match(line)] == []


@needs_git
def test_a_page_is_old_when_a_folder_that_it_measures_was_changed_since(tmp_path: Path) -> None:
    commit(tmp_path, "src/a.py", "1")
    page = FigurePage("page.md", ("src",), "make page")
    (tmp_path / "page.md").write_text("# Page\n", "utf-8")
    assert "says of no commit" in describe_age(page, tmp_path)[0]
    (tmp_path / "page.md").write_text(f"# Page\n\n{describe_measurement(tmp_path)}\n", "utf-8")
    commit(tmp_path, "docs/other.md", "no code")
    assert describe_age(page, tmp_path) == []
    commit(tmp_path, "src/a.py", "2")
    commit(tmp_path, "src/a.py", "3")
    first, last = describe_age(page, tmp_path)
    assert "2 commits before the newest of its code" in first
    assert last == "  measure it anew: make page"


@needs_git
@pytest.mark.parametrize(("mark", "words"), [("-dirty", "not committed"), ("", "this clone does not have")])
def test_a_commit_that_cannot_be_compared_is_named(tmp_path: Path, mark: str, words: str) -> None:
    commit(tmp_path, "page.md", f"Measured on 2026-01-02 at commit 0123456789{mark}.\n")
    assert words in describe_age(FigurePage("page.md", (".",), "make page"), tmp_path)[0]


def test_without_a_history_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Measured on 2026-01-02 at commit 0123456.\n", "utf-8")
    with pytest.raises(HistoryMissing, match="take a clone"):
        describe_age(FigurePage("page.md", (".",), "make page"), tmp_path)
    assert describe_measurement(tmp_path).endswith("at commit unknown.")
