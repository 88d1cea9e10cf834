"""What `import tenfold` gives, and what it costs."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib

import tenfold
from tests.shape import scan

NOT_AT_IMPORT = (
    "aiosqlite", "anthropic", "asyncio", "click", "google", "httpx", "importlib.resources", "langchain_core", "logging",
    "openai", "platformdirs", "pydantic", "rich", "snowballstemmer", "sqlite3", "ssl", "subprocess", "tiktoken",
    "toktok", "typer",
)  # fmt: skip

PROBE = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
import tenfold
took = time.perf_counter() - start
print(json.dumps({"ms": took * 1000, "loaded": sorted(set(sys.modules) - before)}))
"""


def test_all_names_what_is_there_and_nothing_else() -> None:
    exported = list(tenfold.__all__)
    assert len(exported) == len(set(exported))
    public = {name for name, value in vars(tenfold).items() if not name.startswith("_") and not inspect.ismodule(value)}
    public -= {"annotations", "TYPE_CHECKING"}
    listed = {name for name in exported if name != "__version__"}
    missing = {name for name in listed if not hasattr(tenfold, name)}
    assert missing == set(), "__all__ names what the package does not have"
    assert public - listed == set(), "a public name is not in __all__"


def test_every_export_says_what_it_is_for() -> None:
    silent = [
        name
        for name in tenfold.__all__
        if callable(getattr(tenfold, name)) and not inspect.getdoc(getattr(tenfold, name))
    ]
    assert silent == []


def test_version_is_written_once() -> None:
    project = tomllib.loads((scan.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert tenfold.__version__ == project["version"]
    changelog = (scan.ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## (?!Unreleased)(\S+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == project["version"]


def test_import_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, cwd=scan.ROOT)
    probe = json.loads(done.stdout)
    print(f"import tenfold: {probe['ms']:.0f} ms, {len(probe['loaded'])} modules")
    assert "tenfold" in probe["loaded"]
    heavy = [name for name in NOT_AT_IMPORT if name in probe["loaded"]]
    assert heavy == [], "imported by `import tenfold`: import it where it is used"
