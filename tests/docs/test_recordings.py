"""The recordings on the pages are what the commands print now, and each picture tells a reader who cannot see it."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.shape.scan import ROOT

if sys.platform == "win32":
    pytest.skip("a recording needs a terminal that Windows does not have", allow_module_level=True)

from scripts.draw_thrift import PICTURE, TABLE, draw_thrift
from scripts.record_terminal import COLUMNS, FOLDER, RECORDINGS, record
from scripts.terminal_picture import draw_picture, write_text

PAGES = sorted([ROOT / "README.md", ROOT / "site" / "index.md", *(ROOT / "docs").rglob("*.md")])
EMBEDDED = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
MOST_BYTES = 150_000
AGAIN = "run `python -m scripts.record_terminal` and commit what it writes"
TOTALS = re.compile(r"[0-9,]+ of [0-9,]+ input tokens saved|no price is known for \d+ requests")
"""What the gateway counts while it waits: a few more or less each time."""


@pytest.mark.costly(3)
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_made_again_says_the_same(name: str) -> None:
    steps = record(RECORDINGS[name])
    assert blur(write_text(steps)) == blur((FOLDER / f"{name}.txt").read_text("utf-8")), AGAIN
    again = draw_picture(steps, RECORDINGS[name].title, COLUMNS)
    assert blur(again) == blur((FOLDER / f"{name}.svg").read_text("utf-8")), AGAIN


def blur(text: str) -> str:
    return TOTALS.sub("TOTALS", text.replace("&#160;", " "))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_picture_shows_the_commands_of_its_recording_and_loads_nothing(name: str) -> None:
    picture = (FOLDER / f"{name}.svg").read_text("utf-8")
    rows: dict[int, str] = {}
    for text in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - the project's own file
        if row := re.search(r"\bl(\d+)$", text.get("class", "")):
            rows[int(row[1])] = rows.get(int(row[1]), "") + (text.text or "").replace("\xa0", " ")
    words = (FOLDER / f"{name}.txt").read_text("utf-8")
    assert "".join(rows[at] for at in sorted(rows)).split() == words.split()
    shown = [line.removeprefix("$ ") for line in words.splitlines() if line.startswith("$ ")]
    assert shown == list(RECORDINGS[name].commands), AGAIN
    assert len(picture.encode()) < MOST_BYTES
    assert re.findall(r"<script|<image|@import|@font-face|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", picture) == []
    assert "prefers-reduced-motion:no-preference" in picture.partition("@keyframes")[0], "it moves for all readers"


def test_every_recording_and_picture_is_on_a_page() -> None:
    named = {(page.parent / target).resolve() for page in PAGES for _, target in list_pictures(page)}
    there = {*FOLDER.glob("*.svg"), *(ROOT / "docs").glob("*.svg")}
    assert {path.stem for path in FOLDER.iterdir()} == RECORDINGS.keys()
    assert there - named == set()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if EMBEDDED.search(page.read_text("utf-8"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_each_picture_exists_and_says_what_it_shows(page: Path) -> None:
    for words, target in list_pictures(page):
        assert (page.parent / target).is_file(), target
        assert len(words.split()) >= 3, f"{target} needs words for those who cannot see it: {words!r}"


def list_pictures(page: Path) -> list[tuple[str, str]]:
    folder = "../docs/" if page.parent.name == "site" else ""
    found = [(m[1], m[2]) for m in EMBEDDED.finditer(page.read_text("utf-8"))]
    return [(words, folder + target) for words, target in found if "://" not in target]


def test_the_picture_of_the_bill_has_the_figures_of_the_table() -> None:
    drawn = draw_thrift(TABLE.read_text("utf-8"))
    assert drawn == PICTURE.read_text("utf-8"), "run `python -m scripts.draw_thrift` and commit what it writes"
    assert drawn.count("<rect") == 10
