"""docs/wire.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from tenfold.core.view.rules import RULE_NAMES
from tenfold.core.wire import WIRES, AdjustmentKind
from tenfold.core.wire.marks import HARNESS_PATTERNS, SUMMARY_PATTERNS, TOOL_OUTPUT_PATTERNS
from tenfold.core.wire.pydantic_ai import PROFILE
from tenfold.foreign_texts import HARNESS_TEXTS, OUTPUT_TEXTS, SUMMARY_TEXTS

PROFILES = {wire.name: wire.profile for wire in WIRES.values()} | {"pydantic-ai": PROFILE}
RULES_OF_PROFILES = (
    "opens_with_assistant", "consecutive_roles", "midlist_system", "has_separate_system", "results",
    "calls_after_answer", "reasoning_needs_successor", "empty_text", "empty_message", "ids_optional",
    "native_compaction",
    "unique_call_ids", "unique_item_ids", "thinking_leads", "ends_with_user", "max_cache_marks", "takes_text",
)  # fmt: skip
PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text("utf-8")


def read_rows(heading: str) -> list[list[str]]:
    """The cells of all table rows under a heading, without their backticks."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (body,) = (s for s in section if s.startswith(heading))
    lines = [line for line in body.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[re.sub(r"^`|`$", "", cell.strip()) for cell in line.strip("|").split("|")] for line in lines]


def test_every_adjustment_is_on_the_page() -> None:
    assert [row[0] for row in read_rows("Adjustments")[1:]] == list(get_args(AdjustmentKind))


def test_the_injected_texts_are_those_of_the_table() -> None:
    assert read_rows("Whose words")[1:] == [[r.start, r.end] for r in HARNESS_PATTERNS]
    assert read_rows("What other tools summarized")[1:] == [[r.start, r.end, r.source] for r in SUMMARY_PATTERNS]


def test_the_printed_texts_are_those_of_the_table() -> None:
    told = [[cell.replace("\u23ce", "\n") for cell in row] for row in read_rows("Output in a user's place")[1:]]
    assert told == [[r.start, r.end, r.exception, r.source.replace("`", "")] for r in TOOL_OUTPUT_PATTERNS]


def test_each_text_of_another_program_names_it_and_a_day() -> None:
    for row in (*HARNESS_TEXTS, *SUMMARY_TEXTS, *OUTPUT_TEXTS):
        assert row.client, row
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.seen), row


def test_the_profiles_are_those_of_the_table() -> None:
    table = read_rows("What providers accept")
    wires = table[0][1:]
    assert wires == list(PROFILES)
    words = {True: "yes", False: "no"}
    fields = {row[0]: row[1:] for row in table[1:] if len(row) == len(table[0])}
    assert set(fields) == set(RULES_OF_PROFILES)
    for name in RULES_OF_PROFILES:
        values = [getattr(profile, name) for profile in PROFILES.values()]
        assert fields[name] == [words[v] if isinstance(v, bool) else str(v) for v in values], name


def test_every_profile_gives_evidence_for_what_it_refuses() -> None:
    for wire, profile in PROFILES.items():
        refused = {"opens_with_assistant", "calls_after_answer", "empty_text", "empty_message"}
        wanting = {f for f in refused if not getattr(profile, f)} | {"results"}
        assert wanting <= set(profile.evidence), wire


def test_every_rule_is_on_the_page() -> None:
    named = [row[0] for row in read_rows("What providers accept") if len(row) == 2]
    assert named[1:] == list(RULE_NAMES)


def build_answers() -> str:
    """The table of what providers answer, from the profiles."""
    rows = [
        f"| `{rule}` | {wire} | {row.answer} | {row.source} |"
        for rule in RULE_NAMES
        for wire, profile in PROFILES.items()
        if (row := profile.rule_evidence.get(rule)) is not None
    ]
    return "\n".join(("| rule | wire | answer | seen in |", "|---|---|---|---|", *rows))


def test_every_answer_of_a_provider_is_on_the_page() -> None:
    assert build_answers() in PAGE, f'put this under "What providers answer":\n{build_answers()}'


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_run(number: int) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]
    exec(compile(code, "docs/wire.md", "exec"), {})  # noqa: S102 - the page's own example
