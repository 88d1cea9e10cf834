"""Each promise names the tests that hold it, and promises no more cases than they try."""

from __future__ import annotations

import re

from tests.facts.test_injections import ATTACKS, CHANNELS
from tests.formats.test_mutations import COUNT
from tests.formats.test_own_summaries import ROUNDS
from tests.secrets import load_kinds
from tests.session.test_wrong_reports import REPORTS
from tests.shape.scan import ROOT

PROMISE = re.compile(r"^(\d+)\. (.+?)(?=^\d+\. |\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| (.+) \|$", re.MULTILINE)


def read_section(page: str, heading: str) -> str:
    return (ROOT / page).read_text("utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


PROMISES = {
    int(number): " ".join(text.split())
    for number, text in PROMISE.findall(read_section("docs/promises.md", "What is promised"))
}
TESTS = {
    int(number): re.findall(r"`([^`]+)`", cell)
    for number, cell in ROW.findall(read_section("docs/laws.md", "The promises"))
}


def test_each_promise_has_its_tests() -> None:
    assert list(PROMISES) == list(TESTS) == list(range(1, len(PROMISES) + 1))
    assert all(TESTS.values())
    assert [path for paths in TESTS.values() for path in paths if not (ROOT / path).is_file()] == []


def test_a_promise_names_no_more_cases_than_are_tried() -> None:
    """The README said 313 where the tests asked for 300, and called 12 ways to report wrong of which one is right."""
    figures = {
        7: ("a dozen ways to report", len(REPORTS) >= 12),
        8: (f"{len(ATTACKS)} attacks are tried, each by more than 40 ways", len(CHANNELS) > 40),
        9: ("five times over", ROUNDS == 5),
        11: (f"tries {COUNT:,} damaged ones", True),
        12: ("Secrets of more than 300 kinds", len(load_kinds()) > 300),
    }
    for number, (words, is_tried) in figures.items():
        assert (words in PROMISES[number], is_tried) == (True, True), (number, words)
