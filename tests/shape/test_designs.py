"""Nothing outside `tenfold.designs` knows a design: no import, no name of its policy, no field that it alone sets."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct, structs

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.config.policies import DEFAULT, POLICIES
from tenfold.core.meter.counters import CharacterCounter
from tests.shape import scan

NAMES = frozenset(POLICIES) - {DEFAULT}
WORDS_ALLOWED: dict[tuple[str, str], str] = {
    ("src/tenfold/apps/cli/read_commands.py", "blocks"): "a column: how many Blocks a session has",
    ("src/tenfold/apps/cli/view_commands.py", "blocks"): "a key of the JSON: the Blocks of a session",
    ("src/tenfold/compaction/facts/shell.py", "tail"): "the shell command",
}
"""Where the word of a design's name means something else."""
FIELDS_ALLOWED: dict[str, str] = {
    "effort": "how hard a reasoning model thinks: a setting of the call",
    "estimator": "a value of its own, which the engine asks",
    "restorer": "a hook: a policy may know compactions that other tools record",
    "shrink_tokens": "a size",
    "style": "how messages are rendered for a model",
    "temperature": "a setting of the call",
}
"""Fields of `Policy` and `SummarySettings` that the policies of one design alone set, and why they stay."""


def iterate_foreign_files() -> Iterator[tuple[str, ast.Module]]:
    for path in scan.list_python_files("src/tenfold"):
        name = scan.get_relative_name(path)
        if not name.startswith("src/tenfold/designs/"):
            yield name, scan.parse_file(path)


def find_imports(module: ast.Module) -> list[str]:
    found = [node.module or "" for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    found += [alias.name for node in ast.walk(module) if isinstance(node, ast.Import) for alias in node.names]
    return [name for name in found if name.startswith("tenfold.designs")]


def find_words(module: ast.Module) -> list[str]:
    return [node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and node.value in NAMES]


def list_changed_fields(value: Struct) -> set[str]:
    defaults = {field.name: field.default for field in structs.fields(type(value))}
    return {name for name, default in defaults.items() if getattr(value, name) != default}


def test_nobody_imports_a_design() -> None:
    assert {file: found for file, module in iterate_foreign_files() if (found := find_imports(module))} == {}


def test_nobody_names_the_policy_of_a_design() -> None:
    found = {(file, word) for file, module in iterate_foreign_files() for word in find_words(module)}
    assert found - WORDS_ALLOWED.keys() == set(), "ask the policy, its trigger, estimator or writer instead"
    assert WORDS_ALLOWED.keys() - found == set(), "an exception is gone: take it off the list"


def test_no_field_is_there_for_one_design_alone() -> None:
    users: dict[str, set[str]] = defaultdict(set)
    for name in POLICIES:
        policy = POLICIES[name](CharacterCounter())
        for field in list_changed_fields(policy) | list_changed_fields(policy.summary):
            users[field].add(POLICIES[name].__module__)
    own = {field for field, modules in users.items() if len(modules) == 1 and "designs" in min(modules)}
    assert own - FIELDS_ALLOWED.keys() == set(), "what one design needs belongs into its folder"
    assert FIELDS_ALLOWED.keys() - own == set(), "an exception is gone: take it off the list"


def test_what_a_policy_holds_is_little() -> None:
    assert len(structs.fields(Policy)) <= 15
    assert len(structs.fields(SummarySettings)) <= 26


def test_the_rules_see_what_they_are_for() -> None:
    module = ast.parse('from tenfold.designs.tail import x\nif policy.name == "tail": ...\n"tail of it"')
    assert find_imports(module) == ["tenfold.designs.tail"]
    assert find_words(module) == ["tail"]
