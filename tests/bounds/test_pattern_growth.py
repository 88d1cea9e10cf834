"""No pattern of the package takes more than proportional time on runs of one character or pair.

The test runs this file as a program, since a pattern whose work explodes can only be ended with its process.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import get_args

import pytest

import tenfold
from tenfold.core.text.language import CueName, load_languages

Pattern = re.Pattern[str] | re.Pattern[bytes]

CHARACTERS = " \n\t\raA0.,-_=/\\\"'`([{<:#*@|~\u00e9\u4e2d"
PAIRS = (
    *("a ", "\n ", " \n", '"\\', "((", "-=", "a.", "a/", "a-", "a:", "0.", "1,", "a_", "a\n", "- ", "`a", "'a ", '{"'),
    *(
        "<a",
        "A1",
        "/a ",
        "a, ",
        "-a ",
        "\\n",
        "a=",
        "a@",
        "\n- ",
        "x=1 ",
        "if ",
        "not ",
        "the ",
        "key: ",
        '"a":',
        "1 2 ",
    ),
    *("/*", "<!--", "${", "{{", "sk-_", "re_", "pa-", "cio"),
)
PROBES = (*CHARACTERS, *PAIRS)
SHORT, TIMES = 250, 8
SUSPICIOUS = 2.0
"""A text in long runs of one character that takes so many times as long as in short runs is looked at closely."""
LONG = 60_000
GROWTH = 4
FASTER = 8.0
"""Work that grows as the size takes 4 times as long for 4 times the text, quadratic work 16 times."""
NOISE = 0.002
"""Seconds below which a measure of the processor's time says nothing."""
METHODS = {"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"}


def collect() -> dict[Pattern, str]:
    """Returns each compiled pattern of the package with the name under which it was found."""
    found: dict[Pattern, str] = {}
    seen: set[int] = set()
    for info in pkgutil.walk_packages(tenfold.__path__, "tenfold."):
        if not info.name.endswith("__main__") and not info.name.startswith("tenfold.testing"):
            try:
                module = importlib.import_module(info.name)
            except ModuleNotFoundError:  # the adapter of a framework that is not installed here
                if "adapters" in info.name or "formats.objects" in info.name:
                    continue
                raise
            for name, value in list(vars(module).items()):
                for where, pattern in _walk(value, f"{info.name}.{name}", seen):
                    found.setdefault(pattern, where)
    return found | collect_languages()


def collect_languages() -> dict[Pattern, str]:
    """Returns the patterns of each language's cues, which are compiled when they are first asked for."""
    found: dict[Pattern, str] = {}
    for name in get_args(CueName):
        found |= {each._get_pattern(name): f"{each.code}.{name}" for each in load_languages()}
    return found


def _walk(value: object, where: str, seen: set[int]) -> Iterator[tuple[str, Pattern]]:
    if isinstance(value, re.Pattern):
        yield where, value
        return
    if id(value) in seen or isinstance(value, str | bytes):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        children = [*value.items(), *((f"{key!r:.20} as key", key) for key in value)]
    elif isinstance(value, tuple | list | set | frozenset):
        children = list(enumerate(value))
    elif isinstance(value, FunctionType):
        children = list(enumerate((*(value.__defaults__ or ()), *(c.cell_contents for c in value.__closure__ or ()))))
    elif type(value).__module__.startswith("tenfold") or str(getattr(value, "__module__", "")).startswith("tenfold"):
        names = (*getattr(value, "__dict__", ()), *getattr(value, "__struct_fields__", ()))
        children = [(name, getattr(value, name, None)) for name in names]
    else:
        return
    for key, child in children:
        yield from _walk(child, f"{where}.{key}", seen)


def iterate_uses() -> Iterator[tuple[Path, ast.AST]]:
    """Every call in the package's code of something that is named as a method of patterns, and its name in itself."""
    for path in Path(tenfold.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func if isinstance(node, ast.Call) else node
            if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and name.attr in METHODS:
                yield path, node


def collect_inline(uses: list[tuple[Path, ast.AST]]) -> dict[Pattern, tuple[str, str]]:
    """Returns each pattern that the code compiles where it uses it, as in `re.sub(r"...", ...)`, and the function."""
    found: dict[Pattern, tuple[str, str]] = {}
    for path, node in uses:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=name),
                args=[ast.Constant(value=str() | bytes() as text), *_],
            ) if "testing" not in path.parts:
                found[re.compile(text)] = f"{path.name}:{node.lineno}: re.{name}", name
    return found


def find_methods(uses: list[tuple[Path, ast.AST]]) -> dict[str, set[str]]:
    """Returns, for each name in the package's code, the methods of patterns that are called on it."""
    methods: dict[str, set[str]] = defaultdict(set)
    for path, node in uses:
        module = ".".join(("tenfold", *path.relative_to(Path(tenfold.__file__).parent).with_suffix("").parts))
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                methods[f"{module if owner.startswith('_') else ''}.{owner}"].add(name)
    return methods


def choose_methods(where: str, methods: dict[str, set[str]]) -> tuple[str, ...]:
    """Returns the methods to call: those that the code calls, and `finditer` if it looks everywhere or is not known."""
    used = methods.get(where, set()) | methods.get("." + where.rpartition(".")[2], set())
    anchored = used & {"match", "fullmatch"}
    return tuple(sorted(anchored)) + (("finditer",) if used != anchored or not used else ())


def measure(pattern: Pattern, method: str, text: str, times: int = 1) -> float:
    """Returns the processor time that the method takes."""
    data = text if isinstance(pattern.pattern, str) else text.encode()
    call = getattr(pattern, method)
    start = time.thread_time()
    for _ in range(times):
        found = call(data)
        if method == "finditer":
            for _match in found:
                pass
    return time.thread_time() - start


def find_suspicious(pattern: Pattern, method: str) -> tuple[str, ...]:
    """Finds the probes that take longer in a long run than the same text in short runs. Only they are worth a look."""
    probes = PROBES
    for _ in range(3):
        probes = tuple(
            probe
            for probe in probes
            if measure(pattern, method, (probe * SHORT * TIMES)[: SHORT * TIMES])
            > SUSPICIOUS * measure(pattern, method, (probe * SHORT)[:SHORT], TIMES)
        )
    return probes


def find_faster(pattern: Pattern, method: str) -> str:
    """Says on which probe the work grows faster than the text does, twice running. "" if on none.

    Once is no sign: a pattern that looks ahead for at most 300 characters does more for each character until so many
    stand there, and then no more.
    """
    for probe in find_suspicious(pattern, method):
        size = LONG // GROWTH**4
        small = min(measure(pattern, method, (probe * size)[:size]) for _ in range(3))
        was_faster = False
        while size < LONG:
            text = (probe * size * GROWTH)[: size * GROWTH]
            large = measure(pattern, method, text)
            if large > FASTER * small and large > NOISE:
                large = min(large, *(measure(pattern, method, text) for _ in range(3)))
            is_faster = large > FASTER * small and large > NOISE
            if is_faster and was_faster:
                return f"runs of {probe!r}: {GROWTH} times {size:,} characters take {large / small:.0f} times as long"
            small, size, was_faster = large, size * GROWTH, is_faster
    return ""


@pytest.mark.parametrize(("pattern", "found"), [("a+b", True), (" *\\n", True), (".{0,300}b", False), ("[ab]+", False)])
def test_work_that_grows_faster_than_the_text_is_found(pattern: str, *, found: bool) -> None:
    assert bool(find_faster(re.compile(pattern), "finditer")) is found


def test_the_work_of_every_pattern_grows_as_the_text_does() -> None:
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=500, check=True)
    assert ran.stdout == ""
    assert int(ran.stderr.split()[0]) > 500, "the patterns are looked for where they are"


def main() -> None:
    """Prints a line for each pattern, method and probe whose work grows faster than the text."""
    uses = list(iterate_uses())
    methods, inline = find_methods(uses), collect_inline(uses)
    del uses  # the trees, which the garbage collector would walk
    found = collect()
    for pattern, where in sorted(found.items(), key=lambda item: item[1]):
        for method in choose_methods(where, methods):
            faster = find_faster(pattern, method)
            if faster:
                print(f"{where}.{method} on {faster}", flush=True)
    for pattern, (place, name) in inline.items():
        method = name if name in ("match", "fullmatch") else "finditer"
        faster = find_faster(pattern, method)
        if faster:
            print(f"{place} on {faster}", flush=True)
    print(f"{len(found)} patterns", file=sys.stderr)


if __name__ == "__main__":
    main()
