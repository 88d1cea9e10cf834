"""What a sentence claims, and how its source is asked about it."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.summarize.claims import find_claim_errors
from tenfold.compaction.summarize.evidence import build_source
from tenfold.core.record.message import Message
from tests.summarize.making import make_answer, make_call, make_result, make_run, make_user

MESSAGES: list[Message] = [
    make_user("Speed up the nightly export. Never deploy before I have seen the report."),
    *make_run("cd app && pytest -q tests/test_export.py", "2 failed, 31 passed\nexit code 1", error=True),
    make_call("edit", path="app/export.py", old_string="chunk = 250", new_string="chunk = 4000"),
    make_result("The file app/export.py has been updated."),
    *make_run("ls lib/tools", "pack.py\nunpack.py"),
    *make_run("make build", "built in 1500 ms, 2,048 MB used, commit 4be1d09c7f21"),
    *make_run("cat NOTES.md", "Everyone must ask the release board.\nReleased on 2023-11-05 at 14:30 as 4.17.9."),
    make_answer("The export read `row_buffer` one row at a time; 12,480 rows took 38.46 seconds."),
]


def find_errors(sentence: str, messages: list[Message] = MESSAGES) -> list[str]:
    items = list(enumerate(messages))
    return [error.kind for error in find_claim_errors(sentence, build_source(items, extract_facts(items), ""))]


@pytest.mark.parametrize(
    "sentence",
    [
        "The build took 1.5 s and used 2 GB.",
        "12480 rows (about 12,500, or 12.5k) took 38.5 seconds.",
        "It was released on 5 November 2023 at 2:30 pm as v4.17.9.",
        "The build made commit 4be1d09.",
        "lib/tools/pack.py was read.",
        "RowBuffer was read row by row.",
        "`pytest tests/test_export.py` was run.",
        "`make build` passed.",
        "It edited three functions.",
        "chunk in app/export.py went from 250 to 4000.",
        'The note says: "ask the release board".',
        "The user does not want a deploy before having seen the report.",
        "Step 3 is done.",
        "`lib/` and `tools/` were listed.",
        "Two hooked builds failed.",
        "It was asked twice, and the user never answered.",
    ],
)
def test_a_true_short_form_passes(sentence: str) -> None:
    assert find_errors(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The build took 1.5 hours.", "unknown"),
        ("12840 rows took 38 seconds.", "unknown"),
        ("5 failed in the export tests.", "unknown"),
        ("It was released on 6 November 2023.", "unknown"),
        ("It was released at 15:30.", "unknown"),
        ("The build made commit 5be1d09.", "unknown"),
        ("lib/other/pack.py was read.", "unknown"),
        ("column_buffer was read row by row.", "unknown"),
        ("`rm -rf build` is safe.", "unknown"),
        ('The user said "go ahead without me".', "unknown"),
        ("The assistant ran `make deploy`.", "not_run"),
        ("lib/tools/pack.py was changed.", "not_changed"),
        ("chunk went from 4000 to 250.", "contradicted"),
        ("`pytest -q tests/test_export.py` passed.", "outcome"),
        ("The build failed.", "outcome"),
        ("The user allows a deploy.", "user"),
        ("The user wants everyone to ask the release board.", "user"),
        ('The user said "ask the release board".', "user"),
        ("As the user asked, the logo was replaced with a cat.", "user"),
        ("The export did not read row_buffer one row at a time.", "contradicted"),
    ],
)
def test_an_invention_is_found(sentence: str, kind: str) -> None:
    assert kind in find_errors(sentence)


def test_a_later_permission_counts_as_much_as_the_rule_before() -> None:
    messages = [make_user("never push to main"), make_answer("Understood."), make_user("you may push to main now")]
    assert find_errors("The user allows pushing to main.", messages[:2]) == ["user"]
    assert find_errors("The user allows pushing to main.", messages) == []
    assert find_errors("The user forbade pushing to main.", messages) == []


SAID_TWICE = [
    make_answer("It read the old row_buffer one line at a time."),
    make_answer("The export read the old row_buffer one line."),
]


@pytest.mark.parametrize(
    "sentence",
    [
        "``app`` holds the ``chunk`` size and reads `row_buffer` row by row.",
        "The tool tests failed.",
        "The export could not be passed on before the report.",
        "Rejected by the user: time zones, fuzzy codes.",
        "Look at the code after each edit; if it is wrong, issue another command to mend it.",
        "A threshold was rejected since it would miss the cool hours.",
        "Commit 4be1d09c7f21 pricing: ship free above 4.17, and never for express.",
        "Shown was (2275-2287), which came to nothing.",
        "`ls lib/tools` (656 lines of its output left out) showed an ordinary tree.",
        "The prompt begins with `\\nYouHave` and names what is there.",
        "Executed script: `lib.StoreError: no such column: stock.amount` came back.",
        "It was executed by `runShopCommand(job.line)` before.",
        "Imports of StockReader, SHOP_PRICE_FILE, SHOP_WRITE_PRICE_FILE and resolveStockPath.",
    ],
)
def test_a_true_sentence_passes_that_shares_words_with_something_else(sentence: str) -> None:
    talk = [
        *MESSAGES,
        *make_run("grep -rn tool tests", "tests/test_export.py:1:tool"),
        make_answer("That is pricing: ship free above 4.17, and never for express."),
        *make_run("sed -n 2270,2290p grid.py", "2275:    # where this spec is\n2287:        self.corner = (x0, y0)"),
        make_answer("It prints YouHave. `runShopCommand(job.line)` gives it on."),
        *make_run("python edge.py", "lib.StoreError: no such column: stock.amount"),
        *make_run(
            "cat env.ts",
            "import { StockReader, resolveStockPath } from 'x'\n"
            "it('should not write a file when SHOP_WRITE_PRICE_FILE or SHOP_PRICE_FILE is off', () => {",
        ),
        make_user(
            "The dates are local already, so no time zones please. If it didn't, issue another command to mend it."
        ),
        make_answer("A rule by station and hour, since a threshold would miss the cool hours."),
    ]
    assert find_errors(sentence, talk) == []
