"""Names say what a thing is: functions are verbs, and a class name means one thing.

The rules are those of the design page; each exception is listed with its reason.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tenfold.apps.cli.main import COMMANDS
from tenfold.config.policies import POLICIES
from tests.shape import scan

_VERBS = """
abort accept add adjust admit adopt advance allocate announce answer append apply approve archive arrange ask assert
assign attach average await batch begin bind blank branch browse build cache calculate calibrate call cancel
canonicalize capture catch change check choose chunk clamp classify clean clear climb clip close collapse collect
combine compact compare compile complete compose compress compute condense confirm connect consult continue convert
copy correct count create cut decide decode defer delete derive describe detect diff digest dismiss divide do draft
draw drive drop dump edit elide embed emit emphasize empty encode end ensure enter erase escape estimate examine
excerpt execute expand expect expire explain export extend extract fail feed fence fill find fingerprint finish fit
flatten flush fold follow forget fork format forward freeze generate get give go grade group handle hash hide highlight
hold host identify ignore import index inline insert inspect install interpolate interpret invoke itemize iter iterate
join judge keep kill label learn leave limit link list listen load locate lock log look make map mark mask match
measure memoize mend merge migrate move name navigate normalize note notify offer open overlay pair parse pass pick pin
place plan plant play pool pop prepare prepend preview price print probe prune pump purge put qualify quote raise rank
read rebuild recall receive recognize record recover redact redo refine refresh refuse register reject rejoin relax
release remove render replace replay report request require rescue reserve reset resolve respond restore resume retract
retry reveal revert revoke rewind rotate route run salvage sanitize save say scan schedule score scrub seal search
select send serialize set settle share shift shorten show shrink sign simplify skip sleep slice soften sort splice
split spread start stem stop store stream strip submit succeed suggest sum summarize switch sync take tell time trace
track transform translate trim truncate try undo unescape unfold unpack unpin unquote update use validate verify wait
walk warn watch weigh wrap write
"""
VERBS = frozenset(_VERBS.split())
"""The first words of functions: what they do. A new verb is added here; a word that is no verb does not belong."""
LINKS = frozenset({"is", "has", "can", "should", "with", "without", "to", "as", "from"})
"""First words of predicates, of copies with a change, and of conversions."""
REGULAR_NON_PARTICIPLES = frozenset({"need", "feed", "seed", "embed", "exceed", "proceed", "speed", "succeed", "red"})
_IRREGULAR = """
    begun bound brought built cut done drawn fed felt found given gone grown heard held kept known laid led left lent
    lost made meant met paid put run said seen sent set shown shut sold spent split stood taken taught thought thrown
    told torn understood woven written
"""
IRREGULAR = frozenset(_IRREGULAR.split())
"""Irregular participles. Those that are verbs as well (`cut`, `put`, `run`, `set`, `split`) are told apart by VERBS."""

FUNCTIONS_ALLOWED: dict[str, str] = {
    "before_model": "published: hosts call it before the model",
    "after_model": "published: hosts call it after the model",
    "after_refusal": "published: hosts call it after a provider has refused a request",
    "before": "a decorator that registers a hook, as frameworks name it",
    "after": "the same",
    "on": "the same",
    "main": "the entry point of a program",
    "executemany": "Python's database API has it under this name",
    "fetchone": "the same",
    "fetchall": "the same",
    "arun_engine": "the async form of run_engine, with the prefix that asyncio libraries use",
    "aanswer": "the same, of answer",
    "acompress": "the same, of a published design's compress",
    "acompact": "the same, of a published strategy's compact",
    "anotify": "the same, of notify",
    "ahandle": "the same, of handle",
    "after_model_request": "pydantic-ai calls it by this name",
    "_cleanup_on_run_end": "the Agents SDK calls it by this name",
    "_repr_html_": "notebooks call it by this name",
    "_root": "typer's callback: the command without a subcommand",
    "survives": "a pytest fixture: it is read in a test's arguments",
    "pytest_terminal_summary": "pytest calls it by this name",
    "model_dump": "the SDKs' objects have it under this name",
    "isatty": "Python's streams have it under this name",
    "_fatal_error": "textual calls it by this name",
    "consecutive_failures": "published by the design behind `clip`",
    "context_window": "published by the design behind `threshold`",
    "default_max_tokens": "the same",
    "new": "the same",
    "plugin_config": "the same",
    "turn_count": "published by the design behind `blocks`",
    "turn_msg_range": "the same",
    "messages_for_range": "the same",
}
"""Function names that are no verb phrase, and why they stay."""
CLASSES_ALLOWED = frozenset({"CompactionConfig", "CompactionResult", "CompactionSettings"})
"""Classes that several published designs call alike; each has its own, in a package of its own."""


@cache
def list_definitions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node for node in ast.walk(scan.parse_file(path)) if isinstance(node, kinds)]


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in (text := ast.unparse(d)) or text.endswith(".setter") for d in node.decorator_list)


def get_first_word(name: str) -> str:
    return name.strip("_").split("_")[0]


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    if word in IRREGULAR:
        return word not in VERBS
    return word.endswith("ed") and "_" not in word and word not in REGULAR_NON_PARTICIPLES and word not in VERBS


def is_verb_phrase(name: str) -> bool:
    word = get_first_word(name)
    is_async = word.startswith("a") and word[1:] in VERBS  # the prefix that asyncio libraries use
    return word in VERBS or is_async or word in LINKS or name.startswith(("action_", "on_", "test_"))


def list_commands() -> set[str]:
    """The functions that are commands, and the presets: they bear the name of what they are."""
    return {command.function for command in COMMANDS.values()} | set(POLICIES)


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_no_function_is_a_bare_participle(folder: str) -> None:
    found = [
        f"{scan.get_relative_name(path)}: {node.name}"
        for path in scan.list_python_files(folder)
        for node in list_definitions(path)
        if not isinstance(node, ast.ClassDef) and is_bare_participle(node.name) and not is_fixture(node)
    ]
    assert found == []


def is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(d) for d in node.decorator_list)


def test_functions_are_verbs() -> None:
    commands = list_commands()
    found: list[str] = []
    for path in scan.list_python_files("src"):
        for node in list_definitions(path):
            if isinstance(node, ast.ClassDef) or is_property(node) or node.name.startswith("__"):
                continue
            if path.parent.name == "adapters" and not node.name.startswith("_"):
                continue  # mostly what a framework calls by this name
            if not is_verb_phrase(node.name) and node.name not in FUNCTIONS_ALLOWED and node.name not in commands:
                found.append(f"{scan.get_relative_name(path)}: {node.name}")
    assert found == []


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in scan.list_python_files("src"):
        for node in list_definitions(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(scan.get_relative_name(path))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in CLASSES_ALLOWED} == {}
    assert all(len(places[name]) > 1 for name in CLASSES_ALLOWED), "an exception is gone: take it off the list"


def test_at_most_six_files_lie_beside_the_folders() -> None:
    assert len(list((scan.ROOT / "src/tenfold").glob("*.py"))) <= 6


def test_every_folder_says_what_it_is_for() -> None:
    for path in (scan.ROOT / "src/tenfold").iterdir():
        if path.is_dir() and path.name != "__pycache__":
            doc = ast.get_docstring(scan.parse_file(path / "__init__.py")) or ""
            assert len(doc) > 40, path.name


def test_exceptions_are_still_needed() -> None:
    names = {
        node.name
        for path in scan.list_python_files("src")
        for node in list_definitions(path)
        if not isinstance(node, ast.ClassDef)
    }
    assert set(FUNCTIONS_ALLOWED) - names == set(), "an exception is gone: take it off the list"
    assert all(FUNCTIONS_ALLOWED.values())


def test_the_rules_see_what_they_are_for() -> None:
    words = ("told", "_asked", "carried", "seed", "need", "_held", "run", "cut")
    assert [word for word in words if is_bare_participle(word)] == ["told", "_asked", "carried", "_held"]
    names = ("find_cut", "_is_open", "sizes_of", "with_text", "session", "_read")
    assert [name for name in names if is_verb_phrase(name)] == ["find_cut", "_is_open", "with_text", "_read"]
