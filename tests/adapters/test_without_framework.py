"""The adapters where their frameworks are not installed: each says what to install."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.adapters.host_runs import ROOT

ADAPTERS = ROOT / "src" / "tenfold" / "apps" / "adapters"
NAMES = sorted(path.stem for path in ADAPTERS.glob("*.py") if path.stem not in ("__init__", "host_sessions"))
IMPORT_ALL = """
import importlib, json, sys
said = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"tenfold.apps.adapters.{name}")
    except Exception as exc:
        said[name] = f"{type(exc).__name__}: {exc}"
print(json.dumps(said))
"""


def link_distribution(name: str, folder: Path) -> None:
    """Links a distribution and what it needs, but for extras, into a folder."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (folder / top).exists():
            (folder / top).symlink_to(str(found.locate_file(top)))
    for each in map(Requirement, found.requires or ()):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            link_distribution(each.name, folder)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What importing each adapter says in an environment that has nothing but Tenfold."""
    folder = tmp_path_factory.mktemp("bare")
    for each in map(Requirement, requires("tenfold") or ()):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            link_distribution(each.name, folder)
    code = f"import sys; sys.path[:0] = {[str(ROOT / 'src'), str(folder)]!r}\n{IMPORT_ALL}"
    command = [sys.executable, "-I", "-S", "-c", code, *NAMES]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, str] = json.loads(ran.stdout)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_names_the_extra_that_it_needs(name: str, said: dict[str, str]) -> None:
    extra = name.replace("_", "-")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert said[name].startswith(f"MissingExtra: the adapter for {extra} needs ")
    assert said[name].endswith(f"pip install 'tenfold[{extra}]'" if extra in extras else "a plug-in of its own")
    assert (extra in extras) == (name != "hermes")
