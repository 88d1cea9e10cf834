"""No pattern of the package takes more than proportional time on runs of one character, of a pair, or of its own words.

The test runs this file as a program, so that no other test has filled the memory before it, nor set a signal.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
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
from tests.bounds.pattern_words import Pattern, find_starts, find_words, parse

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
ENDS = ("", " ")
"""What follows each of a pattern's own words in a run of it: nothing, or what the pattern may not go on with."""
SHORT, TIMES, REPEATS = 80, 8, 4
"""The characters of a short run, how many such runs a long one is compared with, and its fewest words."""
SUSPICIOUS = 2.0
"""A text in long runs that takes so many times as long as in short runs is looked at closely."""
LOOKS = 2
"""How many probes of a pattern are looked at closely."""
LONG = 60_000
GROWTH = 4
SLOWER, FASTER = 6.0, 8.0
"""Work that grows as the size takes 4 times as long for 4 times the text, quadratic work 16 times."""
NOISE = 0.002
"""Seconds below which a measure of the processor's time says nothing."""
GUARDED = {
    "compaction.facts.edit_content._SEARCH_BLOCK",  # is given 20,000 characters
    "compaction.facts.parse._NOTE_SUFFIX",  # is given one line of a section of facts
    "compaction.facts.shortened_steps._CALL",  # is given 20,000 characters
    "compaction.facts.tool_results._FAILED_RUN",  # is given 4,000 characters
    "core.wire.system_prompt._SUMMARY",  # is given a text that ends where the last summary does
}
"""The patterns whose work grows faster than the text, but which are given little of it, or what cannot do so."""
MOST_SECONDS = 20
"""After so much of the processor's time the work on a pattern is ended: it explodes."""
METHODS = "match|fullmatch|search|finditer|findall|sub|subn|split"
ROOT = Path(tenfold.__file__).parent


def collect() -> dict[Pattern, str]:
    """Returns each compiled pattern of the package with the name under which it was found.

    A module that holds none needs no import: many a framework that the others import would take longer than this test.
    """
    for module, path, text in iterate_sources():
        if path.name != "__main__.py" and re.search(r"^import re$", text, re.MULTILINE):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError:  # the adapter of a framework that is not installed here
                if "adapters" not in module and "formats.objects" not in module:
                    raise
    found: dict[Pattern, str] = {}
    seen: set[int] = set()
    for module in sorted(name for name in sys.modules if name.startswith("tenfold.")):
        if not module.startswith("tenfold.testing"):
            for name, value in list(vars(sys.modules[module]).items()):
                for where, pattern in _walk(value, f"{module}.{name}", seen):
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


def iterate_sources() -> Iterator[tuple[str, Path, str]]:
    """Yields each module of the package: its name, path and text."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if "testing" not in path.parts:
            yield ".".join(("tenfold", *module.relative_to(ROOT).parts)), path, path.read_text()


def collect_inline() -> dict[Pattern, tuple[str, str]]:
    """Returns each pattern that the code compiles where it uses it, as in `re.sub(r"...", ...)`, and the function."""
    found: dict[Pattern, tuple[str, str]] = {}
    for _, path, text in iterate_sources():
        for node in ast.walk(ast.parse(text)) if re.search(rf"\bre\.(?:{METHODS})\(", text) else ():
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=name),
                    args=[ast.Constant(value=str() | bytes() as pattern), *_],
                ) if name in METHODS.split("|"):
                    found[re.compile(pattern)] = f"{path.name}:{node.lineno}: re.{name}", name
    return found


def find_methods() -> dict[str, set[str]]:
    """Returns, for each name in the package's code, the methods of patterns that are called on it."""
    methods: dict[str, set[str]] = defaultdict(set)
    for module, _, text in iterate_sources():
        for owner, name in re.findall(rf"(?<![\w.])([^\W\d]\w*)\.({METHODS})\b", text):
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


def list_probes(pattern: Pattern) -> list[str]:
    """Returns what runs are made of for a pattern: the fixed probes and its own words, where a match may begin."""
    parts = parse(pattern)
    own = [word + end for word in find_words(parts) for end in ENDS]
    starts = find_starts(parts, set("".join((*PROBES, *own))))
    return [probe for probe in dict.fromkeys((*PROBES, *own)) if not starts.isdisjoint(probe)]


def rate(pattern: Pattern, method: str, probe: str) -> float:
    """Returns how many times as long a long run of the probe takes as the same text in short runs."""
    size = max(SHORT, REPEATS * len(probe))
    if measure(pattern, method, repeat(probe, size)) > NOISE:  # a long run might take hours
        return TIMES
    short, long = repeat(probe, size), repeat(probe, size * TIMES)
    ratio = float(TIMES)
    for _ in range(3):
        ratio = min(ratio, measure(pattern, method, long) / measure(pattern, method, short, TIMES))
        if ratio < SUSPICIOUS:
            break
    return ratio


def find_suspicious(pattern: Pattern, method: str) -> list[str]:
    """Finds the probes whose long runs take longest beside the same text in short runs. Only they are worth a look."""
    ratios = {probe: rate(pattern, method, probe) for probe in list_probes(pattern)}
    return sorted((probe for probe, ratio in ratios.items() if ratio > SUSPICIOUS), key=ratios.__getitem__)[-LOOKS:]


def repeat(probe: str, size: int) -> str:
    """Returns a run of the probe that has so many characters."""
    return (probe * (size // len(probe) + 1))[:size]


def find_faster(pattern: Pattern, method: str) -> str:
    """Says on which probe the work grows faster than the text does, twice running. "" if on none.

    Once is no sign: a pattern that looks ahead for at most 300 characters does more for each character until so many
    stand there, and then no more.
    """
    for probe in find_suspicious(pattern, method):
        size = LONG // GROWTH**6
        small = min(measure(pattern, method, repeat(probe, size)) for _ in range(3))
        was_faster = False
        while size < LONG:
            text = repeat(probe, size * GROWTH)
            large = measure(pattern, method, text)
            if large > FASTER * small and large > NOISE:
                large = min(large, *(measure(pattern, method, text) for _ in range(3)))
            is_faster = large > FASTER * small and large > NOISE
            if is_faster and was_faster:
                return f"runs of {probe!r}: {GROWTH} times {size:,} characters take {large / small:.0f} times as long"
            if NOISE < large < SLOWER * small:  # it looks ahead so far, and no farther
                break
            small, size, was_faster = large, size * GROWTH, is_faster
    return ""


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a+b", True),
        (" *\\n", True),
        (".{0,300}b", False),
        ("[ab]+", False),
        ("(?:secret|pass(?:word|wd))(?![a-z]*_)x", True),
        ("secret(?![a-z]{0,100}_)x", False),
        (r"\(Open file: ([^)\n]+)\)", True),
        (r"xox[ab][.-](?=[\w.-]*\d\d)", True),
    ],
)
def test_work_that_grows_faster_than_the_text_is_found(pattern: str, *, found: bool) -> None:
    assert bool(find_faster(re.compile(pattern), "finditer")) is found


def test_the_work_of_every_pattern_grows_as_the_text_does() -> None:
    command = [sys.executable, "-m", __name__]
    ran = subprocess.run(command, cwd=ROOT.parents[1], capture_output=True, text=True, timeout=500, check=True)
    assert ran.stdout == ""
    assert int(ran.stderr.split()[0]) > 500, "the patterns are looked for where they are"


def main() -> None:
    """Prints a line for each pattern, method and probe whose work grows faster than the text."""
    signal.signal(signal.SIGVTALRM, _end)
    methods, found = find_methods(), collect()
    uses = [(pattern, where, name) for pattern, where in found.items() for name in choose_methods(where, methods)]
    for pattern, (place, name) in collect_inline().items():
        uses.append((pattern, place, name if name in {"match", "fullmatch"} else "finditer"))
    for pattern, where, method in sorted(uses, key=lambda use: use[1:]):
        if where.removeprefix("tenfold.") not in GUARDED:
            signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
            try:
                faster = find_faster(pattern, method)
            except TimeoutError:
                faster = f"a run of its own words: it takes more than {MOST_SECONDS} seconds"
            if faster:
                print(f"{where}.{method} on {faster}", flush=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(f"{len(found)} patterns", file=sys.stderr)


def _end(*_signal: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    main()
