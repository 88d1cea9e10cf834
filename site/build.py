"""Builds the documentation site from docs/ and the docstrings: `make docs` writes it to build/docs.

The pages are those of docs/. Links that lead out of that folder become links to the repository. The pages of the
reference are made of the package's docstrings. A link that leads nowhere is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BUILD = ROOT / "build" / (sys.argv[1] if len(sys.argv) > 1 else "docs")
"""Another name keeps a build apart from one that runs at the same time."""
PAGES = BUILD / "pages"
INDEX = "pages.md"
"""What docs/README.md is called on the site, whose first page is site/index.md."""
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
REFERENCE = {
    "sessions": ("Sessions", ("open_session", "aopen_session", "Session", "AsyncSession", "SessionAddress")),
    "lists": (
        "Lists of messages",
        ("compact", "acompact", "CompactResult", "to_messages", "from_messages", "validate"),
    ),
    "outcomes": ("Outcomes and views", ("Outcome", "View", "Violation")),
    "stores": ("Stores", ("open_store",)),
    "policies": ("Policies", ("Policy", "Stage", "Call", "POLICIES")),
    "errors": ("Errors", ("errors",)),
}
"""The pages of the reference: the title of each, and the names of the package that it tells of."""


def build_site() -> int:
    """Builds the site. Returns the exit code of the generator."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(DOCS, PAGES)
    (PAGES / "README.md").rename(PAGES / INDEX)
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
    for page in sorted(PAGES.rglob("*.md")):
        page.write_text(rewrite_links(page.read_text("utf-8"), page.relative_to(PAGES), repository), "utf-8")
    write_reference()
    for name in ("index.md", "wide.css"):
        shutil.copy(ROOT / "site" / name, PAGES / name)
    shutil.copy(ROOT / "site" / "zensical.toml", BUILD / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(command, cwd=BUILD, check=False, env={**os.environ, "NO_COLOR": "1"}).returncode


def rewrite_links(text: str, page: Path, repository: str) -> str:
    """Returns a page with links that lead on the site: to its own pages, or to a file in the repository."""
    source = DOCS / ("README.md" if page.name == INDEX else page)

    def rewrite(link: re.Match[str]) -> str:
        target = (source.parent / link[2]).resolve()
        if target == DOCS / "README.md":
            return f"{link[1]}{os.path.relpath(PAGES / INDEX, PAGES / page.parent)}{link[3]}"
        if target.is_relative_to(DOCS) and target.is_file():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{link[1]}{repository}/{kind}/main/{target.relative_to(ROOT).as_posix()}{link[3]}"

    pieces = _CODE.split(text)
    return "".join(piece if piece.startswith("```") else _LINK.sub(rewrite, piece) for piece in pieces)


def write_reference() -> None:
    """Writes the pages of the reference, of which the generator makes the text of the docstrings."""
    folder = PAGES / "reference"
    folder.mkdir()
    for name, (title, members) in REFERENCE.items():
        blocks = "\n\n".join(f"::: tenfold.{member}" for member in members)
        (folder / f"{name}.md").write_text(f"# {title}\n\n{blocks}\n", "utf-8")
    adapters = sorted((ROOT / "src" / "tenfold" / "apps" / "adapters").glob("[a-z]*.py"))
    blocks = "\n\n".join(f"::: tenfold.apps.adapters.{path.stem}" for path in adapters)
    (folder / "adapters.md").write_text(f"# Adapters\n\n{blocks}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(build_site())
