"""What is known of a provider stands in its profile: nothing else names a wire, and docs/wire.md says the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from tenfold.core.view.rules import RULE_NAMES
from tenfold.core.wire import DEFAULT_WIRE, WIRES
from tenfold.core.wire.base import AdjustmentKind
from tenfold.core.wire.marks import HARNESS_PATTERNS, SUMMARY_PATTERNS, TOOL_OUTPUT_PATTERNS
from tenfold.core.wire.pydantic_ai import PROFILE
from tenfold.errors import UnknownFormat
from tenfold.foreign_texts import HARNESS_TEXTS, OUTPUT_TEXTS, SUMMARY_TEXTS
from tenfold.session.requests import read_request
from tests.shape import scan
from tests.view.refused import FAULTS

PROFILES = {wire.name: wire.profile for wire in WIRES.values()} | {"pydantic-ai": PROFILE}
RULES_OF_PROFILES = (
    "opens_with_assistant", "midlist_system", "has_separate_system", "results",
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


def test_every_rule_is_on_the_page() -> None:
    named = [row[0] for row in read_rows("What providers accept") if len(row) == 2]
    assert named[1:] == list(RULE_NAMES)


def test_the_page_has_the_answer_to_each_fault_of_a_provider_and_where_it_was_seen() -> None:
    answers = read_rows("What providers answer")[1:]
    broken = {(fault.rule, wire) for wire, faults in FAULTS.items() for fault in faults}
    assert sorted((rule, wire) for rule, wire, *_ in answers) == sorted(broken)
    assert {rule for rule, *_ in answers} == set(RULE_NAMES)
    for _, _, answer, source in answers:
        assert answer
        assert re.search("#|API|SDK", source)


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_run(number: int) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]
    exec(compile(code, "docs/wire.md", "exec"), {})  # noqa: S102 - the page's own example


KNOW_A_WIRE: Mapping[str, str] = {
    "core/wire/anthropic/profile.py": "the name of the wire",
    "core/wire/gemini/profile.py": "the same",
    "core/wire/openai_chat/profile.py": "the same",
    "core/wire/openai_responses/profile.py": "the same",
    "core/wire/anthropic/api.py": "what settings call the API, which is the same word",
    "core/wire/gemini/api.py": "the same",
    "formats": "a session file holds the blocks of one wire",
    "models": "the names are those of the libraries that call a model",
    "apps/agent": "the same",
    "apps/adapters": "each framework's messages are those of one wire",
    "apps/installer/claude_rows.py": "the rows of Claude Code's hook are read as those of one wire",
    "apps/clients": "a client keeps the messages of one wire, and has addresses and programs of these names",
    "apps/cli/doctor_command.py": "a program on this machine has this name",
    "testing": "the questions and histories are written in one wire",
}
"""Files and folders that name a wire, and why. The gateway is none of them: it asks the wire's profile and its API."""


def test_only_those_with_a_reason_name_a_wire() -> None:
    named = {
        f"{name}: {node.value}"
        for path in scan.list_python_files("src")
        for name in [path.relative_to(scan.ROOT / "src" / "tenfold").as_posix()]
        if not any(name == known or name.startswith(f"{known}/") for known in KNOW_A_WIRE)
        for node in ast.walk(scan.parse_file(path))
        if isinstance(node, ast.Constant) and node.value in WIRES
    }
    assert named == set()


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_is_defined_with_its_name_and_parameters(wire: str) -> None:
    parameters = {"type": "object", "properties": {}}
    tool = WIRES[wire].profile.build_tool("look", "Looks.", parameters)
    definition = tool.get("function", tool)
    assert isinstance(definition, dict)
    assert (definition["name"], definition["description"]) == ("look", "Looks.")
    assert parameters in (definition.get("parameters"), definition.get("input_schema"))


@pytest.mark.parametrize("wire", WIRES)
def test_a_user_message_of_a_profile_is_one_of_its_wire(wire: str) -> None:
    profile = WIRES[wire].profile
    read = read_request({profile.request.list_field: [profile.build_user_message("hi")]})
    assert [(m.role, m.origin) for m in read.messages] == [("user", "human")]
    assert read.wire == (DEFAULT_WIRE if profile.request.list_field == "messages" else wire)


def test_a_request_of_an_unknown_wire_is_refused() -> None:
    with pytest.raises(UnknownFormat, match=", ".join(WIRES)):
        read_request({"messages": "hello"}, wire="semaphore")
