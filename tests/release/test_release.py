"""What `make release` says of a version and of what an installation takes, and what an extra brings."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from scripts.check_release import (
    EXTRAS,
    MOST_BYTES,
    InstalledPackage,
    build_notes,
    describe_weights,
    find_version,
    report_size,
)
from tests.shape.scan import ROOT

PROJECT, YARDSTICK = (
    tomllib.loads((ROOT / name).read_text("utf-8"))["project"]
    for name in ("pyproject.toml", "yardstick/pyproject.toml")
)
CHANGELOG = """# Changelog

## Unreleased

- Later.

## 1.2.0 (2026-11-30)

- Reads [all](docs/a.md#b) of [it](https://x.example/y).

## 1.2

## 1.1.0rc1

- Early.
"""


def test_the_notes_are_the_entry_of_the_version_with_links_that_work_elsewhere() -> None:
    files = "https://github.com/tenfold-project/tenfold/blob/v1.2.0/docs/a.md#b"
    wanted = f"# Tenfold 1.2.0\n\n- Reads [all]({files}) of [it](https://x.example/y).\n"
    assert build_notes(CHANGELOG, "1.2.0") == wanted


@pytest.mark.parametrize(
    ("version", "said"), [("1.1.0", "has no entry for"), ("1.2", "says nothing of"), ("2", "has no")]
)
def test_a_version_without_an_entry_is_an_error_that_says_what_to_do(version: str, said: str) -> None:
    with pytest.raises(SystemExit, match=rf"CHANGELOG.md {said}.*`## {version}` in place of `## Unreleased`"):
        build_notes(CHANGELOG, version)


def test_this_version_has_notes_and_all_places_name_it() -> None:
    version = find_version(f"v{PROJECT['version']}")
    assert build_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version).count("\n- ") > 5
    others = ["yardstick/pyproject.toml", "packages/langchain-tenfold/pyproject.toml"]
    told = {name: tomllib.loads((ROOT / name).read_text("utf-8"))["project"]["version"] for name in others}
    for name in ("CITATION.cff", "packages/tenfold-ai/package.json"):
        found = re.search(r'^\W*version\W+"?([^"\n]+)', (ROOT / name).read_text("utf-8"), re.MULTILINE)
        told[name] = found[1] if found else ""
    assert told == dict.fromkeys(told, version)


def test_a_tag_of_another_version_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"the tag v9\.9\.9 is not of this version"):
        find_version("v9.9.9")


def make_package(name: str, size: int, *requires: str) -> InstalledPackage:
    return InstalledPackage(name, "1.0", "MIT", size, list(requires))


def test_a_base_installation_over_the_limit_is_an_error_with_the_arithmetic() -> None:
    pip = make_package("pip", MOST_BYTES)
    within = [pip, make_package("a", MOST_BYTES - 1_000_000), make_package("b", 1_000_000)]
    assert report_size(within) == (
        "the base installation takes 40.0 MB without pip and setuptools (a 39.0, b 1.0), of 40 it may take"
    )
    with pytest.raises(SystemExit, match=r"takes 42\.5 MB .*, 2\.5 more than the 40 it may take"):
        report_size([*within, make_package("c", 2_500_000)])


def test_the_tables_say_what_asks_for_a_package_and_what_an_extra_adds() -> None:
    base = [
        make_package("pip", 9_000_000),
        make_package("tenfold", 3_000_000, "Rich>=13", "c; extra == 'serve'"),
        make_package("rich", 2_000_000, "markdown_it.py"),
        make_package("markdown-it-py", 500_000),
    ]
    text = describe_weights(base, {"serve": [*base, make_package("c", 700_000)]})
    assert "| rich 1.0 | 2.0 | tenfold |\n| markdown-it-py 1.0 | 0.5 | rich |\n| together | 5.5 | |" in text
    assert "| `serve` | 0.7 | 1 | c 0.7 |" in text


@cache
def find_named_modules() -> frozenset[str]:
    """The modules that the source imports, or names in a string: to import them later, or to read their files."""
    found = set[str]()
    for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("yardstick/src/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    found |= {each.name for each in names}
                case ast.ImportFrom(module=str(name), level=0):
                    found.add(name)
                case ast.Constant(value=str(name)) if re.fullmatch(r"[a-z][\w.]*", name):
                    found.add(name)
    return frozenset(name.partition(".")[0] for name in found)


@pytest.mark.costly(3)
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_each_package_that_is_asked_for_is_used(extra: str) -> None:
    """A distribution that is not installed here cannot be judged."""
    lists = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"], "eval": YARDSTICK["dependencies"]}
    modules: dict[str, set[str]] = {}
    for module, owners in packages_distributions().items():
        for owner in owners:
            modules.setdefault(normalize(owner), set()).add(module)
    names = [name for line in lists[extra] if (name := normalize(line)) not in ("tenfold", "tenfold-yardstick")]
    idle = [name for name in names if name in modules and modules[name].isdisjoint(find_named_modules())]
    assert idle == []


def normalize(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
